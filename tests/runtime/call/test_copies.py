"""Copies of what holds a kernel or a prepared filter share it; pickles are refused in words."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import warpconv


class Holder:
    def __init__(self, kernel, filter, weight):
        self.kernel, self.filter, self.weight = kernel, filter, weight


@pytest.fixture(scope="module")
def held():
    weight = np.random.default_rng(3).standard_normal((2, 1, 3, 3), np.float32)
    kernel = warpconv.specialize(warpconv.ConvShape(c=2, h=9, w=8, k=2, r=3, s=3, groups=2), device="cpu")
    return Holder(kernel, kernel.prepare(weight), weight)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_copies_share_it_and_compute_the_same(held, way):
    made = way(held)
    assert made.kernel is held.kernel and made.filter is held.filter
    x = np.random.default_rng(5).standard_normal((1, 2, 9, 8), np.float32)
    np.testing.assert_array_equal(made.kernel(x, made.filter), held.kernel(x, held.weight))
    assert way(held.kernel) is held.kernel and way(held.filter) is held.filter


@pytest.mark.parametrize("name", ["kernel", "filter"])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_refused_in_words(held, name, protocol):
    with pytest.raises(warpconv.ArgumentTypeError, match="is not pickled.*ConvShape.*specialize"):
        pickle.dumps({"of": getattr(held, name)}, protocol)
