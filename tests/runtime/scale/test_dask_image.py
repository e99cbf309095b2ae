"""Our filters under dask-image's names."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError

da = pytest.importorskip("dask.array", reason="dask is not installed (it is in the extra dask)")
ndfilters = pytest.importorskip("dask_image.ndfilters", reason="dask-image is not installed")
ndimage = pytest.importorskip("scipy.ndimage", reason="scipy is not installed (it is in the test extra)")

import dask                                                      # noqa: E402 - behind the skip
import warpconv.dask as chunked                                  # noqa: E402

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.fixture
def registered():
    with dask.config.set(scheduler="synchronous"), chunked.register(device="cpu", dtype="float32") as made:
        yield made


@pytest.mark.long
def test_its_functions_run_our_kernels(registered, monkeypatch):
    x = settings.generator(44).standard_normal((26, 31))                 # float64
    d = da.from_array(x, chunks=(10, 12))
    for name, arguments in (("correlate", (np.arange(12.0).reshape(3, 4) / 8,)), ("gaussian_filter", (1.2,)),
                            ("uniform_filter", (3,)), ("sobel", (0,)), ("laplace", ())):
        made = getattr(ndfilters, name)(d, *arguments)
        assert made.dtype == np.float64
        expected = getattr(ndimage, name)(x, *arguments)
        got = made.compute()
        assert np.abs(got - expected).max() < 1e-5 * np.abs(expected).max()
        assert np.array_equal(got, got.astype(np.float32))               # SciPy's has more bits
    registered.undo()
    assert np.array_equal(ndfilters.sobel(d).compute(), ndimage.sobel(x))


def test_wrap_is_right_in_ours_and_not_in_dask_image():
    """Why warpconv.dask has functions of its own."""
    x = settings.generator(45).standard_normal((24, 24)).astype("float32")
    d, expected = da.from_array(x, chunks=8), ndimage.gaussian_filter(x, 1.2, mode="wrap")
    assert np.abs(ndfilters.gaussian_filter(d, 1.2, mode="wrap").compute() - expected).max() > 0.01
    ours = chunked.gaussian_filter(d, 1.2, mode="wrap", device="cpu").compute()
    assert np.abs(ours - expected).max() < 1e-5


def test_what_cannot_be_is_refused():
    with pytest.raises(ArgumentError, match="unknown device"):
        chunked.register(device="tpu")
    with pytest.raises(ArgumentTypeError, match="no element type"):
        chunked.register(dtype="floaty")
    d = da.from_array(np.ones((8, 8)), chunks=4)
    with chunked.register(device="cpu"), pytest.raises(warpconv.ArgumentTypeError, match="no kernel reads float64"):
        ndfilters.sobel(d).compute(scheduler="synchronous")
