"""A pass's weights as a kernel takes them: elements, for each channel, in memory of the input's library and GPU."""

from __future__ import annotations

import atexit
from typing import Any, NamedTuple

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.shape import INTEGER_WEIGHTS
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView, elements
from warpconv.runtime.call import conv
from warpconv.runtime.call.filter import Filter
from warpconv.runtime.call.kernel import Kernel

from .lines import Pass, exact
from .planes import Seen

MOST_UPLOADS = 256
MOST_FILTERS = 1024

_uploads: dict[tuple[_Upload, bytes], Any] = {}
_filters: dict[tuple[Any, ...], tuple[Filter, Any]] = {}


def clear() -> None:
    """Forget what was copied to GPUs, and prepared."""
    _uploads.clear()
    _filters.clear()


conv.on_clear.append(clear)
atexit.register(clear)      # GPU memory goes before the libraries that own it


def of_channels(each: Pass, how: Seen, view: ArrayView) -> Any:
    """The filter of each channel, (C, 1, R, S) or (C, 1, T, R, S), where the input is."""
    size, channels = each.size(how), how.channels
    if not isinstance(each.taps, np.ndarray):
        taps = each.taps.reshape(1, 1, *size)
        if channels == 1:
            return taps
        return taps.repeat(channels, *[1] * (len(size) + 1)) if hasattr(taps, "is_cuda") else taps.repeat(channels, 0)
    made = elements_of(each, view.dtype).reshape(size)
    made = np.ascontiguousarray(np.broadcast_to(made, (channels, 1, *size)))
    return made if view.device is None else _uploaded(made, view)


def factors(each: Pass, how: Seen, view: ArrayView) -> Any:
    """The column and the row of a product as a separable kernel takes them, where the input is."""
    column, row = sorted(each.lines, key=lambda line: line.axis)
    flat = np.concatenate([column.taps, row.taps]).astype(np.float32)
    made = np.ascontiguousarray(np.broadcast_to(flat, (how.channels, 1, 1, len(flat))))
    return made if view.device is None else _uploaded(made, view)


def prepared(kernel: Kernel, weight: Any, stream: Any) -> Filter:
    """``of_channels`` or ``factors`` prepared for a kernel; once for equal ones, as it waits for the stream. Raises
    DeviceError while the stream is in capture."""
    told = (weight.shape, weight.dtype, weight.tobytes()) if isinstance(weight, np.ndarray) else (id(weight),)
    found = _filters.get((kernel, *told))
    if found is None:
        if len(_filters) >= MOST_FILTERS:
            _filters.clear()
        found = _filters[(kernel, *told)] = kernel.prepare(weight, stream=stream), weight       # whose id is taken
    return found[0]


def elements_of(each: Pass, dtype: DType, own: np.ndarray | None = None) -> np.ndarray:
    """A host filter as elements: the smallest integers that hold it where sums are exact, else floats. ``own``: those
    of several filters, of which the pass's has the largest sums."""
    taps = each.taps if own is None else own
    if exact(each, dtype):
        least, most = int(taps.min()), int(taps.max())
        fits = next(t for t in INTEGER_WEIGHTS if t.limits[0] <= least and most <= t.limits[1])
        return taps.astype(fits.value)
    made = elements.stored(taps, dtype if dtype.is_float else DType.FLOAT32)
    if not np.array_equal(np.isfinite(made.astype(np.float32)), np.isfinite(taps)):
        raise ArgumentError(f"weights are too large for {made.dtype.name}", argument="weights",
                            value=float(np.abs(taps).max()), hint="scale them down")
    return made


class _Upload(NamedTuple):
    """Which memory a copy of a filter is for."""

    kind: arrays.ArrayKind
    device: int
    shape: tuple[int, ...]
    dtype: DType


def _uploaded(taps: np.ndarray, view: ArrayView) -> Any:
    """A host filter in memory of the view's library and GPU; copied once for all calls with its like."""
    dtype = DType.parse(taps.dtype.name)
    key = _Upload(view.kind, view.device, taps.shape, dtype), taps.tobytes()
    found = _uploads.get(key)
    if found is None:
        from warpconv.runtime.devices.cuda import contexts, memory, streams
        found = arrays.empty(view, taps.shape, dtype, stream=0)
        with contexts.activate(view.device, view.pointer):
            memory.copy_in(taps, arrays.view(found, "weights").pointer, 0)
            streams.synchronize(0)      # from now on any stream may read it
        if len(_uploads) >= MOST_UPLOADS:
            _uploads.clear()
        _uploads[key] = found
    return found
