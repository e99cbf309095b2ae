"""Which tiles a layer's filter gradient gets, and what a plan is estimated to cost.

The issue slots of products, matrices and steps are those that fitted the forward kernels of the same instructions on an
H200 (2026-11-22), the other figures are counted from the text. Those of float32 were fitted to 260 plans of 20 layers
(an H200, 2026-11-28; they are off by a twelfth).
"""

from __future__ import annotations

from collections.abc import Iterator

from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import PORTABLE_SHARED, QUARTERS, SECTOR_BYTES, THREAD_REGISTERS
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.mma import (BLOCK_SLOTS, MATRIX_COLUMNS, MATRIX_ROWS, STEP_SLOTS, block_cycles,
                                        depth_slots, layer_cycles, matrices_refusal, matrix_depth, narrow_share,
                                        product_slots)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

from .numbers import copies_of, in_joined_groups, planned_registers, resident_of, resolved, shared_bytes, threads_of
from .options import FilterGradientMmaOptions

# (tile_m, tile_n, warps_m, warps_n)
TILES = ((128, 128, 2, 2), (128, 128, 2, 4), (128, 256, 2, 4), (256, 128, 4, 2), (64, 256, 1, 4), (256, 64, 4, 1),
         (64, 128, 1, 2), (64, 128, 2, 2), (128, 64, 2, 1), (128, 64, 2, 2), (64, 64, 2, 2),
         (32, 256, 1, 4), (32, 128, 1, 4), (32, 64, 1, 4), (64, 32, 4, 1), (16, 128, 1, 4), (16, 64, 1, 4))
DEPTHS = ((32, 4), (32, 3), (64, 3), (64, 2))       # pixels of a tile, stages; of float32 half as many pixels
# Issue slots of a quarter's warp besides those of parts/mma.py
LINEAR_SLOTS = 6.0          # of a copy of pixels that follow each other,
WALKED_SLOTS = 24.0         # and of one of windows: the way to the next output, whether the tap lies in the image
MOST_JOINED = 64            # filters and channels of groups that are one to the tiles
# Times as long as estimated that groups of 16 bits take, by the bytes of a pixel that lie side by side, and where these
# are no whole sectors of memory: 100 plans of five layers (an H200, 2026-11-28)
RUN_SHARES = {16: 1.25, 32: 1.0, 64: 0.78, 128: 0.78}
UNEVEN_SHARE = 1.7
NARROW = {8: 1.0, 4: 1.0, 2: 1.0, 1: 1.5}       # times as many of a copy of fewer elements
# Of float32
WORD_SLOTS = 2.4            # of a word of a matrix: rounded or split
LONE_WARP = 1.35            # times as long as its slots a warp takes that has a quarter to itself
SHARES = {Numerics.TF32: 0.82, Numerics.TF32X3: 0.77}       # times as long as the slots of all these
STORE_SLOTS = 8.0           # of a matrix's sums: no epilogue


def candidates(spec: KernelSpec, pixels: int) -> Iterator[FilterGradientMmaOptions]:
    """Every tile that fits and is not mostly filling, with shares of the pixels that fill the chip, of small groups
    joined in every number."""
    shorter = 2 if spec.dtype is DType.FLOAT32 else 1
    for joined in joined_choices(spec):
        tiled = in_joined_groups(spec, FilterGradientMmaOptions(joined=joined))
        for tile_m, tile_n, warps_m, warps_n in TILES:
            if (tile_m > 16 and tile_m >= 2 * tiled.filters) or (tile_n > 64 and tile_n >= 2 * tiled.reduction):
                continue
            for tile_p, stages in DEPTHS:
                options = FilterGradientMmaOptions(tile_m=tile_m, tile_n=tile_n, tile_p=tile_p // shorter,
                                                   warps_m=warps_m, warps_n=warps_n, stages=stages, joined=joined)
                whole = resolved(spec, options)
                if tile_refusal(spec, whole) is None:
                    yield from (replace(options, splits=n) for n in _splits(spec, whole, pixels))


def joined_choices(spec: KernelSpec) -> list[int]:
    """How many groups may be one to the tiles: each of its own, or so many that none is left over."""
    most = MOST_JOINED // max(spec.filters, spec.channels)
    return [1, *(n for n in range(2, min(most, spec.groups) + 1) if spec.groups % n == 0)]


def tiles_of(spec: KernelSpec, options: FilterGradientMmaOptions) -> int:
    """Blocks of a share."""
    tiled = in_joined_groups(spec, options)
    return -(-tiled.filters // options.tile_m) * -(-tiled.reduction // options.tile_n) * tiled.groups


def _splits(spec: KernelSpec, options: FilterGradientMmaOptions, pixels: int) -> list[int]:
    tiles = tiles_of(spec, options)
    held = resident_of(spec, options) * spec.hardware.multiprocessors
    return partial_sums.splits_for(held, tiles, pixels // options.tile_p)


def tile_refusal(spec: KernelSpec, options: FilterGradientMmaOptions) -> str | None:
    """Whether warps share out a tile in whole matrices, and threads its copies; of resolved plan values."""
    m, n, p, depth = options.tile_m, options.tile_n, options.tile_p, matrix_depth(spec)
    if m % (options.warps_m * MATRIX_ROWS) or n % (options.warps_n * 2 * MATRIX_COLUMNS) or p % depth or p < 1:
        return (f"{options.warps_m} x {options.warps_n} warps do not share out {m} x {n} x {p} in matrices of "
                f"{MATRIX_ROWS} x {2 * MATRIX_COLUMNS} x {depth}")
    threads = threads_of(options)
    for tile, vector in ((m, options.vector_m), (n, options.vector_n)):
        copies = copies_of(spec, options, tile, vector)
        if threads % copies.columns or p % copies.rows:
            return f"{threads} threads do not share out the copies of {p} pixels x {tile} elements, {vector} at a time"
        if copies.cells not in (2, 4) and copies.cells % 8:
            return f"tiles of {tile} (16, 32 or a multiple of 64: whole rows of banks)"
    if (refusal := matrices_refusal(spec, m // options.warps_m, n // options.warps_n)) is not None:
        return refusal
    if (registers := planned_registers(spec, options)) > THREAD_REGISTERS:
        return f"about {registers} registers a thread (at most {THREAD_REGISTERS}): smaller tiles"
    shared = shared_bytes(spec, options)
    if shared > PORTABLE_SHARED:
        return f"{shared} bytes of shared memory for a block (at most {PORTABLE_SHARED}): smaller tiles or fewer stages"
    return None


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> FilterGradientMmaOptions:
    """The candidate of the least estimate, for the batch that kernels are shared by."""
    pixels, moved = partial_sums.work_of(shape)
    return min(candidates(spec, pixels), key=lambda options: cycles(spec, resolved(spec, options), pixels, moved))


def cycles(spec: KernelSpec, options: FilterGradientMmaOptions, pixels: int, moved: int) -> float:
    """Cycles of so many output pixels, of resolved plan values: blocks in rounds of what the chip holds at a time, the
    bytes of their tiles, or ``moved``, those of the arrays, whichever takes longest; then the shares' sums, but not
    their launch, which every filter gradient has."""
    warps = options.warps_m * options.warps_n
    blocks = tiles_of(spec, options) * options.splits
    steps = -(-pixels // (options.tile_p * options.splits))
    slots, resident = _warp_slots(spec, options, steps), resident_of(spec, options)
    if spec.dtype is DType.FLOAT32:
        arithmetic = SHARES[spec.numerics] * block_cycles(spec.hardware, blocks, resident, warps, slots, lone=LONE_WARP)
    else:
        arithmetic = _run_share(spec, options) * block_cycles(spec.hardware, blocks, resident, warps, slots)
    copied = spec.dtype.itemsize * blocks * steps * (options.tile_m + options.tile_n) * options.tile_p
    adding = partial_sums.adding_cycles(spec, options.splits, passes=2)
    return layer_cycles(spec.hardware, arithmetic, _run_share(spec, options) * copied, moved) + adding


def _run_share(spec: KernelSpec, options: FilterGradientMmaOptions) -> float:
    if spec.groups == 1 or not spec.dtype.is_half:
        return 1.0
    run = spec.dtype.itemsize * in_joined_groups(spec, options).channels
    return RUN_SHARES.get(run, UNEVEN_SHARE if run % SECTOR_BYTES else 1.0)


def _warp_slots(spec: KernelSpec, options: FilterGradientMmaOptions, steps: int) -> float:
    """Issue slots of a warp: its steps, its stores."""
    down = options.tile_m // options.warps_m // MATRIX_ROWS
    across = options.tile_n // options.warps_n // MATRIX_COLUMNS
    gradients = copies_of(spec, options, options.tile_m, options.vector_m)
    windows = copies_of(spec, options, options.tile_n, options.vector_n)
    walk = LINEAR_SLOTS if spec.is_pointwise else WALKED_SLOTS
    depth = depth_slots(down, across)
    if spec.dtype is DType.FLOAT32:
        words = 4 * down + 2 * across
        depth = product_slots(spec, down * across, words) + words * WORD_SLOTS
    step = (options.tile_p // matrix_depth(spec) * depth
            + gradients.each * LINEAR_SLOTS * NARROW[gradients.vector]
            + windows.each * walk * NARROW[windows.vector] + STEP_SLOTS)
    return BLOCK_SLOTS + steps * step + down * across * STORE_SLOTS


def instructions(spec: KernelSpec, options: FilterGradientMmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer's gradient is made."""
    found = cycles(spec, options, shape.output_pixels, shape.bytes_moved)
    return narrow_share(spec, spec.channels * options.joined) * QUARTERS * spec.hardware.multiprocessors * found


def fma_of(options: FilterGradientMmaOptions) -> int:
    """FMAs of a lane that a warp's products of a tile stand for."""
    return options.tile_m * options.tile_n * options.tile_p // threads_of(options)
