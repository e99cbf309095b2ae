"""NumPy's arrays as Dask's without a copy, and results written where they belong."""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError

from . import places
from .arrays import checked
from .packages import package
from .sizes import COPIES
from .sizes import chunks as sizes_of
from .windows import Chunk, Joined, filled_from

LINE = "128K"       # of a chunk: shorter lines are copied slowly beside kernels (docs/scale.md)
MOST, LEAST = 2**28, 2**25      # bytes that a task takes
TASKS = 32          # at least, while they are large: the first chunk's way in and the last one's out are waited for


def from_array(x: Any, chunks: Any = "auto") -> Any:
    """A Dask array whose chunks are views of ``x``.

    dask.array.from_array copies a NumPy array first, by one thread. This does not, so ``x`` must keep its elements
    until they are computed with.

    Parameters
    ----------
    x : numpy.ndarray
        Of any number of axes and strides.
    chunks : int, tuple or str
        Sizes, as dask.array.from_array takes them; ``warpconv.dask.chunks`` gives sizes for a budget of memory. "auto"
        is for GPUs: lines of 128 KB or more, which they copy most quickly, and chunks of 90 MB or less.

    Returns
    -------
    dask.array.Array

    Raises
    ------
    ArgumentTypeError, ArgumentError, ToolNotFound
        What is no NumPy array, chunks that Dask refuses, and without Dask.
    """
    da = package("dask.array")
    if type(x) is not np.ndarray:
        raise ArgumentTypeError("only NumPy's arrays are looked at where they lie", argument="x",
                                value=type(x).__name__, hint="dask.array.from_array(x)")
    try:
        sizes = package("dask.array.core").normalize_chunks(
            _long(x) if isinstance(chunks, str) and chunks == "auto" else chunks, x.shape, dtype=x.dtype)
    except (ValueError, TypeError, NotImplementedError, ZeroDivisionError):
        sizes = ()
    if len(sizes) != x.ndim or any(sum(each) != n or min(each, default=0) < 0 for each, n in zip(sizes, x.shape)):
        raise ArgumentError("no sizes of chunks", argument="chunks", value=chunks,
                            hint="an int for all axes, -1 for a whole axis, or a tuple with one for each")
    name = f"warpconv-array-{uuid.uuid4().hex}"
    graph = {(name, *index): x[(*region, ...)] for index, region in _regions(sizes)}
    return da.Array(graph, name, sizes, meta=x[(*(slice(0, 0),) * x.ndim, ...)])


def _long(x: np.ndarray) -> tuple[int, ...]:
    """Sizes of chunks with long lines, whatever the order of x's axes in memory."""
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    budget = max(LEAST, min(MOST, COPIES * x.nbytes // TASKS))
    made = dict(zip(order, sizes_of([x.shape[axis] for axis in order], x.dtype, budget, line=LINE)))
    return tuple(made[axis] for axis in range(x.ndim))


def store(array: Any, target: Any, *, scheduler: Any = None, num_workers: int | None = None) -> Any:
    """Compute a Dask array into ``target``, each chunk where it belongs.

    Other than dask.array.store, what warpconv.dask's calls make goes from the GPU to ``target`` without memory in
    between where ``target`` is page-locked (``warpconv.dask.locked``), and by few fixed blocks where it is not.

    Parameters
    ----------
    array : dask.array.Array
    target : numpy.ndarray
        Of array's shape and element type, writeable, with any strides; it must share no memory with what ``array`` is
        made of, as chunks are read after others were written.
    scheduler, num_workers
        As in dask.compute; threads of this process (Dask's default for arrays), which alone can write here.

    Returns
    -------
    numpy.ndarray
        ``target``.

    Raises
    ------
    ArgumentTypeError, ArgumentError, ShapeError, ToolNotFound
        A target that is none, a scheduler of other processes, and without Dask; before anything is computed.
    """
    array = checked(array)
    _check_target(array, target)
    _check_scheduler(array, scheduler)
    layer = array.dask.layers.get(array.name)
    name = f"warpconv-store-{uuid.uuid4().hex}"
    graph: dict[Any, Any] = {}
    for index, region in _regions(array.chunks):
        place, key = target[(*region, ...)], (array.name, *index)      # a view also of no axes
        task = layer.get(key) if isinstance(layer, package("dask.highlevelgraph").MaterializedLayer) else None
        if place.size == 0:
            continue
        if type(task) is tuple and isinstance(task[0], (Chunk, Joined)):
            graph[(name, *index)] = (functools.partial(task[0], into=place), *task[1:])
        else:
            graph[(name, *index)] = (functools.partial(places.put, into=place), key)
    if graph:
        end = f"{name}-all"
        whole = package("dask.highlevelgraph").HighLevelGraph.from_collections(
            name, {**graph, end: (_nothing, list(graph))}, dependencies=[array])
        options = {"scheduler": scheduler} | ({} if num_workers is None else {"num_workers": num_workers})
        package("dask").compute(package("dask.delayed").Delayed(end, whole, layer=name), **options)
    return target


def _nothing(done: Any) -> None:
    """Behind all tasks: one key to ask for."""


def _regions(sizes: tuple[tuple[int, ...], ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each chunk's index and place."""
    along = [[slice(end - size, end) for size, end in zip(each, itertools.accumulate(each))] for each in sizes]
    for index in itertools.product(*(range(len(each)) for each in sizes)):
        yield index, tuple(each[at] for each, at in zip(along, index))


def _check_target(array: Any, target: Any) -> None:
    if not isinstance(target, np.ndarray):
        raise ArgumentTypeError("only NumPy's arrays are stored to", argument="target", value=type(target).__name__,
                                hint="dask.array.store for others, to_zarr for files")
    if target.shape != array.shape:
        raise ShapeError("the target has another shape", argument="target", value=target.shape,
                         hint=f"an array of shape {array.shape}")
    if target.dtype != array.dtype:
        raise ArgumentTypeError("the target has another element type", argument="target", value=str(target.dtype),
                                hint=f"one of {array.dtype}" + (", or array.astype(target.dtype)" if
                                                                target.dtype.isnative else ": in native byte order"))
    if not target.flags.writeable:
        raise ArgumentError("the target is not writeable", argument="target", value="flags.writeable is False",
                            hint="target.copy()")
    if any(np.may_share_memory(target, each) for each in filled_from(array)):
        raise ArgumentError("the target shares memory with the input, parts of which are read after it is written",
                            argument="target", value=hex(target.ctypes.data), hint="another array")


def _check_scheduler(array: Any, scheduler: Any) -> None:
    """Raises ArgumentError where other processes would do the work: what they write is not seen here."""
    if isinstance(scheduler or package("dask").config.get("scheduler", None), ThreadPoolExecutor):
        return
    try:
        found = package("dask.base").get_scheduler(scheduler=scheduler, collections=[array])
    except (ValueError, RuntimeError, TypeError) as error:
        raise ArgumentError(f"no scheduler: {str(error).splitlines()[0]}", argument="scheduler", value=scheduler,
                            hint='"threads" or "synchronous"') from error
    if found not in (None, package("dask.threaded").get, package("dask.local").get_sync):
        raise ArgumentError("an array in this process is written to by its own threads alone", argument="scheduler",
                            value=getattr(found, "__qualname__", found) if scheduler is None else scheduler,
                            hint='scheduler="threads"; with a cluster array.compute() or to_zarr()')
