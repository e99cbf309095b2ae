"""The studies' own code, without a GPU: registry, resuming, files, timing, references, NPP's call, ncu's CSV."""

import ctypes
import importlib
import json
import math
import shutil
import subprocess
import sys
import xml.dom.minidom
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import bench.__main__ as main
from bench import counts, environment, harness, ncu, ncu_target, npp, peers, report, selection, study, variants
from bench.devices import HostDevice, NoDevice, open_device
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape


class FakeKernel:
    """Computes in float64 on the host, as a kernel that is right would."""

    program = report = None

    def __init__(self, shape, wrong=0.0):
        self.shape, self.wrong = shape, wrong

    def prepare(self, weight):
        return weight.copy()

    def __call__(self, x, w, out=None):
        found = harness.reference(HostDevice(), x, w, self.shape, images=range(self.shape.n)).exact + self.wrong
        if out is None:
            return found.astype(np.float32)
        out[...] = found
        return out


class FakeDevice(HostDevice):
    name, wrong = "a fake", 0.0

    def specialize(self, shape, plan):
        return FakeKernel(shape, self.wrong)


def open_report(tmp_path, **options):
    made = report.Report.open("demo", tmp_path, **options)
    made.runs.append(environment.record(FakeDevice(), ["demo"]))
    return made


# ---- registry and command line

@pytest.mark.parametrize("name", main.STUDIES)
def test_every_study_is_found_and_named_as_it_is_called(name):
    found = main.study(name)
    assert found.name == name and found.about and found.summary
    assert list(found.tables({})) is not None


def test_help_tells_the_studies():
    said = CliRunner().invoke(main.main, ["--help"]).output
    assert all(name in said for name in main.STUDIES)


def test_without_a_gpu_a_study_that_needs_one_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(main, "open_device", lambda wanted: (_ for _ in ()).throw(NoDevice("nothing here")))
    done = CliRunner().invoke(main.main, ["variants", "-o", str(tmp_path)])
    assert done.exit_code == 1 and "nothing here" in done.output


def test_a_machine_without_libraries_gives_both_reasons(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(NoDevice, match="PyTorch.*CuPy"):
        open_device()


# ---- report

def test_rows_are_on_the_disk_at_once_and_resumed(tmp_path):
    context = study.Context(FakeDevice(), open_report(tmp_path))
    context.row("a", lambda: {"ms": 1.0}, size=3)
    context.row("b", lambda: (_ for _ in ()).throw(NoDevice("not here")))
    assert json.loads((tmp_path / "demo.json").read_text())["rows"][0] == {
        "key": "a", "run": 0, "status": "ok", "size": 3, "ms": 1.0}
    again = study.Context(FakeDevice(), open_report(tmp_path))
    assert again.row("a", lambda: pytest.fail("measured twice"))["ms"] == 1.0
    assert again.row("b", lambda: {"ms": 2.0}) == {"key": "b", "run": 1, "status": "ok", "ms": 2.0}
    assert open_report(tmp_path, fresh=True).rows == {}


@pytest.mark.parametrize("error, status", [(NoDevice("gone"), "skipped: gone"), (harness.WrongResult("2"), "WRONG: 2"),
                                           (KeyError("x"), "failed: KeyError: 'x'")])
def test_what_goes_wrong_is_the_rows_status(tmp_path, error, status):
    def fail():
        raise error
    assert study.Context(FakeDevice(), open_report(tmp_path)).row("a", fail)["status"] == status


def test_a_lost_device_stops_the_study(tmp_path):
    class Lost(FakeDevice):
        def synchronize(self):
            raise RuntimeError("illegal address")
    with pytest.raises(study.Stopped, match="ValueError.*illegal address"):
        study.Context(Lost(), open_report(tmp_path)).row("a", lambda: int("x"))


def test_four_files_are_written(tmp_path):
    made = open_report(tmp_path)
    made.add("a", {"status": "ok", "ms": 0.123456, "values": {"x": 1}})
    made.add("b|c", {"status": "skipped: no NPP"})
    table = report.Table("Times", ("row", "ms", "empty"), (("a|b", 0.123456, None), ("c", 1234.5, None)))
    paths = made.write("What it is.", [table], {"": lambda figure: figure.add_subplot().plot([1, 2])})
    assert [p.name for p in paths] == ["demo.json", "demo.csv", "README.md", "demo.svg"]
    text = paths[2].read_text()
    assert "| a\\|b | 0.123 | - |" in text and "| c | 1234 | - |" in text and "|:--|--:|--:|" in text
    assert "- b|c: skipped: no NPP" in text and "![demo](demo.svg)" in text and "`python -m bench demo`" in text
    assert xml.dom.minidom.parse(str(paths[3])).documentElement.tagName == "svg"
    assert paths[1].read_text().splitlines()[0] == "key,run,status,ms,values"


def test_a_report_of_another_study_is_refused(tmp_path):
    (tmp_path / "demo.json").write_text('{"schema": 1, "study": "other", "rows": [], "runs": []}')
    with pytest.raises(ValueError, match="fresh"):
        open_report(tmp_path)


# ---- environment

def test_environment_without_a_gpu_is_complete_and_has_no_path(monkeypatch):
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    found = environment.record(HostDevice(), ["counts", "-o", "/some/where", "--quick"])
    assert found["command"] == "python -m bench counts --quick"
    assert found["clocks_before"] is None and found["commit"] is None and "numpy" in found["versions"]
    assert str(environment.ROOT) not in json.dumps(found)
    assert any("CPU device" in line for line in environment.describe(found))


def test_nvidia_smi_line():
    found = environment.parse_smi("NVIDIA H200, 580.159.03, 143771 MiB, 345 MHz, 3201 MHz, 1980 MHz, 31, 76.1 W\n")
    assert (found["driver_version"], found["clocks.sm"]) == ("580.159.03", "345 MHz")
    with pytest.raises(ValueError):
        environment.parse_smi("a, b")


# ---- timing and checking

def test_measure_goes_round_the_calls_and_falls_back_from_a_refused_graph():
    calls = [0, 0, 0]

    class Capturing(FakeDevice):
        can_capture, trial = True, False

        def sample(self, calls, count, hold_ms=0.0):
            super().sample(calls, count, hold_ms)
            return 0.01 * count

        def capture(self, calls, count):
            raise RuntimeError("no")

    made = [lambda i=i: calls.__setitem__(i, calls[i] + 1) for i in range(3)]
    timing = harness.measure(Capturing(), made, repeats=20)
    assert timing.method == "events (no graph: RuntimeError)" and timing.ms == pytest.approx(0.01)
    assert timing.repeats == 20 and timing.count % 3 == 0 and len(set(calls)) == 1


def test_measure_replays_a_graph_of_all_calls():
    class Capturing(FakeDevice):
        can_capture, trial, captured = True, False, None

        def sample(self, calls, count, hold_ms=0.0):
            return 0.5 if self.captured else 0.01 * count

        def capture(self, calls, count):
            self.captured = count
            return lambda: None

    device = Capturing()
    timing = harness.measure(device, [lambda: None])
    assert timing.method == "graph" and timing.count == device.captured == 100
    assert timing.ms == pytest.approx(0.005)


def test_buffers_rotate_through_more_than_the_cache():
    assert harness.rotation(8 << 20) == 32 and harness.rotation(512 << 20) == 1 and harness.rotation(1) == 64


@pytest.mark.parametrize("shape", [
    ConvShape(c=1, h=9, w=8, k=1, r=3, s=5, padding="same"), ConvShape(n=2, c=4, h=7, w=6, k=6, r=3, s=2, groups=2, padding=1),
    ConvShape(n=3, c=3, h=9, w=9, k=2, r=3, s=3, stride=2, dilation=2, padding=2)], ids=str)
def test_reference_is_the_convolution(shape):
    device = HostDevice()
    x, w = device.random(shape.input_shape, 1), device.random(shape.weight_shape, 2)
    found = harness.reference(device, x, w, shape)
    (top, bottom), (left, right) = shape.padding
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, k, p, q = (shape.n, shape.k - 1, shape.p - 1, shape.q - 1)
    group = k // (shape.k // shape.groups)
    channels = shape.c // shape.groups
    window = padded[n - 1, group * channels:(group + 1) * channels,
                    p * shape.stride[0]:p * shape.stride[0] + shape.dilation[0] * (shape.r - 1) + 1:shape.dilation[0],
                    q * shape.stride[1]:q * shape.stride[1] + shape.dilation[1] * (shape.s - 1) + 1:shape.dilation[1]]
    assert found.exact.shape == (n, *shape.output_shape[1:])
    assert found.exact[-1, k, p, q] == pytest.approx(float((window * w[k]).sum()))
    assert found.magnitude[-1, k, p, q] == pytest.approx(float(abs(window * w[k]).sum()))


@pytest.mark.parametrize("spoil", [lambda y: y.__setitem__((0, 0, 3, 3), np.nan), lambda y: y.__iadd__(1e-5)])
def test_a_wrong_result_is_not_timed(spoil):
    device, shape = HostDevice(), ConvShape(c=1, h=8, w=8, k=1, r=3, s=3, padding=1)
    layer = harness.make_layer(device, shape)
    y = layer.reference.exact.astype(np.float32)
    assert layer.reference.check(device, y, own=True) < 1e-6
    spoil(y)
    with pytest.raises(harness.WrongResult):
        layer.reference.check(device, y, own=True)


# ---- the studies on a fake device

def test_variants_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(variants, "QUICK_SIZES", (32, 40))
    found = main.run(variants.STUDY, tmp_path, quick=True, device=FakeDevice())
    ours = [r for r in found.rows.values() if r.get("kind") == "ours"]
    assert ours and all(r["status"] == "ok" and r["gbs"] > 0 for r in ours)
    assert found.rows["3x3/40/cuDNN"]["status"].startswith("skipped: ")
    text = (tmp_path / "README.md").read_text()
    assert "| base |" in text and "32^2 GB/s" in text and "% of copy at 40^2" in text
    assert (tmp_path / "variants.svg").exists()
    (tmp_path / "README.md").unlink()
    assert CliRunner().invoke(main.main, ["variants", "--tables", "-o", str(tmp_path)]).exit_code == 0
    assert (tmp_path / "README.md").read_text() == text


def test_variants_mark_a_wrong_kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(variants, "QUICK_SIZES", (32,))
    monkeypatch.setattr(variants, "QUICK_FILTERS", (3,))
    monkeypatch.setattr(FakeDevice, "wrong", 1e-3)
    found = main.run(variants.STUDY, tmp_path, quick=True, device=FakeDevice())
    assert found.rows["3x3/32/base"]["status"].startswith("WRONG")


@pytest.mark.parametrize("taps", variants.FILTERS)
def test_every_configuration_can_be_planned_and_differs(taps):
    plans = {}
    for config in variants.configurations():
        if taps in config.filters:
            plan = plan_layer(variants.plane(1024, taps), algorithm=config.algorithm, settings=config.settings)
            plans[config.name] = (config.algorithm, tuple(plan.settings().items()))
    base = plans.pop("base")
    assert base not in plans.values()


def test_select_from_end_to_end(tmp_path, monkeypatch):
    small = {"plane": ConvShape(c=1, h=20, w=40, k=1, r=3, s=3, padding=1),
             "strided": ConvShape(c=2, h=9, w=9, k=2, r=3, s=3, stride=2)}
    monkeypatch.setattr(selection, "layers", lambda: small)
    found = main.run(selection.STUDY, tmp_path, device=FakeDevice())
    assert found.rows["plane"]["ratio"] >= 1 and found.rows["plane"]["chosen"] in ALGORITHMS
    assert "stride" in found.rows["strided"]["reuse_reason"]
    assert "2 choices" in (tmp_path / "README.md").read_text()


def test_select_has_thirty_layers_that_somebody_serves():
    assert len(selection.layers()) >= 30
    assert all(explain(shape)[0].supported for shape in selection.layers().values())


def test_counts_by_execution_and_beside_hardware(tmp_path, monkeypatch):
    exact = dict.fromkeys(counts.NAMES, 7)
    monkeypatch.setattr(counts, "sub_block", lambda taps, settings: {**exact, "load_requests": 120})
    monkeypatch.setattr(counts, "execute", lambda plan, x, w, buffers: dict(exact))
    monkeypatch.setattr(counts.ncu, "profile",
                        lambda target: [{**exact, "load_sectors": 8}] + [dict(exact)] * (len(counts.HARDWARE) - 1))
    monkeypatch.setattr(FakeDevice, "kind", "fake")
    found = main.run(counts.STUDY, tmp_path, quick=True, device=FakeDevice())
    row = found.rows["hardware/direct"]
    assert row["equal_load_requests"] and not row["equal_load_sectors"] and row["status"] == "ok"
    text = (tmp_path / "README.md").read_text()
    assert "| direct | load sectors | 7 | 8 | DIFFERS |" in text and "differs from" in text


def test_counts_keep_the_executed_ones_where_ncu_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(counts, "sub_block", lambda taps, settings: dict.fromkeys(counts.NAMES, 1))
    monkeypatch.setattr(counts, "execute", lambda plan, x, w, buffers: dict.fromkeys(counts.NAMES, 7))
    found = main.run(counts.STUDY, tmp_path, quick=True, device=HostDevice())
    row = found.rows["hardware/reuse"]
    assert row["status"] == "skipped: no GPU" and row["executed_shuffles"] == 7


# ---- ncu

CSV = '''==PROF== Connected to process 4242 (/usr/bin/python3.12)
==PROF== Profiling "direct_5x5" - 0: 0%....50%....100% - 2 passes
{"kernel": "direct", "sum": 1.5}
==PROF== Disconnected from process 4242
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","4242","python3.12","127.0.0.1","direct_5x5","1","7","(64, 4, 1)","(8, 128, 1)","0","9.0","Command line profiler metrics","l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","","408,640"
"0","4242","python3.12","127.0.0.1","direct_5x5","1","7","(64, 4, 1)","(8, 128, 1)","0","9.0","Command line profiler metrics","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","1,174,840"
"0","4242","python3.12","127.0.0.1","direct_5x5","1","7","(64, 4, 1)","(8, 128, 1)","0","9.0","Command line profiler metrics","smsp__sass_thread_inst_executed_op_inter_thread_communication_pred_on.sum","inst","n/a"
"1","4242","python3.12","127.0.0.1","reuse_5x5","1","7","(128, 1, 1)","(16, 3, 1)","0","9.0","Command line profiler metrics","smsp__sass_thread_inst_executed_op_inter_thread_communication_pred_on.sum","inst","1,241,088"
"1","4242","python3.12","127.0.0.1","reuse_5x5","1","7","(128, 1, 1)","(16, 3, 1)","0","9.0","Command line profiler metrics","l1tex__t_requests_pipe_lsu_mem_global_op_st.sum","","8192"
'''


def test_ncus_csv():
    assert ncu.parse(CSV) == [{"load_requests": 408640, "load_sectors": 1174840},
                              {"shuffles": 38784, "store_requests": 8192}]
    assert ncu.parse("==ERROR== no permission") == []


def test_ncu_is_asked_again_without_a_counter_it_does_not_have(monkeypatch):
    asked = []
    full = CSV.splitlines()[4] + "".join(f'\n"0","1","p","h","k","1","7","","","0","9.0","s","{m}","","5"'
                                         for m in ncu.COUNTERS.values())

    def fake_run(words, **options):
        asked.append(words)
        return SimpleNamespace(stdout=full if len(asked) == 2 else "==ERROR== Failed to find metric", stderr="")

    monkeypatch.setattr(ncu, "find", lambda: "ncu")
    monkeypatch.setattr(ncu.subprocess, "run", fake_run)
    assert ncu.profile(["--kernel", "direct"]) == [dict.fromkeys(ncu.COUNTERS, 5)]
    assert "inter_thread" in " ".join(asked[0]) and "inter_thread" not in " ".join(asked[1])
    assert asked[1][1:3] == ["--clock-control", "none"]
    monkeypatch.setattr(ncu.subprocess, "run", lambda *a, **k: SimpleNamespace(stdout="", stderr="==ERROR== refused"))
    with pytest.raises(NoDevice, match="refused"):
        ncu.profile([])


def test_ncus_target_plans_what_it_is_told():
    plan = ncu_target.plan_of("reuse:exchange=none,rows=reload", 64, 5, "sm_90")
    assert plan.settings()["exchange"] == "none" and plan.settings()["rows"] == "reload"
    assert all(ncu_target.plan_of(k, 512, 5, "sm_90").program.entries for k in counts.HARDWARE)


def test_targets_import_no_pytorch():
    code = "import sys, bench.ncu_target, bench.latency_target; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=environment.ROOT).returncode == 0


# ---- NPP

NPP = r"""
#include <stddef.h>
typedef struct { int w, h; } Size; typedef struct { int x, y; } Point;
typedef struct { void* stream; int device, sms, resident, block; size_t shared; int major, minor; unsigned flags;
                 int reserved; } Context;
int nppiFilterBorder_32f_C1R_Ctx(const float* x, int xstep, Size size, Point offset, float* y, int ystep, Size roi,
                                 const float* k, Size ksize, Point anchor, int border, Context c) {
    if (c.device != 3 || c.sms != 132 || c.shared != 49152 || c.major != 9 || c.minor != 1 || border != 2) return -1;
    for (int i = 0; i < roi.h; ++i) for (int j = 0; j < roi.w; ++j) {
        float sum = 0;
        for (int r = 0; r < ksize.h; ++r) for (int s = 0; s < ksize.w; ++s) {
            int a = i + r - anchor.y, b = j + s - anchor.x;
            a = a < 0 ? 0 : a >= size.h ? size.h - 1 : a; b = b < 0 ? 0 : b >= size.w ? size.w - 1 : b;
            sum += x[a * (xstep / 4) + b] * k[(ksize.h - 1 - r) * ksize.w + ksize.w - 1 - s];
        }
        y[i * (ystep / 4) + j] = sum;
    }
    return 0;
}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_npp_is_called_as_its_header_says(tmp_path, monkeypatch, turned):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for a stand-in of NPP")
    text = NPP.replace("k[(ksize.h - 1 - r) * ksize.w + ksize.w - 1 - s]", "k[r * ksize.w + s]") if turned else NPP
    (tmp_path / "npp.c").write_text(text)
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(tmp_path / "npp.so"), str(tmp_path / "npp.c")], check=True)
    library = ctypes.CDLL(str(tmp_path / "npp.so"))
    monkeypatch.setattr(npp, "libraries", lambda: (library, library))
    monkeypatch.setattr(npp, "stream_context", lambda stream: npp.StreamContext(
        device=3, multiprocessors=132, block_shared=49152, major=9, minor=1))
    device = FakeDevice()
    device.kind = "fake"
    layer = harness.make_layer(device, variants.plane(24, 5))
    peer = next(p for p in peers.PLANE_PEERS if p.name == "NPP")
    row = peers.run_peer(device, layer, peer)
    assert row["error"] < 1e-6 and row["ms"] > 0


def test_npp_that_is_missing_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(npp, "folders", lambda: iter([tmp_path]))
    npp.libraries.cache_clear()
    with pytest.raises(NoDevice, match="not on this machine"):
        npp.libraries()
    npp.libraries.cache_clear()


def test_every_module_of_bench_can_be_imported():
    for path in sorted((environment.ROOT / "bench").glob("*.py")):
        assert importlib.import_module(f"bench.{path.stem}" if path.stem != "__init__" else "bench")
        assert len(path.read_text().splitlines()) < 400, path.name
    assert math.isfinite(harness.EPSILON)
