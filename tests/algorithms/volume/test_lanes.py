"""``volume``, form lanes: how its teams share out a layer, and what they load."""

from __future__ import annotations

from typing import Any

import pytest

from tests import checks
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

on_the_cpu = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def lanes(shape: ConvShape, **settings: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="volume", settings={"form": "lanes", **settings})


def depthwise(n: int, c: int, d: int, side: int, taps: int, **layer: Any) -> ConvShape:
    return ConvShape(n=n, c=c, k=c, groups=c, d=d, h=side, w=side, t=taps, r=taps, s=taps, padding=taps // 2,
                     layout="NHWC", **layer)


@pytest.mark.parametrize("n, c, side, taps, stride, dtype", [
    (8, 64, 7, 3, 1, "float32"), (4, 64, 7, 3, 1, "float16"), (8, 96, 14, 5, 2, "float16"),
    (8, 96, 14, 3, 1, "float32"), (16, 256, 14, 3, 1, "float32"), (8, 432, 10, 3, 1, "float16")])
def test_each_tile_has_a_team(n, c, side, taps, stride, dtype):
    """Tiles go beyond a plane's last rows and columns: by outputs there were up to three tiles for two teams."""
    shape = depthwise(n, c, 16, side, taps, stride=stride, dtype=dtype)
    made = lanes(shape)
    tiles = n * -(-shape.p // made.options.rows) * -(-shape.q // made.options.columns) * made.options.chunks
    blocks, _, _ = made.program.launches[0].grid_of(shape)
    assert blocks == -(-tiles // made.numbers.teams)


@on_the_cpu
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_block_loads_its_filters_once_in_whole_sectors(dtype):
    shape = depthwise(1, 64, 4, 6, 3, dtype=dtype)
    made = lanes(shape)
    report, = checks.check_checked(made, shape)
    x, y, _ = made.program.launches[0].grid_of(shape)
    filters = shape.k * 27 * shape.dtype.itemsize // y
    assert report.buffers["w"].load_sectors == x * y * filters // 32


@on_the_cpu
def test_planes_of_zeros_are_not_added():
    """Under five planes of taps four have as many of zeros around them; they take half of eight planes' loads."""
    four, eight = (depthwise(1, 32, d, 6, 5) for d in (4, 8))
    made = lanes(four, rows=2, columns=2, chunks=1)
    blocks, _, _ = made.program.launches[0].grid_of(four)
    stores = blocks * 125       # of a block's taps
    few, many = (checks.check_checked(made, shape)[0].shared_requests - stores for shape in (four, eight))
    assert 2 * few == many
