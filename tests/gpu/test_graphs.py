"""Calls recorded into a graph: replayed with new contents, in order with each library's streams, and kept alive."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import warpconv
from tests import reference
from tests.gpu import support
from warpconv.codegen.errors import ArgumentError, DeviceError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call.recording import recording

pytestmark = pytest.mark.gpu

SHAPE = ConvShape(n=2, c=4, h=45, w=50, k=4, r=3, s=3, padding=1, groups=4)
CYCLES = 200_000_000        # of the GPU's clock: about a tenth of a second
LENGTH = 12


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


class Chain:
    """Layers one after the other whose float32 sums are exact: small integers, two taps of a filter, 1 and a half."""

    def __init__(self, seed: int, length: int = LENGTH):
        rng = np.random.default_rng(seed)
        self.weights = [np.zeros(SHAPE.weight_shape, np.float32) for _ in range(length)]
        for w in self.weights:
            for taps in w.reshape(-1, 9):
                taps[rng.choice(9, 2, replace=False)] = 1.0, rng.choice((-0.5, 0.5))
        self.inputs = [rng.integers(-2, 3, SHAPE.input_shape).astype(np.float32) for _ in range(3)]

    def check(self, got: np.ndarray, number: int) -> None:
        y = self.inputs[number].astype(np.float64)
        for w in self.weights:
            y = support.reference.convolve(y, w, SHAPE)
        assert np.array_equal(got, y), int((got != y).sum())


def record(kernel, x, weights, buffers):
    """The chain from x through two buffers; gives the graph and where the result will be."""
    with warpconv.graph() as graph:
        for number, w in enumerate(weights):
            kernel(x if number == 0 else buffers[(number - 1) % 2], w, out=buffers[number % 2])
    return graph, buffers[(len(weights) - 1) % 2]


@pytest.fixture(scope="module")
def kernel():
    return warpconv.specialize(SHAPE, device="cuda")


@pytest.mark.parametrize("filters", [False, True])
def test_a_chain_replays_with_new_contents(torch, kernel, filters):
    chain = Chain(1)
    x = torch.tensor(chain.inputs[0], device="cuda")
    weights = [torch.tensor(w, device="cuda") for w in chain.weights]
    weights = [kernel.prepare(w) for w in weights] if filters else weights
    buffers = [torch.full(SHAPE.output_shape, float("nan"), device="cuda") for _ in range(2)]
    graph, y = record(kernel, x, weights, buffers)
    torch.cuda.synchronize()
    assert all(torch.isnan(buffer).all() for buffer in buffers)     # nothing has run
    assert graph.calls == LENGTH
    for number in (0, 1, 2, 1):
        x.copy_(torch.tensor(chain.inputs[number]))
        [buffer.fill_(float("nan")) for buffer in buffers]
        graph.launch()
        chain.check(y.cpu().numpy(), number)


def test_a_launch_is_in_order_with_the_stream_and_does_not_wait(torch, kernel):
    chain = Chain(2)
    x = torch.zeros(SHAPE.input_shape, device="cuda")
    good = torch.tensor(chain.inputs[1], device="cuda")
    weights = [torch.tensor(w, device="cuda") for w in chain.weights]
    graph, y = record(kernel, x, weights, [torch.empty(SHAPE.output_shape, device="cuda") for _ in range(2)])
    graph.launch()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    for named in (False, True):
        x.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(CYCLES)
            x.copy_(good)
            if not named:
                graph.launch()
        if named:
            graph.launch(side)
        assert not side.query(), "the launch waited"
        side.synchronize()
        chain.check(y.cpu().numpy(), 1)


def test_arrays_and_filters_are_kept(torch, kernel):
    chain = Chain(3)
    x = torch.tensor(chain.inputs[2], device="cuda")
    y = torch.full(SHAPE.output_shape, float("nan"), device="cuda")
    pointer = x.data_ptr()
    graph, end = record(kernel, x, [kernel.prepare(w) for w in chain.weights],
                        [torch.empty(SHAPE.output_shape, device="cuda"), y])
    assert end is y
    del x, end
    gc.collect()
    rubbish = [torch.full(SHAPE.input_shape, float("nan"), device="cuda") for _ in range(50)]
    others = [kernel.prepare(w * 0) for w in chain.weights]
    assert all(other.data_ptr() != pointer for other in rubbish)
    torch.cuda._sleep(CYCLES)
    graph.launch()
    del graph           # while it has not begun
    gc.collect()
    rubbish += [torch.full(SHAPE.input_shape, float("nan"), device="cuda") for _ in range(50)]
    others += [kernel.prepare(w * 0) for w in chain.weights]
    torch.cuda.synchronize()
    chain.check(y.cpu().numpy(), 2)


def test_cupy_and_pycuda_arrays(kernel):
    cupy = pytest.importorskip("cupy")
    chain = Chain(4)
    x = cupy.asarray(chain.inputs[0])
    graph, y = record(kernel, x, [cupy.asarray(w) for w in chain.weights],
                      [cupy.full(SHAPE.output_shape, cupy.nan, cupy.float32) for _ in range(2)])
    side = cupy.cuda.Stream(non_blocking=True)
    for number in (1, 2):
        with side:
            x.set(chain.inputs[number])
            graph.launch()
        side.synchronize()
        chain.check(y.get(), number)
    with support.primary_context():
        from pycuda import gpuarray
        x = gpuarray.to_gpu(chain.inputs[0])
        graph, y = record(kernel, x, [gpuarray.to_gpu(w) for w in chain.weights],
                          [gpuarray.to_gpu(np.full(SHAPE.output_shape, np.nan, np.float32)) for _ in range(2)])
        for number in (0, 2):
            x.set(chain.inputs[number])
            graph.launch()
            chain.check(y.get(), number)
        del x, y, graph
        gc.collect()


def test_a_graph_inside_a_graph_of_torch(torch, kernel):
    chain = Chain(5)
    x = torch.tensor(chain.inputs[0], device="cuda")
    inner, y = record(kernel, x, [torch.tensor(w, device="cuda") for w in chain.weights],
                      [torch.full(SHAPE.output_shape, float("nan"), device="cuda") for _ in range(2)])
    inner.launch()
    outer = torch.cuda.CUDAGraph()
    with torch.cuda.graph(outer):
        x.mul_(2)
        inner.launch()
    del inner
    gc.collect()
    y.fill_(float("nan"))
    x.copy_(torch.tensor(chain.inputs[1]) / 2)
    outer.replay()
    torch.cuda.synchronize()
    chain.check(y.cpu().numpy(), 1)


@pytest.mark.parametrize("settings", [{"weights": "constant"}, {"weights": "shared"}])
def test_filters_of_the_reuse_kernel(torch, settings):
    kernel = warpconv.specialize(SHAPE, device="cuda", algorithm="reuse", settings=settings)
    chain = Chain(6, length=3)
    x = torch.tensor(chain.inputs[0], device="cuda")
    filters = [kernel.prepare(w) for w in chain.weights]
    buffers = [torch.full(SHAPE.output_shape, float("nan"), device="cuda") for _ in range(2)]
    for prepared in filters:
        kernel(x, prepared, out=buffers[0])
    graph, y = record(kernel, x, filters, buffers)
    graph.launch()
    chain.check(y.cpu().numpy(), 0)
    if settings["weights"] == "constant":
        with pytest.raises(ArgumentError, match="prepare"), warpconv.graph():
            kernel(x, torch.tensor(chain.weights[0], device="cuda"), out=y)


def test_threads_record_side_by_side(torch, kernel):
    chain, failures = Chain(7), []

    def work(number: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                x = torch.tensor(chain.inputs[number % 3], device="cuda")
                weights = [torch.tensor(w, device="cuda") for w in chain.weights]
                buffers = [torch.full(SHAPE.output_shape, float("nan"), device="cuda") for _ in range(2)]
                for _ in range(5):
                    graph, y = record(kernel, x, weights, buffers)
                    graph.launch()
                    chain.check(y.cpu().numpy(), number % 3)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures, failures


def test_errors_leave_everything_usable(torch, kernel):
    chain = Chain(8, length=1)
    x, w = torch.tensor(chain.inputs[0], device="cuda"), torch.tensor(chain.weights[0], device="cuda")
    y = torch.full(SHAPE.output_shape, float("nan"), device="cuda")
    for wrong in (lambda: kernel(x, w), lambda: kernel(x, w, out=x), lambda: kernel(x, w, out=y, stream=0)):
        with pytest.raises(ArgumentError), warpconv.graph():
            wrong()
    with pytest.raises(DeviceError, match="captured"), warpconv.graph():
        kernel(x, w, out=y)
        kernel.prepare(w, stream=recording.graph._stream)
    graph, end = record(kernel, x, [w], [y])
    graph.launch()
    chain.check(end.cpu().numpy(), 0)
    chain.check(kernel(x, w).cpu().numpy(), 0)


@pytest.mark.parametrize("algorithm", ["implicit_gemm", "im2win", "im2win_basic"])
def test_a_filter_by_pointer_is_reordered_inside_a_capture(torch, algorithm):
    """No filter is prepared, so that the graph reads the weights that are there when it is replayed."""
    shape = ConvShape(n=2, c=24, h=15, w=17, k=20, r=3, s=3, padding=1)
    call = dict(padding=1, algorithm=algorithm)
    x, w = (torch.randn(size, device="cuda") for size in (shape.input_shape, shape.weight_shape))
    y = warpconv.conv2d(x, w, **call)
    outer = torch.cuda.CUDAGraph()
    with torch.cuda.graph(outer):
        warpconv.conv2d(x, w, out=y, **call)
    w.copy_(torch.randn(shape.weight_shape, device="cuda"))
    y.fill_(float("nan"))
    outer.replay()
    torch.cuda.synchronize()
    reference.expected(x.cpu().numpy(), w.cpu().numpy(), shape).check(y.cpu().numpy(), algorithm)
