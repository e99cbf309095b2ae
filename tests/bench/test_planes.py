"""The study planes from end to end on a fake device, and what its tables say of a run."""

import dataclasses
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import bench.__main__ as main
from bench import harness
from bench.devices import HostDevice
from bench.peers import libraries as peers
from bench.studies import planes, planes_tables, variants
from tests.bench.fakes import FakeDevice
from warpconv.codegen import plan
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain


@pytest.mark.long
def test_from_end_to_end_on_a_fake_device(tmp_path, monkeypatch):
    monkeypatch.setattr(planes, "QUICK_FILTERS", (3,))
    found = main.run(planes.STUDY, tmp_path, quick=True, device=FakeDevice())
    for size in planes.QUICK_SIZES:
        rows = {row["name"]: row for row in found.rows.values() if row.get("size") == size}
        assert set(rows) == {*ALGORITHMS, planes_tables.CHOICE, *(peer.name for peer in planes.PEERS)}
        chosen = rows[planes_tables.CHOICE]
        assert chosen["status"] == "ok" and chosen["chosen_by"] == "the planner's rules"
        assert chosen["algorithm"] == explain(planes._shape(SimpleNamespace(device=FakeDevice()), size, 3))[0].algorithm
        assert rows["direct"]["gbs"] > 0 and rows["direct"]["workspace_bytes"] == 0
        assert rows["toeplitz"]["status"].startswith("declined: element type float32")
        assert rows["cuCIM"]["status"] == rows["im2col (PyTorch)"]["status"] == "skipped: no GPU"
    text = (tmp_path / "README.md").read_text()
    assert "| cuCIM | skipped: no GPU | 2 | 3x3, 512^2 |" in text and "## 3x3: times" in text
    assert (tmp_path / "planes.svg").exists()
    before = dict(found.rows)
    again = main.run(planes.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert all(again.rows[key] == row for key, row in before.items() if row["status"] == "ok")


def test_a_wrong_kernel_is_not_timed_and_stops_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(planes, "QUICK_FILTERS", (3,))
    monkeypatch.setattr(planes, "QUICK_SIZES", (256,))
    monkeypatch.setattr(FakeDevice, "wrong", 1e-3)
    found = main.run(planes.STUDY, tmp_path, quick=True, device=FakeDevice())
    wrong = [row for row in found.rows.values() if row["status"].startswith("WRONG")]
    assert {row["name"] for row in wrong} >= {"direct", "reuse", planes_tables.CHOICE}
    assert not any("ms" in row for row in wrong)


def test_plans_are_made_for_the_plane_and_compiled_once(tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(planes, "compile_ahead", lambda device, plans: compiled.extend(plan() for plan in plans))
    monkeypatch.setattr(planes, "QUICK_FILTERS", (3,))
    main.run(planes.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert compiled and all(plan.program.entries for plan in compiled)
    compiled.clear()
    main.run(planes.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert compiled == []


def rows_of(times, taps=3, size=4096):
    """Measured rows of one plane."""
    return {f"{taps}x{taps}/{size}/{name}": {
        "key": f"{taps}x{taps}/{size}/{name}", "status": "ok", "kind": "ours", "name": name, "filter": taps,
        "size": size, "ms": ms, "algorithm": "wide", "chosen_by": "x"} for name, ms in times.items()}


def test_the_base_is_the_quicker_im2col_plane_by_plane():
    found = planes_tables.Planes(rows_of({"im2col": 4.0, "im2col (PyTorch)": 8.0, "reuse": 1.0})
                                 | rows_of({"im2col": 4.0, "im2col (PyTorch)": 2.0, "reuse": 1.0}, size=256))
    assert found.speedup(3, 4096, "reuse") == 4.0 and found.speedup(3, 256, "reuse") == 2.0
    assert found.speedup(3, 256, "im2col") == 0.5 and found.speedup(3, 256, "wide") is None
    alone = planes_tables.Planes(rows_of({"im2col (PyTorch)": 2.0, "reuse": 1.0}))
    assert alone.speedup(3, 4096, "reuse") == 2.0 and planes_tables.Planes({}).speedup(3, 256, "reuse") is None


def test_claims_are_means_over_the_documents_sizes_or_a_dash():
    rows = {}
    for number, size in enumerate(planes_tables.PAPER_SIZES):
        rows |= rows_of({"im2col": 2.0 + number, "reuse": 1.0, "select()": 0.5, "NPP": 3.0, "CuPy": 1.5}, size=size)
    claims = {line[0]: line[1:] for line in planes_tables.tables(rows)[1].rows}
    assert claims["3x3: mean speedup over GEMM-im2col"] == ("5.4", 4.0, 8.0)
    assert claims["3x3: speedup over GEMM-im2col at 4096^2"] == ("9.7", 6.0, 12.0)
    assert claims["3x3: mean speedup over NPP, their second best"][1:] == (3.0, 6.0)
    assert claims["3x3: mean speedup over the quickest image library"][1:] == (1.5, 3.0)
    assert claims["5x5: mean speedup over GEMM-im2col"] == ("7.7", None, None)
    del rows["3x3/256/reuse"]
    claims = {line[0]: line[1:] for line in planes_tables.tables(rows)[1].rows}
    assert claims["3x3: mean speedup over GEMM-im2col"] == ("5.4", None, 8.0)


def test_the_choice_is_held_against_our_quickest_and_the_quickest_library():
    rows = rows_of({"select()": 1.2, "direct": 2.0, "wide": 1.0, "NPP": 3.6, "cuDNN": 6.0, "device copy": 0.1})
    rows |= rows_of({"select()": 1.0, "wide": 1.05}, size=256)
    table = next(table for table in planes_tables.tables(rows) if table.title == "The choice")
    small, large = table.rows
    assert large[4:6] == ("wide", 1.0) and large[6] == pytest.approx(1.2)
    assert large[7] == "NPP" and large[8] == pytest.approx(3.0)
    assert small[4:] == ("select()", 1.0, 1.0, None, None) and table.text.startswith("1 of 2 choices are within 10 %")


# ---- peers

def gpu(**more):
    device = FakeDevice()
    device.kind = more.pop("kind", "fake")
    for name, value in more.items():
        setattr(device, name, value)
    return device


def convolved(x, layer):
    """The layer's result in float32, computed on the host."""
    return harness.reference(HostDevice(), x, layer.w, layer.shape).exact.astype(np.float32)


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_cucim_is_checked_inside_the_border(monkeypatch, wrong):
    layer = harness.make_layer(gpu(), variants.plane(20, 5))
    asked = []

    def correlate_sparse(x, w, mode):
        asked.append((w.shape, mode))
        result = convolved(x[None, None], layer)[0, 0]
        result[:2] = result[-2:] = 7.0          # another border
        return result + wrong

    fake = SimpleNamespace(asarray=np.asarray, asnumpy=np.asarray, cuda=SimpleNamespace(
        runtime=SimpleNamespace(deviceSynchronize=lambda: None)))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    for name in ("cucim", "cucim.skimage"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cucim.skimage.filters", SimpleNamespace(correlate_sparse=correlate_sparse))
    if wrong:
        with pytest.raises(harness.WrongResult):
            peers.run_peer(gpu(), layer, peers.CUCIM)
        return
    assert peers.run_peer(gpu(), layer, peers.CUCIM)["ms"] > 0 and asked[0] == ((5, 5), "nearest")


def test_im2col_of_pytorch_switches_cudnn_off_for_its_calls_alone(monkeypatch):
    layer = harness.make_layer(gpu(), variants.plane(20, 3))
    cudnn = SimpleNamespace(enabled=True)
    seen = []

    def conv(x):
        seen.append(cudnn.enabled)
        return convolved(x, layer)

    monkeypatch.setattr(peers, "torch_conv", lambda device, layer: conv)
    device = gpu(kind="torch", torch=SimpleNamespace(backends=SimpleNamespace(cudnn=cudnn)))
    assert peers.run_peer(device, layer, peers.IM2COL)["error"] < 1e-6
    assert seen and not any(seen) and cudnn.enabled


# ---- a call of several launches

def two_steps(one):
    """A plan whose second launch reads what its first left in a workspace."""
    launch = one.program.steps[0]
    room = plan.Workspace(name="room", bytes_each=4, first_step=0, last_step=1)
    return dataclasses.replace(one, program=dataclasses.replace(
        one.program, steps=(launch, dataclasses.replace(launch, entry="second")), workspaces=(room,)))


def test_the_first_of_several_launches_is_a_plan_of_its_own():
    one = planes.plan_layer(variants.plane(20, 3), algorithm="direct")
    alone = harness.first_step(two_steps(one))
    assert alone.program.steps == one.program.steps and alone.program.entries == ("direct_3x3",)
    assert [(room.first_step, room.last_step) for room in alone.program.workspaces] == [(0, 0)]
    assert harness.first_step(one) is None
    library = plan.LibraryCall(operation="gemm", operands=())
    first = dataclasses.replace(one, program=dataclasses.replace(one.program, steps=(library, *one.program.steps)))
    assert harness.first_step(first) is None


def test_the_first_of_several_launches_is_timed_and_shown():
    one = planes.plan_layer(variants.plane(20, 3), algorithm="direct")
    layer = harness.make_layer(FakeDevice(), variants.plane(20, 3))
    timed = harness.time_first_step(FakeDevice(), layer, two_steps(one), graph=False)
    assert timed["first_step"] == "direct_3x3" and timed["first_step_ms"] > 0
    assert harness.time_first_step(FakeDevice(), layer, one, graph=False) == {}
    rows = rows_of({"im2win": 3.0, "reuse": 1.0}) | rows_of({"im2win": 5.0}, size=8192)
    rows["3x3/4096/im2win"] |= {"first_step": "im2win_transform", "first_step_ms": 1.0}
    table = next(table for table in planes_tables.tables(rows) if table.title == "3x3: times")
    assert all(len(line) == len(table.columns) for line in table.rows)
    lines = {line[0]: line[1:3] for line in table.rows}
    assert lines["- im2win_transform alone"] == (1.0, None) and lines["- im2win without it"] == (2.0, None)


def test_the_main_entry_is_the_one_that_makes_the_output():
    one = planes.plan_layer(variants.plane(20, 3), algorithm="direct").program
    launch = one.steps[0]
    before = dataclasses.replace(launch, entry="before", arguments=("x",))
    prepared = plan.Preparation(steps=(dataclasses.replace(launch, entry="filter"),))
    assert harness.main_entry(dataclasses.replace(one, steps=(before, launch), preparation=prepared)) == launch.entry
    assert harness.main_entry(dataclasses.replace(one, steps=(launch, before))) == launch.entry
    repeated = plan.Repeat(of=plan.Dimension.N, index="n", steps=(before, plan.LibraryCall(operation="g", operands=())))
    assert harness.main_entry(dataclasses.replace(one, steps=(repeated,))) == "before"
