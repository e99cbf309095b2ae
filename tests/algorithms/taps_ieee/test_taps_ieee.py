"""``taps_ieee``: what is planned, refused and chosen, what is computed, and what compilers make of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks, settings
from warpconv.codegen.algorithms.taps_ieee import ALGORITHM
from warpconv.codegen.classes import replace
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.devices.cpu.report import Mode

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
LAYOUTS = ("NHWC", "NCHW")
ARCHS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
# (C, H = W, filter, K, stride, padding): VGG's, MobileNet's, ShuffleNet's, Inception's, 4 channels under 5x5, ResNet's
LAYERS = ((3, 224, 3, 64, 1, 1), (3, 224, 3, 32, 2, 1), (3, 224, 3, 24, 2, 1), (3, 299, 3, 32, 2, 0),
          (4, 256, 5, 32, 1, 2), (3, 224, 7, 64, 2, 3))


def layer(c: int, h: int, size: int, k: int, stride: int, padding: int, layout: str, n: int = 32) -> ConvShape:
    return ConvShape(n=n, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding, layout=layout)


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=3, h=16, w=16, k=32, r=3, s=3, padding=1, layout="NHWC"), **changes})


# ---- what is served

@pytest.mark.parametrize("changes, arch, says", [
    (dict(c=13), "sm_90", "13 channels"), (dict(dtype="float16"), "sm_90", "float16"),
    (dict(k=3), "sm_90", "3 filters"), (dict(c=4, k=8, groups=2), "sm_90", "grouped has groups there"),
    (dict(c=4, k=16, groups=4, layout="NCHW"), "sm_90", "groups of one channel"),
    (dict(c=2 * 65537, k=4 * 65537, groups=65537, layout="NCHW"), "sm_90", "65537 groups"),
    ({}, "sm_75", "no asynchronous copies"),
    (dict(c=12, r=61, s=61, h=99, w=99), "sm_90", "do not fit")])
def test_layers_that_are_refused(changes, arch, says):
    spec = KernelSpec.of(small(**changes), algorithm="taps_ieee", arch=Arch.parse(arch))
    assert says in ALGORITHM.supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(columns=6), "columns = 6"), (dict(filters=0), "filters = 0"), (dict(tile_q=20), "no whole number"),
    (dict(filter_lanes=33), "filter_lanes = 33"), (dict(tile_p=3), "60 threads"),
    (dict(vector=2), "vector = 2"), (dict(vector=4, layout="NCHW", w=18), "W a multiple of 4"),
    (dict(store_vector=3), "store_vector = 3"),
    (dict(columns=16, filters=16, tile_p=16), "registers a thread"), (dict(min_blocks=99), "min_blocks = 99"),
    (dict(tile_p=64, tile_q=128, filter_lanes=1, c=4), "at most 64.: fewer columns, filters or outputs"),
    (dict(tile_p=8, tile_q=256, filter_lanes=1, c=12), "bytes of shared memory"),
    (dict(store_vector=4, layout="NCHW", w=18), "Q a multiple of 4"),
    (dict(tile_p=4, filter_lanes=2, layout="NCHW"), "16 runs of 8 columns with store_vector = 1")])
def test_plan_values_that_do_not_go_together(values, says):
    layer_fields = {name: values.pop(name) for name in ("layout", "w", "c") if name in values}
    with pytest.raises((UnsupportedSpec, warpconv.ArgumentError), match=says):
        plan_layer(small(**layer_fields), algorithm="taps_ieee", settings={
            "columns": 8, "filters": 4, "filter_lanes": 5, "tile_p": 8, "tile_q": 32, "min_blocks": 1, "vector": 1,
            "store_vector": 1, **values})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", LAYERS[:3])
def test_first_layers_of_short_sums_take_it(sizes, layout):
    """27 products are too few for the tensor cores, as exact as float32 units are."""
    for arch in ("sm_80", "sm_90"):
        assert select(layer(*sizes, layout), arch).algorithm == "taps_ieee"


def test_rounded_sums_take_it_where_that_is_quicker():
    """In NCHW with stride 2 and few filters the way to halves is most of taps_float32's work."""
    chosen = [select(layer(*sizes, "NCHW"), precision="tf32").algorithm
              for sizes in (LAYERS[0], (3, 224, 3, 12, 2, 1))]
    assert chosen == ["taps_float32", "taps_ieee"]


def test_long_rows_of_which_only_narrow_loads_leave_registers():
    """Windows of 148 columns: loads of 16 bytes would need more than there are."""
    for layout in LAYOUTS:
        shape = ConvShape(n=1, c=1, h=4, w=160, k=8, r=1, s=148, padding=(0, 1), layout=layout)
        assert plan_layer(shape, algorithm="taps_ieee").settings()["vector"] == 1


def test_longer_sums_take_it_where_float32_units_are_asked_for():
    shape = layer(*LAYERS[-1], "NHWC")
    assert select(shape).algorithm == "taps_float32" and select(shape, precision="ieee").algorithm == "taps_ieee"


@pytest.mark.parametrize("w, layout, vector", [(224, "NHWC", 4), (227, "NHWC", 1), (224, "NCHW", 4), (226, "NCHW", 1)])
def test_lines_are_copied_by_16_bytes_wherever_they_begin(w, layout, vector):
    made = plan_layer(small(h=w, w=w, layout=layout, stride=2), algorithm="taps_ieee")
    text = render(made).text
    assert made.settings()["vector"] == vector and made.program.argument("x").multiple_of == 16
    assert "wc_copy_async_16(" in text and ("struct Pitch" in text) == (vector == 1)


# ---- what is computed

def drawn(shape: ConvShape, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape.input_shape).astype("f4")
    x = x if shape.layout.value == "NCHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    return x, rng.standard_normal(shape.weight_shape).astype("f4")


@on_cpu_device
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_has_the_bits_of_implicit_gemm(layout):
    """Both add a sum's products one after the other, in the same order."""
    shape = ConvShape(n=2, c=5, h=19, w=20, k=12, r=3, s=4, stride=(1, 2), padding=(1, 2), dilation=(2, 1),
                      layout=layout)
    x, w = drawn(shape)
    ours, theirs = (warpconv.specialize(shape, algorithm=name, settings=values, device="cpu")(x, w)
                    for name, values in (("taps_ieee", {}), ("implicit_gemm", {"splits": 1})))
    assert np.array_equal(ours, theirs)


@on_cpu_device
@pytest.mark.parametrize("columns", [4, 8])
def test_outputs_that_change_hands_are_the_same_bits(columns):
    """Each store of a warp then is of neighbouring columns; by ones, by twos, and as a thread has them."""
    shape = ConvShape(n=2, c=3, h=19, w=32, k=20, r=3, s=3, padding=1)
    x, w = drawn(shape)
    tile = {"columns": columns, "filters": 8, "filter_lanes": 3, "tile_p": columns, "tile_q": 32, "min_blocks": 1}
    made = [warpconv.specialize(shape, algorithm="taps_ieee", device="cpu", settings={
        **tile, "vector": 1, "store_vector": store})(x, w) for store in (4, 2, 1)]
    assert np.array_equal(made[0], made[1]) and np.array_equal(made[0], made[2])


def test_rows_that_begin_anywhere_may_have_tiles_of_their_own_width():
    """What a block stores then lies side by side, but for its ends: 222 columns in 224."""
    shape = layer(3, 224, 3, 64, 1, 0, "NCHW", n=128)
    chosen = plan_layer(shape)
    assert chosen.spec.algorithm == "taps_ieee" and chosen.settings()["tile_q"] == 224
    assert chosen.settings()["store_vector"] == 2 and chosen.numbers.exchanged


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("vector", [4, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_block_of_many_tiles(layout, vector):
    """All tiles of one block: both buffers are filled again and again while the other is multiplied; every access is
    checked."""
    shape = small(h=20, w=20 if vector == 4 else 19, k=8, layout=layout)
    plan = plan_layer(shape, algorithm="taps_ieee", settings={
        "columns": 4, "filters": 4, "filter_lanes": 2, "tile_p": 8, "tile_q": 16, "min_blocks": 1, "vector": vector,
        "store_vector": vector if layout == "NCHW" else 4})
    x, w = drawn(shape)
    made = [checks.cpu_kernel(one, Mode.CHECK)(x, w) for one in (plan, checks.of_one_block(plan))]
    assert np.array_equal(*made) and np.isfinite(made[0]).all()


@on_cpu_device
@pytest.mark.parametrize("w, store_vector", [(31, 1), (32, 2)])
def test_where_outputs_lie_is_found_anew_or_kept(w, store_vector):
    """Of so many blocks side by side threads have no registers for each filter's place in y."""
    shape = small(h=9, w=w, c=3, k=32, padding=0, layout="NCHW")
    kept, anew = (plan_layer(shape, algorithm="taps_ieee", settings={
        "columns": 4, "filters": 16, "filter_lanes": 2, "tile_p": 4, "tile_q": 32, "min_blocks": blocks, "vector": 1,
        "store_vector": store_vector}) for blocks in (1, 8))
    assert anew.numbers.settled and not kept.numbers.settled
    x, w = drawn(shape)
    made = [checks.cpu_kernel(plan, Mode.CHECK)(x, w) for plan in (kept, anew)]
    assert np.array_equal(*made) and np.isfinite(made[0]).all()


# ---- what compilers make of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch, layers", settings.in_turn(ARCHS, [(s, n) for s in LAYERS for n in LAYOUTS]))
def test_sums_and_pixels_stay_in_registers(arch, layers):
    groups = [replace(layer(c, h, 3, c, 1, 1, "NCHW"), groups=32) for c, h in ((128, 56), (256, 28))]
    for shape in [layer(*sizes, layout) for sizes, layout in layers] + groups:
        made = plan_layer(shape, algorithm="taps_ieee", arch=arch)
        for entry in build(made).compiled.entries:
            assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), (shape, entry)
