"""Sizes near 2^31: no index of a kernel, and no step of its grid-stride loops, leaves an int."""

from __future__ import annotations

import pytest

from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import LARGEST_SIZE, ConvShape
from warpconv.codegen.spec import index_bits

LAYERS = {"tall": ConvShape(c=1, h=LARGEST_SIZE, w=1, k=1, r=3, s=1),
          "wide": ConvShape(c=1, h=1, w=LARGEST_SIZE, k=1, r=1, s=3),
          "padded": ConvShape(c=1, h=LARGEST_SIZE - 2, w=1, k=1, r=3, s=3, padding=1),
          "images": ConvShape(n=LARGEST_SIZE, c=1, h=1, w=1, k=1, r=1, s=1),
          "pairs": ConvShape(n=LARGEST_SIZE // 2, c=2, h=1, w=1, k=2, r=1, s=1, groups=2)}
SETTINGS = [("direct", {}), ("direct", {"block_size_x": 8, "block_size_y": 64}), ("reuse", {}),
            ("reuse", {"edges": "direct"}), ("reuse", {"sub_block_rows": 1, "warp_rows": 32}),
            ("reuse", {"sub_block_rows": 4096})]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("algorithm, settings", SETTINGS)
def test_no_step_of_a_loop_overflows(name, algorithm, settings):
    shape = LAYERS[name]
    plan = plan_layer(shape, algorithm=algorithm, settings=settings)
    launch = plan.program.launches[0]
    x, y, z = launch.grid_of(shape)
    columns = plan.options.block_size_x if algorithm == "direct" else 32 * plan.options.warp_columns
    rows = plan.options.block_size_y if algorithm == "direct" else plan.options.warp_rows
    assert x * columns < 2**31                                   # the column of every thread
    jobs = shape.p if algorithm == "direct" else -(-shape.p // plan.options.sub_block_rows) + 1
    assert jobs - 1 + y * rows < 2**31                           # the row, or row job, that ends the loop
    tiles = shape.n * shape.groups
    assert tiles - 1 + z < (2**31 if plan.spec.index_bits == 32 else 2**63)


def test_offsets_take_64_bits_in_time():
    assert index_bits(ConvShape(c=1, h=LARGEST_SIZE, w=1, k=1, r=1, s=1)) == 32
    assert index_bits(ConvShape(c=1, h=LARGEST_SIZE // 2 + 1, w=2, k=1, r=1, s=1)) == 64


@pytest.mark.parametrize("algorithm, settings", [("direct", {"k_tile": 4}),
                                                 ("reuse", {"weights": "cached", "k_tile": 4}),
                                                 ("reuse", {"weights": "cached", "edges": "direct"})])
def test_products_of_sizes_are_64_bits_wide(algorithm, settings):
    """A filter of 2^31 weights: the compilers call an int product of its sizes out of range."""
    shape = ConvShape(c=2**28, h=3, w=3, k=4, r=3, s=3)
    text = render(plan_layer(shape, algorithm=algorithm, settings=settings)).text
    assert "index_t = long long" in text
    for product in ("(C * R * S)", "(k * C + c)", "* C * R + r)", "* C + c)"):
        assert product not in text


def test_more_resident_blocks_than_a_multiprocessor_holds():
    for algorithm in ("direct", "reuse"):
        with pytest.raises(UnsupportedSpec, match="min_blocks = 1000"):
            plan_layer(ConvShape(c=1, h=9, w=9, k=1, r=3, s=3), algorithm=algorithm, settings={"min_blocks": 1000})
