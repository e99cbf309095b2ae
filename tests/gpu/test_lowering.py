"""im2col and im2win_basic on a GPU: cuBLAS on the stream, in graphs, in threads and in other contexts; memory as
planned."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import checks, reference, settings
from tests.gpu import support
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.devices.cuda import memory
from warpconv.runtime.devices.library import cublas

pytestmark = pytest.mark.gpu

SHAPE = ConvShape(n=5, c=12, h=30, w=33, k=18, r=3, s=3, padding=1, groups=3)
STEPS = (Epilogue.BIAS, Epilogue.RELU)
FORMS = [("im2col", {"batch": "image"}), ("im2col", {"batch": "whole"}), ("im2win_basic", {"mapping": "document"}),
         ("im2win_basic", {"mapping": "coalesced"})]
ids = ["image", "whole", "document", "coalesced"]


@pytest.fixture(autouse=True)
def library(request):
    """What im2col needs; skipped with the reason where it is not installed."""
    form = getattr(request.node, "callspec", None)
    if form is None or form.params.get("algorithm") != "im2win_basic":
        support.needs_cublas()


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("epilogue", [(), STEPS], ids=["", "bias, relu"])
@pytest.mark.parametrize("layer", [
    SHAPE, ConvShape(n=2, c=40, h=17, w=9, k=24, r=1, s=1), ConvShape(n=300, c=2, h=6, w=6, k=3, r=5, s=5),
    ConvShape(n=3, c=70, h=20, w=40, k=70, r=3, s=5, stride=(2, 1), groups=70, padding=(1, 2)),
    ConvShape(n=2, c=300, h=9, w=9, k=130, r=3, s=3)], ids=["groups", "1x1", "images", "depthwise", "long sums"])
@pytest.mark.parametrize("algorithm, values", FORMS, ids=ids)
def test_values(algorithm, values, layer, epilogue):
    if layer.r == 1 and algorithm == "im2col":
        values = {}         # nothing is lowered, and there is no batch to choose
    checks.check_layer("cuda", layer, algorithm, values, epilogue)


@pytest.mark.parametrize("algorithm, values", FORMS, ids=ids)
def test_planned_bytes_are_those_that_the_pool_lends(monkeypatch, torch, algorithm, values):
    kernel = warpconv.specialize(SHAPE, device="cuda", algorithm=algorithm, settings=values)
    x, w = torch.randn(SHAPE.input_shape, device="cuda"), torch.randn(SHAPE.weight_shape, device="cuda")
    prepared = kernel.prepare(w) if algorithm == "im2win_basic" else w
    alive, most = {}, []
    allocate, release = memory.StreamPool.allocate, memory.StreamPool.release

    def lend(self, nbytes, stream):
        block = allocate(self, nbytes, stream)
        alive[block.pointer] = block.nbytes
        most.append(sum(alive.values()))
        return block

    def take(self, block):
        alive.pop(block.pointer, None)
        release(self, block)

    monkeypatch.setattr(memory.StreamPool, "allocate", lend)
    monkeypatch.setattr(memory.StreamPool, "release", take)
    kernel(x, prepared)
    assert max(most) == kernel.workspace_bytes(SHAPE) and alive == {}


@pytest.mark.parametrize("algorithm, values", FORMS, ids=ids)
def test_a_graph_replays_it_with_new_contents(torch, algorithm, values):
    kernel = warpconv.specialize(SHAPE, device="cuda", algorithm=algorithm, settings=values, epilogue=STEPS)
    layers = [support.Layer(SHAPE, seed=seed, epilogue=STEPS) for seed in range(2)]
    w, bias = layers[0].w, torch.tensor(layers[0].bias, device="cuda")
    x, y = torch.empty(SHAPE.input_shape, device="cuda"), torch.empty(SHAPE.output_shape, device="cuda")
    weight = torch.tensor(w, device="cuda")
    weight = kernel.prepare(weight) if algorithm == "im2win_basic" else weight
    kernel(x, weight, bias, out=y)
    with warpconv.graph() as graph:
        kernel(x, weight, bias, out=y)
    for layer in layers:
        wanted = reference.expected(layer.x, w, SHAPE, bias=layers[0].bias, epilogue=STEPS)
        x.copy_(torch.tensor(layer.x))
        y.fill_(float("nan"))
        graph.launch()
        wanted.check(support.to_host(y), algorithm)


def test_a_graph_without_a_call_before_it(torch):
    """Handle, workspace and module are made while the stream is being captured."""
    shape = replace(SHAPE, c=15, k=21)
    kernel = warpconv.specialize(shape, device="cuda", algorithm="im2col", settings={"batch": "image"})
    layer = support.Layer(shape, seed=3)
    x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    y = torch.full(shape.output_shape, float("nan"), device="cuda")
    cublas._free.clear()
    with warpconv.graph() as graph:
        kernel(x, w, out=y)
    graph.launch()
    layer.check(support.to_host(y))


def test_streams_of_several_threads(torch):
    kernel = warpconv.specialize(SHAPE, device="cuda", algorithm="im2col", settings={"batch": "image"})
    layers = [support.Layer(SHAPE, seed=seed) for seed in range(4)]
    failures: list[BaseException] = []

    def work(layer: support.Layer) -> None:
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
                y = torch.full(SHAPE.output_shape, float("nan"), device="cuda")
                for _ in range(20):
                    kernel(x, w, out=y)
                stream.synchronize()
                layer.check(support.to_host(y))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(layer,)) for layer in layers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@pytest.mark.parametrize("algorithm, values", FORMS[1:3], ids=ids[1:3])
def test_a_second_context(algorithm, values):
    """Handles, workspaces and prepared filters belong to the context that is current."""
    layer = support.Layer(SHAPE, seed=6)
    kernel = warpconv.specialize(SHAPE, device="cuda", algorithm=algorithm, settings=values)
    layer.check(kernel(layer.x, layer.w), "primary")
    for _ in range(2):                       # the second one may get the first one's address
        context = support.contexts.driver().Device(0).make_context()
        try:
            from pycuda import gpuarray
            x, w = gpuarray.to_gpu(layer.x), gpuarray.to_gpu(layer.w)
            for _ in range(2):
                layer.check(kernel(x, w), "second context")
            del x, w
        finally:
            context.synchronize()
            context.pop()
            context.detach()
        layer.check(kernel(layer.x, layer.w), "primary again")


def test_no_tf32(torch, monkeypatch):
    """Products of 24-bit numbers whose sums are exact in float32, and wrong by far in TF32's 11 bits, also where
    PyTorch may use it."""
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    shape = ConvShape(n=4, c=64, h=20, w=20, k=64, r=1, s=1)
    x = np.zeros(shape.input_shape, np.float32)
    x[:, 7] = 1.0 + np.arange(400, dtype=np.float32).reshape(20, 20) * 2.0**-23
    w = np.eye(64, dtype=np.float32)[:, :, None, None]
    y = warpconv.specialize(shape, device="cuda", algorithm="im2col")(x, w)
    assert np.array_equal(y, x)


def test_columns_of_more_than_2_31_elements(torch):
    """A layer whose columns, and whose im2win tensor, need 64-bit offsets while its input does not."""
    shape = ConvShape(n=3, c=16, h=1500, w=1501, k=2, r=5, s=5, padding=2)
    assert shape.n * shape.c * shape.h * shape.w < 2**28 < 2**31 < shape.n * shape.reduction * shape.p * shape.q
    generator = torch.Generator(device="cuda").manual_seed(settings.seed)
    x = torch.empty(shape.input_shape, device="cuda").uniform_(-1, 1, generator=generator)
    w = settings.generator(4).standard_normal(shape.weight_shape).astype(np.float32)
    direct = warpconv.specialize(shape, device="cuda", algorithm="direct")
    wanted = support.to_host(direct(x, torch.tensor(w, device="cuda")))
    tall = replace(shape, n=1, h=5, w=shape.w, padding=((0, 0), (2, 2)))
    for algorithm, values in FORMS[:2] + FORMS[3:]:
        out = torch.full(shape.output_shape, float("nan"), device="cuda")
        kernel = warpconv.specialize(shape, device="cuda", algorithm=algorithm, settings=values)
        kernel(x, torch.tensor(w, device="cuda"), out=out)
        got = support.to_host(out)
        assert np.abs(got - wanted).max() < 1e-3
        for image, row in ((0, 2), (1, 700), (2, 1400), (2, 1497)):
            window = support.to_host(x[image:image + 1, :, row - 2:row + 3].contiguous())
            strip = np.ascontiguousarray(got[image:image + 1, :, row:row + 1])
            reference.expected(window, w, tall).check(strip, algorithm)
        del out
