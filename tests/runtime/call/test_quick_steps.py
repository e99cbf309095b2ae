"""Remembered calls of several launches: with workspaces, with a filter that is transformed in each call, of gradients.

A repeated call has to launch what the checked one launched, with the same arguments: the same pool gives the same
workspaces.
"""

from __future__ import annotations

import types

import numpy as np
import pytest

from tests.runtime.arrays.fake_arrays import torch  # noqa: F401
from tests.runtime.call.quick import ORDINAL, dense, load
from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen.errors import DeviceError
from warpconv.codegen.plan import Workspace
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays
from warpconv.runtime.call.operands import Operand, launch
from warpconv.runtime.devices.cuda import memory, quick, tensor_maps

DENSE = dict(n=2, c=64, h=14, w=14, k=64, r=3, s=3, padding=1, dtype="float16")
APART = dict(n=2, c=40, h=14, w=14, k=40, r=3, s=3, padding=1, groups=40, dtype="float16")
FORWARD = {
    "a filter in another order": ({**DENSE, "layout": "NHWC"}, "mma", {"splits": 1}),
    "split sums": ({**DENSE, "layout": "NHWC"}, "mma", {"splits": 4}),
    "a pass to NHWC": (DENSE, "mma", {}), "descriptors": ({**DENSE, "layout": "NHWC"}, "wgmma", {}),
    "descriptors of a workspace": (DENSE, "wgmma", {}), "float32": ({**DENSE, "dtype": "float32"}, "implicit_gemm", {}),
    "several channels": ({**APART, "layout": "NHWC"}, "channels", {})}
EARLY = {"split sums", "a pass to NHWC", "descriptors of a workspace"}
STREAM = 501            # PyTorch's current one
GRADIENTS = {
    "data, by a forward kernel": ("data_gradient", APART),
    "data, dense": ("data_gradient", {**DENSE, "layout": "NHWC"}),
    "data, a stride": ("data_gradient", {**DENSE, "stride": 2}),
    "data, phases": ("data_gradient", {**APART, "stride": 2}), "filter": ("filter_gradient", APART),
    "filter, in another order": ("filter_gradient", {**APART, "layout": "NHWC"}),
    "filter, dense": ("filter_gradient", {**DENSE, "layout": "NHWC"}), "filter, NCHW": ("filter_gradient", DENSE)}


def tensors(torch, *sizes, dtype):
    """Each at an address of its own."""
    found = []
    for size in sizes:
        torch.pointer += 1 << 24
        found.append(torch.Tensor(size, dtype, strides=dense(size), pointer=torch.pointer))
    return found


def told(cuda):
    """What was launched since the last question: functions, extents, streams, and arguments in 32 bits."""
    found = [(*launched[:4], tuple(word % 2**32 for word in words))
             for launched, words in zip(cuda.launched, cuda.arguments)]
    del cuda.launched[:], cuda.arguments[:]
    return found


def by_turn(found):
    """The same with each workspace, whose memory may be another each time, as the n-th that is met."""
    met = {}

    def one(word):
        return f"workspace {met.setdefault(word, len(met))}" if 4096 <= word < 1 << 20 else word

    return [(*launched, tuple(map(one, words))) for *launched, words in found]


@pytest.fixture(autouse=True)
def context(cuda, monkeypatch):
    """A current context; descriptors are made of the address that they describe."""
    cuda.stack.append(PRIMARY + ORDINAL)
    monkeypatch.setattr(tensor_maps, "encoded", lambda described, address: address.to_bytes(8, "little") * 16)


@pytest.mark.parametrize("case", FORWARD)
def test_a_forward_call_again(cuda, torch, case):
    layer, algorithm, settings = FORWARD[case]
    shape = ConvShape(**layer)
    plan = plan_layer(shape, algorithm=algorithm, settings=settings, arch="sm_90a")
    kernel = load(cuda, plan)
    checked = []
    real = kernel._call
    kernel._call = lambda *arguments: checked.append(arguments) or real(*arguments)
    stored = shape.layout.stored
    x, w, y = tensors(torch, stored(shape.input_shape), shape.weight_shape, stored(shape.output_shape),
                      dtype=shape.dtype.value)
    kernel(x, w, out=y)
    first, held = told(cuda), memory.pool.held_bytes()
    for _ in range(3):
        kernel(x, w, out=y)
        assert told(cuda) == first
    program = plan.program
    early = [step.early for step in program.launches]
    assert cuda.early == early * 4 and any(early) == (case in EARLY)
    assert len(checked) == 1 and len(first) == len(program.steps) + len(program.preparation.steps
                                                                        if program.preparation else ())
    assert memory.pool.held_bytes() == held


def gradient(torch, operation, shape):
    """Operands of a gradient's kernel, what it makes, and that array's sizes."""
    dy, x, w = tensors(torch, shape.layout.stored(shape.output_shape), shape.layout.stored(shape.input_shape),
                       shape.weight_shape, dtype=shape.dtype.value)
    given = {"dy": dy, "w": w} if operation == "data_gradient" else {"x": x, "dy": dy}
    operands = {name: Operand(name, array, arrays.view(array, name)) for name, array in given.items()}
    return operands, *(("dx", tuple(x.shape)) if operation == "data_gradient" else ("dw", shape.weight_shape))


@pytest.mark.parametrize("case", GRADIENTS)
def test_a_gradient_again(cuda, torch, case):
    operation, layer = GRADIENTS[case]
    shape = ConvShape(**layer)
    plan = plan_layer(shape, operation=operation, arch="sm_90a")
    kernel, kept = load(cuda, plan), []
    made = torch.Tensor((1,), shape.dtype.value, strides=(1,), pointer=1 << 20)
    torch.empty = lambda sizes, dtype, device: torch.Tensor(sizes, shape.dtype.value, (device.type, device.index),
                                                            dense(sizes), pointer=1 << 20)
    torch.Tensor.new_empty_strided = lambda like, sizes, strides, dtype: torch.empty(sizes, dtype, like.device)
    operands, target, sizes = gradient(torch, operation, shape)
    first_operand = next(iter(operands.values()))
    result = launch(kernel, shape, operands, first_operand, target, sizes, (None, None), None, None, None, kept.append)
    first, held = told(cuda), memory.pool.held_bytes()
    (entry,) = kept
    values = [operand.value for operand in operands.values()]
    for _ in range(3):
        again = entry.repeat(*values, None, None, None, None)
        assert again.shape == result.shape and again.stride() == result.stride() and again.data_ptr() == made.data_ptr()
        assert by_turn(told(cuda)) == by_turn(first)
    assert memory.pool.held_bytes() == held
    x, other = tensors(torch, *(value.shape for value in values), dtype=shape.dtype.value)
    entry.repeat(x, other, None, None, None, None)
    moved = told(cuda)
    assert [one[:4] for one in moved] == [one[:4] for one in first] and moved != first
    addresses = {word for _, _, _, _, words in moved for word in words}
    assert {x.data_ptr() % 2**32, other.data_ptr() % 2**32} <= addresses


def remembered(cuda, torch):
    """A call of four launches with workspaces, which was made twice."""
    shape = ConvShape(**DENSE)
    kernel = load(cuda, plan_layer(shape, algorithm="mma", arch="sm_90a"))
    x, w, y = tensors(torch, shape.input_shape, shape.weight_shape, shape.output_shape, dtype="float16")
    for _ in range(2):
        kernel(x, w, out=y)
    return lambda: kernel(x, w, out=y)


def test_a_launch_that_fails_gives_the_workspaces_back(cuda, torch):
    call = remembered(cuda, torch)
    held = memory.pool.held_bytes()
    cuda.fail["cuLaunchKernel"] = 719
    with pytest.raises(DeviceError, match="719"):
        call()
    cuda.fail.clear()
    told(cuda)
    call()
    assert len(told(cuda)) == 4 and memory.pool.held_bytes() == held


def test_while_a_stream_is_captured_the_workspaces_are_the_graphs(cuda, torch):
    call = remembered(cuda, torch)
    told(cuda)
    cuda.capturing.add(501)
    call()
    captured = told(cuda)
    cuda.capturing.clear()
    call()
    assert captured != (later := told(cuda)) and [one[:4] for one in captured] == [one[:4] for one in later]


class Allocator:
    """PyTorch's, of tensors' streams: every block that is taken is given back, or is still out."""

    def __init__(self):
        self.out, self.taken = {}, []

    def take(self, nbytes, stream):
        pointer = (1 << 32) + 4096 * len(self.taken)
        self.taken.append((nbytes, stream))
        self.out[pointer] = nbytes
        return pointer

    def give(self, pointer):
        del self.out[pointer]


@pytest.fixture
def allocator(torch):
    made = Allocator()
    torch._C._cuda_cudaCachingAllocator_raw_alloc = made.take
    torch._C._cuda_cudaCachingAllocator_raw_delete = made.give
    torch.cuda.device_count = lambda: 1
    return made


def test_workspaces_beside_tensors_are_pytorchs(cuda, torch, allocator):
    """In the first call and in remembered ones, while a stream is captured, and where a launch fails; sizes and stream
    are the call's."""
    held = memory.pool.held_bytes()
    call = remembered(cuda, torch)
    each = len(allocator.taken) // 2
    assert each >= 3 and allocator.taken[:each] == allocator.taken[each:] and not allocator.out
    assert {stream for _, stream in allocator.taken} == {STREAM}
    cuda.capturing.add(STREAM)
    call()
    cuda.capturing.clear()
    cuda.fail["cuLaunchKernel"] = 719
    with pytest.raises(DeviceError, match="719"):
        call()
    assert not allocator.out and memory.pool.held_bytes() == held


def test_a_graph_that_warpconv_records_keeps_workspaces_of_its_own(cuda, torch, allocator, monkeypatch):
    x, = tensors(torch, (2, 3), dtype="float32")
    view = arrays.view(x, "x")
    assert isinstance(memory.pool_of(view), memory.TorchPool)
    monkeypatch.setattr(memory, "recording", types.SimpleNamespace(graph=object()))
    assert memory.pool_of(view) is memory.pool
    monkeypatch.undo()
    assert memory.pool_of(arrays.view(np.zeros(3, np.float32), "x")) is memory.pool
    # what is copied to a GPU that PyTorch may never have been on
    assert memory.pool_of(types.SimpleNamespace(kind=view.kind, is_device=False)) is memory.pool


def test_other_streams_and_a_full_gpu(cuda, torch, allocator, monkeypatch):
    """What is not on PyTorch's current stream may be captured by somebody else: the usual pool keeps such blocks. Where
    PyTorch has no room the pool's spare blocks go back to the driver first."""
    class Full(RuntimeError):
        pass

    def refuse(nbytes, stream):
        tried.append(nbytes)
        raise Full("no room")

    cuda.stack.append(PRIMARY + ORDINAL)
    x, = tensors(torch, (2, 3), dtype="float32")
    view, tried = arrays.view(x, "x"), []
    usual = memory.pool_of(view)
    block = usual.allocate(512, STREAM + 1)
    assert not allocator.taken and block.pointer in cuda.memory
    usual.release(block)
    torch._C._cuda_cudaCachingAllocator_raw_alloc = refuse
    monkeypatch.setattr(torch, "OutOfMemoryError", Full, raising=False)
    with pytest.raises(DeviceError, match="no room for 4096 bytes"):
        memory.pool_of(view).allocate(4096, STREAM)
    assert tried == [4096, 4096] and not cuda.memory


def test_of_several_gpus_pytorchs_allocator_is_told_which(torch, allocator, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "caching_allocator_alloc", lambda *given: asked.append(given) or 4096,
                        raising=False)
    monkeypatch.setattr(allocator, "out", {4096: 512})
    x, = tensors(torch, (2, 3), dtype="float32")
    pool = memory.pool_of(arrays.view(x, "x"))
    block = pool.allocate(512, STREAM)
    pool.release(block)
    pool.release(block)
    assert asked == [(512, ORDINAL, STREAM)] and block.pointer == 0 and not allocator.out


@pytest.mark.parametrize("spans, blocks, places", [
    ([(0, 1, 1000), (0, 0, 5000)], 2, (0, 1)), ([(0, 0, 5000), (1, 2, 5000)], 1, (0, 0)),
    ([(0, 1, 5000), (1, 2, 5000)], 2, (0, 1)), ([(0, 0, 5000), (1, 1, 900000)], 2, (0, 1)),
    ([(0, 0, 5000), (0, 2, 5000), (1, 1, 5000), (2, 3, 5000)], 2, (0, 1, 0, 0)), ([], 0, ())])
def test_workspaces_share_a_block_where_the_pool_would_have_given_it_again(spans, blocks, places):
    workspaces = [Workspace(name=f"w{i}", bytes_each=nbytes, first_step=first, last_step=last)
                  for i, (first, last, nbytes) in enumerate(spans)]
    found = quick._shared(workspaces, [workspace.bytes_each for workspace in workspaces])
    assert len(found[0]) == blocks and found[1] == places
    assert all(found[0][place] >= workspace.bytes_each for place, workspace in zip(places, workspaces))
