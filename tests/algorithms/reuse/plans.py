"""The plans of ``reuse`` whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from typing import Any

from tests.axes import BIAS, RELU
from tests.golden import plane
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

REUSE = {"exchange": "select", "rows": "reuse", "decomposition": "paper", "weights": "shared", "edges": "direct",
         "sub_block_rows": 56, "warp_columns": 1, "warp_rows": 4, "ring": "turning", "prefetch_rows": 1,
         "k_tile": 1, "min_blocks": 1}


def _reuse(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="reuse", epilogue=epilogue, settings={**REUSE, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "reuse_defaults_5x5": plan_layer(plane(5), algorithm="reuse"),
        "reuse_3x3_select": _reuse(plane(3)),
        "reuse_5x5_select": _reuse(plane(5)),
        "reuse_5x5_packed": _reuse(plane(5), exchange="packed"),
        "reuse_5x5_dynamic": _reuse(plane(5), exchange="dynamic"),
        "reuse_5x5_dynamic_local": _reuse(plane(5), exchange="dynamic_local"),
        "reuse_5x5_none_reload": _reuse(plane(5), exchange="none", rows="reload"),
        "reuse_5x5_predicated_ahead": _reuse(plane(5), edges="predicated", prefetch_rows=5),
        "reuse_7x7_constant_shared_ends": _reuse(plane(7), weights="constant", decomposition="shared_ends"),
        "reuse_5x5_shifted": _reuse(plane(5), ring="shifted"),
        "reuse_3x3_channels_bias_relu": _reuse(plane(3, c=3, k=8), BIAS, RELU, k_tile=4),
        "reuse_3x3_groups_cached": _reuse(plane(3, c=4, k=8, groups=4), weights="cached", k_tile=2),
        "reuse_2x3_index64": _reuse(ConvShape(n=70000, c=1, h=300, w=300, k=1, r=2, s=3, padding=((0, 1), (2, 0)))),
        "reuse_5x5_reflect": _reuse(plane(5, padding_mode="reflect"), edges="predicated", prefetch_rows=5),
        "reuse_5x5_circular_direct": _reuse(plane(5, padding_mode="circular")),
        "reuse_5x5_replicate_none_reload": _reuse(plane(5, padding_mode="replicate"), exchange="none", rows="reload",
                                                  edges="predicated"),
        "reuse_5x5_border_of_one_value_shifted": _reuse(plane(5, padding_mode="constant", padding_value=0.5),
                                                        edges="predicated", ring="shifted"),
        "reuse_3x3_symmetric_channels": _reuse(plane(3, c=3, k=8, padding_mode="symmetric"), BIAS,
                                               edges="predicated", k_tile=2),
    }
