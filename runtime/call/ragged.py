"""Images of differing sizes through one launch: where their planes lie, written into the table that kernels read."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Cast, DType
from warpconv.codegen.parts.places import FIELDS, STRIP, Place
from warpconv.codegen.plan import Role
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation
from warpconv.runtime.arrays import ArrayKind, ArrayView

from . import kernels
from .checks import Call
from .kernel import Kernel

SIDE = 64                       # of the plane that stands for all in a layer
MOST_ELEMENTS = 2**31 - 1       # along an axis, and tiles of a launch


@dataclass(frozen=True)
class Places:
    """Where images lie: ``memory`` is what their places count from, in elements; ``offsets`` (n,) are those of their
    first elements, ``strides`` (n, rank) the distances along their axes."""

    memory: ArrayView
    offsets: np.ndarray
    strides: np.ndarray


@functools.lru_cache(maxsize=1024)
def layer_of(dtype: DType, weight_dtype: DType, out_dtype: DType, taps: tuple[int, int],
             padding: tuple[tuple[int, int], tuple[int, int]], border: Border, value: float, cast: Cast | str,
             separable: bool) -> ConvShape:
    """The layer of one plane; its sizes stand for any."""
    return ConvShape(c=1, h=SIDE, w=SIDE, k=1, r=taps[0], s=taps[1], padding=padding, padding_mode=border,
                     padding_value=value, dtype=dtype, weight_dtype=None if separable else weight_dtype,
                     out_dtype=out_dtype, cast=cast, separable=separable)


def kernel_of(layer: ConvShape, device: int | None, epilogue: Sequence[Any], algorithm: str) -> Kernel:
    """The kernel of a layer of planes of differing sizes. Raises UnsupportedSpec where there is none."""
    return kernels.kernel_of(kernels.asked(layer, device, epilogue=epilogue, algorithm=algorithm,
                                           operation=Operation.RAGGED))


def tile_of(kernel: Kernel) -> tuple[int, int]:
    """Columns and rows of a block's tile."""
    columns, strips, _ = kernel.program.launches[0].block
    return columns, strips * STRIP


def table_of(kernel: Kernel, shapes: np.ndarray, axes: tuple[int, int], x: Places, y: Places, residual: Places | None,
             filters: bool) -> tuple[np.ndarray, int]:
    """The table of the planes along two axes (rows, columns) of images of ``shapes`` (n, rank), and how many tiles they
    have. ``filters``: each image has its own, else all have the first."""
    image, steps = _planes(shapes, axes)
    columns, rows = tile_of(kernel)
    heights, widths = (shapes[image, axis] for axis in axes)
    tiles = -(-heights // rows) * -(-widths // columns)
    ends = np.cumsum(tiles)
    table = np.zeros((len(image) + 1, FIELDS), np.int64)
    table[0, 0] = len(image)
    planes = table[1:]
    planes[:, Place.TILE] = ends - tiles
    for field, places in ((Place.X, x), (Place.Y, y), (Place.RESIDUAL, residual)):
        if places is not None:
            planes[:, field] = places.offsets[image]
            for axis, step in steps:
                planes[:, field] += step * places.strides[image, axis]
    planes[:, Place.H], planes[:, Place.W] = heights, widths
    for row, column, places in ((Place.X_ROW, Place.X_COLUMN, x), (Place.Y_ROW, Place.Y_COLUMN, y)):
        planes[:, row], planes[:, column] = places.strides[image, axes[0]], places.strides[image, axes[1]]
    if filters:
        planes[:, Place.FILTER] = image
    return table, int(ends[-1]) if len(ends) else 0


def _planes(shapes: np.ndarray, axes: tuple[int, int]) -> tuple[np.ndarray, list[tuple[int, np.ndarray]]]:
    """The number of the image that each plane is of, and its index along each of the image's other axes. Images without
    elements have none."""
    others = [axis for axis in range(shapes.shape[1]) if axis not in axes]
    counts = np.where(shapes.all(1), shapes[:, others].prod(1), 0)
    image = np.repeat(np.arange(len(shapes)), counts)
    if not others:
        return image, []
    left = np.arange(len(image)) - np.repeat(np.cumsum(counts) - counts, counts)
    steps = []
    for axis in reversed(others):
        left, step = np.divmod(left, shapes[image, axis])
        steps.append((axis, step))
    return image, steps


def run(kernel: Kernel, table: np.ndarray, tiles: int, weights: ArrayView, memory: ArrayView, x: Places, y: Places,
        residual: Places | None, queue: Any) -> None:
    """Queue the launch, or do it on the CPU device. ``memory`` has the table where the kernel reads it."""
    if not tiles:
        return
    operands = {"x": x.memory, "w": weights, "table": memory, "y": y.memory}
    if any(argument.role is Role.RESIDUAL for argument in kernel.program.arguments):
        operands["residual"] = (residual or y).memory
    layer = kernel.spec.example_shape(n=tiles, h=SIDE, w=SIDE, padding_value=kernel.padding_value)
    kernel.backend.run(Call(layer, operands), None, queue)


def host_view(array: np.ndarray, dtype: DType) -> ArrayView:
    """An array of host memory, as one row of elements of ``dtype``."""
    flat = array.reshape(-1)
    return ArrayView(ArrayKind.NUMPY, flat.__array_interface__["data"][0], flat.shape, (1,), dtype, None, flat, False)
