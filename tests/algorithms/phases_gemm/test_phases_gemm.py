"""``phases_gemm``: what its planner owes, and its texts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import cases, checks, emitted, settings
from warpconv.codegen.algorithms.phases_gemm.numbers import products_of
from warpconv.codegen.algorithms.phases_gemm.options import Form
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.parts.phases import NO_TAP
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation
from warpconv.runtime import arrays
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call import kernels
from warpconv.runtime.call.checks import Call

NAME = "phases_gemm"
UP = ConvShape(n=2, c=32, d=128, h=128, w=128, k=64, t=2, r=2, s=2, stride=2)


@pytest.mark.thin(2)
@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_a_text_says_nothing_idle(case):
    assert not emitted.faults(render(case.plan()).text)


def _outputs(layer: ConvShape, axis: int, pixel: int) -> dict[int, int]:
    """The outputs that a pixel meets along an axis, counted from its cell, and the taps: by trying all of them."""
    stride, dilation, pad = layer.stride[axis], layer.dilation[axis], layer.padding[axis][0]
    return {at: tap for tap in range(layer.taps[axis]) for at in range(-30, 31)
            if at * stride + tap * dilation - pad == pixel}


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("sizes", [
    dict(r=3, s=3, stride=2, padding=1), dict(r=2, s=2, stride=2), dict(r=1, s=1, stride=3),
    dict(r=4, s=5, stride=(2, 3), padding=(2, 1), dilation=(3, 2)), dict(r=7, s=2, stride=(4, 1), dilation=(2, 1)),
    dict(d=40, t=3, r=2, s=4, stride=(1, 2, 3), padding=(1, 0, 2))])
def test_every_pixel_meets_its_outputs(form, sizes):
    """A product's taps stand for outputs in equal steps; of each, every pixel of a row's cell has the filter's tap that
    it meets there, or none; and no tap is left out."""
    layer = ConvShape(c=4, h=40, w=40, k=4, **sizes)
    spec = KernelSpec.of(layer, algorithm=NAME, arch=Arch(9, 0), operation=Operation.DATA_GRADIENT)
    made, found = products_of(spec, form), []
    for phase in made.phases:
        slots = made.taps[phase.first_tap:phase.first_tap + phase.taps]
        for index, slot in enumerate(np.ndindex(*phase.met)):
            outputs = [first - i * step for first, i, step in zip(phase.output, slot, made.steps)]
            for inside, tap in zip(np.ndindex(*made.cell), slots[index]):
                met = [_outputs(layer, axis, first + i).get(output)
                       for axis, (first, i, output) in enumerate(zip(phase.first, inside, outputs))]
                assert tap == (NO_TAP if None in met else np.ravel_multi_index(met, layer.taps))
                found += [tap] * (tap != NO_TAP)
    assert sorted(found) == list(range(math.prod(layer.taps)))


@pytest.mark.parametrize("layer", [
    UP, replace(UP, layout="NHWC"), replace(UP, t=3, r=3, s=3, padding=1),
    ConvShape(n=8, c=32, h=512, w=512, k=64, r=2, s=2, stride=2),
    ConvShape(n=8, c=32, h=512, w=512, k=64, r=3, s=3, stride=2, padding=1, layout="NHWC"),
    ConvShape(n=64, c=3, h=64, w=64, k=16, r=4, s=4, stride=2, padding=1, layout="NHWC")])
def test_the_rule_takes_it_where_sums_are_short(layer):
    """A U-Net's ways down and up, the last layer of a generator of images; and its products are float32 units'."""
    for arch in ("sm_75", "sm_80", "sm_90", "sm_120"):
        spec = plan_layer(layer, operation="data_gradient", arch=arch).spec
        assert (spec.algorithm, spec.numerics) == (NAME, Numerics.FLOAT32)
    assert plan_layer(layer, operation="data_gradient", precision="ieee").spec.algorithm == NAME
    half = replace(layer, dtype="float16")
    taken = plan_layer(replace(half, layout="NHWC"), operation="data_gradient").spec.algorithm
    assert taken == ("phases_wgmma" if layer.is_volume else "phases_mma")
    odd = replace(half, k=layer.k - 1)      # of which tensor cores' copies are not whole words
    assert plan_layer(odd, operation="data_gradient").spec.algorithm == NAME


def test_forms_and_stores_go_with_the_layer():
    """Pixels of a filter as long as the stride are made side by side, and stored so where rows consist of them."""
    def options(**layer):
        return plan_layer(ConvShape(n=8, **layer), operation="data_gradient", algorithm=NAME).options

    up = dict(c=32, h=512, w=512, k=64, r=2, s=2, stride=2)
    assert (options(**up).form, options(**up).store_vector) == (Form.TOGETHER, 2)
    assert options(**{**up, "w": 511}).store_vector == 1 == options(**up, layout="NHWC").store_vector
    assert options(**{**up, "r": 4, "s": 4, "stride": 4}).store_vector == 4
    assert options(**{**up, "r": 3, "s": 3, "padding": 1}).form is Form.APART


def _in_order(layout: str, array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if layout.endswith("C") else array


@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_pixels_beyond_every_output_are_the_bias(layout):
    rng = np.random.default_rng(3)
    x, w, bias = (rng.standard_normal(sizes).astype("f") for sizes in ((2, 5, 2, 3, 4), (5, 6, 1, 2, 3), (6,)))
    given = {"stride": 2, "output_padding": 1, "layout": layout, "device": "cpu"}
    found = warpconv.conv_transpose3d(_in_order(layout, x), w, bias, algorithm=NAME, **given)
    plain = warpconv.conv_transpose3d(_in_order(layout, x), w, algorithm="volume_data", **given)
    shape = (1, 1, 1, 1, 6) if layout == "NDHWC" else (1, 6, 1, 1, 1)
    np.testing.assert_allclose(found, plain + bias.reshape(shape), rtol=1e-5, atol=1e-5)
    assert (plain == 0).mean() > 0.4        # between outputs two apart, of filters of one plane


@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("form", Form)
def test_infinities_and_nan_stay_where_they_are_met(form, layout):
    """In gradients and filters, though zeros stand for taps and outputs that a pixel does not have."""
    rng = np.random.default_rng(3)
    w, dy = rng.standard_normal((9, 5, 3, 2, 3)).astype("f"), rng.standard_normal((2, 9, 3, 6, 5)).astype("f")
    layer = ConvShape(n=2, c=5, d=5, h=11, w=9, k=9, t=3, r=2, s=3, stride=2, padding=(1, 0, 1),
                      layout="NHWC" if layout == "NDHWC" else "NCHW")
    settings = {"form": form, "block_m": 32, "block_n": 64, "block_k": 8, "thread_m": 4, "thread_n": 8,
                "store_vector": 1}

    def made(**how):
        ask = kernels.asked(layer, None, operation=Operation.DATA_GRADIENT, **how)
        out = np.full(layer.layout.stored(layer.input_shape), np.nan, "f")
        operands = {name: arrays.view(array, name) for name, array in (("dy", _in_order(layout, dy)), ("w", w),
                                                                       ("dx", out))}
        with np.errstate(all="ignore"):
            kernels.kernel_of(ask).backend.run(Call(layer, operands), None, None)
        return out

    dy[0, 1, 1, 2, 3], dy[1, 2, 0, 0, 0], dy[1, 3, 2, 5, 4] = np.inf, np.nan, 3e38
    w[3, 1, 0, 0, 0], w[4, 2, 1, 1, 2], w[3, 4] = -np.inf, np.nan, 3.0
    found, exact = made(algorithm=NAME, settings=settings), made(algorithm="volume_data")
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_array_equal(np.where(np.isinf(exact), exact, 0), np.where(np.isinf(found), found, 0))
    fine = np.isfinite(exact)
    assert np.isnan(exact).any() and np.isinf(exact).any() and fine.mean() > 0.2
    np.testing.assert_allclose(found[fine], exact[fine], rtol=1e-4, atol=1e-4)


def test_refusals_are_in_words():
    def reason(settings=None, **layer):
        shape = ConvShape(**{"n": 2, "c": 64, "h": 15, "w": 15, "k": 64, "r": 3, "s": 3, "padding": 1, "stride": 2,
                             **layer})
        if settings is None:
            return next(c.reason for c in explain(shape, operation="data_gradient") if c.algorithm == NAME)
        with pytest.raises(UnsupportedSpec) as caught:
            plan_layer(shape, operation="data_gradient", algorithm=NAME, settings=settings)
        return str(caught.value)

    assert "one by one" in reason({"form": "row", "store_vector": 2}, dtype="float16")
    assert "border reflect" in reason(padding_mode="reflect") and "groups of 1" in reason(groups=64)
    assert "in 1089 phases" in reason(stride=33) and "do not share out" in reason({"block_m": 48, "thread_m": 8})
    assert "multiples of 4" in reason({"thread_n": 6}) and "stages" in reason({"stages": 1})
    assert "block_k = 6" in reason({"block_k": 6}) and "threads (at most" in reason({"block_m": 512, "block_n": 512})
    assert "sums would not stay" in reason({"thread_m": 16, "thread_n": 12, "block_m": 64, "block_n": 96})
    assert "store_vector = 4" in reason({"form": "row", "store_vector": 4})
    assert "channels are stored together" in reason({"form": "row", "store_vector": 2}, layout="NHWC")
    assert "shared memory" in reason({"block_m": 128, "block_n": 128, "block_k": 64, "thread_m": 8, "stages": 4})
    assert "min_blocks" in reason({"min_blocks": 80})


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, layers", settings.in_turn(("sm_80", "sm_90", "sm_120"), (
    {}, {"t": 3, "r": 3, "s": 3, "padding": 1}, {"c": 3}, {"k": 48, "c": 96})))
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_defaults_do_not_spill(arch, layers, layout):
    for changes in layers:
        layer = replace(UP, layout=layout, **changes)
        for entry in build(plan_layer(layer, operation="data_gradient", algorithm=NAME, arch=arch)).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (changes, entry)
