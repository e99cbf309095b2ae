"""Windows that do not overlap, side by side: a launch before the product writes the elements of each as a row, and what
is left of the layer is a 1x1 layer whose pixels are windows (patch embeddings of vision transformers: 3 -> 768, 16x16
with stride 16).

A row has the order of x: channels, filter planes, rows and columns in NCHW, filter planes, rows, columns and channels
in NHWC; zeros fill it up to a multiple of 16 bytes. The template is parts/window_rows.cuh.jinja.
"""

from __future__ import annotations

import math
import operator

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dimension import OUTPUTS, Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES, SECTOR_BYTES
from warpconv.codegen.layer import LARGEST_SIZE
from warpconv.codegen.plan import Argument, Blocks, Extent, Launch, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .nhwc_pass import CELL_BYTES, stored_channels

WINDOWS = "windows"             # the program's name for what the launch leaves,
UNFOLD = "unfold"               # and its entry
# what the launch passes for the product's parameters of these names
NAMES = {"x": WINDOWS, "D": "Z", "H": "P", "W": "Q"}
THREADS = 256
UNIT_TYPES = {2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}      # by bytes
# Cycles of the launch; of a load of a warp, and of one where runs are shorter than a sector (198 plans of 53 layers:
# with the product's, estimates are 0.78 to 1.3 times what was measured, 1.05 in the mean; an H200, 2026-11-30)
FIRST_CYCLES, LOAD_CYCLES, SHORT_LOAD_CYCLES = 1500.0, 10.0, 20.0


@dataclass(frozen=True)
class WindowRows:
    """What the templates write of the launch."""

    arguments: tuple[Argument, ...]
    channels: int       # of x
    taps: tuple[int, ...]
    strides: tuple[int, ...]
    window: int         # elements of a window
    run: int            # of these that lie side by side in x
    row: int            # elements of a row of windows, filled up
    cell: int           # elements of 16 bytes
    row_cells: int
    padded: bool        # a row has more than its window
    unit: int           # elements that are loaded at once where rows of x are a multiple of them,
    unit_type: str      # as such a word
    early: bool         # the launch that reads it may begin before all of it is there


def refusal(spec: KernelSpec) -> str | None:
    """Why windows cannot be rows, in words, or None."""
    if spec.groups > 1:
        return f"rows of windows are for one group, not for {spec.groups}"
    if max(spec.taps) == 1:
        return "rows of windows are for more than one tap: a window of one is a row already"
    if any(map(any, spec.padding)) or any(map(operator.lt, spec.stride, spec.taps)) or max(spec.dilation) > 1:
        return "rows of windows are for windows that do not overlap, without padding and dilation"
    return None


def product_of(spec: KernelSpec) -> KernelSpec:
    """The 1x1 layer that is left."""
    ones = (1,) * len(spec.taps)
    return replace(spec, c=spec.reduction, t=1 if spec.is_volume else None, r=1, s=1, stride=ones, dilation=ones,
                   padding=((0, 0),) * len(ones), padding_mode=Border.ZEROS)


def make_rows(spec: KernelSpec, arguments: tuple[Argument, ...], early: bool) -> WindowRows:
    cell, row, across = CELL_BYTES // spec.dtype.itemsize, stored_channels(product_of(spec)), _across(spec)
    run = spec.s * across
    return WindowRows(arguments=arguments, channels=spec.c, taps=spec.taps, strides=spec.stride, window=spec.reduction,
                      run=run, row=row, cell=cell, row_cells=row // cell, padded=row != spec.reduction,
                      unit=unit_of(spec), unit_type=UNIT_TYPES[unit_of(spec) * spec.dtype.itemsize], early=early)


def unit_of(spec: KernelSpec) -> int:
    """Elements that may be loaded at once: of a run, and of what lies between two windows, whole ones."""
    across = _across(spec)
    return math.gcd(CELL_BYTES // spec.dtype.itemsize, spec.s * across, spec.stride[-1] * across)


def argument(spec: KernelSpec) -> Argument:
    return Argument(name=WINDOWS, role=Role.WORKSPACE, c_type=spec.dtype.c_name)


def launch(spec: KernelSpec, rows: WindowRows) -> Launch:
    """A thread for 16 bytes of a row."""
    outputs = OUTPUTS[len(spec.taps)]
    blocks = Blocks(of=Dimension.N, by=outputs, each=rows.row_cells, add=THREADS - 1, per=THREADS)
    return Launch(entry=UNFOLD, grid=(blocks, Blocks(), Blocks()), block=(THREADS, 1, 1),
                  arguments=tuple(a.name for a in rows.arguments))


def workspace(spec: KernelSpec, last_step: int) -> Workspace:
    """The rows, from the first step to the one that reads them. Offsets are as wide as x needs them; rows that are
    filled up have more elements, hence the limit."""
    stored, element = stored_channels(product_of(spec)), spec.dtype.itemsize
    return Workspace(name=WINDOWS, bytes_each=element * stored, first_step=0, last_step=last_step,
                     per=tuple(Extent(of=size) for size in (Dimension.N, *OUTPUTS[len(spec.taps)])),
                     most_bytes=element * LARGEST_SIZE if stored > spec.reduction and spec.index_bits == 32 else None)


def cycles(spec: KernelSpec, shape: ConvShape) -> float:
    """Cycles of the launch: sectors of x, and the rows; or its loads."""
    element, across = spec.dtype.itemsize, _across(spec)
    run, apart = spec.s * across * element, spec.stride[-1] * across * element
    read = spec.reduction * element * max(1.0, min(SECTOR_BYTES, apart) / run)
    moved = shape.output_pixels * (read + stored_channels(product_of(spec)) * element)
    loads = shape.output_pixels * spec.reduction / (unit_of(spec) * LANES * spec.hardware.multiprocessors)
    loading = loads * (LOAD_CYCLES if run >= SECTOR_BYTES else SHORT_LOAD_CYCLES)
    return FIRST_CYCLES + max(moved / spec.hardware.copied_bytes, loading)


def _across(spec: KernelSpec) -> int:
    """Elements of x from one column to the next."""
    return spec.c if spec.layout is Layout.NHWC else 1
