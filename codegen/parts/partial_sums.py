"""Sums over a whole batch: each block sums a share of it into a row of a workspace, and a second step adds the rows in
a fixed order, so that equal inputs give equal bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from warpconv.codegen.batch import UNKNOWN_PIXELS, assumed_batch
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT
from warpconv.codegen.plan import Argument, Blocks, Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

PARTS = "parts"             # the program's name for the rows of partial sums
ENTRY = "sum_parts"
THREADS = 512               # of a block of the second step:
SUM_ROWS = 16               # those that share the rows of an element, beside each other for several elements
MOST_CHUNKS = 1024
SECTOR_CHANNELS = 8         # floats of a sector of memory
# Products of matrices whose plan value ``splits`` is the number of shares
ROUNDS = (0.5, 1.0, 2.0)    # of all blocks that the chip holds at a time, which are tried
LEAST_STEPS = 4             # tiles of pixels that are left to each share
SECOND_CYCLES = 2500.0      # that the launch of the second step takes, which others have


def argument() -> Argument:
    return Argument(name=PARTS, role=Role.WORKSPACE, c_type="float")


def workspace(elements: int, chunks: int) -> Workspace:
    """``chunks`` rows of ``elements`` sums in float32, written by the first step and read by the second."""
    return Workspace(name=PARTS, bytes_each=4 * elements * chunks, last_step=1)


def _launch(blocks: int, target: str, columns: int, rows: int) -> Launch:
    """The second step: the rows' sums as elements of ``target``, ``columns`` of them in a block, each by ``rows``
    threads."""
    return Launch(entry=ENTRY, grid=(Blocks(times=blocks, limit=GRID_LIMIT[0]), Blocks(), Blocks()),
                  block=(columns, rows, 1), arguments=(PARTS, target))


def _added(arguments: tuple[Argument, ...], first: Launch, second: Launch, elements: int, chunks: int) -> Program:
    return Program(arguments=(*arguments, argument()), steps=(first, second),
                   workspaces=(workspace(elements, chunks),))


def is_direct(spec: KernelSpec, shares: int) -> bool:
    """Whether a product of matrices writes the gradient itself: in one share, and in the order that the gradient has,
    which is of filters of one tap."""
    return shares == 1 and max(spec.taps) == 1


@dataclass(frozen=True)
class Adding:
    """How a block of the second step of a product of matrices adds its parts. Their rows have the channels of a tap
    side by side, the gradient the taps of a channel: a block turns the taps of ``channels`` channels of a filter."""

    rows: int           # threads that share the parts of a sum
    columns: int        # sums of a block
    channels: int       # 0 where the parts are in the gradient's order, or have too many taps to be turned so
    tiles: int          # blocks of a filter's channels

    @property
    def threads(self) -> int:
        return self.rows * self.columns


def adding_of(spec: KernelSpec, chunks: int) -> Adding:
    """That of so many parts."""
    rows, taps = sum_rows(chunks), math.prod(spec.taps)
    channels = SECTOR_CHANNELS if spec.channels >= SECTOR_CHANNELS else 1
    if taps == 1 or channels * taps > BLOCK_THREADS:
        return Adding(rows=rows, columns=THREADS // rows, channels=0, tiles=0)
    rows = min(rows, BLOCK_THREADS // (channels * taps))
    while 2 * channels <= spec.channels and 2 * channels * taps * rows <= THREADS:
        channels *= 2
    return Adding(rows=rows, columns=channels * taps, channels=channels, tiles=-(-spec.channels // channels))


def product_program(arguments: tuple[Argument, ...], first: Launch, spec: KernelSpec, shares: int,
                    adding: Adding) -> Program:
    """The product of a filter's gradient, and the second step where it is not direct."""
    elements = spec.k * spec.reduction
    if is_direct(spec, shares):
        return Program(arguments=arguments, steps=(first,))
    blocks = spec.k * adding.tiles if adding.channels else -(-elements // adding.columns)
    return _added(arguments, first, _launch(blocks, "dw", adding.columns, adding.rows), elements, shares)


def shares(splits: int, direct: bool) -> str:
    """How a batch's pixels are shared, in words."""
    return ("the pixels of a batch in one share" if direct
            else f"in {splits} shares of the pixels, whose sums are added then")


def adding_cycles(spec: KernelSpec, shares: int, passes: float = 1) -> float:
    """Cycles of the second step, whose launch others have, too: a gain where there is none. ``passes``: over the
    parts' bytes."""
    if is_direct(spec, shares):
        return -SECOND_CYCLES
    return 4 * passes * spec.k * spec.reduction * shares / spec.hardware.copied_bytes


def program(arguments: tuple[Argument, ...], first: Launch, target: str, elements: int, chunks: int,
            direct: bool | None = None) -> Program:
    """``first``, which writes ``target`` itself where it is ``direct`` (unless given: in one share), and else the
    second step."""
    if chunks == 1 if direct is None else direct:
        return Program(arguments=arguments, steps=(first,))
    columns = THREADS // SUM_ROWS
    return _added(arguments, first, _launch(-(-elements // columns), target, columns, SUM_ROWS), elements, chunks)


def sum_rows(chunks: int) -> int:
    """Threads that share so many rows of an element."""
    return next(rows for rows in (1, 2, 4, 8, SUM_ROWS) if rows == SUM_ROWS or chunks <= 4 * rows)


def chunks_for(wanted: int, beside: int, work: int) -> int:
    """Shares of the batch: so many that ``wanted`` blocks are under way where there are ``beside`` blocks for each
    share, and no more than there is ``work`` for."""
    return max(1, min(MOST_CHUNKS, -(-wanted // max(1, beside)), work))


def splits_for(held: int, tiles: int, steps: int) -> list[int]:
    """The numbers of shares that are tried where the chip holds so many blocks at a time, a share has ``tiles`` of
    them, and the batch ``steps`` tiles of pixels."""
    most = max(1, min(MOST_CHUNKS, steps // LEAST_STEPS))
    return sorted({min(most, max(1, int(rounds * held / tiles))) for rounds in ROUNDS} | {1})


def work_of(shape: ConvShape | None) -> tuple[int, int]:
    """Output pixels of a layer, for the batch that kernels are shared by, and bytes of its arrays; without sizes the
    pixels of a middling one alone."""
    if shape is None:
        return UNKNOWN_PIXELS, 0
    shape = shape.with_batch(assumed_batch(shape))
    return shape.output_pixels, shape.bytes_moved


def space(spec: KernelSpec, candidates: Callable[[KernelSpec, int], Iterable[Any]]) -> list[Any]:
    """The candidates for the pixels of a middling layer, and of smaller and larger ones."""
    batches = (UNKNOWN_PIXELS // 16, UNKNOWN_PIXELS, UNKNOWN_PIXELS * 16)
    return sorted({options for pixels in batches for options in candidates(spec, pixels)}, key=repr)


def lighter(spec: KernelSpec, options: Any, shares: str = "splits") -> Any | None:
    """The same of fewer shares (the plan value ``shares``), whose sums take less workspace, or None where there is
    one."""
    made = getattr(options, shares)
    return replace(options, **{shares: made // 2}) if made > 1 else None


def chunks_beside(own: int, most: int = 2) -> list[int]:
    """Numbers of shares that are tuned beside a planner's own: half, and ``most`` times as many."""
    return sorted({max(1, own // 2), own, min(most * own, MOST_CHUNKS)})
