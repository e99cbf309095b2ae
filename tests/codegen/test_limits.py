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


@pytest.mark.parametrize("algorithm", ["mma", "wgmma"])
def test_channels_that_are_filled_up_stay_within_the_offsets(algorithm):
    """3 channels, 8 of them before the product: x has fewer than 2^31 elements, x_nhwc more."""
    sizes = dict(c=3, h=1024, w=1024, r=3, s=3, stride=4, padding=1, dtype="float16", layout="NCHW")
    made = plan_layer(ConvShape(n=255, k=32, **sizes), algorithm=algorithm, arch="sm_90")
    assert made.spec.index_bits == 32 and made.program.workspace_bytes(ConvShape(n=255, k=32, **sizes)) < 2**32
    with pytest.raises(UnsupportedSpec, match=r"x_nhwc would have 4328521728 bytes, .* offsets reach 4286578688"):
        plan_layer(ConvShape(n=258, k=32, **sizes), algorithm=algorithm, arch="sm_90")
    assert made.program.refusal(ConvShape(n=258, k=32, **sizes)) is not None
    wide = plan_layer(ConvShape(n=258, k=128, **sizes), algorithm=algorithm, arch="sm_90")
    assert wide.spec.index_bits == 64


@pytest.mark.parametrize("dtype, layout, operation", [("float16", "NCHW", "forward"), ("float32", "NHWC", "forward"),
                                                      ("float16", "NCHW", "data_gradient")])
def test_wgmma_counts_outputs_by_32_bits(dtype, layout, operation):
    """Of 1024 x 1024 outputs an image: 2047 images are fewer than 2^31 pixels, 2048 are as many."""
    def planned(n):
        shape = ConvShape(n=n, c=12, h=1024, w=1024, k=12, r=3, s=3, padding=1, dtype=dtype, layout=layout)
        return plan_layer(shape, algorithm="wgmma", arch="sm_90", operation=operation)
    assert planned(2047).spec.index_bits == 64
    with pytest.raises(UnsupportedSpec, match="2147483648 windows"):
        planned(2048)


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
