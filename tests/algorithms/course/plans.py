"""The plans of the documents' teaching steps whose emitted text is kept under review: one of each form."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import plane
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _lowered(algorithm: str, shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm=algorithm, epilogue=epilogue, settings=values)


def _slides(algorithm: str, shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    usual = {"tile": 32, **({"k_tile": 1} if algorithm not in ("naive", "constant") else {})}
    return plan_layer(shape, algorithm=algorithm, epilogue=epilogue, settings={**usual, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "im2win_basic_3x3_padded_stride_dilation": _lowered(
            "im2win_basic", ConvShape(n=2, c=8, h=28, w=28, k=48, r=3, s=3, stride=(2, 1), padding=1, dilation=(1, 2),
                                      groups=2), BIAS, RELU, mapping="coalesced"),
        "im2win_basic_5x5_document_float16": _lowered(
            "im2win_basic", ConvShape(c=3, h=28, w=28, k=8, r=5, s=5, dtype="float16"), mapping="document"),
        "naive_5x5": _slides("naive", plane(5)),
        "naive_31x3_stride_float16": _slides("naive", ConvShape(c=2, h=64, w=64, k=2, r=31, s=9, stride=(1, 2),
                                                                dtype="float16"), RELU, tile=16),
        "constant_5x5": _slides("constant", plane(5)),
        "constant_3x3_groups_bias": _slides("constant", plane(3, c=4, k=6, groups=2), BIAS, tile=16),
        "tiled_5x5": _slides("tiled", plane(5)),
        "tiled_3x3_channels_bias_relu": _slides("tiled", plane(3, c=3, k=8), BIAS, RELU, tile=16, k_tile=4),
        "halo_cached_5x5": _slides("halo_cached", plane(5)),
        "halo_cached_3x3_stride_2_bfloat16": _slides(
            "halo_cached", plane(3, c=2, k=2, stride=2, padding=1, dtype="bfloat16"), tile=16, k_tile=2),
        "coarsened_5x5": _slides("coarsened", plane(5), walk=4, outputs=4),
        "coarsened_7x7_clamped": _slides("coarsened", plane(7, c=2, k=4), BIAS, walk=2, outputs=3, k_tile=2),
    }
