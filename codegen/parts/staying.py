"""Blocks that stay: each makes several tiles of outputs with its filters."""

from __future__ import annotations

from ..dimension import Dimension
from ..plan import Blocks
from ..spec import KernelSpec

PARTLY_FILLED = 4               # times as many blocks as whole tiles would be: those at edges are not whole


def staying_grid(spec: KernelSpec, tile: tuple[int, int], filter_blocks: int, resident: int = 1,
                 least: int = 1) -> tuple[Blocks, Blocks, Blocks]:
    """Of tiles of rows by columns of outputs, beside each other ``filter_blocks`` that share out the filters: as many
    at a time as the chip holds, ``resident`` a multiprocessor; ``least`` at least, some of which may have no tile."""
    whole = tile[0] * tile[1]
    tiles = Blocks(of=Dimension.N, by=(Dimension.P, Dimension.Q), each=PARTLY_FILLED, add=least * whole - 1, per=whole,
                   limit=max(least, spec.hardware.multiprocessors * resident // filter_blocks))
    return tiles, Blocks(times=filter_blocks), Blocks()


def room_refusal(spec: KernelSpec, shared_bytes: int) -> str | None:
    """None, or in words why a block's pixels and filters do not fit."""
    most = spec.hardware.shared_block
    if shared_bytes <= most:
        return None
    return f"{shared_bytes} bytes of shared memory (at most {most}): a smaller tile, or fewer filters"
