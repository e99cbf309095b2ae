"""``mma`` in float32: which layers it gets, how exact its ways are, what becomes of infinities, NaN and extremes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpconv
from bench.studies import precision
from tests import checks
from tests.algorithms.mma.test_mma import LAYERS, layer
from warpconv.codegen.algorithms.mma import choice
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.errors import ArgumentError, UnsupportedSpec
from warpconv.codegen.numerics import LEAST_PRODUCTS, Numerics
from warpconv.codegen.parts.first_layers import MOST_CHANNELS
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy import reference
from warpconv.runtime.build.pipeline import build
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import backend

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
DENSE = [sizes for sizes in LAYERS if sizes[-1] == 1 and sizes[0] * sizes[2] ** 2 >= LEAST_PRODUCTS]
# Data of which the outputs are made anew by float32 units, which add in another order than implicit_gemm
MADE_ANEW = ("a few times 1e30", "near the largest float")
# What docs/precision.md says that the default does not keep: sums in which single products outweigh all others
NOT_KEPT = ("a few times 1e12",)


# ---- what is chosen

@pytest.mark.thin(2)
@pytest.mark.parametrize("sizes", DENSE)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_dense_layers_in_nhwc_are_split_by_default(sizes, arch):
    chosen = select(layer(*sizes, dtype="float32"), arch)
    wanted = ("mma", Numerics.TF32X3)
    if arch == "sm_90" and sizes[0] % 4 == 0:
        wanted = ("wgmma", Numerics.FP16X3)
    elif arch == "sm_90" and sizes[0] <= MOST_CHANNELS:
        wanted = ("taps_float32", Numerics.FP16X3)
    assert (chosen.algorithm, chosen.spec.numerics) == wanted
    assert select(layer(*sizes, dtype="float32"), arch, precision="ieee").spec.numerics is Numerics.FLOAT32
    quick = select(layer(*sizes, dtype="float32"), arch, precision="tf32")
    assert quick.spec.numerics is Numerics.TF32 and quick.request.numerics is Numerics.TF32


@pytest.mark.parametrize("sizes", [(64, 56, 3, 64, 1, 1, 1), (512, 28, 1, 256, 1, 0, 1), (512, 7, 3, 512, 1, 1, 1)])
def test_where_tensor_cores_have_twice_the_rate_of_units_three_products_are_no_quicker_than_one(sizes):
    chosen = select(layer(*sizes, dtype="float32"), "sm_120")
    assert chosen.algorithm == "implicit_gemm" and chosen.spec.numerics is Numerics.FLOAT32
    quick = select(layer(*sizes, dtype="float32"), "sm_120", precision="tf32")
    assert quick.algorithm == "mma" and quick.spec.numerics is Numerics.TF32


def test_short_sums_and_old_gpus_keep_float32_units():
    short = layer(64, 56, 1, 64, 1, 0, 1, dtype="float32")
    assert short.reduction < LEAST_PRODUCTS and select(short).spec.numerics is Numerics.FLOAT32
    assert select(short, precision="tf32x3").algorithm == "mma"
    assert select(layer(*DENSE[0], dtype="float32"), "sm_75").spec.numerics is Numerics.FLOAT32


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_estimates_are_what_layers_took(layout):
    for sizes in DENSE:
        found = next(a for a in explain(layer(*sizes, dtype="float32", layout=layout)) if a.algorithm == "mma")
        spec, batch = found.plan.spec, layer(*sizes, dtype="float32", layout=layout)
        batch = batch.with_batch(assumed_batch(batch))
        many = batch.n * batch.p * batch.q > choice.FEW_PIXELS
        share = choice.SPLIT_SHARE if layout == "NHWC" else choice.MANY_SHARE if many else choice.NCHW_SHARE
        alone = choice.cycles(spec, found.plan.options, batch)
        assert found.estimate == pytest.approx(share * 4 * spec.hardware.multiprocessors * alone)
        assert spec.numerics is Numerics.TF32X3


@pytest.mark.parametrize("sizes, name", [
    ((64, 56, 3, 64, 1, 1, 1), "implicit_gemm"), ((512, 28, 1, 256, 1, 0, 1), "implicit_gemm"),
    ((512, 14, 3, 512, 2, 1, 1), "mma"), ((512, 7, 3, 512, 1, 1, 1), "mma")])
def test_the_quicker_one_in_nchw(sizes, name):
    """Of the two, as timed at batch 32 (us, mma and implicit_gemm): 179, 162; 171, 138; 236, 303; 232, 265."""
    found = {a.algorithm: a.estimate for a in explain(layer(*sizes, dtype="float32", layout="NCHW")) if a.supported}
    assert min(("mma", "implicit_gemm"), key=found.__getitem__) == name


@pytest.mark.parametrize("changes, wanted, says", [
    (dict(dtype="float16"), dict(precision="tf32x3"), "tf32x3 products of float16"),
    (dict(dtype="float16"), dict(precision="ieee"), "ieee products of float16"),
    (dict(dtype="uint8"), dict(precision="tf32"), "tf32 products of uint8")])
def test_a_precision_is_for_float32_elements(changes, wanted, says):
    with pytest.raises(UnsupportedSpec, match=says):
        plan_layer(ConvShape(c=16, h=9, w=9, k=32, r=3, s=3, **changes), **wanted)


def test_contradictory_pairs_and_unknown_names_are_refused():
    shape = ConvShape(c=16, h=9, w=9, k=32, r=3, s=3)
    with pytest.raises(ArgumentError, match="no kernel sums in float16 with tf32"):
        plan_layer(shape, numerics="float16", precision="tf32")
    with pytest.raises(ArgumentError, match="unknown precision.*float32, ieee, tf32x3, fp16x3, tf32"):
        plan_layer(shape, precision="fp64")
    with pytest.raises(ArgumentError, match="has tf32 products already"):
        plan_layer(shape, numerics=Numerics.TF32, precision="ieee")
    x, w = np.zeros((1, 16, 9, 9), "f4"), np.zeros((32, 16, 3, 3), "f4")
    with pytest.raises(ArgumentError, match="unknown arithmetic"):
        warpconv.conv2d(x, w, accum_dtype="tf32", device="cpu")
    for odd in (None, 3, np.zeros(2), ["tf32"], b"tf32"):
        with pytest.raises(ArgumentError, match="unknown precision"):
            warpconv.conv2d(x, w, precision=odd, device="cpu")
        with pytest.raises(ArgumentError, match="unknown arithmetic" if odd is not None else "unknown precision"):
            warpconv.conv2d(x, w, accum_dtype=odd, precision="?" if odd is None else "tf32", device="cpu")
    with pytest.raises(UnsupportedSpec, match="float32 units are not served"):
        warpconv.conv2d(x, w, precision="ieee", algorithm="mma", device="cpu")


# ---- how exact it is

def compared(layer_name: str, kind: str) -> tuple[precision.Errors, precision.Errors]:
    """Errors of tf32x3 and of float32 units in order, on the same data."""
    shape, (x, w) = precision.shape_of(layer_name), precision.drawn(layer_name, kind)
    made = {way: precision.computed(way, x, w, shape, "cpu") for way in ("tf32x3", "ieee")}
    return tuple(precision.errors_of(made[way], x, w, shape) for way in ("tf32x3", "ieee"))


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("kind", precision.KINDS)
@pytest.mark.parametrize("name", ["96", pytest.param("147", marks=pytest.mark.long),
                                  pytest.param("576", marks=pytest.mark.long),
                                  pytest.param("2304", marks=pytest.mark.long)])
def test_the_default_is_no_less_exact_than_float32_units(name, kind):
    ours, theirs = compared(name, kind)
    if kind in NOT_KEPT:        # what the guaranteed bound alone says
        assert ours.worst <= (precision.shape_of(name).reduction / 8 + 16) * 2**-24
        return
    margin = 1.25 if kind in MADE_ANEW else 1.0
    assert ours.norm <= margin * theirs.norm and ours.worst <= margin * theirs.worst


@pytest.mark.long
@on_cpu_device
@pytest.mark.parametrize("kind", ["signed", pytest.param("non-negative", marks=pytest.mark.long)])
def test_sums_left_in_the_tensor_cores_would_fail_the_bound(kind):
    """The text without the addition after each instruction: the emulated tensor cores cut sums, as a GPU's do."""
    shape, (x, w) = precision.shape_of("576"), precision.drawn("576", kind)
    plan = plan_layer(shape, algorithm="mma", settings={"splits": 1})
    text, count = re.subn(r"float4 small = \{\}, large = \{\};", "float4 small = {}, &large = sums[m][n];",
                          render(plan).text)
    for axis in "xyzw":
        text, more = re.subn(rf"sums\[m\]\[n\]\.{axis} \+= small\.{axis} \+ large\.{axis};",
                             f"large.{axis} += small.{axis};", text)
        count += more
    assert count == 5
    loaded, source = backend.load_text(plan.spec, plan.program, text)
    worse = precision.errors_of(Kernel(plan.spec, plan.program, loaded, source=source, plan=plan)(x, w), x, w, shape)
    ours, theirs = compared("576", kind)
    assert ours.norm < theirs.norm < worse.norm and worse.norm > 4 * ours.norm


@on_cpu_device
@pytest.mark.parametrize("precision_, digits", [("tf32x3", 1e-6), ("tf32", 1e-3)])
@pytest.mark.parametrize("layout", ["NHWC", pytest.param("NCHW", marks=pytest.mark.long)])
def test_each_way_is_within_its_bound(precision_, digits, layout):
    """Odd channels, a border, a stride, split sums: against float64, and no better than it can be."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((2, 11, 13, 37) if layout == "NHWC" else (2, 37, 11, 13)).astype("f4")
    w = rng.standard_normal((21, 37, 3, 3)).astype("f4")
    shape = ConvShape.of(x.shape, w.shape, layout=layout, padding=1, stride=2, padding_mode="reflect")
    kernel = warpconv.specialize(shape, device="cpu", algorithm="mma", precision=precision_, settings={"splits": 3})
    y = kernel(x, w)
    assert reference.compare(y, x, w, shape, numerics=Numerics(precision_)).within
    exact = reference.reference(x, w, shape).output
    assert digits / 100 < np.linalg.norm(y - exact) / np.linalg.norm(exact) < digits


# ---- what is not finite

@on_cpu_device
@pytest.mark.parametrize("precision_", ["float32", "tf32"])
@pytest.mark.parametrize("layout, splits, groups", [
    ("NHWC", 1, 1), *(pytest.param(*case, marks=pytest.mark.long) for case in (
        ("NCHW", 1, 2), ("NHWC", 2, 2), ("NCHW", 2, 1)))])
def test_infinities_and_nan_come_out_as_of_float32_units(precision_, layout, splits, groups):
    """In pixels and in filters, beside zeros and beside factors that TF32 holds exactly."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 9, 9, 24) if layout == "NHWC" else (2, 24, 9, 9)).astype("f4")
    w = rng.standard_normal((10, 24 // groups, 3, 3)).astype("f4")
    for array in (x, w):
        flat = array.reshape(-1)
        flat[rng.integers(0, flat.size, flat.size // 3)] = 0.0
        flat[rng.integers(0, flat.size, flat.size // 3)] = 1.0
    flat = x.reshape(-1)
    flat[rng.integers(0, flat.size, 4)] = [np.inf, -np.inf, np.inf, np.nan]
    flat.view("u4")[rng.integers(0, flat.size, 2)] = [0x7FFFFFFF, 0xFF800001]      # NaN of other bits
    w[3, 5, 1, 1], w[7, 0, 0, 2] = np.inf, np.nan
    shape = ConvShape.of(x.shape, w.shape, layout=layout, padding=1, groups=groups)
    kernel = warpconv.specialize(shape, device="cpu", algorithm="mma", precision=precision_,
                                 settings={"splits": splits})
    with np.errstate(invalid="ignore"):
        y, exact = kernel(x, w), reference.reference(x, w, shape).output
    assert np.array_equal(np.isnan(y), np.isnan(exact)) and 0.1 < np.isnan(exact).mean() < 0.9
    assert np.array_equal(np.isposinf(y), np.isposinf(exact)) and np.array_equal(np.isneginf(y), np.isneginf(exact))
    assert np.isinf(exact).any()


@on_cpu_device
def test_what_the_scale_has_no_room_for_is_made_by_float32_units():
    """Factors beyond 2^104, sums beyond 2^80, and sums beyond the largest float, epilogue and residual included."""
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((1, 8, 8, 96)).astype("f4"), rng.standard_normal((16, 96, 1, 1)).astype("f4")
    residual, bias = rng.standard_normal((1, 8, 8, 16)).astype("f4"), rng.standard_normal(16).astype("f4")
    x[0, :2] *= np.float32(1e36)
    x[0, 2:4] *= np.float32(1e25)
    x[0, 6:] = np.float32(3e38) * np.sign(w[3, :, 0, 0])
    kernel = warpconv.specialize(ConvShape.of(x.shape, w.shape, layout="NHWC"), device="cpu", algorithm="mma",
                                 epilogue=("bias", "residual"), settings={"splits": 1})
    y = kernel(x, w, bias, residual=residual)
    units = warpconv.conv2d(x, w, bias, layout="NHWC", residual=residual, device="cpu", precision="ieee")
    assert np.array_equal(np.isinf(y), np.isinf(units)) and np.isinf(y[0, 6:, :, 3]).all()
    fine = np.isfinite(units)
    magnitude = np.abs(x.astype("f8")) @ np.abs(w[:, :, 0, 0]).T.astype("f8") + np.abs(bias) + np.abs(residual)
    assert (np.abs(y[fine].astype("f8") - units[fine]) <= 96 * 2.0**-23 * magnitude[fine]).all()


# ---- what compilers make of it

@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch", ["sm_90", pytest.param("sm_80", marks=pytest.mark.long),
                                  pytest.param("sm_89", marks=pytest.mark.long),
                                  pytest.param("sm_100", marks=pytest.mark.long),
                                  pytest.param("sm_120", marks=pytest.mark.long)])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("sizes", [LAYERS[3], *(pytest.param(sizes, marks=pytest.mark.long) for sizes in LAYERS)])
@pytest.mark.parametrize("n, way", [(32, "tf32x3"), *(pytest.param(n, way, marks=pytest.mark.long) for n, way in (
    (1, "tf32x3"), (32, "tf32"), (1, "tf32")))])
def test_sums_and_parts_of_factors_stay_in_registers(sizes, layout, n, way, arch):
    made = plan_layer(layer(*sizes, n=n, layout=layout, dtype="float32"), algorithm="mma", arch=arch, precision=way)
    for entry in build(made).compiled.entries:
        assert (entry.spill_stores, entry.spill_loads, entry.stack_bytes) == (0, 0, 0), entry
