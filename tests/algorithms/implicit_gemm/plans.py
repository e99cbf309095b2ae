"""The plans of ``implicit_gemm`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU, RESIDUAL
from tests.gemm import gemm
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue


def _lowered(algorithm: str, shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm=algorithm, epilogue=epilogue, settings=values)


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "implicit_gemm_3x3_taps": gemm("implicit_gemm", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3), BIAS, RELU),
        "implicit_gemm_5x3_taps_padded_groups_filled": gemm(
            "implicit_gemm", ConvShape(n=8, c=60, h=28, w=28, k=180, r=5, s=3, padding=(2, 1), stride=2, groups=2),
            BIAS),
        "implicit_gemm_11x11_table_splits": gemm(
            "implicit_gemm", ConvShape(n=8, c=3, h=227, w=227, k=96, r=11, s=11, stride=4), BIAS, RELU, block_m=96,
            thread_m=12, order="table", splits=2, stages=3, min_blocks=3),
        "implicit_gemm_7x7_table_padded_sm_75": gemm(
            "implicit_gemm", ConvShape(n=8, c=3, h=56, w=56, k=64, r=7, s=7, stride=2, padding=3), RELU, arch="sm_75",
            block_m=64, block_n=128, block_k=8, order="table", min_blocks=1),
        "implicit_gemm_3x3_document": _lowered(
            "implicit_gemm", ConvShape(n=8, c=8, h=28, w=28, k=8, r=3, s=3, padding=1), BIAS, form="document"),
        "implicit_gemm_3x3_document_replicate": _lowered(
            "implicit_gemm", ConvShape(n=8, c=8, h=28, w=28, k=8, r=3, s=3, padding=1, padding_mode="replicate"),
            form="document"),
        "implicit_gemm_3x3_taps_reflect": gemm(
            "implicit_gemm", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3, padding=1, padding_mode="reflect")),
        "implicit_gemm_3x3_taps_border_of_one_value": gemm(
            "implicit_gemm", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3, padding=1, padding_mode="constant",
                                       padding_value=0.5)),
        "implicit_gemm_7x7_table_circular": gemm(
            "implicit_gemm", ConvShape(n=8, c=3, h=56, w=56, k=64, r=7, s=7, stride=2, padding=3,
                                       padding_mode="circular"), order="table", block_m=64, min_blocks=1),
        "implicit_gemm_7x7_table_border_of_one_value_sm_75": gemm(
            "implicit_gemm", ConvShape(n=8, c=3, h=56, w=56, k=64, r=7, s=7, stride=2, padding=3,
                                       padding_mode="constant", padding_value=0.5), arch="sm_75", order="table",
            block_m=64, min_blocks=1),
        "implicit_gemm_3x3_nhwc_taps": gemm(
            "implicit_gemm", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3, padding=1, layout="NHWC"), BIAS, RELU),
        "implicit_gemm_7x7_nhwc_table_splits": gemm(
            "implicit_gemm", ConvShape(n=8, c=3, h=56, w=56, k=64, r=7, s=7, stride=2, padding=3, layout="NHWC"), BIAS,
            RESIDUAL, block_m=64, block_k=8, order="table", splits=2),
        "implicit_gemm_3x3_nhwc_taps_groups_filled_reflect_sm_75": gemm(
            "implicit_gemm", ConvShape(n=8, c=60, h=28, w=28, k=180, r=3, s=3, padding=1, groups=2, layout="NHWC",
                                       padding_mode="reflect"), arch="sm_75", min_blocks=1),
    }
