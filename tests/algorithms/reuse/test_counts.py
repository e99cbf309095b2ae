"""The documents' figures, counted while the emitted kernels run.

The table of warp loads is per sub-block of 56 x 32 outputs of an F x F filter, each row of its input beginning at a
multiple of 128 bytes. That is a launch of one warp: the kernel's text is unchanged, and H = 56 + F - 1 and P = 56 fit
each other, but it is told Q = 32 of the 65 - F output columns that rows of W = 64 floats would give. So nothing else is
executed, and rows are 256 bytes apart.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests import checks, reference, settings
from warpconv.codegen.algorithms.reuse.columns import Decomposition, decompose
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.devices.cpu import Buffer, LaunchReport, Mode

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))

ROWS = 56
VARIANTS = {"direct": {"exchange": "none", "rows": "reload"}, "column": {"exchange": "select", "rows": "reload"},
            "row": {"exchange": "none", "rows": "reuse"}, "both": {"exchange": "select", "rows": "reuse"}}
PAPER = {"decomposition": "paper", "edges": "direct", "sub_block_rows": ROWS, "ring": "turning", "prefetch_rows": 1,
         "weights": "shared"}
# F: requests of each variant, sectors of direct and of both
TABLE = {3: (504, 336, 174, 116, 2352, 522), 5: (1400, 560, 300, 120, 6720, 540),
         7: (2744, 1568, 434, 248, 13328, 1178), 9: (4536, 3024, 576, 384, 21672, 1792),
         11: (6776, 3696, 726, 396, 32648, 1848)}
RATIOS = {3: 4.3, 5: 11.7, 7: 11.1, 9: 11.8, 11: 17.1}


@functools.cache
def sub_block(size: int, variant: str, edges: str = "direct", exchange: str = "", channels: int = 1,
              k_tile: int = 1, prefetch_rows: int = 1) -> tuple[KernelPlan, LaunchReport]:
    """One whole sub-block and nothing else, its result checked."""
    values = {**PAPER, **VARIANTS[variant], "edges": edges, "warp_rows": 1, "k_tile": k_tile,
              "prefetch_rows": prefetch_rows}
    if exchange:
        values["exchange"] = exchange
    shape = ConvShape(c=channels, h=ROWS + size - 1, w=64, k=k_tile, r=size, s=size)
    plan = checks.planned(shape, "reuse", values)
    x, w, _ = reference.operands(shape, settings.generator(size))
    y = np.full((1, k_tile, ROWS, 32), np.nan, np.float32)
    compiled = checks.cpu_kernel(plan, Mode.CHECK)._backend.compiled
    step = plan.program.steps[0]
    arguments = {"x": Buffer("x", x, writable=False), "w": Buffer("w", w, writable=False),
                 "y": Buffer("y", y, writable=True, must_be_written=True, initialised=False),
                 **{name: np.int32(v) for name, v in {"N": 1, "H": shape.h, "W": 64, "P": ROWS, "Q": 32}.items()}}
    report = compiled.launch(step.entry, grid=(1, 1, 1), block=step.block, shared_bytes=0,
                             args=[arguments[name] for name in step.arguments])
    wanted = reference.expected(x, w, shape)
    reference.Expected(wanted.output[..., :32], wanted.tolerance[..., :32]).check(y, f"{size}, {variant}")
    return plan, report


@pytest.mark.parametrize("edges", ["direct", "predicated"])
@pytest.mark.parametrize("size", TABLE)
@pytest.mark.thin(10)
def test_warp_loads_and_sectors_of_a_sub_block(size, edges):
    counts = {name: sub_block(size, name, edges)[1].buffers["x"] for name in VARIANTS}
    requests = {name: count.load_requests for name, count in counts.items()}
    sectors = {name: count.load_sectors for name, count in counts.items()}
    assert (*requests.values(), sectors["direct"], sectors["both"]) == TABLE[size]
    assert round(requests["direct"] / requests["both"], 1) == RATIOS[size]


@pytest.mark.thin(6)
@pytest.mark.parametrize("size", TABLE)
def test_sectors_are_those_of_the_addresses(size):
    """A load at a column that is a multiple of 8 floats touches 4 sectors of 32 bytes, any other 5."""
    for name, values in VARIANTS.items():
        columns = range(size) if values["exchange"] == "none" else decompose(size, Decomposition.PAPER).loads
        rows = ROWS + size - 1 if values["rows"] == "reuse" else ROWS * size
        expected = rows * sum(4 if column % 8 == 0 else 5 for column in columns)
        assert sub_block(size, name)[1].buffers["x"].load_sectors == expected


@pytest.mark.thin(30)
@pytest.mark.parametrize("exchange", ["select", "packed", "dynamic", "dynamic_local", "none"])
@pytest.mark.parametrize("variant", ["column", "both"])
@pytest.mark.parametrize("size, channels, k_tile", [(3, 1, 1), (5, 1, 1), (7, 1, 1), (5, 3, 1), (3, 2, 4)])
def test_planned_cost_is_what_is_executed(size, channels, k_tile, variant, exchange):
    plan, report = sub_block(size, variant, exchange=exchange, channels=channels, k_tile=k_tile, prefetch_rows=2)
    assert plan.options.sub_block_rows == ROWS and plan.options.k_tile == k_tile
    assert report.buffers["x"].load_requests == plan.cost.warp_loads
    assert report.shuffles == plan.cost.shuffles
    assert (report.shuffles == 0) == (exchange == "none")
    assert sub_block(size, "direct", channels=channels, k_tile=k_tile)[1].buffers["x"].load_requests \
        == plan.cost.direct_loads


def test_stores_are_one_request_of_four_sectors_for_a_row():
    for variant in VARIANTS:
        y = sub_block(5, variant)[1].buffers["y"]
        assert (y.store_requests, y.store_bytes, y.load_requests) == (ROWS, ROWS * 128, 0)
        assert y.store_sectors == 4 * ROWS


def test_five_loads_of_a_filter_row_become_two_and_twenty_five_of_a_window_ten():
    direct, column = (sub_block(5, name)[1].buffers["x"].load_requests for name in ("direct", "column"))
    assert (direct / ROWS, column / ROWS) == (25, 10)
    assert (direct / ROWS / 5, column / ROWS / 5) == (5, 2)


@pytest.mark.parametrize("size, expected", [(3, 6), (5, 10), (7, 28), (9, 54), (11, 66)])
def test_loads_of_one_output_with_column_reuse(size, expected):
    assert sub_block(size, "column")[1].buffers["x"].load_requests / ROWS == expected


def test_nine_row_loads_become_five():
    """Three output rows of a 3x3 filter: 3 x 3 row loads without row reuse, the 5 input rows once each with it."""
    found = {}
    for rows in ("reload", "reuse"):
        shape = ConvShape(c=1, h=5, w=34, k=1, r=3, s=3)
        plan = checks.planned(shape, "reuse", {**PAPER, "exchange": "none", "rows": rows, "warp_rows": 1})
        report, = checks.check_checked(plan, shape)
        found[rows] = report.buffers["x"].load_requests / 3          # a row is 3 loads, one a column
    assert found == {"reload": 9, "reuse": 5}


@pytest.mark.parametrize("size, share, percent", [(3, 17344 / 512 ** 2, 6.6), (5, 18304 / 512 ** 2, 7.0)])
def test_share_of_the_outputs_that_are_made_directly(size, share, percent):
    """512 x 512, same padding. Without row reuse each output row of a sub-block exchanges columns in its F filter
    rows, so the shuffles executed give the number of outputs of the fast path; the rest took the direct one."""
    shape = ConvShape(c=1, h=512, w=512, k=1, r=size, s=size, padding="same")
    plan = checks.planned(shape, "reuse", {**PAPER, **VARIANTS["column"]})
    report, = checks.check_checked(plan, shape)
    fast = 32 * report.shuffles / (size * len(plan.numbers.columns.swaps))
    found = 1 - fast / (shape.p * shape.q)
    assert found == share and round(100 * found, 1) == percent


def test_predicated_edges_leave_nothing_to_the_direct_path():
    shape = ConvShape(c=1, h=512, w=512, k=1, r=5, s=5, padding="same")
    plan = checks.planned(shape, "reuse", {**PAPER, **VARIANTS["column"], "edges": "predicated"})
    report, = checks.check_checked(plan, shape)
    assert 32 * report.shuffles / (5 * 3) == 512 * 512
