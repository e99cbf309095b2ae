"""``toeplitz_1d``: its plans, its matrix instructions, and its emitted text on the CPU device beside float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from tests.sequences import HALVES, Sequences, bordered, layer, lies_without_conflicts, place_of
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
LAYER = layer(31, 500)
STEPS = (Epilogue.BIAS, Epilogue.RELU)
MOST_SHARED = 48 * 1024


def planned(shape: ConvShape, epilogue: tuple[Epilogue, ...] = (), arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="toeplitz_1d", epilogue=epilogue, settings=values, arch=arch)


def check(made: KernelPlan, shape: ConvShape, *parts: int, mode: Mode = Mode.FAST) -> tuple[LaunchReport, ...]:
    """Every output of a layer with bias and relu beside windows and einsum; what the launches took."""
    arrays = Sequences(shape, *parts)
    kernel = checks.cpu_kernel(made, mode).for_border(shape.padding_value)
    out = np.full(shape.output_shape, np.nan, np.float32).astype(arrays.x.dtype)
    before = len(kernel.backend.reports)
    kernel(arrays.x, arrays.w, arrays.bias, out=out)
    arrays.outputs.check(out, f"{shape}, {made.settings()}")
    return tuple(kernel.backend.reports[before:])


# ---- plans

@pytest.mark.parametrize("before", range(0, 18, 3))
@pytest.mark.parametrize("taps", [1, 2, 7, 8, 9, 10, 31, 140, 1024])
def test_the_band_of_a_filter_fits_its_blocks_and_needs_them_all(taps, before):
    for columns in (8, 32):
        numbers = planned(layer(taps, 1100, padding=((0, 0), (before, taps))), columns=columns, tiles=1, sequences=1,
                          store_vector=1, weights="shared").numbers
        offset = numbers.first_weight - 7
        met = {(offset + n + s) // 8 for n in range(8) for s in range(taps)}    # row of output n's tap s
        assert met == set(range(numbers.slices)) and 0 <= offset < 8
        assert numbers.margin == before + offset and numbers.margin % 8 == 0
        assert (numbers.margin + numbers.skipped) % 64 == 0, "copies of a warp begin at a line"
        assert 2 * numbers.copy_words >= 8 * numbers.slices + 8, "each lane's words of the padded filter are there"


@pytest.mark.parametrize("columns", [8, 32])
@pytest.mark.parametrize("taps", [1, 2, 3, 9, 10, 17, 18, 31, 64, 100, 139, 255, 1024])
def test_every_product_is_made_once_after_its_blocks_are_loaded(taps, columns):
    for before in (0, 3, taps - 1):
        numbers = planned(layer(taps, 1100, padding=((0, 0), (before, taps))), columns=columns, tiles=1, sequences=1,
                          store_vector=1, weights="shared").numbers
        loaded, done = [], []
        for load in numbers.loads:
            assert 1 <= len(load.blocks) <= 2
            loaded += load.blocks
            for product in load.products:
                assert set(product.inputs) <= set(loaded) and set(product.inputs) & set(load.blocks)
                assert product.depth == 8 * len(product.inputs) in (8, 16)
                assert loaded.index(product.inputs[0]) >= len(loaded) - 4, "blocks are used while they are near"
                for at, band in zip(product.inputs, product.bands):
                    assert at == product.output + band
                    done.append((product.output, band))
        assert loaded == list(range(numbers.slices + columns // 8 - 1))
        assert sorted(done) == [(output, band) for output in range(columns // 8) for band in range(numbers.slices)]


@pytest.mark.parametrize("columns", [8, 32])
def test_matrices_of_the_text_lie_in_all_banks(columns):
    made = planned(LAYER, columns=columns, store_vector=1)
    text, row = render(made).text, columns // 8
    assert lies_without_conflicts(text, row) and (place_of(text, 8) != 8) == (row > 1)
    assert made.numbers.patch % (8 * row) == 0, "pieces change places within whole rows"


def test_defaults_fill_the_card_and_take_short_sequences_together():
    def of(taps: int, length: int, **changes: Any) -> Any:
        return planned(layer(taps, length, **{"n": 8, "channels": 768, **changes})).options

    assert of(4, 2048).columns == 8 and of(127, 8192).columns == 32
    assert of(4, 40).sequences == 4 and of(4, 40).warps == 1 and of(4, 8192).sequences == 1
    assert of(4, 2048).vector == 8 and of(4, 2047).vector == 1 and of(4, 2044).vector == 4
    assert of(4, 2047).store_vector == 1 and of(127, 8192).store_vector == 8
    assert of(600, 2048).weights.value == "shared" and of(500, 2048).weights.value == "registers"
    assert of(4, 8192).tiles > of(4, 8192, n=1, channels=1).tiles == 1


@pytest.mark.thin(4)
@pytest.mark.parametrize("taps", [1, 4, 63, 140, 571, 1024])
@pytest.mark.parametrize("length", [1, 129, 2**20])
def test_defaults_and_the_whole_space_can_be_had(taps, length):
    for shape in (layer(taps, length), layer(taps, length, channels=1, n=1, h=3)):
        made = planned(shape)
        assert made.numbers.shared_bytes <= MOST_SHARED and made.program.refusal(shape) is None
        row = ALGORITHMS["toeplitz_1d"]
        had = 0
        for options in row.space(made.spec):
            try:
                found = row.plan(made.spec, options)
            except UnsupportedSpec:
                continue
            had += 1
            assert found.numbers.shared_bytes <= MOST_SHARED and row.estimate(found, shape) > 0
        assert had > 20


@pytest.mark.thin(2)
@pytest.mark.parametrize("changes, words", [
    ({"dtype": "float32"}, "element type float32"), ({"layout": "NHWC"}, "layout NHWC"),
    ({"groups": 1}, "3 channels in a group"), ({"h": 4, "r": 2}, "a filter of 2"),
    ({"padding": ((1, 0), (3, 0))}, "padding above or below"), ({"stride": 2}, "stride and dilation"),
    ({"dilation": (1, 2)}, "stride and dilation"), ({"s": 1025, "w": 2000}, "1025 taps"),
    ({"padding_mode": "constant", "padding_value": 0.1}, "is no float16")])
def test_layers_that_it_declines_in_words(changes, words):
    answers = {answer.algorithm: answer.reason for answer in explain(replace(LAYER, **changes)) if not answer.plan}
    assert words in answers["toeplitz_1d"]
    assert plan_layer(replace(LAYER, **changes)).spec.algorithm != "toeplitz_1d"


def test_before_ampere_there_are_no_such_instructions():
    with pytest.raises(UnsupportedSpec, match="from sm_80 on"):
        planned(LAYER, arch="sm_75")
    assert planned(LAYER, arch="sm_80")


@pytest.mark.parametrize("values, words", [
    ({"vector": 3}, "vector = 3"), ({"vector": 8}, "multiple of 8"), ({"columns": 16}, "columns = 16"),
    ({"store_vector": 4}, "store_vector = 4"), ({"store_vector": 8}, "of 1 or 2 elements"),
    ({"columns": 32, "store_vector": 8}, "Q a multiple of 8"), ({"warps": 8, "sequences": 5}, "40 warps"),
    ({"columns": 32, "tiles": 8, "warps": 8}, "shared memory"), ({"min_blocks": 1000}, "min_blocks = 1000")])
def test_plan_values_that_cannot_be(values, words):
    with pytest.raises(UnsupportedSpec, match=words):
        planned(LAYER, **values)


def test_asynchronous_copies_are_awaited_before_they_are_read():
    """The CPU device copies at once, so that only the text can show it."""
    text = render(planned(layer(9, 512))).text
    kernel = text[text.index("__global__"):]
    wait = kernel.index("wc_copy_async_wait_group();")
    assert kernel[wait:].split(";")[1].strip() == "__syncthreads()"
    assert kernel.index("wc_copy_async_commit();") < wait < kernel.index("wc_load_matrices_")


# ---- the emitted text, executed

@on_the_cpu
@pytest.mark.parametrize("mode", list(Border))
@pytest.mark.parametrize("shape", [
    layer(4, 333, h=3), layer(31, 520, multiplier=2), layer(140, 700, padding=(0, 69), dtype="bfloat16"),
    layer(12, 5, padding=((0, 0), (40, 25)), h=2)], ids=str)
@pytest.mark.thin(12)
def test_defaults_with_every_border(shape, mode):
    shape = bordered(shape, mode)
    check(planned(shape, STEPS), shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape, values", [
    (layer(1, 1, channels=1), {}), (layer(1024, 1300), {}), (layer(573, 777), {"columns": 32}), (layer(1024, 40), {}),
    (layer(2, 2100, channels=1), {"tiles": 3, "warps": 2}), (layer(255, 2056, channels=1), {"tiles": 2}),
    (layer(63, 129, padding=((0, 0), (0, 62))), {"sequences": 4, "warps": 2}), (layer(7, 96, padding="valid"), {}),
    (layer(90, 264, multiplier=3, h=2, n=1), {"columns": 32, "store_vector": 8, "tiles": 1, "warps": 1}),
    (layer(8, 255, padding=((0, 0), (4, 4))), {"columns": 32, "store_vector": 2, "weights": "shared"})],
    ids=lambda value: str(value) if value else "")
@pytest.mark.thin(20)
def test_every_access_checked(shape, values, dtype):
    shape = replace(shape, dtype=dtype)
    check(planned(shape, STEPS, **values), shape, mode=Mode.CHECK)


def drawn_layer(rng: np.random.Generator) -> ConvShape:
    taps = int(rng.choice([*range(1, 20), 31, 32, 63, 64, 100, 127, 140, int(rng.integers(141, 1025))]))
    length = int(rng.choice([*range(1, 20), 8 * rng.integers(1, 150), rng.integers(1, 1200), rng.integers(1, 1200)]))
    left = int(rng.choice([0, taps // 2, taps - 1, rng.integers(0, taps + 9)]))
    right = max(int(rng.choice([0, taps - 1 - left, rng.integers(0, taps + 9)])), taps - length - left, 0)
    mode = (Border.ZEROS, *Border)[rng.integers(len(Border) + 1)] if left or right else Border.ZEROS
    return bordered(layer(taps, length, channels=int(rng.choice([1, 2, 5])), multiplier=int(rng.choice([1, 1, 3])),
                          h=int(rng.choice([1, 1, 4])), n=int(rng.integers(1, 4)), padding=((0, 0), (left, right)),
                          dtype=HALVES[rng.integers(2)]), mode)


def drawn_plan(rng: np.random.Generator, shape: ConvShape) -> KernelPlan:
    """A plan of values that go together, of every kind."""
    for _ in range(1000):
        values = {"columns": int(rng.choice([8, 32])), "warps": int(rng.integers(1, 9)),
                  "tiles": int(rng.integers(1, 9)), "sequences": int(rng.integers(1, 6)),
                  "vector": int(rng.choice([1, 2, 4, 8])), "store_vector": int(rng.choice([1, 2, 8])),
                  "weights": str(rng.choice(["registers", "shared"])), "min_blocks": int(rng.integers(1, 3))}
        try:
            return planned(shape, STEPS, **values)
        except UnsupportedSpec:
            continue
    raise AssertionError(f"no plan values of {shape}")


@on_the_cpu
@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
def test_drawn_layers_and_plan_values(seed):
    rng = np.random.default_rng(settings.seed + seed)
    shape = drawn_layer(rng)
    check(planned(shape, STEPS), shape, seed)
    check(drawn_plan(rng, shape), shape, seed, mode=Mode.CHECK if seed % 4 == 0 else Mode.FAST)


@on_the_cpu
def test_offsets_of_64_bits():
    shape = layer(19, 264, h=2, multiplier=2)
    spec = KernelSpec.of(shape, algorithm="toeplitz_1d", arch=planned(shape).spec.arch, epilogue=STEPS)
    made = plan(replace(spec, index_bits=64), shape=shape)
    assert "index_t = long long" in render(made).text
    check(made, shape, mode=Mode.CHECK)


@on_the_cpu
@pytest.mark.parametrize("taps, columns, passes", [(4, 8, 3), (31, 8, 3), (31, 32, 4)])
def test_matrices_are_read_without_conflicts(taps, columns, passes):
    """Passes over the banks for one more tile of a warp. Four matrices whose rows are neighbours are seventeen pieces:
    three passes here (four on a GPU); rows of four pieces have none in common. Copies of a line are one pass, but
    lanes may be of two lines, and this device counts zeros apart."""
    more, loads = [], 0
    for length in (16 * columns, 32 * columns):
        shape = layer(taps, length, channels=1, n=1)
        made = planned(shape, STEPS, columns=columns, warps=1, tiles=2, sequences=1, vector=8, weights="registers",
                       store_vector=8 if columns == 32 else 2)
        assert made.numbers.outside == "zeros"
        report, = check(made, shape, mode=Mode.CHECK)
        more.append(report.shared_wavefronts)
        loads = sum(passes if len(load.blocks) == 2 else 2 for load in made.numbers.loads)
    copies = 16 * columns * 2 // 128
    assert loads - copies <= more[1] - more[0] <= loads + 2 * copies


@on_the_cpu
def test_each_input_is_read_once_and_outputs_leave_in_whole_sectors():
    shape = layer(31, 1024, channels=2)
    report, = check(planned(shape, STEPS, columns=32, warps=2, tiles=1, vector=8, store_vector=8), shape,
                    mode=Mode.CHECK)
    tensor = 2 * shape.n * shape.c * shape.w
    assert report.buffers["x"].load_bytes == tensor and report.buffers["y"].store_bytes == tensor
    assert report.buffers["y"].store_sectors == tensor // 32


@on_the_cpu
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("taps, columns", [(5, 8), (31, 32)])
@pytest.mark.thin(4)
def test_what_is_not_finite_reaches_the_outputs_whose_windows_have_it(taps, columns, bad):
    """A zero beside the filter times an infinity is no number: such sums are made anew."""
    shape = layer(taps, 700, multiplier=2, h=2)
    made = planned(shape, columns=columns, store_vector=2)
    arrays, kernel = Sequences(shape), checks.cpu_kernel(made)
    good = np.array(kernel(arrays.x, arrays.w))
    for at in (0, 333, 699):
        spoilt = arrays.x.copy()
        spoilt[1, 1, 1, at] = bad
        got = np.array(kernel(spoilt, arrays.w))
        reached = np.zeros(shape.output_shape, bool)
        reached[1, 2:4, 1, at:at + taps] = True
        assert np.array_equal(~np.isfinite(got.astype(np.float32)), reached)
        assert np.abs(got[~reached] - good[~reached]).astype(np.float32).max() < 0.1


@on_the_cpu
@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_the_input_go_through_it(dtype):
    """That of a causal layer is a filter turned round, whose windows reach after a sequence."""
    shape = layer(12, 250, dtype=dtype)
    arrays = Sequences(shape)
    dx = warpconv.conv1d_input((2, 3, 250), arrays.w[:, 0], arrays.dy[:, :, 0], padding=(11, 0), groups=3,
                               algorithm="toeplitz_1d", device="cpu")
    turned = replace(shape, padding=((0, 0), (0, 11)))
    of = Sequences(turned)
    of.x, of.w, of.bias = arrays.dy, arrays.w[..., ::-1], np.zeros_like(of.bias)
    of.relu = False
    of.outputs.check(np.asarray(dx)[:, :, None], str(shape))
    assert plan_layer(shape, algorithm="toeplitz_1d", operation="data_gradient").spec.algorithm == "toeplitz_1d"


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_120"), [
    shape for taps in (4, 31, 127, 255)
    for shape in (layer(taps, 2048, n=8, channels=768), layer(taps, 8191, n=8, channels=768, dtype="bfloat16"))]))
def test_defaults_do_not_spill(arch, shapes):
    for shape in shapes:
        for entry in build(planned(shape, STEPS, arch=arch)).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (str(shape), entry)
