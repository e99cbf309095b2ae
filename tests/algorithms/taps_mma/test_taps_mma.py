"""``taps_mma``: what is planned, refused and chosen, what is computed, and what compilers make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.codegen.algorithms.taps_mma import ALGORITHM
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build.pipeline import build

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
LAYOUTS = ("NHWC", "NCHW")
# (C, H = W, filter, K, stride, padding): ResNet's, AlexNet's, VGG's, ViT's, those of grey images
LAYERS = ((3, 224, 7, 64, 2, 3), (3, 227, 11, 96, 4, 0), (3, 224, 3, 64, 1, 1), (3, 224, 8, 128, 8, 0),
          (1, 256, 11, 32, 1, 5))
VALUES = {"tile_p": 8, "tile_q": 32, "filters": 32, "matrices": 2, "warps": 4, "buffers": 2, "vector": 1,
          "store_vector": 1}


def layer(c: int, h: int, size: int, k: int, stride: int, padding: int, layout: str, n: int = 32) -> ConvShape:
    return ConvShape(n=n, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding, layout=layout,
                     dtype="float16")


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=3, h=16, w=16, k=32, r=7, s=7, padding=3, layout="NHWC", dtype="float16"),
                        **changes})


# ---- what is served

@pytest.mark.parametrize("changes, arch, says", [
    (dict(c=13), "sm_80", "13 channels"), (dict(dtype="float32"), "sm_80", "float32"),
    (dict(k=3), "sm_80", "3 filters"), (dict(c=4, k=8, groups=2), "sm_80", "2 groups"), ({}, "sm_75", "no mma.sync"),
    (dict(c=12, r=31, s=31, h=99, w=99), "sm_80", "do not fit")])
def test_layers_that_are_refused(changes, arch, says):
    spec = KernelSpec.of(small(**changes), algorithm="taps_mma", arch=Arch.parse(arch))
    assert says in ALGORITHM.supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(buffers=3), "buffers = 3"), (dict(filters=24), "filters = 24"), (dict(warps=0), "warps = 0"),
    (dict(warps=33), "33 warps"), (dict(matrices=0), "matrices = 0"),
    (dict(filters=48, store_vector=8), "filters = 48"), (dict(tile_p=3, tile_q=8), "no whole number"),
    (dict(warps=3), "do not share it out"),
    (dict(vector=2), "vector = 2"), (dict(vector=8, w=18), "W a multiple of 8"),
    (dict(store_vector=16, filters=64), "store_vector = 16"), (dict(store_vector=8, k=36), "store_vector = 8"),
    (dict(layout="NCHW", store_vector=2, w=17), "Q a multiple of 2"),
    (dict(filters=256, matrices=4, tile_p=16), "registers a thread"),
    (dict(tile_p=128, tile_q=64), "bytes of shared memory"), (dict(min_blocks=40), "min_blocks = 40"),
    (dict(stride=(1, 2)), "by turns"), (dict(c=5, tile_p=1, tile_q=160, matrices=1), "no whole number")])
def test_plan_values_that_do_not_go_together(values, says):
    values = dict(values)
    fields = {name: values.pop(name) for name in ("layout", "stride", "w", "k", "r", "s", "c") if name in values}
    with pytest.raises((UnsupportedSpec, warpconv.ArgumentError), match=says):
        plan_layer(small(**fields), algorithm="taps_mma", settings={**VALUES, **values})


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100", "sm_120"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", LAYERS)
def test_first_layers_take_it(sizes, layout, arch):
    """Where there is no wgmma; on compute capability 9.0 that or this."""
    assert select(layer(*sizes, layout), arch).algorithm == "taps_mma"
    assert select(layer(*sizes, layout), "sm_90").algorithm in ("taps_wgmma", "taps_mma")


def test_products_are_those_of_the_form_for_warp_groups():
    for sizes, layout, depths in ((LAYERS[0], "NHWC", 10), (LAYERS[1], "NHWC", 24), (LAYERS[2], "NHWC", 2),
                                  (LAYERS[2], "NCHW", 3), (LAYERS[3], "NHWC", 12)):
        made = [plan_layer(layer(*sizes, layout), algorithm=name, arch="sm_90").numbers.depths
                for name in ("taps_mma", "taps_wgmma")]
        assert made == [depths, depths]


def test_a_block_fits_in_any_gpu_of_its_architecture():
    """A kernel for sm_80 runs on an RTX 3090, too, which has 99 KiB for a block."""
    for sizes in LAYERS:
        for layout in LAYOUTS:
            numbers = plan_layer(layer(*sizes, layout), algorithm="taps_mma", arch="sm_80").numbers
            assert numbers.shared_bytes <= 99 * 1024


# ---- what is computed

def drawn(h: int, w: int, c: int, k: int, size: int, layout: str, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, h, w, c)).astype("f2")
    w_ = rng.standard_normal((k, c, size, size)).astype("f2")
    return x if layout == "NHWC" else x.transpose(0, 3, 1, 2).copy(), w_


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("w", [16, 17])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_pairs_have_beside_a_window_does_not_spread_what_is_not_finite(layout, w):
    """Inf and NaN reach the outputs whose windows hold them, and no other."""
    x, w_ = drawn(14, w, 3, 8, 3, layout)
    x.reshape(-1)[[77, 900]] = np.inf, np.nan
    y, direct = (warpconv.conv2d(x, w_, padding=1, layout=layout, device="cpu", algorithm=name)
                 for name in ("taps_mma", "direct"))
    assert not np.isfinite(y).all()
    for same in (np.isposinf, np.isneginf, np.isnan):
        assert (same(y) == same(direct)).all()


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_and_ways_to_copy_give_the_same_bits(layout):
    x, w = drawn(20, 24, 3, 64, 7, layout)
    shape = ConvShape(n=3, c=3, h=20, w=24, k=64, r=7, s=7, stride=2, padding=3, layout=layout, dtype="float16")
    made = [warpconv.specialize(shape, algorithm="taps_mma", device="cpu",
                                settings={**VALUES, "filters": filters, "matrices": matrices, "warps": warps,
                                          "buffers": buffers, "vector": vector})(x, w)
            for filters, matrices, warps, buffers, vector in ((64, 1, 4, 2, 8), (32, 2, 8, 1, 1), (16, 2, 4, 2, 8),
                                                              (32, 4, 2, 1, 8))]
    assert all((one == made[0]).all() for one in made)


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("q", [130, 132])
def test_a_lanes_second_window_may_lie_in_the_next_row(q):
    """Of columns two apart, in rows of 130 outputs, and not of 132."""
    x, w = drawn(12, 140, 5, 32, 3, "NHWC")
    shape = ConvShape(n=3, c=5, h=12, w=140, k=32, r=3, s=3, layout="NHWC", dtype="float16")
    kernel = warpconv.specialize(shape, algorithm="taps_mma", device="cpu", settings={
        **VALUES, "tile_p": 32, "tile_q": q, "matrices": 1, "buffers": 1})
    assert bool(kernel.plan.numbers.beside) == (q == 132)
    direct = warpconv.conv2d(x, w, layout="NHWC", device="cpu", algorithm="direct")
    np.testing.assert_allclose(kernel(x, w).astype("f4"), direct.astype("f4"), rtol=2e-3, atol=2e-2)


@pytest.mark.thin(4)
@on_cpu_device
@pytest.mark.parametrize("h, w", [(21, 21), (22, 21), (21, 22), (16, 24)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_and_planes_of_every_parity(layout, stride, h, w):
    """Where a line has an odd number of elements windows begin at the one side of a pair and at the other by turns."""
    x, w_ = drawn(h, w, 3, 8, 5, layout)
    y, direct = (warpconv.conv2d(x, w_, stride=stride, padding=1, layout=layout, device="cpu", algorithm=name)
                 for name in ("taps_mma", "direct"))
    np.testing.assert_allclose(y.astype("f4"), direct.astype("f4"), rtol=2e-3, atol=2e-2)


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("sizes", [
    dict(c=1, h=3, w=5, r=3, s=3), dict(n=2, c=2, h=9, w=1, r=1, s=1), dict(h=33, w=33, r=4, s=4),
    dict(h=33, w=33, r=2, s=2, layout="NCHW"), dict(c=1, h=20, w=96, r=2, s=2, padding=1, layout="NCHW"),
    dict(h=16, w=24, r=4, s=4, padding=3), dict(c=4, h=20, w=25, r=7, s=7, stride=2, padding=3),
    dict(n=3, h=27, w=27, r=11, s=11, stride=4)])
def test_nothing_is_read_behind_lines_or_before_it_is_there(sizes):
    """Narrow lines, and pairs that hold more than the last window of a line."""
    shape = small(**{"padding": 0, **sizes})
    checks.check_checked(checks.planned(shape, "taps_mma"), shape)


@pytest.mark.thin(6)
@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_80", *(pytest.param(arch, marks=pytest.mark.long)
                                             for arch in ("sm_89", "sm_90", "sm_100", "sm_120"))])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [LAYERS[0], *(pytest.param(sizes, marks=pytest.mark.long) for sizes in LAYERS[1:])])
def test_sums_stay_in_registers(sizes, layout, arch):
    compiled = build(plan_layer(layer(*sizes, layout), algorithm="taps_mma", arch=arch)).compiled
    for entry in compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
