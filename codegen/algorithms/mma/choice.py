"""Which tiles a layer gets, and what a plan is estimated to cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpconv.codegen.algorithm import assumed_batch
from warpconv.codegen.hardware import multiprocessors
from warpconv.codegen.parts.occupancy import resident_blocks
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import LANES, MATRIX_COLUMNS, MATRIX_DEPTH, MATRIX_ROWS, planned_registers, resolved
from .options import MmaOptions

# (tile_m, tile_n, warps_m, warps_n)
TILES = ((128, 128, 2, 4), (128, 256, 2, 4), (256, 128, 4, 2), (256, 64, 4, 2), (128, 64, 4, 2), (64, 128, 2, 4), (64, 64, 2, 2), (256, 32, 8, 1),
         (128, 32, 4, 1), (64, 32, 4, 1), (128, 16, 4, 1), (256, 16, 8, 1))
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
LEAST_STEPS = 8             # tiles of the reduction that are left to each part of a sum
MMA_SLOTS = 5.0             # issue slots of m16n8k16: at most a product in four cycles of a multiprocessor's quarter
MATRIX_SLOTS = 4.0          # of an ldmatrix of four: 512 bytes, at 128 a cycle for all four quarters
COPY_SLOTS = 8.0            # of a copy of pixels: where it lies, whether it lies in the image, the copy
FILTER_SLOTS = 3.0
STEP_SLOTS = 30.0           # of a tile besides: the barrier, the tap
STORE_SLOTS = 6.0           # of a matrix's sums: the epilogue, two stores
BLOCK_SLOTS = 400.0         # of a warp besides: where its pixels lie, the first tiles' way
SHARED_OF_A_MULTIPROCESSOR = 200 * 1024     # bytes, about, on data-centre chips of today


def stages_of(tile_m: int, tile_n: int, tile_k: int) -> int:
    """As many stages as leave two blocks room on a multiprocessor, three to five."""
    return max(3, min(5, 48 * 1024 // ((tile_m + tile_n) * tile_k)))


def candidates(spec: KernelSpec) -> Iterator[MmaOptions]:
    """Every tile that is not mostly filling, with every split that leaves enough to each part."""
    steps = -(-spec.channels * spec.r * spec.s // 32)
    for tile_m, tile_n, warps_m, warps_n in TILES:
        if tile_n > 16 and tile_n >= 2 * spec.filters:
            continue
        for splits in SPLITS:
            if splits == 1 or steps // splits >= LEAST_STEPS:
                yield MmaOptions(tile_m=tile_m, tile_n=tile_n, tile_k=32, warps_m=warps_m, warps_n=warps_n,
                                 stages=stages_of(tile_m, tile_n, 32), splits=splits)


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> MmaOptions:
    """The candidate of the least estimate for the layer's sizes, for a batch that is assumed; without sizes the largest
    tile that filters fill."""
    found = [resolved(spec, options) for options in candidates(spec)]
    found = [options for options in found if options.tile_m * options.tile_k // options.vector
             % (LANES * options.warps_m * options.warps_n) == 0 and planned_registers(options) <= 255]
    if shape is None:
        return replace(found[0], min_blocks=0)
    shape = shape.with_batch(assumed_batch(shape))
    return min(found, key=lambda options: instructions(spec, options, shape))


def instructions(spec: KernelSpec, options: MmaOptions, shape: ConvShape) -> float:
    """Issue slots of a layer: those of its blocks, in whole rounds of what the chip holds at a time."""
    options = resolved(spec, options)
    warps = options.warps_m * options.warps_n
    warp_m, warp_n = options.tile_m // options.warps_m, options.tile_n // options.warps_n
    steps = -(-spec.channels * spec.r * spec.s // options.tile_k)
    matrices = warp_m // MATRIX_ROWS * (warp_n // MATRIX_COLUMNS)
    loads = warp_m // MATRIX_ROWS + warp_n // (2 * MATRIX_COLUMNS)
    copies = options.tile_m * options.tile_k // options.vector / (LANES * warps)
    filters = options.tile_n * options.tile_k / (8 * LANES * warps)
    step = (options.tile_k // MATRIX_DEPTH * (matrices * MMA_SLOTS + loads * MATRIX_SLOTS) + copies * COPY_SLOTS
            + filters * FILTER_SLOTS + STEP_SLOTS)
    warp = BLOCK_SLOTS + steps / options.splits * step + matrices * STORE_SLOTS
    pixels = shape.n * shape.p * shape.q
    blocks = -(-pixels // options.tile_m) * -(-spec.filters // options.tile_n) * spec.groups * options.splits
    shared = 2 * options.stages * (options.tile_m + options.tile_n) * options.tile_k
    resident = max(1, min(resident_blocks(spec.arch, planned_registers(options), LANES * warps),
                          SHARED_OF_A_MULTIPROCESSOR // (shared + 1024)))
    held = resident * multiprocessors(spec.arch)
    rounds = -(-blocks // held)
    added = 0.0 if options.splits == 1 else pixels * spec.k / LANES * (8 + 2 * options.splits)
    return max(rounds * held, blocks) * warps * warp + added


