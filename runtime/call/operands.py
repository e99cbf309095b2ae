"""Calls of gradients' kernels: operands of any rank as memory, a result that is made or written, and the launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.codegen.layer import integer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayView, axes

from . import kernels
from .checks import Call, Misaligned, check_address, contiguous, same_memory
from .kernel import Kernel
from .quick import Entry
from .recording import recording


Remember = Callable[[Entry], None]


@dataclass(frozen=True)
class Operand:
    """An array of the caller, and what it is in memory order."""

    argument: str
    value: Any
    view: ArrayView
    order: axes.Order | None = None      # how its axes are turned to memory order


def run(ask: kernels.Ask, operands: dict[str, Operand], target: str, sizes: tuple[int, ...], order: Layout | None,
         out: Any, stream: Any, remember: Remember | None = None) -> Any:
    """One call; ``sizes`` are the result's in memory, ``order`` that of its axes for the caller, None where that is the
    same. ``remember`` is given what repeats a call of such arrays, where it can be repeated."""
    shape = ask.request.layer
    turns = (None, None) if order is None else (
        axes.order(order, shape.layout, shape.rank), axes.order(shape.layout, order, shape.rank))
    first = next(iter(operands.values()))
    y = None if out is None else target_of(out, sizes, shape.dtype, turns[0], operands)
    kernel = kernels.kernel_of(ask)
    try:
        return launch(kernel, shape, operands, first, target, sizes, turns, y, out, stream, remember)
    except Misaligned:
        return launch(kernels.anywhere(kernel, ask), shape, operands, first, target, sizes, turns, y, out, stream)


def launch(kernel: Kernel, shape: ConvShape, operands: dict[str, Operand], first: Operand, target: str,
           sizes: tuple[int, ...], turns: Any, y: ArrayView | None, out: Any, stream: Any,
           remember: Remember | None = None) -> Any:
    handle, (turn, back) = kernel.handle_of(stream), turns
    kernel.check_place(first.view, first.argument)
    if recording.graph is not None:
        recording.graph.check(stream, {**{o.argument: o.view for o in operands.values()}, "out": y})
    queue = kernel.queue_of(stream, handle, first.view)
    on = 0 if queue is None else queue.handle
    # all is checked but addresses: from here on memory is taken, then work queued
    given = {name: contiguous(o.value, o.view, o.argument, o.order) for name, o in operands.items()}
    copied = y is not None and not y.contiguous
    result, written = out, y
    if y is None or copied:
        result = arrays.empty(first.view if y is None else y, sizes, shape.dtype, order=back, stream=on)
        written = arrays.view(result, "out")
        written = written if turn is None else written.transposed(turn)
    assert written is not None
    given[target] = written
    if first.view.is_device:
        for argument in kernel.aligned:
            if argument.name in given:
                check_address(argument, given[argument.name].pointer)
    kernel.backend.run(Call(shape, given), None, queue)
    if copied:
        arrays.copy_into(y, result, on)
        return out
    if recording.graph is not None:
        recording.graph.add(given.values(), None)
    elif remember is not None:
        values = {name: o.value for name, o in operands.items()} | {target: result}
        if (entry := kernel.repeating(values, given, shape)) is not None:
            remember(entry)
    return result


def target_of(out: Any, sizes: tuple[int, ...], dtype: DType, turn: Any, operands: dict[str, Operand]) -> ArrayView:
    """A given output in memory order. Raises ShapeError, ArgumentTypeError, or ArgumentError where it shares memory
    with what is read or cannot be copied into."""
    view = arrays.view(out, "out", dtypes=(dtype,), ndim=len(sizes), writable=True)
    view = view if turn is None else view.transposed(turn)
    if view.shape != sizes:
        raise ShapeError("out does not have the gradient's sizes", argument="out", value=tuple(out.shape),
                         hint=f"{sizes} in memory order is needed")
    if not view.contiguous and not arrays.can_copy_into(view):
        raise ArgumentError("out has gaps, and its library has no copy into them", argument="out", value=view.strides,
                            hint="give an array without gaps, or none and copy the result")
    for operand in operands.values():
        same_memory(view, operand.view, "out", operand.argument)
        if arrays.overlaps(view, operand.view):
            raise ArgumentError(f"out shares memory with {operand.argument}", argument="out", value=view.shape,
                                hint="give memory of its own")
    return view


def weight_of(weight: Any, beside: ArrayView, rank: int = 4) -> ArrayView:
    view = arrays.view(weight, "weight", dtypes=(beside.dtype,), ndim=rank)
    same_memory(view, beside, "weight")
    return view


def seen(out: Any, dtype: DType, rank: int = 4) -> ArrayView | None:
    return None if out is None else arrays.view(out, "out", dtypes=(dtype,), ndim=rank, writable=True)


def sizes_of(given: Any, argument: str, meaning: str, rank: int = 4) -> tuple[int, ...]:
    """Whole numbers, ``rank`` of them. Raises ShapeError, ArgumentTypeError."""
    many = {4: "four", 5: "five"}[rank]
    try:
        sizes = tuple(given)
    except TypeError:
        raise ArgumentTypeError(f"{argument} is {many} sizes", argument=argument, value=given, hint=meaning) from None
    if len(sizes) != rank:
        raise ShapeError(f"{argument} is {many} sizes, not {len(sizes)}", argument=argument, value=sizes, hint=meaning)
    return tuple(integer(size, argument, "size", 1, 2**31) for size in sizes)


def turned(sizes: tuple[int, ...], order: Layout, memory: Layout) -> tuple[int, ...]:
    """Sizes of axes in ``order`` as they are in memory."""
    return memory.stored(order.logical(sizes))


def check_sizes(view: ArrayView, argument: str, expected: tuple[int, ...], what: str) -> None:
    if view.shape != expected:
        raise ShapeError(f"{argument} does not fit: {what} {expected}", argument=argument, value=view.shape,
                         hint=f"{expected}")
