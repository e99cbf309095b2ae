"""Where a batch is computed on a GPU: images where they lie, or copied there together; for each launch one copy of the
table and the filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayKind, ArrayView
from warpconv.runtime.devices.cuda import contexts, memory, streams
from warpconv.runtime.devices.cuda.backend import Queue
from warpconv.runtime.devices.cuda.memory import Block

from . import lists
from .batches import Captured, Place
from .lists import Images


class Gpu(Place):
    """A GPU's stream: the caller's, else the one that the images' library is on. Memory for what is on its way is the
    pool's, and goes back to it when the call has been queued."""

    def __init__(self, device: int, like: ArrayView, stream: Any, handle: int | None):
        self.device = device
        self._like = like
        named = handle is not None
        own = (arrays.current_stream(like) or 0) if like.is_device else 0
        pycuda = stream if named and type(stream).__module__.startswith("pycuda") else None
        self._queue = Queue(own if handle is None else handle, named, pycuda)
        self._context = contexts.activate(device, like.pointer if like.is_device else 0)
        self._blocks: list[Block] = []

    @property
    def queue(self) -> Queue:
        return self._queue

    def __enter__(self) -> Gpu:
        self._context.__enter__()
        if streams.capturing(self._queue.handle):       # a graph would read this call's table again, from memory lent
            self._context.__exit__(None, None, None)
            raise Captured
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            for block in self._blocks:
                memory.pool.release(block)
        finally:
            self._context.__exit__(*error)

    def taken(self, images: Images) -> Images:
        for producer in images.producers:
            streams.order(producer, self._queue.handle)
        if images.like.is_device:
            return images
        lent = self._lent(images.places.memory.nbytes, images.like.dtype)
        memory.copy_in(images.places.memory, lent.pointer, self._queue.handle)
        return replace(images, places=replace(images.places, memory=lent))

    def room(self, like: Images, dtype: DType) -> Images:
        return lists.room(like, dtype, self._lent(lists.elements(like, dtype) * dtype.itemsize, dtype))

    def made(self, like: Images, dtype: DType) -> Images:
        return lists.made(like, dtype, self._queue.handle) if self._like.is_device else self.room(like, dtype)

    def told(self, table: np.ndarray, filters: np.ndarray, dtype: DType) -> tuple[ArrayView, ArrayView]:
        both = np.concatenate([table.reshape(-1).view(np.uint8), filters.reshape(-1).view(np.uint8)])
        lent = self._lent(both.nbytes, DType.INT32)
        memory.copy_in(both, lent.pointer, self._queue.handle)
        return lent, lent._replace(pointer=lent.pointer + table.nbytes, dtype=dtype)

    def brought(self, results: Images) -> Sequence[Any]:
        if self._like.is_device:
            return lists.parts(results)
        found = lists.made(replace(results, like=self._like), results.like.dtype, 0)
        memory.copy_out(found.places.memory, results.places.memory.pointer, self._queue.handle)
        return lists.parts(found)

    def _lent(self, nbytes: int, dtype: DType) -> ArrayView:
        block = memory.pool.allocate(nbytes, self._queue.handle)
        self._blocks.append(block)
        return ArrayView(ArrayKind.PYCUDA, block.pointer, (nbytes // dtype.itemsize,), (1,), dtype, self.device, None,
                         False)
