"""wgmma: its operands as inline PTX numbers them, the blocks of its kernels, and their cycles.

Of a block two groups of warps multiply what a third one copies. The cycles were fitted to plans of the forward layers
(``wgmma``'s choice.py says which); filter gradients, whose plans were not measured yet, are estimated with them, too.
"""

from __future__ import annotations

import functools

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.descriptors import Descriptor, Walk
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import REGISTER_FILE, REGISTER_UNIT, Arch
from warpconv.codegen.numerics import LEAST_PRODUCTS, Numerics
from warpconv.codegen.spec import KernelSpec

TARGET = Arch(9, 0, "a")        # the one architecture that has it
WARP_GROUP = 128                # threads that multiply together
ROWS = 64                       # of the first factor
DEPTH = 16                      # products of an output, of 16-bit elements
MOST_COLUMNS = 256              # of the second factor
WORDS = 4                       # of a thread, where the first factor comes from registers
COLUMN_UNIT = 8
CELL_BYTES = 16                 # of shared memory, in which the places of factors are counted
ROW_BYTES = 128                 # of a row of a factor there: the widest swizzle
BARRIER_BYTES = 8
GROUPS = 2                      # of warps that multiply; a third one copies
THREADS = WARP_GROUP * (GROUPS + 1)
FEWER_REGISTERS, MORE_REGISTERS = 40, 232       # of a thread that copies, that multiplies: 64,512 of a block
MOST_SUMS = 192                 # of a thread
LEAST_STAGES, MOST_STAGES = 2, 8
FLOATS = (Numerics.FP16X3, Numerics.TF32)       # arithmetic of float32 elements
CLOCK = 1.755e9                 # cycles a second that are modelled: with the tensor cores at work
# Cycles of a multiprocessor
COLUMN_CYCLES = 0.5             # of an instruction, a column
FULL_RATE = 0.93                # of the tensor cores that is reached at best
COPIED_BYTES = 60.0             # that come from the second-level cache in a cycle, all multiprocessors copying
STEP_CYCLES = 25.0              # of a stage besides: barriers
SUM_CYCLES = 11.3               # of a thread's sum on its way to memory
START_CYCLES = 3350.0           # of a block: descriptors, the first copies
LATENCY_CYCLES = 1670.0         # from a stage's copies to its products
OVERLAPPED = 0.95               # of the lesser of memory and arithmetic
MEMORY_SHARE = 0.89             # of the bytes, at the speed of a copy: some stay in the cache


@dataclass(frozen=True)
class WgmmaShape:
    """One instruction's: ``columns`` of the second factor, ``sums`` of a thread, and operands' numbers and texts;
    ``words``: those of a first factor in registers, with ``words_b`` and ``words_add`` of the others then."""

    columns: int
    sums: int
    a: int
    b: int
    adds: int
    registers: str
    operands: str
    words: str
    words_b: int
    words_add: int

    @classmethod
    @functools.cache
    def of(cls, columns: int) -> WgmmaShape:
        sums = columns * ROWS // WARP_GROUP
        return cls(columns=columns, sums=sums, a=sums, b=sums + 1, adds=sums + 2,
                   registers=", ".join(f"%{i}" for i in range(sums)),
                   operands=", ".join(f'"+f"(sums[{i}])' for i in range(sums)),
                   words=", ".join(f"%{sums + i}" for i in range(WORDS)), words_b=sums + WORDS,
                   words_add=sums + WORDS + 1)


def registers_left(groups: int, copying: int, fewer: int, most: int, blocks: int = 1) -> int:
    """Of a thread of the ``groups`` that multiply: what ``copying`` threads, which have ``fewer`` each, leave of what
    the block is launched with, of which a multiprocessor holds so many."""
    threads = WARP_GROUP * groups + copying
    launched = REGISTER_FILE // blocks // threads // REGISTER_UNIT * REGISTER_UNIT * threads
    return min(most, (launched - copying * fewer) // (WARP_GROUP * groups) // REGISTER_UNIT * REGISTER_UNIT)


def float_units_refusal(spec: KernelSpec) -> str | None:
    """Why products of float32 units are not served, where these are asked for."""
    if spec.dtype is not DType.FLOAT32 or spec.numerics is not Numerics.FLOAT32:
        return None
    return ("products of float32 units are not served, only fp16x3 (by default for sums of at least "
            f"{LEAST_PRODUCTS} products) and tf32")


def walking(pixels: Descriptor, spec: KernelSpec) -> Descriptor:
    """The descriptor of x whose copies are of one tap of as many windows."""
    reach = tuple(extent - 1 for extent in spec.extents[::-1])
    return replace(pixels, walk=Walk.IM2COL, lower=tuple(-before for before, _ in spec.padding[::-1]),
                   upper=tuple(after - far for (_, after), far in zip(spec.padding[::-1], reach)),
                   strides=spec.stride[::-1], reach=reach)
