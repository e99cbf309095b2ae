"""``toeplitz``: its plans, its matrix instructions, and its emitted text on the CPU device."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from tests import checks, reference, settings
from warpconv.codegen.algorithms.toeplitz.numbers import BLOCK_COLUMNS, Begin, Walk
from warpconv.codegen.algorithms.toeplitz.plan import supports
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.resolution import plan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec
from warpconv.runtime.build import compilers, disassembly as sass

BIAS, RELU = Epilogue.BIAS, Epilogue.RELU
on_the_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
DTYPES = ("float16", "bfloat16")


def depthwise(c: int, side: int, size: int, *, n: int = 1, multiplier: int = 1, **changes) -> ConvShape:
    return ConvShape(**{**dict(n=n, c=c, h=side, w=side, k=c * multiplier, groups=c, r=size, s=size, padding=size // 2,
                               dtype="float16"), **changes})


def plane(side: int, size: int, **changes) -> ConvShape:
    return depthwise(1, side, size, **changes)


def toeplitz(shape: ConvShape, epilogue=(), arch: str = "sm_90", **values) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz", epilogue=epilogue, settings=values, arch=arch)


def banded(weights: np.ndarray, made: KernelPlan) -> np.ndarray:
    """The banded matrix of one filter row, (8 * slices, 8), from its definition."""
    numbers = made.numbers
    matrix = np.zeros((8 * numbers.slices, 8))
    for n in range(8):
        for s, value in enumerate(weights):
            matrix[numbers.offset + n + s, n] = value
    return matrix


# ---- plans

@pytest.mark.parametrize("padding", range(18))
@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 9, 11, 13, 31])
def test_the_band_of_a_row_fits_its_blocks_and_needs_them_all(width, padding):
    made = toeplitz(plane(64, width, r=1, padding=((0, 0), (padding, width))))
    matrix = banded(np.ones(width), made)               # IndexError if it does not fit
    assert (matrix.reshape(made.numbers.slices, -1).any(axis=1)).all()
    assert made.numbers.margin % 8 == 0 <= made.numbers.offset == made.numbers.margin - padding - made.numbers.shift < 8


@pytest.mark.parametrize("begin", list(Begin))
@pytest.mark.parametrize("rows, width", [(1, 1), (3, 3), (7, 7), (8, 2), (9, 9), (17, 4), (31, 31)])
def test_every_slice_of_every_tile_is_multiplied_once_after_its_load(rows, width, begin):
    made = toeplitz(plane(64, 3, r=rows, s=width, padding=((rows, 0), (0, width))), weights="shared", begin=begin.value)
    numbers, done = made.numbers, []
    for step in numbers.steps:
        loaded = []
        for load in step.loads:
            assert load.matrices == 2 * len(load.blocks) * len(step.rows) <= 4
            loaded += load.blocks
            for tile, product, block in load.products:
                assert product.rows == step.rows and tile + product.block == block and block in load.blocks
                done += [(tile, row, product.block) for row in product.rows]
        assert loaded == list(range(numbers.blocks))
    assert sorted(done) == [(tile, row, block) for tile in range(numbers.made_tiles) for row in range(rows)
                            for block in range(numbers.slices)]


@pytest.mark.parametrize("padding", range(9))
@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 8, 9, 11, 13, 16])
def test_shifted_tiles_need_as_few_blocks_as_an_even_shift_can_reach(padding, width):
    shape = plane(64, width, r=1, padding=((0, 0), (padding, width)))
    placed, shifted = (toeplitz(shape, begin=begin).numbers for begin in ("place", "shifted"))
    assert placed.shift == 0 and placed.made_tiles == toeplitz(shape).options.tiles
    reach = {-(-((-shift - padding) % 8 + 7 + width) // 8) for shift in range(0, 8, 2)}
    assert shifted.slices == min(reach)
    assert (shifted.shift > 0) == (shifted.slices < placed.slices) == (shifted.made_tiles > placed.made_tiles)


@pytest.mark.parametrize("shape", [plane(8192, 7), depthwise(128, 112, 5), depthwise(96, 56, 7), depthwise(384, 14, 7),
                                   depthwise(8, 28, 3), depthwise(3, 33, 4)], ids=str)
def test_rows_in_shared_memory_are_an_odd_number_of_16_bytes(shape):
    numbers = toeplitz(shape).numbers
    assert numbers.pitch % BLOCK_COLUMNS == 0 and numbers.pitch // BLOCK_COLUMNS % 2 == 1
    assert numbers.pitch >= numbers.patch_columns and numbers.shared_bytes <= 48 * 1024


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [5, 7, 9, 11])
def test_the_rule_takes_it_for_large_filters_of_16_bits_whatever_the_batch(size, dtype):
    for made in (depthwise(128, 112, size, dtype=dtype), depthwise(96, 56, size, dtype=dtype)):
        first, second = (plan_layer(dataclasses.replace(made, n=n)) for n in (1, 128))
        assert first.spec.algorithm == "toeplitz" and first == second
    assert plan_layer(plane(8192, size, dtype=dtype)).spec.algorithm == "toeplitz"
    assert plan_layer(plane(8192, 3, dtype=dtype)).spec.algorithm != "toeplitz"


@pytest.mark.parametrize("changes, reason", [
    (dict(dtype="float32"), "element type float32"), (dict(layout="NHWC"), "layout NHWC"),
    (dict(groups=2), "2 channels"),
    (dict(stride=2), "stride and dilation"), (dict(dilation=(1, 2)), "stride and dilation")])
def test_layers_that_it_declines(changes, reason):
    shape = depthwise(4, 40, 3, **changes)
    with pytest.raises(UnsupportedSpec, match="toeplitz cannot serve") as caught:
        toeplitz(shape)
    assert reason in caught.value.reason


def test_before_ampere_there_are_no_such_instructions():
    with pytest.raises(UnsupportedSpec, match="from sm_80 on"):
        toeplitz(plane(64, 5), arch="sm_75")
    assert supports(toeplitz(plane(64, 5), arch="sm_80").spec) is None


@pytest.mark.parametrize("shape, values, reason", [
    (plane(64, 5), {"vector": 3}, "vector = 3"), (plane(64, 5), {"store_vector": 4}, "store_vector = 4"),
    (plane(64, 5), {"tiles": 17}, "tiles = 17"), (plane(64, 5), {"sub_block_rows": 40}, "multiple of a band's 16"),
    (plane(64, 5), {"stores": "staged"}, "whole planes"), (depthwise(4, 14, 3), {"buffers": 1}, "buffers = 1"),
    (depthwise(4, 14, 3), {"warp_strips": 2}, "warp_strips = 2"),
    (plane(64, 5), {"prefetch_bands": 8}, "prefetch_bands = 8"),
    (depthwise(4, 14, 3), {"tiles": 1}, "no room for 14"),
    (plane(64, 5), {"warp_planes": 4, "warp_rows": 4}, "shared memory"),
    (plane(64, 31), {"weights": "registers", "warp_columns": 1}, "registers"),
    (plane(64, 3), {"warp_planes": 33, "tiles": 1}, "1024 threads"),
    (depthwise(4, 14, 3), {"min_blocks": 1000}, "min_blocks = 1000"), (plane(20, 3), {"vector": 8}, "multiple of 8"),
    (plane(21, 3), {"store_vector": 2}, "Q a multiple of 2")])
def test_plan_values_that_it_declines(shape, values, reason):
    with pytest.raises(UnsupportedSpec) as caught:
        toeplitz(shape, **values)
    assert reason in caught.value.reason


def test_whole_planes_need_their_size():
    made = toeplitz(depthwise(384, 14, 7))
    assert made.options.walk is Walk.PLANES and "H at most 14" in made.program.demands
    with pytest.raises(UnsupportedSpec, match="height and width"):
        plan(made.spec, {"walk": "planes"})
    assert plan(made.spec, {name: value for name, value in made.settings().items()}) == made


def test_asynchronous_copies_are_awaited_before_they_are_read():
    """The CPU device copies at once, so that only the text can show it: wait for one's own, then for everyone's."""
    for shape, values in ((plane(300, 5, w=304), {}), (plane(300, 5, w=304), {"prefetch_bands": 3}),
                          (depthwise(8, 56, 5, n=4), {}), (depthwise(8, 14, 5, n=4), {})):
        made = toeplitz(shape, **values)
        text = render(made).text
        kernel = text[text.index("__global__"):]
        wait = kernel.index("wc_copy_async_wait_group();")
        barrier = "__syncwarp()" if made.numbers.team == 32 else "__syncthreads()"
        assert kernel[wait:].split(";")[1].strip() == barrier
        assert kernel.index("copy(") < wait < kernel.index("wc_load_matrices_")
        pending = int(re.search(r"cp\.async\.wait_group (\d)", text)[1])
        planes = made.options.walk is Walk.PLANES
        assert pending == (made.options.buffers - 2 if planes else made.options.prefetch_bands - 1)


# ---- the emitted text, executed

@pytest.mark.thin(40)
@on_the_cpu
@pytest.mark.parametrize("shape, values", [
    (plane(40, 5, w=264), {}), (plane(70, 7, w=77), {}), (plane(100, 3, n=3), {"sub_block_rows": 32}),
    (depthwise(2, 33, 4, n=2, w=77, padding=((5, 0), (1, 9))), {}), (depthwise(3, 112, 5, h=40), {}),
    (depthwise(5, 14, 7, n=11, multiplier=2), {}), (depthwise(3, 28, 5, n=3), {}), (depthwise(2, 56, 11, n=3), {}),
    (depthwise(7, 7, 3, n=9), {}), (depthwise(2, 13, 6, n=4, padding=((9, 8), (20, 7))), {}),
    (depthwise(2, 40, 9, s=31, padding=(4, 15)), {}), (plane(1, 1), {}), (depthwise(2, 1, 5, w=9), {}),
    (depthwise(6, 50, 5, n=2), {"walk": "bands", "tiles": 3, "warp_columns": 3, "warp_rows": 2, "warp_planes": 1,
                                "sub_block_rows": 32, "stores": "direct", "store_vector": 2}),
    (plane(70, 5, w=520), {"sub_block_rows": 64, "warp_columns": 1, "warp_strips": 4, "way": "ca",
                           "prefetch_bands": 2}),
    (plane(150, 7, w=328), {"sub_block_rows": 128, "warp_columns": 2, "warp_strips": 2, "prefetch_bands": 3}),
    (depthwise(3, 112, 5, h=50), {"warp_columns": 1, "tiles": 14, "warp_planes": 2, "way": "ca", "begin": "place"}),
    (depthwise(3, 72, 4, n=2), {"warp_columns": 1, "tiles": 3, "sub_block_rows": 64, "warp_planes": 2, "warp_strips": 2,
                                "warp_rows": 2}),
    (depthwise(6, 14, 5, n=7), {"buffers": 4, "images": 3, "weights": "shared"}),
    (depthwise(6, 14, 5, n=2), {"stores": "direct", "store_vector": 2})],
    ids=lambda value: str(value) if value else "")
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_access_checked(shape, values, dtype):
    shape = dataclasses.replace(shape, dtype=dtype)
    checks.check_checked(toeplitz(shape, (BIAS, RELU), **values), shape)


@on_the_cpu
def test_offsets_of_64_bits():
    shape = depthwise(5, 19, 3, n=3, w=80)
    spec = KernelSpec.of(shape, algorithm="toeplitz", arch=toeplitz(shape).spec.arch)
    made = plan(dataclasses.replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    checks.check_checked(made, shape)


@pytest.mark.thin(4)
@on_the_cpu
@pytest.mark.parametrize("shape", [plane(64, 5, w=256), depthwise(4, 64, 5, n=2), depthwise(4, 14, 5, n=8)], ids=str)
def test_each_input_is_read_once_and_outputs_leave_in_whole_sectors(shape):
    made = toeplitz(shape)
    report, = checks.check_checked(made, shape)
    tensor = 2 * shape.n * shape.c * shape.h * shape.w
    cuts = 0 if made.options.walk is Walk.PLANES else made.program.launches[0].grid_of(shape)[1] - 1
    halo = 1 + (shape.r - 1) * cuts / shape.h
    assert report.buffers["x"].load_bytes == pytest.approx(tensor * halo)
    counts = report.buffers["y"]
    between = counts.store_requests if shape.w % 8 else 0       # a plane of 392 bytes begins and ends within a sector
    assert counts.store_bytes == tensor and tensor // 32 <= counts.store_sectors <= tensor // 32 + between


@on_the_cpu
def test_matrices_are_read_without_conflicts():
    """Passes over the banks, by hand, for one further band of 16 x 64 outputs of a 5x5 filter. Two filter rows at once:
    17 rows of 16 bytes are three passes (a GPU takes a pass for each matrix: four), one: 16 rows of two blocks are
    four. And the copies of 16 rows of 64 elements, whose 16 bytes may meet those of another row; this device counts
    zeros apart."""
    shapes = [plane(16 * bands, 5, w=64) for bands in (2, 3)]
    made = toeplitz(shapes[0], sub_block_rows=64)
    assert (made.options.tiles, made.numbers.blocks, made.numbers.threads) == (8, 10, 32)
    two, three = (checks.check_checked(made, shape)[0].shared_wavefronts for shape in shapes)
    matrices, copies = 2 * 10 * 3 + 10 // 2 * 4, 16 * 64 * 2 // 128
    assert matrices + copies <= three - two <= matrices + 2 * copies


@pytest.mark.thin(2)
@on_the_cpu
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_what_is_not_finite_stays_near_its_columns(bad):
    """A zero beside the filter times an infinity is no number: the columns that share a block of the band, no
    others."""
    shape = plane(40, 5, w=64)
    made = toeplitz(shape)
    x, w, _ = reference.operands(shape, settings.generator(3))
    good = np.array(checks.cpu_kernel(made)(x, w))
    spoilt = x.copy()
    spoilt[0, 0, 20, 30] = bad
    got = np.array(checks.cpu_kernel(made)(spoilt, w))
    rows, columns = np.nonzero(~np.isfinite(got[0, 0].astype(np.float32)))
    assert set(rows) == set(range(18, 23)) and set(range(28, 33)) <= set(columns)
    assert columns.max() - columns.min() < 8 * made.numbers.slices
    touched = np.zeros((40, 64), bool)
    touched[rows, columns] = True
    assert np.array_equal(got[0, 0][~touched], good[0, 0][~touched])


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_100"), (
    plane(8192, 5), plane(8192, 7), plane(8192, 11), depthwise(128, 112, 7), depthwise(96, 56, 7),
    depthwise(384, 14, 7), depthwise(128, 56, 13), depthwise(128, 56, 31))))
def test_planned_defaults_do_not_spill(arch, shapes):
    for shape in shapes:
        made = toeplitz(shape, arch=arch)
        entry, = compilers.compile_source(render(made).text, arch=arch, kind=compilers.CompilerKind.NVRTC).entries
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (str(shape), entry)


@pytest.mark.thin(3)
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC] or not sass.available(),
                    reason="NVRTC and a disassembler are not installed")
@pytest.mark.parametrize("shape", [plane(8192, 7), depthwise(96, 56, 5), depthwise(384, 14, 5)], ids=str)
def test_the_machine_code_has_the_planned_matrix_instructions_and_no_more(shape):
    made = toeplitz(shape)
    cubin = compilers.compile_source(render(made).text, arch="sm_90", kind=compilers.CompilerKind.NVRTC).cubin
    counts = sass.count_instructions(sass.disassemble(cubin))
    numbers = made.numbers
    assert counts["HMMA"] == len(numbers.products) * numbers.made_tiles
    assert counts["LDSM"] == sum(len(step.loads) for step in numbers.steps)
