"""What ``filter`` does with one picture: its filters, one call for those of a size, and the values made pixels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from warpconv.codegen.border import NAMES, Border, border_value
from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.shape import ConvShape
from warpconv.filters import layer_arrays
from warpconv.images import Picture, finish

# Integers that hold what a filter makes of pixels beyond their range, so that what is clipped can be counted.
_WIDER = {"uint8": "int16", "uint16": "int32"}
_ROUNDING = 0.4     # of the half that a value may lie beyond the range and still be rounded into it: sums are not exact


@dataclass(frozen=True, kw_only=True)
class Filtering:
    """Filters ``kernels`` (R, S) by name, what lies outside of the picture, and what becomes of the values.

    ``combine``: the filters' results become one, the root of the sum of their squares. ``as_float``: results stay
    float32. ``device`` is "cpu" or "cuda:N".
    """

    kernels: dict[str, np.ndarray]
    border: Border
    border_value: float = 0.0
    combine: bool = False
    as_float: bool = False
    scale: float = 1.0
    offset: float = 0.0
    absolute: bool = False
    algorithm: str = "auto"
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Filtered:
    """One result: its picture, the fraction of values that were clipped, the layer, kernel and seconds of its call."""

    picture: Picture
    clipped: float
    layer: str
    kernel: Any
    seconds: float


def parse_border(text: str) -> tuple[Border, float]:
    """``reflect``, ``constant:128``, ``scipy:mirror``, ``opencv:CONSTANT:128``: the mode and its value.

    Raises ArgumentError with the choices.
    """
    words = text.split(":")
    library = words.pop(0) if words[0] in NAMES else None
    mode = Border.named(words[0] if words else "", library, "--border") if library else \
        Border.parse(words[0], "--border")
    if len(words) > 1 + (mode is Border.CONSTANT):
        raise ArgumentError("this border takes no value", argument="--border", value=text, hint="constant:VALUE does")
    try:
        value = float(words[1]) if len(words) == 2 else 0.0
    except ValueError:
        raise ArgumentError("the border's value must be a number", argument="--border", value=text,
                            hint="constant:128") from None
    return mode, border_value(value, "--border")


def filter_picture(picture: Picture, how: Filtering, *, keep_float: bool = False) -> list[Filtered]:
    """The results of a picture, one for each filter, or one in all where they are combined. With ``keep_float``, and
    of a picture of float32, they stay float32; else they are pixels of the picture's type.

    Raises ArgumentError where the weights, with --scale, are not finite in float32, and as warpconv.specialize.
    """
    sizes: dict[tuple[int, ...], list[str]] = {}
    for name, kernel in how.kernels.items():
        sizes.setdefault(kernel.shape, []).append(name)
    keep_float = keep_float or picture.largest is None
    calls = {names[0]: _Call.of(picture, [how.kernels[name] for name in names], how, keep_float)
             for names in sizes.values()}
    if how.combine:
        return [_combined(picture, [call.run(picture, how) for call in calls.values()], how, keep_float)]
    made = {}
    for names in sizes.values():
        values, ran = calls[names[0]].run(picture, how)
        for index, name in enumerate(names):
            made[name] = _finished(picture, values[:, index], ran, keep_float)
    return [made[name] for name in how.kernels]


@dataclass(frozen=True, kw_only=True)
class _Ran:
    """A call that was made: layer, kernel, and how long it took."""

    layer: str
    kernel: Any
    seconds: float


@dataclass(frozen=True, kw_only=True)
class _Call:
    """A bank (K, R, S) of filters of one size, --scale in its weights and --offset as a bias behind the other steps of
    the epilogue, so that no number of them is baked into a kernel; and the element type that the kernel stores."""

    bank: np.ndarray
    steps: tuple[str, ...]
    bias: float
    out_dtype: str

    @classmethod
    def of(cls, picture: Picture, kernels: Sequence[np.ndarray], how: Filtering, keep_float: bool) -> _Call:
        scale, bias = (1.0, 0.0) if how.combine else (how.scale, how.offset)
        absolute = how.absolute and not how.combine
        bank = np.stack(kernels).astype(np.float64) * (abs(scale) if absolute else scale)
        if not (abs(bank) <= np.finfo(np.float32).max).all():
            raise ArgumentError("the filter's weights overflow float32", argument="--scale", value=how.scale,
                                hint="a smaller number")
        steps = ("expr(abs(v))" if scale >= 0 else "expr(-abs(v))",) if absolute else ()
        own = picture.planes.dtype.name
        if keep_float or how.as_float or how.combine:
            out_dtype = "float32"
        else:
            inside = _stays_inside(bank, absolute, scale, bias, picture.largest, how.border_value)
            out_dtype = own if inside else _WIDER[own]
        return cls(bank=bank.astype(np.float32), steps=(*steps, "bias") if bias else steps, bias=bias,
                   out_dtype=out_dtype)

    def run(self, picture: Picture, how: Filtering) -> tuple[np.ndarray, _Ran]:
        """Values (P, K, H, W) of the planes (P, H, W). Raises as warpconv.specialize."""
        from warpconv.runtime.call.conv import specialize
        x, w = layer_arrays(picture.planes, self.bank[:, None])
        shape = ConvShape.of(x.shape, w.shape, padding="same", dtype=x.dtype.name, out_dtype=self.out_dtype,
                             padding_mode=how.border, padding_value=how.border_value)
        kernel = specialize(shape, device=how.device, algorithm=how.algorithm, epilogue=self.steps)
        start = time.perf_counter()
        y = kernel(x, w, np.full(shape.k, self.bias, np.float32)) if self.bias else kernel(x, w)
        return y, _Ran(layer=str(shape), kernel=kernel, seconds=time.perf_counter() - start)


def _stays_inside(bank: np.ndarray, absolute: bool, scale: float, bias: float, largest: int, outside: float) -> bool:
    """Whether no filter can leave 0 .. largest, whatever the picture: then the kernel stores pixels."""
    low, high = min(0.0, outside), max(float(largest), outside)
    positive = np.maximum(bank, 0).sum(axis=(1, 2))
    negative = np.minimum(bank, 0).sum(axis=(1, 2))
    most, least = (positive * high + negative * low).max(), (positive * low + negative * high).min()
    if absolute:
        farthest = max(most, -least)
        most, least = (farthest, 0.0) if scale >= 0 else (0.0, -farthest)
    return bool(most + bias <= largest + _ROUNDING and least + bias >= -_ROUNDING)


def _combined(picture: Picture, done: Sequence[tuple[np.ndarray, _Ran]], how: Filtering, keep_float: bool) -> Filtered:
    squares = np.zeros(picture.planes.shape, np.float32)
    for values, _ in done:
        np.multiply(values, values, out=values)     # in place, as below: they are this call's own
        for index in range(values.shape[1]):
            squares += values[:, index]
    ran = _Ran(layer="; ".join(ran.layer for _, ran in done), kernel=done[0][1].kernel,
               seconds=sum(ran.seconds for _, ran in done))
    np.sqrt(squares, out=squares)
    if (how.scale, how.offset) != (1, 0):
        squares *= np.float32(how.scale)
        squares += np.float32(how.offset)
    return _finished(picture, squares, ran, keep_float)


def _finished(picture: Picture, values: np.ndarray, ran: _Ran, keep_float: bool) -> Filtered:
    """One result as pixels, or as float32; a kernel that stored pixels has left nothing to do."""
    clipped, alpha = 0.0, picture.alpha
    if keep_float:
        alpha = None if alpha is None else alpha.astype(np.float32)
    elif values.dtype != picture.planes.dtype:
        values, clipped = finish(values, picture.planes.dtype)
    return Filtered(picture=replace(picture, planes=values, alpha=alpha), clipped=clipped, layer=ran.layer,
                    kernel=ran.kernel, seconds=ran.seconds)
