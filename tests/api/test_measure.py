"""Counting on the CPU device, and one unit's counts against the plan's cost."""

from __future__ import annotations

import pytest

from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Numerics
from warpconv.runtime.accuracy import reference
from warpconv.runtime.accuracy.measure import (PATIENCE, affordable, blocks_shape, measurable, measure,
                                               measure_unit, operands, reduced, seconds)

LAYERS = [("direct", dict(c=2, h=64, w=64, k=1, r=3, s=3), {}),
          ("direct", dict(c=1, h=64, w=64, k=2, r=4, s=3, stride=(2, 1), dilation=(1, 2), padding=1), {}),
          ("direct", dict(c=2, h=64, w=64, k=2, r=3, s=3, dtype="bfloat16"), {"k_tile": 2}),
          ("direct", dict(c=32, h=64, w=64, k=32, r=3, s=3, groups=32, padding=1, layout="NHWC"), {}),
          ("direct", dict(c=6, h=64, w=64, k=64, r=3, s=2, stride=2, dtype="float16", layout="NHWC"), {"k_tile": 2}),
          ("direct", dict(c=64, h=64, w=64, k=512, r=3, s=3, padding=1, layout="NHWC"), {}),
          ("reuse", dict(c=1, h=64, w=64, k=1, r=5, s=5, padding=2), {"edges": "direct"}),
          ("reuse", dict(c=1, h=64, w=64, k=1, r=5, s=5, padding=2), {"edges": "predicated"}),
          ("reuse", dict(c=2, h=64, w=64, k=2, r=3, s=3, padding=1), {"exchange": "none", "warp_columns": "2"}),
          ("reuse", dict(c=1, h=64, w=64, k=1, r=5, s=5), {"rows": "reload"})]


@pytest.mark.long
@pytest.mark.parametrize("algorithm, sizes, settings", LAYERS)
def test_one_warp_loads_what_was_planned(algorithm, sizes, settings):
    plan = plan_layer(ConvShape(**sizes), algorithm=algorithm, settings=settings)
    unit = measure_unit(plan)
    assert unit.plan.settings() == plan.settings()
    assert unit.warp_loads == unit.plan.cost.warp_loads
    assert unit.shuffles == unit.plan.cost.shuffles


def test_a_measurement_sums_and_compares():
    plan = plan_layer(ConvShape(n=2, c=2, h=20, w=40, k=3, r=3, s=3), algorithm="direct", settings={"k_tile": 1})
    shape = plan.spec.example_shape(n=2, h=20, w=40)
    found = measure(plan, shape)
    assert found.accuracy.within and found.shuffles == 0
    assert set(found.buffers) == {"x", "w", "y"}
    assert found.buffers["y"].store_bytes == 4 * 2 * 3 * 18 * 38
    assert found.buffers["x"].load_bytes == 4 * 2 * 3 * 18 * 38 * 18
    assert measure(plan, shape, seed=1).buffers == found.buffers


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_nhwc_depthwise_reads_and_writes_whole_sectors(dtype):
    """Neighbouring threads take neighbouring channels: a warp's request touches as few sectors as its bytes fill."""
    shape = ConvShape(n=2, c=64, h=12, w=20, k=64, r=3, s=3, groups=64, dtype=dtype, layout="NHWC")
    found = measure(plan_layer(shape, algorithm="direct"), shape)
    x, y = found.buffers["x"], found.buffers["y"]
    assert found.accuracy.within
    assert 32 * x.load_sectors == x.load_bytes and 32 * y.store_sectors == y.store_bytes
    assert y.store_bytes == shape.dtype.itemsize * 2 * 64 * 10 * 18


def test_half_arithmetic_is_measured_against_its_own_bound():
    shape = ConvShape(c=2, h=9, w=9, k=2, r=3, s=3, dtype="float16")
    plan = plan_layer(shape, algorithm="direct")
    assert measure(plan, shape).accuracy.bound < 0.01 < reference.reference(
        *operands(plan, shape)[:2], shape, numerics=Numerics.FLOAT16).bound.max()


def test_layers_that_would_take_long_are_reduced_with_their_plan_values():
    plan = plan_layer(ConvShape(c=512, h=56, w=56, k=512, r=3, s=3, padding=1), algorithm="direct")
    small = reduced(plan)
    assert small.settings() == plan.settings() and affordable(small, blocks_shape(small, 2, 2))
    assert 2 <= small.spec.c < 512 and small.spec.k == plan.options.k_tile
    plan = plan_layer(ConvShape(c=1, h=56, w=56, k=1, r=3, s=3))
    assert reduced(plan) is plan


def test_block_shapes_fill_whole_blocks():
    plan = plan_layer(ConvShape(c=1, h=64, w=64, k=1, r=3, s=5, stride=(2, 3)), algorithm="direct")
    shape, (wide, tall, _) = blocks_shape(plan, 2, 3), plan.program.steps[0].block
    assert (shape.p, shape.q) == (2 * tall, 3 * wide)


@pytest.mark.parametrize("taps", [7, 11, 15])
@pytest.mark.parametrize("algorithm", ["wide", "patch", "reuse"])
def test_large_filters_are_counted(algorithm, taps):
    """What decides is how long this device takes, not what a GPU makes of a small image."""
    shape = ConvShape(c=1, h=512, w=512, k=1, r=taps, s=taps, padding=taps // 2)
    plan, chosen = measurable(plan_layer(shape, algorithm=algorithm), shape)
    assert seconds(plan, chosen) <= PATIENCE and plan.program.refusal(chosen) is None
    assert (plan.spec.r, plan.spec.s) == (taps, taps)


def test_the_counts_of_a_large_filter_are_those_planned():
    shape = ConvShape(c=1, h=512, w=512, k=1, r=7, s=7)
    unit = measure_unit(plan_layer(shape, algorithm="reuse"))
    assert unit.warp_loads == unit.plan.cost.warp_loads and unit.shuffles == unit.plan.cost.shuffles


def test_layers_that_take_the_device_long_are_not_counted_whole():
    shape = ConvShape(c=1, h=4096, w=4096, k=1, r=7, s=7)
    plan, chosen = measurable(plan_layer(shape, algorithm="wide"), shape)
    assert chosen.h * chosen.w < 4096 * 4096 and seconds(plan, chosen) <= PATIENCE
