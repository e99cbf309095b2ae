"""What a case is made of: numbers chosen from sequences, drawn by a seed, played again, made smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Choices:
    """``choose(sequence)``: the next recorded choice, or a drawn one where there is none (the first, once played)."""

    def __init__(self, seed: tuple[int, ...] | None, recorded: Sequence[int] = ()) -> None:
        self._rng = None if seed is None else np.random.default_rng(seed)
        self._recorded = list(recorded)
        self.made: list[int] = []

    def __call__(self, sequence: Sequence[Any]) -> Any:
        place, size = len(self.made), len(sequence)
        if place < len(self._recorded):
            index = min(self._recorded[place], size - 1)
        else:
            index = 0 if self._rng is None else int(self._rng.integers(size))
        self.made.append(index)
        return sequence[index]


def smaller(made: Sequence[int], fails: Callable[[list[int]], bool], tries: int) -> list[int]:
    """Choices that fail, as many of them as can be the first of their sequence, or else nearer to it."""
    best = list(made)
    for place in range(len(best)):
        for index in (0, best[place] // 2, best[place] - 1):
            if tries and 0 <= index < best[place]:
                tries -= 1
                tried = [*best[:place], index, *best[place + 1:]]
                if fails(tried):
                    best = tried
                    break
    return best
