"""What covers ``wgmma`` in the tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes import DENSE_LAYER, DTYPES, LAYOUTS, PADDINGS, WITH_RESIDUAL, Choose, Row, Rows

# (C, K, groups): slices of channels that are filled and that are not, several; filters that fill a tile and that do
# not, and those whose outputs no descriptor stores; channels that only float32 or the pass from NCHW makes whole 16
# bytes of
CHANNELS = ((8, 24, 1), (64, 64, 1), (72, 33, 1), (16, 136, 1), (136, 8, 1), (24, 85, 1), (20, 40, 1),
            (3, 70, 1))
# (filters, pixels, stages, buffer)
TILES = ((64, 32, 2, 16), (64, 96, 3, 48), (64, 64, 4, 32), (128, 16, 3, 16), (128, 80, 2, 80), (128, 64, 2, 32),
         (256, 32, 2, 32), (128, 96, 2, 96))
NCHW_TILES = tuple(tile for tile in TILES if tile[1] // (2 if tile[0] == 64 else 1) % 32 == 0)
# (filters, pixels, rows, columns, boxes, stages), for filters of up to 3 x 3
BOXES = ((64, 48, 3, 10, 2, 2), (128, 40, 2, 17, 2, 3), (128, 72, 4, 15, 1, 2), (256, 32, 2, 13, 2, 2),
         (64, 80, 3, 14, 2, 2))
# The same of a box for each filter column
COLUMN_BOXES = ((64, 48, 3, 16, 2, 2, "column"), (128, 56, 4, 13, 3, 3, "column"), (256, 32, 4, 8, 2, 2, "column"),
                (64, 80, 5, 15, 2, 3, "column"))
# (filters, pixels, rows, columns, boxes, stages, ring) of float32 in NCHW, where W is a multiple of 4; of 1x1 filters
# with one row
TURNED = ((64, 48, 1, 16, 2, 2, 2), (128, 24, 1, 12, 1, 3, 1), (256, 40, 1, 40, 2, 2, 3), (64, 64, 3, 12, 2, 2, 2),
          (128, 72, 4, 8, 3, 2, 4))
# (form, filters, pixels, stages) of 16 bits in NCHW: for 1x1 layers whose images are whole 16 bytes
PLANES = (("planes", 64, 64, 2), ("planes", 64, 192, 2), ("planes", 128, 96, 3), ("planes", 256, 32, 2),
          ("planes", 128, 160, 2))
# The same with filters that stay in shared memory, of one tile or several; and of pixels that are walked over
PLANES_STAY = (("planes", "stays", 64, 64, 3), ("planes", "stays", 128, 160, 2), ("planes", "stays", 256, 32, 2))
STAYS = (("stays", 64, 96, 3), ("stays", 128, 32, 2), ("stays", 256, 32, 2))
# (window, filters, pixels, stages) of windows that do not overlap, put side by side before
WINDOW_ROWS = (("row", 64, 64, 2), ("row", 128, 96, 3), ("row", 256, 32, 2))
AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 2), (3, 3), (2, 3), (5, 2), (1, 9), (3, 2, 3), (1, 1, 1), (2, 2, 2)), "channels": CHANNELS,
    "padding": PADDINGS, "epilogue": WITH_RESIDUAL, "dtype": DTYPES,
    "numerics": ("float32", "fp16x3", "tf32"), "layout": LAYOUTS,
    "stride": (1, 2, (1, 3)), "dilation": (1, 2, (3, 1)),
    "tile": (*TILES, *BOXES, *COLUMN_BOXES, *TURNED, *PLANES, *PLANES_STAY, *STAYS, *WINDOW_ROWS),
    "splits": (1, 2, 3)}
SIZES: Mapping[str, tuple] = {"n": (1, 2, 5), "h": (1, 5, 9, 16), "w": (1, 7, 12, 19)}


def values(row: Row) -> dict[str, Any]:
    tile = row["tile"]
    if tile in PLANES:
        return {**dict(zip(("form", "filters", "pixels", "stages"), tile)), "splits": row["splits"]}
    if tile in PLANES_STAY:
        return {**dict(zip(("form", "filter", "filters", "pixels", "stages"), tile)), "splits": row["splits"]}
    if tile in STAYS:
        return {"form": "im2col", **dict(zip(("filter", "filters", "pixels", "stages"), tile)),
                "splits": row["splits"]}
    if tile in WINDOW_ROWS:
        return {"form": "im2col", **dict(zip(("window", "filters", "pixels", "stages"), tile)),
                "splits": row["splits"]}
    if len(tile) == 4:
        names = ("filters", "pixels", "stages", "buffer")
        return {"form": "im2col", **dict(zip(names, tile)), "splits": row["splits"]}
    names = ("filters", "pixels", "rows", "columns", "boxes", "stages", "box" if tile in COLUMN_BOXES else "ring")
    order = "planes" if tile in TURNED else "pixels"
    return {"form": "halo", **dict(zip(names, tile)), "order": order}


def layer(choose: Choose) -> dict[str, Any]:
    """Channels by eights, of float32 by fours in NHWC, in NCHW any; any filters."""
    dtype, layout = choose(DTYPES), choose(LAYOUTS)
    channels = choose((1, 3, 8, 20, 33, 64, 72) if layout == "NCHW" else (4, 8, 12, 36, 64, 100)
                      if dtype == "float32" else (8, 16, 24, 64, 72, 136))
    return {"c": channels, "k": choose((1, 5, 8, 24, 64, 72, 85, 136)), "layout": layout, "dtype": dtype}


def draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else another tile."""
    names = ("filters", "pixels", "stages", "buffer")
    return choose(({}, {}, {}, {"form": "im2col", **dict(zip(names, choose(TILES)))}))


def variants() -> Iterable[Row]:
    """Every tile, im2col ones with the reduction whole and split, stored through shared memory and from registers; of
    float32 after the others."""
    for i, tile in enumerate((*TILES, *BOXES, *TILES, *COLUMN_BOXES)):
        halo = len(tile) > 4
        splits = 1 if halo or i < len(TILES) else 1 + i % 2
        yield dict(filter=((3, 3), (2, 3), (1, 1))[i % (2 if halo or splits > 1 else 3)],
                   channels=CHANNELS[(0, 1, 3, 4)[i % 4] if halo else i % 6], padding=PADDINGS[i % 4],
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[1 + i % 2], numerics="float32",
                   layout="NHWC", stride=1 + i % 2, dilation=1 if halo else 1 + i // 2 % 2, tile=tile, splits=splits)
    for i, tile in enumerate(NCHW_TILES * 2):
        splits = 1 + i // 3 % 2
        yield dict(filter=((3, 3), (2, 3), (1, 1))[i % (4 - splits)], channels=CHANNELS[(6, 7, 2, 1, 5)[i % 5]],
                   padding=PADDINGS[i % 4], epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[1 + i % 2],
                   numerics="float32", layout="NCHW", stride=1 + i // 2 % 2, dilation=1 + i % 3 % 2, tile=tile,
                   splits=splits)
    for i, tile in enumerate(TILES[:6]):        # volumes, in the form that walks windows
        nchw = tile in NCHW_TILES and i % 2 == 1
        yield dict(filter=(3, 2, 3), channels=CHANNELS[(0, 7 if nchw else 2, 1, 4, 3, 2)[i]], padding=PADDINGS[i % 4],
                   epilogue=WITH_RESIDUAL[i], dtype=DTYPES[1 + i % 2], numerics="float32",
                   layout="NCHW" if nchw else "NHWC", stride=1 + i % 2, dilation=1 + i // 2 % 2, tile=tile,
                   splits=1 + i // 3 % 2)
    rings = tuple(tile for tile in (*BOXES, *COLUMN_BOXES) if tile[4] > 1)
    for i, tile in enumerate(rings * 2):        # and of boxes, for a filter plane or a column of it
        nchw, single = i % 2 == 1, i >= len(rings)
        yield dict(filter=(3, 2, 3), channels=CHANNELS[(6, 7)[nchw] if single else (0, 1, 3, 4)[i % 4]],
                   padding=PADDINGS[i % 4], epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)],
                   dtype="float32" if single else DTYPES[1 + i % 2], numerics="tf32" if single else "float32",
                   layout="NCHW" if nchw else "NHWC", stride=1 + i // 3 % 2, dilation=1, tile=tile, splits=1)
    for i, tile in enumerate((*TILES[:5], *BOXES, *TURNED)):     # split, in every form
        walks, flat = len(tile) == 4, tile in TURNED and tile[2] == 1
        yield dict(filter=(1, 1, 1) if flat else (3, 2, 3), channels=CHANNELS[(6, 4, 1)[i % 3] if i % 2 else 7],
                   padding="valid" if flat else PADDINGS[i % 4],
                   epilogue=WITH_RESIDUAL[-1 - i % len(WITH_RESIDUAL)], dtype="float32", numerics="fp16x3",
                   layout="NCHW" if i % 2 == 0 or tile in TURNED else "NHWC",
                   stride=1 if tile in TURNED else 1 + i // 2 % 2, dilation=1 + i % 2 if walks else 1, tile=tile,
                   splits=1 + i % 2 if walks else 1)
    for i, tile in enumerate((*BOXES * 2, *COLUMN_BOXES)):
        channels = ((8, 24, 1), (136, 72, 1), (33, 85, 1), (16, 136, 1))[i % 4 if tile[4] > 1 else 2]
        yield dict(filter=((3, 3), (2, 3))[i % 2], channels=channels, padding=PADDINGS[i % 4],
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[1 + i % 2], numerics="float32",
                   layout="NCHW", stride=1 + i // 5, dilation=1, tile=tile, splits=1)
    for i, tile in enumerate(PLANES * 2):
        yield dict(filter=(1, 1), channels=((8, 24, 1), (136, 8, 1), (72, 33, 1), (16, 136, 1))[i % 4], padding="valid",
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[1 + i % 2], numerics="float32",
                   layout="NCHW", stride=1, dilation=1, tile=tile, splits=1 + (i % 4 == 1 and i > 5) * 2)
    for i, tile in enumerate(PLANES_STAY * 2):
        yield dict(filter=(1, 1), channels=((8, 24, 1), (72, 33, 1), (16, 136, 1), (16, 136, 1), (136, 8, 1))[i % 5],
                   padding="valid", epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=DTYPES[1 + i % 2],
                   numerics="float32", layout="NCHW", stride=1, dilation=1, tile=tile, splits=1)
    for i, tile in enumerate(STAYS * 3):        # filters that stay, of all types but split ones; as many as fit
        dtype, filters = ("float16", "bfloat16", "float32")[i // len(STAYS)], tile[1]
        nchw = i % 2 == 1 and (dtype == "float32" or tile[2] // (2 if filters == 64 else 1) % 32 == 0)
        size, channels = {64: ((3, 3), (72, 33, 1)), 128: ((2, 3), (24, 85, 1)), 256: ((1, 1), (136, 8, 1))}[filters]
        channels = (20, 40, 1) if dtype == "float32" else channels
        yield dict(filter=size, channels=channels, padding=PADDINGS[i % 4],
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=dtype,
                   numerics="tf32" if dtype == "float32" else "float32", layout="NCHW" if nchw else "NHWC",
                   stride=1 + i // 2 % 2, dilation=1 + i // 3 % 2, tile=tile, splits=1)
    for i, tile in enumerate(WINDOW_ROWS * 5):  # and rows of windows, of each type filled up to 16 bytes or not
        dtype, numerics = (("float16", "float32"), ("bfloat16", "float32"), ("float32", "tf32"),
                           ("float32", "fp16x3"))[i % 4]
        volume = i % 5 == 4 or numerics == "fp16x3"
        channels = ((3, 70, 1), (20, 40, 1), (72, 33, 1), (16, 136, 1), (24, 85, 1))[
            i % 5 if numerics == "float32" else 1 + i % 4]
        yield dict(filter=(2, 2, 2) if volume else (2, 2), padding="valid", dilation=1, stride=2, tile=tile,
                   channels=channels,
                   epilogue=WITH_RESIDUAL[i % len(WITH_RESIDUAL)], dtype=dtype, numerics=numerics,
                   layout=("NHWC", "NCHW")[i // 2 % 2], splits=2 if i // 6 == 1 and channels[0] > 16 else 1)
    for layout, tiles in (("NHWC", (*TILES, *BOXES, *COLUMN_BOXES)),
                          ("NCHW", (*BOXES, *TURNED, *TILES, *COLUMN_BOXES))):
        for i, tile in enumerate(tiles * 2):
            halo, turned, way = len(tile) > 4, tile in TURNED, ("fp16x3", "tf32")[i >= len(tiles)]
            if turned and way == "tf32" or tile in COLUMN_BOXES and way == "fp16x3":
                continue
            place = (6 if layout == "NHWC" else 7) - i % 7
            if halo and tile[4] == 1 and way == "tf32":
                place = 0       # one slice of channels
            flat = turned and tile[2] == 1 and i % 2 == 0
            yield dict(filter=(1, 1) if flat else ((3, 3), (2, 3), (1, 1))[i % (2 if halo else 3)],
                       channels=CHANNELS[place], padding="valid" if flat else PADDINGS[i % 4],
                       epilogue=WITH_RESIDUAL[-1 - i % len(WITH_RESIDUAL)], dtype="float32", numerics=way,
                       layout=layout, stride=1 if turned else 1 + i % 2, dilation=1 if halo else 1 + i // 2 % 2,
                       tile=tile, splits=1 if halo or i % 3 == 2 else 1 + i % 2)


ROWS = {"wgmma": Rows(AXES, values, draw, layer, variants=variants, sizes=SIZES,
                      arrays=True, typical={**DENSE_LAYER, "c": 64, "k": 64, "dtype": "float16", "layout": "NHWC"})}
