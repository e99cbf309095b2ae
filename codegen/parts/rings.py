"""Lines of float32 elements whose windows are rings of registers: what a layer and its gradient ask in common."""

from __future__ import annotations

from ..dtypes import Layout
from ..spec import KernelSpec
from .folded import line_refusal

LAYOUTS = (Layout.NCHW, Layout.NHWC)
QUAD = 4                # floats of a piece of 16 bytes


def ring_refusal(spec: KernelSpec) -> str | None:
    """Why a thread cannot have what a depthwise filter's line meets in a ring of registers, or None."""
    nhwc = spec.layout is Layout.NHWC
    if spec.arch.major < 8:
        return f"{spec.arch} has no asynchronous copies (from sm_80 on)"
    if spec.channels != 1:
        return f"{spec.channels} channels in a group (a thread has the elements of one: planes, or C = groups)"
    if nhwc and spec.filters != 1:
        return f"{spec.filters} filters a group (in NHWC one)"
    return line_refusal(spec, columns=nhwc)


def value_refusal(layout: Layout, **values: tuple[int, tuple[int, ...]]) -> str | None:
    """Why one of these plan values, each with those that are served, cannot be had in a layout, or None."""
    for name, (value, served) in values.items():
        if value not in served:
            return f"{name} = {value} (in {layout.value} {', '.join(map(str, served))})"
    return None
