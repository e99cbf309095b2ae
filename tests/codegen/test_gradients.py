"""Plans and texts of gradients: named algorithms and operations, what is stored, the banner's command, nothing idle."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from tests import emitted, gradients
from tests.cpu.test_gradients import FORMS, NAMES
from warpconv.cli import cli
from warpconv.codegen import adjoint
from warpconv.codegen.errors import ArgumentError, UnsupportedSpec
from warpconv.codegen.plan import Program
from warpconv.codegen.registry import ALGORITHMS, GRADIENTS, serving
from warpconv.codegen.render import render
from warpconv.codegen.resolution import plan
from warpconv.codegen.select import explain, plan_layer, select
from warpconv.codegen.serialise import decode, encode
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation
from warpconv.runtime.pack.check import check_program
from warpconv.runtime.pack.choice import serves

SAME = ConvShape(n=2, c=8, h=12, w=12, k=8, r=3, s=3, padding=1, groups=8)
OPERATIONS = tuple(NAMES.values())


def shape_of(form: str) -> ConvShape:
    return gradients.draw_shape(np.random.default_rng(7), **FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_stored_is_read_as_it_was(form, operation):
    made = plan_layer(shape_of(form), operation=operation)
    assert made.spec.operation is Operation(operation)
    assert decode(KernelSpec, json.loads(json.dumps(encode(made.spec)))) == made.spec
    assert decode(Program, json.loads(json.dumps(encode(made.program)))) == made.program


@pytest.mark.parametrize("form", FORMS)
def test_a_pack_takes_its_programs(form):
    shape = shape_of(form)
    for operation in OPERATIONS:
        made = plan_layer(shape, operation=operation)
        check_program(made.program, made.spec)
        for other in Operation:
            assert serves(made.spec, shape, (), operation=other) is (other.value == operation)
        with pytest.raises(ValueError, match="its arrays are"):
            check_program(replace(made.program, arguments=made.program.arguments[1:]), made.spec)


@pytest.mark.thin(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_text_says_nothing_idle(form, operation):
    assert not emitted.faults(render(plan_layer(shape_of(form), operation=operation)).text)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("stride", [1, 2])
def test_the_banners_command_gives_the_text_again(operation, stride):
    layer = ConvShape(c=8, h=64, w=64, k=8, r=3, s=3, padding=1, groups=8, stride=stride, dtype="float16",
                      layout="NHWC")
    text = render(plan_layer(layer, operation=operation)).text
    lines = text.split("Emit it again with\n", 1)[1].split("\n//\n", 1)[0].replace("//", "").replace("\\\n", " ")
    command = shlex.split(lines)
    assert command[:2] == ["warpconv", "emit"] and f"--operation {operation}" in " ".join(command)
    result = CliRunner().invoke(cli, command[1:])
    assert result.exit_code == 0 and result.stdout.rstrip() == text.rstrip()


def test_a_selection_is_planned_as_its_layer():
    for operation in OPERATIONS:
        chosen = select(SAME, operation=operation)
        assert render(plan(chosen)).text == render(plan_layer(SAME, operation=operation)).text


def test_who_is_asked():
    assert {row.name for row in serving(Operation.FORWARD)} == set(ALGORITHMS)
    own = {"phases", "phases_gemm", "phases_mma", "phases_wgmma"}
    assert {row.name for row in serving(Operation.DATA_GRADIENT)} == {*ALGORITHMS, *own}
    assert not set(ALGORITHMS) & set(GRADIENTS)
    answers = {found.algorithm: found for found in explain(SAME, operation="data_gradient")}
    assert answers["wide"].supported and answers["phases"].supported
    assert "library" in answers["im2col"].reason and "constant memory" in answers["constant"].reason
    layer = ConvShape(n=2, c=8, h=12, w=12, k=8, r=3, s=3, groups=8, stride=2)
    strided = {found.algorithm: found.reason for found in explain(layer, operation="data_gradient") if not found.plan}
    assert "strided" in strided["wide"] and "phases" not in strided
    with pytest.raises(ArgumentError, match="unknown operation"):
        plan_layer(SAME, operation="backward")
    with pytest.raises(UnsupportedSpec, match="forward is not served"):
        plan_layer(SAME, algorithm="phases")


def test_a_data_gradients_layer():
    layer = ConvShape(n=2, c=6, h=9, w=11, k=4, r=3, s=5, padding=((0, 2), (3, 1)), dilation=(2, 1), groups=2)
    forward = adjoint.layer_of(layer)
    assert (forward.input_shape, forward.output_shape) == (layer.output_shape, layer.input_shape)
    assert forward.padding == ((4, 2), (1, 3))
    assert adjoint.layer_of(forward) == layer
    made = plan_layer(layer, operation="data_gradient", algorithm="direct")
    first, last = made.program.steps
    assert first.entry == adjoint.TURN and last.arguments[:3] == ("dy", "turned", "dx")
    assert last.grid_of(layer) == plan_layer(forward, algorithm="direct").program.steps[0].grid_of(forward)


def test_a_data_gradient_by_descriptors():
    """What the forward layer's kernel asks of the target, and descriptors of the arrays by their names in the layer."""
    layer = ConvShape(n=2, c=64, h=14, w=15, k=128, r=3, s=3, padding=1, dtype="float16", layout="NHWC")
    made = plan_layer(layer, operation="data_gradient")
    assert (made.spec.algorithm, str(made.spec.arch)) == ("wgmma", "sm_90a")
    described = {d.argument: d for d in made.program.descriptors}
    assert described["x_map"].of == "dy" and described["x_map"].at(layer).sizes[:3] == (128, 15, 14)
    check_program(made.program, made.spec)
    assert plan_layer(layer, operation="data_gradient", arch="sm_80").spec.algorithm == "mma"


def test_a_workspace_over_the_limit_is_refused():
    with pytest.raises(UnsupportedSpec, match="workspace"):
        plan_layer(SAME, operation="filter_gradient", workspace_limit=8)
    assert plan_layer(SAME, operation="filter_gradient", workspace_limit=10**9)
