"""``hankel`` on the CPU device: drawn layers and plan values beside float64, and what it declines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import checks, gradients, settings
from warpconv.codegen.algorithms.hankel.numbers import HankelOptions, make_numbers, most_rows
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.registry import GRADIENTS
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call import kernels
from warpconv.runtime.call.checks import Call
from warpconv.runtime.devices.cpu import Mode, backend

ROW = GRADIENTS["hankel"]
LAYER = ConvShape(n=4, c=64, h=40, w=40, k=64, r=7, s=7, padding=3, groups=64, dtype="float16", layout="NHWC")
BORDERS = (Border.ZEROS, Border.ZEROS, Border.REPLICATE, Border.REFLECT, Border.SYMMETRIC, Border.CIRCULAR)


def drawn_layer(rng: np.random.Generator) -> ConvShape:
    channels = int(rng.choice([8, 16, 40, 72]))
    return gradients.draw_shape(
        rng, c=channels, k=channels, groups=channels, layout=Layout.NHWC, n=int(rng.integers(1, 6)),
        dtype=(DType.FLOAT16, DType.BFLOAT16)[int(rng.integers(2))], h=lambda: int(rng.integers(1, 30)),
        w=lambda: int(rng.integers(1, 40)), r=lambda: int(rng.integers(1, 12)), s=lambda: int(rng.integers(1, 12)),
        padding_mode=lambda: BORDERS[int(rng.integers(len(BORDERS)))])


def drawn_values(rng: np.random.Generator, shape: ConvShape) -> dict[str, int]:
    """Plan values that go together, of every kind."""
    own = plan_layer(shape, operation="filter_gradient", algorithm="hankel")
    spec, options = own.spec, own.options
    for _ in range(1000):
        folds = int(rng.choice([1, 1, 2]))
        tap_rows = int(rng.integers(1, min(spec.r, 8) + 1))
        tap_columns = int(rng.integers(1, min(spec.s, 8 // folds) + 1))
        most = most_rows(spec, folds, tap_rows)
        if most < spec.stride[0]:
            continue
        rows = int(rng.integers(1, min(most, 8) // spec.stride[0] + 1)) * spec.stride[0]
        columns = 8 * int(rng.integers(1, 9))
        made = HankelOptions(chunks=int(rng.integers(-(-shape.q // columns), 40)), octets=int(rng.choice([1, 2, 3, 4])),
                             columns=columns, across=int(rng.integers(1, 4)) if columns >= shape.q else 1,
                             warps=int(rng.integers(1, 4)), rows=rows, buffers=int(rng.integers(2, 5)), folds=folds,
                             tap_rows=tap_rows, tap_columns=tap_columns)
        try:
            ROW.plan(spec, made)
        except UnsupportedSpec:
            continue
        return {name: getattr(made, name) for name in vars(options)}
    raise AssertionError(f"no plan values of {shape}")


@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
@pytest.mark.long
@pytest.mark.parametrize("seed", range(80))
def test_drawn_layers_and_plan_values(seed):
    rng = np.random.default_rng(settings.seed + seed)
    shape = drawn_layer(rng)
    made = gradients.make(rng, shape)
    made.check("dw", device="cpu", algorithm="hankel")
    plan = plan_layer(shape, operation="filter_gradient", algorithm="hankel", settings=drawn_values(rng, shape))
    loaded, _ = backend.load(plan, mode=Mode.CHECK if seed % 4 == 0 else Mode.FAST)
    result = np.full(shape.weight_shape, np.nan, np.float32).astype(made.w.dtype)
    given = {"x": made.x, "dy": made.dy, "dw": result}
    operands = {a.name: arrays.view(given[a.name], a.name) for a in plan.program.arguments if a.name in given}
    loaded.run(Call(shape, operands), None, None)
    made.dw.check(result, f"{shape} with {plan.settings()}")


def test_it_is_chosen_for_what_it_serves():
    for taps in (3, 5, 7, 13):
        for size in (7, 14, 56, 112):
            for stride in (1, 2):
                shape = replace(LAYER, h=size, w=size, r=taps, s=taps, padding=taps // 2, stride=stride)
                # of the smallest images most of its matrices would be empty
                empty = size == 7 and (stride == 2 and taps <= 7 or taps == 3)
                found = plan_layer(shape, operation="filter_gradient").spec.algorithm
                assert found == ("filter_gradient" if empty else "hankel"), str(shape)


@pytest.mark.parametrize("change, words", [
    ({"dtype": "float32"}, "element type"), ({"layout": "NCHW"}, "layout"),
    ({"c": 36, "k": 36, "groups": 36}, "8 channels"),
    ({"k": 128}, "depthwise"), ({"stride": 5}, "stride 5"), ({"dilation": 9, "h": 80, "w": 80}, "dilation 9"),
    ({"padding_mode": "constant", "padding_value": 0.5}, "border constant")])
def test_what_it_declines_in_words(change, words):
    answers = explain(replace(LAYER, **change), operation="filter_gradient")
    found = {answer.algorithm: answer.reason for answer in answers if not answer.plan}
    assert words in found["hankel"]
    assert plan_layer(replace(LAYER, **change), operation="filter_gradient").spec.algorithm == "filter_gradient"


@pytest.mark.parametrize("values, words", [
    ({"rows": 3}, "at most 2 with 7 rows"), ({"folds": 3}, "1 or 2 stretches"), ({"columns": 12}, "multiple of 8"),
    ({"buffers": 1}, "2 to 8"), ({"octets": 5}, "1, 2, 3, 4 or 8"), ({"chunks": 2000}, "at most 1024"),
    ({"tap_columns": 9}, "taps of 7 x 7"), ({"warps": 8}, "matrices of a row"),
    ({"columns": 256, "warps": 4}, "shared memory")])
def test_plan_values_that_cannot_be(values, words):
    with pytest.raises(UnsupportedSpec, match=words):
        plan_layer(LAYER, operation="filter_gradient", algorithm="hankel", settings=values)


def test_a_sequence_is_taken_a_row_at_a_time():
    line = replace(LAYER, h=1, w=500, r=1, s=4, padding=((0, 0), (3, 0)))
    assert plan_layer(line, operation="filter_gradient", algorithm="hankel").options.rows == 1
    assert plan_layer(LAYER, operation="filter_gradient").options.rows == 2


def test_strips_of_an_image_have_a_share_each():
    plan = plan_layer(LAYER, operation="filter_gradient", algorithm="hankel",
                      settings={"columns": 8, "chunks": 5, "warps": 1})
    assert plan.program.refusal(LAYER) is None
    assert "Q" in str(plan.program.refusal(replace(LAYER, w=41)))


@pytest.mark.long
def test_arrays_at_any_address_have_another_kernel():
    for shape, operation in ((LAYER, "filter_gradient"), (replace(LAYER, stride=2), "data_gradient")):
        ask = kernels.asked(shape, None, operation=operation)
        kernel = kernels.kernel_of(ask)
        assert any(a.multiple_of > 2 for a in kernel.program.arguments if a.is_pointer)
        found = kernels.anywhere(kernel, ask)
        assert found.spec.operation is kernel.spec.operation
        assert all(a.admits(2) for a in found.program.arguments if a.is_pointer)


def test_every_row_of_gradients_is_met_once():
    """Rows of a step and slots of its window: each pair of an input row and a row of gradients that a tap joins is
    there exactly once, over all steps of an image."""
    for stride, dilation, r in ((1, 1, 7), (1, 1, 8), (2, 1, 7), (2, 3, 4), (3, 2, 5), (4, 1, 8), (1, 2, 4)):
        shape = replace(LAYER, stride=(stride, 1), dilation=(dilation, 1), r=r, h=64, padding=((0, 0), (3, 3)))
        plan = plan_layer(shape, operation="filter_gradient", algorithm="hankel")
        made, options = make_numbers(plan.spec, plan.options), plan.options
        met = []
        for step in range(-(-((shape.p - 1) * stride + (options.tap_rows - 1) * dilation + 1) // options.rows)):
            for i in range(options.rows):
                for slot in range(made.slots):
                    p = (step + 1) * made.fresh - made.slots + slot
                    tap, between = divmod(i - options.rows + (made.slots - slot) * stride, dilation)
                    if 0 <= p < shape.p and 0 <= tap < options.tap_rows and not between:
                        assert step * options.rows + i - p * stride == tap * dilation
                        met.append((p, tap))
        assert sorted(met) == [(p, tap) for p in range(shape.p) for tap in range(options.tap_rows)]


def test_the_text_reads_sixteen_bytes():
    text = render(plan_layer(LAYER, operation="filter_gradient")).text
    assert "wc_copy_async_zfill_16" in text and "wc_mma_halves_sparse_32" in text and "__ldg(x" not in text


@pytest.mark.long
@pytest.mark.nvcc
def test_defaults_do_not_spill():
    for taps, stride in ((3, 1), (7, 1), (5, 2)):
        plan = plan_layer(replace(LAYER, r=taps, s=taps, padding=taps // 2, stride=stride), algorithm="hankel",
                          operation="filter_gradient")
        for entry in build(plan).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
