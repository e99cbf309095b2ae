"""``toeplitz_nhwc``: depthwise convolution of 16-bit elements on tensor cores; NHWC.

A matrix instruction multiplies the filters of two channels, as a matrix of 16 output values (a tile of 2 x 4 pixels of
both) by 16 or 32 input values (one or two such tiles), by eight places of the image. A lane's operand is then a word of
two channels, as it lies in memory: pixels come and leave 16 bytes at a time, and nothing is transposed.
docs/toeplitz.md has more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, H200_SHARED_FILLED, LANES, REGISTER_FILE, SHARED_STATIC
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.occupancy import blocks_by_shared, blocks_refusal, largest_divisor, resident_blocks
from warpconv.codegen.parts.refusals import BORDERS, border_refusal, common_refusal
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec

from .numbers import (CHUNK, CHUNK_PAIRS, Matrix, PLACES, TILE_COLUMNS, TILE_ROWS, ToeplitzNhwcNumbers,
                      ToeplitzNhwcOptions, make_numbers, registers_of)

LARGEST_FILTER = 63           # rows or columns
MOST_TEXT = 1500              # matrix instructions in the text
COMFORTABLE_REGISTERS = 128   # 16 warps of a multiprocessor
MOST_REGISTERS = 168          # 12 warps
REGISTER_MARGIN = 18          # pointers, the loop, and what the compiler has in flight;
PLACE_REGISTERS = 3           # of every copy and store of a thread;
ACROSS_REGISTERS = 4          # of images side by side
MOST_WARPS = 8                # of a block by default
WIDEST = 4                    # chunks of a block by default: 64 bytes of a pixel
HIGHEST = 64                  # rows of a block by default, at most
TURNS = (2, 3), (1, 4), (1, 3), (1, 2)      # rows of tiles of a turn, and turns in shared memory: the first that fits
# Times the instructions, of filters of fewer taps than these: waiting for shared memory, which the model does not see.
# 5x5 at 32x128x112^2 takes 74 us, by `channels` 66; 7x7 there 102 and 112, at 128x96x56^2 73 and 87, at 64x384x14^2
# 19 and 15; 9x9 at 32x128x56^2 36 and 57 (H200, 2026-11-26).
WAITING = {49: 6.0, 64: 1.6}
MATRIX_SLOTS = 9              # issue slots that a matrix instruction and its words stand for in the estimate
BLOCKS_WANTED = 8             # of a multiprocessor, that keep it busy to the end
LOWEST = 7                    # rows of a block by default, where few images leave multiprocessors without one; at
                              # least half of the rows that are read besides


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), layouts=(Layout.NHWC,),
                             borders=BORDERS)
    if refusal is None and spec.arch.major < 8:
        refusal = f"{spec.arch} has no matrix instructions of this shape (from sm_80 on)"
    if refusal is None and not spec.c == spec.k == spec.groups:
        refusal = f"{spec.channels} channels and {spec.filters} filters a group (depthwise only: one and one)"
    if refusal is None and spec.c % CHUNK:
        refusal = f"{spec.c} channels: a pixel is read {CHUNK} channels at a time"
    if refusal is None and (spec.stride != (1, 1) or spec.dilation != (1, 1)):
        refusal = "stride and dilation other than 1: neighbouring outputs would not share a tile of input"
    if refusal is None and max(spec.r, spec.s) > LARGEST_FILTER:
        refusal = f"a filter of {spec.r} x {spec.s} (at most {LARGEST_FILTER} a side)"
    return refusal or border_refusal(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> ToeplitzNhwcOptions:
    """As many channels a warp as its registers hold, 64 bytes of a pixel a block, and rows as wide as its warps."""
    chunks = spec.c // CHUNK
    widths = sorted({max(largest_divisor(chunks, WIDEST), min(2, chunks)), min(2, chunks), 1}, reverse=True)
    for pairs, weights, limit in (
            (4, Weights.REGISTERS, COMFORTABLE_REGISTERS), (2, Weights.REGISTERS, COMFORTABLE_REGISTERS),
            (1, Weights.REGISTERS, MOST_REGISTERS), (2, Weights.SHARED, MOST_REGISTERS), (1, Weights.SHARED, 255)):
        if registers_of(spec, pairs, weights) + REGISTER_MARGIN + 3 * PLACE_REGISTERS <= limit:
            break
    options = ToeplitzNhwcOptions(pairs=pairs, weights=weights)
    for wide, matrix, (turn, buffers) in itertools.product(widths, Matrix, TURNS):
        tried = replace(options, chunks=wide, matrix=matrix, turn=turn, buffers=buffers)
        tried = replace(tried, **_columns(max(1, MOST_WARPS // (wide * CHUNK_PAIRS // pairs)), shape))
        if _refusal(spec, tried, make_numbers(spec, tried)) is None:
            return tried if shape is None else replace(tried, **_jobs(spec, tried, shape))
    return options


def _columns(warps: int, shape: ConvShape | None) -> dict[str, Any]:
    """Warps side by side, and the columns and images that they share: as few tiles beyond the image as can be."""
    if shape is None:
        return {"warps": warps, "columns": warps * PLACES * TILE_COLUMNS, "across": 1}
    tiles = -(-shape.q // TILE_COLUMNS)
    warps = min(warps, -(-tiles // PLACES))
    if tiles <= warps * PLACES:
        return {"warps": warps, "columns": tiles * TILE_COLUMNS,
                "across": min(warps * PLACES // tiles, assumed_batch(shape))}
    strips = -(-tiles // (warps * PLACES))
    return {"warps": warps, "columns": -(-tiles // strips) * TILE_COLUMNS, "across": 1}


def _jobs(spec: KernelSpec, options: ToeplitzNhwcOptions, shape: ConvShape) -> dict[str, Any]:
    """Rows of a block and images in turn: few blocks, so that filters are set up seldom, but enough for a large GPU."""
    batch = assumed_batch(shape)
    beside = -(-(spec.c // CHUNK) // options.chunks) * -(-shape.q // options.columns)
    strips = -(-shape.p // HIGHEST)
    while (2 * beside * strips * -(-batch // options.across) <= spec.hardware.multiprocessors
           and shape.p >= 2 * strips * max(LOWEST, (spec.r - 1) // 2)):
        strips *= 2
    rows_of_a_strip = -(-shape.p // strips)
    rows = -(-rows_of_a_strip // TILE_ROWS) * TILE_ROWS
    images = batch * beside * strips // (options.across * spec.hardware.warps_of(BLOCKS_WANTED))
    return {"sub_block_rows": rows, "images": max(1, min(16, images))}


def plan(spec: KernelSpec, options: ToeplitzNhwcOptions) -> KernelPlan:
    refusal = supports(spec) or _value_refusal(options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    numbers = make_numbers(spec, options)
    refusal = _refusal(spec, options, numbers)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    registers = _registers(spec, options, numbers)
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=max(1, min(
            resident_blocks(spec.hardware, min(255, registers), numbers.threads),
            blocks_by_shared(spec.hardware, H200_SHARED_FILLED,
                             numbers.shared_bytes + spec.hardware.shared_reserved))))
    refusal = blocks_refusal(spec, numbers.threads, options.min_blocks)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options)
    launch = Launch(entry=spec.name, grid=_grid(options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("toeplitz_nhwc/kernel.cu.jinja",),
                      cost=_cost(spec, options, numbers, registers),
                      program=Program(arguments=arguments, steps=(launch,)), phrase=_phrase(options),
                      notes=_notes(spec, numbers))


def _value_refusal(options: ToeplitzNhwcOptions) -> str | None:
    """Plan values that no numbers can be made of."""
    if options.pairs not in (1, 2, 4):
        return f"pairs = {options.pairs}: a warp has 1, 2 or 4 of a chunk's pairs of channels"
    if options.columns % TILE_COLUMNS:
        return f"columns = {options.columns} is no multiple of a tile's {TILE_COLUMNS}"
    if options.sub_block_rows % TILE_ROWS:
        return f"sub_block_rows = {options.sub_block_rows} is no multiple of a tile's {TILE_ROWS}"
    if not 2 <= options.buffers <= 8:
        return f"buffers = {options.buffers} (2 to 8)"
    return None


def _refusal(spec: KernelSpec, options: ToeplitzNhwcOptions, numbers: ToeplitzNhwcNumbers) -> str | None:
    """Why these plan values cannot be had, or None."""
    registers = _registers(spec, options, numbers)
    if numbers.threads > BLOCK_THREADS:
        return f"{numbers.threads // LANES} warps are more than a block's {BLOCK_THREADS} threads"
    if options.across * options.columns > options.warps * PLACES * TILE_COLUMNS:
        return (f"{options.warps} warps have no room for {options.across} x {options.columns} columns (at most "
                f"{options.warps * PLACES * TILE_COLUMNS})")
    if numbers.shared_bytes > SHARED_STATIC:
        return f"{numbers.shared_bytes} bytes of shared memory for a block (at most {SHARED_STATIC})"
    if registers > 255:
        return f"about {registers} registers (at most 255): fewer pairs, or weights = shared"
    if numbers.threads * registers > REGISTER_FILE:
        return (f"about {registers} registers for each of {numbers.threads} threads (at most {REGISTER_FILE}): fewer "
                "chunks")
    if options.turn * numbers.instructions * options.pairs > MOST_TEXT:
        return (f"{options.turn * numbers.instructions * options.pairs} matrix instructions in the text (at most "
                f"{MOST_TEXT})")
    return None


def _registers(spec: KernelSpec, options: ToeplitzNhwcOptions, numbers: ToeplitzNhwcNumbers) -> int:
    places = numbers.copy_rounds + numbers.store_rounds
    bias = 2 * options.pairs if Epilogue.BIAS in spec.epilogue else 0
    return (registers_of(spec, options.pairs, options.weights) + REGISTER_MARGIN + bias
            + (PLACE_REGISTERS + (spec.index_bits == 64)) * places + (ACROSS_REGISTERS if options.across > 1 else 0))


def _arguments(spec: KernelSpec, options: ToeplitzNhwcOptions) -> tuple[Argument, ...]:
    """The layer's arguments, with what copies and images side by side ask of them."""
    demands: dict[str, dict[str, Any]] = {
        "x": {"multiple_of": 16}, "y": {"multiple_of": 16},
        "Q": {"at_most": options.columns if options.across > 1 else None}}
    return tuple(replace(a, **demands.get(a.name, {})) for a in layer_arguments(spec, as_elements=True))


def _grid(options: ToeplitzNhwcOptions, numbers: ToeplitzNhwcNumbers) -> tuple[Blocks, Blocks, Blocks]:
    images = options.across * options.images
    return (Blocks(of=Dimension.Q, add=options.columns - 1, per=options.columns, times=numbers.channel_groups),
            Blocks(of=Dimension.P, add=options.sub_block_rows - 1, per=options.sub_block_rows, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, add=images - 1, per=images, limit=GRID_LIMIT[2]))


def _cost(spec: KernelSpec, options: ToeplitzNhwcOptions, numbers: ToeplitzNhwcNumbers, registers: int) -> Cost:
    outputs = PLACES * TILE_ROWS * TILE_COLUMNS * 2 * options.pairs
    return Cost(unit=f"{TILE_ROWS} rows x {PLACES * TILE_COLUMNS} columns x {2 * options.pairs} channels, "
                     f"{numbers.instructions * options.pairs} matrix instructions",
                warp_loads=-(-numbers.copy_rounds // options.turn), shuffles=0, fma=0, registers=registers,
                direct_loads=outputs * spec.r * spec.s // LANES,
                # images side by side with a border: a register or two too many at 7x7 (NVRTC 13.0)
                no_spills=registers <= 255 and (options.across == 1 or numbers.border.kind == "zeros"))


def _phrase(options: ToeplitzNhwcOptions) -> str:
    images = f"{options.across} images x " if options.across > 1 else ""
    return (f"{2 * options.pairs} channels a warp, {CHUNK * options.chunks} a block; {images}{options.columns} "
            f"columns, sub-blocks of {options.sub_block_rows} rows, {TILE_ROWS * options.turn} at a time, "
            f"{options.buffers} buffers; {options.images * options.across} image"
            f"{'s in turn' if options.images * options.across > 1 else ''}; filters in {options.weights.value}, "
            f"{options.matrix.value}")


def _notes(spec: KernelSpec, numbers: ToeplitzNhwcNumbers) -> tuple[str, ...]:
    used = spec.r * spec.s / (numbers.block_rows * numbers.block_columns * (8 if numbers.sparse else 16))
    return (f"{numbers.instructions} matrix instructions for 128 outputs; {100 * used:.0f} % of their products are the "
            f"filters', the others are with zeros",
            "a zero beside the filter meets real input: an infinity or NaN spreads up to one row and three columns "
            "beyond the outputs whose window touches it, and to the other channel of its pair",
            f"{numbers.shared_bytes} bytes of shared memory a block")


def space(spec: KernelSpec) -> Iterable[ToeplitzNhwcOptions]:
    base = defaults(spec)
    return [replace(base, pairs=pairs, chunks=chunks, warps=warps, columns=columns, turn=turn, buffers=buffers,
                    sub_block_rows=rows, images=images)
            for pairs in (1, 2, 4) for chunks in (1, 2, 4, 8) for warps in (1, 2)
            for columns in (28, 32, 56, 64) if columns <= 32 * warps for turn in (1, 2, 4) for buffers in (2, 3, 4, 6)
            for rows in (28, 56, 112) for images in (1, 2, 4)]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions of the layer, a matrix instruction as MATRIX_SLOTS of them."""
    options: ToeplitzNhwcOptions = plan.options
    numbers: ToeplitzNhwcNumbers = plan.numbers
    spec = plan.spec
    words = 2 * numbers.block_rows * numbers.block_columns if options.weights is Weights.SHARED else 0
    slots = MATRIX_SLOTS if numbers.sparse else MATRIX_SLOTS + 4
    step = options.pairs * (numbers.instructions * slots + words + 12) + 2 * numbers.block_columns + 10
    warp = step + (8 * numbers.copy_rounds + 9 * numbers.store_rounds + 20) / options.turn
    warps = numbers.threads // LANES
    across = numbers.channel_groups * -(-shape.q // options.columns) * -(-shape.n // options.across)
    strips = -(-shape.p // options.sub_block_rows)
    idle = options.images * spec.hardware.multiprocessors / (across * strips)     # of multiprocessors for each block
    waiting = next((times for taps, times in WAITING.items() if spec.r * spec.s < taps), None)
    if waiting is None and idle >= 1:
        strips = -(-shape.p // HIGHEST)     # what lower blocks read besides takes idle multiprocessors
    steps = -(-shape.p // TILE_ROWS) + strips * (numbers.block_rows - 1)
    setup = strips * (10 * numbers.filter_words / numbers.threads + 2 * numbers.instructions * options.pairs + 100)
    return across * warps * (steps * warp + setup / options.images) * (1.0 if waiting is None else max(waiting, idle))


ALGORITHM = Algorithm(name="toeplitz_nhwc", summary="banded filter matrices on tensor cores; 16-bit depthwise, NHWC",
                      options=ToeplitzNhwcOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate)
