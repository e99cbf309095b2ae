"""``sequence``: its plans, what its text reads and how, and the text on the CPU device beside float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from tests.sequences import Sequences, bordered, layer, pixels, place_of
from warpconv.codegen.algorithms.sequence.plan import MOST_TAPS
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
ROW = ALGORITHMS["sequence"]
STEPS = (Epilogue.BIAS, Epilogue.RELU)
FLOAT: dict[str, Any] = {"dtype": "float32"}
LAYER, PIXELS = layer(31, 500, **FLOAT), pixels(31, 500, **FLOAT)
MOST_SHARED = 99 * 1024


def planned(shape: ConvShape, epilogue: tuple[Epilogue, ...] = (), arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="sequence", epilogue=epilogue, settings=values, arch=arch)


def run(made: KernelPlan, arrays: Sequences, mode: Mode = Mode.FAST) -> tuple[np.ndarray, tuple[LaunchReport, ...]]:
    """The outputs that a plan's text makes in memory full of NaN, in the layout's order, and what the launches took."""
    kernel = checks.cpu_kernel(made, mode).for_border(arrays.shape.padding_value)
    out = np.full(arrays.stored("dy").shape, np.nan, np.float32)
    before = len(kernel.backend.reports)
    bias = (arrays.bias,) if Epilogue.BIAS in made.spec.epilogue else ()
    kernel(arrays.stored("x"), arrays.w, *bias, out=out)
    return out, tuple(kernel.backend.reports[before:])


def check(made: KernelPlan, shape: ConvShape, *parts: int, mode: Mode = Mode.FAST) -> tuple[LaunchReport, ...]:
    """Every output of a layer with bias and relu beside windows and einsum; what the launches took."""
    arrays = Sequences(shape, *parts)
    out, reports = run(made, arrays, mode)
    arrays.outputs.check(arrays.logical(out), f"{shape}, {made.settings()}")
    return reports


# ---- plans

@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5, 12, 13, 20, 21, 31, 63, 127, 140, 255, 1024])
def test_every_tap_is_multiplied_once(taps, before):
    for outputs in (8, 16):
        made = planned(layer(taps, 1100, padding=((0, 0), (before, taps)), **FLOAT), outputs=outputs)
        found = made.numbers
        lead = min(4, found.offset + taps) - found.offset if found.lead else 0
        assert lead + found.rounds * found.ring + found.tail == taps and found.tail < found.ring
        assert found.margin == before + found.offset and found.margin % 4 == 0 and 0 <= found.offset < 4
        last = found.offset + taps - 1 + found.span - 1         # the last element that a window has
        copied = found.chunks * made.options.vector
        assert last < copied and place_of(render(made).text, copied // 4 - 1) < found.patch // 4
        made = planned(pixels(taps, 1100, padding=((0, 0), (before, taps)), **FLOAT), outputs=outputs)
        assert made.numbers.rounds * outputs + made.numbers.tail == taps and made.numbers.tail < outputs
        assert made.numbers.pixels >= made.numbers.span + taps - 1


@pytest.mark.parametrize("outputs", [8, 16])
def test_neighbouring_threads_read_other_banks(outputs):
    """Eight threads' pieces of 16 bytes lie in the eight banks of them, from any piece on."""
    text = render(planned(LAYER, outputs=outputs)).text
    places = [place_of(text, member * outputs // 4 + piece) for piece in range(40) for member in range(8)]
    assert all({at % 8 for at in places[i:i + 8]} == set(range(8)) for i in range(0, len(places), 8))
    for channels in (8, 16, 32):
        made = planned(pixels(31, 500, channels=32, **FLOAT), outputs=outputs, sequences=channels).numbers
        banks = [run * made.run + channel for run in range(32 // channels) for channel in range(channels)]
        assert {at % 32 for at in banks} == set(range(32))


def test_defaults_know_short_sequences_few_of_them_and_long_filters():
    def of(taps: int, length: int, make: Any = layer, **changes: Any) -> Any:
        return planned(make(taps, length, **{"n": 8, "channels": 768, **FLOAT, **changes})).options

    assert of(31, 4096).team == 64 and of(31, 4096).sequences == 1 and of(31, 4096).outputs == 16
    assert of(31, 64).team == 4 and of(31, 64).sequences == 16
    assert of(31, 4096, n=1, channels=1).outputs == 8
    assert of(31, 4096).vector == 4 and of(31, 4095).vector == 1 and of(31, 4094).vector == 2
    assert of(31, 4095).store_vector == 1 and of(31, 4096).store_vector == 4
    assert of(31, 4096, pixels).sequences == 32 and of(255, 4096, pixels).sequences == 8
    assert of(31, 4096, pixels, channels=5).sequences == 8 and of(31, 4096, pixels, channels=5).vector == 1
    assert of(31, 40, pixels).team < of(31, 4096, pixels).team


@pytest.mark.thin(6)
@pytest.mark.parametrize("make", [layer, pixels])
@pytest.mark.parametrize("taps", [1, 4, 63, 140, 571, 1024, 8192])
@pytest.mark.parametrize("length", [1, 129, 2**20])
def test_defaults_and_the_whole_space_can_be_had(taps, length, make):
    taps = min(taps, MOST_TAPS[make(1, 1).layout])
    for shape in (make(taps, length, **FLOAT), make(taps, length, channels=1, n=1, h=3, **FLOAT)):
        made = planned(shape)
        assert made.numbers.shared_bytes <= MOST_SHARED and made.program.refusal(shape) is None
        found = list(ROW.space(made.spec))
        assert len(found) > 3
        for options in found[::5]:
            assert ROW.estimate(ROW.plan(made.spec, options), shape) > 0


def test_it_is_chosen_for_long_filters():
    for make in (layer, pixels):
        for taps in (21, 63, 255, 1000):
            shape = make(taps, 2048, n=8, channels=64, **FLOAT)
            assert plan_layer(shape).spec.algorithm == "sequence", str(shape)
            assert plan_layer(shape, operation="data_gradient").spec.algorithm == "sequence", str(shape)
    assert plan_layer(layer(4, 2048, n=8, channels=64, **FLOAT)).spec.algorithm == "wide"
    assert plan_layer(pixels(4, 2048, n=8, channels=64, column=True, **FLOAT)).spec.algorithm == "sequence"


@pytest.mark.thin(2)
@pytest.mark.parametrize("changes, words", [
    ({"dtype": "float16"}, "element type float16"), ({"groups": 1}, "3 channels in a group"),
    ({"h": 4, "r": 2}, "a filter of 2"), ({"padding": ((1, 0), (3, 0))}, "padding above or below"),
    ({"stride": 2}, "stride and dilation"), ({"dilation": (1, 2)}, "stride and dilation"),
    ({"s": 8193, "w": 9000}, "8193 taps"),
    ({"s": 1025, "w": 2000, "layout": "NHWC"}, "1025 taps"), ({"k": 6, "layout": "NHWC"}, "2 filters a group")])
def test_layers_that_it_declines_in_words(changes, words):
    answers = {answer.algorithm: answer.reason for answer in explain(replace(LAYER, **changes)) if not answer.plan}
    assert words in answers["sequence"]
    assert plan_layer(replace(LAYER, **changes)).spec.algorithm != "sequence"


def test_before_ampere_there_are_no_asynchronous_copies():
    with pytest.raises(UnsupportedSpec, match="from sm_80 on"):
        planned(LAYER, arch="sm_75")
    assert planned(LAYER, arch="sm_80")


@pytest.mark.parametrize("shape, values, words", [
    (LAYER, {"vector": 3}, "vector = 3"), (replace(LAYER, w=502), {"vector": 4}, "multiple of 4"),
    (LAYER, {"outputs": 32}, "outputs = 32"), (LAYER, {"team": 3}, "team = 3"),
    (LAYER, {"store_vector": 2}, "store_vector = 2"), (LAYER, {"team": 256, "sequences": 5}, "1280 threads"),
    (layer(1024, 2000, **FLOAT), {"team": 32, "sequences": 16}, "shared memory"),
    (LAYER, {"min_blocks": 1000}, "min_blocks = 1000"), (PIXELS, {"sequences": 12}, "sequences = 12"),
    (PIXELS, {"store_vector": 4}, "store_vector = 4"), (PIXELS, {"vector": 2}, "vector = 2"),
    (pixels(31, 500, channels=7, **FLOAT), {"vector": 4}, "C = 7"),
    (pixels(1, 1, channels=524296, **FLOAT), {"sequences": 8}, "65537 blocks for the channels")])
def test_plan_values_that_cannot_be(shape, values, words):
    with pytest.raises(UnsupportedSpec, match=words):
        planned(shape, **values)


@pytest.mark.parametrize("shape", [LAYER, PIXELS])
def test_asynchronous_copies_are_awaited_before_they_are_read(shape):
    """The CPU device copies at once, so that only the text can show it."""
    text = render(planned(shape)).text
    kernel = text[text.index("__global__"):]
    wait = kernel.index("wc_copy_async_wait_group();")
    assert kernel[wait:].split(";")[1].strip() == "__syncthreads()"
    assert kernel.index("wc_copy_async_commit();") < wait < kernel.index("float window[")


# ---- the emitted text, executed

@on_the_cpu
@pytest.mark.parametrize("mode", list(Border))
@pytest.mark.parametrize("shape", [
    layer(4, 333, h=3), layer(31, 520, multiplier=2), layer(12, 5, padding=((0, 0), (40, 25)), h=2),
    pixels(31, 333, h=3, channels=20), pixels(140, 300, channels=9, padding=(0, 69), column=True)], ids=str)
@pytest.mark.thin(15)
def test_defaults_with_every_border(shape, mode):
    shape = bordered(replace(shape, **FLOAT), mode)
    check(planned(shape, STEPS), shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("shape, values", [
    (layer(1, 1, channels=1), {}), (layer(1024, 1300), {}), (layer(573, 777), {"outputs": 16}),
    (layer(1024, 40), {}), (layer(2, 2100, channels=1), {"outputs": 16, "team": 32, "sequences": 1}),
    (layer(63, 129, padding=((0, 0), (0, 62))), {"team": 4, "sequences": 16}), (layer(7, 96, padding="valid"), {}),
    (layer(3, 64, padding=((0, 0), (1, 1))), {"outputs": 8}), (layer(2, 64, padding=((0, 0), (2, 0))), {}),
    (pixels(1, 1, channels=8), {}), (pixels(1024, 1300, channels=8), {}), (pixels(255, 700, column=True), {}),
    (pixels(90, 264, channels=24, h=2, n=1), {"outputs": 8, "sequences": 16}), (pixels(7, 96, padding="valid"), {}),
    (pixels(64, 255, padding=((0, 0), (4, 60)), channels=33), {"outputs": 32, "sequences": 32, "team": 2})],
    ids=lambda value: str(value) if value else "")
@pytest.mark.thin(20)
def test_every_access_checked(shape, values):
    shape = replace(shape, **FLOAT)
    check(planned(shape, STEPS, **values), shape, mode=Mode.CHECK)


def drawn_layer(rng: np.random.Generator) -> ConvShape:
    taps = int(rng.choice([*range(1, 26), 31, 32, 63, 64, 100, 127, 140, int(rng.integers(141, 1025))]))
    length = int(rng.choice([*range(1, 20), 8 * rng.integers(1, 150), rng.integers(1, 1200), rng.integers(1, 1200)]))
    left = int(rng.choice([0, taps // 2, taps - 1, rng.integers(0, taps + 9)]))
    right = max(int(rng.choice([0, taps - 1 - left, rng.integers(0, taps + 9)])), taps - length - left, 0)
    mode = (Border.ZEROS, *Border)[rng.integers(len(Border) + 1)] if left or right else Border.ZEROS
    sizes: dict[str, Any] = {"channels": int(rng.choice([1, 2, 5, 8, 20])), "n": int(rng.integers(1, 4)),
                             "padding": ((0, 0), (left, right)), **FLOAT}
    if rng.integers(2):
        return bordered(layer(taps, length, multiplier=int(rng.choice([1, 1, 3])), h=int(rng.choice([1, 1, 4])),
                              **sizes), mode)
    column = taps > 1 and bool(rng.integers(2))
    return bordered(pixels(taps, length, h=1 if column else int(rng.choice([1, 1, 4])), column=column, **sizes), mode)


def drawn_plan(rng: np.random.Generator, shape: ConvShape) -> KernelPlan:
    """A plan of values that go together, of every kind."""
    for _ in range(1000):
        values = {"outputs": int(rng.choice([8, 16, 32])), "team": int(rng.choice([2, 4, 8, 16, 32, 64])),
                  "sequences": int(rng.choice([1, 2, 3, 5, 8, 16, 32])), "vector": int(rng.choice([1, 2, 4])),
                  "store_vector": int(rng.choice([1, 4])), "min_blocks": int(rng.integers(1, 3))}
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
@pytest.mark.thin(2)
@pytest.mark.parametrize("layout", ["NCL", "NLC"])
def test_the_public_call_goes_through_it(layout):
    shape = layer(12, 250, **FLOAT)
    arrays = Sequences(shape)
    x = arrays.x[:, :, 0] if layout == "NCL" else np.ascontiguousarray(arrays.x[:, :, 0].swapaxes(1, 2))
    y = warpconv.conv1d(x, arrays.w[:, :, 0], arrays.bias, padding="causal", groups=3, activation="relu",
                        algorithm="sequence", layout=layout, device="cpu")
    arrays.outputs.check(np.asarray(y if layout == "NCL" else y.swapaxes(1, 2))[:, :, None], str(shape))


@on_the_cpu
@pytest.mark.parametrize("shape", [layer(19, 264, h=2, multiplier=2, **FLOAT), pixels(19, 264, h=2, **FLOAT)], ids=str)
def test_offsets_of_64_bits(shape):
    spec = KernelSpec.of(shape, algorithm="sequence", arch=planned(shape).spec.arch, epilogue=STEPS)
    made = plan(replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    check(made, shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("outputs", [8, 16])
def test_pieces_are_read_and_sums_stored_without_conflicts(outputs):
    """Passes over the banks for one more sequence: four for the pieces of a warp, one for a piece of taps; and what
    leaves is whole sectors."""
    counts = []
    for n in (1, 2):
        shape = layer(40, 32 * outputs, channels=1, n=n, padding=((0, 0), (0, 39)), **FLOAT)
        made = planned(shape, STEPS, outputs=outputs, team=32, sequences=1)
        report, = check(made, shape, mode=Mode.CHECK)
        counts.append(report.shared_wavefronts)
        assert report.buffers["y"].store_sectors == 4 * shape.n * shape.q // 32
    pieces, row = 10, outputs // 4
    reads = 4 * (pieces + row) + pieces + 4 * row + 4 * row       # windows, taps, sums to shared memory and back
    copies = 4 * (made.numbers.chunks // 32 + 1) + 2
    assert reads - 8 <= counts[1] - counts[0] <= reads + copies + 4 * row + 12


@on_the_cpu
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("make", [layer, pixels])
@pytest.mark.thin(2)
def test_what_is_not_finite_reaches_the_outputs_whose_windows_have_it(make, bad):
    shape = make(31, 300, channels=8, padding=(0, 11), **FLOAT)
    made, arrays = planned(shape), Sequences(shape)
    good = arrays.logical(run(made, arrays)[0])
    arrays.x[1, 3, 0, 150] = bad
    found = arrays.logical(run(made, arrays)[0])
    reached = np.zeros(shape.output_shape, bool)
    reached[1, 3, 0, 150 + 11 - 30:150 + 11 + 1] = True
    assert np.array_equal(found[~reached], good[~reached]) and not np.isfinite(found[reached]).any()


@on_the_cpu
@pytest.mark.parametrize("make", [layer, pixels])
def test_bits_are_those_of_sums_in_order(make):
    """As other float32 units have them that add the taps one after the other."""
    shape = make(63, 400, channels=8, **FLOAT)
    arrays = Sequences(shape)
    direct = plan_layer(shape, algorithm="direct")
    assert run(planned(shape), arrays)[0].tobytes() == run(direct, arrays)[0].tobytes()


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_120"), [
    make(taps, length, n=8, channels=768, **FLOAT)
    for taps in (4, 31, 127, 255) for make in (layer, pixels) for length in (2048, 8191)]))
def test_windows_stay_in_registers(arch, shapes):
    for shape in shapes:
        made = planned(shape, arch=arch)
        entry, = build(made).compiled.entries
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (made.spec, entry)
