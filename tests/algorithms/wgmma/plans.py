"""The plans of ``wgmma`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _wgmma(c: int, k: int, size: int, *epilogue: Epilogue, h: int = 28, dtype: str = "float16", padding: Any = 0,
           stride: int = 1, dilation: int = 1, layout: str = "NHWC", precision: str = "float32",
           d: int | None = None, t: int | None = None, **values: Any) -> KernelPlan:
    shape = ConvShape(n=32, c=c, h=h, w=h, k=k, r=size, s=size, dtype=dtype, layout=layout, padding=padding,
                      stride=stride, dilation=dilation, d=d, t=t)
    return plan_layer(shape, algorithm="wgmma", epilogue=epilogue, settings=values, precision=precision)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "wgmma_1x1_residual_bfloat16": _wgmma(64, 256, 1, BIAS, RESIDUAL, RELU, dtype="bfloat16", form="im2col",
                                              filters=128, pixels=192, buffer=64, splits=1, stages=4),
        "wgmma_3x3x3_stride_2_float16": _wgmma(128, 136, 3, BIAS, RELU, d=9, t=3, padding=1, stride=2, form="im2col",
                                               filters=128, pixels=96, buffer=96, splits=1, stages=5),
        "wgmma_3x3_stride_2_float16": _wgmma(128, 136, 3, BIAS, RELU, padding=1, stride=2, form="im2col", filters=128,
                                             pixels=96, buffer=96, splits=1, stages=5),
        "wgmma_3x3_halo_residual_float16": _wgmma(64, 64, 3, BIAS, RESIDUAL, RELU, h=56, padding=1, form="halo",
                                                  filters=64, pixels=416, rows=7, columns=56, boxes=2, stages=4),
        "wgmma_5x5_box_of_a_column_float16": _wgmma(96, 256, 5, h=24, form="halo", box="column", filters=128,
                                                    pixels=200, rows=10, columns=20, boxes=2, stages=6),
        "wgmma_3x3_splits_bfloat16": _wgmma(512, 512, 3, BIAS, h=7, padding=1, dtype="bfloat16", form="im2col",
                                            filters=128, pixels=64, splits=4, stages=6),
        "wgmma_3x3_dilation_85_filters_float16": _wgmma(72, 85, 3, BIAS, RESIDUAL, padding=2, dilation=2,
                                                        form="im2col", filters=64, pixels=64, splits=1, stages=4),
        "wgmma_3x3_stride_2_filter_stays_float16": _wgmma(48, 96, 3, BIAS, RELU, h=160, padding=1, stride=2,
                                                          form="im2col", filter="stays", filters=128, pixels=80,
                                                          splits=1, stages=6),
        "wgmma_1x1_filter_stays_tf32": _wgmma(40, 240, 1, BIAS, dtype="float32", precision="tf32", form="im2col",
                                              filter="stays", filters=256, pixels=96, splits=1, stages=4),
        "wgmma_3x3_nchw_residual_float16": _wgmma(100, 136, 3, BIAS, RESIDUAL, RELU, padding=1, layout="NCHW",
                                                  form="im2col", filters=128, pixels=192, splits=1, stages=4),
        "wgmma_3x3_nchw_splits_bfloat16": _wgmma(512, 512, 3, BIAS, h=7, padding=1, dtype="bfloat16", layout="NCHW",
                                                 form="im2col", filters=128, pixels=64, splits=4, stages=6),
        "wgmma_1x1_nchw_residual_float16": _wgmma(72, 136, 1, BIAS, RESIDUAL, RELU, layout="NCHW", form="planes",
                                                  filters=128, pixels=160, stages=4, splits=1),
        "wgmma_1x1_nchw_filters_stay_float16": _wgmma(24, 144, 1, BIAS, h=56, layout="NCHW", form="planes",
                                                      filter="stays", filters=64, pixels=256, stages=8, splits=1),
        "wgmma_1x1_nchw_7x7_bfloat16": _wgmma(160, 960, 1, BIAS, h=7, dtype="bfloat16", layout="NCHW", form="im2col",
                                              filters=64, pixels=256, stages=3, splits=1),
        "wgmma_3x3_nchw_halo_residual_float16": _wgmma(72, 136, 3, BIAS, RESIDUAL, RELU, h=14, padding=1,
                                                       layout="NCHW", form="halo", filters=64, pixels=112, rows=7,
                                                       columns=14, boxes=2, box="column", stages=4),
        "wgmma_1x1_nchw_splits_float16": _wgmma(528, 32, 1, h=16, layout="NCHW", form="planes", filters=64,
                                                pixels=128, stages=4, splits=3),
        "wgmma_3x3_halo_fp16x3": _wgmma(64, 128, 3, BIAS, RELU, padding=1, dtype="float32", form="halo", filters=128,
                                        pixels=120, rows=4, columns=28, boxes=3, stages=4),
        "wgmma_3x3_stride_2_halo_fp16x3": _wgmma(64, 128, 3, BIAS, RELU, h=56, padding=1, stride=2, dtype="float32",
                                                 precision="fp16x3", form="halo", filters=128, pixels=104, rows=7,
                                                 columns=14, boxes=2, stages=6),
        "wgmma_5x5_nchw_stride_2_halo_float16": _wgmma(64, 72, 5, BIAS, RESIDUAL, h=28, padding=2, stride=2,
                                                       layout="NCHW", form="halo", filters=64, pixels=112, rows=7,
                                                       columns=14, boxes=2, stages=4),
        "wgmma_3x3_stride_2_splits_fp16x3": _wgmma(100, 72, 3, BIAS, RESIDUAL, padding=1, stride=2, dtype="float32",
                                                   precision="fp16x3", form="im2col", filters=64, pixels=96, stages=3,
                                                   splits=3),
        "wgmma_1x1_fp16x3": _wgmma(256, 64, 1, RESIDUAL, dtype="float32", form="im2col", filters=64, pixels=192,
                                   splits=1, stages=4),
        "wgmma_3x3_halo_residual_tf32": _wgmma(64, 66, 3, BIAS, RESIDUAL, RELU, padding=1, dtype="float32",
                                               precision="tf32", form="halo", filters=64, pixels=240, rows=8,
                                               columns=28, boxes=2, stages=4),
        "wgmma_3x3_stride_2_tf32": _wgmma(100, 128, 3, padding=1, stride=2, dtype="float32", precision="tf32",
                                          form="im2col", filters=128, pixels=192, splits=1, stages=4),
        "wgmma_1x1_nchw_fp16x3": _wgmma(256, 64, 1, RESIDUAL, dtype="float32", layout="NCHW", precision="fp16x3",
                                        form="halo", filters=64, pixels=224, rows=1, columns=224, boxes=2, stages=4,
                                        order="planes", ring=3),
        "wgmma_3x3_nchw_residual_fp16x3": _wgmma(100, 136, 3, BIAS, RESIDUAL, RELU, padding=1, dtype="float32",
                                                 layout="NCHW", precision="fp16x3", form="halo", filters=128,
                                                 pixels=128, rows=4, columns=28, boxes=2, stages=4,
                                                 order="planes", ring=2),
        "wgmma_3x3_nchw_stride_2_splits_fp16x3": _wgmma(99, 72, 3, BIAS, padding=1, stride=2, dtype="float32",
                                                        layout="NCHW", precision="fp16x3", form="im2col", filters=64,
                                                        pixels=96, stages=3, splits=3),
        "wgmma_3x3_nchw_halo_tf32": _wgmma(66, 66, 3, BIAS, padding=1, dtype="float32", layout="NCHW",
                                           precision="tf32", form="halo", filters=64, pixels=240, rows=8, columns=28,
                                           boxes=2, stages=4),
        "wgmma_1x1_nchw_stride_2_fp16x3": _wgmma(100, 64, 1, BIAS, stride=2, dtype="float32", layout="NCHW",
                                                 precision="fp16x3", form="im2col", filters=64, pixels=192, stages=4,
                                                 splits=1),
        "wgmma_3x3x3_halo_fp16x3": _wgmma(64, 64, 3, BIAS, d=9, t=3, padding=1, dtype="float32", precision="fp16x3",
                                          form="halo", filters=64, pixels=240, rows=8, columns=28, boxes=2, stages=8),
        "wgmma_3x3x3_nchw_halo_residual_float16": _wgmma(48, 96, 3, BIAS, RESIDUAL, RELU, d=9, t=3, padding=1,
                                                         layout="NCHW", form="halo", filters=128, pixels=120, rows=4,
                                                         columns=28, boxes=2, stages=6),
        "wgmma_3x3_halo_32_channels_bfloat16": _wgmma(32, 64, 3, BIAS, padding=1, dtype="bfloat16", form="halo",
                                                      filters=64, pixels=432, rows=14, columns=28, boxes=2, stages=6),
        "wgmma_3x3x3_nchw_halo_fp16x3": _wgmma(100, 72, 3, RESIDUAL, d=9, t=3, padding=1, dtype="float32",
                                               layout="NCHW", precision="fp16x3", form="halo", filters=64, pixels=240,
                                               rows=8, columns=28, boxes=2, stages=4, order="planes", ring=2),
        "wgmma_1x1_nchw_stride_2_bfloat16": _wgmma(60, 64, 1, BIAS, stride=2, dtype="bfloat16", layout="NCHW",
                                                   form="im2col", filters=64, pixels=192, stages=4, splits=1),
    }
