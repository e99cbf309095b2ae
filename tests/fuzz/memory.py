"""Where a call's arrays lie: inputs placed in every way, outputs in a canvas whose other elements must not change."""

from __future__ import annotations

from typing import Any

import numpy as np

from .world import World

GUARD = 3       # elements beside an array of its own, which a call must leave as they are
PLACES = (None, "plain", "crop", "turned", "backwards", "steps", "channels")


def placed(array: np.ndarray, how: str | None) -> np.ndarray:
    """The same elements elsewhere in memory: a part of a larger array, its axes in another order, backwards, apart, the
    second axis or the last where the other one was."""
    if how == "crop":
        return guarded(array)[0]
    if how == "turned":
        return np.ascontiguousarray(array.transpose()).transpose()
    if how == "backwards":
        return array[..., ::-1].copy()[..., ::-1]
    if how == "channels" and array.ndim > 2:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    if how == "steps":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return array.copy()


def guarded(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A copy inside a larger array, and that array."""
    around = np.resize(np.arange(251, dtype=np.uint8), tuple(n + 2 * GUARD for n in array.shape)).astype(array.dtype)
    inner = around[tuple(slice(GUARD, -GUARD) for _ in array.shape)]
    inner[...] = array
    return inner, around


def told(value: Any) -> str:
    """An argument in words."""
    return f"zeros({value.shape}, {value.dtype})" if isinstance(value, np.ndarray) else repr(value)[:60]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same bits."""
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


class Canvas:
    """Memory for an output, a part of a larger array: ``out``, on the world's device or (``stays``) in host memory;
    nothing, and ``out`` None, where there are no values to begin with."""

    def __init__(self, world: World, values: np.ndarray | None, stays: bool = False):
        self.world, self.out = world, None
        if values is not None:
            inner, self.before = guarded(values)
            self.out, self.around = (inner, self.before) if stays else world.placed(inner)
            self.before = self.before.copy()

    def check(self, got: Any) -> None:
        """AssertionError where ``got`` is another array, or an element beside it was written."""
        if self.out is None:
            return
        assert got is self.out, "out= is not what comes back"
        inside = np.zeros(self.before.shape, bool)
        inside[tuple(slice(GUARD, -GUARD) for _ in self.before.shape)] = True
        assert same_bits(self.world.host(self.around)[~inside], self.before[~inside]), (
            "an element beside the output was written")

    def unwritten(self) -> None:
        """AssertionError where a refused call has written to it."""
        assert self.out is None or same_bits(self.world.host(self.around), self.before), "a refused call wrote to out="
