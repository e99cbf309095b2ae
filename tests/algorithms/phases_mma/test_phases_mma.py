"""``phases_mma``: what its planner owes, and its texts."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import cases, checks, emitted
from warpconv.codegen.algorithms.phases_mma.numbers import phases_of
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build

NAME = "phases_mma"


@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_a_text_says_nothing_idle(case):
    assert not emitted.faults(render(case.plan()).text)


@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_every_tap_is_in_one_phase(case):
    """And meets there the output that it has."""
    made = case.plan()
    spec, places = made.spec, made.numbers.places
    phases = phases_of(spec)
    assert sorted(place.before + place.index for place in places) == list(range(spec.r * spec.s))
    assert [phase.taps for phase in phases] == sorted((phase.taps for phase in phases), reverse=True)
    assert len({(phase.row, phase.column) for phase in phases}) == spec.stride[0] * spec.stride[1]


@pytest.mark.thin(3)
@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
@pytest.mark.parametrize("channels", [40, 30, 21])
def test_the_transposed_layers_bias(channels):
    rng = np.random.default_rng(3)
    x, w, bias = (rng.standard_normal(sizes).astype("e") for sizes in ((2, 5, 4, 24), (24, channels, 3, 3),
                                                                       (channels,)))
    given = {"stride": 2, "padding": 1, "output_padding": 1, "layout": "NHWC", "device": "cpu"}
    found, plain = (warpconv.conv_transpose2d(x, w, b, **given, algorithm=NAME) for b in (bias, None))
    whole = warpconv.conv_transpose2d(*(a.astype("f") for a in (x, w, bias)), **given)
    assert np.abs(found - whole).max() <= 2e-3 * np.abs(whole).max() and (found != plain).any()


@pytest.mark.parametrize("c, h, k, r", [(128, 56, 128, 3), (256, 56, 512, 1), (1024, 14, 2048, 1), (512, 14, 512, 3)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_rule_takes_it_for_dense_layers(c, h, k, r, dtype):
    layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=2, dtype=dtype, layout="NHWC")
    for arch in ("sm_80", "sm_90", "sm_120"):
        assert plan_layer(layer, operation="data_gradient", arch=arch).spec.algorithm == NAME
    assert plan_layer(layer, operation="data_gradient", arch="sm_75").spec.algorithm == "phases"


def test_refusals_are_in_words():
    def reason(settings=None, **layer):
        shape = ConvShape(**{"n": 2, "c": 64, "h": 15, "w": 15, "k": 64, "r": 3, "s": 3, "padding": 1, "stride": 2,
                             "dtype": "float16", "layout": "NHWC", **layer})
        if settings is None:
            return next(c.reason for c in explain(shape, operation="data_gradient") if c.algorithm == NAME)
        with pytest.raises(UnsupportedSpec) as caught:
            plan_layer(shape, operation="data_gradient", algorithm=NAME, settings=settings)
        return str(caught.value)

    assert "float32" in reason(dtype="float32") and "NCHW" in reason(layout="NCHW")
    assert "border reflect" in reason(padding_mode="reflect") and "groups of 1" in reason(groups=64)
    assert "two at least" in reason(k=65) and "in 81 phases" in reason(stride=9)
    assert "share out" in reason({"tile_m": 48, "warps_m": 2}) and "warps" in reason({"warps_m": 64})
    assert "stages" in reason({"stages": 1}) and "rows of banks" in reason({"tile_k": 128})
    assert "shared memory" in reason({"tile_m": 256, "tile_n": 256, "warps_m": 4, "warps_n": 4, "stages": 8})
    assert "registers" in reason({"tile_m": 128, "tile_n": 128, "warps_m": 1, "warps_n": 1})
    assert "min_blocks" in reason({"min_blocks": 40}) and "at least 16" in reason({"tile_m": 8})


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_defaults_do_not_spill(arch):
    for c, h, k, r in ((128, 56, 128, 3), (1024, 14, 2048, 1)):
        layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=2, dtype="float16", layout="NHWC")
        for entry in build(plan_layer(layer, operation="data_gradient", algorithm=NAME, arch=arch)).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
