"""``hankel_1d_nhwc``: its plans, where its pixels lie, and its emitted text on the CPU device beside float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpconv
from bench.studies.one_dimension import LineLayer
from tests import checks, settings
from tests.sequences import (HALVES, Sequences, apart_without_conflicts, bordered, cells_lie_without_conflicts,
                             filter_gradient_by, lies_without_conflicts, pixels, place_of, turned)
from warpconv.codegen.border import Border
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import GRADIENTS
from warpconv.codegen.render import render
from warpconv.codegen.resolution import plan
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.devices.cpu import LaunchReport, Mode

on_the_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
NAME, GRADIENT = "hankel_1d_nhwc", Operation.FILTER_GRADIENT
ROW = GRADIENTS[NAME]
LAYER = pixels(31, 500)
COLUMN = turned(LAYER)
BORDERS = tuple(mode for mode in Border if mode is not Border.CONSTANT)
MOST_SHARED = 99 * 1024


def planned(shape: ConvShape, arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, operation=GRADIENT, algorithm=NAME, settings=values, arch=arch)


def check(made: KernelPlan, shape: ConvShape, *parts: int, mode: Mode = Mode.FAST) -> tuple[LaunchReport, ...]:
    """A gradient beside windows and einsum; what the launches took."""
    arrays = Sequences(shape, *parts)
    result, reports = filter_gradient_by(made, arrays, mode)
    arrays.filter_gradient.check(result, f"{shape} with {made.settings()}")
    return reports


# ---- plans

@pytest.mark.parametrize("before", range(0, 18, 3))
@pytest.mark.parametrize("taps", [1, 2, 7, 8, 9, 10, 31, 100, 128])
def test_the_product_has_the_columns_that_taps_need_and_no_more_blocks(taps, before):
    for column in (False, True)[:1 if taps == 1 else 2]:
        numbers = planned(pixels(taps, 700, padding=((0, 0), (before, taps)), column=column), chunks=1, taps=taps,
                          octets=1, each=1, steps=1).numbers
        met = {(numbers.offset + i + s) // 8 for i in range(16) for s in range(taps)}    # column of gradient i's tap s
        assert met == set(numbers.blocks) and numbers.blocks == tuple(range(len(numbers.blocks)))
        assert numbers.margin == before + numbers.offset and numbers.margin % 8 == 0
        assert [b for load in numbers.loads for b in load.blocks] == list(numbers.blocks)


@pytest.mark.parametrize("taps", [1, 4, 9, 31, 120])
def test_every_product_of_a_gradient_and_a_tap_is_in_one_diagonal(taps):
    """Of the sums [column][row] with rows i and i + 8 in one: what a lane adds up for a tap is of that tap alone, and
    all of it."""
    for before in range(8):
        numbers = planned(pixels(taps, 700, padding=((0, 0), (before, taps))), taps=taps, each=1).numbers
        cells: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for i in range(16):
            for j in range(8 * len(numbers.blocks)):
                column = j + 8 if i < 8 else j      # a block further on: see the text's own[...]
                cells.setdefault((column, i % 8), []).append((i, j - i - numbers.offset))
        for s in range(taps):
            found = [cell for row in range(8) for cell in cells[s + numbers.first_column + row, row]]
            assert sorted(found) == [(i, s) for i in range(16)]
        assert max(column for column, _ in cells) < numbers.columns


@pytest.mark.parametrize("octets, steps", [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("taps", [4, 8, 24, 31, 64, 128])
@pytest.mark.thin(6)
def test_pixels_and_sequences_lie_in_all_banks_and_in_their_rooms(taps, octets, steps):
    made = planned(pixels(taps, 5000, channels=64), taps=taps, octets=octets, each=1 if octets < 4 else 2, steps=steps)
    text, numbers = render(made).text, made.numbers
    assert cells_lie_without_conflicts(text, octets) and lies_without_conflicts(text, 2)
    for pitch, groups in ((numbers.pitch, numbers.groups), (numbers.gradient_pitch, numbers.gradient_groups)):
        assert apart_without_conflicts(pitch) and 8 * max(place_of(text, i) for i in range(groups)) < pitch
    assert numbers.groups >= 32 * steps - 2 + len(numbers.blocks), "the last row of the last step has its last block"
    assert numbers.pixel_bytes == 16 * octets * 8 * (numbers.groups + numbers.gradient_groups)
    after = numbers.shared_bytes - numbers.pixel_bytes
    assert after >= 2 * numbers.channels * (numbers.pitch + numbers.gradient_pitch)


@pytest.mark.parametrize("taps", [1, 4, 63, 128, 129, 257, 600])
@pytest.mark.parametrize("length", [1, 129, 2**20])
def test_defaults_and_the_whole_space_can_be_had(taps, length):
    for shape in (pixels(taps, length), pixels(taps, length, channels=40, n=1, column=True), pixels(taps, length, h=3)):
        made = planned(shape)
        assert made.numbers.shared_bytes <= MOST_SHARED and made.program.refusal(shape) is None
        assert made.options.taps * made.numbers.tap_tiles >= taps
        found = list(ROW.space(made.spec))
        assert len(found) > 5
        for options in found[::7]:
            assert ROW.estimate(ROW.plan(made.spec, options), shape) > 0


@pytest.mark.parametrize("changes, words", [
    ({"dtype": "float32"}, "element type float32"), ({"layout": "NCHW"}, "layout NCHW"),
    ({"c": 12, "k": 12, "groups": 12}, "12 channels"), ({"k": 32}, "2 filters a group"), ({"groups": 1}, "16 channels"),
    ({"h": 4, "r": 2}, "a filter of 2 x 31"), ({"padding": ((1, 0), (3, 0))}, "padding above or below"),
    ({"stride": 2}, "stride and dilation"), ({"dilation": (1, 2)}, "stride and dilation"),
    ({"padding_mode": "constant", "padding_value": 0.5}, "border")])
def test_what_it_declines_in_words(changes, words):
    shape = replace(LAYER, **changes)
    found = {answer.algorithm: answer.reason for answer in explain(shape, operation=GRADIENT) if not answer.plan}
    assert words in found[NAME]
    assert plan_layer(shape, operation=GRADIENT).spec.algorithm != NAME


@pytest.mark.parametrize("changes, words", [
    ({"w": 2}, "W at most 1"), ({"w": 40}, "W at most 1"), ({"padding": ((30, 0), (0, 1))}, "padding"),
    ({"dilation": (2, 1)}, "stride and dilation"), ({"stride": (1, 2)}, "stride and dilation")])
def test_columns_that_it_declines_in_words(changes, words):
    shape = replace(COLUMN, **changes)
    with pytest.raises(UnsupportedSpec, match=words):
        planned(shape)
    found = {answer.algorithm: answer.reason for answer in explain(shape, operation=GRADIENT) if not answer.plan}
    assert words in found[NAME]
    assert plan_layer(shape, operation=GRADIENT).spec.algorithm != NAME and planned(COLUMN)


def test_before_ampere_there_are_no_such_instructions():
    with pytest.raises(UnsupportedSpec, match="from sm_80 on"):
        planned(LAYER, arch="sm_75")
    assert planned(LAYER, arch="sm_80")


@pytest.mark.parametrize("values, words", [
    ({"octets": 3}, "octets = 3"), ({"each": 3}, "each = 3"), ({"taps": 12}, "a multiple of 8"),
    ({"taps": 40}, "all 31"), ({"chunks": 2000}, "at most 1024"), ({"octets": 8}, "octets = 8"),
    ({"octets": 2, "steps": 16}, "shared memory"), ({"octets": 1, "each": 8, "taps": 39}, "registers")])
def test_plan_values_that_cannot_be(values, words):
    with pytest.raises(UnsupportedSpec, match=words):
        planned(LAYER, **values)


def test_asynchronous_copies_are_awaited_before_they_are_read():
    """The CPU device copies at once, so that only the text can show it: the next item's come while this one's sequences
    are multiplied, when all have read its pixels."""
    text = render(planned(pixels(9, 512))).text
    loop = text[text.index("for (index_t item"):]
    wait = loop.index("wc_copy_async_wait_group();")
    assert loop[wait:].split(";")[1].endswith("__syncthreads()")
    copy = loop.index("copy(item + 1)")
    turned_before = [i for i in range(copy) if loop.startswith("wc_load_matrices_transposed_4", i)]
    assert len(turned_before) == 2 and wait < turned_before[0]
    assert "__syncthreads();" in loop[turned_before[1]:copy]
    assert "acc[" not in loop[:copy]


# ---- the emitted text, executed

@on_the_cpu
@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("shape", [
    pixels(4, 333, h=3, channels=24), pixels(31, 520, column=True), pixels(12, 5, padding=((0, 0), (40, 25)), h=2),
    pixels(140, 700, channels=8, padding=(0, 69), dtype="bfloat16")], ids=str)
@pytest.mark.thin(12)
def test_defaults_with_every_border(shape, mode):
    shape = bordered(shape, mode)
    check(planned(shape), shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape, values", [
    (pixels(1, 1, channels=8), {}), (pixels(600, 700, channels=8), {}), (pixels(256, 40, channels=8, column=True), {}),
    (pixels(573, 777, channels=8, n=1), {"taps": 64}), (pixels(2, 2100, channels=40), {"octets": 4, "each": 4}),
    (pixels(255, 2056, channels=8, column=True), {"chunks": 3, "taps": 128, "each": 1}),
    (pixels(63, 129, padding=((0, 0), (0, 62)), channels=24, column=True), {"chunks": 40}),
    (pixels(90, 264, channels=24, h=2, n=1), {"taps": 24, "octets": 2, "each": 1, "steps": 2}),
    (pixels(7, 96, padding="valid", column=True), {}),
    (pixels(8, 255, padding=((0, 0), (4, 4))), {"taps": 16, "octets": 1, "each": 8, "steps": 1})],
    ids=lambda value: str(value) if value else "")
@pytest.mark.thin(20)
def test_every_access_checked(shape, values, dtype):
    shape = replace(shape, dtype=dtype)
    check(planned(shape, **values), shape, mode=Mode.CHECK)


def drawn_layer(rng: np.random.Generator) -> ConvShape:
    taps = int(rng.choice([*range(1, 20), 31, 32, 63, 64, 100, 127, 140, int(rng.integers(141, 601))]))
    length = int(rng.choice([*range(1, 20), 8 * rng.integers(1, 150), rng.integers(1, 1200), rng.integers(1, 1200)]))
    left = int(rng.choice([0, taps // 2, taps - 1, rng.integers(0, taps + 9)]))
    right = max(int(rng.choice([0, taps - 1 - left, rng.integers(0, taps + 9)])), taps - length - left, 0)
    mode = (Border.ZEROS, *BORDERS)[rng.integers(len(BORDERS) + 1)] if left or right else Border.ZEROS
    column = taps > 1 and bool(rng.integers(2))
    return bordered(pixels(taps, length, channels=int(rng.choice([8, 16, 24, 40])), n=int(rng.integers(1, 4)),
                           h=1 if column else int(rng.choice([1, 1, 4])), padding=((0, 0), (left, right)),
                           column=column, dtype=HALVES[rng.integers(2)]), mode)


def drawn_plan(rng: np.random.Generator, shape: ConvShape) -> KernelPlan:
    """A plan of values that go together, of every kind."""
    own = max(shape.r, shape.s)
    for _ in range(1000):
        values = {"taps": int(rng.choice([8 * rng.integers(1, 17), own, own, own + rng.integers(0, 9)])),
                  "chunks": int(rng.choice([1, 2, 5, 17])), "octets": int(rng.choice([1, 2, 4])),
                  "each": int(rng.choice([1, 2, 4, 8])), "steps": int(rng.integers(1, 5))}
        try:
            return planned(shape, **values)
        except UnsupportedSpec:
            continue
    raise AssertionError(f"no plan values of {shape}")


@on_the_cpu
@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_drawn_layers_and_plan_values(seed):
    rng = np.random.default_rng(settings.seed + seed)
    shape = drawn_layer(rng)
    check(planned(shape), shape, seed)
    check(drawn_plan(rng, shape), shape, seed, mode=Mode.CHECK if seed % 4 == 0 else Mode.FAST)


@on_the_cpu
@pytest.mark.parametrize("mode", ["zeros", "symmetric"])
@pytest.mark.thin(2)
def test_a_row_and_a_column_give_the_same_bits(mode):
    values = {"chunks": 2, "taps": 21, "octets": 2, "each": 2, "steps": 1}
    row = bordered(pixels(21, 300, channels=24, padding=(0, 13)), mode)
    column = turned(row)
    of_row, of_column = Sequences(row), Sequences(column)
    of_column.x, of_column.dy = of_row.x.reshape(column.input_shape), of_row.dy.reshape(column.output_shape)
    found = [filter_gradient_by(planned(arrays.shape, **values), arrays)[0] for arrays in (of_row, of_column)]
    assert found[0].shape == row.weight_shape and found[1].shape == column.weight_shape
    assert found[0].tobytes() == found[1].tobytes()


@on_the_cpu
@pytest.mark.parametrize("column", [False, True])
def test_offsets_of_64_bits(column):
    shape = pixels(19, 264, channels=24, column=column)
    spec = KernelSpec.of(shape, algorithm=NAME, arch=planned(shape).spec.arch, operation=GRADIENT)
    made = plan(replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    check(made, shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("chunks", [1, 7])
@pytest.mark.parametrize("column", [False, True])
@pytest.mark.thin(4)
def test_equal_inputs_give_equal_bits(column, chunks):
    shape = pixels(31, 1000, n=5, channels=24, column=column)
    made, arrays = planned(shape, chunks=chunks, octets=2, each=4, steps=1), Sequences(shape)
    first, second = (filter_gradient_by(made, arrays)[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()


@on_the_cpu
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.thin(2)
def test_what_is_not_finite_reaches_no_other_channel(bad):
    """Other taps of its channel it may reach, as the plan says; those whose products hold it, surely."""
    shape = pixels(31, 700, channels=24, h=2)
    made, arrays = planned(shape), Sequences(shape)
    assert any("other taps of its channel" in note for note in made.notes)
    good = filter_gradient_by(made, arrays)[0]
    for name, at in (("x", (1, 9, 1, 333)), ("x", (0, 16, 0, 0)), ("dy", (1, 23, 0, 699))):
        spoilt = Sequences(shape)
        getattr(spoilt, name)[at] = bad
        got = filter_gradient_by(made, spoilt)[0]
        others = [k for k in range(shape.k) if k != at[1]]
        assert got[others].tobytes() == good[others].tobytes()
        assert not np.isfinite(got[at[1]].astype(np.float32)).any(), "each tap meets it"


# ---- calls

@pytest.mark.parametrize("dtype", HALVES)
def test_calls_of_sequences_in_nlc_take_it(dtype):
    line = LineLayer(GRADIENT.value, 31, dtype, "NLC", n=8, c=64, length=500)
    for shape in (line.shape, line.plane(column=False), line.plane(column=True)):
        assert plan_layer(shape, operation=GRADIENT).spec.algorithm == NAME


@on_the_cpu
@pytest.mark.parametrize("algorithm", [NAME, "auto"])
@pytest.mark.parametrize("taps", [31, 90])
@pytest.mark.thin(2)
def test_the_public_call_goes_through_it(taps, algorithm):
    arrays = Sequences(pixels(taps, 250))
    x, dy = (arrays.stored(name)[:, 0] for name in ("x", "dy"))     # axes (N, L, C)
    dw = warpconv.conv1d_weight(x, (16, 1, taps), dy, padding="causal", groups=16, layout="NLC", algorithm=algorithm,
                                device="cpu")
    arrays.filter_gradient.check(np.asarray(dw)[:, :, None], f"{taps} taps")


@on_the_cpu
def test_a_column_of_a_wider_image_is_served_by_another():
    shape = replace(pixels(9, 60, column=True), w=3)
    arrays = Sequences(shape)
    given = arrays.stored("x"), shape.weight_shape, arrays.stored("dy")
    layer = {"padding": shape.padding, "groups": 16, "layout": "NHWC", "device": "cpu"}
    with pytest.raises(UnsupportedSpec, match="W at most 1"):
        warpconv.conv2d_weight(*given, algorithm=NAME, **layer)
    arrays.filter_gradient.check(np.asarray(warpconv.conv2d_weight(*given, **layer)), str(shape))


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_120"), [
    shape for taps in (4, 31, 127, 255) for shape in (pixels(taps, 2048, n=8, channels=768, column=taps < 64),
                                                      pixels(taps, 8191, n=8, channels=768, dtype="bfloat16"))]))
def test_defaults_do_not_spill(arch, shapes):
    for shape in shapes:
        for entry in build(planned(shape, arch=arch)).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (str(shape), entry)
