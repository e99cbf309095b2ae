"""What stores in NCHW cost beyond those of NHWC where images begin anywhere: 32 bytes are written in several turns."""

from __future__ import annotations

from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

# Cycles of a multiprocessor for an output of 16 bits, by what pixels of an image are a multiple of: what 1x1 layers on
# 7^2 and 14^2 took in NCHW beside NHWC and the pass over x (an H200, 2026-11-23)
OUTPUT_CYCLES = {8: 0.0, 4: 0.22, 2: 1.66, 1: 1.66}


def cycles(spec: KernelSpec, shape: ConvShape) -> float:
    """Of all outputs of a layer, by the whole chip."""
    if not spec.dtype.is_half:
        return 0.0
    pixels = shape.p * shape.q
    unit = next(unit for unit in OUTPUT_CYCLES if pixels % unit == 0)
    return OUTPUT_CYCLES[unit] * shape.n * shape.k * pixels / spec.hardware.multiprocessors
