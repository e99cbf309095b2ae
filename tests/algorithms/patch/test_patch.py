"""``patch``: what its planner decides, refuses and demands, and what compilers and the CPU device make of its text."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests import checks, settings
from warpconv.codegen.algorithms.patch import plan as patch
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.accuracy.measure import measure
from warpconv.runtime.build import compilers

DTYPES = ("float32", "float16", "bfloat16")
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def depthwise(size: int = 13, side: int = 56, c: int = 32, **changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=8, c=c, h=side, w=side, k=c, groups=c, r=size, s=size, padding=size // 2), **changes})


def planned(shape: ConvShape, arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="patch", arch=arch, settings=values)


@pytest.mark.parametrize("shape, says", [
    (depthwise(layout="NHWC"), "layout NHWC"), (depthwise(c=4, k=4, groups=2), "2 channels a group"),
    (depthwise(r=64, s=3, padding=40), "a filter of 64 x 3"),
    (depthwise(r=63, s=63, dilation=9, padding=300), "shared memory")])
def test_layers_that_are_refused(shape, says):
    assert says in patch.supports(KernelSpec.of(shape, algorithm="patch", arch=Arch(9, 0)))
    with pytest.raises(UnsupportedSpec, match=says):
        planned(shape)


@pytest.mark.parametrize("values, says", [
    (dict(vector=2), "vector = 2"), (dict(columns=7, row_lanes=1, vector=4, store_vector=1), "vector = 4"),
    (dict(columns=6, store_vector=4), "store_vector = 4"), (dict(columns=65, store_vector=1, vector=1), "columns = 65"),
    (dict(rows=65), "rows = 65"), (dict(planes=33), "planes = 33"), (dict(planes=8, rows=56), "shared memory"),
    (dict(rows=64, row_lanes=32, columns=2, planes=1, vector=1, store_vector=1), "1024 threads"),
    (dict(columns=64, row_lanes=1, rows=8, planes=1), "registers"), (dict(min_blocks=99), "min_blocks = 99")])
def test_plan_values_that_do_not_go_together(values, says):
    with pytest.raises(UnsupportedSpec, match=re.escape(says)):
        planned(depthwise(63 if "registers" in says else 13), **values)


def test_a_patch_of_whole_planes_limits_their_height():
    """Rows outside the image are no part of it, of which a plan for a small plane makes use; others are refused."""
    made = planned(depthwise(31))
    assert made.numbers.patch_rows == 56 < made.numbers.span
    assert "H at most 56" in made.program.refusal(depthwise(31, h=57))
    assert made.program.refusal(depthwise(31, h=30)) is None
    free = planned(depthwise(31), rows=8, height=4096, planes=1)
    assert free.program.argument("H").at_most is None and free.numbers.patch_rows == free.numbers.span == 38


def test_vectors_ask_for_sizes_and_addresses():
    for dtype, size in (("float32", 4), ("float16", 2)):
        program = planned(depthwise(dtype=dtype), columns=14, row_lanes=4, vector=4, store_vector=2).program
        found = [program.argument(name).multiple_of for name in ("W", "Q", "x", "y", "w")]
        assert found == [4, 2, 4 * size, 2 * size, 1]


def test_the_batch_does_not_change_the_plan():
    assert len({planned(depthwise(21, n=n)) for n in (1, 7, 512)}) == 1


@pytest.mark.parametrize("size", [9, 13, 21, 31])
def test_defaults_leave_few_lanes_without_work(size):
    made = planned(depthwise(size))
    options, numbers = made.options, made.numbers
    tiles = -(-56 // numbers.tile_columns) * -(-56 // options.rows)
    assert 56 * 56 * options.planes / (tiles * numbers.threads * options.columns) >= 0.85


@on_cpu_device
@pytest.mark.parametrize("values", [dict(columns=28, row_lanes=2, planes=2, store_vector=4),
                                    dict(columns=14, row_lanes=4, planes=1, store_vector=2),
                                    dict(columns=7, row_lanes=8, planes=1, store_vector=1, vector=1)])
def test_lanes_meet_in_no_bank_where_the_plan_says_so(values):
    """Counted by execution: passes over the banks for all that a tile reads and writes, next to the plan's.

    Two planes of 13 x 13 filters in one tile or two; every lane of a warp has work.
    """
    shape = depthwise(13, 28 * 2, c=2, n=1)
    made = planned(shape, rows=56, **values)
    numbers, options = made.numbers, made.options
    assert numbers.conflicts == 1
    found = measure(made, shape)
    steps = sum(patch._steps(made.spec, options, 0, 56) for _ in range(2 // options.planes))
    reads = steps * (numbers.window + numbers.filter_reads)      # a weight goes to all lanes of a plane in one pass
    staged = (2 * (numbers.patch_rows + 1) * numbers.pitch + 2 * 13 * numbers.filter_pitch) / 32
    assert reads < found.shared_wavefronts <= reads + 2 * staged


@on_cpu_device
@pytest.mark.parametrize("padding", [(3, 4), (5, 6), ((3, 2), (0, 3))])
def test_windows_that_lie_wholly_beside_the_image(padding):
    shape = ConvShape(n=2, c=1, h=9, w=20, k=1, r=2, s=2, padding=padding)
    checks.check_checked(planned(shape, columns=4, row_lanes=2, rows=3, planes=1), shape)


@pytest.mark.long
@on_cpu_device
def test_the_same_bits_however_lanes_lie():
    shape = depthwise(9, 40, c=3, n=2)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape.input_shape, np.float32)
    w = rng.standard_normal(shape.weight_shape, np.float32)
    outputs = [checks.cpu_kernel(planned(shape, columns=columns, row_lanes=lanes, rows=rows, planes=planes,
                                         vector=1, store_vector=1))(x, w)
               for (columns, lanes), rows, planes in itertools.product(((5, 8), (8, 5), (14, 2)), (8, 20), (1, 2))]
    assert all(np.array_equal(output, outputs[0]) for output in outputs)


def test_the_text_is_one_filter_row_long():
    texts = [render(planned(depthwise(r=r, s=13, padding=(r // 2, 6)), columns=8, row_lanes=7, rows=8, planes=1)).text
             for r in (13, 31)]
    assert texts[0].count("fmaf(") == texts[1].count("fmaf(") == 13 * 8


def sampled() -> list[tuple[KernelPlan, str]]:
    """Filters of every size up to 31 x 31 and of 63; each with one type, architecture and plane, in turn."""
    kinds = itertools.product(DTYPES, ("sm_80", "sm_90", "sm_100"), (14, 56, 112, 300))
    sizes = range(1, 32) if settings.whole else (1, 3, 5, 7, 9, 13, 17, 21, 25, 31)
    return [(planned(depthwise(size, side, dtype=dtype), arch), arch)
            for size, (dtype, arch, side) in zip((*sizes, 63), itertools.cycle(kinds))]


@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")
def test_defaults_do_not_spill():
    def report(item: tuple[KernelPlan, str]) -> str | None:
        made, arch = item
        entry, = compilers.compile_source(render(made).text, arch=arch, kind=compilers.CompilerKind.NVRTC).entries
        spilled = entry.spill_stores or entry.spill_loads or entry.stack_bytes
        return f"{made.spec}, {entry.registers} registers: {made.settings()}" if spilled else None

    with ThreadPoolExecutor(2) as pool:
        wrong = [text for text in pool.map(report, sampled()) if text]
    assert not wrong, "\n".join(wrong)


def test_large_filters_of_float32_units_are_its_own():
    assert {select(depthwise(size, c=128), precision="ieee").algorithm for size in (21, 31)} == {"patch"}
    assert select(depthwise(7, c=128)).algorithm == "wide"
    assert select(depthwise(21, c=128, dtype="float16")).algorithm == "toeplitz"
