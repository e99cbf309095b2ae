"""``filter_gradient``: what its planner refuses, and that its sums stay in registers."""

from __future__ import annotations

import pytest

from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.resolution import plan as planned_again, with_fewer_blocks
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.compilers import CompilerKind
from warpconv.runtime.build.pipeline import build

NAME = "filter_gradient"


def layer(**changes) -> ConvShape:
    return ConvShape(**{"n": 8, "c": 64, "h": 28, "w": 28, "k": 64, "groups": 64, "r": 7, "s": 7, "padding": 3,
                        "dtype": "float16", "layout": "NHWC", **changes})


@pytest.mark.parametrize("changes, values, words", [
    ({"c": 128}, {"form": "taps"}, "filters of one channel"), ({}, {"vector": 4}, "pairs are of 16-bit channels"),
    ({"layout": "NCHW"}, {"vector": 2, "columns": 1}, "that divide columns"),
    ({"layout": "NCHW"}, {"min_blocks": 17}, "min_blocks = 17 of 128"),
    ({}, {"min_blocks": 17}, "min_blocks = 17 of 128"), ({"groups": 1}, {"min_blocks": 9}, "min_blocks = 9 of 256"),
    ({"layout": "NCHW", "padding_mode": "reflect"}, {"vector": 2, "columns": 2}, "borders of zeros"),
    ({"stride": 2}, {"walk": "strip"}, "strips are of layers"), ({}, {"tap_rows": 8}, "8 x 7 taps of a filter"),
    ({"r": 13, "s": 11}, {"tap_rows": 13, "tap_columns": 11, "walk": "tile"}, "sums would not stay in registers"),
    ({}, {"walk": "tile", "rows": 8, "columns": 8}, "tiles of 64 outputs"), ({}, {"chunks": 2000}, "at most 1024")])
def test_plan_values_that_cannot_be(changes, values, words):
    with pytest.raises(UnsupportedSpec, match=words):
        plan_layer(layer(**changes), operation="filter_gradient", algorithm=NAME, settings=values)


@pytest.mark.parametrize("changes, promised", [
    ({"dilation": 2}, False), ({"stride": 2}, False), ({}, True), ({"layout": "NCHW", "dilation": 2}, False),
    ({"layout": "NCHW", "r": 3, "s": 3, "padding": 1}, True), ({"r": 3, "s": 3, "dilation": 2}, True)])
def test_tiles_beside_many_sums_promise_no_registers(changes, promised):
    """The compiler loads ahead what a tile reads, beside 49 sums beyond all registers: a pack takes it as it is."""
    made = plan_layer(layer(**{"dtype": "bfloat16", "c": 1, "k": 1, "groups": 1, **changes}), arch="sm_89",
                      operation="filter_gradient", algorithm=NAME)
    assert made.cost.no_spills is promised


def test_small_tiles_under_a_stride():
    """Few taps of one channel a lane: tiles of 2 x 2, of a small plane no larger than it; others as they were."""
    def tile(**changes) -> tuple[int, int]:
        given = {"r": 3, "s": 3, "padding": 1, "stride": 2, "dtype": "float32", **changes}
        made = plan_layer(layer(**given), operation="filter_gradient", algorithm=NAME).options
        return made.rows, made.columns
    assert tile() == tile(stride=(1, 2)) == tile(dtype="bfloat16", c=63, k=63, groups=63) == (2, 2)
    assert tile(h=1, w=2) == (1, 1)
    assert (2, 2) not in (tile(stride=1), tile(r=5, s=5, padding=2), tile(layout="NCHW"), tile(dtype="bfloat16"))


def test_the_compiler_is_told_of_blocks_where_it_spills():
    """In NCHW it is told none first, then as many as the planned registers leave, then fewer; in the text as in the
    plan."""
    made = plan_layer(layer(layout="NCHW", r=3, s=3, padding=1), arch="sm_90", operation="filter_gradient",
                      algorithm=NAME)
    numbers, rows = [], made.options.rows
    while made.options.rows == rows:        # then smaller tiles
        numbers.append(made.options.min_blocks)
        assert f"__launch_bounds__(128{f', {numbers[-1]}' if numbers[-1] else ''})" in render(made).text
        made = with_fewer_blocks(made)
    tried = plan_layer(layer(layout="NCHW", r=3, s=3, padding=1), arch="sm_90", operation="filter_gradient",
                       algorithm=NAME)
    assert with_fewer_blocks(tried, leaner=True).options.rows == 1 < tried.options.rows       # build's last try
    assert numbers[0] == 0 and numbers[1] > 3 and numbers[1:] == sorted(numbers[1:], reverse=True)
    tiles = plan_layer(layer(groups=1), operation="filter_gradient", algorithm=NAME)
    assert tiles.options.min_blocks == 4 and with_fewer_blocks(tiles).options.min_blocks == 3


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("changes", [
    {}, {"r": 3, "s": 3, "padding": 1}, {"layout": "NCHW"}, {"dtype": "float32", "padding_mode": "reflect"},
    {"groups": 1}])
def test_defaults_do_not_spill(changes):
    for entry in build(plan_layer(layer(**changes), operation="filter_gradient", algorithm=NAME)).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, layer, spilled", [
    ("sm_90", dict(n=2, c=1, k=1, h=320, w=14, r=11, s=11, stride=3, layout="NHWC", dtype="bfloat16"), 64),
    ("sm_80", dict(n=64, c=130, k=130, groups=130, h=56, w=56, r=7, s=7, stride=3, padding=1, layout="NHWC"), 64)])
def test_tiles_that_spill_however_many_registers_there_are_become_small(arch, layer, spilled):
    """So many bytes a thread by nvcc 13.0, with fewer blocks too."""
    made = plan_layer(ConvShape(**layer), arch=arch, operation="filter_gradient")
    assert made.options.rows > 1
    built = build(made, kind=CompilerKind.NVCC)
    assert not any(entry.spills for entry in built.compiled.entries)
    leaner = with_fewer_blocks(planned_again(made.spec, {**made.settings(), "min_blocks": 1}))
    assert (leaner.options.rows, leaner.options.columns) == (1, 2)
    least = with_fewer_blocks(planned_again(made.spec, {**leaner.settings(), "min_blocks": 1}))
    assert (least.options.rows, least.options.columns) == (1, 1)
    assert with_fewer_blocks(planned_again(made.spec, {**least.settings(), "min_blocks": 1})) is None
