"""``bench.elsewhere``: its layers are planned, and as many as it says."""

from __future__ import annotations

import pytest

from bench import elsewhere
from warpconv.codegen.select import select

PLAIN = {"direct", "reuse", "im2win_basic"}


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_no_layer_of_many_products_is_left_to_a_plain_kernel(dtype, layout):
    chosen = [(name, shape, select(shape, "sm_90").algorithm) for name, shape in elsewhere.layers(dtype, layout)]
    assert len(chosen) == 133
    left = [(name, str(shape)) for name, shape, algorithm in chosen if algorithm in PLAIN and shape.reduction > 100
            and not (layout == "NCHW" and shape.k <= 3 and shape.r == 5)]
    assert not left
