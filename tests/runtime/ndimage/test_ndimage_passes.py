"""Passes of SciPy's filters: which are done at once, by which kernels, and what a second call spares."""

from __future__ import annotations

import numpy as np
import pytest

import warpconv
from tests import settings
from tests.runtime.ndimage.test_ndimage import MODES, drawn_image, needs_cpu, poisoned
from tests.runtime.ndimage.test_ndimage_filters import line, near
from warpconv.codegen.dtypes import DType
from warpconv.runtime.ndimage import work
from warpconv.runtime.ndimage.filters import gaussian_taps
from warpconv.runtime.ndimage.lines import line_of, of_lines
from warpconv.runtime.ndimage.planes import Image
from warpconv.runtime.ndimage.target import Target


def test_two_axes_are_done_at_once_where_that_changes_nothing():
    def count(made_of, dtype, output, algorithm="auto"):
        image, made = Image.of(np.zeros((5, 6), dtype)), DType.parse(output)
        at_work = work.Work(image, Target.of(output, image), work.Extras("cpu", None, algorithm))
        return len(at_work._parts(of_lines(made_of, image, made), made))

    def lines(first, second, mode="reflect", cval=0.0, other=None):
        return [line_of(np.array(first, float), 0, mode, cval),
                line_of(np.array(second, float), 1, other or mode, cval)]

    slope, mean = lines([-1, 0, 1], [1, 2, 1]), lines([0.25, 0.5, 0.25], [0.25, 0.5, 0.25])
    assert count(slope, "uint8", "uint8") == count(slope, "float32", "float32") == count(mean, "uint8", "float32") == 1
    assert count(mean, "uint8", "uint8") == count(slope, "float32", "int16") == 2
    assert count(lines([-1, 0, 1], [1, 2, 1], other="wrap"), "uint8", "uint8") == 2
    assert count(lines([-1, 0, 1], [1, 2, 1], "constant", 3.0), "uint8", "uint8") == 2
    assert count(lines([-1, 0, 1], [1, 2, 1], "constant", 0.0), "uint8", "uint8") == 1
    assert count(lines([0.25, 0.5, 0.25], [1, 2, 1], "constant", 3.0), "float32", "float32") == 1
    long = lines(np.ones(13) / 13, np.ones(13) / 13)
    assert count(long, "float32", "float32") == 1       # by its factors
    assert count(long, "float32", "float32", "direct") == count(long, "uint8", "float32") == 2


@pytest.mark.thin(6)
@needs_cpu
@pytest.mark.parametrize("mode", MODES)
def test_factors_go_to_a_kernel_for_them(mode, monkeypatch):
    """Every pass of a Gaussian by factors, with the filter's columns and rows where they belong."""
    taken = []
    whole = work.conv2d_and_kernel
    monkeypatch.setattr(work, "conv2d_and_kernel",
                        lambda *args, **options: taken.append("whole") or whole(*args, **options))
    x = drawn_image(settings.generator(16), (2, 30, 44), "float32")
    for sigma, order in (((1.0, 2.5), 0), ((2.0, 0.8), (1, 0))):
        got = warpconv.gaussian_filter(x, sigma, order, mode=mode, cval=0, axes=(1, 2), device="cpu")
        orders = order if isinstance(order, tuple) else (order, order)
        taps = [gaussian_taps(s, o) for s, o in zip(sigma, orders)]
        exact = line(line(x, taps[0], 1, mode, 0), taps[1], 2, mode, 0)
        near(got, exact, len(taps[0]) + len(taps[1]), np.abs(x).max() * np.prod([np.abs(t).sum() for t in taps]), mode)
    assert not taken
    shifted = warpconv.uniform_filter(x, (5, 8), mode=mode, cval=0, origin=(2, -4), axes=(1, 2), device="cpu")
    exact = line(line(x, np.full(5, 0.2), 1, mode, 0, 2), np.full(8, 0.125), 2, mode, 0, -4)
    near(shifted, exact, 13, np.abs(x).max(), mode)


@needs_cpu
def test_a_call_like_one_before_plans_nothing(monkeypatch):
    from warpconv.runtime.call import conv
    x = drawn_image(settings.generator(18), (20, 33), "float32")
    first = warpconv.gaussian_filter(x, 1.0, device="cpu")
    for name in ("_factored", "_conv2d"):
        monkeypatch.setattr(conv, name, None)
    assert np.array_equal(warpconv.gaussian_filter(x, 1.0, device="cpu"), first)


@needs_cpu
@pytest.mark.parametrize("output", [None, "float32"])
def test_addresses_that_the_factors_kernel_refuses(output, monkeypatch):
    from warpconv.runtime.call.checks import Misaligned
    from warpconv.runtime.call.kernel import Kernel
    x = drawn_image(settings.generator(19), (20, 33), "float32")
    call, refused = Kernel.__call__, []

    def refusing(self, *args, **options):
        if self.spec.separable:
            refused.append(self)
            raise Misaligned("odd")
        return call(self, *args, **options)

    expected = warpconv.gaussian_filter(x, 2.0, device="cpu")
    monkeypatch.setattr(Kernel, "__call__", refusing)
    out = None if output is None else poisoned(x.shape, output)
    got = warpconv.gaussian_filter(x, 2.0, output=out, device="cpu")
    assert refused and (out is None or got is out) and np.allclose(got, expected, rtol=0, atol=1e-5)


@pytest.mark.long
@needs_cpu
def test_long_filters_are_done_axis_by_axis():
    x = drawn_image(settings.generator(17), (5, 40), "float32")
    got = warpconv.gaussian_filter(x, 40.0, device="cpu")       # 321 taps an axis
    taps = gaussian_taps(40.0)
    exact = line(line(x, taps, 0, "reflect", 0), taps, 1, "reflect", 0)
    near(got, exact, 2 * len(taps), np.abs(x).max(), "sigma 40")
    assert not taps.flags.writeable and gaussian_taps(40.0) is taps
