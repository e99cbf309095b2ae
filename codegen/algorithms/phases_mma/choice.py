"""Which tiles a strided data gradient gets, and what a plan is estimated to cost.

The issue slots of products, matrices, copies and steps are those that fitted the forward kernels of the same
instructions on an H200 (2026-11-22); what few warps cost is of 120 plans of three of ResNet-50's strided layers, timed
on it on 2026-11-23 (docs/results/dense), and what few blocks wait for of 75 layers (2026-11-28, another H200).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpconv.codegen.batch import UNKNOWN_PIXELS, assumed_batch
from warpconv.codegen.hardware import BLOCK_THREADS, LANES, PORTABLE_SHARED, QUARTERS, THREAD_REGISTERS
from warpconv.codegen.parts.mma import (BLOCK_SLOTS, COPY_SLOTS, MATRIX_COLUMNS, MATRIX_ROWS, MATRIX_SLOTS,
                                        MOST_STAGES, ROW_CELLS, STORE_SLOTS, cell_of, layer_cycles, matrices_refusal,
                                        matrix_depth, narrow_share, product_slots)
from warpconv.codegen.parts.occupancy import blocks_refusal
from warpconv.codegen.parts.phases import phases_of
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import planned_registers, resident_of, resolved, shared_bytes, threads_of, vector_of
from .options import PhasesMmaOptions

# (tile_m, tile_n, warps_m, warps_n)
TILES = ((128, 128, 2, 2), (128, 128, 2, 4), (128, 256, 2, 4), (256, 128, 4, 2), (256, 64, 4, 1), (128, 64, 2, 2),
         (128, 64, 4, 1), (64, 128, 2, 2), (64, 64, 2, 2), (64, 64, 2, 1), (128, 32, 4, 1), (128, 16, 4, 1))
DEPTHS = ((4, 4), (4, 3), (8, 3), (8, 2))           # cells of a tile's rows, stages
STEP_SLOTS = 80.0           # issue slots of a tile of the reduction besides: the barrier, the tap of its phase
LONE_WARP = 2.0             # times as long as its slots a warp takes that has a quarter to itself,
LONE_BLOCK = 1.15           # and so much longer still where the block has the multiprocessor to itself
LEAST_WARPS = 2.8           # a quarter's, as which fewer of the longest block take, where no other hides it
STEP_CYCLES = 1000.0        # from a step's copies to its products, in a ring of two stages
NARROW = 4.0                # times the slots of a copy of 16 bytes that one of fewer takes
START_CYCLES = 3500.0       # of the launch that puts the filter in order, and of the first copies


def candidates(spec: KernelSpec) -> Iterator[PhasesMmaOptions]:
    """Every tile that fits and is not mostly filling."""
    for tile_m, tile_n, warps_m, warps_n in TILES:
        if tile_n > 16 and tile_n >= 2 * spec.channels:
            continue
        for cells, stages in DEPTHS:
            options = PhasesMmaOptions(tile_m=tile_m, tile_n=tile_n, tile_k=cells * cell_of(spec), warps_m=warps_m,
                                       warps_n=warps_n, stages=stages)
            if tile_refusal(spec, resolved(spec, options)) is None:
                yield options


def tile_refusal(spec: KernelSpec, options: PhasesMmaOptions) -> str | None:
    """Whether warps share out a tile in whole matrices, and threads its copies."""
    m, n, k, threads = options.tile_m, options.tile_n, options.tile_k, threads_of(options)
    cell, depth = cell_of(spec), matrix_depth(spec)
    if not 0 < threads <= BLOCK_THREADS:
        return f"{options.warps_m} x {options.warps_n} warps (1 to {BLOCK_THREADS // LANES} are possible)"
    if m % (options.warps_m * MATRIX_ROWS) or n % (options.warps_n * 2 * MATRIX_COLUMNS) or k % depth:
        return (f"{options.warps_m} x {options.warps_n} warps do not share out {m} x {n} x {k} in matrices of "
                f"{MATRIX_ROWS} x {2 * MATRIX_COLUMNS} x {depth}")
    if k // cell not in ROW_CELLS:
        return f"tile_k = {k} ({' or '.join(str(cells * cell) for cells in ROW_CELLS)}: whole rows of banks)"
    columns = k // vector_of(spec)
    if threads % columns or m % (threads // columns):
        return f"{threads} threads do not share out the copies of {m} pixels x {k} products"
    if not 2 <= options.stages <= MOST_STAGES:
        return f"stages = {options.stages} (2 to {MOST_STAGES})"
    if (refusal := matrices_refusal(spec, m // options.warps_m, n // options.warps_n)) is not None:
        return refusal
    if (registers := planned_registers(spec, options)) > THREAD_REGISTERS:
        return f"about {registers} registers a thread (at most {THREAD_REGISTERS}): smaller tiles"
    shared = shared_bytes(spec, options)
    if shared > PORTABLE_SHARED:
        return f"{shared} bytes of shared memory for a block (at most {PORTABLE_SHARED}): smaller tiles or fewer stages"
    return blocks_refusal(spec, threads, options.min_blocks)


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> PhasesMmaOptions:
    """The candidate of the least estimate, for the batch that kernels are shared by."""
    pixels, moved = UNKNOWN_PIXELS, 0
    if shape is not None:
        shape = shape.with_batch(assumed_batch(shape))
        pixels, moved = shape.input_pixels, shape.bytes_moved
    return min(candidates(spec), key=lambda options: cycles(spec, resolved(spec, options), pixels, moved))


def cycles(spec: KernelSpec, options: PhasesMmaOptions, pixels: int, moved: int) -> float:
    """Cycles of so many pixels of the input: the work of all phases' blocks spread over the chip and half of the
    longest one's, or all of that one with its waits for copies, the bytes of their tiles, or ``moved``, those of the
    arrays, whichever takes longest."""
    warps, chip = options.warps_m * options.warps_n, spec.hardware.multiprocessors
    phases = phases_of(spec)
    blocks = (-(-pixels // (len(phases) * options.tile_m)) * -(-spec.channels // options.tile_n) * spec.groups)
    steps = [-(-phase.taps * spec.filters // options.tile_k) for phase in phases]
    slots = [_warp_slots(spec, options, n) for n in steps]
    held = min(resident_of(spec, options), -(-blocks * len(phases) // chip)) * warps / QUARTERS
    slower = max(1.0, LONE_WARP / held) * (LONE_BLOCK if held * QUARTERS <= warps else 1.0)
    spread = slower * (blocks * sum(slots) * warps / (QUARTERS * chip) + max(slots) / 2)
    longest = math.hypot(max(slots) * max(warps / QUARTERS, LEAST_WARPS),
                         max(steps) * STEP_CYCLES / (options.stages - 1))
    copied = spec.dtype.itemsize * blocks * sum(steps) * (options.tile_m + options.tile_n) * options.tile_k
    return START_CYCLES + layer_cycles(spec.hardware, max(spread, longest), copied, moved)


def _warp_slots(spec: KernelSpec, options: PhasesMmaOptions, steps: int) -> float:
    """Issue slots of a warp: its steps, its stores."""
    down = options.tile_m // options.warps_m // MATRIX_ROWS
    across = options.tile_n // options.warps_n // MATRIX_COLUMNS
    copies = (options.tile_m + options.tile_n) * options.tile_k / (vector_of(spec) * threads_of(options))
    depth = (product_slots(spec, down * across, 4 * down + 2 * across) + (down + across / 2) * MATRIX_SLOTS)
    narrow = NARROW if vector_of(spec) < cell_of(spec) else 1.0
    step = options.tile_k // matrix_depth(spec) * depth + copies * narrow * COPY_SLOTS + STEP_SLOTS
    return BLOCK_SLOTS + steps * step + down * across * STORE_SLOTS


def instructions(spec: KernelSpec, options: PhasesMmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer's gradient is made."""
    found = cycles(spec, options, shape.input_pixels, shape.bytes_moved)
    return narrow_share(spec, spec.filters) * QUARTERS * spec.hardware.multiprocessors * found
