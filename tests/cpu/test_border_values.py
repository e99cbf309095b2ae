"""The value of a border 'constant' is an argument: one text and one kernel for all values, each with right results."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import cases, checks, gradients, reference
from tests.algorithms import ROWS
from warpconv.codegen.border import Border, BorderValue, argument_bits, element_bits
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, UnsupportedSpec
from warpconv.codegen.plan import Role
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.serialise import decode, encode, plan_digest
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.call import conv, kernels
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import Mode

needs_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
# of forward layers; those of other operations meet such borders in their rooms
BORDERED = sorted(name for name, rows in ROWS.items() if Border.CONSTANT.value in rows.axes.get("padding_mode", ()))
CASES_EACH = 4


def layer(value: float = 1.0, **fields) -> ConvShape:
    return ConvShape(**{**dict(n=2, c=3, h=9, w=13, k=4, r=3, s=3, padding=1, padding_mode="constant",
                               padding_value=value), **fields})


def bordered(algorithm: str) -> list[cases.Case]:
    """Cases of the algorithm's table that have a border of one value."""
    return [case for case in cases.table(algorithm) if dict(case.layer).get("padding_mode") == Border.CONSTANT.value
            and case.plan().spec.padding_mode is Border.CONSTANT][:CASES_EACH]


@pytest.fixture
def fresh():
    conv.clear()
    yield
    conv.clear()


# ---- the text

@pytest.mark.thin(32)
@pytest.mark.parametrize("algorithm", BORDERED)
def test_two_values_have_one_text_and_one_key(algorithm):
    found = bordered(algorithm)
    assert found, "the table has such a border"
    for case in found:
        shape = case.sizes()[0]
        one, other = (case.plan(shape=replace(shape, padding_value=value)) for value in (1.0, 2.0))
        assert one.spec == other.spec and plan_digest(one) == plan_digest(other)
        assert render(one).text == render(other).text
        assert any(one.program.border.name in launch.arguments for launch in one.program.launches)
        assert one.spec.layer.count("(constant)") == 1, "no value in words either"


def test_zeros_take_no_value():
    for shape in (layer(0.0), layer(0.0, padding_mode="zeros"), layer(0.0, padding_mode="reflect")):
        made = plan_layer(shape)
        assert made.program.border is None and made.program.border_bits(shape) == {}


def test_a_spec_is_stored_with_the_kind_of_its_value():
    spec = plan_layer(layer(0.1, dtype="float16"), algorithm="direct").spec
    assert spec.border_value is BorderValue.NUMBER and spec.padding_value == 0
    assert decode(KernelSpec, encode(spec)) == spec
    assert "border_value" not in encode(plan_layer(layer(0.5, dtype="float16"), algorithm="direct").spec)


# ---- what a value is

@pytest.mark.parametrize("dtype, value, kind", [
    ("float32", 0.1, "element"), ("float16", 0.5, "element"), ("float16", 0.1, "number"), ("float16", 1e6, "number"),
    ("bfloat16", 2.0**100, "element"), ("bfloat16", 257.0, "number"), ("uint8", 255, "element"),
    ("uint8", -1, "integer"), ("int8", -128, "element"), ("int8", 128, "integer"), ("uint16", 65535, "element"),
    ("int16", 65535, "integer"), ("int16", 0.5, "number"), ("uint8", 2.0**31, "number"), ("uint8", -2.0**31, "number")])
def test_kinds_of_values(dtype, value, kind):
    dtype, value = DType.parse(dtype), float(np.float32(value))
    assert BorderValue.of(value, dtype) is BorderValue(kind)
    example = BorderValue(kind).example
    assert BorderValue.of(example, dtype) is BorderValue(kind), "what stands for a kind is of it"
    shape = layer(value, dtype=dtype)
    spec = plan_layer(shape, algorithm="direct").spec
    assert spec.takes_border(value) and spec.takes_border(1.0) and not spec.takes_border(0.0)
    assert spec.example_shape(h=9, w=13).padding_value == example
    assert spec.example_shape(h=9, w=13, padding_value=value).padding_value == value


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.UINT8, DType.INT8, DType.UINT16, DType.INT16])
def test_words_of_elements(dtype):
    element = reference.ELEMENTS[dtype]
    for value in (1.0, 3.0, 100.0, *([-2.0] if dtype.kind.value != "unsigned" else [])):
        word = struct.pack("<i", argument_bits("unsigned", dtype, value))
        assert word == np.full(dtype.lanes, value).astype(element).tobytes()
        assert element_bits(dtype, value) == int.from_bytes(np.array(value).astype(element).tobytes(), "little")
    assert struct.pack("<i", argument_bits("float", dtype, 0.1)) == np.float32(0.1).tobytes()
    assert argument_bits("int", dtype, -7.0) == -7


@pytest.mark.parametrize("algorithm, fields, says", [
    ("wide", dict(c=1, k=1, dtype="float16"), "the border's value is no float16"),
    ("pixels", dict(c=1, k=1, dtype="uint8"), "the border's value is no uint8"),
    ("direct", dict(dtype="uint8", weight_dtype="int8"), "the border's value is no int")])
def test_values_that_a_kernel_cannot_have(algorithm, fields, says):
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(layer(0.1, **fields), algorithm=algorithm)
    assert plan_layer(layer(7.0, **fields), algorithm=algorithm).program.border is not None


# ---- results

@pytest.mark.thin(20)
@needs_cpu
@pytest.mark.parametrize("chosen", [slice(1), pytest.param(slice(1, None), marks=pytest.mark.long)],
                         ids=["one", "more"])
@pytest.mark.parametrize("algorithm", BORDERED)
def test_one_kernel_is_right_with_every_value(algorithm, chosen):
    """Of each algorithm's table, on images that its plans take; large and small values, and of both signs."""
    for case in bordered(algorithm)[chosen]:
        shape = case.sizes()[0]
        kernel = checks.cpu_kernel(case.plan(shape=shape))
        values = (3.0, 2.0, 100.0) if shape.dtype.is_integer else (0.5, -3.0, 24.0)
        for value in values:
            checks.check_kernel(kernel, replace(shape, padding_value=value), seed=case.number)


@needs_cpu
def test_a_value_that_the_type_does_not_have():
    shape = layer(float(np.float32(0.1)), dtype="float16")
    for algorithm in ("direct", "staged"):
        if algorithm == "staged":
            shape = replace(shape, k=3, groups=3)
        kernel = checks.cpu_kernel(plan_layer(shape, algorithm=algorithm))
        for value in (shape.padding_value, -1.7, 0.5):
            checks.check_kernel(kernel, replace(shape, padding_value=value))


@needs_cpu
@pytest.mark.parametrize("value", [300.0, -5.0, 2.0**24])
def test_integers_beyond_the_input_s_type(value):
    shape = layer(value, dtype="uint8", weight_dtype="int8", out_dtype="int32")
    checks.check_kernel(checks.cpu_kernel(plan_layer(shape, algorithm="direct"), Mode.CHECK), shape)


@needs_cpu
def test_calls_with_changing_values_build_one_kernel(fresh, monkeypatch):
    """The second call with a value is a remembered one; none is served with another's value."""
    checked, real = [], Kernel._call
    monkeypatch.setattr(Kernel, "_call", lambda self, *given: checked.append(self.padding_value) or real(self, *given))
    rng = np.random.default_rng(3)
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    x = rng.standard_normal((2, 3, 9, 13)).astype(np.float32)
    for value in (1.0, 2.0, 1.0, -0.25, 2.0, 1.0, -0.25):
        y = warpconv.conv2d(x, w, padding=1, padding_mode="constant", padding_value=value, device="cpu")
        reference.expected(x, w, layer(value)).check(y, f"a border of {value}")
    assert sorted(checked) == [-0.25, 1.0, 2.0], "each value goes the checked way once"
    assert len(kernels.by_plan) == 1 and len(kernels.by_request) == 1
    y = warpconv.conv2d(x, w, padding=1, padding_mode="constant", padding_value=0, device="cpu")
    reference.expected(x, w, layer(0.0)).check(y, "zeros")
    assert len(kernels.by_plan) == 2, "zeros have a kernel of their own"


@needs_cpu
def test_a_kernel_for_another_value():
    shape = layer(2.0)
    kernel = warpconv.specialize(shape, device="cpu", algorithm="direct")
    other = kernel.for_border(5)
    assert kernel.for_border(2.0) is kernel and kernel.for_border(5.0) is other and other.padding_value == 5.0
    assert other.backend is kernel.backend
    x, w, _ = reference.operands(shape, np.random.default_rng(1))
    prepared = kernel.prepare(w)
    for made, value in ((kernel, 2.0), (other, 5.0), (other.for_border(2), 2.0)):
        wanted = reference.expected(x, w, layer(value))
        for _ in range(2):
            wanted.check(made(x, w), f"{value}")
            wanted.check(made(x, prepared), f"{value}, a filter that another prepared")
    with pytest.raises(ArgumentError, match="made for other borders"):
        kernel.for_border(0)
    with pytest.raises(ArgumentError, match="not finite"):
        kernel.for_border(float("inf"))
    half = warpconv.specialize(layer(0.5, dtype="float16", c=1, k=1), device="cpu", algorithm="wide")
    with pytest.raises(ArgumentError, match="made for other borders"):
        half.for_border(0.1)
    plan = plan_layer(shape, algorithm="direct")
    assert warpconv.specialize(replace(shape, padding_value=7.0), device="cpu", plan=plan).padding_value == 7.0
    with pytest.raises(ArgumentError, match="this plan is for other layers"):
        warpconv.specialize(replace(shape, padding_mode="zeros", padding_value=0.0), device="cpu", plan=plan)
    with pytest.raises(ArgumentError, match="value of this kernel's border is not known"):
        checks.cpu_kernel(plan)(x, w)


@needs_cpu
def test_separable_filters_have_the_value_of_their_call():
    shape = layer(2.0, c=1, k=1, h=40, w=60, r=9, s=9, padding=4)
    column, row = np.linspace(0.1, 1, 9, dtype=np.float32), np.linspace(1, -0.5, 9, dtype=np.float32)
    w = np.outer(column, row)[None, None].astype(np.float32)
    x = reference.operands(shape, np.random.default_rng(2))[0]
    kernel = warpconv.specialize(shape, device="cpu")
    prepared = kernel.prepare(w, separable=True)
    assert prepared.factored is not None
    for value in (2.0, -3.0):
        y = kernel.for_border(value)(x, prepared)
        wanted = reference.expected(x, w, replace(shape, padding_value=value))
        np.testing.assert_allclose(y, wanted.output, rtol=0, atol=1e-4)


@needs_cpu
@pytest.mark.parametrize("dtype, groups, layout", [("float32", 1, "NCHW"), ("float16", 3, "NHWC")])
def test_gradients_of_filters_read_the_value(fresh, dtype, groups, layout):
    for value in (1.0, 2.5):
        shape = layer(value, k=3, groups=groups, dtype=dtype, layout=layout)
        gradients.make(np.random.default_rng(4), shape).check("dw", device="cpu")
    assert len(kernels.by_plan) == 1


@needs_cpu
def test_a_kernel_with_its_value_in_the_text_serves_no_other(fresh):
    """As packs of older versions have them: it is kept for calls of its kind, and another value is built beside it."""
    ask = kernels.asked(layer(1.0), None, algorithm="direct")
    new = kernels.kernel_of(ask)
    program = replace(new.program, arguments=tuple(a for a in new.program.arguments if a.role is not Role.BORDER))
    old = Kernel(replace(new.spec, padding_value=1.0), program, new.backend, source="")
    kernels.by_request.clear()
    assert kernels.by_request.get(kernels.key_of(ask), lambda: old) is old is kernels.kernel_of(ask)
    for value in (2.0, 3.0):
        found = kernels.kernel_of(ask.of(layer(value)))
        assert found.padding_value == value and found.backend is new.backend
    assert kernels.kernel_of(ask) is old and old.padding_value == 1.0
