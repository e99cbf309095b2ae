"""conv_transpose3d, against products spread tap by tap in float64; images have tests/cpu/test_gradients.py."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from warpconv import ArgumentError, ArgumentTypeError, ShapeError

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def exact(x, w, bias, stride, padding, output_padding, groups, dilation):
    """(N, C, D, H, W) and (C, K/groups, T, R, S) -> (N, K, Z, P, Q)."""
    n, c, *image = x.shape
    each, filters, taps = c // groups, w.shape[1], w.shape[2:]
    whole = [(size - 1) * step + apart * (span - 1) + 1 + more for size, step, apart, span, more in zip(
        image, stride, dilation, taps, output_padding)]
    spread = np.zeros((n, groups * filters, *whole))
    for group, tap in itertools.product(range(groups), itertools.product(*map(range, taps))):
        part = slice(each * group, each * group + each)
        places = tuple(slice(at * apart, at * apart + (size - 1) * step + 1, step)
                       for at, apart, size, step in zip(tap, dilation, image, stride))
        spread[(slice(None), slice(filters * group, filters * group + filters), *places)] += np.einsum(
            "ncdhw,ck->nkdhw", x[:, part].astype(np.float64), w[(part, slice(None), *tap)].astype(np.float64))
    inside = tuple(slice(pad, size - pad) for pad, size in zip(padding, whole))
    return spread[(slice(None), slice(None), *inside)] + bias[:, None, None, None]


@pytest.mark.thin(6)
@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("channels, groups", [((6, 4), 2), ((16, 10), 1), ((3, 3), 3)])
@pytest.mark.parametrize("stride, output_padding, dilation, padding", [
    ((1, 1, 1), (0, 0, 0), (1, 1, 1), (0, 0, 0)), ((2, 2, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((1, 2, 3), (0, 1, 2), (2, 1, 1), (1, 0, 2)), ((1, 1, 2), (1, 0, 1), (3, 1, 2), (2, 0, 1))])
def test_drawn_layers(stride, output_padding, dilation, padding, channels, groups, dtype, layout):
    rng = settings.generator(17)
    (c, k), taps = channels, (2, 3, 3)
    x, w, bias = (rng.standard_normal(size).astype(dtype) for size in (
        (2, c, 3, 4, 5), (c, k // groups, *taps), (k,)))
    wanted = exact(x, w, bias.astype(np.float64), stride, padding, output_padding, groups, dilation)
    given = x if layout == "NCDHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    made = warpconv.conv_transpose3d(given, w, bias, stride, padding, output_padding, groups, dilation, layout=layout,
                                     device="cpu")
    made = made if layout == "NCDHW" else np.moveaxis(made, -1, 1)
    sizes = exact(abs(x), abs(w), abs(bias.astype(np.float64)), stride, padding, output_padding, groups, dilation)
    step = {"float32": 2.0**-18, "float16": 2.0**-10}[dtype]
    assert made.shape == wanted.shape and made.dtype == x.dtype
    assert (np.abs(made.astype(np.float64) - wanted) <= step * sizes + 1e-6).all()


def test_one_volume_and_a_given_output():
    rng = settings.generator(18)
    x, w, bias = (rng.standard_normal(size, np.float32) for size in ((2, 4, 3, 5, 6), (4, 3, 2, 2, 2), (3,)))
    whole = warpconv.conv_transpose3d(x, w, bias, 2, device="cpu")
    assert whole.shape == (2, 3, 6, 10, 12)
    assert np.array_equal(warpconv.conv_transpose3d(x[1], w, bias, 2, device="cpu"), whole[1])
    out = np.full(whole.shape[1:], np.nan, np.float32)
    assert warpconv.conv_transpose3d(x[1], w, bias, 2, out=out, device="cpu") is out
    assert np.array_equal(out, whole[1])


def test_it_is_the_gradient_of_conv3ds_input():
    rng = settings.generator(19)
    x, w = (rng.standard_normal(size, np.float32) for size in ((1, 6, 3, 4, 5), (6, 2, 3, 3, 3)))
    made = warpconv.conv_transpose3d(x, w, stride=2, padding=1, output_padding=1, groups=2, device="cpu")
    again = warpconv.conv3d_input(made.shape, w, x, stride=2, padding=1, groups=2, device="cpu")
    assert made.tobytes() == again.tobytes()


@pytest.mark.parametrize("change, error, argument, match", [
    ({"weight": np.zeros((3, 2, 3, 3, 3), "f")}, ShapeError, "weight", r"\(C, K/groups, T, R, S\)"),
    ({"weight": np.zeros((4, 2, 3, 3), "f")}, ShapeError, "weight", "4 axes, 5 are needed"),
    ({"input": np.zeros((1, 4, 5, 6), "i4")}, ArgumentTypeError, "input", "int32"),
    ({"output_padding": 1}, ShapeError, "output_padding", "no less than the stride"),
    ({"output_padding": (0, 1)}, ShapeError, "output_padding", "depth, vertical, horizontal"),
    ({"groups": 3}, ShapeError, "groups", "divide"), ({"padding": 9}, ShapeError, "padding", "empty output"),
    ({"padding": "same"}, ArgumentError, "padding", "in numbers"),
    ({"stride": (1, 2)}, ShapeError, "stride", "depth, vertical, horizontal"),
    ({"bias": np.zeros(5, "f")}, ShapeError, "bias", "filters"), ({"layout": "NHWC"}, ArgumentError, "layout", "NCDHW"),
    ({"out": np.zeros((1, 2, 7, 8, 8), "f")}, ShapeError, "out", "out does not have")])
def test_what_cannot_be_is_refused_by_name(change, error, argument, match):
    given = {"input": np.zeros((1, 4, 5, 6, 7), "f"), "weight": np.zeros((4, 2, 3, 3, 3), "f"), "device": "cpu"}
    with pytest.raises(error, match=match) as caught:
        warpconv.conv_transpose3d(**{**given, **change})
    assert caught.value.argument == argument
