"""x from NCHW to NHWC by a launch of its own, for kernels that read the channels of a pixel side by side.

A tile of pixels x channels goes through a block's shared memory. Where a layer is one group, its channels are filled up
with zeros to 16 bytes, so that copies of that width and descriptors take it. Where a 1x1 filter strides, the pass may
leave the pixels alone that no output reads (``sampled``). The templates are in parts/nhwc_pass.cuh.jinja.
"""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dimension import IMAGE, OUTPUTS, Dimension
from warpconv.codegen.hardware import GRID_LIMIT, SECTOR_BYTES
from warpconv.codegen.layer import LARGEST_SIZE
from warpconv.codegen.plan import Argument, Blocks, Extent, Launch, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

PIXELS = "x_nhwc"               # the program's name for what the pass leaves
CELL_BYTES = 16
TILE = 4096                     # elements of a block of the pass,
CHANNELS = (8, 16, 32, 64)      # and channels of it
THREADS = 256
LAUNCH_CYCLES = 3500.0          # of the launch,
COPY_SHARE = 1.2                # and of its bytes, at the speed of a copy (an H200, 2026-11-22)


@dataclass(frozen=True)
class NhwcPass:
    """What the templates write of the pass."""

    arguments: tuple[Argument, ...]
    wide: bool          # x is read 16 bytes at a time where its images allow; not where it may lie at any address
    channels: int       # a block's tile
    pixels: int
    stored: int         # channels of a pixel of x_nhwc
    padded: bool        # more than x has
    whole_cells: bool   # 16 bytes of x_nhwc are of one pixel
    sampled: bool       # x_nhwc has a pixel for each output
    early: bool         # the launch that reads it may begin before all of it is there
    pixels_of_image: str    # of x_nhwc, as C


def stored_channels(spec: KernelSpec) -> int:
    """Channels of a pixel of x_nhwc."""
    cell = CELL_BYTES // spec.dtype.itemsize
    return -(-spec.c // cell) * cell if spec.groups == 1 else spec.c


def make_pass(spec: KernelSpec, arguments: tuple[Argument, ...], *, wide: bool, sampled: bool = False,
              early: bool = False) -> NhwcPass:
    channels, stored = _channels(spec), stored_channels(spec)
    return NhwcPass(arguments=arguments, wide=wide, channels=channels, pixels=TILE // channels, stored=stored,
                    padded=stored != spec.c, whole_cells=stored * spec.dtype.itemsize % CELL_BYTES == 0,
                    sampled=sampled, early=early,
                    pixels_of_image=" * ".join(size.value for size in pixels_of(spec, sampled)[1:]))


def argument(spec: KernelSpec) -> Argument:
    return Argument(name=PIXELS, role=Role.WORKSPACE, c_type=spec.dtype.c_name)


def pixels_of(spec: KernelSpec, sampled: bool) -> tuple[Dimension, ...]:
    """Whose product the pixels of x_nhwc are."""
    return (Dimension.N, *(OUTPUTS if sampled else IMAGE)[len(spec.taps)])


def launch(spec: KernelSpec, arguments: tuple[Argument, ...], sampled: bool = False) -> Launch:
    channels = _channels(spec)
    each = TILE // channels
    pixels = Blocks(of=Dimension.N, by=pixels_of(spec, sampled)[1:], add=each - 1, per=each)
    grid = (pixels, Blocks(times=-(-stored_channels(spec) // channels), limit=GRID_LIMIT[1]), Blocks())
    return Launch(entry="to_nhwc", grid=grid, block=(THREADS, 1, 1), arguments=tuple(a.name for a in arguments))


def workspace(spec: KernelSpec, last_step: int, sampled: bool = False) -> Workspace:
    """x_nhwc, from the first step to the one that reads it. Offsets are as wide as x needs them, which has fewer
    channels where they are filled up."""
    stored, element = stored_channels(spec), spec.dtype.itemsize
    return Workspace(name=PIXELS, bytes_each=element * stored, first_step=0, last_step=last_step,
                     per=tuple(Extent(of=size) for size in pixels_of(spec, sampled)),
                     most_bytes=element * LARGEST_SIZE if stored > spec.c and spec.index_bits == 32 else None)


def cycles(spec: KernelSpec, shape: ConvShape, sampled: bool = False) -> float:
    """Cycles of the pass over a layer's input; sampled, over whole rows of those that are read."""
    read = shape.p * min(shape.w, shape.q * SECTOR_BYTES // spec.dtype.itemsize) if sampled else math.prod(shape.image)
    written = shape.p * shape.q if sampled else read
    moved = spec.dtype.itemsize * shape.n * shape.c * (read + written)
    return LAUNCH_CYCLES + COPY_SHARE * moved / spec.hardware.copied_bytes


def _channels(spec: KernelSpec) -> int:
    return next((c for c in CHANNELS if c >= spec.c), CHANNELS[-1])
