"""The library's exact gradients: equal to the tests' own, and a wrong element is told."""

from __future__ import annotations

import numpy as np
import pytest

from tests import checks, gradients
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation
from warpconv.runtime.accuracy.gradients import compare_gradient
from warpconv.runtime.accuracy.measure import measurable, measure

LAYERS = {
    "dense": dict(c=4, k=6, h=9, w=7, r=3, s=2, padding=((1, 0), (2, 1))),
    "groups": dict(n=2, c=6, k=4, groups=2, h=8, w=9, r=2, s=3, stride=(2, 1), dilation=(1, 2), layout="NHWC"),
    "border": dict(c=3, k=3, groups=3, h=5, w=6, r=3, s=3, padding=2, padding_mode="reflect"),
    "constant": dict(c=2, k=3, h=5, w=6, r=3, s=3, padding=1, padding_mode="constant", padding_value=0.5),
    "half": dict(c=16, k=16, h=9, w=9, r=3, s=3, padding=1, dtype="float16", layout="NHWC"),
    "volume": dict(c=4, k=6, d=5, h=6, w=7, t=2, r=3, s=2, stride=(1, 2, 1), padding=1),
}
# the bias of volumes is summed as that of images
CASES = [(name, operation) for name in LAYERS for operation in ("data_gradient", "filter_gradient", "bias_gradient")
         if (name, operation) != ("volume", "bias_gradient")]


def made(name, operation):
    shape = ConvShape(**LAYERS[name])
    return plan_layer(shape, operation=operation), shape


@pytest.mark.parametrize("name, operation", CASES)
def test_it_is_the_tests_own(name, operation):
    plan, shape = made(name, operation)
    rng = np.random.default_rng(3)
    element = {"float32": np.float32, "float16": np.float16}[shape.dtype.value]
    x, w, dy = (rng.standard_normal(sizes).astype(element) for sizes in (
        shape.input_shape, shape.weight_shape, shape.output_shape))
    dx, dw = gradients.scattered(*(array.astype(np.float64) for array in (x, w, dy)), shape)
    exact = {"data_gradient": dx, "filter_gradient": dw, "bias_gradient": dy.sum((0, *range(2, dy.ndim)), np.float64)}
    turned = (lambda a: a) if shape.layout.value == "NCHW" else (lambda a: np.moveaxis(a, 1, -1))
    given = {"data_gradient": {"dy": turned(dy), "w": w}, "filter_gradient": {"x": turned(x), "dy": turned(dy)},
             "bias_gradient": {"dy": turned(dy)}}[operation]
    got = exact[operation].astype(element)
    got = turned(got) if operation == "data_gradient" else got
    assert compare_gradient(got, given, shape, plan.spec).within
    wrong = got.copy()
    wrong.flat[wrong.size // 2] += element(0.5) * (1 + abs(wrong.flat[wrong.size // 2]))
    assert not compare_gradient(wrong, given, shape, plan.spec).within
    wrong.flat[0] = np.nan
    assert compare_gradient(wrong, given, shape, plan.spec).worst_ratio == np.inf


@pytest.mark.thin(6)
@pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
@pytest.mark.parametrize("name, operation", CASES)
def test_a_gradient_is_executed_and_counted(name, operation):
    plan, shape = made(name, operation)
    found = measure(plan, shape)
    read = {Operation.DATA_GRADIENT: {"dy", "w"}, Operation.FILTER_GRADIENT: {"x", "dy"},
            Operation.BIAS_GRADIENT: {"dy"}}[plan.spec.operation]
    assert found.accuracy.within
    assert all(found.buffers[array].load_requests > 0 for array in read)


def test_a_long_one_is_executed_in_part():
    shape = ConvShape(n=32, c=64, k=64, h=56, w=56, r=3, s=3, padding=1, dtype="float16", layout="NHWC")
    for operation in ("filter_gradient", "data_gradient"):
        pair = measurable(plan_layer(shape, operation=operation), shape)
        assert pair is not None and pair[1].n == 1
