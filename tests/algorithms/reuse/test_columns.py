"""Column plans: the documents' table of decompositions, and every plan simulated on 32 lanes."""

import numpy as np
import pytest

from warpconv.codegen.algorithms.reuse.columns import Decomposition, Load, decompose, plain

PAPER, FEWEST, SHARED = Decomposition.PAPER, Decomposition.FEWEST_LOADS, Decomposition.SHARED_ENDS

# width: (parts, loads, swaps) of the paper's plan, of the plan with fewest loads, and the loads with shared ends
TABLE = {
    1: ((1,), 1, 0, (1,), 1, 0, 1), 2: ((2,), 2, 0, (2,), 2, 0, 2), 3: ((3,), 2, 1, (3,), 2, 1, 2),
    4: ((3, 1), 3, 1, (3, 1), 3, 1, 3), 5: ((5,), 2, 3, (5,), 2, 3, 2), 6: ((3, 3), 4, 2, (5, 1), 3, 3, 3),
    7: ((5, 2), 4, 3, (5, 2), 4, 3, 3), 8: ((5, 3), 4, 4, (5, 3), 4, 4, 3), 9: ((3, 3, 3), 6, 3, (5, 3, 1), 5, 4, 2),
    10: ((5, 5), 4, 6, (5, 5), 4, 6, 3), 11: ((5, 3, 3), 6, 5, (5, 5, 1), 5, 6, 3),
    12: ((3, 3, 3, 3), 8, 4, (5, 5, 2), 6, 6, 3), 13: ((5, 5, 3), 6, 7, (5, 5, 3), 6, 7, 3),
    14: ((5, 3, 3, 3), 8, 6, (5, 5, 3, 1), 7, 7, 3)}


@pytest.mark.parametrize("width", TABLE)
def test_the_documents_table(width):
    parts, loads, swaps, few_parts, few_loads, few_swaps, shared_loads = TABLE[width]
    paper, few = decompose(width, PAPER), decompose(width, FEWEST)
    assert (paper.parts, len(paper.loads), len(paper.swaps)) == (parts, loads, swaps)
    assert (few.parts, len(few.loads), len(few.swaps)) == (few_parts, few_loads, few_swaps)
    assert len(decompose(width, SHARED).loads) == shared_loads


@pytest.mark.parametrize("rule", Decomposition)
@pytest.mark.parametrize("width", range(1, 32))
def test_every_lane_gets_every_column(width, rule):
    """What __shfl_xor_sync does on 32 lanes, in NumPy; lane l must end up with in[l] .. in[l + width - 1]."""
    lanes, row = np.arange(32), np.arange(1000, 1000 + 32 + width)
    held: dict[int, np.ndarray] = {}
    for step in decompose(width, rule).steps:
        assert step.column not in held, "a column is made twice"
        if isinstance(step, Load):
            held[step.column] = row[lanes + step.column]
        else:
            assert step.step in (1, 2, 4, 8, 16) and step.hi == step.lo + 2 * step.step
            given = np.where(lanes & step.step, held[step.lo], held[step.hi])
            held[step.column] = given[lanes ^ step.step]
    assert sorted(held) == list(range(width))
    for column, values in held.items():
        assert np.array_equal(values, row[lanes + column])


@pytest.mark.parametrize("width", range(1, 32))
def test_loads_never_exceed_the_plain_plan_and_shared_ends_need_three(width):
    assert plain(width).loads == tuple(range(width)) and not plain(width).swaps
    assert len(decompose(width, SHARED).loads) <= min(3, width)
    assert len(decompose(width, FEWEST).loads) <= len(decompose(width, PAPER).loads) <= width
    for rule in Decomposition:
        plan = decompose(width, rule)
        assert len(plan.loads) + len(plan.swaps) == width == plan.width


@pytest.mark.parametrize("width", [2, 3, 5, 9, 17])
def test_a_power_of_two_and_one_needs_two_loads(width):
    assert decompose(width, SHARED).loads == (0, width - 1)


def test_the_plan_prints_its_division():
    assert str(decompose(7, PAPER)) == "7 = [5, 2]"
