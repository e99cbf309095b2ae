"""How far apart lines of x lie in shared memory where lanes load pairs of windows from there
(templates/parts/half_windows.cuh.jinja): so that what a warp loads at a time meets in few banks.

A quad is one load: of eight outputs' windows four lanes have a pair each. Pairs of one run lie side by side; what is
left of runs, of several lines or planes of channels, lies as far apart as these do.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import TypeAlias

from ..classes import dataclass, replace
from ..hardware import LANES
from .first_layers import LANES_EACH, PAIR
from .lines import COPY_BYTES, Lines

ITEMSIZE = 2
WIDE = COPY_BYTES // ITEMSIZE   # elements that lines and planes are multiples of
AROUND = PAIR * LANES           # elements of all banks, after which they begin anew
FAR = 16 * AROUND               # at least so far apart lines are taken to be: none has another's words
MOST_BESIDE = 4                 # times WIDE elements, and fewer, that a line or a plane is longer for it
WINDOWS = 8                     # of a load
Place: TypeAlias = "tuple[int, int, int, int]"      # planes, lines, elements of a line, pairs
Quad: TypeAlias = "tuple[Place, ...]"


@dataclass(frozen=True)
class Runs:
    """Runs of a window's elements: ``pairs`` of each; ``shape`` of them all as planes, lines and runs of a line, with
    ``down`` lines from one to the next and ``across`` elements; ``step`` elements from a window to the next."""

    pairs: int
    shape: tuple[int, int, int]
    down: int
    across: int
    step: int


def spread(lines: Lines, runs: Runs) -> Lines:
    """The same lines, and planes of them, so much longer that loads take the least rounds."""
    line, plane = _longer(runs, lines.line % AROUND, lines.rows % AROUND)
    made = replace(lines, line=lines.line + line, plane=lines.plane + lines.rows * line + plane)
    return replace(made, elements=lines.elements // lines.plane * made.plane)


@functools.lru_cache(maxsize=1024)
def _longer(runs: Runs, line: int, rows: int) -> tuple[int, int]:
    """Elements that each is longer."""
    planes = range(0, MOST_BESIDE * WIDE, WIDE) if runs.shape[0] > 1 else (0,)
    ways = itertools.product(range(0, MOST_BESIDE * WIDE, WIDE), planes)
    return min(ways, key=lambda way: (rounds_of(runs, line + way[0], rows * (line + way[0]) + way[1]), sum(way)))


def rounds_of(runs: Runs, line: int, plane: int) -> int:
    """Rounds of all of a window's loads: those of a load are the most different words of a bank. ``line`` and ``plane``
    are even, as lines of whole words are."""
    line, plane = line % AROUND + FAR, plane % AROUND + FAR * FAR
    return sum(times * _rounds(runs.step, [(of_plane * plane + row * line + element, pair)
                                           for of_plane, row, element, pair in quad])
               for quad, times in _quads(runs).items())


@functools.lru_cache(maxsize=1024)
def _quads(runs: Runs) -> Counter[Quad]:
    """How many loads there are of a kind. What is as far from its first lane's word in all four lanes meets in as many
    banks wherever that word lies, so that a window of thousands of loads has a few kinds."""
    places = [(of_plane, row * runs.down, column * runs.across)
              for of_plane, row, column in itertools.product(*map(range, runs.shape))]
    whole = runs.pairs // LANES_EACH * LANES_EACH
    left = [(*place, pair) for place in places for pair in range(whole, runs.pairs)]
    left += [(0, 0, 0, 0)] * (-len(left) % LANES_EACH)
    kinds = Counter(_from_first(left[first:first + LANES_EACH]) for first in range(0, len(left), LANES_EACH))
    for place in places if whole else ():
        kinds[_from_first([(*place, lane) for lane in range(LANES_EACH)])] += whole // LANES_EACH
    return kinds


def _from_first(quad: list[Place]) -> Quad:
    """Where lanes load, from the word of the first one's."""
    of_plane, row, element, pair = quad[0]
    element -= element % PAIR
    return tuple((lane[0] - of_plane, lane[1] - row, lane[2] - element, lane[3] - pair) for lane in quad)


def _rounds(step: int, quad: list[tuple[int, int]]) -> int:
    words = {(place + window * step) // PAIR + pair for place, pair in quad for window in range(WINDOWS)}
    return max(Counter(word % LANES for word in words).values())
