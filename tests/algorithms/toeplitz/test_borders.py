"""Borders of ``toeplitz`` and ``toeplitz_nhwc``: who takes such layers, and what the emitted text reads, on the CPU
device."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from tests import checks, settings
from warpconv.codegen.algorithms.toeplitz.numbers import Walk
from warpconv.codegen.border import Border
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts.tile_borders import MOST_HELD, MOST_OF_PLANE
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build import compilers

on_the_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
BORDERS = tuple(mode for mode in Border if mode is not Border.ZEROS)


def with_border(shape: ConvShape, mode: Border, value: float = 0.5) -> ConvShape:
    return dataclasses.replace(shape, padding_mode=mode, padding_value=value if mode is Border.CONSTANT else 0.0)


def depthwise(c: int, side: int, size: int, *, layout: str = "NCHW", **changes) -> ConvShape:
    return ConvShape(**{**dict(n=2, c=c, h=side, w=side, k=c, groups=c, r=size, s=size, padding=size // 2,
                               dtype="float16", layout=layout), **changes})


def planned(shape: ConvShape, arch: str = "sm_90", **values) -> KernelPlan:
    algorithm = "toeplitz_nhwc" if shape.layout.value == "NHWC" else "toeplitz"
    return plan_layer(shape, algorithm=algorithm, settings=values, arch=arch)


# ---- plans

@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("shape", [depthwise(1, 4096, 5, n=1), depthwise(1, 4096, 11, n=1, dtype="bfloat16"),
                                   depthwise(128, 112, 7), depthwise(96, 56, 5, dtype="bfloat16"),
                                   depthwise(128, 56, 9, layout="NHWC")], ids=str)
def test_the_rule_takes_a_layer_with_a_border_where_it_takes_it_with_zeros(shape, mode):
    zeros, other = plan_layer(shape).spec.algorithm, plan_layer(with_border(shape, mode)).spec.algorithm
    assert zeros.startswith("toeplitz") and other == zeros


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_value_that_16_bits_do_not_have_is_declined_and_left_to_another(layout):
    shape = depthwise(16, 56, 9, layout=layout)
    for dtype, lost, kept in (("float16", 0.1, 0.5), ("bfloat16", 1.001, -3.0), ("float16", 1e6, 65504.0)):
        shape = dataclasses.replace(shape, dtype=dtype)
        with pytest.raises(UnsupportedSpec, match=f"is no {dtype}"):
            planned(with_border(shape, Border.CONSTANT, lost))
        assert not plan_layer(with_border(shape, Border.CONSTANT, lost)).spec.algorithm.startswith("toeplitz")
        assert planned(with_border(shape, Border.CONSTANT, kept)).numbers.border.kind == "value"


@pytest.mark.thin(4)
@pytest.mark.parametrize("size, walk", [*itertools.product([3, 5, 7, 9, 11, 13, 31], Walk)])
def test_columns_are_held_while_they_are_few(size, walk):
    made = planned(with_border(depthwise(4, 56, size), Border.REFLECT), walk=walk.value, warp_columns=1,
                   weights="shared", store_vector=8, stores="direct", vector=8, tiles=7, warp_planes=1,
                   sub_block_rows=64)
    numbers, columns = made.numbers, size // 2 * 2
    rows = numbers.band if walk is Walk.BANDS else 56 + columns
    elements = numbers.held * numbers.team
    assert numbers.held <= (MOST_HELD if walk is Walk.BANDS else MOST_OF_PLANE)
    assert elements >= rows * columns if numbers.held else rows * columns > numbers.team * MOST_HELD // 2
    assert ("fetch(" in render(made).text) == (numbers.held > 0)


def test_layers_without_columns_outside_copy_none():
    shape = with_border(depthwise(4, 56, 5, s=1, padding=(2, 0)), Border.REFLECT)
    for walk in Walk:
        text = render(planned(shape, walk=walk.value)).text
        assert "fetch(" not in text and "put(" not in text and "at_border(" in text


# ---- the emitted text, executed

SMALL = (depthwise(3, 9, 3, padding=((11, 20), (13, 19)), w=5), depthwise(2, 1, 5, w=1, padding=((7, 9), (6, 11))),
         depthwise(2, 40, 7, w=200, n=1), depthwise(2, 33, 4, w=8, padding=((0, 3), (9, 0))),
         depthwise(2, 17, 2, s=15, w=24, padding=((1, 0), (14, 3))))


@pytest.mark.thin(32)
@on_the_cpu
@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_every_access_checked(shape, mode):
    """Padding larger than the image, many columns outside of it, one side alone; both walks."""
    shape = with_border(shape, mode)
    bands = {"tiles": 2, "warp_columns": 1, "warp_rows": 1, "warp_planes": 2, "sub_block_rows": 32,
             "prefetch_bands": 1}
    checks.check_checked(planned(shape), shape)
    checks.check_checked(planned(shape, walk="bands", stores="direct", store_vector=1, **bands), shape)


@pytest.mark.thin(12)
@on_the_cpu
@pytest.mark.parametrize("mode", BORDERS)
@pytest.mark.parametrize("shape, values", [
    (depthwise(8, 5, 5, layout="NHWC", w=3, padding=((12, 7), (9, 16))), {}),
    (depthwise(24, 1, 3, layout="NHWC", w=1, padding=1, n=5), {"chunks": 2}),
    (depthwise(16, 30, 4, layout="NHWC", w=70, padding=((3, 0), (0, 4))), {"turn": 2, "buffers": 2}),
    (depthwise(40, 14, 5, layout="NHWC", n=5), {"chunks": 3})], ids=lambda value: str(value) if value else "")
def test_every_access_in_nhwc_checked(shape, values, mode):
    checks.check_checked(planned(with_border(shape, mode), **values), with_border(shape, mode))


@pytest.mark.long
@on_the_cpu
@pytest.mark.parametrize("shape, values", [
    (depthwise(1, 160, 5, n=1, w=512), {"sub_block_rows": 32}), (depthwise(4, 56, 5), {}),
    (depthwise(32, 56, 5, layout="NHWC"), {})], ids=str)
def test_what_lies_inside_is_read_as_often_as_with_zeros(shape, values):
    """Of the input a border reads rows and columns outside, no more; one value reads nothing."""
    of = {mode: checks.check_checked(planned(with_border(shape, mode), **values), with_border(shape, mode))[0]
          for mode in (Border.ZEROS, Border.CONSTANT, Border.CIRCULAR)}
    read = {mode: report.buffers["x"].load_bytes for mode, report in of.items()}
    made = planned(with_border(shape, Border.CIRCULAR), **values)
    assert read[Border.CONSTANT] == read[Border.ZEROS]
    pads, area = shape.r - 1, 2 * shape.n * shape.c
    least = area * (pads * shape.w + shape.h * pads)
    spare = 1.25 if shape.layout.value == "NHWC" else 1 + made.numbers.held * made.numbers.team / (shape.h * pads)
    cuts = 0 if made.program.launches[0].grid_of(shape)[1] == 1 else made.program.launches[0].grid_of(shape)[1] - 1
    halo = area * cuts * (shape.r - 1) * (shape.w + 32 * pads)
    assert least <= read[Border.CIRCULAR] - read[Border.ZEROS] <= spare * area * (
        pads * (shape.w + pads) + (shape.h + pads) * pads) + halo


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")
@pytest.mark.parametrize("mode", [Border.REFLECT, Border.CONSTANT])
@pytest.mark.parametrize("arch, shapes", settings.in_turn(("sm_80", "sm_90", "sm_100"), (
    depthwise(1, 8192, 5, n=1), depthwise(1, 8192, 7, n=1), depthwise(1, 8192, 11, n=1),
    depthwise(128, 112, 5), depthwise(96, 56, 7), depthwise(384, 14, 7), depthwise(128, 56, 13),
    depthwise(128, 56, 5, layout="NHWC"), depthwise(128, 112, 9, layout="NHWC"), depthwise(384, 14, 7, layout="NHWC"))))
def test_planned_defaults_spill_nothing_that_they_promise_not_to(arch, shapes, mode):
    for shape in shapes:
        made = planned(with_border(shape, mode), arch=arch)
        entry, = compilers.compile_source(render(made).text, arch=arch, kind=compilers.CompilerKind.NVRTC).entries
        most = 0 if made.cost.no_spills else 32         # where a border takes a few registers too many
        assert max(entry.spill_stores, entry.spill_loads, entry.stack_bytes) <= most, (str(shape), entry)
