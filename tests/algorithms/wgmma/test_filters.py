"""The filters of ``wgmma``: those that stay in shared memory, and tiles that they do not fill."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
from tests.algorithms.wgmma.test_wgmma import layer, on_cpu_device
from warpconv.codegen.algorithms.wgmma.numbers import WgmmaNumbers
from warpconv.codegen.algorithms.wgmma.options import Filter
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def test_filters_stay_where_zeros_fill_up_what_is_copied():
    """Once for all tiles of a block, which has several; neither those that fill tiles and slices nor, in NHWC, the
    second of two tiles of filters."""
    for sizes, n, filter in (((80, 80, 1, 80, 1, 0), 16, "stays"), ((48, 160, 3, 96, 2, 1), 16, "stays"),
                             ((32, 320, 3, 64, 2, 1), 16, "stays"), ((80, 80, 1, 80, 1, 0), 1, "stages"),
                             ((288, 35, 1, 48, 1, 0), 32, "stays"), ((192, 28, 1, 96, 1, 0), 32, "stages"),
                             ((64, 160, 3, 128, 2, 1), 16, "stages"), ((232, 14, 1, 232, 1, 0), 32, "stages")):
        made = plan_layer(layer(*sizes, n=n), algorithm="wgmma")
        assert made.settings().get("filter") == filter, made.settings()


def test_filters_of_planes_stay_in_several_tiles():
    """24 -> 144, 1x1 on 56^2, batch 32: 13.1 us for 17.4 (an H200)."""
    for sizes, n, filter, several in (((24, 56, 1, 144, 1, 0), 32, "stays", True),
                                      ((48, 56, 1, 104, 1, 0), 32, "stays", False),
                                      ((64, 56, 1, 256, 1, 0), 32, "stages", True),
                                      ((24, 56, 1, 144, 1, 0), 1, "stages", True)):
        made = plan_layer(layer(*sizes, n=n, layout="NCHW"), algorithm="wgmma")
        assert made.settings().get("filter") == filter, made.settings()
        assert filter == "stages" or (made.numbers.filter_tiles > 1) == several


def test_layers_whose_filters_cannot_stay_are_refused_in_words():
    with pytest.raises(UnsupportedSpec, match="filter = stays is for form = im2col or planes"):
        plan_layer(layer(64, 28, 3, 64, 1, 1, dtype="float32"), algorithm="wgmma", precision="fp16x3",
                   settings={"form": "im2col", "filter": "stays", "filters": 64, "pixels": 64, "stages": 2})
    with pytest.raises(UnsupportedSpec, match="filter = stays with splits = 2"):
        plan_layer(layer(64, 28, 3, 72, 1, 1), algorithm="wgmma", settings={
            "form": "im2col", "filter": "stays", "filters": 64, "pixels": 64, "stages": 2, "splits": 2})
    with pytest.raises(UnsupportedSpec, match="fewer stages or pixels, or filter = stages"):
        plan_layer(layer(256, 28, 3, 64, 1, 1), algorithm="wgmma", settings={
            "form": "im2col", "filter": "stays", "filters": 64, "pixels": 64, "stages": 2, "splits": 1})


def test_pixels_that_begin_within_a_sector_have_large_tiles():
    """488 -> 488, 1x1 on 14^2, batch 32, by tiles of 192 pixels 10.5 us, of 96 13.3 (an H200): each tile copies its
    filters again, and a sector more of each pixel."""
    made = plan_layer(layer(488, 14, 1, 488, 1, 0))
    assert (made.spec.algorithm, made.options.filters, made.options.pixels) == ("wgmma", 128, 192)


def test_filters_that_fit_beside_no_tile_come_in_stages():
    """In NCHW the smallest tile by im2col has 64 pixels; filters of 27 steps leave room for fewer."""
    made = plan_layer(layer(160, 56, 3, 48, 2, 1, layout="NCHW"), algorithm="wgmma")
    assert (made.options.filter, made.options.splits) == (Filter.STAGES, 1)


@pytest.mark.parametrize("sizes, n, layout, tile", [
    ((128, 40, 3, 80, 1, 1), 16, "NHWC", ("halo", 64, 208)), ((256, 20, 3, 80, 1, 1), 16, "NHWC", ("halo", 64, 112)),
    ((80, 80, 3, 80, 1, 1), 16, "NHWC", ("halo", 128, 208)), ((80, 80, 1, 80, 1, 0), 16, "NCHW", ("planes", 128, 64))])
def test_tiles_of_filters_that_are_partly_empty(sizes, n, layout, tile):
    """An H200, us: 13.7 for 17.3 by a walk of windows, 9.9 for 12.4, 36.4 (101 by boxes of 80 pixels), 13.3 for 16
    where its filters came again for each tile."""
    made = plan_layer(layer(*sizes, n=n, layout=layout), arch="sm_90")
    assert tuple(getattr(value, "value", value) for value in map(made.settings().get, ("form", "filters", "pixels"))
                 ) == tile


def both_ways(shape: ConvShape, seed: int, precision: str = "float32", **values: Any) -> WgmmaNumbers:
    """Runs a plan with filters that come in stages and with ones that stay: the same bits, all finite. What the second
    has of numbers."""
    rng, element = np.random.default_rng(seed), "f4" if shape.dtype is DType.FLOAT32 else "f2"
    x, w = (rng.standard_normal(size).astype(element) for size in (shape.input_shape, shape.weight_shape))
    x = x.transpose(0, 2, 3, 1).copy() if shape.layout is Layout.NHWC else x
    made = [warpconv.specialize(shape, algorithm="wgmma", device="cpu", precision=precision, settings={
        **values, "stages": 3, "splits": 1, "filter": filter}) for filter in ("stages", "stays")]
    stages, stays = (kernel(x, w) for kernel in made)
    assert made[1].plan.options.stays
    assert np.isfinite(stages).all() and (stages == stays).all()
    return made[1].plan.numbers


@on_cpu_device
@pytest.mark.parametrize("sizes, n, form, filters, pixels", [
    ((40, 16, 1, 144, 1, 0), 48, "planes", 64, 64), ((136, 20, 1, 65, 1, 0), 2, "planes", 64, 64),
    ((24, 4, 1, 130, 1, 0), 5, "planes", 128, 32), ((72, 12, 1, 200, 1, 0), 16, "im2col", 128, 16)])
def test_several_tiles_of_filters_that_stay_make_the_same_bits(sizes, n, form, filters, pixels):
    """More tiles than multiprocessors, and fewer: blocks without one, of a launch that knows no images."""
    shape = layer(*sizes, n=n, layout="NCHW" if form == "planes" else "NHWC")
    assert both_ways(shape, seed=5, form=form, filters=filters, pixels=pixels).filter_tiles > 1


@on_cpu_device
@pytest.mark.parametrize("layout, precision, sizes", [
    ("NHWC", "float32", (48, 15, 3, 33, 2, 1)), ("NHWC", "float32", (136, 21, 1, 40, 1, 0)),
    ("NCHW", "float32", (20, 13, 3, 85, 1, 1)), ("NHWC", "tf32", (20, 13, 3, 40, 1, 1))])
def test_filters_that_stay_make_the_same_bits(layout, precision, sizes):
    """More tiles than the chip has multiprocessors: blocks have several."""
    shape = layer(*sizes, n=48, layout=layout, dtype="float32" if precision == "tf32" else "float16")
    pixels = 32 if layout == "NCHW" else 16
    assert shape.output_pixels > 132 * pixels
    both_ways(shape, seed=3, precision=precision, form="im2col", filters=128, pixels=pixels)
