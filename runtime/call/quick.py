"""Calls whose like has been checked before: from arrays to the launch in a few microseconds.

A call that passed every check is remembered by the signatures of its arrays (``signatures``). A later one with the same
signatures needs only what can differ still: addresses (aligned, no overlap with the output), the stream, the context
that is current. Whatever is not as it was goes the checked way, which alone raises errors, copies, orders streams and
keeps arrays alive.
"""

from __future__ import annotations

from typing import Any, Protocol

from warpconv.codegen.plan import Program, Role
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.arrays.streams import stream_handle

from . import signatures
from .checks import MOST_LAYERS, ORDERED_ALIGNMENT, name_of
from .signatures import Library

# of what a call is given and makes; an output's gradient stands in the weight's place
ROLES = (Role.INPUT, Role.WEIGHT, Role.BIAS, Role.RESIDUAL, Role.OUTPUT)


def names_of(program: Program) -> tuple[str | None, ...]:
    """The program's arguments of ROLES, None for each that it has not."""
    x, w, *more = (name_of(program, role) for role in ROLES)
    return x, w or name_of(program, Role.GRADIENT), *more


class Launch(Protocol):
    """A layer's launches on one device, made ready by its backend."""

    def run(self, x: int, w: int, bias: int, residual: int, y: int, stream: int, prepared: Any) -> bool:
        """Queue (or do) the work; False, and nothing is done, where the checked way has to see to it."""


class Entry:
    """What is remembered of a checked call; ``alignment`` and ``nbytes`` are of input, weight, bias, residual and
    output, ``made`` is shape, strides and element type of an output, as its library has them. ``gaps``: the weight is
    copied in each call, as one in channels_last is that the kernel does not read where it is."""

    __slots__ = ("_launch", "_library", "_ordinal", "_alignment", "_nbytes", "_made", "_gaps")

    def __init__(self, launch: Launch, library: Library, ordinal: int | None, alignment: tuple[int, ...],
                 nbytes: tuple[int, ...], made: tuple[Any, Any, Any], gaps: bool = False):
        self._launch = launch
        self._library = library
        self._ordinal = ordinal
        self._alignment = alignment
        self._nbytes = nbytes
        self._made = made
        self._gaps = gaps

    def seen_as(self, *pairs: tuple[Any, Any]) -> Entry | None:
        """The same launch for other views of its arrays: of input and output that of the call and the one to come; None
        where such a view is a copy."""
        library = self._library
        if any(library.pointer(seen) != library.pointer(given) for seen, given in pairs):
            return None
        made = library.sign_output(pairs[-1][1])
        return None if made is None else Entry(self._launch, library, self._ordinal, self._alignment, self._nbytes,
                                               made[:3], self._gaps)

    def repeat(self, x: Any, w: Any, bias: Any, residual: Any, out: Any, stream: Any, prepared: Any = None) -> Any:
        """The output, or None where the call has to be checked. ``w`` is None where there is a ``prepared`` filter."""
        library = self._library
        handle = library.stream(self._ordinal)
        if stream is not None and (
                self._ordinal is None or handle != (stream if type(stream) is int else stream_handle(stream))):
            return None
        pointer = library.pointer
        x_at = pointer(x)
        if self._gaps:
            w = library.whole(w)
        w_at = 0 if w is None else pointer(w)
        b_at = 0 if bias is None else pointer(bias)
        r_at = 0 if residual is None else pointer(residual)
        given = out is not None
        if not given and (out := library.empty(x, *self._made)) is None:
            return None
        y_at = pointer(out)
        x_align, w_align, b_align, r_align, y_align = self._alignment
        if x_at % x_align or w_at % w_align or b_at % b_align or r_at % r_align or y_at % y_align:
            return None
        if given:
            x_bytes, w_bytes, b_bytes, r_bytes, y_bytes = self._nbytes
            end = y_at + y_bytes
            if (x_at < end and y_at < x_at + x_bytes or w_at < end and y_at < w_at + w_bytes
                    or b_at < end and y_at < b_at + b_bytes
                    or r_at != y_at and r_at < end and y_at < r_at + r_bytes):     # in place, or apart
                return None
        return out if self._launch.run(x_at, w_at, b_at, r_at, y_at, handle, prepared) else None


class QuickCalls:
    """A kernel's remembered calls, by the signatures of input, weight (None: a Filter), bias, residual and output. Any
    thread may call; entries are never changed."""

    def __init__(self, backend: Any, program: Program):
        self._backend = backend
        self._program = program
        self._names = names_of(program)
        self.entries: dict[tuple, Entry] = {}

    def learn(self, x: Any, w: Any, bias: Any, residual: Any, out: Any, result: Any, operands: dict[str, Any],
              shape: ConvShape, in_order: bool) -> None:
        """Remember a call that passed. ``w`` is None where a Filter was given, ``out`` where none was; ``result`` is
        the output; ``in_order`` as of Call."""
        key = signatures.sign_call(x, w, bias, residual, out)
        if key is None or key in self.entries:
            return
        values = {name: value for name, value in zip(self._names, (x, w, bias, residual, result)) if name is not None}
        if (entry := self.entry(values, operands, shape, in_order)) is None:
            return
        if len(self.entries) >= MOST_LAYERS:
            self.entries.clear()
        self.entries[key] = entry

    def entry(self, named: dict[str, Any], operands: dict[str, Any], shape: ConvShape,
              in_order: bool = False) -> Entry | None:
        """What repeats a call that passed, of the values of its arguments, the output among them (None: a Filter stands
        in the weight's place, or there is no such array); None where one is another library's, or one but the weight
        was copied, or the launches cannot be repeated."""
        values = [None if name is None else named.get(name) for name in self._names]
        library, weight = signatures.library(values[0]), name_of(self._program, Role.WEIGHT)
        copied = [name for name, value in zip(self._names, values)
                  if value is not None and operands[name].owner is not value]
        if library is None or copied not in ([], [weight]) or any(
                value is not None and signatures.library(value) is not library
                for value in (*values, *(operands[name].owner for name in copied))):
            return None
        made = library.sign_output(values[-1])
        launch = None if made is None else self._backend.quick(shape, operands,
                                                               by_filter=in_order or values[1] is None)
        if made is None or launch is None:
            return None
        views = [None if value is None else operands[name] for name, value in zip(self._names, values)]
        alignment = tuple(1 if view is None else self._backend.alignment(name, view)
                          for name, view in zip(self._names, views))
        if in_order:
            alignment = (alignment[0], max(alignment[1], ORDERED_ALIGNMENT), *alignment[2:])
        nbytes = tuple(0 if view is None else view.span().nbytes for view in views)
        return Entry(launch, library, made[3], alignment, nbytes, made[:3], bool(copied))
