"""warpconv.gaussian_filter on a float32 plane: checked against float64 in two passes, timed beside CuPy and NPP."""

from __future__ import annotations

from typing import Any

import numpy as np

import warpconv
from bench.harness import measure_together, rotation
from bench.peers import images as image_peers
from bench.reference import EPSILON, reference
from bench.study import Missing
from warpconv.codegen.border import Border
from warpconv.codegen.dtypes import DType
from warpconv.codegen.shape import ConvShape

from .image_layers import TRUNCATE, Gaussian, plane
from .image_reference import Limits, limits, of_type


def measure_curve(device: Any, row: Gaussian, gemm: float | None) -> dict[str, Any]:
    """A row's values. Raises Missing where there is no gaussian_filter, WrongResult, or what a call raises."""
    ours = getattr(warpconv, "gaussian_filter", None)
    if ours is None:
        raise Missing("warpconv.gaussian_filter")
    moved = 2 * 4 * row.size ** 2
    sets = 1 if device.trial else rotation(moved)
    xs = [device.random((1, 1, row.size, row.size), 1 + i) for i in range(sets)]
    ys = [device.poisoned(x.shape) for x in xs]
    options = {"truncate": TRUNCATE, "radius": row.radius, "device": device.target}
    calls = [lambda x=x[0, 0], y=y[0, 0]: ours(x, row.sigma, output=y, **options) for x, y in zip(xs, ys)]
    calls[0]()
    device.synchronize()
    allowed = two_passes(device, xs[0], gaussian_taps(row))
    error = allowed.check(device, ys[0])
    copies = [lambda x=x, y=y: device.copy(y, x) for x, y in zip(xs, [device.poisoned(x.shape) for x in xs])]
    copy, timing = measure_together(device, [copies, calls], written=[None, ys[0]])
    taps = 2 * (2 * row.reach + 1)
    values = {"error": error, **timing.fields(), "copy_ms": copy.ms, "moved": moved, "gbs": moved / timing.ms / 1e6,
              "of_copy": copy.ms / timing.ms, "flops": 2 * taps * row.size ** 2, "dtype": "float32",
              "filter": 2 * row.reach + 1, "size": row.size, "sigma": row.sigma, "algorithm": "gaussian_filter"}
    if gemm:
        gemm_ms = values["flops"] / gemm / 1e9
        values |= {"gemm_ms": gemm_ms, "floor_ms": max(copy.ms, gemm_ms), "of_floor": max(copy.ms, gemm_ms) / timing.ms,
                   "bound": "copy" if copy.ms >= gemm_ms else "gemm"}
    for name in ("CuPy",) if row.radius is None else ("NPP",):
        values |= image_peers.told(device, name, timing.ms, lambda name=name: image_peers.run_gauss(
            device, name, xs, ys, row, lambda mask: allowed if mask is None else _of_mask(device, xs[0], mask)))
    return values


def gaussian_taps(row: Gaussian) -> np.ndarray:
    """The samples of a Gaussian that scipy.ndimage takes: exp(-i^2 / (2 sigma^2)) over their sum."""
    taps = np.exp(-0.5 * (np.arange(-row.reach, row.reach + 1) / row.sigma) ** 2)
    return taps / taps.sum()


def two_passes(device: Any, x: Any, taps: np.ndarray) -> Limits:
    """Limits of a plane (1, 1, H, W) filtered by positive taps along both axes, edges repeated as SciPy's "reflect" has
    it: the exact one made in two passes, and (2 taps + 3) eps times the same of the magnitudes (each of 2 taps
    products, taps that are rounded to float32, and what one pass rounds between them)."""
    exact, magnitude = device.double(x), abs(device.double(x))
    reach, size = len(taps) // 2, x.shape[-1]
    for r, s in ((1, len(taps)), (len(taps), 1)):
        padding = ((r // 2, r // 2), (s // 2, s // 2))
        shape = ConvShape(c=1, h=size, w=size, k=1, r=r, s=s, padding=padding, padding_mode=Border.SYMMETRIC)
        w = device.zeros((1, 1, r, s))
        for i, tap in enumerate(taps.tolist()):
            w[0, 0, i if r > 1 else 0, i if s > 1 else 0] = tap
        exact, magnitude = (reference(device, part, w, shape).exact for part in (exact, magnitude))
    bound = magnitude * ((4 * reach + 5) * EPSILON)
    return of_type(exact, bound, (0,), None, DType.FLOAT32)


def _of_mask(device: Any, x: Any, mask: Any) -> Limits:
    """Limits of what a filter (1, 1, R, S) makes of a plane; its border is another's."""
    return limits(device, x, mask, plane(x.shape[-1], mask.shape[-1]))
