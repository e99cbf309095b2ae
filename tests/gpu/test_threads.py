"""Threads, streams, contexts: nothing is shared that may race."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import warpconv
from tests.gpu import support
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call import conv

pytestmark = pytest.mark.gpu

SHAPES = [ConvShape(n=1 + i % 2, c=1 + i % 3, h=60 + 7 * i, w=80 + 5 * i, k=2, r=3 + 2 * (i % 2), s=3, padding=1)
          for i in range(4)]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def run_threads(count: int, body) -> None:
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def one(number: int) -> None:
        try:
            start.wait(30)
            body(number)
        except BaseException as error:       # shown below
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("weights", ["shared", "constant"])
def test_eight_threads_with_two_streams_each(torch, weights):
    conv.clear()                             # so that the threads also meet while they build and load
    layers = [support.Layer(shape, seed=number) for number, shape in enumerate(SHAPES)]

    def body(number: int) -> None:
        streams = [torch.cuda.Stream() for _ in range(2)]
        results = []
        for turn in range(12):
            layer = layers[(number + turn) % len(layers)]
            kernel = warpconv.specialize(layer.shape, device="cuda", algorithm="reuse", settings={"weights": weights})
            with torch.cuda.stream(streams[turn % 2]):
                x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
                results.append((layer, kernel(x, w)))
        for stream in streams:
            stream.synchronize()
        for layer, y in results:
            layer.check(y, f"thread {number}")

    run_threads(8, body)


def test_eight_threads_with_numpy_arrays():
    layers = [support.Layer(shape, seed=number) for number, shape in enumerate(SHAPES)]

    def body(number: int) -> None:
        for turn in range(8):
            layer = layers[(number + turn) % len(layers)]
            layer.check(warpconv.conv2d(layer.x, layer.w, padding=1, device="cuda"), f"thread {number}")

    run_threads(8, body)


@pytest.mark.parametrize("prepare", [False, True])
def test_constant_weights_on_two_streams_do_not_race(torch, prepare):
    shape = ConvShape(c=1, h=2000, w=2000, k=1, r=5, s=5, padding=2)
    kernel = warpconv.specialize(shape, device="cuda", algorithm="reuse", settings={"weights": "constant"})
    x = torch.ones(shape.input_shape, device="cuda")
    weights = [torch.full(shape.weight_shape, value, device="cuda") for value in (1.0, -3.0)]
    streams = [torch.cuda.Stream() for _ in weights]
    torch.cuda.synchronize()
    given = [kernel.prepare(w) for w in weights] if prepare else weights
    results = []
    for _ in range(40):
        for stream, w in zip(streams, given):
            with torch.cuda.stream(stream):
                results.append(kernel(x, w))
    torch.cuda.synchronize()
    for number, y in enumerate(results):
        value = (1.0, -3.0)[number % 2]
        inner = y[0, 0, 2:-2, 2:-2]
        assert bool((inner == 25 * value).all()), f"call {number}"


def test_a_second_context():
    """A context of PyCUDA's own beside the primary one: arrays of each are computed where they are."""
    driver = support.contexts.driver()
    layer = support.Layer(SHAPES[1], seed=9)
    layer.check(warpconv.conv2d(layer.x, layer.w, padding=1, device="cuda"), "primary")
    for _ in range(2):                       # the second one may get the first one's address
        context = driver.Device(0).make_context()
        try:
            from pycuda import gpuarray
            x, w = gpuarray.to_gpu(layer.x), gpuarray.to_gpu(layer.w)
            layer.check(warpconv.conv2d(x, w, padding=1), "second context")
            layer.check(warpconv.conv2d(layer.x, layer.w, padding=1, device="cuda"), "NumPy in the second context")
            del x, w
        finally:
            context.synchronize()
            context.pop()
            context.detach()
        layer.check(warpconv.conv2d(layer.x, layer.w, padding=1, device="cuda"), "primary again")


def test_torch_tensors_while_another_context_is_current(torch):
    layer = support.Layer(SHAPES[2], seed=4)
    x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    torch.cuda.synchronize()
    out = torch.full(layer.shape.output_shape, float("nan"), device="cuda")
    torch.cuda.synchronize()
    context = support.contexts.driver().Device(0).make_context()
    try:
        warpconv.conv2d(x, w, padding=1, out=out)
    finally:
        context.pop()
        context.detach()
    torch.cuda.synchronize()
    layer.check(out, "tensors of the primary context")


def test_arrays_stay_alive_until_the_stream_has_passed(torch):
    layer = support.Layer(SHAPES[3], seed=8)
    side = torch.cuda.Stream()
    kernel = warpconv.specialize(layer.shape, device="cuda")
    x, w = torch.tensor(layer.x, device="cuda"), torch.tensor(layer.w, device="cuda")
    kernel(x, w)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
    y = kernel(x, w, stream=side)
    del x, w
    junk = [torch.full(layer.shape.input_shape, np.nan, device="cuda") for _ in range(8)]   # takes the memory if free
    side.synchronize()
    layer.check(y, "inputs dropped early")
    del junk
