"""``toeplitz_1d_nhwc``: its plans, where its pixels lie, and its emitted text on the CPU device beside float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpconv
from bench.studies.one_dimension import LineLayer
from tests import checks, settings
from tests.sequences import (HALVES, Sequences, apart_without_conflicts, bordered, cells_lie_without_conflicts,
                             lies_without_conflicts, pixels, place_of, turned)
from warpconv.codegen.border import Border
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import render
from warpconv.codegen.resolution import plan
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.devices.cpu import LaunchReport, Mode

on_the_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
NAME = "toeplitz_1d_nhwc"
LAYER = pixels(31, 500)
COLUMN = turned(LAYER)
STEPS = (Epilogue.BIAS, Epilogue.RELU)
MOST_SHARED = 99 * 1024


def planned(shape: ConvShape, epilogue: tuple[Epilogue, ...] = (), arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm=NAME, epilogue=epilogue, settings=values, arch=arch)


def run(made: KernelPlan, arrays: Sequences, mode: Mode = Mode.FAST) -> tuple[np.ndarray, tuple[LaunchReport, ...]]:
    """What a plan's text makes, axes (N, C, H, W), in memory full of NaN, and what the launches took."""
    kernel = checks.cpu_kernel(made, mode).for_border(arrays.shape.padding_value)
    out = np.full_like(arrays.stored("dy"), np.nan)
    before = len(kernel.backend.reports)
    kernel(arrays.stored("x"), arrays.w, arrays.bias if made.spec.epilogue else None, out=out)
    return arrays.logical(out), tuple(kernel.backend.reports[before:])


def check(made: KernelPlan, shape: ConvShape, *parts: int, mode: Mode = Mode.FAST) -> tuple[LaunchReport, ...]:
    """Every output of a layer with bias and relu beside windows and einsum; what the launches took."""
    arrays = Sequences(shape, *parts)
    made_of, reports = run(made, arrays, mode)
    arrays.outputs.check(made_of, f"{shape}, {made.settings()}")
    return reports


# ---- plans

@pytest.mark.parametrize("before", range(0, 18, 3))
@pytest.mark.parametrize("taps", [1, 2, 7, 8, 9, 10, 31, 140, 600])
def test_the_band_of_a_filter_fits_its_blocks_and_needs_them_all(taps, before):
    for column in (False, True)[:1 if taps == 1 else 2]:
        numbers = planned(pixels(taps, 1100, padding=((0, 0), (before, taps)), column=column), octets=1, columns=8,
                          tiles=1, warps=2, weights="shared").numbers
        offset = numbers.first_weight - 7
        met = {(offset + n + s) // 8 for n in range(8) for s in range(taps)}    # row of output n's tap s
        assert met == set(range(numbers.slices)) and 0 <= offset < 8
        assert numbers.margin == before + offset and numbers.margin % 8 == 0
        assert 2 * numbers.copy_words >= 8 * numbers.slices + 8, "each lane's words of the padded filter are there"


@pytest.mark.parametrize("octets, columns, tiles", [(1, 8, 1), (2, 8, 3), (4, 8, 2), (8, 8, 1), (1, 32, 2), (4, 32, 1)])
@pytest.mark.thin(6)
def test_pixels_and_sequences_lie_in_all_banks_and_in_their_rooms(octets, columns, tiles):
    for taps in (1, 4, 31, 32, 33, 100):
        made = planned(pixels(taps, 3000, channels=64), octets=octets, columns=columns, tiles=tiles, warps=4)
        text, row, numbers = render(made).text, columns // 8, made.numbers
        assert cells_lie_without_conflicts(text, octets) and lies_without_conflicts(text, row)
        assert apart_without_conflicts(numbers.pitch) and apart_without_conflicts(numbers.out_pitch)
        read = 16 * row * tiles + numbers.slices - 1            # pieces of a sequence
        assert read <= numbers.groups and 8 * max(place_of(text, i) for i in range(numbers.groups)) < numbers.pitch
        assert 8 * max(place_of(text, i) for i in range(numbers.out_groups)) < numbers.out_pitch
        assert numbers.pixel_bytes >= 16 * octets * 8 * numbers.groups
        assert numbers.pixel_bytes >= 2 * numbers.channels * numbers.out_pitch, "outputs lie where the pixels were"


@pytest.mark.thin(4)
@pytest.mark.parametrize("taps", [1, 4, 63, 140, 571, 1024])
@pytest.mark.parametrize("length", [1, 129, 2**20])
def test_defaults_and_the_whole_space_can_be_had(taps, length):
    for shape in (pixels(taps, length), pixels(taps, length, channels=40, n=1, column=True), pixels(taps, length, h=3)):
        made = planned(shape)
        assert made.numbers.shared_bytes <= MOST_SHARED and made.program.refusal(shape) is None
        row, had = ALGORITHMS[NAME], 0
        for options in row.space(made.spec):
            try:
                found = row.plan(made.spec, options)
            except UnsupportedSpec:
                continue
            had += 1
            assert found.numbers.shared_bytes <= MOST_SHARED and row.estimate(found, shape) > 0
        assert had > 10


@pytest.mark.parametrize("changes, words", [
    ({"dtype": "float32"}, "element type float32"), ({"layout": "NCHW"}, "layout NCHW"),
    ({"c": 12, "k": 12, "groups": 12}, "12 channels"), ({"k": 32}, "2 filters a group"), ({"groups": 1}, "16 channels"),
    ({"h": 4, "r": 2}, "a filter of 2 x 31"), ({"padding": ((1, 0), (3, 0))}, "padding above or below"),
    ({"stride": 2}, "stride and dilation"), ({"dilation": (1, 2)}, "stride and dilation"),
    ({"s": 1025, "w": 2000}, "1025 taps"), ({"padding_mode": "constant", "padding_value": 0.1}, "is no float16")])
def test_layers_that_it_declines_in_words(changes, words):
    answers = {answer.algorithm: answer.reason for answer in explain(replace(LAYER, **changes)) if not answer.plan}
    assert words in answers[NAME]
    assert plan_layer(replace(LAYER, **changes)).spec.algorithm != NAME


@pytest.mark.parametrize("changes, words", [
    ({"w": 2}, "W at most 1"), ({"w": 40}, "W at most 1"), ({"padding": ((30, 0), (0, 1))}, "padding"),
    ({"dilation": (2, 1)}, "stride and dilation"), ({"stride": (1, 2)}, "stride and dilation"),
    ({"r": 1025, "h": 2000}, "1025 taps")])
def test_columns_that_it_declines_in_words(changes, words):
    shape = replace(COLUMN, **changes)
    with pytest.raises(UnsupportedSpec, match=words):
        planned(shape)
    answers = {answer.algorithm: answer.reason for answer in explain(shape) if not answer.plan}
    assert words in answers[NAME]
    assert plan_layer(shape).spec.algorithm != NAME and planned(COLUMN)


def test_before_ampere_there_are_no_such_instructions():
    with pytest.raises(UnsupportedSpec, match="from sm_80 on"):
        planned(LAYER, arch="sm_75")
    assert planned(LAYER, arch="sm_80")


@pytest.mark.parametrize("values, words", [
    ({"octets": 3}, "octets = 3"), ({"octets": 16}, "octets = 16"), ({"columns": 16}, "columns = 16"),
    ({"octets": 1, "warps": 16}, "warps = 16 for 8 channels"), ({"octets": 8, "warps": 64}, "64 warps"),
    ({"octets": 8, "columns": 32}, "shared memory"), ({"octets": 2, "tiles": 64}, "shared memory"),
    ({"octets": 2, "warps": 8, "min_blocks": 9}, "min_blocks = 9")])
def test_plan_values_that_cannot_be(values, words):
    with pytest.raises(UnsupportedSpec, match=words):
        planned(LAYER, **values)


def test_asynchronous_copies_are_awaited_before_they_are_read():
    """The CPU device copies at once, so that only the text can show it."""
    text = render(planned(pixels(9, 512))).text
    kernel = text[text.index("__global__"):]
    wait = kernel.index("wc_copy_async_wait_group();")
    assert kernel[wait:].split(";")[1].strip() == "__syncthreads()"
    assert kernel.index("wc_copy_async_commit();") < wait < kernel.index("wc_load_matrices_")


# ---- the emitted text, executed

@on_the_cpu
@pytest.mark.parametrize("mode", list(Border))
@pytest.mark.parametrize("shape", [
    pixels(4, 333, h=3, channels=24), pixels(31, 520, column=True), pixels(12, 5, padding=((0, 0), (40, 25)), h=2),
    pixels(140, 700, channels=8, padding=(0, 69), dtype="bfloat16")], ids=str)
@pytest.mark.thin(12)
def test_defaults_with_every_border(shape, mode):
    shape = bordered(shape, mode)
    check(planned(shape, STEPS), shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape, values", [
    (pixels(1, 1, channels=8), {}), (pixels(1024, 1300, channels=8), {}),
    (pixels(573, 777, channels=8, column=True), {}),
    (pixels(1000, 1100, channels=8), {"octets": 1, "columns": 32, "tiles": 1, "weights": "registers"}),
    (pixels(2, 2100, channels=40), {"octets": 4, "columns": 8, "tiles": 3, "warps": 5}),
    (pixels(63, 129, padding=((0, 0), (0, 62)), channels=24, column=True), {"octets": 8, "columns": 8, "tiles": 1}),
    (pixels(90, 264, channels=24, h=2, n=1), {"octets": 2, "columns": 32, "tiles": 1, "warps": 1}),
    (pixels(7, 96, padding="valid", column=True), {}), (pixels(255, 2056, channels=8), {"octets": 1, "columns": 32}),
    (pixels(8, 255, padding=((0, 0), (4, 4))), {"octets": 1, "columns": 32, "tiles": 2, "weights": "shared"})],
    ids=lambda value: str(value) if value else "")
@pytest.mark.thin(10)
def test_every_access_checked(shape, values, dtype):
    shape = replace(shape, dtype=dtype)
    check(planned(shape, STEPS, **values), shape, mode=Mode.CHECK)


def drawn_layer(rng: np.random.Generator) -> ConvShape:
    taps = int(rng.choice([*range(1, 20), 31, 32, 63, 64, 100, 127, 140, int(rng.integers(141, 1025))]))
    length = int(rng.choice([*range(1, 20), 8 * rng.integers(1, 150), rng.integers(1, 1200), rng.integers(1, 1200)]))
    left = int(rng.choice([0, taps // 2, taps - 1, rng.integers(0, taps + 9)]))
    right = max(int(rng.choice([0, taps - 1 - left, rng.integers(0, taps + 9)])), taps - length - left, 0)
    mode = (Border.ZEROS, *Border)[rng.integers(len(Border) + 1)] if left or right else Border.ZEROS
    column = taps > 1 and bool(rng.integers(2))
    return bordered(pixels(taps, length, channels=int(rng.choice([8, 16, 24, 40])), n=int(rng.integers(1, 4)),
                           h=1 if column else int(rng.choice([1, 1, 4])), padding=((0, 0), (left, right)),
                           column=column, dtype=HALVES[rng.integers(2)]), mode)


def drawn_plan(rng: np.random.Generator, shape: ConvShape) -> KernelPlan:
    """A plan of values that go together, of every kind."""
    for _ in range(1000):
        values = {"octets": int(rng.choice([1, 2, 4, 8])), "columns": int(rng.choice([8, 32])),
                  "tiles": int(rng.integers(1, 5)), "warps": int(rng.integers(1, 17)),
                  "weights": str(rng.choice(["registers", "shared"])), "min_blocks": int(rng.integers(1, 3))}
        try:
            return planned(shape, STEPS, **values)
        except UnsupportedSpec:
            continue
    raise AssertionError(f"no plan values of {shape}")


@on_the_cpu
@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_drawn_layers_and_plan_values(seed):
    rng = np.random.default_rng(settings.seed + seed)
    shape = drawn_layer(rng)
    check(planned(shape, STEPS), shape, seed)
    check(drawn_plan(rng, shape), shape, seed, mode=Mode.CHECK if seed % 4 == 0 else Mode.FAST)


@on_the_cpu
@pytest.mark.parametrize("mode", ["zeros", "symmetric"])
@pytest.mark.thin(2)
def test_a_row_and_a_column_give_the_same_bits(mode):
    values = {"octets": 2, "columns": 8, "tiles": 2, "warps": 3, "weights": "registers"}
    row = bordered(pixels(21, 300, channels=24, padding=(0, 13)), mode)
    column = turned(row)
    of_row, of_column = Sequences(row), Sequences(column)
    of_column.x, of_column.w = of_row.x.reshape(column.input_shape), of_row.w.reshape(column.weight_shape)
    of_column.bias = of_row.bias
    found = run(planned(row, STEPS, **values), of_row)[0], run(planned(column, STEPS, **values), of_column)[0]
    assert found[0].shape == row.output_shape and found[1].shape == column.output_shape
    assert found[0].tobytes() == found[1].tobytes()


@on_the_cpu
@pytest.mark.parametrize("column", [False, True])
def test_offsets_of_64_bits(column):
    shape = pixels(19, 264, channels=24, column=column)
    spec = KernelSpec.of(shape, algorithm=NAME, arch=planned(shape).spec.arch, epilogue=STEPS)
    made = plan(replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    check(made, shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("column", [False, True])
def test_each_input_is_read_once_and_outputs_leave_in_whole_sectors(column):
    shape = pixels(31, 256, channels=64, column=column)
    report, = check(planned(shape, STEPS, octets=4, columns=8, tiles=2), shape, mode=Mode.CHECK)
    tensor = 2 * shape.n * shape.c * shape.h * shape.w
    assert report.buffers["x"].load_bytes == tensor and report.buffers["y"].store_bytes == tensor
    assert report.buffers["y"].store_sectors == tensor // 32


@on_the_cpu
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("taps, columns", [(5, 8), (31, 32)])
@pytest.mark.thin(4)
def test_what_is_not_finite_reaches_the_outputs_whose_windows_have_it(taps, columns, bad):
    """A zero beside the filter times an infinity is no number: such sums are made anew."""
    shape = pixels(taps, 700, h=2, channels=24)
    made, arrays = planned(shape, octets=2, columns=columns, tiles=1), Sequences(shape)
    good, _ = run(made, arrays)
    for at in (0, 333, 699):
        spoilt = Sequences(shape)
        spoilt.x[1, 9, 1, at] = bad
        got, _ = run(made, spoilt)
        reached = np.zeros(shape.output_shape, bool)
        reached[1, 9, 1, at:at + taps] = True
        assert np.array_equal(~np.isfinite(got.astype(np.float32)), reached)
        assert np.abs(got[~reached] - good[~reached]).astype(np.float32).max() < 0.1


# ---- calls

@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("operation", ["forward", "data_gradient"])
def test_calls_of_sequences_in_nlc_take_it(operation, dtype):
    line = LineLayer(operation, 31, dtype, "NLC", n=8, c=64, length=500)
    for shape in (line.shape, line.plane(column=False), line.plane(column=True)):
        assert plan_layer(shape, operation=operation).spec.algorithm == NAME


@on_the_cpu
@pytest.mark.parametrize("algorithm", [NAME, "auto"])
@pytest.mark.parametrize("taps", [31, 90])
@pytest.mark.thin(4)
def test_the_public_calls_go_through_it(taps, algorithm):
    """conv1d and the gradient of its input, which is a filter turned round, whose windows reach after a sequence."""
    shape = pixels(taps, 250)
    arrays = Sequences(shape)
    x, dy = (arrays.stored(name)[:, 0] for name in ("x", "dy"))     # axes (N, L, C)
    more = {"padding": "causal", "groups": 16, "layout": "NLC", "algorithm": algorithm, "device": "cpu"}
    y = warpconv.conv1d(x, arrays.w[:, 0], arrays.bias, activation="relu", **more)
    arrays.outputs.check(arrays.logical(np.asarray(y)[:, None]), f"{taps} taps")
    dx = warpconv.conv1d_input((2, 250, 16), arrays.w[:, 0], dy, **more)
    of = Sequences(replace(shape, padding=((0, 0), (0, taps - 1))))
    of.x, of.w, of.bias, of.relu = arrays.dy, arrays.w[..., ::-1], np.zeros_like(of.bias), False
    of.outputs.check(of.logical(np.asarray(dx)[:, None]), f"gradient of {taps} taps")


@on_the_cpu
def test_a_column_of_a_wider_image_is_served_by_another():
    shape = replace(pixels(9, 60, column=True), w=3)
    arrays = Sequences(shape)
    layer = {"padding": shape.padding, "groups": 16, "layout": "NHWC", "activation": "relu", "device": "cpu"}
    with pytest.raises(UnsupportedSpec, match="W at most 1"):
        warpconv.conv2d(arrays.stored("x"), arrays.w, arrays.bias, algorithm=NAME, **layer)
    y = warpconv.conv2d(arrays.stored("x"), arrays.w, arrays.bias, **layer)
    arrays.outputs.check(arrays.logical(np.asarray(y)), str(shape))


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_120"), [
    shape for taps in (4, 31, 127, 255) for shape in (pixels(taps, 2048, n=8, channels=768, column=taps < 64),
                                                      pixels(taps, 8191, n=8, channels=768, dtype="bfloat16"))]))
def test_defaults_do_not_spill(arch, shapes):
    for shape in shapes:
        for entry in build(planned(shape, STEPS, arch=arch)).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (str(shape), entry)
