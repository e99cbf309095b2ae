"""The case table on the CPU device: every output of the emitted kernels against the float64 reference."""

from __future__ import annotations

import itertools
import random

import pytest

from tests import cases, checks
from tests.cases import Case
from warpconv.codegen.select import plan_layer
from warpconv.runtime.cpu import Mode

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """All kernels of the table, two compilers at a time."""
    checks.compile_ahead(lambda case: checks.cpu_kernel(case.plan()), cases.table())
    checks.compile_ahead(lambda case: checks.cpu_kernel(case.plan(), Mode.CHECK), cases.variants())


@pytest.mark.parametrize("case", cases.variants(), ids=lambda case: case.id)
def test_checked(case: Case):
    """Each variant, every access checked, before anything runs unchecked (where a wild write would end the tests):
    nothing out of bounds, uninitialised, racing, divergent or left unwritten."""
    sizes = sorted(case.sizes(), key=lambda shape: shape.h * shape.w * shape.n)[:2] + [case.shape(2, 40, 71)]
    for number, shape in enumerate(sizes):
        checks.check_checked(case.plan(), shape, seed=case.number + number)


@pytest.mark.parametrize("case", cases.table(), ids=lambda case: case.id)
def test_values(case: Case):
    kernel = checks.cpu_kernel(case.plan())
    for number, shape in enumerate(case.sizes()):
        checks.check_kernel(kernel, shape, seed=1000 * case.number + number)


def test_the_table_holds_every_pair_of_values():
    """What is missing are pairs that no planner accepts, however the other values are chosen."""
    rng = random.Random(7)
    for algorithm, axes in cases.AXES.items():
        for a, b in itertools.combinations(axes, 2):
            present = {(row[a], row[b]) for row in cases.covering_rows(algorithm)}
            for pair in itertools.product(axes[a], axes[b]):
                if pair not in present:
                    for _ in range(40):
                        row = {**{name: rng.choice(values) for name, values in axes.items()}, a: pair[0], b: pair[1]}
                        assert not cases.accepted(algorithm, row), f"{algorithm}: {a}, {b} = {pair} is in no case"


def test_every_width_and_the_sizes_around_a_warp_are_in_the_table():
    widths = {dict(case.layer)["s"] for case in cases.table() if case.algorithm == "reuse"}
    assert widths >= {*range(1, 14), 31}
    shapes = [shape for case in cases.table() for shape in case.sizes()]
    for axis in ("h", "w"):
        assert {getattr(shape, axis) for shape in shapes} >= {1, 31, 32, 33, 63, 64, 65}
    assert any(shape.h >= 200 > 10 > shape.w for shape in shapes) and any(shape.w >= 200 > 10 > shape.h
                                                                          for shape in shapes)


@pytest.mark.parametrize("layer", [dict(c=1, h=70, w=70, k=1, r=5, s=5, padding="same"),
                                   dict(c=3, h=40, w=50, k=8, r=3, s=3, stride=2, padding=1),
                                   dict(c=2, h=33, w=65, k=4, r=3, s=3, padding=1),
                                   dict(c=1, h=40, w=100, k=1, r=2, s=35), dict(c=1, h=70, w=90, k=1, r=15, s=15),
                                   dict(c=2, h=50, w=70, k=2, r=31, s=31, padding=15)],
                         ids=["plane", "stride", "channels", "wider than a warp", "15x15", "31x31"])
def test_the_chosen_algorithm_with_its_defaults(layer):
    shape = cases.ConvShape(**layer)
    kernel = checks.check_layer("cpu", shape)
    assert kernel.spec == plan_layer(shape).spec
