"""``sequence_gradient``: its plans, and its emitted text on the CPU device beside float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from tests.sequences import Sequences, bordered, filter_gradient_by, layer, pixels
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
from warpconv.runtime.devices.cpu import Mode

on_the_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
ROW = GRADIENTS["sequence_gradient"]
FLOAT: dict[str, Any] = {"dtype": "float32"}
LAYER, PIXELS = layer(31, 500, **FLOAT), pixels(31, 500, **FLOAT)
BORDERS = tuple(mode for mode in Border if mode is not Border.CONSTANT)
MOST_SHARED = 99 * 1024


def planned(shape: ConvShape, arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, operation="filter_gradient", algorithm="sequence_gradient", settings=values, arch=arch)


def check(made: KernelPlan, shape: ConvShape, *parts: int, mode: Mode = Mode.FAST) -> None:
    """A gradient beside windows and einsum."""
    arrays = Sequences(shape, *parts)
    arrays.filter_gradient.check(filter_gradient_by(made, arrays, mode)[0], f"{shape} with {made.settings()}")


# ---- plans

@pytest.mark.parametrize("before", range(5))
@pytest.mark.parametrize("taps", [1, 2, 7, 8, 9, 31, 33, 63, 140, 256, 600])
def test_blocks_have_all_taps_and_few_besides(taps, before):
    made = planned(layer(taps, 700, padding=((0, 0), (before, taps)), **FLOAT))
    found = made.numbers
    assert found.margin == before + found.offset and found.margin % 4 == 0 and 0 <= found.offset < 4
    had = found.tap_tiles * found.block_taps
    assert taps + found.offset <= had < taps + found.offset + made.options.taps * found.tap_tiles
    assert 4 * (found.rounds * found.ring_quads + found.tail) == made.options.run and found.tail < found.ring_quads
    last = found.span + found.block_taps - 1        # elements that the windows of an item have
    assert last <= found.buffer - found.span == found.chunks * made.options.vector
    found = planned(pixels(taps, 700, **FLOAT)).numbers
    assert taps <= found.tap_tiles * found.block_taps and found.pixels == found.span + found.block_taps


def test_neighbouring_threads_read_other_banks():
    """By default: eight lanes' pieces of 16 bytes lie in the eight banks of them; channels of a pixel and of the pixels
    of other groups of taps in all 32."""
    for length in (40, 250, 512, 1000, 4096):
        pieces = planned(layer(31, length, **FLOAT)).options.run // 4
        assert {lane * pieces % 8 for lane in range(8)} == set(range(8))
    for channels in (8, 16, 32):
        for taps in (8, 16, 32):
            step = planned(pixels(255, 500, channels=32, **FLOAT), channels=channels, taps=taps, groups=4, runs=1,
                           run=taps).numbers.step
            banks = [group * step + channel for group in range(32 // channels) for channel in range(channels)]
            assert {at % 32 for at in banks} == set(range(32))


@pytest.mark.thin(6)
@pytest.mark.parametrize("make", [layer, pixels])
@pytest.mark.parametrize("taps", [1, 4, 63, 140, 256, 257, 600])
@pytest.mark.parametrize("length", [1, 129, 2**20])
def test_defaults_and_the_whole_space_can_be_had(taps, length, make):
    for shape in (make(taps, length, **FLOAT), make(taps, length, channels=1, n=1, h=3, **FLOAT)):
        made = planned(shape)
        assert made.numbers.shared_bytes <= MOST_SHARED and made.program.refusal(shape) is None
        found = list(ROW.space(made.spec))
        assert len(found) > 5
        for options in found[::7]:
            assert ROW.estimate(ROW.plan(made.spec, options), shape) > 0


def test_few_sequences_are_summed_in_shares():
    for make in (layer, pixels):
        many, few = (planned(make(31, 4096, n=64, channels=c, **FLOAT)).options.chunks for c in (4096, 8))
        assert few > 4 * many


def test_it_is_chosen_for_what_it_serves():
    for make in (layer, pixels):
        for taps in (31, 127, 255):
            for length in (512, 2048, 8192):
                shape = make(taps, length, n=8, channels=64, **FLOAT)
                found = plan_layer(shape, operation="filter_gradient").spec.algorithm
                assert found == "sequence_gradient", str(shape)


@pytest.mark.parametrize("changes, words", [
    ({"dtype": "float16"}, "element type float16"), ({"groups": 1}, "3 channels in a group"),
    ({"h": 4, "r": 2}, "a filter of 2"), ({"padding": ((1, 0), (3, 0))}, "padding above or below"),
    ({"stride": 2}, "stride and dilation"), ({"dilation": (1, 2)}, "stride and dilation"),
    ({"padding_mode": "constant", "padding_value": 0.5}, "border"), ({"k": 6, "layout": "NHWC"}, "2 filters a group")])
def test_what_it_declines_in_words(changes, words):
    shape = replace(LAYER, **changes)
    found = {answer.algorithm: answer.reason for answer in explain(shape, operation="filter_gradient")
             if not answer.plan}
    assert words in found["sequence_gradient"]
    assert plan_layer(shape, operation="filter_gradient").spec.algorithm != "sequence_gradient"


def test_before_ampere_there_are_no_asynchronous_copies():
    with pytest.raises(UnsupportedSpec, match="from sm_80 on"):
        planned(LAYER, arch="sm_75")
    assert planned(LAYER, arch="sm_80")


@pytest.mark.parametrize("shape, values, words", [
    (LAYER, {"vector": 3}, "vector = 3"), (LAYER, {"taps": 10}, "taps = 10"), (PIXELS, {"taps": 12}, "taps = 12"),
    (LAYER, {"channels": 8}, "channels = 8"), (PIXELS, {"channels": 4}, "channels = 4"),
    (LAYER, {"run": 10}, "run = 10"), (PIXELS, {"taps": 16, "run": 24}, "run = 24"), (LAYER, {"runs": 48}, "runs = 48"),
    (LAYER, {"chunks": 2000}, "at most 1024"), (LAYER, {"groups": 16, "runs": 128}, "2048 threads"),
    (LAYER, {"runs": 128, "run": 160, "groups": 1}, "shared memory"),
    (pixels(31, 500, channels=7, **FLOAT), {"vector": 4}, "C = 7"),
    (layer(600000, 600000, padding="valid", **FLOAT), {"taps": 8, "groups": 1, "runs": 32, "run": 20}, "75000 blocks")])
def test_plan_values_that_cannot_be(shape, values, words):
    with pytest.raises(UnsupportedSpec, match=words):
        planned(shape, **values)


@pytest.mark.parametrize("shape", [LAYER, PIXELS])
def test_asynchronous_copies_are_awaited_before_they_are_read(shape):
    """The CPU device copies at once, so that only the text can show it: the next item is on its way where one is
    multiplied, and is asked for when all have used what was there."""
    text = render(planned(shape)).text
    loop = text[text.index("for (index_t item"):]
    wait = loop.index("wc_copy_async_wait_group();")
    assert loop[wait:].split(";")[1].strip() == "__syncthreads()"
    assert wait < loop.index("copy(item + 1, 1 - buffer)") < loop.index("float ring[")
    assert "cp.async.wait_group 0;" in text


# ---- the emitted text, executed

@on_the_cpu
@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("shape", [
    layer(4, 333, h=3), layer(31, 520, multiplier=2), layer(12, 5, padding=((0, 0), (40, 25)), h=2),
    pixels(31, 333, h=3, channels=20), pixels(140, 300, channels=9, padding=(0, 69), column=True)], ids=str)
@pytest.mark.thin(12)
def test_defaults_with_every_border(shape, mode):
    shape = bordered(replace(shape, **FLOAT), mode)
    check(planned(shape), shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("shape, values", [
    (layer(1, 1, channels=1), {}), (layer(600, 700), {}), (layer(573, 777), {"groups": 4}), (layer(256, 40), {}),
    (layer(2, 2100, channels=1), {"runs": 64}), (layer(255, 2056, channels=1), {"chunks": 3}),
    (layer(63, 129, padding=((0, 0), (0, 62))), {"chunks": 40}), (layer(7, 96, padding="valid"), {}),
    (layer(90, 264, multiplier=3, h=2, n=1), {"taps": 24, "run": 8, "runs": 32, "groups": 2}),
    (pixels(1, 1, channels=8), {}), (pixels(600, 700, channels=8), {}), (pixels(255, 700, column=True), {"chunks": 3}),
    (pixels(90, 264, channels=24, h=2, n=1), {"taps": 8, "groups": 3, "run": 16, "channels": 16}),
    (pixels(7, 96, padding="valid"), {}), (pixels(33, 255, channels=33), {"channels": 32, "taps": 16, "run": 16})],
    ids=lambda value: str(value) if value else "")
@pytest.mark.thin(20)
def test_every_access_checked(shape, values):
    shape = replace(shape, **FLOAT)
    check(planned(shape, **values), shape, mode=Mode.CHECK)


def drawn_layer(rng: np.random.Generator) -> ConvShape:
    taps = int(rng.choice([*range(1, 20), 31, 32, 63, 64, 100, 127, 140, int(rng.integers(141, 601))]))
    length = int(rng.choice([*range(1, 20), 8 * rng.integers(1, 150), rng.integers(1, 1200), rng.integers(1, 1200)]))
    left = int(rng.choice([0, taps // 2, taps - 1, rng.integers(0, taps + 9)]))
    right = max(int(rng.choice([0, taps - 1 - left, rng.integers(0, taps + 9)])), taps - length - left, 0)
    mode = (Border.ZEROS, *BORDERS)[rng.integers(len(BORDERS) + 1)] if left or right else Border.ZEROS
    sizes: dict[str, Any] = {"channels": int(rng.choice([1, 2, 5, 8, 20])), "n": int(rng.integers(1, 4)),
                             "padding": ((0, 0), (left, right)), **FLOAT}
    if rng.integers(2):
        return bordered(layer(taps, length, multiplier=int(rng.choice([1, 1, 3])), h=int(rng.choice([1, 1, 4])),
                              **sizes), mode)
    column = taps > 1 and bool(rng.integers(2))
    return bordered(pixels(taps, length, h=1 if column else int(rng.choice([1, 1, 4])), column=column, **sizes), mode)


def drawn_plan(rng: np.random.Generator, shape: ConvShape) -> KernelPlan:
    """A plan of values that go together, of every kind."""
    rows = shape.layout.value == "NCHW"
    for _ in range(1000):
        taps = int(rng.choice([8, 12, 16, 20, 24, 32]))
        values = {"taps": taps, "chunks": int(rng.choice([1, 2, 5, 17])), "groups": int(rng.integers(1, 9)),
                  "runs": int(rng.integers(1, 5)) * (32 if rows else 1),
                  "run": int(rng.integers(1, 12)) * (4 if rows else taps), "vector": int(rng.choice([1, 2, 4])),
                  "channels": 1 if rows else int(rng.choice([8, 16, 32]))}
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
@pytest.mark.thin(2)
@pytest.mark.parametrize("layout", ["NCL", "NLC"])
def test_the_public_call_goes_through_it(layout):
    shape = layer(12, 250, **FLOAT)
    arrays = Sequences(shape)
    x, dy = arrays.x[:, :, 0], arrays.dy[:, :, 0]
    if layout == "NLC":
        x, dy = (np.ascontiguousarray(array.swapaxes(1, 2)) for array in (x, dy))
    dw = warpconv.conv1d_weight(x, (3, 1, 12), dy, padding="causal", groups=3, algorithm="sequence_gradient",
                                layout=layout, device="cpu")
    arrays.filter_gradient.check(np.asarray(dw)[:, :, None], str(shape))


@on_the_cpu
@pytest.mark.parametrize("shape", [layer(19, 264, h=2, multiplier=2, **FLOAT), pixels(19, 264, h=2, **FLOAT)], ids=str)
def test_offsets_of_64_bits(shape):
    spec = KernelSpec.of(shape, algorithm="sequence_gradient", arch=planned(shape).spec.arch,
                         operation=Operation.FILTER_GRADIENT)
    made = plan(replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    check(made, shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("make", [layer, pixels])
@pytest.mark.parametrize("chunks", [1, 7])
@pytest.mark.thin(4)
def test_equal_inputs_give_equal_bits(chunks, make):
    shape = make(31, 1000, n=5, **FLOAT)
    made, arrays = planned(shape, chunks=chunks), Sequences(shape)
    first, second = (filter_gradient_by(made, arrays)[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()


@on_the_cpu
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("make", [layer, pixels])
@pytest.mark.thin(2)
def test_what_is_not_finite_reaches_no_other_channel(make, bad):
    """Other taps of its channel it may reach, as the plan says; those whose products hold it, surely."""
    shape = make(31, 700, channels=8, h=2, **FLOAT)
    made, arrays = planned(shape), Sequences(shape)
    assert any("other taps of its channel" in note for note in made.notes)
    good = filter_gradient_by(made, arrays)[0]
    for name, at in (("x", (1, 1, 1, 333)), ("x", (0, 2, 0, 0)), ("dy", (1, 4, 0, 699))):
        spoilt = Sequences(shape)
        getattr(spoilt, name)[at] = bad
        got = filter_gradient_by(made, spoilt)[0]
        others = [k for k in range(shape.k) if k != at[1]]
        assert got[others].tobytes() == good[others].tobytes()
        assert not np.isfinite(got[at[1]]).any(), "each tap meets it"


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_120"), [
    make(taps, length, n=8, channels=768, **FLOAT)
    for taps in (4, 31, 127, 255) for make in (layer, pixels) for length in (2048, 8191)]))
def test_rings_stay_in_registers(arch, shapes):
    for shape in shapes:
        made = planned(shape, arch=arch)
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (made.spec, entry)
