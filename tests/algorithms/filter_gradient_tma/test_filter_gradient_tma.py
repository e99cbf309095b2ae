"""``filter_gradient_tma``: what its planner owes, and its texts."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import cases, checks, emitted
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.pack.check import check_program

NAME = "filter_gradient_tma"
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def planned(arch: str = "sm_90", **layer):
    fields = {"n": 32, "c": 64, "h": 14, "w": 14, "k": 64, "r": 3, "s": 3, "padding": 1, "layout": "NHWC", **layer}
    return plan_layer(ConvShape(**fields), operation="filter_gradient", precision="tf32", arch=arch)


@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_a_text_says_nothing_idle(case):
    assert not emitted.faults(render(case.plan()).text)


@pytest.mark.parametrize("c, h, k, r, stride", [(64, 56, 64, 3, 1), (256, 56, 512, 1, 2), (512, 7, 512, 3, 1),
                                                (256, 56, 64, 1, 1), (2048, 7, 512, 1, 1)])
def test_the_rule_takes_it_for_dense_layers_rounded_to_tf32(c, h, k, r, stride):
    """With copies by the threads it took 1.4 to 1.8 times as long (an H200: 75 us for 46, 256 channels on 14x14)."""
    sizes = dict(c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=stride)
    made = planned(**sizes)
    assert (made.spec.algorithm, str(made.spec.arch)) == (NAME, "sm_90a")
    check_program(made.program, made.spec)
    for arch in ("sm_80", "sm_100", "sm_120"):
        assert planned(arch, **sizes).spec.algorithm == "filter_gradient_mma"
    whole = plan_layer(ConvShape(n=32, layout="NHWC", **sizes), operation="filter_gradient")
    assert whole.spec.algorithm == "filter_gradient_mma"


def test_in_nchw_planes_are_wgmmas_and_windows_are_brought_to_nhwc():
    assert planned(layout="NCHW", r=1, s=1, padding=0, h=56, w=56).spec.algorithm == "filter_gradient_wgmma"
    made = planned(layout="NCHW", c=256, k=256)
    assert made.spec.algorithm == NAME
    assert [launch.entry for launch in made.program.launches][:2] == ["x_to_nhwc", "dy_to_nhwc"]


def test_one_share_of_1x1_filters_is_the_gradient():
    """Without a second launch, and without a workspace."""
    made = plan_layer(ConvShape(n=8, c=64, h=7, w=7, k=64, r=1, s=1, layout="NHWC"), operation="filter_gradient",
                      precision="tf32", algorithm=NAME, settings={"splits": 1})
    assert [launch.entry for launch in made.program.launches] == [made.spec.name] and not made.program.workspaces


@on_cpu_device
def test_factors_are_rounded_to_tf32_and_sums_are_not():
    """Ones and a pixel that TF32 has not: 1 + 2^-11 is 1 + 2^-10 there, ties going away from zero."""
    x, dy = np.ones((2, 8, 8, 32), np.float32), np.ones((2, 8, 8, 32), np.float32)
    x[..., 5] = 1 + 2.0**-11
    x[..., 6] = 1 + 2.0**-12
    got = warpconv.conv2d_weight(x, (32, 32, 1, 1), dy, layout="NHWC", device="cpu", precision="tf32", algorithm=NAME)
    assert (got[:, 5] == 128 * (1 + 2.0**-10)).all() and (got[:, 6] == 128).all()


@on_cpu_device
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_spreads_to_its_own_products_alone(value):
    rng = np.random.default_rng(3)
    x, dy = (rng.standard_normal((2, 9, 9, 40)).astype(np.float32) for _ in range(2))
    x[1, 4, 4, 7] = value
    got = warpconv.conv2d_weight(x, (40, 40, 3, 3), dy, layout="NHWC", padding=1, device="cpu", precision="tf32",
                                 algorithm=NAME)
    assert not np.isfinite(got[:, 7]).any() and np.isfinite(np.delete(got, 7, axis=1)).all()


def test_refusals_are_in_words():
    def reason(settings=None, arch="sm_90", precision="tf32", **layer):
        shape = ConvShape(**{"n": 2, "c": 64, "h": 14, "w": 14, "k": 64, "r": 3, "s": 3, "padding": 1,
                             "layout": "NHWC", **layer})
        if settings is None:
            found = explain(shape, operation="filter_gradient", arch=arch, precision=precision)
            return next(c.reason for c in found if c.algorithm == NAME)
        with pytest.raises(UnsupportedSpec) as caught:
            plan_layer(shape, operation="filter_gradient", algorithm=NAME, settings=settings, precision=precision)
        return str(caught.value)

    assert "precision = 'tf32'" in reason(precision="tf32x3")
    assert "element type" in reason(precision="float32", dtype="float16")
    assert "only 9.0" in reason(arch="sm_80") and "only 9.0" in reason(arch="sm_100")
    assert "border reflect" in reason(padding_mode="reflect") and "10 filters" in reason(groups=2, k=20)
    assert "a multiple of 16" in reason(c=18) and "a multiple of 16" in reason(k=18)
    assert "strides of 9" in reason(stride=9) and "taps 256 pixels from" in reason(padding=128, dilation=128)
    assert "filters = 48 (a multiple of 64" in reason({"filters": 48, "warps_m": 2, "warps_n": 2})
    assert "columns = 64 (a multiple of 128" in reason({"columns": 64, "warps_m": 1, "warps_n": 4})
    for warps_m, warps_n in ((3, 2), (1, 1), (1, 2)):
        assert "4 or 8 warps are possible" in reason({"warps_m": warps_m, "warps_n": warps_n})
    assert "pixels = 24" in reason({"pixels": 24}) and "min_blocks = 20" in reason({"min_blocks": 20})
    assert "stages = 9" in reason({"stages": 9}) and "splits" in reason({"splits": 2000})
    large = {"filters": 256, "columns": 128, "warps_n": 2}
    assert "registers a thread, where 232 are left" in reason({**large, "warps_m": 2})
    assert "shared memory" in reason({**large, "warps_m": 4, "pixels": 64})


def test_a_limit_on_the_workspace_takes_fewer_shares():
    layer = ConvShape(n=32, c=64, h=28, w=28, k=64, r=3, s=3, padding=1, layout="NHWC")
    how = dict(operation="filter_gradient", algorithm=NAME, precision="tf32")
    whole = plan_layer(layer, **how)
    needed = whole.program.workspace_bytes(layer)
    less = plan_layer(layer, **how, workspace_limit=needed // 3)
    assert 1 <= less.options.splits < whole.options.splits
    assert less.program.workspace_bytes(layer) <= needed // 3


@pytest.mark.long
@pytest.mark.nvcc
def test_defaults_do_not_spill():
    for c, h, k, r, stride, layout in (
            (64, 56, 64, 3, 1, "NHWC"), (512, 7, 2048, 1, 1, "NHWC"), (512, 14, 512, 3, 2, "NHWC"),
            (256, 14, 256, 3, 1, "NCHW"), (192, 17, 192, 3, 1, "NHWC"), (256, 56, 64, 1, 1, "NHWC")):
        layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=stride, layout=layout)
        made = plan_layer(layer, operation="filter_gradient", algorithm=NAME, precision="tf32")
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
