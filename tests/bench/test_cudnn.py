"""cuDNN through ctypes, on a stand-in that checks what its header says, and the peers that are made of it."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from bench import harness
from bench.devices import NoDevice
from bench.peers import cudnn, networks as network_peers
from bench.peers.cudnn import Convolution, Found, Math
from tests.bench.fakes import FakeDevice
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.shape import ConvShape

STAND_IN = r"""
#include <stddef.h>
typedef struct { int kind, order, type, d[4], pad[2], stride[2], dilation[2], mode, compute, groups, math; } Descriptor;
typedef struct { int algo, status; float time; size_t memory; int determinism, math, reserved[3]; } Perf;
static Descriptor pool[64]; static int used; int alive = 0; void* last_stream = (void*)-1;
size_t cudnnGetVersion(void) { return 91900; }
const char* cudnnGetErrorString(int status) { return status == 3000 ? "NOT_SUPPORTED" : "BAD"; }
int cudnnCreate(void** h) { *h = (void*)1; return 0; }
int cudnnSetStream(void* h, void* stream) { last_stream = stream; return 0; }
static int make(void** d, int kind) {
    pool[used].kind = kind; pool[used].groups = 1; *d = &pool[used++]; ++alive; return 0; }
int cudnnCreateTensorDescriptor(void** d) { return make(d, 1); }
int cudnnCreateFilterDescriptor(void** d) { return make(d, 2); }
int cudnnCreateConvolutionDescriptor(void** d) { return make(d, 3); }
int cudnnDestroyTensorDescriptor(void* d) { --alive; return 0; }
int cudnnDestroyFilterDescriptor(void* d) { --alive; return 0; }
int cudnnDestroyConvolutionDescriptor(void* d) { --alive; return 0; }
int cudnnSetTensor4dDescriptor(Descriptor* d, int order, int type, int n, int c, int h, int w) {
    d->order = order; d->type = type; d->d[0] = n; d->d[1] = c; d->d[2] = h; d->d[3] = w; return d->kind != 1; }
int cudnnSetFilter4dDescriptor(Descriptor* d, int type, int order, int k, int c, int r, int s) {
    d->order = order; d->type = type; d->d[0] = k; d->d[1] = c; d->d[2] = r; d->d[3] = s; return d->kind != 2; }
int cudnnSetConvolution2dDescriptor(Descriptor* d, int ph, int pw, int u, int v, int dh, int dw, int mode,
                                    int compute) {
    d->pad[0] = ph; d->pad[1] = pw; d->stride[0] = u; d->stride[1] = v; d->dilation[0] = dh; d->dilation[1] = dw;
    d->mode = mode; d->compute = compute; return d->kind != 3; }
int cudnnSetConvolutionGroupCount(Descriptor* d, int groups) { d->groups = groups; return 0; }
int cudnnSetConvolutionMathType(Descriptor* d, int math) { d->math = math; return 0; }
int cudnnGetConvolutionForwardWorkspaceSize(void* h, void* x, void* w, Descriptor* c, void* y, int algo, size_t* size) {
    *size = algo == 6 ? 4096 : algo == 4 ? (size_t)1 << 40 : 0; return algo == 3 ? 3000 : 0; }
static int run(Descriptor* x, const float* in, Descriptor* w, const float* f, Descriptor* c, Descriptor* y,
               float* out) {
    if (c->mode != 1 || c->compute != 0 || x->type != w->type || x->type != y->type || x->type || x->order) return 2000;
    int C = x->d[1], H = x->d[2], W = x->d[3], K = y->d[1], P = y->d[2], Q = y->d[3], R = w->d[2], S = w->d[3];
    int cg = C / c->groups, kg = K / c->groups;
    for (int n = 0; n < x->d[0]; ++n) for (int k = 0; k < K; ++k)
    for (int p = 0; p < P; ++p) for (int q = 0; q < Q; ++q) {
        float sum = 0;
        for (int i = 0; i < cg; ++i) for (int r = 0; r < R; ++r) for (int s = 0; s < S; ++s) {
            int a = p * c->stride[0] + r * c->dilation[0] - c->pad[0];
            int b = q * c->stride[1] + s * c->dilation[1] - c->pad[1];
            if (a >= 0 && a < H && b >= 0 && b < W)
                sum += in[((n * C + k / kg * cg + i) * H + a) * W + b] * f[((k * cg + i) * R + r) * S + s];
        }
        out[((n * K + k) * P + p) * Q + q] = sum;
    }
    return 0;
}
int cudnnFindConvolutionForwardAlgorithmEx(void* h, Descriptor* x, const float* in, Descriptor* w, const float* f,
        Descriptor* c, Descriptor* y, float* out, int wanted, int* found, Perf* perf, void* space, size_t bytes) {
    Perf made[3] = {{6, 0, 0.5f, 4096, 1, c->math}, {1, 0, 0.75f, 0, 1, c->math}, {3, 3000, -1.0f, 0, 0, c->math}};
    if (wanted < 8 || bytes != 4096 || !space) return 2000;
    for (int i = 0; i < 3; ++i) perf[i] = made[i];
    *found = 3; return run(x, in, w, f, c, y, out);
}
int cudnnConvolutionForward(void* h, const float* one, Descriptor* x, const float* in, Descriptor* w, const float* f,
        Descriptor* c, int algo, void* space, size_t bytes, const float* zero, Descriptor* y, float* out) {
    if (*one != 1.0f || *zero != 0.0f || bytes != (algo == 6 ? 4096 : 0)) return 2000;
    return run(x, in, w, f, c, y, out);
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for a stand-in of cuDNN")
    folder = tmp_path_factory.mktemp("cudnn")
    (folder / "cudnn.c").write_text(STAND_IN)
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(folder / "libcudnn.so.9"), str(folder / "cudnn.c")],
                   check=True)
    return folder


@pytest.fixture
def stand_in(built, monkeypatch):
    monkeypatch.setattr(cudnn, "folders", lambda: iter([built]))
    for cached in (cudnn.library, cudnn._handle):
        cached.cache_clear()
    yield cudnn.library()
    for cached in (cudnn.library, cudnn._handle):
        cached.cache_clear()


class Fake(FakeDevice):
    kind = "fake"


SHAPES = [ConvShape(n=3, c=4, h=9, w=8, k=6, r=3, s=2, groups=2, padding=(1, 2), stride=(2, 1), dilation=(1, 2)),
          ConvShape(n=2, c=3, h=7, w=7, k=2, r=3, s=3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cudnn_is_called_as_its_header_says(stand_in, shape):
    device = Fake()
    layer = harness.make_layer(device, shape)
    found = network_peers.measure_peers(device, layer, ("cudnn_fp32", "cudnn_fp32_lean"))
    assert found["cudnn_fp32_error"] < 1e-6 and found["cudnn_fp32_algorithm"] == "Winograd", found
    assert found["cudnn_fp32_workspace_bytes"] == 4096 and found["cudnn_fp32_math"] == "FMA"
    assert found["cudnn_fp32_lean_algorithm"] == "implicit precomputed GEMM" and found["cudnn_fp32_lean_ms"] > 0
    refused = [one for one in found["cudnn_fp32_algorithms"] if one["ms"] is None]
    assert [one["algorithm"] for one in refused] == ["direct"] and refused[0]["refusal"] == "NOT_SUPPORTED"
    assert cudnn.version() == 91900


def test_workspaces_name_who_serves_the_layer_and_descriptors_go(stand_in):
    alive = ctypes.c_int.in_dll(stand_in, "alive")
    before = alive.value
    convolution = Convolution(SHAPES[1], DType.FLOAT32, Layout.NCHW, Math.FMA)
    found = convolution.workspaces()
    assert "direct" not in found and found["Winograd"] == 4096 and found["FFT"] == 1 << 40
    assert alive.value == before + 4
    del convolution
    assert alive.value == before


def test_a_call_goes_to_the_stream_of_the_moment(stand_in):
    convolution = Convolution(SHAPES[1], DType.FLOAT32, Layout.NCHW, Math.FMA)
    x, w, y = (np.zeros(s, np.float32) for s in (SHAPES[1].input_shape, SHAPES[1].weight_shape, SHAPES[1].output_shape))
    one = Found("implicit GEMM", 1.0, 0, Math.FMA)
    convolution.run(one, 77, x.ctypes.data, w.ctypes.data, y.ctypes.data, 0)
    assert ctypes.c_void_p.in_dll(stand_in, "last_stream").value == 77
    with pytest.raises(RuntimeError, match="cudnnConvolutionForward: BAD"):
        convolution.run(Found("Winograd", 1.0, 1, Math.FMA), 0, x.ctypes.data, w.ctypes.data, y.ctypes.data, 0)


def test_a_wrong_result_of_a_peer_is_told(stand_in):
    device = Fake()
    layer = harness.make_layer(device, SHAPES[1])
    layer.w[...] = 1.0
    assert network_peers.measure_peers(device, layer, ["cudnn_fp32"])["cudnn_fp32_reason"].startswith("WRONG: ")


def test_the_quickest_that_is_admitted():
    found = [Found("Winograd", 0.5, 10, Math.FMA), Found("GEMM", 0.7, 0, Math.FMA),
             Found("direct", None, 0, Math.FMA, "no")]
    assert network_peers.choose(found, network_peers.CUDNN[0]).algorithm == "Winograd"
    assert network_peers.choose(found, network_peers.CUDNN[1]).algorithm == "GEMM"
    with pytest.raises(NoDevice):
        network_peers.choose(found[2:], network_peers.CUDNN[0])


def test_uneven_padding_and_a_missing_library_are_reasons(stand_in, monkeypatch):
    shape = ConvShape(c=1, h=8, w=8, k=1, r=2, s=2, padding="same")
    with pytest.raises(NoDevice, match="differs between sides"):
        Convolution(shape, DType.FLOAT32, Layout.NCHW, Math.FMA)
    monkeypatch.setattr(cudnn, "folders", lambda: iter([]))
    monkeypatch.setattr(cudnn.ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError("not there")))
    cudnn.library.cache_clear()
    with pytest.raises(NoDevice, match="cannot be loaded: not there"):
        cudnn.library()
