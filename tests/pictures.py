"""Photographs for tests, and what a filter makes of a plane, by NumPy in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

PHOTOS = Path(__file__).parents[1] / "docs" / "photos"


def crop(name: str, box: tuple[int, int, int, int]) -> Image.Image:
    """A piece of the photograph "china" or "flower"."""
    return Image.open(PHOTOS / f"{name}.jpg").crop(box)


def by_hand(plane: np.ndarray, kernel: np.ndarray, mode: str = "reflect", **options) -> np.ndarray:
    """Cross-correlation in float64, the filter's middle (or just before it) on the pixel; borders as numpy.pad has."""
    top, left = (kernel.shape[0] - 1) // 2, (kernel.shape[1] - 1) // 2
    sides = [(top, kernel.shape[0] - 1 - top), (left, kernel.shape[1] - 1 - left)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(plane.astype(np.float64), sides, mode, **options),
                                                       kernel.shape)
    return np.einsum("pqrs,rs->pq", windows, kernel.astype(np.float64))
