"""Outputs in NCHW: of 16 bits a lane stores as many pixels of a filter at once as divide an image's pixels, or a row's,
of float32 one, and those of a warp lie side by side (templates/parts/nchw_stores). What that costs beyond stores in
NHWC."""

from __future__ import annotations

import math

from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

STORE_UNITS = (8, 2, 1)
# Cycles of a multiprocessor for an output, by the unit: 126 plans of wgmma for 18 layers (an H200, 2026-11-26)
OUTPUT_CYCLES = {8: 0.04, 2: 0.045, 1: 0.07}


def cycles(spec: KernelSpec, shape: ConvShape, units: tuple[int, ...] = STORE_UNITS, along: int | None = None) -> float:
    """Of all outputs of a layer, by the whole chip, in 16 bits (in float32 the other costs were fitted with them);
    ``along``: what a unit divides (None: an image's pixels)."""
    if not spec.dtype.is_half:
        return 0.0
    divided = math.prod(shape.outputs) if along is None else along
    unit = next(unit for unit in units if divided % unit == 0)
    return OUTPUT_CYCLES[unit] * shape.k * shape.output_pixels / spec.hardware.multiprocessors
