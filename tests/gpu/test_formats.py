"""Element types and orders of axes on the GPU: what each library's arrays hold comes back as it came, not copied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import reference, settings
from tests.gpu import support
from warpconv.codegen.errors import ArgumentTypeError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays

pytestmark = pytest.mark.gpu

SHAPE = ConvShape(n=3, c=8, h=41, w=56, k=16, r=3, s=5, padding=(1, 2), groups=8)
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


class Values:
    """Operands rounded to an element type, in float32, and the check of a result in float64 with axes (N, K, P, Q)."""

    def __init__(self, torch, name: str):
        self.name = name
        dtype = getattr(torch, name)
        self.x, self.w, self.bias = (torch.tensor(a).to(dtype) for a in
                                     reference.operands(SHAPE, settings.generator(17)))
        wide = [a.double().numpy() for a in (self.x, self.w)]
        column = self.bias.double().numpy()[None, :, None, None]
        self.wanted = reference.convolve(*wide, SHAPE) + column
        magnitude = reference.convolve(*map(np.abs, wide), SHAPE) + np.abs(column)
        self.tolerance = (SHAPE.reduction + 2) * 2.0**-23 * magnitude + 1.01 * ROUNDOFF[name] * np.abs(self.wanted) \
            + 2.0**-24

    def check(self, got: np.ndarray, what: str) -> None:
        error = np.abs(got - self.wanted)
        assert got.shape == self.wanted.shape and (error <= self.tolerance).all(), (what, float(np.nanmax(error)))


@pytest.fixture(scope="module", params=ROUNDOFF)
def values(request, torch):
    return Values(torch, request.param)


@pytest.fixture
def no_copies(monkeypatch):
    """No copy of an operand, by any library, and none between host and GPU."""
    def refuse(value, view, argument, order=None):
        raise AssertionError(f"{argument} is copied")

    monkeypatch.setattr(arrays, "as_contiguous", refuse)
    with support.no_host_copies(monkeypatch):
        yield


def conv(x, w, bias, **options):
    return warpconv.conv2d(x, w, bias, padding=(1, 2), groups=8, **options)


def test_torch(torch, values, no_copies):
    x, w, bias = (a.cuda() for a in (values.x, values.w, values.bias))
    last = torch.channels_last
    for memory in (torch.contiguous_format, last):
        given = x.to(memory_format=memory)
        y = conv(given, w, bias)
        assert y.dtype == x.dtype and y.shape == SHAPE.output_shape and y.is_contiguous(memory_format=memory)
        values.check(y.double().cpu().numpy(), f"torch, {memory}")
        out = torch.full_like(y, float("nan"))
        for _ in range(3):      # checked, remembered, remembered
            out.fill_(float("nan"))
            assert conv(given, w, bias, out=out) is out
            values.check(out.double().cpu().numpy(), f"torch, {memory}, out")
        for _ in range(3):
            y = conv(given, w, bias)
            assert y.is_contiguous(memory_format=memory)
            values.check(y.double().cpu().numpy(), f"torch, {memory}, again")
        shown = conv(given.permute(TO_NHWC), w, bias, layout="NHWC")
        assert shown.permute(TO_NCHW).is_contiguous(memory_format=memory)
        values.check(shown.permute(TO_NCHW).double().cpu().numpy(), f"torch, {memory}, NHWC axes")
    out = torch.empty(SHAPE.output_shape, dtype=x.dtype, device="cuda").fill_(float("nan"))
    assert conv(x.to(memory_format=last), w, bias, out=out) is out      # of another order: copied into
    values.check(out.double().cpu().numpy(), "torch, out of another order")


def test_a_kernel_takes_the_axes_that_it_was_made_for(torch, values, no_copies):
    x, w, bias = (a.cuda() for a in (values.x, values.w, values.bias))
    shape = ConvShape.of(x.shape, w.shape, padding=(1, 2), groups=8, dtype=values.name)
    stored = warpconv.specialize(shape, layout="NHWC", bias=True, device="cuda")
    last = warpconv.specialize(replace(shape, layout="NHWC"), layout="NCHW", bias=True, device="cuda")
    prepared = stored.prepare(w)
    for _ in range(3):
        y = stored(x.permute(TO_NHWC).contiguous(), prepared, bias)
        assert y.is_contiguous()
        values.check(y.permute(TO_NCHW).double().cpu().numpy(), "NHWC axes")
        y = last(x.to(memory_format=torch.channels_last), w, bias)
        assert y.is_contiguous(memory_format=torch.channels_last)
        values.check(y.double().cpu().numpy(), "channels_last")


def numpy_of(values):
    """The operands as NumPy arrays of the element type."""
    if values.name != "bfloat16":
        return [a.numpy() for a in (values.x, values.w, values.bias)]
    ml_dtypes = pytest.importorskip("ml_dtypes")
    return [a.float().numpy().astype(ml_dtypes.bfloat16) for a in (values.x, values.w, values.bias)]


def test_numpy(values):
    x, w, bias = numpy_of(values)
    for given in (x, np.ascontiguousarray(x.transpose(TO_NHWC)).transpose(TO_NCHW)):
        y = conv(given, w, bias, device="cuda")
        assert isinstance(y, np.ndarray) and y.dtype == x.dtype
        values.check(y.astype(np.float64), "numpy")
        assert (y if given is x else y.transpose(TO_NHWC)).flags.c_contiguous
    y = conv(np.ascontiguousarray(x.transpose(TO_NHWC)), w, bias, layout="NHWC", device="cuda")
    values.check(y.transpose(TO_NCHW).astype(np.float64), "numpy, NHWC")


def test_cupy(cupy, values, no_copies):
    try:
        x, w, bias = map(cupy.asarray, numpy_of(values))
    except (TypeError, ValueError) as error:
        assert values.name == "bfloat16", error
        with pytest.raises(ArgumentTypeError):      # what this CuPy can hold of it, its bits, is not taken
            conv(*(cupy.asarray(a.view(np.uint16)) for a in numpy_of(values)))
        return
    for given in (x, cupy.ascontiguousarray(x.transpose(TO_NHWC)).transpose(TO_NCHW)):
        for _ in range(3):
            y = conv(given, w, bias)
            assert isinstance(y, cupy.ndarray) and y.dtype == x.dtype
            values.check(y.get().astype(np.float64), "cupy")
            assert (y if given is x else y.transpose(TO_NHWC)).flags.c_contiguous
        out = y.copy() if given is x else cupy.empty_like(y.transpose(TO_NHWC), order="C").transpose(TO_NCHW)
        for _ in range(3):
            out.fill(0)
            assert conv(given, w, bias, out=out) is out
            values.check(out.get().astype(np.float64), "cupy, out")


def test_pycuda(values, monkeypatch):
    with support.primary_context():
        from pycuda import gpuarray
        host = numpy_of(values)
        bits = [gpuarray.to_gpu(a.view(np.uint16) if a.dtype.itemsize == 2 else a) for a in host]
        x, w, bias = (given.view(a.dtype) for given, a in zip(bits, host))
        with support.no_host_copies(monkeypatch):
            y = conv(x, w, bias)
        assert isinstance(y, gpuarray.GPUArray) and y.dtype == host[0].dtype
        got = y.view(np.uint16).get().view(y.dtype) if y.dtype.itemsize == 2 else y.get()
        values.check(got.astype(np.float64), "pycuda")
        last = np.ascontiguousarray(host[0].transpose(TO_NHWC))
        stored = gpuarray.to_gpu(last.view(np.uint16) if last.dtype.itemsize == 2 else last).view(last.dtype)
        for given, layout in ((stored, "NHWC"), (stored.transpose(TO_NCHW), "NCHW")):
            with support.no_host_copies(monkeypatch):
                y = conv(given, w, bias, layout=layout)
            y = y if layout == "NHWC" else y.transpose(TO_NHWC)
            got = y.view(np.uint16).get().view(y.dtype) if y.dtype.itemsize == 2 else y.get()
            values.check(got.transpose(TO_NCHW).astype(np.float64), f"pycuda, {layout} axes over NHWC memory")
        del bits, stored, given, x, w, bias, y


class Capsule:
    """DLPack and nothing else."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_dlpack(torch, values):
    x, w, bias = (a.cuda() for a in (values.x, values.w, values.bias))
    for memory in (torch.contiguous_format, torch.channels_last):
        out = torch.full(SHAPE.output_shape, float("nan"), dtype=x.dtype, device="cuda").to(memory_format=memory)
        torch.cuda.synchronize()
        conv(Capsule(x.to(memory_format=memory)), Capsule(w), Capsule(bias), out=out)
        torch.cuda.synchronize()
        values.check(out.double().cpu().numpy(), f"dlpack, {memory}")


def test_odd_addresses(torch, values, no_copies):
    """Tensors that begin between the addresses a wide load needs: another plan, the right result, no copy."""
    w, bias = values.w.cuda(), values.bias.cuda()
    room = torch.empty(values.x.numel() + 16, dtype=values.x.dtype, device="cuda")
    for offset in (0, 1, 2, 3, 5, 8, 1, 0):
        for memory in (torch.contiguous_format, torch.channels_last):
            source = values.x.to(memory_format=memory)
            x = room[offset:offset + source.numel()].as_strided(source.shape, source.stride())
            x.copy_(source)
            values.check(conv(x, w, bias).double().cpu().numpy(), f"input at {offset}")
            space = torch.full((values.wanted.size + 16,), float("nan"), dtype=room.dtype, device="cuda")
            like = conv(x, w, bias)
            out = space[offset:offset + like.numel()].as_strided(like.shape, like.stride())
            conv(x, w, bias, out=out)
            values.check(out.double().cpu().numpy(), f"output at {offset}")
            assert torch.isnan(space[:offset]).all() and torch.isnan(space[offset + like.numel():]).all()


def test_batches_that_a_plan_may_not_like(torch, values):
    x, w, bias = (a.cuda() for a in (values.x, values.w, values.bias))
    for n in (3, 1, 2, 3):
        y = conv(x[:n].contiguous(), w, bias)
        wanted, tolerance = values.wanted[:n], values.tolerance[:n]
        assert (np.abs(y.double().cpu().numpy() - wanted) <= tolerance).all(), n
