"""NumPy's arrays as Dask's without a copy, and results written where they belong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import warpconv
from tests import settings
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime.scale import locked, places, staging

from .played import gpus  # noqa: F401 - a fixture

da = pytest.importorskip("dask.array", reason="dask is not installed (it is in the extra dask)")

import warpconv.dask as chunked                     # noqa: E402 - behind the skip
from warpconv.runtime.scale.windows import held     # noqa: E402


def image(*shape):
    return settings.generator(99).standard_normal(shape).astype("float32")


def test_chunks_are_views():
    x = image(50, 70)
    d = chunked.from_array(x, 20)
    assert d.chunks == ((20, 20, 10), (20, 20, 20, 10)) and d.dtype == x.dtype
    assert np.shares_memory(held(d), x) and np.array_equal(d.compute(), x)
    x[3, 4] = 7
    assert d.compute()[3, 4] == 7
    assert chunked.from_array(x, (50, -1)).numblocks == (1, 1) and chunked.from_array(x).dtype == x.dtype
    assert chunked.from_array(x, 20).name != d.name
    with pytest.raises(ArgumentTypeError, match="x.*list.*da|dask.array.from_array"):
        chunked.from_array([1, 2])
    with pytest.raises(ArgumentError, match="chunks"):
        chunked.from_array(x, (20, 20, 20))
    for wrong in (0, -3, None, (20, "many"), ((20, 20), 70)):
        with pytest.raises(ArgumentError, match="no sizes of chunks.*whole axis"):
            chunked.from_array(x, wrong)


def test_chunks_have_long_lines_by_themselves():
    """Along the axis whose elements lie side by side, many enough for two GPUs' lanes."""
    def seen(*shape):       # of memory that nobody touches
        return np.lib.stride_tricks.as_strided(np.zeros(1, "float32"), shape, tuple(
            4 * int(np.prod(shape[axis + 1:], dtype=int)) for axis in range(len(shape))), writeable=False)
    assert chunked.from_array(seen(90000, 90000)).chunksize == (495, 45000)
    rows, columns = chunked.from_array(seen(20000, 20000)).chunksize
    assert columns == 20000 and 32 <= 20000 / rows < 40
    assert chunked.from_array(seen(20000, 20000).T).chunksize == (columns, rows)
    assert chunked.from_array(seen(100, 200)).chunksize == (100, 200)
    assert chunked.from_array(seen()).chunks == () and chunked.from_array(seen(0, 7)).shape == (0, 7)
    x = image(50, 70)
    for each in (x, x.T, x[::-1], x[:, ::3]):
        assert np.array_equal(chunked.from_array(each).compute(), each)


@pytest.mark.thin(3)
@pytest.mark.parametrize("mode", ["reflect", "wrap", "constant"])
def test_a_filter_is_stored(mode):
    """Bit for bit what compute() makes, in a target with gaps, nothing beside it touched."""
    x = image(60, 80)
    options = {"mode": mode, "algorithm": "direct", "device": "cpu"}
    lazy = chunked.gaussian_filter(chunked.from_array(x, (25, 30)), 1.5, **options)
    y = np.full((70, 100), np.nan, "float32")
    target = y[4:64, 10:90]
    with chunked.locked(x, y):
        assert chunked.store(lazy, target, num_workers=2) is target
    assert np.array_equal(target, warpconv.gaussian_filter(x, 1.5, **options))
    assert np.isnan(y).sum() == y.size - target.size


@pytest.mark.thin(4)
@pytest.mark.parametrize("make", [
    lambda x: chunked.sobel(da.from_array(x, chunks=20) + 1, axis=0, device="cpu"),          # parts of other tasks
    lambda x: chunked.sobel(chunked.from_array(x, 20), axis=0, device="cpu") * 2,            # further work behind it
    lambda x: chunked.sobel(chunked.sobel(chunked.from_array(x, 20), device="cpu"), 0, device="cpu"),
    lambda x: chunked.sobel(chunked.from_array(x, 20), device="cpu").persist(),
    lambda x: chunked.from_array(x, 20), lambda x: da.from_array(x, chunks=-1), lambda x: da.ones(x.shape, "float32"),
    lambda x: chunked.sobel(chunked.from_array(x.astype(">f4"), 20), device="cpu")])
@pytest.mark.parametrize("scheduler", ["threads", "synchronous", None])
def test_any_dask_array_is_stored(make, scheduler):
    x = image(50, 70)
    lazy = make(x)
    y = np.full(x.shape, np.nan, lazy.dtype)
    chunked.store(lazy, y, scheduler=scheduler)
    assert np.array_equal(y, lazy.compute())


def test_by_an_executor_and_without_elements():
    x = image(50, 70)
    y = np.zeros_like(x)
    with ThreadPoolExecutor(2) as pool:
        chunked.store(chunked.from_array(x, 20), y, scheduler=pool)
    assert np.array_equal(x, y)
    chunked.store(chunked.from_array(x[:0], 20), y[:0])


def test_locked_memory_is_read_and_written_where_it_lies(gpus, monkeypatch):
    """The whole way, on GPUs that are played: no block, no page-locked result, two copies a chunk."""
    x = image(600, 800)
    y = np.full_like(x, np.nan)

    def doubled(self, block, device, stream):
        return block * 2

    monkeypatch.setattr("warpconv.runtime.scale.chunk.ChunkFilter._made", doubled)
    monkeypatch.setattr(places, "_helpers", staging.Helpers(0))
    lazy = chunked.gaussian_filter(chunked.from_array(x, 200), 2, device="cuda")
    with chunked.locked(x, y):
        chunked.store(lazy, y, num_workers=6)
    assert np.array_equal(y, 2 * x)
    assert len(gpus.cuda.runtime.copies) == 24 and not gpus.cuda.runtime.locked
    assert all(blocks._count == 0 for blocks in places._blocks.values()) and places._pins.used == 0
    y[...] = np.nan
    with locked.locked(x):
        chunked.store(lazy, y, num_workers=6)
    assert np.array_equal(y, 2 * x) and len(gpus.cuda.runtime.copies) == 36


def test_refusals_come_before_anything_is_computed():
    x = image(40, 40)

    def never(block):
        raise AssertionError("computed")

    lazy = chunked.from_array(x, 20).map_blocks(never, dtype="float32", meta=x[:0])
    refused = [
        ([0.0], {}, ArgumentTypeError, "target.*list.*to_zarr"),
        (np.zeros((40, 41), "float32"), {}, ShapeError, r"target.*\(40, 41\).*\(40, 40\)"),
        (np.zeros((40, 40)), {}, ArgumentTypeError, "target.*float64.*astype"),
        (np.broadcast_to(np.float32(0), (40, 40)), {}, ArgumentError, "target.*writeable"),
        (x.T, {}, ArgumentError, "target shares memory"),
        (np.zeros_like(x), {"scheduler": "processes"}, ArgumentError, "scheduler.*processes.*threads"),
        (np.zeros_like(x), {"scheduler": "nonsense"}, ArgumentError, "no scheduler.*nonsense.*threads"),
        (np.zeros((40, 40), ">f4"), {}, ArgumentTypeError, "target.*>f4.*native byte order")]
    for target, options, error, words in refused:
        with pytest.raises(error, match=words):
            chunked.store(lazy, target, **options)
    with pytest.raises(ArgumentError, match="shares memory"):
        chunked.store(chunked.sobel(chunked.from_array(x, 20), device="cpu"), x)
    import dask
    (optimised,) = dask.optimize(chunked.sobel(chunked.from_array(x, 20), device="cpu"))
    with pytest.raises(ArgumentError, match="shares memory"):
        chunked.store(optimised, x)
    with pytest.raises(ArgumentTypeError, match="Dask array"):
        chunked.store(x, x)


def test_arrays_without_axes():
    x = np.full((), 3, np.float32)
    y = np.zeros_like(x)
    assert chunked.store(chunked.from_array(x), y) is y and y == 3
    chunked.store(da.ones((4, 5), dtype="float32").sum(), y)
    assert y == 20


def test_a_cluster_s_processes_cannot_write_here():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed (it is in the extra dask)")
    x = image(8, 8)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        with pytest.raises(ArgumentError, match="scheduler.*threads"):
            chunked.store(chunked.from_array(x, 4), np.empty_like(x))
        y = np.empty_like(x)
        chunked.store(chunked.from_array(x, 4), y, scheduler="threads")
        assert np.array_equal(x, y)
