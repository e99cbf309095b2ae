"""``hankel_1d``: its plans, its product's diagonals, and its emitted text on the CPU device beside float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from tests.sequences import HALVES, Sequences, bordered, filter_gradient_by, layer, lies_without_conflicts
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
ROW = GRADIENTS["hankel_1d"]
LAYER = layer(31, 500)
BORDERS = tuple(mode for mode in Border if mode is not Border.CONSTANT)
MOST_SHARED = 48 * 1024


def planned(shape: ConvShape, arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, operation="filter_gradient", algorithm="hankel_1d", settings=values, arch=arch)


def check(made: KernelPlan, shape: ConvShape, *parts: int, mode: Mode = Mode.FAST) -> tuple[LaunchReport, ...]:
    """A gradient beside windows and einsum; what the launches took."""
    arrays = Sequences(shape, *parts)
    result, reports = filter_gradient_by(made, arrays, mode)
    arrays.filter_gradient.check(result, f"{shape} with {made.settings()}")
    return reports


# ---- plans

@pytest.mark.parametrize("before", range(0, 18, 3))
@pytest.mark.parametrize("taps", [1, 2, 7, 8, 9, 10, 31, 140, 256])
def test_the_product_has_the_columns_that_taps_need_and_no_more_blocks(taps, before):
    numbers = planned(layer(taps, 700, padding=((0, 0), (before, taps)))).numbers
    met = {(numbers.offset + i + s) // 8 for i in range(16) for s in range(taps)}       # column of gradient i's tap s
    assert met == set(numbers.blocks) and numbers.blocks == tuple(range(len(numbers.blocks)))
    assert numbers.margin == before + numbers.offset and numbers.margin % 8 == 0
    assert (numbers.margin + numbers.skipped) % 64 == 0, "copies of a warp begin at a line"
    assert [b for load in numbers.loads for b in load.blocks] == list(numbers.blocks)


@pytest.mark.parametrize("taps", [1, 4, 9, 31, 140])
def test_every_product_of_a_gradient_and_a_tap_is_in_one_diagonal(taps):
    """Of the sums [column][row] with rows i and i + 8 in one: what a thread adds up for a tap is of that tap alone, and
    all of it."""
    for before in range(8):
        numbers = planned(layer(taps, 700, padding=((0, 0), (before, taps)))).numbers
        cells: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for i in range(16):
            for j in range(8 * len(numbers.blocks)):
                column = j + 8 if i < 8 else j      # a block further on: see the text's own[...]
                cells.setdefault((column, i % 8), []).append((i, j - i - numbers.offset))
        for s in range(taps):
            found = [cell for row in range(8) for cell in cells[s + numbers.first_column + row, row]]
            assert sorted(found) == [(i, s) for i in range(16)]
        assert max(column for column, _ in cells) < numbers.columns


@pytest.mark.parametrize("taps", [8, 64, 256])
@pytest.mark.parametrize("steps", [1, 3, 16])
@pytest.mark.thin(3)
def test_matrices_of_the_text_lie_in_all_banks_and_in_the_buffer(taps, steps):
    made = planned(layer(taps, 5000), steps=steps, warps=1, buffers=2)
    assert lies_without_conflicts(render(made).text, 2)
    numbers = made.numbers
    assert numbers.span % 128 == numbers.x_elements % 16 == 0, "pieces change places within whole rows"
    last_step = (steps - 1) * 256       # of its last row the last block
    assert last_step + 15 * 16 + 8 * len(numbers.blocks) <= numbers.x_elements
    assert numbers.buffer == numbers.span + numbers.x_elements <= numbers.shared_bytes // 4


@pytest.mark.parametrize("taps", [1, 4, 63, 140, 256, 257, 600])
@pytest.mark.parametrize("length", [1, 129, 2**20])
def test_defaults_and_the_whole_space_can_be_had(taps, length):
    for shape in (layer(taps, length), layer(taps, length, channels=1, n=1, h=3)):
        made = planned(shape)
        assert made.numbers.shared_bytes <= MOST_SHARED and made.program.refusal(shape) is None
        assert made.options.taps <= 256 and made.numbers.tap_tiles == -(-taps // made.options.taps) == -(-taps // 256)
        found = list(ROW.space(made.spec))
        assert len(found) > 20
        for options in found[::7]:
            assert ROW.estimate(ROW.plan(made.spec, options), shape) > 0


def test_it_is_chosen_for_what_it_serves():
    """Of a few taps the products are mostly with zeros, and filter_gradient is as quick."""
    for taps in (31, 127, 255):
        for length in (512, 2048, 8192):
            shape = layer(taps, length, n=8, channels=64)
            assert plan_layer(shape, operation="filter_gradient").spec.algorithm == "hankel_1d", str(shape)


@pytest.mark.parametrize("changes, words", [
    ({"dtype": "float32"}, "element type float32"), ({"layout": "NHWC"}, "layout NHWC"),
    ({"groups": 1}, "3 channels in a group"), ({"h": 4, "r": 2}, "a filter of 2"),
    ({"padding": ((1, 0), (3, 0))}, "padding above or below"), ({"stride": 2}, "stride and dilation"),
    ({"dilation": (1, 2)}, "stride and dilation"), ({"padding_mode": "constant", "padding_value": 0.5}, "border")])
def test_what_it_declines_in_words(changes, words):
    shape = replace(LAYER, **changes)
    found = {answer.algorithm: answer.reason for answer in explain(shape, operation="filter_gradient")
             if not answer.plan}
    assert words in found["hankel_1d"]
    assert plan_layer(shape, operation="filter_gradient").spec.algorithm != "hankel_1d"


def test_before_ampere_there_are_no_such_instructions():
    with pytest.raises(UnsupportedSpec, match="from sm_80 on"):
        planned(LAYER, arch="sm_75")
    assert planned(LAYER, arch="sm_80")


@pytest.mark.parametrize("values, words", [
    ({"vector": 3}, "vector = 3"), ({"vector": 8}, "multiple of 8"), ({"taps": 12}, "a multiple of 8"),
    ({"taps": 40}, "all 31"), ({"buffers": 1}, "2 to 8"), ({"buffers": 9}, "2 to 8"),
    ({"chunks": 2000}, "at most 1024"), ({"warps": 33}, "1024 threads"), ({"steps": 64}, "shared memory"),
    ({"warps": 32}, "shared memory")])
def test_plan_values_that_cannot_be(values, words):
    with pytest.raises(UnsupportedSpec, match=words):
        planned(LAYER, **values)


def test_asynchronous_copies_are_awaited_before_they_are_read():
    """The CPU device copies at once, so that only the text can show it: all but two of ``buffers`` items may be on
    their way."""
    for buffers in (2, 3, 5):
        text = render(planned(layer(9, 512), buffers=buffers)).text
        loop = text[text.index("for (index_t item"):]
        wait = loop.index("wc_copy_async_wait_group();")
        assert loop[wait:].split(";")[1].strip() == "__syncthreads()"
        assert wait < loop.index("copy(item") < loop.index("wc_load_matrices_")
        assert f"cp.async.wait_group {buffers - 2};" in text


# ---- the emitted text, executed

@on_the_cpu
@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("shape", [
    layer(4, 333, h=3), layer(31, 520, multiplier=2), layer(140, 700, padding=(0, 69), dtype="bfloat16"),
    layer(12, 5, padding=((0, 0), (40, 25)), h=2)], ids=str)
@pytest.mark.thin(12)
def test_defaults_with_every_border(shape, mode):
    shape = bordered(shape, mode)
    check(planned(shape), shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape, values", [
    (layer(1, 1, channels=1), {}), (layer(600, 700), {}), (layer(573, 777), {"taps": 64}), (layer(256, 40), {}),
    (layer(2, 2100, channels=1), {"steps": 3, "warps": 2}), (layer(255, 2056, channels=1), {"chunks": 3}),
    (layer(63, 129, padding=((0, 0), (0, 62))), {"chunks": 40}), (layer(7, 96, padding="valid"), {}),
    (layer(90, 264, multiplier=3, h=2, n=1), {"taps": 24, "buffers": 4, "steps": 1, "warps": 1}),
    (layer(8, 255, padding=((0, 0), (4, 4))), {"taps": 16, "warps": 4, "steps": 1})],
    ids=lambda value: str(value) if value else "")
@pytest.mark.thin(10)
def test_every_access_checked(shape, values, dtype):
    shape = replace(shape, dtype=dtype)
    check(planned(shape, **values), shape, mode=Mode.CHECK)


def drawn_layer(rng: np.random.Generator) -> ConvShape:
    taps = int(rng.choice([*range(1, 20), 31, 32, 63, 64, 100, 127, 140, int(rng.integers(141, 601))]))
    length = int(rng.choice([*range(1, 20), 8 * rng.integers(1, 150), rng.integers(1, 1200), rng.integers(1, 1200)]))
    left = int(rng.choice([0, taps // 2, taps - 1, rng.integers(0, taps + 9)]))
    right = max(int(rng.choice([0, taps - 1 - left, rng.integers(0, taps + 9)])), taps - length - left, 0)
    mode = (Border.ZEROS, *BORDERS)[rng.integers(len(BORDERS) + 1)] if left or right else Border.ZEROS
    return bordered(layer(taps, length, channels=int(rng.choice([1, 2, 5])), multiplier=int(rng.choice([1, 1, 3])),
                          h=int(rng.choice([1, 1, 4])), n=int(rng.integers(1, 4)), padding=((0, 0), (left, right)),
                          dtype=HALVES[rng.integers(2)]), mode)


def drawn_plan(rng: np.random.Generator, shape: ConvShape) -> KernelPlan:
    """A plan of values that go together, of every kind."""
    for _ in range(1000):
        taps = int(rng.choice([8 * rng.integers(1, 33), shape.s, shape.s, shape.s + rng.integers(0, 9)]))
        values = {"taps": taps, "chunks": int(rng.choice([1, 2, 5, 17])), "warps": int(rng.integers(1, 9)),
                  "steps": int(rng.integers(1, 9)), "buffers": int(rng.integers(2, 6)),
                  "vector": int(rng.choice([1, 2, 4, 8]))}
        try:
            return planned(shape, **values)
        except UnsupportedSpec:
            continue
    raise AssertionError(f"no plan values of {shape}")


@on_the_cpu
@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
def test_drawn_layers_and_plan_values(seed):
    rng = np.random.default_rng(settings.seed + seed)
    shape = drawn_layer(rng)
    check(planned(shape), shape, seed)
    check(drawn_plan(rng, shape), shape, seed, mode=Mode.CHECK if seed % 4 == 0 else Mode.FAST)


@on_the_cpu
@pytest.mark.thin(2)
def test_the_public_call_goes_through_it():
    shape = layer(12, 250, multiplier=2)
    arrays = Sequences(shape)
    dw = warpconv.conv1d_weight(arrays.x[:, :, 0], (6, 1, 12), arrays.dy[:, :, 0], padding="causal", groups=3,
                                algorithm="hankel_1d", device="cpu")
    arrays.filter_gradient.check(np.asarray(dw)[:, :, None], str(shape))


@on_the_cpu
def test_offsets_of_64_bits():
    shape = layer(19, 264, h=2, multiplier=2)
    spec = KernelSpec.of(shape, algorithm="hankel_1d", arch=planned(shape).spec.arch,
                         operation=Operation.FILTER_GRADIENT)
    made = plan(replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    check(made, shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("chunks", [1, 7])
@pytest.mark.thin(4)
def test_equal_inputs_give_equal_bits(chunks):
    shape = layer(31, 1000, n=5)
    made, arrays = planned(shape, chunks=chunks, warps=4, steps=4), Sequences(shape)
    first, second = (filter_gradient_by(made, arrays)[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()


@on_the_cpu
@pytest.mark.parametrize("taps", [1, 31])
def test_matrices_are_read_without_conflicts(taps):
    """Passes over the banks for one more item: four for four matrices, two for two, those of a row's copies; zeros
    beside the input are counted apart."""
    counts = []
    for n in (1, 2):
        shape = layer(taps, 512, channels=1, n=n)
        made = planned(shape, chunks=1, warps=1, steps=2, buffers=2, vector=8)
        report, = check(made, shape, mode=Mode.CHECK)
        counts.append(report.shared_wavefronts)
    numbers = made.numbers
    loads = 2 * (4 + sum(load.matrices for load in numbers.loads))
    copies = 2 * (numbers.span + 512) // 128
    assert loads <= counts[1] - counts[0] <= loads + 2 * copies


@on_the_cpu
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.thin(2)
def test_what_is_not_finite_reaches_no_other_channel(bad):
    """Other taps of its channel it may reach, as the plan says; those whose products hold it, surely."""
    shape = layer(31, 700, channels=3, multiplier=2, h=2)
    made, arrays = planned(shape), Sequences(shape)
    assert any("other taps of its channel" in note for note in made.notes)
    good = filter_gradient_by(made, arrays)[0]
    for name, at, reached in (("x", (1, 1, 1, 333), {2, 3}), ("x", (0, 2, 0, 0), {4, 5}), ("dy", (1, 4, 0, 699), {4})):
        spoilt = Sequences(shape)
        getattr(spoilt, name)[at] = bad
        got = filter_gradient_by(made, spoilt)[0]
        others = [k for k in range(shape.k) if k not in reached]
        assert got[others].tobytes() == good[others].tobytes()
        assert not np.isfinite(got[sorted(reached)].astype(np.float32)).any(), "each tap meets it"


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_120"), [
    shape for taps in (4, 31, 127, 255)
    for shape in (layer(taps, 2048, n=8, channels=768), layer(taps, 8191, n=8, channels=768, dtype="bfloat16"))]))
def test_defaults_do_not_spill(arch, shapes):
    for shape in shapes:
        for entry in build(planned(shape, arch=arch)).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (str(shape), entry)
