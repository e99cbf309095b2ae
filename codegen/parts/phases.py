"""Phases of a stride: the pixels of the input that meet the same taps.

Along an axis of stride t, pixels ``t * j + a`` of phase a meet the taps r for which ``a + pad - r * dilation`` is a
multiple of t, at output ``j`` and that multiple. These taps, and their outputs, follow each other in equal steps.
Products of matrices are made of them, for each phase one or, along some axes, for all phases together.
"""

from __future__ import annotations

import functools
import itertools
import math

from ..classes import dataclass
from ..spec import KernelSpec

NO_TAP = -1


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
    def place(self) -> tuple[int, ...]:
        """What tells its pixels and outputs, as the text's table has them."""
        return (*self.first, *self.met, *self.output)

    @property
    def fields(self) -> tuple[int, ...]:
        """The same, and where its taps begin."""
        return (*self.place, self.first_tap)


@dataclass(frozen=True)
class Place:
    """Where a tap's products are: in the taps of its phase."""

    before: int             # taps of the phases before it
    taps: int               # of its phase,
    index: int              # and which of them it is


@dataclass(frozen=True)
class Products:
    """The products of a layer: of each phase, or of several in one."""

    phases: tuple[Phase, ...]           # those of the most taps first
    cell: tuple[int, ...]               # pixels that a row tells with its channel, along each axis
    steps: tuple[int, ...]              # outputs from a tap to the next one, backwards
    taps: tuple[tuple[int, ...], ...]   # of every tap of a product and pixel of such a cell: the filter's, or none


@dataclass(frozen=True)
class _Line:
    """A product's taps along an axis: of each, and each of the axis's pixels that it is for, the filter's tap."""

    first: int
    output: int
    taps: tuple[tuple[int, ...], ...]


def _lines(spec: KernelSpec, axis: int, together: bool) -> tuple[list[_Line], int]:
    """The products along an axis, and the outputs from a tap to the next one."""
    stride, dilation, pad = spec.stride[axis], spec.dilation[axis], spec.padding[axis][0]
    met: list[dict[int, int]] = [{} for _ in range(stride)]       # of each phase: output -> tap
    for tap in range(spec.taps[axis]):
        phase = (tap * dilation - pad) % stride
        met[phase][(phase + pad - tap * dilation) // stride] = tap
    if not together:
        made = []
        for phase, taps in enumerate(met):
            ordered = sorted(taps.items(), reverse=True) or [((phase + pad) // stride, NO_TAP)]
            made.append(_Line(first=phase, output=ordered[0][0], taps=tuple((tap,) for _, tap in ordered if taps)))
        return made, dilation // math.gcd(stride, dilation)
    outputs = sorted({output for taps in met for output in taps}, reverse=True)
    step = math.gcd(*(outputs[0] - output for output in outputs)) or 1
    every = range(outputs[0], outputs[-1] - 1, -step)
    return [_Line(first=0, output=outputs[0], taps=tuple(tuple(taps.get(output, NO_TAP) for taps in met)
                                                         for output in every))], step


@functools.lru_cache(maxsize=64)
def products(spec: KernelSpec, joined: tuple[bool, ...]) -> Products:
    """The products of a layer whose phases are together along the axes that are ``joined``."""
    axes, steps = zip(*(_lines(spec, axis, together) for axis, together in enumerate(joined)))
    made, taps, first_tap = [], [], 0
    for lines in sorted(itertools.product(*axes), key=lambda lines: -math.prod(len(line.taps) for line in lines)):
        phase = Phase(first=tuple(line.first for line in lines), met=tuple(len(line.taps) for line in lines),
                      output=tuple(line.output for line in lines), first_tap=first_tap)
        made.append(phase)
        first_tap += phase.taps
        for of_axes in itertools.product(*(line.taps for line in lines)):
            taps.append(tuple(_tap(spec, each) for each in itertools.product(*of_axes)))
    return Products(phases=tuple(made), steps=steps, taps=tuple(taps), cell=tuple(
        stride if together else 1 for stride, together in zip(spec.stride, joined)))


def _tap(spec: KernelSpec, along: tuple[int, ...]) -> int:
    """The tap of the filter with these numbers along its axes."""
    if NO_TAP in along:
        return NO_TAP
    return functools.reduce(lambda number, axis: number * spec.taps[axis] + along[axis], range(len(along)), 0)


def phases_of(spec: KernelSpec) -> tuple[Phase, ...]:
    """All phases of the stride, those of the most taps first: their blocks take longest."""
    return products(spec, (False,) * len(spec.taps)).phases


def places_of(spec: KernelSpec) -> tuple[Place, ...]:
    """Where each tap of the filter is among those of the phases."""
    made = products(spec, (False,) * len(spec.taps))
    found = {made.taps[phase.first_tap + index][0]: Place(before=phase.first_tap, taps=phase.taps, index=index)
             for phase in made.phases for index in range(phase.taps)}
    return tuple(found[tap] for tap in range(len(found)))


def steps_of(spec: KernelSpec) -> tuple[int, ...]:
    """Outputs from a tap of a phase to the next one, backwards, along each axis."""
    return products(spec, (False,) * len(spec.taps)).steps
