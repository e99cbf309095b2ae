"""What covers ``reuse`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import BORDERS, CHANNELS, FILTERS, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows, k_tile

REUSE_AXES: Mapping[str, tuple] = {
    "filter": FILTERS, "channels": CHANNELS, "padding": PADDINGS, "padding_mode": BORDERS, "epilogue": WITH_RESIDUAL,
    "exchange": ("packed", "select", "dynamic", "dynamic_local", "none"), "rows": ("reuse", "reload"),
    "decomposition": ("paper", "fewest_loads", "shared_ends"), "weights": ("shared", "constant", "cached"),
    "edges": ("direct", "predicated"), "sub_block_rows": (3, 7, 16, 56),
    "warps": ((1, 4), (4, 1), (2, 2), (1, 1), (3, 2)), "ring": ("turning", "shifted"),
    "prefetch_rows": (1, 2, 3, 8), "k_tile": (1, 2, 3),
    "min_blocks": (1, 3)}


def reuse_values(row: Row) -> dict[str, Any]:
    values = {name: row[name] for name in ("exchange", "rows", "decomposition", "weights", "edges",
                                           "sub_block_rows", "ring", "prefetch_rows", "k_tile", "min_blocks")}
    values.update(warp_columns=row["warps"][0], warp_rows=row["warps"][1],
                  prefetch_rows=min(row["prefetch_rows"], row["filter"][0]))
    return values


def reuse_layer(choose: Choose) -> dict[str, Any]:
    s = choose((1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9, 10, 11, 12, 13, 17, 31))
    return {"s": s, "r": choose((1, 2, 3, 3, 4, 5, 5, 7) if s < 14 else (1, 2, 3)), "stride": 1, "dilation": 1,
            "dtype": "float32", "layout": "NCHW"}


def reuse_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    return {"exchange": choose(("select", "select", "packed", "dynamic", "dynamic_local", "none")),
            "rows": choose(("reuse", "reuse", "reload")), "weights": choose(("shared", "shared", "constant", "cached")),
            "decomposition": choose(("paper", "fewest_loads", "shared_ends")),
            "edges": choose(("direct", "predicated")), "sub_block_rows": choose((1, 2, 3, 5, 8, 13, 32, 56)),
            "warp_columns": choose((1, 1, 2, 3, 4)), "warp_rows": choose((1, 2, 4)), "k_tile": k_tile(choose, layer),
            "ring": choose(("derived", "turning", "shifted")),
            "prefetch_rows": choose((1, 1, 2, 3, 5, 9)), "min_blocks": choose((1, 1, 2, 4))}


def reuse_variants() -> Iterable[Row]:
    """Exchange x (rows, ring) x weights x edges; each border with every (rows, ring), edges and channels."""
    axes = [REUSE_AXES[name] for name in ("exchange", "weights", "edges")]
    rings = (("reuse", "turning"), ("reuse", "shifted"), ("reload", "turning"))
    for i, (exchange, weights, edges, (rows, ring)) in enumerate(itertools.product(*axes, rings)):
        channels = (CHANNELS[0], CHANNELS[2], CHANNELS[5])[(i + i // 18) % 3]
        yield dict(filter=(3, 7), channels=channels, padding="same", padding_mode=BORDERS[i // 6 % 6],
                   epilogue=WITH_RESIDUAL[i % 9], exchange=exchange, rows=rows, weights=weights, edges=edges,
                   decomposition=REUSE_AXES["decomposition"][i % 3], sub_block_rows=7,
                   warps=REUSE_AXES["warps"][i % 5], ring=ring, prefetch_rows=1 + i % 2,
                   k_tile=channels[1] // channels[2] if i % 2 else 1, min_blocks=1)


ROWS = {"reuse": Rows(REUSE_AXES, reuse_values, reuse_draw, reuse_layer, variants=reuse_variants)}
