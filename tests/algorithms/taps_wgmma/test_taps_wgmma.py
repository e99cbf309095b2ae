"""``taps_wgmma``: what is planned, refused and chosen, what is computed, and what compilers make of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.codegen.algorithms.taps_wgmma import ALGORITHM
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.parts import lines, window_pairs
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build.pipeline import build

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
LAYOUTS = ("NHWC", "NCHW")
# (C, H = W, filter, K, stride, padding): ResNet's, AlexNet's, VGG's, ViT's, those of grey images
LAYERS = ((3, 224, 7, 64, 2, 3), (3, 227, 11, 96, 4, 0), (3, 224, 3, 64, 1, 1), (3, 224, 8, 128, 8, 0),
          (1, 256, 11, 32, 1, 5))


def layer(c: int, h: int, size: int, k: int, stride: int, padding: int, layout: str, n: int = 32) -> ConvShape:
    return ConvShape(n=n, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding, layout=layout,
                     dtype="float16")


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=3, h=16, w=16, k=32, r=7, s=7, padding=3, layout="NHWC", dtype="float16"),
                        **changes})


# ---- what is served

@pytest.mark.parametrize("changes, arch, says", [
    (dict(c=13), "sm_90", "13 channels"), (dict(dtype="float32"), "sm_90", "float32"),
    (dict(k=3), "sm_90", "3 filters"), (dict(c=4, k=8, groups=2), "sm_90", "2 groups"), ({}, "sm_80", "no wgmma"),
    (dict(c=12, r=31, s=31, h=99, w=99), "sm_90", "do not fit")])
def test_layers_that_are_refused(changes, arch, says):
    spec = KernelSpec.of(small(**changes), algorithm="taps_wgmma", arch=Arch.parse(arch))
    assert says in ALGORITHM.supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(groups=5), "groups = 5"), (dict(buffers=5), "buffers = 5"), (dict(filters=20), "filters = 20"),
    (dict(filters=24, store_vector=8), "filters = 24"), (dict(tile_q=24), "no whole number"),
    (dict(tile_p=3), "no whole number"), (dict(groups=3, tile_p=12), "no whole number"), (dict(vector=2), "vector = 2"),
    (dict(vector=8, w=18), "W a multiple of 8"), (dict(store_vector=16, filters=64), "store_vector = 16"),
    (dict(store_vector=8, k=36), "store_vector = 8"), (dict(layout="NCHW", store_vector=2, w=17), "Q a multiple of 2"),
    (dict(filters=256, groups=4), "registers a thread"),
    (dict(tile_p=256, tile_q=64), "bytes of shared memory"),
    (dict(stride=(1, 2)), "by turns"), (dict(stores="rows"), "in NCHW"),
    (dict(stores="rows", layout="NCHW", order="turns"), "order = turns"),
    (dict(stores="rows", layout="NCHW"), "a multiple of groups = 2"),
    (dict(stores="rows", layout="NCHW", buffers=2, tile_p=16, tile_q=24), "no whole number"),
    (dict(stores="rows", layout="NCHW", buffers=2, tile_p=64), "at most 1024"),
    (dict(stores="rows", layout="NCHW", buffers=2, store_vector=4), "store_vector = 4"),
    (dict(stores="rows", layout="NCHW", stride=2, stage=96), "stage = 96"),
    (dict(stores="rows", layout="NCHW", buffers=2, tile_p=16, tile_q=16, w=17), "at most 16")])
def test_plan_values_that_do_not_go_together(values, says):
    fields = {name: values.pop(name) for name in ("layout", "stride", "w", "k", "r", "s") if name in values}
    with pytest.raises((UnsupportedSpec, warpconv.ArgumentError), match=says):
        plan_layer(small(**fields), algorithm="taps_wgmma", settings={
            "tile_p": 8, "tile_q": 32, "filters": 32, "groups": 2, "buffers": 3, "order": "free", "vector": 1,
            "store_vector": 1, "stores": "direct", **values})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", LAYERS)
def test_first_layers_take_it(sizes, layout):
    """Where mma.sync is estimated to be as quick, its form is (grey images in NHWC, ViT's patches in NCHW)."""
    quick = ("taps_wgmma", "taps_mma") if (sizes, layout) in ((LAYERS[4], "NHWC"), (LAYERS[3], "NCHW")) else (
        "taps_wgmma",)
    assert select(layer(*sizes, layout)).algorithm in quick
    assert select(layer(*sizes, layout), "sm_80").algorithm != "taps_wgmma"


@pytest.mark.parametrize("h, size, k, stride, stores", [
    (224, 3, 64, 1, "rows"), (227, 11, 96, 4, "rows"), (299, 3, 32, 2, "rows"), (225, 7, 64, 2, "rows"),
    (230, 7, 64, 2, "rows"), (226, 3, 64, 1, "direct")])
def test_rows_of_y_that_begin_anywhere_are_put_together_first(h, size, k, stride, stores):
    """Else memory gets parts of its 32 bytes, of columns stored by pairs. With an even stride rows that begin with 16
    bytes are, too."""
    shape = ConvShape(n=128, c=3, h=h, w=h, k=k, r=size, s=size, stride=stride, dtype="float16")
    assert select(shape).algorithm == "taps_wgmma"
    assert plan_layer(shape).options.stores.value == stores


@pytest.mark.parametrize("w, layout, stride, vector, versions, sides", [
    (224, "NHWC", 2, 8, 1, False), (227, "NHWC", 2, 1, 2, False), (224, "NHWC", 1, 8, 2, True),
    (224, "NCHW", 2, 8, 1, True), (226, "NCHW", 1, 1, 2, True)])
def test_a_filter_for_either_side_of_a_pair_where_windows_begin_at_both(w, layout, stride, vector, versions, sides):
    made = plan_layer(small(h=w, w=w, layout=layout, stride=stride), algorithm="taps_wgmma")
    assert made.settings()["vector"] == vector
    assert (made.numbers.versions, made.numbers.by_side) == (versions, sides)
    assert made.program.argument("W").multiple_of == (8 if vector == 8 else 1)


def test_products_of_a_window_are_few_more_than_it_has_elements():
    """A pair holds two neighbours of a row; what four lanes do not share out of a row they have of several."""
    for sizes, layout, depths in ((LAYERS[0], "NHWC", 10), (LAYERS[1], "NHWC", 24), (LAYERS[2], "NHWC", 2),
                                  (LAYERS[2], "NCHW", 3), (LAYERS[3], "NHWC", 12)):
        assert plan_layer(layer(*sizes, layout), algorithm="taps_wgmma").numbers.depths == depths


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
                 for name in ("taps_wgmma", "direct"))
    assert not np.isfinite(y).all()
    for same in (np.isposinf, np.isneginf, np.isnan):
        assert (same(y) == same(direct)).all()


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("layout", LAYOUTS)
def test_ways_to_copy_and_to_take_turns_give_the_same_bits(layout):
    x, w = drawn(20, 24, 3, 64, 7, layout)
    shape = ConvShape(n=3, c=3, h=20, w=24, k=64, r=7, s=7, stride=2, padding=3, layout=layout, dtype="float16")
    values = {"tile_p": 8, "tile_q": 32, "filters": 64, "groups": 2}
    made = [warpconv.specialize(shape, algorithm="taps_wgmma", device="cpu",
                                settings={**values, "buffers": buffers, "order": order, "vector": vector,
                                          "store_vector": stores, "stores": "direct"})(x, w)
            for buffers, order, vector, stores in ((2, "free", 8, 2), (3, "turns", 1, 1), (4, "turns", 8, 1))]
    assert all((one == made[0]).all() for one in made)


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("h, w", [(19, 24), (19, 22), (19, 21), (18, 21)])
def test_rows_put_together_first_are_the_same_bits(h, w, stride):
    """Those that begin with 16 bytes, with a word and anywhere, beginning and end of y inside of a word, too; filters
    and rows that a tile has and y has not."""
    x, filters = drawn(h * stride, w * stride, 3, 40, 3, "NCHW")
    shape = ConvShape(n=3, c=3, h=h * stride, w=w * stride, k=40, r=3, s=3, stride=stride, padding=1, layout="NCHW",
                      dtype="float16")
    values = {"tile_p": 8, "tile_q": 32, "filters": 16, "groups": 2, "vector": 1}
    direct = warpconv.specialize(shape, algorithm="taps_wgmma", device="cpu", settings={
        **values, "buffers": 3, "order": "turns", "store_vector": 1, "stores": "direct"})(x, filters)
    in_turns = (64, 256) if stride == 2 else ()         # where groups share out a tile
    for store in (store for store in (8, 2, 1) if w % store == 0):
        anywhere = 0 if store > 1 else 1
        for groups, buffers, stage, ahead in ((2, 2, 64, 0), (3, 3, 128, 0), (2, 4, 192, anywhere), (3, 3, 256, 0)):
            kernel = warpconv.specialize(shape, algorithm="taps_wgmma", device="cpu", settings={
                **values, "groups": groups, "buffers": buffers, "order": "turns" if stage in in_turns else "free",
                "store_vector": store, "stores": "rows", "stage": stage})
            memory = np.full(ahead + direct.size + 1, 7, "f2")
            y = memory[ahead:-1].reshape(direct.shape)
            kernel(x, filters, out=y)
            assert (y == direct).all() and (memory[:ahead] == 7).all() and memory[-1] == 7


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("h, w, size, stride", [(11, 13, 3, 2), (12, 9, 5, 2), (23, 23, 11, 4), (3, 3, 3, 2),
                                                (4, 5, 2, 2), (17, 15, 4, 2)])
def test_a_channels_rows_are_one_copy_where_nothing_is_padded(h, w, size, stride):
    """Images of any size, whose last elements fill no 16 bytes; few rows of them in a tile, or more than there are."""
    x, filters = drawn(h, w, 3, 8, size, "NCHW")
    shape = ConvShape(n=3, c=3, h=h, w=w, k=8, r=size, s=size, stride=stride, dtype="float16")
    direct = warpconv.conv2d(x, filters, stride=stride, device="cpu", algorithm="direct")
    for tile_p, buffers, order in ((1, 2, "turns"), (2, 3, "free"), (64, 2, "turns")):
        kernel = warpconv.specialize(shape, algorithm="taps_wgmma", device="cpu", settings={
            "tile_p": tile_p, "tile_q": 8, "filters": 8, "groups": 2, "buffers": buffers, "order": order, "vector": 1,
            "store_vector": 1, "stores": "rows", "stage": 64})
        assert kernel.plan.numbers.rows_together
        np.testing.assert_allclose(kernel(x, filters).astype("f4"), direct.astype("f4"), rtol=2e-3, atol=2e-2)


@on_cpu_device
def test_ends_of_rows_of_more_filters_than_a_warp_stores_at_once():
    """A lane stores the ends of several filters then."""
    x, filters = drawn(9, 9, 1, 136, 3, "NCHW")
    shape = ConvShape(n=3, c=1, h=9, w=9, k=136, r=3, s=3, stride=2, padding=1, dtype="float16")
    kernel = warpconv.specialize(shape, algorithm="taps_wgmma", device="cpu", settings={
        "tile_p": 8, "tile_q": 8, "filters": 136, "groups": 2, "buffers": 2, "order": "free", "vector": 1,
        "store_vector": 1, "stores": "rows"})
    direct = warpconv.conv2d(x, filters, stride=2, padding=1, device="cpu", algorithm="direct")
    np.testing.assert_allclose(kernel(x, filters).astype("f4"), direct.astype("f4"), rtol=2e-3, atol=2e-2)


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("q", [130, 132])
def test_a_lanes_second_window_may_lie_in_the_next_row(q):
    """Of columns two apart, in rows of 130 outputs, and not of 132."""
    x, w = drawn(12, 140, 5, 32, 3, "NHWC")
    shape = ConvShape(n=3, c=5, h=12, w=140, k=32, r=3, s=3, layout="NHWC", dtype="float16")
    kernel = warpconv.specialize(shape, algorithm="taps_wgmma", device="cpu", settings={
        "tile_p": 64, "tile_q": q, "filters": 32, "groups": 2, "buffers": 2, "order": "turns", "vector": 1,
        "store_vector": 1})
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
                 for name in ("taps_wgmma", "direct"))
    np.testing.assert_allclose(y.astype("f4"), direct.astype("f4"), rtol=2e-3, atol=2e-2)


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("sizes", [
    dict(c=1, h=3, w=5, r=3, s=3), dict(n=2, c=2, h=9, w=1, r=1, s=1), dict(h=33, w=33, r=4, s=4),
    dict(h=33, w=33, r=2, s=2, layout="NCHW"), dict(c=1, h=20, w=96, r=2, s=2, padding=1, layout="NCHW"),
    dict(h=16, w=24, r=4, s=4, padding=3), dict(c=4, h=20, w=25, r=7, s=7, stride=2, padding=3)])
def test_nothing_is_read_behind_lines_or_before_it_is_there(sizes):
    """Narrow lines, and pairs that hold more than the last window of a line."""
    shape = small(**{"padding": 0, **sizes})
    checks.check_checked(checks.planned(shape, "taps_wgmma"), shape)


@on_cpu_device
@pytest.mark.parametrize("c, size, rounds", [(4, 5, (30, 15)), (3, 3, (9, 5))])
def test_lines_lie_so_far_apart_that_loads_meet_in_few_banks(c, size, rounds, monkeypatch):
    """Rounds of a window's loads: of quads of what is left of short spans two each where they meet in banks (the last
    of 3x3 has two pairs and zeros), and one where lines lie further apart. A warp has 16 windows of a tile. (What is
    outside of the image is stored by as many lanes as a line has pieces: these meet in as many banks either way.)"""
    monkeypatch.setattr(lines, "OUTSIDE_LANES", 16)

    def wavefronts(kept):
        if not kept:
            monkeypatch.setattr(window_pairs, "spread", lambda made, runs: made)
        shape = ConvShape(n=1, c=c, h=16, w=128, k=8, r=size, s=size, padding=size // 2, dtype="float16")
        made = plan_layer(shape, algorithm="taps_wgmma", settings={
            "tile_p": 8, "tile_q": 64, "filters": 8, "groups": 2, "buffers": 2, "order": "free", "vector": 8,
            "store_vector": 2, "stores": "direct"})
        return checks.check_checked(made, shape)[-1].shared_wavefronts, made.numbers.quads

    (apart, quads), (as_they_lie, _) = wavefronts(True), wavefronts(False)
    assert quads == rounds[1]
    assert as_they_lie - apart == 16 * 128 // 8 * (rounds[0] - rounds[1])


def test_pixels_of_an_even_number_of_channels_have_one_version():
    numbers = plan_layer(small(c=4, h=225, w=225, stride=2), algorithm="taps_wgmma").numbers
    assert (numbers.versions, numbers.patterns, numbers.depths) == (1, 1, 13) and not numbers.whole_lines


def test_a_filter_that_fits_once_and_not_twice_is_served_where_a_block_needs_one_version():
    """Columns two apart begin at one side of a pair, neighbours do not."""
    layer_of = dict(c=3, h=226, k=96, r=22, s=22, padding=0)
    assert plan_layer(small(**layer_of, w=224, stride=4), algorithm="taps_wgmma").numbers.versions == 1
    odd = plan_layer(small(**layer_of, w=225, stride=4), algorithm="taps_wgmma").numbers
    assert (odd.versions, odd.by_parity) == (2, True) and odd.filter_bytes == odd.version_bytes
    both = plan_layer(small(**layer_of, w=225, stride=1), algorithm="taps_wgmma").numbers
    assert (both.versions, both.by_parity) == (2, False) and both.filter_bytes == 2 * both.version_bytes


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_of_an_odd_number_of_elements_are_shared_out_by_their_side(layout, n):
    """Every second image begins at the other side of a pair, whose products are paired otherwise. Bits of the others
    are those of each image alone; an image of an even number of elements goes to all blocks."""
    for h, w, tile_p in ((15, 21, 32), (95, 37, 8), (94, 37, 8)):
        rng = np.random.default_rng(n)
        x = rng.standard_normal((n, h, w, 3)).astype("f2")
        x = x if layout == "NHWC" else x.transpose(0, 3, 1, 2).copy()
        filters = rng.standard_normal((16, 3, 5, 5)).astype("f2")
        shape = ConvShape(n=n, c=3, h=h, w=w, k=16, r=5, s=5, stride=2, layout=layout, dtype="float16")
        kernel = warpconv.specialize(shape, algorithm="taps_wgmma", device="cpu", settings={
            "tile_p": tile_p, "tile_q": 32, "filters": 16, "groups": 2, "buffers": 2, "order": "turns", "vector": 1,
            "store_vector": 1, "stores": "direct"})
        y = kernel(x, filters)
        direct = warpconv.conv2d(x, filters, stride=2, layout=layout, device="cpu", algorithm="direct")
        np.testing.assert_allclose(y.astype("f4"), direct.astype("f4"), rtol=2e-3, atol=2e-2)
        assert all((kernel(x[i:i + 1], filters)[0] == y[i]).all() for i in range(0, n, 2 if h % 2 else 1))


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("tile, groups", [((8, 56), 2), ((8, 56), 3), ((16, 24), 3), ((8, 40), 3)])
def test_groups_share_out_tiles_of_any_number_of_items(tile, groups):
    """Seven, six and five times 64 outputs: a group goes on where the others are in the next tile, and a run from one
    row to the next."""
    x, w = drawn(37, 121, 3, 32, 7, "NHWC")
    shape = ConvShape(n=3, c=3, h=37, w=121, k=32, r=7, s=7, stride=2, padding=3, layout="NHWC", dtype="float16")
    made = [warpconv.specialize(shape, algorithm="taps_wgmma", device="cpu", settings={
        "tile_p": p, "tile_q": q, "filters": 32, "groups": of, "buffers": 2, "order": order, "vector": 1,
        "store_vector": 8})(x, w) for (p, q), of, order in ((tile, groups, "turns"), (tile, groups, "free"),
                                                            ((8, 16), 2, "free"))]
    assert all((one == made[-1]).all() for one in made)


@pytest.mark.thin(4)
@pytest.mark.nvcc
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [LAYERS[0], LAYERS[2], *(pytest.param(sizes, marks=pytest.mark.long)
                                                          for sizes in (LAYERS[1], *LAYERS[3:]))])
def test_sums_stay_in_registers_and_products_are_not_made_one_by_one(sizes, layout):
    """ptxas waits for each wgmma (C7510 to C7519) where it finds no other way to keep its registers apart."""
    made = plan_layer(layer(*sizes, layout), algorithm="taps_wgmma", arch="sm_90")
    compiled = build(made).compiled
    for entry in compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
    assert not re.search("serialized", str(compiled)), compiled
