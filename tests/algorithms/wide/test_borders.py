"""Borders in ``wide`` and ``patch``: what is served and refused, what the text does, and every border executed."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from tests import checks, reference, settings
from warpconv.codegen.algorithms.wide.options import Guards, Separators
from warpconv.codegen.border import Border, BorderValue, element_bits
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts.occupancy import resident_blocks
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy.measure import measure
from warpconv.runtime.build import compilers, disassembly as sass

MODES = [mode for mode in Border if mode is not Border.ZEROS]
PIXELS = [mode for mode in MODES if mode.reads_image]
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def layer(size: int = 3, h: int = 40, w: int = 56, c: int = 1, mode: Border = Border.REFLECT, **fields) -> ConvShape:
    value = 0.5 if mode is Border.CONSTANT else 0.0
    return ConvShape(**{**dict(n=2, c=c, k=c, groups=c, h=h, w=w, r=size, s=size, padding=size // 2, padding_mode=mode,
                               padding_value=value), **fields})


def planned(shape: ConvShape, arch: str = "sm_90", algorithm: str = "wide", **values) -> KernelPlan:
    return plan_layer(shape, algorithm=algorithm, arch=arch, settings=values)


# ---- what is served

@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("size, side, c", [(3, 4096, 1), (7, 4096, 1), (11, 8192, 1), (3, 56, 96), (5, 112, 128),
                                           (21, 56, 16)])
def test_the_same_algorithm_is_chosen_as_for_zeros(mode, size, side, c):
    shape = layer(size, side, side, c, mode, n=32 if c > 1 else 1)
    chosen, usual = plan_layer(shape), plan_layer(replace(shape, padding_mode="zeros", padding_value=0.0))
    assert chosen.spec.algorithm == usual.spec.algorithm in ("wide", "patch")


@pytest.mark.thin(6)
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_every_width_has_a_plan(mode, arch):
    for width, size, dtype in itertools.product((*range(1, 35), 56, 97, 112, 130), (3, 5), ("float32", "float16")):
        shape = layer(size, 9, width, 3, mode, dtype=dtype)
        assert planned(shape, arch).program.refusal(shape) is None


def test_a_value_that_rows_cannot_hold_is_refused():
    shape = layer(mode=Border.CONSTANT, padding_value=0.1)
    assert planned(shape).spec.border_value is BorderValue.ELEMENT
    for dtype in ("float16", "bfloat16"):
        with pytest.raises(UnsupportedSpec, match=f"the border's value is no {dtype}"):
            planned(replace(shape, dtype=dtype))
        assert plan_layer(replace(shape, dtype=dtype)).spec.algorithm != "wide"


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_the_bits_of_a_value(dtype):
    element = reference.ELEMENTS[dtype]
    for value in (0.0, 1.0, -2.5, 3.0, 65504.0, 2.0**-14, 0.1, 1e30, 1 + 2.0**-9, 1 + 2.0**-20):
        with np.errstate(over="ignore"):
            rounded = np.float32(value).astype(element)
        exact = float(rounded) == float(np.float32(value))
        assert element_bits(dtype, float(np.float32(value))) == (int(rounded.view(np.uint16)) if exact else None)


@pytest.mark.parametrize("fields, values, says", [
    (dict(mode=Border.ZEROS), dict(separators="none", span="packed", row_lanes=14),
     "separators = none is for packed rows"),
    (dict(), dict(separators="none", span="strips"), "separators = none is for packed rows"),
    (dict(w=4), dict(span="packed", row_lanes=1, loads="registers", stage_steps=1, separators="select"),
     "1 to the right of 1")])
def test_plan_values_that_do_not_go_together(fields, values, says):
    with pytest.raises(UnsupportedSpec, match=re.escape(says)):
        planned(layer(**fields), **values)


def test_whole_rows_ask_for_their_width():
    made = planned(layer(3, 56, 56, 8))
    assert made.options.separators.value == "none" and made.numbers.whole_rows
    assert "W = 56" in made.program.refusal(layer(3, 56, 52, 8))


@pytest.mark.parametrize("mode, least", [(Border.REPLICATE, 1), (Border.REFLECT, 4), (Border.SYMMETRIC, 3),
                                         (Border.CIRCULAR, 3)], ids=lambda value: getattr(value, "value", value))
def test_rows_outside_are_worked_out_in_images_taller_than_their_border(mode, least):
    """Where what stands beside a row is in its lanes; lower images have a plan of another form."""
    fields = dict(size=5, c=8, mode=mode, padding=((1, 3), (2, 2)))
    made = planned(layer(h=least, **fields))
    assert made.numbers.closed_rows and made.numbers.border.rows == "folded"
    assert made.program.argument("H").at_least == least and made.program.refusal(layer(h=least, **fields)) is None
    if least > 1:
        assert f"H at least {least}" in made.program.refusal(layer(h=least - 1, **fields))
        low = planned(layer(h=least - 1, **fields))
        assert low.options.separators is Separators.SELECT and low.program.refusal(layer(h=least - 1, **fields)) is None


@pytest.mark.parametrize("mode", PIXELS, ids=lambda mode: mode.value)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_widths_of_networks_fill_their_lanes(dtype, mode):
    """Narrower lanes than with zeros where these would leave a row's last lane partly outside."""
    for size, width in itertools.product((3, 5), (14, 28, 56, 112)):
        made = planned(layer(size, width, width, 8, mode, dtype=dtype))
        assert made.numbers.closed_rows and made.options.row_lanes * made.options.columns == width, (size, width)
    assert planned(layer(3, 7, 7, 8, mode, dtype=dtype)).numbers.closed_rows


@pytest.mark.thin(2)
@pytest.mark.parametrize("mode", PIXELS, ids=lambda mode: mode.value)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("loads", ["registers", "cached"])
def test_columns_beside_a_row_are_those_of_its_lanes(loads, dtype, mode):
    """Each column that a lane at an end replaces, by its own number: what the border has there in rows of any width."""
    told = 0
    for size, columns in itertools.product((3, 5, 7, 9), (1, 2, 4, 8)):
        shape = layer(size, 40, 8 * columns, 4, mode, dtype=dtype)
        numbers = planned(shape, span="packed", row_lanes=8, separators="none", columns=columns, vector=min(columns, 4),
                          store_vector=1, loads="registers" if columns == 1 else loads, prefetch_rows=1,
                          stage_steps=1).numbers
        assert numbers.closed_rows == (size // 2 <= columns), (size, columns)
        for end in numbers.row_ends:
            first = 0 if end.lane == "first" else 7 * columns
            for outside, own in end.columns:
                column, taken = (int(name[3:].replace("m", "-")) for name in (outside, own))
                assert -columns <= taken < 2 * columns and 0 <= first + taken < shape.w
                assert first + taken == mode.index(first + column, shape.w)
                assert not 0 <= first + column < shape.w
                told += 1
    assert (told > 0) == (mode is not Border.CIRCULAR)


# ---- the text

@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_rows_that_are_copied_ahead_know_the_border_in_stages_of_their_own(mode):
    made = planned(layer(5, 512, 512, mode=mode, n=1))
    text = render(made).text
    assert made.numbers.apart and made.options.edges is Guards.GUARDED
    assert "sub_block<true>" not in text and text.count("stage(true)") == text.count("stage(false)") == 1
    for line in text.splitlines():
        if "at_border(h" in line or "(unsigned)h <" in line:
            assert "inside ? 0 :" in line or "if (inside ||" in line, line
    assert ("at_border" in text) == mode.reads_image and ("BORDER" in text) == (mode is Border.CONSTANT)
    assert "steps below the image" not in text      # every row counts


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_the_interior_of_rows_in_registers_is_that_of_zeros(mode):
    """Rows and columns are looked up where a sub-block is not in the interior only."""
    text = render(planned(layer(5, 512, 512, mode=mode), loads="registers", prefetch_rows=1, stage_steps=1)).text
    assert text.count("sub_block<true>") == 1
    for line in re.sub(r"(?<![;{}])\n +", " ", text).splitlines():     # a statement over several lines is one
        if "at_border(h" in line or "own_outside_0" in line and "const" not in line:
            assert "!INTERIOR" in line or "own_from_" in line, line
    assert "steps below the image" not in text


LOOP = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)[^;]*?(?:0x([0-9a-f]+))?\s*;")


def copying_loop(text: str) -> int:
    """Instructions of the shortest loop that both copies rows and multiplies: the interior's."""
    found = [(int(at, 16), opcode, int(target or "0", 16))
             for match in map(LOOP.match, text.splitlines()) if match for at, opcode, target in [match.groups()]]
    loops = [[opcode for at, opcode, _ in found if target <= at <= end]
             for end, branch, target in found if branch == "BRA" and target < end]
    return min(len(body) for body in loops if body.count("FFMA") > 60 and "LDGSTS" in body)


@pytest.mark.long
@pytest.mark.skipif(sass.available() is None or not compilers.available()[compilers.CompilerKind.NVCC],
                    reason="nvcc or a disassembler is not installed")
@pytest.mark.parametrize("size", [3, 5, 7, 9, 11])
def test_no_border_takes_more_instructions_or_registers_than_zeros(size):
    """What the compiler makes of a plane: the interior's loop, how many warps stay, and nothing spilled."""
    def compiled(mode: Border) -> tuple[int, int, int]:
        made = planned(layer(size, 4096, 4096, mode=mode, n=1))
        built = compilers.compile_source(render(made).text, arch="sm_90", kind=compilers.CompilerKind.NVCC)
        entry, = built.entries
        assert entry.spill_stores == entry.spill_loads == entry.stack_bytes == 0, (mode, entry)
        resident = resident_blocks(made.spec.hardware, entry.registers, made.numbers.threads)
        return copying_loop(sass.disassemble(built.cubin)), resident, made.options.min_blocks

    instructions, resident, min_blocks = compiled(Border.ZEROS)
    for mode in (Border.CONSTANT, settings.generator(size).choice(PIXELS)):
        found = compiled(mode)
        assert found[0] <= 1.02 * instructions and found[1] >= resident and found[2] == min_blocks, (mode, found)


@pytest.mark.parametrize("size, dtype", [(3, "float32"), (5, "float32"), (3, "float16")])
@pytest.mark.parametrize("mode", PIXELS, ids=lambda mode: mode.value)
def test_what_stands_beside_whole_rows_is_not_loaded(mode, size, dtype):
    """As many loads a row, or copies, as lanes have vectors; no search for rows or columns outside."""
    made = planned(layer(size, 56, 56, 8, mode, dtype=dtype))
    text = render(made).text
    assert made.numbers.closed_rows and made.numbers.own_loads == 1
    assert text.count("__ldg((const float4*)(from))") + text.count("wc_copy_async_if_16(takes_part,") == 1
    assert "edge_" not in text and "outside_from" not in text and "while (i" not in text and "row_outside" not in text
    selects = [line for line in text.splitlines() if re.match(r" +if \((first|last)_of_row\)", line)]
    assert len(selects) == (0 if mode is Border.CIRCULAR else 2)


# ---- executed

LOADS = [dict(loads="registers", prefetch_rows=2, stage_steps=1), dict(loads="async", prefetch_rows=2, stage_steps=1),
         dict(loads="cached", prefetch_rows=4, stage_steps=2)]


@pytest.mark.long
@on_cpu_device
@pytest.mark.parametrize("values", LOADS, ids=lambda values: values["loads"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_every_border_however_rows_are_loaded(mode, values):
    """Strips with an interior, packed rows, images smaller than the filter, more padding than filter; 16 bits."""
    for i, (h, w, padding, dtype) in enumerate([
            (40, 300, 2, "float32"), (9, 56, 2, "float32"), (2, 8, ((7, 6), (5, 9)), "float16"),
            (1, 1, 4, "float32"), (3, 2, ((0, 4), (3, 0)), "bfloat16"), (33, 270, ((1, 3), (2, 7)), "float16")]):
        shape = layer(5, h, w, 1 + i % 2, mode, padding=padding, dtype=dtype)
        usual = planned(shape).options
        if values["loads"] != "registers" and usual.vector * shape.dtype.itemsize < 4:
            continue        # such rows are loaded to registers, as the first of LOADS has them
        checks.check_checked(planned(shape, **values), shape, seed=i)


@pytest.mark.long
@on_cpu_device
@pytest.mark.parametrize("values", LOADS, ids=lambda values: values["loads"])
@pytest.mark.parametrize("mode", PIXELS, ids=lambda mode: mode.value)
def test_whole_rows(mode, values):
    """Rows of one lane and of many, images as low as their plan allows, steps of two rows, gaps between filter rows,
    lanes without a plane, windows that end before the row does."""
    layers = [
        (layer(3, 2, 56, 3, mode), {}), (layer(5, 3, 28, 5, mode), {}), (layer(3, 19, 4, 9, mode), {}),
        (layer(5, 33, 112, 1, mode, dtype="float16"), {}), (layer(3, 9, 112, 2, mode, stride=2), {}),
        (layer(3, 14, 16, 3, mode, dtype="bfloat16", padding=((2, 0), (1, 0))), {}),
        (layer(3, 12, 24, 2, mode, dilation=2, padding=2), {}),
        (layer(3, 7, 4, 3, mode), dict(columns=4, vector=4, store_vector=4, row_lanes=1))]
    for i, (shape, more) in enumerate(layers):
        made = planned(shape, **{**values, **more})
        assert made.numbers.closed_rows, shape
        checks.check_checked(made, shape, seed=i)


@pytest.mark.thin(10)
@on_cpu_device
@pytest.mark.parametrize("values", LOADS, ids=lambda values: values["loads"])
@pytest.mark.parametrize("mode", PIXELS, ids=lambda mode: mode.value)
def test_whole_rows_take_a_load_a_row_and_the_exchange_of_their_window(mode, values):
    """Counted: a load or a copy for a warp's row, and a shuffle for each column of another lane; rows outside, above
    and below, take no more."""
    for size in (3, 5):
        shape = layer(size, 24, 56, 2, mode, n=1)
        made = planned(shape, sub_block_rows=24, warp_rows=1, warp_planes=1, **values)
        bands = made.program.steps[0].grid_of(shape)[1]
        assert 24 % bands == 0 and (24 // bands + size - 1) % made.numbers.together == 0     # whole sub-blocks
        found = measure(made, shape)
        assert found.buffers["x"].load_requests == bands * (24 // bands + size - 1)
        assert found.shuffles == found.buffers["x"].load_requests * len(made.numbers.takes)
        assert len(made.numbers.takes) == size - 1


@pytest.mark.long
@on_cpu_device
@pytest.mark.parametrize("mode", PIXELS, ids=lambda mode: mode.value)
def test_the_same_bits_whether_rows_are_whole(mode):
    shape = layer(5, 21, 56, 3, mode)
    x, w, _ = reference.operands(shape, settings.generator(7))
    made = [planned(shape, separators=gaps, **values) for gaps in ("none", "select") for values in LOADS]
    assert [plan.numbers.closed_rows for plan in made] == [True] * len(LOADS) + [False] * len(LOADS)
    outputs = [checks.cpu_kernel(plan)(x, w) for plan in made]
    assert all(np.array_equal(output, outputs[0]) for output in outputs)


@pytest.mark.thin(6)
@on_cpu_device
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_several_channels(mode):
    for i, (h, w) in enumerate([(20, 140), (9, 12), (1, 2)]):
        shape = layer(3, h, w, mode=mode, c=1, groups=1, dtype=("float32", "float16")[i % 2])
        shape = replace(shape, c=3, k=2, padding=((2, 1), (1, 2)))
        checks.check_checked(planned(shape), shape, seed=i)


@pytest.mark.thin(6)
@on_cpu_device
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_patch_has_every_border(mode):
    images = [(30, 28, 6), (3, 5, 6), (1, 1, ((9, 8), (7, 12))), (70, 33, ((0, 6), (6, 0)))]
    for i, (h, w, padding) in enumerate(images):
        shape = layer(13, h, w, 1 + i % 2, mode, padding=padding, dtype=("float32", "float16")[i % 2])
        checks.check_checked(planned(shape, algorithm="patch"), shape, seed=i)


@pytest.mark.long
@on_cpu_device
def test_the_same_bits_as_of_a_padded_copy():
    rng = settings.generator(3)
    for mode in PIXELS:
        shape = layer(5, 21, 75, 1, mode, n=1)
        x, w, _ = reference.operands(shape, rng)
        padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), reference.PAD_MODES[mode])
        plain = ConvShape(c=1, k=1, h=25, w=79, r=5, s=5)
        values = dict(columns=1, vector=1, store_vector=1, span="strips", row_lanes=32, loads="cached", prefetch_rows=2,
                      stage_steps=1, separators="zero_lanes")
        made, copied = (checks.cpu_kernel(planned(shape_, **values))(data, w) for shape_, data in
                        ((shape, x), (plain, padded)))
        assert np.array_equal(made, copied)
