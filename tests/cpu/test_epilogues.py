"""Epilogues on the CPU device, every access checked: each step in kernels that store in different ways, expressions as
they are emitted, NaN, and whether a wrong step would be seen."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests import checks, near, reference, settings
from tests.axes import BIAS, CLAMP, RELU, RESIDUAL
from warpconv.codegen.epilogue import OPERANDS, PLAIN, Epilogue
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.expression import (FUNCTIONS, NEGATE, WRITTEN_OUT, Apply, Node, Number, Value, c_text, evaluate,
                                         parse, text_of)
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import environment
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy.ranges import OPERATIONS, Range
from warpconv.runtime.accuracy.reference import compare
from warpconv.runtime.devices.cpu import Buffer, CpuProgram, Mode

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

CALLS = Epilogue.expr("tanh(sin(v)) * cos(v) + exp(-abs(v)) + floor(v) - ceil(v / 2) + log2(pow(abs(v), 1.5) + 1)")
EDGES = Epilogue.expr("where(v >= 0, sqrt(v), log(-v)) + rsqrt(v * v + 0.1)")
STEPS = (*(Epilogue(name) for name in PLAIN if name not in OPERANDS), CLAMP, Epilogue.quantize(0.1, 3), CALLS, EDGES,
         Epilogue.expr("1 / 3"))
LAYERS = {"direct NCHW": ("direct", ConvShape(n=2, c=2, h=9, w=13, k=4, r=3, s=2, padding=1)),
          "direct NHWC float16": ("direct", ConvShape(c=2, h=9, w=13, k=4, r=3, s=2, dtype="float16", layout="NHWC")),
          "wide": ("wide", ConvShape(n=2, c=1, h=19, w=64, k=1, r=3, s=3, padding=1)),
          "wide bfloat16": ("wide", ConvShape(n=2, c=3, h=19, w=40, k=3, r=3, s=3, groups=3, dtype="bfloat16"))}


@pytest.mark.thin(24)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_every_step(step, layer):
    algorithm, shape = LAYERS[layer]
    for steps in ((BIAS, step), (step, RESIDUAL, RELU)):
        checks.check_checked(plan_layer(shape, algorithm=algorithm, epilogue=steps), shape, seed=len(step.value))


@pytest.mark.thin(3)
@pytest.mark.parametrize("chosen", [slice(1), pytest.param(slice(1, None), marks=pytest.mark.long)],
                         ids=["one", "more"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_adds_a_residual_or_says_that_it_does_not(algorithm, chosen):
    shapes = (ConvShape(n=2, c=8, h=14, w=14, k=8, r=3, s=3, padding=1, groups=8, dtype=dtype, layout=layout)
              for dtype in ("float32", "float16") for layout in ("NCHW", "NHWC"))
    plans = []
    for shape in shapes:
        try:
            plan_layer(shape, algorithm=algorithm)
        except UnsupportedSpec:
            continue
        try:
            plans.append((plan_layer(shape, algorithm=algorithm, epilogue=(BIAS, RESIDUAL, CLAMP)), shape))
        except UnsupportedSpec as error:
            assert "residual" in error.reason
    for plan, shape in plans[chosen]:
        checks.check_checked(plan, shape)


@pytest.mark.parametrize("out_dtype, steps", [
    ("uint8", (Epilogue.quantize(0.25, 128),)), ("int8", (BIAS, Epilogue.quantize(4.0))), ("float32", (BIAS, CLAMP)),
    ("uint8", (RESIDUAL, CLAMP, Epilogue.quantize(0.01, 50)))])
def test_integers_from_steps(out_dtype, steps):
    shape = ConvShape(n=1, c=3, h=12, w=17, k=3, r=3, s=3, groups=3, dtype="uint8", weight_dtype="float32",
                      out_dtype=out_dtype)
    checks.check_checked(plan_layer(shape, algorithm="direct", epilogue=steps), shape)


@pytest.mark.long
def test_a_wrong_step_is_seen_by_both_references():
    """Each step's result held against the next step's reference."""
    algorithm, shape = LAYERS["direct NCHW"]
    x, w, _ = reference.operands(shape, settings.generator(0))
    others = (*STEPS, Epilogue.clamp(-0.5, 1.4999), Epilogue.quantize(0.1001, 3), Epilogue.expr("1 / 3.0001"))
    for step, other in zip(others, others[1:]):
        out = checks.cpu_kernel(plan_layer(shape, algorithm=algorithm, epilogue=(step,)))(x, w)
        assert compare(out, x, w, shape, epilogue=(step,)).within
        assert not compare(out, x, w, shape, epilogue=(other,)).within, (step, other)
        with pytest.raises(AssertionError, match="outputs are wrong"):
            reference.expected(x, w, shape, epilogue=(other,)).check(out)


@pytest.mark.thin(4)
@pytest.mark.parametrize("step, expected", [
    ("relu", [np.nan, np.inf, 0]), ("relu6", [np.nan, 6, 0]), ("clamp(-1,2)", [np.nan, 2, -1]),
    *((name, [np.nan, np.inf, np.nan]) for name in ("silu", "gelu", "gelu_tanh", "hardswish")),
    ("quantize(2,1)", [np.nan, np.inf, -np.inf]), ("expr(max(v, 1))", [np.nan, np.inf, 1]),
    ("expr(min(1, v))", [np.nan, 1, -np.inf]), ("expr(relu(v))", [np.nan, np.inf, 0]),
    ("expr(where(v > 0, 1, 2))", [2, 1, 2]), ("expr(sigmoid(v))", [np.nan, 1, 0])])
def test_nan_and_infinity_are_pytorch_s(step, expected):
    """Of torch 2: torch.clamp, torch.maximum and the functions of torch.nn.functional keep NaN."""
    shape = ConvShape(c=1, h=1, w=3, k=1, r=1, s=1)
    x = np.array([np.nan, np.inf, -np.inf], np.float32).reshape(1, 1, 1, 3)
    kernel = checks.cpu_kernel(plan_layer(shape, algorithm="direct", epilogue=(Epilogue.parse(step),)), Mode.CHECK)
    got = kernel(x, np.ones((1, 1, 1, 1), np.float32)).ravel()
    assert np.array_equal(got, np.array(expected, np.float32), equal_nan=True), got


@pytest.mark.long
def test_expressions_as_they_are_emitted(tmp_path):
    """Drawn expressions in one text: the values of each against what Python makes of its canonical text."""
    rng = random.Random(int(settings.generator(3).integers(2**32)))
    each = [f"{name}({', '.join(('v < 0.5', 'v', '1') if name == 'where' else ('v', '2')[:count])})"
            for name, (count, _) in FUNCTIONS.items()]
    trees = [parse(text) for text in each] + [_drawn(rng, 4) for _ in range(60)]
    texts = [text_of(tree) for tree in trees]
    fragment = environment().get_template("parts/epilogue.cuh.jinja").module
    every = Epilogue.expr(" + ".join(f"{name}(v)" if FUNCTIONS[name][0] == 1 else f"{name}(v, v)"
                                     for name in ("min", "max", "sigmoid", "relu")))
    assert set(every.helpers) == {*WRITTEN_OUT, "wc_exp2", "wc_reciprocal"}
    lines = [str(fragment.helper_functions((every,))),
             'extern "C" __global__ void all(const float* x, float* y, int n) {',
             "    const int i = blockIdx.x * blockDim.x + threadIdx.x;", "    if (i >= n) return;",
             "    const float value = x[i];",
             *(f"    y[{number} * n + i] = {c_text(tree)};" for number, tree in enumerate(trees)), "}"]
    x = np.concatenate([np.linspace(-8, 8, 400), [0.0, 1.0, -1.0, 0.5, 100.0, -100.0, 1e-30, 1e6]]).astype(np.float32)
    y = np.full((len(trees), x.size), np.nan, np.float32)
    program = CpuProgram.compile("\n".join(lines), entries=["all"], mode=Mode.CHECK, directory=tmp_path)
    program.launch("all", grid=(-(-x.size // 128), 1, 1), block=(128, 1, 1), shared_bytes=0,
                   args=[Buffer("x", x, False), Buffer("y", y, True, must_be_written=True, initialised=False),
                         np.int32(x.size)])
    known = 0
    for tree, text, got in zip(trees, texts, y):
        with np.errstate(all="ignore"):
            ours = near.of_text(text, near.Near(x))
            theirs = evaluate(tree, Range.around(x), OPERATIONS).of_shape(x.shape)
            for value, radius, open_ in ((ours.value, ours.radius, np.isinf(ours.radius)),
                                         (theirs.value, theirs.bound, theirs.undetermined)):
                value, radius = np.broadcast_to(value, x.shape), np.broadcast_to(radius, x.shape)
                right = (np.abs(got - value) <= radius) | open_ | (np.isnan(got) & np.isnan(value)) | (got == value)
                at = int(np.argmin(right))
                assert right.all(), f"{text} at {x[at]!r}: {got[at]!r} instead of {value[at]!r} +- {radius[at]!r}"
                known += int(np.isfinite(radius).sum())
    assert known > y.size, f"bounds that say something: {known} of {2 * y.size}"


def _drawn(rng: random.Random, depth: int) -> Node:
    """A random expression whose values stay moderate often enough to say something."""
    if depth == 0 or rng.random() < 0.1:
        return Value() if rng.random() < 0.7 else Number(float(np.float32(rng.choice((0.5, 1.0, 2.0, 3.0, 0.1)))))
    if rng.random() < 0.4:
        operation = rng.choice(("+", "-", "*", "/", NEGATE))
        return Apply(operation, tuple(_drawn(rng, depth - 1) for _ in range(1 if operation == NEGATE else 2)))
    name = rng.choice(list(FUNCTIONS))
    parts = [_drawn(rng, depth - 1) for _ in range(FUNCTIONS[name][0])]
    if name == "where":
        parts[0] = Apply(rng.choice(("<", "<=", ">", ">=", "==", "!=")), (parts[0], Number(1.0)))
    return Apply(name, tuple(parts))
