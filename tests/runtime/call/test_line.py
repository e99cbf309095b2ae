"""conv1d, its gradients and the transposed layer, against np.convolve in float64; streams cut anywhere."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from tests.lines import TYPES, drawn
from tests.reference import EPSILON, half_a_step
from tests.runtime.arrays.fake_arrays import DlpackOnly
from warpconv import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.dtypes import DType
from warpconv.runtime.call import conv, kernels, streamed, way
from warpconv.runtime.call.recording import recording

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
conv1d = functools.partial(warpconv.conv1d, device="cpu")


@pytest.mark.thin(18)
@pytest.mark.parametrize("number", range(16))
def test_drawn_layers(number):
    layer = drawn(number)
    layer.check(conv1d(layer.x, layer.w, layer.b, **layer.options))
    # and over memory in the other order, written to poisoned memory with gaps
    out = np.full((layer.n, layer.q, layer.k + 1), np.nan, layer.x.dtype)
    last = np.ascontiguousarray(layer.x.swapaxes(1, 2))
    assert conv1d(last, layer.w, layer.b, **layer.options, layout="NLC", out=out[:, :, 1:]).base is out
    layer.check(out[:, :, 1:].swapaxes(1, 2))
    assert np.isnan(out[:, :, 0].astype(np.float32)).all()


@pytest.mark.thin(2)
@pytest.mark.parametrize("layout", ["NCL", "NLC"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("taps", [4, pytest.param(7, marks=pytest.mark.long)])
def test_short_causal_layers_with_bias_and_silu_are_one_kernel(layout, dtype, taps, monkeypatch):
    layer = drawn(taps, n=2, groups=24, each=1, filters=1, taps=taps, dilation=1, stride=1, length=160, dtype=dtype,
                 padding="causal", mode="zeros")
    made = []
    real = kernels.made
    monkeypatch.setattr(kernels, "made", lambda ask: made.append(real(ask)) or made[-1])
    conv.clear()
    x = layer.x if layout == "NCL" else np.ascontiguousarray(layer.x.swapaxes(1, 2))
    got = conv1d(x, layer.w, layer.b, **layer.options, activation="silu", layout=layout)
    assert len(made) == 1 and len(made[0].program.steps) == 1
    before = layer.summed(layer.x, layer.w) + layer.b.astype(np.float64)[:, None]
    wanted = before / (1 + np.exp(-before))
    error = 2 * (taps + 5) * EPSILON * (layer.summed(np.abs(layer.x), np.abs(layer.w)) + 3)
    if dtype != "float32":
        error = error + half_a_step(np.abs(wanted) + error, DType(dtype))
    got = got if layout == "NCL" else got.swapaxes(1, 2)
    assert (np.abs(got.astype(np.float64) - wanted) <= error).all()


@pytest.mark.thin(3)
@pytest.mark.parametrize("layout, taps, length", [
    ("NCL", 31, 1500), ("NCL", 129, 100), ("NCL", 1024, 200), ("NLC", 63, 1500), ("NLC", 1024, 1500),
    *(pytest.param("NCL", taps, 1500, marks=pytest.mark.long) for taps in (255, 1024, 3000))])
def test_long_filters(layout, taps, length):
    layer = drawn(taps, n=1, groups=3, each=1, filters=2, taps=taps, dilation=1, stride=1, length=length,
                  dtype="float32", padding="causal", mode="zeros")
    x = layer.x if layout == "NCL" else np.ascontiguousarray(layer.x.swapaxes(1, 2))
    got = conv1d(x, layer.w, layer.b, **layer.options, layout=layout)
    layer.check(got if layout == "NCL" else got.swapaxes(1, 2))


def test_one_sequence_tuples_and_residuals():
    layer = drawn(3, n=1, groups=2, taps=4, dilation=2, stride=1, padding=(3, 1), mode="zeros", dtype="float32")
    got = conv1d(layer.x[0], layer.w, layer.b, (1,), [3, 1], (2,), 2)
    layer.check(got[None])
    out, residual = np.full_like(got, np.nan), np.random.default_rng(5).random(got.shape, np.float32)
    added = conv1d(layer.x[0], layer.w, layer.b, padding=(3, 1), dilation=2, groups=2, residual=residual, out=out)
    assert added is out and np.abs(out - (got.astype(np.float64) + residual)).max() < 1e-5
    turned = conv1d(layer.x[0].T, layer.w, layer.b, padding=(3, 1), dilation=2, groups=2, layout="NLC")
    layer.check(turned.T[None])


def test_memory_in_the_other_order_is_read_where_it_is(monkeypatch):
    layer = drawn(4, n=2, groups=8, each=1, filters=1, taps=4, stride=1, padding="causal", mode="zeros", length=32)
    seen: list[Any] = []
    monkeypatch.setattr(conv.arrays, "as_contiguous", lambda *args: seen.append(args))
    last = np.ascontiguousarray(layer.x.swapaxes(1, 2)).swapaxes(1, 2)
    got = conv1d(last, layer.w, layer.b, **layer.options)
    layer.check(got)
    assert got.strides == last.strides and not seen


def test_a_depthwise_layer_in_nlc_order_is_a_column_and_others_are_rows():
    x, last = np.ones((2, 8, 50), np.float32), np.ones((2, 50, 8), np.float32)
    column, row = way.Way("NHWC", 1, True), way.Way("NHWC", 1)
    assert way.way_of("NLC", last, (8, 1, 4)) == column
    assert way.way_of("NCL", last.swapaxes(1, 2), (8, 1, 4)) == ("NCHW", 2, True, False)
    assert way.way_of("NCL", last.swapaxes(1, 2), (8, 1, 4), told=True) == ("NHWC", 2, True, True)
    assert way.way_of("NCL", last.swapaxes(1, 2)[:, :, :1], told=True) == ("NHWC", 2, False, True)
    assert way.way_of("NLC", last[:, 3:9, 2:6], (4, 1, 4)) == column
    assert way.way_of("NLC", x.swapaxes(1, 2), (8, 1, 4)) == row     # its memory is in NCL order
    for size in ((8, 8, 4), (8, 1, 64), (1, 1, 4), ()):
        assert way.way_of("NLC", last, size) == row
    assert way.way_of("NCL", x, (8, 1, 4), told=True) == ("NCHW", 2, False, False)
    assert way.way_of("NLC", last[:, :1], (8, 1, 4)) == column       # one step tells as much


@pytest.mark.thin(6)
@pytest.mark.parametrize("number", range(6))
def test_gradients_and_the_transposed_layer(number):
    layer = drawn(40 + number, mode="zeros", length=19, dtype="float32")
    rng = np.random.default_rng(number)
    dy = rng.standard_normal((layer.n, layer.k, layer.q)).astype("f")
    # the sum of dy * y is linear in x and w: its slopes, by the layer of each unit vector
    x, w = layer.x.astype(np.float64), layer.w.astype(np.float64)
    wanted_w, size_w = np.zeros(w.shape), np.zeros(w.shape)
    for place in np.ndindex(*w.shape):
        unit = np.zeros(w.shape)
        unit[place] = 1
        made = layer.summed(x, unit)
        wanted_w[place], size_w[place] = (made * dy).sum(), np.abs(made * dy).sum()
    wanted_x, size_x = np.zeros(x.shape), np.zeros(x.shape)
    for c, at in np.ndindex(*x.shape[1:]):
        unit = np.zeros(x.shape)
        unit[:, c, at] = 1
        wanted_x[:, c, at] = (layer.summed(unit, w) * dy).sum((1, 2))
        size_x[:, c, at] = np.abs(layer.summed(unit, w) * dy).sum((1, 2))
    more = {**layer.options, "device": "cpu"}
    for layout, turn in (("NCL", lambda a: a), ("NLC", lambda a: np.ascontiguousarray(a.swapaxes(1, 2)))):
        out = np.full(layer.w.shape, np.nan, np.float32)
        dw = warpconv.conv1d_weight(turn(layer.x), layer.w.shape, turn(dy), **more, layout=layout, out=out)
        assert dw is out and (np.abs(dw - wanted_w) <= (layer.n * layer.q + 3) * EPSILON * size_w).all()
        dx = warpconv.conv1d_input(turn(layer.x).shape, layer.w, turn(dy), **more, layout=layout)
        terms = (layer.k * layer.taps + 3) * EPSILON
        assert (np.abs(dx - turn(wanted_x)) <= terms * turn(size_x)).all()
        if layer.sides[0] == layer.sides[1]:
            reach = layer.dilation * (layer.taps - 1)
            missing = layer.length - ((layer.q - 1) * layer.stride - 2 * layer.sides[0] + reach + 1)
            b = rng.standard_normal(layer.c).astype("f")
            made = warpconv.conv_transpose1d(turn(dy), layer.w, b, layer.stride, layer.sides[0], missing, layer.groups,
                                             layer.dilation, layout=layout, device="cpu")
            column = turn(np.broadcast_to(b[None, :, None], wanted_x.shape))
            assert (np.abs(made - turn(wanted_x) - column) <= terms * (turn(size_x) + np.abs(column)) + 1e-7).all()
            if layout == "NCL":
                alone = warpconv.conv_transpose1d(dy[0], layer.w, b, (layer.stride,), [layer.sides[0]], (missing,),
                                                  layer.groups, (layer.dilation,), device="cpu")
                assert np.array_equal(alone, made[0])


# ---- streams

def cuts(rng: np.random.Generator, length: int) -> list[int]:
    """Ends of chunks: some of one step, some shorter than a filter."""
    ends = []
    while length > sum(ends):
        ends.append(int(min(length - sum(ends), rng.choice([1, 1, 2, 5, 16, 40]))))
    return [0, *np.cumsum(ends).tolist()]


def streams():
    """Every layout with either type and either way to join, not with both."""
    ways = {"joined": streamed.COPIED_WHOLE, "first outputs again": 0}
    return [pytest.param(dtype, dilation, layout, whole, id=f"{dtype}-{dilation}-{layout}-{how}",
                         marks=() if (i + j + k) % 2 == 0 else pytest.mark.long)
            for i, (dtype, dilation) in enumerate([("float32", 1), ("bfloat16", 2)])
            for j, layout in enumerate(["NCL", "NLC", "NCL over NLC"]) for k, (how, whole) in enumerate(ways.items())]


@pytest.mark.thin(6)
@pytest.mark.parametrize("dtype, dilation, layout, whole", streams())
def test_a_stream_is_the_whole_bit_for_bit(layout, dtype, dilation, whole, monkeypatch):
    monkeypatch.setattr(streamed, "COPIED_WHOLE", whole)
    layer = drawn(7, n=2, groups=6, each=1, filters=1, taps=4, dilation=dilation, stride=1, length=150, dtype=dtype,
                 padding="causal", mode="zeros")
    rng = np.random.default_rng([settings.seed, dilation, whole])
    residual = rng.standard_normal((2, 6, 150)).astype(layer.x.dtype)
    turn = (lambda a: np.ascontiguousarray(a.swapaxes(1, 2))) if layout == "NLC" else (
        lambda a: np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2)) if layout != "NCL" else (lambda a: a)
    x, residual, axis = turn(layer.x), turn(residual), 1 if layout == "NLC" else 2
    more = {**layer.options, "activation": "silu", "algorithm": "direct", "layout": layout[:3]}
    wanted = conv1d(x, layer.w, layer.b, residual=residual, **more)
    for _ in range(3):
        state, ends, got = None, cuts(rng, 150), np.full_like(wanted, np.nan)
        for begin, end in zip(ends, ends[1:]):
            part = (slice(None),) * axis + (slice(begin, end),)
            out = got[part]
            out[...] = residual[part]       # which may be the residual itself
            before = None if state is None else state.copy()
            made, after = conv1d(x[part], layer.w, layer.b, residual=out, out=out, state=state, return_state=True,
                                 **more)
            assert made is out and (state is None or np.array_equal(before, state))
            state = after
        assert np.array_equal(got, wanted)
        tail = (slice(None),) * axis + (slice(-3 * dilation, None),)
        assert np.array_equal(state, x[tail]) and state.base is not x and not np.shares_memory(state, x)


@pytest.mark.thin(4)
@pytest.mark.parametrize("whole", [streamed.COPIED_WHOLE, 0])
@pytest.mark.parametrize("algorithm, last", [("wide", False), ("patch", False), ("reuse", False), ("channels", True)])
def test_algorithms_that_sum_in_the_taps_order_have_the_bits_of_the_whole(algorithm, last, whole, monkeypatch):
    monkeypatch.setattr(streamed, "COPIED_WHOLE", whole)
    layer = drawn(9, n=2, groups=8, each=1, filters=1, taps=4, dilation=1, stride=1, length=160, dtype="float32",
                  padding="causal", mode="zeros")
    # (N, C, L) over memory in either order, which copies keep: the algorithm serves one
    x = np.ascontiguousarray(layer.x.swapaxes(1, 2)).swapaxes(1, 2) if last else layer.x
    more = {**layer.options, "algorithm": algorithm}
    state, parts = None, []
    for begin, end in ((0, 1), (1, 8), (8, 160)):
        made, state = conv1d(x[:, :, begin:end], layer.w, layer.b, state=state, return_state=True, **more)
        parts.append(made)
    assert np.array_equal(np.concatenate(parts, 2), conv1d(x, layer.w, layer.b, **more))


def test_a_stream_of_one_sequence_and_of_one_tap():
    layer = drawn(8, n=1, groups=4, each=1, filters=1, taps=4, dilation=1, stride=1, length=19, dtype="float32",
                 padding="causal", mode="zeros")
    wanted = conv1d(layer.x[0], layer.w, layer.b, **layer.options, algorithm="direct")
    first, state = conv1d(layer.x[0, :, :2], layer.w, layer.b, **layer.options, algorithm="direct", return_state=True)
    assert state.shape == (4, 3) and not state[:, 0].any()
    rest = conv1d(layer.x[0, :, 2:], layer.w, layer.b, **layer.options, algorithm="direct", state=state)
    assert np.array_equal(np.concatenate([first, rest], 1), wanted)
    one = np.ascontiguousarray(layer.w[:, :, :1])
    for state in (None, np.zeros((1, 4, 0), "f")):
        made, after = conv1d(layer.x, one, padding="causal", groups=4, state=state, return_state=True)
        assert after.shape == (1, 4, 0) and np.array_equal(made, conv1d(layer.x, one, groups=4))


# ---- mistakes

X, W = np.ones((2, 4, 9), np.float32), np.ones((4, 1, 3), np.float32)


@pytest.mark.parametrize("error, argument, given", [
    (ArgumentError, "layout", {"layout": "NCHW"}),
    (ArgumentError, "layout", {"layout": ["NCL"]}),
    (ArgumentTypeError, "return_state", {"return_state": np.zeros(2)}),
    (ArgumentTypeError, "padding", {"padding": np.zeros(2)}),
    (ArgumentError, "padding_mode", {"padding": "causal", "padding_mode": np.zeros(2)}),
    (ArgumentTypeError, "algorithm", {"padding": "causal", "algorithm": np.zeros(2)}),
    (ArgumentTypeError, "epilogue", {"padding": "causal", "epilogue": np.zeros(2)}),
    (ShapeError, "padding", {"padding": "full"}),
    (ShapeError, "padding", {"padding": (1, 2, 3)}),
    (ShapeError, "padding", {"padding": -1}),
    (ShapeError, "stride", {"stride": (1, 1)}),
    (ArgumentTypeError, "dilation", {"dilation": 1.5}),
    (ShapeError, "input", {"input": X[0, 0]}),
    (ShapeError, "weight", {"weight": W[:, 0]}),
    (ShapeError, "out", {"input": X[0], "out": X}),
    (ArgumentTypeError, "input", {"input": "x"}),
    (ArgumentTypeError, "weight", {"weight": None}),
    (ArgumentTypeError, "weight", {"weight": "x"}),
    (ArgumentTypeError, "input", {"input": DlpackOnly(X)}),
    (ArgumentError, "state", {"return_state": True}),
    (ArgumentError, "state", {"return_state": True, "padding": "causal", "stride": 2}),
    (ArgumentError, "state", {"return_state": True, "padding": "causal", "padding_mode": "reflect"}),
    (ArgumentError, "state", {"return_state": True, "padding": "causal", "stream": 0}),
    (ShapeError, "state", {"state": np.zeros((2, 4, 3), "f"), "padding": "causal"}),
    (ArgumentTypeError, "state", {"state": np.zeros((2, 4, 2)), "padding": "causal"}),
    (ArgumentTypeError, "state", {"state": np.zeros((2, 4, 2), np.float16), "padding": "causal"}),
])
def test_mistakes_name_the_argument(error, argument, given):
    with pytest.raises(error) as caught:
        conv1d(**{"input": X, "weight": W, "groups": 4, **given})
    assert caught.value.argument == argument


def test_mistakes_of_the_gradients():
    with pytest.raises(ShapeError, match="three sizes"):
        warpconv.conv1d_input((2, 4), W, X, groups=4)
    with pytest.raises(ArgumentTypeError, match="three sizes"):
        warpconv.conv1d_weight(X, 3, X, groups=4)
    for mistaken in (lambda: warpconv.conv1d_input(X.shape, None, X, groups=4),
                     lambda: warpconv.conv_transpose1d(X, None, groups=4)):
        with pytest.raises(ArgumentTypeError) as caught:
            mistaken()
        assert caught.value.argument == "weight"
    with pytest.raises(ArgumentError, match="in numbers"):
        warpconv.conv_transpose1d(X, W, padding="causal")
    with pytest.raises(ShapeError, match="one number"):
        warpconv.conv_transpose1d(X, W, output_padding=(0, 0))


def test_a_graph_has_no_state(monkeypatch):
    monkeypatch.setattr(recording, "graph", types.SimpleNamespace())
    with pytest.raises(ArgumentError, match="graph"):
        conv1d(X, W, groups=4, padding="causal", state=np.zeros((2, 4, 2), "f"))
