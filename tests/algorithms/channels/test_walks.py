"""``channels`` with lines, for up to some tens of images: which walk is chosen, and that it computes what was asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import checks
from tests.algorithms.channels.test_channels import depthwise, on_cpu_device, planned
from warpconv.codegen.algorithms.channels import plan as channels
from warpconv.codegen.algorithms.channels import walks
from warpconv.codegen.algorithms.channels.lines import lines_options_refusal
from warpconv.codegen.algorithms.channels.numbers import Body
from warpconv.codegen.hardware import SHARED_STATIC
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape


def blocks_of(plan: KernelPlan, shape: ConvShape) -> int:
    x, y, z = plan.program.steps[0].grid_of(shape)
    return x * y * z


def test_four_classes_of_batches_have_kernels_of_their_own():
    found = {n: planned(depthwise(5, n=n, c=192, side=28)).settings() for n in (1, 3, 4, 15, 16, 63, 64, 512)}
    assert found[1] == found[3] and found[4] == found[15] and found[16] == found[63] and found[64] == found[512]
    assert found[1]["sub_block_rows"] <= found[4]["sub_block_rows"] <= found[64]["sub_block_rows"]
    assert len({str(values) for values in found.values()}) == 4


@pytest.mark.parametrize("n, c, side, size", [(1, 192, 28, 3), (1, 96, 56, 7), (4, 116, 14, 3), (32, 192, 28, 5),
                                              (32, 116, 14, 3)])
def test_most_multiprocessors_have_a_block(n, c, side, size):
    """What the rules for many images leave idle: 192 channels on 28^2 had 12 blocks for one image, 96 for 32."""
    one = depthwise(size, n=n, c=c, side=side)
    found = planned(one)
    assert blocks_of(found, one) >= 0.7 * found.spec.hardware.multiprocessors
    many = planned(replace(one, n=512))
    assert blocks_of(many, one) < blocks_of(found, one)


@pytest.mark.parametrize("c, side, channels", [(256, 28, 32), (144, 56, 24), (240, 28, 60), (58, 28, 29), (960, 7, 32)])
def test_float32_under_few_taps_has_pairs_of_channels_and_columns(c, side, channels):
    """From 16 images on; blocks have channels of whole sectors, or all."""
    for n in (16, 512):
        found = planned(depthwise(n=n, c=c, side=side)).options
        assert (found.vector, found.columns, found.sub_block_rows, found.prefetch_rows) == (2, 2, 7, 4)
        assert (found.block_channels, found.block_columns) == (channels, 4)
    for others in (dict(c=33), dict(c=116), dict(c=8), dict(c=c, dtype="float16"), dict(c=c, dilation=2)):
        assert planned(depthwise(n=512, side=side, **others)).options.columns != 2


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("changes", [dict(c=32, side=9), dict(c=40, side=15, padding_mode="reflect")])
def test_pairs_of_channels_and_columns_compute_what_was_asked(changes):
    many = depthwise(3, n=512, **changes)
    plan = planned(many)
    assert plan.options.vector == plan.options.columns == 2
    checks.check_checked(plan, replace(many, n=2))


def test_a_rule_s_walk_stays_unless_another_is_clearly_quicker():
    shape = depthwise(n=32, c=144, side=56)
    many, spec = planned(replace(shape, n=512)), planned(shape).spec
    assert planned(shape).settings() == many.settings()
    freely = walks.choice(spec, 56, 56, 32)
    assert freely != walks.choice(spec, 56, 56, 32, replace(freely, min_blocks=1)) == replace(freely, min_blocks=1)
    slow = replace(freely, block_channels=8, block_columns=1, columns=1, sub_block_rows=56)
    assert walks.choice(spec, 56, 56, 32, slow) == freely


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_walks_worth_measuring_are_plans(dtype):
    spec = planned(depthwise(5, c=58, dtype=dtype)).spec
    found = list(walks.candidates(spec, 28, 28))
    assert len(found) > 50
    for options in found[::7]:
        assert lines_options_refusal(spec, options) is None and options.body is Body.LINES
        plan = channels.plan(spec, options)
        assert plan.numbers.line.shared_bytes <= SHARED_STATIC and plan.cost.no_spills


@pytest.mark.thin(12)
@on_cpu_device
@pytest.mark.parametrize("n", [1, 5, 17])
@pytest.mark.parametrize("size, changes", [(3, {}), (5, dict(dilation=(3, 1))), (3, dict(stride=(1, 2))),
                                           (3, dict(padding_mode="reflect")), (7, dict(padding=((0, 2), (3, 0)), c=30)),
                                           (3, dict(side=5)), (4, dict(w=23)), (3, dict(h=9, w=40, dtype="bfloat16"))])
def test_walks_compute_what_was_asked(n, size, changes):
    shape = depthwise(size, **{"n": n, "c": 20, "side": 15, **changes})
    plan = planned(shape)
    assert plan.options.body is Body.LINES
    checks.check_checked(plan, shape)


def test_channels_that_cannot_be_copied_have_another_body():
    assert planned(depthwise(n=1, c=33, dtype="float16")).options.body is not Body.LINES
    assert planned(depthwise(n=1), arch="sm_75").options.body is not Body.LINES
