"""mma.sync of TF32 on the CPU device: which lane has what, what of a factor counts, and how sums are cut."""

from fractions import Fraction

import numpy as np
import pytest

from tests.runtime.devices.cpu_kernels.harness import KERNEL, compiler_or_skip, read, run, written
from warpconv.runtime.devices.cpu import Mode

compiler_or_skip()

TEXT = KERNEL + """k(const unsigned* a, const unsigned* b, const float* before, float* y) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float4 c = make_float4(before[g * 8 + 2 * t], before[g * 8 + 2 * t + 1], before[(g + 8) * 8 + 2 * t],
                           before[(g + 8) * 8 + 2 * t + 1]);
    wc_mma_tf32s_8(c, a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + t + 4], a[(g + 8) * 8 + t + 4], b[t * 8 + g],
                   b[(t + 4) * 8 + g]);
    y[g * 8 + 2 * t] = c.x;
    y[g * 8 + 2 * t + 1] = c.y;
    y[(g + 8) * 8 + 2 * t] = c.z;
    y[(g + 8) * 8 + 2 * t + 1] = c.w; }"""


def multiply(a, b, before=None, mode=Mode.FAST) -> np.ndarray:
    """before + a b, of 16 x 8 and 8 x 8 floats."""
    before = np.zeros((16, 8), np.float32) if before is None else before
    y = np.full((16, 8), np.nan, np.float32)
    run(TEXT, [read(np.ascontiguousarray(a, np.float32).view(np.uint32), "a"),
               read(np.ascontiguousarray(b, np.float32).view(np.uint32), "b"),
               read(before.astype(np.float32), "before"), written(y)], mode=mode)
    return y


def short(values: np.ndarray) -> np.ndarray:
    """Floats without their last 13 bits."""
    return (values.astype(np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32)


def cut(value: Fraction, unit: Fraction) -> Fraction:
    return unit * (abs(value) // unit) * (1 if value > 0 else -1)


def exponent(value: float) -> Fraction:
    return Fraction(2) ** (int(np.frexp(value)[1]) - 1) if value else Fraction(0)


def modelled(a, b, before) -> float:
    """A sum as device_primitives.h says that it is cut, in fractions."""
    size = max(max(exponent(x) * exponent(y) for x, y in zip(a, b)), exponent(before))
    terms = [Fraction(float(before)), *(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b))]
    total = sum(cut(term, size / 2**25) for term in terms)
    return float(cut(total, exponent(float(total)) / 2**23)) if total else 0.0


@pytest.mark.parametrize("mode", list(Mode))
def test_a_product_of_matrices(mode):
    rng = np.random.default_rng(1)
    a, b, before = (rng.integers(-9, 10, size) for size in ((16, 8), (8, 8), (16, 8)))
    assert np.array_equal(multiply(a, b, before, mode), before + a @ b)


def test_the_last_13_bits_of_a_factor_do_not_count():
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((16, 8)), rng.standard_normal((8, 8))
    assert np.array_equal(multiply(a, b), multiply(short(a), short(b)))
    assert not np.array_equal(multiply(a, b), a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("scale", [1.0, 2.0**-60, 2.0**60])
def test_sums_are_cut_as_modelled(scale):
    rng = np.random.default_rng(3)
    a = short(rng.standard_normal((16, 8)) * 2.0 ** rng.integers(-12, 12, (16, 8)) * scale)
    b, before = short(rng.standard_normal((8, 8))), (rng.standard_normal((16, 8)) * scale).astype(np.float32)
    made = multiply(a, b, before)
    expected = [[modelled(a[i], b[:, j], before[i, j]) for j in range(8)] for i in range(16)]
    assert np.array_equal(made, np.array(expected, np.float32))
    assert not np.array_equal(made, (before + a.astype(float) @ b).astype(np.float32))


def test_subnormal_factors_count_and_what_is_not_finite_goes_on():
    a, b = np.zeros((16, 8), np.float32), np.eye(8, dtype=np.float32)
    a[0, :3] = 2.0**-130, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        made = multiply(a, b)
    assert np.isnan(made[0]).all()      # NaN times zero, infinity times zero
    assert not made[1:].any()
    a[0, 1:3] = 0
    assert multiply(a, b * np.float32(2.0**20))[0, 0] == 2.0**-110
