"""Calls by other libraries' names speak of these libraries' arguments where something is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
import warpconv.opencv as cv
import warpconv.skimage as sk
from warpconv.codegen.errors import WarpconvError

X = np.ones((20, 21), np.float32)
BOX = np.ones((3, 3))


@pytest.mark.parametrize("call, argument, said", [
    (lambda: cv.filter2D(X.astype("float64"), -1, BOX), "src", "ddepth="),
    (lambda: cv.filter2D([1, 2], -1, BOX), "src", "src has to be an array"),
    (lambda: cv.filter2D(X, -1, np.ones(3)), "kernel", "kernel must have 2 axes"),
    (lambda: cv.filter2D(X, -1, BOX, dst=np.ones((3, 3), "float32")), "dst", "dst has another shape than src"),
    (lambda: cv.GaussianBlur([1], (3, 3), 1), "src", "src has"),
    (lambda: sk.gaussian(X.astype("float64")), "image", "float64"),
    (lambda: sk.gaussian(X, channel_axis=5), "channel_axis", "image has 2 axes"),
    (lambda: sk.gaussian(X, out=np.ones(3, "float32")), "out", "out has another shape than image"),
    (lambda: sk.gaussian(X, (1, 2, 3)), "sigma", "order of the axes"),
    (lambda: sk.unsharp_mask([1]), "image", "image has to be"), (lambda: sk.laplace("a"), "image", "image has to be"),
    (lambda: sk.sobel(X, axis=5), "axis", "image has 2 axes"), (lambda: sk.roberts([[1]]), "image", "image")])
def test_an_error_names_the_library_s_argument(call, argument, said):
    with pytest.raises(WarpconvError) as caught:
        call()
    error = caught.value
    assert error.argument == argument and said in str(error) and error.args[0] == error.message
    assert not {"input", "output", "weights", "axes="} & set(str(error).replace("(", " ").split())


@pytest.mark.parametrize("call, value, hint", [
    (lambda: warpconv.convolve(X, BOX, origin=5), 5, "-1 to 1"),
    (lambda: warpconv.convolve1d(X, np.ones(4), origin=2), 2, "-2 to 1"),
    (lambda: warpconv.convolve(X, BOX, origin=1.5), 1.5, "0")])
def test_an_origin_is_told_as_it_was_given(call, value, hint):
    """Convolution turns it round."""
    with pytest.raises(WarpconvError) as caught:
        call()
    assert caught.value.value == value and hint in caught.value.hint


def test_one_number_in_a_tuple_is_for_all_axes():
    """As PyTorch takes it."""
    x, w = X[None, None], np.ones((1, 1, 3, 3), np.float32)
    made = warpconv.conv2d(x, w, stride=(2,), padding=[1], dilation=(1,), device="cpu")
    assert np.array_equal(made, warpconv.conv2d(x, w, stride=2, padding=1, device="cpu"))
    with pytest.raises(WarpconvError, match="one number or"):
        warpconv.conv2d(x, w, stride=(1, 1, 1), device="cpu")
