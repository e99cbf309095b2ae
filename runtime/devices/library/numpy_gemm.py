"""The matrix products of im2col on the CPU device, by NumPy: the one part of a program that is not the emitted text
there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpconv.codegen.shape import ConvShape


def gemm_batch(executor: Any, shape: ConvShape, operands: Sequence[Any]) -> None:
    """y[n] = w * columns[n] for every image and group; ``operands``: w, columns, y, scratch (which NumPy does not
    need)."""
    w, columns, y, _ = operands
    _product(w, columns, y.reshape(shape.n, -1), shape)
    executor.wrote(y)


def gemm_image(executor: Any, shape: ConvShape, operands: Sequence[Any]) -> None:
    """The same for the columns of one image; ``operands``: w, columns, y, scratch, number of the image."""
    w, columns, y, _, image = operands
    _product(w, columns, y.reshape(shape.n, -1)[image:image + 1], shape)
    executor.wrote(y)


def _product(w: np.ndarray, columns: np.ndarray, y: np.ndarray, shape: ConvShape) -> None:
    groups, pixels = shape.groups, shape.p * shape.q
    right = columns.reshape(-1).view(np.float32).reshape(len(y), groups, shape.reduction, pixels)
    np.matmul(w.reshape(groups, -1, shape.reduction), right, out=y.reshape(len(y), groups, -1, pixels))
