"""Which tiles a strided data gradient by float32 units gets, and what a plan is estimated to cost.

Tiles and issue slots are those of the forward product in the same tiles (parts/gemm/choice.py); what they were wrong
by is of 400 plans of 45 layers (H200, 2026-11-26): NHWC_PACE, and the stores of pixels that lie apart; and of 75 layers
(another H200, 2026-11-28): HALVES_PACE, and what few blocks wait for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpconv.codegen.batch import UNKNOWN_PIXELS, assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.hardware import BLOCK_THREADS, LANES, PORTABLE_SHARED, QUARTERS, SHARED_STATIC, THREAD_REGISTERS
from warpconv.codegen.parts.gemm.choice import (BLOCK_SLOTS, COPY_SLOTS, EXPOSED, LAUNCH_CYCLES, LONE_WARP,
                                                MEMORY_SHARE, TILE_SLOTS, WARP_PACE)
from warpconv.codegen.parts.gemm.tiles import MOST_STAGES, MOST_SUMS
from warpconv.codegen.parts.occupancy import blocks_refusal
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (LANES_M, LANES_N, VECTOR, async_copies_of, copy_vector_of, products_of, registers_of,
                      resident_of, resolved, stage_of, threads_of)
from .options import Form, PhasesGemmOptions

# (block_m, block_n, thread_m, thread_n)
TILES = ((128, 64, 8, 8), (96, 64, 12, 8), (64, 64, 8, 8), (64, 128, 8, 8), (32, 128, 4, 8), (16, 128, 4, 4))
DEPTHS = (16, 8)
STORE_SLOTS = 3             # of a store
DECODE_SLOTS = 12           # of a cell's place, which a thread finds for each of its own
WINDOW_SLOTS = 8            # of a copy that asks whether its output exists
NHWC_PACE = 1.18            # times as long as its slots a block takes in NHWC
HALVES_PACE = 1.7           # and longer still 16 bits in NHWC, whose elements come by way of registers one by one
STEP_CYCLES = 900.0         # from a step's copies to its products, where no other block hides it
LOADED = 3                  # times the slots of an asynchronous copy that an element takes by way of registers
MOST_LISTED = 12288         # taps of pixels in the text
SECTOR_BYTES = 32           # that memory writes together: of pixels that lie apart each store is one,
SECTOR_SHARE = 1.2          # and these take so much of the time that a copy of their bytes takes


def candidates(spec: KernelSpec) -> Iterator[PhasesGemmOptions]:
    """Every tile of all forms that fits and is not mostly filling, with stores of one pixel."""
    for form in _forms(spec):
        rows = spec.channels * math.prod(products_of(spec, form).cell)
        for block_m, block_n, thread_m, thread_n in TILES:
            if block_m > 16 and block_m >= 2 * rows:
                continue
            for depth in DEPTHS:
                options = PhasesGemmOptions(form=form, block_m=block_m, block_n=block_n, block_k=depth,
                                            thread_m=thread_m, thread_n=thread_n)
                if tile_refusal(spec, resolved(spec, options)) is None:
                    yield options


def _forms(spec: KernelSpec) -> Iterator[Form]:
    """The forms that are not the same: only axes with a stride have phases."""
    yield Form.APART
    if spec.stride[-1] > 1:
        yield Form.ROW
    if max(spec.stride[:-1]) > 1:
        yield Form.TOGETHER


def threads_refusal(options: PhasesGemmOptions) -> str | None:
    """Whether whole warps share out a tile of sums."""
    m, n, thread_m, thread_n = options.block_m, options.block_n, options.thread_m, options.thread_n
    across_m, across_n = LANES_M * thread_m, LANES_N * thread_n
    if min(thread_m, thread_n) < 1 or thread_m % VECTOR or thread_n % VECTOR:
        return f"thread tile {thread_m} x {thread_n} (multiples of {VECTOR})"
    if min(m, n) < 1 or m % across_m or n % across_n:
        return f"warps of {across_m} channels x {across_n} cells do not share out {m} x {n}"
    if thread_m * thread_n > MOST_SUMS:
        return f"{thread_m} x {thread_n} sums would not stay in registers (at most {MOST_SUMS})"
    threads = threads_of(options)
    return None if threads <= BLOCK_THREADS else f"a block of {threads} threads (at most {BLOCK_THREADS})"


def tile_refusal(spec: KernelSpec, options: PhasesGemmOptions) -> str | None:
    """Whether threads share out a tile's copies, and what a block, a thread and the text have room for."""
    threads, products = threads_of(options), products_of(spec, options.form)
    if (listed := len(products.taps) * math.prod(products.cell)) > MOST_LISTED:
        return f"form = {options.form.value} lists {listed} taps of pixels (at most {MOST_LISTED})"
    if (refusal := _copies_refusal(spec, options, threads)) is not None:
        return refusal
    if not 2 <= options.stages <= MOST_STAGES:
        return f"stages = {options.stages} (2 to {MOST_STAGES})"
    if (refusal := _stores_refusal(spec, options)) is not None:
        return refusal
    if (registers := registers_of(spec, options)) > THREAD_REGISTERS:
        return f"about {registers} registers a thread (at most {THREAD_REGISTERS}): smaller tiles"
    shared = 4 * options.stages * stage_of(spec, options)
    limit = PORTABLE_SHARED if spec.hardware.async_copies else SHARED_STATIC
    if shared > limit:
        return f"{shared} bytes of shared memory for a block (at most {limit}): smaller tiles or fewer stages"
    return blocks_refusal(spec, threads, options.min_blocks)


def _copies_refusal(spec: KernelSpec, options: PhasesGemmOptions, threads: int) -> str | None:
    n, k, vector = options.block_n, options.block_k, copy_vector_of(spec)
    if k < VECTOR or k % VECTOR:
        return f"block_k = {k} (a multiple of {VECTOR})"
    if spec.layout is Layout.NHWC:
        shared_out = threads % (k // vector) == 0 and n % (threads // (k // vector)) == 0
    else:
        shared_out = threads % n == 0 and k * n % threads == 0
    return None if shared_out else f"{threads} threads do not share out the copies of {k} products x {n} cells"


def _stores_refusal(spec: KernelSpec, options: PhasesGemmOptions) -> str | None:
    """Pixels are stored together where a thread has them side by side."""
    if options.store_vector == 1 or options.form is Form.APART:
        return None
    if spec.dtype is not DType.FLOAT32:
        return f"store_vector = {options.store_vector}: elements of {spec.dtype.value} are stored one by one"
    if spec.layout is Layout.NHWC:
        return f"store_vector = {options.store_vector}: in NHWC channels are stored together"
    if options.store_vector not in (2, 4) or spec.stride[-1] % options.store_vector:
        return f"store_vector = {options.store_vector}: 2 or 4, of which a cell's {spec.stride[-1]} columns consist"
    return None


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> PhasesGemmOptions:
    """The candidate of the least estimate, for the batch that kernels are shared by; pixels side by side are stored
    together where rows consist of them."""
    pixels, moved, width = UNKNOWN_PIXELS, 0, 1
    if shape is not None:
        shape = shape.with_batch(assumed_batch(shape))
        pixels, moved, width = shape.input_pixels, shape.bytes_moved, shape.w
    wide = (_with_stores(spec, options, width) for options in candidates(spec))
    return min(wide, key=lambda options: cycles(spec, resolved(spec, options), pixels, moved))


def _with_stores(spec: KernelSpec, options: PhasesGemmOptions, width: int) -> PhasesGemmOptions:
    """The options with the widest stores that rows of so many pixels take."""
    found = (replace(options, store_vector=vector) for vector in (4, 2)
             if options.form is not Form.APART and width % vector == 0)
    return next((made for made in found if _stores_refusal(spec, made) is None), options)


def cycles(spec: KernelSpec, options: PhasesGemmOptions, pixels: int, moved: int) -> float:
    """Cycles of so many pixels of the input: the blocks of all phases spread over the chip, and half of the longest
    one's; or ``moved``, the bytes of the arrays, whichever takes longer, and a part of the other; and the launch
    before."""
    products = products_of(spec, options.form)
    rows, phases = spec.channels * math.prod(products.cell), len(products.phases)
    cells = -(-pixels // math.prod(spec.stride))
    blocks = phases * -(-cells // options.block_n) * -(-rows // options.block_m) * spec.groups
    chip, warps = spec.hardware.multiprocessors, threads_of(options) / LANES / QUARTERS
    depth = -(-spec.filters // options.block_k)
    slots = [_warp_slots(spec, options, phase.taps * depth) for phase in products.phases]
    held = min(resident_of(spec, options), -(-blocks // chip))
    pace = max(held * warps * WARP_PACE, LONE_WARP)
    if spec.layout is Layout.NHWC:
        pace *= NHWC_PACE * (HALVES_PACE if spec.dtype.is_half else 1.0)
    waits = STEP_CYCLES * depth * max(phase.taps for phase in products.phases)
    arithmetic = max(pace * (blocks / (chip * held) * sum(slots) / phases + max(slots) / 2), waits)
    memory = max(MEMORY_SHARE * moved, SECTOR_SHARE * _stored(spec, options, pixels)) / spec.hardware.copied_bytes
    return LAUNCH_CYCLES + max(arithmetic, memory) + EXPOSED * min(arithmetic, memory)


def _stored(spec: KernelSpec, options: PhasesGemmOptions, pixels: int) -> float:
    """Bytes of the sectors that stores of so many pixels write: in NCHW those of a phase lie apart."""
    apart = 1 if spec.layout is Layout.NHWC else spec.stride[-1]
    together = 1 if options.form is Form.APART else options.store_vector
    return spec.dtype.itemsize * pixels * spec.c * max(1.0, min(SECTOR_BYTES / spec.dtype.itemsize, apart) / together)


def _warp_slots(spec: KernelSpec, options: PhasesGemmOptions, tiles: int) -> float:
    """Issue slots of a warp with so many tiles of products: these, the copies, the stores."""
    outputs, threads = options.thread_m * options.thread_n, threads_of(options)
    multiply = max(1, LANES * QUARTERS // spec.hardware.float_lanes) * outputs
    fragments = (options.thread_m + options.thread_n) / VECTOR
    copies = options.block_n * options.block_k / (copy_vector_of(spec) * threads)
    copied = copies * (WINDOW_SLOTS if spec.layout is Layout.NHWC else COPY_SLOTS)
    if not async_copies_of(spec):
        copied *= LOADED * copy_vector_of(spec)
    filters = options.block_m * options.block_k / (VECTOR * threads)
    tile = options.block_k * (multiply + fragments) + copied + 2 * filters + TILE_SLOTS
    stored = VECTOR if spec.layout is Layout.NHWC and spec.channels % VECTOR == 0 else 1
    return tiles * tile + BLOCK_SLOTS + STORE_SLOTS * outputs / stored + DECODE_SLOTS * options.thread_n


def instructions(spec: KernelSpec, options: PhasesGemmOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer's gradient is made."""
    return QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape.input_pixels, shape.bytes_moved)
