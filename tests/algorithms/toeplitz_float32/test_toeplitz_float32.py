"""``toeplitz_float32``: its plans, its layers, its emitted text on the CPU device, what compilers make of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests import checks, settings
from tests.axes import BIAS, RELU
from warpconv.codegen.algorithms.toeplitz_float32.numbers import CHAIN_BLOCKS, SHORT_CHAIN, products_of
from warpconv.codegen.algorithms.toeplitz_float32.plan import MOST_SLICES, supports
from warpconv.codegen.errors import UnsupportedSpec, WarpconvError
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.resolution import plan
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build import compilers, disassembly as sass

on_the_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
nvrtc = pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")


def depthwise(c: int, side: int, size: int, *, n: int = 1, multiplier: int = 1, **changes) -> ConvShape:
    return ConvShape(**{**dict(n=n, c=c, h=side, w=side, k=c * multiplier, groups=c, r=size, s=size,
                               padding=size // 2), **changes})


def plane(side: int, size: int, **changes) -> ConvShape:
    return depthwise(1, side, size, **changes)


def planned(shape: ConvShape, epilogue=(), arch: str = "sm_90", **values) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz_float32", precision="fp16x3", epilogue=epilogue, settings=values,
                      arch=arch)


# ---- plans

@pytest.mark.parametrize("padding", range(12))
@pytest.mark.parametrize("width", [1, 2, 3, 8, 9, 11, 16, 17, 31, 40])
def test_the_band_of_a_row_fits_its_blocks_and_needs_them_all(width, padding):
    """The banded matrix of a row, by its definition, of which each block is multiplied once by each chain."""
    made = planned(plane(64, width, r=1, padding=((0, 0), (padding, width))))
    numbers = made.numbers
    matrix = np.zeros((8 * numbers.slices, 8))
    for n in range(8):
        matrix[numbers.lead - padding + n:, n][:width] = 1
    assert (matrix.sum(axis=0) == width).all() and matrix.reshape(numbers.slices, -1).any(axis=1).all()
    assert numbers.lead % 4 == 0 <= numbers.lead - padding < 4
    assert numbers.first_weight == 7 + numbers.lead - padding


@pytest.mark.parametrize("tile", range(4))
@pytest.mark.parametrize("slices", range(1, 14))
def test_every_block_is_multiplied_once_and_taken_as_it_was_loaded(slices, tile):
    chains = products_of(slices, tile)
    assert [b for chain in chains for product in chain for b in product.blocks] == list(range(slices))
    for chain in chains:
        assert 1 <= sum(len(product.blocks) for product in chain) <= (SHORT_CHAIN if len(chains) == 1 else CHAIN_BLOCKS)
        for product in chain:
            assert [product.load + word // 2 - tile for word in product.words[::2]] == list(product.blocks)
    alone = sum(len(product.blocks) == 1 for chain in chains for product in chain)
    assert alone == slices % 2 if len(chains) == 1 else alone <= 2 * len(chains)


def test_tiles_share_loads():
    """Of an odd number of blocks each is loaded once; of an even one odd tiles have loads of their own."""
    for shape, loads in ((plane(64, 15), 5), (plane(64, 9), 8)):
        numbers = planned(shape, tiles=8).numbers
        assert sum(len(turn.loads) for turn in numbers.rounds) == loads


@pytest.mark.parametrize("shape", [plane(4096, 15), plane(4096, 31), plane(2048, 21), plane(1024, 17),
                                   depthwise(96, 112, 13, n=8), depthwise(128, 56, 31, n=32)], ids=str)
def test_large_filters_are_its_by_default(shape):
    chosen = select(shape, "sm_90")
    assert (chosen.algorithm, chosen.spec.numerics) == ("toeplitz_float32", Numerics.FP16X3)
    assert select(shape, "sm_90", precision="ieee").algorithm in ("patch", "wide")
    assert select(shape, "sm_75").algorithm in ("patch", "wide")


@pytest.mark.parametrize("shape", [plane(4096, 5), plane(4096, 9), plane(8192, 11), depthwise(128, 56, 9, n=32),
                                   depthwise(384, 14, 13, n=64), depthwise(64, 56, 13, n=8, stride=2)], ids=str)
def test_others_keep_theirs(shape):
    assert select(shape, "sm_90").algorithm != "toeplitz_float32"


@pytest.mark.parametrize("shape, says", [
    (plane(64, 9, stride=2), "stride and dilation"), (plane(64, 9, dilation=2), "stride and dilation"),
    (ConvShape(n=1, c=4, h=32, w=32, k=4, r=9, s=9), "4 channels in a group"),
    (plane(64, 9, dtype="float16"), "float16"), (depthwise(8, 32, 9, layout="NHWC"), "layout"),
    (plane(400, 3, s=330, padding=(1, 165)), "330 filter columns")])
def test_what_it_declines(shape, says):
    with pytest.raises(WarpconvError, match=says):
        planned(shape)


def test_filters_may_be_as_wide_as_their_words_have_registers():
    spec = planned(plane(64, 5)).spec
    assert supports(spec) is None and supports(dataclasses.replace(spec, s=8 * MOST_SLICES - 9)) is None
    assert "filter columns" in supports(dataclasses.replace(spec, s=8 * MOST_SLICES))


def test_float32_units_and_older_architectures_are_declined():
    with pytest.raises(UnsupportedSpec, match="float32 units"):
        plan_layer(plane(64, 5), algorithm="toeplitz_float32")
    with pytest.raises(UnsupportedSpec, match="sm_75 has no matrix instructions"):
        planned(plane(64, 9), arch="sm_75")


@pytest.mark.parametrize("values, says", [
    (dict(vector=3), "vector = 3"), (dict(store_vector=4), "store_vector = 4"), (dict(tiles=9), "tiles = 9"),
    (dict(warp_columns=33), "warp_columns = 33"), (dict(sub_block_rows=24), "sub_block_rows = 24"),
    (dict(sub_block_rows=2**20), "at most 4096"),
    (dict(tiles=8, warp_columns=32), "bytes of shared memory"), (dict(min_blocks=40), "min_blocks = 40")])
def test_plan_values_that_cannot_be_had(values, says):
    with pytest.raises(UnsupportedSpec, match=says):
        planned(plane(512, 31), **values)


def test_the_batch_never_changes_the_plan():
    one, many = (planned(depthwise(64, 56, 21, n=n)) for n in (1, 200))
    assert one == many


# ---- the emitted text, executed

@pytest.mark.thin(60)
@on_the_cpu
@pytest.mark.parametrize("shape, values", [
    (plane(40, 9, w=264), {}), (plane(70, 15, w=77), {}), (plane(100, 3, n=3), {"sub_block_rows": 32}),
    (depthwise(2, 33, 4, n=2, w=77, padding=((5, 0), (1, 9))), {}), (depthwise(3, 28, 13, n=3), {"images": 2}),
    (depthwise(5, 14, 7, n=3, multiplier=2), {}), (depthwise(2, 13, 6, n=2, padding=((9, 8), (20, 7))), {}),
    (depthwise(2, 40, 9, s=31, padding=(4, 15)), {}), (plane(1, 1), {}), (depthwise(2, 1, 5, w=9), {}),
    (plane(35, 31, w=34), {}), (plane(20, 3, s=70, w=70, padding=(1, 35)), {}),
    (plane(50, 17, w=200, padding=0), {"tiles": 7, "warp_columns": 3}),
    (depthwise(3, 20, 11, n=5), {"images": 4, "tiles": 1, "vector": 1, "store_vector": 1})],
    ids=lambda value: str(value) if value else "")
@pytest.mark.parametrize("mode", ["zeros", "reflect", "circular", "constant"])
def test_every_access_checked(shape, values, mode):
    if mode != "zeros":
        shape = dataclasses.replace(shape, padding_mode=mode, padding_value=0.5 if mode == "constant" else 0.0)
        if mode == "reflect" and (max(shape.padding[0]) >= shape.h or max(shape.padding[1]) >= shape.w):
            pytest.skip("reflect needs an image larger than its border")
    checks.check_checked(planned(shape, (BIAS, RELU), **values), shape)


@pytest.mark.long
@on_the_cpu
def test_offsets_of_64_bits():
    shape = depthwise(5, 19, 9, n=3, w=80)
    spec = KernelSpec.of(shape, algorithm="toeplitz_float32", arch=planned(shape).spec.arch, numerics=Numerics.FP16X3)
    made = plan(dataclasses.replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    checks.check_checked(made, shape)


@pytest.mark.long
@on_the_cpu
def test_each_row_of_a_sub_block_is_read_once_and_matrices_without_conflicts():
    """Counted by hand: rows with their halo, and of a further 16 rows 16 x 64 outputs the passes over the banks."""
    made = [planned(plane(16 * bands, 15, w=64), tiles=8, warp_columns=1, sub_block_rows=64) for bands in (2, 3)]
    shapes = [plane(16 * bands, 15, w=64) for bands in (2, 3)]
    two, three = (checks.check_checked(p, shape)[0] for p, shape in zip(made, shapes))
    assert three.buffers["x"].load_bytes == 4 * 48 * 64 and two.buffers["x"].load_bytes == 4 * 32 * 64
    numbers = made[0].numbers
    loads = 2 * sum(len(turn.loads) for turn in numbers.rounds)
    rows = (three.shared_wavefronts - two.shared_wavefronts) / (15 + 8 / 16)    # filter rows that meet the image
    # four passes for a load of four matrices; words of the filter, scales; the split of a row is less than one more
    assert 4 * loads <= rows <= 4 * loads + 2 * numbers.slices + 3 + 12


# ---- what compilers make of it

@pytest.mark.long
@nvrtc
@pytest.mark.parametrize("shape", [plane(4096, 9), plane(4096, 15), plane(4096, 31)], ids=str)
def test_the_machine_code_has_the_planned_matrix_instructions_and_few_moves(shape):
    """A loop over the filter's rows; operands lie as instructions take them, but for a second order of the filter's."""
    if not sass.available():
        pytest.skip("a disassembler is not installed")
    made = planned(shape, tiles=4, warp_columns=4, min_blocks=3)
    cubin = compilers.compile_source(render(made).text, arch="sm_90", kind=compilers.CompilerKind.NVRTC).cubin
    counts = sass.count_instructions(sass.disassemble(cubin))
    assert counts["HMMA"] == sum(len(turn.products) for turn in made.numbers.rounds)
    assert counts["LDSM"] == 2 * sum(len(turn.loads) for turn in made.numbers.rounds)


@pytest.mark.long
@nvrtc
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_100"), (
    plane(4096, 13), plane(4096, 31), depthwise(96, 112, 21), depthwise(128, 56, 31))))
def test_planned_defaults_hardly_spill(arch, shapes):
    """A few words around the loop over the filter's rows, where registers are held to what twelve or sixteen warps
    have; those that wait while sums are made anew among them (up to 80 bytes on sm_100)."""
    for shape in shapes:
        made = planned(shape, arch=arch)
        entry, = compilers.compile_source(render(made).text, arch=arch, kind=compilers.CompilerKind.NVRTC).entries
        assert max(entry.spill_stores, entry.spill_loads) <= 80, (str(shape), entry)
