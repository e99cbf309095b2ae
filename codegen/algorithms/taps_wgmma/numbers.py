"""Every number in the text of ``taps_wgmma``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.parts.first_layers import LANES_EACH, finds_pixels
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CELL_BYTES, DEPTH, ROWS, WARP_GROUP, WgmmaShape,
                                          registers_left)
from warpconv.codegen.parts.window_pairs import (ITEMSIZE, SIDE_THREADS, STEP_DEPTHS, PairNumbers, by_side, halo,
                                                 held_versions, pair_fields, quads_of, sides_of, steps_of,
                                                 version_bytes)
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import KernelSpec

from .options import Order, TapsWgmmaOptions

COPIERS = 4                     # warps that copy pixels
FEWER_REGISTERS = 56            # of a thread that copies
MOST_REGISTERS = 224
# of a thread that multiplies, beside sums, factors and places
REGISTERS_BESIDE = {Layout.NHWC: 44, Layout.NCHW: 64}
MOST_SETS = 3


@dataclass(frozen=True)
class TapsWgmmaNumbers(PairNumbers):
    """What the templates of ``taps_wgmma`` write besides the spec."""

    arguments: tuple[Argument, ...]
    shape: WgmmaShape
    threads: int
    fewer_registers: int
    more_registers: int
    sets: int                   # steps whose factors a thread has at a time
    in_turns: bool              # whether groups wait for each other's products
    sides_apart: bool           # whether each side of pairs has groups of warps of its own
    members: int                # groups of warps that share out a tile, or a side of it
    items: int                  # that these have of it: 64 outputs, of either side in NCHW
    bulk: bool                  # whether a line is one copy, but for its ends
    lag: int                    # tiles whose copies are on their way while the next one's begin
    halos_at: int
    barriers_at: int
    shared_bytes: int
    copiers: int = COPIERS
    step_depths: int = STEP_DEPTHS
    depth_cells: int = DEPTH * ITEMSIZE // CELL_BYTES
    side_threads: int = SIDE_THREADS


def is_bulk(spec: KernelSpec) -> bool:
    """Whether a line is one copy: not where what stands in the padding are pixels, which lie elsewhere in 16 bytes."""
    return not finds_pixels(spec)


def shared_bytes(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Of a block: filters, pixels, barriers."""
    return (held_versions(spec, options) * version_bytes(spec, options)
            + options.buffers * (ITEMSIZE * halo(spec, options).elements + 2 * BARRIER_BYTES)
            + (options.groups + 1 if in_turns(options) else 1) * BARRIER_BYTES)


def in_turns(options: TapsWgmmaOptions) -> bool:
    """Whether groups wait for each other's products."""
    return options.order is not Order.FREE


def more_registers(options: TapsWgmmaOptions) -> int:
    """Of a thread that multiplies: what those that copy leave of what the block is launched with."""
    return registers_left(options.groups, WARP_GROUP, FEWER_REGISTERS, MOST_REGISTERS)


def planned_registers(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Of a thread that multiplies: sums, places of factors, and factors of so many steps."""
    sums = options.filters * ROWS // WARP_GROUP * (2 if spec.layout is Layout.NCHW else 1)
    factors = sets_of(spec, options) * STEP_DEPTHS * LANES_EACH
    return sums + quads_of(spec, options)[1] + factors + REGISTERS_BESIDE[spec.layout]


def sets_of(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Steps whose factors a thread has at a time: those of one that is multiplied, of the next, and those that come."""
    return min(MOST_SETS, steps_of(spec, options))


def item_outputs(spec: KernelSpec) -> int:
    """Of a tile that are shared out at a time: 64, and in NCHW, or for groups of either side, as many besides."""
    return ROWS * (2 if by_side(spec) else 1)


def items_of(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """What groups of warps, or those of a side, have to do for a tile, eight runs at a time."""
    return options.tile_p * options.tile_q // item_outputs(spec)


def make_numbers(spec: KernelSpec, options: TapsWgmmaOptions,
                 arguments: tuple[Argument, ...] = ()) -> TapsWgmmaNumbers:
    """All numbers of plan values that fit together."""
    fields = pair_fields(spec, options)
    filters, elements = fields["filter_bytes"], fields["halo"]
    return TapsWgmmaNumbers(
        **fields, arguments=arguments, shape=WgmmaShape.of(options.filters), threads=WARP_GROUP * (options.groups + 1),
        fewer_registers=FEWER_REGISTERS, more_registers=more_registers(options), sets=sets_of(spec, options),
        in_turns=in_turns(options), sides_apart=sides_of(spec) == 2, members=options.groups // sides_of(spec),
        items=items_of(spec, options), bulk=is_bulk(spec), lag=options.buffers - 2, halos_at=filters,
        barriers_at=filters + options.buffers * ITEMSIZE * elements, shared_bytes=shared_bytes(spec, options))
