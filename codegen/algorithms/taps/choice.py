"""Which tiles a layer of ``taps`` gets."""

from __future__ import annotations

from collections.abc import Iterator

from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .cycles import cycles
from .geometry import (BLOCK, QUAD, RUNS, WIDE, cell_of, joined_spec, most_joined, store_width, takes_strips,
                       widest_copy, widest_run)
from .numbers import fits, resolved
from .options import TapsOptions

# (tile_p, tile_q, strips, warps): the larger ones first
TILES = ((16, 32, 4, 8), (8, 32, 4, 4), (14, 16, 2, 7), (16, 16, 2, 8), (16, 16, 4, 4), (14, 16, 7, 2), (14, 32, 7, 4),
         (14, 16, 7, 4), (14, 16, 2, 4), (8, 32, 2, 4), (8, 16, 2, 4), (8, 16, 4, 4), (8, 16, 4, 2), (4, 32, 2, 4),
         (8, 8, 2, 4), (8, 8, 2, 2), (14, 8, 7, 4), (14, 8, 7, 2), (14, 8, 7, 1), (8, 8, 4, 4), (8, 8, 4, 2),
         (8, 8, 4, 1), (4, 16, 2, 2), (4, 8, 2, 2), (4, 8, 2, 1), (2, 16, 2, 1), (1, 32, 2, 1))
# in NCHW, where rows of 64 columns are few of memory's sectors, also these
NCHW_TILES = ((8, 64, 4, 8), (4, 64, 2, 8), (4, 64, 4, 4), (8, 32, 2, 8), (4, 32, 4, 2), (16, 16, 4, 2), (16, 16, 2, 4))
# of groups in NHWC, of cells of eight channels, those of images of 7, 14, 28 and 56 columns: none is copied that no
# output reads
SEVENS = ((8, 7, 2, 2), (8, 7, 2, 4), (4, 7, 2, 2), (4, 7, 2, 1), (14, 7, 7, 2), (7, 14, 7, 2), (7, 14, 7, 4),
          (14, 14, 7, 4), (4, 14, 2, 2))
FILTERS = (64, 48, 96, 32, 24, 16, 8)       # of a tile
GROUPS = (8, 4, 2, 1)                       # of a tile
MOST_FILLED = 1.34                          # times a layer's filters, or groups, which its tiles have


def candidates(spec: KernelSpec) -> Iterator[TapsOptions]:
    """Every tile that fits, of the layer's groups and of joined ones."""
    for joined in sorted({1, most_joined(spec)}):
        for options in _tiles(joined_spec(spec, TapsOptions(joined=joined))):
            yield replace(options, joined=joined)


def _tiles(spec: KernelSpec) -> Iterator[TapsOptions]:
    """Groups side by side where a group has few filters, filters in tiles that waste little."""
    sevens = SEVENS if spec.groups > 1 and cell_of(spec) == WIDE else ()
    tiles = TILES + (NCHW_TILES if spec.layout is Layout.NCHW else sevens)
    widths = [f for f in FILTERS if f < 2 * spec.filters or f == min(FILTERS)]
    least = min(-(-spec.filters // f) * f for f in widths)
    for filters in (f for f in widths if -(-spec.filters // f) * f <= MOST_FILLED * least):
        for groups, warp_groups in _groups(spec, filters):
            for tile_p, tile_q, strips, warps in (t for t in tiles if takes_strips(spec, t[2])):
                for buffers in (1, 2) if widest_copy(spec) > 1 else (1,):
                    options = TapsOptions(tile_p=tile_p, tile_q=tile_q, tile_filters=filters, groups_tile=groups,
                                          warp_groups=warp_groups, strips=strips, warps=warps, buffers=buffers)
                    if fits(spec, options):
                        yield options


def _groups(spec: KernelSpec, filters: int) -> Iterator[tuple[int, int]]:
    """Groups of a block, and of a warp at once: in NHWC as many as make four matrices side by side, or as have no group
    less in the last block."""
    if filters < spec.filters:
        yield 1, 1
        return
    wanted = max(1, QUAD * BLOCK // filters) if spec.layout is Layout.NHWC else 1
    few = [g for g in GROUPS if -(-spec.groups // g) * g <= MOST_FILLED * spec.groups]
    whole = next(g for g in GROUPS if g <= wanted and spec.groups % g == 0)
    for at_once in sorted({whole, next(g for g in few if g <= wanted)}):
        yield from ((g, at_once) for g in few if g % at_once == 0)


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> TapsOptions:
    """The candidate of the least estimate for the layer's sizes, for the batch that kernels are shared by; without
    sizes the last, the smallest."""
    if shape is None:
        return list(candidates(spec))[-1]
    shape = shape.with_batch(assumed_batch(shape))

    def estimated(options: TapsOptions) -> float:
        joined = joined_spec(spec, options)
        return cycles(joined, resolved(joined, options, shape), shape)

    return min((sized(options, spec, shape) for options in candidates(spec)), key=estimated)


def sized(options: TapsOptions, spec: KernelSpec, shape: ConvShape) -> TapsOptions:
    """With the widths of loads and stores that a layer's rows allow in NCHW, and its tile."""
    if spec.layout is not Layout.NCHW:
        return options
    joined, stored = joined_spec(spec, options), replace(options, store_vector=store_width(spec, shape))
    loaded = (replace(stored, vector=run) for run in RUNS if run <= widest_run(spec, shape))
    return next(each for each in loaded if each.vector == 1 or fits(joined, each))
