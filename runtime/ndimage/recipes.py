"""SciPy's calls in few microseconds: what a call did is kept, and done again for arrays of its like.

A call that passed every check is remembered by the signatures of its arrays and by its arguments: its kernels, their
filters (prepared: on the device, where that is needed in the kernel's own order), and which array each step reads and
writes. A later call with the same key goes from kernel to kernel; each makes the checks of its own call, and where one
of them refuses (an odd address, an output that shares memory with the input) the whole call is made as if it were the
first, which does it another way or says what is wrong.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from warpconv.codegen.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    ShapeError,
)
from warpconv.runtime import arrays
from warpconv.runtime.call import conv, signatures
from warpconv.runtime.call.filter import Filter
from warpconv.runtime.call.quick import Entry
from warpconv.runtime.call.recording import recording

from . import converted, planes
from .planes import Image
from .target import Target, is_dtype
from .work import Extras, Passes, Room, Step, Work

MOST_RECIPES = 1024
_PLAIN = {type(None), str, int}
_REFUSED = (ArgumentError, ArgumentTypeError, ShapeError)

_recipes: dict[tuple[Any, ...], Recipe] = {}
conv.on_clear.append(_recipes.clear)
atexit.register(_recipes.clear)     # GPU memory goes before the libraries that own it


class Deferred:
    """An input whose calls are not made but noted (Dask's arrays): ``deferred`` gets what ``call`` is given."""

    def deferred(self, plan: Callable[..., Passes], output: Any, arguments: tuple[Any, ...], extras: Extras,
                 dtype: Any) -> Any:
        raise NotImplementedError


def call(plan: Callable[..., Passes], input: Any, output: Any, arguments: tuple[Any, ...], extras: Extras,
         dtype: Any = None) -> Any:
    """The result of ``plan(image, dtype, *arguments)``'s passes over ``input``, in ``output`` as SciPy takes it; with
    ``dtype`` over the input as that type; what a Deferred makes of them for such an input; of a list of images the list
    of their results."""
    if isinstance(input, Deferred):
        return input.deferred(plan, output, arguments, extras, dtype)
    if isinstance(input, (list, tuple)):
        return _of_list(plan, input, output, arguments, extras, dtype)
    if dtype is None:
        return _once(plan, arguments, extras, input, output)
    return converted.call(functools.partial(_once, plan, arguments, extras), input, output, dtype, extras.stream)


def _of_list(plan: Callable[..., Passes], images: Sequence[Any], output: Any, arguments: tuple[Any, ...],
             extras: Extras, dtype: Any) -> list[Any]:
    """The results of a call on images of differing sizes."""
    from .batches import Job

    def one(image: Any, written: Any, told: tuple[Any, ...]) -> Any:
        return call(plan, image, written, told, extras, dtype)

    job = Job(plan, arguments, extras, one)
    return job(images, output) if dtype is None else converted.of_list(job, images, output, dtype, extras.stream)


def _once(plan: Callable[..., Passes], arguments: tuple[Any, ...], extras: Extras, input: Any, output: Any,
          whole: bool = False) -> Any:
    key, found = _key(plan, input, output, (*arguments, int(whole)), extras), None
    if key is not None:
        try:
            found = _recipes.get(key)
        except TypeError:       # arguments that are none
            key = None
    if found is not None:
        try:
            return found(input, output, extras.stream)
        except _REFUSED:
            pass
    image = Image.of(input)
    target = Target.of(output, image, whole)
    work = Work(image, target, extras)
    made = work.do(plan(image, target.planned, *arguments))
    if key is not None and found is None and recording.graph is None:
        _learn(key, work)
    return made


class Planned:
    """A plan of an image alone, equal to those that follow from equal arguments, ``told``: a call like one before is
    known by it."""

    def __init__(self, plan: Callable[[Image], Passes], *told: Any):
        self._plan = plan
        self._key = _token(told)

    def __call__(self, image: Image, dtype: Any) -> Passes:
        return self._plan(image)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Planned) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class Recipe:
    """A call's steps, to be taken again. Any thread may; all that changes is ``_entry``, which the next call may find
    or not: the launch of the only step of a call that needs no view but the arrays themselves."""

    __slots__ = ("_entry", "_fills", "_only", "_shape", "_steps")

    def __init__(self, steps: list[Step | Room], shape: tuple[int, ...], fills: bool):
        self._steps = tuple(steps)
        self._shape = shape
        self._fills = fills     # the caller's array from the last result: no kernel can write there
        first = self._steps[0]
        self._only = first if len(steps) == 1 and not fills and isinstance(first, Step) and first.adds is None else None
        self._entry: Entry | None = None

    def __call__(self, input: Any, output: Any, stream: Any) -> Any:
        only = self._only
        if only is not None:
            out = None if only.target is None else output
            if self._entry is not None and recording.graph is None:
                made = self._entry.repeat(input, None, None, None, out, stream, only.weight.prepared)
                if made is not None:
                    return made
            return self._by(only, input, out, stream)
        made = [input]
        result = None
        for step in self._steps:
            if type(step) is Room:
                made.append(step.make(arrays.view(input, "input"), self._shape, stream))
                continue
            source, out = made[step.source], None
            if step.target is not None:
                result = output if step.target < 0 else made[step.target]
                out = _seen(result, step.writes)
            adds = None if step.adds is None else _seen(made[step.adds], step.writes)
            array = step.kernel(_seen(source, step.reads), step.weight, residual=adds, out=out, stream=stream)
            if out is None:
                result = array.reshape(self._shape)
                made.append(result)
        if self._fills:
            output[...] = result
            return output
        return result

    def _by(self, step: Step, input: Any, out: Any, stream: Any) -> Any:
        """The result of the only step, by its kernel; the launch is kept for the next call."""
        x, y = _seen(input, step.reads), None if out is None else _seen(out, step.writes)
        made = step.kernel(x, step.weight, out=y, stream=stream)
        result = made.reshape(self._shape) if out is None else out
        if recording.graph is None and isinstance(step.weight, Filter) and step.weight.factored is None:
            entry = step.kernel.remembered(signatures.sign_call(x, None, None, None, y))
            self._entry = None if entry is None else entry.seen_as((x, input), (made, result))
        return result


def _seen(array: Any, how: planes.Seen) -> Any:
    array = array.reshape(how.split)
    return array if how.turned is None else planes.turned(array, how.turned)


def _learn(key: tuple[Any, ...], work: Work) -> None:
    """Keep a call's steps, its weights prepared; where they cannot be (a stream in capture), the next call may."""
    steps = list(work.steps)
    if type(steps[-1]) is Room or any(type(step) is Step and not step.fixed for step in steps):
        return      # an empty image; weights of the caller's
    try:
        for i, step in enumerate(steps):
            if type(step) is Step:
                steps[i] = step.prepared(work.extras.stream)
    except (DeviceError, *_REFUSED):
        return
    if len(_recipes) >= MOST_RECIPES:
        _recipes.clear()
    target = work.target
    _recipes[key] = Recipe(steps, work.shape, target.array is not None and not target.takes_results)


# ---- keys

def _key(plan: Callable[..., Passes], input: Any, output: Any, arguments: tuple[Any, ...],
         extras: Extras) -> tuple[Any, ...] | None:
    """What a call's like has in common with it; None where that cannot be told."""
    signed = _sign(input)
    if signed is None:
        return None
    if output is None:
        written: Any = None
    elif is_dtype(output):
        written = output
    else:
        written = _sign(output)
        if written is None or type(output) is np.ndarray and not output.flags.writeable:
            return None
    return (plan, signed, written, output is input, extras.device, extras.algorithm,
            *[value if type(value) in _PLAIN else _token(value) for value in arguments])


def _sign(array: Any) -> Any:
    """What must be the same of two arrays, and whose they are; None for arrays of other libraries."""
    if type(array) is np.ndarray:
        return array.shape, array.strides, array.dtype
    library = signatures.library(array)
    signed = None if library is None else library.sign(array)
    return None if signed is None else (library, signed)


def _token(value: Any) -> Any:
    """An argument for a key: by its value and type, as 1, 1.0 and True are equal but not the same argument."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return (kind, *map(_token, value))
    if isinstance(value, np.ndarray):
        return kind, value.shape, value.dtype, value.tobytes()
    return kind, value
