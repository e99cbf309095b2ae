"""The plans of ``patch`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import depthwise, plane
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

PATCH = {"columns": 8, "row_lanes": 7, "rows": 28, "planes": 1, "height": 56, "vector": 4, "store_vector": 4,
         "min_blocks": 3}


def _patch(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="patch", epilogue=epilogue, settings={**PATCH, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "patch_5x5_replicate": _patch(depthwise(5, layout="NCHW", padding_mode="replicate")),
        "patch_13x13": _patch(depthwise(13, layout="NCHW")),
        "patch_9x9_two_planes_float16": _patch(depthwise(9, layout="NCHW", dtype="float16"), BIAS, RELU, columns=6,
                                               row_lanes=10, planes=2, store_vector=2),
        "patch_5x7_stride_dilation": _patch(plane(5, s=7, k=2, stride=(1, 2), dilation=(2, 1), padding=(4, 3)), BIAS,
                                            columns=3, row_lanes=5, vector=1, store_vector=1, height=512),
    }
