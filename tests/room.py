"""What every room of tests/algorithms tests: its part of the case table on the CPU device, and its emitted texts.

A room's test_room.py has a class of each; what they cover follows from the folder. Quick are a part of the table in
which most values of all axes occur, at few sizes; with every access checked, a sixth of a part of the variants that
has every value. Long are the kernels that have the other values, shares of the rest and the proof of every pair;
``--whole`` takes all of both.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from tests import axes, cases, checks, cover, golden, settings, text
from tests.algorithms import AXES, EVERY, algorithms_of
from tests.cases import Case
from tests.golden import update
from warpconv.codegen.errors import ArgumentError, UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cpu import Mode

SIZES_EACH = 2
MOST_MACS = 100_000_000         # more take emulated tensor cores seconds
QUICK_VALUES = 0.55     # of all values, in the kernels of the table whose execution is quick
CHECKED_SHARE = 6       # of the part that has every value, which is quick
LONG_SHARE = 24         # of the table's other kernels; of the variants twice as many
PAIR_ATTEMPTS, WHOLE_ATTEMPTS = 4, 40      # the second with --whole


def room_of(module: Any) -> str:
    return module.__name__.split(".")[-2]


class Kept:
    """The case table as it is kept: of today's axes and planners, with every pair of values."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        algorithms = algorithms_of(room_of(metafunc.module))
        if "algorithm" in metafunc.fixturenames:
            metafunc.parametrize("algorithm", algorithms)
        if "case" in metafunc.fixturenames:
            listed = checked if metafunc.function.__name__ == "test_checked" else executed
            metafunc.parametrize("case", [param for name in algorithms for param in listed(name)])

    def test_planners_take_the_kept_rows(self, algorithm: str) -> None:
        check_kept(algorithm, cases.every_value(algorithm))

    @pytest.mark.long
    def test_planners_take_all_kept_rows(self, algorithm: str) -> None:
        check_kept(algorithm, cases.table(algorithm))

    def test_the_part_that_is_executed_has_every_value(self, algorithm: str) -> None:
        rows = cover.rows(algorithm)
        part = {case.number for case in cases.every_value(algorithm)}
        whole = {(name, str(value)) for row in rows for name, value in row.items()}
        assert {(name, str(value)) for i in part for name, value in rows[i].items()} == whole
        assert len(part) < len(rows) // 2

    @pytest.mark.long
    def test_the_table_holds_every_pair_of_values(self, algorithm: str) -> None:
        """What is missing are pairs that no planner accepts, however the other values are chosen."""
        rng, table = random.Random(7), AXES[algorithm]
        attempts = WHOLE_ATTEMPTS if settings.whole else PAIR_ATTEMPTS
        for a, b in itertools.combinations(table, 2):
            present = {(row[a], row[b]) for row in cover.rows(algorithm)}
            for pair in itertools.product(table[a], table[b]):
                for _ in range(attempts if pair not in present else 0):
                    row = {**{name: rng.choice(values) for name, values in table.items()}, a: pair[0], b: pair[1]}
                    assert not cases.accepted(algorithm, row), f"{a}, {b} = {pair} is in no case"

    def test_every_type_border_and_layout_that_is_served_is_in_the_table(self, algorithm: str) -> None:
        layers = [dict(case.layer) for case in cases.table(algorithm)]
        kinds = {(layer.get("dtype", "float32"), layer.get("layout", "NCHW")) for layer in layers}
        assert kinds >= served(algorithm, ("dtype", "layout"), (axes.DTYPES + axes.PIXELS, axes.LAYOUTS))
        for name, values in (("padding_mode", axes.BORDERS[1:]), ("out_dtype", axes.OUTPUTS[1:]),
                             ("weight_dtype", axes.WEIGHTS[1:]), ("cast", axes.CASTS[1:])):
            found = served(algorithm, ("dtype", "layout", name), (("float32", "uint8"), axes.LAYOUTS, values))
            assert {layer.get(name) for layer in layers} >= {value for *_, value in found}, name


class Table(Kept):
    """And executed: every output of the emitted kernels against the float64 reference."""

    pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

    @pytest.mark.usefixtures("compiled")
    def test_checked(self, case: Case) -> None:
        """Variants with every access checked, before anything runs unchecked (where a wild write would end the tests):
        nothing out of bounds, uninitialised, racing, divergent or left unwritten."""
        done = checks.check_case(case, checked_sizes(case), lambda plan, _: checks.cpu_kernel(plan, Mode.CHECK),
                                 seed=case.number)
        assert done >= (min(2, len(case.sizes())) if settings.whole else 1)

    @pytest.mark.usefixtures("compiled")
    def test_values(self, case: Case) -> None:
        sizes = value_sizes(case)
        done = checks.check_case(case, sizes, lambda plan, _: checks.cpu_kernel(plan), seed=1000 * case.number)
        assert done == len(sizes)


class Texts:
    """Emitted text: as reviewed, and in the form that all of it has."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        room = room_of(metafunc.module)
        metafunc.parametrize("room", [room], ids=[""])
        if "name" in metafunc.fixturenames:
            metafunc.parametrize("name", golden.names(room))

    def test_no_reviewed_text_without_a_plan(self, room: str) -> None:
        if settings.update_golden:
            update.update(room)
        assert set(golden.names(room)) == set(golden.plans(room)), hint(room)

    def test_as_reviewed(self, room: str, name: str) -> None:
        found = (golden.folder(room) / f"{name}.cu").read_text(encoding="utf-8")
        assert render(golden.plans(room)[name]).text == found, hint(room)

    def test_form_of_the_reviewed(self, room: str) -> None:
        for name, plan in golden.plans(room).items():
            found = (golden.folder(room) / f"{name}.cu").read_text(encoding="utf-8")
            for check in (text.check, text.check_banner, text.check_local_arrays):
                check(name, plan, found)

    def test_form_of_some_variants(self, room: str) -> None:
        for case in (case for name in algorithms_of(room) for case in cases.every_variants_value(name)):
            check_form(case.id, case.plan())

    @pytest.mark.long
    def test_form_of_all_variants(self, room: str) -> None:
        for case in (case for name in algorithms_of(room) for case in cases.variants(name)):
            check_form(case.id, case.plan())


def check_kept(algorithm: str, rows: Iterable[Case]) -> None:
    """The axes are today's, and planners take these rows."""
    stale = cover.stale(algorithm) + [f"refused: {case.id}" for case in rows if not cases.taken(case)]
    assert not stale, f"python -m tests.cover {algorithm} mends it: {stale[:5]}"


def hint(room: str) -> str:
    return f"look at the change, then: python -m tests.golden.update {room}"


def check_form(name: str, plan: KernelPlan) -> None:
    text.check(name, plan, render(plan).text)


def compile_chosen(chosen: Sequence[pytest.Item]) -> None:
    """The kernels of tests of a table, two compilers at a time."""
    for test, sizes, mode in (("test_checked", checked_sizes, Mode.CHECK), ("test_values", value_sizes, Mode.FAST)):
        listed = [item.callspec.params["case"] for item in chosen if item.function.__name__ == test]
        plans = [plan for case in listed for plan, _ in case.plans(sizes(case))]
        checks.compile_ahead(functools.partial(checks.cpu_kernel, mode=mode), plans)


def executed(algorithm: str) -> Iterator[Any]:
    """The kernels of the table that are executed, as parameters of a test."""
    part, quick = cases.every_value(algorithm), cases.every_value(algorithm, QUICK_VALUES)
    return _parameters(quick, (*(case for case in part if case not in quick),
                               *_share_beside(part, cases.table(algorithm), LONG_SHARE)))


def checked(algorithm: str) -> Iterator[Any]:
    """The variants that are executed with every access checked."""
    part = cases.every_variants_value(algorithm)
    rest = [case for number, case in enumerate(part) if number % CHECKED_SHARE]
    return _parameters(part[::CHECKED_SHARE],
                       (*rest, *_share_beside(part, cases.variants(algorithm), LONG_SHARE // 2)))


def _share_beside(part: tuple[Case, ...], whole: tuple[Case, ...], of: int) -> list[Case]:
    return settings.share([case for case in whole if case not in set(part)], of=of)


def _parameters(quick: tuple[Case, ...], long: Iterable[Case]) -> Iterator[Any]:
    yield from (pytest.param(case, id=case.id) for case in quick)
    yield from (pytest.param(case, id=case.id, marks=pytest.mark.long) for case in long)


def value_sizes(case: Case) -> tuple[ConvShape, ...]:
    """The image sizes at which a kernel of the table is executed; with ``--whole`` also those of very many products."""
    sizes = case.sizes()
    if settings.whole:
        return sizes
    return tuple(shape for shape in sizes[:SIZES_EACH] if shape.macs <= MOST_MACS) or (
        min(sizes, key=lambda shape: shape.macs),)


def checked_sizes(case: Case) -> tuple[ConvShape, ...]:
    """The smallest of a variant's sizes; with ``--whole`` the two smallest, and one of several sub-blocks where the
    planner takes it."""
    smallest = sorted(case.sizes(), key=lambda shape: shape.h * shape.w * shape.n)
    return (*smallest[:2], case.shape(2, 40, 71)) if settings.whole else (smallest[0],)


def served(algorithm: str, names: tuple[str, ...], values: tuple[tuple, ...]) -> set[tuple]:
    """Which values of these fields together an algorithm serves in a small layer, depthwise unless its axes.py says
    another; those left out that a layer does not have, or that make no other layer of it."""
    found, rows = set(), EVERY[algorithm]
    for chosen in itertools.product(*values):
        fields = dict(zip(names, chosen))
        if fields.get("padding_mode") == "constant":
            fields["padding_value"] = axes.BORDER_VALUE
        with contextlib.suppress(ArgumentError, UnsupportedSpec):        # the first: there is no layer of these types
            shape = ConvShape(**{"h": 28, "w": 28, "r": 3, "s": 3, "padding": 1, **rows.usual, **fields})
            if all(getattr(getattr(shape, name), "value", None) == value for name, value in zip(names, chosen)):
                plan_layer(shape, algorithm=algorithm, operation=rows.operation)
                found.add(chosen)
    return found
