"""16-bit outputs in NCHW: lanes store as many pixels of a filter at once as its images, or its rows, have a multiple
of, and those of a filter lie side by side (templates/parts/nchw_stores). What that costs beyond stores in NHWC."""

from __future__ import annotations

from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

STORE_UNITS = (8, 2, 1)
# Cycles of a multiprocessor for an output, by the unit: 126 plans of wgmma for 18 layers (an H200, 2026-11-26)
OUTPUT_CYCLES = {8: 0.04, 2: 0.045, 1: 0.07}


def cycles(spec: KernelSpec, shape: ConvShape, units: tuple[int, ...] = STORE_UNITS, along: int | None = None) -> float:
    """Of all outputs of a layer, by the whole chip; ``along``: what a unit divides (None: an image's pixels)."""
    if not spec.dtype.is_half:
        return 0.0
    divided = shape.p * shape.q if along is None else along
    unit = next(unit for unit in units if divided % unit == 0)
    return OUTPUT_CYCLES[unit] * shape.n * shape.k * shape.p * shape.q / spec.hardware.multiprocessors
