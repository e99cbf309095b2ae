"""The order of the axes of a caller's array, and the order of the same axes in memory.

``layout=`` of conv2d is the first, a spec's layout the second. They differ where an array shows its memory transposed:
PyTorch's channels_last tensors have axes (N, C, H, W) over memory in NHWC order. The run time turns every operand to
memory order first (``stored``): from there on C-contiguous is what a kernel can use as it is.
"""

from __future__ import annotations

from warpconv.codegen.dtypes import Layout

from .view import ArrayView

Order = tuple[int, ...]

_TO_NHWC: dict[int, Order] = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
_TO_NCHW: dict[int, Order] = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


def order(given: Layout, wanted: Layout, rank: int = 4) -> Order | None:
    """How to transpose ``rank`` axes in the order ``given`` to the order ``wanted``; None where they are the same."""
    if given is wanted:
        return None
    return (_TO_NHWC if wanted is Layout.NHWC else _TO_NCHW)[rank]


def stored(view: ArrayView, axes: Layout, memory: Layout) -> ArrayView:
    """A view of four axes (of volumes five) in the order ``axes``, turned to the order ``memory``."""
    turned = order(axes, memory, len(view.shape))
    return view if turned is None else view.transposed(turned)


def memory_order(axes: Layout, *views: ArrayView | None) -> Layout:
    """The order in memory of arrays with axes in the order ``axes``: that of the first which has no gaps in one order.

    An array without gaps in both (one channel, or one pixel) leaves it to the next; if none tells, it is ``axes``, and
    arrays with gaps are copied into that.
    """
    other = Layout.NCHW if axes is Layout.NHWC else Layout.NHWC
    for view in views:
        if view is not None and len(view.shape) in _TO_NHWC:
            plain, turned = view.contiguous, stored(view, axes, other).contiguous
            if plain != turned:
                return axes if plain else other
    return axes
