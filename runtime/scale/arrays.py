"""SciPy's calls on Dask's arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.runtime.ndimage import planes, recipes
from warpconv.runtime.ndimage.target import is_dtype, name_of
from warpconv.runtime.ndimage.work import Extras, Passes

from . import windows
from .chunk import ChunkFilter, Whole
from .packages import package
from .reach import overlaps


class Chunked(recipes.Deferred):
    """A Dask array as the input of a call, which becomes tasks over its chunks, of this name; ``threads``: those of one
    process will do them."""

    def __init__(self, array: Any, name: str, threads: bool = False):
        self.array = checked(array)
        self.name = name
        self.threads = threads

    def deferred(self, plan: Callable[..., Passes], output: Any, arguments: tuple[Any, ...], extras: Extras,
                 dtype: Any) -> Any:
        """The result as a Dask array. Raises what the call on the whole array raises, before anything is computed."""
        array, noted = self.array, []
        if output is not None and not is_dtype(output):
            raise ArgumentTypeError("Dask's arrays are not written to", argument="output", value=type(output).__name__,
                                    hint="an element type, or None; the result is a new Dask array")
        if arguments and planes.on_gpu(arguments[0]):
            raise ArgumentTypeError("weights must be in host memory: they go to every worker", argument="weights",
                                    value=type(arguments[0]).__name__, hint="weights.get(), or .cpu().numpy()")
        check_device(extras.device)
        whole = Whole(plan, array.shape)

        def note(image: Any, of: Any, *told: Any) -> Passes:
            noted.append(whole(image, of, *told))
            return noted[-1]

        meta = recipes.call(note, array._meta, output, arguments, extras, dtype)      # no elements: their type
        found, chunks = overlaps(noted[-1], array.chunks)
        task = ChunkFilter(whole, arguments, extras.device, extras.algorithm, str(meta.dtype),
                           None if dtype is None else name_of(dtype, "dtype"))
        if 0 in array.shape:
            return array.map_blocks(task, dtype=meta.dtype, meta=meta, token=f"warpconv-{self.name}")
        task = replace(task, overlaps=tuple(found), blocks=tuple(map(len, chunks)))
        told = package("dask.base").tokenize(task, array.name, chunks)
        return windows.filtered(array, f"warpconv-{self.name}-{told}", chunks, found, task, meta, self.threads)


def checked(array: Any) -> Any:
    """A Dask array of known chunks. Raises ArgumentTypeError, ArgumentError or ToolNotFound."""
    if not isinstance(array, package("dask.array").Array):
        raise ArgumentTypeError("input is no Dask array", argument="input", value=type(array).__name__,
                                hint="dask.array.from_array(input, chunks=...), or warpconv's function of this name")
    if any(math.isnan(size) for sizes in array.chunks for size in sizes):
        raise ArgumentError("the sizes of input's chunks are not known", argument="input", value=array.chunks,
                            hint="input.compute_chunk_sizes()")
    if type(array._meta) is np.ndarray and not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array


def check_device(device: Any) -> None:
    """Raises ArgumentError for what is no device. Whether there is one is the workers' matter."""
    kind, _, number = str(device).partition(":")
    if kind not in ("auto", "cpu", "cuda") or (number and (kind != "cuda" or not number.isdecimal())):
        raise ArgumentError("unknown device", argument="device", value=device, hint="auto, cpu, cuda or cuda:1")
