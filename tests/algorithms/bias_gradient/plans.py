"""The plans of ``bias_gradient`` whose emitted text is kept under review: one of each layout, and one of single
elements."""

from __future__ import annotations

from tests.golden import depthwise
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "bias_gradient_nhwc_float16": plan_layer(depthwise(3, dtype="float16"), operation="bias_gradient"),
        "bias_gradient_nchw_one_chunk": plan_layer(depthwise(3, layout="NCHW"), operation="bias_gradient",
                                                   settings={"chunks": 1, "vector": 4}),
        "bias_gradient_nhwc_odd_bfloat16": plan_layer(depthwise(3, dtype="bfloat16", c=33, k=33, groups=33),
                                                      operation="bias_gradient"),
    }
