"""The study of scale, arrays in host memory: filters by way of GPUs, and page-locked copies beside them."""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.harness import WrongResult
from bench.study import Missing

SIGMA = 4.0
LARGE = 63          # side of a filter that takes longer than its chunk's copies
THEIRS = "dask.array's store"
WAYS = {"locked": "auto", "locked, squares": None, "not locked": "auto", THEIRS: None}      # chunks; None: Size.chunk


@dataclass(frozen=True)
class Size:
    """Sides of the image in a file (uint8), of the one in memory (float32), of chunks; how many of them."""

    file: int
    file_chunk: int
    memory: int
    chunk: int
    chunks: int


def threads() -> int:
    from warpconv.runtime.scale.files import MOST_THREADS
    return min(os.cpu_count() or 1, MOST_THREADS)


def host_to_host(size: Size, runs: int, device: str, way: str) -> dict[str, Any]:
    seconds, locking, chunk = filtered(size, runs, device, way)
    nbytes = 4 * size.memory**2
    row: dict[str, Any] = {"way": way, "side": size.memory, "chunk": f"{chunk[0]} x {chunk[1]}", "threads": threads(),
                           "seconds": seconds, "locking": locking, "gbs": 2 * nbytes / seconds / 1e9}
    if device != "cpu":
        both, apart = pinned_copies(nbytes, device)
        row |= {"both ways": both, "one after the other": apart, "share": both / seconds,
                "share of one after the other": apart / seconds}
    return row


def filtered(size: Size, runs: int, device: str, way: str = "locked",
             large: bool = False) -> tuple[float, float | None, tuple[int, int]]:
    """Median seconds from one array in host memory to another, and of locking both, and a chunk's sizes; the result is
    checked around a corner of chunks (their edge, where they have whole lines)."""
    import dask
    import dask.array as da
    from scipy import ndimage

    import warpconv.dask as chunked
    taps = np.random.default_rng(5).random((LARGE, LARGE)) / LARGE**2

    def call(library: Any, image: Any, **options: Any) -> Any:
        return library.correlate(image, taps, **options) if large else library.gaussian_filter(image, SIGMA, **options)

    x, y = _both(size.memory)
    make = chunked.from_array if way != THEIRS else functools.partial(da.from_array, name=False)
    lazy = call(chunked, make(x, chunks=WAYS[way] or size.chunk), device=device)
    far, at = 40, [each[0] if len(each) > 1 else size.memory // 2 for each in lazy.chunks]
    checked = tuple(slice(edge - far, edge + far) for edge in at)
    y[::97, ::89] = y[checked] = np.nan
    found, start = [], time.perf_counter()
    with dask.config.set(scheduler="threads", num_workers=threads()), \
            chunked.locked(x, y) if (lock := way.startswith("locked")) else contextlib.nullcontext():
        locking = time.perf_counter() - start if lock else None
        for _ in range(runs + 1):           # the first makes kernels, and touches the memory
            start = time.perf_counter()
            if way == THEIRS:
                da.store(lazy, y, lock=False)
            else:
                chunked.store(lazy, y)
            found.append(time.perf_counter() - start)
    around = tuple(slice(edge - 2 * far, edge + 2 * far) for edge in at)
    exact = call(ndimage, x[around].astype(np.float64))[far:-far, far:-far]
    error = float(np.abs(y[checked] - exact).max())
    if not error < 1e-5 or np.isnan(y[::97, ::89]).any():
        raise WrongResult(f"{error:.3g} off")
    return statistics.median(found[1:]), locking, lazy.chunksize


@functools.lru_cache(maxsize=1)
def _both(side: int) -> tuple[np.ndarray, np.ndarray]:
    """An image, and room for its result: made once, as the system takes long to find so much memory."""
    return _image(side, side), np.ones((side, side), np.float32)


def _image(columns: int, rows: int) -> np.ndarray:
    x = np.empty((rows, columns), np.float32)
    band = np.random.default_rng(4).random((1024, columns), np.float32)
    for row in range(0, rows, 1024):
        x[row:row + 1024] = np.roll(band, row // 3, axis=1)[:rows - row]
    return x


def pinned_copies(nbytes: int, device: str) -> tuple[float, float]:
    """Seconds of as many bytes in and out of a GPU, or half of them each of all GPUs ("cuda"): both ways at once, and
    one after the other."""
    cupy = _cupy()
    from warpconv.runtime.scale import places
    gpus = list(places._gpus(device))
    piece = 2**28
    count = max(1, round(nbytes / piece / len(gpus)))
    pins = [[cupy.cuda.alloc_pinned_memory(piece) for _ in range(2)] for _ in gpus]
    there, streams = [], []
    for gpu in gpus:
        with cupy.cuda.Device(gpu):
            there.append([cupy.empty(piece, cupy.uint8) for _ in range(2)])
            streams.append([cupy.cuda.Stream(non_blocking=True) for _ in range(2)])

    def copies(ways: tuple[int, ...]) -> float:
        start = time.perf_counter()
        for _ in range(count):
            for at, gpu in enumerate(gpus):
                with cupy.cuda.Device(gpu):
                    for way in ways:
                        copied = there[at][way].data
                        copy = copied.copy_to_host_async if way else copied.copy_from_host_async
                        copy(pins[at][way].ptr, piece, streams[at][way])
        for stream in (stream for both in streams for stream in both):
            stream.synchronize()
        return time.perf_counter() - start

    copies((0, 1))
    return copies((0, 1)), copies((0,)) + copies((1,))


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise Missing("CuPy, which pinned copies need, is not installed") from error
    return cupy


def overhead(size: Size, device: str) -> dict[str, Any]:
    """Seconds of a chunk by a loop, and by Dask with one thread."""
    import warpconv
    import warpconv.dask as chunked
    from warpconv.runtime.scale import places
    x = _image(size.chunk, size.chunk * size.chunks)
    y = np.zeros_like(x)
    blocks, made = (np.split(array, size.chunks) for array in (x, y))
    # filtered along the rows alone: chunks have whole ones, so neither way has overlaps to make
    lazy = chunked.gaussian_filter1d(chunked.from_array(x, size.chunk), SIGMA, axis=1, device=device)

    def once(block: Any, place: str, stream: Any) -> Any:
        return warpconv.gaussian_filter1d(block, SIGMA, axis=1, device=place, stream=stream)

    def loop() -> None:
        for block, into in zip(blocks, made):
            places.run(once, block, device, (), into)

    def by_dask() -> None:
        chunked.store(lazy, y, scheduler="threads", num_workers=1)

    times: dict[str, list[float]] = {"loop": [], "dask": []}
    with chunked.locked(x, y):
        for _ in range(6):
            for name, call in (("loop", loop), ("dask", by_dask)):
                start = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - start) / len(blocks))
    by_loop, through = (statistics.median(times[name][1:]) for name in ("loop", "dask"))
    return {"chunk": size.chunk, "chunks": size.chunks, "trial": device == "cpu", "loop": by_loop, "dask": through,
            "overhead": through / by_loop - 1}
