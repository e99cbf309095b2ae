"""The studies' floors: FLOPs inside the image against counting them one by one, and the fractions."""

import numpy as np
import pytest

from bench.studies import floors
from warpconv.codegen.shape import ConvShape


def counted(size, taps, outputs, stride, dilation, before):
    return sum(0 <= o * stride + t * dilation - before < size for o in range(outputs) for t in range(taps))


def test_taps_inside_agree_with_counting():
    generator = np.random.default_rng(5)
    for _ in range(2000):
        size, taps, outputs = (int(v) for v in generator.integers(1, (20, 12, 20)))
        stride, dilation, before = (int(v) for v in generator.integers((1, 1, 0), (5, 4, 12)))
        case = (size, taps, outputs, stride, dilation, before)
        assert floors.taps_inside(*case) == counted(*case), case


def test_flops_of_a_layer_agree_with_a_convolution_of_ones():
    shape = ConvShape(n=2, c=6, h=9, w=7, k=12, r=5, s=3, groups=3, stride=(2, 1), dilation=(1, 2),
                      padding=((2, 1), (0, 3)))
    inside = 0
    for p in range(shape.p):
        for q in range(shape.q):
            inside += sum(0 <= p * 2 + r - 2 < 9 and 0 <= q + 2 * s < 7 for r in range(5) for s in range(3))
    assert floors.flops_inside(shape) == 2 * 2 * 12 * 2 * inside


@pytest.mark.parametrize("copy_ms, bound, ms", [(3.0, "copy", 3.0), (1e-9, "gemm", None)])
def test_the_floor_is_the_larger_of_both(copy_ms, bound, ms):
    shape = ConvShape(c=1, h=64, w=64, k=1, r=3, s=3, padding="same")
    found = floors.floor(shape, copy_ms, 50.0)
    assert found.gemm_ms == pytest.approx(2 * (3 * 64 - 2) ** 2 / 50e12 * 1e3)
    fields = found.fields(6.0)
    assert fields["bound"] == bound and fields["floor_ms"] == (ms or found.gemm_ms)
    assert fields["of_floor"] == pytest.approx(fields["floor_ms"] / 6.0)
    assert fields["of_copy"] == pytest.approx(copy_ms / 6.0)
