"""Images larger than a GPU's memory, and two GPUs: what Dask, the copies and the files cost beside the filters."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.devices import NoDevice
from bench.harness import WrongResult
from bench.report.files import OK, Table
from bench.study import Context, Missing, Rows, Study

from .scale_calls import NAMES, drawn_call

SIGMA = 4.0
RUNS, TRIAL_RUNS = 3, 1
CALLS, TRIAL_CALLS = 400, 30            # drawn for the agreement
OVERHEAD_MUST, OVERHEAD_AIM = 0.15, 0.05
MUST, AIM = 0.8, 0.95
TWO_MUST, TWO_AIM = 1.8, 1.95


@dataclass(frozen=True)
class Size:
    """Sides of the image in a file (uint8), of the one in memory (float32), of chunks; how many of them."""

    file: int
    file_chunk: int
    memory: int
    chunk: int
    chunks: int


FULL = Size(100_000, 4096, 90_000, 4096, 64)
QUICK = Size(20_000, 4096, 16_384, 4096, 16)
HOST = Size(1_500, 512, 1_024, 256, 16)         # on the CPU device, to try the study out

ABOUT = f"""
On the CPU device the study is small, to try it out: its times mean nothing, its agreement does.

"zarr to zarr": an image of drawn bytes in chunks as the table has them, on a local disk, packed as zarr does by itself,
is read, filtered and written by `warpconv filter`'s own function with threads. "no filter" copies the same chunks by
the same tasks; its time over a filter's is the share. Runs take turns; medians of {RUNS} after one that makes kernels
and locks pages (once in a process, a second at most). The first read finds
the file in the system's cache, as it was just written.

"host to host": a float32 array in host memory through `warpconv.dask.gaussian_filter` (sigma {SIGMA:g}) into another
one, chunks as the table has them. Its peer is as many bytes copied to the GPU and back in page-locked memory, by pieces
of 256 MB: both directions at once, and one after the other.

"two GPUs": the same work on one GPU and on both, by threads of one process.

"overhead": chunks of an array through the same function, one by one in a loop (pinned copies, kernel, pinned copies
back), and by Dask with one thread, stored to nothing, along an axis that chunks have whole: what Dask adds to a chunk,
without overlaps. `python -m bench.scale_stages` has each stage of a chunk by itself.

"agreement": drawn calls (functions, modes, one mode for each axis, types, chunkings, axes, origins) against the call on
the whole array, bit for bit where the algorithm is named or results are whole numbers, and against scipy.ndimage: the
worst error over the largest value.
"""


def run(context: Context) -> None:
    try:
        import dask.array  # noqa: F401 - its absence is told before anything is measured
        import zarr  # noqa: F401
    except ImportError as error:
        raise ValueError("this study needs dask and zarr: pip install 'warpconv[dask]'") from error
    host = context.device.kind == "host"
    size = HOST if host else QUICK if context.quick else FULL
    runs = TRIAL_RUNS if host or context.quick else RUNS
    context.expect(5 + len(NAMES))
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCALE_DIR")) as name:
        _files(context, size, runs, Path(name), "cpu" if host else "cuda:0", "zarr to zarr")
        context.row("host to host", lambda: _host_to_host(size, runs, "cpu" if host else "cuda:0"), kind="memory")
        context.row("overhead", lambda: _overhead(size, "cpu" if host else "cuda:0"), kind="overhead")
        context.row("two GPUs, host to host", lambda: _two(lambda device: _filtered(size, runs, device)), kind="two")
        context.row("two GPUs, zarr to zarr", lambda: _two(lambda device: _file_times(
            size, runs, Path(name), device, only="gaussian")["gaussian"]), kind="two")
    calls = TRIAL_CALLS if host and context.quick else CALLS
    for name in NAMES:
        context.row(f"agreement, {name}", lambda name=name: _agreement(name, calls, "cpu" if host else "cuda:0"),
                    kind="agreement")


def _threads() -> int:
    from warpconv.runtime.scale.files import MOST_THREADS
    return min(os.cpu_count() or 1, MOST_THREADS)


# ---- files

def _files(context: Context, size: Size, runs: int, folder: Path, device: str, key: str) -> None:
    context.row(key, lambda: _shares(size, _file_times(size, runs, folder, device), device == "cpu"), kind="files")


def _shares(size: Size, times: Mapping[str, float], trial: bool) -> dict[str, Any]:
    nothing = times["nothing"]
    return {"side": size.file, "chunk": size.file_chunk, "trial": trial, "threads": _threads(),
            "seconds": nothing, "gbs": 2 * size.file**2 / nothing / 1e9,
            **{f"{name} seconds": seconds for name, seconds in times.items() if name != "nothing"},
            **{f"{name} share": nothing / seconds for name, seconds in times.items() if name != "nothing"}}


def _file_times(size: Size, runs: int, folder: Path, device: str, only: str | None = None) -> dict[str, float]:
    """Median seconds of each way from file to file."""
    from warpconv.runtime.ndimage.filters import gaussian_taps
    from warpconv.runtime.scale.files import FileFilter, filter_file
    source = _source(size, folder)
    line = gaussian_taps(SIGMA)
    ways = {"nothing": None, "5x5": np.random.default_rng(2).random((5, 5)) / 12, "gaussian": np.outer(line, line)}
    ways = {name: taps for name, taps in ways.items() if only in (None, name)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    how = FileFilter(input=str(source), output=str(folder / "out.zarr"), taps=None, device=device, memory="8G")
    for _ in range(runs + 1):               # the first makes kernels, and locks pages, on each GPU
        for name, taps in ways.items():
            shutil.rmtree(how.output, ignore_errors=True)
            found[name].append(filter_file(replace(how, taps=taps)).seconds)
    return {name: statistics.median(each[1:]) for name, each in found.items()}


def _source(size: Size, folder: Path) -> Path:
    """The drawn image, written once."""
    import zarr
    path = folder / "big.zarr"
    if not path.exists():
        made = zarr.create_array(str(path), shape=(size.file,) * 2, chunks=(size.file_chunk,) * 2, dtype="uint8")
        rng = np.random.default_rng(1)
        band = rng.integers(0, 256, (size.file_chunk, size.file), "uint8")
        for row in range(0, size.file, size.file_chunk):
            made[row:row + size.file_chunk] = np.roll(band, row // 7, axis=1)[:size.file - row]
    return path


# ---- host memory

def _host_to_host(size: Size, runs: int, device: str) -> dict[str, Any]:
    seconds = _filtered(size, runs, device)
    nbytes = 4 * size.memory**2
    row: dict[str, Any] = {"side": size.memory, "chunk": size.chunk, "threads": _threads(),
                           "seconds": seconds, "gbs": 2 * nbytes / seconds / 1e9}
    if device != "cpu":
        both, apart = _pinned_copies(nbytes)
        row |= {"both ways": both, "one after the other": apart, "share": both / seconds,
                "share of one after the other": apart / seconds}
    return row


def _filtered(size: Size, runs: int, device: str) -> float:
    """Median seconds from one array in host memory to another; the result is checked in one place."""
    import dask
    import dask.array as da

    import warpconv.dask as chunked
    x = _image(size.memory, size.memory)
    y = np.full_like(x, np.nan)
    d = da.from_array(x, chunks=size.chunk, name=False)
    found = []
    with dask.config.set(scheduler="threads", num_workers=_threads()):
        for _ in range(runs + 1):           # the first makes kernels, and touches the memory
            start = time.perf_counter()
            da.store(chunked.gaussian_filter(d, SIGMA, device=device), y, lock=False)
            found.append(time.perf_counter() - start)
    _check(x, y, size)
    return statistics.median(found[1:])


def _image(columns: int, rows: int) -> np.ndarray:
    x = np.empty((rows, columns), np.float32)
    band = np.random.default_rng(4).random((1024, columns), np.float32)
    for row in range(0, rows, 1024):
        x[row:row + 1024] = np.roll(band, row // 3, axis=1)[:rows - row]
    return x


def _check(x: np.ndarray, y: np.ndarray, size: Size) -> None:
    """Around a corner of four chunks."""
    from scipy import ndimage
    far, at = 40, size.chunk
    part = slice(at - 2 * far, at + 2 * far)
    exact = ndimage.gaussian_filter(x[part, part].astype(np.float64), SIGMA)[far:-far, far:-far]
    error = float(np.abs(y[at - far:at + far, at - far:at + far] - exact).max())
    if not error < 1e-5 or np.isnan(y[::97, ::89]).any():
        raise WrongResult(f"{error:.3g} off")


def _pinned_copies(nbytes: int) -> tuple[float, float]:
    """Seconds of as many bytes in and out of a GPU: both ways at once, and one after the other."""
    cupy = _cupy()
    piece = 2**28
    count = max(1, round(nbytes / piece))
    pins = [cupy.cuda.alloc_pinned_memory(piece) for _ in range(2)]
    there = [cupy.empty(piece, cupy.uint8) for _ in range(2)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]

    def copies(ways: tuple[int, ...]) -> float:
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(count):
            for way in ways:
                if way == 0:
                    there[0].data.copy_from_host_async(pins[0].ptr, piece, streams[0])
                else:
                    there[1].data.copy_to_host_async(pins[1].ptr, piece, streams[1])
        for stream in streams:
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


# ---- Dask's own

def _overhead(size: Size, device: str) -> dict[str, Any]:
    """Seconds of a chunk by a loop, and by Dask with one thread."""
    import dask.array as da

    import warpconv
    import warpconv.dask as chunked
    from warpconv.runtime.scale import places
    x = _image(size.chunk, size.chunk * size.chunks)
    blocks = np.split(x, size.chunks)
    # filtered along the rows alone: chunks have whole ones, so neither way has overlaps to make
    lazy = chunked.gaussian_filter1d(da.from_array(x, chunks=size.chunk, name=False), SIGMA, axis=1, device=device)

    def once(block: Any, place: str, stream: Any) -> Any:
        return warpconv.gaussian_filter1d(block, SIGMA, axis=1, device=place, stream=stream)

    def loop() -> None:
        for block in blocks:
            places.run(once, block, device, ())

    def by_dask() -> None:
        da.store(lazy, _Nothing(), lock=False, scheduler="threads", num_workers=1)     # dropped, as in the loop

    times = {"loop": [], "dask": []}
    for _ in range(6):
        for name, call in (("loop", loop), ("dask", by_dask)):
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) / len(blocks))
    by_loop, through = (statistics.median(times[name][1:]) for name in ("loop", "dask"))
    return {"chunk": size.chunk, "trial": device == "cpu", "loop": by_loop, "dask": through,
            "overhead": through / by_loop - 1}


class _Nothing:
    """An array that keeps nothing."""

    def __setitem__(self, at: Any, block: Any) -> None:
        pass


def _two(seconds: Callable[[str], float]) -> dict[str, Any]:
    from warpconv.runtime.devices.cuda import contexts
    found = contexts.count() if contexts.usable() is None else 0
    if found < 2:
        raise NoDevice(f"two GPUs are needed, {found} visible")
    one, two = seconds("cuda:0"), seconds("cuda")
    return {"one": one, "two": two, "gpus": found, "gain": one / two}


# ---- agreement

def _agreement(name: str, calls: int, device: str) -> dict[str, Any]:
    """Worst errors of a function's drawn calls. Raises WrongResult where bits differ that should not."""
    import dask.array as da
    from scipy import ndimage

    import warpconv
    import warpconv.dask as chunked
    count, to_whole, to_scipy, bits = 0, 0.0, 0.0, 0
    for x, chunks, arguments, given in _calls(name, calls):
        options = {**given, "device": device}
        whole = getattr(warpconv, name)(x, *arguments, **options)
        made = getattr(chunked, name)(da.from_array(x, chunks=chunks), *arguments, **options).compute(
            scheduler="synchronous")
        theirs = getattr(ndimage, name)(x, *arguments, **{key: value for key, value in given.items()
                                                          if key not in ("device", "algorithm")}).astype(np.float64)
        if made.dtype.kind in "iu" or "algorithm" in given:
            bits += 1
            if not np.array_equal(made, whole):
                raise WrongResult(f"{name} of {x.shape} {x.dtype} in {chunks} with {given}")
        largest = max(1.0, float(np.abs(theirs).max()))
        to_whole = max(to_whole, float(np.abs(made.astype(np.float64) - whole).max()) / largest)
        to_scipy = max(to_scipy, float(np.abs(made - theirs).max()) / largest)
        count += 1
    if not to_scipy < 1e-5:
        raise WrongResult(f"{to_scipy:.3g} off SciPy")
    return {"calls": count, "bits": bits, "whole": to_whole, "scipy": to_scipy}


def _calls(name: str, calls: int) -> Iterator[tuple[Any, ...]]:
    """Of as many drawn calls those of one function."""
    for seed in range(calls):
        drawn, *rest = drawn_call(np.random.default_rng([7, seed]))
        if drawn == name:
            yield tuple(rest)


# ---- tables

def tables(rows: Rows) -> list[Table]:
    done = {key: row for key, row in rows.items() if row["status"] == OK}
    files = [row for row in done.values() if row["kind"] == "files"]
    memory = [row for row in done.values() if row["kind"] == "memory"]
    over = [row for row in done.values() if row["kind"] == "overhead"]
    two = [(key, row) for key, row in done.items() if row["kind"] == "two"]
    return [
        Table("Zarr to zarr, of the time without a filter",
              ("side", "chunk", "threads", "no filter, s", "GB/s in and out", "5x5, s", "share", "gaussian, s",
               "share of the gaussian", f"at least {MUST}", f"at least {AIM}"),
              tuple((row["side"], row["chunk"], row["threads"], row["seconds"], row["gbs"], row["5x5 seconds"],
                     row["5x5 share"], row["gaussian seconds"], row["gaussian share"],
                     *_met(None if row["trial"] else min(row["5x5 share"], row["gaussian share"]), MUST, AIM))
                    for row in files)),
        Table("Host memory to host memory, of pinned copies",
              ("side", "chunk", "threads", "seconds", "GB/s in and out", "copies both ways at once, s", "share",
               "one after the other, s", "share of these", f"at least {MUST}", f"at least {AIM}"),
              tuple((row["side"], row["chunk"], row["threads"], row["seconds"], row["gbs"], row.get("both ways"),
                     row.get("share"), row.get("one after the other"), row.get("share of one after the other"),
                     *_met(row.get("share"), MUST, AIM)) for row in memory)),
        Table("Two GPUs of one host", ("work", "one, s", "two, s", "gain", f"at least {TWO_MUST}",
                                       f"at least {TWO_AIM}"),
              tuple((key.partition(", ")[2], row["one"], row["two"], row["gain"], *_met(row["gain"], TWO_MUST, TWO_AIM))
                    for key, row in two)),
        Table("Dask's overhead", ("chunk", "in a loop, ms", "by Dask, ms", "overhead", f"at most {OVERHEAD_MUST}",
                                  f"at most {OVERHEAD_AIM}"),
              tuple((row["chunk"], row["loop"] * 1e3, row["dask"] * 1e3, row["overhead"],
                     *_met(None if row["trial"] else -row["overhead"], -OVERHEAD_MUST, -OVERHEAD_AIM))
                    for row in over)),
        Table("Agreement over drawn calls", ("function", "calls", "bits compared", "worst to the whole call",
                                             "worst to scipy.ndimage"),
              tuple((key.partition(", ")[2], row["calls"], row["bits"], row["whole"], row["scipy"])
                    for key, row in done.items() if row["kind"] == "agreement"))]


def _met(value: float | None, must: float, aim: float) -> tuple[str | None, str | None]:
    if value is None:
        return None, None
    return "yes" if value >= must else "no", "yes" if value >= aim else "no"


STUDY = Study("scale", "arrays larger than memory and two GPUs through Dask: files, copies, Dask's own time, agreement",
              ABOUT, run, tables, needs_gpu=False)
