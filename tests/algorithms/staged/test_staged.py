"""``staged``: its plans, and its emitted text on the CPU device, groups, strips and buffers included."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from tests import checks, settings
from warpconv.codegen.algorithms.staged.numbers import WIDEST_ACCESS
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.resolution import plan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec
from warpconv.runtime.build import compilers, disassembly as sass
from warpconv.runtime.devices.cpu import Mode

BIAS, RELU = Epilogue.BIAS, Epilogue.RELU
on_the_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
DTYPES = ("float32", "float16", "bfloat16")
# (C, H = W): depthwise layers of networks
LAYERS = ((384, 14), (768, 7), (96, 28))


def depthwise(c: int, side: int, size: int, *, n: int = 1, multiplier: int = 1, **changes) -> ConvShape:
    return ConvShape(**{**dict(n=n, c=c, h=side, w=side, k=c * multiplier, groups=c, r=size, s=size, padding=size // 2),
                        **changes})


def staged(shape: ConvShape, epilogue=(), arch: str = "sm_90", **values) -> KernelPlan:
    return plan_layer(shape, algorithm="staged", epilogue=epilogue, settings=values, arch=arch)


def few_blocks(made: KernelPlan, limit: int) -> KernelPlan:
    """The same text, launched with at most ``limit`` blocks."""
    step, = made.program.steps
    grid = (dataclasses.replace(step.grid[0], limit=limit), *step.grid[1:])
    steps = (dataclasses.replace(step, grid=grid),)
    return dataclasses.replace(made, program=dataclasses.replace(made.program, steps=steps))


def taps_inside(shape: ConvShape) -> int:
    """Products of one plane that meet an element of the image: a convolution of ones by ones."""
    axes = zip((shape.h, shape.w), (shape.p, shape.q), (shape.r, shape.s), shape.stride, shape.padding, shape.dilation)
    rows, columns = (sum(0 <= p * stride - before + t * dilation < size for t in range(taps) for p in range(outputs))
                     for size, outputs, taps, stride, (before, _), dilation in axes)
    return rows * columns


# ---- plans

@pytest.mark.parametrize("c, side, size",
                         [(*layer, size) for layer in LAYERS for size in (1, 3, 5, 7)] + [(384, 14, 13)])
def test_taps_outside_the_image_are_not_computed(c, side, size):
    shape = depthwise(c, side, size)
    numbers = staged(shape, parts="strips", rows={28: 1, 14: 2, 7: 7}[side]).numbers
    row = sum(len(taps.pairs) for taps in numbers.taps)
    done = 0
    for strip in range(numbers.strips):
        top = strip * numbers.strip_rows_in
        done += sum(row * len(r.uses) for r in numbers.input_rows
                    if (r.at_least is None or top >= r.at_least) and (r.below is None or top < r.below))
    assert done == taps_inside(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [depthwise(384, 14, 7), depthwise(768, 7, 5), depthwise(96, 28, 3),
                                   depthwise(64, 16, 3), depthwise(6, 9, 3, stride=2),
                                   depthwise(33, 13, 4, dilation=2)], ids=str)
def test_accesses_are_aligned_and_cover_every_element_once(shape, dtype):
    shape = dataclasses.replace(shape, dtype=dtype)
    made = staged(shape, parts="strips")
    numbers, itemsize = made.numbers, shape.dtype.itemsize
    for copy, step, all_rows in (
            (numbers.copy_in, numbers.strip_rows_in * shape.w, numbers.input_rows),
            (numbers.copy_out, made.options.rows * shape.q, numbers.output_rows)):
        assert copy.count * copy.elements == copy.group and copy.bytes <= WIDEST_ACCESS
        assert copy.pad == 0 or copy.plane % copy.elements == 0 == copy.pad % copy.elements
        for piece in (piece for rows in all_rows for piece in rows.pieces):
            assert piece.count * itemsize <= WIDEST_ACCESS
            assert piece.offset % piece.count == 0 == copy.stride % piece.count
            assert numbers.strips == 1 or step % piece.count == 0
    stored = [p.offset + i for rows in numbers.output_rows for p in rows.pieces for i in range(p.count)]
    assert stored == list(range(made.options.rows * shape.q))
    launch, = made.program.launches
    assert launch.shared_bytes == numbers.shared_bytes >= made.options.buffers * numbers.buffer_bytes
    assert numbers.buffer_bytes >= itemsize * max(numbers.inputs * numbers.copy_in.stride,
                                                  made.options.planes * numbers.copy_out.stride)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [depthwise(64, 14, 7), depthwise(64, 14, 5), depthwise(64, 16, 3),
                                   depthwise(64, 12, 3, h=6), depthwise(64, 16, 5, dilation=2, padding=4)], ids=str)
def test_quarters_cover_every_product_and_every_output_once(shape, dtype):
    """Seen from the upper left corner; a mirrored column is the same distance from the row's other end."""
    shape = dataclasses.replace(shape, dtype=dtype)
    made = staged(shape, parts="quarters")
    quarters, itemsize = made.numbers.quarters, shape.dtype.itemsize
    products = sum(len(row.uses) for row in quarters.input_rows) * sum(len(taps.pairs) for taps in quarters.taps)
    assert 4 * products == taps_inside(shape) == 4 * made.cost.fma
    together = max(1, 4 // itemsize)
    for source in quarters.sources:
        left, right = (start + s.column + s.i * together
                       for start, s in ((0, source.left), (quarters.right_in, source.right)))
        assert left == source.column and right == shape.w - 1 - (source.column + together - 1)
    read = {c for source in quarters.sources for c in range(source.column, source.column + together)}
    assert {c for taps in quarters.taps for c, _ in taps.pairs} <= read
    for pieces, right, copy, width in ((quarters.pieces, quarters.right_in, made.numbers.copy_in, shape.w),
                                       (quarters.output_pieces, quarters.right_out, made.numbers.copy_out, shape.q)):
        for piece in pieces:
            assert piece.count * itemsize <= WIDEST_ACCESS
            assert all(start % piece.count == 0 for start in (piece.offset, right, copy.stride, width))
    stored = sorted(start + p.offset + i for start in (0, quarters.right_out) for p in quarters.output_pieces
                    for i in range(p.count))
    if quarters.middle:
        stored = sorted([*stored, quarters.columns - 1, quarters.right_out - 1])
    assert stored == list(range(shape.q))


def test_planes_whose_size_is_a_power_of_two_are_set_apart_in_shared_memory():
    assert staged(depthwise(64, 16, 3)).numbers.copy_in.pad == 4
    assert staged(depthwise(64, 14, 3)).numbers.copy_in.pad == 0      # 49 units of 16 bytes, an odd number already


@pytest.mark.thin(2)
@pytest.mark.parametrize("mode", ["zeros", "constant", "circular"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("c, side", LAYERS[:2])
def test_the_rule_takes_it_for_small_depthwise_planes(c, side, size, dtype, mode):
    shapes = [depthwise(c, side, size, n=n, dtype=dtype, padding_mode=mode, padding_value=0.5 * (mode == "constant"))
              for n in (1, 128)]
    first, second = map(plan_layer, shapes)
    tensor_cores = dtype != "float32" and size == 7       # a choice of their own, where the products are many
    assert first.spec.algorithm in {"staged", "toeplitz" if tensor_cores else "staged"}
    assert first == second                                # the batch is never looked at


def test_one_plane_alone_is_left_to_others():
    assert plan_layer(ConvShape(c=1, h=20, w=20, k=1, r=3, s=3)).spec.algorithm != "staged"


@pytest.mark.parametrize("c, side", LAYERS)
def test_blocks_that_stay_keep_their_filters(c, side):
    made = staged(depthwise(c, side, 7), buffers=2)
    groups = c // made.options.planes
    for n in (1, 2, 7, 128, 1000):
        blocks = made.program.steps[0].grid_of(depthwise(c, side, 7, n=n))[0]
        assert blocks % groups == 0 and blocks <= n * groups


def test_sizes_are_demanded_and_pointers_aligned():
    made = staged(depthwise(384, 14, 3))
    assert "H = 14; W = 14; P = 14; Q = 14" in made.program.demands
    assert made.program.argument("x").multiple_of == made.program.argument("y").multiple_of == 16
    assert made.program.refusal(depthwise(384, 15, 3)) and not made.program.refusal(depthwise(384, 14, 3, n=9))
    assert staged(depthwise(384, 14, 3), vector=1).program.argument("x").multiple_of == 4


@pytest.mark.parametrize("shape, values, reason", [
    (depthwise(4, 14, 3, layout="NHWC"), {}, "NHWC"), (ConvShape(c=8, h=14, w=14, k=8, r=3, s=3), {}, "8 channels"),
    (depthwise(4, 33, 3), {}, "at most 1024"), (depthwise(4, 14, 3, padding=40), {}, "output plane"),
    (depthwise(4, 14, 3), {"rows": 15}, "14 output rows"),
    (depthwise(4, 14, 3, multiplier=3), {"planes": 8}, "K/groups = 3"),
    (depthwise(4, 14, 3), {"planes": 512, "rows": 1}, "7168 threads"), (depthwise(4, 14, 3), {"buffers": 3}, "1 or 2"),
    (depthwise(5, 14, 3), {"planes": 32, "buffers": 2}, "divide K = 5"),
    (depthwise(4, 14, 3), {"vector": 3}, "vector = 3"),
    (depthwise(8, 14, 3), {"stage": "registers", "planes": 8, "buffers": 2}, "asynchronous copies"),
    (depthwise(4, 14, 3, dtype="float16"), {"vector": 1}, "of 2 bytes"),
    (depthwise(4, 14, 3), {"rows": 14}, "registers"), (depthwise(4, 28, 13), {"rows": 2}, "FMAs in the text"),
    (depthwise(4, 32, 3), {"planes": 64, "rows": 2}, "shared memory"),
    (depthwise(4, 14, 3), {"min_blocks": 1000}, "min_blocks = 1000"),
    (depthwise(32, 7, 3), {"parts": "quarters"}, "both have to be even"),
    (depthwise(32, 14, 2, padding=((0, 1), (0, 1))), {"parts": "quarters"}, "mirror images"),
    (depthwise(32, 14, 3, stride=2, padding=1), {"parts": "quarters"}, "both have to be even"),
    (depthwise(32, 16, 3, stride=2, padding=1), {"parts": "quarters"}, "mirror images"),
    (depthwise(12, 14, 3), {"parts": "quarters"}, "multiples of 8"),
    (depthwise(32, 14, 3, multiplier=2), {"parts": "quarters"}, "K/groups = 2"),
    (depthwise(32, 14, 3), {"parts": "quarters", "rows": 2}, "rows = 7"),
    (depthwise(32, 14, 3), {"parts": "quarters", "buffers": 1}, "two buffers, not 1"),
    (depthwise(32, 14, 3, w=13, padding=((1, 1), (2, 1)), dtype="float16"), {"parts": "quarters"}, "mirror images"),
    (depthwise(32, 14, 2, w=13, padding=((0, 1), (1, 1)), dtype="float16"), {"parts": "quarters"}, "images"),
    (depthwise(48, 14, 3), {"parts": "quarters", "planes": 32}, "divide K = 48")])
def test_declines_with_the_reason(shape, values, reason):
    with pytest.raises(UnsupportedSpec, match="staged cannot serve") as caught:
        staged(shape, **values)
    assert reason in caught.value.reason


@pytest.mark.parametrize("shape, parts, rows, planes, buffers", [
    (depthwise(384, 14, 3), "strips", 2, 16, 2), (depthwise(384, 14, 5), "quarters", 7, 16, 2),
    (depthwise(384, 14, 7), "quarters", 7, 16, 2),
    (depthwise(384, 14, 7, padding_mode="reflect"), "quarters", 7, 16, 2),
    (depthwise(384, 14, 5, padding_mode="circular"), "strips", 2, 16, 2),
    (depthwise(384, 14, 7, padding=((2, 4), (3, 3))), "strips", 2, 16, 2),
    (depthwise(20, 14, 7), "strips", 2, 16, 1), (depthwise(768, 7, 7), "strips", 2, 32, 2),
    (depthwise(192, 28, 3), "strips", 1, 8, 1), (depthwise(192, 28, 7), "strips", 1, 8, 2)], ids=str)
def test_defaults_are_those_that_were_measured_to_be_quick(shape, parts, rows, planes, buffers):
    options = staged(shape).options
    assert (options.parts.value, options.rows, options.planes, options.buffers) == (parts, rows, planes, buffers)


def test_without_a_layers_sizes_there_is_no_plan():
    made = staged(depthwise(384, 14, 3))
    with pytest.raises(UnsupportedSpec, match="plan it for a shape"):
        plan(made.spec)
    assert plan(made.spec, {"height": 14, "width": 14}) == made


def test_before_ampere_planes_come_through_registers():
    made = staged(depthwise(384, 14, 3), arch="sm_75")
    assert (made.options.stage.value, made.options.buffers) == ("registers", 1) and "cp.async" not in render(made).text
    with pytest.raises(UnsupportedSpec, match="no asynchronous copies"):
        staged(depthwise(384, 14, 3), arch="sm_75", stage="async")


@pytest.mark.parametrize("buffers", [1, 2])
def test_asynchronous_copies_are_awaited_before_they_are_read(buffers):
    """The CPU device copies at once, so that only the text can show it: wait for one's own, then for everyone's."""
    text = render(staged(depthwise(384, 14, 3), buffers=buffers)).text
    kernel = text[text.index("__global__"):]
    wait = kernel.index("wc_copy_async_wait();")
    assert kernel[wait:].split(";")[1].strip() == "__syncthreads()"
    assert kernel.index("load_planes(buffer") < wait < kernel.index("*(const float4*)")
    if buffers == 2:
        assert wait < kernel.index("load_planes(other") < kernel.index("*(const float4*)")


# ---- the emitted text, executed

@pytest.mark.thin(18)
@on_the_cpu
@pytest.mark.parametrize("shape, values", [
    (depthwise(32, 14, 7, n=3), {}), (depthwise(64, 7, 3, n=2), {}), (depthwise(8, 28, 5, n=2), {}),
    (depthwise(64, 7, 5, n=3, dtype="float16"), {}), (depthwise(32, 14, 3, n=2, dtype="bfloat16"), {}),
    (depthwise(5, 9, 3, n=13), {}), (depthwise(5, 9, 3, n=13, dtype="float16"), {"rows": 4}),
    (depthwise(16, 16, 3, n=3, stride=2), {}),
    (depthwise(16, 15, 3, n=3, dilation=(2, 3), padding=((1, 4), (5, 0))), {}),
    (depthwise(8, 10, 3, n=3, multiplier=3), {}),
    (depthwise(16, 12, 5, n=2, multiplier=2, stride=(2, 1)), {"planes": 8}),
    (depthwise(16, 14, 9, n=3), {}), (depthwise(16, 14, 3, n=3), {"weights": "shared", "rows": 3}),
    (depthwise(32, 7, 3, n=3, h=6, w=11), {"stage": "registers"}),
    (depthwise(3, 5, 3, n=4, padding=((7, 6), (9, 8))), {}),
    (ConvShape(n=70, c=1, h=9, w=7, k=1, r=4, s=1), {}), (depthwise(32, 14, 5, n=2), {"vector": 1, "planes": 16})],
    ids=lambda value: str(value) if value else "")
def test_every_access_checked(shape, values):
    checks.check_checked(staged(shape, (BIAS, RELU), **values), shape)


@pytest.mark.thin(24)
@on_the_cpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, values", [
    (depthwise(64, 14, 7, n=5), {"planes": 32}), (depthwise(32, 14, 5, n=3), {}),
    (depthwise(16, 14, 3, n=2), {"planes": 8}),
    (depthwise(32, 12, 3, n=3, h=6), {"planes": 16}), (depthwise(8, 16, 5, n=3, dilation=2, padding=4), {"planes": 8}),
    (depthwise(8, 2, 3, n=9), {"planes": 8}), (depthwise(8, 14, 2, n=2, padding=1, h=13, w=15), {"planes": 8}),
    (depthwise(8, 16, 4, n=3, stride=2, padding=1), {"planes": 8})],
    ids=lambda value: str(value) if value else "")
def test_quarters(shape, values, dtype):
    """Blocks go on to further groups here, too; every quarter of a plane gets its own filter, turned."""
    shape = dataclasses.replace(shape, dtype=dtype)
    if dtype != "float32" and shape.w % 2:
        with pytest.raises(UnsupportedSpec, match="whole words"):
            staged(shape, (BIAS, RELU), parts="quarters", **values)
        return
    made = few_blocks(staged(shape, (BIAS, RELU), parts="quarters", **values), 2)
    checks.check_checked(made, shape)


@pytest.mark.long
@on_the_cpu
def test_quarters_read_shared_memory_without_conflicts():
    """14 x 14 floats: eight planes, four corners, no bank twice. Passes over the banks, by hand, of one warp: a row of
    10 columns in 8-byte reads, outputs float by float, both copies, the weights in and once to each lane."""
    shape = depthwise(8, 14, 7)
    made = staged(shape, parts="quarters", planes=8)
    report, = checks.check_checked(made, shape)
    reads, outputs, copies, staging = 10 * 5 * 2, 7 * 7, 2 * 49, 13
    weights = report.shared_wavefronts - reads - outputs - copies - staging
    assert 49 <= weights <= 49 * 3                    # four corners read four places of a filter


@pytest.mark.thin(3)
@on_the_cpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", [{"buffers": 2}, {"buffers": 2, "weights": "shared"}, {"buffers": 1},
                                    {"buffers": 1, "planes": 12}], ids=str)
def test_blocks_go_on_to_further_groups(values, dtype):
    """Both buffers are filled again, with the next image's planes."""
    shape = depthwise(16, 9, 3, n=5, dtype=dtype)
    made = few_blocks(staged(shape, (BIAS,), **{"planes": 8, **values}), 2)
    assert made.program.steps[0].grid_of(shape)[0] == 2
    checks.check_checked(made, shape)


@on_the_cpu
def test_offsets_of_64_bits():
    shape = depthwise(5, 9, 3, n=7)
    spec = KernelSpec.of(shape, algorithm="staged", arch=staged(shape).spec.arch)
    made = plan(dataclasses.replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    checks.check_checked(made, shape)


@pytest.mark.thin(6)
@on_the_cpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("c, side, size", [(64, 14, 3), (64, 14, 7), (64, 7, 3), (64, 7, 7)])
def test_what_moves_is_what_must_in_the_widest_accesses(c, side, size, dtype):
    shape = depthwise(c, side, size, n=2, dtype=dtype)
    made = staged(shape)
    report, = checks.check_checked(made, shape)
    tensor = shape.n * c * side * side * shape.dtype.itemsize
    groups = shape.n * c // made.options.planes
    for name in ("x", "y"):
        counts = report.buffers[name]
        requests, moved, sectors = ((counts.load_requests, counts.load_bytes, counts.load_sectors) if name == "x" else
                                    (counts.store_requests, counts.store_bytes, counts.store_sectors))
        assert (requests, moved, sectors) == (groups * made.cost.warp_loads, tensor, tensor // 32)
    assert report.buffers["w"].load_bytes == groups * made.options.planes * size * size * shape.dtype.itemsize


@on_the_cpu
def test_shared_memory_is_read_without_conflicts():
    """14 x 14 floats are 49 units of 16 bytes: lanes that read the same unit of 32 planes meet in no bank. Passes over
    the banks, by hand, for one group of a 3x3 filter whose strips have 2 rows: only the 8 bytes left over in each row
    cost double."""
    shape = depthwise(32, 14, 3)
    made = staged(shape, parts="strips", rows=2, planes=32, buffers=1)
    report, = checks.check_checked(made, shape)
    rows = 5 * 4 + 2 * 3                              # input rows of the inner strips, of the first and the last
    reads, weights = rows * (3 * 4 + 4), 7 * 9
    copies, outputs, staging = 2 * 49 * 4, 7 * 7 * 4, 9
    assert report.shared_wavefronts == reads + weights + copies + outputs + staging


@pytest.mark.long
@on_the_cpu
def test_both_ways_of_staging_give_the_same_bits():
    shape = depthwise(16, 14, 5, n=3)
    plans = (staged(shape, planes=16, parts="strips", **values)
               for values in ({"stage": "async", "buffers": 2}, {"stage": "async", "buffers": 1},
                              {"stage": "registers", "buffers": 1},
                            {"stage": "async", "buffers": 1, "weights": "shared"}))
    results = [checks.check_kernel(checks.cpu_kernel(made, Mode.FAST), shape) for made in plans]
    for result in results[1:]:
        assert np.array_equal(results[0], result)


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")
@pytest.mark.parametrize("arch, layers", settings.in_turn(("sm_75", "sm_80", "sm_90", "sm_100"), list(
    itertools.product(LAYERS, (3, 7, 11)))))
@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_planned_defaults_do_not_spill(dtype, arch, layers):
    for (c, side), size in layers:
        made = staged(depthwise(c, side, size, dtype=dtype), arch=arch)
        entry, = compilers.compile_source(render(made).text, arch=arch, kind=compilers.CompilerKind.NVRTC).entries
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (side, size, entry)


@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC] or not sass.available(),
                    reason="NVRTC and a disassembler are not installed")
@pytest.mark.parametrize("size, mode", [(3, "zeros"), (5, "zeros"), (7, "zeros"), (3, "reflect"), (5, "reflect")])
@pytest.mark.parametrize("c, side", LAYERS[:2])
def test_the_machine_code_has_the_planned_products_and_no_more(c, side, size, mode):
    """With pixels outside fewer: sums whose first taps meet the same element begin with the same product."""
    made = staged(depthwise(c, side, size, padding_mode=mode))
    cubin = compilers.compile_source(render(made).text, arch="sm_90", kind=compilers.CompilerKind.NVRTC).cubin
    found = sass.count_instructions(sass.disassemble(cubin))["FFMA"]
    assert found == made.cost.fma or mode == "reflect" and 0 <= made.cost.fma - found < made.options.rows * side
