"""The case table: kernels chosen so that every pair of values of any two axes occurs in at least one (covering arrays).

A product of the axes would be millions of kernels; most faults need two values to meet, so pairs are what is covered.
Each kernel then runs on several image sizes, which cost no compiling, and these too meet in pairs. The choice is made
by a greedy search with a fixed seed, so the table is the same in every run. Pairs that no planner accepts are left out.
The axes of each algorithm stand in tests/axes.
"""

from __future__ import annotations

import functools
import itertools
import random
from dataclasses import dataclass, replace
from typing import Any, Mapping

from warpconv.codegen.errors import ArgumentError, ShapeError, UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics

from . import cover
from .axes import AXES, ROWS, SIZES, layer_of
from .pitches import with_gaps

ATTEMPTS = 24                    # random completions of an uncovered pair, of which the best is kept
LAST_ATTEMPTS = 140              # and of a pair that was left open by those, of which the first accepted one is kept
SIZES_EACH = 3
TYPES = ("dtype", "layout", "weight_dtype", "out_dtype", "padding_mode", "pitch")     # of a case's name
# Images that a plan is tried for where none is named; the later ones are for plans that ask something of H and W
USUAL = ((1, 99, 99), (1, 96, 96), (1, 56, 56), (1, 28, 28), (1, 14, 14), (1, 7, 7))


@dataclass(frozen=True)
class Case:
    """One kernel of the table: the layer without its sizes, the algorithm, the plan values, the arithmetic."""

    algorithm: str
    layer: tuple[tuple[str, Any], ...]
    values: tuple[tuple[str, Any], ...]
    epilogue: tuple[Epilogue, ...]
    number: int = 0
    numerics: Numerics = Numerics.FLOAT32

    def shape(self, n: int, h: int, w: int) -> ConvShape:
        """The layer for an image size; ShapeError where the output would be empty."""
        layer = dict(self.layer)
        pitch = layer.pop("pitch", None)
        return with_gaps(ConvShape(n=n, h=h, w=w, **layer), pitch)

    def plan(self, arch: str = "sm_90", shape: ConvShape | None = None) -> KernelPlan:
        """The plan for an image size, or for the first of USUAL that there is one for. UnsupportedSpec where the values
        do not go together, or not with this size."""
        if shape is not None:
            return plan_layer(shape, algorithm=self.algorithm, arch=arch, epilogue=self.epilogue,
                              settings=dict(self.values), numerics=self.numerics)
        refusal: Exception | None = None
        for size in USUAL:
            try:
                return self.plan(arch, self.shape(*size))
            except (UnsupportedSpec, ShapeError) as error:
                refusal = refusal or error
        raise refusal

    def plans(self, shapes: tuple[ConvShape, ...], arch: str = "sm_90") -> list[tuple[KernelPlan, list[ConvShape]]]:
        """The sizes that the planner takes, those that share a plan together; no plan is made where one made before
        serves the size. Sizes that are refused are missing: the caller counts what is left."""
        found: list[tuple[KernelPlan, list[ConvShape]]] = []
        for shape in shapes:
            served = next((group for group in found if serves(group[0], shape)), None)
            if served is not None:
                served[1].append(shape)
                continue
            try:
                found.append((self.plan(arch, shape), [shape]))
            except UnsupportedSpec:
                continue
        return found

    @property
    def id(self) -> str:
        layer, values = dict(self.layer), dict(self.values)
        words = [f"{self.number:03}", self.algorithm, f"{layer['r']}x{layer['s']}", f"c{layer['c']}k{layer['k']}"]
        words += [str(layer[name]) for name in TYPES if layer.get(name) is not None]
        return "-".join(words + [str(values[v]) for v in ("exchange", "rows", "weights", "edges") if v in values])

    def sizes(self) -> tuple[ConvShape, ...]:
        """Image sizes for this kernel: its share of the table of sizes, those that give an output and that the planner
        takes. AssertionError where it takes none at all."""
        table = size_table(self.algorithm)
        found: list[ConvShape] = []
        for i in range(len(table)):
            try:
                shape = self.shape(*table[(self.number * SIZES_EACH + i) % len(table)])
                self.plan(shape=shape)
            except (ShapeError, UnsupportedSpec):
                continue
            found.append(shape)
            if len(found) == SIZES_EACH:
                break
        assert found, f"{self.id}: no size of the table is served"
        return tuple(found)


def serves(plan: KernelPlan, shape: ConvShape) -> bool:
    """Whether a plan that was made for one image of a layer serves another."""
    needed = plan.spec.of(shape, algorithm=plan.spec.algorithm, arch=plan.spec.arch, epilogue=plan.spec.epilogue,
                          numerics=plan.spec.numerics)
    return plan.spec in (needed, replace(needed, index_bits=64)) and plan.program.refusal(shape) is None


@functools.lru_cache(maxsize=1)
def table() -> tuple[Case, ...]:
    """All kernels: the covering arrays of all algorithms, numbered."""
    return tuple(replace(_case(algorithm, row), number=i) for i, (algorithm, row) in enumerate(
        (algorithm, row) for algorithm in AXES for row in covering_rows(algorithm)))


@functools.lru_cache(maxsize=1)
def every_value() -> tuple[Case, ...]:
    """A part of table(): for each algorithm, greedily few of its kernels that together have every value of every axis
    that table() has. Pairs of values are left to table() itself."""
    rows = [(algorithm, row) for algorithm in AXES for row in covering_rows(algorithm)]
    return tuple(table()[i] for i in _part(rows))


@functools.lru_cache(maxsize=1)
def variants() -> tuple[Case, ...]:
    """Every variant of every algorithm once, as tests/axes lists them."""
    return tuple(replace(_case(algorithm, row), number=i) for i, (algorithm, row) in enumerate(_variant_rows()))


@functools.lru_cache(maxsize=1)
def every_variants_value() -> tuple[Case, ...]:
    """The variants, greedily few, in which every value occurs that all of them have, of each algorithm by itself."""
    return tuple(variants()[i] for i in _part(_variant_rows()))


def _variant_rows() -> list[tuple[str, Mapping[str, Any]]]:
    return [(algorithm, row) for algorithm, rows in ROWS.items() for row in rows.variants()]


def _part(rows: list[tuple[str, Mapping[str, Any]]]) -> list[int]:
    """Numbers of rows, greedily few, that hold every value of each algorithm's rows."""
    values = [{(algorithm, name, repr(value)) for name, value in row.items()} for algorithm, row in rows]
    missing: set[tuple[str, str, str]] = set().union(*values)
    chosen: list[int] = []
    while missing:
        best = max(range(len(rows)), key=lambda i: len(values[i] & missing))    # the first of equals
        chosen.append(best)
        missing -= values[best]
    return sorted(chosen)


@functools.lru_cache(maxsize=None)
def size_table(algorithm: str = "") -> tuple[tuple[int, int, int], ...]:
    """(N, H, W): every pair of values, of an algorithm's own sizes where it has some."""
    made = _cover(ROWS[algorithm].sizes if algorithm in ROWS else SIZES, lambda row: True, seed=3)
    return tuple((row["n"], row["h"], row["w"]) for row in made)


@functools.lru_cache(maxsize=None)
def covering_rows(algorithm: str) -> tuple[Mapping[str, Any], ...]:
    """The covering array of one algorithm, as values of its AXES: the kept one, while axes and planners are its."""
    return cover.rows(algorithm) or search(algorithm)


def search(algorithm: str) -> tuple[Mapping[str, Any], ...]:
    """The covering array of one algorithm, searched."""
    return tuple(_cover(AXES[algorithm], lambda row: accepted(algorithm, row), seed=len(AXES[algorithm])))


def accepted(algorithm: str, row: Mapping[str, Any]) -> bool:
    """Whether the planner takes these values together."""
    try:
        _case(algorithm, row).plan()
    except (UnsupportedSpec, ShapeError):
        return False
    except ArgumentError as error:
        if error.argument not in ("weight_dtype", "out_dtype"):     # there is no layer of these types
            raise
        return False
    return True


def _case(algorithm: str, row: Mapping[str, Any]) -> Case:
    return Case(algorithm, tuple(layer_of(row).items()), tuple(ROWS[algorithm].values(row).items()),
                tuple(row["epilogue"]), numerics=Numerics.parse(row.get("numerics", Numerics.FLOAT32)))


def _cover(axes: Mapping[str, tuple], accepted: Any, seed: int) -> list[dict[str, Any]]:
    """Rows that hold every acceptable pair of values, greedily few.

    A pair that few completions accept (a plan value that asks much of the rest) is tried again at the end, each axis
    then being changed in rows that were accepted before: those are far likelier to be accepted than rows drawn anew.
    """
    rng = random.Random(seed)
    names = list(axes)
    open_pairs = {(a, i, b, j) for a, b in itertools.combinations(range(len(names)), 2)
                  for i in range(len(axes[names[a]])) for j in range(len(axes[names[b]]))}
    taken: list[list[int]] = []
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
            gain = sum(key in open_pairs for key in _pairs(picks))
            if gain > best_gain and accepted(_row(axes, picks)):
                best, best_gain = picks, gain
        if best is None:
            continue
        open_pairs.difference_update(_pairs(best))
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
                open_pairs.difference_update(_pairs(picks))
                taken.append(picks)
                break
    return [_row(axes, picks) for picks in taken]


def _row(axes: Mapping[str, tuple], picks: list[int]) -> dict[str, Any]:
    return {name: axes[name][i] for name, i in zip(axes, picks)}


def _pairs(picks: list[int]) -> list[tuple[int, int, int, int]]:
    return [(a, picks[a], b, picks[b]) for a, b in itertools.combinations(range(len(picks)), 2)]
