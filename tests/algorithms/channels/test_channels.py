"""``channels``: what its planner decides and refuses, and what compilers and the CPU device make of its text."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import gcd
from typing import Any

import pytest

from tests import checks, settings
from warpconv.codegen.algorithms.channels import plan as channels
from warpconv.codegen.algorithms.channels.numbers import Body, ChannelsOptions, Width, numbers_of
from warpconv.codegen.border import Border
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics
from warpconv.runtime.build import disassembly as sass
from warpconv.runtime.build.pipeline import build

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
LAYERS = ((32, 128, 112), (128, 96, 56), (128, 384, 14), (64, 768, 7))


def depthwise(size: int = 3, *, n: int = 8, c: int = 32, side: int = 56, multiplier: int = 1,
              **changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=n, c=c, h=side, w=side, k=c * multiplier, groups=c, r=size, s=size, padding=size // 2,
                               layout="NHWC"), **changes})


def spec_of(shape: ConvShape, **changes: Any) -> KernelSpec:
    return KernelSpec.of(shape, **{**dict(algorithm="channels", arch=Arch(9, 0)), **changes})


def planned(shape: ConvShape, numerics: str = "float32", arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="channels", settings=values, numerics=numerics, arch=arch)


# ---- what is served

@pytest.mark.parametrize("shape, numerics, says", [
    (depthwise(layout="NCHW"), "float32", "layout NCHW"),
    (ConvShape(c=8, h=9, w=9, k=8, r=3, s=3, groups=4, layout="NHWC"), "float32", "2 channels a group"),
    (depthwise(65, side=99), "float32", "65 x 65"),
    (depthwise(), "float16", "half arithmetic on float32"),
    (depthwise(c=3, dtype="float16"), "float16", "does not pair"),
    (depthwise(multiplier=2, dtype="float16"), "float16", "does not pair"),
    (depthwise(dtype="bfloat16", padding_mode="constant", padding_value=0.1), "float32", "is no bfloat16")])
def test_refusals_say_why(shape, numerics, says):
    assert says in channels.supports(spec_of(shape, numerics=Numerics(numerics)))
    with pytest.raises(UnsupportedSpec, match=says):
        planned(shape, numerics)


def test_half_arithmetic_on_bfloat16_needs_ampere():
    shape = depthwise(dtype="bfloat16")
    assert "sm_80" in channels.supports(spec_of(shape, numerics=Numerics.FLOAT16, arch=Arch(7, 5)))
    assert channels.supports(spec_of(shape, numerics=Numerics.FLOAT16, arch=Arch(8, 0))) is None
    halves = replace(shape, dtype="float16")
    assert channels.supports(spec_of(halves, numerics=Numerics.FLOAT16, arch=Arch(7, 5))) is None


@pytest.mark.parametrize("values, says", [
    (dict(vector=8), "vector = 8"), (dict(body="tile", vector=2), "vector = 2 with tiles"),
    (dict(block_channels=32, block_columns=64), "1024"), (dict(columns=17), "columns = 17"),
    (dict(prefetch_rows=5), "prefetch_rows = 5"), (dict(body="tile", vector=1, prefetch_rows=2), "prefetch_rows = 2"),
    (dict(body="tile", vector=1, sub_block_rows=17), "sub_block_rows = 17"), (dict(min_blocks=99), "min_blocks = 99")])
def test_plan_values_that_do_not_go_together_are_refused(values, says):
    base = dict(body="ring", vector=2, prefetch_rows=1, block_columns=2)
    with pytest.raises(UnsupportedSpec, match=says):
        planned(depthwise(), **{**base, **values})


def test_filters_that_do_not_fit_are_refused_with_the_way_out():
    with pytest.raises(UnsupportedSpec, match="smaller block_channels"):
        planned(depthwise(31, c=128), body="tile", vector=1, block_channels=32, block_columns=1)
    with pytest.raises(UnsupportedSpec, match="body=tile"):
        planned(depthwise(31, c=128), body="ring", vector=1, columns=8, block_channels=4)


def test_widths_that_a_plan_asks_for():
    plan = planned(depthwise(n=64, side=56), columns=7, width="whole")
    assert plan.program.argument("Q").multiple_of == 7
    assert plan.program.refusal(depthwise(side=63)) is None
    assert "Q a multiple of 7" in plan.program.refusal(depthwise(side=57))
    assert planned(depthwise(n=64, side=57), columns=7, width="any").program.refusal(depthwise(side=57)) is None


@pytest.mark.parametrize("dtype, vector, multiplier, x, y", [
    ("float32", 4, 1, 16, 16), ("float16", 8, 1, 16, 16), ("bfloat16", 2, 1, 4, 4), ("float32", 1, 1, 1, 1),
    ("float16", 4, 4, 1, 8), ("float16", 4, 2, 4, 8)])
def test_pointers_are_aligned_to_what_is_loaded_and_stored(dtype, vector, multiplier, x, y):
    program = planned(depthwise(dtype=dtype, multiplier=multiplier), body="ring", vector=vector, columns=1,
                      prefetch_rows=1).program
    assert (program.argument("x").multiple_of, program.argument("y").multiple_of) == (x, y)
    assert program.argument("w").multiple_of == 1


# ---- what is chosen

@pytest.mark.parametrize("n, c, side", LAYERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("size", [3, 5, 7])
def test_select_takes_it_for_depthwise_layers(size, dtype, n, c, side):
    shape = depthwise(size, n=n, c=c, side=side, dtype=dtype)
    on_tensor_cores = size == 7 and side > 14 and dtype != "float32"
    assert plan_layer(shape).spec.algorithm == ("toeplitz_nhwc" if on_tensor_cores else "channels")
    assert {c.algorithm for c in explain(shape) if c.supported} >= {"channels", "direct"}


@pytest.mark.parametrize("c, vectors", [(1, [1]), (3, [1]), (6, [1, 2]), (130, [1, 2]), (8, [1, 2, 4, 8])])
def test_vectors_divide_the_channels(c, vectors):
    assert channels._vectors(spec_of(depthwise(c=c, dtype="float16"))) == vectors


def test_large_batches_have_one_plan():
    for size, side in itertools.product((3, 7), (7, 112)):
        plans = {str(planned(depthwise(size, n=n, side=side)).options) for n in (64, 77, 512)}
        assert len(plans) == 1


@pytest.mark.parametrize("c, side, size", [(192, 28, 3), (384, 14, 3), (240, 28, 5), (32, 112, 3)])
def test_few_images_are_walked_in_one_round_of_loads(c, side, size):
    """Of 16 bits: all rows of a walk are under way at once, and blocks are for most multiprocessors, at the least."""
    one = depthwise(size, n=1, c=c, side=side, dtype="float16")
    found = planned(one)
    options = found.options
    assert options.prefetch_rows >= options.sub_block_rows + size - 1
    grid = found.program.steps[0].grid_of(one)
    assert grid[0] * grid[1] * grid[2] >= 0.6 * found.spec.hardware.multiprocessors
    settings = {n: planned(replace(one, n=n)).settings() for n in (1, 3, 4, 15, 16, 64, 256)}
    assert settings[1] == settings[3] and settings[4] == settings[15] and settings[64] == settings[256]
    assert settings[1]["sub_block_rows"] <= settings[4]["sub_block_rows"] <= settings[64]["sub_block_rows"]


@pytest.mark.thin(2)
@pytest.mark.nvcc
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [3, 5])
def test_few_images_stay_in_registers(stride, size):
    for arch in ("sm_80", "sm_90"):
        made = planned(depthwise(size, n=1, c=240, side=28, stride=stride, dtype="float16"), arch=arch)
        (entry,) = build(made).compiled.entries
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


@pytest.mark.thin(6)
@on_cpu_device
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size, changes", [(3, {}), (5, dict(stride=2)), (5, dict(dilation=(3, 1))),
                                           (3, dict(multiplier=2)), (3, dict(padding_mode="reflect")),
                                           (3, dict(padding=((0, 2), (3, 0)), c=30))])
def test_few_images(size, changes, dtype):
    shape = depthwise(size, **{"n": 2, "c": 20, "side": 15, "dtype": dtype, **changes})
    checks.check_checked(planned(shape), shape)


def test_a_block_has_no_idle_threads_along_the_channels():
    for n, c, side in LAYERS:
        plan = planned(depthwise(3, n=n, c=c, side=side, dtype="float16"))
        assert plan.numbers.channel_vectors % plan.options.block_channels == 0
        assert 64 <= plan.numbers.threads <= 256


def test_small_filters_take_lines_or_the_ring_and_large_ones_tiles():
    assert planned(depthwise(3)).options.body is Body.LINES
    assert {planned(depthwise(3, **change)).options.body
            for change in (dict(multiplier=2), dict(c=33, dtype="float16"))}.isdisjoint({Body.LINES})
    assert planned(depthwise(31, c=128)).options.body is Body.TILE
    assert planned(depthwise(3, side=56)).options.width is Width.WHOLE
    with pytest.raises(UnsupportedSpec, match="Q a multiple of 4, not 57"):
        planned(depthwise(3, side=57), columns=4, width="whole")


# ---- the ring

@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (3, 2), (4, 6), (6, 4), (1, 3)])
@pytest.mark.parametrize("r", [1, 2, 3, 5])
def test_the_ring_adds_every_filter_row_of_every_output_once(r, stride, dilation):
    """Followed over the steps: which input row each register has been given for which output."""
    shape = ConvShape(c=1, h=400, w=9, k=1, r=r, s=2, stride=(stride, 1), dilation=(dilation, 1), layout="NHWC")
    numbers = numbers_of(spec_of(shape), ChannelsOptions())
    assert (numbers.classes, numbers.step_rows) == (dilation // gcd(stride, dilation), stride // gcd(stride, dilation))
    slots: dict[int, list[tuple[int, int, int]]] = {}
    for step in range(12):
        done: list[tuple[int, int, int]] = []
        for row in numbers.ring:
            taps = [(step * numbers.step_rows + u, fr, s) for line in row.statements for u, fr, s in line]
            total = (list(slots.get(row.source, [])) if row.source is not None else []) + taps
            if row.target is None:
                done = total
            else:
                slots[row.target] = total
        output = step - (numbers.ring_rows - 1)
        if output >= 0:
            wanted = [(output * numbers.step_rows + fr, fr, s) for fr in range(r) for s in range(2)]
            assert sorted(done) == sorted(wanted)


@pytest.mark.thin(9)
@on_cpu_device
@pytest.mark.parametrize("body, values", [("ring", dict(vector=2, prefetch_rows=1)),
                                          ("ring", dict(vector=2, prefetch_rows=2)),
                                          ("tile", dict(vector=1, prefetch_rows=1)),
                                          ("lines", dict(vector=1, prefetch_rows=4, stage_rows=2))])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_planned_loads_are_what_is_executed(dtype, body, values):
    """One warp, one sub-block, no padding: the cost's warp loads, and a store for every output column and row."""
    channels_ = 32 * values["vector"]
    shape = ConvShape(c=channels_, h=11, w=6, k=channels_, groups=channels_, r=5, s=3, dtype=dtype, layout="NHWC")
    plan = planned(shape, body=body, columns=4, width="whole", sub_block_rows=7, block_channels=32, block_columns=1,
                   block_rows=1, **values)
    report, = checks.check_checked(plan, shape)
    assert report.buffers["x"].load_requests == plan.cost.warp_loads
    assert report.buffers["y"].store_requests == 7 * 4
    assert report.shuffles == plan.cost.shuffles == 0
    assert report.buffers["y"].store_bytes == shape.p * shape.q * shape.k * shape.dtype.itemsize


@on_cpu_device
def test_more_channels_than_a_block_and_a_part_left_over():
    shape = depthwise(3, n=2, c=70, side=9, dtype="float16")
    for body, vector in (("ring", 2), ("tile", 1)):
        plan = planned(shape, body=body, vector=vector, block_channels=16, block_columns=2, block_rows=2, columns=4,
                       width="any", sub_block_rows=3, prefetch_rows=1)
        assert plan.numbers.channel_blocks == -(-70 // vector // 16) and 70 // vector % 16
        checks.check_checked(plan, shape)


@on_cpu_device
@pytest.mark.parametrize("body, vector", [("ring", 2), ("tile", 1)])
def test_few_blocks_do_all_the_work(body, vector):
    """With two blocks along the rows and two along the images, both loops turn."""
    shape = ConvShape(n=3, c=8, h=39, w=10, k=8, r=3, s=5, groups=8, padding=(1, 2), layout="NHWC")
    plan = planned(shape, body=body, vector=vector, sub_block_rows=3, columns=2, width="any", prefetch_rows=1,
                   block_rows=2, block_channels=4, block_columns=2)
    step, = plan.program.steps
    x, y, z = step.grid
    assert min(step.grid_of(shape)[1:]) > 2
    few = replace(step, grid=(x, replace(y, limit=2), replace(z, limit=2)))
    checks.check_checked(replace(plan, program=replace(plan.program, steps=(few,))), shape)


# ---- lines: rows copied ahead to shared memory

LINES = dict(body="lines", vector=2, columns=4, width="any", sub_block_rows=28, prefetch_rows=4, stage_rows=2,
             block_channels=16, block_columns=2, block_rows=1)


@pytest.mark.parametrize("shape, values, says", [
    (depthwise(multiplier=2), {}, "2 filters a channel"),
    (depthwise(c=33, dtype="float16"), dict(vector=1), "C = 33"),
    (depthwise(dtype="float16"), dict(vector=1, block_channels=5), "a block of 5 channels"),
    (depthwise(), dict(block_rows=2), "block_rows = 2"),
    (depthwise(), dict(stage_rows=3), "not a multiple of stage_rows = 3"),
    (depthwise(), dict(prefetch_rows=34), "prefetch_rows = 34"),
    (depthwise(n=64, c=64), dict(block_channels=32, block_columns=12, prefetch_rows=16), "smaller block_channels or")])
def test_what_lines_do_not_serve_is_refused(shape, values, says):
    with pytest.raises(UnsupportedSpec, match=says):
        planned(shape, **{**LINES, **values})


def test_what_lines_are_copied_with_must_be_aligned():
    program = planned(depthwise(c=48, dtype="float16"), **LINES).program
    assert [program.argument(name).multiple_of for name in ("x", "w", "y")] == [16, 16, 4]
    program = planned(depthwise(c=18, dtype="float16"), **{**LINES, "block_channels": 9}).program
    assert [program.argument(name).multiple_of for name in ("x", "w", "y")] == [4, 4, 4]


@pytest.mark.thin(30)
@on_cpu_device
@pytest.mark.parametrize("size, changes, values", [
    (3, {}, {}), (5, dict(side=9), dict(sub_block_rows=4)), (1, dict(padding=0), {}),
    (7, dict(side=7, c=72), dict(vector=1, columns=7, block_channels=64, stage_rows=1, prefetch_rows=7)),
    (3, dict(c=20, dtype="float32"), dict(vector=1, columns=3)),
    (3, dict(c=70), {}),                                                  # the last block's channels are not all there
    (3, dict(stride=(1, 2)), dict(columns=2)), (3, dict(dilation=2), {}),
    (3, dict(dilation=(3, 1), padding=((9, 8), (2, 7))), {}),                # whole windows above and below the image
    (3, dict(h=2, w=3, padding=4), dict(stage_rows=4)), (5, dict(side=3, padding=2), {}),
    (5, dict(side=11), dict(stage_rows=3, prefetch_rows=6)), (5, dict(side=13), dict(stage_rows=1, prefetch_rows=1)),
    (3, dict(side=17), dict(width="whole", columns=1, copies="past"))])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_lines_compute_what_was_asked(dtype, size, changes, values):
    changes = {"c": 32, "n": 2, "side": 14, "dtype": dtype, **changes}
    shape = depthwise(size, **{name: value for name, value in changes.items() if name not in "hw"})
    shape = replace(shape, **{name: changes[name] for name in "hw" if name in changes})
    checks.check_checked(planned(shape, **{**LINES, **values}), shape)


BORDERS = [dict(padding_mode=mode.value, padding_value=0.5 * (mode is Border.CONSTANT)) for mode in Border]


@pytest.mark.thin(8)
@on_cpu_device
@pytest.mark.parametrize("border", BORDERS[1:], ids=lambda border: border["padding_mode"])
@pytest.mark.parametrize("size, changes, values", [
    (5, dict(side=13, dtype="float16"), dict(sub_block_rows=5)),
    (3, dict(side=9, c=20, dtype="float32"), dict(vector=1, columns=3)),        # channels and columns left over
    (3, dict(side=3, padding=((9, 8), (5, 7)), dilation=(3, 1), dtype="bfloat16"), dict(stage_rows=4))], ids=str)
def test_lines_have_every_border(size, changes, values, border):
    shape = depthwise(size, **{**dict(n=2), **changes, **border})
    checks.check_checked(planned(shape, **{**LINES, **values}), shape)


@on_cpu_device
@pytest.mark.parametrize("body, changes", [
    ("ring", dict(stride=(2, 1), dtype="float16")), ("ring", dict(multiplier=2)),
    ("tile", dict(dilation=(2, 1), padding=((9, 8), (5, 7))))], ids=str)
def test_one_value_in_the_other_bodies(body, changes):
    shape = depthwise(3, n=2, side=9, padding_mode="constant", padding_value=0.5, **changes)
    made = planned(shape, body=body, vector=1 if body == "tile" else 2, columns=3, width="any", sub_block_rows=4,
                   prefetch_rows=1)
    checks.check_checked(made, shape)


@pytest.mark.thin(6)
@on_cpu_device
@pytest.mark.parametrize("border", [BORDERS[0], BORDERS[1], BORDERS[3]], ids=lambda border: border["padding_mode"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_lines_in_half_arithmetic(dtype, border):
    shape = depthwise(3, n=2, c=24, side=9, dtype=dtype, **border)
    checks.check_checked(planned(shape, "float16", **LINES), shape)


@on_cpu_device
@pytest.mark.parametrize("border", [BORDERS[0], BORDERS[1], BORDERS[-1]], ids=lambda border: border["padding_mode"])
def test_few_blocks_do_all_jobs_of_lines(border):
    """Jobs follow each other in a block, whose rows in shared memory are used again."""
    shape = ConvShape(n=3, c=8, h=39, w=10, k=8, r=3, s=5, groups=8, padding=(1, 2), dilation=(2, 1), layout="NHWC",
                      **border)
    plan = planned(shape, **{**LINES, "sub_block_rows": 3, "block_channels": 4})
    step, = plan.program.steps
    x, y, z = step.grid
    assert min(step.grid_of(shape)[1:]) > 2
    few = replace(step, grid=(x, replace(y, limit=2), replace(z, limit=2)))
    checks.check_checked(replace(plan, program=replace(plan.program, steps=(few,))), shape)


# ---- what a CUDA compiler makes of it

def defaults_table() -> list[KernelPlan]:
    plans = []
    for arch, size, dtype in itertools.product(("sm_80", "sm_90", "sm_100"), (1, 3, 5, 7, 9, 13, 31),
                                               ("float32", "float16")):
        for n, c, side in LAYERS[::3] if arch != "sm_90" else LAYERS:
            plans.append(planned(depthwise(size, n=n, c=c, side=side, dtype=dtype), arch=arch))
    plans += [planned(depthwise(size, c=64, stride=stride, dilation=dilation, dtype=dtype))
              for size, stride, dilation, dtype in itertools.product((3, 5, 7), (2, 3), (1, 2),
                                                               ("float32", "bfloat16"))]
    plans += [planned(depthwise(size, c=c, side=side, stride=2, dtype="float16", n=32))
              for size, c, side in ((3, 144, 56), (5, 144, 56), (3, 96, 112), (5, 672, 14), (3, 58, 56))]
    plans += [planned(depthwise(size, c=64, dtype=dtype), "float16") for size in (3, 5, 7, 13)
              for dtype in ("float16", "bfloat16")]
    plans += [planned(depthwise(size, n=32, c=128, dtype=dtype, **border))
              for size, dtype, border in itertools.product((3, 5), ("float32", "float16"), (BORDERS[1], BORDERS[-1]))]
    plans += [planned(depthwise(size, n=n, c=c, side=side)) for size, n, (_, c, side)
              in itertools.product((3, 5, 7), (1, 4, 32), LAYERS)]
    return list({render(plan).digest: plan for plan in plans}.values())


@pytest.mark.long
@pytest.mark.nvcc
def test_planned_defaults_stay_in_registers():
    plans = defaults_table()
    assert len(plans) > 60
    plans = settings.share(plans, of=6)
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda plan: build(plan).compiled.entry(plan.spec.name), plans))
    wrong = [f"{plan.spec}: {report.registers} registers, {report.stack_bytes} bytes of stack; {plan.settings()}"
             for plan, report in zip(plans, reports) if report.spills or report.stack_bytes]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.skipif(sass.available() is None, reason=f"no disassembler; {sass.WAYS}")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_elements_are_converted_once_and_products_are_fused(dtype):
    """One load and, of 16-bit elements, one conversion an element of a row, however many outputs it serves."""
    plan = planned(depthwise(3, c=64, dtype=dtype), body="ring", vector=2, columns=7, width="whole", prefetch_rows=1)
    found = sass.count_instructions(sass.disassemble(build(plan).compiled.cubin), plan.spec.name)
    copies = len(plan.numbers.sets)
    assert found["FFMA"] % (9 * 7 * 2) == 0 and found["FFMA"] >= 9 * 7 * 2 * copies and found["FMUL"] == 0
    assert found["LDL"] == found["STL"] == 0
    if dtype == "float16":
        assert 2 * 9 <= found["HADD2"] <= 2 * 9 + 8       # the filter has its own, once
