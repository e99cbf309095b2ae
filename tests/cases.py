"""The case table: kernels chosen so that every pair of values of any two axes occurs in at least one (covering arrays).

A product of the axes would be millions of kernels; most faults need two values to meet, so pairs are what is covered.
Each kernel then runs on several image sizes, which cost no compiling, and these too meet in pairs. Pairs that no
planner accepts are left out. The arrays are kept in the algorithms' rooms (tests/algorithms), and tests/cover.py finds
them; to list a table plans nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from warpconv.codegen.errors import ArgumentError, ShapeError, UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics, Operation

from . import cover
from .algorithms import EVERY, ROWS
from .axes import SIZES
from .pitches import with_gaps

SIZES_EACH = 3
TYPES = ("dtype", "layout", "weight_dtype", "out_dtype", "padding_mode", "pitch")     # of a case's name
# Images that a plan is tried for where none is named; the later ones are for plans that ask something of H and W
USUAL = ((1, 99, 99), (1, 96, 96), (1, 56, 56), (1, 28, 28), (1, 14, 14), (1, 7, 7), (1, 16, 16), (1, 8, 8))


@dataclass(frozen=True)
class Case:
    """One kernel of the table: the layer without its sizes, the algorithm, the plan values, the arithmetic."""

    algorithm: str
    layer: tuple[tuple[str, Any], ...]
    values: tuple[tuple[str, Any], ...]
    epilogue: tuple[Epilogue, ...]
    number: int = 0
    numerics: Numerics = Numerics.FLOAT32
    operation: Operation = Operation.FORWARD

    def shape(self, n: int, h: int, w: int) -> ConvShape:
        """The layer for an image size, or for the one that the algorithm's axes make of it; ShapeError where the output
        would be empty."""
        layer = dict(self.layer)
        if self.algorithm in EVERY:
            n, h, w = EVERY[self.algorithm].image(layer, (n, h, w))
        pitch = layer.pop("pitch", None)
        return with_gaps(ConvShape(n=n, h=h, w=w, **layer), pitch)

    def plan(self, arch: str = "sm_90", shape: ConvShape | None = None) -> KernelPlan:
        """The plan for an image size, or for the first of USUAL that there is one for. UnsupportedSpec where the values
        do not go together, or not with this size."""
        if shape is not None:
            return _plan(self, arch, shape)
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
        taps = "x".join(str(layer[name]) for name in "trs" if layer.get(name) is not None)
        words = [f"{self.number:03}", self.algorithm, taps, f"c{layer['c']}k{layer['k']}"]
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


@functools.lru_cache(maxsize=256)       # a case's sizes are planned to be found, then to be executed
def _plan(case: Case, arch: str, shape: ConvShape) -> KernelPlan:
    return plan_layer(shape, algorithm=case.algorithm, arch=arch, epilogue=case.epilogue, settings=dict(case.values),
                      numerics=case.numerics, operation=case.operation)


def serves(plan: KernelPlan, shape: ConvShape) -> bool:
    """Whether a plan that was made for one image of a layer serves another."""
    needed = plan.spec.of(shape, algorithm=plan.spec.algorithm, arch=plan.spec.arch, epilogue=plan.spec.epilogue,
                          numerics=plan.spec.numerics, operation=plan.spec.operation)
    return plan.spec in (needed, replace(needed, index_bits=64)) and plan.program.refusal(shape) is None


@functools.cache
def table(algorithm: str = "") -> tuple[Case, ...]:
    """The kernels of an algorithm's covering array, numbered; those of all that make forward layers, where none is
    named."""
    if not algorithm:
        return tuple(case for name in ROWS for case in table(name))
    return tuple(replace(_case(algorithm, row), number=i) for i, row in enumerate(cover.rows(algorithm)))


@functools.cache
def every_value(algorithm: str = "", share: float = 1.0) -> tuple[Case, ...]:
    """A part of table(): for each algorithm, greedily few of its kernels that together have every value of every axis
    that table() has, or such a ``share`` of these values. Pairs of values are left to table() itself."""
    if not algorithm:
        return tuple(case for name in ROWS for case in every_value(name, share))
    return tuple(table(algorithm)[i] for i in _part(cover.rows(algorithm), share))


@functools.cache
def variants(algorithm: str = "") -> tuple[Case, ...]:
    """Every variant of an algorithm (of all of forward layers) once, as its axes.py lists them."""
    if not algorithm:
        return tuple(case for name in ROWS for case in variants(name))
    return tuple(replace(_case(algorithm, row), number=i) for i, row in enumerate(EVERY[algorithm].variants()))


@functools.cache
def every_variants_value(algorithm: str = "") -> tuple[Case, ...]:
    """The variants, greedily few, in which every value occurs that all of them have, of each algorithm by itself."""
    if not algorithm:
        return tuple(case for name in ROWS for case in every_variants_value(name))
    return tuple(variants(algorithm)[i] for i in _part(list(EVERY[algorithm].variants())))


def _part(rows: Sequence[Mapping[str, Any]], share: float = 1.0) -> list[int]:
    """Numbers of rows, greedily few, that hold every value of all, or a share of them."""
    values = [{(name, repr(value)) for name, value in row.items()} for row in rows]
    missing: set[tuple[str, str]] = set().union(*values)
    most = (1 - share) * len(missing)
    chosen: list[int] = []
    while len(missing) > most:
        best = max(range(len(rows)), key=lambda i: len(values[i] & missing))    # the first of equals
        chosen.append(best)
        missing -= values[best]
    return sorted(chosen)


@functools.cache
def size_table(algorithm: str = "") -> tuple[tuple[int, int, int], ...]:
    """(N, H, W): every pair of values, of an algorithm's own sizes where it has some."""
    made = cover.search(EVERY[algorithm].sizes if algorithm in EVERY else SIZES, lambda row: True, seed=3)
    return tuple((row["n"], row["h"], row["w"]) for row in made)


def accepted(algorithm: str, row: Mapping[str, Any]) -> bool:
    """Whether the planner takes these values together."""
    return taken(_case(algorithm, row))


def taken(case: Case) -> bool:
    """Whether there is a plan for a case."""
    try:
        case.plan()
    except (UnsupportedSpec, ShapeError):
        return False
    except ArgumentError as error:
        if error.argument not in ("weight_dtype", "out_dtype"):     # there is no layer of these types
            raise
        return False
    return True


def _case(algorithm: str, row: Mapping[str, Any]) -> Case:
    rows = EVERY[algorithm]
    return Case(algorithm, tuple(rows.layer(row).items()), tuple(rows.values(row).items()),
                tuple(row.get("epilogue", ())), numerics=Numerics.parse(row.get("numerics", Numerics.FLOAT32)),
                operation=Operation(rows.operation))
