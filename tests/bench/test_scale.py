"""The study of scale, small, on the CPU device."""

from __future__ import annotations

import types

import numpy as np
import pytest

import bench.__main__ as main
from bench.devices import HostDevice
from bench.studies import scale, scale_memory
from tests import checks
from tests.runtime.scale.played import gpus  # noqa: F401 - a fixture

for name in ("dask.array", "distributed", "zarr", "scipy"):
    pytest.importorskip(name, reason=f"{name} is not installed (it is in the test extra)")

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.mark.long
def test_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "HOST", scale.Size(400, 256, 256, 128, 4))
    for module in (scale, scale_memory):
        monkeypatch.setattr(module, "SIGMA", 1.0)
    monkeypatch.setattr(scale_memory, "LARGE", 5)
    monkeypatch.setattr(scale, "TRIAL_CALLS", 3)
    found = main.run(scale.STUDY, tmp_path, quick=True, device=HostDevice())
    rows = found.rows
    assert rows["zarr to zarr"]["5x5 share"] > 0
    assert all(rows[f"host to host, {way}"]["gbs"] > 0 for way in scale_memory.WAYS)
    assert rows["overhead"]["loop"] > 0 and rows["overhead"]["dask"] > 0
    assert rows["two GPUs, host to host"]["status"].startswith("skipped: two GPUs are needed")
    agreed = [row for key, row in rows.items() if key.startswith("agreement")]
    assert sum(row["calls"] for row in agreed) == 3 and all(row["status"] == "ok" for row in agreed)
    assert "## Zarr to zarr" in (tmp_path / "README.md").read_text()


def test_a_wrong_result_is_told(monkeypatch):
    import warpconv.dask as chunked
    call = chunked.gaussian_filter
    monkeypatch.setattr(chunked, "gaussian_filter", lambda x, sigma, **rest: call(x, 1.02 * sigma, **rest))
    with pytest.raises(scale_memory.WrongResult, match="off"):
        scale_memory.filtered(scale_memory.Size(0, 0, 256, 128, 4), 1, "cpu")


def test_what_is_asked_is_told():
    assert scale._met(0.81, 0.8, 0.95) == ("yes", "no")
    assert scale._met(None, 0.8, 0.95) == (None, None)
    assert scale._met(-0.2, -0.15, -0.05) == ("no", "no")


def test_the_stages_that_need_no_gpu(monkeypatch, capsys, tmp_path):
    from bench import scale_stages
    monkeypatch.setenv("SCALE_DIR", str(tmp_path))
    monkeypatch.setattr(scale_stages.places, "cupy", lambda: None)
    scale_stages.Stages(512, 128, [1, 2], "").all()
    lines = capsys.readouterr().out.splitlines()
    told = {line[:44].rstrip(): line[44:].split() for line in lines}
    assert all(len(told[f"window to a block of {size} MB"]) == 2 for size in (1, 4, 8, 32))
    assert "result to the output" in told and any("no GPU, or no CuPy" in line for line in lines)
    assert sum("ms a chunk" in line for line in lines) == 2 and sum("zarr to zarr" in line for line in lines) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_forms_of_chunks_are_compared(monkeypatch, capsys):
    from bench import scale_lines
    monkeypatch.setattr(scale_lines, "FORMS", ((64, 64), (32, -1)))
    monkeypatch.setattr("sys.argv", ["scale_lines", "--side", "150", "--device", "cpu"])
    scale_lines.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[0] for line in lines[:2]] == ["chunks of (64, 64)", "chunks of (32, -1)"]
    assert float(lines[0].split()[-1]) > 0 and "needs a GPU" in lines[2]


def test_copies_with_kernels_between_go_there_and_back(gpus, monkeypatch, capsys):
    from bench import scale_lines
    ran = []
    gpus.RawModule = lambda code: types.SimpleNamespace(
        get_function=lambda name: lambda *told: ran.append((name, told)))
    monkeypatch.setattr(scale_lines, "CHUNK", 256)
    monkeypatch.setattr(scale_lines, "pinned_copies", lambda nbytes, device: (0.5, 1.0))
    x, y = scale_lines._both(512)
    y[:] = 0
    scale_lines.between(512, "cuda:0")
    assert np.array_equal(x, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(scale_lines.BETWEEN) and all(float(line.split()[-1]) >= 0 for line in lines)
    blocks = {grid[0] for _, (grid, _, _) in ran}
    assert len(ran) == 4 * 4 * 6 and max(blocks) == 64 * 2**20 // 16 // 256 and min(blocks) == 1
    assert {direction for direction, _, _ in gpus.cuda.runtime.copies} == {1, 2} and not gpus.cuda.runtime.locked


def test_a_stage_that_fails_is_told():
    from bench import scale_stages

    def fails(item):
        if item == 3:
            raise MemoryError("no more")

    with pytest.raises(MemoryError, match="no more"):
        scale_stages._seconds(fails, 8, 2)
