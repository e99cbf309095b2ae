"""The boxes of ``wgmma``: for all taps, for a filter column's, for a filter plane's of a volume; of few channels."""

from __future__ import annotations

import pytest

from tests import checks
from tests.algorithms.wgmma.test_wgmma import layer, on_cpu_device, small
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer


def test_boxes_of_a_filter_column_are_for_several_columns():
    given = {"form": "halo", "box": "column", "filters": 64, "pixels": 64, "rows": 2, "columns": 9}
    for shape in (small(r=3, s=1, padding=(1, 0)), small(dtype="float32")):
        with pytest.raises(UnsupportedSpec, match="boxes of a filter column are for several columns"):
            plan_layer(shape, algorithm="wgmma", precision="fp16x3" if shape.s > 1 else "float32", settings=given)
    with pytest.raises(UnsupportedSpec, match="boxes = 1 for 3 boxes of a tile"):
        plan_layer(small(), algorithm="wgmma", settings={**given, "boxes": 1})


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("changes", [
    dict(), dict(stride=2), dict(stride=(2, 1), r=5, s=2, padding=((2, 1), (0, 1))),
    dict(stride=(1, 3), k=33, layout="NCHW"),
    dict(c=136, s=7, padding=(1, 3)), dict(dtype="float32")])
def test_a_box_of_a_filter_column_wastes_no_columns(changes):
    """Its pixels are the tile's outputs, so all columns of the products are used; of a layer that strides rows are
    phases."""
    shape = small(**{**dict(c=64, h=21, w=19), **changes})
    precision = "tf32" if shape.dtype.itemsize == 4 else "float32"
    made = plan_layer(shape, algorithm="wgmma", precision=precision, settings=dict(
        form="halo", box="column", filters=64, pixels=64, rows=4, columns=16, stages=3))
    assert made.numbers.box_columns == 16 and made.numbers.slice_boxes == shape.s
    assert made.numbers.phases == min(shape.r, shape.stride[0])
    checks.check_checked(made, shape)


def test_boxes_of_a_column_are_taken_where_others_would_drop_columns():
    """24^2 without padding: 20 of 24 columns of a box for all taps are outputs."""
    made = plan_layer(layer(96, 24, 5, 256, 1, 0, n=128), algorithm="wgmma", arch="sm_90").options
    assert made.by_columns and made.rows * made.columns == made.pixels


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("changes", [
    dict(), dict(stride=(2, 1)), dict(stride=(1, 2), k=33, layout="NCHW"),
    dict(stride=(3, 1), padding=((2, 0), (0, 1))), dict(r=2, s=2, padding=0),
    dict(r=3, s=1, stride=(2, 1), padding=(1, 0)), dict(r=5, s=5, padding=2, c=72)])
def test_a_box_of_a_layer_that_strides_has_phases(changes):
    """One for each row and column modulo the stride, and none that no tap reads."""
    shape = small(**{**dict(c=64, h=21, w=19, stride=2), **changes})
    made = plan_layer(shape, algorithm="wgmma", settings=dict(form="halo", filters=64, pixels=48, rows=4, columns=8,
                                                             stages=3))
    phases = min(shape.r, shape.stride[0]) * min(shape.s, shape.stride[1])
    assert made.numbers.phases == phases and made.program.descriptor("x_map").strides == shape.stride[::-1]
    checks.check_checked(made, shape)


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("changes, taps", [
    (dict(c=32), 2), (dict(c=16), 4), (dict(c=32, dtype="bfloat16", layout="NCHW", k=33), 2),
    (dict(c=16, dtype="float32"), 2), (dict(c=32, r=5, s=2, padding=(2, 1)), 2),
    (dict(c=27, layout="NCHW", stride=2), 2), (dict(c=16, d=4, t=3), 4), (dict(c=32, d=3, t=2, r=2), 2)])
def test_a_stage_has_the_taps_whose_channels_fill_a_slice(changes, taps):
    """The last one of a box fewer, where they do not share its taps out."""
    shape = small(**changes)
    made = plan_layer(shape, algorithm="wgmma", precision="tf32" if shape.dtype.itemsize == 4 else "float32",
                      settings=dict(form="halo", filters=64, pixels=64, rows=6, columns=7, stages=3))
    assert made.numbers.stage_taps == taps
    assert ("STAGE_TAPS" in render(made).text) and "break;" in render(made).text or made.numbers.box_taps % taps == 0
    checks.check_checked(made, shape)


@pytest.mark.parametrize("changes", [dict(c=24), dict(c=64), dict(c=40), dict(c=8), dict(c=48, dtype="float32")])
def test_other_channels_have_stages_of_a_tap(changes):
    made = plan_layer(small(**changes), algorithm="wgmma", precision="tf32" if "dtype" in changes else "float32",
                      settings=dict(form="halo", filters=64, pixels=64, rows=6, columns=7, stages=3))
    assert made.numbers.stage_taps == 1 and "STAGE_TAPS" not in render(made).text


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("changes", [
    dict(t=3, d=5), dict(t=1, d=2), dict(t=4, d=4, padding=(3, 1, 1)), dict(t=3, d=6, stride=(2, 1, 1)),
    dict(t=2, d=7, dilation=(3, 1, 1), padding=(2, 1, 1)), dict(t=3, d=4, stride=2), dict(t=3, d=4, layout="NCHW"),
    dict(t=2, d=3, c=70, k=70, layout="NCHW", w=8)])
@pytest.mark.parametrize("precision", ["float32", "tf32", "fp16x3"])
def test_volumes_have_boxes_of_filter_planes(changes, precision):
    """Whatever their stride and dilation along the depth."""
    dtype = "float16" if precision == "float32" else "float32"
    shape = small(**{**dict(c=40, h=6, w=7, n=2, dtype=dtype), **changes})
    made = plan_layer(shape, algorithm="wgmma", precision=precision,
                      settings=dict(form="halo", filters=64, pixels=64, rows=6, columns=7, stages=2))
    assert made.numbers.box_taps == 9 and made.numbers.box_serves == "a filter plane's"
    checks.check_checked(made, shape)


@pytest.mark.parametrize("c, precision", [(64, "fp16x3"), (64, "float32"), (48, "tf32"), (128, "fp16x3")])
def test_volumes_take_boxes_where_these_are_quicker(c, precision):
    """64 channels, 3x3x3 on 64^3: 0.56 ms where mma took 2.44 (float32), 0.17 where the walk of windows took 0.24."""
    shape = layer(c, 64, 3, c, 1, 1, n=2, d=64, t=3, dtype="float16" if precision == "float32" else "float32")
    made = plan_layer(shape, arch="sm_90", precision=precision)
    assert (made.spec.algorithm, made.options.form.value) == ("wgmma", "halo")


def test_a_plane_of_one_tap_has_no_box():
    with pytest.raises(UnsupportedSpec, match="one box for all taps is for more than one tap"):
        plan_layer(small(c=40, r=1, s=1, t=3, d=5, padding=(1, 0, 0)), algorithm="wgmma",
                   settings=dict(form="halo", filters=64, pixels=64, rows=6, columns=7))
