"""wgmma, stmatrix and ldmatrix with .trans on the CPU device, against plain products and NumPy's transposes."""

from fractions import Fraction

import numpy as np
import pytest

from tests.runtime.devices.cpu_kernels.harness import KERNEL, compiler_or_skip, read, run, written
from tests.runtime.devices.cpu_kernels.hopper import of, ring
from warpconv.codegen.errors import KernelFault
from warpconv.runtime.devices.cpu import Mode

compiler_or_skip()

BOTH = pytest.mark.parametrize("mode", list(Mode))
PARAMETERS = ("const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, const float* before, "
              "float* y, int first, int n, int depth, int loads")
PRODUCT = """
    if (t == 0) wc_barrier_init(full, 1);
    __syncthreads();
    if (t == 0) {{
        wc_barrier_expect(full, loads);
        wc_tma_load_2(shared, &a_map, full, 0, 0);
        wc_tma_load_2(shared + 8192, &b_map, full, 0, 0);
    }}
    wc_barrier_wait(full, 0);
    const int row = 16 * warp + lane / 4, column = lane % 4 * 2;
    float sums[{n} / 2];
    for (int i = 0; i < {n} / 2; ++i) sums[i] = before[(row + (i & 2 ? 8 : 0)) * n + column + i / 4 * 8 + (i & 1)];
    const unsigned long long a = wc_descriptor_rows_{row}(shared);
    const unsigned long long b = wc_descriptor_rows_{row}(shared + 8192 + first * {row});
    wc_wgmma_fence();
    for (int k = 0; k < depth / {each}; ++k) wc_wgmma_{type}(sums, a + 2 * k, b + 2 * k, {adds});
    wc_wgmma_commit();
    wc_wgmma_wait_sums(sums);
    for (int i = 0; i < {n} / 2; ++i) y[(row + (i & 2 ? 8 : 0)) * n + column + i / 4 * 8 + (i & 1)] = sums[i];"""


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """The bits of float32 values whose low half is cut."""
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def to_float64(bits: np.ndarray, kind: str) -> np.ndarray:
    if kind == "halves":
        return bits.view(np.float16).astype(np.float64)
    if kind == "tf32s":
        return (bits & 0xFFFFE000).view(np.float32).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def multiply(a: np.ndarray, b: np.ndarray, before: np.ndarray, kind: str, *, first=0, adds="true", mode=Mode.CHECK,
             **launch) -> np.ndarray:
    """The kernel's before + a b^T, or without ``before``; a and b are bits, rows of 64 or 128 bytes."""
    depth, n, row = a.shape[1], before.shape[1], a.shape[1] * a.itemsize
    y = np.full(before.shape, np.nan, np.float32)
    body = PRODUCT.format(n=n, row=row, type=kind, adds=adds, each=32 // a.itemsize)
    ring(body, PARAMETERS, [of(read(a, "a"), (depth, 64), swizzle=row), of(read(b, "b"), (depth, len(b)), swizzle=row),
                            read(before, "before"), written(y), np.int32(first), np.int32(n), np.int32(depth),
                            np.int32(row * (64 + len(b)))], mode=mode, **launch)
    return y


def drawn(rng, kind: str, *shape: int) -> np.ndarray:
    """Bits of values of very different magnitudes and both signs."""
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 6, shape)
    if kind == "tf32s":
        return values.astype(np.float32).view(np.uint32)
    return values.astype(np.float16).view(np.uint16) if kind == "halves" else to_bfloat16(values)


@pytest.mark.thin(12)
@BOTH
@pytest.mark.parametrize("kind, n, depth, first", [
    ("halves", 8, 64, 0), ("halves", 64, 64, 5), ("halves", 104, 64, 13), ("halves", 256, 64, 0),
    ("halves", 40, 32, 3), ("bfloat16s", 256, 64, 0), ("bfloat16s", 24, 64, 9), ("bfloat16s", 128, 32, 2),
    ("tf32s", 256, 32, 0), ("tf32s", 56, 32, 7), ("tf32s", 8, 16, 3)])
def test_products_from_any_row(mode, kind, n, depth, first):
    """b may begin at any row: the swizzle is one of addresses."""
    rng = np.random.default_rng(n + depth)
    rows = min(256, first + n)
    a, b = drawn(rng, kind, 64, depth), drawn(rng, kind, rows, depth)
    before = rng.standard_normal((64, n)).astype(np.float32)
    got = multiply(a, b, before, kind, first=first, mode=mode)
    wide_a, wide_b = to_float64(a, kind), to_float64(b, kind)[first:]
    magnitude = abs(before) + abs(wide_a) @ abs(wide_b).T
    assert np.all(abs(got - (before + wide_a @ wide_b.T)) <= magnitude * 2**-22 * depth / 16)
    alone = multiply(a, b, before, kind, first=first, adds="k > 0", mode=mode)
    assert np.all(abs(alone - wide_a @ wide_b.T) <= magnitude * 2**-22 * depth / 16)


B_ACROSS = PRODUCT
for rows, columns in (
        ("wc_tma_load_2(shared + 8192, &b_map, full, 0, 0);",
         "for (int i = 0; i < (n + 63) / 64; ++i)\n"
         "            wc_tma_load_2(shared + 8192 + i * 8192, &b_map, full, 64 * i, 0);"),
        ("wc_descriptor_rows_{row}(shared + 8192 + first * {row})", "wc_descriptor_columns_128(shared + 8192, 8192)"),
        ("b + 2 * k", "b + 128 * k"), ("wc_wgmma_{type}", "wc_wgmma_{type}_b_across")):
    assert rows in B_ACROSS
    B_ACROSS = B_ACROSS.replace(rows, columns)


@pytest.mark.thin(2)
@BOTH
@pytest.mark.parametrize("kind, n, columns", [("halves", 8, 8), ("halves", 64, 72), ("bfloat16s", 104, 104),
                                              ("halves", 256, 256), ("bfloat16s", 160, 136)])
def test_products_of_columns_side_by_side(mode, kind, n, columns):
    """b as [product][column], boxes of 64 columns; columns behind its last are zeros."""
    rng = np.random.default_rng(n)
    a, b = drawn(rng, kind, 64, 64), drawn(rng, kind, 64, columns)
    before = rng.standard_normal((64, n)).astype(np.float32)
    y = np.full(before.shape, np.nan, np.float32)
    copied = -(-n // 64) * 8192 + 8192
    ring(B_ACROSS.format(n=n, row=128, type=kind, adds="true", each=16), PARAMETERS,
         [of(read(a, "a"), (64, 64), swizzle=128), of(read(b, "b"), (64, 64), swizzle=128), read(before, "before"),
          written(y), np.int32(0), np.int32(n), np.int32(64), np.int32(copied)], mode=mode)
    wide_a, wide_b = to_float64(a, kind), np.zeros((64, n))
    wide_b[:, :columns] = to_float64(b, kind)[:, :n]
    magnitude = abs(before) + abs(wide_a) @ abs(wide_b)
    assert np.all(abs(y - (before + wide_a @ wide_b)) <= magnitude * 2**-20)


A_WORDS = PRODUCT
for rows, words in (
        ("const unsigned long long a = wc_descriptor_rows_{row}(shared);", ""),
        ("wc_wgmma_{type}(sums, a + 2 * k, b + 2 * k, {adds});",
         """{{
        unsigned a[4];
        for (int i = 0; i < 4; ++i) {{
            const int of = row + i % 2 * 8, cell = 2 * k + i / 2;
            a[i] = *(const unsigned*)(shared + of * 128 + (cell ^ of % 8) * 16 + lane % 4 * 4);
        }}
        wc_wgmma_{type}_words(sums, a, b + 2 * k, {adds});
        for (int i = 0; i < 4; ++i) a[i] = 0u;
    }}""")):
    assert rows in A_WORDS
    A_WORDS = A_WORDS.replace(rows, words)


@pytest.mark.thin(3)
@BOTH
@pytest.mark.parametrize("kind, n", [("halves", 64), ("bfloat16s", 104), ("tf32s", 96), ("tf32s", 8)])
def test_a_from_registers_gives_the_bits_of_a_from_shared_memory(mode, kind, n):
    """The emulation takes the words where the product is issued."""
    rng = np.random.default_rng(n)
    depth = 32 if kind == "tf32s" else 64
    a, b, before = drawn(rng, kind, 64, depth), drawn(rng, kind, n, depth), rng.standard_normal((64, n)).astype("f4")
    y = np.full((64, n), np.nan, np.float32)
    ring(A_WORDS.format(n=n, row=128, type=kind, adds="true", each=32 // a.itemsize), PARAMETERS,
         [of(read(a, "a"), (depth, 64), swizzle=128), of(read(b, "b"), (depth, n), swizzle=128), read(before, "before"),
          written(y), np.int32(0), np.int32(n), np.int32(depth), np.int32(128 * (64 + n))], mode=mode)
    assert np.array_equal(y, multiply(a, b, before, kind, mode=mode))


@pytest.mark.parametrize("kind", ("halves", "bfloat16s"))
def test_products_of_both_operands_across(kind):
    """a as [product][row], too; columns of b whose box was not copied have sums of NaN."""
    rng = np.random.default_rng(3)
    a, b = drawn(rng, kind, 64, 64), drawn(rng, kind, 64, 136)
    before, y = rng.standard_normal((64, 136)).astype(np.float32), np.full((64, 136), np.nan, np.float32)
    text = B_ACROSS.replace("i < (n + 63) / 64", "i < 2")
    for rows, columns in (("_b_across", "_across"), ("a + 2 * k", "a + 128 * k"),
                          ("wc_descriptor_rows_{row}(shared)", "wc_descriptor_columns_128(shared, 0)")):
        text = text.replace(rows, columns)
    ring(text.format(n=136, row=128, type=kind, adds="true", each=16), PARAMETERS,
         [of(read(a, "a"), (64, 64), swizzle=128), of(read(b, "b"), (64, 64), swizzle=128), read(before, "before"),
          written(y), np.int32(0), np.int32(136), np.int32(64), np.int32(3 * 8192)])
    wide_a, wide_b = to_float64(a, kind).T, to_float64(b, kind)
    magnitude = abs(before) + abs(wide_a) @ abs(wide_b)
    assert np.all((abs(y - (before + wide_a @ wide_b)) <= magnitude * 2**-20)[:, :128]) and np.isnan(y[:, 128:]).all()


@pytest.mark.parametrize("kind", ("halves", "bfloat16s"))
def test_products_of_the_first_operand_across(kind):
    """a as [product][row] alone."""
    rng = np.random.default_rng(4)
    a, b = drawn(rng, kind, 64, 64), drawn(rng, kind, 72, 64)
    before, y = rng.standard_normal((64, 72)).astype(np.float32), np.full((64, 72), np.nan, np.float32)
    text = PRODUCT
    for rows, columns in (("wc_wgmma_{type}", "wc_wgmma_{type}_a_across"), ("a + 2 * k", "a + 128 * k"),
                          ("wc_descriptor_rows_{row}(shared)", "wc_descriptor_columns_128(shared, 0)")):
        assert rows in text
        text = text.replace(rows, columns)
    ring(text.format(n=72, row=128, type=kind, adds="true", each=16), PARAMETERS,
         [of(read(a, "a"), (64, 64), swizzle=128), of(read(b, "b"), (64, 72), swizzle=128), read(before, "before"),
          written(y), np.int32(0), np.int32(72), np.int32(64), np.int32(128 * (64 + 72))])
    wide_a, wide_b = to_float64(a, kind).T, to_float64(b, kind).T
    magnitude = abs(before) + abs(wide_a) @ abs(wide_b)
    assert np.all(abs(y - (before + wide_a @ wide_b)) <= magnitude * 2**-20)


def test_a_box_of_columns_that_is_filled_in_part_is_reported():
    a, b = np.zeros((64, 64), np.uint16), np.zeros((64, 64), np.uint16)
    before, y = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    text = B_ACROSS.format(n=64, row=128, type="halves", adds="true", each=16)
    with pytest.raises(KernelFault, match="product 8 of columns 0 to 7 of b"):      # of the second instruction
        ring(text, PARAMETERS, [of(read(a, "a"), (64, 64), swizzle=128), of(read(b, "b"), (64, 24), swizzle=128),
                                read(before, "before"), written(y), np.int32(0), np.int32(64), np.int32(64),
                                np.int32(8192 + 24 * 128)])


def toward_zero(value: Fraction, unit: Fraction) -> Fraction:
    parts = abs(value) // unit
    return (parts if value > 0 else -parts) * unit


def exponent(value: float) -> int:
    """Of the leading bit."""
    return int(np.frexp(value)[1]) - 1


def cut_sum(before: float, a: np.ndarray, b: np.ndarray) -> Fraction:
    """The rule that the device states: aligned to the largest exponent, kept to 25 bits behind the point, added, cut to
    a float of 24 bits."""
    pairs = [(float(x), float(y)) for x, y in zip(a, b) if x and y]
    exponents = [exponent(x) + exponent(y) for x, y in pairs] + ([exponent(before)] if before else [])
    if not exponents:
        return Fraction(0)
    unit = Fraction(2) ** (max(exponents) - 25)
    total = toward_zero(Fraction(before), unit) + sum(toward_zero(Fraction(x) * Fraction(y), unit) for x, y in pairs)
    if not total:
        return total
    return toward_zero(total, Fraction(2) ** (exponent(float(total)) - 23))


@pytest.mark.parametrize("kind, each", [("halves", 16), ("bfloat16s", 16), ("tf32s", 8)])
def test_sums_are_cut_as_stated(kind, each):
    rng = np.random.default_rng(7)
    a, b = drawn(rng, kind, 64, 2 * each), drawn(rng, kind, 8, 2 * each)
    if kind == "halves":
        a[:, 5] = rng.integers(0, 1024, 64)             # subnormal
    a[3], b[2] = 0, 0
    before = (rng.standard_normal((64, 8)) * 2.0 ** rng.integers(-8, 8, (64, 8))).astype(np.float32)
    before[5] = 0
    got = multiply(a, b, before, kind)
    wide_a, wide_b = to_float64(a, kind), to_float64(b, kind)
    for i in range(64):
        for j in range(8):
            first = float(cut_sum(float(before[i, j]), wide_a[i, :each], wide_b[j, :each]))
            assert got[i, j] == float(cut_sum(first, wide_a[i, each:], wide_b[j, each:])), (i, j)


def test_a_sum_that_is_not_promoted_is_biased():
    """Non-negative data: cut sums are too small, and rounded ones, which a launch may ask for, are not."""
    rng = np.random.default_rng(8)
    a, b = (abs(rng.standard_normal((rows, 64))).astype(np.float16) for rows in (64, 64))
    before = np.full((64, 64), 4096, np.float32)
    exact = before + a.astype(np.float64) @ b.astype(np.float64).T
    bias = [((multiply(a.view(np.uint16), b.view(np.uint16), before, "halves", sums_to_nearest=nearest) - exact)
             / exact).mean() for nearest in (False, True)]
    assert bias[0] < -2**-25
    assert abs(bias[1]) < 2**-27


@BOTH
def test_what_is_not_finite_stays_where_it_belongs(mode):
    rng = np.random.default_rng(9)
    a, b = (rng.standard_normal((rows, 64)).astype(np.float16) for rows in (64, 16))
    before = rng.standard_normal((64, 16)).astype(np.float32)
    a[5, 17], a[40, 3], b[9, 60], before[63, 0] = np.inf, np.nan, -np.inf, np.inf
    got = multiply(a.view(np.uint16), b.view(np.uint16), before, "halves", mode=mode)
    with np.errstate(invalid="ignore"):
        expected = before.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64).T
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    assert np.array_equal(got[np.isinf(expected)], expected[np.isinf(expected)])
    assert np.allclose(got[np.isfinite(expected)], expected[np.isfinite(expected)], rtol=1e-4, atol=1e-4)


def test_sums_are_the_old_ones_before_the_wait():
    text = PRODUCT.replace("wc_wgmma_wait_sums(sums);\n    for",
                           "float early = sums[0];\n    wc_wgmma_wait_sums(sums);\n    sums[0] = early;\n    for")
    assert text != PRODUCT
    rng = np.random.default_rng(10)
    a, b = drawn(rng, "halves", 64, 64), drawn(rng, "halves", 8, 64)
    before, y = rng.standard_normal((64, 8)).astype(np.float32), np.zeros((64, 8), np.float32)
    ring(text.format(n=8, row=128, type="halves", adds="true", each=16), PARAMETERS,
         [of(read(a, "a"), (64, 64), swizzle=128), of(read(b, "b"), (64, 8), swizzle=128), read(before, "before"),
          written(y), np.int32(0), np.int32(8), np.int32(64), np.int32(128 * 72)])
    old = np.zeros((64, 8), bool)
    old[np.arange(64) % 16 < 8, ::2] = True             # sums[0]: upper rows, even columns
    assert np.array_equal(y == before, old)


# ---- matrices of 8 x 8

LANE = np.arange(32)


def fragments(matrices: np.ndarray) -> np.ndarray:
    """(4, 8, 8) elements as lanes hold them: lane, matrix -> the two elements of a word."""
    return np.stack([matrices[:, LANE // 4, LANE % 4 * 2], matrices[:, LANE // 4, LANE % 4 * 2 + 1]], -1).swapaxes(0, 1)


@pytest.mark.thin(2)
@BOTH
@pytest.mark.parametrize("count", [4, 2])
@pytest.mark.parametrize("transposed", [True, False])
def test_store_matrices(mode, count, transposed):
    matrices = np.random.default_rng(count).integers(0, 65536, (4, 8, 8)).astype(np.uint16)
    y = np.zeros((count, 8, 8), np.uint16)
    words = ", ".join(f"x[4 * t + {i}]" for i in range(count))
    report = run(KERNEL + f"""k(const unsigned* x, unsigned short* y) {{
        __shared__ __align__(16) unsigned short s[{count} * 64];
        const int t = threadIdx.x;
        wc_store_matrices{"_transposed" * transposed}_{count}(s + t % {8 * count} * 8, {words});
        __syncwarp();
        for (int i = t; i < {count} * 64; i += 32) y[i] = s[i]; }}""",
                 [read(np.ascontiguousarray(fragments(matrices)).view(np.uint32).reshape(-1)), written(y)], mode=mode)
    expected = matrices[:count].swapaxes(1, 2) if transposed else matrices[:count]
    assert np.array_equal(y, expected)
    if mode is Mode.CHECK:          # rows side by side: a pass for each 128 bytes; and the plain reads
        assert report.shared_wavefronts == count + 2 * count


def test_store_matrices_in_one_column_conflicts():
    """Rows 128 bytes apart lie in the same banks: each of the 32 takes a pass of its own."""
    report = run(KERNEL + """k(unsigned* y) {
        __shared__ __align__(16) unsigned char s[4096];
        wc_store_matrices_4(s + threadIdx.x * 128, 1, 2, 3, 4);
        y[threadIdx.x] = 0; }""", [written(np.zeros(32, np.uint32))])
    assert (report.shared_requests, report.shared_wavefronts) == (1, 32)


@BOTH
@pytest.mark.parametrize("count", [4, 2])
def test_load_matrices_transposed(mode, count):
    memory = np.random.default_rng(count).integers(0, 65536, (count, 8, 8)).astype(np.uint16)
    y = np.zeros((32, count, 2), np.uint16)
    names = ["a", "b", "c", "d"][:count]
    run(KERNEL + f"""k(const unsigned short* x, unsigned* y) {{
        __shared__ __align__(16) unsigned short s[{count} * 64];
        const int t = threadIdx.x;
        for (int i = t; i < {count} * 64; i += 32) s[i] = x[i];
        __syncwarp();
        unsigned {", ".join(names)};
        wc_load_matrices_transposed_{count}({", ".join(names)}, s + t % {8 * count} * 8);
        {" ".join(f"y[{count} * t + {i}] = {name};" for i, name in enumerate(names))} }}""",
        [read(memory), written(y.view(np.uint32).reshape(-1))], mode=mode)
    padded = np.concatenate([memory.swapaxes(1, 2), np.zeros((4 - count, 8, 8), np.uint16)])
    assert np.array_equal(y, fragments(padded)[:, :count])
