"""Layers whose products are one tile, as the first 1x1 of a small network: no loop is left, and nothing may spill."""

import pytest

from warpconv.codegen.epilogue import Epilogue
from warpconv.codegen.errors import ToolNotFound
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build import compilers
from warpconv.runtime.build.pipeline import build


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("c, k, taps", [(4, 48, 1), (8, 48, 1), (8, 96, 1), (8, 128, 1), (2, 64, 2), (1, 96, 2)])
def test_one_tile_of_products_stays_in_registers(c, k, taps, arch):
    try:
        compilers.choose()
    except ToolNotFound as error:
        pytest.skip(str(error))
    shape = ConvShape(c=c, h=16, w=16, k=k, r=taps, s=taps)
    plan = plan_layer(shape, arch=arch, algorithm="implicit_gemm", epilogue=(Epilogue.BIAS, Epilogue.RELU6))
    assert plan.cost.no_spills
    report = build(plan).compiled
    assert [(entry.spill_stores, entry.stack_bytes) for entry in report.entries] == [(0, 0)] * len(report.entries)
