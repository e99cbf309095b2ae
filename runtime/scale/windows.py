"""A chunk with the pixels around it, as views of where they lie: nothing is copied before it is known where to.

``map_overlap`` joins a chunk and its neighbours' edges to a new array, by ten tasks a chunk: 64 MB of fresh pages and a
millisecond of Dask's time, as long as a GPU's copies take. Here a task gets the parts, and what carries the chunk to
its device (places.py) copies each once, to where it is needed.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass

from .packages import package
from .reach import Overlap

Span = tuple[int, int, int]     # of a block along an axis: its number, the first element and the end


class Window:
    """Parts that lie side by side: ``grid`` tells how many along each axis, ``parts`` has them in C order."""

    def __init__(self, parts: Sequence[Any], grid: tuple[int, ...]):
        self.parts, self.grid = parts, grid
        self.first = parts[0]
        steps = [math.prod(grid[axis + 1:]) for axis in range(len(grid))]
        sizes = [[parts[at * step].shape[axis] for at in range(count)]
                 for axis, (count, step) in enumerate(zip(grid, steps))]
        self._ends = [tuple(itertools.accumulate(each)) for each in sizes]
        self.shape = tuple(ends[-1] for ends in self._ends)
        self.dtype = self.first.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * int(self.dtype.itemsize)

    def met(self, region: Sequence[tuple[int, int]]) -> Iterator[tuple[Any, tuple[slice, ...]]]:
        """The parts of a region (for each axis the first and the end), and where in it each lies."""
        for each in itertools.product(*(list(_met(ends, *one)) for ends, one in zip(self._ends, region))):
            at = 0
            for count, (number, _, _) in zip(self.grid, each):
                at = at * count + number
            yield self.parts[at][tuple(of for _, of, _ in each)], tuple(to for _, _, to in each)

    def copy(self, region: Sequence[tuple[int, int]], target: Any) -> None:
        """The elements of a region to an array of its shape."""
        for part, to in self.met(region):
            target[to] = part

    def whole(self) -> Any:
        """One array without gaps, of the parts' library: the only part if it is such a one."""
        if len(self.parts) == 1 and self.first.flags.c_contiguous and getattr(self.first.flags, "aligned", True):
            return self.first
        made = np.empty_like(self.first, shape=self.shape, order="C")      # the parts' library's own, by dispatch
        self.copy([(0, extent) for extent in self.shape], made)
        return made


def _met(ends: tuple[int, ...], low: int, high: int) -> Iterator[tuple[int, slice, slice]]:
    """Of parts that end so: those that a range meets, which elements of theirs, and where in the range these go."""
    start = 0
    for number, end in enumerate(ends):
        first, last = max(low, start), min(high, end)
        if first < last:
            yield number, slice(first - start, last - start), slice(first - low, last - low)
        start = end


@dataclass(frozen=True)
class Chunk:
    """A task without arguments: ``call`` on a window that lies in memory already."""

    call: Callable[..., Any]
    at: tuple[int, ...]
    window: Window

    def __call__(self, into: Any = None) -> Any:
        return self.call(self.window, self.at, into)


@dataclass(frozen=True)
class Joined:
    """A task that gets the parts of its window from other tasks, or blocks from which it takes the parts ``cut``."""

    call: Callable[..., Any]
    at: tuple[int, ...]
    grid: tuple[int, ...]
    cut: tuple[tuple[slice, ...], ...] = ()

    def __call__(self, *parts: Any, into: Any = None) -> Any:
        if self.cut:
            parts = tuple(block[cut] for block, cut in zip(parts, self.cut))
        return self.call(Window(parts, self.grid), self.at, into)


def filtered(array: Any, name: str, chunks: tuple[tuple[int, ...], ...], overlaps: Sequence[Overlap],
             call: Callable[..., Any], meta: Any, threads: bool = False) -> Any:
    """A Dask array of ``call(window, block's index, None)`` for each of ``chunks``, which need not be the array's own;
    in the place of None stands where the result is to be written, if somebody stores it.

    Chunks that are views of one array in memory are looked at through it: a window is one view, and its task depends on
    no other. Else what is read of a neighbour is a task's result, so that between workers edges travel, not chunks; not
    so where only ``threads`` of one process will work, for whom eight tasks a chunk are saved.
    """
    da = package("dask.array")
    whole = held(array)
    blocks = array.chunks if whole is None else tuple((extent,) for extent in array.shape)
    axes = [spans(*each) for each in zip(blocks, chunks, overlaps)]
    graph: dict[Any, Any] = {}
    for at in itertools.product(*(range(len(each)) for each in chunks)):
        key, along = (name, *at), [axes[axis][index] for axis, index in enumerate(at)]
        grid, spanned = tuple(map(len, along)), list(itertools.product(*along))
        cut = tuple(tuple(slice(low, high) for _, low, high in each) for each in spanned)
        if whole is not None:
            graph[key] = (Chunk(call, at, Window([whole[each] for each in cut], grid)),)
        elif threads:
            graph[key] = (Joined(call, at, grid, cut),
                          *((array.name, *(number for number, _, _ in each)) for each in spanned))
        else:
            graph[key] = (Joined(call, at, grid), *(_part(array, graph, f"{name}-edge", each) for each in spanned))
    layers = package("dask.highlevelgraph").HighLevelGraph.from_collections(
        name, graph, dependencies=[array] if whole is None else [])
    return da.Array(layers, name, chunks, dtype=meta.dtype, meta=meta)


def spans(blocks: Sequence[int], chunks: Sequence[int], overlap: Overlap) -> list[list[Span]]:
    """For each chunk along an axis: the parts of blocks that it and its overlap are made of, in order."""
    ends = list(itertools.accumulate(blocks))
    extent, found, start = ends[-1], [], 0
    for size in chunks:
        low, high = start - overlap.before, start + size + overlap.after
        start += size
        if overlap.round:       # from the other side, as often as it takes
            ranges = [(max(low, turn) - turn, min(high, turn + extent) - turn)
                      for turn in range(low // extent * extent, high, extent)]
        else:
            ranges = [(max(low, 0), min(high, extent))]
        met = [(number, of.start, of.stop) for each in ranges for number, of, _ in _met(tuple(ends), *each)]
        found.append(met or [(0, 0, 0)])        # a chunk without elements
    return found


def _part(array: Any, graph: dict[Any, Any], name: str, each: Sequence[Span]) -> Any:
    """The key of a part of a block: the block's own, or a task's that cuts the part off."""
    key = (array.name, *(number for number, _, _ in each))
    if all((low, high) == (0, array.chunks[axis][number]) for axis, (number, low, high) in enumerate(each)):
        return key
    made = (name, *(number for span in each for number in span))
    graph[made] = (operator.getitem, key, tuple(slice(low, high) for _, low, high in each))
    return made


def held(array: Any) -> np.ndarray | None:
    """The array in this process's memory that a Dask array's chunks are views of, in their order; None for others."""
    layer = array.dask.layers.get(array.name)
    if not isinstance(layer, package("dask.highlevelgraph").MaterializedLayer):
        return None
    blocks = [getattr(block := layer.get(key), "value", block)      # newer Dask wraps them
              for key in itertools.product([array.name], *map(range, array.numblocks))]
    first = blocks[0]
    if any(type(block) is not np.ndarray for block in blocks):
        return None
    if len(blocks) == 1:
        return first
    starts = [[0, *itertools.accumulate(sizes)][:-1] for sizes in array.chunks]
    owner, address = _owner(first), _address(first)
    for block, at, shape in zip(blocks, itertools.product(*starts), itertools.product(*array.chunks)):
        there = address + sum(map(operator.mul, at, first.strides))
        if ((_address(block), block.strides, block.dtype, block.shape) != (there, first.strides, first.dtype, shape)
                or _owner(block) is not owner):
            return None
    return np.lib.stride_tricks.as_strided(first, array.shape, first.strides, writeable=False)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _owner(array: Any) -> Any:
    """Whose memory it is."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array


def filled_from(array: Any) -> Iterator[np.ndarray]:
    """The arrays in this process's memory that a Dask array's tasks read."""
    for layer in array.dask.layers.values():
        if isinstance(layer, package("dask.highlevelgraph").MaterializedLayer):
            for task in layer.values():
                value = getattr(task, "value", task)        # newer Dask wraps arrays, and what it has optimised
                call = value[0] if isinstance(value, tuple) and value else getattr(value, "func", None)
                if isinstance(call, Chunk):
                    yield from (part for part in call.window.parts if isinstance(part, np.ndarray))
                elif isinstance(value, np.ndarray):
                    yield value
