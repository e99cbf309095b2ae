"""``filter_gradient_mma``: what its planner owes, and its texts."""

from __future__ import annotations

import pytest

from tests import cases, emitted
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build

NAME, OLD = "filter_gradient_mma", "filter_gradient"


@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_a_text_says_nothing_idle(case):
    assert not emitted.faults(render(case.plan()).text)


@pytest.mark.parametrize("batch", [8, 32])
@pytest.mark.parametrize("c, h, k, r, stride", [(64, 56, 64, 3, 1), (256, 56, 512, 1, 2), (512, 7, 512, 3, 1),
                                                (3, 224, 64, 7, 2), (2048, 7, 512, 1, 1)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_rule_takes_it_for_dense_layers(batch, c, h, k, r, stride, dtype):
    layer = ConvShape(n=batch, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=stride, dtype=dtype,
                      layout="NHWC")
    for arch in ("sm_80", "sm_90", "sm_120"):
        assert plan_layer(layer, operation="filter_gradient", arch=arch).spec.algorithm.startswith(f"{OLD}_")
    assert plan_layer(layer, operation="filter_gradient", arch="sm_75").spec.algorithm == OLD


def test_refusals_are_in_words():
    def reason(settings=None, **layer):
        shape = ConvShape(**{"n": 2, "c": 64, "h": 14, "w": 14, "k": 64, "r": 3, "s": 3, "padding": 1,
                             "dtype": "float16", "layout": "NHWC", **layer})
        if settings is None:
            return next(c.reason for c in explain(shape, operation="filter_gradient") if c.algorithm == NAME)
        with pytest.raises(UnsupportedSpec) as caught:
            plan_layer(shape, operation="filter_gradient", algorithm=NAME, settings=settings)
        return str(caught.value)

    assert "float32" in reason(dtype="float32") and "NCHW" in reason(layout="NCHW")
    assert "border reflect" in reason(padding_mode="reflect") and "groups of 1" in reason(groups=64)
    assert "issue slots" in reason(padding_mode="reflect", padding=0)
    assert "share out" in reason({"tile_m": 48, "warps_m": 2}) and "warps" in reason({"warps_m": 64})
    assert "stages" in reason({"stages": 1}) and "splits" in reason({"splits": 2000})
    assert "vector_n = 8 does not divide" in reason({"vector_n": 8}, c=20)
    assert "shared memory" in reason({"stages": 8, "tile_p": 256})
    assert "registers" in reason({"tile_m": 128, "tile_n": 128, "warps_m": 1, "warps_n": 1})
    assert "min_blocks" in reason({"min_blocks": 40})


def test_a_limit_on_the_workspace_takes_fewer_shares():
    layer = ConvShape(n=32, c=64, h=28, w=28, k=64, r=3, s=3, padding=1, dtype="float16", layout="NHWC")
    whole = plan_layer(layer, operation="filter_gradient", algorithm=NAME)
    needed = whole.program.workspace_bytes(layer)
    less = plan_layer(layer, operation="filter_gradient", algorithm=NAME, workspace_limit=needed // 3)
    assert 1 <= less.options.splits < whole.options.splits
    assert less.program.workspace_bytes(layer) <= needed // 3


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_defaults_do_not_spill(arch):
    for c, h, k, r, stride in ((64, 56, 64, 3, 1), (512, 7, 2048, 1, 1), (3, 224, 64, 7, 2)):
        layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=stride, dtype="float16",
                          layout="NHWC")
        for entry in build(plan_layer(layer, operation="filter_gradient", algorithm=NAME, arch=arch)).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
