"""Input rows as kernels that walk down an image take them: how many a step has, and which outputs share them."""

from __future__ import annotations

import math

from ..hardware import GRID_LIMIT
from ..spec import KernelSpec

LARGEST_STRIDE = 8      # input rows of a step, columns of an output: all are loaded, each in text of its own


def vertical(spec: KernelSpec) -> tuple[int, int, int]:
    """Input rows of a step, output rows in work at a time, classes of output rows that share no input row."""
    common = math.gcd(spec.stride[0], spec.dilation[0])
    step_rows = spec.stride[0] // common
    return step_rows, -(-spec.r // step_rows), spec.dilation[0] // common


def stride_refusal(spec: KernelSpec) -> str | None:
    """Why no text can be written that loads the rows and columns of this stride and dilation, or None."""
    step_rows, _, classes = vertical(spec)
    if max(step_rows, spec.stride[1]) > LARGEST_STRIDE:
        return (f"stride {spec.stride} with dilation {spec.dilation} (at most {LARGEST_STRIDE} input rows a step and "
                "columns an output, which are all loaded)")
    if classes > GRID_LIMIT[1]:
        return f"a vertical dilation of {spec.dilation[0]}: rows in {classes} classes (at most {GRID_LIMIT[1]})"
    return None
