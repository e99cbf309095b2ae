"""What stacked warps of ``wide`` do about the output rows that both of two neighbours add to.

A warp that walks down its rows adds the first of them to output rows that the warp above has begun. Without seams the
warp above makes those input rows again, both passes of them: at 33 taps 32 rows more for each 125 of output. With seams
no input row of a block is made twice: a warp keeps its first SLOTS - 1 output rows, which lack what stands above, in
shared memory, and the warp above adds the sums that it is left with. docs/separable.md tells what it saves.
"""

from __future__ import annotations

import math
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.vectors import Vector, vector_of
from warpconv.codegen.parts.weights import BankWeights
from warpconv.codegen.spec import KernelSpec

from .lines import StorePart, store_parts
from .options import Loads, Span, TapRows, WideOptions
from .taps import accumulators, row_registers

SEAM_VECTOR = 4          # sums that are moved at once
TALLEST_WITHOUT = 63     # rows of a whole filter, above which its stacked warps have seams
MOST_BESIDE = 180        # registers of sums and columns beside weights from shared memory: 63x63 has 190 and spills, as
                         # have 129 rows on sm_100
MANY_SUMS = 100          # of a lane, with which a multiprocessor holds eight warps: 33x33 takes 58.7 us on 4096^2 where
                         # they are one block, 59.7 as two
# Steps of a warp by the filter's rows: about three rounds of blocks on 4096^2, so that blocks drift apart and some read
# while others write (9x9: 37.8 us, in one round 40.8; H200). Taller filters have long sub-blocks, few rows made twice
STEPS = ((5, 10), (7, 18), (9, 22))
SHORTEST_TALL = 114
COLUMN_STAGE = 4         # steps of a stage at a single column of weights, each of which is read once a stage: 129x1
                         # takes 132 us, in stages of two 145, of eight, which the instruction cache does not hold, 148
TALL_STEPS = 5           # times the filter's rows


@dataclass(frozen=True)
class Seams:
    """The seams of a block's stacked warps, in floats of shared memory."""

    rows: int                        # output rows of one
    size: int                        # of one
    stack: int                       # of all seams of the warps over each other
    block: int
    vector: Vector                   # of sums that are moved at once
    parts: tuple[StorePart, ...]     # the columns of a lane by vectors


def has_seams(spec: KernelSpec, options: WideOptions) -> bool:
    """Whether this layer's warps have seams where they are stacked: separable and very tall filters, whose steps are
    whole ones and leave registers for it."""
    if spec.channels > 1 or options.span is Span.PACKED or options.tap_rows is TapRows.NEEDED:
        return False
    beside = accumulators(spec, options.columns) + row_registers(spec, options)
    if options.weights is BankWeights.SHARED:
        return spec.separable and spec.r <= TALLEST_WITHOUT and beside <= MOST_BESIDE
    return spec.separable or spec.r > TALLEST_WITHOUT


def seams_of(spec: KernelSpec, options: WideOptions, slots: int) -> Seams | None:
    """None where no warps of a block are stacked, or those have none."""
    if options.warp_rows == 1 or slots == 1 or not has_seams(spec, options):
        return None
    rows, vector = slots - 1, math.gcd(SEAM_VECTOR, options.columns)
    size = rows * LANES * options.columns
    stack = (options.warp_rows - 1) * size
    return Seams(rows=rows, size=size, stack=stack, block=stack * options.warp_columns * options.warp_planes,
                 vector=vector_of(DType.FLOAT32, vector), parts=store_parts(options.columns, vector))


def stacked(spec: KernelSpec, options: WideOptions) -> dict[str, Any]:
    """By rule: all warps of a block over each other, and the steps of each."""
    tall = max(SHORTEST_TALL, TALL_STEPS * spec.r)
    steps = next((steps for most, steps in STEPS if spec.r <= most), tall)
    found = {"warp_columns": 1, "warp_rows": 8 if accumulators(spec, options.columns) > MANY_SUMS else 4,
             "warp_planes": 1, "sub_block_rows": steps}
    if not spec.separable and options.loads is not Loads.REGISTERS:
        found.update(prefetch_rows=2 * COLUMN_STAGE, stage_steps=COLUMN_STAGE)
    return found
