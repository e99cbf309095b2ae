"""Images larger than a GPU's memory, and two GPUs: what Dask, the copies and the files cost beside the filters."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import unittest.mock
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.devices import NoDevice
from bench.harness import WrongResult
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study

from . import scale_memory as memory
from .scale_calls import NAMES, drawn_call
from .scale_memory import LARGE, SIGMA, Size, threads

RUNS, TRIAL_RUNS = 2, 1
CALLS, TRIAL_CALLS = 400, 30            # drawn for the agreement
OVERHEAD_MUST, OVERHEAD_AIM = 0.15, 0.05
MUST, AIM = 0.8, 0.95
TWO_MUST, TWO_AIM = 1.8, 1.95


FULL = Size(100_000, 4096, 90_000, 4096, 64)
QUICK = Size(20_000, 4096, 16_384, 4096, 16)
HOST = Size(1_500, 512, 1_024, 256, 16)         # on the CPU device, to try the study out

ABOUT = f"""
On the CPU device the study is small, to try it out: its times mean nothing, its agreement does.

"zarr to zarr": an image of drawn bytes in chunks as the table has them, on a local disk, packed as zarr does by itself,
is read, filtered and written by `warpconv filter`'s own function with threads. "no filter" reads the same chunks of the
image and writes the same chunks of the result (made before, in memory) by as many tasks; its time over the filter's is
the share. A result has to be written as it is: what a filter smooths takes longer to pack than the drawn bytes, which
cannot be packed, so that copying the image ("copied") takes less. Runs take turns; medians of {RUNS} after one that
makes kernels and locks pages (once in a process, a second at most). The first read finds the file in the system's
cache, as it was just written.

"host to host": a float32 array in host memory through `warpconv.dask.gaussian_filter` (sigma {SIGMA:g}) into another
one: `from_array` (its own chunks, of long lines) and `store` while both are `locked` (how long that takes stands beside
it), the same in square chunks, the first without locking, and dask.array's own `from_array` and `store`. The peer is as
many bytes copied to the GPU and back in page-locked memory, by pieces of 256 MB: both directions at once, and one after
the other.

"two GPUs": the same work on one GPU and on both, by threads of one process, and what page-locked copies in both
directions gain by the second GPU: where those are the work, no more can be had. A filter of {LARGE}x{LARGE} numbers
takes longer than its copies.

"overhead": chunks of a locked array through the same function into another, one by one in a loop (copy, kernel, copy
back), and by `store` with one thread, along an axis that chunks have whole: what Dask adds to a chunk, without
overlaps. `python -m bench.scale_stages` has each stage of a chunk by itself.

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
    context.expect(8 + len(memory.WAYS) + len(NAMES))
    device = "cpu" if host else "cuda:0"
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCALE_DIR")) as name:
        context.row("zarr to zarr", lambda: _shares(size, runs, Path(name), device), kind="files")
        for way in memory.WAYS:
            context.row(f"host to host, {way}", lambda way=way: memory.host_to_host(size, runs, device, way),
                        kind="memory")
        context.row("overhead", lambda: memory.overhead(size, device), kind="overhead")
        for work, seconds in (
                ("page-locked copies both ways", lambda where: memory.pinned_copies(4 * size.memory**2, where)[0]),
                ("host to host", lambda where: memory.filtered(size, runs, where)[0]),
                (f"host to host, {LARGE}x{LARGE}", lambda where: memory.filtered(size, runs, where, large=True)[0]),
                ("zarr to zarr", lambda where: _file_times(size, runs, Path(name), where, "gaussian")["gaussian"])):
            context.row(f"two GPUs, {work}", lambda seconds=seconds: _two(seconds), kind="two")
    calls = TRIAL_CALLS if host and context.quick else CALLS
    for name in NAMES:
        context.row(f"agreement, {name}", lambda name=name: _agreement(name, calls, "cpu" if host else "cuda:0"),
                    kind="agreement")


# ---- files

def _shares(size: Size, runs: int, folder: Path, device: str) -> dict[str, Any]:
    times = _file_times(size, runs, folder, device)
    copied = times.pop("copied")
    row: dict[str, Any] = {"side": size.file, "chunk": size.file_chunk, "trial": device == "cpu",
                           "threads": threads(), "copied": copied, "gbs": 2 * size.file**2 / copied / 1e9}
    for name in ("5x5", "gaussian"):
        row |= {f"{name} seconds": times[name], f"{name} of copied": copied / times[name],
                f"{name} without": times[f"{name} without"], f"{name} share": times[f"{name} without"] / times[name]}
    return row


def _file_times(size: Size, runs: int, folder: Path, device: str, only: str | None = None) -> dict[str, float]:
    """Median seconds of each way from file to file."""
    import zarr

    from warpconv.runtime.ndimage.filters import gaussian_taps
    from warpconv.runtime.scale import files
    source = _source(size, folder)
    line = gaussian_taps(SIGMA)
    filters = {"5x5": np.random.default_rng(2).random((5, 5)) / 12, "gaussian": np.outer(line, line)}
    how = files.FileFilter(input=str(source), output=str(folder / "out.zarr"), taps=None, device=device, memory="8G")
    found: dict[str, list[float]] = {}

    def timed(name: str, taps: Any = None) -> None:
        shutil.rmtree(how.output, ignore_errors=True)
        found.setdefault(name, []).append(files.filter_file(replace(how, taps=taps)).seconds)

    for name, taps in filters.items():
        known = _Known()
        for _ in range(runs + 1 if only in (None, name) else 0):    # the first makes kernels, and locks pages
            timed(name, taps)
            if only is None:
                if not known.parts:         # before the next run takes its place
                    known.result = zarr.open_array(how.output, mode="r")[...]
                with unittest.mock.patch.object(files, "_filtered", known):
                    timed(f"{name} without", taps)
    for _ in range(0 if only else runs + 1):
        timed("copied")
    return {name: statistics.median(each[1:]) for name, each in found.items()}


class _Known:
    """In the place of a filter: the image's chunk is read, the result's, which was read before, is given."""

    def __init__(self) -> None:
        self.result = np.empty(0)
        self.parts: dict[tuple[int, ...], np.ndarray] = {}

    def __call__(self, how: Any, source: Any, chunks: tuple[tuple[int, ...], ...]) -> Any:
        import dask.array as da
        ends = [np.cumsum((0, *each)).tolist() for each in chunks]
        if not self.parts:
            self.parts = {at: self.result[tuple(slice(end[index], end[index + 1])
                                                for index, end in zip(at, ends))].copy()
                          for at in np.ndindex(*map(len, chunks))}
            self.result = self.result[:0].copy()
        x = da.from_array(source, chunks=chunks, asarray=False, fancy=False, name=False,
                          meta=np.empty((0,) * source.ndim, source.dtype))
        return x.map_blocks(lambda block, block_id: self.parts[block_id], dtype=self.result.dtype, meta=x._meta,
                            name=f"known-{id(chunks)}")         # no name made of all the parts


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


# ---- two GPUs

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
    host = [row for row in done.values() if row["kind"] == "memory"]
    over = [row for row in done.values() if row["kind"] == "overhead"]
    two = [(key, row) for key, row in done.items() if row["kind"] == "two"]
    return [
        Table("Zarr to zarr, of the time without a filter",
              ("side", "chunk", "threads", "copied, s", "GB/s in and out", "filter", "seconds", "of copied",
               "no filter, s", "share", f"at least {MUST}", f"at least {AIM}"),
              tuple((row["side"], row["chunk"], row["threads"], row["copied"], row["gbs"], name, row[f"{name} seconds"],
                     row[f"{name} of copied"], row[f"{name} without"], row[f"{name} share"],
                     *_met(None if row["trial"] else row[f"{name} share"] or row[f"{name} of copied"], MUST, AIM))
                    for row in files for name in ("5x5", "gaussian"))),
        Table("Host memory to host memory, of page-locked copies",
              ("arrays", "side", "chunk", "threads", "seconds", "locking, s", "GB/s in and out",
               "copies both ways at once, s", "share", "one after the other, s", "share of these", f"at least {MUST}",
               f"at least {AIM}"),
              tuple((row["way"], row["side"], row["chunk"], row["threads"], row["seconds"], row["locking"], row["gbs"],
                     row.get("both ways"), row.get("share"), row.get("one after the other"),
                     row.get("share of one after the other"), *_met(row.get("share"), MUST, AIM)) for row in host)),
        Table("Two GPUs of one host", ("work", "one, s", "two, s", "gain", f"at least {TWO_MUST}",
                                       f"at least {TWO_AIM}"),
              tuple((key.partition(", ")[2], row["one"], row["two"], row["gain"],
                     *_met(None if key.endswith("both ways") else row["gain"], TWO_MUST, TWO_AIM))
                    for key, row in two)),
        Table("Dask's overhead", ("chunk", "chunks", "in a loop, ms", "by Dask, ms", "overhead",
                                  f"at most {OVERHEAD_MUST}", f"at most {OVERHEAD_AIM}"),
              tuple((row["chunk"], row["chunks"], row["loop"] * 1e3, row["dask"] * 1e3, row["overhead"],
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
