"""Boxes of a filter gradient's factors in NHWC, copied by descriptors: so many channels of so many output pixels, of x
tap by tap, into a ring in shared memory."""

from __future__ import annotations

from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import ALIGNMENT, C_TYPE, Descriptor
from warpconv.codegen.dimension import IMAGE, OUTPUTS, Dimension, Length
from warpconv.codegen.plan import Argument, Role
from warpconv.codegen.spec import KernelSpec

from . import partial_sums
from .arguments import demanding, gradient_arguments, named, outputs_of
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


def arguments(spec: KernelSpec, maps: tuple[Descriptor, ...],
              direct: bool) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """Those of a program whose product reads its factors by ``maps``, and those that the product takes, which writes
    sums two at a time, to the gradient itself where it is ``direct``."""
    aligned = {"x": ALIGNMENT, "dy": ALIGNMENT} | ({"dw": 2 * spec.dtype.itemsize} if direct else {})
    given = demanding(gradient_arguments(spec), aligned)
    given += tuple(Argument(name=d.argument, role=Role.DESCRIPTOR, c_type=C_TYPE) for d in maps)
    return given, named((*given, partial_sums.argument()), "x_map", "dy_map", "dw" if direct else partial_sums.PARTS,
                        "N", *outputs_of(spec))


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
