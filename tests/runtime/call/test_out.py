"""``out=`` of any strides, and one image without an axis of images, as torch takes them."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.codegen.errors import ArgumentError, ShapeError
from warpconv.runtime.arrays import view

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
RNG = np.random.default_rng(13)
X = RNG.integers(-4, 5, (2, 3, 6, 7)).astype(np.float32)
W = RNG.integers(-4, 5, (4, 3, 3, 3)).astype(np.float32)
SIZES = (2, 4, 6, 7)


def call(x=X, w=W, **more):
    return warpconv.conv2d(x, w, **{"padding": 1, "device": "cpu", **more})


@pytest.fixture(scope="module")
def wanted():
    return call()


def placed(order, steps, signs):
    """An array of SIZES whose axes lie in this order in memory, with so many elements a step, and what it stands in."""
    room = np.full([SIZES[axis] * steps[axis] for axis in order], np.nan, np.float32)
    inner = room[tuple(slice(None, None, signs[axis] * steps[axis]) for axis in order)]
    return inner.transpose(np.argsort(order)), room


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("seed", range(24))
def test_any_strides(wanted, seed, layout):
    rng = np.random.default_rng(seed)
    out, room = placed(rng.permutation(4), rng.choice([1, 1, 2, 3], 4), rng.choice([1, 1, -1], 4))
    x, made = X, wanted
    if layout == "NHWC":
        x, made, out = (array.transpose(0, 2, 3, 1) for array in (X, wanted, out))
    options = {"algorithm": "auto" if seed % 2 else "reuse"} if seed % 3 else {"algorithm": "implicit_gemm"}
    assert call(x, layout=layout, out=out, **options) is out
    np.testing.assert_array_equal(out, made)
    assert np.isnan(room).sum() == room.size - out.size         # nothing in the gaps


def test_a_residual_in_the_place_of_an_output_with_gaps(wanted):
    out, _ = placed((1, 0, 3, 2), (1, 1, 2, 1), (1, 1, 1, 1))
    out[...] = before = RNG.integers(-4, 5, SIZES)
    call(residual=out, out=out)
    np.testing.assert_array_equal(out, wanted + before)


@pytest.mark.parametrize("strides", [(168, 42, 0, 1), (168, 42, 6, 1), (42, 42, 7, 1), (100, 42, 7, 1),
                                     (-168, 42, 7, -7)])
def test_elements_that_meet_are_refused(strides):
    room = np.zeros(2000, np.float32)
    out = np.lib.stride_tricks.as_strided(room[1000:], SIZES, [4 * stride for stride in strides])
    with pytest.raises(ArgumentError, match="share memory") as caught:
        call(out=out)
    assert caught.value.argument == "out" and not room.any()


def test_axes_that_reach_into_each_others_steps_do_not_meet():
    room = np.zeros(100, np.float32)
    for shape, strides, meets in (((2, 3), (3, 2), False), ((2, 3), (4, 2), True), ((3, 4), (4, 3), False),
                                  ((4, 5), (4, 3), True)):
        shown = np.lib.stride_tricks.as_strided(room, shape, [4 * stride for stride in strides])
        addresses = [i * strides[0] + j * strides[1] for i in range(shape[0]) for j in range(shape[1])]
        assert (len(set(addresses)) < len(addresses)) is meets
        assert view(shown, "out").overlaps_itself() is meets


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_one_image(wanted, layout):
    def turn(array):
        return array if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(array, -3, -1))

    for _ in range(2):
        made = call(turn(X[1]), layout=layout)
        assert made.shape == turn(wanted[1]).shape
        np.testing.assert_array_equal(made, turn(wanted[1]))
    out, residual = np.empty_like(made), turn(np.ones(SIZES[1:], np.float32))
    assert call(turn(X[1]), layout=layout, residual=residual, out=out) is out
    np.testing.assert_array_equal(out, made + 1)


@pytest.mark.parametrize("name", ["out", "residual"])
def test_one_image_and_a_batch_do_not_mix(name):
    with pytest.raises(ShapeError) as caught:
        call(X[0], **{name: np.zeros((1, *SIZES[1:]), np.float32)})
    assert caught.value.argument == name
    with pytest.raises(ShapeError) as caught:
        call(X[:1], **{name: np.zeros(SIZES[1:], np.float32)})
    assert caught.value.argument == name
