"""Causal layers a chunk at a time: the inputs before a chunk, and those for the next.

A kernel reads one array, so the state has to lie before the chunk. A short chunk is copied behind it. Of a long one
only as many elements are as the state has: the kernel of the whole layer makes all outputs, and a small one makes the
first again, which are all that see the state. No output knows how its stream was cut: it is the sum of the same
products in the same order, as far as the algorithm's order does not depend on the place.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError
from warpconv.runtime import arrays
from warpconv.runtime.arrays import ArrayKind, ArrayView

from .checks import same_memory
from .recording import recording
from .watched import is_watched

COPIED_WHOLE = 1 << 22      # bytes of a chunk whose copy takes no longer than the launches that it saves

_LIBRARIES = (ArrayKind.NUMPY, ArrayKind.TORCH, ArrayKind.CUPY)     # whose arrays take values in parts


def streamed(call: Callable[[Any, Any, Any, Any], Any], axis: int, reach: int, x: Any, state: Any, residual: Any,
             out: Any, return_state: bool, *parameters: Any) -> tuple[Any, Any]:
    """The output of a chunk behind ``state`` (zeros if None), of ``reach`` elements along ``axis``; and the next state,
    None if nobody wants it. ``call`` computes the layer, whose ``parameters`` PyTorch may watch, too, of (input,
    padding, residual, out). Raises as conv1d does."""
    torch = sys.modules.get("torch")
    if torch is not None and is_watched(torch, x, state, residual, out, *parameters):
        return _by_torch(torch, call, axis, reach, x, state, residual, out)
    copies = _Copies(x, state, axis, reach)
    length = copies.view.shape[axis]
    if state is None or reach == 0:
        made = call(x, (reach, 0), residual, out)
        return made, copies.last(None) if return_state else None
    if length <= 2 * reach or copies.view.nbytes <= COPIED_WHOLE:
        joined = copies.joined(length)
        made = call(joined, 0, residual, out)
        return made, copies.last(joined) if return_state else None
    first = copies.joined(reach)
    # the residual may be the output, and is read before that is written
    added = None if residual is None else copies.first_of(residual)
    after = copies.last(None) if return_state else None
    made = call(x, (reach, 0), residual, out)
    call(first, 0, added, made[copies.part(0, reach)])
    return made, after


def _by_torch(torch: Any, call: Callable[[Any, Any, Any, Any], Any], axis: int, reach: int, x: Any, state: Any,
              residual: Any, out: Any) -> tuple[Any, Any]:
    """The same in operations that PyTorch records."""
    sizes = [reach if i == axis else size for i, size in enumerate(x.shape)]
    before = x.new_zeros(sizes) if state is None else state
    if not isinstance(before, torch.Tensor):
        raise ArgumentTypeError("a call that PyTorch records, compiles or casts takes tensors", argument="state",
                                value=type(state).__name__, hint="give a torch.Tensor")
    if list(before.shape) != sizes:
        raise _misshapen(before.shape, sizes)
    if before.dtype is not x.dtype:
        raise ArgumentTypeError("a state is of its chunk's type", argument="state", value=before.dtype,
                                hint=f"state.to({x.dtype})")
    joined = torch.cat((before, x), axis)
    return call(joined, 0, residual, out), joined.narrow(axis, x.shape[axis], reach).clone()


class _Copies:
    """Copies of parts of a chunk and its state, made by their library on its current stream, in the chunk's order in
    memory. Raises ShapeError, ArgumentTypeError, ArgumentError."""

    def __init__(self, x: Any, state: Any, axis: int, reach: int):
        self.x, self.state, self.axis, self.reach = x, state, axis, reach
        self.view = arrays.view(x, "input", ndim=3)
        if recording.graph is not None:
            raise ArgumentError("a recorded call has no state: a graph would not repeat its copies", argument="state",
                                hint="keep the inputs before a chunk in front of it in one array, and give no state")
        if self.view.kind not in _LIBRARIES:
            raise ArgumentTypeError("parts of this array cannot be copied by its library", argument="input",
                                    value=self.view.kind.value, hint="arrays of PyTorch, CuPy or NumPy have a state")
        views = [self.view]
        if state is not None:
            views.append(arrays.view(state, "state", dtypes=(self.view.dtype,), ndim=3))
            if views[1].kind is not self.view.kind:
                raise ArgumentTypeError(f"the state is of {views[1].kind.value}, and the input of "
                                        f"{self.view.kind.value}", argument="state", value=type(state).__name__,
                                        hint="an array of the input's library")
            same_memory(views[1], self.view, "state")
            if views[1].shape != self._sizes(self.view, reach):
                raise _misshapen(views[1].shape, self._sizes(self.view, reach))
        told = (_is_turned(view) for view in views)
        self.turned = next((turned for turned in told if turned is not None), False)

    def joined(self, length: int) -> Any:
        """The state and ``length`` elements of the chunk behind it."""
        made = self._empty(self.view, self.reach + length)
        self._put(made, 0, self.reach, self.state)
        self._put(made, self.reach, self.reach + length, self.x[self.part(0, length)])
        return made

    def last(self, joined: Any) -> Any:
        """The next state: the end of what the chunk was ``joined`` to; of the chunk alone (None), whose state is zeros
        unless it is longer than that."""
        made, length, reach = self._empty(self.view, self.reach), self.view.shape[self.axis], self.reach
        if joined is not None:
            self._put(made, 0, reach, joined[self.part(length, length + reach)])
            return made
        there = min(reach, length)
        self._put(made, 0, reach - there, 0)
        self._put(made, reach - there, reach, self.x[self.part(length - there, length)])
        return made

    def first_of(self, residual: Any) -> Any:
        """A copy of a residual's elements where the outputs see the state."""
        made = self._empty(arrays.view(residual, "residual", ndim=3), self.reach)
        self._put(made, 0, self.reach, residual[self.part(0, self.reach)])
        return made

    def part(self, begin: int, end: int) -> tuple[slice, ...]:
        """Elements along the axis."""
        return (slice(None),) * self.axis + (slice(begin, end),)

    def _empty(self, like: ArrayView, length: int) -> Any:
        sizes = self._sizes(like, length)
        if not self.turned:
            return arrays.empty(like, sizes, like.dtype, stream=arrays.current_stream(like) or 0)
        n, second, third = sizes
        made = arrays.empty(like, (n, third, second), like.dtype, stream=arrays.current_stream(like) or 0)
        return made.swapaxes(1, 2)

    def _put(self, made: Any, begin: int, end: int, value: Any) -> None:
        if begin == end:
            return
        owner: Any = self.view.owner
        with owner.device if self.view.kind is ArrayKind.CUPY else contextlib.nullcontext():
            made[self.part(begin, end)] = value

    def _sizes(self, like: ArrayView, length: int) -> tuple[int, ...]:
        return tuple(length if i == self.axis else size for i, size in enumerate(like.shape))


def _is_turned(view: ArrayView) -> bool | None:
    """Whether the second of three axes is the one whose elements lie side by side; None where that is not told."""
    _, second, third = view.strides
    return None if (second == 1) == (third == 1) else second == 1


def _misshapen(shape: Any, sizes: Any) -> ShapeError:
    return ShapeError("the state is not that of this layer and chunk", argument="state", value=tuple(shape),
                      hint=f"{tuple(sizes)}: as many inputs as the filter reaches back; None for zeros")
