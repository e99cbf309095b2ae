"""Boxes of a filter gradient's factors in NHWC, copied by descriptors: so many channels of so many output pixels, of x
tap by tap, into a ring in shared memory."""

from __future__ import annotations

from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import Descriptor
from warpconv.codegen.dimension import IMAGE, OUTPUTS, Dimension, Length
from warpconv.codegen.spec import KernelSpec

from . import partial_sums
from .wgmma import LEAST_STAGES, MOST_STAGES, walking


def descriptors(spec: KernelSpec, channels: int, pixels: int, rounded: bool = False) -> tuple[Descriptor, Descriptor]:
    """Those of x, its pixels or walks of windows, and of dy; ``rounded``: to TF32."""
    outputs = Length(by=(Dimension.N, *OUTPUTS[len(spec.taps)]))
    gradients = Descriptor(argument="dy_map", of="dy", dtype=spec.dtype, sizes=(Length(each=spec.k), outputs),
                           box=(channels, pixels), rounded=rounded)
    if spec.is_pointwise:
        return replace(gradients, argument="x_map", of="x", sizes=(Length(each=spec.c), outputs)), gradients
    n, *image = (Length(by=(size,)) for size in (Dimension.N, *IMAGE[len(spec.taps)]))
    windows = replace(gradients, argument="x_map", of="x", sizes=(Length(each=spec.c), *image[::-1], n))
    return walking(windows, spec), gradients


def ring_refusal(spec: KernelSpec, stages: int, splits: int, shared: int) -> str | None:
    """Why a ring of so many ``stages``, ``shared`` bytes in all, or so many shares cannot be, in words, or None."""
    if not LEAST_STAGES <= stages <= MOST_STAGES:
        return f"stages = {stages} ({LEAST_STAGES} to {MOST_STAGES})"
    if not 1 <= splits <= partial_sums.MOST_CHUNKS:
        return f"splits = {splits} (1 to {partial_sums.MOST_CHUNKS})"
    if shared > spec.hardware.shared_block:
        return (f"{shared} bytes of shared memory for a block (at most {spec.hardware.shared_block}): fewer stages or "
                "pixels")
    return None
