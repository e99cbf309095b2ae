"""Lines of x lie where loads of windows take the fewest rounds of shared memory's banks, counted lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.lines import Lines
from warpconv.codegen.parts.window_banks import MOST_BESIDE, WIDE, Runs, rounds_of, spread

WORD = 2    # elements


def drawn(seed: int) -> Runs:
    rng = np.random.default_rng(seed)
    pairs, planes, rows, columns, down, across, step = (int(rng.integers(1, most)) for most in (20, 6, 9, 9, 5, 40, 30))
    return Runs(pairs=pairs, shape=(planes, rows, columns), down=down, across=across, step=step)


def counted(runs: Runs, line: int, plane: int) -> int:
    """Every lane's word of every load: whole fours of a run's pairs, then what is left of all runs, four by four."""
    of_run = np.add.outer(np.add.outer(plane * np.arange(runs.shape[0]), line * runs.down * np.arange(runs.shape[1])),
                          runs.across * np.arange(runs.shape[2])).ravel()
    whole = runs.pairs // 4 * 4
    fours = [(np.full(4, at), np.arange(4) + first) for at in of_run for first in range(0, whole, 4)]
    at, pair = np.repeat(of_run, runs.pairs - whole), np.tile(np.arange(whole, runs.pairs), of_run.size)
    at, pair = (np.append(values, np.zeros(-values.size % 4, int)) for values in (at, pair))
    fours += list(zip(at.reshape(-1, 4), pair.reshape(-1, 4), strict=True))
    rounds = 0
    for at, pair in fours:
        words = np.unique(np.add.outer(at, runs.step * np.arange(8)) // WORD + pair[:, None])
        rounds += np.bincount(words % LANES).max()
    return rounds


@pytest.mark.parametrize("seed", range(40))
def test_rounds_are_those_of_every_lane(seed: int) -> None:
    runs, rng = drawn(seed), np.random.default_rng(seed + 1000)
    line = WORD * int(rng.integers(2000, 4000))
    plane = line * int(rng.integers(400, 500)) + WIDE * int(rng.integers(8))    # none has another's words
    assert rounds_of(runs, line, plane) == counted(runs, line, plane)


@pytest.mark.parametrize("seed", range(40))
def test_no_other_distance_takes_fewer_rounds(seed: int) -> None:
    runs, rng = drawn(seed), np.random.default_rng(seed + 2000)
    rows, length, planes = runs.shape[1] * runs.down, WIDE * int(rng.integers(100, 200)), runs.shape[0]
    lines = Lines(lead=0, rows=rows, line=length, plane=rows * length, pieces=length // WIDE,
                  elements=planes * rows * length, piece_lanes=LANES, piece_rounds=1)
    made = spread(lines, runs)
    assert made.elements == planes * made.plane
    beside = range(0, MOST_BESIDE * WIDE, WIDE)
    assert rounds_of(runs, made.line, made.plane) == min(
        rounds_of(runs, length + more, rows * (length + more) + behind)
        for more in beside for behind in (beside if planes > 1 else (0,)))
