"""Several threads on one stream, several libraries in one call, filters under capture: what only order and keeping can
get right."""

from __future__ import annotations

import gc

import pytest

import warpconv
from tests.gpu import support
from tests.gpu.test_threads import run_threads
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.shape import ConvShape

pytestmark = pytest.mark.gpu

SHAPE = ConvShape(n=2, c=1, h=300, w=301, k=1, r=5, s=5, padding=2)
CONSTANT = {"weights": "constant"}


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def test_threads_with_different_constant_weights_on_one_stream(torch):
    """Weights by pointer: filling the bank and the launch that reads it are not parted by another thread's."""
    layers = [support.Layer(SHAPE, seed=number) for number in range(8)]
    kernel = warpconv.specialize(SHAPE, device="cuda", algorithm="reuse", settings=CONSTANT)

    def body(number: int) -> None:
        layer = layers[number]
        x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
        results = [kernel(x, w) for _ in range(40)]        # all on PyTorch's default stream
        torch.cuda.synchronize()
        for y in results:
            layer.check(y, f"thread {number}")

    run_threads(8, body)


def test_torch_input_and_cupy_weight(torch):
    cupy = pytest.importorskip("cupy")
    layer = support.Layer(SHAPE, seed=3)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.tensor(layer.x, device="cuda")
        for _ in range(30):
            w = cupy.asarray(layer.w) * cupy.float32(1)    # written on CuPy's stream a moment ago
            y = warpconv.conv2d(x, w, padding=2)
            del w
            cupy.full(layer.w.shape, cupy.float32("nan"))   # what the pool may lend in its place
    stream.synchronize()
    layer.check(y, "torch and CuPy")


def test_a_permuted_weight_prepared_on_another_stream(torch):
    shape = ConvShape(n=1, c=6, h=40, w=40, k=5, r=3, s=3, padding=1)
    layer = support.Layer(shape, seed=4)
    kernel = warpconv.specialize(shape, device="cuda")
    x = torch.tensor(layer.x, device="cuda")
    w = torch.tensor(layer.w, device="cuda").to(memory_format=torch.channels_last)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    layer.check(kernel(x, kernel.prepare(w, stream=stream)), "channels_last weight")


def test_a_filter_lives_as_long_as_the_graph(torch):
    layer = support.Layer(SHAPE, seed=5)
    kernel = warpconv.specialize(SHAPE, device="cuda", algorithm="reuse", settings=CONSTANT)
    x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    y = torch.full(SHAPE.output_shape, float("nan"), device="cuda")
    kept = kernel.prepare(w)
    kernel(x, kept, out=y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, kept, out=y)
    del kept
    gc.collect()
    others = [kernel.prepare(w * 0) for _ in range(4)]     # would get its memory and its module
    y.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    layer.check(y, "replay")
    del others


def test_preparing_while_capturing_is_refused(torch):
    layer = support.Layer(SHAPE, seed=6)
    kernel = warpconv.specialize(SHAPE, device="cuda", algorithm="reuse")
    x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    y = kernel(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(DeviceError, match="captured"):
            kernel.prepare(w)
        kernel(x, w, out=y)
    graph.replay()
    torch.cuda.synchronize()
    layer.check(y, "replay after a refusal")
