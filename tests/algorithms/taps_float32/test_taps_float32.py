"""``taps_float32``: what is planned, refused and chosen, how exact it is, and what compilers make of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import warpconv
from bench.studies import precision
from tests import checks
from warpconv.codegen.algorithms.taps_float32 import ALGORITHM, numbers
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.numerics import Numerics
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
    (dict(c=13), "tf32x3", "sm_90", "13 channels"), (dict(dtype="float16"), "float32", "sm_90", "float16"),
    (dict(k=3), "tf32x3", "sm_90", "3 filters"),
    (dict(c=4, k=8, groups=2), "tf32", "sm_90", "2 groups"), ({}, "tf32x3", "sm_80", "no wgmma"),
    ({}, "float32", "sm_90", "float32 units"), (dict(c=12, r=61, s=61, h=99, w=99), "tf32x3", "sm_90", "do not fit")])
def test_layers_that_are_refused(changes, numerics, arch, says):
    spec = KernelSpec.of(small(**changes), algorithm="taps_float32", arch=Arch.parse(arch),
                         numerics=Numerics.parse(numerics))
    assert says in ALGORITHM.supports(spec)


@pytest.mark.parametrize("values, says", [
    (dict(groups=4), "groups = 4"), (dict(filters=20), "filters = 20"), (dict(tile_q=24), "no whole number"),
    (dict(tile_p=3), "no whole number"), (dict(stages=-1), "stages"), (dict(vector=2), "vector = 2"),
    (dict(vector=4, tile_q=8, tile_p=16, layout="NCHW", stride=1, w=18), "W a multiple of 4"),
    (dict(store_vector=3), "store_vector = 3"), (dict(filters=24, stores="staged"), "stores = staged of 24"),
    (dict(filters=256), "registers a thread"), (dict(tile_p=128, tile_q=64), "bytes of shared memory")])
def test_plan_values_that_do_not_go_together(values, says):
    layer_fields = {name: values.pop(name) for name in ("layout", "stride", "w") if name in values}
    with pytest.raises((UnsupportedSpec, warpconv.ArgumentError), match=says):
        plan_layer(small(**layer_fields), algorithm="taps_float32", precision="tf32x3", settings={
            "tile_p": 8, "tile_q": 16, "filters": 32, "groups": 2, "stages": 3, "vector": 1, "store_vector": 1,
            "stores": "direct", **values})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", LAYERS)
def test_first_layers_take_it(sizes, layout):
    """As exact as float32 units, or rounded to TF32 where that is asked for."""
    chosen = select(layer(*sizes, layout))
    assert (chosen.algorithm, chosen.spec.numerics) == ("taps_float32", Numerics.TF32X3)
    if sizes[0] < 8:
        quick = select(layer(*sizes, layout), precision="tf32")
        assert (quick.algorithm, quick.spec.numerics) == ("taps_float32", Numerics.TF32)
    assert select(layer(*sizes, layout), precision="ieee").algorithm != "taps_float32"
    assert select(layer(*sizes, layout), "sm_80").algorithm != "taps_float32"


def test_lines_are_copied_by_16_bytes_where_rows_are_whole():
    for w, layout, vector in ((224, "NHWC", 4), (227, "NHWC", 1), (224, "NCHW", 4), (226, "NCHW", 1)):
        made = plan_layer(small(h=w, w=w, layout=layout, stride=2), algorithm="taps_float32")
        assert made.settings()["vector"] == vector and made.program.argument("x").multiple_of == 4 * vector
        assert ("wc_copy_async_zfill_16(" in render(made).text) == (vector == 4)


def test_what_the_border_has_of_the_image_is_copied_element_by_element():
    made = plan_layer(small(padding_mode="reflect"), algorithm="taps_float32")
    assert made.settings()["vector"] == 1 and "at_border(" in render(made).text


# ---- what is computed

def drawn(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((1, 14, 14, 3)).astype("f4"), rng.standard_normal((8, 3, 3, 3)).astype("f4")


@on_cpu_device
@pytest.mark.parametrize("way", ["tf32x3", "tf32"])
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


@on_cpu_device
def test_ways_to_copy_and_to_store_give_the_same_bits():
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((2, 16, 20, 3)).astype("f4"), rng.standard_normal((64, 3, 5, 5)).astype("f4")
    shape = ConvShape(n=2, c=3, h=16, w=20, k=64, r=5, s=5, padding=2, layout="NHWC")
    values = {"tile_p": 8, "tile_q": 16, "filters": 64, "groups": 2}
    made = [warpconv.specialize(shape, algorithm="taps_float32", precision="tf32x3", device="cpu",
                                settings={**values, "stages": stages, "vector": vector, "store_vector": 4,
                                          "stores": stores})(x, w)
            for stages, vector, stores in ((1, 1, "direct"), (3, 4, "direct"), (2, 4, "staged"), (3, 1, "staged"))]
    assert all((one == made[0]).all() for one in made)


def errors(kind: str, layout: str, text: Any = None) -> tuple[precision.Errors, precision.Errors]:
    """Errors of tf32x3 and of float32 units in order, on the same data of 147 products."""
    shape, (x, w) = precision.shape_of("147"), precision.drawn("147", kind)
    given = x if layout == "NCHW" else x.transpose(0, 2, 3, 1).copy()
    if text is None:
        y = warpconv.conv2d(given, w, padding=shape.padding, layout=layout, device="cpu", precision="tf32x3",
                            algorithm="taps_float32")
    else:
        y = Kernel(backend.load(text))(given, w)
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
        assert ours.worst <= (precision.shape_of("147").reduction / numbers.STEP + 24) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_90"])
@pytest.mark.parametrize("way", ["tf32x3", "tf32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [LAYERS[0], *(pytest.param(sizes, marks=pytest.mark.long) for sizes in LAYERS[1:])])
def test_sums_stay_in_registers_and_products_are_not_made_one_by_one(sizes, layout, way, arch):
    """ptxas waits for each wgmma (C7510 to C7514) where it finds no other way to keep its registers apart."""
    made = plan_layer(layer(*sizes, layout), algorithm="taps_float32", arch=arch, precision=way)
    compiled = build(made).compiled
    for entry in compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
    assert not re.search("serialized", str(compiled)), compiled
