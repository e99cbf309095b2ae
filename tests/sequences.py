"""Layers of filters of one row or one column, in float64: windows of padded sequences, summed by einsum."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import Any

import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays as views
from warpconv.runtime.call.checks import Call
from warpconv.runtime.devices.cpu import LaunchReport, Mode, backend

from . import axes, settings
from .reference import ELEMENTS, EPSILON, PAD_MODES, Expected, half_a_step

HALVES = ("float16", "bfloat16")


def layer(taps: int, length: int, *, channels: int = 3, multiplier: int = 1, **changes: Any) -> ConvShape:
    """A depthwise layer of 16 bits, of one row unless ``changes`` say another; causal."""
    return ConvShape(**{**dict(n=2, c=channels, h=1, w=length, k=channels * multiplier, groups=channels, r=1, s=taps,
                               padding=((0, 0), (taps - 1, 0)), dtype="float16"), **changes})


def pixels(taps: int, length: int, *, channels: int = 16, column: bool = False, **changes: Any) -> ConvShape:
    """The same of channels side by side, a row of pixels, or the column of an image one pixel wide."""
    made = layer(taps, length, channels=channels, layout="NHWC", **changes)
    return turned(made) if column else made


def turned(shape: ConvShape) -> ConvShape:
    """A layer of one row as one of a column."""
    return replace(shape, h=shape.w, w=shape.h, r=shape.s, s=shape.r, padding=shape.padding[::-1])


def bordered(shape: ConvShape, mode: str | Border) -> ConvShape:
    """The layer with another border; 0.5 is the value of "constant"."""
    return replace(shape, padding_mode=mode, padding_value=0.5 if Border(mode) is Border.CONSTANT else 0.0)


def layer_of(row: axes.Row) -> dict[str, Any]:
    """The layer of a row of the case table; padding "causal": all that windows reach stands before a sequence, "large":
    whole windows lie outside of it."""
    taps = max(row["filter"])
    named = {"causal": ((0, 0), (taps - 1, 0)), "large": ((0, 0), (taps + 2, taps + 1))}
    padding = named.get(row["padding"], row["padding"])
    if row["filter"][0] > 1 and not isinstance(padding, str):
        padding = padding[::-1]
    return axes.layer_of({**row, "padding": padding})


def image(fields: axes.Row, size: tuple[int, int, int]) -> tuple[int, int, int]:
    """(N, H, W) of a size that is drawn or of a table: for a filter of one column its rows are columns."""
    n, _, length = size
    return (n, length, 1) if fields["r"] > 1 else size


def place_of(text: str, piece: int) -> int:
    """Where an emitted text lays a piece of 16 bytes of shared memory; as it comes where the text says nothing."""
    found = re.search(r"int place_of\(int piece\) { return ([^;]+); }", text)
    row = re.search(r"int ROW = (\d+);", text)          # pieces of a row, where the place depends on them
    return piece if found is None else eval(found[1].replace("/", "//"), {"piece": piece, "ROW": row and int(row[1])})


def lies_without_conflicts(text: str, row: int) -> bool:
    """Whether eight pieces ``row`` apart, from any one on, lie in the eight banks of 16 bytes, as those of a line of
    128 bytes do, and no two pieces of whole rows in one place."""
    place = functools.partial(place_of, text)
    matrices = all(len({place(first + row * i) % 8 for i in range(8)}) == 8 for first in range(256))
    lines = all({place(line + i) % 8 for i in range(8)} == set(range(8)) for line in range(0, 256, 8))
    whole = all({place(i) for i in range(row * rows)} == set(range(row * rows)) for rows in range(1, 64))
    return matrices and lines and whole


def cell_of(text: str, pixel: int, octet: int) -> int:
    """Where an emitted text lays an eight of a pixel's channels, in pieces of 16 bytes of shared memory."""
    named = re.search(r"int OCTETS = (\d+);", text)     # one is not named
    found = re.search(r"int cell\(int pixel, int octet\) \{\s+return ([^;]+);", text)[1]
    return eval(found.replace("(unsigned)", "").replace("/", "//"), {"pixel": pixel, "octet": octet,
                                                                          "OCTETS": int(named[1]) if named else 1})


def cells_lie_without_conflicts(text: str, octets: int) -> bool:
    """Whether an octet of eight pixels lies in the eight banks of 16 bytes, and so do eight neighbours of a copy, and
    no two of whole eights of pixels in one place."""
    place = functools.partial(cell_of, text)
    matrices = all({place(first + i, octet) % 8 for i in range(8)} == set(range(8))
                   for first in range(0, 128, 8) for octet in range(octets))
    in_order = [place(pixel, octet) for pixel in range(128) for octet in range(octets)]
    copies = all({at % 8 for at in in_order[i:i + 8]} == set(range(8)) for i in range(0, len(in_order), 8))
    return matrices and copies and set(in_order) == set(range(128 * octets))


def apart_without_conflicts(pitch: int) -> bool:
    """Whether eight sequences ``pitch`` elements apart begin at the eight banks of 16 bytes."""
    return pitch % 8 == 0 and len({i * (pitch // 8) % 8 for i in range(8)}) == 8


class Sequences:
    """Random arrays of a layer, with no symmetry, and what is made of them; axes (N, C, H, W), (K, 1, R, S), those that
    stored() gives in the layout's order."""

    def __init__(self, shape: ConvShape, *parts: int):
        rng, element = settings.generator(41, *parts), ELEMENTS[shape.dtype]
        self.shape, self.relu = shape, True
        self.x, w, self.dy = (rng.standard_normal(sizes).astype(np.float32)
                              for sizes in (shape.input_shape, shape.weight_shape, shape.output_shape))
        w += np.sign(w) * np.linspace(0.1, 1.0, w.size, dtype=np.float32).reshape(w.shape)
        self.bias = rng.standard_normal(shape.k).astype(element)
        self.x, self.w, self.dy = (array.astype(element) for array in (self.x, w, self.dy))

    def stored(self, name: str) -> np.ndarray:
        """An array as kernels of the layer take it."""
        array = getattr(self, name)
        return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if self.shape.layout is Layout.NHWC else array

    def logical(self, array: np.ndarray) -> np.ndarray:
        """An array in the layout's order as one of axes (N, C, H, W)."""
        return np.moveaxis(array, -1, 1) if self.shape.layout is Layout.NHWC else array

    def windows(self, size: bool = False) -> np.ndarray:
        """(N, K, P, Q, taps): what each output reads, or the size of it."""
        shape = self.shape
        mode = PAD_MODES[shape.padding_mode]
        value = {"constant_values": shape.padding_value} if mode == "constant" else {}
        x = np.pad(self.x.astype(np.float64), ((0, 0), (0, 0), *shape.padding), mode, **value)
        taps, axis = (shape.r, 2) if shape.r > 1 else (shape.s, 3)
        found = np.lib.stride_tricks.sliding_window_view(np.abs(x) if size else x, taps, axis=axis)
        return np.repeat(found, shape.k // shape.c, axis=1)

    @functools.cached_property
    def outputs(self) -> Expected:
        """Of the layer with its bias, and its relu if it has one."""
        w, b = self.w.reshape(self.shape.k, -1).astype(np.float64), self.bias.astype(np.float64)[:, None, None]
        made = np.einsum("nkpqs,ks->nkpq", self.windows(), w) + b
        size = np.einsum("nkpqs,ks->nkpq", self.windows(size=True), np.abs(w)) + np.abs(b)
        return self._expected(np.maximum(made, 0.0) if self.relu else made, size, w.shape[1])

    @functools.cached_property
    def filter_gradient(self) -> Expected:
        dy = self.dy.astype(np.float64)
        made = np.einsum("nkpqs,nkpq->ks", self.windows(), dy)
        size = np.einsum("nkpqs,nkpq->ks", self.windows(size=True), np.abs(dy))
        summed = self.shape.n * self.shape.p * self.shape.q
        return self._expected(*(array.reshape(self.w.shape) for array in (made, size)), summed)

    def _expected(self, made: np.ndarray, size: np.ndarray, summed: int) -> Expected:
        tolerance = (summed + 2) * EPSILON * size
        tolerance = tolerance + half_a_step(np.abs(made) + tolerance, self.shape.dtype)
        return Expected(made, tolerance, ELEMENTS[self.shape.dtype])


def filter_gradient_by(made: KernelPlan, arrays: Sequences, mode: Mode = Mode.FAST
                       ) -> tuple[np.ndarray, tuple[LaunchReport, ...]]:
    """The gradient that a plan's text makes, in memory full of NaN, and what the launches took."""
    loaded, _ = backend.load(made, mode=mode)
    result = np.full(arrays.shape.weight_shape, np.nan, np.float32).astype(arrays.w.dtype)
    given = {"x": arrays.stored("x"), "dy": arrays.stored("dy"), "dw": result}
    operands = {a.name: views.view(given[a.name], a.name) for a in made.program.arguments if a.name in given}
    before = len(loaded.reports)
    loaded.run(Call(arrays.shape, operands), None, None)
    return result, tuple(loaded.reports[before:])
