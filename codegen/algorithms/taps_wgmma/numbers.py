"""Every number in the text of ``taps_wgmma``."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.first_layers import LANES_EACH, PAIR, is_bulk
from warpconv.codegen.parts.lines import copying_lanes, lanes_for
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CELL_BYTES, COLUMN_UNIT, DEPTH, ROWS, WARP_GROUP, WgmmaShape,
                                          registers_left)
from warpconv.codegen.parts.window_pairs import (ITEMSIZE, SIDE_THREADS, STEP_DEPTHS, WIDE, PairNumbers, by_side, halo,
                                                 has_words, held_versions, is_flat, pair_fields, quads_of, sides_of,
                                                 steps_of, version_bytes)
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import Epilogue, KernelSpec

from .options import Order, TapsWgmmaOptions

COPIERS = 4                     # warps that copy pixels
STAGE_BESIDE = 8                # elements: 16 bytes, so that of eight filters none's cell meets another's in a bank
ROW_DIGITS = 21                 # binary, behind an output's row in a product (templates/taps_wgmma/staged.cuh.jinja):
MOST_STAGED = 1024              # outputs of a tile, for which the product is exact and no larger than a word
MOST_AT_ONCE = 4                # stores of a lane at once
FLAT_AT_ONCE = {PAIR: 8, WIDE: 4}   # of so many outputs, where a tile's are shared out
FEWER_REGISTERS = 56            # of a thread that copies
MOST_REGISTERS = 224
# of a thread that multiplies, beside sums, factors and places
REGISTERS_BESIDE = {Layout.NHWC: 44, Layout.NCHW: 64}
STAGED_REGISTERS_BESIDE = 44
# The same of tiles that are shared out, of each place, registers of a warp that distances may have, and of each filter
FLAT_REGISTERS_BESIDE, FLAT_PLACE, FLAT_PLACE_DILATED, WARP_REGISTERS = 38, 2, 4, 40
ADDED_SHARES = {Epilogue.BIAS: 3 / 16, Epilogue.RESIDUAL: 1 / 4}
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
    in_turns: bool              # whether groups wait for each other's products, or stores where they share out rows
    sides_apart: bool           # whether each side of pairs has groups of warps of its own
    members: int                # groups of warps that share out a tile, or a side of it
    items: int                  # that these have of it: 64 outputs, of either side in NCHW
    bulk: bool                  # whether a line is one copy, but for its ends
    store_lanes: int            # that have a filter's outputs in shared memory, where a tile's are shared out
    stage_line: int             # elements from a filter's outputs to the next's, where they are put together,
    stage: int                  # and of all
    stages_at: int
    rounds: int                 # stores of a lane of a filter's outputs,
    at_once: int                # and at once
    whole_filters: bool         # whether every tile has all of its filters, as many for each lane
    filters_at_once: int        # whose outputs a lane loads before it stores any
    bias_anew: bool             # whether the bias is loaded for each 64 outputs anew, and not ahead of all
    lag: int                    # tiles whose copies are on their way while the next one's begin
    halos_at: int
    barriers_at: int
    shared_bytes: int
    row_digits: int = ROW_DIGITS
    copiers: int = COPIERS
    step_depths: int = STEP_DEPTHS
    depth_cells: int = DEPTH * ITEMSIZE // CELL_BYTES
    side_threads: int = SIDE_THREADS


def shared_bytes(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Of a block: filters, pixels, barriers."""
    return (held_versions(spec, options) * version_bytes(spec, options)
            + options.buffers * (ITEMSIZE * halo(spec, options).elements + 2 * BARRIER_BYTES)
            + stages_of(options) * ITEMSIZE * stage_line(spec, options) * options.filters
            + (options.groups + 1 if in_turns(options) else 1) * BARRIER_BYTES)


def stages_of(options: TapsWgmmaOptions) -> int:
    """Tiles of outputs that are put together at a time: a group's each."""
    return options.groups if options.staged else 0


def has_own_tiles(spec: KernelSpec, options: TapsWgmmaOptions) -> bool:
    """Whether each group has tiles, which it puts together as a whole."""
    return options.staged and not is_flat(spec, options)


def filled(outputs: int) -> int:
    """As many outputs as four warps make for these."""
    return -(-outputs // ROWS) * ROWS


def staged_outputs(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Outputs of a filter that a group puts together: some of a tile's, or all of its own tile's."""
    return options.stage if is_flat(spec, options) else options.tile_p * options.tile_q


def stage_line(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Elements from a filter's outputs to the next's."""
    return staged_outputs(spec, options) + STAGE_BESIDE


def lane_outputs(options: TapsWgmmaOptions) -> int:
    """Of a filter that a lane stores side by side where they were put together: words, where rows begin anywhere."""
    return max(PAIR, options.store_vector)


def in_turns(options: TapsWgmmaOptions) -> bool:
    """Whether groups wait for each other's products or stores."""
    return options.order is not Order.FREE


def more_registers(options: TapsWgmmaOptions) -> int:
    """Of a thread that multiplies: what those that copy leave of what the block is launched with."""
    return registers_left(options.groups, WARP_GROUP, FEWER_REGISTERS, MOST_REGISTERS)


def planned_registers(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Of a thread that multiplies: sums, places of factors, and factors of so many steps."""
    sums, places = options.filters * ROWS // WARP_GROUP, quads_of(spec, options)[1]
    factors = sets_of(spec, options) * STEP_DEPTHS * LANES_EACH
    if is_flat(spec, options):
        return sums + factors + _flat_registers(spec, options)
    if options.staged:
        return sums + places + factors + STAGED_REGISTERS_BESIDE
    return sums * (2 if has_words(spec, options) else 1) + places + factors + REGISTERS_BESIDE[spec.layout]


def _flat_registers(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Of tiles that are shared out, beside sums and factors: places in two windows that no constant lies between,
    distances of spans that are known when the kernel runs, beyond those in registers of the whole warp, and what is
    added to outputs, which compilers load ahead of use."""
    whole, rest = quads_of(spec, options)
    of_places = rest * (FLAT_PLACE_DILATED if spec.dilation[1] > 1 else FLAT_PLACE)
    distances = max(0, whole - WARP_REGISTERS) if options.vector == 1 else 0
    added = sum(share for step, share in ADDED_SHARES.items() if step in spec.epilogue)
    return FLAT_REGISTERS_BESIDE + of_places + distances + math.ceil(added * options.filters)


def sets_of(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Steps whose factors a thread has at a time: those of one that is multiplied, of the next, and those that come."""
    return min(MOST_SETS, steps_of(spec, options))


def item_outputs(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """Of a tile that are shared out at a time: 64, and of words of y, or for groups of either side, as many besides."""
    return ROWS * (2 if by_side(spec, options) else 1)


def items_of(spec: KernelSpec, options: TapsWgmmaOptions) -> int:
    """What groups of warps, or those of a side, have to do for a tile, eight runs at a time; a group that has a tile
    of its own does both sides; at most, where rows are taken as they lie in y."""
    outputs = options.tile_p * options.tile_q
    if options.staged:
        return filled(outputs) // ROWS
    return outputs // item_outputs(spec, options)


def make_numbers(spec: KernelSpec, options: TapsWgmmaOptions,
                 arguments: tuple[Argument, ...] = ()) -> TapsWgmmaNumbers:
    """All numbers of plan values that fit together."""
    fields = pair_fields(spec, options)
    fields["piece_lanes"] = copying_lanes(fields["piece_lanes"], is_bulk(spec))
    filters, stage = fields["filter_bytes"], stage_line(spec, options) * options.filters
    stored = -(-staged_outputs(spec, options) // lane_outputs(options))
    rounds, lanes = -(-stored // LANES), lanes_for(stored)
    stages = filters + options.buffers * ITEMSIZE * fields["halo"]
    return TapsWgmmaNumbers(
        **fields, arguments=arguments, shape=WgmmaShape.of(options.filters), threads=WARP_GROUP * (options.groups + 1),
        fewer_registers=FEWER_REGISTERS, more_registers=more_registers(options), sets=sets_of(spec, options),
        in_turns=in_turns(options), sides_apart=sides_of(spec, options) == 2,
        members=options.groups // sides_of(spec, options), items=items_of(spec, options), bulk=is_bulk(spec),
        bias_anew=is_flat(spec, options) and {Epilogue.BIAS, Epilogue.RESIDUAL} <= set(spec.epilogue),
        lag=options.buffers - 2, halos_at=filters, stage_line=stage_line(spec, options), stage=stage,
        store_lanes=lanes, rounds=rounds,
        whole_filters=spec.k % options.filters == options.filters % (COLUMN_UNIT * LANES // lanes) == 0,
        filters_at_once=max(1, FLAT_AT_ONCE.get(lane_outputs(options), 1) // rounds),
        at_once=-(-rounds // -(-rounds // MOST_AT_ONCE)), stages_at=stages,
        barriers_at=stages + stages_of(options) * ITEMSIZE * stage, shared_bytes=shared_bytes(spec, options))
