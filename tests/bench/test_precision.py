"""The study ``precision``: what its errors are, and what its tables show."""

from __future__ import annotations

import numpy as np
import pytest

from bench.studies import precision
from warpconv.runtime.accuracy.reference import reference


def test_errors_are_those_of_the_worst_image_and_the_worst_output():
    shape, (x, w) = precision.shape_of("96"), precision.drawn("96", "images times 2^-30 to 2^30")
    exact = reference(x, w, shape).output
    assert precision.errors_of(exact, x, w, shape) == precision.Errors(0.0, 0.0)
    off = exact.copy()
    off[np.abs(exact).max(axis=(1, 2, 3)).argmin()] *= 1 + 2.0**-10      # the smallest image, whatever the others are
    found = precision.errors_of(off, x, w, shape)
    assert found.norm == pytest.approx(2.0**-10) and 0 < found.worst < 2.0**-10


@pytest.mark.parametrize("kind", precision.KINDS)
def test_data_are_of_their_kind_and_the_same_each_time(kind):
    x, w = precision.drawn("96", kind)
    again = precision.drawn("96", kind)
    assert np.array_equal(x, again[0]) and np.array_equal(w, again[1]) and x.dtype == w.dtype == np.float32
    assert np.isfinite(x).all() and np.isfinite(w).all()
    tiny = np.abs(x[x != 0]) < np.finfo(np.float32).tiny
    assert tiny.mean() > 0.9 if kind == "subnormal pixels" else not tiny.any()


def test_tables_have_a_line_a_kind():
    rows = {f"96/{kind}/{way}": {"status": "ok", "way": way, "norm": 1e-7, "worst": 2e-7}
            for kind in ("signed", "non-negative") for way in ("ieee", "tf32x3")}
    made, = precision.tables(rows)
    assert made.columns == ("data", "ieee, norm", "tf32x3, norm", "ieee, worst", "tf32x3, worst")
    assert made.rows == (("signed", 1e-7, 1e-7, 2e-7, 2e-7), ("non-negative", 1e-7, 1e-7, 2e-7, 2e-7))
