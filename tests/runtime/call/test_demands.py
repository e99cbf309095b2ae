"""What a plan asks of sizes and addresses: refused by its kernel before a launch, seen to by conv2d."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.runtime.arrays.fake_arrays import torch  # noqa: F401
from tests.runtime.call.test_quick_calls import ORDINAL, SHAPE, Operands, dense, load
from tests.runtime.devices.fake_cuda import PRIMARY, cuda  # noqa: F401
from warpconv.codegen import resolution
from warpconv.codegen.errors import ArgumentError, ShapeError, UnsupportedSpec
from warpconv.codegen.select import plan_layer
from warpconv.runtime import tuning
from warpconv.runtime.call import conv, kernels
from warpconv.runtime.devices.cuda import contexts


def demanding(plan, **demands):
    """The plan, asking of its arguments: name -> what."""
    arguments = tuple(replace(a, **demands.get(a.name, {})) for a in plan.program.arguments)
    return replace(plan, program=replace(plan.program, arguments=arguments))


DIRECT = plan_layer(SHAPE, algorithm="direct")


@pytest.fixture(autouse=True)
def current(cuda):
    cuda.stack.append(PRIMARY + ORDINAL)


@pytest.fixture
def planned(cuda, monkeypatch):
    """conv2d's plans by a function of ours; gives what was asked of it, and loads onto the stand-in."""
    asked = []

    def use(make):
        def resolve(request, tuning):
            settings = dict(request.settings) or None
            asked.append((request.algorithm, settings))
            made = make(request.layer, algorithm=request.algorithm, settings=settings, tuning=tuning,
                        arch=request.target, epilogue=request.epilogue, numerics=request.numerics,
                        workspace_limit=request.workspace_limit)
            if made.program.refusal(request.layer) is not None:
                raise UnsupportedSpec(made.spec, made.program.refusal(request.layer))
            return SimpleNamespace(plan=made)

        monkeypatch.setattr(resolution, "resolve", resolve)
        return asked

    monkeypatch.setattr(kernels, "_load_cuda", lambda text, ordinal: load(cuda, text.plan, ordinal))
    conv.clear()
    yield use
    conv.clear()


@pytest.mark.parametrize("name, demand, words", [
    ("W", {"multiple_of": 4}, "W a multiple of 4, not 11"), ("N", {"exactly": 1}, "N = 1, not 2"),
    ("H", {"at_most": 8}, "H at most 8, not 9"), ("H", {"at_least": 10}, "H at least 10, not 9")])
def test_a_kernel_refuses_sizes(cuda, torch, name, demand, words):
    kernel, operands = load(cuda, demanding(DIRECT, **{name: demand})), Operands(torch)
    for _ in range(2):
        with pytest.raises(ShapeError, match=words) as caught:
            kernel(operands.x, operands.w, out=operands.y)
    assert caught.value.argument == "input" and caught.value.value == SHAPE.input_shape
    assert "conv2d" in caught.value.hint and cuda.launched == []


@pytest.mark.parametrize("name, operand, argument", [("x", "x", "input"), ("w", "w", "weight"), ("y", "y", "out")])
def test_a_kernel_refuses_addresses(cuda, torch, name, operand, argument):
    kernel, operands = load(cuda, demanding(DIRECT, **{name: {"multiple_of": 16}})), Operands(torch)
    tensor = getattr(operands, operand)
    kernel(operands.x, operands.w, out=operands.y)
    for _ in range(2):                          # 4 and 8 bytes past a multiple of 16
        tensor._pointer += 4
        with pytest.raises(ArgumentError, match=f"{name} a multiple of 16 bytes") as caught:
            kernel(operands.x, operands.w, out=operands.y)
        assert caught.value.argument == argument and "vector" in caught.value.hint
    tensor._pointer += 8
    kernel(operands.x, operands.w, out=operands.y)
    assert len(cuda.launched) == 2


def test_a_filters_own_memory_is_aligned(cuda, torch):
    kernel, operands = load(cuda, demanding(DIRECT, w={"multiple_of": 16})), Operands(torch)
    operands.w._pointer += 4
    kernel(operands.x, kernel.prepare(operands.w), out=operands.y)
    assert cuda.arguments[0][1] % 256 == 0


def test_conv2d_takes_another_plan_for_odd_addresses(cuda, torch, planned):
    def make(shape, *, algorithm, **more):
        plan = plan_layer(shape, algorithm="direct", **more)
        return plan if algorithm == "direct" else demanding(plan, x={"multiple_of": 16})

    asked = planned(make)
    odd, even = Operands(torch), Operands(torch)
    odd.x._pointer += 4
    for operands in (odd, even, odd, odd, even):
        conv.conv2d(operands.x, operands.w, padding=1, out=operands.y)
    assert [arguments[:3] for arguments in cuda.arguments] == [o.pointers for o in (odd, even, odd, odd, even)]
    assert asked == [("auto", None), ("direct", None)] and len(kernels.by_plan) == 2


@pytest.mark.parametrize("still, expected", [(1, [("auto", None), ("direct", {"vector": 1})]),
                                             (16, [("auto", None), ("direct", {"vector": 1}), ("direct", None)])])
def test_the_same_algorithm_without_vectors_comes_first(cuda, torch, planned, monkeypatch, still, expected):
    class Vectors(type(DIRECT)):
        def settings(self):
            return {**super().settings(), "vector": 4}

    def make(shape, *, algorithm, settings, **more):
        plan = plan_layer(shape, algorithm="direct", settings={"k_tile": 2} if settings else None, **more)
        if algorithm == "direct" and settings is None:
            return plan
        multiple = still if settings else 16
        plan = demanding(plan, x={"multiple_of": multiple}) if multiple > 1 else plan
        return Vectors(**{name: getattr(plan, name) for name in plan.__dataclass_fields__})

    asked = planned(make)
    operands = Operands(torch)
    operands.x._pointer += 4
    for _ in range(3):
        conv.conv2d(operands.x, operands.w, padding=1, out=operands.y)
    assert asked == expected and [a[:3] for a in cuda.arguments] == [operands.pointers] * 3


def test_conv2d_does_not_share_a_kernel_with_a_batch_it_is_not_for(cuda, torch, planned):
    def make(shape, *, algorithm, **more):
        plan = plan_layer(shape, algorithm="direct", **more)
        return plan if shape.n % 2 else demanding(plan, N={"multiple_of": 2})

    asked = planned(make)
    for n in (66, 67, 68, 67, 66):      # batches whose choices are one
        operands = Operands(torch)
        for tensor in (operands.x, operands.y):
            tensor.shape = (n, *tensor.shape[1:])
            tensor._strides = dense(tensor.shape)
        conv.conv2d(operands.x, operands.w, padding=1, out=operands.y)
    assert [arguments[3] for arguments in cuda.arguments] == [66, 67, 68, 67, 66]
    assert len(asked) == 2 and len(kernels.by_plan) == 2


@pytest.mark.parametrize("best, expected", [
    (("direct", {"k_tile": 2}), ("direct", 2)), (("direct", {"gone": 2}), None), (("gone", {}), None)])
def test_what_was_measured_is_taken_where_it_still_serves(cuda, monkeypatch, best, expected):
    class Measured:
        def best(self, shape, arch):
            return best

    monkeypatch.setattr(tuning, "table", lambda ordinal: Measured(), raising=False)
    monkeypatch.setattr(kernels, "_load_cuda", lambda text, ordinal: load(cuda, text.plan, ordinal))
    conv.clear()
    plan = conv.specialize(SHAPE, device="cuda:1").plan
    conv.clear()
    rules = plan_layer(SHAPE, arch=contexts.hardware(1))
    assert (plan == rules) if expected is None else (plan.spec.algorithm, plan.options.k_tile) == expected


def test_a_given_plan_has_to_suit_the_shape(planned):
    planned(plan_layer)
    with pytest.raises(ArgumentError, match="W a multiple of 4") as caught:
        conv.specialize(SHAPE, plan=demanding(DIRECT, W={"multiple_of": 4}), device="cpu")
    assert caught.value.argument == "plan"
