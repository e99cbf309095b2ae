"""Calls of conv1d, its gradients and streams, and of the transposed layers, against float64."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import numpy as np

import warpconv
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.registry import ALGORITHMS, serving
from warpconv.codegen.spec import Epilogue, Numerics, Operation
from warpconv.runtime.call import streamed

from .. import drawn, reference
from ..axes import Choose
from ..reference import ELEMENTS
from . import exact, spatial
from .memory import Canvas, same_bits
from .spatial import Layer
from .world import World

EPILOGUES = drawn.EPILOGUES + drawn.MORE_EPILOGUES + drawn.RESIDUALS
FORWARD = ("auto",) * 24 + tuple(name for name, row in ALGORITHMS.items() if not row.by_name)
IN_ORDER = ("direct", "wide", "patch", "channels", "reuse")     # which sum in the taps' order (docs/one-dimension.md)


def values(choose: Choose, world: World) -> str:
    """A call on sequences, or a transposed layer of one axis to three."""
    return choose((line,) * 4 + (gradient, gradient, gradient, stream, stream, transposed, transposed))(choose, world)


def line(choose: Choose, world: World) -> str:
    """conv1d at several lengths, on arrays placed in several ways."""
    steps, algorithm = choose(EPILOGUES), choose(FORWARD)
    fields = spatial.fields_of(choose, 1, spatial.types(True))
    more, numerics = {"algorithm": algorithm}, Numerics.FLOAT32
    if fields["dtype"] == "float32" and choose((False,) * 3 + (True,)):
        more["precision"], numerics = "ieee", Numerics.IEEE
    elif fields["dtype"] == "float16" and choose((False,) * 3 + (True,)):
        more["accum_dtype"], numerics = "float16", Numerics.FLOAT16
    refused = algorithm != "auto" or numerics is Numerics.FLOAT16
    return spatial.several(choose, world, 1, fields, True, lambda layer: spatial.forward(
        choose, world, layer, steps, "conv1d", more, numerics, refused))


def gradient(choose: Choose, world: World) -> str:
    """A gradient of conv1d."""
    name = choose(("conv1d_input", "conv1d_weight"))
    fields = spatial.fields_of(choose, 1, spatial.types(False))
    algorithm = choose(("auto",) * 6 + _named(
        Operation.DATA_GRADIENT if name == "conv1d_input" else Operation.FILTER_GRADIENT))
    return spatial.several(choose, world, 1, fields, False, lambda layer: spatial.gradient(
        choose, world, layer, name, {"algorithm": algorithm}, algorithm != "auto"))


@functools.cache
def _named(operation: Operation, rank: int = 1) -> tuple[str, ...]:
    return tuple(row.name for row in serving(operation, max(2, rank)) if not row.by_name)


def transposed(choose: Choose, world: World) -> str:
    """A transposed layer at several sizes: the sum of what every element spreads."""
    rank = choose((1, 2, 3))
    fields = spatial.fields_of(choose, rank, spatial.types(False))
    fields |= {"padding_mode": "zeros", "padding_value": 0.0}
    algorithm = choose(("auto",) * 6 + _named(Operation.DATA_GRADIENT, rank))
    return spatial.several(choose, world, rank, fields, rank == 1, lambda layer: _transposed(
        choose, world, layer, algorithm))


def _transposed(choose: Choose, world: World, layer: Layer, algorithm: str) -> str:
    """The output of the layer whose output's sizes the drawn one's input has."""
    shape, rank = layer.shape, layer.rank
    rng = np.random.default_rng(choose(range(1 << 20)))
    element = ELEMENTS[shape.dtype]
    x = rng.standard_normal((shape.n, shape.k, *shape.image)).astype(element)
    w = rng.standard_normal(shape.weight_shape).astype(element)
    bias = rng.standard_normal(shape.c).astype(element) if choose((False, True)) else None
    extra = tuple(choose(range(max(step, after + 1))) if axis >= 2 - rank else 0
                  for axis, (step, (_, after)) in enumerate(zip(shape.stride, shape.padding)))
    sides = shape.padding
    if rank > 1 and choose((True, True, False)):
        sides = tuple((before, before) for before, _ in sides)
        extra = tuple(min(more, max(step - 1, before)) for more, step, (before, _) in zip(extra, shape.stride, sides))
    expected = exact.transposed(x, w, bias, sides, extra, shape.groups, shape.stride, shape.dilation, shape.dtype)
    if expected is None:
        return "refused"
    stays = world.keeps(x)
    out = layer.given(np.full(expected.output.shape, np.nan).astype(element)) if choose((False, True)) else None
    pads = sides[-rank:]
    ways: list[Any] = [pads if rank > 1 else pads[0]]
    if all(before == after for before, after in pads):
        ways += [tuple(before for before, _ in pads)] + [pads[0][0]] * (len(set(pads)) == 1)
    given = {"input": spatial.placed_as(choose, world, layer.given(x), stays),
             "weight": spatial.placed_as(choose, world, layer.weight(w), stays),
             "bias": spatial.placed_as(choose, world, bias, stays), "padding": choose(ways),
             **{name: spatial.along(choose, numbers[-rank:]) for name, numbers in (
                 ("stride", shape.stride), ("dilation", shape.dilation), ("output_padding", extra))},
             "groups": shape.groups, "layout": layer.layout, "algorithm": algorithm}
    return spatial.play(choose, world, f"conv_transpose{rank}d", given, Canvas(world, out, stays),
                        layer.seen(expected), algorithm != "auto")


def stream(choose: Choose, world: World) -> str:
    """A causal layer a chunk at a time: the values, and by a named algorithm the bits, of the whole."""
    plain = tuple({"dtype": dtype} for dtype in ("float32", "float16", "bfloat16"))
    fields = spatial.fields_of(choose, 1, plain, causal=True)
    shape = spatial.sized(choose, 1, fields)
    if shape is None:
        return "refused"
    layer = Layer(1, shape, choose((False, True)), shape.n == 1 and choose((False, True)))
    rng = np.random.default_rng(choose(range(1 << 20)))
    steps, algorithm = choose(drawn.EPILOGUES), choose(("auto", "auto", *IN_ORDER))
    x, w, bias = reference.operands(shape, rng)
    bias = bias if Epilogue.BIAS in steps else None
    residual = reference.residual(shape, rng) if Epilogue.RESIDUAL in steps else None
    expected = layer.seen(reference.expected(x, w, shape, bias=bias, residual=residual, epilogue=steps))
    stays, axis, reach = world.keeps(x), (1 if layer.last else 2) - layer.alone, shape.dilation[1] * (shape.s - 1)
    given_x = spatial.placed_as(choose, world, layer.given(x), stays)
    added = spatial.placed_as(choose, world, layer.given(residual), stays)
    more = {"weight": world.array(layer.weight(w), stays), "bias": None if bias is None else world.array(bias, stays),
            "dilation": shape.dilation[1], "groups": shape.groups, "padding": "causal", "epilogue": steps,
            "algorithm": algorithm, "layout": layer.layout, "device": world.device}
    cuts = [0]
    while cuts[-1] < shape.w:
        cuts.append(min(shape.w, cuts[-1] + choose((1, 1, 2, 5, 16, 40, 300))))
    canvas = Canvas(world, spatial.poison(layer, shape.output_shape, ELEMENTS[shape.dtype])
                    if choose((False, True)) else None, stays)
    whole = choose((streamed.COPIED_WHOLE, 0))
    world.tell(f"stream of {shape}, {layer.layout}, cut at {cuts}, {steps}, algorithm={algorithm!r}, "
               f"{'joined' if whole else 'first outputs again'}, out={canvas.out is not None}, alone={layer.alone}")
    state: Any = None
    parts: list[np.ndarray] = []
    with mock.patch.object(streamed, "COPIED_WHOLE", whole):
        for begin, end in zip(cuts, cuts[1:]):
            part = (slice(None),) * axis + (slice(begin, end),)
            kept = None if state is None else np.array(world.host(state))
            try:
                made, after = warpconv.conv1d(
                    given_x[part], residual=None if added is None else added[part], state=state, return_state=True,
                    out=None if canvas.out is None else canvas.out[part], **more)
            except UnsupportedSpec:
                assert algorithm != "auto", "auto serves no chunk"
                return "refused"
            assert kept is None or same_bits(world.host(state), kept), "a state was written"
            parts.append(np.array(world.host(made)))
            state, world.calls = after, world.calls + 1
    got = np.concatenate(parts, axis)
    expected.check(got, "the chunks")
    canvas.check(canvas.out)
    assert canvas.out is None or same_bits(world.host(canvas.out), got), "out= has other values than what comes back"
    assert same_bits(world.host(given_x), layer.given(x)), "an input was written"
    before = np.concatenate([np.zeros((*x.shape[:3], reach), x.dtype), x], 3)
    tail = layer.given(before[..., before.shape[3] - reach:])
    assert state.shape == tail.shape and same_bits(world.host(state), tail), "the state is not the last inputs"
    if algorithm in IN_ORDER and shape.dtype is DType.FLOAT32:
        try:
            alone = warpconv.conv1d(given_x, residual=added, **more)
        except UnsupportedSpec:     # out= had its order in memory, which the algorithm serves
            return "right"
        assert same_bits(world.host(alone), got), "the chunks' bits are not those of the whole"
    return "right"
