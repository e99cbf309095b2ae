"""What the five variants of the slides share ("Convolution: Profiling and Optimizations", G. Accordi): naive, constant,
tiled, halo_cached, coarsened. Their tiles, their filter bank, and the slides' arithmetic intensity.

The slides have one plane and one square odd filter. Here a layer may have channels, groups, strides, dilation and any
padding: a block makes its tile of outputs for one image and ``k_tile`` filters, and goes through the channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import ArgumentError, UnsupportedSpec
from warpconv.codegen.fill import Fill
from warpconv.codegen.hardware import BLOCK_THREADS, CONSTANT_BYTES, GRID_LIMIT, LANES, PORTABLE_BLOCKS
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.occupancy import largest_divisor, resident_blocks
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch, Preparation, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

TILES = (32, 16, 8, 4)        # sides of a tile, the largest being a block's 1024 threads
# Loads of a filter row in one piece of text: from global memory, where all are under way at once, or from shared
ROW_LOADS, ROW_READS = 16, 64
# All taps are one piece of text up to so many such rows, and FMAs: beyond them the compiler holds more than it can
UNROLLED_ROWS, UNROLLED_FMAS = 6, 256
MOST_SUMS = 16                # of a thread: a block of 1024 threads has 64 registers each
BY_NAME = "a step of the slides, to read and to measure: taken where it is asked for by name"
SLIDES_FLOAT = 4              # bytes of an element on the slides


@dataclass(frozen=True)
class SlideNumbers:
    """What the templates write besides the spec. Heights and widths are (rows, columns) of a block's tile.

    ``products`` and ``global_reads`` are what a block in the interior does for one channel: multiply-adds, and elements
    that its threads ask global memory for (the filter's in ``naive``, too). Their quotient is the slides' intensity.
    """

    threads: int
    min_blocks: int
    k_tile: int                      # filters that a block makes at a time
    k_tiles: int                     # such tiles of a group
    outputs: tuple[int, int]         # output rows and columns of a tile
    staged: tuple[int, int]          # input rows and columns in shared memory; (0, 0) without it
    bank: int                        # elements in constant memory
    unroll_rows: int                 # taps that the text of a loop is repeated for; 0: all
    unroll_columns: int
    guard_rows: bool                 # taps above or below the image are left out
    guard_columns: bool
    guard: str                       # when a tap is in the image, where it is loaded; empty if always
    products: int
    global_reads: int


def bank_refusal(spec: KernelSpec) -> str | None:
    """Why the filter bank cannot be in constant memory, or None."""
    size = spec.dtype.itemsize * bank_elements(spec)
    if size > CONSTANT_BYTES:
        return f"the filter bank has {size} bytes, more than the {CONSTANT_BYTES} of constant memory; naive serves it"
    return None


def bank_elements(spec: KernelSpec) -> int:
    """Weights of the whole filter bank."""
    return spec.k * spec.channels * spec.r * spec.s


def layer_refusal(spec: KernelSpec) -> str | None:
    """Why no variant serves the spec, or None: they are written for NCHW, sums in float32."""
    return common_refusal(spec, dtypes=FLOATS, borders=BORDERS)


def extents(spec: KernelSpec) -> tuple[int, int]:
    """Input rows and columns that a window spans."""
    return spec.dilation[0] * (spec.r - 1) + 1, spec.dilation[1] * (spec.s - 1) + 1


def outputs_of(spec: KernelSpec, tile: int) -> tuple[int, int]:
    """Output rows and columns that an input tile of ``tile`` x ``tile`` elements holds the windows of: the slides'
    OUT_TILE_DIM = IN_TILE_DIM - 2 FILTER_RADIUS for stride 1; 0 where the tile is too small for the filter."""
    height, width = ((tile - extent) // stride + 1 if extent <= tile else 0
                     for extent, stride in zip(extents(spec), spec.stride))
    return height, width


def input_tile_refusal(spec: KernelSpec, tile: int) -> str | None:
    """Why an input tile of this side makes no output, or None."""
    if min(outputs_of(spec, tile)) > 0:
        return None
    height, width = extents(spec)
    larger = "" if max(height, width) > TILES[0] else f"; tile = {max(height, width)} or more serves it"
    return (f"an input tile of {tile} x {tile} is too small for a window of {height} x {width}: it would make no "
            f"output{larger}")


def tile_refusal(tile: int) -> str | None:
    """Why a tile cannot have this side, or None."""
    if TILES[-1] <= tile <= TILES[0]:
        return None
    return (f"tile = {tile} ({TILES[-1]} to {TILES[0]} are possible: a block has a thread per element, at most "
            f"{BLOCK_THREADS})")


def k_tile_refusal(spec: KernelSpec, k_tile: int, outputs: int = 1, most: int = MOST_SUMS) -> str | None:
    """Why a thread cannot make ``outputs`` outputs of ``k_tile`` filters, or None."""
    if spec.filters % k_tile:
        return f"k_tile = {k_tile} does not divide K/groups = {spec.filters}"
    if k_tile * outputs > most:
        return f"{k_tile * outputs} sums a thread would not stay in registers (at most {most})"
    return None


def refuse(spec: KernelSpec, *reasons: str | None) -> None:
    """Raise UnsupportedSpec with the first reason that there is."""
    for reason in reasons:
        if reason is not None:
            raise UnsupportedSpec(spec, reason)


def _unrolled(row_loads: int) -> int:
    return min(UNROLLED_FMAS, UNROLLED_ROWS * row_loads)


def default_k_tile(spec: KernelSpec, most: int, row_loads: int) -> int:
    """Filters that share a staged tile: a divisor of K/groups, as many as leave all taps one piece of text."""
    return largest_divisor(spec.filters, min(most, max(1, _unrolled(row_loads) // (spec.r * spec.s))))


def numbers_of(spec: KernelSpec, *, registers: int, threads: int, outputs: tuple[int, int], global_reads: int,
               staged: tuple[int, int] = (0, 0), bank: int = 0, k_tile: int = 1, rows: int = 1,
               row_loads: int = ROW_LOADS) -> SlideNumbers:
    """The numbers of a variant whose threads make ``rows`` outputs of ``k_tile`` filters; the loads of a filter row are
    all in one piece of text up to ``row_loads`` of them."""
    taps = spec.r * spec.s
    small = taps * rows * k_tile <= _unrolled(row_loads)
    zeros = spec.padding_mode is Border.ZEROS
    return SlideNumbers(
        threads=threads, k_tile=k_tile,
        min_blocks=min(PORTABLE_BLOCKS, resident_blocks(spec.hardware, registers, threads)),
        k_tiles=spec.filters // k_tile, outputs=outputs, staged=staged, bank=bank, unroll_rows=0 if small else 1,
        unroll_columns=0 if small or spec.s * rows <= row_loads else max(1, row_loads // (2 * rows)),
        guard_rows=zeros and sum(spec.padding[0]) > 0, guard_columns=zeros and sum(spec.padding[1]) > 0,
        guard=_guard(spec) if spec.padding_mode is Border.CONSTANT else "",
        products=math.prod(outputs) * taps * k_tile, global_reads=global_reads)


def _guard(spec: KernelSpec) -> str:
    """When a tap at row h, ``column`` lies in the image: what no padding can break is left out."""
    sides = zip(spec.padding, ("(unsigned)h < (unsigned)H", "(unsigned)column < (unsigned)W"))
    return " && ".join(inside for padding, inside in sides if sum(padding))


def finished(spec: KernelSpec, options: Any, numbers: SlideNumbers, *, block: tuple[int, int], walk: int = 1, unit: str,
             warp_loads: int, fma: int, registers: int, phrase: str) -> KernelPlan:
    """The plan: one launch, a block (columns, rows of threads) for each ``walk`` tiles of a column of tiles, each image
    and each tile of filters; the filter bank copied to constant memory when the filter is prepared. Blocks that walk
    are more, and walk less, in a layer that would leave a GPU idle."""
    tall, wide = numbers.outputs[0] * walk, numbers.outputs[1]
    resident = spec.hardware.warps_of(numbers.min_blocks)
    fill = Fill(blocks=resident, least=-(-numbers.outputs[0] // 2)) if walk > 1 else None
    grid = (Blocks(of=Dimension.Q, add=wide - 1, per=wide, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.P, add=tall - 1, per=tall, limit=GRID_LIMIT[1], fill=fill),
            Blocks(of=Dimension.N, times=spec.groups * numbers.k_tiles, limit=GRID_LIMIT[2]))
    arguments = layer_arguments(spec)
    launch = Launch(entry=spec.name, grid=grid, block=(*block, 1), arguments=tuple(a.name for a in arguments))
    preparation = (Preparation(constant="filter_bank", constant_bytes=spec.dtype.itemsize * numbers.bank)
                   if numbers.bank else None)
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, templates=(f"course/{spec.algorithm}.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch,), preparation=preparation), phrase=phrase,
        cost=Cost(unit=unit, warp_loads=warp_loads, shuffles=0, fma=fma, registers=registers,
                  direct_loads=fma // numbers.k_tile))


def widening(spec: KernelSpec) -> int:
    """Instructions that make a float of an element: none, or one for 16 bits."""
    return 1 if spec.dtype.is_half else 0


def tiles_in(plan: KernelPlan, shape: ConvShape) -> int:
    """Tiles of a whole layer, one for each image and tile of filters."""
    numbers: SlideNumbers = plan.numbers
    tall, wide = numbers.outputs
    return -(-shape.p // tall) * -(-shape.q // wide) * shape.n * plan.spec.groups * numbers.k_tiles


def warps_in(plan: KernelPlan, shape: ConvShape) -> float:
    """Warps of a whole layer."""
    numbers: SlideNumbers = plan.numbers
    return tiles_in(plan, shape) * numbers.threads / LANES


def tiles_worth_trying(spec: KernelSpec, refusal: Any = lambda tile: None) -> Iterable[int]:
    """Sides of a tile for tuning: those that ``refusal`` has nothing against."""
    return [tile for tile in TILES if refusal(tile) is None]


# ---- the slides' analysis

def intensity(plan: KernelPlan) -> float:
    """Operations per byte that the threads of a block ask global memory for: the slides' arithmetic intensity.

    Two operations a product. 0.25 for ``naive``, 0.5 for ``constant``, OUT^2 (2r + 1)^2 2 / (IN^2 4) for ``tiled`` and
    ``coarsened`` with a square odd filter of radius r; for ``halo_cached`` every read of a halo cell counts, as often
    as it happens. ArgumentError for the plan of another algorithm.
    """
    if not isinstance(plan.numbers, SlideNumbers):
        raise ArgumentError("the slides' intensity is of their five variants", argument="plan",
                            value=plan.spec.algorithm, hint="naive, constant, tiled, halo_cached or coarsened")
    return 2 * plan.numbers.products / (plan.spec.dtype.itemsize * plan.numbers.global_reads)


def intensity_bound(r: int) -> float:
    """The intensity that larger and larger tiles come near to, (2r + 1)^2 / 2, for a filter of radius ``r``."""
    return 2 * (2 * r + 1) ** 2 / SLIDES_FLOAT


def halo_reads(spec: KernelSpec, tile: int) -> int:
    """Reads of a block of ``tile`` x ``tile`` outputs, over all its windows, outside its own part of the image."""
    inside = math.prod(
        sum(0 <= output * stride + tap * dilation - center < tile * stride
            for output in range(tile) for tap in range(taps))
        for taps, stride, dilation, center in zip((spec.r, spec.s), spec.stride, spec.dilation, centers(spec)))
    return tile ** 2 * spec.r * spec.s - inside


def halo_share(spec: KernelSpec, tile: int) -> float:
    """The share of its filter's reads that a block of ``tile`` x ``tile`` outputs makes outside its own part."""
    return halo_reads(spec, tile) / (tile ** 2 * spec.r * spec.s)


def centers(spec: KernelSpec) -> tuple[int, int]:
    """Rows and columns from the start of a window to its middle tap, which lies in the block's own part."""
    return (spec.r - 1) // 2 * spec.dilation[0], (spec.s - 1) // 2 * spec.dilation[1]
