"""``filter_gradient_wgmma``: what its planner owes, and its texts."""

from __future__ import annotations

import pytest

from tests import cases, emitted
from warpconv.codegen.algorithms.filter_gradient_wgmma.options import Form
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.pack.check import check_program

NAME = "filter_gradient_wgmma"


@pytest.mark.parametrize("case", cases.variants(NAME), ids=lambda case: case.id)
def test_a_text_says_nothing_idle(case):
    assert not emitted.faults(render(case.plan()).text)


@pytest.mark.parametrize("c, h, k, r, stride", [(64, 56, 64, 3, 1), (256, 56, 512, 1, 2), (512, 7, 512, 3, 1),
                                                (256, 56, 64, 1, 1), (2048, 7, 512, 1, 1)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_rule_takes_it_for_dense_layers(c, h, k, r, stride, dtype):
    layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=stride, dtype=dtype, layout="NHWC")
    for arch in ("sm_90", "sm_90a"):
        made = plan_layer(layer, operation="filter_gradient", arch=arch)
        assert (made.spec.algorithm, str(made.spec.arch)) == (NAME, "sm_90a")
        check_program(made.program, made.spec)
    for arch in ("sm_80", "sm_100", "sm_120"):
        assert plan_layer(layer, operation="filter_gradient", arch=arch).spec.algorithm == "filter_gradient_mma"


@pytest.mark.parametrize("c, h, k, planes", [(64, 56, 256, True), (512, 28, 128, True), (116, 28, 58, True),
                                             (1024, 14, 256, False), (512, 7, 2048, False)])
def test_planes_are_read_where_they_lie(c, h, k, planes):
    """In 16 bits where an image's pixels are a multiple of eight; float32 is rounded to TF32, by fours."""
    layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=1, s=1, dtype="float16")
    made = plan_layer(layer, operation="filter_gradient")
    assert made.spec.algorithm == NAME and (made.options.form is Form.PLANES) is planes
    assert len(made.program.launches) == (2 if planes else 4) - (made.options.splits == 1)
    single = ConvShape(n=32, c=c, h=h, w=h, k=k, r=1, s=1)
    rounded = plan_layer(single, operation="filter_gradient", precision="tf32")
    assert (rounded.spec.algorithm == NAME) is (h != 7)
    assert plan_layer(single, operation="filter_gradient").spec.algorithm != NAME


@pytest.mark.parametrize("layer", [dict(c=960, h=1, w=1, k=240), dict(c=2048, h=7, w=7, k=512, layout="NHWC"),
                                   dict(c=24, h=1, w=1, k=96, dtype="float32")])
def test_one_share_of_1x1_filters_is_the_gradient(layer):
    """Without a second launch, and without a workspace."""
    layer = ConvShape(**{"n": 32, "r": 1, "s": 1, "dtype": "float16", **layer})
    made = plan_layer(layer, operation="filter_gradient", precision="tf32" if layer.dtype.itemsize == 4 else "float32")
    assert [launch.entry for launch in made.program.launches] == [made.spec.name]
    assert not made.program.workspaces and "sum_parts" not in render(made).text


def test_refusals_are_in_words():
    def reason(settings=None, arch="sm_90", **layer):
        shape = ConvShape(**{"n": 2, "c": 64, "h": 14, "w": 14, "k": 64, "r": 3, "s": 3, "padding": 1,
                             "dtype": "float16", "layout": "NHWC", **layer})
        if settings is None:
            found = explain(shape, operation="filter_gradient", arch=arch)
            return next(c.reason for c in found if c.algorithm == NAME)
        with pytest.raises(UnsupportedSpec) as caught:
            plan_layer(shape, operation="filter_gradient", algorithm=NAME, settings=settings)
        return str(caught.value)

    assert "only those rounded to tf32" in reason(dtype="float32")
    assert "planes are for 1x1" in reason({"form": "planes"}, layout="NCHW")
    assert "planes are for 1x1" in reason({"form": "planes"}, r=1, s=1, padding=0)
    assert "P * Q a multiple of 8" in reason({"form": "planes"}, r=1, s=1, padding=0, layout="NCHW", h=7, w=7)
    assert "border reflect" in reason(padding_mode="reflect") and "2 groups" in reason(groups=2)
    assert "no wgmma" in reason(arch="sm_80") and "no wgmma" in reason(arch="sm_100")
    assert "a multiple of 16" in reason(c=20) and "a multiple of 16" in reason(k=20)
    assert "strides of 9" in reason(stride=9) and "corner of -129" in reason(padding=129, h=300, w=300, r=259, s=259)
    assert "taps 256 pixels from" in reason(padding=128, dilation=128)
    assert "issue slots" in reason(padding=127, dilation=127)
    assert "a multiple of 128" in reason({"filters": 64, "columns": 64}) and "one of" not in reason({"filters": 96})
    assert "sums a thread" in reason({"filters": 256, "columns": 256}) and "pixels = 24" in reason({"pixels": 24})
    assert "stages = 9" in reason({"stages": 9}) and "splits" in reason({"splits": 2000})
    assert "shared memory" in reason({"columns": 512, "pixels": 128, "stages": 3})


def test_a_limit_on_the_workspace_takes_fewer_shares():
    layer = ConvShape(n=32, c=64, h=28, w=28, k=64, r=3, s=3, padding=1, dtype="float16", layout="NHWC")
    whole = plan_layer(layer, operation="filter_gradient", algorithm=NAME)
    needed = whole.program.workspace_bytes(layer)
    less = plan_layer(layer, operation="filter_gradient", algorithm=NAME, workspace_limit=needed // 3)
    assert 1 <= less.options.splits < whole.options.splits
    assert less.program.workspace_bytes(layer) <= needed // 3


@pytest.mark.long
@pytest.mark.nvcc
def test_defaults_do_not_spill():
    for c, h, k, r, stride, dtype, layout in (
            (64, 56, 64, 3, 1, "float16", "NHWC"), (512, 7, 2048, 1, 1, "float16", "NHWC"),
            (512, 14, 512, 3, 2, "float16", "NHWC"), (256, 56, 128, 1, 1, "bfloat16", "NCHW"),
            (512, 28, 256, 1, 1, "float32", "NCHW")):
        layer = ConvShape(n=32, c=c, h=h, w=h, k=k, r=r, s=r, padding=r // 2, stride=stride, dtype=dtype,
                          layout=layout)
        made = plan_layer(layer, operation="filter_gradient", algorithm=NAME,
                          precision="tf32" if dtype == "float32" else "float32")
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
