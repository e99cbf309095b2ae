"""The matrix products of im2col on a GPU, by cuBLAS through nvmath-python's bindings, on the stream of the launches
around them.

Rows are C's and cuBLAS counts columns first, so y = w * columns is asked for as its transpose: columns' * w'.
Arithmetic is float32 throughout (CUBLAS_DEFAULT_MATH: no TF32). cuBLAS works in the scratch memory that the plan
gives it, so that its workspace is counted in the plan's and ordered by the stream like every other.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from warpconv.codegen.errors import DeviceError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import forks

EXTRA = 'pip install "warpconv[cublas]"'
FLOAT_BYTES = 4

_one, _zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
_lock = forks.lock()
_free: dict[tuple[str, int], list[int]] = {}        # handles that nobody works with, by context


@functools.cache
def binding() -> Any:
    """``nvmath.bindings.cublas``; DeviceError with the way out where it cannot be imported."""
    try:
        from nvmath.bindings import cublas
    except ModuleNotFoundError as error:
        raise DeviceError(f"this algorithm's matrix product is cuBLAS's, and its binding is missing ({error})",
                          argument="algorithm", value="im2col", hint=f"{EXTRA}, or take another algorithm") from None
    except Exception as error:      # whatever a broken installation throws
        raise DeviceError(f"nvmath-python, the binding of cuBLAS, cannot be imported ({error})", argument="algorithm",
                          value="im2col", hint=f"{EXTRA} in a fresh environment, or take another algorithm") from error
    return cublas


def require() -> None:
    """DeviceError unless the binding is there; asked where a kernel is made, before anything is launched."""
    binding()


def gemm_batch(executor: Any, shape: ConvShape, operands: Sequence[int]) -> None:
    """y[n] = w * columns[n] for every image and group; ``operands``: addresses of w, columns, y, scratch."""
    w, columns, y, scratch = operands
    _products(executor, shape, shape.n, w, columns, y, scratch)


def gemm_image(executor: Any, shape: ConvShape, operands: Sequence[int]) -> None:
    """The same for the columns of one image; ``operands``: addresses of w, columns, y, scratch, number of the image."""
    w, columns, y, scratch, image = operands
    _products(executor, shape, 1, w, columns, y + image * shape.k * shape.p * shape.q * FLOAT_BYTES, scratch)


def batches(shape: ConvShape, images: int) -> list[tuple[int, tuple[int, int, int], list[tuple[int, int, int]]]]:
    """The products of all images and groups as calls of a strided batch: how many products each call has, the steps of
    columns, w and y from one to the next, and for each call the offsets it begins at, in elements."""
    pixels, filters = shape.p * shape.q, shape.k // shape.groups
    group = (shape.reduction * pixels, filters * shape.reduction, filters * pixels)
    image = (shape.groups * group[0], 0, shape.groups * group[2])
    if shape.groups == 1 or shape.groups < images:
        return [(images, image, [tuple(g * step for step in group) for g in range(shape.groups)])]
    return [(shape.groups, group, [tuple(n * step for step in image) for n in range(images)])]


def _products(executor: Any, shape: ConvShape, images: int, w: int, columns: int, y: int, scratch: int) -> None:
    cublas = binding()
    pixels, filters, length = shape.p * shape.q, shape.k // shape.groups, shape.reduction
    plain = cublas.Operation.N
    with _handle() as handle, _reported("a matrix product by cuBLAS"):
        cublas.set_stream(handle, executor.stream)      # which also forgets the workspace
        cublas.set_workspace(handle, scratch, executor.nbytes(scratch))
        for count, step, starts in batches(shape, images):
            for at in starts:
                cublas.sgemm_strided_batched_64(
                    handle, plain, plain, pixels, filters, length, ctypes.addressof(_one),
                    columns + at[0] * FLOAT_BYTES, pixels, step[0], w + at[1] * FLOAT_BYTES, length, step[1],
                    ctypes.addressof(_zero), y + at[2] * FLOAT_BYTES, pixels, step[2], count)


@contextlib.contextmanager
def _handle() -> Iterator[int]:
    """A handle of the current context that no other thread works with meanwhile; made where there is none to spare,
    and kept."""
    from warpconv.runtime.devices.cuda import contexts
    key = contexts.context_key()
    with _lock:
        spare = _free.setdefault(key, [])
        handle = spare.pop() if spare else 0
    handle = handle or _create()
    try:
        yield handle
    finally:
        with _lock:
            spare.append(handle)


def _create() -> int:
    """A handle of the current context, also while some stream is being captured."""
    from warpconv.runtime.devices.cuda import streams
    cublas = binding()
    with streams.relaxed_capture(), _reported("starting cuBLAS"):
        handle = cublas.create()
        cublas.set_pointer_mode(handle, cublas.PointerMode.HOST)
        cublas.set_math_mode(handle, cublas.Math.DEFAULT_MATH)
        return handle


@contextlib.contextmanager
def _reported(what: str) -> Iterator[None]:
    """The binding's errors, its own and those of finding the library, as DeviceError."""
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:
        raise DeviceError(f"{what} failed: {error}", argument="algorithm", value="im2col",
                          hint=f"{EXTRA} brings cuBLAS where the machine has none") from error
