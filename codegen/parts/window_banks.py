"""How far apart lines of x lie in shared memory where lanes load pairs of windows from there
(templates/parts/half_windows.cuh.jinja): so that what a warp loads at a time meets in few banks.

A quad is one load: of eight outputs' windows four lanes have a pair each. Pairs of one run lie side by side; what is
left of runs, of several lines or planes of channels, lies as far apart as these do.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter

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
    """Rounds of all of a window's loads: those of a load are the most different words of a bank."""
    line, plane = line % AROUND + FAR, plane % AROUND + FAR * FAR
    places = [of_plane * plane + row * runs.down * line + column * runs.across
              for of_plane, row, column in itertools.product(*map(range, runs.shape))]
    whole = runs.pairs // LANES_EACH * LANES_EACH
    left = [(place, pair) for place in places for pair in range(whole, runs.pairs)]
    left += [(0, 0)] * (-len(left) % LANES_EACH)
    quads = [[(place, first + lane) for lane in range(LANES_EACH)] for place in places
             for first in range(0, whole, LANES_EACH)]
    quads += [left[first:first + LANES_EACH] for first in range(0, len(left), LANES_EACH)]
    return sum(map(functools.partial(_rounds, runs.step), quads))


def _rounds(step: int, quad: list[tuple[int, int]]) -> int:
    words = {(place + window * step) // PAIR + pair for place, pair in quad for window in range(WINDOWS)}
    return max(Counter(word % LANES for word in words).values())
