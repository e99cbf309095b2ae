"""Arrays of types that no kernel reads or writes, converted by their own library where ``dtype=`` asks for it.

The result has the type that ``output`` says, or the input's: what kernels do not store is cast as SciPy casts, to zero.
float64 has float32's values; bool those of uint8 that are not 0. Integers that no kernel stores of floats are truncated
in float32, after each filter as SciPy stores between the axes, and then cast.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.parts.refusals import FLOATS
from warpconv.codegen.shape import PIXELS
from warpconv.runtime import arrays
from warpconv.runtime.arrays import factories
from warpconv.runtime.call.recording import recording

from .target import has_order, is_dtype, name_of, output_types

TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
         "float32", "float64")      # that can be converted, if their library has them
_SERVED = (*FLOATS, *PIXELS)


class Kept(NamedTuple):
    """How kernels store what is then cast: as ``dtype``, each result truncated if ``whole``."""

    dtype: DType
    whole: bool = False


def call(once: Callable[[Any, Any, bool], Any], input: Any, output: Any, dtype: Any, stream: Any) -> Any:
    """``once(input, output, whole)`` of the input as ``dtype``, its result as ``output`` says.

    Raises ArgumentTypeError for types that are not converted and for arrays of other libraries than NumPy, PyTorch and
    CuPy, ShapeError for an output of another shape, ArgumentError in the capture of a graph.
    """
    wanted = served(dtype)
    given = type_of(input, "input")
    own = output is None or is_dtype(output)
    name = given if output is None else name_of(output, "output") if own else type_of(output, "output")
    if name not in TYPES:
        raise ArgumentTypeError(f"results are not cast to {name}", argument="output", value=name,
                                hint=f"one of {', '.join(TYPES)}")
    stored = {each.value for each in output_types(wanted)}
    if recording.graph is not None and (given != wanted.value or name not in stored):
        raise ArgumentError("a graph does not hold conversions by the array's library", argument="dtype", value=dtype,
                            hint="convert before the graph")
    if not own:
        _check_output(output, input)
    x = input if given == wanted.value else cast(input, wanted.value, stream)
    if name in stored:
        return _ordered(once(x, name if own else output, False), output)
    kept = kept_as(name, wanted)
    made = once(x, kept.dtype.value, kept.whole)
    made = cast(cast(made, "int64", stream) if kept.whole else made, name, stream)
    if own:
        return _ordered(made, output)
    with _on(output, stream):
        output[...] = made
    return output


def _ordered(made: Any, output: Any) -> Any:
    """A result of NumPy's in the byte order that ``output`` asks for, if it is an element type."""
    if isinstance(made, np.ndarray) and has_order(output) and not np.dtype(output).isnative:
        return made.astype(np.dtype(output))
    return made


def of_list(job: Any, images: Sequence[Any], output: Any, dtype: Any, stream: Any) -> list[Any]:
    """The same of a list of images: converted one by one, filtered together. Raises as ``call`` and a list's call do,
    before anything is written."""
    wanted = served(dtype)
    own = output is None or is_dtype(output)
    given, names = types_of_list(images, output)
    if recording.graph is not None or not set(names) <= set(TYPES):
        return list(job.one_by_one(images, output))     # which says what is wrong
    kept = kept_as(names[0], wanted)
    if len(set(names)) != 1:
        made = job.one_by_one(images, output if own else names)
    elif names[0] in {each.value for each in output_types(wanted)}:
        x = [image if name == wanted.value else cast(image, wanted.value, stream) for image, name in zip(images, given)]
        return [_ordered(each, output) for each in job(x, names[0] if own else output)]
    elif kept.whole:
        made = job.one_by_one(images, names[0])
    else:
        made = job([cast(image, wanted.value, stream) for image in images], kept.dtype.value)
        made = [cast(each, names[0], stream) for each in made]
    return [_ordered(each, output) for each in made] if own else write(output, made, stream)


def types_of_list(images: Sequence[Any], output: Any) -> tuple[list[str], list[str]]:
    """The names of the element types of a list's images and of their results. Raises as ``of_list`` does."""
    from . import lists
    own = output is None or is_dtype(output)
    lists.check_given(images, None if own else output)
    given = [type_of(image, "input") for image in images]
    lists.alike("input", "number of axes", [image.ndim for image in images], ShapeError)
    if own:
        return given, given if output is None else [name_of(output, "output")]
    names = [type_of(each, "output") for each in output]
    for i, each in enumerate(output):
        _check_output(each, images[i])
    lists.check_apart(*map(np.array, zip(*map(_ends, output))))
    return given, names


def write(outputs: Sequence[Any], made: Sequence[Any], stream: Any) -> list[Any]:
    """Results in the caller's arrays, when all are there: an image may lie where the result of one before it goes."""
    for into, each in zip(outputs, made):
        with _on(into, stream):
            into[...] = each
    return list(outputs)


def kept_as(name: str, wanted: DType) -> Kept:
    """How kernels of inputs of ``wanted`` store results that are then cast to the type of this name."""
    if name == "bool":
        return Kept(DType.UINT8)
    if "float" in name:
        return Kept(DType.FLOAT32)
    return Kept(DType.INT32) if wanted.is_integer else Kept(DType.FLOAT32, whole=True)


def served(dtype: Any) -> DType:
    """The type that ``dtype=`` names. Raises ArgumentTypeError."""
    name = name_of(dtype, "dtype")
    found = next((each for each in _SERVED if each.value == name), None)
    if found is None:
        raise ArgumentTypeError(f"nothing is filtered as {name}", argument="dtype", value=name,
                                hint=f"one of {', '.join(each.value for each in _SERVED)}: float32 for most")
    return found


def type_of(array: Any, argument: str) -> str:
    """The name of an array's element type. Raises ArgumentTypeError."""
    if _library(array) is None:
        raise ArgumentTypeError("arrays of this library are not converted", argument=argument,
                                value=type(array).__name__,
                                hint="give an array of NumPy, PyTorch or CuPy, or convert it and leave dtype= out")
    name = name_of(array.dtype, argument)
    if name not in TYPES:
        more = ", or filter .real and .imag" if "complex" in name else ""
        raise ArgumentTypeError(f"there is no way from {name} to what kernels read", argument=argument, value=name,
                                hint=f"one of {', '.join(TYPES)}{more}")
    return name


WRAPPING = ("uint8", "uint16", "uint32")        # narrower than int64, by way of which all libraries wrap round


def cast(array: Any, name: str, stream: Any) -> Any:
    """The array with elements of another type, as its own library casts them. Floats that are negative wrap round as
    unsigned ones, as SciPy's do; on a GPU they would become zero."""
    with _on(array, stream), np.errstate(invalid="ignore"):
        if name in WRAPPING and "float" in name_of(array.dtype, "output") and _library(array) != "numpy":
            array = cast(array, "int64", stream)
        if _library(array) == "torch":
            return array.to(getattr(sys.modules["torch"], name))
        return array.astype(factories.numpy_dtype(DType.BFLOAT16) if name == "bfloat16" else name)


def _library(array: Any) -> str | None:
    if isinstance(array, np.ndarray):
        return "numpy"
    for library, kind in (("torch", "Tensor"), ("cupy", "ndarray")):
        if library in sys.modules and isinstance(array, getattr(sys.modules[library], kind, ())):
            return library
    return None


def _check_output(output: Any, input: Any) -> None:
    if _library(output) != _library(input) or getattr(output, "device", None) != getattr(input, "device", None):
        raise ArgumentTypeError("output and input are not in one place", argument="output",
                                value=type(output).__name__, hint="an array of input's library and device")
    if tuple(output.shape) != tuple(input.shape):
        raise ShapeError("output has another shape than input", argument="output", value=tuple(output.shape),
                         hint=f"{tuple(input.shape)}")
    if isinstance(output, np.ndarray) and not output.flags.writeable:
        raise ArgumentError("the array is read-only", argument="output", hint="give one that can be written")


def _ends(array: Any) -> tuple[int, int]:
    """First address of an array, and the one behind its last; equal for one without elements."""
    library = _library(array)
    first, steps = (
        (array.data_ptr(), [step * array.element_size() for step in array.stride()]) if library == "torch" else
        (array.data.ptr if library == "cupy" else array.ctypes.data, array.strides))
    size = array.element_size() if library == "torch" else array.itemsize
    if 0 in array.shape:
        return first, first
    reach = [(count - 1) * step for count, step in zip(array.shape, steps)]
    return first + sum(min(each, 0) for each in reach), first + sum(max(each, 0) for each in reach) + size


def _on(array: Any, stream: Any) -> Any:
    """A context in which the array's library works on the caller's stream."""
    library = _library(array)
    if stream is None or library == "numpy" or (library == "torch" and not array.is_cuda):
        return contextlib.nullcontext()
    module, handle = sys.modules[library or ""], arrays.stream_handle(stream)
    if library == "torch":
        return module.cuda.stream(factories.torch_stream_object(module, handle, array.device))
    return factories.cupy_stream_object(module, handle)
