"""The study memory_wall from end to end on a fake device, and what its tables say of a run."""

import json
from types import SimpleNamespace

import pytest

import bench.__main__ as main
from bench import empty_kernel
from bench.devices import HostDevice, NoDevice
from bench.peers import libraries as peers
from bench.studies import memory_wall, wall_tables
from bench.studies.wall_layers import layers
from tests.bench.fakes import FakeDevice
from warpconv.codegen.errors import UnsupportedSpec

BY_KEY = {wall.key: wall for wall in layers()}


@pytest.mark.long
def test_from_end_to_end_on_a_fake_device(tmp_path):
    found = main.run(memory_wall.STUDY, tmp_path, quick=True, device=FakeDevice())
    rows = [row for row in found.rows.values() if row["kind"] == "layer"]
    assert {row["group"] for row in rows} == {"planes", "depthwise", "large filters", "small planes"}
    assert {row["layout"] for row in rows} == {"NCHW", "NHWC"} and len({row["dtype"] for row in rows}) == 3
    for row in rows:
        assert row["status"] == "ok" and row["ms"] > 0 and row["copy_ms"] > 0 and row["settings"], row
        assert row["of_floor"] == pytest.approx(row["floor_ms"] / row["ms"])
        assert "no GPU" in row["cuDNN_reason"]
    text = (tmp_path / "README.md").read_text()
    assert "| planes 3x3: times NPP's speed | 1.25 | - |" in text and "## Depthwise over cuDNN" in text
    assert "![memory_wall-roofline](memory_wall-roofline.svg)" in text
    assert all((tmp_path / name).exists() for name in ("memory_wall.csv", "memory_wall-of-floor.svg"))
    before = json.loads((tmp_path / "memory_wall.json").read_text())["rows"]
    again = main.run(memory_wall.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert {row["key"]: row for row in before} == again.rows


def test_a_layer_that_fails_is_a_row_and_stops_nothing(tmp_path, monkeypatch):
    real = memory_wall._plan

    def declined(context, wall, tuning):
        if wall.group == "large filters":
            raise UnsupportedSpec(None, "too large")
        return real(context, wall, tuning)

    monkeypatch.setattr(memory_wall, "_plan", declined)
    monkeypatch.setattr(FakeDevice, "wrong", 0.02)
    found = main.run(memory_wall.STUDY, tmp_path, quick=True, device=FakeDevice())
    status = {key: row["status"] for key, row in found.rows.items()}
    assert status["large filters/32x128x56/21x21/float32/NCHW"] == "declined: too large"
    assert status["planes/1x1x8192/3x3/float32/NCHW"].startswith("WRONG")
    assert "too large" in (tmp_path / "README.md").read_text()


@pytest.mark.long
def test_every_layer_has_a_plan_for_its_trial_and_for_itself():
    from warpconv.codegen.select import plan_layer
    for wall in BY_KEY.values():
        assert plan_layer(wall.shape, arch="sm_90").program.entries
        trial = wall.trial
        assert (trial.r, trial.dtype, trial.layout) == (wall.shape.r, wall.shape.dtype, wall.shape.layout)
        assert trial.bytes_moved < 300_000 and trial.output_shape == trial.input_shape


def test_peers_serve_what_they_can():
    def names(key):
        return [peer.name for peer in memory_wall.peers_of(BY_KEY[key])]
    assert names("planes/1x1x4096/7x7/float32/NCHW") == ["cuDNN", "NPP", "CuPy"]
    assert names("planes/1x1x4096/9x9/float32/NCHW") == ["cuDNN", "NPP"]
    assert names("planes/1x1x4096/3x3/float16/NCHW") == names("depthwise/64x768x7/3x3/float32/NCHW") == ["cuDNN"]


def judged(key, **values):
    """A measured row of a layer with these values, as the study judges it."""
    wall = BY_KEY[key]
    row = {"key": key, "status": "ok", "ms": 1.0, "gbs": 1.0, "tflops": 1.0, "of_copy": 0.9, "of_floor": 0.9,
           "bound": "copy", "algorithm": "wide", **memory_wall.fields_of(wall), **values}
    return row | memory_wall._judged(wall, row)


def test_a_row_is_met_missed_or_unknown():
    key = "planes/1x1x8192/5x5/float32/NCHW"
    assert judged(key, of_copy=0.91, NPP_speedup=1.7)["met"] is True
    assert judged(key, of_copy=0.89, NPP_speedup=9.0)["met"] is False
    assert judged(key, of_copy=0.91)["met"] is None
    assert judged("planes/1x1x8192/3x3/float32/NCHW", of_copy=0.95, NPP_speedup=1.24)["met"] is False
    small = "small planes/1x1x256/3x3/float32/NCHW"
    quicker = {f"{peer}_speedup": 2.0 for peer in wall_tables.PEERS}
    assert judged(small, of_launch_and_copy=0.78, **quicker)["met"] is True
    assert judged(small, of_launch_and_copy=0.76, **quicker)["met"] is False
    assert judged("depthwise/64x768x7/3x3/float32/NHWC")["met"] is None      # an extra row


def test_the_summary_tells_the_worst_row_and_the_geometric_mean():
    found = [judged("planes/1x1x4096/3x3/float32/NCHW", of_copy=0.96, NPP_speedup=2.0),
             judged("planes/1x1x8192/5x5/float32/NCHW", of_copy=0.93, NPP_speedup=1.5),
             judged("depthwise/64x768x7/3x3/float32/NCHW", cuDNN_speedup=2.0, cuDNN_ms=2.0),
             judged("depthwise/64x768x7/3x3/float16/NHWC", cuDNN_speedup=18.0, cuDNN_ms=18.0),
             judged("depthwise/64x768x7/3x3/float32/NHWC", cuDNN_speedup=1000.0, cuDNN_ms=9.0)]
    made = wall_tables.tables({row["key"]: row for row in found})
    lines = {line[0]: line[1:] for line in made[0].rows}
    assert lines["planes float32 3x3 and 5x5: of copy"] == (0.90, 0.95, 0.93, "8192^2, 5x5, float32", "2 of 2", True,
                                                            False)
    assert lines["planes 5x5: times NPP's speed"][2:] == (1.5, "8192^2, 5x5, float32", "0 of 1", False, None)
    mean = lines["depthwise: geometric mean of the speedups over cuDNN"]
    assert mean[2] == pytest.approx(6.0) and mean[5] is True
    assert made[1].rows[-1] == ("all", 2, pytest.approx(6.0), 2.0, 18.0)
    row = next(table for table in made if table.title == "Depthwise").rows[0]
    assert row[7:10] == ("cuDNN", 2.0, 2.0)


def test_a_failing_peer_is_told_in_the_row(monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("status 7")
    monkeypatch.setattr(peers, "run_peer", fail)
    peer = peers.PLANE_PEERS[1]
    assert memory_wall._peer(HostDevice(), None, peer, 1.0, False) == {"reason": "RuntimeError: status 7"}


def test_the_launch_of_nothing_goes_to_the_devices_stream(monkeypatch):
    with pytest.raises(NoDevice):
        empty_kernel.launch_time(HostDevice())
    launched = []

    class Module:
        def __init__(self, cubin):
            assert cubin == b"cubin"

        def launcher(self, entry, types, block):
            assert f"void {entry}()" in empty_kernel.SOURCE and types == () and block == (32, 1, 1)
            return lambda grid, args, stream: launched.append((grid, args, stream))

    monkeypatch.setattr("warpconv.runtime.build.compilers.compile_source",
                        lambda text, arch, name: SimpleNamespace(cubin=b"cubin"))
    monkeypatch.setattr("warpconv.runtime.devices.cuda.modules.CudaModule", Module)
    device = FakeDevice()
    device.kind = "fake"
    monkeypatch.setattr(device, "stream", lambda: 77)
    assert empty_kernel.launch_time(device)["ms"] > 0
    assert set(launched) == {((1, 1, 1), (), 77)}
