"""``channels`` of filters that move by several rows: which plan values they have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warpconv.codegen.algorithms.channels.numbers import Body, Width
from warpconv.codegen.dtypes import DType
from warpconv.codegen.select import plan_layer

from .test_channels import depthwise, planned


@pytest.mark.parametrize("size, c, side", [(3, 144, 56), (5, 144, 56), (5, 672, 14), (3, 232, 14), (3, 24, 57)])
def test_strided_layers_have_lines_of_whole_pixels(size, c, side):
    """All channels of a pixel, evenly, several steps ahead; where there are no asynchronous copies 16 bits have a ring
    whose threads have several columns, but for narrow images."""
    for dtype in ("float16", "float32"):
        layer = depthwise(size, c=c, side=side, stride=2, dtype=dtype, n=32)
        found = planned(layer)
        assert found.options.body is Body.LINES and found.options.prefetch_rows > 1 and found.options.stage_rows == 1
        blocks, channels = found.numbers.channel_blocks, found.options.block_channels * found.options.vector
        assert blocks * channels - c < blocks * 2 and found.options.block_channels <= 128
        assert (found.options.width is Width.WHOLE) == (layer.q % found.options.columns == 0)
        assert planned(replace(layer, n=256)).options == found.options
        assert plan_layer(layer).spec.algorithm == "channels"
    older = planned(replace(layer, dtype=DType.FLOAT16), arch="sm_75")
    assert older.options.body is Body.RING and older.options.columns in (4, 5, 7)
    assert planned(depthwise(size, c=c, side=5, stride=2, dtype="float16", n=32), arch="sm_75").options.columns <= 3


@pytest.mark.parametrize("c, side, vector, channels", [(576, 14, 1, 64), (232, 14, 1, 58), (672, 14, 2, 56),
                                                       (144, 56, 2, 36), (24, 56, 2, 12)])
def test_strided_layers_of_float32_have_a_column_a_thread(c, side, vector, channels):
    """Of narrow planes of one channel, where blocks share these out evenly, else of two; channels of whole 256 bytes
    are as quick with two columns."""
    found = planned(depthwise(3, c=c, side=side, stride=2, n=32)).options
    assert (found.vector, found.columns, found.block_channels) == (vector, 1, channels)
    assert planned(depthwise(3, c=192, side=56, stride=2, n=32)).options.columns == 2
    assert planned(depthwise(3, c=c, side=side, stride=3, n=32)).options.columns > 1


def test_few_blocks_of_a_strided_layer_have_fewer_rows():
    """A GPU has more multiprocessors than blocks of tall sub-blocks, of few channels."""
    rows = {c: planned(depthwise(3, c=c, side=56, stride=2, n=32)).options.sub_block_rows for c in (24, 192)}
    assert rows == {24: 7, 192: 14}


def test_few_images_of_a_strided_layer():
    """One image has all rows of a walk on their way at once; from four on it is as of many."""
    one, eight, many = (planned(depthwise(3, c=240, side=28, stride=2, dtype="float16", n=n)) for n in (1, 8, 64))
    options, numbers = one.options, one.numbers
    assert options.body is Body.LINES and options.prefetch_rows >= options.sub_block_rows + numbers.ring_rows - 1
    assert eight.options == many.options != options
