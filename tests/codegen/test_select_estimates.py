"""What is chosen where estimates of several algorithms were wrong beside each other: timed layers of networks."""

from __future__ import annotations

from typing import Any

import pytest

from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape


def layer(c: int, h: int, k: int, size: int = 1, n: int = 32, **given: Any) -> ConvShape:
    return ConvShape(n=n, c=c, h=h, w=h, k=k, r=size, s=size, padding=size // 2, **given)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("c, h, stride", [(960, 14, 2), (488, 14, 2), (240, 28, 2), (960, 7, 1)])
def test_small_depthwise_planes_are_staged(c, h, stride, dtype):
    """`wide` with planes side by side takes up to seven times as long (960 on 14^2, stride 2, float16: 38 us for 6)."""
    assert select(layer(c, h, c, 3, groups=c, stride=stride, dtype=dtype), "sm_90").algorithm == "staged"


@pytest.mark.parametrize("c, h, k, chosen", [(104, 28, 104, "mma"), (104, 28, 208, "mma"), (256, 28, 256, "wgmma"),
                                             (440, 7, 440, "wgmma")])
def test_pixels_that_do_not_begin_at_whole_sectors(c, h, k, chosen):
    """Copies by descriptors are slow there where outputs are many: 10.8 us for 6.3."""
    assert select(layer(c, h, k, dtype="float16", layout="NHWC"), "sm_90").algorithm == chosen


@pytest.mark.parametrize("h, k", [(56, 122), (56, 58), (28, 122)])
def test_outputs_that_do_not_begin_at_whole_sectors(h, k):
    """`mma` and `implicit_gemm` store them in parts: 24 -> 122 on 56^2 in TF32 70 us, `wgmma` 26."""
    assert select(layer(24, h, k, layout="NHWC"), "sm_90", precision="tf32").algorithm == "wgmma"


def test_blocks_of_few_steps_are_not_alone_on_a_multiprocessor():
    made = plan_layer(layer(48, 56, 104, dtype="float16", layout="NHWC"), arch="sm_90", algorithm="mma")
    assert made.settings()["min_blocks"] > 1


@pytest.mark.parametrize("c, k, h, chosen", [(80, 480, 14, "pointwise"), (40, 120, 28, "pointwise"),
                                             (256, 1024, 14, "wgmma"), (1024, 1024, 14, "wgmma")])
def test_pointwise_beside_others(c, k, h, chosen):
    assert select(layer(c, h, k), "sm_90", precision="tf32").algorithm == chosen


@pytest.mark.parametrize("c, h, stride, groups, chosen", [
    (104, 56, 2, 13, "implicit_gemm"), (440, 14, 2, 55, "implicit_gemm"), (128, 56, 1, 32, "taps_ieee"),
    (104, 28, 1, 13, "taps_ieee")])
def test_groups_of_several_channels_in_planes(c, h, stride, groups, chosen):
    """`wide` and `direct` were estimated at a third of their time: 104 with stride 2 on 56^2 76 us for 37."""
    assert select(layer(c, h, c, 3, groups=groups, stride=stride), "sm_90").algorithm == chosen


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype, precision", [("float16", "float32"), ("float32", "float32"), ("float32", "tf32")])
@pytest.mark.parametrize("c, k", [(40, 960), (240, 960), (32, 768), (64, 512)])
def test_data_gradients_of_single_pixels(c, k, dtype, precision, layout):
    """A thread that adds 960 products waits for each: `phases` took 166 us (40 channels of 960 filters), `wgmma` 5; and
    large tiles are mostly filling."""
    made = select(layer(c, 1, k, dtype=dtype, layout=layout), "sm_90", operation="data_gradient", precision=precision)
    assert made.algorithm in ("phases_wgmma", "wgmma", "mma")


@pytest.mark.parametrize("c, h, k, size", [(448, 14, 128, 1), (256, 28, 64, 1), (544, 7, 128, 1), (128, 7, 32, 3),
                                           (128, 14, 32, 3), (244, 28, 244, 1)])
def test_data_gradients_without_strides(c, h, k, size):
    """Products of phases by mma.sync have large tiles, whose waits were not counted: 448 channels of 128 filters 9.2 us
    for 6.6 as a forward layer."""
    made = select(layer(c, h, k, size, dtype="float16", layout="NHWC"), "sm_90", operation="data_gradient")
    assert made.algorithm in ("phases_wgmma", "wgmma", "mma", "taps")


@pytest.mark.parametrize("c, h, groups", [(208, 28, 26), (104, 56, 13), (256, 56, 32)])
def test_strided_data_gradients_of_groups(c, h, groups):
    """By float32 units they take twice as long in 16 bits: 208 channels in 26 groups 58 us for 27."""
    made = select(layer(c, h, c, 3, groups=groups, stride=2, dtype="float16", layout="NHWC"), "sm_90",
                  operation="data_gradient")
    assert made.algorithm == "phases_mma"
