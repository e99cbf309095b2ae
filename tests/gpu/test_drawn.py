"""Thousands of drawn layers: kernels drawn once, each run on twenty drawn image sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests import checks, drawn, settings
from tests.gpu import support

pytestmark = pytest.mark.gpu

SIZES_EACH = 20
PARTS = 10


def kernels(part: int) -> tuple[list, np.random.Generator]:
    """A part's kernels and the generator that goes on to draw their sizes."""
    rng = settings.generator(part)
    choose = drawn.numpy_choose(rng)
    wanted = max(1, -(-settings.drawn_on_gpu() // (SIZES_EACH * PARTS)))
    found: list = []
    while len(found) < wanted:
        case = drawn.draw_case(choose)
        if drawn.accepted(case):
            found.append(case)
    return found, rng


@pytest.mark.parametrize("part", range(PARTS))
def test_values(part, record_property):
    cases, rng = kernels(part)
    support.build_ahead(cases)
    done = 0
    for case in cases:
        kernel = support.kernel_of(case.plan(support.arch()))
        for _ in range(SIZES_EACH):
            shape = drawn.draw_shape(drawn.numpy_choose(rng), case)
            if shape is not None:
                checks.check_kernel(kernel, shape, seed=done)
                done += 1
    record_property("drawn", done)
    print(f"seed {settings.seed}, part {part}: {len(cases)} kernels, {done} layers")
    assert done >= 0.9 * min(SIZES_EACH * len(cases), settings.drawn_on_gpu())
