"""Choosing an algorithm: the rule, its reasons, and the tuning table that overrules it."""

from dataclasses import replace

import numpy as np
import pytest

import warpconv
from warpconv.codegen import registry
from warpconv.codegen.errors import ArgumentError, UnsupportedSpec
from warpconv.codegen.resolution import plan
from warpconv.codegen.select import explain, plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Numerics


def shape(**changes):
    return ConvShape(**{**dict(c=1, h=512, w=512, k=1, r=5, s=5, padding=2), **changes})


def depthwise(**changes):
    return shape(**{**dict(n=8, c=32, k=32, groups=32, h=56, w=56, r=3, s=3, padding=1), **changes})


def sequence(**changes):
    return shape(**{**dict(n=8, c=512, k=512, groups=512, h=1, w=4096, r=1, s=4, padding=((0, 0), (3, 0))),
                    **changes})


@pytest.mark.parametrize("layer, chosen", [
    (sequence(), "wide"), (sequence(s=7), "wide"), (sequence(dtype="float16"), "toeplitz_1d"),
    (sequence(dtype="float16", s=2, padding=0), "wide"), (sequence(s=31), "sequence"),
    (sequence(layout="NHWC"), "sequence"),
    (shape(), "wide"), (shape(h=4096, w=4096), "wide"), (shape(stride=2), "wide"), (shape(dilation=2), "wide"),
    (shape(r=1, s=40, padding=20), "wide"), (shape(r=9, s=9, padding=4), "patch"),
    (shape(n=128, c=3, k=64, h=224, w=224, r=3, s=3), "taps_ieee"),
    (shape(c=64, k=64, h=56, w=56, r=3, s=3), "wgmma"),
    (depthwise(), "wide"), (depthwise(h=112, w=112, stride=2), "wide"), (depthwise(h=7, w=7), "staged"),
    (depthwise(h=14, w=14, k=64), "staged"), (depthwise(dtype="float16", h=7, w=7), "staged"),
    (depthwise(layout="NHWC"), "channels"), (depthwise(layout="NHWC", k=64, dtype="bfloat16"), "channels"),
    (shape(dtype="float16"), "toeplitz"), (shape(dtype="bfloat16", r=7, s=7, padding=3), "toeplitz"),
    (shape(dtype="float16", stride=2), "wide"), (shape(c=20, k=8, dtype="float16"), "taps"),
    (shape(c=40, k=8, dtype="float16"), "mma"),
    (shape(n=8, c=3, k=64, h=224, w=224, dtype="float16"), "taps_wgmma"),
    (shape(c=3, k=8, layout="NHWC"), "taps_ieee"),
    (shape(c=3, k=3, layout="NHWC"), "direct"), (shape(c=20, k=8, stride=2), "implicit_gemm")])
def test_the_rule(layer, chosen):
    assert select(layer).algorithm == chosen == plan_layer(layer).spec.algorithm


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sequences_are_planned_as_they_lie(dtype):
    """A row has nothing behind it to load ahead; in a column a thread has as many channels as registers allow, since no
    other columns share what it reads."""
    row = plan_layer(sequence(dtype=dtype), algorithm="wide").settings()
    assert (row["prefetch_rows"], row["stage_steps"], row["sub_block_rows"], row["warp_columns"]) == (1, 1, 1, 4)
    taller = plan_layer(sequence(dtype=dtype, h=56, padding=0), algorithm="wide").settings()
    assert taller["prefetch_rows"] > 1 and taller["sub_block_rows"] > 1
    column = sequence(dtype=dtype, h=4096, w=1, r=4, s=1, padding=((3, 0), (0, 0)), layout="NHWC")
    assert plan_layer(column, algorithm="channels").settings()["vector"] == 4
    assert plan_layer(replace(column, n=64, w=56), algorithm="channels").settings()["vector"] <= 2


@pytest.mark.parametrize("layer", [
    shape(h=16, w=16, r=3, s=3, padding=1), shape(h=56, w=56, r=11, s=11, padding=5), depthwise(r=7, s=7, padding=3),
    depthwise(h=7, w=7), shape(c=1, k=16, h=112, w=112),
    shape(c=1, k=64, h=28, w=28, r=3, s=3, padding=1), depthwise(dtype="float16", h=14, w=14)])
def test_the_batch_changes_neither_choice_nor_plan(layer):
    """One kernel serves them all, whichever batch was first."""
    made = {(plan.spec.algorithm, plan.options) for plan in (plan_layer(layer.with_batch(n)) for n in (1, 3, 128))}
    assert len(made) == 1
    lowered = [replace(layer, dtype="float32", n=n) for n in (1, 3, 128)]
    assert len({plan_layer(each, algorithm="im2col").options for each in lowered}) == 1


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("n, c, k, h", [(2, 320, 4, 64), (1, 128, 3, 256)])
def test_a_few_filters_of_many_channels_are_not_left_to_plain_kernels(n, c, k, h, layout):
    """The ends of generators and decoders, which `direct` and `reuse` took 60 to 120 times the floor for (H100)."""
    layer = ConvShape(n=n, c=c, h=h, w=h, k=k, r=3, s=3, padding=1, layout=layout)
    assert select(layer, "sm_90").algorithm in ("wgmma", "mma", "implicit_gemm")


def test_the_choice_of_float32_layers_knows_their_batch():
    large, few = (plan_layer(shape(n=n, c=64, k=64, h=112, w=112, r=3, s=3, padding=1), arch="sm_90") for n in (64, 1))
    assert large.spec.algorithm == few.spec.algorithm == "wgmma" and large.options != few.options
    assert few.options.pixels <= large.options.pixels


def test_tf32_takes_what_is_more_exact_where_that_is_quicker():
    """Float32 units are quicker than halves where splitting is most of the work (few filters in NCHW). Step by step
    it is the same kernel; who names the algorithm gets its tf32."""
    layer = ConvShape(n=32, c=3, h=224, w=224, k=12, r=3, s=3, stride=2, padding=1)
    made = plan_layer(layer, arch="sm_90", precision="tf32")
    assert made.spec.algorithm == "taps_ieee" and made.spec.numerics is Numerics.FLOAT32
    assert plan(select(layer, arch="sm_90", precision="tf32")).spec == made.spec
    assert plan_layer(layer, arch="sm_90", precision="tf32", algorithm="taps_float32").spec.numerics is Numerics.TF32
    few = ConvShape(n=32, c=64, h=56, w=56, k=256, r=1, s=1)
    assert plan_layer(few, arch="sm_90", precision="tf32").spec.numerics is Numerics.TF32


def test_explain_tells_every_candidates_reason_the_chosen_one_first():
    answers = explain(shape(stride=2))
    assert {answer.algorithm for answer in answers} == set(registry.ALGORITHMS)
    assert answers[0].algorithm == "wide" and answers[0].supported and "million issue slots" in answers[0].reason
    declined = next(answer for answer in answers if answer.algorithm == "reuse")
    assert not declined.supported and declined.estimate is None and "stride (2, 2)" in declined.reason
    asked = [answer for answer in explain(shape()) if answer.supported]
    ranked = [answer.estimate for answer in asked if not registry.ALGORITHMS[answer.algorithm].by_name]
    assert ranked == sorted(ranked) and {a.algorithm for a in asked} >= {"reuse", "wide", "direct", "im2win_basic"}
    assert all(registry.ALGORITHMS[answer.algorithm].by_name for answer in asked[len(ranked):])


def test_what_is_left_to_those_who_name_it_comes_last_and_is_never_chosen(monkeypatch):
    row = registry.ALGORITHMS["im2col"]
    monkeypatch.setitem(registry.ALGORITHMS, "im2col", replace(row, estimate=lambda plan, layer: 1.0))
    layer = shape(c=64, k=64, padding=1)
    answers = [answer for answer in explain(layer) if answer.supported]
    asked = [bool(registry.ALGORITHMS[answer.algorithm].by_name) for answer in answers]
    assert asked == sorted(asked) and asked.count(False) > 3
    assert next(row.by_name in answer.reason for answer in answers if answer.algorithm == "im2col")
    assert plan_layer(layer).spec.algorithm != "im2col" == plan_layer(layer, algorithm="im2col").spec.algorithm


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_where_nothing_serves_all_reasons_are_given(dtype):
    with pytest.raises(UnsupportedSpec) as caught:
        select(shape(dtype=dtype, weight_dtype="int8", padding=1, padding_mode="constant", padding_value=0.5))
    assert "reuse: " in caught.value.reason and "direct: " in caught.value.reason and dtype in str(caught.value)


@pytest.mark.parametrize("ask", [plan_layer, select])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_half_arithmetic_is_for_elements_of_16_bits(ask, layout):
    with pytest.raises(UnsupportedSpec, match="for float16 and bfloat16 layers") as caught:
        ask(depthwise(layout=layout), numerics="float16")
    assert caught.value.hint
    assert not any(answer.supported for answer in explain(depthwise(layout=layout), numerics="float16"))
    assert plan_layer(depthwise(layout="NHWC", dtype="float16"), numerics="float16").spec.numerics is Numerics.FLOAT16


def test_half_arithmetic_through_conv2d():
    x, w = np.ones((1, 4, 9, 9), np.float32), np.ones((4, 1, 3, 3), np.float32)
    with pytest.raises(UnsupportedSpec, match="for float16 and bfloat16 layers"):
        warpconv.conv2d(x, w, groups=4, accum_dtype="float16", device="cpu")


class Table:
    """A tuning table of one row."""

    def __init__(self, **known):
        self.known = known

    def best(self, layer, arch):
        assert str(arch) == "sm_80"
        return self.known.get(f"n{layer.n}")


def test_a_tuning_table_overrules_the_estimate_for_the_layers_it_knows():
    table = Table(n3=("direct", {"block_size_x": 32}), n4=("reuse", {"sub_block_rows": 14}))
    assert select(shape(n=3), "sm_80", table).algorithm == "direct"
    assert plan_layer(shape(n=3), arch="sm_80", tuning=table).options.block_size_x == 32
    assert plan_layer(shape(n=4), arch="sm_80", tuning=table).options.sub_block_rows == 14
    assert select(shape(n=5), "sm_80", table).algorithm == "wide"


def test_what_the_caller_names_overrules_the_table():
    table = Table(n1=("direct", {}))
    assert plan_layer(shape(), arch="sm_80", algorithm="reuse", tuning=table).spec.algorithm == "reuse"
    made = plan_layer(shape(), arch="sm_80", settings={"sub_block_rows": 20}, tuning=table)
    assert made.spec.algorithm == "wide" and made.options.sub_block_rows == 20
    made = plan_layer(shape(), arch="sm_80", settings={"exchange": "packed"}, tuning=table)     # which only one has
    assert made.spec.algorithm == "reuse" and made.options.exchange.value == "packed"


def test_named_algorithms_are_not_replaced():
    with pytest.raises(UnsupportedSpec) as caught:
        plan_layer(shape(stride=2), algorithm="reuse")
    assert caught.value.argument == "algorithm" and caught.value.value == "reuse"
    with pytest.raises(ArgumentError):
        registry.algorithm("none such")


def test_the_public_names_are_these():
    assert warpconv.select is select and warpconv.explain is explain and warpconv.plan_layer is plan_layer


def test_plan_values_without_an_algorithm_that_none_serves():
    """Nobody named an algorithm, so the answer is that of all that have the value."""
    layer = ConvShape(n=8, c=32, h=56, w=56, k=32, r=3, s=3, groups=32)
    with pytest.raises(UnsupportedSpec) as caught:
        plan_layer(layer, settings={"k_tile": 5})
    said = str(caught.value)
    assert caught.value.argument is None and caught.value.spec is None
    assert all(f"{name}: k_tile = 5 does not divide" in said for name in ("reuse", "direct", "tiled"))
    with pytest.raises(UnsupportedSpec, match="^reuse cannot serve") as caught:
        plan_layer(layer, algorithm="reuse", settings={"k_tile": 5})
    assert caught.value.value == "reuse"
    with pytest.raises(ArgumentError, match="exchange"):
        plan_layer(layer, settings={"exchange": "luck"})
