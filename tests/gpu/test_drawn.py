"""Thousands of drawn layers: kernels drawn once, each run on twenty drawn image sizes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import checks, drawn, settings
from tests.cases import Case
from tests.gpu import support
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.shape import ConvShape

pytestmark = pytest.mark.gpu

SIZES_EACH = 20
PARTS = 10
IMAGE_PARTS = 4         # as large: borders, pixels and other types, longer epilogues


def draw(part: int) -> list[tuple[Case, tuple[ConvShape, ...]]]:
    """A part's kernels, each with image sizes that its planner takes; the last parts are of images."""
    choose = drawn.numpy_choose(settings.generator(part))
    wanted = max(1, -(-settings.drawn_on_gpu() // (SIZES_EACH * PARTS)))
    found: list = []
    while len(found) < wanted:
        one = drawn.draw_layer_and_case(choose, images=part >= PARTS)
        if one is not None and support.runs(*one):
            case, shape = one
            more = (drawn.draw_shape(choose, case, arch=support.arch()) for _ in range(SIZES_EACH - 1))
            shapes = (shape, *(shape for shape in more if shape is not None))
            if is_emitted(case, shapes):
                found.append((case, shapes))
    return found


def is_emitted(case: Case, shapes: tuple[ConvShape, ...]) -> bool:
    """Whether the texts are below the limit, which shows when they are emitted; else another case is drawn."""
    try:
        for plan, _ in case.plans(shapes, support.arch()):
            render(plan)
    except UnsupportedSpec as error:
        assert "its text has" in str(error), error
        return False
    return True


@pytest.mark.parametrize("part", range(PARTS + IMAGE_PARTS))
def test_values(part, record_property):
    layers = draw(part)
    support.build_ahead([case for case, _ in layers], dict(layers))
    done = 0
    for case, shapes in layers:
        done += checks.check_case(case, shapes, support.kernel_of, arch=support.arch(), seed=done)
    record_property("drawn", done)
    kinds = Counter(case.algorithm for case, _ in layers)
    print(f"seed {settings.seed}, part {part}: {len(layers)} kernels {dict(kinds)}, {done} layers; "
          f"left out: {support.no_cublas()}")
    assert done >= 0.9 * min(SIZES_EACH * len(layers), settings.drawn_on_gpu())
