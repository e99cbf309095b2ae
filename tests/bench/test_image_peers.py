"""The libraries of the study images: what they are called with, whose names the borders have, what is told of them."""

import contextlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from bench import harness
from bench.devices import HostDevice, NoDevice
from bench.peers import images as image_peers, npp_images
from bench.peers.npp import StreamContext
from bench.studies import image_layers, image_reference
from tests.bench.fakes import FakeDevice
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.shape import ConvShape

HOST = HostDevice()
PAD = {Border.ZEROS: "constant", Border.CONSTANT: "constant", Border.REPLICATE: "edge", Border.REFLECT: "reflect",
       Border.SYMMETRIC: "symmetric", Border.CIRCULAR: "wrap"}


def gpu(**fields):
    device = FakeDevice()
    device.kind = "fake"
    for name, value in fields.items():
        setattr(device, name, value)
    return device


def data_of(shape, w=None):
    x = HOST.random(shape.input_shape, 1, shape.dtype)
    w = HOST.random(shape.weight_shape, 2) if w is None else w
    return SimpleNamespace(xs=(x,), ys=(HOST.poisoned(shape.output_shape, shape.y_dtype),), w=w)


def correlated(padded, w):
    """A plane without its border, in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(padded.astype(float), w.shape)
    return (windows * w).sum((-2, -1))


# ---- NPP

@pytest.fixture
def asked(monkeypatch):
    """Functions of NPP that only say what they were called with."""
    calls = []

    def function(name, *types):
        def call(*arguments):
            assert len(arguments) == len(types) + 1, name        # the context is the last
            calls.append((name, [(a.width, a.height) if hasattr(a, "width") else (a.x, a.y) if hasattr(a, "x") else a
                                 for a in arguments[:-1]]))
            return 0
        return call

    monkeypatch.setattr(npp_images, "function", function)
    return calls


@pytest.mark.parametrize("dtype, integer, name", [
    (DType.UINT8, False, "nppiFilter{}32f_8u_C1R_Ctx"), (DType.UINT8, True, "nppiFilter{}_8u_C1R_Ctx"),
    (DType.UINT16, False, "nppiFilter{}32f_16u_C1R_Ctx"), (DType.FLOAT32, False, "nppiFilter{}_32f_C1R_Ctx")])
def test_npps_filters_are_called_as_its_headers_say(asked, dtype, integer, name):
    size, context = dtype.itemsize, StreamContext()
    divisor = [1] if integer else []
    npp_images.Filter.of(dtype, dtype, border=True, integer=integer)(context, 1000, 5000, 9, 20, 30, (3, 5), size)
    npp_images.Filter.of(dtype, dtype, border=False, integer=integer)(context, 1000, 5000, 9, 20, 30, (3, 5), size)
    assert asked[0] == (name.format("Border"), [1000, 30 * size, (30, 20), (0, 0), 5000, 30 * size, (30, 20), 9, (5, 3),
                                                (2, 1), *divisor, 2])
    first = (30 + 2) * size
    assert asked[1] == (name.format(""), [1000 + first, 30 * size, 5000 + first, 30 * size, (26, 18), 9, (5, 3), (2, 1),
                                          *divisor])


def test_npp_has_no_filter_between_types():
    with pytest.raises(NoDevice, match="NPP has no filter from uint8 to float32"):
        npp_images.Filter.of(DType.UINT8, DType.FLOAT32, border=True, integer=False)


def test_npps_gaussian(asked):
    npp_images.gauss(7, border=True)(StreamContext(), 1000, 5000, 20, 30)
    npp_images.gauss(5, border=False)(StreamContext(), 1000, 5000, 20, 30)
    assert asked == [("nppiFilterGaussBorder_32f_C1R_Ctx", [1000, 120, (30, 20), (0, 0), 5000, 120, (30, 20), 400, 2]),
                     ("nppiFilterGauss_32f_C1R_Ctx", [1000 + 4 * 62, 120, 5000 + 4 * 62, 120, (26, 16), 201])]


def test_an_npp_that_fails_is_told(asked, monkeypatch):
    monkeypatch.setattr(npp_images, "function", lambda name, *types: lambda *arguments: -8)
    with pytest.raises(RuntimeError, match="status -8"):
        npp_images.gauss(3, border=True)(StreamContext(), 1, 2, 8, 8)


def npp_of(monkeypatch, wrong=0.0):
    """NPP on host memory: the planes by their addresses, reversed filters, only the inside made."""
    monkeypatch.setattr(image_peers.npp, "stream_context", lambda stream: StreamContext())
    planes = {}

    def of(dtype, out, *, border, integer):
        if dtype is not out:
            raise NoDevice("NPP has no filter")

        def call(context, source, target, taps, height, width, size, itemsize):
            x, y, w = (planes[address] for address in (source, target, taps))
            made = correlated(x[0, 0], w[0, 0, ::-1, ::-1]) + wrong
            r, s = size[0] // 2, size[1] // 2
            y[0, 0, r:height - r, s:width - s] = np.clip(made, *dtype.limits) if dtype.is_integer else made
        call.name = "border" if border else "plain"
        return call

    def pointer(array):
        planes[array.ctypes.data] = array
        return array.ctypes.data

    monkeypatch.setattr(npp_images.Filter, "of", of)
    return gpu(pointer=pointer)


@pytest.mark.parametrize("types", [dict(dtype="uint8"), dict(dtype="uint8", weight_dtype="int8"), dict()])
def test_npp_is_checked_inside_and_the_quicker_call_counts(monkeypatch, types):
    shape = image_layers.plane(12, 3, **types)
    w = images_weights(shape)
    data = data_of(shape, w)
    limits = image_reference.limits(HOST, data.xs[0], w, shape)
    found = image_peers.run(npp_of(monkeypatch), "NPP", data, shape, limits)
    assert found["remark"] in ("border", "plain") and found["ms"] > 0
    with pytest.raises(harness.WrongResult):
        image_peers.run(npp_of(monkeypatch, wrong=3.0), "NPP", data, shape, limits)
    with pytest.raises(NoDevice, match="no GPU"):
        image_peers.run(HOST, "NPP", data, shape, limits)


def images_weights(shape):
    from bench.studies import images
    w = images._weights(HOST, shape)
    assert w.dtype.name == shape.w_dtype.value and (shape.dtype.is_float or float(w.sum()) == pytest.approx(1))
    assert shape.dtype.is_float or len(np.unique(w)) > 2
    return w


def test_npps_mask_is_what_it_makes_of_one_pixel():
    mask = np.array([[0.0, 0.1, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.0]])

    def call(x, y):
        y[...] = 0
        y[1:-1, 1:-1] = correlated(x, mask)

    assert np.allclose(image_peers._npp_mask(HOST, call, 1)[0, 0], mask)
    with pytest.raises(harness.WrongResult, match="sums to"):
        image_peers._npp_mask(HOST, lambda x, y: y.fill(1.0), 1)


# ---- CuPy and PyTorch

def test_the_borders_have_the_libraries_own_names():
    for mode, name in image_peers.SCIPY.items():
        assert Border.named(name, "scipy") is (Border.CONSTANT if mode is Border.ZEROS else mode)
    for mode, name in image_peers.TORCH_PAD.items():
        assert Border.named(name, "torch") is (Border.CONSTANT if mode is Border.ZEROS else mode)
    assert set(image_peers.SCIPY) == set(Border) and set(Border) - set(image_peers.TORCH_PAD) == {Border.SYMMETRIC}


@pytest.fixture
def cupy(monkeypatch):
    """CuPy's ndimage by SciPy's."""
    ndimage = pytest.importorskip("scipy.ndimage", reason="scipy is not installed")
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=np.asarray))
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupyx.scipy", SimpleNamespace(ndimage=ndimage))
    monkeypatch.setattr(image_peers, "cupy_stream", lambda device, cupy: contextlib.nullcontext())


@pytest.mark.parametrize("mode", list(Border), ids=lambda mode: mode.value)
def test_cupy_has_every_border(cupy, mode):
    shape = image_layers.plane(11, 5, padding_mode=mode, padding_value=0.5 if mode is Border.CONSTANT else 0)
    data = data_of(shape)
    limits = image_reference.limits(HOST, data.xs[0], data.w, shape)
    assert image_peers.run(gpu(), "CuPy", data, shape, limits)["error"] < 1e-6
    other = Border.REFLECT if mode is not Border.REFLECT else Border.SYMMETRIC
    wrong = image_reference.limits(HOST, data.xs[0], data.w, image_layers.plane(11, 5, padding_mode=other))
    with pytest.raises(harness.WrongResult):
        image_peers.run(gpu(), "CuPy", data, shape, wrong)


def test_cupys_gaussian(cupy):
    from bench.studies import image_gauss
    row = image_layers.Gaussian(1.0, None, 21)
    xs, ys = [HOST.random((1, 1, 21, 21), 1)], [HOST.poisoned((1, 1, 21, 21))]
    limits = image_gauss.two_passes(HOST, xs[0], image_gauss.gaussian_taps(row))
    assert image_peers.run_gauss(gpu(), "CuPy", xs, ys, row, lambda mask: limits)["error"] < 1e-6


def torch_device():
    def pad(x, sides, mode, value=0.0):
        left, right, top, bottom = sides
        named = PAD[Border.named(mode, "torch")]
        return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), named,
                      **({"constant_values": value} if named == "constant" else {}))

    def conv2d(x, w, bias, stride, padding, dilation, groups):
        shape = ConvShape.of(x.shape, w.shape, stride=stride, padding=padding, dilation=dilation, groups=groups)
        return harness.reference(HOST, x, w, shape, images=range(shape.n)).exact.astype(np.float32)

    functional = SimpleNamespace(pad=pad, conv2d=conv2d)
    return gpu(kind="torch", torch=SimpleNamespace(nn=SimpleNamespace(functional=functional)))


@pytest.mark.parametrize("mode", list(Border), ids=lambda mode: mode.value)
def test_pytorch_pads_and_convolves(mode):
    shape = ConvShape(n=2, c=3, k=3, groups=3, h=7, w=9, r=3, s=3, padding=1, padding_mode=mode,
                      padding_value=0.5 if mode is Border.CONSTANT else 0)
    data = data_of(shape)
    limits = image_reference.limits(HOST, data.xs[0], data.w, shape)
    if mode is Border.SYMMETRIC:
        with pytest.raises(NoDevice, match="pad has no symmetric"):
            image_peers.run(torch_device(), "cuDNN", data, shape, limits)
        return
    found = image_peers.run(torch_device(), "cuDNN", data, shape, limits)
    assert found["error"] < 1e-6 and ("pad" in found["remark"]) == (mode is not Border.ZEROS)


def test_a_library_without_a_time_is_told_in_the_row():
    def fail():
        raise MemoryError("all of it")
    assert image_peers.told(HOST, "CuPy", 1.0, fail) == {"CuPy_reason": "MemoryError: all of it"}
    assert image_peers.told(HOST, "CuPy", 0.5, lambda: {"ms": 2.0, "error": 0.0}) == {
        "CuPy_ms": 2.0, "CuPy_error": 0.0, "CuPy_speedup": 4.0}
