"""Calls whose like has been checked: the same launch with new addresses, the checked way wherever anything differs."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.runtime.arrays.fake_arrays import cupy, torch  # noqa: F401
from tests.runtime.call.quick import ORDINAL, SHAPE, Operands, checked, dense, kernel, load  # noqa: F401
from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.select import plan_layer
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.call import signatures
from warpconv.runtime.call.recording import recording


def test_the_second_call_is_the_first_with_other_addresses(cuda, torch, kernel, checked):
    first, second = Operands(torch), Operands(torch, start=1 << 28)
    assert kernel(first.x, first.w, out=first.y) is first.y
    before = len(cuda.calls)
    assert kernel(second.x, second.w, out=second.y) is second.y
    assert len(checked) == 1 and len(cuda.calls) == before      # nothing of the driver but the context and the launch
    assert [arguments[:3] for arguments in cuda.arguments] == [first.pointers, second.pointers]
    a, b = cuda.launched
    assert a[:4] == b[:4] and a[3] == 501                       # function, grid, block, shared memory, torch's stream
    assert cuda.arguments[0][3:] == cuda.arguments[1][3:] == [2, 9, 11, 9, 11]


def test_drivers_of_older_toolkits(cuda, torch, kernel, checked, monkeypatch):
    """They number no contexts and launch by eleven arguments."""
    for name in ("cuLaunchKernelEx", "cuCtxGetId"):
        monkeypatch.setattr(type(cuda), name, None)
    first, second = Operands(torch), Operands(torch, start=1 << 28)
    for operands in (first, second):
        kernel(operands.x, operands.w, out=operands.y)
    assert len(checked) == 1 and cuda.launched[0][:4] == cuda.launched[1][:4]
    assert [arguments[:3] for arguments in cuda.arguments] == [first.pointers, second.pointers]
    cuda.stack[:] = [PRIMARY]
    kernel(second.x, second.w, out=second.y)
    assert len(checked) == 2                                    # another context is current


def test_an_output_is_made_like_the_first(cuda, torch, kernel, checked):
    first, second = Operands(torch), Operands(torch, start=1 << 28)
    torch.empty = lambda shape, dtype, device: torch.Tensor(shape, "float32", (device.type, device.index), dense(shape),
                                                            pointer=1 << 29)
    kernel(first.x, first.w)
    made = kernel(second.x, second.w)
    assert len(checked) == 1
    assert made.shape == SHAPE.output_shape and made.stride() == dense(SHAPE.output_shape)
    assert cuda.arguments[1][:3] == [*second.pointers[:2], made.data_ptr()]


def test_an_output_of_another_type_is_made_like_the_first(cuda, torch, checked):
    """Memory for the input's type would be too small for what is stored."""
    cuda.stack.append(PRIMARY + ORDINAL)
    shape = replace(SHAPE, out_dtype="float16")
    kernel = load(cuda, plan_layer(shape, algorithm="direct"))
    torch.empty = lambda sizes, dtype, device: torch.Tensor(sizes, "float16", (device.type, device.index), dense(sizes),
                                                            pointer=1 << 29)
    first, second = Operands(torch), Operands(torch, start=1 << 28)
    made = [kernel(operands.x, operands.w) for operands in (first, second)]
    assert len(checked) == 1 and made[0].dtype == made[1].dtype == torch.float16


def test_prepared_filters(cuda, torch, kernel, checked):
    operands = Operands(torch)
    filters = [kernel.prepare(operands.w) for _ in range(2)]
    for prepared in (*filters, filters[0]):
        kernel(operands.x, prepared, out=operands.y)
    assert len(checked) == 1                                    # what is remembered holds for all filters of the kernel
    blocks = [prepared.prepared.block.pointer for prepared in filters]
    assert [arguments[1] for arguments in cuda.arguments] == [*blocks, blocks[0]] and blocks[0] != blocks[1]
    assert filters[1].prepared.used_on == {501}
    cuda.capturing.add(501)
    kernel(operands.x, filters[0], out=operands.y)
    assert len(checked) == 2                                    # a graph has to keep its filter


def test_a_filter_s_streams_are_not_asked_when_it_goes(cuda, torch, kernel, checked):
    """They may be gone: CuPy's go with their last reference, and the driver reads where a stream was."""
    operands = Operands(torch)
    one, several = kernel.prepare(operands.w), kernel.prepare(operands.w)
    kernel(operands.x, one, out=operands.y)
    assert several.prepared.stream == 501
    for stream in (501, 777):
        kernel(operands.x, several, out=operands.y, stream=stream)
    blocks = [prepared.prepared.block.pointer for prepared in (one, several)]
    before = len(cuda.recorded)
    del one, several
    checked.clear()
    gc.collect()
    assert len(cuda.recorded) == before
    assert blocks[0] in cuda.memory and blocks[1] not in cuda.memory       # the second went to the driver, which waits


def test_a_thread_without_a_context_has_the_layers_for_the_call(cuda, torch, kernel, checked):
    """As PyTorch's threads of gradients have none."""
    operands = Operands(torch)
    kernel(operands.x, operands.w, out=operands.y)
    cuda.stack.clear()
    kernel(operands.x, operands.w, out=operands.y)
    assert len(checked) == 1 and len(cuda.launched) == 2 and not cuda.stack
    cuda.number_of[PRIMARY + ORDINAL] = 9                   # another context at the same address
    kernel(operands.x, operands.w, out=operands.y)
    assert len(checked) == 2 and not cuda.stack


def test_a_weight_in_channels_last_is_copied_in_each_call(cuda, torch, kernel, checked):
    copies = []

    def contiguous(tensor):
        copies.append(torch.Tensor(tensor.shape, "float32", strides=dense(tensor.shape),
                                   pointer=(7 + len(copies)) << 26))
        return copies[-1]

    torch.Tensor.contiguous = contiguous
    operands = Operands(torch)
    k, c, r, s = SHAPE.weight_shape
    operands.w._strides = c * r * s, 1, s * c, c
    for _ in range(3):
        kernel(operands.x, operands.w, out=operands.y)
    assert len(checked) == 1 and [words[1] for words in cuda.arguments] == [copy.data_ptr() for copy in copies]


@pytest.mark.parametrize("last, offset", [(True, 0), (False, 0), (True, 4)])
def test_a_weight_that_lies_in_order_is_read_where_it_is(cuda, torch, checked, last, offset):
    """At an address from which 16 bytes can be copied; others are prepared in each call."""
    shape = replace(SHAPE, c=32, k=32)
    cuda.stack.append(PRIMARY + ORDINAL)
    kernel = load(cuda, plan_layer(shape, algorithm="mma", precision="tf32", arch="sm_80",
                                   settings=dict(tile_n=32, tile_k=32)))
    sizes = shape.input_shape, shape.weight_shape, shape.output_shape
    x, w, y = (torch.Tensor(size, "float32", strides=dense(size), pointer=(1 << 24) + (number << 20))
               for number, size in enumerate(sizes))
    if last:
        _, c, r, s = shape.weight_shape
        w._strides = c * r * s, 1, s * c, c
        torch.Tensor.contiguous = lambda tensor: torch.Tensor(tensor.shape, "float32", strides=dense(tensor.shape),
                                                              pointer=1 << 28)
    w._pointer += offset
    for _ in range(3):
        kernel(x, w, out=y)
    in_order = last and not offset
    each = len(kernel.program.steps) + (not in_order) * len(kernel.program.preparation.steps)
    assert len(checked) == 1 and len(cuda.launched) == 3 * each
    assert (in_order or not last) == any(w.data_ptr() in words for words in cuda.arguments)     # of a copy, if not


@pytest.mark.parametrize("change", ["context", "stream", "output's address", "recording", "shape"])
def test_what_has_to_be_checked_again(cuda, torch, kernel, checked, change, monkeypatch):
    operands, options = Operands(torch), {}
    kernel(operands.x, operands.w, out=operands.y)
    kernel(operands.x, operands.w, out=operands.y, stream=501)
    assert len(checked) == 1
    if change == "context":
        cuda.number_of[PRIMARY + ORDINAL] = 9                   # another context at the same address
    elif change == "stream":
        options["stream"] = 77
    elif change == "output's address":
        operands.y._pointer = operands.x.data_ptr() + 4 * (2 * 3 * 9 * 11 - 1)
    elif change == "shape":
        for tensor, shape in ((operands.x, (1, *SHAPE.input_shape[1:])), (operands.y, (1, *SHAPE.output_shape[1:]))):
            tensor.shape, tensor._strides = shape, dense(shape)
    else:
        class Graph:
            def check(self, *arguments):
                pass

            add = check

            def join(self, ordinal, pointer):
                return 88

        monkeypatch.setattr(recording, "graph", Graph())
    if change == "output's address":
        with pytest.raises(ArgumentError, match="shares memory with input"):
            kernel(operands.x, operands.w, out=operands.y, **options)
        assert len(cuda.launched) == 2
    else:
        kernel(operands.x, operands.w, out=operands.y, **options)
    assert len(checked) == 2


@pytest.mark.parametrize("operand, argument", [("x", "input"), ("w", "weight"), ("y", "out")])
@pytest.mark.parametrize("fault, error", [("requires_grad", ArgumentTypeError), ("neg", ArgumentTypeError),
                                          ("odd", ArgumentError), ("type", ArgumentTypeError),
                                          ("gpu", ArgumentTypeError)])
def test_errors_are_raised_after_a_good_call(cuda, torch, kernel, operand, argument, fault, error):
    operands = Operands(torch)
    kernel(operands.x, operands.w, out=operands.y)
    tensor = getattr(operands, operand)
    if fault == "requires_grad":
        tensor.requires_grad = True
    elif fault == "neg":
        tensor._neg = True
    elif fault == "odd":
        tensor._pointer += 2
    elif fault == "type":
        tensor.dtype = torch.bfloat16
    else:
        tensor.device = type(tensor.device)("cuda", 0)
    with pytest.raises(error) as caught:
        kernel(operands.x, operands.w, out=operands.y)
    assert caught.value.argument == argument or fault == "gpu"
    assert len(cuda.launched) == 1


def test_a_weight_that_requires_grad_is_no_filter(cuda, torch, kernel):
    """Neither has a signature; they must not be taken for one another."""
    operands = Operands(torch)
    kernel(operands.x, kernel.prepare(operands.w), out=operands.y)
    operands.w.requires_grad = True
    with pytest.raises(ArgumentTypeError) as caught:
        kernel(operands.x, operands.w, out=operands.y)
    assert caught.value.argument == "weight"


def test_a_bias_that_requires_grad_is_not_no_bias(cuda, torch, kernel):
    operands = Operands(torch)
    kernel(operands.x, operands.w, out=operands.y)
    bias = torch.Tensor((4,), strides=(1,), pointer=1 << 20, requires_grad=True)
    with pytest.raises(ArgumentError, match="without a bias"):
        kernel(operands.x, operands.w, bias, out=operands.y)
    assert len(cuda.launched) == 1


def test_a_filter_of_another_kernel_is_refused_after_a_good_call(cuda, torch, kernel):
    operands = Operands(torch)
    kernel(operands.x, kernel.prepare(operands.w), out=operands.y)
    other = load(cuda, plan_layer(SHAPE, algorithm="direct", epilogue=(Epilogue.RELU,)))
    with pytest.raises(ArgumentError, match="another kernel"):
        kernel(operands.x, other.prepare(operands.w), out=operands.y)


def test_an_array_with_gaps_is_copied_each_time(cuda, torch, kernel, checked, monkeypatch):
    operands = Operands(torch)
    copies = iter([3 << 30, 5 << 30])
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda self: torch.Tensor(self.shape, strides=dense(self.shape),
                                                                             pointer=next(copies)))
    operands.x._strides = tuple(2 * stride for stride in operands.x._strides)
    for _ in range(2):
        kernel(operands.x, operands.w, out=operands.y)
    assert [arguments[0] for arguments in cuda.arguments] == [3 << 30, 5 << 30] and len(checked) == 2


def test_an_output_with_gaps_is_copied_into_each_time(cuda, torch, kernel, checked, monkeypatch):
    """On the call's stream, behind the kernel, which wrote to memory of its own."""
    operands, made, copies = Operands(torch), iter([3 << 30, 5 << 30]), []
    torch.empty = lambda shape, dtype, device: torch.Tensor(shape, "float32", (device.type, device.index), dense(shape),
                                                            pointer=next(made))
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, source: copies.append(
        (self, source.data_ptr(), len(cuda.launched), torch.entered[-1:])), raising=False)
    operands.y._strides = tuple(2 * stride for stride in operands.y._strides)
    assert kernel(operands.x, operands.w, out=operands.y) is operands.y
    assert kernel(operands.x, operands.w, out=operands.y, stream=77) is operands.y
    assert copies == [(operands.y, 3 << 30, 1, []), (operands.y, 5 << 30, 2, [("external", 77, 1)])]
    assert [arguments[2] for arguments in cuda.arguments] == [3 << 30, 5 << 30] and len(checked) == 2


@pytest.mark.parametrize("operand", ["x", "w", "bias"])
@pytest.mark.parametrize("side", ["begins inside", "ends inside"])
def test_the_output_overlaps_nothing(cuda, torch, operand, side):
    cuda.stack.append(PRIMARY + ORDINAL)
    kernel = load(cuda, plan_layer(SHAPE, algorithm="direct", epilogue=(Epilogue.BIAS,)))
    operands = Operands(torch)
    operands.bias = torch.Tensor((4,), strides=(1,), pointer=1 << 20)
    kernel(operands.x, operands.w, operands.bias, out=operands.y)
    other = getattr(operands, operand)
    size = 4 * int(np.prod(other.shape)) if side == "begins inside" else -4 * int(np.prod(operands.y.shape))
    operands.y._pointer = other.data_ptr() + size       # side by side
    kernel(operands.x, operands.w, operands.bias, out=operands.y)
    operands.y._pointer += -4 if side == "begins inside" else 4
    with pytest.raises(ArgumentError, match="shares memory"):
        kernel(operands.x, operands.w, operands.bias, out=operands.y)
    assert len(cuda.launched) == 2


def test_a_residual_is_remembered_beside_the_output_and_in_its_place(cuda, torch, checked):
    cuda.stack.append(PRIMARY + ORDINAL)
    kernel = load(cuda, plan_layer(SHAPE, algorithm="direct", epilogue=(Epilogue.RESIDUAL,)))
    operands = Operands(torch)
    tensor = lambda at: torch.Tensor(SHAPE.output_shape, strides=dense(SHAPE.output_shape), pointer=at)     # noqa: E731
    size = 4 * int(np.prod(SHAPE.output_shape))
    at = operands.y.data_ptr()
    for pointer in (1 << 20, 1 << 21, at, at + size, at - size):        # the first is checked; in place; side by side
        kernel(operands.x, operands.w, residual=tensor(pointer), out=operands.y)
        assert cuda.arguments[-1][:4] == [*operands.pointers[:2], pointer, at]
    assert len(checked) == 1
    for pointer in (at + 4, at - 4, at + size - 4, at - size + 4):
        with pytest.raises(ArgumentError, match="out shares memory with residual"):
            kernel(operands.x, operands.w, residual=tensor(pointer), out=operands.y)
    with pytest.raises(ArgumentError, match="adds a residual and none is given"):
        kernel(operands.x, operands.w, out=operands.y)
    assert len(cuda.launched) == 5


def test_arrays_of_two_libraries_are_ordered_each_time(cuda, torch, cupy, kernel, checked):
    operands = Operands(torch)
    w = cupy.ndarray(SHAPE.weight_shape, strides=tuple(4 * s for s in dense(SHAPE.weight_shape)))
    for _ in range(3):
        kernel(operands.x, w, out=operands.y)
    waits = [arguments for name, arguments in cuda.calls if name == "cuStreamWaitEvent"]
    assert len(checked) == 3 and [arguments[0] for arguments in waits] == [501] * 3


def test_the_context_of_cupys_memory_is_asked(cuda, cupy, kernel, checked):
    def array(shape, pointer):
        made = cupy.ndarray(shape, strides=tuple(4 * s for s in dense(shape)))
        made.data.ptr, made.data.device_id = pointer, ORDINAL
        return made

    x, w, y = (array(shape, (number + 1) << 20) for number, shape in
               enumerate((SHAPE.input_shape, SHAPE.weight_shape, SHAPE.output_shape)))
    for _ in range(2):
        kernel(x, w, out=y)
    assert len(checked) == 1
    cuda.device_of[55], cuda.number_of[55] = ORDINAL, 3
    cuda.memory[1 << 20] = (55, 64)                             # the same address, now of another context
    kernel(x, w, out=y)
    assert len(checked) == 2 and ("cuCtxPushCurrent_v2", (55,)) in cuda.calls


def test_what_has_no_signature(cuda, kernel):
    """Subclasses, and what is no array; arrays from the host that a GPU computes are copied each time."""
    x, w = np.zeros(SHAPE.input_shape, np.float32), np.zeros(SHAPE.weight_shape, np.float32)
    assert signatures.sign_call(x, w, None, None, None) is not None
    assert signatures.sign_call(x, 3.0, None, None, None) is None
    assert signatures.sign_call(x, w.view(np.memmap), None, None, None) is None
    for _ in range(2):
        kernel(x, w)
    assert not kernel._quick.entries


def test_threads_keep_their_addresses_apart(cuda, torch, kernel, checked):
    sets = [Operands(torch, start=(number + 1) << 32) for number in range(8)]
    kernel(sets[0].x, sets[0].w, out=sets[0].y)
    torn = []

    def work(operands):
        cuda.stack.append(PRIMARY + ORDINAL)
        for _ in range(200):
            kernel(operands.x, operands.w, out=operands.y)

    threads = [threading.Thread(target=work, args=(operands,)) for operands in sets]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    wanted = [operands.pointers for operands in sets]
    torn = [arguments[:3] for arguments in cuda.arguments if arguments[:3] not in wanted]
    assert len(cuda.arguments) == 1601 and not torn and len(checked) == 1


def test_a_border_s_value_is_an_argument(cuda, torch, checked):
    """Its 32 bits stand behind the sizes: of a checked call, and of the remembered one after it."""
    cuda.stack.append(PRIMARY + ORDINAL)
    shape = replace(SHAPE, padding_mode="constant", padding_value=1.0)
    made = load(cuda, plan_layer(shape, algorithm="direct"))
    operands = Operands(torch)
    for value in (2.5, -0.5, 2.5, -0.5):
        made.for_border(value)(operands.x, operands.w, out=operands.y)
    assert len(checked) == 2 and len({function for function, *_ in cuda.launched}) == 1
    assert [arguments[-1] for arguments in cuda.arguments] == [
        int(np.float32(value).view(np.uint32)) for value in (2.5, -0.5, 2.5, -0.5)]
    assert all(arguments[3:-1] == [2, 9, 11, 9, 11] for arguments in cuda.arguments)
