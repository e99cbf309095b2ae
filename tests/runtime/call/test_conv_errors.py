"""Bad input to conv2d and specialize: a typed error that says what would be right, and nothing launched or written."""

import warnings

import numpy as np
import pytest

import warpconv
from tests import checks, reference, settings
from tests.runtime.arrays.fake_arrays import quiet
from warpconv import ArgumentError, ArgumentTypeError, ConvShape, DeviceError, ShapeError, UnsupportedSpec
from warpconv.runtime.call import conv, kernels, place
from warpconv.runtime.devices.cuda import contexts

SHAPE = ConvShape(n=2, c=2, h=9, w=11, k=4, r=3, s=3, padding=1)
needs_compiler = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def arrays():
    return reference.operands(SHAPE, settings.generator(21))


@pytest.fixture(autouse=True)
def nothing_is_built_for_bad_input(request, monkeypatch):
    """An error must come before a kernel is made."""
    if "builds" not in request.keywords:
        def refuse(*args):
            raise AssertionError("a kernel was made for bad input")
        monkeypatch.setattr(kernels, "_load_cpu", refuse)
        monkeypatch.setattr(kernels, "_load_cuda", refuse)
        conv.clear()
    yield
    conv.clear()


builds = pytest.mark.builds


def call(x=None, w=None, bias=None, **options):
    good_x, good_w, _ = arrays()
    return warpconv.conv2d(good_x if x is None else x, good_w if w is None else w, bias,
                           **{"padding": 1, "device": "cpu", **options})


class FakeDeviceArray:
    """Something with __cuda_array_interface__, as a GPU library would give."""

    def __init__(self, shape):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (0x7F0000000000, False),
                                         "version": 3}


X, W, B = arrays()


@pytest.mark.parametrize("options, error, argument", [
    ({"x": X[0, 0]}, ShapeError, "input"), ({"x": X[None]}, ShapeError, "input"), ({"w": W[0]}, ShapeError, "weight"),
    ({"x": X[:, :1]}, ShapeError, "weight"), ({"groups": 3}, ShapeError, "weight"),
    ({"groups": 0}, ShapeError, "groups"), ({"groups": 1.5}, ArgumentTypeError, "groups"),
    ({"x": X[:, :, :1, :1], "padding": 0}, ShapeError, "input"), ({"x": X[:0]}, ShapeError, "input"),
    ({"x": X[:, :, :0]}, ShapeError, "input"), ({"w": W[:0]}, ShapeError, "weight"),
    ({"x": X.astype(np.float64)}, ArgumentTypeError, "input"), ({"x": X.astype(np.int64)}, ArgumentTypeError, "input"),
    ({"w": W.astype(np.float16)}, ArgumentTypeError, "weight"), ({"x": X.astype(">f4")}, ArgumentTypeError, "input"),
    ({"x": X.astype(np.complex64)}, ArgumentTypeError, "input"), ({"x": X.astype(object)}, ArgumentTypeError, "input"),
    ({"x": X.tolist()}, ArgumentTypeError, "input"), ({"w": 3.0}, ArgumentTypeError, "weight"),
    ({"w": "kernel.npy"}, ArgumentTypeError, "weight"), ({"x": np.ma.masked_array(X)}, ArgumentTypeError, "input"),
    ({"stride": 0}, ShapeError, "stride"), ({"stride": -2}, ShapeError, "stride"),
    ({"stride": 10**40}, ShapeError, "stride"), ({"padding": -1}, ShapeError, "padding"),
    ({"padding": 2**20}, ShapeError, "padding"), ({"padding": "reflect"}, ShapeError, "padding"),
    ({"padding": "same", "stride": 2}, ShapeError, "stride"), ({"dilation": 0}, ShapeError, "dilation"),
    ({"dilation": 2**31}, ShapeError, "dilation"), ({"stride": "2"}, ArgumentTypeError, "stride"),
    ({"activation": "softplus"}, ArgumentError, "activation"), ({"activation": "bias"}, ArgumentError, "activation"),
    ({"epilogue": ["tanh"]}, ArgumentError, "epilogue"), ({"epilogue": ["bias"]}, ArgumentError, "bias"),
    ({"bias": B, "epilogue": ["bias", "bias"]}, ArgumentError, "epilogue"),
    ({"algorithm": "fft"}, ArgumentError, "algorithm"), ({"algorithm": "reuse", "stride": 2}, UnsupportedSpec,
                                                        "algorithm"),
    ({"device": "gpu"}, ArgumentError, "device"), ({"device": "cpu:1"}, ArgumentError, "device"),
    ({"device": "cuda:x"}, ArgumentError, "device"), ({"device": None}, ArgumentError, "device"),
    ({"x": FakeDeviceArray((2, 2, 9, 11))}, (ArgumentTypeError, DeviceError), ("weight", None)),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else None)
def test_typed_errors(options, error, argument):
    with pytest.raises(error) as caught:
        call(**options)
    found = caught.value
    assert isinstance(found, warpconv.WarpconvError) and str(found)
    assert found.argument in (argument if isinstance(argument, tuple) else (argument,))
    if error in (ShapeError, ArgumentError):
        assert isinstance(found, ValueError) and found.hint or found.argument in ("input", "weight")
    if error is ArgumentTypeError:
        assert isinstance(found, TypeError)


@pytest.mark.skipif(contexts.usable() is None, reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_a_device_error_with_the_way_out():
    with pytest.raises(DeviceError) as caught:
        call(device="cuda")
    assert "device='cpu'" in caught.value.hint and isinstance(caught.value, OSError)


class FakeTensor:
    """What the reader asks of a torch tensor that requires grad."""

    requires_grad = True
    data_ptr = None

    def get_device(self):
        return 0


def test_tensors_that_require_grad(monkeypatch):
    import sys
    import types
    torch = types.ModuleType("torch")
    torch.Tensor, torch.is_grad_enabled = FakeTensor, lambda: True
    quiet(torch)
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(ArgumentTypeError) as caught:
        call(x=FakeTensor())
    assert caught.value.argument == "input" and "detach" in caught.value.hint


@pytest.mark.parametrize("shape", [None, "reuse", (1, 1, 9, 9), 5])
def test_specialize_takes_a_shape(shape):
    with pytest.raises(ArgumentTypeError) as caught:
        warpconv.specialize(shape, device="cpu")
    assert caught.value.argument == "shape" and "ConvShape" in caught.value.hint


@pytest.mark.parametrize("options, argument", [({"settings": {"tile": 3}}, "set tile"), ({"arch": "volta"}, "arch"),
                                               ({"epilogue": ("softplus",)}, "epilogue"),
                                               ({"activation": "x"}, "activation")])
def test_specialize_refuses_unknown_options(options, argument):
    with pytest.raises(ArgumentError) as caught:
        warpconv.specialize(SHAPE, device="cpu", **{"algorithm": "reuse", **options})
    assert caught.value.argument == argument


# ---- what must be right, or refused at the call of a kernel

@pytest.fixture
def kernel():
    return warpconv.specialize(SHAPE, device="cpu", bias=True)


@builds
@needs_compiler
@pytest.mark.parametrize("change, error, argument", [
    (lambda x, w, b: (x[:, :1], w, b, None), ShapeError, "input"),
    (lambda x, w, b: (x, w[:2], b, None), ShapeError, "weight"),
    (lambda x, w, b: (x, w, b[:3], None), ShapeError, "bias"),
    (lambda x, w, b: (x, w, b[None], None), ShapeError, "bias"),
    (lambda x, w, b: (x, w, None, None), ArgumentError, "bias"),
    (lambda x, w, b: (x, w, b.astype(np.float64), None), ArgumentTypeError, "bias"),
    (lambda x, w, b: (x, w, b, np.zeros((2, 4, 9, 10), np.float32)), ShapeError, "out"),
    (lambda x, w, b: (x, w, b, np.zeros((2, 4, 9, 11))), ArgumentTypeError, "out"),
    (lambda x, w, b: (x, w, b, np.lib.stride_tricks.as_strided(np.zeros(2000, np.float32), (2, 4, 9, 11),
                                                               (4000, 400, 40, 4))), ArgumentError, "out"),
    (lambda x, w, b: (x, w, b, np.broadcast_to(np.zeros((1, 4, 9, 11), np.float32), (2, 4, 9, 11))), ArgumentError,
     "out")])
def test_a_call_is_checked_before_anything_is_written(kernel, change, error, argument):
    x, w, b, out = change(*arrays())
    before = None if out is None else out.copy()
    with pytest.raises(error) as caught:
        kernel(x, w, b, out=out)
    assert caught.value.argument == argument
    assert out is None or np.array_equal(out, before)


@builds
@needs_compiler
def test_out_may_not_share_memory_with_an_operand(kernel):
    memory = np.zeros(3 * 4 * 9 * 11, np.float32)
    x, out = memory[:396].reshape(2, 2, 9, 11), memory[100:100 + 792].reshape(2, 4, 9, 11)
    _, w, b = arrays()
    with pytest.raises(ArgumentError) as caught:
        kernel(x, w, b, out=out)
    assert caught.value.argument == "out" and "input" in str(caught.value)
    assert not memory.any()
    kernel(x, w, b, out=memory[396:396 + 792].reshape(2, 4, 9, 11))        # side by side is no overlap


@builds
@needs_compiler
def test_streams_and_filters_of_another_kernel_are_refused(kernel):
    x, w, b = arrays()
    with pytest.raises(ArgumentError) as caught:
        kernel(x, w, b, stream=0)
    assert caught.value.argument == "stream"
    other = warpconv.specialize(SHAPE, device="cpu", activation="relu")
    with pytest.raises(ArgumentError) as caught:
        kernel(x, other.prepare(w), b)
    assert caught.value.argument == "weight"
    with pytest.raises(ArgumentTypeError):
        warpconv.conv2d(x, other.prepare(w), device="cpu")
    with pytest.raises(ShapeError):
        kernel.prepare(w[:1])


@builds
@needs_compiler
@pytest.mark.parametrize("disguise", [
    lambda a: np.asfortranarray(a), lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    lambda a: a[..., ::-1].copy()[..., ::-1],
    lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    lambda a: np.frombuffer(b"\0" * 4 + a.tobytes(), np.float32)[1:].reshape(a.shape),
    lambda a: _readonly(a), lambda a: np.pad(a, ((0, 1), (2, 0), (1, 1), (3, 2)))[:-1, 2:, 1:-1, 3:-2]],
    ids=["fortran", "every second", "reversed", "channels last", "odd address", "read-only", "a view inside"])
def test_non_contiguous_arrays_give_right_results(disguise):
    x, w, b = arrays()
    wanted = reference.expected(x, w, SHAPE, bias=b, epilogue=(warpconv.Epilogue.BIAS,))
    given = disguise(x), disguise(w)
    assert np.array_equal(given[0], x) and np.array_equal(given[1], w)
    wanted.check(warpconv.conv2d(*given, b, padding=1, device="cpu"))


def _readonly(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@builds
@needs_compiler
def test_a_broadcast_input_is_read_as_it_is():
    _, w, _ = arrays()
    plane = settings.generator(5).standard_normal((1, 1, 9, 11)).astype(np.float32)
    x = np.broadcast_to(plane, (2, 2, 9, 11))
    reference.expected(np.ascontiguousarray(x), w, SHAPE).check(warpconv.conv2d(x, w, padding=1, device="cpu"))


@builds
@needs_compiler
def test_the_warning_of_the_cpu_device_comes_once_and_names_the_size(monkeypatch):
    monkeypatch.setattr(contexts, "usable", lambda: "planted reason")
    place._warned.cache_clear()
    x, w, _ = arrays()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            warpconv.conv2d(x, w, padding=1)
    messages = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
    assert len(messages) == 1 and "planted reason" in messages[0] and "device='cpu'" in messages[0]


@builds
@needs_compiler
def test_sizes_past_what_a_kernel_was_made_for(monkeypatch):
    from warpconv.runtime.call import checks as calls
    kernel = warpconv.specialize(SHAPE, device="cpu")
    assert kernel.spec.index_bits == 32
    with pytest.raises(ShapeError) as caught:
        calls.layer_of(kernel.spec, (40000, 2, 300, 300))
    assert "2^31" in str(caught.value) and caught.value.argument == "input"


@builds
@needs_compiler
def test_conv2d_equals_the_reference_with_every_option():
    x, w, b = arrays()
    for options in ({"stride": (2, 1), "padding": ((1, 0), (0, 2))}, {"dilation": 2, "padding": "same"}):
        layer = ConvShape.of(x.shape, w.shape, **options)
        steps = (warpconv.Epilogue.BIAS, warpconv.Epilogue.RELU)
        wanted = reference.expected(x, w, layer, bias=b, epilogue=steps)
        wanted.check(warpconv.conv2d(x, w, b, activation="relu", device="cpu", **options))
        out = np.full(layer.output_shape, np.nan, np.float32)
        assert warpconv.conv2d(x, w, b, epilogue=("bias", "relu"), device="cpu", out=out, **options) is out
        wanted.check(out)
    grouped = ConvShape.of(x.shape, w[:, :1].shape, groups=2)
    reference.expected(x, w[:, :1], grouped).check(warpconv.conv2d(x, w[:, :1], groups=2, device="cpu"))


@pytest.mark.parametrize("call, argument", [
    (lambda x, w: warpconv.conv2d(x[:0], w, device="cpu"), "input"),
    (lambda x, w: warpconv.conv2d(x[:, :, :0], w, device="cpu"), "input"),
    (lambda x, w: warpconv.conv2d(x, w[:0], device="cpu"), "weight"),
    (lambda x, w: warpconv.conv2d(x, w[:, :, :0], device="cpu"), "weight"),
    (lambda x, w: warpconv.conv1d(x[:0, :, 0], w[:, :, 0], device="cpu"), "input"),
    (lambda x, w: warpconv.conv3d(x[:0, :, None], w[:, :, None], device="cpu"), "input"),
    (lambda x, w: warpconv.conv_transpose2d(x[:0], w.swapaxes(0, 1), device="cpu"), "input"),
    (lambda x, w: warpconv.conv2d_weight(x[:0], w.shape, np.ones((0, 4, 7, 7), np.float32), device="cpu"), "input"),
    (lambda x, w: warpconv.conv2d_bias(x[:0], device="cpu"), "input")])
def test_arrays_without_elements_are_named(call, argument):
    with pytest.raises(ShapeError, match=f"^{argument} has no elements") as caught:
        call(np.ones((2, 3, 9, 9), np.float32), np.ones((4, 3, 3, 3), np.float32))
    assert caught.value.argument == argument
