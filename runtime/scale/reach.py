"""How far a call's filters reach, and which chunks and overlaps serve them.

A chunk is filtered with the pixels around it, and what it needs is what its call's passes read: no table of functions
stands here, their plans tell. At the array's own edges the chunk ends where the array does, and the kernel's border
mode says what lies outside; on all other sides the overlap is cut off behind the filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from warpconv.codegen.border import Border
from warpconv.runtime.ndimage.work import Passes

from .packages import package


class Overlap(NamedTuple):
    """Along an axis: pixels that a chunk needs ``before`` and ``after`` it, and whether those at the array's edges come
    from its other side (``round``)."""

    before: int = 0
    after: int = 0
    round: bool = False


def overlaps(passes: Passes, chunks: Sequence[Sequence[int]]) -> tuple[list[Overlap], tuple[tuple[int, ...], ...]]:
    """The overlap along each axis, and the chunks that can have it: those given, or larger ones.

    An axis in one chunk needs none, and the kernel's border does everything there. Elsewhere a chunk is at least as
    long as the filters reach, so that one neighbour has all that it needs, and a border that mirrors the image finds
    what it mirrors in the chunk. Terms of one call that wrap beside others that do not leave only one chunk.
    """
    found, made = [], []
    for axis, sizes in enumerate(chunks):
        before, after, borders = _along(passes, axis)
        least = max(before, after) + (Border.REFLECT in borders)    # which leaves the edge's own pixel out
        wraps = Border.CIRCULAR in borders
        taken = _joined(sizes, least) if before or after else tuple(sizes)
        if wraps and len(borders) > 1:
            taken = (sum(sizes),)
        if len(taken) == 1 or not (before or after):
            found.append(Overlap())
        elif wraps:     # both sides alike: Dask's periodic boundaries are
            found.append(Overlap(max(before, after), max(before, after), True))
        else:
            found.append(Overlap(before, after))
        made.append(taken)
    return found, tuple(made)


def _along(passes: Passes, axis: int) -> tuple[int, int, set[Border]]:
    """How far the passes' furthest term reads before and after a pixel along an axis, and by which borders."""
    before, after, borders = 0, 0, set()
    for term in passes.terms:
        low, high = 0, 0
        for each in term:
            for at, size, origin in zip(each.axes, each.taps.shape, each.origins):
                if at == axis and size > 1:
                    low, high = low + size // 2 + origin, high + size - size // 2 - 1 - origin
                    borders.add(each.border)
        before, after = max(before, low), max(after, high)
    return before, after, borders


def _joined(sizes: Sequence[int], least: int) -> tuple[int, ...]:
    """The chunks along an axis, joined where they are shorter than ``least``."""
    if sum(sizes) < 2 * least:
        return (sum(sizes),)
    ensure: Any = package("dask.array.overlap").ensure_minimum_chunksize
    return tuple(ensure(least, tuple(sizes)))
