"""``phases_mma``: what its planner owes, and its texts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import cases, checks, emitted, gradients, settings
from warpconv.codegen import adjoint
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.numerics import LEAST_PRODUCTS, Numerics
from warpconv.codegen.parts.phases import phases_of
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation
from warpconv.runtime import arrays
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call import kernels
from warpconv.runtime.call.checks import Call

NAME = "phases_mma"
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.mark.thin(2)
@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_a_text_says_nothing_idle(case):
    assert not emitted.faults(render(case.plan()).text)


@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_every_tap_is_in_one_phase(case):
    """And meets there the output that it has."""
    made = case.plan()
    spec, places = made.spec, made.numbers.places
    phases = phases_of(spec)
    assert sorted(place.before + place.index for place in places) == list(range(math.prod(spec.taps)))
    assert [phase.taps for phase in phases] == sorted((phase.taps for phase in phases), reverse=True)
    assert len({phase.first for phase in phases}) == math.prod(spec.stride)


@pytest.mark.thin(3)
@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
@pytest.mark.parametrize("channels", [40, 30, 21])
def test_the_transposed_layers_bias(channels):
    rng = np.random.default_rng(3)
    x, w, bias = (rng.standard_normal(sizes).astype("e") for sizes in ((2, 5, 4, 24), (24, channels, 3, 3),
                                                                       (channels,)))
    given = {"stride": 2, "padding": 1, "output_padding": 1, "layout": "NHWC", "device": "cpu"}
    found, plain = (warpconv.conv_transpose2d(x, w, b, **given, algorithm=NAME) for b in (bias, None))
    whole = warpconv.conv_transpose2d(*(a.astype("f") for a in (x, w, bias)), **given)
    assert np.abs(found - whole).max() <= 2e-3 * np.abs(whole).max() and (found != plain).any()


@pytest.mark.parametrize("c, h, k, r", [(128, 56, 128, 3), (256, 56, 512, 1), (1024, 14, 2048, 1), (512, 14, 512, 3)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_rule_takes_it_for_dense_layers(c, h, k, r, dtype):
    layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=2, dtype=dtype, layout="NHWC")
    for arch in ("sm_80", "sm_100", "sm_120"):
        assert plan_layer(layer, operation="data_gradient", arch=arch).spec.algorithm == NAME
    assert plan_layer(layer, operation="data_gradient", arch="sm_90").spec.algorithm == "phases_wgmma"
    assert plan_layer(layer, operation="data_gradient", arch="sm_75").spec.algorithm == "phases_gemm"


@pytest.mark.parametrize("c, h, k, r", [(128, 56, 128, 3), (256, 56, 512, 1), (1024, 14, 2048, 1), (512, 14, 512, 3),
                                         (96, 56, 192, 2), (384, 14, 768, 2)])
def test_the_rule_takes_it_for_dense_layers_in_float32(c, h, k, r):
    """ResNet-50's and ConvNeXt's, in two parts of TF32; not where a pixel's sum is too short to be as exact by it."""
    layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2 if r % 2 else 0, stride=2, layout="NHWC")
    for arch in ("sm_80", "sm_90"):
        made = plan_layer(layer, operation="data_gradient", arch=arch)
        assert (made.spec.algorithm, made.spec.numerics) == (NAME, Numerics.TF32X3)
    assert plan_layer(layer, operation="data_gradient", precision="tf32").spec.numerics is Numerics.TF32
    short = plan_layer(replace(layer, k=LEAST_PRODUCTS - 8), operation="data_gradient").spec
    assert (short.algorithm, short.numerics) == ("phases_gemm", Numerics.FLOAT32)
    assert plan_layer(layer, operation="data_gradient", precision="ieee").spec.algorithm == "phases_gemm"


@pytest.mark.parametrize("sizes, products", [
    (dict(r=3, s=3, stride=2), 40), (dict(r=2, s=2, stride=2), 40), (dict(r=1, s=1, stride=2), 40),
    (dict(r=5, s=5, stride=2), 160), (dict(r=5, s=3, stride=(2, 1)), 240), (dict(r=4, s=3, stride=2, dilation=2), 480),
    (dict(r=3, s=3, stride=(1, 2), dilation=(3, 1)), 120)])
def test_the_shortest_sum_is_of_the_phase_of_the_fewest_taps(sizes, products):
    layer = ConvShape(c=24, h=33, w=33, k=80, groups=2, padding=1, **sizes)
    assert adjoint.least_products(layer) == products
    spec = KernelSpec.of(layer, algorithm=NAME, arch=Arch(9, 0), operation=Operation.DATA_GRADIENT)
    taps = [phase.taps for phase in phases_of(spec)]
    assert 40 * min(filter(None, taps)) == products


@on_cpu_device
@pytest.mark.parametrize("numerics, least, most", [("tf32x3", 1e-9, 4e-7), ("tf32", 1e-5, 1e-3)])
@pytest.mark.parametrize("stride", [2, pytest.param((3, 1), marks=pytest.mark.long)])
def test_how_exact_each_way_is(numerics, least, most, stride):
    """Beside float64, and beside float32 units where it is to be as exact as these."""
    rng = np.random.default_rng(5)
    w, dy = rng.standard_normal((160, 24, 3, 3)).astype("f"), rng.standard_normal((2, 6, 5, 160)).astype("f")
    layer = ConvShape(n=2, c=24, h=11 if stride == 2 else 16, w=9 if stride == 2 else 5, k=160, r=3, s=3, padding=1,
                      stride=stride, layout="NHWC")
    x = np.zeros((2, 24, layer.h, layer.w))
    exact = gradients.scattered(x, w.astype("d"), dy.astype("d").transpose(0, 3, 1, 2), layer)[0].transpose(0, 2, 3, 1)

    def error(**how):
        kernel = kernels.kernel_of(kernels.asked(layer, None, operation=Operation.DATA_GRADIENT, **how))
        out = np.full((2, layer.h, layer.w, 24), np.nan, "f")
        operands = {name: arrays.view(array, name) for name, array in (("dy", dy), ("w", w), ("dx", out))}
        kernel.backend.run(Call(layer, operands), None, None)
        return np.linalg.norm(out - exact) / np.linalg.norm(exact)

    made = error(algorithm=NAME, numerics=Numerics(numerics))
    assert least < made < most
    if numerics == "tf32x3":
        assert made <= error(algorithm="phases", numerics=Numerics.IEEE)


@on_cpu_device
def test_infinities_nan_and_what_the_scale_has_no_room_for():
    """In gradients and in filters; where nothing is not finite, sums beside it are as they were."""
    rng = np.random.default_rng(3)
    w, dy = rng.standard_normal((128, 16, 3, 3)).astype("f"), rng.standard_normal((1, 7, 7, 128)).astype("f")
    dy[0, 1, 2, 5], dy[0, 5, 5, 7], dy[0, 3, 3, 0], w[3, 5, 1, 1], w[7, 0, 0, 2] = np.inf, np.nan, 1e36, -np.inf, np.nan
    given = {"stride": 2, "padding": 1, "layout": "NHWC", "device": "cpu"}
    with np.errstate(all="ignore"):
        found = warpconv.conv2d_input((1, 13, 13, 16), w, dy, **given, algorithm=NAME)
        exact = gradients.scattered(np.zeros((1, 16, 13, 13)), w.astype("d"), dy.astype("d").transpose(0, 3, 1, 2),
                                    ConvShape(c=16, h=13, w=13, k=128, r=3, s=3, padding=1, stride=2))[0]
        exact = exact.transpose(0, 2, 3, 1)
    assert np.array_equal(np.isnan(found), np.isnan(exact)) and np.isnan(exact).any()
    for infinite in (np.isposinf, np.isneginf):
        assert np.array_equal(infinite(found), infinite(exact)) and infinite(exact).any()
    fine = np.isfinite(exact)
    error = np.abs(found[fine] - exact[fine])
    assert fine.mean() > 0.3 and (error <= 1e-5 * np.maximum(np.abs(exact[fine]), 100)).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_layers_in_nchw_go_by_way_of_nhwc(dtype):
    """Where that is sooner: not where there is little work. All demands on addresses are gone with it."""
    layer = ConvShape(n=32, c=256, h=28, w=28, k=256, r=3, s=3, padding=1, stride=2, dtype=dtype)
    made = plan_layer(layer, operation="data_gradient", algorithm=NAME if dtype == "float32" else "auto", arch="sm_80")
    assert made.spec.algorithm == NAME and made.spec.layout is Layout.NCHW
    assert [step.entry for step in made.program.steps] == ["dy_to_nhwc", "turn_filter", made.spec.name, "dx_to_nchw"]
    assert all(a.multiple_of == 1 for a in made.program.arguments if a.name in ("dy", "dx"))
    inner = plan_layer(replace(layer, layout=Layout.NHWC), operation="data_gradient", algorithm=NAME, arch="sm_80")
    images = layer.dtype.itemsize * 32 * 256 * (28 * 28 + 14 * 14)
    assert made.program.workspace_bytes(layer) == inner.program.workspace_bytes(layer) + images
    little = replace(layer, n=1, c=16, k=16, h=7, w=7)
    assert plan_layer(little, operation="data_gradient").spec.algorithm == "phases_gemm"


def test_refusals_are_in_words():
    def reason(settings=None, **layer):
        shape = ConvShape(**{"n": 2, "c": 64, "h": 15, "w": 15, "k": 64, "r": 3, "s": 3, "padding": 1, "stride": 2,
                             "dtype": "float16", "layout": "NHWC", **layer})
        if settings is None:
            return next(c.reason for c in explain(shape, operation="data_gradient") if c.algorithm == NAME)
        with pytest.raises(UnsupportedSpec) as caught:
            plan_layer(shape, operation="data_gradient", algorithm=NAME, settings=settings)
        return str(caught.value)

    assert "float32 units are not served" in reason(dtype="float32")
    assert "border reflect" in reason(padding_mode="reflect") and "groups of 1" in reason(groups=64)
    assert "two at least" in reason(k=65) and "in 1089 phases" in reason(stride=33)
    assert "share out" in reason({"tile_m": 48, "warps_m": 2}) and "warps" in reason({"warps_m": 64})
    assert "stages" in reason({"stages": 1}) and "rows of banks" in reason({"tile_k": 128})
    assert "shared memory" in reason({"tile_m": 256, "tile_n": 256, "warps_m": 4, "warps_n": 4, "stages": 8})
    assert "registers" in reason({"tile_m": 128, "tile_n": 128, "warps_m": 1, "warps_n": 1})
    assert "min_blocks" in reason({"min_blocks": 40}) and "at least 16" in reason({"tile_m": 8})


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, layers", settings.in_turn(("sm_80", "sm_90"), (
    (128, 56, 128, 3), (1024, 14, 2048, 1), (96, 56, 192, 3), (512, 14, 512, 3))))
@pytest.mark.parametrize("dtype, precision", [
    ("float16", "float32"), pytest.param("float32", "float32", marks=pytest.mark.long),
    pytest.param("float32", "tf32", marks=pytest.mark.long)])
def test_defaults_do_not_spill(arch, layers, dtype, precision):
    for c, h, k, r in layers:
        layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=2, dtype=dtype, layout="NHWC")
        made = plan_layer(layer, operation="data_gradient", algorithm=NAME, arch=arch, precision=precision)
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
