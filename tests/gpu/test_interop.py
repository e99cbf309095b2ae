"""Arrays and streams of PyTorch, CuPy and PyCUDA: the same kind out, no copies, the caller's stream."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests.gpu import support
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.shape import ConvShape

pytestmark = pytest.mark.gpu

SHAPE = ConvShape(n=2, c=2, h=65, w=97, k=4, r=3, s=5, padding=(1, 2))
CYCLES = 200_000_000        # of the GPU's clock: about a tenth of a second


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def layer() -> support.Layer:
    return support.Layer(SHAPE, seed=3)


def conv(x, w, **options):
    return warpconv.conv2d(x, w, padding=(1, 2), **options)


def test_torch_tensors(torch, layer, monkeypatch):
    x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    with support.no_host_copies(monkeypatch):
        y = conv(x, w)
        out = torch.full(SHAPE.output_shape, float("nan"), device="cuda")
        pointer = out.data_ptr()
        assert conv(x, w, out=out) is out and out.data_ptr() == pointer
    assert isinstance(y, torch.Tensor) and y.device == x.device and y.dtype == torch.float32
    layer.check(y, "torch")
    layer.check(out, "torch, out")
    assert torch.allclose(y, torch.nn.functional.conv2d(x.double(), w.double(), padding=(1, 2)).float(), atol=1e-4)


def test_torch_strides_and_grad(torch, layer):
    x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    layer.check(conv(x.to(memory_format=torch.channels_last), w), "channels last")
    layer.check(conv(torch.stack([x, x], -1)[..., 0], w), "every second element")
    y = conv(x, w.requires_grad_())
    layer.check(y.detach(), "recorded")
    (dw,) = torch.autograd.grad(y.sum(), w)
    (expected,) = torch.autograd.grad(torch.nn.functional.conv2d(x.double(), w.double(), padding=(1, 2)).sum(), w)
    assert torch.allclose(dw, expected.float(), atol=1e-3)
    with torch.no_grad():
        layer.check(conv(x, w), "no_grad")
    with pytest.raises(ArgumentTypeError):
        conv(x, layer.w)
    with pytest.raises(ArgumentError):
        conv(x, w.detach(), device="cpu:0")


def test_cupy_arrays(cupy, layer, monkeypatch):
    x, w = cupy.asarray(layer.x), cupy.asarray(layer.w)
    with support.no_host_copies(monkeypatch):
        y = conv(x, w)
        out = cupy.full(SHAPE.output_shape, cupy.nan, cupy.float32)
        assert conv(x, w, out=out) is out
    assert isinstance(y, cupy.ndarray)
    layer.check(y, "cupy")
    layer.check(out, "cupy, out")
    layer.check(conv(cupy.asfortranarray(x), w), "cupy, Fortran order")


def test_pycuda_arrays(layer, monkeypatch):
    with support.primary_context():
        from pycuda import gpuarray
        x, w = gpuarray.to_gpu(layer.x), gpuarray.to_gpu(layer.w)
        with support.no_host_copies(monkeypatch):
            y = conv(x, w)
            out = gpuarray.to_gpu(np.full(SHAPE.output_shape, np.nan, np.float32))
            assert conv(x, w, out=out) is out
        assert isinstance(y, gpuarray.GPUArray)
        layer.check(y, "pycuda")
        layer.check(out, "pycuda, out")
        del x, w, y, out


def test_numpy_arrays(layer):
    y = conv(layer.x, layer.w, device="cuda")
    assert isinstance(y, np.ndarray)
    layer.check(y, "numpy")
    layer.check(conv(layer.x, layer.w), "numpy, device auto")
    layer.check(conv(layer.x, layer.w, device="cuda:0"), "numpy, cuda:0")


PIXELS = [dict(dtype="uint8"), dict(dtype="uint8", weight_dtype="int8"), dict(dtype="uint8", out_dtype="float16"),
          dict(dtype="uint8", weight_dtype="int8", out_dtype="int32"), dict(dtype="int8"), dict(dtype="uint16"),
          dict(dtype="int16", weight_dtype="int16"), dict(dtype="float32", out_dtype="uint8")]


@pytest.mark.parametrize("border", ["zeros", "reflect"])
@pytest.mark.parametrize("types", PIXELS, ids=lambda types: "-".join(types.values()))
def test_pixels(torch, cupy, types, border, monkeypatch):
    """Integers and mixed types of both libraries, in and out, with a border: the same kind and the wanted type."""
    layer = support.Layer(replace(SHAPE, padding_mode=border, **types), seed=7)
    element = layer.shape.y_dtype.value
    options = {"padding_mode": border, "out_dtype": types.get("out_dtype")}
    for library, kind, put in ((torch, torch.Tensor, lambda array: torch.from_numpy(array).cuda()),
                               (cupy, cupy.ndarray, cupy.asarray)):
        x, w = put(layer.x), put(layer.w)
        out = put(support.reference.poisoned(layer.shape))
        with support.no_host_copies(monkeypatch):
            y = conv(x, w, **options)
            assert conv(x, w, out=out, **options) is out
        assert isinstance(y, kind) and y.dtype == getattr(library, element)
        layer.check(y, f"{library.__name__}, {types}, {border}")
        layer.check(out, f"{library.__name__}, {types}, {border}, out")


class Exported:
    """A CUDA array interface and nothing else."""

    def __init__(self, tensor, stream=None):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": stream}


class Capsule:
    """DLPack and nothing else."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Exported, Capsule])
def test_interfaces(torch, layer, wrap):
    x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    out = torch.full(SHAPE.output_shape, float("nan"), device="cuda")
    torch.cuda.synchronize()
    conv(wrap(x), wrap(w), out=out)
    torch.cuda.synchronize()
    layer.check(out, wrap.__name__)


def slow_fill(torch, handle: int, target, source) -> None:
    """On a stream: wait about a tenth of a second, then write ``target``."""
    with torch.cuda.stream(torch.cuda.ExternalStream(handle)):
        torch.cuda._sleep(CYCLES)
        target.copy_(source, non_blocking=True)


def check_stream(torch, layer, handle: int, run) -> None:
    """``run(x, w)`` must queue behind the slow write of x on ``handle``, and not wait for it."""
    good, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    x = torch.zeros_like(good)
    run(x, w)                                   # build and load first: these may wait
    torch.cuda.synchronize()
    slow_fill(torch, handle, x, good)
    y = run(x, w)
    assert not torch.cuda.ExternalStream(handle).query(), "the call waited for the stream"
    torch.cuda.ExternalStream(handle).synchronize()
    layer.check(y, "on a stream")


def test_torchs_current_stream(torch, layer):
    side = torch.cuda.Stream()

    def run(x, w):
        with torch.cuda.stream(side):
            return conv(x, w)

    check_stream(torch, layer, side.cuda_stream, run)


def test_a_stream_of_each_library_by_argument(torch, cupy, layer):
    check_stream(torch, layer, (side := torch.cuda.Stream()).cuda_stream, lambda x, w: conv(x, w, stream=side))
    other = cupy.cuda.Stream(non_blocking=True)
    check_stream(torch, layer, other.ptr, lambda x, w: conv(x, w, stream=other))
    check_stream(torch, layer, other.ptr, lambda x, w: conv(x, w, stream=other.ptr))
    with support.primary_context():
        own = support.contexts.driver().Stream()
    check_stream(torch, layer, own.handle, lambda x, w: conv(x, w, stream=own))


def test_cupys_current_stream(torch, cupy, layer):
    side = cupy.cuda.Stream(non_blocking=True)

    def run(x, w):
        with side:
            return torch.as_tensor(conv(cupy.asarray(x), cupy.asarray(w)), device="cuda")

    check_stream(torch, layer, side.ptr, run)


def test_a_graph_of_torch_replays_with_new_contents(torch):
    layers = [support.Layer(SHAPE, seed=seed) for seed in (5, 6)]
    for values in ({}, {"weights": "constant"}):
        kernel = warpconv.specialize(SHAPE, device="cuda", algorithm="reuse", settings=values)
        x, w = (torch.tensor(a, device="cuda") for a in (layers[0].x, layers[0].w))
        out = torch.full(SHAPE.output_shape, float("nan"), device="cuda")
        prepared = kernel.prepare(w)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            kernel(x, prepared, out=out)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel(x, prepared, out=out)
        for layer in layers:
            x.copy_(torch.tensor(layer.x))
            out.fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            wanted = support.reference.expected(layer.x, layers[0].w, SHAPE)
            wanted.check(support.to_host(out), f"replayed, {values}")
        del graph


@pytest.mark.parametrize("weights", ["shared", "constant", "cached"])
def test_prepared_filters(torch, layer, weights):
    kernel = warpconv.specialize(SHAPE, device="cuda", algorithm="reuse", settings={"weights": weights})
    x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    filters = [kernel.prepare(w), kernel.prepare(layer.w)]
    w.fill_(float("nan"))
    for prepared in filters:
        layer.check(kernel(x, prepared), "prepared")
        layer.check(kernel(layer.x, prepared), "prepared, NumPy input")


def test_streams_that_are_gone_end_no_process(tmp_path):
    """CuPy's streams go with their last reference; what was prepared remembers on which it was used."""
    pytest.importorskip("cupy")
    program = tmp_path / "streams.py"
    program.write_text("""
import cupy, warpconv
from warpconv.runtime.call import conv
image = cupy.random.random((64, 64)).astype(cupy.float32)
for _ in range(40):
    with cupy.cuda.Stream(non_blocking=True):
        made = warpconv.gaussian_filter(image, 1.5)
conv.clear()
with cupy.cuda.Stream(non_blocking=True):
    again = warpconv.gaussian_filter(image, 1.5)
cupy.cuda.Device().synchronize()
assert abs(made - again).max() == 0
""")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
