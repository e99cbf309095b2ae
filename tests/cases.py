"""The case table: kernels chosen so that every pair of values of any two axes occurs in at least one (covering arrays).

A product of the axes would be millions of kernels; most faults need two values to meet, so pairs are what is covered.
Each kernel then runs on several image sizes, which cost no compiling, and these too meet in pairs. The choice is made
by a greedy search with a fixed seed, so the table is the same in every run. Pairs that no planner accepts are left out.
"""

from __future__ import annotations

import functools
import itertools
import random
from dataclasses import dataclass
from typing import Any, Mapping

from warpconv.codegen.errors import ShapeError, UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

BIAS, RELU = Epilogue.BIAS, Epilogue.RELU
ATTEMPTS = 24                    # random completions of an uncovered pair, of which the best is kept

# filter (rows, columns): every width 1..13 and 31; square, flat, tall, even
FILTERS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, 9), (2, 10), (3, 11), (1, 12), (4, 13),
           (3, 31), (1, 3), (5, 1), (9, 2), (3, 5), (5, 4), (11, 3))
# (C, K, groups)
CHANNELS = ((1, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (5, 2, 1), (4, 6, 2), (3, 3, 3), (2, 6, 2))
PADDINGS = ("valid", "same", ((0, 1), (2, 0)), ((3, 0), (0, 1)), "large")
EPILOGUES = ((), (BIAS,), (RELU,), (BIAS, RELU), (RELU, BIAS))
REUSE_AXES: Mapping[str, tuple] = {
    "filter": FILTERS, "channels": CHANNELS, "padding": PADDINGS, "epilogue": EPILOGUES,
    "exchange": ("packed", "select", "dynamic", "dynamic_local", "none"), "rows": ("reuse", "reload"),
    "decomposition": ("paper", "fewest_loads", "shared_ends"), "weights": ("shared", "constant", "cached"),
    "edges": ("direct", "predicated"), "sub_block_rows": (3, 7, 16, 56),
    "warps": ((1, 4), (4, 1), (2, 2), (1, 1), (3, 2)), "ring": ("turning", "shifted"),
    "rows_ahead": (1, 2, 3, 8), "k_tile": (1, 2, 3),
    "min_blocks": (1, 3)}
DIRECT_AXES: Mapping[str, tuple] = {
    "filter": ((1, 1), (2, 3), (3, 3), (5, 5), (4, 7), (13, 2), (1, 9), (31, 31)), "channels": CHANNELS,
    "padding": PADDINGS, "epilogue": EPILOGUES, "stride": (1, 2, (1, 3), (4, 1)), "dilation": (1, 2, (3, 1)),
    "block": ((64, 4), (32, 1), (8, 32), (16, 3), (256, 1)), "k_tile": (1, 2, 3)}
AXES = {"reuse": REUSE_AXES, "direct": DIRECT_AXES}
# image sizes: those around the 32 lanes, tall and wide ones
SIZES: Mapping[str, tuple] = {
    "n": (1, 2, 3), "h": (1, 5, 31, 32, 33, 63, 64, 65, 240), "w": (1, 7, 31, 32, 33, 63, 64, 65, 200)}
SIZES_EACH = 3


@dataclass(frozen=True)
class Case:
    """One kernel of the table: the layer without its sizes, the algorithm, the plan values."""

    algorithm: str
    layer: tuple[tuple[str, Any], ...]
    values: tuple[tuple[str, Any], ...]
    epilogue: tuple[Epilogue, ...]
    number: int = 0

    def shape(self, n: int, h: int, w: int) -> ConvShape:
        """The layer for an image size; ShapeError where the output would be empty."""
        return ConvShape(n=n, h=h, w=w, **dict(self.layer))

    def plan(self, arch: str = "sm_90") -> KernelPlan:
        """UnsupportedSpec where the values do not go together."""
        return plan_layer(self.shape(1, 99, 99), algorithm=self.algorithm, arch=arch, epilogue=self.epilogue,
                          settings=dict(self.values))

    @property
    def id(self) -> str:
        layer, values = dict(self.layer), dict(self.values)
        words = [f"{self.number:03}", self.algorithm, f"{layer['r']}x{layer['s']}", f"c{layer['c']}k{layer['k']}"]
        return "-".join(words + [str(values[v]) for v in ("exchange", "rows", "weights", "edges") if v in values])

    def sizes(self) -> tuple[ConvShape, ...]:
        """Image sizes for this kernel: its share of the table of sizes, those that give an output."""
        table = size_table()
        found: list[ConvShape] = []
        for i in range(len(table)):
            try:
                found.append(self.shape(*table[(self.number * SIZES_EACH + i) % len(table)]))
            except ShapeError:
                continue
            if len(found) == SIZES_EACH:
                break
        return tuple(found)


@functools.lru_cache(maxsize=1)
def table() -> tuple[Case, ...]:
    """All kernels: the covering arrays of both algorithms, numbered."""
    made = [_case(algorithm, row) for algorithm in AXES for row in covering_rows(algorithm)]
    return tuple(Case(c.algorithm, c.layer, c.values, c.epilogue, i) for i, c in enumerate(made))


@functools.lru_cache(maxsize=1)
def variants() -> tuple[Case, ...]:
    """Every algorithm x variant once: exchange x (rows, ring) x weights x edges of reuse, and the blocks of direct."""
    made = []
    axes = [REUSE_AXES[name] for name in ("exchange", "weights", "edges")]
    rings = (("reuse", "turning"), ("reuse", "shifted"), ("reload", "turning"))
    for i, (exchange, weights, edges, (rows, ring)) in enumerate(itertools.product(*axes, rings)):
        channels = (CHANNELS[0], CHANNELS[2], CHANNELS[5])[i % 3]
        made.append(_case("reuse", dict(
            filter=(3, 7), channels=channels, padding="same", epilogue=EPILOGUES[i % 4], exchange=exchange, rows=rows,
            weights=weights, edges=edges, decomposition=REUSE_AXES["decomposition"][i % 3], sub_block_rows=7,
            warps=REUSE_AXES["warps"][i % 5], ring=ring, rows_ahead=1 + i % 2,
            k_tile=channels[1] // channels[2] if i % 2 else 1, min_blocks=1)))
    for i, block in enumerate(DIRECT_AXES["block"]):
        made.append(_case("direct", dict(
            filter=(3, 4), channels=CHANNELS[i], padding=PADDINGS[i], epilogue=EPILOGUES[i],
            stride=((1, 1), (2, 1), (1, 3), (2, 2), (1, 1))[i], dilation=1 + i // 3, block=block, k_tile=1)))
    return tuple(Case(c.algorithm, c.layer, c.values, c.epilogue, i) for i, c in enumerate(made))


@functools.lru_cache(maxsize=1)
def size_table() -> tuple[tuple[int, int, int], ...]:
    """(N, H, W): every pair of values."""
    made = _cover(SIZES, lambda row: True, seed=3)
    return tuple((row["n"], row["h"], row["w"]) for row in made)


@functools.lru_cache(maxsize=None)
def covering_rows(algorithm: str) -> tuple[Mapping[str, Any], ...]:
    """The covering array of one algorithm, as values of its AXES."""
    return tuple(_cover(AXES[algorithm], lambda row: accepted(algorithm, row), seed=len(AXES[algorithm])))


def accepted(algorithm: str, row: Mapping[str, Any]) -> bool:
    """Whether the planner takes these values together."""
    try:
        _case(algorithm, row).plan()
    except (UnsupportedSpec, ShapeError):
        return False
    return True


def _case(algorithm: str, row: Mapping[str, Any]) -> Case:
    (r, s), (c, k, groups) = row["filter"], row["channels"]
    layer = {"c": c, "k": k, "groups": groups, "r": r, "s": s, "padding": row["padding"]}
    if algorithm == "direct":
        layer.update(stride=row["stride"], dilation=row["dilation"])
        if row["padding"] == "same" and row["stride"] not in (1, (1, 1)):
            layer["padding"] = (r // 2, s // 2)
        values = {"block_size_x": row["block"][0], "block_size_y": row["block"][1], "k_tile": row["k_tile"]}
    else:
        values = {name: row[name] for name in ("exchange", "rows", "decomposition", "weights", "edges",
                                               "sub_block_rows", "ring", "rows_ahead", "k_tile", "min_blocks")}
        values.update(warp_columns=row["warps"][0], warp_rows=row["warps"][1], rows_ahead=min(row["rows_ahead"], r))
    if row["padding"] == "large":              # larger than the filter: whole windows of zeros
        layer["padding"] = ((r + 1, r + 2), (s + 2, s + 1))
    return Case(algorithm, tuple(layer.items()), tuple(values.items()), tuple(row["epilogue"]))


def _cover(axes: Mapping[str, tuple], accepted: Any, seed: int) -> list[dict[str, Any]]:
    """Rows that hold every acceptable pair of values, greedily few."""
    rng = random.Random(seed)
    names = list(axes)
    open_pairs = {(a, i, b, j) for a, b in itertools.combinations(range(len(names)), 2)
                  for i in range(len(axes[names[a]])) for j in range(len(axes[names[b]]))}
    rows: list[dict[str, Any]] = []
    queue = sorted(open_pairs)
    rng.shuffle(queue)
    for pair in queue:
        if pair not in open_pairs:
            continue
        best: list[int] | None = None
        best_gain = 0
        for _ in range(ATTEMPTS):
            picks = [rng.randrange(len(axes[name])) for name in names]
            picks[pair[0]], picks[pair[2]] = pair[1], pair[3]
            gain = sum(key in open_pairs for key in _pairs(picks))
            if gain > best_gain and accepted(_row(axes, picks)):
                best, best_gain = picks, gain
        if best is None:
            continue
        open_pairs.difference_update(_pairs(best))
        rows.append(_row(axes, best))
    return rows


def _row(axes: Mapping[str, tuple], picks: list[int]) -> dict[str, Any]:
    return {name: axes[name][i] for name, i in zip(axes, picks)}


def _pairs(picks: list[int]) -> list[tuple[int, int, int, int]]:
    return [(a, picks[a], b, picks[b]) for a, b in itertools.combinations(range(len(picks)), 2)]
