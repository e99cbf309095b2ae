"""Real schedulers and worker processes on the CPU device: results, and workers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

import warpconv
from bench.studies.scale_calls import drawn_call
from tests import checks, settings
from warpconv.codegen.errors import DeviceError
from warpconv.filters import weights

from .calls import agree

da = pytest.importorskip("dask.array", reason="dask is not installed (it is in the extra dask)")
distributed = pytest.importorskip("distributed", reason="distributed is not installed (it is in the extra dask)")
zarr = pytest.importorskip("zarr", reason="zarr is not installed (it is in the extra dask)")
pytest.importorskip("scipy", reason="scipy is not installed (it is in the test extra)")

import dask                                                             # noqa: E402 - behind the skips
import warpconv.dask as chunked                                         # noqa: E402
from warpconv.runtime.scale.files import FileFilter, filter_file        # noqa: E402

pytestmark = [pytest.mark.long,
              pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))]


@pytest.fixture(scope="module")
def client():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None,
                                  resources={"GPU": 1}) as cluster, distributed.Client(cluster) as made:
        yield made


def image(*shape):
    return settings.generator(61).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("seed", range(12))
def test_drawn_calls_agree_over_processes(client, seed):
    agree(*drawn_call(settings.generator(62, seed)), run=lambda array: client.compute(array).result())


def test_threads_share_the_cpu_device():
    x = image(90, 90)
    made = chunked.gaussian_filter(da.from_array(x, chunks=20), 1.5, device="cpu", algorithm="direct")
    assert np.array_equal(made.compute(scheduler="threads", num_workers=4),
                          warpconv.gaussian_filter(x, 1.5, device="cpu", algorithm="direct"))


def test_an_annotated_call_goes_to_workers_with_the_resource(client):
    """As docs/scale.md has it: with one GPU to a worker, one chunk at a time is on it."""
    x = image(40, 40)
    with dask.annotate(resources={"GPU": 1}):
        made = chunked.sobel(da.from_array(x, chunks=20), device="cpu", algorithm="direct")
    with dask.annotate(resources={"TPU": 1}):
        never = chunked.sobel(da.from_array(x, chunks=20), device="cpu", algorithm="direct", axis=0)
    with dask.config.set({"optimization.fuse.active": False}):      # fused tasks lose their annotations
        assert np.array_equal(client.compute(made).result(timeout=60),
                              warpconv.sobel(x, device="cpu", algorithm="direct"))
        waiting = client.compute(never)
        time.sleep(1)
        assert waiting.status == "pending"
        waiting.cancel()


def read(block, folder):
    """A slow reader that leaves a file each time that it reads."""
    Path(folder, uuid.uuid4().hex).touch()
    time.sleep(0.1)
    return block


def test_a_killed_worker_costs_its_own_chunks(client, tmp_path):
    x = image(120, 120)
    d = da.from_array(x, chunks=20).map_blocks(read, str(tmp_path), dtype=x.dtype, meta=np.empty((0, 0), x.dtype))
    made = client.compute(chunked.uniform_filter(d, 5, mode="wrap", device="cpu", algorithm="direct"))
    until = time.monotonic() + 60
    while len(os.listdir(tmp_path)) < 20 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    assert np.array_equal(made.result(timeout=120),
                          warpconv.uniform_filter(x, 5, mode="wrap", device="cpu", algorithm="direct"))
    assert 36 < len(os.listdir(tmp_path)) < 36 + 20        # read again: what the worker held, not all


def stored(path, x):
    array = zarr.create_array(str(path), shape=x.shape, chunks=(32, 32), dtype=x.dtype)
    array[:] = x
    return str(path)


def test_a_file_s_run_survives_a_killed_worker(tmp_path):
    x = settings.generator(63).integers(0, 256, (256, 256), "uint8")
    killed = []

    def kill(done, count):
        if done == 10:
            client = distributed.default_client()
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    how = {"input": stored(tmp_path / "a.zarr", x), "taps": weights("gaussian:5"), "device": "cpu"}
    done = filter_file(FileFilter(**how, output=str(tmp_path / "b.zarr"), memory=40_000, workers=2), kill)
    assert killed and done.chunks == 32
    filter_file(FileFilter(**how, output=str(tmp_path / "c.zarr"), memory="1G"))
    b, c = (zarr.open_array(str(tmp_path / name), mode="r")[:].astype(int) for name in ("b.zarr", "c.zarr"))
    assert (b != c).mean() < 1e-3 and np.abs(b - c).max() <= 1        # halves are rounded by sums of another order


def test_a_file_by_a_cluster_s_scheduler(client, tmp_path, monkeypatch):
    """Twice at a time of one name: a task of one run is not taken for the other's."""
    x = settings.generator(65).integers(0, 256, (64, 90), "uint8")
    monkeypatch.chdir(tmp_path)
    stored("a.zarr", x)
    how = {"input": "a.zarr", "taps": np.ones((1, 1)), "device": "cpu", "scheduler": client.scheduler.address}
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()

    def second(done, count):
        if done == 1:
            filter_file(FileFilter(**how, output="two/b.zarr"))

    filter_file(FileFilter(**how, output="one/b.zarr"), second)
    for folder in ("one", "two"):
        assert np.array_equal(zarr.open_array(f"{folder}/b.zarr", mode="r")[:], x)


def test_each_worker_sees_a_gpu_of_its_own(tmp_path, monkeypatch):
    from warpconv.runtime.scale import files
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    how = FileFilter(input="a.zarr", output="b.zarr", taps=None, device="cuda", workers=2)
    with files._cluster(how, distributed) as cluster, distributed.Client(cluster) as made:
        assert sorted(made.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"]).values()) == ["5", "7"]
        assert set(made.nthreads().values()) == {files.GPU_THREADS}


def test_workers_that_are_killed_again_and_again_are_told(tmp_path, monkeypatch):
    """Each dies over its first chunk; what it may have written does not become an output."""
    x = np.zeros((64, 64), "uint8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Dies:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'warpconv.runtime.scale.chunk': import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.meta_path.insert(0, Dies())\n")
    how = FileFilter(input=stored(tmp_path / "a.zarr", x), output=str(tmp_path / "b.zarr"), taps=np.ones((3, 3)),
                     device="cpu", workers=1, memory="1M")
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), pytest.raises(DeviceError) as caught:
        filter_file(how)
    assert "a worker was lost" in str(caught.value) and not os.path.exists(how.output)


def test_a_killed_command_is_continued(tmp_path):
    x = settings.generator(64).integers(0, 256, (700, 700), "uint8")
    command = [sys.executable, "-m", "warpconv.cli", "filter", stored(tmp_path / "a.zarr", x), str(tmp_path / "b.zarr"),
               "--kernel", "gaussian:9", "--device", "cpu", "--memory", "400k", "--json"]
    begun = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    done = tmp_path / ".b.zarr.part" / "done"
    until = time.monotonic() + 120
    while (not done.is_dir() or len(os.listdir(done)) < 3) and time.monotonic() < until and begun.poll() is None:
        time.sleep(0.002)
    begun.kill()
    assert begun.wait() == -signal.SIGKILL, "it was done before it could be killed"
    assert not (tmp_path / "b.zarr").exists()
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert '"resumed": 0,' not in again.stdout
    filter_file(FileFilter(input=command[4], output=str(tmp_path / "c.zarr"), taps=weights("gaussian:9"), device="cpu"))
    b, c = (zarr.open_array(str(tmp_path / name), mode="r")[:].astype(int) for name in ("b.zarr", "c.zarr"))
    assert np.abs(b - c).max() <= 1 and (b != c).mean() < 1e-3
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith(".")) == []
