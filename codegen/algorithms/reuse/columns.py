"""How a warp gets a filter row's S input columns: which it loads, and which its lanes exchange.

Lane l needs in[l] .. in[l + S - 1]. An exchange gives every lane the element halfway between two it holds: from
elements c (``lo``) and c + 2m (``hi``), with m a power of two, a shuffle with lane ^ m gives element c + m, because
that element is ``hi`` of the lane m to the left and ``lo`` of the lane m to the right (Lu, Zhang, Wang, CLUSTER 2020,
Algorithms 1 and 2, with the second one's overwritten register mended).
"""

from __future__ import annotations

import enum
import functools
import itertools

from warpconv.codegen.classes import dataclass


class Decomposition(enum.Enum):
    """How filter columns are divided into parts that start and end with a load."""

    PAPER = "paper"                # 3- and 5-column parts, most fives (Algorithm 4, line 2); 1, 2, 4, 7 have a rest
    FEWEST_LOADS = "fewest_loads"  # fives first, then the remainder as [1], [2], [3] or [3, 1]
    SHARED_ENDS = "shared_ends"    # beyond the paper: parts share their end columns, at most 3 loads up to 33 columns


@dataclass(frozen=True)
class Load:
    """Load column ``column`` of the window from memory."""

    column: int


@dataclass(frozen=True)
class Swap:
    """Exchange with lane ^ ``step``: gives column ``column`` from the held columns ``lo`` and ``hi`` = lo + 2 step."""

    column: int
    lo: int
    hi: int
    step: int


@dataclass(frozen=True)
class ColumnPlan:
    """Loads and swaps, in order, that give a lane all ``width`` columns; ``parts`` is the division in words."""

    width: int
    parts: tuple[int, ...]
    steps: tuple[Load | Swap, ...]

    @property
    def loads(self) -> tuple[int, ...]:
        return tuple(s.column for s in self.steps if isinstance(s, Load))

    @property
    def swaps(self) -> tuple[Swap, ...]:
        return tuple(s for s in self.steps if isinstance(s, Swap))

    def __str__(self) -> str:
        return f"{self.width} = [{', '.join(map(str, self.parts))}]"


def plain(width: int) -> ColumnPlan:
    """Every column loaded."""
    return ColumnPlan(width, (1,) * width, tuple(Load(c) for c in range(width)))


@functools.cache
def decompose(width: int, rule: Decomposition) -> ColumnPlan:
    """The column plan of a filter ``width`` wide under ``rule``."""
    if rule is Decomposition.SHARED_ENDS:
        return _shared_ends(width)
    parts = _paper_parts(width) if rule is Decomposition.PAPER else _fives_first(width)
    steps: list[Load | Swap] = []
    first = 0
    for part in parts:
        steps += _part_steps(first, part)
        first += part
    return ColumnPlan(width, parts, tuple(steps))


def _paper_parts(width: int) -> tuple[int, ...]:
    for fives in range(width // 5, -1, -1):
        threes, rest = divmod(width - 5 * fives, 3)
        if rest == 0:
            return (5,) * fives + (3,) * threes
    return _fives_first(width)


def _fives_first(width: int) -> tuple[int, ...]:
    return (5,) * (width // 5) + {0: (), 1: (1,), 2: (2,), 3: (3,), 4: (3, 1)}[width % 5]


def _part_steps(first: int, part: int) -> list[Load | Swap]:
    if part in (1, 2):
        return [Load(first + i) for i in range(part)]
    last = first + part - 1
    steps: list[Load | Swap] = [Load(first), Load(last)]
    if part == 3:
        return steps + [Swap(first + 1, first, last, 1)]
    middle = first + 2
    return steps + [Swap(middle, first, last, 2), Swap(first + 1, first, middle, 1), Swap(first + 3, middle, last, 1)]


def _shared_ends(width: int) -> ColumnPlan:
    for count in range(1, width + 1):
        best: tuple[int, ColumnPlan] | None = None
        for inner in itertools.combinations(range(1, width - 1), max(0, count - 2)):
            loads = sorted({0, width - 1, *inner})
            swaps = _closure(loads, width)
            if swaps is not None:
                # of equally many loads take the one whose parts are the longest, so that steps stay few and regular
                score = -max(b - a for a, b in zip(loads, loads[1:])) if len(loads) > 1 else 0
                if best is None or score < best[0]:
                    parts = tuple(b - a + 1 for a, b in zip(loads, loads[1:])) or (1,)
                    best = score, ColumnPlan(width, parts, tuple(map(Load, loads)) + swaps)
        if best is not None:
            return best[1]
    raise AssertionError("loading every column always works")


def _closure(loads: list[int], width: int) -> tuple[Swap, ...] | None:
    """Swaps that reach every column from ``loads``, widest first; None if some column stays out of reach."""
    held = set(loads)
    swaps: list[Swap] = []
    progress = True
    while progress and len(held) < width:
        progress = False
        for step in (16, 8, 4, 2, 1):
            for lo in sorted(held):
                middle, hi = lo + step, lo + 2 * step
                if hi in held and middle not in held:
                    swaps.append(Swap(middle, lo, hi, step))
                    held.add(middle)
                    progress = True
    return tuple(swaps) if len(held) == width else None
