"""What calls on layers of one, two and three spatial axes share: a drawn layer, the ways to write it, one call of it
that may be given something that cannot be."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import warpconv
from warpconv.codegen.errors import ShapeError, UnsupportedSpec, WarpconvError
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics

from .. import drawn, reference
from ..axes import BORDERS, Choose
from ..reference import ELEMENTS, Expected
from . import exact
from .memory import PLACES, Canvas, placed, same_bits, told
from .world import World

CALLS = (1, 2, 5)       # of a layer
MOST = 1_000_000        # products of a call
CHANNELS = ((1, 1, 1), (2, 1, 1), (3, 1, 1), (8, 1, 1), (24, 1, 1), (1, 2, 3), (2, 2, 1), (3, 1, 2), (2, 2, 3),
            (1, 3, 4), (1, 16, 8), (1, 32, 16))     # groups, channels and filters of a group
TAPS: Mapping[int, tuple[int, ...]] = {1: (1, 2, 3, 4, 4, 7, 16, 31, 64, 130, 300), 2: (1, 2, 3, 3, 4, 5, 7),
                                       3: (1, 2, 3, 3, 4, 5)}
SIZES = {"d": tuple(range(1, 9)), "h": (*range(1, 11), 17), "w": (1, 2, 3, 8, 12, 13, 16, 31, 32, 33, 64, 70),
         "l": (1, 2, 5, 19, 31, 32, 33, 64, 65, 100, 150, 257, 300)}
VALUES = {False: 0.625, True: 3.0}          # of a border 'constant'; whole beside filters of integers
ACTIVATIONS = ("relu", "relu6", "silu", "gelu", "hardswish")


@dataclass(frozen=True)
class Layer:
    """A layer whose arrays are made with axes (N, C, ...), of one axis as a row; ``rank`` spatial axes, channels
    ``last`` and the batch left out (``alone``) in the caller's arrays."""

    rank: int
    shape: ConvShape
    last: bool = False
    alone: bool = False

    def given(self, array: Any) -> Any:
        """An array with the caller's axes."""
        if array is None:
            return None
        array = array[:, :, 0] if self.rank == 1 else array
        array = np.ascontiguousarray(np.moveaxis(array, 1, -1)) if self.last else array
        return array[0] if self.alone else array

    def weight(self, array: np.ndarray) -> np.ndarray:
        """A filter with the caller's axes."""
        return array[:, :, 0] if self.rank == 1 else array

    def seen(self, expected: Expected) -> Expected:
        """What is expected, with the caller's axes."""
        return replace(expected, **{name: self.given(getattr(expected, name))
                                    for name in ("output", "tolerance", "overflows", "open")})

    @property
    def layout(self) -> str:
        return {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[self.rank][self.last]


def fields_of(choose: Choose, rank: int, types: Sequence[Mapping[str, Any]], causal: bool = False) -> dict[str, Any]:
    """A layer's fields, without its sizes."""
    groups, each, filters = choose(CHANNELS)
    taps = [choose(TAPS[rank]) for _ in range(rank)]

    def along(sequence: tuple[int, ...]) -> list[int]:
        return [choose(sequence)] * rank if choose((True, False)) else [choose(sequence) for _ in range(rank)]

    stride, dilation = along((1, 1, 1, 2, 3)), along((1, 1, 1, 2, 3))
    kind = choose(("none", "half", "same", "causal", "even", "any", "any"))
    if causal:
        kind, stride = "causal", [1] * rank
    reach = [apart * (size - 1) for apart, size in zip(dilation, taps)]
    one = choose((1, 2, 3, 4))
    sides = {"none": [(0, 0)] * rank, "half": [(r // 2, r // 2) for r in reach], "causal": [(r, 0) for r in reach],
             "same": [(r // 2, r - r // 2) for r in reach], "even": [(one, one)] * rank}.get(kind)
    if sides is None:
        sides = [(choose((0, 0, 1, 2, 3, 7)), choose((0, 0, 1, 2, 3, 7))) for _ in range(rank)]
    mode = "zeros" if causal else choose(("zeros", "zeros", *BORDERS))
    before, kinds = [1] * (rank == 1), choose(types)
    value = VALUES[str(kinds.get("weight_dtype")).startswith("int")] if mode == "constant" else 0.0
    names = ("t", "r", "s")[-max(rank, 2):]
    return {"groups": groups, "c": groups * each, "k": groups * filters, **dict(zip(names, before + taps)),
            "stride": (*before, *stride), "dilation": (*before, *dilation),
            "padding": ((0, 0),) * (rank == 1) + tuple(sides), "padding_mode": mode,
            "padding_value": value, **kinds}


def sized(choose: Choose, rank: int, fields: Mapping[str, Any]) -> ConvShape | None:
    """The layer at a drawn size that gives an output, small enough for the CPU device; None where no try does."""
    for _ in range(20):
        sizes = {"n": choose((1, 1, 2, 3)), "h": 1 if rank == 1 else choose(SIZES["h"]),
                 "w": choose(SIZES["l" if rank == 1 else "w"])}
        sizes |= {"d": choose(SIZES["d"])} if rank == 3 else {}
        try:
            shape = ConvShape(**fields, **sizes)
        except ShapeError:
            continue
        if shape.macs <= MOST:
            return shape
    return None


def geometry(choose: Choose, layer: Layer) -> dict[str, Any]:
    """The layer's numbers, in one of the ways to write each."""
    s, rank = layer.shape, layer.rank
    pads, reach = s.padding[-rank:], [extent - 1 for extent in s.extents[-rank:]]
    ways: list[Any] = [pads if rank > 1 else pads[0], [list(side) for side in pads] if rank > 1 else list(pads[0])]
    if all(before == after for before, after in pads):
        ways += [tuple(before for before, _ in pads)] + [pads[0][0]] * (len(set(pads)) == 1)
    if set(s.stride) == {1} and all((r // 2, r - r // 2) == pad for r, pad in zip(reach, pads)):
        ways += ["same", "same"]
    if rank == 1 and pads[0] == (reach[0], 0):
        ways += ["causal", "causal"]
    if not any(map(any, pads)):
        ways += ["valid"]
    return {"stride": along(choose, s.stride[-rank:]), "padding": choose(ways),
            "dilation": along(choose, s.dilation[-rank:]), "groups": s.groups, "padding_mode": s.padding_mode.value,
            "padding_value": s.padding_value, "layout": layer.layout}


def along(choose: Choose, numbers: tuple[int, ...]) -> Any:
    """A number for each axis, in one of the ways to write them."""
    return choose([numbers, list(numbers)] + [numbers[0]] * (len(set(numbers)) == 1))


def steps_given(choose: Choose, steps: tuple[Epilogue, ...], bias: Any, residual: Any) -> dict[str, Any]:
    """The arguments of an epilogue: its steps, or a bias and an activation."""
    names = [step.value for step in steps]
    given = {"bias": bias, "residual": residual}
    if names[bool(names) and names[0] == "bias":] in ([], *([name] for name in ACTIVATIONS)) and choose((True, False)):
        return {**given, "activation": next((name for name in names if name != "bias"), None)}
    return {**given, "epilogue": steps if choose((True, False)) else names}


def placed_as(choose: Choose, world: World, array: np.ndarray | None, stays: bool) -> Any:
    """An array where the device takes it, its elements somewhere in memory."""
    return None if array is None else world.array(placed(array, choose(PLACES)), stays)


def poison(layer: Layer, sizes: tuple[int, ...], element: np.dtype) -> np.ndarray:
    """Memory for a result of the logical ``sizes`` with the caller's axes, full of what no result is."""
    made = (np.arange(math.prod(sizes)) * 0x9E3779B1 >> 7) if element.kind in "iu" else np.full(sizes, np.nan)
    return layer.given(made.astype(element).reshape(sizes))


def play(choose: Choose, world: World, name: str, given: dict[str, Any], canvas: Canvas, expected: Expected,
         may_refuse: bool = False) -> str:
    """One call by its arguments: the result that is expected, or, where one argument is made what it cannot be, a
    refusal that has written nothing. ``may_refuse``: whether no algorithm may serve it."""
    known = inspect.signature(getattr(warpconv, name)).parameters
    given = {argument: value for argument, value in {**given, "device": world.device, "out": canvas.out}.items()
             if argument in known}
    fault = choose(faults(name, given, known, world)) if choose((False,) * 5 + (True,)) else None
    if fault is not None:
        given[fault[0]] = fault[1]
    arrays = [(value, np.array(world.host(value))) for argument, value in given.items()
              if argument in ("input", "weight", "grad_output", "bias", "residual") and hasattr(value, "strides")]
    world.tell(f"{name}({', '.join(f'{argument}={told(value)}' for argument, value in given.items())})"
               + ("" if fault is None else f"; {fault[0]} cannot be"))
    try:
        got = getattr(warpconv, name)(**given)
    except WarpconvError as error:
        canvas.unwritten()
        assert fault or may_refuse and isinstance(error, UnsupportedSpec), f"refused: {type(error).__name__}: {error}"
        return "refused"
    assert fault is None, f"{fault[0]}={told(fault[1])} was not refused"
    canvas.check(got)
    assert all(same_bits(world.host(array), before) for array, before in arrays), "an input was written"
    expected.check(world.host(got), name)
    return "right"


def faults(name: str, given: Mapping[str, Any], known: Mapping[str, Any], world: World) -> list[tuple[str, Any]]:
    """Arguments with a value that cannot be, one of which makes a call of a right one that has to be refused."""
    nan, transposed = float("nan"), "transpose" in name
    found: list[tuple[str, Any]] = [
        *(("stride", value) for value in (0, -1, 1.5, "x", None, (), (1,) * 5, 2**40, nan)),
        *(("dilation", value) for value in (0, -2, 0.5, "1", None, (1,) * 5, {})),
        *(("padding", value) for value in (-1, "full", 1.5, None, (1,) * 5, 2**40, ((1, 2, 3),), nan)),
        *(("groups", value) for value in (0, -1, 10007, 1.5, "2", None, (1,))),
        *(("layout", value) for value in ("NWC", 3, None, b"NCL")), *(("padding_mode", v) for v in ("edge", None, 2)),
        *(("algorithm", value) for value in ("none such", 3, None, "ragged", "")),
        *(("device", value) for value in ("tpu", 3, None, "cuda:-1")),
        *(("activation", value) for value in ("tanhh", 3, ("relu",))),
        *(("epilogue", value) for value in (("bias", "bias"), 3, ("nothing",), "relux", (None,), ("residual",) * 2)),
        *(("out_dtype", value) for value in ("float64", 3, "")), *(("cast", value) for value in ("floor", 3, None)),
        *(("accum_dtype", value) for value in ("float64", 3)), *(("precision", v) for v in ("double", None, 3)),
        ("residual", np.zeros(3, np.float32)), ("residual", 0), ("padding_value", "x"), ("padding_value", None),
        *(("output_padding", value) for value in (-1, 10**6, 1.5, "x", None, (0,) * 5)), ("workspace_limit", -1),
        ("state", np.zeros((1, 1, 10**4), np.float32)), ("state", 3), ("stream", "x"), ("stream", -5), ("bias", 1.0)]
    if not transposed and isinstance(given["padding"], (int, tuple, list)) and _taps(given)[-1] > 1:
        found.append(("dilation", 5000))
    for argument in ("input", "weight", "grad_output", "bias"):
        array = given.get(argument)
        if array is not None:
            found += [(argument, array.astype(np.complex64)), (argument, array[None, None]), (argument, array[..., :0]),
                      (argument, "x")] + [(argument, None)] * (argument != "bias")
    for argument in ("input_size", "weight_size"):
        if argument in given:
            sizes = given[argument]
            found += [(argument, value) for value in (sizes[:-1], (*sizes, 1), (*sizes[:-1], sizes[-1] + 1000), None,
                                                      "234", (*sizes[:-1], 0), (*sizes[:-1], 1.5), sizes[-1], ())]
    out = given.get("out")
    if out is not None:
        found += [("out", out[..., :-1]), ("out", out[None, None]), ("out", out.astype(np.complex64)), ("out", 0)]
        source = given.get("input", given.get("grad_output"))
        if world.device == "cpu":
            fixed = out.copy()
            fixed.flags.writeable = False
            found.append(("out", fixed))
            if source.dtype == out.dtype and source.flags.c_contiguous:     # its last element is the input's first
                room = np.resize(source.reshape(-1)[:1], out.size - 1 + source.size)
                room[out.size - 1:] = source.reshape(-1)
                found.append(("out", room[:out.size].reshape(out.shape)))
                given["input" if "input" in given else "grad_output"] = room[out.size - 1:].reshape(source.shape)
    return [fault for fault in found if fault[0] in known]


def _taps(given: Mapping[str, Any]) -> tuple[int, ...]:
    return given["weight_size"] if "weight_size" in given else given["weight"].shape


def types(forward: bool, pixels: bool = True) -> tuple[dict[str, Any], ...]:
    """Element types of layers: floats, and of forward layers outputs of other types and pixels, too."""
    plain = tuple({"dtype": dtype, "weight_dtype": None, "out_dtype": None, "cast": "nearest"}
                  for dtype in ("float32", "float32", "float16", "bfloat16"))
    return plain * 8 + drawn.FLOAT_KINDS[::3] + (drawn.PIXEL_KINDS[::5] if pixels else ()) if forward else plain


def forward(choose: Choose, world: World, layer: Layer, steps: tuple[Epilogue, ...], name: str, more: dict[str, Any],
            numerics: Numerics = Numerics.FLOAT32, may_refuse: bool = False) -> str:
    """One call of a forward layer against float64."""
    shape, rng = layer.shape, np.random.default_rng(choose(range(1 << 20)))
    x, w, bias = reference.operands(shape, rng)
    residual = reference.residual(shape, rng) if Epilogue.RESIDUAL in steps else None
    bias = bias if Epilogue.BIAS in steps else None
    expected = reference.expected(x, w, shape, bias=bias, residual=residual, epilogue=steps, numerics=numerics)
    poisoned = poison(layer, shape.output_shape, ELEMENTS[shape.y_dtype])
    stays = world.keeps(x, w, residual, poisoned)
    canvas = Canvas(world, poisoned if choose((False, True)) else None, stays)
    there = {"input": placed_as(choose, world, layer.given(x), stays),
             "weight": placed_as(choose, world, layer.weight(w), stays),
             **steps_given(choose, steps, placed_as(choose, world, bias, stays),
                           placed_as(choose, world, layer.given(residual), stays))}
    types_given = {"cast": shape.cast.value} | ({} if shape.out_dtype is None else {"out_dtype": shape.out_dtype.value})
    return play(choose, world, name, {**there, **geometry(choose, layer), **types_given, **more}, canvas,
                layer.seen(expected), may_refuse)


def gradient(choose: Choose, world: World, layer: Layer, name: str, more: dict[str, Any], may_refuse: bool) -> str:
    """One call of a gradient against float64: ``name`` ends in 'input' or 'weight'."""
    shape, rng = layer.shape, np.random.default_rng(choose(range(1 << 20)))
    x, w, dy = (rng.standard_normal(sizes).astype(ELEMENTS[shape.dtype])
                for sizes in (shape.input_shape, shape.weight_shape, shape.output_shape))
    stays = world.keeps(x)
    there = {"grad_output": placed_as(choose, world, layer.given(dy), stays)}
    if name.endswith("input"):
        expected = layer.seen(exact.data_gradient(w, dy, shape))
        there |= {"input_size": layer.given(x).shape, "weight": placed_as(choose, world, layer.weight(w), stays)}
    else:
        expected = exact.filter_gradient(x, dy, shape)
        expected = replace(expected, output=layer.weight(expected.output), tolerance=layer.weight(expected.tolerance))
        there |= {"input": placed_as(choose, world, layer.given(x), stays), "weight_size": layer.weight(w).shape}
    empty = np.full(expected.output.shape, np.nan).astype(ELEMENTS[shape.dtype])
    canvas = Canvas(world, empty if choose((False, True)) else None, stays)
    return play(choose, world, name, {**there, **geometry(choose, layer), **more}, canvas, expected, may_refuse)


def several(choose: Choose, world: World, rank: int, fields: Mapping[str, Any], alone: bool,
            call: Callable[[Layer], str]) -> str:
    """``call`` of a layer at several sizes: right where one of them is."""
    last, how = choose((False, True)), "refused"
    for _ in range(choose(CALLS)):
        shape = sized(choose, rank, fields)
        if shape is None:
            continue
        found = call(Layer(rank, shape, last, alone and shape.n == 1 and choose((False, True))))
        if found == "right":
            world.calls, how = world.calls + 1, found
    return how
