"""The plan values of ``reuse``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.options import DERIVED, only

from .columns import Decomposition


class Exchange(enum.Enum):
    """How a lane gets the columns that it does not load."""

    PACKED = "packed"                # pack two, shift by 0 or 32, unpack, shuffle (Algorithms 1 and 2)
    SELECT = "select"                # a select, then the shuffle
    DYNAMIC = "dynamic"              # a register array indexed per lane, as the compiler takes it
    DYNAMIC_LOCAL = "dynamic_local"  # the same, forced into local memory
    NONE = "none"                    # no exchange: every column loaded


class Rows(enum.Enum):
    REUSE = "reuse"      # each input row loaded once (Algorithm 3, corrected)
    RELOAD = "reload"    # each output row loads its R input rows


class Ring(enum.Enum):
    """How the accumulators of row reuse take turns."""

    DERIVED = "derived"    # turning while its text stays small, else shifted
    TURNING = "turning"    # the loop body is written R times, each naming the ring's registers one further on
    SHIFTED = "shifted"    # one loop body; the registers' values move on


class TileWeights(enum.Enum):
    SHARED = "shared"      # a k-tile's weights staged in shared memory
    CONSTANT = "constant"  # the filter in constant memory
    CACHED = "cached"      # read from global memory through the cache


class Edges(enum.Enum):
    DIRECT = "direct"          # outputs at the border and beside the last whole sub-block are made directly
    PREDICATED = "predicated"  # all outputs take the fast path, loads outside the image give what the border has there


@dataclass(frozen=True)
class ReuseOptions:
    """Plan values. A block has ``warp_columns`` x ``warp_rows`` warps; a thread works on ``k_tile`` filters at a time;
    with one channel ``prefetch_rows`` input rows are loaded together (row reuse only); the compiler is told to leave
    registers for ``min_blocks`` blocks on a multiprocessor. The last two follow from the others where not given."""

    exchange: Exchange = Exchange.SELECT
    rows: Rows = Rows.REUSE
    decomposition: Decomposition = Decomposition.PAPER
    weights: TileWeights = TileWeights.SHARED
    edges: Edges = Edges.PREDICATED
    sub_block_rows: int = 56
    warp_columns: int = 1
    warp_rows: int = 4
    k_tile: int = 1
    ring: Ring = only(Ring.DERIVED, rows=Rows.REUSE)
    prefetch_rows: int = DERIVED
    min_blocks: int = DERIVED
