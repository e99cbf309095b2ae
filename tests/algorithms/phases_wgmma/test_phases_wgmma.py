"""``phases_wgmma``: what its planner owes, and its texts."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import cases, checks, emitted
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.pack.check import check_program

NAME = "phases_wgmma"
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def layer(c, h, k, size, stride=2, **given):
    return ConvShape(**{"n": 32, "c": c, "h": h, "w": h, "k": k, "r": size, "s": size, "stride": stride,
                        "padding": size // 2 if size % 2 else 0, "dtype": "float16", "layout": "NHWC", **given})


@pytest.mark.thin(2)
@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_a_text_says_nothing_idle(case):
    assert not emitted.faults(render(case.plan()).text)


@pytest.mark.parametrize("c, h, k, size", [(128, 56, 128, 3), (256, 28, 256, 3), (512, 14, 512, 3), (1024, 14, 2048, 1),
                                           (256, 56, 512, 1), (192, 17, 320, 3), (384, 14, 768, 2)])
@pytest.mark.parametrize("dtype, precision", [("float16", "float32"), ("bfloat16", "float32"), ("float32", "tf32")])
def test_the_rule_takes_it_for_strided_dense_layers(c, h, k, size, dtype, precision):
    strided = layer(c, h, k, size, dtype=dtype)
    for arch in ("sm_90", "sm_90a"):
        made = plan_layer(strided, operation="data_gradient", arch=arch, precision=precision)
        assert (made.spec.algorithm, str(made.spec.arch)) == (NAME, "sm_90a")
        check_program(made.program, made.spec)
    for arch in ("sm_80", "sm_100", "sm_120"):
        made = plan_layer(strided, operation="data_gradient", arch=arch, precision=precision)
        assert made.spec.algorithm == "phases_mma"


def test_layers_in_nchw_go_by_way_of_nhwc():
    made = plan_layer(layer(256, 28, 256, 3, layout="NCHW"), operation="data_gradient", algorithm=NAME)
    assert made.spec.layout is Layout.NCHW
    assert [step.entry for step in made.program.steps] == ["dy_to_nhwc", "turn_filter", made.spec.name, "dx_to_nchw"]
    assert all(a.multiple_of == 1 for a in made.program.arguments if a.name in ("dy", "dx"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("size", [1, 3])
def test_filters_of_one_tap_are_read_as_they_lie(dtype, size):
    """In 16 bits: no launch and no memory besides."""
    made = plan_layer(layer(256, 14, 512, size, dtype=dtype), operation="data_gradient", algorithm=NAME,
                      precision="tf32" if dtype == "float32" else "float32")
    in_place = size == 1 and dtype != "float32"
    assert [step.entry for step in made.program.steps] == ([] if in_place else ["turn_filter"]) + [made.spec.name]
    assert bool(made.program.workspaces) is not in_place
    assert {d.argument: d.of for d in made.program.descriptors}["filter_map"] == ("w" if in_place else "turned")


def test_small_planes_of_several_images_share_a_tile():
    made = plan_layer(layer(1024, 14, 2048, 1), operation="data_gradient", arch="sm_90", algorithm=NAME)
    assert made.options.images > 1 and (made.options.rows, made.options.columns) == (7, 7)


@on_cpu_device
@pytest.mark.parametrize("size, stride, h", [(1, 2, 9), (3, 2, 9), (3, 3, 10), (2, 2, 8)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_pixel_is_written(size, stride, h, dtype):
    """Those of phases without taps, and those behind the last output, are zero; what is not finite stays with the
    pixels that meet it."""
    rng = np.random.default_rng(4)
    strided = layer(16, h, 24, size, stride, n=3, dtype=dtype)
    w, dy = (rng.standard_normal(sizes).astype(dtype) for sizes in (strided.weight_shape, strided.layout.stored(
        strided.output_shape)))
    dy[1, 0, 0, 5] = np.nan
    out = np.full(strided.layout.stored(strided.input_shape), np.nan, dtype)
    warpconv.conv2d_input(out.shape, w, dy, stride, strided.padding, layout="NHWC", algorithm=NAME, out=out,
                          device="cpu", precision="tf32" if dtype == "float32" else "float32")
    padded = np.zeros((3, h + 2 * size, h + 2 * size, 16))
    met = np.zeros(padded.shape[:3], bool)
    for r in range(size):
        for s in range(size):
            at = (slice(None), *(slice(tap, tap + stride * (strided.p - 1) + 1, stride) for tap in (r, s)))
            padded[at] += np.nan_to_num(dy.astype("d")) @ w[:, :, r, s].astype("d")
            met[at] |= np.isnan(dy).any(-1)
    pad = strided.padding[0][0]
    exact, met = (a[:, pad:pad + h, pad:pad + h] for a in (padded, met))
    assert np.array_equal(np.isnan(out).any(-1), met) and met.any()
    fine = ~np.isnan(out)
    assert np.abs(out[fine] - exact[fine]).max() < 2e-2 * np.abs(exact).max()


def test_refusals_are_in_words():
    def reason(settings=None, arch="sm_90", **given):
        given = {"c": 64, "k": 64, **given}
        shape = layer(given.pop("c"), 14, given.pop("k"), 3, given.pop("stride", 2), **given)
        if settings is None:
            return next(c.reason for c in explain(shape, operation="data_gradient", arch=arch) if c.algorithm == NAME)
        with pytest.raises(UnsupportedSpec) as caught:
            plan_layer(shape, operation="data_gradient", algorithm=NAME, settings=settings)
        return str(caught.value)

    assert "only those rounded to tf32" in reason(dtype="float32") and "no wgmma" in reason(arch="sm_80")
    assert "2 groups" in reason(groups=2) and "border reflect" in reason(padding_mode="reflect")
    assert "60 channels" in reason(c=60) and "a multiple of 16" in reason(k=60)
    assert "channels = 96 (one of" in reason({"channels": 96}) and "stages = 9" in reason({"stages": 9})
    assert "sums a thread" in reason({"channels": 256, "rows": 13, "columns": 16, "images": 1})
    assert "fill them up" in reason({"rows": 32, "columns": 32})
    assert "shared memory" in reason({"rows": 16, "stages": 8})
    assert "phases (at most" in reason(stride=9)
    assert "issue slots" in reason(stride=1) and "issue slots" in reason(dilation=2)


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("c, h, k, size, given", [
    (128, 56, 128, 3, {}), (1024, 14, 2048, 1, {"dtype": "bfloat16"}), (192, 17, 320, 3, {"layout": "NCHW"}),
    (512, 14, 512, 3, {"dtype": "float32"}), (64, 112, 64, 4, {"dtype": "float32"})])
def test_defaults_do_not_spill(c, h, k, size, given):
    made = plan_layer(layer(c, h, k, size, **given), operation="data_gradient", algorithm=NAME,
                      precision="tf32" if given.get("dtype") == "float32" else "float32")
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry

