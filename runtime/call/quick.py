"""Calls whose like has been checked before: from arrays to the launch in a few microseconds.

A call that passed every check is remembered by the signatures of its arrays (``signatures``). A later one with the same
signatures needs only what can differ still: addresses (aligned, no overlap with the output), the stream, the context
that is current. Whatever is not as it was goes the checked way, which alone raises errors, copies, orders streams and
keeps arrays alive.
"""

from __future__ import annotations

from typing import Any, Callable

from warpconv.codegen.plan import Program, Role
from warpconv.codegen.shape import ConvShape

from . import signatures
from warpconv.runtime.arrays.streams import stream_handle
from .checks import MOST_LAYERS, name_of
from .recording import recording
from .signatures import LIBRARIES, Signature

_ROLES = (Role.INPUT, Role.WEIGHT, Role.BIAS, Role.RESIDUAL, Role.OUTPUT)


class Entry:
    """What is remembered of a checked call; ``alignment`` and ``nbytes`` are of input, weight, bias, residual and
    output."""

    __slots__ = ("launch", "ordinal", "alignment", "nbytes", "shape", "strides", "dtype")

    def __init__(self, launch: Callable, ordinal: int, alignment: tuple[int, ...], nbytes: tuple[int, ...], shape: Any,
                 strides: Any, dtype: Any):
        self.launch = launch
        self.ordinal = ordinal
        self.alignment = alignment
        self.nbytes = nbytes
        self.shape = shape          # of the output, as its library has them
        self.strides = strides
        self.dtype = dtype


class QuickCalls:
    """A kernel's remembered calls, by the signatures of input, weight (None: a Filter), bias, residual and output. Any
    thread may call; entries are never changed."""

    def __init__(self, backend: Any, program: Program):
        self._backend = backend
        self._names = tuple(name_of(program, role) for role in _ROLES)
        self._demands = tuple(_multiple(program, name) for name in self._names)
        self._entries: dict[tuple, Entry] = {}

    def __call__(self, x: Any, w: Any, bias: Any, residual: Any, out: Any, stream: Any, by_filter: bool,
                 signed: tuple[Signature, Signature | None] | None = None) -> Any:
        """The output, or None where the call has to be checked. ``signed``: of x and w, where the caller has them."""
        library = LIBRARIES.get(type(x))
        if library is None or recording.graph is not None:
            return None
        prepared = w_sign = b_sign = r_sign = y_sign = None
        w_at = b_at = r_at = 0
        if by_filter:
            if w.kernel._backend is not self._backend:
                return None
            prepared = w._prepared
        elif LIBRARIES.get(type(w)) is not library:
            return None
        if signed is not None:
            x_sign, w_sign = signed
        else:
            x_sign = library.sign(x)
            if not by_filter and (w_sign := library.sign(w)) is None:
                return None
        if bias is not None:
            if LIBRARIES.get(type(bias)) is not library or (b_sign := library.sign(bias)) is None:
                return None
            b_at = library.pointer(bias)
        if residual is not None:
            if LIBRARIES.get(type(residual)) is not library or (r_sign := library.sign(residual)) is None:
                return None
            r_at = library.pointer(residual)
        if out is not None and (LIBRARIES.get(type(out)) is not library or (y_sign := library.sign(out)) is None):
            return None
        entry = self._entries.get((x_sign, w_sign, b_sign, r_sign, y_sign))
        if entry is None:
            return None
        handle = library.stream(entry.ordinal)
        if stream is not None and handle != (stream if type(stream) is int else stream_handle(stream)):
            return None
        x_at = library.pointer(x)
        if not by_filter:
            w_at = library.pointer(w)
        x_align, w_align, b_align, r_align, y_align = entry.alignment
        if x_at % x_align or w_at % w_align or b_at % b_align or r_at % r_align:
            return None
        launch = entry.launch.ready(x_at if library.shares_memory else 0, prepared, handle)
        if launch is None:
            return None
        if out is None:
            out = library.empty(x, entry.shape, entry.strides, entry.dtype)
            if out is None:
                return None
            y_at = library.pointer(out)
        else:
            y_at = library.pointer(out)
            x_bytes, w_bytes, b_bytes, r_bytes, y_bytes = entry.nbytes
            end = y_at + y_bytes
            if (x_at < end and y_at < x_at + x_bytes or w_at < end and y_at < w_at + w_bytes
                    or b_at < end and y_at < b_at + b_bytes
                    or r_at != y_at and r_at < end and y_at < r_at + r_bytes):     # in place, or apart
                return None
        if y_at % y_align:
            return None
        launch(x_at, w_at, b_at, r_at, y_at, handle)
        return out

    def learn(self, x: Any, w: Any, bias: Any, residual: Any, out: Any, result: Any, operands: dict[str, Any],
              shape: ConvShape) -> None:
        """Remember a call that passed. ``w`` is None where a Filter was given, ``out`` where none was; ``result`` is
        the output."""
        library = signatures.library(x)
        values = (x, w, bias, residual, result)
        if library is None or any(
                value is not None and (signatures.library(value) is not library or operands[name].owner is not value)
                for name, value in zip(self._names, values)):
            return      # another library's arrays among them, or copies
        key = tuple(None if value is None else library.sign(value) for value in (x, w, bias, residual, out))
        if key in self._entries or any(
                value is not None and signed is None for value, signed in zip((x, w, bias, residual, out), key)):
            return
        launch = self._backend.quick(shape, operands[self._names[0]].pointer, by_filter=w is None)
        if launch is None:
            return
        views = [None if value is None else operands[name] for name, value in zip(self._names, values)]
        alignment = tuple(1 if view is None else max(view.dtype.itemsize, demand)
                          for view, demand in zip(views, self._demands))
        nbytes = tuple(0 if view is None else view.span().nbytes for view in views)
        signed = library.sign(result)
        if len(self._entries) >= MOST_LAYERS:
            self._entries.clear()
        self._entries[key] = Entry(launch, key[0][4], alignment, nbytes, signed[1], signed[2], signed[3])


def _multiple(program: Program, name: str | None) -> int:
    """What an operand's address must be a multiple of."""
    return 1 if name is None else program.argument(name).multiple_of
