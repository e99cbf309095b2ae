"""``volume``: what is planned and refused, and what compilers make of it."""

from __future__ import annotations

from typing import Any

import pytest

import warpconv
from warpconv.codegen.algorithms.volume.options import TapRows
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.render import render
from warpconv.codegen.resolution import plan as planned_again, with_fewer_blocks
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.compilers import CompilerKind
from warpconv.runtime.build.pipeline import build


def shape(size: int, **layer: Any) -> ConvShape:
    fields = dict(c=32, k=32, groups=32, d=64, h=64, w=64, t=size, r=size, s=size, padding=size // 2)
    return ConvShape(**{**fields, **layer})


def test_blocks_follow_the_layer():
    one = plan_layer(shape(3, c=1, k=1, groups=1, d=512, h=512, w=512)).settings()
    assert one["block_size_x"] == 32 and one["chunks"] == 16 and one["vector"] == 4
    narrow = plan_layer(shape(3, w=14, h=14, d=14)).settings()
    assert narrow["block_size_x"] == 4 and narrow["vector"] == 1 and narrow["chunks"] == 1
    assert plan_layer(shape(3, c=4, k=12, groups=2)).settings()["k_tile"] == 3


@pytest.mark.parametrize("layer, form", [
    (dict(size=9), "march"), (dict(size=15), "march"), (dict(size=3, dilation=4), "march"),
    (dict(size=3, stride=4), "march"), (dict(size=3, c=4, k=8, groups=1, layout="NHWC"), "loops"),
    (dict(size=17, layout="NHWC"), "loops"), (dict(size=3, layout="NHWC"), "lanes"), (dict(size=17), "loops"),
    (dict(size=3, c=512, k=512, groups=1), "loops"), (dict(size=3, d=900, dilation=(60, 1, 1)), "loops")])
def test_what_does_not_fit_is_done_by_loops(layer, form):
    assert plan_layer(shape(**layer), algorithm="volume").options.form.value == form


@pytest.mark.parametrize("values, reason", [
    ({"columns": 3}, "columns = 3"), ({"vector": 2}, "vector = 2"), ({"stages": 1}, "stages = 1"),
    ({"rows": 8}, "96 sums"), ({"k_tile": 2}, "does not divide"), ({"block_size_y": 100}, "a block of 1600"),
    ({"block_size_x": 16, "block_size_y": 64, "rows": 4}, "bytes of shared memory"),
    ({"min_blocks": 9}, "min_blocks = 9 of 256 threads")])
def test_plan_values_that_do_not_go_together_are_refused(values, reason):
    own = {"block_size_x": 16, "block_size_y": 16, "rows": 4, "columns": 4}
    with pytest.raises(UnsupportedSpec, match=reason):
        plan_layer(shape(3), algorithm="volume", settings={**own, **values})


def test_images_and_volumes_are_told_apart():
    plane = ConvShape(c=1, h=50, w=60, k=1, r=3, s=3)
    assert not plane.is_volume and shape(1).is_volume
    with pytest.raises(UnsupportedSpec, match="only volumes"):
        plan_layer(plane, algorithm="volume")
    with pytest.raises(UnsupportedSpec, match="only images"):
        plan_layer(shape(3), algorithm="direct")
    assert {c.algorithm for c in warpconv.explain(shape(3))} == {"volume", "mma", "wgmma"}
    data = {"volume", "volume_data", "mma", "wgmma", "phases_gemm", "phases_mma", "phases_wgmma"}
    assert {c.algorithm for c in warpconv.explain(shape(3), operation="data_gradient")} == data
    assert {c.algorithm for c in warpconv.explain(shape(3, stride=2), operation="data_gradient") if not c.reason
            or "slots" in c.reason} == {"volume_data"}


@pytest.mark.parametrize("layer, operation, algorithm", [
    (dict(c=4, k=32, stride=2), "forward", "mma"), (dict(c=4, k=32, stride=2, layout="NHWC"), "forward", "mma"),
    (dict(c=8, k=8, layout="NHWC", dtype="float32"), "forward", "mma"),
    (dict(c=32, k=32), "forward", "wgmma"), (dict(c=32, k=32, layout="NHWC"), "forward", "wgmma"),
    (dict(c=32, k=32, layout="NHWC", dtype="float32"), "data_gradient", "wgmma"),
    (dict(c=32, k=64, stride=2), "data_gradient", "phases_wgmma"),
    (dict(c=32, k=64, stride=2, dtype="float32"), "data_gradient", "phases_gemm"),
    (dict(c=128, k=128, d=32, h=32, w=32), "filter_gradient", "filter_gradient_wgmma"),
    (dict(c=32, k=32), "filter_gradient", "filter_gradient_mma"),
    (dict(c=4, k=4), "forward", "volume"), (dict(c=1, k=1), "forward", "volume"),
    (dict(c=1, k=1, layout="NHWC"), "forward", "volume"), (dict(c=1, k=32), "forward", "volume"),
    (dict(c=1, k=1), "filter_gradient", "volume_filter"), (dict(c=32, k=32, groups=32), "forward", "volume"),
    (dict(c=32, k=32, groups=32, layout="NHWC"), "filter_gradient", "volume_filter")])
def test_dense_layers_are_done_by_tensor_cores(layer, operation, algorithm):
    """As measured (docs/volumes.md)."""
    layer = {"groups": 1, "dtype": "float16", **layer}
    assert plan_layer(shape(3, **layer), arch="sm_90", operation=operation).spec.algorithm == algorithm


@pytest.mark.thin(24)
@pytest.mark.nvcc
@pytest.mark.parametrize("layer", [
    dict(size=3), dict(size=5), dict(size=3, dtype="float16"), dict(size=5, dtype="bfloat16"),
    dict(size=3, dtype="uint8"), dict(size=3, dtype="float16", layout="NHWC"), dict(size=3, layout="NHWC", stride=2),
    dict(size=3, c=3, k=16, groups=1, stride=2),
    dict(size=3, c=1, k=1, groups=1, w=512, padding_mode="symmetric")])
@pytest.mark.parametrize("operation", ["forward", "filter_gradient"])
def test_nothing_spills(layer, operation):
    given = shape(**layer)
    if operation != "forward" and not given.dtype.is_float:
        pytest.skip("gradients are of floats")
    made = plan_layer(given, operation=operation)
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry


@pytest.mark.thin(2)
@pytest.mark.nvcc
@pytest.mark.parametrize("dtype, taps, size", [("float16", 1, 56), ("bfloat16", 2, 28), ("float16", 1, 14)])
def test_16_bit_layers_with_strides_spill_a_few_registers_at_most(dtype, taps, size):
    """Their copies have an address each: for want of these registers 240 bytes of a thread were spilled."""
    made = plan_layer(warpconv.ConvShape(c=64, d=16, h=size, w=size, k=64, t=taps, r=taps, s=taps, stride=2,
                                         dtype=dtype))
    for entry in build(made).compiled.entries:
        assert max(entry.spill_stores, entry.spill_loads, entry.stack_bytes) <= 64, entry


@pytest.mark.thin(2)
@pytest.mark.nvcc
@pytest.mark.parametrize("operation, layer", [
    ("filter_gradient", dict(c=32, k=512, groups=32, d=16, h=56, w=56, t=3, r=5, s=5, stride=3, padding=(1, 2, 2),
                             layout="NHWC"))])
def test_volumes_that_spill_are_built_with_fewer_blocks(operation, layer):
    """It had 172 bytes a thread."""
    made = plan_layer(ConvShape(**layer), arch="sm_90", operation=operation)
    built = build(made)
    assert built.settings["min_blocks"] < made.settings()["min_blocks"]
    assert all(entry.spill_stores == 0 for entry in built.compiled.entries)


@pytest.mark.nvcc
@pytest.mark.parametrize("dtype, size, filter", [("bfloat16", 13, 9), ("float32", 55, 9), ("float16", 13, 7)])
def test_many_taps_of_one_plane_are_loaded_row_by_row(dtype, size, filter):
    """They were loaded ahead of all planes: 1724, 884 and 612 bytes a thread were spilled."""
    made = plan_layer(ConvShape(n=8, c=32, k=32, groups=32, d=16, h=size, w=size, t=1, r=filter, s=filter,
                                padding=(0, filter // 2, filter // 2), dtype=dtype), arch="sm_90")
    assert "wc_read_again();" in render(made).text
    built = build(made)
    assert built.settings["min_blocks"] == made.settings()["min_blocks"]
    assert all(entry.spill_stores == 0 for entry in built.compiled.entries)


@pytest.mark.parametrize("dtype, filter, stride, size, images, tile", [
    ("float32", (5, 5, 5), 2, 28, 4, (1, 2)), ("float32", (3, 9, 9), 1, 28, 2, (1, 2)),
    ("float32", (3, 3, 3), 2, 56, 4, (1, 4)), ("float32", (3, 5, 5), 1, 56, 4, (4, 4)),
    ("float32", (3, 5, 5), 1, 56, 1, (1, 4)), ("float16", (5, 5, 5), 2, 28, 4, (1, 2)),
    ("float16", (3, 5, 5), 1, 56, 4, (2, 4))])
def test_tiles_of_lanes_leave_no_quarter_without_warps(dtype, filter, stride, size, images, tile):
    """An H200, us, as tiles were before: 87 for 15.6, 126 for 50.7, 28.2 for 18.5, 67, not measured, 36.8 for 15.2,
    68.7."""
    t, r, s = filter
    shape = ConvShape(n=images, c=64, k=64, groups=64, d=16, h=size, w=size, t=t, r=r, s=s, stride=stride,
                      padding=(t // 2, r // 2, s // 2), dtype=dtype, layout="NHWC")
    made = plan_layer(shape, arch="sm_90")
    assert (made.options.rows, made.options.columns) == tile and made.options.tap_rows is TapRows.UNROLLED


LOOPED = [dict(n=8, c=2, k=4, groups=2, d=16, h=28, w=28, t=2, r=7, s=7, padding=1, dilation=2, layout="NHWC"),
          dict(n=8, c=4, k=8, groups=4, d=16, h=56, w=56, t=3, r=3, s=3, stride=3, padding=1, dtype="bfloat16",
               layout="NHWC")]


@pytest.mark.nvcc
@pytest.mark.parametrize("layer", LOOPED)
def test_volumes_that_spill_however_many_registers_there_are_go_through_taps_in_a_loop(layer):
    """By nvcc 13.0 on sm_120 192 and 48 bytes a thread, with fewer blocks too."""
    made = plan_layer(ConvShape(**layer), arch="sm_120", algorithm="volume", settings={"rows": 4, "columns": 4})
    assert made.options.tap_rows is TapRows.UNROLLED
    built = build(made, kind=CompilerKind.NVCC)
    assert all(entry.spill_stores == 0 for entry in built.compiled.entries)
    leaner = with_fewer_blocks(planned_again(made.spec, {**made.settings(), "min_blocks": 1}))
    assert (leaner.options.tap_rows, leaner.options.rows) == (TapRows.LOOP, 1)
    assert with_fewer_blocks(planned_again(leaner.spec, {**leaner.settings(), "min_blocks": 1})) is None


@pytest.mark.nvcc
def test_filter_gradients_that_spill_have_smaller_tiles():
    """304 bytes a thread by nvcc 13.0 on sm_120, with fewer blocks too."""
    layer = ConvShape(n=1, c=2, k=2, groups=2, d=16, h=55, w=55, t=5, r=11, s=11, stride=(1, 2, 2), layout="NHWC")
    made = plan_layer(layer, arch="sm_120", operation="filter_gradient")
    built = build(made, kind=CompilerKind.NVCC)
    assert all(entry.spill_stores == 0 for entry in built.compiled.entries)
    assert built.settings["rows"] * built.settings["columns"] < made.options.rows * made.options.columns
