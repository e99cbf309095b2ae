"""Calls of conv2d: drawn layers of every algorithm on arrays placed in every way, and arguments that cannot be."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np

import warpconv
from warpconv.codegen.errors import ShapeError, UnsupportedSpec, WarpconvError
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics

from .. import drawn, gradients, reference
from ..axes import Choose
from ..cases import Case
from .memory import PLACES, Canvas, placed, same_bits, told
from .world import World

CALLS = (2, 8, 16)     # of a layer


def values(choose: Choose, world: World) -> str:
    """A layer's outputs against the float64 reference, in calls at several sizes, whose arrays lie in several ways."""
    found = drawn.draw_layer_and_case(choose, images=choose((False, True)))
    if found is None:
        return "refused"
    case, shape = found
    named, how = choose((case.algorithm, "auto")), "refused"
    for number in range(choose(CALLS)):
        if number and choose((True,) + (False,) * 3):
            try:
                shape = case.shape(*drawn.draw_size(choose))
            except ShapeError:
                continue
        try:
            _call(choose, world, case, shape, named)
        except UnsupportedSpec:
            continue
        world.calls, how = world.calls + 1, "right"
    return how


def _call(choose: Choose, world: World, case: Case, shape: ConvShape, named: str) -> None:
    """One call; outputs lie in a canvas whose other elements must not change."""
    separable = shape.separable
    rng = np.random.default_rng(choose(range(1 << 20)))
    if separable:       # conv2d takes the whole filter and finds its factors
        shape = replace(shape, separable=False)
    x, w, bias = reference.operands(shape, rng)
    if separable:       # products of small numbers are exact in every type
        column, row = (rng.integers(-3, 4, (shape.k, 1, *sizes)) for sizes in ((shape.r, 1), (1, shape.s)))
        w = np.broadcast_to(column * row, w.shape).astype(w.dtype)
    steps = tuple(case.epilogue)
    bias = bias if Epilogue.BIAS in steps else None
    residual = reference.residual(shape, rng) if Epilogue.RESIDUAL in steps else None
    where = {name: choose(PLACES) for name in ("x", "w", "out")}
    poisoned = reference.poisoned(shape)
    stays = world.keeps(x, w, residual, poisoned)
    canvas = Canvas(world, None if where["out"] is None else poisoned, stays)
    world.tell(f"{case}, {shape}, algorithm={named!r}, arrays {where}")
    given_x, given_w = (world.array(placed(array, where[name]), stays) for name, array in (("x", x), ("w", w)))
    got = warpconv.conv2d(
        given_x, given_w, None if bias is None else world.array(bias, stays), **geometry(shape),
        layout=shape.layout.value, epilogue=steps, algorithm=named, accum_dtype=accumulated(case, shape),
        precision=case.numerics.precision.value, residual=None if residual is None else world.array(residual, stays),
        device=world.device, separable=True if separable and shape.channels == 1 and stays else None, out=canvas.out)
    canvas.check(got)
    assert same_bits(world.host(given_x), x) and same_bits(world.host(given_w), w), "an input was written"
    reference.expected(x, w, shape, bias=bias, residual=residual, epilogue=steps, numerics=case.numerics).check(
        world.host(got), str(case))


def gradient(choose: Choose, world: World) -> str:
    """A gradient of a drawn layer against float64, its memory given or not."""
    rng = np.random.default_rng(choose(range(1 << 20)))
    made, operation = gradients.make(rng, gradients.draw_shape(rng)), choose(("dx", "dx", "dw", "dw", "db"))
    world.tell(f"{operation} of {made.shape}")
    made.check(operation, device=world.device)
    return "right"


def geometry(shape: ConvShape) -> dict[str, Any]:
    """conv2d's arguments of a layer, without its sizes."""
    given = {"stride": shape.stride, "padding": shape.padding, "dilation": shape.dilation, "groups": shape.groups,
             "padding_mode": shape.padding_mode.value, "padding_value": shape.padding_value, "cast": shape.cast.value}
    return given if shape.out_dtype is None else {**given, "out_dtype": shape.out_dtype.value}


def accumulated(case: Case, shape: ConvShape) -> str | None:
    """conv2d's name of a case's arithmetic."""
    return "float16" if case.numerics is Numerics.FLOAT16 and shape.dtype.value == "float16" else None


# values for any argument: most of them cannot be
ODD: tuple[Any, ...] = (0, -1, 1, 2, 3, 2**31, 2**63, 1.5, float("nan"), float("inf"), None, True, "", "same", "zeros",
                        "reflect", "float16", "NHWC", "x" * 300, "\x00", (), (1,), (1, 2), (1, 2, 3), ((1, 2), (3, 4)),
                        [2, 2], {}, {"a": 1}, b"1", object, 1j, np.int64(2), np.float32(1), np.zeros(2))
DTYPES = ("float32", "float16", "float64", "int64", "uint8", "int8", "bool", "complex64", "object", "<U3", ">f4",
          "datetime64[s]")
ARGUMENTS = ("bias", "stride", "padding", "dilation", "groups", "activation", "padding_mode", "padding_value",
             "epilogue", "algorithm", "layout", "accum_dtype", "residual", "out", "out_dtype", "cast", "device",
             "stream", "workspace_limit", "separable", "precision", "output_padding", "state", "return_state")
NAMED = ("conv2d",) * 6 + ("conv2d_input", "conv2d_weight", "conv_transpose2d", "conv2d_bias", "conv1d", "conv1d",
                           "conv1d_input", "conv1d_weight", "conv_transpose1d", "conv3d", "conv3d", "conv3d_input",
                           "conv3d_weight")


def arguments(choose: Choose, world: World) -> str:
    """Arrays and arguments of which some cannot be: a result, or an error of warpconv's own."""
    def array(rank: int) -> Any:
        if choose((False,) * 9 + (True,)):
            return choose(ODD)
        sizes = tuple(choose((0, 1, 2, 3, 5, 8)) if choose((False, True)) else 4
                      for _ in range(choose((rank,) * 6 + (0, 1, 2, 3, 5))))
        return np.zeros(sizes, choose(("float32",) * 4 + DTYPES))

    name = choose(NAMED)
    rank = 2 + next(int(letter) for letter in name if letter.isdigit())
    x, w = array(rank), array(rank)
    taken = inspect.signature(getattr(warpconv, name)).parameters
    known = tuple(argument for argument in ARGUMENTS if argument in taken)
    given = {choose(known): choose(ODD) for _ in range(choose((0, 1, 1, 2, 3)))}
    sizes = choose(((2, 4, 4, 4, 4), (4, 4, 1, 1, 1), (1, 4, 5, 5, 5), (1, 2), "44444", None, 4, (4, -1, 4, 4, 4),
                    (2**40,) * 5))
    sizes = sizes[:rank] if isinstance(sizes, (tuple, str)) else sizes
    before = {"input": (sizes, w, x), "weight": (x, sizes, w), "bias": (x,)}.get(name.partition("_")[2], (x, w))
    given.setdefault("device", world.device)
    if world.device == "cpu" and (given["device"] is None or isinstance(given["device"], str)):
        given["device"] = "cpu"
    world.tell(f"{name}({', '.join(map(told, before))}, {given})")
    try:
        getattr(warpconv, name)(*before, **given)
    except WarpconvError:
        return "refused"
    return "right"
