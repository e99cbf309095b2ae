"""Long lines and short ones: chunks copied from and to page-locked memory, and what stands between the copies.

    python -m bench.scale_lines [--side 90000] [--between 32768] [--device cuda:0]

First a Gaussian (sigma 4) through ``warpconv.dask.store`` by chunks of several forms, then chunks of 4096 x 4096 that
four threads copy to the GPU and back, with nothing or a kernel between the copies. Seconds, medians of three; beside
them page-locked copies of as many bytes both ways at once. The second part needs a GPU and CuPy. docs/scale.md has what
came of it.
"""

from __future__ import annotations

import argparse
import queue
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.scale_stages import _seconds
from bench.studies.scale_memory import SIGMA, _both, pinned_copies, threads
from warpconv.runtime.scale import locked, places

CHUNK, THREADS, RUNS = 4_096, 4, 3
FORMS = ((4096, 4096), (2048, 8192), (1024, 16384), (1024, 22500), (512, 45000), (512, -1), (1024, -1))
KERNELS = r"""
extern "C" __global__ void nothing(float4* p, int n) { if (n < 0) p[0].x = 1; }
extern "C" __global__ void kept(float4* p, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float4 v = p[i]; v.x += 1; p[i] = v; }
}
extern "C" __global__ void evicted_first(float4* p, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float4 v = __ldcs(p + i); v.x += 1; __stcs(p + i, v); }
}
"""
MB = 2**20
BETWEEN = (("nothing", None, 0), ("a kernel that touches no memory", "nothing", 0), ("4 MB", "kept", 4),
           ("16 MB", "kept", 16), ("32 MB", "kept", 32), ("64 MB", "kept", 64),
           ("64 MB, evict first", "evicted_first", 64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=90_000, help="of the float32 image of the first part")
    parser.add_argument("--between", type=int, default=32_768, help="of that of the second")
    parser.add_argument("--device", default="cuda:0")
    told = parser.parse_args()
    forms(told.side, told.device)
    if told.device == "cpu" or places.runtime() is None:
        print("what stands between copies: left out, it needs a GPU and CuPy")
    else:
        between(told.between, told.device)


def forms(side: int, device: str) -> None:
    import warpconv.dask as chunked
    x, y = _both(side)
    with chunked.locked(x, y):
        if device != "cpu":
            print(f"page-locked copies both ways: {pinned_copies(x.nbytes, device)[0]:.3f}")
        for form in FORMS:
            sizes = tuple(-1 if size < 0 else min(size, side) for size in form)
            lazy = chunked.gaussian_filter(chunked.from_array(x, sizes), SIGMA, device=device)
            print(f"chunks of {sizes}: {_median(lambda lazy=lazy: chunked.store(lazy, y, num_workers=threads())):.3f}",
                  flush=True)


def between(side: int, device: str) -> None:
    import warpconv.dask as chunked
    cupy = places.cupy()
    x, y = _both(side)
    corners = [(row, column) for row in range(0, side, CHUNK) for column in range(0, side, CHUNK)]
    gpu = places._gpus(device)[0]
    with chunked.locked(x, y), cupy.cuda.Device(gpu):
        kernels, idle = cupy.RawModule(code=KERNELS), queue.SimpleQueue()
        for _ in range(THREADS):
            idle.put((places._lane(gpu), cupy.empty(CHUNK * CHUNK, np.float32)))
        print(f"page-locked copies both ways: {pinned_copies(x.nbytes, device)[0]:.3f}")
        for name, kernel, megabytes in BETWEEN:
            run, count = kernels.get_function(kernel) if kernel else None, megabytes * MB // 16

            def chunk(item: int, run: Any = run, count: int = count) -> None:
                lane, there = idle.get()
                row, column = corners[item]
                with cupy.cuda.Device(gpu), lane.stream:
                    _copy(x[row:row + CHUNK, column:column + CHUNK], there, locked.TO_GPU, lane)
                    if run is not None:
                        run((max(1, -(-count // 256)),), (256,), (there, np.int32(count)))
                    _copy(y[row:row + CHUNK, column:column + CHUNK], there, locked.FROM_GPU, lane)
                    lane.wait()
                idle.put((lane, there))

            print(f"{name}: {_median(lambda chunk=chunk: _seconds(chunk, len(corners), THREADS)):.3f}", flush=True)


def _copy(part: np.ndarray, there: Any, direction: int, lane: places.Lane) -> None:
    how = locked.lines(part.shape, part.strides, (part.itemsize * part.shape[1], part.itemsize), part.itemsize)
    locked.copy(places.cupy().cuda.runtime, how, part.ctypes.data, there.data.ptr, direction, lane.stream)


def _median(work: Callable[[], Any]) -> float:
    """Seconds, after a run that is not counted."""
    found = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


if __name__ == "__main__":
    main()
