"""``taps``: what is planned, refused and chosen, and what the CPU device and compilers make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks
from tests.sequences import cells_lie_without_conflicts
from warpconv.codegen.algorithms.taps import ALGORITHM
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build.pipeline import build

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
# (C, H = W, filter, K, stride, padding, groups): ResNet's, MobileNet's, VGG's, ConvNeXt's and AlexNet's first layers,
# ResNeXt-50's grouped ones
LAYERS = ((3, 224, 7, 64, 2, 3, 1), (3, 224, 3, 32, 2, 1, 1), (3, 224, 3, 64, 1, 1, 1), (3, 224, 4, 96, 4, 0, 1),
          (3, 227, 11, 96, 4, 0, 1), (128, 56, 3, 128, 1, 1, 32), (128, 28, 3, 128, 2, 1, 32))
WIDER = ((256, 56, 3, 256, 2, 1, 32), (256, 28, 3, 256, 1, 1, 32), (512, 28, 3, 512, 2, 1, 32),
         (512, 14, 3, 512, 1, 1, 32), (1024, 7, 3, 1024, 1, 1, 32))
LAYOUTS = ("NHWC", "NCHW")


def layer(c: int, h: int, size: int, k: int, stride: int, padding: int, groups: int, layout: str, n: int = 32,
          **more: Any) -> ConvShape:
    return ConvShape(**{**dict(n=n, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding, groups=groups,
                               dtype="float16", layout=layout), **more})


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=3, h=9, w=9, k=32, r=3, s=3, padding=1, dtype="float16", layout="NHWC"),
                        **changes})


# ---- what is served

@pytest.mark.parametrize("changes, arch, says", [
    (dict(c=33), "sm_90", "33 channels a group"), (dict(dtype="float32"), "sm_90", "float32"),
    (dict(c=8, k=8, groups=8), "sm_90", "depthwise"), ({}, "sm_75", "sm_80 and later"),
    (dict(r=61, s=61, h=99, w=99), "sm_90", "do not fit in 101376 bytes"),
    (dict(padding_mode="constant", padding_value=0.1), "sm_90", "is no float16")])
def test_layers_that_are_refused(changes, arch, says):
    spec = KernelSpec.of(small(**changes), algorithm="taps", arch=Arch.parse(arch))
    assert says in ALGORITHM.supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(tile_q=20), "tile_q = 20"), (dict(tile_p=3, strips=4), "no whole number"),
    (dict(buffers=2), "buffers = 2"), (dict(groups_tile=4), "1 of 4 of 2 groups"),
    (dict(groups_tile=3, warp_groups=2), "the first a divisor"),
    (dict(groups_tile=2, tile_filters=8), "with 8 of 16 filters"),
    (dict(warps=64), "at most 32"), (dict(vector=4), "vector = 4"), (dict(store_vector=16), "store_vector = 16"),
    (dict(tile_p=64, tile_q=64, strips=16), "registers a thread"), (dict(min_blocks=64), "min_blocks = 64"),
    (dict(tile_p=64, tile_q=256), "bytes of shared memory")])
def test_plan_values_that_do_not_go_together(values, says):
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(small(c=6, groups=2), algorithm="taps", settings={"tile_p": 8, "tile_q": 32, "tile_filters": 16,
                                                                     "strips": 2, "warps": 4, "groups_tile": 1,
                                                                     "warp_groups": 1, **values})


def test_rows_of_nchw_are_stored_as_wide_as_their_length_allows():
    for w, groups, vector in ((32, 1, 8), (28, 1, 1), (32, 3, 8), (28, 3, 4), (30, 3, 2), (31, 3, 1)):
        made = plan_layer(small(layout="NCHW", w=w, c=12, k=33, groups=groups), algorithm="taps")
        assert made.settings()["store_vector"] == vector and made.program.argument("Q").multiple_of == vector
        assert made.program.argument("y").multiple_of == 2 * vector


def test_rows_of_nchw_are_loaded_as_wide_as_their_length_allows():
    """Runs begin where memory is aligned, ahead of a tile's first window; where the border reads the image, and where
    no more pixels fit, columns come one by one."""
    for w, padding, vector, lead in ((32, 1, 4, 3), (28, 0, 4, 0), (30, 1, 2, 1), (31, 1, 1, 0)):
        made = plan_layer(small(layout="NCHW", w=w, c=16, k=32, groups=2, padding=padding), algorithm="taps")
        assert (made.settings()["vector"], made.numbers.lead) == (vector, lead)
        assert made.program.argument("W").multiple_of == vector and made.program.argument("x").multiple_of == 2 * vector
        assert made.numbers.halo_columns % vector == 0
    for mode, vector in (("reflect", 1), ("constant", 4)):
        layer = small(layout="NCHW", w=32, c=16, k=32, groups=2, padding_mode=mode, padding_value=0.5 * (vector > 1))
        assert plan_layer(layer, algorithm="taps").settings()["vector"] == vector
    with pytest.raises(UnsupportedSpec, match="vector = 8"):
        plan_layer(small(layout="NCHW", w=32, c=16, k=32, groups=2), algorithm="taps", settings={"vector": 8})


@on_cpu_device
@pytest.mark.parametrize("each", [3, 4, 8, 20])
@pytest.mark.parametrize("stride, padding", [(1, 1), (1, 2), (2, 1), (3, 0)])
def test_runs_of_columns_give_the_bits_of_single_ones(each, stride, padding):
    rng = np.random.default_rng(9)
    x, w = rng.standard_normal((2, 2 * each, 11, 20)).astype("f2"), rng.standard_normal((16, each, 3, 3)).astype("f2")
    x[0, 0, 0, 0], x[1, 2 * each - 1, 10, 19] = np.inf, np.nan
    shape = small(n=2, c=2 * each, k=16, h=11, w=20, groups=2, stride=stride, padding=padding, layout="NCHW")
    values = {"tile_p": 4, "tile_q": 16, "tile_filters": 8, "strips": 2, "warps": 2, "groups_tile": 1, "joined": 1,
              "warp_groups": 1}
    one, two, four = (warpconv.specialize(shape, algorithm="taps", device="cpu", settings={**values, "vector": vector})(
        x, w) for vector in (1, 2, 4))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, four)


@on_cpu_device
@pytest.mark.parametrize("channels, groups", [(16, 2), (64, 2), (32, 8)])
@pytest.mark.parametrize("stride", [1, 2])
def test_tiles_of_any_width_give_the_bits_of_whole_runs(channels, groups, stride):
    """Columns of runs beyond a tile are its neighbour's, or nobody's: whatever stands behind its pixels."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 9, 27, channels)).astype("f2")
    x[0, 0, 6, 1], x[1, 8, 26, channels - 1] = np.inf, np.nan
    w = rng.standard_normal((channels, channels // groups, 3, 3)).astype("f2")
    shape = small(n=2, c=channels, k=channels, h=9, w=27, groups=groups, stride=stride)
    each = {"tile_p": 4, "tile_filters": max(8, channels // groups), "groups_tile": 2, "warp_groups": 1, "warps": 2,
            "buffers": 3 - stride, "joined": 2 if channels // groups == 4 else 1}

    def made(tile_q: int, strips: int) -> np.ndarray:
        kernel = warpconv.specialize(shape, algorithm="taps", device="cpu",
                                     settings={**each, "tile_q": tile_q, "strips": strips})
        return kernel(x, w)

    whole = made(16, 2)
    for tile_q, strips in ((7, 1), (14, 2), (5, 2), (3, 1), (20, 2)):
        np.testing.assert_array_equal(made(tile_q, strips), whole)


def test_four_channels_of_nhwc_are_copied_without_registers():
    assert "wc_copy_async_zfill_8(" in render(plan_layer(small(c=4), algorithm="taps")).text
    assert "wc_copy_async_zfill_8(" not in render(plan_layer(small(c=4, layout="NCHW"), algorithm="taps")).text


@pytest.mark.parametrize("channels, copied, cell", [(4, 8, 4), (8, 16, 8), (12, 8, 4), (16, 16, 8), (20, 8, 4),
                                                    (24, 16, 8), (32, 16, 8)])
def test_channels_are_copied_as_wide_as_they_are_whole(channels, copied, cell):
    made = plan_layer(small(c=2 * channels, groups=2), algorithm="taps")
    text = render(made).text
    assert f"wc_copy_async_zfill_{copied}(" in text and made.numbers.cell == cell
    assert ("wc_load_matrices_4(" in text) == (cell == 8)


@pytest.mark.parametrize("channels, groups_tile, octets", [(8, 1, 1), (8, 2, 2), (8, 3, 4), (8, 4, 4), (8, 8, 8),
                                                           (16, 1, 2), (16, 4, 8), (32, 1, 4), (32, 2, 8), (32, 4, 16),
                                                           (24, 1, 4), (24, 2, 8)])
def test_cells_of_a_pixel_lie_side_by_side_where_eight_pixels_lie_in_all_banks(channels, groups_tile, octets):
    values = {"tile_p": 4, "tile_q": 16, "tile_filters": 8, "groups_tile": groups_tile, "warp_groups": 1, "strips": 2,
              "warps": 2}
    shape = small(c=8 * channels, k=64, groups=8)
    made = plan_layer(shape, algorithm="taps", settings=values)
    assert made.numbers.octets == octets and made.numbers.together == (octets in (2, 4, 8))
    if made.numbers.together:
        assert cells_lie_without_conflicts(render(made).text, octets)
    narrow = plan_layer(shape, algorithm="taps", settings={**values, "vector": 1})
    assert not narrow.numbers.together


@pytest.mark.parametrize("channels, size, tile, stride, loads", [
    (16, 3, (8, 8, 4), 1, 3 * 6), (16, 3, (14, 8, 7), 1, 3 * 9), (16, 3, (8, 8, 2), 1, 3 * 4),
    (16, 3, (8, 8, 2), 2, 3 * 5), (16, 3, (1, 32, 2), 1, 3 * 2 * 3), (32, 5, (8, 8, 4), 1, 10 * 8),
    (16, 1, (8, 8, 4), 1, 4), (8, 3, (8, 8, 4), 1, 6 + 3), (8, 3, (8, 8, 2), 2, 5 + 3)])
def test_a_line_of_pixels_is_loaded_once_for_all_rows_of_the_filter(channels, size, tile, stride, loads):
    """Strips of neighbouring rows share lines: of four under a filter of three rows six are loaded, not twelve. Of a
    column of the filter that has no other beside it two lines come at a time."""
    values = {"tile_p": tile[0], "tile_q": tile[1], "strips": tile[2], "tile_filters": 8, "groups_tile": 1,
              "warp_groups": 1, "warps": 1}
    shape = small(c=2 * channels, k=16, groups=2, r=size, s=size, stride=stride, h=40, w=40)
    made = plan_layer(shape, algorithm="taps", settings=values)
    filters = 0 if made.numbers.held_filters else made.numbers.chunks
    assert made.cost.warp_loads == loads + filters


@on_cpu_device
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("each, groups_tile", [(8, 4), (16, 2), (24, 2), (4, 4)])
def test_the_last_block_may_have_fewer_groups(each, groups_tile, layout):
    """Five groups by blocks of four or two: as with a block for each."""
    rng = np.random.default_rng(8)
    x, w = rng.standard_normal((2, 5 * each, 9, 11)), rng.standard_normal((40, each, 3, 3))
    x[1, 4 * each + 1, 3, 5] = np.inf
    given = (x if layout == "NCHW" else x.transpose(0, 2, 3, 1)).astype("f2").copy()
    shape = small(n=2, c=5 * each, k=40, h=9, w=11, groups=5, layout=layout)
    values = {"tile_p": 8, "tile_q": 8, "tile_filters": 8, "strips": 2, "warps": 2, "joined": 1}
    together = groups_tile if layout == "NHWC" else 1
    several, alone = (warpconv.specialize(shape, algorithm="taps", device="cpu", settings={**values, **groups})(
        given, w.astype("f2")) for groups in ({"groups_tile": groups_tile, "warp_groups": together},
                                              {"groups_tile": 1, "warp_groups": 1}))
    np.testing.assert_array_equal(several, alone)


def test_a_block_of_few_warps_copies_a_pixel_at_once():
    values = {"tile_p": 2, "tile_q": 16, "tile_filters": 8, "groups_tile": 8, "warp_groups": 4, "strips": 2, "warps": 1}
    with pytest.raises(UnsupportedSpec, match="1 warps for 56 pieces of a pixel"):
        plan_layer(small(c=224, k=64, groups=8), algorithm="taps", settings=values)


def test_first_layers_whose_rows_of_y_begin_anywhere_take_it():
    """In NCHW, where pairs of columns would be stored in parts of memory's 32 bytes; others are those of pairs."""
    for size, k, stride, h in ((7, 64, 2, 227), (3, 32, 2, 299), (7, 64, 2, 225)):
        shape = ConvShape(n=32, c=3, h=h, w=h, k=k, r=size, s=size, stride=stride, dtype="float16")
        assert plan_layer(shape, arch="sm_80").spec.algorithm == "taps"
    assert all(plan_layer(layer(*sizes, layout), arch="sm_80").spec.algorithm == "taps_mma"
               for sizes in LAYERS[:5] for layout in LAYOUTS)


@pytest.mark.parametrize("sizes, layout", [(LAYERS[5], "NHWC"), (LAYERS[5], "NCHW"), (LAYERS[6], "NHWC")])
def test_groups_of_four_channels_take_it(sizes, layout):
    assert plan_layer(layer(*sizes, layout)).spec.algorithm == "taps"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", WIDER)
def test_groups_of_up_to_32_channels_take_it(sizes, layout):
    assert plan_layer(layer(*sizes, layout)).spec.algorithm == "taps"


@pytest.mark.parametrize("c, k, h, size, stride, layout", [
    (24, 48, 112, 3, 2, "NHWC"), (16, 64, 56, 3, 1, "NCHW"), (8, 32, 112, 5, 2, "NCHW"), (32, 32, 112, 3, 1, "NCHW")])
def test_layers_of_few_channels_take_it_where_it_is_quickest(c, k, h, size, stride, layout):
    """Of 106 contests of it with ``mma``, ``wgmma`` and first layers' kernels (an H200, 2026-11-30), four that others
    would win by an estimate that does not know windows of short pieces, or planes of eight channels."""
    shape = layer(c, h, size, k, stride, size // 2, 1, layout)
    assert plan_layer(shape, arch="sm_90a").spec.algorithm == "taps"


def test_one_tap_of_many_filters_in_nchw_is_left_to_others():
    assert plan_layer(layer(24, 56, 1, 144, 1, 0, 1, "NCHW"), arch="sm_90a").spec.algorithm == "wgmma"


# ---- what is computed

@on_cpu_device
@pytest.mark.parametrize("layout", LAYOUTS)
def test_taps_that_fill_up_an_instruction_do_not_spread_what_is_not_finite(layout):
    """Nine taps stand in twelve: Inf and NaN reach the outputs whose windows hold them, and no other."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, 12, 12, 3)).astype("f2"), rng.standard_normal((8, 3, 3, 3)).astype("f2")
    x[0, 4, 4, 2], x[0, 0, 0, 0] = np.inf, np.nan
    given = x if layout == "NHWC" else x.transpose(0, 3, 1, 2).copy()
    y = warpconv.conv2d(given, w, padding=1, layout=layout, algorithm="taps", device="cpu")
    y = y if layout == "NHWC" else y.transpose(0, 2, 3, 1)
    reached = np.zeros((12, 12), bool)
    reached[3:6, 3:6] = reached[:2, :2] = True
    assert (~np.isfinite(y.astype("f4")).all(axis=-1)[0] == reached).all()


@on_cpu_device
@pytest.mark.parametrize("layout", LAYOUTS)
def test_lanes_without_a_tap_do_not_spread_what_is_not_finite(layout):
    """Nine taps of eight channels stand in ten: the last is zeros, whatever lies behind the window."""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, 9, 9, 16)).astype("f2"), rng.standard_normal((16, 8, 3, 3)).astype("f2")
    x[0, 4, 4, 3] = np.inf
    given = x if layout == "NHWC" else x.transpose(0, 3, 1, 2).copy()
    y = warpconv.conv2d(given, w, padding=1, groups=2, layout=layout, algorithm="taps", device="cpu")
    y = y if layout == "NHWC" else y.transpose(0, 2, 3, 1)
    reached = np.zeros((9, 9), bool)
    reached[3:6, 3:6] = True
    finite = np.isfinite(y.astype("f4"))[0]
    assert (~finite[..., :8].all(axis=-1) == reached).all() and finite[..., 8:].all()


@on_cpu_device
def test_two_buffers_and_one_give_the_same_bits():
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((3, 19, 21, 32)).astype("f2"), rng.standard_normal((32, 8, 3, 3)).astype("f2")
    values = {"tile_p": 8, "tile_q": 8, "tile_filters": 8, "groups_tile": 4, "warp_groups": 4, "strips": 2, "warps": 2}
    shape = small(n=3, c=32, h=19, w=21, groups=4)
    one, two = (warpconv.specialize(shape, algorithm="taps", device="cpu",
                                    settings={**values, "buffers": buffers})(x, w) for buffers in (1, 2))
    assert (one == two).all()


@pytest.mark.parametrize("changes, joined, says", [
    (dict(c=32, k=32, groups=8, layout="NCHW"), 4, "joined = 4 for 8 groups of 4 channels and 4 filters"),
    (dict(c=32, k=64, groups=8), 2, "groups of 2 or 4 of both"), (dict(c=24, k=24, groups=8), 2, "of 3 channels"),
    (dict(c=32, k=32, groups=8), 4, r"joined = 4 .* \(2\)"), (dict(c=32, k=32, groups=16), 2, r"joined = 2 .* \(4\)"),
    (dict(c=12, k=12, groups=3), 2, "for 3 groups")])
def test_groups_that_cannot_be_joined(changes, joined, says):
    values = {"tile_p": 8, "tile_q": 8, "tile_filters": 8, "strips": 2, "warps": 2, "joined": joined}
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(small(**changes), algorithm="taps", settings=values)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_groups_of_four_are_joined(arch, layout):
    """Two taps of two groups an instruction: five for nine taps, where one group's take three each."""
    made = plan_layer(layer(*LAYERS[5], layout), algorithm="taps", arch=arch)
    assert made.settings()["joined"] == 2 and made.numbers.chunks == 5 and made.numbers.groups == 16
    apart = plan_layer(layer(*LAYERS[5], layout), algorithm="taps", arch=arch, settings={
        "tile_p": 8, "tile_q": 8, "tile_filters": 8, "strips": 2, "warps": 2, "warp_groups": 1, "groups_tile": 1,
        "buffers": 1, "joined": 1})
    assert apart.numbers.chunks == 3


@on_cpu_device
@pytest.mark.parametrize("each", [2, 4])
@pytest.mark.parametrize("layout, groups_tile, buffers", [("NHWC", 1, 1), ("NHWC", 2, 2), ("NCHW", 1, 1),
                                                          ("NCHW", 2, 1)])
def test_joined_groups_give_what_they_give_apart(each, layout, groups_tile, buffers):
    """Infinities and NaNs of x and of the filter reach the outputs that they reach apart, and no other group's."""
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((2, 13, 11, 32)).astype("f2"), rng.standard_normal((32, each, 3, 2)).astype("f2")
    x[0, 4, 4, 3], x[0, 12, 10, 30], x[1, 0, 0, 17], x[1, 7, 7] = np.inf, np.nan, -np.inf, 65504
    w[21, 0, 1, 1] = np.inf
    shape = small(n=2, c=32, k=32, h=13, w=11, s=2, groups=32 // each, layout=layout)
    values = {"tile_p": 4, "tile_q": 8, "tile_filters": 8, "strips": 2, "warps": 2, "groups_tile": groups_tile,
              "warp_groups": groups_tile if layout == "NHWC" else 1, "buffers": buffers}
    given = x if layout == "NHWC" else x.transpose(0, 3, 1, 2).copy()
    joined, apart = (warpconv.specialize(shape, algorithm="taps", device="cpu", settings=values)(given, w).astype("f4")
                     for values in ({**values, "joined": 8 // each}, {**values, "buffers": 1, "joined": 1}))
    if layout == "NCHW":
        joined, apart = (y.transpose(0, 2, 3, 1) for y in (joined, apart))
    np.testing.assert_array_equal(np.isfinite(joined), np.isfinite(apart))
    finite = np.isfinite(apart)
    np.testing.assert_array_equal(joined[~finite], apart[~finite])
    assert not finite.all() and finite[1, 0, :, :16].all()
    np.testing.assert_allclose(joined[finite], apart[finite], rtol=2e-3, atol=2e-3)


@on_cpu_device
@pytest.mark.parametrize("each", [2, 4, 8])
def test_what_is_not_finite_stays_in_its_group(each):
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((1, 4 * each, 9, 9)), rng.standard_normal((4 * each, each, 3, 3))
    x[0, each + 1] = np.inf
    for layout in LAYOUTS:
        given = x if layout == "NCHW" else x.transpose(0, 2, 3, 1).copy()
        y = warpconv.conv2d(given.astype("f2"), w.astype("f2"), padding=1, groups=4, layout=layout, algorithm="taps",
                            device="cpu").astype("f4")
        y = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
        assert np.isfinite(y[0, [k for k in range(4 * each) if k // each != 1]]).all()
        assert not np.isfinite(y[0, each:2 * each]).any()


# ---- what compilers make of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", pytest.param("sm_89", marks=pytest.mark.long),
                                  pytest.param("sm_100", marks=pytest.mark.long),
                                  pytest.param("sm_120", marks=pytest.mark.long)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [LAYERS[0], LAYERS[5], WIDER[1], *(pytest.param(sizes, marks=pytest.mark.long)
                                                                     for sizes in (*LAYERS, *WIDER))])
def test_sums_and_matrices_stay_in_registers(sizes, layout, arch):
    made = plan_layer(layer(*sizes, layout), algorithm="taps", arch=arch)
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, c, k, h, size, stride, epilogue", [
    ("sm_80", 24, 384, 57, 3, 1, ("bias", "residual", "relu")), ("sm_80", 8, 384, 57, 3, 2, ("residual",)),
    ("sm_120", 4, 384, 57, 7, 1, ("bias", "residual", "relu")),
    ("sm_90", 24, 16, 112, 3, 1, ("bias", "residual", "relu")), ("sm_100", 12, 16, 112, 7, 1, ("bias", "relu")),
    ("sm_100", 12, 384, 112, 3, 1, ())])
def test_places_of_filters_are_not_kept_from_tile_to_tile(arch, c, k, h, size, stride, epilogue):
    """In NCHW a filter's place in y, and whether it exists, were found ahead of all tiles, for each of a tile's
    filters: up to 844 bytes a thread were spilled."""
    shape = layer(c, h, size, k, stride, size // 2, 1, "NCHW", n=8)
    made = plan_layer(shape, algorithm="taps", arch=arch, epilogue=epilogue)
    assert all(entry.spill_stores + entry.spill_loads == 0 for entry in build(made).compiled.entries)
