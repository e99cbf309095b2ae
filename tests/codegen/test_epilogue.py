"""The steps of an epilogue and their texts: what is read, what is written, what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import struct
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.axes import EXPRESSION
from warpconv.codegen import expression
from warpconv.codegen.banner import emit_command
from warpconv.codegen.epilogue import FORMS, GELU_TAIL, PLAIN, Epilogue, parse_epilogue, split_steps
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError
from warpconv.codegen.expression import Apply, Number, Value, c_text, evaluate, number_text, parse, text_of
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.serialise import canonical, decode, encode, plan_digest
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.accuracy.finish import GELU_ERROR
from warpconv.runtime.layers import NamedLayer, default_name

SHAPE = ConvShape(c=2, h=20, w=20, k=4, r=3, s=3)
STEPS = (*map(Epilogue, PLAIN), Epilogue.clamp(-1, 0.1), Epilogue.quantize(0.05, -3), EXPRESSION)
FLOATS = st.floats(0, 2.0**127, width=32)


def trees(depth: int = 3) -> st.SearchStrategy:
    """Expressions, comparisons only where they may stand."""
    leaf = st.one_of(st.just(Value()), st.builds(Number, FLOATS))

    def grown(inner: st.SearchStrategy) -> st.SearchStrategy:
        pair = st.tuples(inner, inner)
        compared = st.builds(Apply, st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), pair)
        calls = [st.builds(Apply, st.just(name), st.tuples(*[inner] * count))
                 for name, (count, _) in expression.FUNCTIONS.items() if name != "where"]
        return st.one_of(st.builds(Apply, st.sampled_from("+-*/"), pair),
                         st.builds(Apply, st.just(expression.NEGATE), st.tuples(inner)), st.one_of(calls),
                         st.builds(lambda *parts: Apply("where", parts), compared, inner, inner))

    return st.recursive(leaf, grown, max_leaves=2 ** depth)


# ---- texts

@pytest.mark.parametrize("step", STEPS, ids=str)
def test_text_and_back(step):
    assert Epilogue.parse(step.value) == step and Epilogue.parse(f"  {step.value} ") == step
    assert Epilogue.parse(step) is step and str(step) == step.value
    assert hash(Epilogue.parse(step.value)) == hash(step)


def test_every_form_is_among_the_steps():
    assert {step.name for step in STEPS} == {form.partition("(")[0] for form in FORMS}
    assert all(getattr(Epilogue, name.upper()) == Epilogue(name) for name in PLAIN)


def test_texts_of_one_meaning_are_one_step():
    assert Epilogue.parse("expr(v*2)") == Epilogue.parse("expr( (v) * 2.0 )") == Epilogue.expr("+v * 2e0")
    assert Epilogue.parse("clamp(0, 6)") == Epilogue.clamp(0.0, 6) and Epilogue.clamp(0, 6).value == "clamp(0.0,6.0)"
    assert Epilogue.clamp(-0.0, 1).value == Epilogue.clamp(0.0, 1).value
    assert Epilogue.parse("quantize( 0.5 ,3)").value == "quantize(0.5,3)"
    assert Epilogue.clamp(0, 0.1) == Epilogue.clamp(0, 0.1 + 1e-12)         # the same float32


def test_other_meanings_are_other_steps_and_kernels():
    texts = ["clamp(0,6)", "clamp(0,6.5)", "clamp(-1,6)", "relu6", "quantize(1,6)", "expr(v * 2)", "expr(v * 3)",
             "expr(v + 2)", "expr(2 * v)", "expr(max(v, 2))", "expr(min(v, 2))", "silu", "gelu", "gelu_tanh",
             "hardswish", "relu", "residual"]
    steps = [Epilogue.parse(text) for text in texts]
    assert len(set(steps)) == len({step.value for step in steps}) == len(texts)
    plans = [plan_layer(SHAPE, algorithm="direct", epilogue=(step,)) for step in steps]
    assert len({plan_digest(plan) for plan in plans}) == len({canonical(plan.spec) for plan in plans}) == len(texts)
    assert len({default_name(SHAPE, epilogue=(step,)) for step in steps}) == len(texts)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_read_back_the_same_and_as_short_as_may_be(value):
    text = number_text(value)
    assert struct.pack("<f", float(text)) == struct.pack("<f", value)
    assert _digits(text) <= _digits(repr(value)) and "." in text + "." and "+" not in text


def _digits(text: str) -> int:
    """Significant ones."""
    return len(text.split("e")[0].replace("-", "").replace(".", "").strip("0"))


@given(trees())
def test_expressions_text_and_back(tree):
    text = text_of(tree)
    if len(text) > expression.LONGEST:
        return
    try:
        assert parse(text) == tree and text_of(parse(text)) == text
    except ArgumentError as error:      # deeper, or of more parts, than is taken
        assert "nested" in str(error) or "parts" in str(error)


@pytest.mark.parametrize("text, c", [
    ("v", "value"), ("1", "1.0f"), ("-v * 2", "-value * 2.0f"), ("-(v * 2)", "-(value * 2.0f)"),
    ("--v", "-(-value)"), ("v - -v", "value - -value"), ("v - (v - 1)", "value - (value - 1.0f)"),
    ("(v - v) - 1", "value - value - 1.0f"), ("v / (v * 2)", "value / (value * 2.0f)"),
    ("v / v * 2", "value / value * 2.0f"),
    ("1e-30 * v", "1e-30f * value"), ("1e30 * v", "1e30f * value"), ("16777217", "16777216.0f"), ("0.1", "0.1f"),
    ("where(v < 0, 0.1 * v, v) + 1", "(value < 0.0f ? 0.1f * value : value) + 1.0f"),
    ("max(v, min(1, exp(v)))", "maximum(value, minimum(1.0f, expf(value)))")])
def test_c_text(text, c):
    assert c_text(parse(text)) == c


@pytest.mark.parametrize("name, right", [
    ("sigmoid", lambda v: 1 / (1 + np.exp(-v))), ("Tanh", np.tanh),
    ("leaky_relu", lambda v: np.where(v > 0, v, v / 100)),
    ("LeakyReLU", lambda v: np.where(v > 0, v, v / 100)),
    ("elu", lambda v: np.where(v > 0, v, np.expm1(v))),
    ("mish", lambda v: v * np.tanh(np.log1p(np.exp(v)))), ("hard-sigmoid", lambda v: np.clip(v / 6 + 0.5, 0, 1)),
    ("hardsigmoid", lambda v: np.clip(v / 6 + 0.5, 0, 1)), ("softplus", lambda v: np.log1p(np.exp(v)))])
def test_other_names_are_told_as_what_there_is(name, right):
    with pytest.raises(ArgumentError) as caught:
        Epilogue.parse(name)
    step = eval(caught.value.hint.removeprefix("write "))
    v = np.linspace(-20, 20, 2001)
    operations = {"number": np.float64, "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
                  ">": np.greater, "exp": np.exp, "log": np.log, "tanh": np.tanh, "max": np.maximum, "min": np.minimum,
                  "where": np.where, "sigmoid": lambda a: 1 / (1 + np.exp(-a))}
    np.testing.assert_allclose(evaluate(Epilogue.parse(step).tree, v, operations), right(v), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name, step", [("ReLU", "relu"), ("Swish", "silu"), ("GELU", "gelu"),
                                        ("hard_swish", "hardswish")])
def test_other_spellings_of_steps(name, step):
    with pytest.raises(ArgumentError, match=f"write '{step}'"):
        Epilogue.parse(name)


def test_evaluation_is_by_the_functions_that_are_given():
    table = {"number": float, "*": lambda a, b: a * b, "+": lambda a, b: a + b, "exp": math.exp,
             "negate": lambda a: -a, "<": lambda a, b: a < b, "where": lambda c, a, b: a if c else b}
    assert evaluate(parse("where(v < 1, -v, exp(v)) * 2 + v"), 3.0, table) == math.exp(3.0) * 2 + 3.0
    assert evaluate(parse("where(v < 1, -v, exp(v)) * 2 + v"), 0.5, table) == -0.5


@pytest.mark.long
def test_the_tail_of_gelu_is_as_near_to_phi_as_the_bound_says():
    """2^p(x) beside the C library's erfc, on a grid that is far finer than the polynomial can turn."""
    for x in np.linspace(0.0, 14.0, 200_001):
        power = 0.0
        for coefficient in reversed(GELU_TAIL):
            assert coefficient == float(np.float32(coefficient))
            power = power * x + coefficient
        tail = 0.5 * math.erfc(x / math.sqrt(2))
        assert abs(2.0**power - tail) <= GELU_ERROR * (tail / max(tail, 5e-4) if x <= 5.5 else 1.0), x
    powers = np.polyval(GELU_TAIL[::-1], np.geomspace(5.5, 1e4, 10_000))
    assert (np.diff(powers) < 0).all(), "it falls for ever"
    assert GELU_TAIL[-1] < 0


# ---- what is refused

@pytest.mark.parametrize("text, part", [
    ("v.real", "v.real"), ("x + 1", "'x'"), ("__import__('os')", "__import__"), ("v('a')", "'v'"), ("'a'", "'a'"),
    ("exp(exp)", "'exp'"), ("exp(v, v)", "exp takes 1"), ("max(v)", "max takes 2"), ("exp(x=v)", "exp takes"),
    ("v ** 2", "v ** 2"), ("v // 2", "v // 2"), ("v % 2", "v % 2"), ("not v", "not v"), ("~v", "~v"),
    ("v < 1", "comparison"),
    ("where(v, 1, 2)", "first argument"), ("where(0 < v < 1, 1, 2)", "first argument"), ("[v]", "[v]"),
    ("(v, 1)", "(v, 1)"),
    ("v if v else 1", "v if v"), ("lambda: v", "lambda"), ("v and 1", "v and 1"), ("True", "'True'"), ("None", "None"),
    ("1j", "1j"), ("b'a'", "b'a'"), ("1e39", "float32"), ("1e999", "float32"), ("9" * 60, "float32"),
    ("f'{v}'", "f'{v}'"),
    ("exp(*v)", "*v"), ("v[0]", "v[0]"), ("(v := 1)", "v := 1"), ("where(v is 1, v, v)", "first argument"),
    ("", "no expression"), ("v +", "no expression"), ("v; v", "no expression"), ("v = 1", "no expression"),
    ("ｖ", "ASCII"), ("v\0", "no expression"), ("(" * 90 + "v" + ")" * 90, None), ("-" * 150 + "v", "nested"),
    ("+".join("v" * 32), "parts"), ("sin(" * 34 + "v" + ")" * 34, "nested"), ("v" + " " * 300 + "+ v", "characters"),
    ("\n".join(["v", "+ 1"]), "no expression"), ("yield v", "no expression"), ("max", "'max'"),
    ("v.__class__", "__class__")])
def test_expressions_that_are_refused(text, part):
    if part is None:        # parentheses alone are no depth
        assert Epilogue.expr(text) == Epilogue.expr("v")
        return
    with pytest.raises(ArgumentError) as caught:
        Epilogue.expr(text, argument="activation")
    assert caught.value.argument == "activation" and part in str(caught.value.message), str(caught.value)
    assert caught.value.hint
    with pytest.raises(ArgumentError):
        Epilogue.parse(f"expr({text})")


@pytest.mark.parametrize("text", [
    "gelu()", "softplus", "", "RELU", "bias,relu", "clamp", "clamp()", "clamp(1)", "clamp(1,2,3)", "clamp(2,1)",
    "clamp(nan,1)", "clamp(0,inf)", "clamp(0,1e40)", "clamp(a,b)", "clamp(0,6", "quantize(0,1)", "quantize(-1,1)",
    "quantize(1e-60,0)", "quantize(0.1,1.5)", "quantize(0.1,1e9)", "quantize(0.1,nan)", "quantize(0.1,inf)",
    "expr", "expr()",
    "relu(v)", "expr(v))", "expr((v)"])
def test_steps_that_are_refused(text):
    with pytest.raises(ArgumentError) as caught:
        Epilogue.parse(text)
    assert caught.value.argument == "epilogue" and caught.value.hint


@pytest.mark.parametrize("made", [
    lambda: Epilogue.parse(3), lambda: Epilogue.expr(None), lambda: Epilogue.clamp("0", 1),
    lambda: Epilogue.clamp(True, 2), lambda: Epilogue.quantize(None)])
def test_what_is_no_text_or_number(made):
    with pytest.raises(ArgumentTypeError):
        made()


@pytest.mark.parametrize("made", [lambda: Epilogue("clamp"), lambda: Epilogue("relu", (1.0,)), lambda: Epilogue("expr"),
                                  lambda: Epilogue("relu", tree=Value()), lambda: Epilogue("nothing")])
def test_no_step_without_what_it_needs(made):
    with pytest.raises(ArgumentError):
        made()


# ---- lists

def test_lists_are_split_at_outer_commas():
    assert split_steps("bias, clamp(0,6),expr(max(v, 1)) ,") == ["bias", "clamp(0,6)", "expr(max(v, 1))"]
    assert split_steps("") == split_steps(" , ") == []


def test_a_bias_and_a_residual_stand_where_they_are_named():
    read = lambda *args, **more: [step.value for step in parse_epilogue(*args, **more)]      # noqa: E731
    assert read(("relu",), bias=True) == ["bias", "relu"]
    assert read(("relu", "bias"), bias=True) == ["relu", "bias"]
    assert read(("bias",), bias=True, residual=True, activation="relu") == ["bias", "residual", "relu"]
    assert read(("residual", "silu"), residual=True) == ["residual", "silu"]
    assert read(("residual",)) == ["residual"]                                # to be given later
    for steps, more, name in ((("residual",), dict(residual=False), "residual"), (("bias",), {}, "bias"),
                              (("residual", "residual"), {}, "epilogue"),
                              ((), dict(activation="residual"), "activation"),
                              (("bias", "bias"), dict(bias=True), "epilogue")):
        with pytest.raises(ArgumentError) as caught:
            parse_epilogue(steps, **more)
        assert caught.value.argument == name


# ---- in specs, files and text

@pytest.mark.parametrize("step", STEPS, ids=str)
def test_specs_with_steps_through_json(step):
    spec = plan_layer(SHAPE, algorithm="direct", epilogue=(step,)).spec
    data = json.loads(json.dumps(encode(spec)))
    assert data["epilogue"] == [step.value] and decode(KernelSpec, data) == spec
    data["epilogue"] = ["softplus"]
    with pytest.raises(ArgumentError):
        decode(KernelSpec, data)


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_layer_with_any_step_has_a_name_for_files(step):
    name = default_name(SHAPE, epilogue=(Epilogue.BIAS, step) if step != Epilogue.BIAS else (step,))
    assert NamedLayer(name=name, shape=SHAPE, epilogue=(step,)).name == name


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_the_banner_says_the_steps_and_its_command_is_a_shell_s(step):
    plan = plan_layer(SHAPE, algorithm="direct", epilogue=(step, Epilogue.RELU6))
    words = shlex.split(emit_command(plan))
    steps = split_steps(words[words.index("--epilogue") + 1])
    assert parse_epilogue(steps, takes_bias=True) == plan.spec.epilogue
    text = render(plan).text
    said = " ".join(text.replace("// ", "").split())
    assert f"then {step.value}, relu6" in said and f"{step.value}, then relu6." in said
    assert "#include" not in text and "\\\n//" in text and "{{" not in text


@settings(max_examples=30, deadline=None)
@given(trees())
def test_any_expression_makes_one_readable_statement(tree):
    step = Epilogue("expr", tree=tree)
    plan = plan_layer(SHAPE, algorithm="direct", epilogue=(step,))
    body = render(plan).text.split("float finish(float value) {\n")[1].split("\n}\n")[0]
    body = body.removeprefix("    // the user's expression of v\n")     # above what leaves no room beside it
    assert body.startswith("    value = ") and body.endswith("    return value;") and body.count(";") == 2
    for helper in expression.WRITTEN_OUT:
        assert (f"float {helper}(float a" in render(plan).text) == (helper in step.helpers)


def test_a_step_with_a_field_changed_is_not_the_same_step():
    step = Epilogue.clamp(0, 6)
    assert dataclasses.replace(step, numbers=(0.0, 5.0)).value == "clamp(0.0,5.0)"


def test_the_page_on_epilogues_has_every_step_and_function_and_shows_emitted_text():
    page = (Path(__file__).parents[2] / "docs" / "epilogues.md").read_text(encoding="utf-8")
    table = page.split("## Steps")[1].split("##")[0]
    assert all(f"| `{name}" in table for name in {form.partition("(")[0] for form in FORMS})
    grammar = page.split("functions   ")[1].split("\n")[0].split()
    assert sorted(grammar) == sorted(set(expression.FUNCTIONS) - {"where"})
    for limit in (expression.LONGEST, expression.MOST_NODES, expression.DEEPEST):
        assert f" {limit} " in page
    excerpt = page.split("```cuda\n")[1].split("```")[0]
    steps = parse_epilogue(("bias", "expr(where(v < 1, v * sigmoid(v), v))"), takes_bias=True)
    assert excerpt in render(plan_layer(SHAPE, algorithm="direct", epilogue=steps)).text


@pytest.mark.parametrize("step", ["silu", "gelu", "gelu_tanh", "expr(sigmoid(v))"])
def test_the_bound_far_to_the_left_is_small(step):
    """Where e^-v leaves float64 a bound of infinity would let everything pass."""
    from warpconv.runtime.accuracy.finish import finish
    values = np.array([-1e4, -3e4, -1e6])
    made = finish(values, np.zeros(3), (Epilogue.parse(step),))
    assert (made.high - made.low <= 1e-7 * np.abs(values)).all() and (made.low <= made.value).all()
