"""What covers ``implicit_gemm`` and ``im2win`` in the tests, which share a product of matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

from .axes import BORDERS, EPILOGUES, PADDINGS, Choose, Row

# (C, K, groups): fewer and more filters than a tile has; channels that fill tiles of the reduction, and that do not
GEMM_CHANNELS = ((1, 1, 1), (3, 5, 1), (8, 20, 1), (16, 70, 2), (5, 130, 1), (6, 6, 6), (24, 96, 1), (15, 33, 1))
# (block_m, block_n, thread_m, thread_n)
TILES = ((128, 128, 8, 8), (64, 64, 8, 8), (64, 256, 8, 8), (96, 128, 12, 8), (32, 128, 4, 8), (16, 128, 4, 4),
         (128, 256, 8, 16), (256, 128, 16, 8))
WITHOUT = ("", "prefetch", "vector_loads", "micro_kernel")     # which of the three parts is left out
GEMM_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 2), (7, 7), (1, 9)), "channels": GEMM_CHANNELS, "padding": PADDINGS,
    "epilogue": EPILOGUES, "stride": (1, 2, (1, 3)), "dilation": (1, 2, (3, 1)), "tile": TILES, "block_k": (8, 16),
    "order": ("taps", "table"), "splits": (1, 2, 3), "stages": (2, 3), "without": WITHOUT}
# images: fewer pixels than a tile has, tiles that end in the middle of an image, and that hold several
GEMM_SIZES: Mapping[str, tuple] = {"n": (1, 2, 5, 70), "h": (1, 5, 9, 16, 31), "w": (1, 7, 12, 33)}
# plan values of texts under review
GEMM = {"block_m": 128, "block_n": 64, "block_k": 16, "thread_m": 8, "thread_n": 8, "order": "taps", "stages": 2,
        "splits": 1, "min_blocks": 4}


def gemm(algorithm: str, shape: ConvShape, *epilogue: Epilogue, arch: str = "sm_90", **values: Any) -> KernelPlan:
    """A plan whose text is under review, whatever the planner's own values are."""
    return plan_layer(shape, algorithm=algorithm, epilogue=epilogue, settings={**GEMM, **values}, arch=arch)


def gemm_values(row: Row) -> dict[str, Any]:
    names = ("block_m", "block_n", "thread_m", "thread_n")
    values = {**dict(zip(names, row["tile"])), **{name: row[name] for name in ("block_k", "order", "splits", "stages")}}
    if row["without"]:
        values[row["without"]] = "off"
    if row["without"] == "prefetch":
        del values["stages"]        # there is one, then
    return values


def gemm_draw(choose: Choose, layer: Row) -> dict[str, Any]:
    """Mostly what the planner takes, else a tile of another shape, or without one of its parts."""
    tile = dict(zip(("block_m", "block_n", "thread_m", "thread_n"), choose(TILES)))
    return choose(({}, {}, {}, {**tile, "block_k": choose((8, 16))}, {choose(WITHOUT[1:]): "off"}))


def gemm_variants(axes: Mapping[str, tuple], extra: Mapping[str, tuple]) -> Iterable[Row]:
    """Each tile, each part left out, each order and number of stages and splits: every way that the text differs."""
    ways = [dict(tile=tile) for tile in TILES] + [dict(without=part) for part in WITHOUT[1:]]
    ways += [dict(stages=3), dict(splits=3), dict(splits=2, without="vector_loads"), dict(block_k=16, stages=3)]
    ways += [{name: value} for name, values in extra.items() for value in values]
    epilogues = axes["epilogue"]
    for i, way in enumerate(ways):
        for order in axes["order"]:
            if order == "window" and way.get("without") == "micro_kernel":
                continue            # it is the default's, and becomes another without a tile in registers
            yield {**dict(filter=((3, 3), (2, 3))[i % 2], channels=GEMM_CHANNELS[(2, 3, 4, 1, 5, 7)[i % 6]],
                          padding=PADDINGS[i % 4], padding_mode=BORDERS[i // 3 % 6],
                          epilogue=epilogues[i % len(epilogues)], stride=1 + i // 3 % 2, dilation=1 + i // 4 % 2,
                          tile=TILES[1], block_k=8, order=order, splits=1, stages=2, without=""),
                   **{name: values[0] for name, values in extra.items()}, **way}
