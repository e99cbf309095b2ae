"""The stages of a chunk on its way through a GPU, each by itself: where the time of arrays larger than a GPU goes.

    python -m bench.scale_stages [--side 16384] [--chunk 4096] [--threads 1,4,8,16]

One line for each stage: GB/s of the image's bytes, once counted, with as many threads as the column says. Stages that
need a GPU (and CuPy) are left out without one, and a line says so. A stage's copies go on until each thread has moved
its part of the image; medians of three.
"""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.runtime.scale import places, staging
from warpconv.runtime.scale.reach import Overlap
from warpconv.runtime.scale.windows import Window, spans

SIGMA, REACH, RUNS = 4.0, 16, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=16_384, help="of the float32 image")
    parser.add_argument("--chunk", type=int, default=4_096)
    parser.add_argument("--threads", default="1,4,8,16")
    parser.add_argument("--only", default="", help="stages whose names contain this")
    told = parser.parse_args()
    Stages(told.side, told.chunk, list(map(int, told.threads.split(","))), told.only).all()


class Stages:
    def __init__(self, side: int, chunk: int, threads: Sequence[int], only: str):
        self.threads, self.only, self.chunk = threads, only, chunk
        self.x = np.resize(np.random.default_rng(0).random((512, side), np.float32), (side, side))
        self.y = np.zeros_like(self.x)
        sizes = (chunk,) * (side // chunk)
        along = [(low, high) for ((_, low, high),) in spans((side,), sizes, Overlap(REACH, REACH))]
        self.windows = [self.x[slice(*rows), slice(*columns)] for rows in along for columns in along]
        self.places = [np.s_[row:row + chunk, column:column + chunk] for row in range(0, side, chunk)
                       for column in range(0, side, chunk)]
        self.gpus = list(places._gpus("cuda")) if places.cupy() is not None else []

    def all(self) -> None:
        huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
        print(f"{os.cpu_count()} cores, huge pages: {huge.read_text().strip() if huge.exists() else 'unknown'}, "
              f"{staging.HELPERS} helpers, {places.LANES} lanes, {len(self.gpus)} GPUs, {self.x.nbytes / 1e9:.3g} GB, "
              f"{len(self.windows)} chunks")
        print(f"{'GB/s with threads':44}" + "".join(f"{count:>8}" for count in self.threads), flush=True)
        self.host()
        if not self.gpus:
            print("no GPU, or no CuPy: the stages on it are left out")
        else:
            self.locking()
            self.gpu()
            for count in sorted({1, len(self.gpus)}):
                self.chunks(self.gpus[:count])
        self.dask()
        self.files()

    def stage(self, name: str, work: Callable[[int], None], items: int, nbytes: int, counts: Sequence[int] = (),
              warm: bool = True) -> None:
        """``work(item)`` for all items by each number of threads; GB/s of ``nbytes``."""
        if self.only not in name:
            return
        line = ""
        for count in counts or self.threads:
            found = []
            for run in range(RUNS + warm):
                seconds = _seconds(work, items, count)
                found += [seconds] if run or not warm else []
            line += f"{nbytes / statistics.median(found) / 1e9:8.1f}"
        print(f"{name:44}{line}", flush=True)

    # ---- stages

    def host(self) -> None:
        """What processors and memory do."""
        nbytes = self.x.nbytes

        def by_blocks(size: int) -> Callable[[int], None]:
            own, columns = threading.local(), self.chunk + 2 * REACH
            rows = max(1, size // (4 * columns))

            def work(item: int) -> None:
                if not hasattr(own, "block"):
                    own.block = np.ones((rows, columns), np.float32)
                window = self.windows[item]
                for row in range(0, len(window), rows):
                    part = window[row:row + rows]
                    np.copyto(own.block[:len(part), :part.shape[1]], part)
            return work

        results = [np.ones((self.chunk,) * 2, np.float32) for _ in range(2 * max(self.threads))]
        count = len(self.windows)
        for size in (1, 4, 8, 32):
            self.stage(f"window to a block of {size} MB", by_blocks(size * 2**20), count, nbytes)
        self.stage("window to fresh pages (np.empty)", lambda item: np.copyto(
            np.empty(self.windows[item].shape, np.float32), self.windows[item]), count, nbytes, warm=False)
        self.stage("window to fresh pages of 4 kB", lambda item: np.copyto(
            _fresh(self.windows[item].shape, None), self.windows[item]), count, nbytes, warm=False)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self.stage("window to fresh pages, advised huge", lambda item: np.copyto(
                _fresh(self.windows[item].shape, mmap.MADV_HUGEPAGE), self.windows[item]), count, nbytes, warm=False)
        self.stage("result to the output", lambda item: np.copyto(
            self.y[self.places[item]], results[item % len(results)]), count, nbytes)

    def locking(self) -> None:
        """Page-locked memory made anew."""
        runtime = places.cupy().cuda.runtime
        size, count = 4 * self.chunk**2, 8

        def alloc(item: int) -> None:
            runtime.freeHost(runtime.hostAlloc(size, 0))

        def register(item: int) -> None:
            pages = _fresh((self.chunk,) * 2, getattr(mmap, "MADV_HUGEPAGE", None))
            runtime.hostRegister(pages.ctypes.data, size, 0)
            runtime.hostUnregister(pages.ctypes.data)

        self.stage("page-locking: cudaHostAlloc", alloc, count, size * count)
        self.stage("page-locking: huge pages registered", register, count, size * count)

    def gpu(self) -> None:
        """PCIe and the kernel, on the first GPU."""
        import warpconv
        module, ordinal = places.cupy(), self.gpus[0]
        count, nbytes = len(self.windows), self.x.nbytes
        with places.lanes.one([ordinal]) as (_, lane), module.cuda.Device(ordinal):
            pins = [staging.Block(module) for _ in range(4)]
            there = [module.empty(staging.BLOCK, np.uint8) for _ in range(2)]
            streams = [module.cuda.Stream(non_blocking=True) for _ in range(2)]
            pieces = nbytes // staging.BLOCK

            def copies(ways: Sequence[int]) -> Callable[[int], None]:
                def work(_: int) -> None:
                    with module.cuda.Device(ordinal):
                        for piece in range(pieces):
                            for way in ways:
                                pointer = pins[2 * way + piece % 2].pointer
                                if way == 0:
                                    there[0].data.copy_from_host_async(pointer, staging.BLOCK, streams[0])
                                else:
                                    there[1].data.copy_to_host_async(pointer, staging.BLOCK, streams[1])
                        for stream in streams:
                            stream.synchronize()
                return work

            self.stage("PCIe: blocks in (one thread)", copies([0]), 1, nbytes, [1])
            self.stage("PCIe: blocks out", copies([1]), 1, nbytes, [1])
            self.stage("PCIe: blocks in and out, each way", copies([0, 1]), 1, nbytes, [1])

            def feed(item: int) -> None:
                with module.cuda.Device(ordinal), places.lanes.one([ordinal]) as (_, mine), mine.stream:
                    window = Window([self.windows[item]], (1, 1))
                    room = places._room(window)
                    staging.feed(window, room, mine.blocks, mine.stream, places._helpers)
                    mine.stream.synchronize()

            self.stage("window to the GPU, with helpers", feed, count, nbytes)
            window = module.asarray(self.windows[min(len(self.windows) - 1, 5)])

            def kernel(item: int) -> None:
                with module.cuda.Device(ordinal), lane.stream:
                    warpconv.gaussian_filter(window, SIGMA, device=f"cuda:{ordinal}")
                    lane.stream.synchronize()

            self.stage("gaussian on the GPU", kernel, count, nbytes, [1])

    def chunks(self, gpus: Sequence[int]) -> None:
        """Whole chunks without Dask, on one GPU or all."""
        import warpconv
        device = "cuda" if len(gpus) > 1 else f"cuda:{gpus[0]}"

        def once(block: Any, place: str, stream: Any) -> Any:
            return warpconv.gaussian_filter(block, SIGMA, device=place, stream=stream)

        def chunk(item: int) -> np.ndarray:
            window = Window([self.windows[item]], (1, 1))
            kept = tuple(slice(low, low + self.chunk) for low in (REACH if place.start else 0
                                                                  for place in self.places[item]))
            return places.run(once, window, device, kept)

        def stored(item: int) -> None:
            np.copyto(self.y[self.places[item]], chunk(item))

        count, nbytes = len(self.windows), self.x.nbytes
        wider = sorted({*self.threads, 32}) if len(gpus) > 1 else self.threads
        told = f"{len(gpus)} GPU{'s' * (len(gpus) > 1)}"
        self.stage(f"chunks, {told}: in, filtered, out", chunk, count, nbytes, wider)
        self.stage(f"chunks, {told}: and stored", stored, count, nbytes, wider)

    def dask(self) -> None:
        """The same by Dask, and Dask with nothing to do: milliseconds a chunk."""
        import dask.array as da

        import warpconv.dask as chunked
        d = da.from_array(self.x, chunks=self.chunk, name=False)
        devices = [f"cuda:{self.gpus[0]}"] + ["cuda"] * (len(self.gpus) > 1) if self.gpus else []
        for device in devices:
            lazy = chunked.gaussian_filter(d, SIGMA, device=device)
            for count in self.threads:
                self.stage(f"by Dask, {device}, {count} threads", lambda _, lazy=lazy, count=count: da.store(
                    lazy, self.y, lock=False, scheduler="threads", num_workers=count), 1, self.x.nbytes, [1])
        real, places.run = places.run, lambda *given: self.y[:1]
        try:
            lazy = chunked.gaussian_filter(d, SIGMA, device="cpu")
            for count in self.threads:
                seconds = statistics.median(_seconds(lambda _, count=count: da.store(
                    lazy, _Nothing(), lock=False, scheduler="threads", num_workers=count), 1, 1) for _ in range(RUNS))
                print(f"Dask's own time, {count} threads: {seconds / len(self.windows) * 1e3:.3f} ms a chunk")
        finally:
            places.run = real

    def files(self) -> None:
        """Zarr to zarr of uint8, seconds: without a filter, without the GPU's part, and whole."""
        import zarr

        from warpconv.runtime.scale.files import FileFilter, filter_file
        side = len(self.x)
        with tempfile.TemporaryDirectory(dir=os.environ.get("SCALE_DIR")) as name:
            source, out = f"{name}/a.zarr", f"{name}/b.zarr"
            made = zarr.create_array(source, shape=(side, side), chunks=(self.chunk,) * 2, dtype="uint8")
            made[:] = np.random.default_rng(1).integers(0, 256, (side, side), "uint8")

            def run(how: str, taps: Any, device: str) -> None:
                found = []
                for _ in range(RUNS):
                    shutil.rmtree(out, ignore_errors=True)
                    found.append(filter_file(FileFilter(input=source, output=out, taps=taps, device=device,
                                                        memory="8G")).seconds)
                print(f"zarr to zarr, {how}: first {found[0]:.3f} s, then {statistics.median(found[1:]):.3f} s",
                      flush=True)

            line = np.exp(-np.arange(-REACH, REACH + 1) ** 2 / (2 * SIGMA**2))
            run("no filter", None, "cpu")
            real, places.run = places.run, lambda call, window, device, kept, into: (
                window.whole()[kept] if isinstance(window, Window) else window[kept])
            try:
                run("windows alone", np.ones((5, 5)), "cpu")
            finally:
                places.run = real
            for device in ["cuda:0"] * bool(self.gpus) + ["cuda"] * (len(self.gpus) > 1):
                run(f"5x5, {device}", np.random.default_rng(2).random((5, 5)) / 12, device)
                run(f"gaussian, {device}", np.outer(line, line) / line.sum() ** 2, device)


class _Nothing:
    def __setitem__(self, at: Any, block: Any) -> None:
        pass


def _fresh(shape: tuple[int, ...], advice: int | None) -> np.ndarray:
    """float32 on pages that nothing has touched."""
    pages = mmap.mmap(-1, 4 * int(np.prod(shape)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if advice is not None:
        pages.madvise(advice)
    return np.frombuffer(pages, np.float32).reshape(shape)


def _seconds(work: Callable[[int], Any], items: int, count: int) -> float:
    """Of ``work(item)`` for all items by threads that each take the next."""
    left, failed = iter(range(items)), []
    lock = threading.Lock()

    def some() -> None:
        try:
            while True:
                with lock:
                    item = next(left, None)
                if item is None:
                    return
                work(item)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=some) for _ in range(count)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
