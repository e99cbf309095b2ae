"""SciPy's calls on Dask's arrays with GPUs: chunks of NumPy through page-locked memory, chunks of CuPy, two GPUs."""

from __future__ import annotations

import os

import numpy as np
import pytest

import warpconv
from bench.studies.scale_calls import MODES, drawn_call
from tests import settings
from warpconv.codegen.errors import DeviceError
from warpconv.runtime.devices.cuda import contexts

da = pytest.importorskip("dask.array", reason="dask is not installed (it is in the extra dask)")
pytest.importorskip("distributed", reason="distributed is not installed (it is in the extra dask)")
zarr = pytest.importorskip("zarr", reason="zarr is not installed (it is in the extra dask)")

import warpconv.dask as chunked                                         # noqa: E402 - behind the skips
from warpconv.filters import weights                                    # noqa: E402
from warpconv.runtime.scale import locked, places, staging               # noqa: E402
from warpconv.runtime.scale.files import FileFilter, filter_file        # noqa: E402

pytestmark = pytest.mark.gpu
TAPS = np.array([[1.0, -2, 3, 4], [5, 6, -7, 8], [-9, 1, 2, 3]]) / 16


@pytest.fixture
def two():
    if contexts.count() < 2:
        pytest.skip(f"two GPUs are needed, {contexts.count()} visible")


def image(*shape):
    return settings.generator(81).standard_normal(shape).astype("float32")


def same(made, expected, exact):
    if exact:
        assert np.array_equal(made, expected)
    else:
        assert np.abs(made - expected).max() < 1e-5 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", [1, 8])
def test_numpy_chunks(mode, threads):
    x = image(700, 900)
    options = {"mode": mode, "cval": 2.0, "algorithm": "direct", "device": "cuda"}
    whole = warpconv.correlate(x, TAPS, **options)
    made = chunked.correlate(da.from_array(x, chunks=(200, 190)), TAPS, **options).compute(
        scheduler="threads", num_workers=threads)
    same(made, whole, True)


@pytest.mark.parametrize("name", ["gaussian_filter", "gaussian_laplace", "gaussian_gradient_magnitude"])
def test_several_kernels_stay_on_the_gpu(name):
    x = image(60, 300, 400)
    made = getattr(chunked, name)(da.from_array(x, chunks=(30, 150, 200)), 1.5).compute(scheduler="threads",
                                                                                      num_workers=6)
    same(made, getattr(warpconv, name)(x, 1.5, device="cuda"), False)


def test_page_locked_memory_comes_back():
    if places.cupy() is None:
        pytest.skip("CuPy, whose page-locked memory is used, is not installed")
    before = places._pins.used
    made = chunked.sobel(da.from_array(image(800, 800), chunks=200), device="cuda").compute()
    assert made.shape == (800, 800)
    del made
    import gc
    gc.collect()
    assert places._pins.used == before


@pytest.mark.parametrize("most", [2**33, 0])
def test_windows_in_many_parts_through_few_blocks(most, monkeypatch):
    """Windows of 200 parts each through two blocks of a GPU, with helpers; results in page-locked or other memory."""
    if places.cupy() is None:
        pytest.skip("CuPy, whose page-locked memory is used, is not installed")
    monkeypatch.setattr(staging, "BLOCK", 8192)
    monkeypatch.setattr(staging, "BLOCKS", 2)
    monkeypatch.setattr(staging, "MOST_PINNED", most)
    monkeypatch.setattr(places, "lanes", places.Lanes(places._lane))
    monkeypatch.setattr(places, "_blocks", {})
    monkeypatch.setattr(places, "_helpers", staging.Helpers(3))
    x = image(1200, 1300)
    options = {"mode": "wrap", "algorithm": "direct", "device": "cuda"}
    whole = warpconv.correlate(x, TAPS, **options)
    for d in (da.from_array(x, chunks=600), da.from_array(x, chunks=330) + 0):      # views in memory, results of tasks
        made = chunked.correlate(d, TAPS, **options).compute(scheduler="threads", num_workers=8)
        same(made, whole, True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("locks", ["neither", "input", "both"])
def test_memory_is_read_and_written_where_it_lies(mode, locks):
    """Volumes and their chunks' overlaps, in a target with gaps; bit for bit what the whole call makes."""
    if places.cupy() is None:
        pytest.skip("CuPy, whose page-locked memory is used, is not installed")
    x, y = image(70, 400, 500), np.full((70, 420, 600), np.nan, "float32")
    target = y[:, 10:410, 30:530]
    options = {"mode": mode, "axes": (1, 2), "algorithm": "direct", "device": "cuda"}
    lazy = chunked.correlate(chunked.from_array(x, (30, 200, 250)), TAPS, **options)
    with chunked.locked(*{"neither": (), "input": (x,), "both": (x, y)}[locks]):
        with locked.locks.reading(places.runtime(), [x]) as told:
            assert told == (locks != "neither")
        for _ in range(3):
            target[...] = np.nan
            chunked.store(lazy, target, num_workers=8)
            same(target, warpconv.correlate(x, TAPS, **options), True)
    assert np.isnan(y).sum() == y.size - target.size
    with locked.locks.reading(places.runtime(), [x]) as told:
        assert not told


def test_memory_of_cupy_and_pytorch_that_is_locked_already():
    cupyx = pytest.importorskip("cupyx")
    torch = pytest.importorskip("torch")
    for x in (cupyx.zeros_pinned((600, 700), np.float32), torch.zeros(600, 700).pin_memory().numpy()):
        x[...] = image(600, 700)
        y = np.zeros_like(x)
        with locked.locks.reading(places.runtime(), [x]) as told:
            assert told
        with chunked.locked(x):
            chunked.store(chunked.sobel(chunked.from_array(x, 300), device="cuda", algorithm="direct"), y)
        same(y, warpconv.sobel(x, device="cuda", algorithm="direct"), True)


def test_a_mapped_file_is_refused_in_words(tmp_path):
    if places.cupy() is None:
        pytest.skip("CuPy, whose page-locked memory is used, is not installed")
    x = np.memmap(tmp_path / "x", "float32", "w+", shape=(1000, 1000))
    x.flush()
    x = np.memmap(tmp_path / "x", "float32", "r", shape=(1000, 1000))
    try:
        with chunked.locked(x):
            pass            # some systems lock what is mapped
    except DeviceError as error:
        assert "files that are mapped have to be read" in str(error)
    assert not locked.locks._ranges


def test_cupy_chunks_stay_where_they_are():
    cupy = pytest.importorskip("cupy")
    x = image(500, 600)
    for mode in MODES:
        made = chunked.gaussian_filter(da.from_array(cupy.asarray(x), chunks=170, asarray=False), 2, mode=mode)
        assert type(made._meta) is cupy.ndarray
        found = made.compute(scheduler="threads", num_workers=4)
        assert type(found) is cupy.ndarray
        same(cupy.asnumpy(found), warpconv.gaussian_filter(x, 2, mode=mode, device="cuda"), False)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_calls_agree(seed):
    name, x, chunks, arguments, options = drawn_call(settings.generator(82, seed))
    options["device"] = "cuda"
    made = getattr(chunked, name)(da.from_array(x, chunks=chunks), *arguments, **options).compute(
        scheduler="threads", num_workers=3)
    whole = getattr(warpconv, name)(x, *arguments, **options)
    same(made, whole, "algorithm" in options or made.dtype.kind != "f")


def test_files(tmp_path):
    x = settings.generator(83).integers(0, 256, (1500, 1700), "uint8")
    zarr.create_array(str(tmp_path / "a.zarr"), shape=x.shape, chunks=(256, 256), dtype=x.dtype)[:] = x
    how = {"input": str(tmp_path / "a.zarr"), "taps": weights("gaussian:9"), "algorithm": "direct", "threads": 8}
    filter_file(FileFilter(**how, output=str(tmp_path / "b.zarr"), device="cuda", memory="8M"))
    filter_file(FileFilter(**how, output=str(tmp_path / "c.zarr"), device="cuda", memory="8G"))
    assert np.array_equal(*(zarr.open_array(str(tmp_path / name), mode="r")[:] for name in ("b.zarr", "c.zarr")))
    filter_file(FileFilter(**how, output=str(tmp_path / "d.zarr"), device="cpu", memory="8G"))
    b, d = (zarr.open_array(str(tmp_path / name), mode="r")[:].astype(int) for name in ("b.zarr", "d.zarr"))
    assert np.abs(b - d).max() <= 1 and (b != d).mean() < 1e-3


# ---- two GPUs of one host

def test_threads_use_both_gpus(two, monkeypatch):
    used = set()
    run = places.run

    def noted(call, block, device, kept, into):
        def told(array, where, stream):
            used.add(where)
            return call(array, where, stream)
        return run(told, block, device, kept, into)

    monkeypatch.setattr(places, "run", noted)
    x = image(2000, 2000)
    made = chunked.gaussian_filter(da.from_array(x, chunks=250), 2, device="cuda").compute(scheduler="threads",
                                                                                         num_workers=12)
    assert used == {"cuda:0", "cuda:1"}
    same(made, warpconv.gaussian_filter(x, 2, device="cuda:0"), False)


def test_a_worker_for_each_gpu(two):
    """As docs/scale.md has it without dask-cuda: each process sees its own GPU."""
    import distributed
    workers = {ordinal: {"cls": distributed.Nanny, "options": {
        "nthreads": 4, "resources": {"GPU": 1}, "env": {"CUDA_VISIBLE_DEVICES": str(ordinal)}}} for ordinal in (0, 1)}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False}}
    x = image(1000, 1000)
    with distributed.SpecCluster(workers=workers, scheduler=scheduler) as made, distributed.Client(made) as client:
        assert sorted(client.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"]).values()) == ["0", "1"]
        lazy = chunked.gaussian_filter(da.from_array(x, chunks=200), 2, mode="wrap", device="cuda")
        found = client.compute(lazy).result(timeout=300)
    same(found, warpconv.gaussian_filter(x, 2, mode="wrap", device="cuda"), False)


def test_a_local_cuda_cluster(two):
    dask_cuda = pytest.importorskip("dask_cuda")
    import distributed
    x = image(1000, 1000)
    with dask_cuda.LocalCUDACluster(n_workers=2, dashboard_address=None) as made, distributed.Client(made) as client:
        lazy = chunked.sobel(da.from_array(x, chunks=200), device="cuda")
        same(client.compute(lazy).result(timeout=300), warpconv.sobel(x, device="cuda"), False)
