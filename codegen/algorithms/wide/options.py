"""Plan values of ``wide``."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED, only
from warpconv.codegen.parts.weights import BankWeights


class Span(enum.Enum):
    """How rows lie on a warp's lanes."""

    STRIPS = "strips"    # rows wider than a warp: strips, whose outermost lanes load the columns beside the strip
    PACKED = "packed"    # narrow rows: whole ones, of several planes side by side


class Separators(enum.Enum):
    """Where the zeros beside a packed row come from; a border's pixels are loaded by its outermost lanes."""

    ZERO_LANES = "zero_lanes"    # lanes beyond the row's end, which load nothing, stand between the rows
    SELECT = "select"            # no lanes left for that: a select after the shuffle
    NONE = "none"                # pixels: rows fill their lanes, and no lane stands outside of the image; what stands
                                 # beside a row is in its own lanes, where a window reaches no further than one lane


class Guards(enum.Enum):
    INTERIOR = "interior"    # sub-blocks whose loads all lie in the image take a copy of the code without guards
    GUARDED = "guarded"      # one copy, every load guarded


class Loads(enum.Enum):
    """Where rows wait that are loaded ahead."""

    REGISTERS = "registers"  # columns of other lanes then come by shuffle
    ASYNC = "async"          # copied asynchronously to shared memory, where a lane reads all columns it needs; sm_80 on
    CACHED = "cached"        # the same through the first-level cache, where neighbouring warps find their halo


class Pipeline(enum.Enum):
    """How rows that were loaded ahead in registers come into use."""

    PAIRED = "paired"    # the loop body stands twice, the two sets of registers taking turns
    COPIED = "copied"    # once, with a copy from one set to the other


class TapRows(enum.Enum):
    ALL = "all"          # every step is added to all output rows in work
    NEEDED = "needed"    # a branch per filter row leaves out those of other sub-blocks and of rows outside the image


@dataclass(frozen=True)
class WideOptions:
    """Plan values. A lane makes ``columns`` outputs of a row from loads of ``vector`` elements; a packed row takes
    ``row_lanes`` lanes; a block has ``warp_columns`` x ``warp_rows`` x ``warp_planes`` warps; ``prefetch_rows`` steps
    are in flight (loads=registers: loaded together; loads=async: waited for ``stage_steps`` at a time); the compiler
    leaves registers for ``min_blocks`` blocks (follows from the others if not given)."""

    columns: int = 4
    vector: int = 4
    store_vector: int = 4
    span: Span = Span.STRIPS
    row_lanes: int = only(LANES, span=Span.PACKED)
    separators: Separators = only(Separators.ZERO_LANES, span=Span.PACKED)
    edges: Guards = only(Guards.INTERIOR, span=Span.STRIPS)
    sub_block_rows: int = 14
    prefetch_rows: int = 2
    weights: BankWeights = BankWeights.REGISTERS
    loads: Loads = Loads.REGISTERS
    stage_steps: int = 1
    pipeline: Pipeline = only(Pipeline.PAIRED, loads=Loads.REGISTERS)
    tap_rows: TapRows = TapRows.ALL
    warp_columns: int = 1
    warp_rows: int = 1
    warp_planes: int = 4
    min_blocks: int = DERIVED
