"""Input rows as kernels that walk down an image take them: how many a step has, and which outputs share them."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass

from ..hardware import GRID_LIMIT
from ..spec import KernelSpec

LARGEST_STRIDE = 8      # input rows of a step, columns of an output: all are loaded, each in text of its own


@dataclass(frozen=True)
class RowInWork:
    """One output row in work: its products of a step begin with the registers ``start`` and end in ``to``."""

    number: int
    age: int                 # steps since its first
    start: str
    to: str
    rows: tuple[int, ...]    # filter rows that it meets in a step


def vertical(spec: KernelSpec) -> tuple[int, int, int]:
    """Input rows of a step, output rows in work at a time, classes of output rows that share no input row."""
    common = math.gcd(spec.stride[0], spec.dilation[0])
    step_rows = spec.stride[0] // common
    return step_rows, -(-spec.r // step_rows), spec.dilation[0] // common


def row_in_work(spec: KernelSpec, number: int) -> RowInWork:
    """Output row ``number`` of those in work, the oldest of which is 0."""
    step_rows, slots, _ = vertical(spec)
    age = slots - 1 - number
    rows = tuple(r for r in range(step_rows * age, step_rows * (age + 1)) if r < spec.r)
    return RowInWork(number, age, f"acc_p{number}" if number < slots - 1 else "",
                     f"acc_p{number - 1}" if number else "out", rows)


def stride_refusal(spec: KernelSpec) -> str | None:
    """Why no text can be written that loads the rows and columns of this stride and dilation, or None."""
    step_rows, _, classes = vertical(spec)
    if max(step_rows, spec.stride[1]) > LARGEST_STRIDE:
        return (f"stride {spec.stride} with dilation {spec.dilation} (at most {LARGEST_STRIDE} input rows a step and "
                "columns an output, which are all loaded)")
    if classes > GRID_LIMIT[1]:
        return f"a vertical dilation of {spec.dilation[0]}: rows in {classes} classes (at most {GRID_LIMIT[1]})"
    return None
