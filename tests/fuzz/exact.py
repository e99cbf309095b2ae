"""Gradients and transposed layers of any number of axes in float64: what each tap of each output adds to the padded
input is spread over it, slice by slice, and folded where np.pad puts the elements."""

from __future__ import annotations

import math

import numpy as np

from warpconv.codegen.dtypes import DType
from warpconv.codegen.shape import ConvShape

from ..reference import ELEMENTS, EPSILON, PAD_MODES, Expected, half_a_step


def data_gradient(w: np.ndarray, dy: np.ndarray, shape: ConvShape) -> Expected:
    """The input's gradient and the error that it may have; axes (N, C, ...)."""
    padded = tuple(size + sum(sides) for size, sides in zip(shape.image, shape.padding))
    made, size = (_folded(spread(*arrays, shape.groups, shape.stride, shape.dilation, padded), shape)
                  for arrays in ((w, dy), (np.abs(w), np.abs(dy))))
    shown = math.prod(np.bincount(places[places >= 0]).max() for places in _places(shape))
    return _within(made, size, shape.k // shape.groups * math.prod(shape.taps) * shown, shape.dtype)


def filter_gradient(x: np.ndarray, dy: np.ndarray, shape: ConvShape) -> Expected:
    """The filter's gradient and the error that it may have; axes (K, C/groups, ...)."""
    value = {"constant_values": shape.padding_value} if PAD_MODES[shape.padding_mode] == "constant" else {}
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *shape.padding), PAD_MODES[shape.padding_mode], **value)
    n, k, *outputs = dy.shape
    by_group = dy.astype(np.float64).reshape(n, shape.groups, k // shape.groups, -1)
    made, size = np.zeros((2, k, shape.c // shape.groups, *shape.taps))
    for tap in np.ndindex(*shape.taps):
        met = padded[(..., *_met(tap, outputs, shape.stride, shape.dilation))]
        met = met.reshape(n, shape.groups, shape.c // shape.groups, -1)
        for into, one, other in ((made, by_group, met), (size, np.abs(by_group), np.abs(met))):
            into[(..., *tap)] = np.einsum("ngko,ngco->gkc", one, other).reshape(k, -1)
    return _within(made, size, n * math.prod(outputs), shape.dtype)


def transposed(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, sides: tuple[tuple[int, int], ...],
               extra: tuple[int, ...], groups: int, stride: tuple[int, ...], dilation: tuple[int, ...],
               dtype: DType) -> Expected | None:
    """What a transposed layer makes, None where its output is empty: ``sides`` are cut off, ``extra`` elements more
    stand at the end."""
    sizes = tuple((size - 1) * step + apart * (taps - 1) + 1 + more
                  for size, step, apart, taps, more in zip(x.shape[2:], stride, dilation, w.shape[2:], extra))
    if any(size <= sum(cut) for size, cut in zip(sizes, sides)):
        return None
    kept = (..., *(slice(before, size - after) for size, (before, after) in zip(sizes, sides)))
    made, size = (spread(*arrays, groups, stride, dilation, sizes)[kept] for arrays in ((w, x), (np.abs(w), np.abs(x))))
    if bias is not None:
        column = bias.astype(np.float64).reshape(-1, *[1] * len(sizes))
        made, size = made + column, size + np.abs(column)
    return _within(made, size, x.shape[1] // groups * math.prod(w.shape[2:]), dtype)


def spread(w: np.ndarray, dy: np.ndarray, groups: int, stride: tuple[int, ...], dilation: tuple[int, ...],
           sizes: tuple[int, ...]) -> np.ndarray:
    """The sum of what each output has times its taps, over an input of ``sizes``: (N, C, *sizes)."""
    n, k, *outputs = dy.shape
    channels, *taps = w.shape[1:]
    by_group = dy.astype(np.float64).reshape(n, groups, k // groups, *outputs)
    weights = w.astype(np.float64).reshape(groups, k // groups, channels, *taps)
    made = np.zeros((n, groups, channels, *sizes))
    for tap in np.ndindex(*taps):
        made[(..., *_met(tap, outputs, stride, dilation))] += np.einsum(
            "ngk...,gkc->ngc...", by_group, weights[(..., *tap)])
    return made.reshape(n, groups * channels, *sizes)


def _met(tap: tuple[int, ...], outputs: list[int], stride: tuple[int, ...],
         dilation: tuple[int, ...]) -> tuple[slice, ...]:
    """Where the outputs meet a tap."""
    return tuple(slice(at * apart, at * apart + (count - 1) * step + 1, step)
                 for at, count, step, apart in zip(tap, outputs, stride, dilation))


def _places(shape: ConvShape) -> list[np.ndarray]:
    """Along each axis the element that stands at each place of the padded input, -1 for a value of the border."""
    mode = PAD_MODES[shape.padding_mode]
    value = {"constant_values": -1} if mode == "constant" else {}
    return [np.pad(np.arange(size), sides, mode, **value) for size, sides in zip(shape.image, shape.padding)]


def _folded(padded: np.ndarray, shape: ConvShape) -> np.ndarray:
    """What stands for each element, added up."""
    for axis, (places, size) in enumerate(zip(_places(shape), shape.image), 2):
        there = np.moveaxis(padded, axis, 0)
        made = np.zeros((size, *there.shape[1:]))
        np.add.at(made, places[places >= 0], there[places >= 0])
        padded = np.moveaxis(made, 0, axis)
    return padded


def _within(made: np.ndarray, size: np.ndarray, products: int, dtype: DType) -> Expected:
    """Values with the error of a float32 sum of so many products, whose sizes add up to ``size``."""
    error = (products + 3) * EPSILON * size
    if dtype is not DType.FLOAT32:
        error = error + half_a_step(np.abs(made) + error, dtype)
    return Expected(made, error, ELEMENTS[dtype])
