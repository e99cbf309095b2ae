"""Infinities, huge and tiny values: what reaches which output, for drawn plans of each algorithm (docs/borders.md)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests import checks, drawn, reference, settings
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Numerics, Operation

pytestmark = [pytest.mark.long, pytest.mark.skipif(checks.no_cpu_device() is not None,
                                                   reason=str(checks.no_cpu_device()))]
CASES = 5
LARGEST = 3_000_000         # products
# What an infinite weight over zeros around the image gives: NaN, which is infinity times zero; nothing; or, by the rows
# that a block happens to load, one of the two.
SKIPPED = ("naive", "constant", "staged")
EITHER = ("wide", "patch", "reuse", "channels", "direct")
# The zeros beside a filter's band are multiplied, too: tests of these rooms say how far a pixel reaches.
SPREADING = ("toeplitz", "toeplitz_nhwc")
EXACT = (Numerics.FLOAT32, Numerics.TF32X3, Numerics.FP16X3)
FORWARD = [name for name, row in ALGORITHMS.items() if row.operation is Operation.FORWARD and name != "pixels"]
FLOAT32 = [name for name in FORWARD if name not in ("taps", "taps_float32", "taps_wgmma", "mma", "wgmma",
                                                    "toeplitz_float32", "toeplitz_1d", "toeplitz_1d_nhwc", *SPREADING)]


def layers(algorithm: str, kinds: tuple[DType, ...]) -> Iterator[tuple[KernelPlan, ConvShape]]:
    """Drawn layers of an algorithm with floats in and out, without an epilogue."""
    choose = drawn.numpy_choose(settings.generator(31, zlib.crc32(algorithm.encode())))
    found = 0
    for _ in range(200 * CASES):
        case, shape = drawn.draw_layer_and_case(choose, algorithm) or (None, None)
        if shape is None or case.numerics not in EXACT or shape.separable or shape.x_pitch:
            continue
        if not {shape.dtype, shape.w_dtype, shape.y_dtype} <= set(kinds) or shape.macs > LARGEST:
            continue
        found += 1
        yield replace(case, epilogue=()).plan(shape=shape), shape
        if found == CASES:
            return
    assert found, "the planner takes next to nothing of what is drawn"


def logical(array: np.ndarray, shape: ConvShape) -> np.ndarray:
    array = array.astype(np.float64)
    return np.moveaxis(array, -1, 1) if shape.layout.value == "NHWC" else array


def counted(pixels: np.ndarray, taps: np.ndarray, shape: ConvShape, outside: bool = False) -> np.ndarray:
    """How many of an output's products have such a pixel and such a tap."""
    if shape.padding_mode in (Border.ZEROS, Border.CONSTANT):
        shape = replace(shape, padding_mode="constant", padding_value=float(outside))
    return reference.convolve(pixels.astype(np.float64), taps.astype(np.float64), shape)


@pytest.mark.parametrize("algorithm", FORWARD)
def test_infinite_weights(algorithm):
    floats = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
    for number, (plan, shape) in enumerate(layers(algorithm, floats)):
        rng = settings.generator(32, number)
        x, w, _ = reference.operands(shape, rng)
        x[x == 0] = 1
        for taps in w.reshape(shape.k, -1)[rng.integers(0, 2, shape.k).astype(bool)]:
            taps[rng.integers(taps.size)] = rng.choice([-np.inf, np.inf])
        got = logical(checks.cpu_kernel(plan).for_border(shape.padding_value)(x, w), shape)
        pixels, value = logical(x, shape), shape.padding_value
        above, below = ((pixels > 0, value > 0), (pixels < 0, value < 0))
        up, down = (counted(one, w == np.inf, shape, one_outside) + counted(other, w == -np.inf, shape, other_outside)
                    for (one, one_outside), (other, other_outside) in ((above, below), (below, above)))
        over_zeros = counted(np.zeros_like(pixels), np.isinf(w), shape, True) > 0
        over_zeros &= shape.padding_mode is Border.ZEROS
        said = f"{shape}, {plan.settings()}"
        wanted = np.where(up > 0, np.inf, np.where(down > 0, -np.inf, 0.0))
        wanted[(up > 0) & (down > 0)] = np.nan
        if algorithm not in SKIPPED + EITHER:
            wanted[over_zeros] = np.nan
        open_ = over_zeros & np.isnan(got) if algorithm in EITHER else np.zeros_like(over_zeros)
        right = np.where(np.isfinite(wanted), np.isfinite(got), (got == wanted) | np.isnan(got) & np.isnan(wanted))
        assert (right | open_).all(), said


@pytest.mark.parametrize("algorithm", [name for name in FORWARD if name not in SPREADING])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_pixels_that_are_not_finite(algorithm, bad):
    """They reach the outputs whose windows hold them, and no other."""
    for number, (plan, shape) in enumerate(layers(algorithm, (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16))):
        rng = settings.generator(33, number)
        x, w, _ = reference.operands(shape, rng)
        x.reshape(-1)[rng.integers(0, x.size, 2)] = bad
        got = logical(checks.cpu_kernel(plan).for_border(shape.padding_value)(x, w), shape)
        reached = counted(~np.isfinite(logical(x, shape)), np.ones_like(w), shape) > 0
        assert np.array_equal(~np.isfinite(got), reached), f"{shape}, {plan.settings()}"


@pytest.mark.parametrize("algorithm", FLOAT32)
@pytest.mark.parametrize("power", [60, -60])
def test_a_power_of_two_changes_no_digit(algorithm, power):
    """No path rounds more than another, and none takes what is small for zero."""
    for number, (plan, shape) in enumerate(layers(algorithm, (DType.FLOAT32,))):
        if shape.padding_mode is Border.CONSTANT:
            continue
        x, w, _ = reference.operands(shape, settings.generator(34, number))
        kernel = checks.cpu_kernel(plan)
        assert np.array_equal(np.ldexp(kernel(x, w), power), kernel(np.ldexp(x, power), w)), shape


@pytest.mark.parametrize("algorithm", FLOAT32)
def test_subnormals(algorithm):
    """Sums of subnormals are exact, whatever their order."""
    for number, (plan, shape) in enumerate(layers(algorithm, (DType.FLOAT32,))):
        if shape.padding_mode is Border.CONSTANT:
            continue
        rng = settings.generator(35, number)
        x, w, _ = reference.operands(shape, rng)
        x[...] = np.ldexp(rng.integers(-1000, 1000, x.shape).astype(np.float32), -149)
        w[...] = rng.integers(-3, 4, w.shape)
        wanted = reference.convolve(logical(x, shape), w, shape)
        kernel = checks.cpu_kernel(plan).for_border(shape.padding_value)
        assert np.array_equal(logical(kernel(x, w), shape), wanted), shape
