"""A residual at run time, on the CPU device: where it is added, in place, copied, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warpconv
from tests import checks, reference, settings
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.epilogue import Epilogue, parse_epilogue
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy.measure import measure
from warpconv.runtime.call import conv, kernels
from warpconv.runtime.call.conv import specialize
from warpconv.runtime.tuning.operands import Judge, Operands

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

SHAPE = ConvShape(n=2, c=3, h=14, w=16, k=4, r=3, s=3, padding=1)
SIZES = SHAPE.output_shape


@pytest.fixture
def layer():
    x, w, bias = reference.operands(SHAPE, settings.generator(1))
    return x, w, bias, reference.residual(SHAPE, settings.generator(2))


def call(layer, residual, **more):
    x, w, bias, _ = layer
    return warpconv.conv2d(x, w, bias, padding=1, residual=residual, device="cpu", **more)


def wanted(layer, *steps, shape=SHAPE):
    x, w, bias, residual = layer
    epilogue = parse_epilogue(steps, takes_bias=True)
    return reference.expected(x, w, shape, bias=bias, residual=residual, epilogue=epilogue)


@pytest.mark.parametrize("algorithm", ["auto", "direct", "wide", "reuse"])
@pytest.mark.thin(4)
def test_a_residual_is_added_before_the_activation_or_where_it_is_named(layer, algorithm):
    residual = layer[3]
    for options, steps in (({}, ("bias", "residual")), (dict(activation="relu"), ("bias", "residual", "relu")),
                           (dict(epilogue=("residual", "bias", "silu")), ("residual", "bias", "silu")),
                           (dict(epilogue=("clamp(-1,1)",), activation="gelu"),
                            ("bias", "clamp(-1,1)", "residual", "gelu"))):
        out = reference.poisoned(SHAPE)
        before = residual.copy()
        assert call(layer, residual, out=out, algorithm=algorithm, **options) is out
        wanted(layer, *steps).check(out, f"{algorithm} {steps}")
        assert np.array_equal(residual, before)


@pytest.mark.parametrize("algorithm", ["direct", "wide", "reuse"])
def test_in_place(layer, algorithm):
    out = layer[3].copy()
    assert call(layer, out, out=out, activation="relu", algorithm=algorithm) is out
    wanted(layer, "bias", "residual", "relu").check(out, algorithm)


def test_in_place_in_channels_last_memory(layer):
    x, w, bias, residual = layer
    shape = replace(SHAPE, layout=Layout.NHWC)
    turned = [np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in (x, residual)]
    out = turned[1].copy()
    warpconv.conv2d(turned[0], w, bias, padding=1, residual=out, out=out, layout="NHWC", device="cpu")
    wanted((turned[0], w, bias, turned[1]), "bias", "residual", shape=shape).check(out)
    out = turned[1].copy()
    seen = np.moveaxis(out, -1, 1)          # axes (N, K, P, Q) over memory in NHWC order, as torch.channels_last
    warpconv.conv2d(np.moveaxis(turned[0], -1, 1), w, bias, padding=1, residual=seen, out=seen, device="cpu")
    wanted((turned[0], w, bias, turned[1]), "bias", "residual", shape=shape).check(out)


def test_residuals_with_gaps_or_in_another_order_are_copied(layer):
    residual = layer[3]
    gaps = np.repeat(residual, 2, axis=3)[..., ::2]
    turned = np.moveaxis(np.ascontiguousarray(np.moveaxis(residual, 1, -1)), -1, 1)
    one = np.broadcast_to(np.float32(0.5), SIZES)
    for given, meant in ((gaps, residual), (turned, residual), (one, np.array(one))):
        assert not given.flags.c_contiguous
        wanted((*layer[:3], meant), "bias", "residual").check(call(layer, given))


def test_a_residual_at_an_odd_address(layer):
    """Vectors of it cannot be loaded there on a GPU; the CPU device copies."""
    room = np.zeros(layer[3].size + 1, np.float32)
    odd = room[1:].reshape(SIZES)
    odd[:] = layer[3]
    wanted(layer, "bias", "residual").check(call(layer, odd, algorithm="wide"))


@pytest.mark.parametrize("change, error, argument", [
    (lambda r: r[:1], ShapeError, "residual"), (lambda r: r[0], ShapeError, "residual"),
    (lambda r: r.astype(np.float64), ArgumentTypeError, "residual"), (lambda r: "r", ArgumentTypeError, "residual"),
    (lambda r: np.moveaxis(r, 1, -1), ShapeError, "residual"), (lambda r: 1.0, ArgumentTypeError, "residual")])
def test_wrong_residuals_cost_no_compilation(layer, monkeypatch, change, error, argument):
    def refuse(*args):
        raise AssertionError("a kernel was made for bad input")

    conv.clear()
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "make", refuse)
        with pytest.raises(error) as caught:
            call(layer, change(layer[3]), epilogue=("residual", "clamp(-0.25,0.75)"))
        assert caught.value.argument == argument
        with pytest.raises(ArgumentError, match="none is given"):
            call(layer, None, epilogue=("residual",))


def test_out_may_be_the_residual_but_not_overlap_it(layer):
    room = np.zeros((SIZES[0] + 1, *SIZES[1:]), np.float32)
    with pytest.raises(ArgumentError, match="out shares memory with residual"):
        call(layer, room[1:], out=room[:-1])
    apart = np.lib.stride_tricks.as_strided(room[1:], SIZES, (0, *room.strides[1:]))      # other elements, one address
    with pytest.raises(ArgumentError, match="out shares memory with residual"):
        call(layer, apart, out=room[1:])
    x = np.zeros(SHAPE.input_shape, np.float32)
    with pytest.raises(ArgumentError, match="out shares memory with input"):
        warpconv.conv2d(x, np.zeros((3, 3, 3, 3), np.float32), padding=1, out=x, device="cpu", residual=x.copy())


def test_kernels_ask_for_what_they_were_made_for(layer):
    x, w, bias, residual = layer
    plain = specialize(SHAPE, device="cpu", bias=True)
    with pytest.raises(ArgumentError, match="made without a residual") as caught:
        plain(x, w, bias, residual=residual)
    assert caught.value.argument == "residual"
    adding = specialize(SHAPE, device="cpu", epilogue=("bias", "residual", "hardswish"))
    with pytest.raises(ArgumentError, match="adds a residual and none is given"):
        adding(x, w, bias)
    wanted(layer, "bias", "residual", "hardswish").check(adding(x, adding.prepare(w), bias, residual=residual))


def test_counting_and_tuning_know_residuals(layer):
    steps = parse_epilogue(("bias", "residual", "silu", "expr(v * v)"), takes_bias=True)
    plan = warpconv.plan_layer(SHAPE, algorithm="wide", epilogue=steps)
    counted = measure(plan, SHAPE)
    assert counted.accuracy.within
    assert counted.buffers["residual"].load_bytes == counted.buffers["y"].store_bytes == 4 * np.prod(SIZES)
    operands = Operands.draw(SHAPE, steps, 5)
    kernel, judge = specialize(SHAPE, device="cpu", plan=plan), Judge(operands, 3)
    results = [kernel(operands.x, operands.w, operands.bias, residual=operands.residual) for _ in range(2)]
    assert [judge.fault(result) for result in results] == [None, None]
    assert "should be" in judge.fault(results[0] * np.float32(1.01))
    assert "should be" in judge.fault(kernel(operands.x, operands.w, operands.bias, residual=operands.residual + 1))
    assert Epilogue.RESIDUAL not in parse_epilogue(("relu",), takes_bias=True)
