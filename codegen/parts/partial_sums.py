"""Sums over a whole batch: each block sums a share of it into a row of a workspace, and a second step adds the rows in
a fixed order, so that equal inputs give equal bits."""

from __future__ import annotations

from warpconv.codegen.hardware import GRID_LIMIT
from warpconv.codegen.plan import Argument, Blocks, Launch, Role, Workspace

PARTS = "parts"             # the program's name for the rows of partial sums
ENTRY = "sum_parts"
SUM_COLUMNS, SUM_ROWS = 32, 16      # threads of a block of the second step: elements, and shares of an element's rows
MOST_CHUNKS = 1024


def argument() -> Argument:
    return Argument(name=PARTS, role=Role.WORKSPACE, c_type="float")


def workspace(elements: int, chunks: int) -> Workspace:
    """``chunks`` rows of ``elements`` sums in float32, written by the first step and read by the second."""
    return Workspace(name=PARTS, bytes_each=4 * elements * chunks, last_step=1)


def launch(elements: int, target: str) -> Launch:
    """The second step: the rows' sums as elements of ``target``."""
    blocks = Blocks(times=-(-elements // SUM_COLUMNS), limit=GRID_LIMIT[0])
    return Launch(entry=ENTRY, grid=(blocks, Blocks(), Blocks()), block=(SUM_COLUMNS, SUM_ROWS, 1),
                  arguments=(PARTS, target))


def chunks_for(wanted: int, beside: int, work: int) -> int:
    """Shares of the batch: so many that ``wanted`` blocks are under way where there are ``beside`` blocks for each
    share, and no more than there is ``work`` for."""
    return max(1, min(MOST_CHUNKS, -(-wanted // max(1, beside)), work))
