"""Borders of ``staged``: which products its plans have outside of the image, and its emitted text on the CPU device."""

from __future__ import annotations

import collections
import dataclasses

import pytest

from tests import checks
from tests.algorithms.staged.test_staged import BIAS, LAYERS, RELU, depthwise, on_the_cpu, staged
from warpconv.codegen.border import Border
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build import compilers


# ---- plans

def products_wanted(shape: ConvShape, p: int, q: int) -> collections.Counter:
    """(row, column, filter row, filter column) of each product of an output; row and column None for one value."""
    (sy, sx), (dy, dx), ((top, _), (left, _)) = shape.stride, shape.dilation, shape.padding
    found: collections.Counter = collections.Counter()
    for r in range(shape.r):
        for s in range(shape.s):
            row = shape.padding_mode.index(p * sy + r * dy - top, shape.h)
            column = shape.padding_mode.index(q * sx + s * dx - left, shape.w)
            found[(row, column, r, s) if None not in (row, column) else (None, None, r, s)] += 1
    return found


def products_of_strip(made: KernelPlan, shape: ConvShape, strip: int) -> dict[tuple[int, int], collections.Counter]:
    """The same by output of a strip, as the plan's numbers have them: rows by the elements that accesses read."""
    numbers, top = made.numbers, strip * made.numbers.strip_rows_in
    found: dict[tuple[int, int], collections.Counter] = collections.defaultdict(collections.Counter)
    for row in numbers.input_rows:
        if row.inside and (row.at_least is None or top >= row.at_least) and (row.below is None or top < row.below):
            base = top * shape.w if row.found is None else numbers.border_rows.elements[top + row.found]
            assert all((base + piece.offset) % piece.count == 0 for piece in row.pieces)
            at = {piece.column + i: divmod(base + piece.offset + i, shape.w) for piece in row.pieces
                  for i in range(piece.count)}
            for (i, r), taps in ((use, taps) for use in row.uses for taps in numbers.taps):
                for c, s in taps.pairs:
                    assert c is None or at[c][1] == c
                    found[i, taps.q][(None, None, r, s) if c is None else (*at[c], r, s)] += 1
        elif row.outside:
            for i, r in row.uses:
                for q in range(shape.q):
                    found[i, q].update((None, None, r, s) for s in range(shape.s))
    return found


@pytest.mark.parametrize("mode", list(Border)[1:], ids=lambda mode: mode.value)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape, values", [
    (depthwise(64, 14, 3), {}), (depthwise(64, 7, 5), {"rows": 2}), (depthwise(64, 7, 3), {"rows": 7}),
    (depthwise(32, 3, 3, padding=((7, 6), (9, 8))), {"rows": 4}), (depthwise(32, 1, 5, padding=4), {"rows": 2}),
    (depthwise(16, 12, 4, h=5, stride=(1, 2), dilation=(3, 1), padding=((5, 8), (0, 9))), {"rows": 3})], ids=str)
def test_every_product_outside_of_the_image_is_with_what_the_border_has_there(shape, values, dtype, mode):
    value = 0.7 if mode is Border.CONSTANT else 0.0
    shape = dataclasses.replace(shape, dtype=dtype, padding_mode=mode, padding_value=value)
    made = staged(shape, parts="strips", **values)
    for strip in range(made.numbers.strips):
        found = products_of_strip(made, shape, strip)
        for i in range(min(made.options.rows, shape.p - strip * made.options.rows)):
            for q in range(shape.q):
                assert found[i, q] == products_wanted(shape, strip * made.options.rows + i, q)


@pytest.mark.parametrize("mode", list(Border)[1:], ids=lambda mode: mode.value)
@pytest.mark.parametrize("shape", [depthwise(64, 14, 7), depthwise(64, 14, 5, dtype="float16"),
                                   depthwise(64, 4, 3, h=2, padding=((6, 6), (5, 5))),
                                   depthwise(64, 8, 5, dilation=2, padding=4)], ids=str)
def test_quarters_have_every_product_with_what_the_border_has(shape, mode):
    """Counted from the upper left corner, as quarters are; the others' are its mirror images."""
    shape = dataclasses.replace(shape, padding_mode=mode, padding_value=0.7 if mode is Border.CONSTANT else 0.0)
    quarters = staged(shape, parts="quarters").numbers.quarters
    read = {c.column + i for c in quarters.sources for i in range(max(1, 4 // shape.dtype.itemsize))}
    found: dict[tuple[int, int], collections.Counter] = collections.defaultdict(collections.Counter)
    for row in quarters.input_rows:
        for i, r in row.uses:
            for q in range(quarters.columns):
                pairs = [(None, s) for s in range(shape.s)] if row.outside else [
                    pair for taps in quarters.taps if taps.q == q for pair in taps.pairs]
                assert {c for c, _ in pairs} - {None} <= read
                found[i, q].update((None, None, r, s) if c is None else (row.row, c, r, s) for c, s in pairs)
    for i in range(quarters.rows):
        for q in range(quarters.columns):
            assert found[i, q] == products_wanted(shape, i, q)


# ---- the emitted text, executed

@pytest.mark.thin(3)
@on_the_cpu
@pytest.mark.parametrize("shape, values", [
    (depthwise(32, 7, 5, n=3, padding_mode="circular", dtype="float16"), {}),
    (depthwise(6, 9, 3, n=5, padding_mode="symmetric"), {"rows": 4, "planes": 4}),
    (depthwise(4, 3, 3, n=5, padding=((7, 6), (9, 8)), padding_mode="reflect"), {"weights": "shared"}),
    (depthwise(16, 6, 5, n=2, padding_mode="replicate", multiplier=2), {"rows": 6, "planes": 8, "weights": "shared"}),
    (depthwise(8, 10, 3, n=3, padding_mode="constant", padding_value=0.7, dtype="float16"), {"weights": "shared"})],
    ids=lambda value: str(value) if value else "")
def test_every_access_checked_with_a_border(shape, values):
    checks.check_checked(staged(shape, (BIAS, RELU), **values), shape)


# ---- what a compiler makes of it

@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")
@pytest.mark.parametrize("border", [{"padding_mode": "constant", "padding_value": 0.5}, {"padding_mode": "reflect"},
                                    {"padding_mode": "circular"}], ids=lambda border: border["padding_mode"])
@pytest.mark.parametrize("c, side", LAYERS)
def test_planned_defaults_with_a_border_do_not_spill(c, side, border):
    made = staged(depthwise(c, side, 5, **border))
    entry, = compilers.compile_source(render(made).text, arch="sm_90", kind=compilers.CompilerKind.NVRTC).entries
    assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
