"""A warning points at the line that called warpconv."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import warpconv
from tests import checks
from tests.runtime import device_object
from warpconv.runtime import env
from warpconv.runtime.build import cache
from warpconv.runtime.call import conv, place
from warpconv.runtime.devices.cuda import contexts

ROOT = Path(__file__).parents[2]
HERE = Path(__file__)
X, W = np.ones((1, 1, 9, 9), np.float32), np.ones((1, 1, 3, 3), np.float32)
SHAPE = warpconv.ConvShape(c=1, h=9, w=9, k=1, r=3, s=3)


def place_of(call):
    """The text of the line that the first warning of a call points at, in this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert Path(caught[0].filename) == HERE, caught[0]
    return HERE.read_text(encoding="utf-8").splitlines()[caught[0].lineno - 1]


@pytest.mark.thin(2)
@pytest.mark.skipif(checks.no_cpu_device() is not None or contexts.usable() is None,
                    reason="auto does not take the CPU device")
@pytest.mark.parametrize("call", [
    lambda: warpconv.conv2d(X, W),  # here
    lambda: warpconv.conv2d(X, W, padding=[1, 1]),  # here
    lambda: warpconv.specialize(SHAPE),  # here
    lambda: warpconv.gaussian_filter(X[0, 0], 1.0),  # here
    lambda: warpconv.correlate1d(X[0, 0], [1.0, 2.0, 1.0]),  # here
])
def test_no_gpu(call):
    conv.clear()
    place._warned.cache_clear()
    assert "# here" in place_of(call)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()      # said once


@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
def test_a_cache_that_cannot_be_used(tmp_path, monkeypatch):
    device_object.copied(monkeypatch)
    conv.clear()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    cache._warned.discard(tmp_path / "cache")
    with env.scope(cache_dir=tmp_path / "cache"):
        assert "# at depth" in place_of(lambda: warpconv.conv2d(X, W, device="cpu"))  # at depth


def test_all_warnings_go_that_way():
    """But those that PyCUDA gave, which have their place, and one of an import."""
    found = [path.name for layer in ("runtime", "api", "codegen") for path in (ROOT / layer).rglob("*.py")
             if re.search(r"warnings\.warn\(", path.read_text(encoding="utf-8"))]
    assert sorted(found) == ["registry.py", "warned.py"]
