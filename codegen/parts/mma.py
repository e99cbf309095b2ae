"""mma.sync: the matrices that a warp multiplies, and the cycles of kernels made of them.

The figures were fitted to plans of the forward layers (``mma``'s choice.py says which). Gradients by the same
instructions are estimated with them, too; their plans were not measured yet.
"""

from __future__ import annotations

import math

from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import QUARTERS, Hardware
from warpconv.codegen.numerics import LEAST_PRODUCTS, Numerics
from warpconv.codegen.spec import KernelSpec

from .occupancy import rounds_of

SPLIT = (Numerics.TF32X3, Numerics.TF32)        # arithmetic of float32 elements, and what a plan says of it
FACTORS = {Numerics.TF32X3: " in two parts of TF32", Numerics.TF32: " rounded to TF32"}
CELL_BYTES = 16             # a row of the instruction's matrices:
CELL = 8                    # elements of 16 bits
MATRIX_ROWS, MATRIX_COLUMNS, MATRIX_DEPTH = 16, 8, 16       # of sums, and the products of each: mma.m16n8k16
MATRIX_CELLS = 2            # of 16 bytes, along an instruction's products: m16n8k16 (TF32: k8)
ROW_CELLS = (4, 8)          # of 16 bytes: whole rows of banks
MOST_STAGES = 8
# Issue slots of a quarter's warp
MMA_SLOTS = 8.2             # of m16n8k16, which the tensor cores of a quarter take that long for
MATRIX_SLOTS = 6.0          # of an ldmatrix of four
COPY_SLOTS = 5.4            # of a copy of pixels: where it lies, whether it lies in the image, the copy
STEP_SLOTS = 66.0           # of a tile of the reduction besides: the barrier, the tap
BLOCK_SLOTS = 1000.0        # of a warp besides: where its pixels lie, the first tiles' way
STORE_SLOTS = 9.2           # of a matrix's sums: the epilogue, the stores
COPY_LATENCY = 750.0        # cycles from the beginning of a copy to shared memory to its end
LONE_WARP = 2.8             # times as long as its slots a warp takes that has a quarter to itself
# TF32. An instruction takes what the table of hardware says; beside it, of tf32x3:
MATRIX_PRODUCTS = 16 * 8 * 8    # of m16n8k8
SPLIT_SLOTS = 4.0           # of a word of a matrix: rounded, subtracted, scaled; what feeds the tensor cores
PROMOTE_SLOTS = 8.0         # of a matrix's sums: the small ones to the large ones, these to the thread's
MOST_SPLIT = 32             # matrices of a warp's sums where factors are split: a bit each says which are made anew
# Registers of a thread where factors are split: a row's parts, sums of single instructions,
REGISTERS_SPLIT = 24
REGISTERS_ROUNDED = 8       # where they are rounded to TF32,
REGISTERS_EIGHT = 19        # and what ptxas has under way beside eight matrices of split factors
# times as long as that of gradients of volumes whose windows are up to 16 bytes a tap (two layers, an H100, 2026-11-26)
NARROW_WINDOWS = 2.5
# Of a layer
MEMORY_SHARE = 1.3          # of the bytes, at the speed of a copy: some stay in the cache
SHARED_BYTES = 33.0         # that come to a multiprocessor in a cycle from the second-level cache: 8.6 TB/s in all
OVERLAPPED = 0.85           # of the others beside the longest of memory, these bytes and arithmetic


def arithmetic_of(spec: KernelSpec) -> tuple[Numerics, ...]:
    """What kernels of these instructions have for the spec's elements."""
    return SPLIT if spec.dtype is DType.FLOAT32 else (Numerics.FLOAT32,)


def units_refusal(spec: KernelSpec) -> str | None:
    """Why products of float32 units are not served, where these are asked for."""
    if spec.dtype is not DType.FLOAT32 or spec.numerics is not Numerics.FLOAT32:
        return None
    return (f"products of float32 units are not served, only tf32x3 (by default for sums of at least {LEAST_PRODUCTS} "
            "products) and tf32")


def matrices_refusal(spec: KernelSpec, warp_m: int, warp_n: int) -> str | None:
    """Why a warp cannot have a tile of so many sums."""
    rows, columns = warp_m // MATRIX_ROWS, warp_n // MATRIX_COLUMNS
    if spec.numerics is Numerics.TF32X3 and rows * columns > MOST_SPLIT:
        return (f"{rows} x {columns} matrices of sums for a warp (at most {MOST_SPLIT} in tf32x3): smaller tiles, or "
                "more warps")
    return None


def cell_of(spec: KernelSpec) -> int:
    """Elements of 16 bytes: 8, or 4 of float32."""
    return CELL_BYTES // spec.dtype.itemsize


def matrix_depth(spec: KernelSpec) -> int:
    """Products of an output that an instruction adds: 16, or 8 of TF32."""
    return MATRIX_CELLS * cell_of(spec)


def registers_of_factors(spec: KernelSpec, rows: int, columns: int) -> int:
    """Of a thread, for one instruction's depth of ``rows`` x ``columns`` matrices of sums, as the arithmetic has its
    factors: as they are, rounded, or both parts of every column's, and those of one row at a time."""
    if spec.numerics is Numerics.TF32X3:
        return 4 * columns + REGISTERS_SPLIT + rows * columns // 8 * REGISTERS_EIGHT
    return 4 * rows + 2 * columns + (REGISTERS_ROUNDED if spec.numerics is Numerics.TF32 else 0)


def product_slots(spec: KernelSpec, matrices: int, words: int) -> float:
    """Issue slots of the products of so many matrices of sums, of ``words`` of factors, of one instruction's depth."""
    if spec.dtype is not DType.FLOAT32:
        return matrices * MMA_SLOTS
    each = QUARTERS * MATRIX_PRODUCTS / spec.hardware.mma_tf32
    if spec.numerics is Numerics.TF32:
        return matrices * each + words
    return matrices * (3 * each + PROMOTE_SLOTS) + words * SPLIT_SLOTS


def narrow_share(spec: KernelSpec, channels: int) -> float:
    """Times as long as estimated that a gradient takes whose windows have so many channels of a tap."""
    return NARROW_WINDOWS if spec.is_volume and spec.dtype.is_half and channels <= CELL else 1.0


def factor_registers(warp_m: int, warp_n: int) -> int:
    """Of a lane: the factors of a warp's sums, of one instruction's depth."""
    return warp_m // MATRIX_ROWS * 4 + warp_n // MATRIX_COLUMNS * 2


def depth_slots(down: int, across: int) -> float:
    """Issue slots of one instruction's depth of a warp's ``down`` x ``across`` matrices of sums: products, and the
    loads of their factors."""
    return down * across * MMA_SLOTS + (down + across / 2) * MATRIX_SLOTS


def block_cycles(hardware: Hardware, blocks: int, resident: int, warps: int, slots: float, waits: float = 0.0,
                 lone: float = LONE_WARP) -> float:
    """Cycles of blocks of so many warps, each of so many issue slots, in rounds of what the chip holds at a time:
    ``resident`` of a multiprocessor. ``waits``: how often a block waits for all of a copy; work and waits hide each
    other in part. ``lone``: how many times as long a warp takes that has a quarter to itself."""
    return sum(times * math.hypot(max(held * warps / QUARTERS, lone) * slots, waits * COPY_LATENCY)
               for times, held in rounds_of(hardware, blocks, resident))


def layer_cycles(hardware: Hardware, arithmetic: float, copied: float, moved: float, alone: float = 0.0) -> float:
    """Cycles of a layer: those of what runs ``alone``, then those of its blocks' ``arithmetic``, the bytes ``copied``
    to shared memory, or those ``moved`` of its arrays, whichever takes longest, and what does not overlap of the
    others."""
    copying = copied / (SHARED_BYTES * hardware.multiprocessors)
    memory = MEMORY_SHARE * moved / hardware.copied_bytes
    longest = max(arithmetic, copying, memory)
    return alone + longest + (1 - OVERLAPPED) * (arithmetic + copying + memory - longest)
