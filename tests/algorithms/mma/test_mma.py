"""``mma``: what is planned, refused and chosen, and what the CPU device and compilers make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
import warpconv.codegen.registry
from tests import checks
from warpconv.codegen.algorithms.mma import ALGORITHM
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.render import render
from warpconv.codegen.request import Request
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build.pipeline import build

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
# (C, H = W, filter, K, stride, padding, groups): of ResNet-50, a first layer, ResNeXt-50's grouped ones
LAYERS = ((64, 56, 1, 64, 1, 0, 1), (64, 56, 3, 64, 1, 1, 1), (256, 56, 1, 512, 2, 0, 1), (128, 28, 3, 128, 1, 1, 1),
          (256, 14, 3, 256, 1, 1, 1), (2048, 7, 1, 512, 1, 0, 1), (512, 7, 3, 512, 1, 1, 1), (3, 224, 7, 64, 2, 3, 1),
          (128, 56, 3, 128, 1, 1, 32), (116, 14, 1, 116, 1, 0, 1))


def layer(c: int, h: int, size: int, k: int, stride: int, padding: int, groups: int, n: int = 32,
          **more: Any) -> ConvShape:
    return ConvShape(**{**dict(n=n, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding, groups=groups,
                               dtype="float16", layout="NHWC"), **more})


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=16, h=9, w=9, k=32, r=3, s=3, padding=1, dtype="float16", layout="NHWC"),
                        **changes})


# ---- what is served

@pytest.mark.parametrize("changes, arch, says", [
    (dict(dtype="float32"), "sm_90", "float32"),
    (dict(groups=16), "sm_90", "groups of 1 channels and 2 filters"), ({}, "sm_75", "sm_80 and later"),
    (dict(padding_mode="constant", padding_value=0.1), "sm_90", "is no float16")])
def test_layers_that_are_refused(changes, arch, says):
    spec = KernelSpec.of(small(**changes), algorithm="mma", arch=Arch.parse(arch))
    assert says in ALGORITHM.supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(warps_m=64), "64 x 4 warps"), (dict(tile_n=24, warps_n=1), "do not share out"),
    (dict(tile_k=16), "tile_k = 16"),
    (dict(stages=1), "stages = 1"), (dict(vector=3), "do not share out"), (dict(splits=9), "splits = 9 of 5 tiles"),
    (dict(tile_m=256, tile_n=256, warps_m=4, warps_n=4, stages=8), "bytes of shared memory"),
    (dict(store_vector=4), "store_vector = 4"), (dict(min_blocks=32), "min_blocks = 32")])
def test_plan_values_that_do_not_go_together(values, says):
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(small(), algorithm="mma", settings={"tile_m": 128, "tile_n": 128, "tile_k": 32, "warps_m": 2,
                                                       "warps_n": 4, "stages": 4, **values})


@pytest.mark.parametrize("changes, groups_tile", [
    (dict(groups=4), 3), (dict(groups=4, layout="NCHW"), 2), ({}, 2), (dict(groups=2, k=64), 2),
    (dict(groups=4, dtype="float32", precision="tf32"), 2)])
def test_several_groups_of_a_block_that_it_cannot_have(changes, groups_tile):
    precision = changes.pop("precision", "float32")
    with pytest.raises(UnsupportedSpec, match=f"groups_tile = {groups_tile} of"):
        plan_layer(small(**changes), algorithm="mma", precision=precision, settings={
            "tile_m": 128, "tile_n": 16, "tile_k": 32, "warps_m": 4, "warps_n": 1, "groups_tile": groups_tile})


@pytest.mark.nvcc
def test_a_block_has_several_groups_of_few_products_where_there_are_many_blocks():
    many, one = layer(256, 28, 3, 256, 1, 1, 32), layer(256, 28, 3, 256, 1, 1, 32, n=1)
    made = plan_layer(many, algorithm="mma")
    assert made.settings()["groups_tile"] > 1 == plan_layer(one, algorithm="mma").settings()["groups_tile"]
    grid = made.program.steps[0].grid_of(many)
    assert grid[0] >= 2 * made.spec.hardware.multiprocessors
    for entry in build(plan_layer(many, algorithm="mma", arch="sm_80")).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


@pytest.mark.parametrize("c, vector", [(64, 8), (20, 4), (6, 2), (3, 1)])
def test_copies_are_as_wide_as_a_pixels_channels_allow(c, vector):
    made = plan_layer(small(c=c), algorithm="mma")
    assert made.settings()["vector"] == vector
    assert made.program.argument("x").multiple_of == 2 * vector
    text = render(made).text
    assert {8: "wc_copy_async_zfill_16(", 4: "wc_copy_async_zfill_8(", 2: "wc_copy_async_zfill_4(",
            1: "__ldg(from)"}[vector] in text


# ---- what is chosen

@pytest.mark.parametrize("sizes", [sizes for sizes in LAYERS if sizes[-1] == 1 and sizes[0] > 4])
@pytest.mark.parametrize("n", [1, 32])
def test_dense_layers_are_no_longer_left_to_direct(sizes, n):
    chosen = explain(layer(*sizes, n=n), "sm_80")[0]        # sm_90 has a form of its own
    assert n == 1 or explain(layer(*sizes, n=n, layout="NCHW"), "sm_80")[0].algorithm == "mma"
    assert chosen.algorithm == "mma"
    direct = plan_layer(layer(*sizes, n=n), algorithm="direct", arch="sm_80")
    row = warpconv.codegen.registry.ALGORITHMS["direct"]
    assert n == 1 or chosen.estimate < row.slots(direct, layer(*sizes, n=n)) / 5


def test_few_tiles_are_split_by_default_and_many_are_not():
    """What is chosen knows the batch, and the multiprocessors that are to be filled."""
    def blocks(n: int, arch: str = "sm_90", h: int = 7) -> tuple[int, int]:
        made = plan_layer(shape := layer(512, h, 3, 512, 1, 1, 1, n=n), algorithm="mma", arch=arch)
        return made.settings()["splits"], made.program.steps[0].grid_of(shape)[0]

    assert blocks(1)[0] > blocks(16)[0] and blocks(64, h=28)[0] == 1
    assert blocks(1)[1] >= 128 and blocks(4)[1] >= 128
    assert blocks(1, "sm_110")[0] < blocks(1)[0]            # 20 multiprocessors


def test_batches_of_one_power_of_two_share_a_kernel_that_runs_any():
    """A kernel that was chosen for one image is right for others, and has no demand on the batch."""
    sizes = (512, 7, 3, 512, 1, 1, 1)
    same = [Request.of(layer(*sizes, n=n)).for_any_batch for n in (4, 5, 7)]
    assert same[0] == same[1] == same[2] != Request.of(layer(*sizes, n=8)).for_any_batch
    assert len({Request.of(layer(*sizes, n=n)).for_any_batch for n in (64, 65, 1000)}) == 1
    made = plan_layer(layer(*sizes, n=1), algorithm="mma")
    assert made.settings()["splits"] > 1 and made.program.refusal(layer(*sizes, n=1000)) is None


@on_cpu_device
def test_a_kernel_chosen_for_one_image_is_right_for_five():
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((5, 7, 7, 512)).astype("f2"), rng.standard_normal((40, 512, 3, 3)).astype("f2")
    kernel = warpconv.specialize(layer(512, 7, 3, 40, 1, 1, 1, n=1), device="cpu", algorithm="mma")
    assert kernel.plan.settings()["splits"] > 1
    padded = np.pad(x.astype("f8"), ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = sum(padded[:, r:r + 7, s:s + 7] @ w[:, :, r, s].T.astype("f8") for r in range(3) for s in range(3))
    assert np.linalg.norm(kernel(x, w) - expected) < 1e-3 * np.linalg.norm(expected)


def test_a_limit_on_workspace_leaves_sums_whole():
    made = plan_layer(layer(512, 7, 3, 512, 1, 1, 1), algorithm="mma", workspace_limit=0)
    assert made.settings()["splits"] == 1 and not made.program.workspaces


def test_depthwise_layers_keep_their_kernels():
    assert plan_layer(layer(64, 56, 3, 64, 1, 1, 64)).spec.algorithm in ("channels", "toeplitz_nhwc")


# ---- what is computed

@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("n, h, w", [(3, 8, 8), (3, 14, 14), (5, 7, 7), (9, 1, 1), (2, 3, 2)])
@pytest.mark.parametrize("padding", [0, 1])
def test_nchw_of_images_that_begin_anywhere(n, h, w, padding):
    """Images of 64, 196, 49, 1 and 6 pixels: loads and stores of eight, of four and of one, straight from x; with
    padding through NHWC."""
    rng = np.random.default_rng(6)
    x, weight = rng.standard_normal((n, 72, h, w)).astype("f2"), rng.standard_normal((40, 72, 1, 1)).astype("f2")
    shape = ConvShape(n=n, c=72, h=h, w=w, k=40, r=1, s=1, dtype="float16", padding=padding)
    kernel = warpconv.specialize(shape, device="cpu", algorithm="mma", settings={"splits": 1})
    assert kernel.program.workspace_bytes(shape) == padding * x.nbytes
    made = kernel(x, weight)
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding))) if padding else x
    expected = np.einsum("nchw,kc->nkhw", x.astype("f8"), weight[:, :, 0, 0].astype("f8"))
    assert np.linalg.norm(made - expected) < 1e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_arrays_at_any_address_have_a_plan(layout):
    tile = dict(tile_m=64, tile_n=64, tile_k=32, warps_m=2, warps_n=2, stages=2, vector=1)
    made = plan_layer(small(layout=layout), algorithm="mma", settings=tile)
    assert all(a.admits(2) for a in made.program.arguments if a.is_pointer)


@on_cpu_device
def test_products_outside_of_a_window_do_not_spread_what_is_not_finite():
    """Inf and NaN reach the outputs whose windows hold them, and no other."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, 9, 9, 5)).astype("f2"), rng.standard_normal((3, 5, 3, 3)).astype("f2")
    x[0, 4, 4, 2], x[0, 0, 0, 0] = np.inf, np.nan
    y = warpconv.conv2d(x, w, padding=1, layout="NHWC", algorithm="mma", device="cpu")
    reached = np.zeros((9, 9), bool)
    reached[3:6, 3:6] = reached[:2, :2] = True
    assert (~np.isfinite(y.astype("f4")).all(axis=-1)[0] == reached).all()


@on_cpu_device
def test_split_sums_have_equal_bits_from_call_to_call():
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((2, 7, 7, 64)).astype("f2"), rng.standard_normal((24, 64, 3, 3)).astype("f2")
    kernel = warpconv.specialize(ConvShape.of(x.shape, w.shape, dtype="float16", layout="NHWC", padding=1),
                                 device="cpu", algorithm="mma", settings={"splits": 3})
    first = kernel(x, w)
    assert all((kernel(x, w) == first).all() for _ in range(5))


@on_cpu_device
def test_stores_have_the_memory_that_they_need():
    """Pairs of filters of sixteen pixels of eight warps are more than a short ring of few products."""
    values = dict(tile_m=128, tile_n=128, tile_k=32, warps_m=8, warps_n=1, stages=2, store_vector=2)
    layer = ConvShape(n=1, c=32, h=12, w=12, k=120, r=1, s=1, dtype="float16", layout="NHWC")
    made = plan_layer(layer, algorithm="mma", settings=values)
    needed = 8 * 16 * made.numbers.staged_pitch * 4
    assert made.numbers.staged and made.numbers.shared_bytes == needed > 2 * 256 * 32 * 2
    checks.check_checked(made, layer)


# ---- what compilers make of it

@pytest.mark.thin(9)
@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", pytest.param("sm_89", marks=pytest.mark.long),
                                  pytest.param("sm_100", marks=pytest.mark.long),
                                  pytest.param("sm_120", marks=pytest.mark.long)])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("sizes", [LAYERS[1], LAYERS[7], *(pytest.param(sizes, marks=pytest.mark.long)
                                                           for sizes in LAYERS)])
@pytest.mark.parametrize("n", [32, pytest.param(1, marks=pytest.mark.long)])
def test_sums_and_matrices_stay_in_registers(sizes, layout, n, arch):
    made = plan_layer(layer(*sizes, n=n, layout=layout), algorithm="mma", arch=arch)
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


# two warps a block; planes, their sums in parts: a layer, plan values, and as many blocks as had spilled
SPILLED = (((256, 12, 3, 256, 1, 0, 1), "NHWC", dict(tile_m=64, tile_n=64, tile_k=64, warps_m=1, warps_n=2,
                                                     stages=2), 7),
           ((528, 14, 1, 160, 1, 0, 1), "NCHW", dict(tile_m=32, tile_n=64, tile_k=64, warps_m=2, warps_n=2, stages=3,
                                                     splits=4), 7),
           ((832, 7, 1, 384, 1, 0, 1), "NCHW", dict(tile_m=16, tile_n=128, tile_k=64, warps_m=1, warps_n=4, stages=4,
                                                    splits=3), 7))


@pytest.mark.thin(3)
@pytest.mark.nvcc
@pytest.mark.parametrize("sizes, layout, values, blocks", SPILLED)
def test_each_quarter_has_registers_for_whole_warps(sizes, layout, values, blocks):
    made = plan_layer(layer(*sizes, layout=layout), algorithm="mma", arch="sm_90", settings=values)
    assert made.options.min_blocks < blocks
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


# ---- what is chosen of plans that were timed (an H200, 2026-11-27; us)

@pytest.mark.parametrize("sizes, layout, taken, left", [
    ((512, 14, 1, 128, 1, 0, 1), "NCHW", (64, 128), (32, 64)),      # 8.3, 13.2: rows of planes
    ((576, 14, 1, 96, 1, 0, 1), "NCHW", (64, 128), (32, 64)),       # 9.0, 14.1
    ((256, 28, 1, 32, 1, 0, 1), "NCHW", (64, 32), (256, 32)),       # 6.3, 8.5: few steps, two stages
    ((480, 14, 1, 16, 1, 0, 1), "NHWC", (32, 16), (128, 16))])      # 4.1, 5.8: one block for many steps
def test_waits_and_rows_are_counted(sizes, layout, taken, left):
    made = plan_layer(layer(*sizes, layout=layout), algorithm="mma", arch="sm_90")
    assert (made.options.tile_m, made.options.tile_n) == taken != left and made.options.splits == 1


def test_more_stages_hide_the_waits_of_a_block_alone():
    shape, times = layer(512, 14, 1, 32, 1, 0, 1, n=1), {}
    for stages in (2, 3, 6):
        made = plan_layer(shape, algorithm="mma", arch="sm_90", settings=dict(
            tile_m=32, tile_n=32, tile_k=64, warps_m=2, warps_n=2, stages=stages, splits=1))
        times[stages] = ALGORITHM.estimate(made, shape)
    assert times[2] > times[3] > times[6]
