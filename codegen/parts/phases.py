"""Phases of a stride: the pixels of the input that meet the same taps.

Along an axis of stride t, pixels ``t * j + a`` of phase a meet the taps r for which ``a + pad - r * dilation`` is a
multiple of t, at output ``j`` and that multiple. These taps, and their outputs, follow each other in equal steps.
"""

from __future__ import annotations

import functools
import itertools
import math

from ..classes import dataclass, replace
from ..spec import KernelSpec


@dataclass(frozen=True)
class Phase:
    """Every stride-th pixel along each axis, and the taps that they meet: numbers along the spatial axes."""

    first: tuple[int, ...]      # pixel
    met: tuple[int, ...]        # taps,
    output: tuple[int, ...]     # and where the first pixel meets the first of them: later ones before
    first_tap: int              # taps of the phases before this

    @property
    def taps(self) -> int:
        return math.prod(self.met)

    @property
    def fields(self) -> tuple[int, ...]:
        """As the text's table has them."""
        return (*self.first, *self.met, *self.output, self.first_tap)


@dataclass(frozen=True)
class Place:
    """Where a tap's products are: in the taps of its phase."""

    before: int             # taps of the phases before it
    taps: int               # of its phase,
    index: int              # and which of them it is


def _axis(taps: int, stride: int, dilation: int, pad: int) -> list[list[int]]:
    """The taps of each phase of an axis, in their order."""
    return [[r for r in range(taps) if (a + pad - r * dilation) % stride == 0] for a in range(stride)]


@functools.lru_cache(maxsize=64)
def phases_of(spec: KernelSpec) -> tuple[Phase, ...]:
    """All phases of the stride, those of the most taps first: their blocks take longest."""
    axes = [_axis(taps, stride, dilation, pad) for taps, stride, dilation, (pad, _) in zip(
        spec.taps, spec.stride, spec.dilation, spec.padding)]

    def output(axis: int, phase: int) -> int:
        first = axes[axis][phase][0] if axes[axis][phase] else 0
        return (phase + spec.padding[axis][0] - first * spec.dilation[axis]) // spec.stride[axis]

    found = [Phase(first=first, met=tuple(len(taps[phase]) for taps, phase in zip(axes, first)),
                   output=tuple(map(output, range(len(axes)), first)), first_tap=0)
             for first in itertools.product(*map(range, spec.stride))]
    ordered = sorted(found, key=lambda phase: -phase.taps)
    before = itertools.accumulate((phase.taps for phase in ordered), initial=0)
    return tuple(replace(phase, first_tap=first_tap) for phase, first_tap in zip(ordered, before))


def places_of(spec: KernelSpec, phases: tuple[Phase, ...]) -> tuple[Place, ...]:
    by_pixel, found = {phase.first: phase for phase in phases}, []
    for taps in itertools.product(*map(range, spec.taps)):
        first = tuple((tap * dilation - pad) % stride for tap, dilation, (pad, _), stride in zip(
            taps, spec.dilation, spec.padding, spec.stride))
        phase, index = by_pixel[first], 0
        for tap, met, stride, dilation in zip(taps, phase.met, spec.stride, spec.dilation):
            index = index * met + tap // (stride // math.gcd(stride, dilation))
        found.append(Place(before=phase.first_tap, taps=phase.taps, index=index))
    return tuple(found)


def steps_of(spec: KernelSpec) -> tuple[int, ...]:
    """Outputs from a tap of a phase to the next one, backwards, along each axis."""
    return tuple(dilation // math.gcd(stride, dilation) for stride, dilation in zip(spec.stride, spec.dilation))
