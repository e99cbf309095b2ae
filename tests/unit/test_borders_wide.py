"""Borders in ``wide`` and ``patch``: what is served and refused, what the text does, and every border executed."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from tests import checks, reference, settings
from warpconv.codegen.algorithms.base import resident_blocks
from warpconv.codegen.algorithms.wide_borders import element_bits
from warpconv.codegen.algorithms.wide_options import Edges
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import compilers, sass

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


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_every_width_has_a_plan(mode, arch):
    for width, size, dtype in itertools.product((*range(1, 35), 56, 97, 112, 130), (3, 5), ("float32", "float16")):
        shape = layer(size, 9, width, 3, mode, dtype=dtype)
        assert planned(shape, arch).program.refusal(shape) is None


def test_a_value_that_rows_cannot_hold_is_refused():
    shape = layer(mode=Border.CONSTANT, padding_value=0.1)
    assert planned(shape).spec.padding_value == np.float32(0.1)
    for dtype in ("float16", "bfloat16"):
        with pytest.raises(UnsupportedSpec, match=f"a border of 0.1\\d* is no {dtype}"):
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
    (dict(mode=Border.ZEROS), dict(gaps="none", span="packed", row_lanes=14), "gaps = none is for packed rows"),
    (dict(), dict(gaps="none", span="strips"), "gaps = none is for packed rows"),
    (dict(w=4), dict(span="packed", row_lanes=1, loads="registers", turn_steps=1), "1 to the right of 1")])
def test_plan_values_that_do_not_go_together(fields, values, says):
    with pytest.raises(UnsupportedSpec, match=re.escape(says)):
        planned(layer(**fields), **values)


def test_whole_rows_ask_for_their_width():
    made = planned(layer(3, 56, 56, 8))
    assert made.options.gaps.value == "none" and made.numbers.whole_rows
    assert "W = 56" in made.program.refusal(layer(3, 56, 52, 8))


# ---- the text

@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_rows_that_are_copied_ahead_know_the_border_in_turns_of_their_own(mode):
    made = planned(layer(5, 512, 512, mode=mode, n=1))
    text = render(made).text
    assert made.numbers.apart and made.options.edges is Edges.GUARDED
    assert "sub_block<true>" not in text and text.count("turn(true)") == text.count("turn(false)") == 1
    for line in text.splitlines():
        if "at_border(h" in line or "(unsigned)h <" in line:
            assert "inside ? 0 :" in line or "if (inside ||" in line, line
    assert ("at_border" in text) == mode.reads_image and ("BORDER" in text) == (mode is Border.CONSTANT)
    assert "steps below the image" not in text      # every row counts


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_the_interior_of_rows_in_registers_is_that_of_zeros(mode):
    """Rows and columns are looked up where a sub-block is not in the interior only."""
    text = render(planned(layer(5, 512, 512, mode=mode), loads="registers", rows_ahead=1, turn_steps=1)).text
    assert text.count("sub_block<true>") == 1
    for line in text.splitlines():
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
        resident = resident_blocks(made.spec.arch, entry.registers, made.numbers.threads)
        return copying_loop(sass.disassemble(built.cubin)), resident, made.options.min_blocks

    instructions, resident, min_blocks = compiled(Border.ZEROS)
    for mode in (Border.CONSTANT, settings.generator(size).choice(PIXELS)):
        found = compiled(mode)
        assert found[0] <= 1.02 * instructions and found[1] >= resident and found[2] == min_blocks, (mode, found)


# ---- executed

LOADS = [dict(loads="registers", rows_ahead=2, turn_steps=1), dict(loads="async", rows_ahead=2, turn_steps=1),
         dict(loads="cached", rows_ahead=4, turn_steps=2)]


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


@on_cpu_device
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_several_channels(mode):
    for i, (h, w) in enumerate([(20, 140), (9, 12), (1, 2)]):
        shape = layer(3, h, w, mode=mode, c=1, groups=1, dtype=("float32", "float16")[i % 2])
        shape = replace(shape, c=3, k=2, padding=((2, 1), (1, 2)))
        checks.check_checked(planned(shape), shape, seed=i)


@on_cpu_device
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_patch_has_every_border(mode):
    for i, (h, w, padding) in enumerate([(30, 28, 6), (3, 5, 6), (1, 1, ((9, 8), (7, 12))), (70, 33, ((0, 6), (6, 0)))]):
        shape = layer(13, h, w, 1 + i % 2, mode, padding=padding, dtype=("float32", "float16")[i % 2])
        checks.check_checked(planned(shape, algorithm="patch"), shape, seed=i)


@on_cpu_device
def test_the_same_bits_as_of_a_padded_copy():
    rng = settings.generator(3)
    for mode in PIXELS:
        shape = layer(5, 21, 75, 1, mode, n=1)
        x, w, _ = reference.operands(shape, rng)
        padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), reference.PAD_MODES[mode])
        plain = ConvShape(c=1, k=1, h=25, w=79, r=5, s=5)
        values = dict(columns=1, vector=1, store_vector=1, span="strips", row_lanes=32, loads="cached", rows_ahead=2,
                      turn_steps=1, gaps="zero_lanes")
        made, copied = (checks.cpu_kernel(planned(shape_, **values))(data, w) for shape_, data in
                        ((shape, x), (plain, padded)))
        assert np.array_equal(made, copied)
