"""What a worker does with a chunk: the call that was planned for the whole array, and its overlap cut off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpconv.runtime.ndimage import recipes
from warpconv.runtime.ndimage.planes import Image
from warpconv.runtime.ndimage.work import Extras, Passes

from . import places
from .reach import Overlap


@dataclass(frozen=True)
class Whole:
    """A plan of one of SciPy's calls for an array of ``shape``, to be done on its chunks: which filters are done at
    once, and in which order, would else differ from chunk to chunk, as other planes are the largest."""

    plan: Callable[..., Passes]
    shape: tuple[int, ...]

    def __call__(self, image: Image, dtype: Any, *arguments: Any) -> Passes:
        strides, step = [], 1
        for extent in reversed(self.shape):
            strides.append(step)
            step *= extent
        view = image.view._replace(shape=self.shape, strides=tuple(reversed(strides)))
        return self.plan(Image(None, view), dtype, *arguments)


@dataclass(frozen=True, eq=False)
class ChunkFilter:
    """A call on one chunk. It goes to other processes, so it holds plain values only."""

    whole: Whole
    arguments: tuple[Any, ...]
    device: str
    algorithm: str
    output: str
    dtype: str | None
    overlaps: tuple[Overlap, ...] = ()
    blocks: tuple[int, ...] = ()        # chunks along each axis

    def __call__(self, window: Any, at: tuple[int, ...] = (), into: Any = None) -> Any:
        """The own pixels of the chunk with this index, filtered; written to ``into`` (and None returned) where that is
        given. Raises what the call on an array raises."""
        kept = tuple(_kept(*each) for each in zip(self.overlaps, at, self.blocks, window.shape))
        return places.run(self._made, window, self.device, kept, into)

    def _made(self, block: Any, device: str, stream: Any) -> Any:
        return recipes.call(self.whole, block, self.output, self.arguments, Extras(device, stream, self.algorithm),
                            self.dtype)


def _kept(overlap: Overlap, at: int, count: int, extent: int) -> slice:
    """What is the chunk's own along an axis: all but what it was given of its neighbours."""
    before = overlap.before if overlap.round or at > 0 else 0
    after = overlap.after if overlap.round or at < count - 1 else 0
    return slice(before, extent - after)
