"""Calls whose like has been checked: the same launch with new addresses, the checked way wherever anything differs."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from tests.runtime.arrays.fake_arrays import cupy, torch  # noqa: F401
from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.call import conv, kernels, signatures
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.call.recording import recording
from warpconv.runtime.devices.cuda.backend import CudaBackend

SHAPE = ConvShape(n=2, c=3, h=9, w=11, k=4, r=3, s=3, padding=1)
ORDINAL = 1


def dense(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return tuple(strides)


@pytest.fixture
def kernel(cuda):
    cuda.stack.append(PRIMARY + ORDINAL)
    return load(cuda, plan_layer(SHAPE, algorithm="direct"))


def load(cuda, plan, ordinal=ORDINAL):
    cuda.entries |= {entry.encode() for entry in plan.program.entries}
    return Kernel(plan.spec, plan.program, CudaBackend(plan.program, b"cubin", ordinal), source="", plan=plan)


class Operands:
    """x, w and y as tensors at addresses of their own; ``more`` goes to all of them."""

    def __init__(self, torch, start=1 << 24, **more):
        self.x, self.w, self.y = (torch.Tensor(shape, strides=dense(shape), pointer=start + (number << 20), **more)
                                  for number, shape in enumerate((SHAPE.input_shape, SHAPE.weight_shape,
                                                                  SHAPE.output_shape)))

    @property
    def pointers(self):
        return [tensor.data_ptr() for tensor in (self.x, self.w, self.y)]


@pytest.fixture
def checked(monkeypatch):
    """How many calls went the checked way."""
    calls = []
    real = Kernel._call

    def counted(self, *arguments):
        calls.append(arguments)
        return real(self, *arguments)

    monkeypatch.setattr(Kernel, "_call", counted)
    return calls


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
    blocks = [prepared._prepared.block.pointer for prepared in filters]
    assert [arguments[1] for arguments in cuda.arguments] == [*blocks, blocks[0]] and blocks[0] != blocks[1]
    assert filters[1]._prepared.used_on == {501}
    cuda.capturing.add(501)
    kernel(operands.x, filters[0], out=operands.y)
    assert len(checked) == 2                                    # a graph has to keep its filter


@pytest.mark.parametrize("change", ["context", "no context", "stream", "output's address", "recording", "shape"])
def test_what_has_to_be_checked_again(cuda, torch, kernel, checked, change, monkeypatch):
    operands, options = Operands(torch), {}
    kernel(operands.x, operands.w, out=operands.y)
    kernel(operands.x, operands.w, out=operands.y, stream=501)
    assert len(checked) == 1
    if change == "context":
        cuda.number_of[PRIMARY + ORDINAL] = 9                   # another context at the same address
    elif change == "no context":
        cuda.stack.clear()
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


class TestConv2d:
    @pytest.fixture(autouse=True)
    def loads(self, cuda, monkeypatch):
        cuda.stack.append(PRIMARY + ORDINAL)
        monkeypatch.setattr(kernels, "_load_cuda", lambda plan, ordinal: load(cuda, plan, ordinal))
        conv.clear()
        yield
        conv.clear()

    def call(self, operands, **more):
        return conv.conv2d(operands.x, operands.w, out=operands.y, **{"padding": 1, "algorithm": "direct", **more})

    def test_is_remembered_by_its_arguments(self, cuda, torch, checked, monkeypatch):
        long_way = []
        real = conv._conv2d
        monkeypatch.setattr(conv, "_conv2d", lambda *a: long_way.append(a) or real(*a))
        first, second = Operands(torch), Operands(torch, start=1 << 28)
        self.call(first)
        self.call(second)
        assert len(long_way) == len(checked) == 1 and cuda.arguments[1][:3] == second.pointers
        self.call(second, padding=(1, 1))
        self.call(second, activation="relu")
        assert len(long_way) == 3

    @pytest.mark.parametrize("options", [{"padding": True}, {"padding": (1, True)}, {"padding": 1.0},
                                         {"groups": True}, {"stride": True}])
    def test_equal_but_wrong_arguments_are_still_refused(self, torch, options):
        operands = Operands(torch)
        self.call(operands)
        self.call(operands, padding=(1, 1))
        with pytest.raises(ArgumentTypeError):
            self.call(operands, **options)

    def test_unhashable_arguments_work(self, cuda, torch):
        operands = Operands(torch)
        for _ in range(2):
            self.call(operands, padding=[1, 1], epilogue=["relu"])
        assert len(cuda.launched) == 2

    def test_the_order_in_memory_is_the_inputs(self, cuda, torch):
        operands = Operands(torch)
        n, c, h, w = SHAPE.input_shape
        operands.x._strides = (h * w * c, 1, w * c, c)
        n, k, p, q = SHAPE.output_shape
        operands.y._strides = (p * q * k, 1, q * k, k)
        for _ in range(2):
            self.call(operands)
        assert [kernel.spec.layout for kernel in kernels.by_plan.values()] == [Layout.NHWC]
        assert [arguments[:3] for arguments in cuda.arguments] == [operands.pointers] * 2


class TestSciPysCalls:
    @pytest.fixture(autouse=True)
    def loads(self, cuda, torch, monkeypatch):
        cuda.stack.append(PRIMARY + ORDINAL)
        monkeypatch.setattr(kernels, "_load_cuda", lambda plan, ordinal: load(cuda, plan, ordinal))
        tensor = torch.Tensor

        def reshape(self, *shape):
            shape = shape[0] if isinstance(shape[0], tuple) else shape
            return tensor(shape, str(self.dtype).removeprefix("torch."), ("cuda", ORDINAL), dense(shape),
                          pointer=self._pointer)

        monkeypatch.setattr(tensor, "reshape", reshape, raising=False)
        def part(self, i):
            return tensor(self.shape[1:], "float32", ("cuda", ORDINAL), self._strides[1:],
                          pointer=self._pointer + 4 * i * self._strides[0])

        monkeypatch.setattr(tensor, "__getitem__", part, raising=False)
        monkeypatch.setattr(tensor, "is_cuda", True, raising=False)
        torch.dtype = type(torch.float32)
        made = iter(range(3 << 30, 1 << 40, 1 << 20))
        torch.empty = lambda shape, dtype, device: tensor(shape, str(dtype).removeprefix("torch."), ("cuda", ORDINAL),
                                                          dense(shape), pointer=next(made))
        conv.clear()
        yield
        conv.clear()

    @pytest.fixture
    def image(self, torch):
        return lambda at, shape=(2, 16, 20): torch.Tensor(shape, strides=dense(shape), pointer=at)

    @pytest.mark.parametrize("name, arguments, launches", [
        ("correlate", ([[[1, 2, 3], [4, 5, 6.5]]],), 1), ("gaussian_filter", ((0, 0.6, 0.6),), 1),
        ("gaussian_filter", (0.6,), 2), ("sobel", (), 2), ("uniform_filter", ((1, 3, 3),), 1), ("laplace", (), 2)])
    def test_a_call_like_one_before_is_its_launches(self, cuda, torch, image, checked, monkeypatch, name, arguments,
                                                    launches):
        import warpconv
        call = getattr(warpconv, name)
        call(image(1 << 24), *arguments, algorithm="direct")
        call(image(1 << 25), *arguments, algorithm="direct")        # the first by prepared filters
        before, done = len(cuda.calls), len(checked)
        del cuda.launched[:], cuda.arguments[:]
        monkeypatch.setattr(conv, "_conv2d", None)
        made = call(image(1 << 26), *arguments, algorithm="direct")
        assert len(cuda.launched) == launches and len(cuda.calls) == before and len(checked) == done
        assert cuda.arguments[0][0] == 1 << 26 and cuda.arguments[-1][2] == made.data_ptr()
        assert made.shape == (2, 16, 20) and made.stride() == dense((2, 16, 20))
        assert all(first[2] == second[0] for first, second in zip(cuda.arguments, cuda.arguments[1:])
                   if name != "laplace")

    def test_the_output_is_the_callers_and_overlaps_nothing(self, cuda, image):
        import warpconv
        def call(x, out):
            return warpconv.correlate(x, [[1, 2, 3.5]], out, axes=(1, 2), algorithm="direct")

        out = image(1 << 27)
        for at in (1 << 24, 1 << 25, 1 << 26):
            x = image(at)
            assert call(x, out) is out and cuda.arguments[-1][0] == at and cuda.arguments[-1][2] == 1 << 27
        assert len(cuda.launched) == 3
        near = image((1 << 27) + 8)     # one kernel alone would read what it has written
        assert call(near, out) is out and len(cuda.launched) == 5
        assert cuda.arguments[-1][2] == 1 << 27 and cuda.arguments[-2][2] not in (1 << 27, (1 << 27) + 8)

    def test_images_of_all_sizes_share_a_prepared_filter(self, cuda, image):
        import warpconv
        from warpconv.runtime.ndimage import recipes
        for rows in (16, 17, 18):
            warpconv.gaussian_filter(image(1 << 24, (rows, 20)), 0.6, algorithm="direct")
        filters = {id(step.weight) for recipe in recipes._recipes.values() for step in recipe._steps}
        assert len(recipes._recipes) == 3 and len(filters) == 1
        assert sum(name == "cuStreamSynchronize" for name, _ in cuda.calls) == 2    # the copy's, the preparation's

    def test_what_differs_is_checked(self, cuda, torch, image):
        import warpconv
        def call(x):
            return warpconv.gaussian_filter(x, 0.6, axes=(1, 2), algorithm="direct")

        for _ in range(2):
            call(image(1 << 24))
        for wrong, error in ((image((1 << 24) + 2), ArgumentError), (image(1 << 24), ArgumentTypeError)):
            wrong.requires_grad = error is ArgumentTypeError
            with pytest.raises(error) as caught:
                call(wrong)
            assert caught.value.argument == "input"
        assert len(cuda.launched) == 2
        cuda.capturing.add(501)         # a stream in capture: the call is made, nothing is prepared for later ones
        from warpconv.runtime.ndimage import recipes
        known = len(recipes._recipes)
        warpconv.sobel(image(1 << 24), algorithm="direct")
        assert len(recipes._recipes) == known and len(cuda.launched) == 4

    def test_weights_on_the_gpu_are_read_at_each_call(self, cuda, torch, image):
        import warpconv
        from warpconv.runtime.ndimage import recipes
        weights = image(1 << 20, (3, 3))
        for at in (1 << 24, 1 << 25):
            warpconv.correlate(image(at), weights, axes=(1, 2), algorithm="direct")
        assert [arguments[1] for arguments in cuda.arguments] == [1 << 20] * 2 and not recipes._recipes
