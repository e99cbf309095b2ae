"""``bench.large_filters``: its layers, and a row of a small one on the host."""

from __future__ import annotations

import pytest

from bench import large_filters
from bench.devices import HostDevice
from tests import checks
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.select import plan_layer


def test_every_layer_has_both_plans():
    for sizes in (*large_filters.PLANES, *large_filters.DEPTHWISE):
        shape = large_filters.shape_of(*sizes)
        assert plan_layer(shape, arch="sm_90").spec.numerics in (Numerics.FLOAT32, Numerics.FP16X3)
        assert plan_layer(shape, arch="sm_90", precision="ieee").spec.numerics is Numerics.FLOAT32


@pytest.mark.long
@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
def test_rows_are_checked_and_timed_once_for_each_plan():
    shape = large_filters.shape_of(1, 2, 20, 13)
    plan = plan_layer(shape, arch="sm_90", precision="ieee")
    split = plan_layer(shape, arch="sm_90", algorithm="toeplitz_float32", precision="fp16x3")
    rows = large_filters.measured(HostDevice(), shape, {"default": split, "ieee": plan, "again": plan})
    assert rows["ieee"] == rows["again"] and rows["default"]["algorithm"] == "toeplitz_float32"
    assert all(row["ms"] > 0 and row["error"] < 1e-6 for row in rows.values())
