"""Which tiles a layer of ``pointwise`` gets, and what a plan is estimated to cost."""

from __future__ import annotations

from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.hardware import H200_CLOCK, QUARTERS
from warpconv.codegen.parts.wgmma import (CLOCK, COLUMN_CYCLES, GROUPS, LEAST_STAGES, MORE_REGISTERS, MOST_STAGES,
                                          WORDS)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import DEPTH, SLICE, planned_registers, shared_bytes, stage_bytes, steps_of, tile_pixels
from .options import PointwiseOptions

FILTERS = (16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 144, 160, 192, 256)
MATRICES = (1, 2, 3)
GROUP_WARPS = 4
# Cycles of a multiprocessor at wgmma.CLOCK, fitted to 971 plans of 46 layers (16 to 1024 channels, 14^2 to 112^2, batch
# 32), timed on an H200 on 2026-11-28: of these the plan that is chosen takes 1.03 times as long as the quickest in the
# mean, 1.23 at most
FULL_RATE = 0.8             # of the tensor cores that is reached at best
LOAD_CYCLES = 2.3           # of a warp's load of factors
COPIED_BYTES = 50.0         # that come from the second-level cache in a cycle, all multiprocessors copying
LEAST_ACTIVE = 0.4          # of these, and of so few: one copies no quicker (as wgmma's)
LATENCY_CYCLES = 1330.0     # from a stage's copies to its products
STEP_CYCLES = 28.0          # of a stage besides
STORE_CYCLES = 23.0         # of a thread's sum on its way to memory
START_CYCLES = 5560.0       # of a layer
MEMORY_SHARE = 0.57         # of the bytes, at the speed of a copy: some stay in the cache
BESIDE_OTHERS = 0.8         # of that up to FEW_CHANNELS: estimates of mma, implicit_gemm and wgmma are 0.6 to 0.9 of
FEW_CHANNELS = 112          # their time on 14^2 and 28^2 (5 layers of 24 to 112 channels, an H200)
OVERLAPPED = 0.57           # of the lesser of memory and arithmetic


def candidates(spec: KernelSpec) -> Iterator[PointwiseOptions]:
    """Every tile that fits, with as many stages as shared memory holds: no more filters than K in whole eights, or the
    fewest of FILTERS."""
    whole = -(-spec.k // 8) * 8
    for filters in sorted({f for f in (*FILTERS, whole) if f <= max(whole, min(FILTERS)) and f <= max(FILTERS)}):
        for matrices in MATRICES:
            for stages in range(MOST_STAGES, LEAST_STAGES - 1, -1):
                options = PointwiseOptions(filters=filters, matrices=matrices, stages=stages)
                if fits(spec, options):
                    yield options
                    break


def fits(spec: KernelSpec, options: PointwiseOptions) -> bool:
    """Whether registers and shared memory hold it."""
    return (planned_registers(options) <= MORE_REGISTERS and shared_bytes(options) <= spec.hardware.shared_block)


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> PointwiseOptions:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the first."""
    if shape is None:
        return next(candidates(spec))
    shape = shape.with_batch(assumed_batch(shape))
    return min(candidates(spec), key=lambda options: cycles(spec, options, shape))


def cycles(spec: KernelSpec, options: PointwiseOptions, shape: ConvShape) -> float:
    """Cycles of a layer: its tiles in waves of the chip's multiprocessors, beside its bytes."""
    chip, steps = spec.hardware.multiprocessors, steps_of(spec)
    tiles = shape.n * -(-shape.p * shape.q // tile_pixels(options)) * -(-spec.k // options.filters)
    waves, active = -(-tiles // chip), min(1.0, tiles / chip)
    depths = SLICE // DEPTH * options.matrices * GROUPS
    multiplied = depths * options.filters * COLUMN_CYCLES / FULL_RATE
    loaded = depths * GROUP_WARPS * WORDS * LOAD_CYCLES
    copied = stage_bytes(options) / COPIED_BYTES * max(LEAST_ACTIVE, active)
    step = max(multiplied, loaded, copied, LATENCY_CYCLES / (options.stages - 1)) + STEP_CYCLES
    stored = STORE_CYCLES * options.matrices * options.filters / 2
    arithmetic = START_CYCLES + waves * (steps * step + stored)
    memory = START_CYCLES + MEMORY_SHARE * shape.bytes_moved / spec.hardware.copied_bytes
    return max(arithmetic, memory) + (1 - OVERLAPPED) * min(arithmetic, memory)


def instructions(spec: KernelSpec, options: PointwiseOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer runs, beside what others say of theirs."""
    share = BESIDE_OTHERS if spec.c <= FEW_CHANNELS else 1.0
    return share * QUARTERS * spec.hardware.multiprocessors * cycles(spec, options, shape) * H200_CLOCK / CLOCK
