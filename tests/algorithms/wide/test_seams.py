"""Seams of `wide`: stacked warps of separable and of tall filters make no input row of a block twice."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests import checks
from warpconv.codegen.algorithms.wide.seams import has_seams
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue
from warpconv.runtime.build import compilers

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
STACK = {"warp_columns": 1, "warp_rows": 3, "warp_planes": 1}


def plane(r: int, s: int, **changes: Any) -> ConvShape:
    return ConvShape(**{**dict(c=1, h=100, w=136, k=1, r=r, s=s, padding=(r // 2, s // 2), separable=s > 1), **changes})


def planned(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="wide", epilogue=epilogue, settings=values)


def output_rows(plan: KernelPlan, shape: ConvShape) -> int:
    """Output rows that the launch's blocks make, by the kernel's own arithmetic."""
    numbers, warps = plan.numbers, plan.options.warp_rows
    bands = plan.program.steps[-1].grid_of(shape)[1] // numbers.classes
    needed = -(-shape.p // (numbers.classes * bands)) + numbers.seams.rows
    share = -(-max(-(-needed // warps), numbers.seams.rows) // numbers.together) * numbers.together
    return bands * (warps * share - numbers.seams.rows) * numbers.classes


@pytest.mark.parametrize("size", [64, 256, 1000, 4096])
@pytest.mark.parametrize("r, s", [(3, 3), (5, 5), (7, 7), (9, 9), (17, 17), (33, 33), (129, 1)])
def test_blocks_cover_the_image(r, s, size):
    shape = plane(r, s, h=size, w=max(size, 256))
    made = planned(shape)
    assert made.numbers.seams and output_rows(made, shape) >= shape.p


@pytest.mark.parametrize("r", [9, 17, 33])
def test_few_rows_are_made_twice(r):
    """By seams those of a block's edges only, in place of those between its warps as well."""
    shape = plane(r, r, h=4096, w=4096)
    made = planned(shape)
    bands = made.program.steps[-1].grid_of(shape)[1]
    twice = bands * (r - 1) / shape.p
    assert made.options.warp_rows >= 4 and twice < 0.1 < twice * made.options.warp_rows


def test_who_has_seams():
    for shape, wanted in ((plane(9, 9), True), (plane(129, 1), True), (plane(9, 9, separable=False), False),
                          (plane(9, 9, c=3, k=3, groups=3), True), (plane(63, 63, w=256, c=3, k=3, groups=3), False)):
        made = planned(shape, sub_block_rows=20, warp_rows=2, warp_columns=1)
        assert has_seams(made.spec, made.options) == wanted == bool(made.numbers.seams), shape
        assert bool(made.program.launches[-1].shared_bytes) == wanted
        assert ("join_rows" in render(made).text) == wanted


def test_packed_rows_and_single_warps_have_none():
    assert planned(plane(9, 9, h=56, w=56)).numbers.seams is None
    assert planned(plane(9, 9), warp_rows=1).numbers.seams is None
    assert planned(plane(9, 9), tap_rows="needed", **STACK).numbers.seams is None


def test_seams_that_shared_memory_does_not_hold_are_refused():
    with pytest.raises(UnsupportedSpec, match="seams of 32 stacked warps have 253952 bytes"):
        planned(plane(33, 9), **{**STACK, "warp_rows": 32, "prefetch_rows": 1, "stage_steps": 1, "loads": "registers"})


@pytest.mark.thin(36)
@on_cpu_device
@pytest.mark.parametrize("h", [1, 7, 31, 64, 65, 100])
@pytest.mark.parametrize("padding_mode", ["zeros", "constant", "replicate", "reflect", "symmetric", "circular"])
def test_images_lower_than_a_seam_and_taller(h, padding_mode):
    """Every read of shared memory is of what a thread of the block has written."""
    value = 0.5 if padding_mode == "constant" else 0.0
    shape = plane(17, 5, h=h, padding_mode=padding_mode, padding_value=value)
    for values in (STACK, {**STACK, "warp_rows": 8, "edges": "guarded", "sub_block_rows": 1, "stage_steps": 1}):
        made = planned(shape, **values)
        assert made.numbers.seams
        checks.check_checked(made, shape)


@pytest.mark.thin(9)
@on_cpu_device
@pytest.mark.parametrize("changes, epilogue", [
    (dict(stride=2), ()), (dict(dilation=(2, 1)), ()), (dict(stride=(2, 1), dilation=(3, 2)), (Epilogue.BIAS,)),
    (dict(padding=(30, 4)), (Epilogue.RESIDUAL,)), (dict(padding=0), (Epilogue.BIAS, Epilogue.RELU)),
    (dict(n=2, c=3, k=3, groups=3), (Epilogue.BIAS, Epilogue.RESIDUAL)), (dict(dtype="float16"), (Epilogue.RESIDUAL,)),
    (dict(dtype="bfloat16", k=2), ())])
@pytest.mark.parametrize("loads", ["registers", "cached"])
def test_every_kind_of_layer(changes, epilogue, loads):
    shape = plane(7, 5, h=70, **changes)
    made = planned(shape, *epilogue, **STACK, span="strips", row_lanes=32, separators="zero_lanes", edges="interior",
                   loads=loads, prefetch_rows=2, stage_steps=1, sub_block_rows=6)
    assert made.numbers.seams
    checks.check_checked(made, shape)


@on_cpu_device
def test_a_block_of_several_columns_and_planes():
    shape = plane(5, 5, n=1, h=40, w=272, c=4, k=4, groups=4)
    made = planned(shape, warp_columns=2, warp_rows=2, warp_planes=2, sub_block_rows=8)
    assert made.numbers.seams.block == 4 * made.numbers.seams.stack
    checks.check_checked(made, shape)


@on_cpu_device
def test_tall_filters():
    shape = plane(129, 1, h=300, w=40)
    made = planned(shape)
    assert made.numbers.seams
    checks.check_kernel(checks.cpu_kernel(made), shape)


@on_cpu_device
def test_what_lies_far_away_changes_nothing():
    """Sums of two warps are added, never taken from each other: a pixel reaches the outputs of its windows only."""
    shape = plane(17, 5, h=96)
    kernel = checks.cpu_kernel(planned(shape, **STACK, sub_block_rows=16))
    x, w = np.zeros(shape.input_shape, np.float32), np.ones((1, 1, 1, 22), np.float32)
    x[0, 0, 40, 60] = np.inf
    y = kernel(x, w)
    assert np.isinf(y[0, 0, 32:49, 58:63]).all() and np.count_nonzero(y) == 17 * 5


@pytest.mark.long
def test_sums_that_are_handed_over_stay_in_registers():
    if not compilers.available()[compilers.CompilerKind.NVCC]:
        pytest.skip("nvcc is not installed")
    layers = [plane(r, s, h=1024, w=1024, dtype=dtype, c=c, k=c, groups=c, padding_mode="symmetric")
              for r, s, dtype, c in ((5, 5, "float32", 1), (17, 17, "float32", 4), (33, 33, "float16", 1),
                                     (129, 1, "float32", 1), (33, 33, "float32", 3))]

    def spilled(item: tuple[ConvShape, str]) -> str | None:
        shape, arch = item
        made = plan_layer(shape, algorithm="wide", arch=arch)
        assert made.numbers.seams
        entry, = compilers.compile_source(render(made).text, arch=arch, kind=compilers.CompilerKind.NVCC).entries
        return f"{shape} {arch}" if entry.spill_stores or entry.spill_loads or entry.stack_bytes else None

    with ThreadPoolExecutor(2) as pool:
        wrong = list(filter(None, pool.map(spilled, zip(layers, ("sm_90", "sm_80", "sm_100", "sm_90", "sm_100")))))
    assert not wrong


def test_the_text_says_who_adds_what():
    text = render(planned(plane(5, 5), **STACK)).text
    assert len(re.findall(r"\bjoin_rows\(", text)) == 2 and text.count("__syncthreads();") == 2
    assert "left[3][3] = acc_p3_c3;" in text
