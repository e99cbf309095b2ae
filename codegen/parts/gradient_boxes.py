"""Boxes of a filter gradient's factors in NHWC, copied by descriptors: so many channels of so many output pixels, of x
tap by tap."""

from __future__ import annotations

from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import Descriptor
from warpconv.codegen.dimension import IMAGE, OUTPUTS, Dimension, Length
from warpconv.codegen.spec import KernelSpec

from .wgmma import walking


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
