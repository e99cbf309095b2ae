"""Arrays with gaps between rows, planes and images, as layers of the tests have them: what lies between is poisoned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warpconv.codegen.dtypes import Layout
from warpconv.codegen.pitch import VECTOR_BYTES, Pitch
from warpconv.codegen.shape import ConvShape

KINDS = (None, "input", "output", "odd")
_WHOLE = 32         # elements that the distances of "input" and "output" are multiples of: wider than any load


def with_gaps(shape: ConvShape, kind: str | None) -> ConvShape:
    """A layer whose input ("input"), output ("output") or both ("odd": at odd addresses and distances) have gaps."""
    if kind is None:
        return shape
    whole, alignment = (1, shape.dtype.itemsize) if kind == "odd" else (_WHOLE, VECTOR_BYTES)
    made = shape
    if kind != "output":
        made = replace(made, x_pitch=_apart(shape.input_shape, shape.layout, whole, alignment))
    if kind != "input":
        made = replace(made, y_pitch=_apart(shape.output_shape, shape.layout, whole,
                                            shape.y_dtype.itemsize if kind == "odd" else alignment))
    return made


def _apart(sizes: tuple[int, int, int, int], layout: Layout, whole: int, alignment: int) -> Pitch:
    """Each distance a little more than what lies between, a multiple of ``whole`` or else odd."""
    n, c, h, w = sizes
    row = _more(w * c if layout is Layout.NHWC else w, whole)
    plane = 1 if layout is Layout.NHWC else _more(h * row, whole)
    image = _more(h * row if layout is Layout.NHWC else c * plane, whole)
    return Pitch(row=row, plane=plane if c > 1 or layout is Layout.NHWC else 0, image=image if n > 1 else 0,
                 alignment=alignment)


def _more(least: int, whole: int) -> int:
    return least + 5 - least % 2 if whole == 1 else (least // whole + 2) * whole


def placed(array: np.ndarray, pitch: Pitch | None, layout: Layout) -> np.ndarray:
    """The array in memory with these gaps, full of what shows in a result, and at an address that is a multiple of the
    pitch's alignment and of no more; the array itself without a pitch."""
    if pitch is None:
        return array
    c = layout.logical(array.shape)[1]
    reach = pitch.reach(layout.logical(array.shape), layout)
    room = _poison(array.dtype, reach + 128).view(np.uint8)
    start = next(i for i in range(0, 256, array.itemsize) if _alignment(room, i) == pitch.alignment)
    strides = layout.stored((pitch.image, pitch.plane, pitch.row, c if layout is Layout.NHWC else 1))
    view = np.ndarray(array.shape, array.dtype, room, start, [stride * array.itemsize for stride in strides])
    view[...] = array
    return view


def between(view: np.ndarray) -> np.ndarray:
    """Bytes of the room that a placed array lies in, with 0 in place of its own elements."""
    rest = view.base.copy().view(np.uint8)
    start = view.ctypes.data - view.base.ctypes.data
    np.ndarray((*view.shape, view.itemsize), np.uint8, rest, start, (*view.strides, 1))[...] = 0
    return rest


def _alignment(room: np.ndarray, start: int) -> int:
    address = room.ctypes.data + start
    return min(VECTOR_BYTES, address & -address)


def _poison(dtype: np.dtype, size: int) -> np.ndarray:
    """NaN, or numbers that no smooth picture has."""
    if dtype.kind in "iu":
        return (np.arange(size) * 0x9E3779B1 >> 7).astype(dtype)
    return np.full(size, np.nan, dtype)
