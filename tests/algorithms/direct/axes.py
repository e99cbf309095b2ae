"""What covers ``direct`` in the tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import (BORDERS, CASTS, CHANNELS, DTYPES, EPILOGUES, LAYOUTS, OUTPUTS, PADDINGS, PITCHES, PIXELS,
                        WEIGHTS, WITH_RESIDUAL, Choose, Row, Rows, k_tile)

DIRECT_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 5), (4, 7), (13, 2), (1, 9), (31, 31)), "channels": CHANNELS,
    "padding": PADDINGS, "epilogue": WITH_RESIDUAL, "stride": (1, 2, (1, 3), (4, 1)), "dilation": (1, 2, (3, 1)),
    "dtype": DTYPES + PIXELS, "weight_dtype": WEIGHTS, "out_dtype": OUTPUTS, "cast": CASTS, "padding_mode": BORDERS,
    "layout": LAYOUTS, "pitch": PITCHES, "block": ((64, 4), (32, 1), (8, 32), (16, 3), (256, 1)), "k_tile": (1, 2, 3)}

FLOAT_OUTPUTS = (None, "uint8", "int16", "float32", "int8", "float16", "uint16")


def direct_values(row: Row) -> dict[str, Any]:
    return {"block_size_x": row["block"][0], "block_size_y": row["block"][1], "k_tile": row["k_tile"]}


def direct_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    return {"block_size_x": choose((8, 16, 32, 64, 128)), "block_size_y": choose((4, 5, 8)),
            "k_tile": k_tile(choose, layer)}


def direct_variants() -> Iterable[Row]:
    """Each block, in every type and layout; each border, with every type of the filter and of the output."""
    for i, block in enumerate(DIRECT_AXES["block"]):
        for j, (dtype, layout) in enumerate(itertools.product(DTYPES, LAYOUTS)):
            yield dict(filter=(3, 4), channels=CHANNELS[(i + j) % 8], padding=PADDINGS[i],
                       epilogue=WITH_RESIDUAL[(2 * i + j) % 9], stride=((1, 1), (2, 1), (1, 3), (2, 2), (1, 1))[i],
                       dilation=1 + i // 3, dtype=dtype, layout=layout, block=block, k_tile=1)
    for i, (weight, out) in enumerate(itertools.product(WEIGHTS, OUTPUTS)):
        yield dict(filter=(3, 4), channels=CHANNELS[i % 8], padding=PADDINGS[1 + i % 4], epilogue=EPILOGUES[i % 5],
                   stride=(1, 1, 2)[i % 3], dilation=1, dtype=PIXELS[i // 2 % 4], weight_dtype=weight, out_dtype=out,
                   cast=CASTS[i % 2], padding_mode=BORDERS[i % 6], layout=LAYOUTS[i // 3 % 2], block=(32, 1), k_tile=1)
    for i, (dtype, mode) in enumerate(itertools.product(DTYPES, BORDERS)):
        yield dict(filter=(5, 3), channels=CHANNELS[i % 8], padding=PADDINGS[1 + i % 4], epilogue=EPILOGUES[i % 5],
                   stride=1, dilation=(1, 2)[i % 2], dtype=dtype, out_dtype=FLOAT_OUTPUTS[i % len(FLOAT_OUTPUTS)],
                   cast=CASTS[i // 2 % 2], padding_mode=mode, layout=LAYOUTS[i // 3 % 2], block=(16, 3), k_tile=1)
    for i, (layout, pitch) in enumerate(itertools.product(LAYOUTS, PITCHES[1:])):
        yield dict(filter=(3, 4), channels=CHANNELS[(3 * i + 2) % 8], padding=PADDINGS[i % 5],
                   epilogue=WITH_RESIDUAL[(i + 5) % 9], stride=(1, 2)[i % 2], dilation=1, dtype=DTYPES[i % 3],
                   padding_mode=BORDERS[i % 6], layout=layout, pitch=pitch, block=(32, 1), k_tile=1)


ROWS = {"direct": Rows(DIRECT_AXES, direct_values, direct_draw, variants=direct_variants)}
