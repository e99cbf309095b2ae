"""Which tiles a strided data gradient gets, and what a plan is estimated to cost.

Cycles of instructions, copies and starts are those that fitted the forward kernels of the same instructions on an H200
(codegen/parts/wgmma.py); tiles, their stores and those of 64 channels by what was timed of 36 layers with twelve plans
each, and of 80 others (two H200s, 2026-11-28), of which estimates are off by a tenth.
"""

from __future__ import annotations

from collections.abc import Iterator

from warpconv.codegen.batch import UNKNOWN_PIXELS, assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.hardware import H200_CLOCK, QUARTERS
from warpconv.codegen.parts.phases import phases_of
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CLOCK, COLUMN_CYCLES, COPIED_BYTES, FULL_RATE, LATENCY_CYCLES,
                                          LEAST_STAGES, MEMORY_SHARE, MOST_COLUMNS, MOST_STAGES, MOST_SUMS, OVERLAPPED,
                                          ROW_BYTES, ROWS, START_CYCLES, STEP_CYCLES)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (DEPTH_BYTES, box_pixels, group_columns, is_turned, matrices_of, pixels_of, shared_bytes, slice_of,
                      stage_bytes, store_bytes)
from .options import PhasesWgmmaOptions

CHANNELS = (64, 128, 256)
PIXELS = (64, 96, 128, 160, 192, 256)
COLUMNS = (4, 8, 16, 32, 64)
UNKNOWN_PLANE = (28, 28)        # pixels of a phase, where no layer is known
MOST_BOX = 256                  # elements along a dimension of a box
TURN_CYCLES = 3500.0            # of the launch that puts the filter in order
TILE_CYCLES = 1800.0            # of a tile besides: where it lies, its first and its last products,
EMPTY_CYCLES = 200.0            # and of one that no tap meets
STORED_CYCLES = 9.0             # of a thread's sum on its way to memory
HALF_SHARE = 0.87               # of the estimate that tiles of 64 of more channels take,
FEW_SHARE, FEW_CHANNELS = 1.2, 45   # and where there are fewer: the channels below which it is in inverse proportion
FEW_OF_VOLUMES = 0.9            # the same of volumes (12 plans of 32 and 48 channels, an H200, 2026-11-28)


def candidates(spec: KernelSpec, shape: ConvShape | None = None) -> Iterator[PhasesWgmmaOptions]:
    """Every tile that fits and is not mostly filling, with as many stages as there is room for."""
    height, width = UNKNOWN_PLANE if shape is None else plane_of(spec, shape)
    for channels in CHANNELS:
        if channels > ROWS and channels >= 2 * spec.c:
            continue
        for rows, columns, images in sorted(set(_boxes(height, width))):
            tile = PhasesWgmmaOptions(channels=channels, rows=rows, columns=columns, images=images, stages=1)
            room = spec.hardware.shared_block - 2 * store_bytes(spec, tile)
            tile = replace(tile, stages=min(MOST_STAGES, room // (stage_bytes(tile) + 2 * BARRIER_BYTES)))
            if tile.stages >= LEAST_STAGES and tile_refusal(spec, tile) is None:
                yield tile


def plane_of(spec: KernelSpec, shape: ConvShape) -> tuple[int, int]:
    """Rows and columns of the largest phase."""
    return -(-shape.h // spec.stride[-2]), -(-shape.w // spec.stride[-1])


def stacks_of(spec: KernelSpec, options: PhasesWgmmaOptions, shape: ConvShape) -> int:
    """Tiles behind each other: over the batch, of volumes over the planes of each image's largest phase."""
    if spec.is_volume:
        return shape.n * -(-shape.depths[0] // spec.stride[0] // options.images)
    return -(-shape.n // options.images)


def _boxes(height: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Rows, columns and images: of as many pixels as products have columns, in tiles that share a plane out evenly."""
    for most in PIXELS:
        for given in (*COLUMNS, width, -(-width // 2)):
            columns = min(given, width, most)
            fitting = min(height, most // columns)
            rows = -(-height // -(-height // fitting))
            whole = rows >= height and columns >= width
            yield rows, columns, max(1, most // (rows * columns)) if whole else 1


def tile_refusal(spec: KernelSpec, options: PhasesWgmmaOptions) -> str | None:
    """Whether the instruction has tiles of such sizes, and shared memory holds them."""
    if options.channels not in CHANNELS:
        return f"channels = {options.channels} (one of {', '.join(map(str, CHANNELS))})"
    pixels = pixels_of(options)
    if max(options.rows, options.columns, options.images) > MOST_BOX or group_columns(options) > MOST_COLUMNS:
        return f"{options.images} x {options.rows} x {options.columns} pixels, {pixels} with those that fill them up"
    sums = matrices_of(options) * group_columns(options) // 2
    if sums > MOST_SUMS:
        return f"{options.channels} channels x {pixels} pixels: {sums} sums a thread (at most {MOST_SUMS})"
    if not LEAST_STAGES <= options.stages <= MOST_STAGES:
        return f"stages = {options.stages} ({LEAST_STAGES} to {MOST_STAGES})"
    if (shared := shared_bytes(spec, options)) > spec.hardware.shared_block:
        return (f"{shared} bytes of shared memory for a block (at most {spec.hardware.shared_block}): fewer stages or "
                "pixels")
    return None


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> PhasesWgmmaOptions:
    """The candidate of the least estimate, for the batch that kernels are shared by."""
    if shape is not None:
        shape = shape.with_batch(assumed_batch(shape))
    return min(candidates(spec, shape), key=lambda options: cycles(spec, options, shape))


def cycles(spec: KernelSpec, options: PhasesWgmmaOptions, shape: ConvShape | None) -> float:
    """Cycles of a layer: tiles of all phases, spread over blocks that stay, and half of the longest, or all of it; or
    the bytes of the arrays, whichever takes longer."""
    chip, phases = spec.hardware.multiprocessors, phases_of(spec)
    height, width = UNKNOWN_PLANE if shape is None else plane_of(spec, shape)
    stacks = (-(-(UNKNOWN_PIXELS // (height * width)) // options.images) if shape is None
              else stacks_of(spec, options, shape))
    each = -(-spec.c // options.channels) * -(-height // options.rows) * -(-width // options.columns) * stacks
    active = min(1.0, each * len(phases) / chip)
    depths = ROW_BYTES // DEPTH_BYTES
    product = depths * options.channels / ROWS * pixels_of(options) * COLUMN_CYCLES / FULL_RATE
    copied = ROW_BYTES * (options.channels + box_pixels(options)) / COPIED_BYTES * max(0.4, active)
    step = max(product, copied, LATENCY_CYCLES / (options.stages - 1)) + STEP_CYCLES
    stored = STORED_CYCLES * matrices_of(options) * group_columns(options) / 2
    share = 1.0
    if options.channels == ROWS and spec.c != ROWS:
        few = FEW_OF_VOLUMES if spec.is_volume else max(FEW_SHARE, FEW_CHANNELS / spec.c)
        share = HALF_SHARE if spec.c > ROWS else few
    slices = -(-spec.k // slice_of(spec))
    tiles = [share * ((TILE_CYCLES if phase.taps else EMPTY_CYCLES) + stored + phase.taps * slices * step)
             for phase in phases]
    arithmetic = max(each * sum(tiles) / chip + max(tiles) / 2, max(tiles))
    memory = 0.0 if shape is None else MEMORY_SHARE * shape.bytes_moved / spec.hardware.copied_bytes
    longest = max(arithmetic, memory)
    turning = TURN_CYCLES if is_turned(spec) else 0.0
    return START_CYCLES + turning + longest + (1 - OVERLAPPED) * (arithmetic + memory - longest)


def instructions(spec: KernelSpec, options: PhasesWgmmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer's gradient is made."""
    return QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape) * H200_CLOCK / CLOCK


def products_of(spec: KernelSpec) -> int:
    """Filters of all taps of the phase that has most."""
    return max(phase.taps for phase in phases_of(spec)) * spec.k
