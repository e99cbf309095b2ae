"""The case table on the CPU device: every output of the emitted kernels against the float64 reference.

Executed is a part of the table in which every value of every axis occurs, at fewer sizes, and such a part of the
variants with every access checked; with ``--whole`` all of both.
What the table holds is asserted of the whole, which needs plans alone.
"""

from __future__ import annotations

import contextlib
import itertools
import random

import pytest

from tests import axes, cases, checks, settings
from tests.cases import Case
from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cpu import Mode

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


EXECUTED = cases.table() if settings.whole else cases.every_value()
CHECKED = cases.variants() if settings.whole else cases.every_variants_value()
SIZES_EACH = 2


@pytest.fixture(scope="module")
def compiled() -> None:
    """All kernels that are executed, two compilers at a time."""
    plans = [plan for case in EXECUTED for plan, _ in case.plans(sizes(case))]
    checks.compile_ahead(checks.cpu_kernel, plans)
    plans = [plan for case in CHECKED for plan, _ in case.plans(checked_sizes(case))]
    checks.compile_ahead(lambda plan: checks.cpu_kernel(plan, Mode.CHECK), plans)


def sizes(case: Case) -> tuple[ConvShape, ...]:
    """The image sizes at which a kernel of the table is executed."""
    return case.sizes() if settings.whole else case.sizes()[:SIZES_EACH]


def checked_sizes(case: Case) -> tuple[ConvShape, ...]:
    """The smallest of a variant's sizes; with ``--whole`` the two smallest, and one of several sub-blocks where the
    planner takes it."""
    smallest = sorted(case.sizes(), key=lambda shape: shape.h * shape.w * shape.n)
    return (*smallest[:2], case.shape(2, 40, 71)) if settings.whole else (smallest[0],)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("case", CHECKED, ids=lambda case: case.id)
def test_checked(case: Case):
    """Variants with every access checked, before anything runs unchecked (where a wild write would end the tests):
    nothing out of bounds, uninitialised, racing, divergent or left unwritten."""
    done = checks.check_case(case, checked_sizes(case), lambda plan, _: checks.cpu_kernel(plan, Mode.CHECK),
                             seed=case.number)
    assert done >= (min(2, len(case.sizes())) if settings.whole else 1)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("case", EXECUTED, ids=lambda case: case.id)
def test_values(case: Case):
    done = checks.check_case(case, sizes(case), lambda plan, _: checks.cpu_kernel(plan), seed=1000 * case.number)
    assert done == len(sizes(case))


def test_the_part_that_is_executed_has_every_value_of_the_table():
    part = {case.number for case in cases.every_value()}
    numbered = enumerate((algorithm, row) for algorithm in axes.AXES for row in cases.covering_rows(algorithm))
    whole, executed = set(), set()
    for number, (algorithm, row) in numbered:
        values = {(algorithm, name, str(value)) for name, value in row.items()}
        whole |= values
        executed |= values if number in part else set()
    assert executed == whole and len(part) < len(cases.table()) // 2


def test_the_table_holds_every_pair_of_values():
    """What is missing are pairs that no planner accepts, however the other values are chosen."""
    for algorithm, table in axes.AXES.items():
        rng = random.Random(7)      # of each algorithm anew, so that it does not depend on the others
        for a, b in itertools.combinations(table, 2):
            present = {(row[a], row[b]) for row in cases.covering_rows(algorithm)}
            for pair in itertools.product(table[a], table[b]):
                if pair not in present:
                    for _ in range(40):
                        row = {**{name: rng.choice(values) for name, values in table.items()}, a: pair[0], b: pair[1]}
                        assert not cases.accepted(algorithm, row), f"{algorithm}: {a}, {b} = {pair} is in no case"


def test_every_width_and_the_sizes_around_a_warp_are_in_the_table():
    widths = {dict(case.layer)["s"] for case in cases.table() if case.algorithm == "reuse"}
    assert widths >= {*range(1, 14), 31}
    shapes = [shape for case in cases.table() if case.algorithm in ("reuse", "direct") for shape in case.sizes()]
    for axis in ("h", "w"):
        assert {getattr(shape, axis) for shape in shapes} >= {1, 31, 32, 33, 63, 64, 65}
    assert any(shape.h >= 200 > 10 > shape.w for shape in shapes) and any(shape.w >= 200 > 10 > shape.h
                                                                          for shape in shapes)


def test_every_algorithm_is_in_the_table_with_every_type_and_layout_that_it_serves():
    for listed in (cases.table(), cases.variants()):
        assert {case.algorithm for case in listed} == set(ALGORITHMS)
    for algorithm in ALGORITHMS:
        kinds = {(dict(case.layer).get("dtype", "float32"), dict(case.layer).get("layout", "NCHW"))
                 for case in cases.table() if case.algorithm == algorithm}
        assert kinds >= served(algorithm, ("dtype", "layout"), (axes.DTYPES + axes.PIXELS, axes.LAYOUTS)), algorithm


def test_every_algorithm_is_in_the_table_with_every_border_and_mixture_of_types_that_it_serves():
    for algorithm in ALGORITHMS:
        layers = [dict(case.layer) for case in cases.table() if case.algorithm == algorithm]
        for name, values in (("padding_mode", axes.BORDERS[1:]), ("out_dtype", axes.OUTPUTS[1:]),
                             ("weight_dtype", axes.WEIGHTS[1:]), ("cast", axes.CASTS[1:])):
            found = served(algorithm, ("dtype", "layout", name), (("float32", "uint8"), axes.LAYOUTS, values))
            assert {layer.get(name) for layer in layers} >= {value for *_, value in found}, (algorithm, name)


def served(algorithm: str, names: tuple[str, ...], values: tuple[tuple, ...]) -> set[tuple]:
    """Which values of these fields together an algorithm serves in a small depthwise layer; those left out that a layer
    does not have, or that make no other layer of it."""
    found = set()
    for chosen in itertools.product(*values):
        fields = dict(zip(names, chosen))
        if fields.get("padding_mode") == "constant":
            fields["padding_value"] = axes.BORDER_VALUE
        with contextlib.suppress(ArgumentError):        # there is no layer of these types
            shape = ConvShape(c=8, h=28, w=28, k=8, r=3, s=3, padding=1, groups=8, **fields)
            kept = all(getattr(getattr(shape, name), "value", None) == value for name, value in zip(names, chosen))
            if kept and any(answer.supported for answer in explain(shape) if answer.algorithm == algorithm):
                found.add(chosen)
    return found


@pytest.mark.parametrize("layer", [dict(c=1, h=70, w=70, k=1, r=5, s=5, padding="same"),
                                   dict(c=3, h=40, w=50, k=8, r=3, s=3, stride=2, padding=1),
                                   dict(c=2, h=33, w=65, k=4, r=3, s=3, padding=1),
                                   dict(c=1, h=40, w=100, k=1, r=2, s=35), dict(c=1, h=70, w=90, k=1, r=15, s=15),
                                   dict(c=2, h=50, w=70, k=2, r=31, s=31, padding=15)],
                         ids=["plane", "stride", "channels", "wider than a warp", "15x15", "31x31"])
def test_the_chosen_algorithm_with_its_defaults(layer):
    shape = ConvShape(**layer)
    kernel = checks.check_layer("cpu", shape)
    assert kernel.spec == plan_layer(shape).spec
