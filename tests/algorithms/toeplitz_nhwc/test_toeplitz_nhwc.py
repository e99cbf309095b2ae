"""``toeplitz_nhwc``: its plans, its matrix instructions, and its emitted text on the CPU device."""

from __future__ import annotations

import dataclasses
import itertools
import re

import numpy as np
import pytest

from tests import checks, reference, settings
from warpconv.codegen.algorithms.toeplitz_nhwc.numbers import (TILE_COLUMNS, TILE_ROWS, Matrix, Weights, block_counts,
                                                               filter_pitch, spread)
from warpconv.codegen.algorithms.toeplitz_nhwc.plan import supports
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
PIXELS = tuple(itertools.product(range(TILE_ROWS), range(TILE_COLUMNS)))     # of a tile


def depthwise(c: int, side: int, size: int, *, n: int = 1, **changes) -> ConvShape:
    return ConvShape(**{**dict(n=n, c=c, h=side, w=side, k=c, groups=c, r=size, s=size, padding=size // 2,
                               dtype="float16", layout="NHWC"), **changes})


def nhwc(shape: ConvShape, epilogue=(), arch: str = "sm_90", **values) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz_nhwc", epilogue=epilogue, settings=values, arch=arch)


IMAGES = ((32, 128, 112), (128, 96, 56), (128, 384, 14), (128, 960, 7))
LAYERS = tuple(depthwise(c, side, size, n=n) for n, c, side in IMAGES for size in (3, 5, 7, 11))


# ---- plans

@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 3), (5, 5), (7, 7), (2, 4), (6, 9), (31, 31), (8, 17)])
def test_the_blocks_of_a_filter_hold_each_tap_once_for_every_output_pixel(rows, columns):
    spec = nhwc(depthwise(8, 40, 3, r=rows, s=columns, padding=(rows // 2, columns // 2))).spec
    down, across = block_counts(spec)
    for out_row, out_column in PIXELS:
        taps = [(TILE_ROWS * b + row - out_row, TILE_COLUMNS * c + column - out_column)
                for b, c, (row, column) in itertools.product(range(down), range(across), PIXELS)]
        inside = [(r, s) for r, s in taps if 0 <= r < rows and 0 <= s < columns]
        assert sorted(inside) == list(itertools.product(range(rows), range(columns)))


@pytest.mark.parametrize("matrix", Matrix)
@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 3), (5, 5), (7, 7), (9, 14)])
def test_every_lane_finds_its_words_within_the_padded_filter(rows, columns, matrix):
    """Where the kernel reads, from its own expressions: a word of two taps side by side, or of two channels."""
    made = nhwc(depthwise(8, 20, 3, r=rows, s=columns, padding=(rows // 2, columns // 2)), pairs=4, matrix=matrix.value,
                weights="shared", chunks=1)
    numbers, pitch = made.numbers, made.numbers.filter_pitch
    for place, column in itertools.product(range(8), range(4)):
        sparse = matrix is Matrix.SPARSE
        first = ((1 - place // 4 + (column // 2 if sparse else 0)) * pitch + 3 - place % 4
                 + (column % 2 * 2 if sparse else column))
        for b, c, i in itertools.product(range(numbers.block_rows), range(numbers.block_columns), range(2)):
            of_channel = i * numbers.unit_words if sparse else 0
            row, place_of = divmod(first + numbers.word_offset(b, c, 0, i) - of_channel, pitch)
            pixel = (column // 2, column % 2 * 2) if sparse else (i, column)
            assert (row - 1, place_of - 3) == (2 * b + pixel[0] - place // 4, 4 * c + pixel[1] - place % 4)
            assert 0 <= row < numbers.filter_rows
    assert [c for blocks in numbers.joins for c in blocks] == list(range(numbers.block_columns))


@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("size", range(40, 60))
def test_neighbouring_chunks_of_neighbouring_pixels_lie_in_different_banks(chunks, size):
    stride = spread(chunks, size)
    pixels = max(1, 8 // chunks)
    units = {(chunk * stride + pixel) % 8 for chunk in range(min(8, chunks)) for pixel in range(pixels)}
    assert stride >= size and len(units) == min(8, chunks) * pixels


def test_two_rows_of_a_filter_meet_in_no_bank():
    for columns in range(1, 70):
        pitch = filter_pitch(columns)
        assert pitch >= columns and not {b % 32 for b in range(7)} & {(pitch + b) % 32 for b in range(7)}


@pytest.mark.parametrize("shape", LAYERS, ids=str)
def test_defaults_of_the_table(shape):
    made = nhwc(shape)
    options, numbers = made.options, made.numbers
    assert numbers.shared_bytes <= 48 * 1024 and numbers.threads <= 512
    assert options.columns * options.across <= 32 * options.warps and options.matrix is Matrix.SPARSE
    assert options.chunks * 16 >= 64 and options.weights is Weights.REGISTERS
    assert made == nhwc(dataclasses.replace(shape, n=16)), "the batch changed the plan"


@pytest.mark.parametrize("n, c, side, rows, algorithm", [
    (1, 128, 112, 14, "toeplitz_nhwc"), (1, 96, 56, 8, "channels"), (8, 96, 56, 14, "toeplitz_nhwc"),
    (16, 96, 56, 56, "toeplitz_nhwc"), (1, 384, 14, 8, "channels")])
def test_few_images_are_cut_into_lower_blocks(n, c, side, rows, algorithm):
    """Of 7x7 in microseconds (H200): 1x128x112^2 takes 8.8 in blocks of 14 rows, 17.6 of 56, 14.4 by channels;
    8x96x56^2 11.2, 17.0, 14.5; 1x96x56^2 8.1, 16.6, 5.0."""
    shape = depthwise(c, side, 7, n=n)
    assert nhwc(shape).options.sub_block_rows == rows
    assert plan_layer(shape).spec.algorithm == algorithm


@pytest.mark.parametrize("n, c, side, size", [(1, 384, 56, 9), (4, 96, 56, 9), (1, 64, 112, 13), (4, 384, 14, 13),
                                              (1, 128, 112, 31), (1, 96, 56, 31)])
def test_large_filters_of_few_images_are_its_own(n, c, side, size):
    """Of the first four in microseconds, and by channels (H200): 9.7 and 42, 9.6 and 16, 10.8 and 18, 11.0 and 14."""
    shape = depthwise(c, side, size, n=n)
    assert plan_layer(shape).spec.algorithm == "toeplitz_nhwc"


def test_no_more_images_lie_side_by_side_than_there_are():
    assert [nhwc(depthwise(768, 7, 7, n=n)).options.across for n in (1, 3, 4, 64)] == [1, 1, 4, 4]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 5, 7, 9, 11, 13])
def test_the_rule_takes_it_from_9x9_on_wide_images_from_7x7_and_channels_before(size, dtype):
    for c, side in ((128, 112), (96, 56), (384, 14)):
        expected = "toeplitz_nhwc" if size >= 9 or size == 7 and side > 14 else "channels"
        assert plan_layer(depthwise(c, side, size, n=32, dtype=dtype)).spec.algorithm == expected
    assert plan_layer(depthwise(4, 56, size, dtype=dtype)).spec.algorithm != "toeplitz_nhwc"


@pytest.mark.parametrize("changes, reason", [
    (dict(dtype="float32"), "element type float32"), (dict(layout="NCHW"), "layout NCHW"),
    (dict(groups=8), "2 channels and 2 filters"), (dict(k=32), "2 filters"),
    (dict(c=12, k=12, groups=12), "12 channels"), (dict(stride=(2, 2)), "stride and dilation"),
    (dict(dilation=(1, 2)), "stride and dilation"), (dict(r=65, s=1, padding=((40, 40), (0, 0))), "65 x 1")])
def test_layers_that_it_declines(changes, reason):
    with pytest.raises(UnsupportedSpec, match="toeplitz_nhwc cannot serve") as caught:
        nhwc(dataclasses.replace(depthwise(16, 40, 3), **changes))
    assert reason in caught.value.reason


def test_before_ampere_there_are_no_such_instructions():
    with pytest.raises(UnsupportedSpec, match="from sm_80 on"):
        nhwc(depthwise(16, 40, 5), arch="sm_75")
    assert supports(nhwc(depthwise(16, 40, 5), arch="sm_80").spec) is None


@pytest.mark.parametrize("values, reason", [
    ({"pairs": 3}, "pairs = 3"), ({"columns": 30}, "columns = 30"), ({"sub_block_rows": 7}, "sub_block_rows = 7"),
    ({"buffers": 1}, "buffers = 1"), ({"buffers": 9}, "buffers = 9"),
    ({"columns": 36, "warps": 1}, "no room for 1 x 36"),
    ({"warps": 3, "chunks": 8, "pairs": 2, "turn": 1}, "1024 threads"), ({"turn": 8, "chunks": 8}, "shared memory"),
    ({"min_blocks": 1000}, "min_blocks = 1000"), ({"across": 2, "columns": 16, "warps": 1}, "Q at most 16")])
def test_plan_values_that_it_declines(values, reason):
    with pytest.raises(UnsupportedSpec) as caught:
        nhwc(depthwise(64, 56, 5), **values)
    assert reason in caught.value.reason


def test_filters_that_registers_cannot_hold_are_declined_there():
    with pytest.raises(UnsupportedSpec, match="registers"):
        nhwc(depthwise(8, 56, 21), weights="registers", pairs=4)
    assert nhwc(depthwise(8, 56, 21)).options.weights is Weights.SHARED


def test_pointers_are_multiples_of_16_bytes():
    demands = nhwc(depthwise(16, 28, 3)).program.demands
    assert "x a multiple of 16 bytes" in demands and "y a multiple of 16 bytes" in demands


@pytest.mark.parametrize("buffers", [2, 3, 4])
def test_asynchronous_copies_are_awaited_before_they_are_read(buffers):
    """The CPU device copies at once, so that only the text can show it: wait for one's own, then for everyone's."""
    text = render(nhwc(depthwise(16, 28, 3), buffers=buffers)).text
    kernel = text[text.index("__global__"):]
    wait = kernel.index("wc_copy_async_wait_group();")
    assert kernel[wait:].split(";")[1].strip() == "__syncthreads()"
    assert kernel.index("copy(pixels") < wait < kernel.index("copy(free)") < kernel.index("wc_mma_")
    assert int(re.search(r"cp\.async\.wait_group (\d)", text)[1]) == buffers - 2


# ---- the emitted text, executed

@pytest.mark.thin(36)
@on_the_cpu
@pytest.mark.parametrize("shape, values", [
    (depthwise(8, 9, 3, n=2), {}), (depthwise(24, 17, 5, w=23, n=3), {}), (depthwise(32, 30, 5, w=56, n=2), {}),
    (depthwise(32, 14, 7, n=5), {}), (depthwise(96, 7, 3, n=9), {}),
    (depthwise(40, 20, 4, w=70, padding=((3, 0), (0, 4))), {}),
    (depthwise(16, 1, 1), {}), (depthwise(8, 13, 9, s=21, padding=(4, 10)), {}), (depthwise(8, 33, 31), {}),
    (depthwise(40, 29, 3, n=3), {"chunks": 3, "turn": 2, "sub_block_rows": 8, "buffers": 2}),
    (depthwise(16, 30, 6, n=4), {"pairs": 1, "images": 3, "turn": 3}),
    (depthwise(16, 12, 5, n=7), {"weights": "shared", "columns": 12, "across": 2, "warps": 1})],
    ids=lambda value: str(value) if value else "")
@pytest.mark.parametrize("matrix, dtype", [("sparse", "float16"), ("sparse", "bfloat16"), ("dense", "float16")])
def test_every_access_checked(shape, values, matrix, dtype):
    shape = dataclasses.replace(shape, dtype=dtype)
    values = values if matrix == "sparse" else {**values, "matrix": matrix}
    checks.check_checked(nhwc(shape, (BIAS, RELU), **values), shape)


@on_the_cpu
def test_offsets_of_64_bits():
    shape = depthwise(24, 19, 3, n=3)
    spec = KernelSpec.of(shape, algorithm="toeplitz_nhwc", arch=nhwc(shape).spec.arch)
    made = plan(dataclasses.replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    checks.check_checked(made, shape)


@pytest.mark.thin(3)
@on_the_cpu
@pytest.mark.parametrize("shape", [depthwise(32, 28, 5), depthwise(32, 14, 3, n=4), depthwise(32, 28, 7, w=56)],
                         ids=str)
def test_each_input_is_read_once_and_outputs_leave_in_whole_sectors(shape):
    made = nhwc(shape, sub_block_rows=shape.h)
    report, = checks.check_checked(made, shape)
    tensor = 2 * shape.n * shape.c * shape.h * shape.w
    tiles = -(-shape.q // made.options.columns)
    overlap = 1 + (tiles - 1) * (made.numbers.patch_columns - made.options.columns) / shape.w if tiles > 1 else 1
    assert tensor <= report.buffers["x"].load_bytes <= tensor * overlap
    assert report.buffers["y"].store_bytes == tensor and report.buffers["y"].store_sectors == tensor // 32


@pytest.mark.thin(3)
@on_the_cpu
@pytest.mark.parametrize("pairs, passes", [(4, 4), (2, 4), (1, 4)])
def test_pixels_are_read_in_as_few_passes_as_their_bytes_need(pairs, passes):
    """Passes over the banks for one further turn: 32 pixels of 16 bytes are 4, however much of each a warp reads."""
    values = dict(pairs=pairs, chunks=1, warps=1, columns=32, across=1, turn=1, images=1, sub_block_rows=64)
    shapes = [depthwise(8, rows, 3, w=32) for rows in (16, 18)]
    made = nhwc(shapes[0], **values)
    one, two = (checks.check_checked(made, shape)[0].shared_wavefronts for shape in shapes)
    warps, numbers = 4 // pairs, made.numbers
    pixels = warps * 2 * numbers.block_columns * passes
    leave = warps * 2 * passes                                      # two tiles of 32 pixels
    copies, stores = 2 * (36 * 16 // 128 + 1), 2 * 32 * 16 // 128
    assert pixels + leave <= two - one <= pixels + leave + copies + stores + 2 * numbers.copy_rounds * warps + 4


@on_the_cpu
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_pair_of_channels_and_near_its_tile(bad):
    """A zero beside the filter times an infinity is no number: the tiles whose blocks hold the pixel, no others."""
    shape = depthwise(16, 24, 5, w=32)
    made = nhwc(shape)
    x, w, _ = reference.operands(shape, settings.generator(3))
    good = np.array(checks.cpu_kernel(made)(x, w))
    spoilt = x.copy()
    spoilt[0, 10, 15, 5] = bad
    got = np.array(checks.cpu_kernel(made)(spoilt, w))
    rows, columns, channels = np.nonzero(~np.isfinite(got[0].astype(np.float32)))
    assert 5 in channels and set(channels) <= {4, 5}
    assert {8, 12} <= set(rows) and rows.min() >= 8 - 1 and rows.max() <= 12 + 1
    assert {13, 17} <= set(columns) and columns.min() >= 13 - 3 and columns.max() <= 17 + 3
    touched = np.zeros(got[0].shape, bool)
    touched[rows, columns, channels] = True
    assert np.array_equal(got[0][~touched], good[0][~touched])


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_100"), (
    *LAYERS, depthwise(128, 56, 13), depthwise(128, 56, 17), depthwise(128, 56, 31))))
def test_planned_defaults_do_not_spill(arch, shapes):
    for shape in shapes:
        made = nhwc(shape, (BIAS,), arch=arch)
        entry, = compilers.compile_source(render(made).text, arch=arch, kind=compilers.CompilerKind.NVRTC).entries
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (str(shape), entry)


@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC] or not sass.available(),
                    reason="NVRTC and a disassembler are not installed")
@pytest.mark.parametrize("matrix, split", [("sparse", 0), ("dense", 4)])
@pytest.mark.parametrize("shape", [depthwise(128, 112, 5), depthwise(96, 56, 7), depthwise(384, 14, 3)], ids=str)
def test_the_machine_code_has_the_planned_matrix_instructions_and_no_more(shape, matrix, split):
    made = nhwc(shape, matrix=matrix)
    cubin = compilers.compile_source(render(made).text, arch="sm_90", kind=compilers.CompilerKind.NVRTC).cubin
    counts = sass.count_instructions(sass.disassemble(cubin))
    planned = made.numbers.instructions * made.options.pairs * made.options.turn
    assert counts["HMMA"] == planned
    # words are taken apart, and only once: for each row of tiles, or for those of a turn together
    assert split * planned // made.options.turn <= counts["LOP3"] <= split * planned + 40
