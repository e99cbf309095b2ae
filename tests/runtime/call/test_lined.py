"""Errors of calls on sequences: of the arguments as they were given, in axes that sequences have."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpconv

X, W, DY = (np.zeros(sizes, np.float32) for sizes in ((2, 4, 10), (6, 4, 3), (2, 6, 8)))
CASES = {
    "channels": (lambda: warpconv.conv1d(X, W[:, :3]), "weight", (6, 3, 3), "weight must be (K, C/groups, S)"),
    "short": (lambda: warpconv.conv1d(X[:, :, :1], W), "input", (2, 4, 1), "filter's length"),
    "short, channels last": (lambda: warpconv.conv1d(X[:, :2], np.zeros((10, 1, 3), "f"), groups=10, layout="NLC"),
                             "input", (2, 2, 10), "filter's length"),
    "same": (lambda: warpconv.conv1d(X, W, padding="same", stride=2), "stride", 2, "needs stride 1"),
    "out": (lambda: warpconv.conv1d(X, W, out=np.zeros((2, 6, 7), "f")), "out", (2, 6, 7), "(2, 6, 8)"),
    "residual": (lambda: warpconv.conv1d(X, W, residual=np.zeros((2, 6, 7), "f")), "residual", (2, 6, 7), "(2, 6, 8)"),
    "one sequence": (lambda: warpconv.conv1d(X[0], W, out=np.zeros((6, 7), "f")), "out", (6, 7), ""),
    "gradient": (lambda: warpconv.conv1d_input((2, 4, 10), W, DY[:, :, 1:]), "grad_output", (2, 6, 7), "(2, 6, 8)"),
    "filter": (lambda: warpconv.conv1d_weight(X, (6, 4, 3), DY[:, :, 1:]), "grad_output", (2, 6, 7), "(2, 6, 8)"),
    "transposed": (lambda: warpconv.conv_transpose1d(X, W), "weight", (6, 4, 3), "(C, K/groups, S)"),
    "output_padding": (lambda: warpconv.conv_transpose1d(X, W[:4], output_padding=1), "output_padding", 1, "stride"),
    "empty": (lambda: warpconv.conv_transpose1d(X[:, :, :1], W[:4], padding=9), "padding", 9, "empty output: -15"),
}


@pytest.mark.parametrize("name", CASES)
def test_they_show_what_was_given(name):
    call, argument, value, words = CASES[name]
    with pytest.raises(warpconv.WarpconvError) as caught:
        call()
    error = caught.value
    assert (error.argument, error.value) == (argument, value), str(error)
    assert words in str(error) and not re.search(r"R, S|\(\d+, \d+, \d+, \d+\)", str(error)), str(error)
