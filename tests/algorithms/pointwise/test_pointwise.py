"""``pointwise``: what is planned, refused and chosen, what is computed, and what compilers make of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.codegen.algorithms.pointwise import ALGORITHM
from warpconv.codegen.classes import replace
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.plan import Blocks
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import backend
from warpconv.runtime.devices.cpu.report import Mode

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
LAYERS = ((64, 56, 64), (256, 56, 128), (512, 28, 256), (1024, 14, 512), (192, 28, 16), (144, 28, 40))


def layer(c: int, side: int, k: int, n: int = 32) -> ConvShape:
    return ConvShape(n=n, c=c, h=side, w=side, k=k, r=1, s=1)


# ---- what is served

@pytest.mark.parametrize("changes, numerics, arch, says", [
    (dict(layout="NHWC"), "tf32", "sm_90", "NHWC"), (dict(dtype="float16"), "float32", "sm_90", "float16"),
    ({}, "fp16x3", "sm_90", "rounded to tf32"), ({}, "tf32", "sm_80", "no wgmma"),
    (dict(r=3, s=3), "tf32", "sm_90", "1x1"), (dict(stride=2), "tf32", "sm_90", "stride 1"),
    (dict(padding=1), "tf32", "sm_90", "without padding"), (dict(groups=2), "tf32", "sm_90", "2 groups"),
    (dict(k=2), "tf32", "sm_90", "2 filters")])
def test_layers_that_are_refused(changes, numerics, arch, says):
    shape = ConvShape(**{**dict(n=1, c=32, h=8, w=8, k=32, r=1, s=1), **changes})
    spec = KernelSpec.of(shape, algorithm="pointwise", arch=Arch.parse(arch), numerics=Numerics.parse(numerics))
    assert says in ALGORITHM.supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(filters=20), "filters = 20"), (dict(filters=264), "filters = 264"), (dict(matrices=0), "matrices = 0"),
    (dict(stages=1), "stages = 1"), (dict(filters=256, matrices=2), "registers a thread"),
    (dict(stages=40), "bytes of shared memory")])
def test_plan_values_that_do_not_go_together(values, says):
    with pytest.raises((UnsupportedSpec, warpconv.ArgumentError), match=says):
        plan_layer(layer(64, 8, 64), algorithm="pointwise", precision="tf32",
                   settings={"filters": 64, "matrices": 1, "stages": 4, **values})


@pytest.mark.parametrize("sizes", LAYERS)
def test_rounded_1x1_layers_in_nchw_take_it(sizes):
    chosen = select(layer(*sizes), precision="tf32")
    assert (chosen.algorithm, chosen.spec.numerics) == ("pointwise", Numerics.TF32)
    assert select(layer(*sizes)).algorithm != "pointwise" != select(layer(*sizes), "sm_80", precision="tf32").algorithm


def test_images_whose_planes_do_not_begin_with_16_bytes_are_others():
    """A descriptor has no such distances: 7 x 7 pixels, and calls of a kernel that was made for 8 x 8."""
    assert select(layer(512, 7, 2048), precision="tf32").algorithm != "pointwise"
    kernel = warpconv.specialize(layer(32, 8, 16, n=1), algorithm="pointwise", precision="tf32", device="cpu")
    assert kernel.program.demands.endswith("H * W a multiple of 4")
    with pytest.raises(warpconv.ShapeError, match="multiple of 16: H \\* W a multiple of 4"):
        kernel(np.zeros((1, 32, 7, 7), "f4"), np.zeros((16, 32, 1, 1), "f4"))


# ---- what is computed

def drawn(shape: ConvShape, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape.input_shape).astype("f4"), rng.standard_normal(shape.weight_shape).astype("f4"))


def rounded(values: np.ndarray) -> np.ndarray:
    """To TF32, ties away from zero."""
    return ((values.view("u4") + 0x1000) & 0xffffe000).astype("u4").view("f4")


@on_cpu_device
def test_factors_are_rounded_and_products_are_of_their_own_channels():
    """Were channels of pixels and of filters in different orders, or rounding left out, the error would be larger."""
    shape = ConvShape(n=2, c=72, h=6, w=10, k=20, r=1, s=1)
    x, w = drawn(shape)
    y = warpconv.conv2d(x, w, algorithm="pointwise", precision="tf32", device="cpu")
    exact = np.einsum("nchw,kc->nkhw", rounded(x).astype("f8"), rounded(w)[:, :, 0, 0].astype("f8"))
    assert np.linalg.norm(y - exact) <= 2e-6 * np.linalg.norm(exact)


@on_cpu_device
def test_what_is_not_finite_reaches_its_own_pixels():
    shape = ConvShape(n=1, c=40, h=4, w=12, k=12, r=1, s=1)
    x, w = drawn(shape)
    x[0, 39, 1, 3], x[0, 0, 3, 11] = np.inf, np.nan
    y = warpconv.conv2d(x, w, algorithm="pointwise", precision="tf32", device="cpu")
    spoilt = ~np.isfinite(x[0]).all(0)
    assert (~np.isfinite(y[0]) == spoilt).all() and np.isnan(y[0, :, 3, 11]).all() and np.isinf(y[0, :, 1, 3]).all()


@on_cpu_device
@pytest.mark.parametrize("stages, matrices", [(2, 1), (3, 2)])
def test_a_block_of_many_tiles(stages, matrices):
    """All tiles of one block: each stage is filled and freed many times, and every access is checked."""
    shape = ConvShape(n=2, c=96, h=10, w=20, k=40, r=1, s=1)
    plan = plan_layer(shape, algorithm="pointwise", precision="tf32",
                      settings={"filters": 24, "matrices": matrices, "stages": stages})
    only = plan.program.steps[0]
    alone = replace(plan, program=replace(plan.program, steps=(replace(only, grid=(Blocks(), Blocks(), Blocks())),)))
    x, w = drawn(shape)
    made: list[Any] = []
    for one in (plan, alone):
        loaded, source = backend.load_text(one.spec, one.program, render(one).text, mode=Mode.CHECK)
        made.append(Kernel(one.spec, one.program, loaded, source=source, plan=one)(x, w))
    assert np.array_equal(*made) and np.isfinite(made[0]).all()


# ---- what compilers make of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("sizes", LAYERS)
def test_sums_stay_in_registers_and_products_are_not_made_one_by_one(sizes):
    """ptxas waits for each wgmma (C7510 to C7514) where it finds no other way to keep its registers apart."""
    compiled = build(plan_layer(layer(*sizes), algorithm="pointwise", precision="tf32", arch="sm_90")).compiled
    for entry in compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
    assert not re.search("serialized", str(compiled)), compiled
