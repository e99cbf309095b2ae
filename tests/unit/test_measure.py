"""Counting on the CPU device, and one unit's counts against the plan's cost."""

from __future__ import annotations

import pytest

from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.measure import affordable, blocks_shape, measure, measure_unit, reduced

LAYERS = [("direct", dict(c=2, h=64, w=64, k=1, r=3, s=3), {}),
          ("direct", dict(c=1, h=64, w=64, k=2, r=4, s=3, stride=(2, 1), dilation=(1, 2), padding=1), {}),
          ("reuse", dict(c=1, h=64, w=64, k=1, r=5, s=5, padding=2), {"edges": "direct"}),
          ("reuse", dict(c=1, h=64, w=64, k=1, r=5, s=5, padding=2), {"edges": "predicated"}),
          ("reuse", dict(c=2, h=64, w=64, k=2, r=3, s=3, padding=1), {"exchange": "none", "warp_columns": "2"}),
          ("reuse", dict(c=1, h=64, w=64, k=1, r=5, s=5), {"rows": "reload"})]


@pytest.mark.parametrize("algorithm, sizes, settings", LAYERS)
def test_one_warp_loads_what_was_planned(algorithm, sizes, settings):
    plan = plan_layer(ConvShape(**sizes), algorithm=algorithm, settings=settings)
    unit = measure_unit(plan)
    assert unit.warp_loads == plan.cost.warp_loads
    assert unit.shuffles == plan.cost.shuffles


def test_a_measurement_sums_and_compares():
    plan = plan_layer(ConvShape(n=2, c=2, h=20, w=40, k=3, r=3, s=3), algorithm="direct", settings={"k_tile": 1})
    shape = plan.spec.example_shape(n=2, h=20, w=40)
    found = measure(plan, shape)
    assert found.accuracy.within and found.shuffles == 0
    assert set(found.buffers) == {"x", "w", "y"}
    assert found.buffers["y"].store_bytes == 4 * 2 * 3 * 18 * 38
    assert found.buffers["x"].load_bytes == 4 * 2 * 3 * 18 * 38 * 18
    assert measure(plan, shape, seed=1).buffers == found.buffers


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
