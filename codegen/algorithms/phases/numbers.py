"""Which taps meet which pixels of a tile: ``phases`` in numbers.

Along an axis of stride t, pixel ``i`` of the image has products with the taps ``r`` for which
``i + pad - r * dilation`` is a multiple of t, which then is t times the output's index. So pixels ``t * j + a`` of one
phase ``a`` have the same taps, each tap belongs to one phase, and meets outputs at ``j`` and a distance that is the
tap's own.
"""

from __future__ import annotations

import enum

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.spec import KernelSpec


MOST_UNROLLED = 4       # tiles of form ring in the text


class Form(enum.Enum):
    """How a thread goes through the taps."""

    TILE = "tile"       # a pixel of each phase, all taps in the text
    RING = "ring"       # tiles down a column, rows of gradients and the filter kept in registers; one filter a group
    PIXEL = "pixel"     # one pixel, loops that leave out the taps of other phases


@dataclass(frozen=True)
class Tap:
    """A tap of the filter, the pixel of the tile that it belongs to, and the output that it meets there."""

    r: int
    s: int
    row: int        # of the tile,
    column: int
    up: int         # of the window of outputs, counted from its first row and column
    left: int


@dataclass(frozen=True)
class Store:
    """What is stored together of a row of a tile: (channel, column) of the values, the first one's place."""

    channel: int
    column: int
    values: tuple[tuple[int, int], ...]
    guarded: bool   # the column may lie beyond the image


@dataclass(frozen=True)
class PhasesNumbers:
    """What the template writes besides spec and options."""

    tile_rows: int
    tile_columns: int
    rows: tuple[int, ...]           # of outputs that a tile meets, from the tile's own, in ascending order
    columns: tuple[int, ...]
    taps: tuple[Tap, ...]
    channels: int                   # that a thread makes at a time
    c_tiles: int                    # such tiles of channels
    threads: int
    hoisted: bool                   # one filter a group: its weights are loaded once for all rows
    unroll: int                     # tiles down a column in the text: as many as leave the rows of gradients in place
    pairs: int                      # channels of a word of gradients
    stored: int                     # values of a store
    stores: tuple[Store, ...]       # of a row of a tile
    folded: bool                    # the border's pixels are added to the image's by a second step
    pad: tuple[int, int]            # above and to the left of the image that is written,
    around: tuple[int, int]         # and by how much its height and width are larger than the input's


def _axis(taps: int, stride: int, dilation: int, pad: int) -> list[tuple[int, int]]:
    """Phase and distance of each tap."""
    found = []
    for tap in range(taps):
        phase = (tap * dilation - pad) % stride
        found.append((phase, (phase + pad - tap * dilation) // stride))
    return found


def is_folded(spec: KernelSpec) -> bool:
    """Whether pixels of the image stand in the border, so that its gradient is theirs."""
    return spec.padding_mode not in (Border.ZEROS, Border.CONSTANT)


def met(spec: KernelSpec, across: int) -> tuple[range, range]:
    """Rows and columns of gradients that ``across`` tiles side by side meet, all between the first and the last."""
    pad = (0, 0) if is_folded(spec) else (spec.padding[0][0], spec.padding[1][0])
    rows, columns = ([distance for _, distance in _axis(taps, stride, dilation, before)]
                     for taps, stride, dilation, before in zip(spec.taps, spec.stride, spec.dilation, pad))
    return range(min(rows), max(rows) + 1), range(min(columns), max(columns) + across)


def numbers(spec: KernelSpec, form: Form, channels: int, threads: int, across: int = 1,
            vector: int = 1) -> PhasesNumbers:
    """A spec's, for a thread with ``channels`` of them."""
    folded = is_folded(spec)
    (top, bottom), (left, right) = spec.padding
    pad = (0, 0) if folded else (top, left)
    around = (top + bottom, left + right) if folded else (0, 0)
    rows, columns = (_axis(taps, stride, dilation, before) for taps, stride, dilation, before in zip(
        spec.taps, spec.stride, spec.dilation, pad))
    ups, lefts = (sorted({distance for _, distance in axis}) for axis in (rows, columns))
    ring, tile = form is Form.RING, form is not Form.PIXEL
    if ring:
        ups, lefts = map(list, met(spec, across))
    taps = [Tap(r=r, s=s, row=row, column=column + i * spec.stride[1], up=ups.index(up), left=lefts.index(left + i))
            for r, (row, up) in enumerate(rows) for s, (column, left) in enumerate(columns)
            for i in range(across)] if tile else []
    tile_rows, tile_columns = (spec.stride[0], spec.stride[1] * across) if tile else (1, 1)
    pairs = vector if spec.layout is Layout.NHWC else 1
    return PhasesNumbers(tile_rows=tile_rows, tile_columns=tile_columns, rows=tuple(ups) if tile else (),
                         columns=tuple(lefts) if tile else (), taps=tuple(taps), channels=channels,
                         c_tiles=spec.c // channels, threads=threads, hoisted=tile and spec.filters == 1,
                         unroll=min(len(ups), MOST_UNROLLED), pairs=pairs, stored=vector,
                         stores=_stores(tile_columns, channels, pairs, vector) if ring else (),
                         folded=folded, pad=pad, around=around)


def _stores(columns: int, channels: int, pairs: int, vector: int) -> tuple[Store, ...]:
    if pairs > 1:
        return tuple(Store(0, b, tuple((c, b) for c in range(pairs)), b > 0) for b in range(columns))
    return tuple(Store(c, b, tuple((c, b + i) for i in range(vector)), b > 0 and vector == 1)
                 for c in range(channels) for b in range(0, columns, vector))
