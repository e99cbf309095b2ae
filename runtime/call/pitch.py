"""Arrays with gaps between their rows, as kernels take them: crops, padded rows, some of many channels.

A kernel that is made for them (``KernelSpec.pitched``) gets the distances of rows, planes and images as arguments, as
long as columns follow each other and nothing goes backwards; other arrays are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.pitch import VECTOR_BYTES, Pitch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import LARGEST_SIZE, ConvShape
from warpconv.runtime.arrays import ArrayView, axes

from .checks import same_distances

MOST_ANSWERS = 4096
# Issue slots of a GPU while PyTorch copies an element of a crop, and while the copy is launched: 67 MB take 49 us as
# float32 and 139 us as uint8 (H200), whose 132 multiprocessors issue about 9e11 warp instructions a second
SLOTS_OF_AN_ELEMENT, SLOTS_OF_A_LAUNCH = 2.0, 1.8e6

_quicker: dict[Hashable, bool] = {}


@dataclass(frozen=True)
class Gaps:
    """Where a call's input and output have gaps, None where not, and the order of axes in memory that they tell."""

    memory: Layout
    x: Pitch | None
    y: Pitch | None

    def on(self, shape: ConvShape) -> ConvShape:
        """A layer of arrays that lie so."""
        return replace(shape, x_pitch=self.x, y_pitch=self.y)


def gaps_of(order: Layout, dense: Layout, x: ArrayView, y: ArrayView | None,
            residual: ArrayView | None) -> Gaps | None:
    """The gaps of arrays with axes in ``order``; None where there are none, or where nothing but a copy helps.
    ``dense``: the order in memory that the call has without them, taken where the arrays tell no other."""
    if len(x.shape) != 4 or all(view is None or axes.stored(view, order, dense).contiguous for view in (x, y)):
        return None
    for memory in (dense, Layout.NCHW if dense is Layout.NHWC else Layout.NHWC):
        found = _in_memory(order, memory, x, y, residual)
        if found is not None:
            return found
    return None


def _in_memory(order: Layout, memory: Layout, x: ArrayView, y: ArrayView | None,
               residual: ArrayView | None) -> Gaps | None:
    views = [None if view is None else axes.stored(view, order, memory) for view in (x, y, residual)]
    x_pitch, y_pitch = input_pitch(views[0], memory), output_pitch(views[1], views[2], memory)
    served = all(view is None or view.contiguous or pitch is not None
                 for view, pitch in zip(views, (x_pitch, y_pitch)))
    return Gaps(memory, x_pitch, y_pitch) if served and (x_pitch or y_pitch) else None


def input_pitch(view: ArrayView, layout: Layout) -> Pitch | None:
    """How far rows, planes and images of an input lie apart, axes in the layout's order in memory; None for one without
    gaps and for one that only a copy makes fit."""
    if view.contiguous or len(view.shape) != 4 or 0 in view.shape:
        return None
    n, c, h, w = layout.logical(view.shape)
    image, plane, row, column = layout.logical(view.strides)
    side_by_side = c if layout is Layout.NHWC else 1
    follows = w == 1 or column == side_by_side
    if layout is Layout.NHWC:
        follows, plane = follows and (c == 1 or plane == 1), 1
    distances = [distance if extent > 1 else 0 for extent, distance in ((h, row), (c, plane), (n, image))]
    if not follows or min(distances) < 0 or max(distances) > LARGEST_SIZE:
        return None
    alignment = min(VECTOR_BYTES, view.pointer & -view.pointer) or VECTOR_BYTES
    return Pitch(row=distances[0], plane=distances[1], image=distances[2], alignment=alignment)


def output_pitch(view: ArrayView | None, residual: ArrayView | None, layout: Layout) -> Pitch | None:
    """The same of an output, whose elements must all be different ones; a residual has to lie as it does."""
    pitch = None if view is None else input_pitch(view, layout)
    if pitch is None or (residual is not None and not same_distances(view, residual)):
        return None
    reach = 1
    for stride, extent in sorted((stride, extent) for stride, extent in zip(view.strides, view.shape) if extent > 1):
        if stride < reach:
            return None
        reach += (extent - 1) * stride
    return pitch


def quicker(key: Hashable, gaps: ConvShape, dense: ConvShape, plan: Callable[[ConvShape], KernelPlan]) -> bool:
    """Whether a layer whose input has gaps is made from where it is sooner than copied and made without; by the
    planners' estimates, asked once for each ``key``. An output with gaps cannot be had otherwise."""
    if key not in _quicker:
        if len(_quicker) > MOST_ANSWERS:
            _quicker.clear()
        _quicker[key] = _is_quicker(gaps, dense, plan)
    return _quicker[key]


def _is_quicker(gaps: ConvShape, dense: ConvShape, plan: Callable[[ConvShape], KernelPlan]) -> bool:
    from warpconv.codegen.registry import algorithm
    try:
        here = plan(gaps)
    except WarpconvError:       # no kernel for such arrays: the copy, and what is wrong with the layer itself, as ever
        return False
    if gaps.y_pitch is not None:
        return True
    try:
        there = plan(dense)
    except WarpconvError:
        return True
    copied = assumed_batch(dense) * dense.c * dense.h * dense.w
    try:
        slots = [algorithm(made.spec.algorithm).slots(made, layer) for made, layer in ((here, gaps), (there, dense))]
    except WarpconvError:       # a planner that fails to estimate
        return False
    return slots[0] <= slots[1] + SLOTS_OF_A_LAUNCH + SLOTS_OF_AN_ELEMENT * copied


def clear() -> None:
    """Forget what was asked."""
    _quicker.clear()
