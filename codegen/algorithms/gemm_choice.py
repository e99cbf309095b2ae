"""Which tiles a layer gets, by what they are modelled to cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Iterable

from ..shape import ConvShape
from ..spec import KernelSpec
from .base import DERIVED
from . import gemm_tiles
from .gemm_tiles import GemmNumbers, Order, Switch, Tile

ASSUMED_BATCH = 64          # the batch is never looked at, so that all batches share a kernel
MULTIPROCESSORS = 132       # of the GPU that the tiles were measured on (H200)
TILES = (Tile(128, 128, 8, 8), Tile(128, 64, 8, 8), Tile(64, 128, 8, 8), Tile(64, 256, 8, 8), Tile(96, 128, 12, 8),
         Tile(64, 64, 8, 8), Tile(32, 128, 4, 8), Tile(16, 128, 4, 4))
DEPTHS = (8, 16)
SPLITS = (1, 2, 3, 4, 6, 8)


def choice(spec: KernelSpec, shape: ConvShape | None, *, by_columns: bool) -> dict[str, Any]:
    """Plan values for a layer: tile, order of the sums, splits."""
    tile = min(TILES, key=lambda t: (-(-spec.filters // t.block_m) * t.block_m, -t.block_m * t.block_n))
    depth = 8
    order = gemm_tiles.k_order(spec, depth)
    return dict(block_m=tile.block_m, block_n=tile.block_n, block_k=depth, thread_m=tile.thread_m, thread_n=tile.thread_n,
                order=order)


def space(spec: KernelSpec, by_columns: bool = False) -> Iterable[dict[str, Any]]:
    """Tiles, depths and splits worth trying."""
    for tile in TILES:
        for depth in DEPTHS:
            for splits in SPLITS:
                yield dict(block_m=tile.block_m, block_n=tile.block_n, block_k=depth, thread_m=tile.thread_m,
                           thread_n=tile.thread_n, order=gemm_tiles.k_order(spec, depth), splits=splits)


def instructions(spec: KernelSpec, options: Any, gemm: GemmNumbers, shape: ConvShape) -> float:
    """Warp instructions of the product for a layer."""
    blocks = -(-shape.n * shape.p * shape.q // options.block_n) * gemm.m_tiles * spec.groups
    warps = gemm.threads // 32
    tile = options.block_k * (options.thread_m * options.thread_n + gemm.fragments) + 3 * gemm.rows + 2 * gemm.a_rounds + 16
    return blocks * warps * (gemm.k_tiles * tile + options.splits * (100 + 3 * options.thread_m * options.thread_n))
