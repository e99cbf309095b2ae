"""Borders and pixel types: what a layer may be, the names of borders, and every one of them executed by ``direct``."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests import checks, reference, settings
from warpconv.codegen.border import NAMES, Border
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.serialise import decode, encode
from warpconv.codegen.shape import PIXELS, ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.devices.cpu import Mode

needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


# ---- names

ROW = np.arange(4.0)
LEFT = {Border.REPLICATE: [0, 0, 0], Border.REFLECT: [3, 2, 1], Border.SYMMETRIC: [2, 1, 0], Border.CIRCULAR: [1, 2, 3]}


@pytest.mark.parametrize("mode", LEFT)
def test_what_stands_left_of_a_row(mode):
    assert [mode.index(i, 4) for i in (-3, -2, -1)] == LEFT[mode]


@pytest.mark.parametrize("name, mode", NAMES["numpy"].items())
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_borders_are_what_numpy_pads(name, mode, size):
    if not mode.reads_image:
        assert mode.index(-1, size) is None and mode.index(0, size) == 0
        return
    padded = np.pad(np.arange(size), 9, name)
    assert [mode.index(i, size) for i in range(-9, size + 9)] == padded.tolist()


@pytest.mark.parametrize("name, mode", NAMES["scipy"].items())
@pytest.mark.parametrize("size", [1, 2, 5])
def test_borders_are_what_scipy_has_by_that_name(name, mode, size):
    ndimage = pytest.importorskip("scipy.ndimage", reason="scipy is not installed")
    row, value = np.arange(1.0, size + 1), -7.0
    for shift in range(-3, size + 3):       # a filter with one tap, at that distance
        taps = np.zeros(2 * 9 + 1)
        taps[9 + shift] = 1.0
        made = ndimage.correlate1d(row, taps, mode=name if not name.startswith("grid-") else
                                   {"grid-mirror": "reflect", "grid-wrap": "wrap", "grid-constant": "constant"}[name],
                                   cval=value)
        at = [mode.index(i + shift, size) for i in range(size)]
        assert made.tolist() == [value if i is None else row[i] for i in at]


def test_clashing_names_are_told_apart():
    assert Border.named("reflect", "scipy") is Border.SYMMETRIC and Border.named("reflect", "torch") is Border.REFLECT
    assert Border.named("REFLECT_101", "opencv") is Border.parse("reflect")
    with pytest.raises(ArgumentError, match="scipy's 'nearest' is 'replicate'"):
        Border.parse("nearest")
    with pytest.raises(ArgumentError, match="torch has no such border"):
        Border.named("mirror", "torch")
    with pytest.raises(ArgumentError, match="no names of this library"):
        Border.named("reflect", "pillow")


# ---- what a layer may be

def layer(**fields) -> ConvShape:
    return ConvShape(**{**dict(c=1, h=9, w=11, k=1, r=3, s=3, padding=1), **fields})


def test_equal_layers_are_equal():
    assert layer(padding_mode="constant") == layer() == layer(padding_mode="zeros", weight_dtype="float32")
    assert layer(padding=0, padding_mode="reflect") == layer(padding=0)
    assert layer(dtype="uint8", weight_dtype="float32", out_dtype="uint8") == layer(dtype="uint8")
    assert layer(cast="truncate") == layer()                     # floats are not cast to integers
    assert len({layer(padding_mode=mode, padding_value=2 if mode is Border.CONSTANT else 0) for mode in Border}) == 6


@pytest.mark.parametrize("fields, argument", [
    (dict(padding_mode="mirror"), "padding_mode"), (dict(padding_value=1.0), "padding_value"),
    (dict(padding_mode="constant", padding_value=float("nan")), "padding_value"),
    (dict(padding_mode="constant", padding_value=1e39), "padding_value"),
    (dict(weight_dtype="int8"), "weight_dtype"), (dict(dtype="uint8", weight_dtype="float16"), "weight_dtype"),
    (dict(dtype="uint8", weight_dtype="uint8"), "weight_dtype"), (dict(dtype="int32"), "out_dtype"),
    (dict(out_dtype="int32"), "out_dtype"), (dict(dtype="int8", out_dtype="bfloat16"), "out_dtype"),
    (dict(dtype="uint8", cast="up"), "cast"), (dict(cast="up"), "cast"),
])
def test_what_is_no_layer(fields, argument):
    with pytest.raises(ArgumentError) as caught:
        layer(**fields)
    assert caught.value.argument == argument and caught.value.hint


def test_a_value_must_be_a_number():
    with pytest.raises(ArgumentTypeError, match="must be a number"):
        layer(padding_mode="constant", padding_value="1")


def test_integer_arithmetic_has_integer_borders():
    shape = layer(dtype="uint8", weight_dtype="int8", padding_mode="constant", padding_value=0.5)
    with pytest.raises(UnsupportedSpec, match="the border's value is no int"):
        plan_layer(shape, algorithm="direct")


def test_arithmetic_follows_the_filter():
    assert plan_layer(layer(dtype="int8", weight_dtype="int16"), algorithm="direct").spec.numerics.value == "int32"
    with pytest.raises(UnsupportedSpec, match="int32 arithmetic on float32"):
        plan_layer(layer(), algorithm="direct", numerics="int32")
    with pytest.raises(UnsupportedSpec, match="float16 arithmetic on uint8"):
        plan_layer(layer(dtype="uint8"), algorithm="direct", numerics="float16")


def test_each_field_changes_the_text():
    texts = {render(plan_layer(layer(**fields), algorithm="direct")).text for fields in (
        {}, {"padding_mode": "reflect"}, {"padding_mode": "symmetric"}, {"padding_mode": "replicate"},
        {"padding_mode": "circular"}, {"padding_mode": "constant", "padding_value": 1}, {"out_dtype": "float16"},
        {"dtype": "uint8"}, {"dtype": "uint8", "weight_dtype": "int8"}, {"dtype": "uint8", "cast": "truncate"},
        {"dtype": "uint8", "out_dtype": "int16"})}
    assert len(texts) == 11


def test_what_was_stored_before_borders_and_types_is_read():
    for shape in (layer(dtype="float16"), layer(padding_mode="reflect", dtype="uint8", out_dtype="float32")):
        assert decode(ConvShape, encode(shape)) == shape
    assert not {"padding_mode", "weight_dtype", "cast"} & set(encode(layer()))


# ---- executed

@pytest.mark.thin(15)
@needs_cpu
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("mode", list(Border), ids=lambda mode: mode.value)
def test_direct_has_every_border(mode, layout):
    value = 1.7 if mode is Border.CONSTANT else 0.0
    for i, (h, w, padding) in enumerate([(9, 40, 1), (5, 7, ((4, 1), (0, 6))), (1, 1, 3), (2, 3, (7, 9))]):
        shape = layer(n=2, c=2, k=4, groups=2, h=h, w=w, padding=padding, padding_mode=mode, padding_value=value,
                      layout=layout, dtype=("float32", "float16")[i % 2])
        checks.check_checked(plan_layer(shape, algorithm="direct"), shape, seed=i)


TYPES = [*itertools.product(PIXELS, ("float32", "int8", "int16", "int32"), (None,), ("nearest", "truncate")),
         *[(dtype, "float32", out, "nearest") for dtype in PIXELS for out in ("float32", "float16")],
         *[("uint8", weight, out, cast) for weight in ("float32", "int8") for out in ("int32", "int16", "float32")
           for cast in ("nearest", "truncate")],
         *[("float32", None, out, cast) for out in ("uint8", "int8", "int16", "float16")
           for cast in ("nearest", "truncate")], ("float16", None, "float32", "nearest"),
         ("bfloat16", None, "uint8", "nearest"), ("bfloat16", None, "float16", "nearest")]


@pytest.mark.thin(16)
@needs_cpu
@pytest.mark.parametrize("dtype, weight, out, cast", TYPES, ids=lambda value: str(getattr(value, "value", value)))
def test_direct_has_every_type(dtype, weight, out, cast):
    number = TYPES.index((dtype, weight, out, cast))
    shape = layer(n=2, c=3, k=2, h=8, w=37, dtype=dtype, weight_dtype=weight, out_dtype=out, cast=cast,
                  layout=("NCHW", "NHWC")[number % 2], padding_mode=list(Border)[number % 6],
                  padding_value=3 if number % 6 == 1 else 0)
    epilogue = ((), (Epilogue.BIAS,), (Epilogue.RELU,))[number % 3]
    checks.check_kernel(checks.cpu_kernel(plan_layer(shape, algorithm="direct", epilogue=epilogue), Mode.FAST), shape,
                        seed=number)


@pytest.mark.long
@needs_cpu
def test_conv2d_has_borders_and_types():
    import warpconv
    rng = settings.generator(1)
    x = rng.integers(0, 255, (1, 1, 6, 5), np.uint8, endpoint=True)
    w = rng.integers(-3, 3, (1, 1, 3, 3)).astype(np.int8)
    padded = np.pad(x.astype(int), ((0, 0), (0, 0), (1, 1), (1, 1)), "reflect")
    exact = sum(w[0, 0, r, s] * padded[:, :, r:r + 6, s:s + 5] for r in range(3) for s in range(3))
    call = dict(padding=1, padding_mode="reflect", device="cpu")
    assert np.array_equal(warpconv.conv2d(x, w, **call), np.clip(exact, 0, 255).astype(np.uint8))
    assert np.array_equal(warpconv.conv2d(x, w, cast="truncate", **call), exact.astype(np.uint8))
    assert np.array_equal(warpconv.conv2d(x, w, out_dtype="int32", **call), exact)
    out = np.zeros((1, 1, 6, 5), np.float32)
    assert warpconv.conv2d(x, w, out=out, out_dtype="float32", **call) is out and np.array_equal(out, exact)


def test_references_agree():
    """The run time's reference and the tests' own pad and cast in different ways."""
    from warpconv.runtime.accuracy.reference import compare
    rng = settings.generator(2)
    for mode, dtype, cast in itertools.product(Border, ("float32", "uint8", "int16"), ("nearest", "truncate")):
        shape = layer(c=2, h=4, w=3, padding=((5, 2), (1, 7)), padding_mode=mode, dtype=dtype, cast=cast,
                      padding_value=2 if mode is Border.CONSTANT else 0)
        x, w, _ = reference.operands(shape, rng)
        exact = reference.expected(x, w, shape)
        made = exact.output.astype(exact.element)
        assert compare(made, x, w, shape).within, shape
        made.flat[0] += 5
        assert not compare(made, x, w, shape).within, shape
