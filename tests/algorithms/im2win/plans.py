"""The plans of ``im2win`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from tests.axes import BIAS, RELU
from tests.gemm import gemm
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "im2win_3x3_window": gemm("im2win", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3), BIAS, order="window"),
        "im2win_7x7_window_padded_scalar_loads": gemm(
            "im2win", ConvShape(n=8, c=3, h=56, w=56, k=64, r=7, s=7, stride=2, padding=3), order="window",
            vector_loads="off"),
        "im2win_3x3_table_no_prefetch": gemm("im2win", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3),
                                              order="table", prefetch="off", stages=1),
        "im2win_3x3_taps_no_micro_kernel": gemm("im2win", ConvShape(n=8, c=64, h=28, w=28, k=128, r=3, s=3), RELU,
                                                 micro_kernel="off", min_blocks=2),
    }
