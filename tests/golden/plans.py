"""The plans whose emitted text is kept under review: one of each form that a kernel can take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

HERE = Path(__file__).parent
# every plan value that has a measured default is named, so that a better default changes one file: reuse_defaults
REUSE = {"exchange": "select", "rows": "reuse", "decomposition": "paper", "weights": "shared", "edges": "direct",
         "sub_block_rows": 56, "warp_columns": 1, "warp_rows": 4, "ring": "turning", "rows_ahead": 1,
         "k_tile": 1, "min_blocks": 1}
DIRECT = {"block_size_x": 64, "block_size_y": 4, "k_tile": 1}
BIAS, RELU = Epilogue.BIAS, Epilogue.RELU


def _plane(size: int, **changes: Any) -> ConvShape:
    return ConvShape(**{**dict(c=1, h=512, w=512, k=1, r=size, s=size, padding="same"), **changes})


def _reuse(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="reuse", epilogue=epilogue, settings={**REUSE, **values})


def _direct(shape: ConvShape, *epilogue: Epilogue, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="direct", epilogue=epilogue, settings={**DIRECT, **values})


def plans() -> dict[str, KernelPlan]:
    """File name (without .cu) -> plan."""
    return {
        "reuse_defaults_5x5": plan_layer(_plane(5), algorithm="reuse"),
        "reuse_3x3_select": _reuse(_plane(3)),
        "reuse_5x5_select": _reuse(_plane(5)),
        "reuse_5x5_packed": _reuse(_plane(5), exchange="packed"),
        "reuse_5x5_dynamic": _reuse(_plane(5), exchange="dynamic"),
        "reuse_5x5_dynamic_local": _reuse(_plane(5), exchange="dynamic_local"),
        "reuse_5x5_none_reload": _reuse(_plane(5), exchange="none", rows="reload"),
        "reuse_5x5_predicated_ahead": _reuse(_plane(5), edges="predicated", rows_ahead=5),
        "reuse_7x7_constant_shared_ends": _reuse(_plane(7), weights="constant", decomposition="shared_ends"),
        "reuse_5x5_shifted": _reuse(_plane(5), ring="shifted"),
        "reuse_3x3_channels_bias_relu": _reuse(_plane(3, c=3, k=8), BIAS, RELU, k_tile=4),
        "reuse_3x3_groups_cached": _reuse(_plane(3, c=4, k=8, groups=4), weights="cached", k_tile=2),
        "reuse_2x3_index64": _reuse(ConvShape(n=70000, c=1, h=300, w=300, k=1, r=2, s=3, padding=((0, 1), (2, 0)))),
        "direct_3x3_stride_dilation_groups": _direct(ConvShape(c=4, h=64, w=64, k=6, r=3, s=3, stride=2, padding=1,
                                                               dilation=(1, 2), groups=2)),
        "direct_5x5_tile": _direct(ConvShape(c=3, h=64, w=64, k=8, r=5, s=5), BIAS, k_tile=4),
    }


def path_of(name: str) -> Path:
    return HERE / f"{name}.cu"
