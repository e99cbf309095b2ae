"""Grids smaller than the work: blocks go on to further rows, images, groups and tiles of filters.

CUDA allows 65535 blocks along y and z, so a kernel loops over both. Here the limits are one and two blocks, so that
the loops and the barriers between their turns are executed by a layer small enough to check every access.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests import checks
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cpu import Mode

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

SHAPE = ConvShape(n=3, c=4, h=39, w=70, k=6, r=3, s=5, groups=2, padding=(1, 2))
SMALL = {"sub_block_rows": 3, "warp_rows": 2, "k_tile": 1}
KINDS = [("direct", {"block_size_x": 64, "block_size_y": 2, "k_tile": 1})] + [
    ("reuse", {**SMALL, "weights": weights, "edges": edges}) for weights in ("shared", "constant", "cached")
    for edges in ("direct", "predicated")] + [
    (algorithm, {"tile": 8}) for algorithm in ("naive", "constant", "tiled", "halo_cached")] + [
    ("coarsened", {"tile": 8, "walk": 2, "outputs": 3})]


def limited(plan: KernelPlan, limit: int) -> KernelPlan:
    """The same text, launched with at most ``limit`` blocks along y and z."""
    step, = plan.program.steps
    x, y, z = step.grid
    grid = (x, dataclasses.replace(y, limit=limit), dataclasses.replace(z, limit=limit))
    steps = (dataclasses.replace(step, grid=grid),)
    return dataclasses.replace(plan, program=dataclasses.replace(plan.program, steps=steps))


@pytest.mark.thin(16)
@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("algorithm, values", KINDS)
def test_few_blocks_do_all_the_work(algorithm, values, limit, mode):
    plan = limited(checks.planned(SHAPE, algorithm, values), limit)
    full = checks.planned(SHAPE, algorithm, values).program.steps[0].grid_of(SHAPE)
    assert plan.program.steps[0].grid_of(SHAPE)[1:] == (limit, limit) and min(full[1:]) > 2
    checks.check_kernel(checks.cpu_kernel(plan, mode), SHAPE)


@pytest.mark.long
@pytest.mark.parametrize("algorithm, values", [("direct", {"block_size_x": 8, "block_size_y": 4}),
                                               ("reuse", {"warp_columns": 1, "warp_rows": 1})])
def test_more_planes_than_a_grid_has_blocks(algorithm, values):
    shape = ConvShape(n=65537, c=1, h=2, w=3, k=1, r=2, s=2)
    plan = checks.planned(shape, algorithm, values)
    assert plan.program.steps[0].grid_of(shape)[2] == 65535
    checks.check_kernel(checks.cpu_kernel(plan), shape)
