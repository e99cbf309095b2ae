"""``taps_float32``: what is planned, refused and chosen, how exact it is, and what compilers make of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import warpconv
from bench.studies import precision
from tests import checks
from warpconv.codegen.algorithms.taps_float32 import ALGORITHM
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.numerics import Numerics
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import backend

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
LAYOUTS = ("NHWC", "NCHW")
# (C, H = W, filter, K, stride, padding): ResNet's, AlexNet's, ViT's, those of grey images, of eight channels
LAYERS = ((3, 224, 7, 64, 2, 3), (3, 227, 11, 96, 4, 0), (3, 224, 8, 128, 8, 0), (1, 256, 11, 32, 1, 5),
          (8, 56, 5, 64, 1, 2))
# Data of which some outputs are made anew by float32 units, which add in another order than implicit_gemm
MADE_ANEW = ("a few times 1e30", "near the largest float")
# What docs/precision.md says that the default does not keep: sums in which single products outweigh all others
NOT_KEPT = ("a few times 1e12",)


def layer(c: int, h: int, size: int, k: int, stride: int, padding: int, layout: str, n: int = 32) -> ConvShape:
    return ConvShape(n=n, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding, layout=layout)


def small(**changes: Any) -> ConvShape:
    return ConvShape(**{**dict(n=1, c=3, h=16, w=16, k=32, r=7, s=7, padding=3, layout="NHWC"), **changes})


# ---- what is served

@pytest.mark.parametrize("changes, numerics, arch, says", [
    (dict(c=13), "fp16x3", "sm_90", "13 channels"), (dict(dtype="float16"), "float32", "sm_90", "float16"),
    (dict(k=3), "fp16x3", "sm_90", "3 filters"),
    (dict(c=4, k=8, groups=2), "tf32", "sm_90", "2 groups"), ({}, "fp16x3", "sm_80", "no wgmma"),
    ({}, "float32", "sm_90", "float32 units"), (dict(c=12, r=61, s=61, h=99, w=99), "fp16x3", "sm_90", "do not fit")])
def test_layers_that_are_refused(changes, numerics, arch, says):
    spec = KernelSpec.of(small(**changes), algorithm="taps_float32", arch=Arch.parse(arch),
                         numerics=Numerics.parse(numerics))
    assert says in ALGORITHM.supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(groups=5), "groups = 5"), (dict(buffers=5), "buffers = 5"), (dict(raws=3), "raws = 3"),
    (dict(copiers=6), "copiers = 6"), (dict(copiers=8, shifts=2), "shifts = 2"),
    (dict(groups=3, buffers=2), "buffers = 2 of 3 groups"), (dict(shifts=2, buffers=3), "3 of 2 groups and 2 shifts"),
    (dict(passes=0), "passes = 0"), (dict(filters=20), "filters = 20"), (dict(shares=3), "shares = 3"),
    (dict(shares=2, filters=24), "shares = 2 of 24 filters"), (dict(tile_q=24), "no whole number"),
    (dict(tile_p=3), "no whole number"), (dict(vector=2), "vector = 2"),
    (dict(vector=4, tile_q=8, layout="NCHW", stride=1, w=18), "W a multiple of 4"),
    (dict(store_vector=3), "store_vector = 3"), (dict(filters=256), "registers a thread"),
    (dict(tile_p=128, tile_q=64), "bytes of shared memory"), (dict(stores="rows"), "in NCHW"),
    (dict(together=2), "together = 2 with stores = direct"), (dict(together=3), "together = 3"),
    (dict(stores="rows", layout="NCHW", tile_q=20, tile_p=16), "no whole number"),
    (dict(stores="rows", layout="NCHW", w=17), "at most 8")])
def test_plan_values_that_do_not_go_together(values, says):
    layer_fields = {name: values.pop(name) for name in ("layout", "stride", "w") if name in values}
    with pytest.raises((UnsupportedSpec, warpconv.ArgumentError), match=says):
        plan_layer(small(**layer_fields), algorithm="taps_float32", precision="fp16x3", settings={
            "tile_p": 8, "tile_q": 8, "filters": 32, "passes": 1, "shares": 1, "groups": 2, "buffers": 2, "raws": 1,
            "copiers": 4, "shifts": 1, "vector": 1, "store_vector": 1, "stores": "direct", "together": 1, **values})


@pytest.mark.thin(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", LAYERS)
def test_first_layers_take_it(sizes, layout):
    """As exact as float32 units, or rounded to TF32 where that is asked for."""
    chosen = select(layer(*sizes, layout))
    assert (chosen.algorithm, chosen.spec.numerics) == ("taps_float32", Numerics.FP16X3)
    if sizes[0] < 8 and sizes[4] < 8:
        quick = select(layer(*sizes, layout), precision="tf32")
        assert (quick.algorithm, quick.spec.numerics) == ("taps_float32", Numerics.TF32)
    assert select(layer(*sizes, layout), precision="ieee").algorithm != "taps_float32"
    assert select(layer(*sizes, layout), "sm_80").algorithm != "taps_float32"


@pytest.mark.parametrize("h, size, k, stride, padding, precision, stores", [
    (227, 7, 64, 2, 0, "fp16x3", "rows"), (227, 7, 64, 2, 0, "tf32", "rows"), (224, 3, 64, 1, 0, "tf32", "rows"),
    (299, 3, 32, 2, 0, "tf32", "rows"), (224, 7, 64, 2, 3, "fp16x3", "direct"),
    (227, 11, 96, 4, 0, "fp16x3", "direct")])
def test_rows_of_y_that_begin_anywhere_are_put_together_first(h, size, k, stride, padding, precision, stores):
    """Else memory gets parts of its 32 bytes; where shared memory has room for them beside the filter."""
    made = plan_layer(layer(3, h, size, k, stride, padding, "NCHW", n=128), arch="sm_90", precision=precision)
    assert (made.spec.algorithm, made.settings()["stores"]) == ("taps_float32", stores)


def test_lines_are_bulk_copies_wherever_they_begin():
    for w, layout, vector in ((224, "NHWC", 4), (227, "NHWC", 1), (224, "NCHW", 4), (226, "NCHW", 1)):
        made = plan_layer(small(h=w, w=w, layout=layout, stride=2), algorithm="taps_float32")
        text = render(made).text
        assert made.settings()["vector"] == vector and made.program.argument("x").multiple_of == 16
        assert "wc_bulk_load(line_to" in text and ("struct Pitch" in text) == (vector == 1)
    reflected = plan_layer(small(padding=1, padding_mode="reflect"), algorithm="taps_float32")
    assert "wc_copy_async_16(" in render(reflected).text        # rows of the image in other places: by 16 bytes


@pytest.mark.parametrize("layout, c, stride, copies", [
    ("NHWC", 3, 1, 2), ("NHWC", 3, 2, 1), ("NHWC", 4, 1, 1), ("NCHW", 3, 1, 2), ("NCHW", 3, 2, 1)])
def test_lines_of_halves_are_there_twice_where_windows_begin_inside_of_words(layout, c, stride, copies):
    made = plan_layer(small(c=c, layout=layout, stride=stride), algorithm="taps_float32")
    assert made.numbers.part_words == copies * made.numbers.copy_words


@pytest.mark.parametrize("layout, chosen", [("NHWC", (96, 1, 2)), ("NCHW", (48, 2, 1))])
def test_filters_that_there_are_no_registers_for_at_once(layout, chosen):
    """AlexNet's 96 filters: in two shares, by factors that are loaded once; where shared memory has no room for all,
    in two passes over pixels that are split once."""
    made = plan_layer(layer(*LAYERS[1], layout), algorithm="taps_float32", arch="sm_90").settings()
    assert (made["filters"], made["passes"], made["shares"]) == chosen


# ---- what is computed

def drawn(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((1, 14, 14, 3)).astype("f4"), rng.standard_normal((8, 3, 3, 3)).astype("f4")


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("way", ["fp16x3", "tf32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_that_fill_up_an_instruction_do_not_spread_what_is_not_finite(layout, way):
    """27 products stand in 32: Inf and NaN reach the outputs whose windows hold them, and no other."""
    x, w = drawn()
    x[0, 5, 5, 2], x[0, 0, 0, 0] = np.inf, np.nan
    given = x if layout == "NHWC" else x.transpose(0, 3, 1, 2).copy()
    y, ieee = (warpconv.conv2d(given, w, padding=1, layout=layout, device="cpu", precision=precision, **algorithm)
               for precision, algorithm in ((way, {"algorithm": "taps_float32"}), ("ieee", {})))
    assert (np.isfinite(y) == np.isfinite(ieee)).all() and not np.isfinite(y).all()
    assert (np.isposinf(y) == np.isposinf(ieee)).all() and (np.isnan(y) == np.isnan(ieee)).all()


@pytest.mark.long
@on_cpu_device
def test_ways_to_copy_and_to_store_give_the_same_bits():
    """Tiles of 64 outputs have their scale each, so what is changed is not the tile."""
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((2, 16, 20, 3)).astype("f4"), rng.standard_normal((64, 3, 5, 5)).astype("f4")
    shape = ConvShape(n=2, c=3, h=16, w=20, k=64, r=5, s=5, padding=2, layout="NHWC")
    made = [warpconv.specialize(shape, algorithm="taps_float32", precision="fp16x3", device="cpu", settings={
        "tile_p": 8, "tile_q": 8, "filters": filters, "passes": 64 // filters, "groups": 2, "buffers": buffers,
        "raws": raws, "copiers": copiers, "shifts": shifts, "vector": vector, "store_vector": store})(x, w)
        for filters, buffers, raws, copiers, shifts, vector, store in (
            (64, 2, 1, 4, 1, 1, 4), (32, 3, 2, 8, 1, 4, 4), (32, 2, 2, 4, 2, 4, 1), (64, 4, 1, 4, 2, 1, 2))]
    assert all((one == made[0]).all() for one in made)


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("way", ["fp16x3", "tf32"])
@pytest.mark.parametrize("h, w, ahead", [(19, 32, 0), (18, 30, 1), (21, 21, 3)])
def test_rows_put_together_first_are_the_same_bits(h, w, ahead, way):
    """In y from any element on; several passes, filters and rows that a tile has and y has not, a last time of fewer
    outputs."""
    rng = np.random.default_rng(4)
    x, filters = rng.standard_normal((2, 3, h, w)).astype("f4"), rng.standard_normal((40, 3, 3, 3)).astype("f4")
    shape = ConvShape(n=2, c=3, h=h, w=w, k=40, r=3, s=3, padding=1)
    values = {"tile_p": 6, "tile_q": 32, "filters": 24, "vector": 1, "store_vector": 1}
    ring = dict(zip(("groups", "buffers", "raws", "copiers", "shifts"), RINGS[0]))
    direct = warpconv.specialize(shape, algorithm="taps_float32", device="cpu", precision=way, settings={
        **values, **ring, "passes": 1, "stores": "direct", "together": 1})(x, filters)
    for passes, together, ring in ((1, 1, RINGS[0]), (2, 2, RINGS[3]), (1, 4, RINGS[2])):
        kernel = warpconv.specialize(shape, algorithm="taps_float32", device="cpu", precision=way, settings={
            **values, **dict(zip(("groups", "buffers", "raws", "copiers", "shifts"), ring)), "passes": passes,
            "stores": "rows", "together": together})
        memory = np.full(ahead + direct.size + 1, 7, "f4")
        kernel(x, filters, out=memory[ahead:-1].reshape(direct.shape))
        assert np.array_equal(memory[ahead:-1], direct.ravel())
        assert (memory[:ahead] == 7).all() and memory[-1] == 7


def loaded(plan: KernelPlan, *edits: tuple[str, str]) -> Kernel:
    """A plan's kernel on the CPU device, of its text with some edits."""
    text = render(plan).text
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    made, source = backend.load_text(plan.spec, plan.program, text)
    return Kernel(plan.spec, plan.program, made, source=source, plan=plan)


def dark_windows(layout: str) -> tuple[np.ndarray, np.ndarray]:
    """One pixel 2^60 times as bright as all others."""
    x, w = drawn(5)
    x[0, 7, 7, 1] = 2.0**60
    return (x if layout == "NHWC" else x.transpose(0, 3, 1, 2).copy()), w


@pytest.mark.thin(4)
@on_cpu_device
@pytest.mark.parametrize("way", ["fp16x3", "tf32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_windows_beside_a_pixel_that_takes_their_digits_are_made_by_float32_units(layout, way):
    """Their pixels are zeros in the tile's scale; a kernel without the limit gives 0 for them."""
    x, w = dark_windows(layout)
    shape = ConvShape(n=1, c=3, h=14, w=14, k=8, r=3, s=3, padding=1, layout=layout)
    plan = plan_layer(shape, algorithm="taps_float32", precision=way)
    units = warpconv.conv2d(x, w, padding=1, layout=layout, device="cpu", precision="ieee")
    assert np.allclose(loaded(plan)(x, w), units, rtol=2e-3 if way == "tf32" else 1e-5,
                       atol=2e-2 if way == "tf32" else 2e-5)
    without = loaded(plan, ("is_kept(of_tile) ? 0.0f : LEAST_SUM", "0.0f"))(x, w)
    assert (without == 0).sum() > (units == 0).sum() + 100


@on_cpu_device
def test_weights_that_lose_digits_leave_small_sums_to_float32_units():
    """Of a filter whose largest weight meets zeros alone: the others are zeros in its scale."""
    x, w = drawn(6)
    x[..., 0], w[:, 0] = 0, 2.0**60
    y = warpconv.conv2d(x, w, padding=1, layout="NHWC", device="cpu", precision="fp16x3", algorithm="taps_float32")
    units = warpconv.conv2d(x, w, padding=1, layout="NHWC", device="cpu", precision="ieee")
    assert np.abs(units).max() > 1 and np.allclose(y, units, rtol=1e-5, atol=1e-5)


@on_cpu_device
def test_sums_of_high_parts_begin_at_zero_every_32_products():
    """Tensor cores cut sums: with one chain for all of a window's products the default's bound does not hold."""
    plan = plan_layer(precision.shape_of("147"), algorithm="taps_float32", precision="fp16x3")
    high = "high + cells_of(step * STEP_DEPTHS + i), "
    chained = loaded(plan, (high + "i > 0)", high + "step + i > 0)"),
                     ("step > 0 ? sums[i] + parts[i] : parts[i]", "parts[i]"))
    (ours, units), (in_a_chain, _) = errors("non-negative", "NCHW"), errors("non-negative", "NCHW", chained)
    assert ours.norm <= units.norm < in_a_chain.norm


# (groups, buffers, raws, copiers, shifts): buffers that groups and shifts go round in, each group one or several
RINGS = ((2, 2, 1, 4, 1), (2, 3, 2, 8, 1), (3, 4, 1, 4, 1), (2, 4, 2, 4, 2), (2, 2, 1, 4, 2), (3, 6, 2, 4, 2))


@pytest.mark.thin(4)
@on_cpu_device
@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("way", ["fp16x3", "tf32"])
def test_a_block_of_many_tiles(ring, way):
    """25 tiles of one block: every buffer is filled and freed several times, in both phases of its barriers."""
    names = ("groups", "buffers", "raws", "copiers", "shifts")
    shape = ConvShape(n=1, c=3, h=40, w=40, k=16, r=3, s=3, padding=1, layout="NHWC")
    plan = plan_layer(shape, algorithm="taps_float32", precision=way, settings={
        "tile_p": 8, "tile_q": 8, "filters": 16, "passes": 1, "shares": 1, **dict(zip(names, ring)),
        "vector": 4, "store_vector": 4})
    rng = np.random.default_rng(9)
    x, w = rng.standard_normal((1, 40, 40, 3)).astype("f4"), rng.standard_normal((16, 3, 3, 3)).astype("f4")
    y = loaded(checks.of_one_block(plan))(x, w)
    assert np.array_equal(y, loaded(plan)(x, w))
    units = warpconv.conv2d(x, w, padding=1, layout="NHWC", device="cpu", precision="ieee")
    assert np.linalg.norm(y - units) <= (1e-3 if way == "tf32" else 1e-6) * np.linalg.norm(units)


@on_cpu_device
def test_the_least_floats_keep_their_digits_beside_large_weights():
    """The tile's scale alone would leave subnormal sums, of few digits."""
    rng = np.random.default_rng(8)
    x = (rng.integers(-9, 10, (1, 14, 14, 3)) * 2.0**-149).astype("f4")
    w = (rng.standard_normal((8, 3, 3, 3)) * 2.0**100).astype("f4")
    y, units = (warpconv.conv2d(x, w, padding=1, layout="NHWC", device="cpu", precision=way, **algorithm)
                for way, algorithm in (("fp16x3", {"algorithm": "taps_float32"}), ("ieee", {})))
    assert np.linalg.norm((y - units) * 2.0**50) <= 1e-6 * np.linalg.norm(units * 2.0**50)


def test_a_line_that_a_thread_has_too_many_words_of_is_refused():
    shape = ConvShape(n=1, c=12, h=300, w=300, k=32, r=3, s=3, stride=4, layout="NHWC")
    with pytest.raises(UnsupportedSpec, match="words of a line"):
        plan_layer(shape, algorithm="taps_float32", precision="fp16x3", settings={
            "tile_p": 1, "tile_q": 64, "filters": 32, "passes": 1, "groups": 2, "buffers": 2, "raws": 1, "copiers": 4,
            "shifts": 1, "vector": 4, "store_vector": 4})


def errors(kind: str, layout: str, kernel: Any = None) -> tuple[precision.Errors, precision.Errors]:
    """Errors of fp16x3 and of float32 units in order, on the same data of 147 products."""
    shape, (x, w) = precision.shape_of("147"), precision.drawn("147", kind)
    given = x if layout == "NCHW" else x.transpose(0, 2, 3, 1).copy()
    if kernel is None:
        y = warpconv.conv2d(given, w, padding=shape.padding, layout=layout, device="cpu", precision="fp16x3",
                            algorithm="taps_float32")
    else:
        y = kernel(given, w)
    y = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    units = precision.computed("ieee", x, w, shape, "cpu")
    return precision.errors_of(y, x, w, shape), precision.errors_of(units, x, w, shape)


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("kind", precision.KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_default_is_no_less_exact_than_float32_units(kind, layout):
    ours, theirs = errors(kind, layout)
    if kind in NOT_KEPT:        # what the guaranteed bound alone says
        assert ours.worst <= (precision.shape_of("147").reduction / 32 + 24) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.thin(4)
@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_90"])
@pytest.mark.parametrize("way", ["fp16x3", "tf32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [LAYERS[0], *(pytest.param(sizes, marks=pytest.mark.long) for sizes in LAYERS[1:])])
def test_sums_stay_in_registers_and_products_are_not_made_one_by_one(sizes, layout, way, arch):
    """ptxas waits for each wgmma (C7510 to C7514) where it finds no other way to keep its registers apart."""
    made = plan_layer(layer(*sizes, layout), algorithm="taps_float32", arch=arch, precision=way)
    compiled = build(made).compiled
    for entry in compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
    assert not re.search("serialized", str(compiled)), compiled
