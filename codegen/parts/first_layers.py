"""First layers: what ``taps_ieee``, ``taps_mma`` and, on Hopper's warp groups, ``taps_float32`` and ``taps_wgmma``
serve, how their pixels lie, and which pairs of a window's elements a lane of the latter has
(templates/parts/window_pairs.cuh.jinja)."""

from __future__ import annotations

import enum

from ..dtypes import Layout
from ..spec import KernelSpec
from .wgmma import DEPTH, TARGET

MOST_CHANNELS = 12
LEAST_FILTERS = 4
PAIR = 2                        # neighbours that a lane loads at a time, a word
LANES_EACH = 4                  # lanes that share an output's products
DEPTH_QUADS = DEPTH // (PAIR * LANES_EACH)      # pairs of a window that one of them loads for an instruction


class Stores(enum.Enum):
    """How outputs get to y."""

    DIRECT = "direct"       # by the threads that have the sums
    ROWS = "rows"           # each group of warps puts outputs of whole rows together in shared memory first


def first_layer_refusal(spec: KernelSpec) -> str | None:
    """None, or in words why the spec is no layer of few channels for wgmma."""
    if (spec.arch.major, spec.arch.minor) != (TARGET.major, TARGET.minor):
        return f"{spec.arch} has no wgmma (9.0 alone)"
    if spec.groups > 1:
        return f"{spec.groups} groups: only whole layers are served"
    return few_channels_refusal(spec)


def few_channels_refusal(spec: KernelSpec) -> str | None:
    """None, or in words why the spec's groups, or it as a whole, have no few channels and several filters."""
    if spec.groups > 1 and spec.channels == 1:
        return "groups of one channel are not served"
    each = " a group" if spec.groups > 1 else ""
    if spec.channels > MOST_CHANNELS:
        return f"{spec.channels} channels{each}, at most {MOST_CHANNELS} are served"
    if spec.filters < LEAST_FILTERS:
        return f"{spec.filters} filters{each}, at least {LEAST_FILTERS} are served"
    return None


def pixel_of(spec: KernelSpec) -> int:
    """Elements of a pixel that lie side by side in x."""
    return spec.c if spec.layout is Layout.NHWC else 1


def finds_pixels(spec: KernelSpec) -> bool:
    """Whether what stands in the padding is a pixel of the image."""
    return any(map(any, spec.padding)) and spec.padding_mode.reads_image


def is_bulk(spec: KernelSpec) -> bool:
    """Whether a line is one copy, but for its ends: not where what stands in the padding are pixels, which lie
    elsewhere in 16 bytes."""
    return not finds_pixels(spec)


def run_of(spec: KernelSpec) -> tuple[int, int]:
    """Elements of a window that lie side by side in x, and how many such runs it has."""
    taps = spec.s if spec.dilation[1] == 1 else 1
    length = taps * pixel_of(spec)
    return length, spec.reduction // length


def quads_of(pairs: int, spans: int) -> tuple[int, int]:
    """Fours of pairs, one of each of the lanes that share an output, of so many runs of so many pairs: those that lie
    side by side, and those of what is left of runs."""
    return spans * (pairs // LANES_EACH), -(-spans * (pairs % LANES_EACH) // LANES_EACH)


def beside(one: float, other: float, power: float) -> float:
    """How long two pieces of work take beside each other: the longer hides the other as far as ``power`` says."""
    return float((one**power + other**power)**(1 / power))
