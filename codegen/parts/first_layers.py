"""First layers on Hopper's warp groups: what ``taps_float32`` and ``taps_wgmma`` serve, and how their pixels lie."""

from __future__ import annotations

from ..dtypes import Layout
from ..spec import KernelSpec
from .wgmma import TARGET

MOST_CHANNELS = 12
LEAST_FILTERS = 4


def first_layer_refusal(spec: KernelSpec) -> str | None:
    """None, or in words why the spec is no layer of few channels for wgmma."""
    if (spec.arch.major, spec.arch.minor) != (TARGET.major, TARGET.minor):
        return f"{spec.arch} has no wgmma (9.0 alone)"
    if spec.groups > 1:
        return f"{spec.groups} groups: only whole layers are served"
    if spec.c > MOST_CHANNELS:
        return f"{spec.c} channels, at most {MOST_CHANNELS} are served"
    if spec.k < LEAST_FILTERS:
        return f"{spec.k} filters would leave most of a product's eight columns empty (at least {LEAST_FILTERS})"
    return None


def pixel_of(spec: KernelSpec) -> int:
    """Elements of a pixel that lie side by side in x."""
    return spec.c if spec.layout is Layout.NHWC else 1


def finds_pixels(spec: KernelSpec) -> bool:
    """Whether what stands in the padding is a pixel of the image."""
    return any(map(any, spec.padding)) and spec.padding_mode.reads_image
