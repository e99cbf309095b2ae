"""The calls in SciPy's terms on a GPU: arrays of each library, their streams, weights on either side."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import settings
from tests.runtime.ndimage.test_ndimage import MODES, check, drawn_image, drawn_weights
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError

pytestmark = pytest.mark.gpu

TAPS = [[1, -2, 3], [4, 5, -6]]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "float32", "float16"])
@pytest.mark.parametrize("mode", MODES)
def test_planes(cupy, mode, dtype):
    rng = settings.generator(MODES.index(mode))
    for whole, size, shape in ((True, (3, 3), (3, 70, 131)), (False, (2, 5), (257, 300)), (True, (9, 4), (2, 3))):
        kind = "float32" if dtype == "float16" else dtype
        x, taps = drawn_image(rng, shape, kind).astype(dtype), drawn_weights(rng, size, whole)
        origins = tuple(-(n // 2) for n in size)
        made = warpconv.correlate(cupy.asarray(x), taps, mode=mode, cval=3, origin=origins, axes=(-2, -1))
        assert isinstance(made, cupy.ndarray)
        check(cupy.asnumpy(made), x, taps, origins, mode, 3.0, whole and x.dtype.kind in "iu")


@pytest.mark.parametrize("name", ["gaussian_filter", "sobel", "laplace", "uniform_filter", "prewitt"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_named_filters_are_those_of_the_cpu_device(cupy, name, dtype):
    x = drawn_image(settings.generator(21), (2, 65, 90), dtype)
    for options in ({"mode": "wrap"}, {"mode": "constant", "cval": 2.0}, {"output": "float32"}):
        positional = (1.3,) if name == "gaussian_filter" else ()
        made = cupy.asnumpy(getattr(warpconv, name)(cupy.asarray(x), *positional, **options))
        expected = getattr(warpconv, name)(x, *positional, device="cpu", **options)
        if made.dtype.kind in "iu" and name != "gaussian_filter":
            assert np.array_equal(made, expected)
        elif made.dtype.kind in "iu":       # sums of another order may round to the other side of a whole number
            apart = np.abs(made.astype(int) - expected)
            assert np.minimum(apart, 2 ** (8 * made.itemsize) - apart).max() <= x.ndim
        else:
            assert np.allclose(made, expected, rtol=0, atol=1e-5 * np.abs(x.astype(float)).max())


def test_torch_tensors_stay_where_they_are(torch):
    x = drawn_image(settings.generator(22), (2, 40, 51), "uint8")
    tensor, exact = torch.from_numpy(x).cuda(), warpconv.correlate(x, TAPS, axes=(1, 2), device="cpu")
    made = warpconv.correlate(tensor, TAPS, axes=(1, 2))
    assert made.device == tensor.device and np.array_equal(made.cpu().numpy(), exact)
    out = torch.zeros_like(tensor)
    assert warpconv.correlate(tensor, TAPS, out, axes=(1, 2)) is out and np.array_equal(out.cpu().numpy(), exact)
    same = tensor.clone()
    assert warpconv.correlate(same, TAPS, same, axes=(1, 2)) is same and np.array_equal(same.cpu().numpy(), exact)
    assert warpconv.correlate(tensor, TAPS, torch.float32, axes=(1, 2)).dtype == torch.float32
    for axes in ((1, 2), (0, 2), (0, 1)):
        assert np.array_equal(warpconv.correlate(tensor.transpose(1, 2), TAPS, axes=axes).cpu().numpy(),
                              warpconv.correlate(x.transpose(0, 2, 1), TAPS, axes=axes, device="cpu"))
    gaps = torch.zeros(2, 51, 40, dtype=torch.uint8, device="cuda").transpose(1, 2)
    with pytest.raises(ArgumentError, match="gaps"):
        warpconv.correlate(tensor, TAPS, gaps, axes=(1, 2))
    with pytest.raises(ArgumentTypeError):
        warpconv.correlate(tensor, TAPS, np.zeros_like(x), axes=(1, 2))


def test_weights_on_the_gpu(torch, cupy):
    x = drawn_image(settings.generator(23), (40, 51), "float32")
    for call in (warpconv.correlate, warpconv.convolve):
        expected = call(x, TAPS, origin=(-1, 1), device="cpu")
        for library in (torch.asarray, cupy.asarray):
            array, taps = library(x), library(np.array(TAPS, np.float32))
            if library is torch.asarray:
                array, taps = array.cuda(), taps.cuda()
            made = call(array, taps, origin=(-1, 1))
            assert np.allclose(made.get() if library is cupy.asarray else made.cpu().numpy(), expected, atol=1e-4)
    with pytest.raises(ArgumentTypeError, match="not in one place"):
        warpconv.correlate(x, torch.ones(3, 3, device="cuda"), device="cpu")


def test_the_callers_stream(torch):
    """Work queued before on the stream is waited for; a filter copied once serves every stream."""
    x = drawn_image(settings.generator(24), (512, 700), "float32")
    expected = warpconv.gaussian_filter(x, 3.0, device="cpu")
    tensor = torch.zeros(512, 700, device="cuda")
    source = torch.from_numpy(x).cuda()
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        tensor.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            tensor.copy_(source)
            made = warpconv.gaussian_filter(tensor, 3.0)
        stream.synchronize()
        assert np.allclose(made.cpu().numpy(), expected, atol=1e-5)
    made = warpconv.laplace(source, mode=("wrap", "mirror"), stream=stream)
    stream.synchronize()
    assert np.allclose(made.cpu().numpy(), warpconv.laplace(x, mode=("wrap", "mirror"), device="cpu"), atol=1e-5)


def test_arrays_by_their_interface_alone(cupy):
    class Interface:
        def __init__(self, array):
            self.array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__

    x = drawn_image(settings.generator(25), (2, 20, 31), "float32")
    exact = warpconv.sobel(x, device="cpu")
    given, out = cupy.asarray(x), cupy.zeros((2, 20, 31), cupy.float32)
    made = warpconv.sobel(Interface(given))
    assert np.allclose(made.get(), exact, atol=1e-5)
    target = Interface(out)
    assert warpconv.sobel(Interface(given), output=target) is target and np.allclose(out.get(), exact, atol=1e-5)


def test_numpy_arrays_go_to_the_gpu_and_back():
    x = drawn_image(settings.generator(26), (33, 47), "uint8")
    assert np.array_equal(warpconv.correlate(x, TAPS, device="cuda"), warpconv.correlate(x, TAPS, device="cpu"))


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_a_call_like_one_before_is_made_for_other_arrays(library, torch, cupy, monkeypatch):
    """Three axes, channels behind, outputs given and in place: the second call without a plan, on any stream."""
    from warpconv.runtime.call import conv
    rng = settings.generator(27)
    first, second = (drawn_image(rng, (40, 51, 3), "float32") for _ in range(2))
    place = torch.asarray if library == "torch" else cupy.asarray
    taken = (lambda x: place(x).cuda()) if library == "torch" else place
    host = (lambda x: x.cpu().numpy()) if library == "torch" else cupy.asnumpy
    calls = (lambda x, **more: warpconv.gaussian_filter(x, (1.2, 1.2, 0), **more),
             lambda x, **more: warpconv.gaussian_filter(x, 0.8, **more),
             lambda x, **more: warpconv.correlate(x, TAPS, axes=(0, 2), **more),
             lambda x, **more: warpconv.laplace(x, mode=("wrap", "mirror", "nearest"), **more))
    for call in calls:
        expected = call(second, device="cpu")
        x = taken(first)
        call(x)
        out = taken(first)
        call(x, output=out)
        with monkeypatch.context() as patched:
            patched.setattr(conv, "_conv2d", None)
            x = taken(second)
            assert np.allclose(host(call(x)), expected, atol=1e-4)
            assert call(x, output=out) is out and np.allclose(host(out), expected, atol=1e-4)
        assert call(x, output=x) is x and np.allclose(host(x), expected, atol=1e-4)


@pytest.mark.parametrize("library", ["numpy", "torch", "cupy"])
def test_sums_are_added_where_they_are_stored(library, torch, cupy):
    x = drawn_image(settings.generator(28), (20, 41, 33), "float32")
    take, host = {"numpy": (np.asarray, np.asarray), "cupy": (cupy.asarray, cupy.asnumpy),
                  "torch": (lambda a: torch.asarray(a).cuda(), lambda a: a.cpu().numpy())}[library]
    for call in (lambda a, **more: warpconv.gaussian_laplace(a, 1.2, **more),
                 lambda a, **more: warpconv.gaussian_gradient_magnitude(a, 1.2, axes=(0, 2), **more),
                 lambda a, **more: warpconv.generic_gradient_magnitude(a, warpconv.sobel, **more),
                 lambda a, **more: warpconv.correlate(a, np.arange(18.0).reshape(2, 3, 3), **more)):
        expected, given = call(x, device="cpu"), take(x)
        for _ in range(3):
            assert np.allclose(host(call(given, device="cuda")), expected, rtol=0, atol=2e-4)
        out = take(np.full_like(x, np.nan))
        assert call(given, output=out, device="cuda") is out and np.allclose(host(out), expected, rtol=0, atol=2e-4)


def test_tensors_are_converted_on_their_stream(torch, cupy):
    x = drawn_image(settings.generator(29), (65, 90), "float32").astype(np.float64)
    expected, stream = warpconv.gaussian_filter(x, 1.5, device="cpu", dtype="float32"), torch.cuda.Stream()
    given = torch.from_numpy(x).cuda()
    torch.cuda.synchronize()
    made = warpconv.gaussian_filter(given, 1.5, dtype="float32", stream=stream)
    stream.synchronize()
    assert made.dtype is torch.float64 and made.is_cuda and np.allclose(made.cpu().numpy(), expected, atol=1e-5)
    out = cupy.zeros(x.shape, cupy.int32)
    assert warpconv.sobel(cupy.asarray(x), output=out, dtype="float32") is out
    assert np.abs(cupy.asnumpy(out) - warpconv.sobel(x, output="int32", device="cpu", dtype="float32")).max() <= 2


def test_other_libraries_names(cupy):
    from warpconv import opencv, skimage
    x = drawn_image(settings.generator(30), (65, 90, 3), "uint8")
    for call in (lambda a, **more: opencv.GaussianBlur(a, (0, 0), 2.5, **more),
                 lambda a, **more: opencv.Sobel(a, "int16", 1, 0, **more),
                 lambda a, **more: skimage.unsharp_mask(a, 1.5, channel_axis=-1, **more)):
        assert np.allclose(cupy.asnumpy(call(cupy.asarray(x))), call(x, device="cpu"), rtol=0, atol=1e-5)
