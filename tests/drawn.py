"""Layers drawn at random, with plan values that the planner accepts.

What is drawn is written once over ``choose(sequence) -> element``: the CPU ring passes Hypothesis, which shrinks what
fails, the GPU ring a NumPy generator, which is quick enough for thousands of layers.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import hypothesis.strategies as st
import numpy as np
from hypothesis import assume

from warpconv.codegen.errors import ShapeError, UnsupportedSpec
from warpconv.codegen.shape import ConvShape

from .cases import BIAS, RELU, Case

Choose = Callable[[Sequence[Any]], Any]

LARGEST_SIDE = 130
EPILOGUES = ((), (), (BIAS,), (RELU,), (BIAS, RELU), (RELU, BIAS))


def draw_case(choose: Choose) -> Case:
    """A kernel; its plan may still be refused."""
    groups = choose((1, 1, 1, 2, 3, 4))
    channels, filters = choose((1, 1, 2, 3, 5)), choose((1, 1, 2, 3, 4, 6))
    algorithm = choose(("reuse", "reuse", "direct", "auto"))
    layer: dict[str, Any] = {"c": groups * channels, "k": groups * filters, "groups": groups}
    k_tile = choose([t for t in (1, 2, 3, 4, 6) if filters % t == 0])
    if algorithm == "reuse":
        layer["s"] = choose((1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9, 10, 11, 12, 13, 17, 31))
        layer["r"] = choose((1, 2, 3, 3, 4, 5, 5, 7) if layer["s"] < 14 else (1, 2, 3))
        values = _reuse_values(choose, k_tile)
    else:
        layer["r"], layer["s"] = choose((1, 2, 3, 3, 4, 5, 7, 11)), choose((1, 2, 3, 3, 4, 5, 7, 12))
        layer["stride"] = choose((1, 1, 2, 3, (1, 2), (5, 1)))
        layer["dilation"] = choose((1, 1, 1, 2, (1, 3)))
        values = {} if algorithm == "auto" else {
            "block_size_x": choose((8, 16, 32, 64, 128)), "block_size_y": choose((4, 5, 8)), "k_tile": k_tile}
    sides = (0, 0, 1, 2, 3, 8)
    layer["padding"] = choose((0, "half", ((choose(sides), choose(sides)), (choose(sides), choose(sides)))))
    if layer["padding"] == "half":
        layer["padding"] = (layer["r"] // 2, layer["s"] // 2)
    return Case(algorithm, tuple(layer.items()), tuple(values.items()), choose(EPILOGUES))


def draw_size(choose: Choose, largest: int = LARGEST_SIDE) -> tuple[int, int, int]:
    """(N, H, W), the neighbourhood of multiples of 32 more often than the rest."""
    near = [side + d for side in range(32, largest, 32) for d in (-1, 0, 1)]
    sides = (*range(1, largest + 1), *near, *near)
    return choose((1, 1, 2, 3)), choose(sides), choose(sides)


def draw_shape(choose: Choose, case: Case, tries: int = 20) -> ConvShape | None:
    """The case's layer at a random size that gives an output, None if none of the tries does."""
    for _ in range(tries):
        try:
            return case.shape(*draw_size(choose))
        except ShapeError:
            continue
    return None


@st.composite
def layers(draw: Callable[[Any], Any]) -> tuple[Case, ConvShape]:
    """Hypothesis strategy: a kernel that the planner accepts and an image size that gives an output."""
    def choose(sequence: Sequence[Any]) -> Any:
        return draw(st.sampled_from(sequence))

    case = draw_case(choose)
    assume(accepted(case))
    shape = draw_shape(choose, case, tries=3)
    assume(shape is not None)
    return case, shape


def accepted(case: Case) -> bool:
    """Whether the planner takes the values for this layer."""
    try:
        case.plan()
    except (UnsupportedSpec, ShapeError):
        return False
    return True


def numpy_choose(rng: np.random.Generator) -> Choose:
    """``choose`` over a NumPy generator."""
    return lambda sequence: sequence[int(rng.integers(len(sequence)))]


def _reuse_values(choose: Choose, k_tile: int) -> dict[str, Any]:
    return {"exchange": choose(("select", "select", "packed", "dynamic", "dynamic_local", "none")),
            "rows": choose(("reuse", "reuse", "reload")), "weights": choose(("shared", "shared", "constant", "cached")),
            "decomposition": choose(("paper", "fewest_loads", "shared_ends")),
            "edges": choose(("direct", "predicated")), "sub_block_rows": choose((1, 2, 3, 5, 8, 13, 32, 56)),
            "warp_columns": choose((1, 1, 2, 3, 4)), "warp_rows": choose((1, 2, 4)), "k_tile": k_tile,
            "ring": choose(("derived", "turning", "shifted")),
            "rows_ahead": choose((1, 1, 2, 3, 5, 9)), "min_blocks": choose((1, 1, 2, 4))}
