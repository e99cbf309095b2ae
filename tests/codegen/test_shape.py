"""ConvShape: PyTorch's meaning of every size, and a typed error for each size that fits no convolution."""

import numpy as np
import pytest

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError, WarpconvError
from warpconv.codegen.shape import LARGEST_PADDING, LARGEST_SIZE, ConvShape

LAYER = dict(n=2, c=4, h=20, w=30, k=6, r=3, s=5)


def layer(**changes):
    return ConvShape(**{**LAYER, **changes})


@pytest.mark.parametrize("given", [np.float16, np.dtype("float16"), "float16", "torch.float16", DType.FLOAT16])
def test_element_types_of_others(given):
    assert DType.parse(given) is DType.FLOAT16
    assert ConvShape(c=1, h=5, w=5, k=1, r=3, s=3, dtype=given, out_dtype=np.float32).y_dtype is DType.FLOAT32


@pytest.mark.parametrize("changes, p, q", [
    ({}, 18, 26), ({"padding": 1}, 20, 28), ({"padding": (1, 2)}, 20, 30), ({"padding": ((1, 0), (0, 3))}, 19, 29),
    ({"stride": 2}, 9, 13), ({"stride": (3, 1), "padding": 1}, 7, 28), ({"dilation": 2}, 16, 22),
    ({"dilation": (1, 3), "stride": 2}, 9, 9), ({"padding": "same"}, 20, 30), ({"padding": "valid"}, 18, 26),
    ({"padding": "same", "dilation": 3}, 20, 30), ({"h": 1, "w": 1, "padding": (1, 2)}, 1, 1),
    ({"padding": [[1, 0], [0, 3]]}, 19, 29), ({"h": np.int64(20), "stride": np.int32(2)}, 9, 13)])
def test_output_sizes(changes, p, q):
    shape = layer(**changes)
    assert (shape.p, shape.q) == (p, q) and shape.output_shape == (2, 6, p, q)


@pytest.mark.parametrize("taps, pads", [(1, (0, 0)), (2, (0, 1)), (3, (1, 1)), (4, (1, 2)), (5, (2, 2)), (6, (2, 3))])
def test_same_puts_the_odd_row_and_column_last_as_torch_does(taps, pads):
    assert layer(r=taps, s=taps, padding="same").padding == (pads, pads)


@pytest.mark.parametrize("changes, pointwise", [
    ({}, True), ({"dilation": 2}, True), ({"r": 3}, False), ({"s": 3}, False), ({"stride": (1, 2)}, False),
    ({"padding": ((0, 0), (0, 1))}, False), ({"d": 7, "t": 1}, True), ({"d": 7, "t": 3}, False),
    ({"d": 7, "t": 1, "stride": (2, 1, 1)}, False), ({"d": 7, "t": 1, "padding": (1, 0, 0)}, False)])
def test_a_pointwise_layer_has_a_pixel_for_each_output(changes, pointwise):
    assert layer(**{"r": 1, "s": 1, **changes}).is_pointwise is pointwise


def test_same_counts_the_dilated_extent():
    assert layer(r=2, s=4, padding="same", dilation=(3, 1)).padding == ((1, 2), (1, 2))


@pytest.mark.parametrize("changes, error, argument, value, hint", [
    ({"n": 0}, ShapeError, "n", 0, "between 1"), ({"h": -5}, ShapeError, "h", -5, "between 1"),
    ({"w": 2**31}, ShapeError, "w", 2**31, str(LARGEST_SIZE)), ({"k": 10**30}, ShapeError, "k", 10**30, "between"),
    ({"c": 2.5}, ArgumentTypeError, "c", 2.5, "int"), ({"c": "3"}, ArgumentTypeError, "c", "3", "int"),
    ({"c": True}, ArgumentTypeError, "c", True, "int"), ({"r": None}, ArgumentTypeError, "r", None, "int"),
    ({"stride": 0}, ShapeError, "stride", 0, "between 1"),
    ({"stride": (1, 2, 3)}, ShapeError, "stride", (1, 2, 3), "="),
    ({"stride": -1}, ShapeError, "stride", -1, "between"), ({"dilation": (0, 1)}, ShapeError, "dilation", 0, "between"),
    ({"padding": -1}, ShapeError, "padding", -1, "between 0"),
    ({"padding": LARGEST_PADDING + 1}, ShapeError, "padding", LARGEST_PADDING + 1, str(LARGEST_PADDING)),
    ({"padding": ((1, 2), (3, -4))}, ShapeError, "padding", -4, "between 0"),
    ({"padding": "full"}, ShapeError, "padding", "full", "same"),
    ({"padding": 1.0}, ArgumentTypeError, "padding", 1.0, "int"),
    ({"padding": "same", "stride": 2}, ShapeError, "stride", (2, 2), "numbers"),
    ({"groups": 3}, ShapeError, "groups", 3, "divisor of 4"), ({"groups": 4}, ShapeError, "groups", 4, "divisor of 6"),
    ({"groups": 0}, ShapeError, "groups", 0, "between 1"),
    ({"h": 2}, ShapeError, "input", (2, 4, 2, 30), "padding"),
    ({"w": 4}, ShapeError, "input", (2, 4, 20, 4), "padding"),
    ({"h": LARGEST_SIZE, "padding": 1}, ShapeError, "padding", ((1, 1), (1, 1)), "at most"),
    ({"dtype": "float8"}, ArgumentError, "dtype", "float8", "float32")])
def test_typed_errors_carry_argument_value_and_the_way_out(changes, error, argument, value, hint):
    with pytest.raises(error) as caught:
        layer(**changes)
    assert isinstance(caught.value, WarpconvError)
    assert isinstance(caught.value, TypeError if error is ArgumentTypeError else ValueError)
    assert caught.value.argument == argument and caught.value.value == value
    assert hint in caught.value.hint and caught.value.hint in str(caught.value)


@pytest.mark.parametrize("input, weight, options, argument", [
    ((20, 30), (1, 1, 3, 3), {}, "input"), ((1, 1, 1, 20, 30), (1, 1, 3, 3), {}, "weight"),
    ((1, 1, 20, 30), (3, 3), {}, "weight"), ((1, 2, 20, 30), (1, 1, 3, 3), {}, "weight"),
    ((1, 4, 20, 30), (6, 4, 3, 3), {"groups": 2}, "weight"), ((1, 0, 20, 30), (1, 0, 3, 3), {}, "c"),
    ((0, 1, 20, 30), (1, 1, 3, 3), {}, "n"), ((1, 1, 20, 30), (1, 1, 0, 3), {}, "r")])
def test_of_arrays(input, weight, options, argument):
    with pytest.raises(ShapeError) as caught:
        ConvShape.of(input, weight, **options)
    assert caught.value.argument == argument and caught.value.hint


def test_of_arrays_gives_the_layer():
    assert ConvShape.of((2, 4, 20, 30), (6, 2, 3, 5), groups=2, padding="same") == layer(groups=2, padding="same")


def test_derived_figures():
    shape = layer(groups=2)
    assert (shape.reduction, shape.weight_shape) == (2 * 15, (6, 2, 3, 5))
    assert shape.macs == 2 * 6 * 18 * 26 * 30
    assert shape.bytes_moved == 4 * (2 * 4 * 20 * 30 + 6 * 30 + 2 * 6 * 18 * 26)
    assert shape.with_batch(9) == layer(groups=2, n=9)
    assert shape.dtype is DType.FLOAT32 and hash(shape) == hash(layer(groups=2))


def test_it_prints_itself():
    text = str(layer(groups=2, stride=(1, 2), padding=((1, 2), (0, 0)), dilation=2))
    for part in ("x[2, 4, 20, 30]", "w[6, 2, 3, 5]", "stride 1,2", "padding 1,2,0,0", "dilation 2", "groups 2"):
        assert part in text
