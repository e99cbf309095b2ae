"""What covers the documents' teaching steps: the slides' five variants, and ``im2win_basic``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.algorithms.course.im2win_basic import IM2WIN_BASIC
from tests.axes import BORDERS, CHANNELS, DTYPES, EPILOGUES, PADDINGS, Choose, Row, Rows, k_tile

# filters that no tile or only the larger tiles hold, and those that they all do
LAYERS: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 5), (4, 7), (9, 2), (1, 12), (15, 15), (31, 3)), "channels": CHANNELS,
    "padding": PADDINGS, "epilogue": EPILOGUES, "stride": (1, 2, (1, 3), (4, 1)), "dilation": (1, 2, (3, 1)),
    "dtype": DTYPES, "padding_mode": BORDERS}
TILES = (32, 16, 8, 11)         # 11: warps across rows, the last of them not whole


def _values(*names: str) -> Callable[[Row], dict[str, Any]]:
    return lambda row: {name: row[name] for name in names}


def _draw(choose: Choose, layer: Row) -> dict[str, Any]:
    return {"tile": choose((8, 11, 16, 32, 32))}


def _draw_filters(choose: Choose, layer: Row) -> dict[str, Any]:
    return {**_draw(choose, layer), "k_tile": k_tile(choose, layer)}


def _draw_coarsened(choose: Choose, layer: Row) -> dict[str, Any]:
    return {**_draw(choose, layer), "walk": choose((1, 2, 3, 5)), "k_tile": choose((1, 1, k_tile(choose, layer)))}


def _variants(**others: Any) -> Callable[[], Iterable[Row]]:
    """Each tile, in every type; ``others`` are plan values, each a choice gone round."""
    def rows() -> Iterable[Row]:
        for i, (tile, dtype) in enumerate(itertools.product(TILES, DTYPES)):
            yield dict(filter=((3, 4), (5, 5), (2, 3))[i % 3], channels=CHANNELS[i % 8], padding=PADDINGS[i % 5],
                       epilogue=EPILOGUES[i % 5], stride=((1, 1), (2, 1), (1, 3), (1, 1))[i // 3], dilation=1 + i // 9,
                       dtype=dtype, tile=tile, padding_mode=BORDERS[(i + i // 6) % 6],
                       **{name: values[i % len(values)] for name, values in others.items()})
    return rows


PIXELS = Rows({**LAYERS, "tile": TILES}, _values("tile"), _draw, variants=_variants())
FILTERS = Rows({**LAYERS, "tile": TILES, "k_tile": (1, 2, 3)}, _values("tile", "k_tile"), _draw_filters,
               variants=_variants(k_tile=(1,)))
COARSENED = Rows({**LAYERS, "tile": TILES, "walk": (1, 2, 5), "outputs": (1, 2, 3, 5), "k_tile": (1, 2, 3)},
                 _values("tile", "walk", "outputs", "k_tile"), _draw_coarsened,
                 variants=_variants(walk=(1, 3), outputs=(3, 2, 1), k_tile=(1,)))
ROWS: Mapping[str, Rows] = {"naive": PIXELS, "constant": PIXELS, "tiled": FILTERS, "halo_cached": FILTERS,
                            "coarsened": COARSENED, "im2win_basic": IM2WIN_BASIC}
