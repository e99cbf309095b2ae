"""The study of agreement with SciPy: what it accepts, what it calls wrong, and its table."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from bench.devices import HostDevice
from bench.harness import WrongResult
from bench.studies import agreement
from tests import checks

ndimage = pytest.importorskip("scipy.ndimage", reason="scipy is not installed")
needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

FILTERS = {each.key: each for each in agreement.FILTERS}


def one(key, dtype, mode="mirror"):
    return agreement._measure(HostDevice(), ndimage, FILTERS[key], dtype, mode)


def test_every_filter_meets_every_origin_with_every_type_and_mode():
    each = FILTERS["convolve/2x4, whole"]
    met = {(name, each.origin(i + j)) for i, dtype in enumerate(agreement.DTYPES)
           for j, mode in enumerate(agreement.MODES) for name in (dtype, mode)}
    assert len(met) == 10 * 3 and {origin for _, origin in met} == {(0, 1), (-1, -1), (-1, -2)}
    assert FILTERS["sobel/3x3"].origin(1) is None and FILTERS["correlate1d/8, fractional"].origin(2) == 3


def test_filters_have_names_of_their_own():
    assert len(FILTERS) == len(agreement.FILTERS) and set(agreement.QUICK) <= set(FILTERS)


@pytest.mark.long
@needs_cpu
@pytest.mark.parametrize("key, dtype", [("correlate/2x4, fractional", "int16"), ("correlate1d/129, whole", "uint8"),
                                        ("sobel/3x3", "float32"), ("gaussian_filter/sigma 0.7", "uint8"),
                                        ("gaussian_gradient_magnitude/sigma 1.2", "float32")])
def test_rows_are_measured(key, dtype):
    row = one(key, dtype)
    assert row["cases"] == len(agreement.IMAGES) and row["pixels"] > row["differing"]
    assert 0 < row["of_bound"] <= 1 if dtype == "float32" else row["of_bound"] == 0


@pytest.mark.thin(9)
@needs_cpu
@pytest.mark.parametrize("key, dtype", [("correlate/3x3, whole", "uint8"), ("uniform_filter/3x3", "int16"),
                                        ("correlate/2x4, fractional", "float32"), ("laplace/3x3", "float32"),
                                        ("correlate/7x6, fractional", "uint16"), ("gaussian_filter/sigma 0.7", "int8"),
                                        ("gaussian_gradient_magnitude/sigma 1.2", "float32")])
def test_one_wrong_pixel_is_seen(key, dtype, monkeypatch):
    call, name = getattr(warpconv, FILTERS[key].call), FILTERS[key].call

    def wrong(*args, **options):
        made = call(*args, **options)
        made.flat[made.size // 2] += 3 if made.dtype.kind in "iu" else made.dtype.type(0.01)
        return made

    one(key, dtype)
    monkeypatch.setattr(warpconv, name, wrong, raising=False)
    with pytest.raises(WrongResult):
        one(key, dtype)


def test_a_difference_of_one_is_accepted_near_whole_numbers_only():
    each = FILTERS["correlate/2x4, fractional"]
    made, right = np.array([5, 6], np.uint8), np.array([4, 6], np.uint8)
    bound = np.full(2, 1e-4)
    assert agreement._integers(each, made, right, np.array([4.99999, 6.5]), bound).tolist() == [1, 0]
    with pytest.raises(WrongResult, match="1 pixels differ by up to 1"):
        agreement._integers(each, made, right, np.array([4.9, 6.5]), bound)
    made, right = np.array([0], np.uint8), np.array([255], np.uint8)
    assert agreement._integers(each, made, right, np.array([256.0]), bound[:1]).tolist() == [1]


def test_the_table_has_a_line_for_each_filter_and_type():
    row = {"status": "ok", "cases": 15, "pixels": 100, "differing": 1, "worst": 1.0, "of_bound": 0.25}
    rows = {f"correlate/3x3, whole/{dtype}/{mode}": row for dtype in ("uint8", "float32")
            for mode in ("wrap", "mirror")}
    table, = agreement.tables(rows)
    assert table.rows == (("correlate", "3x3, whole", "uint8", 30, None, None, None, 1, 1, 1.0, None),
                          ("correlate", "3x3, whole", "float32", 30, None, None, None, 1.0, 1.0, 1.0, 0.25))
    assert "Of 4 combinations" in table.text and "60 cases" in table.text
