"""What the studies call besides kernels: ncu and its CSV, NPP and its header."""

import ctypes
import dataclasses
import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from bench import harness
from bench.counters import ncu, target as ncu_target
from bench.devices import NoDevice
from bench.peers import npp, libraries as peers
from bench.report import environment
from bench.studies import variants
from tests.bench.fakes import FakeDevice
from warpconv.codegen import plan


# ---- ncu

_DIRECT = '"0","4242","python3.12","127.0.0.1","direct_5x5","1","7","(64, 4, 1)","(8, 128, 1)","0","9.0",'
_REUSE = '"1","4242","python3.12","127.0.0.1","reuse_5x5","1","7","(128, 1, 1)","(16, 3, 1)","0","9.0",'
_METRICS = '"Command line profiler metrics",'
_EXCHANGES = '"smsp__sass_thread_inst_executed_op_inter_thread_communication_pred_on.sum","inst",'
CSV = '''==PROF== Connected to process 4242 (/usr/bin/python3.12)
==PROF== Profiling "direct_5x5" - 0: 0%....50%....100% - 2 passes
{"kernel": "direct", "sum": 1.5}
==PROF== Disconnected from process 4242
''' + '\n'.join([
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"',
    _DIRECT + _METRICS + '"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","","408,640"',
    _DIRECT + _METRICS + '"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","1,174,840"',
    _DIRECT + _METRICS + _EXCHANGES + '"n/a"',
    _REUSE + _METRICS + _EXCHANGES + '"1,241,088"',
    _REUSE + _METRICS + '"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum","","8192"',
    ''])


LOADS = ncu.COUNTERS["load_requests"].metrics + ncu.COUNTERS["load_sectors"].metrics


def test_ncus_csv():
    first, second = ncu.parse(CSV)
    assert first["entry"] == "direct_5x5" and second["entry"] == "reuse_5x5"
    watched = ncu.Watched((first, second))
    assert ncu.Watched((first,)).counts() == {"load_requests": 408640, "load_sectors": 1174840}
    assert watched.counts() == {} and ncu.Watched((first, second), preparation=1).counts() == {
        "shuffles": 38784, "store_requests": 8192}
    assert ncu.parse("==ERROR== no permission") == []


def test_copies_to_shared_memory_are_shared_accesses_too():
    counter = ncu.COUNTERS["shared_requests"]
    loads, _, copies, _ = counter.metrics
    assert counter.of({loads: 5.0, copies: 2.0}) == 7 and counter.of({loads: 5.0}) == 5
    assert counter.of({copies: 2.0}) is None


def launches(*entries, value=5):
    """ncu's CSV of one launch for each entry, every load counted ``value`` times."""
    rows = [f'"{i}","1","{entry}(const float *)","{metric}","{value}"' for i, entry in enumerate(entries)
            for metric in LOADS]
    return "\n".join(['"ID","Process ID","Kernel Name","Metric Name","Metric Value"', *rows])


def told(number, *entries, **more):
    """What the target prints of a case."""
    made = {"entries": entries, "preparation": 0} if entries else {}
    return json.dumps({"case": number, "kernel": "k", **made, **more})


def fake_ncu(monkeypatch, *answers):
    """ncu that answers with these texts in turn; the command lines that it was asked with."""
    asked = []

    def run(words, **options):
        asked.append(words)
        return SimpleNamespace(stdout=answers[len(asked) - 1], stderr="")

    monkeypatch.setattr(ncu, "find", lambda: "ncu")
    monkeypatch.setattr(ncu.subprocess, "run", run)
    return asked


def test_ncu_is_asked_again_without_a_metric_it_does_not_know(monkeypatch):
    asked = fake_ncu(monkeypatch, f"==ERROR== Failed to find metric {LOADS[1]}",
                     "\n".join([told(0, "direct_5x5"), launches("direct_5x5")]))
    found = ncu.watch(["--kernel", "direct"], LOADS)
    assert [case.launches[0][LOADS[0]] for case in found] == [5.0]
    assert LOADS[1] in ",".join(asked[0]) and LOADS[1] not in ",".join(asked[1]) and LOADS[0] in ",".join(asked[1])
    assert asked[1][1:3] == ["--clock-control", "none"]


def test_launches_go_to_their_cases_and_one_that_fails_is_left_out(monkeypatch):
    text = "\n".join([told(0, "a_filter", "a_5x5", preparation=1), told(1, error="no cuBLAS"), told(2, "b_5x5")])
    asked = fake_ncu(monkeypatch, text + "\n" + launches("a_filter", "a_5x5", "half_of_it", "b_5x5"),
                     "\n".join([told(0, "a_filter", "a_5x5", preparation=1), told(2, "b_5x5"),
                                launches("a_filter", "cublas_gemv", "a_5x5", "b_5x5")]))
    first, failed, last = ncu.watch([], LOADS)
    assert asked[1][-2:] == ["--skip", "1"] and failed.error == "no cuBLAS" and failed.counts() == {}
    assert [launch["entry"] for launch in first.launches] == ["a_filter", "a_5x5"]
    assert first.counts() == {"load_requests": 5, "load_sectors": 5} == last.counts()


@pytest.mark.parametrize("answer", ["==ERROR== refused", told(0, "a_5x5") + "\n" + launches("another"),
                                    launches("a_5x5")])
def test_launches_that_are_not_those_of_the_cases_are_not_taken(monkeypatch, answer):
    fake_ncu(monkeypatch, *[answer] * 4)
    with pytest.raises(NoDevice, match="refused" if "refused" in answer else "launches instead of"):
        ncu.watch([], LOADS)


def test_an_ncu_that_hangs_is_a_reason(monkeypatch):
    fake_ncu(monkeypatch)
    monkeypatch.setattr(ncu.subprocess, "run",
                        lambda *a, **k: (_ for _ in ()).throw(subprocess.TimeoutExpired("ncu", 1)))
    with pytest.raises(NoDevice, match="took more than"):
        ncu.watch([], LOADS)


def test_ncus_target_plans_what_it_is_told():
    made = ncu_target.plan_of("reuse:exchange=none,rows=reload", ncu_target.shape_of(64, 5), "sm_90")
    assert made.settings()["exchange"] == "none" and made.settings()["rows"] == "reload"


def test_ncus_target_tells_of_each_case_and_of_one_that_fails():
    cases = [ncu_target.Case("direct", size=9, filter=3), ncu_target.Case("toeplitz", size=9, filter=3),
             ncu_target.Case("reuse", size=12, filter=3)]
    words = [word for case in cases for word in case.words()]
    done = CliRunner().invoke(ncu_target.main, [*words, "--skip", "2", "--device", "cpu"])
    first, second = map(json.loads, done.output.splitlines())
    assert done.exit_code == 1 and first["entries"] == ["direct_3x3"] and first["preparation"] == 0
    assert second["case"] == 1 and "float32" in second["error"]


def test_entries_are_listed_as_a_call_makes_them():
    grid = (plan.Blocks(), plan.Blocks(), plan.Blocks())
    lower, last = (plan.Launch(entry=name, grid=grid, block=(32, 1, 1), arguments=()) for name in ("lower", "last"))
    gemm = plan.LibraryCall(operation="gemm", operands=())
    steps = (plan.Repeat(of=plan.Dimension.N, index="n", steps=(lower, gemm)), last)
    assert ncu_target.entries_of(steps, ncu_target.shape_of(8, 3, batch=3)) == ["lower"] * 3 + ["last"]


def test_targets_import_no_pytorch():
    code = "import sys, bench.counters.target, bench.studies.latency_target; sys.exit('torch' in sys.modules)"
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
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(tmp_path / "npp.so"), str(tmp_path / "npp.c")],
                   check=True)
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


def test_npp_goes_to_the_stream_of_the_moment(monkeypatch):
    streams, seen = iter([0, 0, 5, 9]), []
    monkeypatch.setattr(npp, "filter_border", lambda: None)
    monkeypatch.setattr(npp, "stream_context", lambda stream: npp.StreamContext())

    def call(function, context, source, target, taps, height, width, size):
        seen.append(context.stream)
        layer.ys[0][...] = layer.reference.exact

    monkeypatch.setattr(npp, "call", call)
    device = FakeDevice()
    device.kind, device.stream = "fake", lambda: next(streams)
    layer = harness.make_layer(device, variants.plane(12, 3))
    calls, error = peers._npp(device, layer)
    calls[0](), calls[0]()
    assert seen == [None, 5, 9] and error < 1e-6


@pytest.mark.parametrize("change", [{"dtype": "float16"}, {"layout": "NHWC", "n": 2}, {"c": 2, "k": 2, "groups": 2}])
@pytest.mark.parametrize("name", ["NPP", "CuPy", "cuCIM"])
def test_peers_of_planes_refuse_other_layers(name, change):
    device = FakeDevice()
    device.kind = "fake"
    layer = harness.make_layer(device, dataclasses.replace(variants.plane(12, 3), **change))
    peer = next(p for p in (*peers.PLANE_PEERS, peers.CUCIM) if p.name == name)
    with pytest.raises(NoDevice, match="one plane of float32"):
        peers.run_peer(device, layer, peer)


def test_npp_that_is_missing_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(npp, "folders", lambda: iter([tmp_path]))
    npp.libraries.cache_clear()
    with pytest.raises(NoDevice, match="not on this machine"):
        npp.libraries()
    npp.libraries.cache_clear()
