"""SciPy's calls on lists of images of differing sizes, beside the same call on each image alone and beside SciPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import warpconv
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import WarpconvError

from ..axes import Choose
from ..reference import ELEMENTS
from . import images
from .memory import PLACES, Canvas, placed, same_bits, told
from .world import World

CALLS = tuple(name for name in images.CALLS if not name.startswith("generic_"))
SIDES = {1: (1, 2, 5, 33, 64, 130, 300), 2: (1, 1, 2, 3, 5, 7, 9, 20, 31, 33, 64, 65, 130), 3: (1, 2, 3, 4, 5, 8, 18)}
ALL = ("mode", "device", "layout", "algorithm")         # arguments of an image alone, too
HALF = {"float16": 2.0**-10, "bfloat16": 2.0**-7}       # the distance of a type's elements beside 1
TYPES = (*images.TYPES, *images.SERVED, *HALF)


def values(choose: Choose, world: World) -> str:
    """A call on a list whose images lie in memory in any way, some without elements."""
    name, rank, dtype = choose(CALLS), choose((2, 2, 2, 1, 3)), choose(TYPES)
    sides, count = SIDES[rank] + (0,) * choose((0, 0, 0, 2)), choose((2, 1, 3, 5, 9))
    shapes = [tuple(choose(sides) for _ in range(rank)) for _ in range(count)]
    shapes = shapes[:1] * count if choose((False,) * 4 + (True,)) else shapes
    rng = np.random.default_rng(choose(range(1 << 20)))
    whole = [images.image(rng, shape, "float32" if dtype in HALF else dtype) for shape in shapes]
    whole = [image.astype(ELEMENTS[DType(dtype)]) if dtype in HALF else image for image in whole]
    given = images.drawn_arguments(choose, name, shapes[0], rng)
    each = [dict(given) for _ in shapes]
    if "weights" in given and name in ("correlate", "convolve") and choose((False, True)):
        taps = given["weights"].shape
        given["weights"] = [rng.integers(-3, 9, choose((taps, taps, tuple(reversed(taps))))) for _ in shapes]
        if choose((False, True)):
            given["weights"] = [filters / 4 for filters in given["weights"]]
        each = [{**one, "weights": filters} for one, filters in zip(each, given["weights"])]
    ours_alone: dict[str, Any] = {"device": world.device}
    if dtype not in (*images.SERVED, *HALF) and choose((True, True, False)):
        ours_alone["dtype"] = "float32"
    if choose((False,) * 7 + (True,)):
        ours_alone["layout"] = choose(("NCHW", "NHWC"))
    if choose((False,) * 5 + (True,)):
        ours_alone["algorithm"] = choose(("direct", "wide", "reuse"))
    listed = [world.array(placed(image, choose(PLACES))) for image in whole]
    into = choose((None, None, "new", "itself"))
    out_type = ELEMENTS[DType("float32")] if given["output"] else whole[0].dtype
    canvases = [Canvas(world, np.full(shape, 0x5A).astype(out_type) if into == "new" else None) for shape in shapes]
    if into == "new" and world.device != "cpu":
        canvases = [Canvas(world, None)] * count       # outputs of a GPU have no gaps
    elif into == "new":
        given["output"] = [canvas.out for canvas in canvases]
    elif into == "itself" and given["output"] is None and world.device == "cpu":
        listed = [image.copy() for image in whole]
        given["output"] = listed
        if len(set(shapes)) == 1:       # the result of each where another one lies
            given["output"] = listed[1:] + listed[:1]
    fault = choose(faults(listed, given, shapes, world)) if choose((False,) * 5 + (True,)) else None
    if fault is not None and fault[0] in ALL:      # refused alike, or taken alike where nothing depends on it
        each, fault = [{**one, **dict([fault])} for one in each], None
        given.update({argument: each[0][argument] for argument in ALL if argument in each[0]})
        ours_alone = {argument: value for argument, value in ours_alone.items() if argument not in each[0]}
    world.tell(f"{name}(images of {shapes} {dtype}, {given}, {ours_alone})"
               + ("" if fault is None else f"; {fault[0]}={told(fault[1])} cannot be"))
    alone = each_alone(name, listed, each, ours_alone, world)
    called = {**given, **ours_alone, "input": choose((list, tuple))(listed), **dict([fault] if fault else [])}
    try:
        found = getattr(warpconv, name)(**called)
    except WarpconvError as error:
        for canvas in canvases:
            canvas.unwritten()
        assert all(same_bits(world.host(image), kept) for image, kept in zip(listed, whole)), (
            "a refused call wrote to an image")
        assert fault or isinstance(alone, Exception), f"refused, each image alone is not: {error}"
        return "refused"
    assert fault is None, "was not refused"
    assert not isinstance(alone, Exception), f"not refused, an image alone is: {alone}"
    assert isinstance(found, list) and len(found) == count, "no list of as many results"
    for i, (result, image, canvas) in enumerate(zip(found, whole, canvases)):
        canvas.check(result)
        got = world.host(result)
        assert got.shape == alone[i].shape and got.dtype == alone[i].dtype, (got.shape, alone[i].shape, got.dtype)
        near(got, alone[i], image, each[i], name, f"image {i} and alone")
        if dtype not in HALF and "layout" not in {**given, **ours_alone}:
            theirs = images.theirs_of(name, image, {**each[i], "output": got.dtype if into == "new" else
                                                    each[i]["output"]})
            if not images.open_to_both(got, theirs, name):
                near(got, theirs, image, each[i], name, f"image {i} and SciPy")
    if into != "itself":
        assert all(same_bits(world.host(image), kept) for image, kept in zip(listed, whole)), "an image was written"
    return "right"


def each_alone(name: str, listed: Sequence[Any], each: Sequence[dict[str, Any]], ours_alone: dict[str, Any],
               world: World) -> list[np.ndarray] | WarpconvError:
    """The result of each image by itself, or the refusal of one."""
    try:
        return [world.host(getattr(warpconv, name)(image, **given, **ours_alone))
                for image, given in zip(listed, each)]
    except WarpconvError as error:
        return error


def near(got: np.ndarray, other: np.ndarray, image: np.ndarray, given: dict[str, Any], name: str, what: str) -> None:
    """As images.near; of 16-bit floats, whose filters are rounded to them too, within that."""
    try:
        if image.dtype.name in HALF and got.size:
            weights = np.abs(np.asarray(given.get("weights", 8.0), np.float64)).sum()
            largest = np.abs(image.astype(np.float64)).max() + abs(given["cval"])
            apart = np.abs(got.astype(np.float64) - other.astype(np.float64)).max()
            assert apart <= HALF[image.dtype.name] * weights * largest, f"off by {apart}"
        elif got.dtype.name not in HALF:
            images.near(got, other, image, given, name)
        elif got.size:
            apart, largest = (np.abs(array).max() for array in (got.astype(np.float64) - other.astype(np.float64),
                                                                other.astype(np.float64)))
            assert apart <= 4 * HALF[got.dtype.name] * max(1.0, largest), f"off by {apart}"
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from None


def faults(listed: list[Any], given: dict[str, Any], shapes: list[tuple[int, ...]],
           world: World) -> list[tuple[str, Any]]:
    """Arguments with a value that cannot be."""
    first = listed[0]
    found: list[tuple[str, Any]] = [
        ("input", []), ("input", [*listed, None]), ("input", [*listed, first[None]]), ("input", [*listed, "x"]),
        ("input", [*listed, first.astype(np.complex64)]), ("input", [[1.0, 2.0], [3.0, 4.0]]), ("input", [3, 4]),
        ("input", [*listed, listed]), ("mode", "nowhere"), ("mode", 3), ("device", "tpu"), ("layout", "NC"),
        ("output", first.copy()), ("output", []), ("output", [first.copy()] * (len(listed) + 1)), ("output", 3),
        ("output", "complex64"), ("output", [None] * len(listed)), ("algorithm", "none such")]
    if world.device == "cpu":
        found += [("stream", 0)] if any(map(np.prod, shapes)) else []
        fixed = [np.zeros(shape, first.dtype) for shape in shapes]
        fixed[-1].flags.writeable = False
        found.append(("output", fixed))
        odd = [np.zeros(shape, first.dtype) for shape in shapes]
        odd[-1] = np.zeros((*shapes[-1][:-1], shapes[-1][-1] + 1), first.dtype)
        found.append(("output", odd))
        if len(shapes) > 1 and np.prod(shapes[0]) and np.prod(shapes[1]):
            sizes = [int(np.prod(shape)) for shape in shapes]
            room = np.zeros(sum(sizes), first.dtype)        # the first and the second share an element
            shared = [np.zeros(shape, first.dtype) for shape in shapes]
            shared[0] = room[:sizes[0]].reshape(shapes[0])
            shared[1] = room[sizes[0] - 1:][:sizes[1]].reshape(shapes[1])
            found.append(("output", shared))
    if isinstance(given.get("weights"), list):
        found += [("weights", given["weights"] * 2), ("weights", given["weights"][0][None, None])]
    return found
