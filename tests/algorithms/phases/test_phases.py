"""``phases``: what its planner refuses, and that its sums stay in registers."""

from __future__ import annotations

import pytest

from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import build

NAME = "phases"


def layer(**changes) -> ConvShape:
    return ConvShape(**{"n": 8, "c": 64, "h": 28, "w": 28, "k": 64, "groups": 64, "r": 5, "s": 5, "padding": 2,
                        "stride": 2, "dtype": "float16", "layout": "NHWC", **changes})


@pytest.mark.parametrize("changes, values, words", [
    ({}, {"c_tile": 3}, "does not divide"), ({}, {"block_size_x": 4, "block_size_y": 4}, "a block of 16 threads"),
    ({}, {"block_size_z": 2}, "in NHWC 1"), ({"groups": 32}, {"form": "ring"}, "one filter a group"),
    ({}, {"form": "ring", "vector": 4}, "pairs are of 16-bit channels"),
    ({"layout": "NCHW", "padding_mode": "reflect"}, {"form": "ring", "vector": 2}, "a border of one value"),
    ({"r": 21, "s": 21}, {"form": "tile", "c_tile": 1}, "441 products"),
    ({"r": 21, "s": 21}, {"form": "ring", "vector": 1}, "weights would not stay"),
    ({"stride": 9}, {"form": "tile"}, "81 pixels"), ({"groups": 32}, {"form": "pixel", "c_tile": 2}, "one channel")])
def test_plan_values_that_cannot_be(changes, values, words):
    with pytest.raises(UnsupportedSpec, match=words):
        plan_layer(layer(**changes), operation="data_gradient", algorithm=NAME, settings=values)


def test_a_border_of_the_images_pixels_takes_no_epilogue():
    with pytest.raises(UnsupportedSpec, match="a reflect border takes no epilogue"):
        plan_layer(layer(padding_mode="reflect"), operation="data_gradient", algorithm=NAME, epilogue=["bias"])


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("changes", [
    {}, {"layout": "NCHW"}, {"dtype": "float32", "padding_mode": "reflect"}, {"groups": 1}, {"stride": 9}])
def test_defaults_do_not_spill(changes):
    for entry in build(plan_layer(layer(**changes), operation="data_gradient", algorithm=NAME)).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
