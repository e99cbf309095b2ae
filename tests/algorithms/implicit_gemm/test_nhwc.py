"""``implicit_gemm`` in NHWC: where threads copy from and to, what is planned and chosen, what is executed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests import checks, reference, settings
from tests.gemm import TILES
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import H200, H200_CLOCK
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy.measure import measure
from warpconv.runtime.devices.cpu import Mode

LANES = BANKS = 32
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=2, c=16, h=18, w=18, k=128, r=3, s=3, layout="NHWC"), **changes})


def planned(shape: ConvShape, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="implicit_gemm", arch=values.pop("arch", "sm_90"), settings=values)


# ---- where a tile's copies go

def copies(made: KernelPlan) -> list[list[tuple[int, int, int]]]:
    """Of each copy of a warp into a tile, of each lane: its product, its pixel, its word in shared memory; as the text
    of nhwc/places.cuh.jinja and the copies' loops have them."""
    gemm, options, found = made.numbers.gemm, made.options, []
    for warp in range(gemm.threads // LANES):
        quartet, first = warp % gemm.window_warps, warp // gemm.window_warps * gemm.window_lanes
        for k in range(0, options.block_k, gemm.products_at_once):
            for i in range(gemm.pixels):
                further = i * gemm.window_warps
                access = []
                for lane in range(LANES):
                    product, pixel = first + lane % gemm.window_lanes, lane // gemm.window_lanes
                    if gemm.vector == 4:
                        listed = quartet // 8 * 32 + quartet % 8 + pixel * gemm.lanes_n
                        listed += further // 8 * 32 + further % 8
                    else:
                        listed = quartet * 4 + pixel + further * 4
                    word = (product + k) * gemm.pixel_row + 4 * quartet + pixel + 4 * further
                    access.append((product + k, listed, word))
                found.append(access)
    return found


@pytest.mark.parametrize("vector_loads", ["on", "off"])
@pytest.mark.parametrize("tile", TILES)
def test_every_factor_of_a_tile_is_copied_once_to_where_it_is_read_from(tile, vector_loads):
    names = dict(zip(("block_m", "block_n", "thread_m", "thread_n"), tile))
    made = planned(small(), **names, block_k=16, order="taps", vector_loads=vector_loads)
    gemm, options = made.numbers.gemm, made.options
    words = {(product, pixel): word for access in copies(made) for product, pixel, word in access}
    assert len(words) == options.block_k * options.block_n == sum(map(len, copies(made)))
    for (product, pixel), word in words.items():
        # output j of lane n of a warp is pixel n + j * lanes_n of its tile; its factors are loaded in vectors
        tile_n = gemm.lanes_n * options.thread_n
        n, j = pixel % tile_n % gemm.lanes_n, pixel % tile_n // gemm.lanes_n
        load = pixel // tile_n * tile_n + n * gemm.vector + j // gemm.vector * gemm.vector * gemm.lanes_n
        assert word == product * gemm.pixel_row + load + j % gemm.vector


@pytest.mark.parametrize("tile", TILES)
def test_a_copy_fills_whole_sectors_and_meets_no_bank_twice(tile):
    made = planned(small(), **dict(zip(("block_m", "block_n", "thread_m", "thread_n"), tile)), block_k=8, order="taps")
    for access in copies(made):
        assert len({word % BANKS for _, _, word in access}) == BANKS
        of_pixels: dict[int, list[int]] = {}
        for product, pixel, _ in access:
            of_pixels.setdefault(pixel, []).append(product)
        assert len(of_pixels) == 4 and all(products == list(range(8)) for products in of_pixels.values())


# ---- what is planned

def test_tiles_that_warps_do_not_share_out():
    with pytest.raises(UnsupportedSpec, match="in NHWC a warp copies 8 products of 4 pixels at a time, which 4 warps"):
        planned(small(), block_m=128, block_n=64, thread_m=8, thread_n=8, block_k=4, order="taps")
    with pytest.raises(UnsupportedSpec, match="in NHWC .* which 3 warps"):
        planned(small(), block_m=32, block_n=96, thread_m=8, thread_n=4, order="taps")


def test_outputs_leave_as_vectors_where_groups_of_filters_allow():
    for filters, groups, width in ((128, 1, 4), (12, 3, 4), (130, 1, 1), (18, 3, 1)):
        made = planned(small(c=12, k=filters, groups=groups))
        y = next(a for a in made.program.arguments if a.name == "y")
        assert made.numbers.gemm.store_vector == width and y.multiple_of == 4 * width


def test_few_pixels_share_out_the_reduction_and_many_do_not():
    layers = {n: ConvShape(n=n, c=512, h=7, w=7, k=512, r=3, s=3, padding=1, layout="NHWC") for n in (1, 64)}
    few, many = (planned(layers[n]).options.splits for n in (1, 64))
    assert few > many >= 1
    wide = ConvShape(n=64, c=64, h=56, w=56, k=256, r=1, s=1, layout="NHWC")
    assert planned(wide).options.splits == 1


@pytest.mark.parametrize("sizes, precision", [
    (dict(c=64, k=64, r=1, s=1), "float32"), (dict(c=64, k=256, r=1, s=1), "float32"),
    (dict(c=120, k=120, r=3, s=3, padding=1, groups=20), "float32"), (dict(c=64, k=64, r=3, s=3, padding=1), "ieee"),
    (dict(c=256, k=64, r=1, s=1), "ieee"), (dict(c=16, k=64, r=7, s=7, stride=2, padding=3), "ieee")])
def test_layers_that_tensor_cores_may_not_take(sizes, precision):
    layer = ConvShape(n=32, h=56, w=56, layout="NHWC", **sizes)
    assert select(layer, precision=precision).algorithm == "implicit_gemm"
    assert select(layer, "sm_75", precision=precision).algorithm == "implicit_gemm"


@pytest.mark.parametrize("c, size, taps, k, stride, groups, took", [
    (64, 56, 1, 256, 1, 1, 80), (64, 56, 3, 64, 1, 1, 162), (128, 28, 1, 512, 1, 1, 74), (1024, 14, 1, 256, 1, 1, 98),
    (512, 7, 3, 512, 1, 1, 265), (3, 224, 7, 64, 2, 1, 196), (256, 28, 3, 256, 1, 32, 72)])
def test_estimates_are_near_what_layers_took_in_nchw(c, size, taps, k, stride, groups, took):
    """Of docs/results/dense: us of an H200 at batch 32."""
    shape = ConvShape(n=32, c=c, h=size, w=size, k=k, r=taps, s=taps, stride=stride, padding=taps // 2, groups=groups,
                      layout="NHWC")
    made = planned(shape, splits=1)
    slots = ALGORITHMS["implicit_gemm"].slots(made, shape)
    assert slots / (4 * H200.multiprocessors * H200_CLOCK) * 1e6 == pytest.approx(took, rel=0.15)


# ---- what is executed

@pytest.mark.thin(4)
@on_cpu_device
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("order", ["taps", "table"])
def test_sectors_and_banks_are_as_planned(order, padding):
    """Four whole sectors a copy, less where it is of zeros, which reads nothing; 16 a store. Of shared accesses only
    the copies of filters, 512 bytes a warp, take more than one turn of the banks."""
    shape = small(padding=padding)
    made = planned(shape, block_m=128, block_n=64, thread_m=8, thread_n=8, block_k=16, order=order, stages=2, splits=1)
    found = measure(made, shape)
    warps = 4 * -(-shape.n * shape.p * shape.q // 64)
    x, filters, y = (found.buffers[name] for name in ("x", "filter", "y"))
    requests = made.cost.warp_loads * warps - filters.load_requests
    if padding:
        assert x.load_requests < requests
        assert x.load_sectors <= 4 * x.load_requests
    else:
        assert x.load_requests == requests
        assert x.load_sectors == 4 * requests
    assert 32 * x.load_sectors <= x.load_bytes      # pixels beyond the last are the last again
    assert y.store_sectors == shape.n * shape.p * shape.q * shape.k // 8
    assert 16 * (y.store_requests - 2 * 4 * 4) <= y.store_sectors       # but of the last tile
    assert found.shared_wavefronts - found.shared_requests == 3 * filters.load_requests


@pytest.mark.long
@on_cpu_device
@pytest.mark.parametrize("mode, values", [
    ("zeros", {}), ("constant", {}), ("replicate", {}), ("zeros", dict(splits=2)),
    *(pytest.param(mode, dict(splits=2), marks=pytest.mark.long) for mode in ("constant", "replicate"))])
def test_windows_of_more_rows_and_columns_than_a_word_has_bits(mode, values):
    shape = small(c=8, k=8, r=3, s=31, h=9, w=40, padding=(1, 15), padding_mode=mode,
                  padding_value=2.0 if mode == "constant" else 0.0)
    made = planned(shape, **values)
    assert made.numbers.gemm.lists_taps and not made.numbers.gemm.masks_taps
    checks.check_kernel(checks.cpu_kernel(made, Mode.CHECK), shape)


@on_cpu_device
@pytest.mark.parametrize("c", [3, 15])
def test_infinities_stay_where_they_are(c):
    """What fills tiles up is zero, not an element of x: zero times infinity would be felt."""
    shape = small(n=1, c=c, k=5, h=9, w=9, padding=1)
    kernel = checks.cpu_kernel(planned(shape))
    x, w, _ = reference.operands(shape, settings.generator(3))
    x[0, 0, 0, 0] = np.inf
    y = kernel(x, w)
    touched = np.zeros((9, 9), bool)
    touched[:2, :2] = True
    assert np.isfinite(y[0, ~touched]).all() and np.isinf(y[0, touched]).all()


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("order", ["taps", "table"])
@pytest.mark.parametrize("padding, mode", [(0, "zeros"), (1, "zeros"), (1, "reflect")])
def test_offsets_of_64_bits(order, padding, mode):
    """A plan for a batch whose elements an int does not count, executed on a few images."""
    made = planned(small(n=10**6, c=8, padding=padding, padding_mode=mode), order=order, splits=1)
    assert made.spec.index_bits == 64 and "using index_t = long long" in render(made).text
    checks.check_kernel(checks.cpu_kernel(made, Mode.CHECK), small(c=8, padding=padding, padding_mode=mode))


@pytest.mark.thin(6)
@on_cpu_device
@pytest.mark.parametrize("order", ["taps", "table"])
@pytest.mark.parametrize("mode", ["zeros", "constant", "circular"])
def test_an_older_architecture_copies_through_registers(order, mode):
    shape = small(n=1, c=12, k=20, padding=1, padding_mode=mode, padding_value=2.0 if mode == "constant" else 0.0)
    made = planned(shape, order=order, arch="sm_75")
    assert not re.search(r"cp\.async", render(made).text)
    checks.check_checked(made, shape)
