"""Specs, programs and plans as JSON and back."""

import dataclasses
import json

import pytest

from tests import cases
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.plan import (Argument, Blocks, Extent, Launch, LibraryCall, Preparation, Program, Repeat, Role,
                                   Workspace)
from warpconv.codegen.serialise import canonical, decode, encode, plan_digest
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

LAUNCH = Launch(entry="k", grid=(Blocks(of=Dimension.Q, add=31, per=32), Blocks(times=3), Blocks(of=Dimension.N)),
                block=(32, 2, 1), arguments=("x", "y"), shared_bytes=16)
PROGRAM = Program(
    arguments=(Argument(name="x", role=Role.INPUT, c_type="float"), Argument(name="N", role=Role.SIZE, c_type="int")),
    steps=(LAUNCH, LibraryCall(operation="gemm", operands=("a", "b")),
           Repeat(of=Dimension.N, index="image", steps=(LAUNCH,))),
    workspaces=(Workspace(name="a", bytes_each=4, per=(Extent(of=Dimension.N), Extent(of=Dimension.W, add=2)),
                          last_step=1),),
    preparation=Preparation(steps=(LAUNCH,), buffer=Workspace(name="b", bytes_each=64), constant="bank",
                            constant_bytes=100))


def through_json(value):
    return json.loads(json.dumps(encode(value)))


@pytest.mark.parametrize("case", cases.table()[::36], ids=lambda case: case.id)
def test_round_trip_of_plans(case):
    plan = case.plan()
    assert decode(KernelSpec, through_json(plan.spec)) == plan.spec
    assert decode(Program, through_json(plan.program)) == plan.program
    assert decode(type(plan.options), through_json(plan.options)) == plan.options
    assert decode(ConvShape, through_json(case.shape(2, 150, 160))) == case.shape(2, 150, 160)


def test_round_trip_of_a_program_of_several_steps():
    assert decode(Program, through_json(PROGRAM)) == PROGRAM
    bare = dataclasses.replace(PROGRAM, preparation=None, workspaces=())
    assert decode(Program, through_json(bare)) == bare


def _without(data, *path):
    for key in path[:-1]:
        data = data[key]
    del data[path[-1]]


def _set(data, value, *path):
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


@pytest.mark.parametrize("damage", [
    lambda d: _without(d, "steps"), lambda d: _without(d, "arguments", 0, "role"), lambda d: _set(d, 5, "steps"),
    lambda d: _set(d, "launcher", "steps", 0, "kind"), lambda d: _set(d, "elsewhere", "arguments", 0, "role"),
    lambda d: _set(d, "many", "workspaces", 0, "bytes_each"), lambda d: _set(d, [1, 2], "steps", 0, "block"),
    lambda d: _set(d, None, "steps", 0, "entry"), lambda d: _set(d, "B", "steps", 0, "grid", 0, "of"),
    lambda d: _set(d, "text", "steps", 0), lambda d: _set(d, [], "preparation"), lambda d: _set(d, None, "steps", 1)])
def test_malformed_data_is_a_typed_error(damage):
    data = through_json(PROGRAM)
    damage(data)
    with pytest.raises(ArgumentError) as caught:
        decode(Program, data)
    assert caught.value.argument == "data" and "Program" in str(caught.value)


@pytest.mark.parametrize("data", [None, 3, [], "text", {}, {"algorithm": "reuse"}])
def test_what_is_no_spec_at_all(data):
    with pytest.raises(ArgumentError):
        decode(KernelSpec, data)


@pytest.mark.long
def test_canonical_text_is_that_of_equal_values_only():
    plans = [case.plan() for case in cases.every_value()]
    assert len({canonical(plan.spec) + canonical(plan.settings()) for plan in plans}) == len(
        {(plan.spec, tuple(plan.settings().items())) for plan in plans})
    assert canonical({"b": 1, "a": 2}) == canonical({"a": 2, "b": 1}) == '{"a":2,"b":1}'
    assert plan_digest(plans[0]) == plan_digest(cases.every_value()[0].plan()) and len(plan_digest(plans[0])) == 32
