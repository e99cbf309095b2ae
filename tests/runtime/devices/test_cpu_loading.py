"""Compiled kernels of the CPU device come and go: what nobody holds any more leaves the process."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.runtime.call import conv

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
MAPS = Path("/proc/self/maps")


def kernels() -> int:
    """Mappings of shared objects in memory."""
    return sum("memfd:" in line or "/warpconv-" in line for line in MAPS.read_text().splitlines())


@pytest.mark.long
@pytest.mark.skipif(not MAPS.exists(), reason="mappings are counted in /proc/self/maps")
def test_a_kernel_that_is_forgotten_leaves_the_process():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 1, 9, 9)).astype("f4"), rng.standard_normal((1, 1, 3, 3)).astype("f4")
    y = warpconv.conv2d(x, w, device="cpu")        # compiled, and what belongs to the process is there
    conv.clear()
    gc.collect()
    before = kernels()
    assert np.array_equal(warpconv.conv2d(x, w, device="cpu"), y)
    held = kernels()
    assert held > before
    for _ in range(5):
        conv.clear()
        gc.collect()
        assert kernels() == before
        assert np.array_equal(warpconv.conv2d(x, w, device="cpu"), y)
        assert kernels() == held


def test_a_kernel_that_is_held_stays():
    shape = warpconv.ConvShape(c=1, h=9, w=9, k=1, r=3, s=3)
    kernel = warpconv.specialize(shape, device="cpu")
    x, w = np.ones((1, 1, 9, 9), np.float32), np.ones((1, 1, 3, 3), np.float32)
    filtered = kernel.prepare(w)
    kernel(x, w)
    conv.clear()
    gc.collect()
    assert np.all(kernel(x, w) == 9) and np.all(kernel(x, filtered) == 9)
