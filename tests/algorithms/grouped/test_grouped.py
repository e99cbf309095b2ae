"""``grouped``: what is planned, refused and chosen, what is computed, and what compilers make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from warpconv.codegen.algorithms.grouped import ALGORITHM
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.devices.cpu.report import Mode

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
ARCHS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
# (C, H = W, K, stride, groups): ResNeXt-50's, RegNetY-400MF's, and more filters than channels
LAYERS = ((128, 56, 128, 1, 32), (256, 56, 256, 2, 32), (256, 28, 256, 1, 32), (104, 28, 104, 1, 13),
          (64, 56, 128, 1, 16))


def layer(c: int, h: int, k: int, stride: int, groups: int, n: int = 32, layout: str = "NHWC") -> ConvShape:
    return ConvShape(n=n, c=c, h=h, w=h, k=k, groups=groups, r=3, s=3, stride=stride, padding=1, layout=layout)


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=16, h=16, w=16, k=32, groups=4, r=3, s=3, padding=1, layout="NHWC"), **changes})


# ---- what is served

@pytest.mark.parametrize("changes, arch, says", [
    (dict(groups=1), "sm_90", "only layers of groups"), (dict(layout="NCHW"), "sm_90", "taps_ieee has those of NCHW"),
    (dict(dtype="float16"), "sm_90", "float16"), (dict(c=80), "sm_90", "20 channels a group"),
    (dict(c=6, k=8, groups=2), "sm_90", "C = 6 is no multiple of 4"), (dict(c=16, k=24), "sm_90", "6 filters a group"),
    ({}, "sm_75", "no asynchronous copies"), (dict(c=4 * 65537, k=4 * 65537, groups=65537), "sm_90", "65537 groups"),
    (dict(c=64, r=31, s=31, h=99, w=99), "sm_90", "do not fit")])
def test_layers_that_are_refused(changes, arch, says):
    spec = KernelSpec.of(small(**changes), algorithm="grouped", arch=Arch.parse(arch))
    assert says in ALGORITHM.supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(columns=3), "3 columns"), (dict(filters=6), "filters = 6"), (dict(filters=12), "filters = 12"),
    (dict(groups_tile=3), "groups_tile = 3"), (dict(tile_q=10), "no whole number"),
    (dict(tile_p=80, tile_q=64, groups_tile=4), "threads"),
    (dict(columns=1, filters=8, tile_p=1, tile_q=1), "1 threads"),
    (dict(columns=32, tile_q=32, tile_p=16), "registers a thread"), (dict(min_blocks=99), "min_blocks = 99"),
    (dict(columns=8, tile_p=100, tile_q=16, groups_tile=4, filters=8), "at most 72.: fewer columns"),
    (dict(columns=8, tile_p=8, tile_q=128, groups_tile=2, filters=8, stride=2), "bytes of shared memory")])
def test_plan_values_that_do_not_go_together(values, says):
    changes = {"c": 32 if says == "1 threads" else 16, "stride": values.pop("stride", 1)}
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(small(**changes), algorithm="grouped", settings={
            "columns": 4, "filters": 4, "groups_tile": 1, "tile_p": 8, "tile_q": 8, "min_blocks": 1, **values})


@pytest.mark.parametrize("c, k, groups, size, arch", [
    (16, 16 * 260, 16, 1, "sm_90"), (64, 64 * 130, 16, 1, "sm_90"), (32, 32 * 32, 32, 7, "sm_86"),
    (4 * 70000, 4 * 70000, 70000, 1, "sm_90")])
def test_many_filters_and_groups_have_blocks_that_hold_them(c, k, groups, size, arch):
    made = plan_layer(small(c=c, k=k, groups=groups, r=size, s=size), algorithm="grouped", arch=arch)
    assert made.numbers.threads <= 1024 and groups // made.options.groups_tile <= 65535


@pytest.mark.parametrize("sizes", LAYERS)
def test_groups_of_short_sums_take_it(sizes):
    """36 and 72 products are too few for the tensor cores, as exact as float32 units are."""
    for arch in ("sm_80", "sm_90"):
        assert select(layer(*sizes), arch).algorithm == "grouped"


def test_in_nchw_a_group_is_as_good_as_an_image():
    """Its planes lie together: taps_ieee's."""
    assert select(layer(*LAYERS[0], layout="NCHW"), "sm_90").algorithm == "taps_ieee"


def test_rounded_sums_take_it_where_that_is_quicker():
    assert select(layer(*LAYERS[0]), "sm_90", precision="tf32").algorithm == "grouped"


def test_longer_sums_are_the_tensor_cores():
    """Groups of 16: 144 products."""
    assert select(layer(512, 14, 512, 1, 32), "sm_90").algorithm == "mma"


# ---- what is computed

def drawn(shape: ConvShape, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.moveaxis(rng.standard_normal(shape.input_shape).astype("f4"), 1, -1)
    return np.ascontiguousarray(x), rng.standard_normal(shape.weight_shape).astype("f4")


@on_cpu_device
@pytest.mark.parametrize("c, k, groups", [(16, 16, 4), (24, 48, 3), (12, 24, 6), (12, 16, 4)])
def test_it_has_the_bits_of_implicit_gemm(c, k, groups):
    """Both add a sum's products one after the other, in the same order."""
    shape = ConvShape(n=2, c=c, h=19, w=20, k=k, groups=groups, r=3, s=4, stride=(1, 2), padding=(1, 2),
                      dilation=(2, 1), layout="NHWC")
    x, w = drawn(shape)
    ours, theirs = (warpconv.specialize(shape, algorithm=name, settings=values, device="cpu")(x, w)
                    for name, values in (("grouped", {}), ("implicit_gemm", {"splits": 1})))
    assert np.array_equal(ours, theirs)


@on_cpu_device
def test_a_block_of_many_tiles():
    """All tiles of one block: both buffers are filled again and again while the other is multiplied; every access is
    checked."""
    shape = small(h=20, w=19)
    plan = plan_layer(shape, algorithm="grouped", settings={
        "columns": 4, "filters": 4, "groups_tile": 2, "tile_p": 4, "tile_q": 8, "min_blocks": 1})
    x, w = drawn(shape)
    made = [checks.cpu_kernel(one, Mode.CHECK)(x, w) for one in (plan, checks.of_one_block(plan))]
    assert np.array_equal(*made) and np.isfinite(made[0]).all()


@on_cpu_device
def test_data_gradients_of_groups_take_it():
    """A gradient of data is a layer of the same groups."""
    shape = layer(16, 12, 16, 1, 4, n=2)
    rng = np.random.default_rng(5)
    dy = rng.standard_normal((2, 12, 12, 16)).astype("f4")
    w = rng.standard_normal(shape.weight_shape).astype("f4")
    dx = warpconv.conv2d_input((2, 12, 12, 16), w, dy, padding=1, groups=4, layout="NHWC", algorithm="grouped",
                               device="cpu")
    padded = np.pad(dy.astype("f8"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = np.zeros((2, 12, 12, 16))
    for k in range(16):
        for c in range(4):
            for r in range(3):
                for s in range(3):
                    expected[..., k // 4 * 4 + c] += padded[:, 2 - r:14 - r, 2 - s:14 - s, k] * float(w[k, c, r, s])
    assert np.abs(dx - expected).max() < 1e-5


# ---- what compilers make of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, layers", settings.in_turn(ARCHS, LAYERS))
def test_sums_and_pixels_stay_in_registers(arch, layers):
    for sizes in layers:
        made = plan_layer(layer(*sizes), algorithm="grouped", arch=arch)
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (sizes, entry)
