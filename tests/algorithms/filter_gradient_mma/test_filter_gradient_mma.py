"""``filter_gradient_mma``: what its planner owes, and its texts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests import cases, checks, emitted, gradients, settings
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.registry import algorithm
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation
from warpconv.runtime import arrays
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call import kernels
from warpconv.runtime.call.checks import Call

NAME, OLD = "filter_gradient_mma", "filter_gradient"
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.mark.thin(2)
@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_a_text_says_nothing_idle(case):
    assert not emitted.faults(render(case.plan()).text)


@pytest.mark.parametrize("batch", [8, 32])
@pytest.mark.parametrize("c, h, k, r, stride", [(64, 56, 64, 3, 1), (256, 56, 512, 1, 2), (512, 7, 512, 3, 1),
                                                (3, 224, 64, 7, 2), (2048, 7, 512, 1, 1)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_rule_takes_it_for_dense_layers(batch, c, h, k, r, stride, dtype):
    layer = ConvShape(n=batch, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=stride, dtype=dtype,
                      layout="NHWC")
    for arch in ("sm_80", "sm_90", "sm_120"):
        assert plan_layer(layer, operation="filter_gradient", arch=arch).spec.algorithm.startswith(f"{OLD}_")
    assert plan_layer(layer, operation="filter_gradient", arch="sm_75").spec.algorithm == OLD


@pytest.mark.parametrize("c, h, k, r, stride", [(64, 56, 64, 3, 1), (256, 56, 128, 1, 1), (128, 56, 128, 3, 2),
                                                (256, 14, 256, 3, 1), (96, 56, 192, 2, 2), (512, 7, 512, 3, 1)])
def test_the_rule_takes_it_for_dense_layers_in_float32(c, h, k, r, stride):
    """In two parts of TF32; not where a batch has so few pixels that sums by float32 units are more exact."""
    layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2 if r % 2 else 0, stride=stride, layout="NHWC")
    for arch in ("sm_80", "sm_90"):
        made = plan_layer(layer, operation="filter_gradient", arch=arch)
        assert (made.spec.algorithm, made.spec.numerics) == (NAME, Numerics.TF32X3)
    assert plan_layer(layer, operation="filter_gradient", precision="tf32").spec.numerics is Numerics.TF32
    for other, how in ((replace(layer, n=1, h=9, w=9), {}), (layer, {"precision": "ieee"}), (layer, {"arch": "sm_75"})):
        spec = plan_layer(other, operation="filter_gradient", **how).spec
        assert (spec.algorithm, spec.numerics) == (OLD, Numerics.FLOAT32)


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_places_in_an_image_past_2_31_outputs_are_counted_in_64_bits(precision):
    """They were cut to 32: taps were taken for ones beside the image."""
    layer = ConvShape(n=1, c=2, h=60000, w=60000, k=2, r=3, s=3, padding=1)
    text = render(plan_layer(layer, operation="filter_gradient", algorithm=NAME, precision=precision)).text
    assert "using index_t = long long;" in text and "int place" not in text
    assert text.count("const index_t place") == (2 if precision == "tf32x3" else 1)


@pytest.mark.parametrize("layer, joined", [
    (dict(c=128, h=56, w=56, k=128, groups=32), True), (dict(c=256, h=56, w=56, k=256, groups=32, stride=2), True),
    (dict(c=96, h=28, w=28, k=96, groups=32), True),
    (dict(c=64, h=256, w=256, k=3), False), (dict(c=32, h=128, w=128, k=2), False)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_rule_takes_it_for_small_groups_and_few_filters(layer, joined, dtype):
    """Of which it keeps some of a tile's products; tiles of float32 units took 10 to 40 times as long (an H200:
    2,490 us for 128 channels in 32 groups on 56x56, float16)."""
    layer = ConvShape(**{"n": 8, "r": 3, "s": 3, "padding": 1, "dtype": dtype, "layout": "NHWC", **layer})
    made, other = (plan_layer(layer, operation="filter_gradient", algorithm=name) for name in ("auto", OLD))
    assert made.spec.algorithm == NAME and (made.options.joined > 1) is joined
    assert (8 if dtype == "float16" else 3) * algorithm(NAME).slots(made, layer) < algorithm(OLD).slots(other, layer)


@on_cpu_device
@pytest.mark.parametrize("joined", [1, 2, 4])
def test_products_of_different_groups_are_left_out(joined):
    """NaN in one group's channels reaches its own filters alone."""
    rng = np.random.default_rng(9)
    layer = ConvShape(n=2, c=12, h=7, w=9, k=24, r=3, s=3, padding=1, groups=4, dtype="float32", layout="NHWC")
    x, dy = (rng.standard_normal(layer.layout.stored(sizes)).astype("f") for sizes in (
        layer.input_shape, layer.output_shape))
    x[..., 3:6] = np.nan        # of the second of four groups, which has the filters 6 to 11
    found = gradient(layer, x, dy, algorithm=NAME, numerics=Numerics.TF32, settings={
        "joined": joined, "tile_m": 16, "tile_n": 64, "warps_m": 1, "splits": 2})
    assert np.isnan(found[6:12]).all() and np.isfinite(found[:6]).all() and np.isfinite(found[12:]).all()


def gradient(layer, x, dy, **how):
    """The filter's gradient on the CPU device."""
    kernel = kernels.kernel_of(kernels.asked(layer, None, operation=Operation.FILTER_GRADIENT, **how))
    out = np.full(layer.weight_shape, np.nan, "f")
    operands = {name: arrays.view(array, name) for name, array in (("x", x), ("dy", dy), ("dw", out))}
    kernel.backend.run(Call(layer, operands), None, None)
    return out


@on_cpu_device
@pytest.mark.parametrize("numerics, least, most", [("tf32x3", 1e-9, 4e-7), ("tf32", 1e-5, 1e-3)])
@pytest.mark.parametrize("images", ["signed", pytest.param("non-negative", marks=pytest.mark.long)])
def test_how_exact_each_way_is(numerics, least, most, images):
    """Beside float64, and beside float32 units where it is to be as exact as these."""
    rng = np.random.default_rng(5)
    layer = ConvShape(n=3, c=20, h=25, w=21, k=24, r=3, s=3, padding=1, stride=2, layout="NHWC")
    x, dy = (rng.standard_normal(layer.layout.stored(sizes)).astype("f") for sizes in (
        layer.input_shape, layer.output_shape))
    x = np.abs(x) if images == "non-negative" else x
    exact = gradients.scattered(x.astype("d").transpose(0, 3, 1, 2), np.zeros(layer.weight_shape),
                                dy.astype("d").transpose(0, 3, 1, 2), layer)[1]

    def error(**how):
        return np.linalg.norm(gradient(layer, x, dy, **how) - exact) / np.linalg.norm(exact)

    made = error(algorithm=NAME, numerics=Numerics(numerics))
    assert least < made < most
    if numerics == "tf32x3":
        assert made <= error(algorithm=OLD, numerics=Numerics.IEEE)


@on_cpu_device
@pytest.mark.parametrize("precision", ["tf32x3", "tf32"])
def test_infinities_nan_and_what_the_scale_has_no_room_for(precision):
    rng = np.random.default_rng(3)
    layer = ConvShape(n=2, c=40, h=12, w=11, k=72, r=3, s=3, padding=1, layout="NHWC")
    x, dy = (rng.standard_normal(layer.layout.stored(sizes)).astype("f") for sizes in (
        layer.input_shape, layer.output_shape))
    x[0, 1, 2, 5], x[1, 5, 5, 7], dy[0, 6, 4, 3], dy[1, 3, 3, 0] = np.inf, np.nan, -np.inf, 1e36
    with np.errstate(all="ignore"):
        found = gradient(layer, x, dy, algorithm=NAME, numerics=Numerics(precision))
        exact = gradients.scattered(x.astype("d").transpose(0, 3, 1, 2), np.zeros(layer.weight_shape),
                                    dy.astype("d").transpose(0, 3, 1, 2), layer)[1]
    assert np.array_equal(np.isnan(found), np.isnan(exact)) and np.isnan(exact).any()
    for infinite in (np.isposinf, np.isneginf):
        assert np.array_equal(infinite(found), infinite(exact)) and infinite(exact).any()
    fine = np.isfinite(exact)
    bound = (1e-5 if precision == "tf32x3" else 2e-2) * np.maximum(np.abs(exact[fine]), 100)
    assert fine.mean() > 0.3 and (np.abs(found[fine] - exact[fine]) <= bound).all()


def test_refusals_are_in_words():
    def reason(settings=None, **layer):
        shape = ConvShape(**{"n": 2, "c": 64, "h": 14, "w": 14, "k": 64, "r": 3, "s": 3, "padding": 1,
                             "dtype": "float16", "layout": "NHWC", **layer})
        if settings is None:
            return next(c.reason for c in explain(shape, operation="filter_gradient") if c.algorithm == NAME)
        with pytest.raises(UnsupportedSpec) as caught:
            plan_layer(shape, operation="filter_gradient", algorithm=NAME, settings=settings)
        return str(caught.value)

    assert "issue slots" in reason(dtype="float32")
    assert "float32 units are not" in reason(dtype="float32", n=1, h=9, w=9)
    assert "vector_n = 8 does not divide" in reason({"vector_n": 8}, dtype="float32")
    assert "border reflect" in reason(padding_mode="reflect") and "groups of 1" in reason(groups=64)
    assert "issue slots" in reason(padding_mode="reflect", padding=0)
    assert "share out" in reason({"tile_m": 48, "warps_m": 2}) and "warps" in reason({"warps_m": 64})
    assert "stages" in reason({"stages": 1}) and "splits" in reason({"splits": 2000})
    assert "vector_n = 8 does not divide" in reason({"vector_n": 8}, c=20)
    assert "shared memory" in reason({"stages": 8, "tile_p": 256})
    assert "registers" in reason({"tile_m": 128, "tile_n": 128, "warps_m": 1, "warps_n": 1})
    assert "min_blocks" in reason({"min_blocks": 40})
    assert "a divisor of 16 groups" in reason({"joined": 3}, groups=16)


def test_a_limit_on_the_workspace_takes_fewer_shares():
    layer = ConvShape(n=32, c=64, h=28, w=28, k=64, r=3, s=3, padding=1, dtype="float16", layout="NHWC")
    whole = plan_layer(layer, operation="filter_gradient", algorithm=NAME)
    needed = whole.program.workspace_bytes(layer)
    less = plan_layer(layer, operation="filter_gradient", algorithm=NAME, workspace_limit=needed // 3)
    assert 1 <= less.options.splits < whole.options.splits
    assert less.program.workspace_bytes(layer) <= needed // 3


@pytest.mark.thin(2)
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, layers", settings.in_turn(("sm_80", "sm_90"), (
    (64, 56, 64, 3, 1), (512, 14, 2048, 1, 1), (3, 224, 64, 7, 2), (256, 28, 256, 3, 2))))
@pytest.mark.parametrize("dtype, precision", [
    ("float16", "float32"), pytest.param("float32", "float32", marks=pytest.mark.long),
    pytest.param("float32", "tf32", marks=pytest.mark.long)])
def test_defaults_do_not_spill(arch, layers, dtype, precision):
    for c, h, k, r, stride in layers:
        layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=stride, dtype=dtype,
                          layout="NHWC")
        made = plan_layer(layer, operation="filter_gradient", algorithm=NAME, arch=arch, precision=precision)
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
