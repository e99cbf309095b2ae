"""Separable filters: which are recognised, what their kernels compute, and when calls take them."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpconv
from tests import checks, reference, settings
from warpconv.codegen.algorithms.wide.options import Loads, BankWeights
from warpconv.codegen.banner import emit_command
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.render import render
from warpconv.codegen.request import Request
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays, env
from warpconv.runtime.build import compilers
from warpconv.runtime.call.separable import TOLERANCE, factorise, pays, recognised, whole

EPS = 2.0**-23
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def layer(r: int = 7, s: int | None = None, **changes: Any) -> ConvShape:
    s = r if s is None else s
    return ConvShape(**{**dict(c=1, h=50, w=72, k=1, r=r, s=s, padding=(r // 2, s // 2)), **changes})


def gaussian(taps: int, sigma: float) -> np.ndarray:
    """(1, 1, taps, taps), float32, made in float64."""
    line = np.exp(-0.5 * ((np.arange(taps) - taps // 2) / sigma) ** 2)
    full = np.outer(line, line)
    return (full / full.sum()).astype(np.float32)[None, None]


def product(rng: np.random.Generator, k: int, r: int, s: int, dtype: type = np.float32) -> np.ndarray:
    """Random products of columns and rows, rounded."""
    return (rng.standard_normal((k, 1, r, 1)) * rng.standard_normal((k, 1, 1, s))).astype(dtype)


# ---- factors

@pytest.mark.parametrize("column, row", [
    ([1, 2, 1], [-1, 0, 1]), ([-1, 0, 1], [1, 2, 1]), ([1, 1, 1], [-1, 0, 1]), ([3, 10, 3], [-1, 0, 1]),
    ([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]), ([6, 0, 9], [4, -10, 0, 2]), ([0, 0, 5], [0, 7])])
def test_whole_numbers_have_whole_factors(column, row):
    full = np.outer(column, row).astype(np.float32)[None, None]
    found = factorise(full)
    assert found.residual == 0 and np.array_equal(whole(found.weight, len(column)), full)
    assert np.array_equal(found.weight, np.rint(found.weight))
    assert str(found) == "rank 1 exactly"


@pytest.mark.parametrize("size", [(5, 5), (2, 9), (31, 17)])
@pytest.mark.parametrize("value", [1.0, 1 / 9, -3e-30, 7e30])
def test_a_box_is_exact(size, value):
    full = np.full((1, 1, *size), value, np.float32)
    assert np.array_equal(whole(factorise(full).weight, size[0]), full.astype(np.float64))


@pytest.mark.parametrize("taps, sigma", [(5, 0.7), (9, 1.0), (17, 2.0), (33, 4.0), (129, 16.0)])
def test_a_rounded_gaussian_is_a_product(taps, sigma):
    found = factorise(gaussian(taps, sigma))
    assert 0 < found.residual <= 2 * EPS < TOLERANCE and found.within
    assert str(found).startswith("rank 1 within ")


def test_rounded_products_of_every_size_are_products():
    rng = np.random.default_rng(1)
    residuals = [factorise(product(rng, 3, int(r), int(s)) * np.float32(10.0 ** e)).residual
                 for r, s, e in zip(rng.integers(2, 40, 200), rng.integers(2, 40, 200), rng.integers(-18, 18, 200))]
    assert max(residuals) <= 3 * EPS


@pytest.mark.parametrize("size", [(2, 2), (5, 5), (17, 33)])
def test_the_residual_is_that_of_the_factors(size):
    rng = np.random.default_rng(2)
    full = product(rng, 4, *size) + rng.uniform(-3e-7, 3e-7, (4, 1, *size)).astype(np.float32)
    found = factorise(full)
    off = np.abs(whole(found.weight, size[0]) - full).max(axis=(1, 2, 3))
    assert np.array_equal(found.difference, off)
    assert found.residual == (off / np.abs(full).max(axis=(1, 2, 3))).max()


@pytest.mark.parametrize("off, within", [(0.5, True), (3, True), (8, False), (100, False), (1e6, False)])
def test_a_filter_that_is_nearly_a_product(off, within):
    """One element off by so many times the largest one's eps; the factors may share the difference, to four eps."""
    full = np.outer([1, 2, 4, 2, 1], [1, 3, 4, 3, 1]).astype(np.float64)
    full[0, 0] += off * 16 * EPS
    assert factorise(full[None, None]).within is within


def test_one_filter_that_is_no_product_spoils_all():
    full = product(np.random.default_rng(3), 3, 5, 5)
    assert factorise(full).within
    full[1, 0, 2, 3] *= 1.001
    assert not factorise(full).within


@pytest.mark.parametrize("fill", [lambda f: f * 0, lambda f: np.where(np.arange(5) == 4, f, 0)])
def test_filters_of_zeros(fill):
    full = fill(np.ones((2, 1, 5, 5), np.float32))
    found = factorise(full)
    assert found.residual == 0 and np.array_equal(whole(found.weight, 5), full)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_has_no_factors(value):
    full = np.ones((1, 1, 5, 5), np.float32)
    full[0, 0, 1, 2] = value
    with pytest.raises(ArgumentError, match="not finite"):
        factorise(full)


def test_elements_beyond_what_factors_hold():
    """A product of float32's largest and smallest numbers: its factors still have float32's range between them."""
    column = np.array([2.0**-120, 2.0**127], np.float64)
    found = factorise(np.outer(column, [1.0, 0.5])[None, None].astype(np.float32))
    assert found.within


# ---- layers and plans

@pytest.mark.parametrize("changes", [dict(c=2), dict(r=1), dict(s=1), dict(c=4, k=4, groups=2)])
def test_layers_that_have_no_separable_filters(changes):
    with pytest.raises(ShapeError, match="one channel"):
        layer(**{**dict(r=5, s=5, padding=2), **changes}, separable=True)


def test_the_layer_counts_what_it_multiplies():
    shape = layer(5, 7, c=3, k=6, groups=3, separable=True)
    assert (shape.reduction, shape.weight_shape, shape.macs) == (12, (6, 1, 1, 12), 12 * 6 * 50 * 72)
    assert shape.w_dtype is DType.FLOAT32 is replace(shape, dtype="float16").w_dtype
    assert "separable" in str(shape) and "w[6, 1, 5, 7]" in str(shape)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_algorithms_that_say_so_serve_it(algorithm):
    if algorithm == "wide":
        assert plan_layer(layer(separable=True), algorithm=algorithm).spec.separable
        return
    for layout, dtype in (("NCHW", "float32"), ("NHWC", "float32"), ("NCHW", "float16"), ("NHWC", "float16")):
        with pytest.raises(UnsupportedSpec):
            plan_layer(layer(separable=True, layout=layout, dtype=dtype), algorithm=algorithm)


def planned(shape: ConvShape, **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="wide", settings=values)


@pytest.mark.parametrize("r, s", [(5, 5), (9, 9), (17, 17), (5, 12)])
def test_a_step_has_so_many_products(r, s):
    """In the text of a step, counted: (R + S) for each of its output columns, no more."""
    made = planned(layer(r, s, h=512, w=512, separable=True))
    text = render(made).text
    step = text[text.index("auto step ="):text.index("int slot = 0")]
    products = len(re.findall(r"fmaf\(| \* (?:filter_bank|w[xy]_)", step))
    assert products == (r + s) * made.options.columns
    assert made.cost.fma == products * made.numbers.steps


def test_the_banner_gives_the_plan_again():
    assert "--separable" in emit_command(planned(layer(separable=True)))
    assert "--separable" not in emit_command(planned(layer()))


def test_weights_are_registers_or_constants_of_one_filter():
    assert planned(layer(9, separable=True)).options.weights is BankWeights.REGISTERS
    assert planned(layer(17, separable=True)).options.weights is BankWeights.CONSTANT
    assert planned(layer(17, separable=True, dtype="float16")).options.weights is BankWeights.CONSTANT
    assert planned(layer(17, separable=True, c=4, k=4, groups=4)).options.weights is not BankWeights.CONSTANT


def test_few_taps_are_not_worth_their_factors():
    for size, wanted in ((3, False), (5, True), (9, True)):
        shape = layer(size, h=2048, w=2048, padding_mode="symmetric")
        assert wanted == pays(Request.of(shape))


def test_filters_of_one_image_lie_in_a_block():
    for k, planes in ((2, 2), (3, 3), (4, 4), (6, 3), (8, 4), (5, 1)):
        assert planned(layer(3, h=512, w=512, k=k)).options.warp_planes == planes
    assert planned(layer(3, h=512, w=512, c=4, k=4, groups=4)).options.warp_planes == 1


@pytest.mark.long
def test_defaults_do_not_spill():
    if not compilers.available()[compilers.CompilerKind.NVCC]:
        pytest.skip("nvcc is not installed")
    sizes = ((5, 5), (9, 9), (17, 17), (33, 33), (33, 7), (63, 63), (129, 20))
    kinds = itertools.cycle(itertools.product(("float32", "float16"), (72, 97), (1, 4), ("sm_80", "sm_90", "sm_100")))

    def report(item: tuple[ConvShape, str]) -> str | None:
        shape, arch = item
        made = plan_layer(shape, algorithm="wide", arch=arch)
        entry, = compilers.compile_source(render(made).text, arch=arch, kind=compilers.CompilerKind.NVCC).entries
        spilled = entry.spill_stores or entry.spill_loads or entry.stack_bytes
        return f"{made.spec}, {entry.registers} registers: {made.settings()}" if spilled else None

    items = [(layer(r, s, h=150, w=w, c=c, k=c, groups=c, dtype=dtype, separable=True), arch)
             for (r, s), (dtype, w, c, arch) in zip(sizes * (3 if settings.whole else 2), kinds)]
    with ThreadPoolExecutor(2) as pool:
        wrong = [text for text in pool.map(report, items) if text]
    assert not wrong, "\n".join(wrong)


# ---- results

@pytest.mark.thin(6)
@on_cpu_device
@pytest.mark.parametrize("shape, values", [
    (layer(5, separable=True), {}), (layer(17, 9, separable=True), {}),
    (layer(7, c=3, k=3, groups=3, separable=True), {}), (layer(4, 6, c=3, k=6, groups=3, stride=2, separable=True), {}),
    (layer(9, 3, dtype="bfloat16", dilation=(2, 1), c=2, k=2, groups=2, separable=True), {}),
    (layer(11, 7, c=3, k=3, groups=3, separable=True), {"weights": "shared"}),
    (layer(11, 7, c=3, k=3, groups=3, stride=(2, 1), separable=True), {"weights": "shared"}),
    (layer(9, 7, c=3, k=3, groups=3, separable=True), {"weights": "shared", "loads": "registers", "prefetch_rows": 1,
                                                       "stage_steps": 1}),
    (layer(17, separable=True), {"tap_rows": "needed"}), (layer(9, separable=True), {"sub_block_rows": 7}),
    (layer(17, 9, c=3, k=3, groups=3, padding_mode="reflect", separable=True), {"weights": "shared"})], ids=str)
def test_results_with_every_access_checked(shape, values):
    checks.check_checked(planned(shape, **values), shape)


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("loads", list(Loads))
def test_row_sums_are_the_same_however_rows_are_loaded(loads):
    """A filter whose column has a single 1 gives the row sums: as a filter of one row gives them, bit by bit."""
    row = np.random.default_rng(4).standard_normal(9).astype(np.float32)
    weight = np.concatenate([[0, 1, 0], row]).astype(np.float32).reshape(1, 1, 1, 12)
    x = np.random.default_rng(5).standard_normal((1, 1, 50, 72)).astype(np.float32)
    values = {"loads": loads.value, "prefetch_rows": 2, "stage_steps": 1, "weights": "registers"}
    ours = checks.cpu_kernel(planned(layer(3, 9, separable=True), **values))(x, weight)
    theirs = checks.cpu_kernel(planned(layer(1, 9), **values))(x, row.reshape(1, 1, 1, 9))
    assert np.array_equal(ours, theirs)


# ---- calls

def within(got: np.ndarray, x: np.ndarray, w: np.ndarray, shape: ConvShape) -> None:
    """As a whole filter's result, with the bound of its separable kernel: that of the factors, and for the difference
    between their product and the filter."""
    found = factorise(w)
    exact = reference.expected(x, w, shape).output
    bound = reference.expected(x, found.weight, replace(shape, separable=True))
    sizes = reference.convolve(np.abs(x).astype(np.float64), np.ones(w.shape), shape)
    tolerance = bound.tolerance + found.difference[None, :, None, None] * sizes
    reference.Expected(exact, tolerance, got.dtype).check(got, f"{shape}")


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("w", [gaussian(9, 1.5), np.ones((1, 1, 5, 5), np.float32), gaussian(17, 3.0)])
def test_conv2d_takes_a_separable_filter_as_that(w, monkeypatch):
    from warpconv.runtime.call import kernels
    taken = []
    made = kernels.known
    monkeypatch.setattr(kernels, "known", lambda ask: taken.append(ask.request.layer) or made(ask))
    x = np.random.default_rng(6).standard_normal((2, 1, 50, 72)).astype(np.float32)
    shape = layer(w.shape[2], n=2)
    for separable, expected in ((None, True), (True, True), (False, False)):
        got = warpconv.conv2d(x, w, padding="same", device="cpu", separable=separable)
        assert taken[-1].separable is expected
        within(got, x, w, shape)
    with env.scope(separable=False):
        warpconv.conv2d(x, w, padding="same", device="cpu")
        assert not taken[-1].separable
        warpconv.conv2d(x, w, padding="same", device="cpu", separable=True)
        assert taken[-1].separable
    warpconv.conv2d(x, w, padding="same", device="cpu", algorithm="direct")
    assert not taken[-1].separable


@on_cpu_device
def test_conv2d_takes_others_whole():
    x = np.random.default_rng(7).standard_normal((1, 1, 40, 40)).astype(np.float32)
    w = np.random.default_rng(8).standard_normal((1, 1, 7, 7)).astype(np.float32)
    reference.expected(x, w, layer(h=40, w=40)).check(warpconv.conv2d(x, w, padding=3, device="cpu"))
    with pytest.raises(ArgumentError, match="not separable: rank 1 only within"):
        warpconv.conv2d(x, w, padding=3, device="cpu", separable=True)
    w[0, 0, 3, 3] = np.nan
    with pytest.raises(ArgumentError, match="not finite"):
        warpconv.conv2d(x, w, padding=3, device="cpu", separable=True)
    with pytest.raises(ArgumentError, match="True, False or None"):
        warpconv.conv2d(x, w, padding=3, device="cpu", separable="yes")
    with pytest.raises(ShapeError, match="one channel"):
        warpconv.conv2d(np.zeros((1, 2, 9, 9), np.float32), np.ones((1, 2, 5, 5), np.float32), device="cpu",
                        separable=True)


@on_cpu_device
def test_conv2d_of_16_bits_has_factors_of_32():
    x = np.random.default_rng(9).standard_normal((1, 1, 40, 40)).astype(ml_dtypes.bfloat16)
    w = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(ml_dtypes.bfloat16)[None, None]
    got = warpconv.conv2d(x, w, padding=2, device="cpu", separable=True)
    shape = layer(5, h=40, w=40, dtype="bfloat16", separable=True)
    reference.expected(x, factorise(w.astype(np.float32)).weight, shape).check(got)


def test_a_filter_on_a_gpu_is_never_read():
    view = SimpleNamespace(is_device=True, shape=(1, 1, 9, 9))     # with nothing to read
    assert recognised(layer(9), None, view, None) is None is recognised(layer(9), None, view, False)
    with pytest.raises(ArgumentTypeError, match="on a GPU is not read"):
        recognised(layer(9), None, view, True)


def test_nothing_is_recognised_where_nothing_may_be_compiled():
    w = gaussian(9, 1.5)
    view = arrays.view(w, "weight")
    assert recognised(layer(9), w, view, None) is not None
    with env.scope(disable_jit=True):
        assert recognised(layer(9), w, view, None) is None and recognised(layer(9), w, view, True) is not None


@on_cpu_device
def test_prepare_sees_a_separable_filter_and_says_so():
    shape = layer(17)
    w = gaussian(17, 2.5)
    kernel = warpconv.specialize(shape, device="cpu")
    made = kernel.prepare(w)
    assert made.factored.kernel.spec.separable and not kernel.spec.separable
    assert made.separable == str(factorise(w)) and f"; separable: {made.separable}, by wide_17x17" in repr(made)
    for off in (kernel.prepare(w, separable=False),
                kernel.prepare(np.random.default_rng(0).standard_normal(w.shape).astype(np.float32)),
                warpconv.specialize(shape, device="cpu", algorithm="patch").prepare(w)):
        assert off.factored is None and "separable" not in repr(off)
    with env.scope(separable=False):
        assert kernel.prepare(w).factored is None
        assert kernel.prepare(w, separable=True).factored is not None
    with pytest.raises(ArgumentError, match="no separable one beside it"):
        warpconv.specialize(shape, device="cpu", algorithm="direct").prepare(w, separable=True)
    with pytest.raises(ArgumentError, match="not separable"):
        kernel.prepare(np.eye(17, dtype=np.float32)[None, None], separable=True)


@on_cpu_device
def test_a_prepared_filter_serves_every_size():
    """Sizes that the separable kernel's vectors do not take go to the whole filter."""
    w = gaussian(9, 1.2)
    kernel = warpconv.specialize(layer(9, h=100, w=136), device="cpu")
    made = kernel.prepare(w)
    calls = []
    factored = made.factored.kernel
    backend, run = factored._backend, factored._backend.run
    backend.run = lambda *given: calls.append(1) or run(*given)
    try:
        for width, taken in ((136, 1), (135, 1), (128, 2)):
            x = np.random.default_rng(width).standard_normal((1, 1, 33, width)).astype(np.float32)
            within(kernel(x, made), x, w, layer(9, h=33, w=width))
            assert len(calls) == taken
    finally:
        backend.run = run
    with pytest.raises(ShapeError, match="channels"):
        kernel(np.zeros((1, 2, 33, 64), np.float32), made)


@on_cpu_device
def test_the_kernel_of_a_separable_layer_takes_factors_and_whole_filters():
    shape = layer(9, 5, separable=True)
    kernel = warpconv.specialize(shape, device="cpu")
    x = np.random.default_rng(10).standard_normal(shape.input_shape).astype(np.float32)
    full = product(np.random.default_rng(11), 1, 9, 5)
    factors = factorise(full).weight
    expected = reference.expected(x, factors, shape)
    for w in (factors, kernel.prepare(factors), kernel.prepare(full)):
        expected.check(kernel(x, w))
    assert "rank 1 within" in repr(kernel.prepare(full))
    with pytest.raises(ShapeError, match="does not fit"):
        kernel.prepare(full[:, :, 1:])
    with pytest.raises(ArgumentError, match="not separable"):
        kernel.prepare(np.random.default_rng(12).standard_normal(full.shape).astype(np.float32))
    with pytest.raises(ArgumentTypeError, match="float32"):
        kernel.prepare(factors.astype(np.float16))
