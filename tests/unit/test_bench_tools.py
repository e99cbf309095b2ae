"""What the studies call besides kernels: ncu and its CSV, NPP and its header."""

import ctypes
import dataclasses
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from bench import counts, environment, harness, ncu, ncu_target, npp, peers, variants
from bench.devices import NoDevice
from tests.unit.bench_fakes import FakeDevice


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
    plan = ncu_target.plan_of("reuse:exchange=none,rows=reload", ncu_target.shape_of(64, 5), "sm_90")
    assert plan.settings()["exchange"] == "none" and plan.settings()["rows"] == "reload"
    assert all(ncu_target.plan_of(k, ncu_target.shape_of(512, 5), "sm_90").program.entries for k in counts.HARDWARE)


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
@pytest.mark.parametrize("name", ["NPP", "CuPy"])
def test_peers_of_planes_refuse_other_layers(name, change):
    device = FakeDevice()
    device.kind = "fake"
    layer = harness.make_layer(device, dataclasses.replace(variants.plane(12, 3), **change))
    peer = next(p for p in peers.PLANE_PEERS if p.name == name)
    with pytest.raises(NoDevice, match="one plane of float32"):
        peers.run_peer(device, layer, peer)


def test_npp_that_is_missing_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(npp, "folders", lambda: iter([tmp_path]))
    npp.libraries.cache_clear()
    with pytest.raises(NoDevice, match="not on this machine"):
        npp.libraries()
    npp.libraries.cache_clear()
