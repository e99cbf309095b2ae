"""``python -m tests.cover [NAME...]`` mends the kept covering arrays of these algorithms (of all): rows that planners
no longer take, or of values that are gone, are replaced by others that hold the pairs that only they had; pairs of new
values are added. ``--pairs`` looks for pairs besides that planners took not before, ``--anew`` searches whole arrays;
minutes for the largest rooms.

An array is kept in its room's covering.json: the values of each axis as texts, and rows of places among them. So
nothing but the axes is read when tests are collected; whether planners still take the rows is a test of each room.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .algorithms import AXES, folder_of

Axes = Mapping[str, tuple]
Row = Mapping[str, Any]
Accepted = Callable[[Row], bool]
Pair = tuple[int, int, int, int]                # axis, place, axis, place

ATTEMPTS = 24                    # random completions of an uncovered pair, of which the best is kept
LAST_ATTEMPTS = 140              # and of a pair that was left open by those, of which the first accepted one is kept


@functools.cache
def rows(algorithm: str) -> tuple[Row, ...]:
    """The kept covering array of an algorithm; rows of values that its axes no longer have are left out."""
    axes = AXES[algorithm]
    index = _index(axes)
    places = (_places(index, kept) for kept in _kept(algorithm))
    return tuple(_row(axes, picks) for picks in places if picks is not None)


def stale(algorithm: str) -> list[str]:
    """What of the kept array is not of today's axes, in words."""
    axes, found = AXES[algorithm], []
    for name, values in _read(algorithm)["axes"].items():
        found += [f"{name} = {text} is gone" for text in values
                  if name not in axes or text not in map(repr, axes[name])]
    had = {(name, text) for row in _kept(algorithm) for name, text in row.items()}
    known = _read(algorithm)["axes"]
    found += [f"{name} = {value!r} is new" for name, values in axes.items() for value in values
              if repr(value) not in known.get(name, ()) and (name, repr(value)) not in had]
    return found


def mend(algorithm: str, accepted: Accepted, every: bool = False) -> tuple[list[Row], int]:
    """The kept array with what it lacks, and how many of its rows stay; ``every``: of all pairs, not of new values'."""
    axes, known = AXES[algorithm], _read(algorithm)["axes"]
    index = _index(axes)
    good: list[list[int]] = []
    lost: set[Pair] = set()
    for kept in _kept(algorithm):
        picks = _places(index, kept)
        if picks is not None and accepted(_row(axes, picks)):
            good.append(picks)
        else:
            half = [index[name].get(kept.get(name)) for name in axes]
            lost.update(pair for pair in _pairs_of(half) if None not in pair)
    new = {(a, i) for a, name in enumerate(axes) for i, value in enumerate(axes[name])
           if repr(value) not in known.get(name, ())}
    wanted = lost | {pair for pair in _all_pairs(axes) if every or new & {pair[:2], pair[2:]}}
    found = complete(axes, accepted, seed=len(axes), taken=good, wanted=wanted)
    return found, len(good)


def search(axes: Axes, accepted: Accepted, seed: int) -> list[Row]:
    """Rows that hold every acceptable pair of values, greedily few."""
    return complete(axes, accepted, seed, taken=[], wanted=_all_pairs(axes))


def complete(axes: Axes, accepted: Accepted, seed: int, taken: Sequence[list[int]],
             wanted: Iterable[Pair]) -> list[Row]:
    """``taken`` and, greedily few, rows for those of the ``wanted`` pairs of values that it lacks.

    A pair that few completions accept (a plan value that asks much of the rest) is tried again at the end, each axis
    then being changed in rows that were accepted before: those are far likelier to be accepted than rows drawn anew.
    """
    rng = random.Random(seed)
    names, taken = list(axes), list(taken)
    open_pairs = set(wanted).difference(*map(_pairs_of, taken))
    queue = sorted(open_pairs)
    rng.shuffle(queue)
    for pair in queue:
        if pair not in open_pairs:
            continue
        best: list[int] | None = None
        best_gain = 0
        for _ in range(ATTEMPTS):
            picks = [rng.randrange(len(axes[name])) for name in names]
            picks[pair[0]], picks[pair[2]] = pair[1], pair[3]
            gain = sum(key in open_pairs for key in _pairs_of(picks))
            if gain > best_gain and accepted(_row(axes, picks)):
                best, best_gain = picks, gain
        if best is None:
            continue
        open_pairs.difference_update(_pairs_of(best))
        taken.append(best)
    for pair in sorted(open_pairs):
        if pair not in open_pairs:
            continue
        half = [row for row in taken if row[pair[0]] == pair[1] or row[pair[2]] == pair[3]]     # one of both values
        near = rng.sample(half, min(len(half), LAST_ATTEMPTS // 2))
        drawn = [[rng.randrange(len(axes[name])) for name in names] for _ in range(LAST_ATTEMPTS - len(near))]
        for picks in ([*row] for row in (*near, *drawn)):
            picks[pair[0]], picks[pair[2]] = pair[1], pair[3]
            if accepted(_row(axes, picks)):
                open_pairs.difference_update(_pairs_of(picks))
                taken.append(picks)
                break
    return [_row(axes, picks) for picks in taken]


def write(algorithm: str, found: Iterable[Row]) -> None:
    """Keep an array in its room's file."""
    path = _path(algorithm)
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    axes = AXES[algorithm]
    index = _index(axes)
    picks = [[index[name][repr(row[name])] for name in axes] for row in found]
    document[algorithm] = {"axes": {name: [repr(value) for value in axes[name]] for name in axes}, "rows": picks}
    path.write_text("{" + ",\n".join(_text(name, document[name]) for name in sorted(document)) + "}\n",
                    encoding="utf-8")


def _text(algorithm: str, kept: Mapping[str, Any]) -> str:
    axes = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in kept["axes"].items())
    lines = ",\n".join("  " + json.dumps(picks, separators=(",", ":")) for picks in kept["rows"])
    return f'{json.dumps(algorithm)}: {{"axes": {{\n{axes}}},\n "rows": [\n{lines}]}}'


def _path(algorithm: str) -> Path:
    return folder_of(algorithm) / "covering.json"


@functools.cache
def _read(algorithm: str) -> Mapping[str, Any]:
    """What is kept of an algorithm; empty where nothing is, as of one whose room is new."""
    path = _path(algorithm)
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return document.get(algorithm, {"axes": {}, "rows": []})


def _kept(algorithm: str) -> list[dict[str, str]]:
    """The kept rows, each value as text."""
    kept = _read(algorithm)
    return [{name: values[pick] for (name, values), pick in zip(kept["axes"].items(), picks)} for picks in kept["rows"]]


def _index(axes: Axes) -> dict[str, dict[str | None, int]]:
    """The place of each value, by its text."""
    return {name: {repr(value): i for i, value in enumerate(values)} for name, values in axes.items()}


def _places(index: Mapping[str, Mapping[str | None, int]], kept: Mapping[str, str]) -> list[int] | None:
    """A kept row as places in today's axes; a new axis has its first value. None where a value is gone."""
    picks = [places.get(kept[name]) if name in kept else 0 for name, places in index.items()]
    return None if None in picks else picks


def _row(axes: Axes, picks: Sequence[int]) -> dict[str, Any]:
    return {name: axes[name][i] for name, i in zip(axes, picks)}


def _all_pairs(axes: Axes) -> set[Pair]:
    counts = [len(values) for values in axes.values()]
    return {(a, i, b, j) for a, b in itertools.combinations(range(len(counts)), 2)
            for i in range(counts[a]) for j in range(counts[b])}


def _pairs_of(picks: Sequence[Any]) -> list[Pair]:
    return [(a, picks[a], b, picks[b]) for a, b in itertools.combinations(range(len(picks)), 2)]


def main(arguments: Sequence[str]) -> None:
    from . import cases
    names = [name for name in arguments if not name.startswith("--")] or list(AXES)
    for name in names:
        accepted = functools.partial(cases.accepted, name)
        if "--anew" in arguments:
            found, stay = search(AXES[name], accepted, seed=len(AXES[name])), 0
        else:
            found, stay = mend(name, accepted, "--pairs" in arguments)
        before = len(_kept(name))
        if stay < max(before, len(found)) or stale(name):
            write(name, found)
        print(f"{name}: {len(found)} rows, {stay} of {before} stay")


if __name__ == "__main__":
    main(sys.argv[1:])
