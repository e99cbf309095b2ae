"""Form lanes: volumes whose channels lie side by side, each with filters of its own. A lane has a channel or two."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import BLOCK_THREADS, LANES
from warpconv.codegen.parts.occupancy import held_blocks
from warpconv.codegen.spec import KernelSpec

THREADS = 128
HELD_REGISTERS = 130    # planned: with more,
FILTER_REGISTERS = 70   # of a filter's gradient, beyond which some of both forms spill: up to 88 bytes of drawn ones
MANY_TAPS = 5           # or of filters so long, ptxas may spill a few, for it loads rows of the patch ahead
TEAM_LANES = (32, 16, 8)


@dataclass(frozen=True)
class LanesNumbers:
    """What the templates of ``lanes`` write besides spec and options."""

    threads: int
    lanes: int              # of a team,
    team_channels: int      # which has so many channels,
    teams: int              # and such teams of a block
    pitch: int              # floats from one tap of a layer to the next in shared memory
    slots: int              # output planes that a plane of the input meets, or comes before
    rows_read: int          # of the patch that a team's outputs meet
    columns_read: int
    tap_tiles: tuple[int, int, int]     # of taps, along each axis; of a layer one
    elements: int           # of the filter
    min_blocks: int = 1
    filled: int = 1         # teams of the same channels that the chip holds at a time
    row_by_row: bool = False    # whether rows of x are loaded one after the other


def lanes_numbers(spec: KernelSpec, options: Any, taps: tuple[int, ...]) -> LanesNumbers:
    """Those of a thread that works on so many taps; ``options`` are those of a form lanes."""
    reach = (taps[0] - 1) * spec.dilation[0] + 1
    rows, columns = ((outputs - 1) * stride + (taken - 1) * dilation + 1 for outputs, taken, stride, dilation in zip(
        (options.rows, options.columns), taps[1:], spec.stride[1:], spec.dilation[1:]))
    return LanesNumbers(
        threads=options.block_size_x * options.block_size_y, lanes=options.block_size_x,
        team_channels=options.block_size_x * options.lane_vector, teams=options.block_size_y,
        pitch=(options.block_size_x + 1) * options.lane_vector,
        slots=-(-reach // spec.stride[0]), rows_read=rows, columns_read=columns, elements=spec.k * spec.reduction,
        tap_tiles=(-(-spec.taps[0] // taps[0]), -(-spec.taps[1] // taps[1]), -(-spec.taps[2] // taps[2])))


def lane_registers(options: Any, made: LanesNumbers, rows: int, sums: int = 0) -> int:
    """Planned registers of a thread: outputs of all planes, so many ``rows`` of the patch, and ``sums`` of taps."""
    outputs: int = made.slots * options.rows * options.columns
    vector: int = options.lane_vector
    return 44 + vector * (outputs + rows * made.columns_read + sums)


def as_held(spec: KernelSpec, options: Any, made: LanesNumbers, registers: int, shared_bytes: int) -> LanesNumbers:
    """With the blocks that a multiprocessor holds, or those that are asked for."""
    blocks = options.min_blocks or held_blocks(spec.hardware, registers, made.threads, shared_bytes)
    groups = -(-spec.k // made.team_channels)
    return replace(made, min_blocks=blocks,
                   filled=max(1, blocks * spec.hardware.multiprocessors // groups) * made.teams)


def lanes_refusal(spec: KernelSpec, options: Any) -> str | None:
    """Why a layer has no such form, or these plan values do not go together."""
    threads = options.block_size_x * options.block_size_y
    if spec.layout is not Layout.NHWC or spec.channels > 1:
        return "form = lanes is of depthwise volumes whose channels lie side by side (NDHWC)"
    if not spec.dtype.is_float or spec.y_dtype is not spec.dtype or spec.w_dtype is not spec.dtype:
        return "form = lanes is of floats, with filters and outputs of the same type"
    if options.block_size_x not in TEAM_LANES or not LANES <= threads <= BLOCK_THREADS or threads % LANES:
        return f"a block of {options.block_size_x} x {options.block_size_y} (teams of 8, 16 or 32 lanes, whole warps)"
    if options.lane_vector not in (1, 2):
        return f"lane_vector = {options.lane_vector}: 1 or 2"
    if options.lane_vector == 2 and not _pairs(spec):
        return "lane_vector = 2 is for 16-bit elements and an even number of channels, each with one filter"
    return None


def _pairs(spec: KernelSpec) -> bool:
    return spec.dtype.is_half and spec.k % 2 == 0 and spec.filters == 1


def team_of(spec: KernelSpec) -> tuple[int, int, int]:
    """Lanes of a team, teams of a block, channels of a lane: as few lanes without a channel as may be."""
    vector = 2 if _pairs(spec) else 1
    words = -(-spec.k // vector)
    lanes = min(TEAM_LANES, key=lambda lanes: -words % lanes)
    return lanes, THREADS // lanes, vector


def lane_demands(spec: KernelSpec, options: Any, *names: str) -> dict[str, int]:
    """What words of two channels ask of the addresses of these arrays."""
    return dict.fromkeys(names, 2 * spec.dtype.itemsize) if options.lane_vector == 2 else {}
