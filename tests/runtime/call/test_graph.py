"""Graphs of calls over a stand-in for the driver: what is recorded, refused, ordered and kept."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import warpconv
from tests.runtime.arrays.fake_arrays import cupy, torch  # noqa: F401
from tests.runtime.call.test_quick_calls import ORDINAL, SHAPE, Operands, dense, load
from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError
from warpconv.codegen.select import plan_layer
from warpconv.runtime.call import conv, kernels
from warpconv.runtime.call.recording import recording
from warpconv.runtime.devices.cuda import memory, streams


@pytest.fixture
def kernel(cuda):
    cuda.stack.append(PRIMARY + ORDINAL)
    return load(cuda, plan_layer(SHAPE, algorithm="direct"))


@pytest.fixture(autouse=True)
def nothing_is_left(cuda):
    yield
    assert recording.graph is None and not cuda.streams


def launches(cuda):
    return [arguments for name, arguments in cuda.calls if name == "cuGraphLaunch"]


def test_calls_are_recorded_in_order_and_launched_as_one(cuda, torch, kernel):
    first, second = Operands(torch), Operands(torch, start=1 << 28)
    kernel(first.x, first.w, out=first.y)           # known, and yet recorded
    prepared = kernel.prepare(second.w)
    del cuda.launched[:], cuda.arguments[:]
    with warpconv.graph() as graph:
        kernel(first.x, first.w, out=first.y)
        kernel(second.x, prepared, out=second.y)
    assert graph.calls == 2 and "2 calls" in repr(graph)
    (recorded,) = {stream for _, _, _, stream, _ in cuda.launched}
    assert recorded >= 60_000 and recorded != 501
    assert [a[:3] for a in cuda.arguments] == [first.pointers, [second.x.data_ptr(), prepared.prepared.block.pointer,
                                                               second.y.data_ptr()]]
    assert ("cuStreamBeginCapture_v2", (recorded, 2)) in cuda.calls
    graph.launch()
    graph(stream=77)
    assert launches(cuda) == [(80_000, 501), (80_000, 77)] and len(cuda.launched) == 2
    kernel(first.x, first.w, out=first.y)           # outside calls launch again
    assert cuda.launched[-1][3] == 501


def test_a_launch_waits_for_the_streams_of_the_arrays_libraries(cuda, torch, cupy, kernel):
    operands = Operands(torch)
    w = cupy.ndarray(SHAPE.weight_shape, strides=tuple(4 * s for s in dense(SHAPE.weight_shape)))
    with warpconv.graph() as graph:
        kernel(operands.x, w, out=operands.y)
    assert not any(name == "cuStreamWaitEvent" for name, _ in cuda.calls)
    graph.launch()
    waits = [arguments[0] for name, arguments in cuda.calls if name == "cuStreamWaitEvent"]
    assert waits == [501] and [stream for _, stream in cuda.recorded[:1]] == [701]


@pytest.mark.long
def test_arrays_and_filters_live_until_the_last_launch_is_done(cuda, torch, kernel):
    operands = Operands(torch)
    prepared = kernel.prepare(operands.w)
    with warpconv.graph() as graph:
        kernel(operands.x, prepared, out=operands.y)
    graph.launch()
    graph.launch()
    block = prepared.prepared.block
    pointer = block.pointer
    gone = [weakref.ref(operands.x), weakref.ref(prepared.prepared)]
    del operands, prepared
    gc.collect()
    assert all(reference() is not None for reference in gone) and prepared_on(gone[1]) == set()
    del graph
    gc.collect()
    assert ("cuGraphDestroy", (70_000,)) in cuda.calls
    assert not cuda.graphs and all(reference() is not None for reference in gone)
    memory.keep_alive.sweep()
    assert block.pointer == pointer                 # the GPU has not come past the launch
    for event in cuda.events:
        cuda.events[event] = True
    memory.keep_alive.sweep()
    gc.collect()
    assert all(reference() is None for reference in gone) and block.pointer == 0


def prepared_on(reference):
    return reference().used_on


@pytest.mark.parametrize("wrong, error, argument", [
    ("no output", ArgumentError, "out"), ("stream", ArgumentError, "stream"), ("host", ArgumentTypeError, "input"),
    ("gaps", ArgumentError, "input"), ("weight with gaps", ArgumentError, "weight")])
def test_what_cannot_be_recorded(cuda, torch, kernel, wrong, error, argument):
    operands, options = Operands(torch), {"out": None}
    options["out"] = operands.y
    x = operands.x
    if wrong == "no output":
        options = {}
    elif wrong == "stream":
        options["stream"] = 501
    elif wrong == "host":
        x, operands.w = np.zeros(SHAPE.input_shape, np.float32), np.zeros(SHAPE.weight_shape, np.float32)
        options["out"] = np.zeros(SHAPE.output_shape, np.float32)
    elif wrong == "gaps":
        x._strides = tuple(2 * stride for stride in x._strides)
    else:
        operands.w._strides = tuple(2 * stride for stride in operands.w._strides)
    with pytest.raises(error) as caught, warpconv.graph():
        kernel(x, operands.w, **options)
    assert caught.value.argument == argument and caught.value.hint
    assert cuda.launched == [] and not cuda.capturing


def test_an_error_in_the_block_ends_the_recording(cuda, torch, kernel):
    operands = Operands(torch)
    with pytest.raises(ZeroDivisionError), warpconv.graph() as graph:
        kernel(operands.x, operands.w, out=operands.y)
        raise ZeroDivisionError
    assert ("cuGraphDestroy", (70_000,)) in cuda.calls and not cuda.graphs and not cuda.capturing
    with pytest.raises(ArgumentError, match="not been recorded"):
        graph.launch()


def test_misuse(cuda, torch, kernel):
    operands = Operands(torch)
    with pytest.raises(ArgumentError, match="no kernel was called"), warpconv.graph():
        pass
    with warpconv.graph() as graph:
        kernel(operands.x, operands.w, out=operands.y)
        with pytest.raises(ArgumentError, match="already"):
            warpconv.graph().__enter__()
        with pytest.raises(DeviceError, match="captured"):
            kernel.prepare(operands.w, stream=recording.graph._stream)
    with pytest.raises(ArgumentError, match="has been recorded"), graph:
        pass
    cuda.fail["cuStreamEndCapture"] = 901
    with pytest.raises(DeviceError, match="CUDA_ERROR_901"), warpconv.graph():
        kernel(operands.x, operands.w, out=operands.y)


def test_one_context(cuda, torch, kernel):
    operands, other = Operands(torch), Operands(torch, start=1 << 28, device=("cuda", 0))
    second = load(cuda, plan_layer(SHAPE, algorithm="direct"), ordinal=0)
    with warpconv.graph() as graph:
        kernel(operands.x, operands.w, out=operands.y)
        with pytest.raises(ArgumentError, match="one CUDA context"):
            second(other.x, other.w, out=other.y)
    assert graph.calls == 1 and len(cuda.launched) == 1


def test_weights_in_constant_memory_need_a_filter(cuda, torch, kernel):
    cuda.cuModuleGetGlobal_v2 = lambda pointer, nbytes, module, symbol: cuda.put(pointer, 77) + cuda.put(nbytes, 36)
    constant = load(cuda, plan_layer(SHAPE, algorithm="reuse", settings={"weights": "constant"}))
    operands = Operands(torch)
    prepared = constant.prepare(operands.w)
    constant(operands.x, prepared, out=operands.y)
    with warpconv.graph() as graph:
        with pytest.raises(ArgumentError, match="constant memory") as caught:
            constant(operands.x, operands.w, out=operands.y)
        assert "prepare" in caught.value.hint
        constant(operands.x, prepared, out=operands.y)
    assert graph.calls == 1


def test_a_graph_launched_into_another_graph_is_kept(cuda, torch, kernel):
    """As a node behind what is captured so far: the driver refuses to launch an executable graph there."""
    operands = Operands(torch)
    with warpconv.graph() as graph:
        kernel(operands.x, operands.w, out=operands.y)
    assert ("cuGraphDestroy", (70_000,)) not in cuda.calls      # its copies need it
    cuda.capturing.add(501)
    graph.launch()
    assert cuda.calls[-3:] == [("cuStreamGetCaptureInfo_v2", (501,)),
                               ("cuGraphAddChildGraphNode", (75_000, [90_000], 70_000)),
                               ("cuStreamUpdateCaptureDependencies", (501, 90_001, 1, 1))]
    cuda.fail["cuGraphAddChildGraphNode"] = 1
    with pytest.raises(DeviceError, match="into the one that is captured"):
        graph.launch()
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is not None and launches(cuda) == [] and cuda.recorded == []


def test_conv2d_and_the_cpu_device(cuda, torch, kernel, monkeypatch):
    monkeypatch.setattr(kernels, "_load_cuda", lambda text, ordinal: load(cuda, text.plan, ordinal))
    conv.clear()
    operands = Operands(torch)
    conv.conv2d(operands.x, operands.w, padding=1, out=operands.y)
    with warpconv.graph() as graph:
        conv.conv2d(operands.x, operands.w, padding=1, out=operands.y)
    conv.clear()
    assert graph.calls == 1 and not streams.capturing(501)


def test_no_such_functions(cuda, torch, kernel, monkeypatch):
    monkeypatch.delattr(type(cuda), "cuGraphInstantiateWithFlags")
    operands = Operands(torch)
    with pytest.raises(DeviceError, match="no graphs"), warpconv.graph():
        kernel(operands.x, operands.w, out=operands.y)
