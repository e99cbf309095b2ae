"""Element types and orders of axes through conv2d and Kernel on the CPU device: kept as they come, nothing copied."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import warpconv
from tests import checks, reference, settings
from tests.runtime.arrays.fake_arrays import DlpackOnly
from warpconv import ArgumentError, ArgumentTypeError, ConvShape
from warpconv.codegen import resolution
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.numerics import Numerics
from warpconv.runtime import arrays
from warpconv.runtime.arrays import factories as array_factories, axes
from warpconv.runtime.call import conv

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

SHAPE = ConvShape(n=2, c=6, h=9, w=11, k=12, r=3, s=3, padding=((1, 0), (2, 1)), groups=6)
OPTIONS = {"padding": SHAPE.padding, "groups": 6, "device": "cpu", "algorithm": "direct"}
TYPES = {"float32": (np.dtype(np.float32), 2.0**-24), "float16": (np.dtype(np.float16), 2.0**-11),
         "bfloat16": (np.dtype(ml_dtypes.bfloat16), 2.0**-8)}
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


class Given:
    """Operands of one element type, and the check of a result with axes (N, K, P, Q)."""

    def __init__(self, name: str, shape: ConvShape = SHAPE):
        self.dtype, roundoff = TYPES[name]
        x, w, bias = (a.astype(self.dtype) for a in reference.operands(shape, settings.generator(31)))
        self.x, self.w, self.bias = x, w, bias
        wide = [a.astype(np.float64) for a in (x, w)]
        column = bias.astype(np.float64)[None, :, None, None]
        self.plain = reference.convolve(*wide, shape)
        self.biased = self.plain + column
        magnitude = reference.convolve(*map(np.abs, wide), shape) + np.abs(column)
        self.tolerance = (shape.reduction + 2) * 2.0**-23 * magnitude + 1.01 * roundoff * np.maximum(
            np.abs(self.biased), np.abs(self.plain)) + 2.0**-24

    def check(self, got: np.ndarray, wanted: np.ndarray) -> None:
        assert got.dtype == self.dtype and got.shape == wanted.shape
        error = np.abs(got.astype(np.float64) - wanted)
        assert (error <= self.tolerance).all(), float(np.nanmax(error))


@pytest.fixture
def copies(monkeypatch):
    """What is copied to become contiguous."""
    made = []
    real = array_factories.as_contiguous

    def counted(value, view, argument, order=None):
        if not view.contiguous:
            made.append(argument)
        return real(value, view, argument, order)

    monkeypatch.setattr(arrays, "as_contiguous", counted)
    return made


def in_memory(array, memory):
    """An array of axes NCHW whose memory has the given order."""
    if memory == "NCHW":
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array.transpose(TO_NHWC)).transpose(TO_NCHW)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("memory", ["NCHW", "NHWC"])
def test_type_and_orders_are_kept(name, layout, memory, copies):
    given = Given(name)
    x = in_memory(given.x, memory)
    shown = x if layout == "NCHW" else x.transpose(TO_NHWC)
    y = warpconv.conv2d(shown, given.w, given.bias, layout=layout, **OPTIONS)
    logical = y if layout == "NCHW" else y.transpose(TO_NCHW)
    given.check(logical, given.biased)
    stored = logical if memory == "NCHW" else logical.transpose(TO_NHWC)
    assert stored.flags.c_contiguous and copies == []
    out = in_memory(np.full(SHAPE.output_shape, np.nan).astype(given.dtype), memory)
    shown_out = out if layout == "NCHW" else out.transpose(TO_NHWC)
    assert warpconv.conv2d(shown, given.w, given.bias, layout=layout, out=shown_out, **OPTIONS) is shown_out
    given.check(out, given.biased)
    assert copies == []


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_arrays_with_gaps_between_columns_are_copied_into_the_order_of_their_axes(layout, copies):
    given = Given("float16")
    x = given.x if layout == "NCHW" else given.x.transpose(TO_NHWC)
    y = warpconv.conv2d(np.repeat(x, 2, axis=-1)[..., ::2], given.w, layout=layout, **OPTIONS)
    given.check(y if layout == "NCHW" else y.transpose(TO_NCHW), given.plain)
    assert y.flags.c_contiguous and copies == ["input"]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("memory", ["NCHW", "NHWC"])
def test_out_of_another_order_in_memory_is_copied_into(layout, memory):
    given = Given("float32")
    x = in_memory(given.x, "NHWC" if memory == "NCHW" else "NCHW")
    out = in_memory(np.zeros(SHAPE.output_shape, np.float32), memory)
    if layout == "NHWC":
        x, out = x.transpose(TO_NHWC), out.transpose(TO_NHWC)
    assert warpconv.conv2d(x, given.w, layout=layout, out=out, **OPTIONS) is out
    given.check(out if layout == "NCHW" else out.transpose(TO_NCHW), given.plain)


def test_an_input_that_tells_no_order_leaves_it_to_the_output():
    shape = ConvShape(n=2, c=1, h=9, w=11, k=4, r=3, s=3)
    x, w, _ = reference.operands(shape, settings.generator(3))
    for memory in ("NCHW", "NHWC"):
        out = in_memory(np.full(shape.output_shape, np.nan, np.float32), memory)
        warpconv.conv2d(x, w, device="cpu", algorithm="direct", out=out)
        reference.expected(x, w, shape).check(np.ascontiguousarray(out), memory)
    assert warpconv.conv2d(x, w, device="cpu", algorithm="direct").flags.c_contiguous


@pytest.mark.parametrize("shape, strides, layout, expected", [
    ((2, 3, 4, 5), (60, 20, 5, 1), "NCHW", "NCHW"), ((2, 3, 4, 5), (60, 1, 15, 3), "NCHW", "NHWC"),
    ((2, 1, 4, 5), (20, 1, 5, 1), "NCHW", "NCHW"), ((2, 3, 1, 1), (3, 1, 3, 3), "NCHW", "NCHW"),
    ((1, 3, 4, 5), (7, 1, 15, 3), "NCHW", "NHWC"), ((2, 3, 4, 5), (120, 40, 10, 2), "NCHW", "NCHW"),
    ((2, 3, 4, 5), (120, 2, 30, 6), "NCHW", "NCHW"), ((2, 4, 5, 3), (60, 15, 3, 1), "NHWC", "NHWC"),
    ((2, 4, 5, 3), (60, 5, 1, 20), "NHWC", "NCHW"), ((2, 4, 5, 1), (20, 5, 1, 1), "NHWC", "NHWC")])
def test_the_order_in_memory_is_read_off_the_strides(shape, strides, layout, expected):
    view = arrays.ArrayView(arrays.ArrayKind.TORCH, 4096, shape, strides, DType.FLOAT32, 0, None, False)
    assert axes.memory_order(Layout.parse(layout), view) is Layout.parse(expected)


def test_kernels_are_made_for_one_order_of_axes():
    given = Given("float32")
    nhwc = warpconv.specialize(SHAPE, device="cpu", algorithm="direct", layout="NHWC")
    last = warpconv.specialize(replace(SHAPE, layout="NHWC"), device="cpu", algorithm="direct", layout="NCHW")
    assert (nhwc.axes, last.axes, nhwc.spec) == (Layout.NHWC, Layout.NCHW, last.spec)
    assert nhwc.spec.layout is Layout.NHWC and nhwc._backend is last._backend and last.for_axes(Layout.NHWC) is nhwc
    assert warpconv.specialize(SHAPE, device="cpu", algorithm="direct", layout="NHWC") is nhwc
    stored, channels_last = np.ascontiguousarray(given.x.transpose(TO_NHWC)), in_memory(given.x, "NHWC")
    prepared = nhwc.prepare(given.w)
    given.check(nhwc(stored, prepared).transpose(TO_NCHW), given.plain)
    y = last(channels_last, prepared)
    given.check(y, given.plain)
    assert y.transpose(TO_NHWC).flags.c_contiguous
    given.check(last(given.x, given.w), given.plain)        # in the other order: copied into the kernel's
    with pytest.raises(warpconv.ShapeError):
        nhwc(given.x, given.w)


def test_equal_sizes_do_not_hide_the_order():
    """An operand whose axes turned round have the same sizes is still read in its own order."""
    shape = ConvShape(n=3, c=3, h=3, w=3, k=3, r=3, s=3, padding=1)
    x, w, _ = reference.operands(shape, settings.generator(5))
    y = warpconv.conv2d(in_memory(x, "NHWC"), w, padding=1, device="cpu", algorithm="direct")
    reference.expected(x, w, shape).check(np.ascontiguousarray(y))
    assert y.transpose(TO_NHWC).flags.c_contiguous


@pytest.mark.parametrize("name", TYPES)
def test_types_must_be_the_same(name):
    given, other = Given(name), "float16" if name == "float32" else "float32"
    for argument, call in (("weight", {"weight": given.w.astype(other)}), ("bias", {"bias": given.bias.astype(other)}),
                           ("out", {"out": np.zeros(SHAPE.output_shape, other)})):
        with pytest.raises(ArgumentTypeError, match=name) as caught:
            warpconv.conv2d(**{"input": given.x, "weight": given.w, **call, **OPTIONS})
        assert caught.value.argument == argument


def test_sixteen_bits_are_not_taken_for_bfloat16():
    """They are pixels; only as a filter is uint16 refused, and the way out told."""
    given = Given("bfloat16")
    with pytest.raises(ArgumentTypeError, match="ml_dtypes.bfloat16") as caught:
        warpconv.conv2d(given.x.view(np.uint16), given.w.view(np.uint16), **OPTIONS)
    assert caught.value.argument == "weight"


def test_bfloat16_without_ml_dtypes_says_what_to_install(monkeypatch):
    import sys
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ArgumentTypeError, match="pip install ml_dtypes"):
        arrays.numpy_dtype(DType.BFLOAT16)


def test_dlpack_of_the_host_gives_numpy():
    given = Given("float16")
    y = warpconv.conv2d(DlpackOnly(in_memory(given.x, "NHWC")), DlpackOnly(given.w), **OPTIONS)
    given.check(y, given.plain)
    assert isinstance(y, np.ndarray) and y.transpose(TO_NHWC).flags.c_contiguous


def test_accum_dtype_is_the_specs_arithmetic(monkeypatch):
    asked = []
    real = resolution.resolve

    def resolve(request, tuning):
        asked.append(request.numerics.value)
        return real(replace(request, numerics=Numerics.FLOAT32), tuning)

    monkeypatch.setattr(resolution, "resolve", resolve)
    conv.clear()
    given = Given("float16")
    for accum in (None, "float32", "float16", "float16"):
        warpconv.conv2d(given.x, given.w, accum_dtype=accum, **OPTIONS)
    warpconv.specialize(SHAPE, device="cpu", algorithm="direct", accum_dtype="float16")
    conv.clear()
    assert asked == ["float32", "float16", "float16"]       # the last is for float32 elements
    for bad in ("float8", 16):
        with pytest.raises(ArgumentError) as caught:
            warpconv.conv2d(given.x, given.w, accum_dtype=bad, **OPTIONS)
        assert caught.value.argument == "accum_dtype"


@pytest.mark.parametrize("layout", ["NWHC", "nchw", None, 3])
def test_unknown_layouts(layout):
    given = Given("float32")
    with pytest.raises(ArgumentError) as caught:
        warpconv.conv2d(given.x, given.w, layout=layout, **OPTIONS)
    assert caught.value.argument == "layout" and "NHWC" in caught.value.hint


@pytest.mark.thin(9)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("n, c, k, size, padding", [(3, 72, 28, 1, 0), (1, 9, 40, 1, 0), (2, 16, 24, 3, 1)])
def test_single_pixels_have_their_channels_side_by_side_in_both_orders(name, n, c, k, size, padding, copies):
    """Dense layers are planned in NHWC then; arrays, results and plans stay the caller's."""
    shape = ConvShape(n=n, c=c, h=1, w=1, k=k, r=size, s=size, padding=padding, dtype=name)
    given = Given(name, shape)
    residual = settings.generator(5).standard_normal(shape.output_shape).astype(given.dtype)
    given.tolerance = given.tolerance + TYPES[name][1] * np.abs(residual.astype(np.float64))     # of the sum's rounding
    for out in (None, np.full(shape.output_shape, np.nan, given.dtype)):
        got = warpconv.conv2d(given.x, given.w, bias=given.bias, residual=residual, padding=padding, out=out,
                              device="cpu")
        assert got.flags.c_contiguous
        given.check(got, given.biased + residual.astype(np.float64))
    kernel = warpconv.specialize(shape, device="cpu", epilogue=("bias",))
    assert (kernel.axes, kernel.spec.layout) == (Layout.NCHW, Layout.NHWC)
    given.check(kernel(given.x, given.w, given.bias), given.biased)
    made = warpconv.plan_layer(shape, arch="sm_80", epilogue=("bias",))
    assert made.spec.layout is Layout.NHWC
    given.check(warpconv.specialize(shape, plan=made, device="cpu")(given.x, given.w, given.bias), given.biased)
    assert not copies


@pytest.mark.parametrize("changes", [dict(h=2), dict(padding=1), dict(dtype="uint8"), dict(groups=4)])
def test_other_layers_keep_their_order(changes):
    shape = ConvShape(**{**dict(c=16, h=1, w=1, k=16, r=1, s=1, dtype="float16"), **changes})
    assert warpconv.plan_layer(shape, arch="sm_80").spec.layout is Layout.NCHW
    assert warpconv.plan_layer(replace(shape, padding=0), algorithm="direct").spec.layout is Layout.NCHW
