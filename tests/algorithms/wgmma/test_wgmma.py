"""``wgmma``: what is planned, refused and chosen, and what the CPU device and compilers make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks
from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.algorithms.wgmma import ALGORITHM
from warpconv.codegen.algorithms.wgmma.choice import candidates, choice
from warpconv.codegen.algorithms.wgmma.estimate import cycles, tiles_of
from warpconv.codegen.algorithms.wgmma.numbers import make_numbers, resolved
from warpconv.codegen.algorithms.wgmma.options import Form
from warpconv.codegen.classes import replace
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch, Hardware
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.devices.cpu import Mode
from warpconv.runtime.pack.check import check_program

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
TARGET = Arch(9, 0, "a")
# (C, H = W, filter, K, stride, padding): of ResNet-50
LAYERS = ((64, 56, 1, 64, 1, 0), (64, 56, 3, 64, 1, 1), (256, 56, 1, 512, 2, 0), (128, 28, 3, 128, 1, 1),
          (256, 14, 3, 256, 1, 1), (2048, 7, 1, 512, 1, 0), (512, 7, 3, 512, 1, 1))


def layer(c: int, h: int, size: int, k: int, stride: int = 1, padding: Any = 0, n: int = 32, **more: Any) -> ConvShape:
    return ConvShape(**{**dict(n=n, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding,
                               dtype="float16", layout="NHWC"), **more})


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=16, h=9, w=9, k=32, r=3, s=3, padding=1, dtype="float16", layout="NHWC"),
                        **changes})


# ---- what is served

@pytest.mark.parametrize("changes, arch, says", [
    (dict(layout="NCHW", c=13), "sm_90", None), (dict(dtype="float32"), "sm_90", "float32"),
    (dict(groups=2), "sm_90", "2 groups"), ({}, "sm_80", "no wgmma"), ({}, "sm_100", "no wgmma"),
    (dict(padding_mode="reflect"), "sm_90", "border reflect"), (dict(c=12), "sm_90", "pixels 24 bytes apart"),
    (dict(stride=9), "sm_90", "strides of 9 rows"), (dict(padding=130, h=300, w=300), "sm_90", "corner of -130"),
    (dict(dilation=70, padding=70), "sm_90", None), (dict(dilation=127, padding=127, h=160), "sm_90", None),
    (dict(dilation=128, padding=128, h=160), "sm_90", "taps 256 pixels from a window's first"),
    (dict(dilation=100, padding=60, h=200, w=200), "sm_90", "corner of")])
def test_layers_that_are_refused_in_words(changes, arch, says):
    spec = KernelSpec.of(small(**changes), algorithm="wgmma", arch=Arch.parse(arch))
    reason = ALGORITHM.supports(spec)
    assert (reason is None) if says is None else says in reason


@pytest.mark.parametrize("values, says", [
    (dict(filters=96), "filters = 96"), (dict(pixels=40), "pixels = 40"),
    (dict(filters=64, pixels=1024), "pixels = 1024"),
    (dict(filters=256, pixels=208), "208 sums a thread"), (dict(stages=1), "stages = 1"),
    (dict(splits=10), "splits = 10 of 9 steps"), (dict(filters=128, pixels=256, stages=8), "bytes of shared memory"),
    (dict(form="halo", pixels=64, rows=9, columns=9), "9 x 9 outputs need 97 columns"),
    (dict(filter="stays", splits=2), "filter = stays with splits = 2")])
def test_plan_values_that_do_not_go_together(values, says):
    given = {"form": "im2col", "filters": 128, "pixels": 64, "stages": 4, "splits": 1, **values}
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(small(), algorithm="wgmma", settings=given)


@pytest.mark.parametrize("changes", [dict(stride=(2, 3)), dict(stride=(2, 1), r=1), dict(dilation=2),
                                     dict(r=1, s=1, padding=0), dict(k=33)])
def test_one_box_serves_taps_that_lie_side_by_side(changes):
    with pytest.raises(UnsupportedSpec, match="one box for all taps"):
        plan_layer(small(**changes), algorithm="wgmma", settings={"form": "halo", "filters": 64, "pixels": 64,
                                                                  "rows": 2, "columns": 9})


def test_boxes_of_phases_are_taken_where_pixels_are_split():
    for sizes, name in (((128, 56, 3, 128, 2, 1), "halo"), ((96, 56, 2, 192, 2, 0), "im2col")):
        assert plan_layer(layer(*sizes, dtype="float32"), algorithm="wgmma", arch="sm_90").options.form.value == name
    assert plan_layer(layer(128, 56, 3, 128, 2, 1), algorithm="wgmma", arch="sm_90").options.form is Form.IM2COL


def test_the_text_is_for_the_form_of_sm_90_that_has_the_instructions():
    made = plan_layer(small(), algorithm="wgmma", arch="sm_90")
    assert made.spec.arch == TARGET and "--arch sm_90a" in render(made).text


# ---- descriptors

def test_descriptors_are_a_recipe_in_plan_text_and_program():
    made = plan_layer(layer(64, 28, 3, 72, 2, 1), algorithm="wgmma", epilogue=(BIAS, RESIDUAL, RELU))
    names = [d.argument for d in made.program.descriptors]
    assert names == ["x_map", "filter_map", "y_map", "residual_map"]
    walk = made.program.descriptor("x_map")
    assert (walk.lower, walk.upper, walk.strides) == ((-1, -1), (-1, -1), (2, 2))
    text = " ".join(line.removeprefix("//").strip() for line in render(made).text.splitlines())
    for described in made.program.descriptors:
        assert str(described) in str(made) and str(described) in text
    numbers = walk.at(layer(64, 28, 3, 72, 2, 1))
    assert numbers.sizes == (64, 28, 28, 32) and numbers.distances == (128, 3584, 100352)


def test_boxes_with_strides_are_told_by_what_they_span():
    shape = layer(64, 28, 3, 72, 2, 1)
    made = plan_layer(shape, algorithm="wgmma", settings=dict(form="halo", filters=128, pixels=104, rows=7, columns=14,
                                                             stages=3))
    box = made.program.descriptor("x_map")
    assert "boxes of 64 x 30 x 16 x 1, element strides 1, 2, 2, 1" in str(box)      # as the driver takes them
    assert box.at(shape).steps == (1, 2, 2, 1) and box.at(shape).box == (64, 30, 16, 1)
    assert "64 x 30 x 400 x 1" in replace(box, box=(64, 30, 400, 1)).refusal()
    assert "strides of 9 rows and 2 columns" in replace(box, strides=(2, 9)).refusal()
    check_program(made.program, made.spec)
    for strides in ((), (2,), (2, 2, 2)):       # as a pack could claim
        others = (replace(box, strides=strides), *made.program.descriptors[1:])
        with pytest.raises(ValueError, match="steps along other axes"):
            check_program(replace(made.program, descriptors=others), made.spec)


def test_asymmetric_padding_and_dilation_are_corners():
    made = plan_layer(small(padding=((0, 2), (3, 1)), dilation=(2, 1)), algorithm="wgmma")
    walk = made.program.descriptor("x_map")
    assert walk.lower == (-3, 0) and walk.upper == (1 - 2, 2 - 4)


def test_sizes_beyond_a_descriptor_are_declined_in_words():
    program = plan_layer(layer(8, 9, 1, 8, n=1), algorithm="wgmma").program
    assert program.refusal(layer(8, 9, 1, 8, n=1)) is None
    assert "coordinates of 32 bits" in program.refusal(layer(8, 2**14, 1, 8, n=9))
    chosen = plan_layer(layer(8, 2**14, 1, 8, n=9))
    assert chosen.spec.algorithm != "wgmma"


def test_outputs_that_no_descriptor_stores_go_from_registers():
    text = render(plan_layer(small(k=33), algorithm="wgmma")).text
    assert "y_map" not in text and "y[at] = " in text


# ---- 1x1 layers in NCHW

@pytest.mark.parametrize("c, h, k", [(256, 56, 64), (512, 28, 128), (192, 12, 256)])
@pytest.mark.parametrize("n", [1, 32])
def test_planes_are_read_where_they_lie(c, h, k, n):
    made = plan_layer(layer(c, h, 1, k, n=n, layout="NCHW"), algorithm="wgmma", arch="sm_90")
    assert made.options.form is Form.PLANES and "to_nhwc" not in made.program.entries
    assert made.program.descriptor("x_map").of == "x"


@pytest.mark.parametrize("c, h, k", [(256, 14, 1024), (512, 7, 2048), (960, 7, 160)])
def test_images_of_other_sizes_are_brought_to_nhwc(c, h, k):
    """Copies begin at whole 16 bytes."""
    made = plan_layer(layer(c, h, 1, k, n=32, layout="NCHW"), algorithm="wgmma", arch="sm_90")
    assert made.options.form is Form.IM2COL and "to_nhwc" in made.program.entries


# ---- stores in NCHW

@on_cpu_device
@pytest.mark.parametrize("h, w", [(8, 13), (6, 9), (7, 9), (6, 14)])
@pytest.mark.parametrize("k, values", [
    (72, dict(form="im2col", filters=64, pixels=128, splits=1)),
    (136, dict(form="im2col", filters=128, pixels=96, splits=1)),
    (72, dict(form="halo", filters=64, pixels=112, rows=5, columns=14)),
    (136, dict(form="halo", filters=128, pixels=56, rows=2, columns=13))])
@pytest.mark.thin(9)
def test_stores_of_every_width_write_each_output_once(h, w, k, values):
    """Images of a multiple of eight pixels, of two, of an odd number; boxes whose columns are no whole four matrices,
    so that behind them are another group's outputs, which two threads would write. Integers, whose sums are exact."""
    rng = np.random.default_rng(7)
    x, w_ = (rng.integers(-2, 3, size).astype("f2") for size in ((2, 8, h, w), (k, 8, 3, 3)))
    residual = rng.integers(-9, 9, (2, k, h, w)).astype("f2")
    shape = ConvShape.of(x.shape, w_.shape, dtype="float16", layout="NCHW", padding=1)
    kernel = checks.cpu_kernel(plan_layer(shape, algorithm="wgmma", arch="sm_90", epilogue=(RESIDUAL,),
                                          settings={"stages": 2, **values}), Mode.CHECK)
    out = np.full(residual.shape, np.nan, "f2")
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.einsum("nchwrs,kcrs->nkhw", windows, w_.astype("f8")) + residual
    assert np.array_equal(kernel(x, w_, residual=residual, out=out), expected)


@pytest.mark.parametrize("c, form, depths", [(96, "halo", 2), (72, "halo", 1), (80, "halo", 1), (160, "halo", 4),
                                             (112, "halo", 4), (128, "halo", 4), (32, "halo", 2), (96, "im2col", 4)])
def test_a_boxs_last_slice_is_multiplied_as_far_as_it_has_channels(c, form, depths):
    """Where that leaves out a fifth of all products or more: 160 channels are 10 of 12, 112 are 7 of 8."""
    values = dict(form=form, filters=64, pixels=64, **(dict(rows=4, columns=14) if form == "halo" else {}))
    made = plan_layer(layer(c, 14, 3, 64, 1, 1), algorithm="wgmma", settings=values)
    assert made.numbers.last_depths == depths
    assert ("LAST_DEPTHS" in render(made).text) == (form == "halo" and c in (96, 72, 80))


@pytest.mark.parametrize("c, h, k", [(96, 56, 96), (96, 35, 96), (160, 28, 160), (80, 73, 192), (96, 14, 208)])
def test_pixels_that_begin_within_lines_of_memory_take_a_box(c, h, k):
    """The walk of windows took 1.3 to 1.7 times as long (an H200, an H100)."""
    assert plan_layer(layer(c, h, 3, k, 1, 1)).settings()["form"] == "halo"


def test_windows_of_32_channels_go_to_mma_where_no_box_serves_them():
    made = plan_layer(layer(32, 224, 7, 64, 2, 0, n=128))
    assert made.spec.algorithm == "mma"


def test_channels_that_fill_no_slice_take_one_box_for_all_taps():
    """Copies of windows of pixels that begin anywhere take longer (80 -> 192 on 73^2: 193 us, and 143 by boxes)."""
    made = plan_layer(layer(80, 73, 3, 192, n=32, layout="NCHW"), algorithm="wgmma", arch="sm_90")
    assert made.options.form is Form.HALO


@pytest.mark.parametrize("changes, form, says", [
    (dict(layout="NHWC"), "planes", "1x1 layers of 16 bits in NCHW"),
    (dict(r=3, s=3, padding=1), "planes", "1x1 layers"), (dict(stride=2), "planes", "1x1 layers"),
    ({}, "planes", "distances of 162 bytes")])
def test_forms_that_layers_cannot_have(changes, form, says):
    shape = small(**{**dict(layout="NCHW", r=1, s=1, padding=0), **changes})
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(shape, algorithm="wgmma", settings={"form": form, "filters": 64, "pixels": 64})


def test_boxes_of_planes_begin_at_whole_16_bytes():
    shape = small(layout="NCHW", dtype="float32", w=32, h=32)
    made = dict(form="halo", order="planes", filters=64, pixels=64, rows=1, columns=16, stages=2)
    plan = plan_layer(shape, algorithm="wgmma", settings=made)
    assert plan.numbers.columns_before == 3 and plan.program.descriptor("x_map").box[0] == 24
    with pytest.raises(UnsupportedSpec, match="columns = 18 in the order of planes"):
        plan_layer(shape, algorithm="wgmma", settings={**made, "columns": 18})


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("h, k, values", [(7, 72, dict(form="im2col", filters=64, pixels=256)),
                                          (14, 136, dict(form="im2col", filters=128, pixels=96)),
                                          (12, 70, dict(form="planes", filters=64, pixels=64))])
def test_what_is_not_finite_stays_in_its_image_and_pixel(h, k, values):
    """Tiles have pixels of several images, and copies of planes bring those of the next channel."""
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((3, 24, h, h)).astype("f2"), rng.standard_normal((k, 24, 1, 1)).astype("f2")
    reached = np.zeros((3, h, h), bool)
    for image, channel, row, value in ((0, 1, 0, np.nan), (1, 23, h - 1, np.inf), (2, 8, min(3, h - 1), np.nan)):
        x[image, channel, row, row], reached[image, row, row] = value, True
    kernel = warpconv.specialize(ConvShape.of(x.shape, w.shape, dtype="float16", layout="NCHW"), device="cpu",
                                 algorithm="wgmma", settings={"stages": 2, **values})
    y = kernel(x, w).astype("f8")
    assert (~np.isfinite(y) == reached[:, None]).all()
    expected = np.einsum("nchw,kc->nkhw", np.where(reached[:, None], 0, x).astype("f8"), w[:, :, 0, 0].astype("f8"))
    assert np.allclose(np.where(reached[:, None], 0, y), expected, atol=2e-2)


# ---- what is chosen

@pytest.mark.thin(2)
@pytest.mark.parametrize("sizes", LAYERS)
@pytest.mark.parametrize("n", [1, 32])
def test_it_is_chosen_where_the_chip_has_it(sizes, n):
    """At least to within what the two estimates are good for: of one small image they take the same time."""
    assert explain(layer(*sizes, n=n), "sm_80")[0].algorithm == "mma"
    hopper = {one.algorithm: one.estimate for one in explain(layer(*sizes, n=n), "sm_90") if one.supported}
    assert min(hopper, key=hopper.get) in ("wgmma", "mma")
    assert hopper["wgmma"] < (1.05 if n > 1 else 1.4) * hopper["mma"]


@pytest.mark.parametrize("multiprocessors", [78, 114, 132])
def test_tiles_come_in_whole_waves_of_the_chip_at_hand(multiprocessors):
    """256 x 14 x 14, 3x3 in a batch: more of the last wave is used than tiles of powers of two would."""
    hardware = Hardware.of("sm_90", multiprocessors=multiprocessors)
    shape = layer(256, 14, 3, 256, 1, 1, n=64)
    spec = KernelSpec.of(shape, algorithm="wgmma", arch=TARGET, at_hand=hardware)
    found = choice(spec, shape)

    def used(options: Any) -> float:
        waves = tiles_of(options, make_numbers(spec, options), shape) / multiprocessors
        return waves / -(-waves // 1)

    assert used(found) > 0.9
    grid = plan_layer(shape, algorithm="wgmma", arch=hardware).program.steps[0].grid_of(shape)
    assert grid[0] <= multiprocessors


def test_splitting_pays_for_few_tiles_and_not_for_many():
    def quickest(n: int) -> int:
        shape = layer(512, 7, 3, 512, 1, 1, n=n)
        spec = KernelSpec.of(shape, algorithm="wgmma", arch=TARGET)
        return min(candidates(spec, shape), key=lambda options: cycles(spec, options, shape)).splits

    assert quickest(1) > 1 and quickest(64) == 1


def test_a_limit_on_workspace_leaves_sums_whole():
    made = plan_layer(layer(512, 7, 3, 512, 1, 1, n=1), algorithm="wgmma", workspace_limit=0)
    assert made.settings()["splits"] == 1 and not made.program.workspaces


def test_every_candidate_is_a_plan():
    for shape in (layer(64, 28, 3, 72, 1, 1), layer(136, 14, 1, 33), layer(512, 7, 3, 512, 1, 1, n=1)):
        spec = KernelSpec.of(shape, algorithm="wgmma", arch=TARGET)
        for options in candidates(spec, shape):
            assert ALGORITHM.plan(spec, options).options == resolved(spec, options)


# ---- what is computed

@on_cpu_device
@pytest.mark.parametrize("values", [dict(form="im2col", filters=64, pixels=64, splits=1),
                                    dict(form="halo", filters=64, pixels=64, rows=3, columns=9)])
def test_products_outside_of_a_window_do_not_spread_what_is_not_finite(values):
    """Inf and NaN reach the outputs whose windows hold them, and no other."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, 9, 9, 8)).astype("f2"), rng.standard_normal((8, 8, 3, 3)).astype("f2")
    x[0, 4, 4, 2], x[0, 0, 0, 0] = np.inf, np.nan
    kernel = warpconv.specialize(ConvShape.of(x.shape, w.shape, dtype="float16", layout="NHWC", padding=1),
                                 device="cpu", algorithm="wgmma", settings={**values, "stages": 2})
    reached = np.zeros((9, 9), bool)
    reached[3:6, 3:6] = reached[:2, :2] = True
    assert (~np.isfinite(kernel(x, w).astype("f4")).all(axis=-1)[0] == reached).all()


@on_cpu_device
def test_split_sums_have_equal_bits_from_call_to_call():
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((2, 7, 7, 64)).astype("f2"), rng.standard_normal((24, 64, 3, 3)).astype("f2")
    kernel = warpconv.specialize(ConvShape.of(x.shape, w.shape, dtype="float16", layout="NHWC", padding=1),
                                 device="cpu", algorithm="wgmma",
                                 settings={"form": "im2col", "filters": 64, "pixels": 32, "stages": 2, "splits": 3})
    first = kernel(x, w)
    assert all((kernel(x, w) == first).all() for _ in range(3))


@on_cpu_device
def test_a_residual_is_added_in_place():
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, 6, 7, 16)).astype("f2"), rng.standard_normal((24, 16, 1, 1)).astype("f2")
    residual = rng.standard_normal((1, 6, 7, 24)).astype("f2")
    expected = warpconv.conv2d(x, w, layout="NHWC", residual=residual.copy(), algorithm="direct", device="cpu")
    warpconv.conv2d(x, w, layout="NHWC", residual=residual, out=residual, algorithm="wgmma", device="cpu")
    assert np.allclose(residual.astype("f4"), expected.astype("f4"), atol=1e-2)


# ---- what compilers make of it

@pytest.mark.thin(3)
@pytest.mark.nvcc
@pytest.mark.parametrize("sizes, n", [(LAYERS[1], 32), (LAYERS[2], 32), (LAYERS[6], 1),
                                      *(pytest.param(sizes, n, marks=pytest.mark.long)
                                        for sizes in LAYERS for n in (1, 32))])
def test_sums_stay_in_registers(sizes, n):
    for epilogue in ((), (BIAS, RESIDUAL, RELU)):
        made = plan_layer(layer(*sizes, n=n), algorithm="wgmma", arch="sm_90", epilogue=epilogue)
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("c, h, k, n", [(64, 56, 256, 32), (1024, 14, 512, 32), (512, 7, 2048, 32),
                                        pytest.param(1152, 7, 320, 32, marks=pytest.mark.long),
                                        pytest.param(480, 14, 192, 32, marks=pytest.mark.long),
                                        pytest.param(512, 28, 256, 1, marks=pytest.mark.long)])
def test_sums_of_planes_stay_in_registers(c, h, k, n):
    for epilogue in ((), (BIAS, RESIDUAL, RELU)):
        made = plan_layer(layer(c, h, 1, k, n=n, layout="NCHW"), algorithm="wgmma", arch="sm_90", epilogue=epilogue)
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
