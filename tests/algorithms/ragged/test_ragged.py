"""``ragged``: pairs of all that its plans can be, with every access checked; what it refuses, stores and says."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests import cases, checks, emitted, reference, settings
from tests.axes import RESIDUAL
from warpconv.cli import cli
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan, Program
from warpconv.codegen.registry import serving
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.serialise import decode, encode
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation
from warpconv.runtime.arrays.view import ArrayView
from warpconv.runtime.build import compilers
from warpconv.runtime.call import ragged
from warpconv.runtime.call.ragged import Places, host_view
from warpconv.runtime.devices.cpu import Mode
from warpconv.runtime.pack.check import check_program

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

DTYPE_OF_TABLE = DType.INT32       # of its memory, as words
SIZES = ((1, 1), (1, 70), (45, 2), (8, 64), (33, 65), (7, 9))      # of planes in one launch


def parameters() -> list[Any]:
    """The kept table; quick is a part of it with every value."""
    quick = set(cases.every_value("ragged"))
    return [pytest.param(case, id=case.id, marks=() if case in quick else pytest.mark.long)
            for case in cases.table("ragged")]


def flat(rng: np.random.Generator, arrays: list[np.ndarray], gaps: bool, dtype: Any) -> tuple[ArrayView, Places]:
    """Planes behind one another in one memory; with ``gaps`` further apart, each second one turned round."""
    offsets, strides, parts, end = [], [], [], 0
    for number, array in enumerate(arrays):
        rows, columns = array.shape
        if not gaps:
            part, offset, step = array, 0, (columns, 1)
        elif number % 2:        # columns before rows, the last row first
            part, offset, step = array[::-1].T, rows - 1, (-1, rows)
        else:
            part, offset, step = np.repeat(array, 2, 1), 0, (2 * columns, 2)
        offsets.append(end + offset)
        strides.append(step)
        parts.append(np.ascontiguousarray(part).reshape(-1))
        end += part.size
    view = host_view(np.concatenate(parts), dtype)
    return view, Places(view, np.array(offsets), np.array(strides))


def check(plan: KernelPlan, shape: ConvShape, mode: Mode, seed: int) -> None:
    """Planes of all sizes, with two filters in turn, against float64."""
    rng, spec = settings.generator(seed), plan.spec
    shapes = [replace(shape, h=h, w=w) for h, w in SIZES]
    operands = [reference.operands(each, rng) for each in shapes]
    images = [x[0, 0] for x, _, _ in operands]
    filters = [w for _, w, _ in operands]
    residuals = [reference.residual(each, rng)[0, 0] for each in shapes] if RESIDUAL in spec.epilogue else None
    poison = [reference.poisoned(each)[0, 0] for each in shapes]
    kernel = checks.cpu_kernel(plan, mode).for_border(shape.padding_value)
    _, x = flat(rng, images, True, spec.dtype)
    memory, y = flat(rng, poison, False, spec.y_dtype)
    added = None if residuals is None else flat(rng, residuals, False, spec.y_dtype)[1]
    made, tiles = ragged.table_of(kernel, np.array(SIZES), (0, 1), x, y, added, filters=True)
    weights = host_view(np.concatenate([w.reshape(-1) for w in filters]), spec.w_dtype)
    ragged.run(kernel, made, tiles, weights, host_view(made.view(np.int32), DTYPE_OF_TABLE), x, y, added, None)
    at = 0
    for i, each in enumerate(shapes):
        size = each.h * each.w
        found = np.asarray(memory.owner)[at:at + size].reshape(1, 1, each.h, each.w)
        residual = None if residuals is None else residuals[i][None, None]
        wanted = reference.expected(images[i][None, None], filters[i], each, residual=residual, epilogue=spec.epilogue,
                                    numerics=spec.numerics)
        wanted.check(found, f"plane {i}, {spec}, values {plan.settings()}")
        at += size


@pytest.mark.thin(6)
@on_cpu_device
@pytest.mark.parametrize("case", parameters())
def test_values(case):
    check(case.plan(), case.shape(1, 64, 64), Mode.CHECK, case.number)


# ---- tables

class Kernel:
    """As far as a table is made for it."""

    def __init__(self, plan: KernelPlan):
        self.program = plan.program


def test_planes_of_images_with_more_axes_and_none_of_empty_ones():
    kernel = Kernel(plan_layer(ConvShape(c=1, k=1, h=9, w=9, r=3, s=3, padding=1), operation="ragged"))
    shapes = np.array([(2, 40, 70), (3, 0, 5), (1, 33, 1)])
    strides = np.array([(2800, 70, 1), (0, 5, 1), (33, 1, 1)])
    places = Places(host_view(np.zeros(1, np.float32), DTYPE_OF_TABLE), np.array([0, 5600, 5600]), strides)
    table_, tiles = ragged.table_of(kernel, shapes, (1, 2), places, places, None, filters=True)
    assert table_[:, :11].tolist() == [
        [3] + [0] * 10, [0, 0, 0, 0, 40, 70, 70, 1, 70, 1, 0], [4, 2800, 2800, 0, 40, 70, 70, 1, 70, 1, 0],
        [8, 5600, 5600, 0, 33, 1, 1, 1, 1, 1, 2]]
    assert tiles == 10      # of 64 x 32
    nothing, none = ragged.table_of(kernel, np.array([(0, 4)]), (0, 1), Places(
        places.memory, np.array([0]), np.array([(4, 1)])), places, None, filters=False)
    assert none == 0 and nothing[0, 0] == 0


# ---- plans

def test_refusals():
    good = ConvShape(c=1, k=1, h=64, w=64, r=3, s=3, padding=1)
    for changes, reason in (({"c": 2, "groups": 1}, "only planes"), ({"stride": 2}, "stride"), ({"padding": 0}, "size"),
                            ({"r": 65, "padding": ((32, 32), (1, 1))}, "65 rows"), ({"layout": "NHWC"}, "layout"),
                            ({"r": 9, "s": 1001, "padding": ((4, 4), (500, 500))}, "shared memory")):
        with pytest.raises(UnsupportedSpec, match=reason):
            plan_layer(replace(good, **changes), operation="ragged")
    for values, reason in (({"tile_columns": 12}, "multiples of 8"), ({"tile_rows": 4096}, "at most 1024")):
        with pytest.raises(UnsupportedSpec, match=reason):
            plan_layer(good, operation="ragged", settings=values)
    with pytest.raises(UnsupportedSpec, match="volumes are not served"):
        plan_layer(ConvShape(c=1, k=1, d=9, h=9, w=9, t=3, r=3, s=3, padding=1), operation="ragged")
    with pytest.raises(UnsupportedSpec, match="no bias"):
        plan_layer(good, operation="ragged", epilogue=["bias"])
    with pytest.raises(UnsupportedSpec, match="forward is not served"):
        plan_layer(good, algorithm="ragged")
    assert [row.name for row in serving(Operation.RAGGED)] == ["ragged"]


def test_what_is_stored_is_read_as_it_was_and_a_pack_takes_it():
    for case in cases.every_value("ragged"):
        made = case.plan()
        assert decode(KernelSpec, json.loads(json.dumps(encode(made.spec)))) == made.spec
        assert decode(Program, json.loads(json.dumps(encode(made.program)))) == made.program
        check_program(made.program, made.spec)
        with pytest.raises(ValueError, match="its arrays are"):
            check_program(replace(made.program, arguments=made.program.arguments[1:]), made.spec)
        assert ragged.tile_of(Kernel(made)) == tuple(dict(case.values).values())      # of a program alone


def test_texts_say_nothing_idle_and_their_command_gives_them_again():
    for case in cases.every_value("ragged"):
        text = render(case.plan()).text
        assert not emitted.faults(text)
    lines = text.split("Emit it again with\n", 1)[1].split("\n//\n", 1)[0].replace("//", "").replace("\\\n", " ")
    command = shlex.split(lines)
    result = CliRunner().invoke(cli, command[1:])
    assert result.exit_code == 0 and result.stdout.rstrip() == text.rstrip()


@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")
def test_arrays_stay_in_registers():
    for case in cases.every_value("ragged"):
        made = case.plan()
        entry, = compilers.compile_source(render(made).text, arch=str(made.spec.arch),
                                          kind=compilers.CompilerKind.NVRTC).entries
        assert not (entry.spill_stores or entry.spill_loads or entry.stack_bytes), (made.spec, entry.registers)
