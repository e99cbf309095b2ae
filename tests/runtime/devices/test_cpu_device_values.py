"""What the device's functions compute: shuffles, votes, vectors, bits, 16-bit floats; in both modes alike."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.devices.cpu_kernels.harness import FULL, KERNEL, compiler_or_skip, floats, read, run, written
from warpconv.runtime.devices.cpu import Mode

compiler_or_skip()

LANE = np.arange(32)
both_modes = pytest.mark.parametrize("mode", Mode)


def evaluate(expression: str, c_type: str, dtype, mode: Mode, prefix: str = "", **options) -> np.ndarray:
    """``expression`` of ``i`` (the lane) for each lane of a warp."""
    y = np.zeros(32, dtype)
    run(prefix + KERNEL + f"k({c_type}* y) {{ const int i = threadIdx.x; y[i] = {expression}; }}", [written(y)],
        mode=mode, **options)
    return y


# ---- shuffles and votes

@both_modes
@pytest.mark.parametrize("order", [0, 1])
def test_shuffles_of_all_widths(mode, order):
    text = KERNEL + """k(int* y) {
        const int i = threadIdx.x;
        int row = 0;
        for (int width = 1; width <= 32; width *= 2)
            for (int d = 0; d < 5; ++d) {
                y[row++ * 32 + i] = __shfl_sync(0xffffffffu, i * 3, d * 7, width);
                y[row++ * 32 + i] = __shfl_up_sync(0xffffffffu, i * 3, d, width);
                y[row++ * 32 + i] = __shfl_down_sync(0xffffffffu, i * 3, d, width);
                y[row++ * 32 + i] = __shfl_xor_sync(0xffffffffu, i * 3, d, width);
            }
    }"""
    y = np.zeros((120, 32), np.int32)
    run(text, [written(y)], mode=mode, order=order)
    rows = iter(y)
    for width in (1, 2, 4, 8, 16, 32):
        first = LANE // width * width
        for d in range(5):
            sources = [first + d * 7 % width, np.where(LANE - d < first, LANE, LANE - d),
                       np.where(LANE + d >= first + width, LANE, LANE + d),
                       np.where((LANE ^ d) >= first + width, LANE, LANE ^ d)]
            for source in sources:
                assert np.array_equal(next(rows), source * 3), (width, d)


@pytest.mark.thin(6)
@both_modes
@pytest.mark.parametrize("c_type, dtype, value", [
    ("unsigned long long", np.uint64, "((unsigned long long)i << 40 | i)"), ("long long", np.int64, "(-5LL * i << 20)"),
    ("double", np.float64, "(i + 0.125)"), ("float", np.float32, "(i + 0.5f)"), ("unsigned", np.uint32, "(i * 77u)"),
])
def test_shuffles_of_4_and_8_byte_types(mode, c_type, dtype, value):
    own = evaluate(value, c_type, dtype, mode)
    assert np.array_equal(evaluate(f"__shfl_xor_sync(0xffffffffu, {value}, 5)", c_type, dtype, mode), own[LANE ^ 5])


@both_modes
@pytest.mark.thin(2)
def test_votes(mode):
    def vote(expression):
        return evaluate(expression, "unsigned", np.uint32, mode)

    assert set(vote("__ballot_sync(0xffffffffu, i % 3 == 0)")) == {sum(1 << i for i in range(0, 32, 3))}
    assert set(vote("__any_sync(0xffffffffu, i == 9)")) == {1}
    assert set(vote("__any_sync(0xffffffffu, i == 99)")) == {0}
    assert set(vote("__all_sync(0xffffffffu, i < 32)")) == {1}
    assert set(vote("__all_sync(0xffffffffu, i < 31)")) == {0}
    assert set(vote("__activemask()")) == {FULL}


@both_modes
def test_active_lanes_are_those_of_the_branch(mode):
    text = KERNEL + """k(unsigned* y) {
        const int i = threadIdx.x;
        if (i % 3 == 0) y[i] = __activemask();
        else y[i] = ~__shfl_sync(__activemask(), __activemask(), 4);
    }"""
    y = np.zeros(32, np.uint32)
    run(text, [written(y)], mode=mode)
    thirds = sum(1 << i for i in range(0, 32, 3))
    assert np.array_equal(y, np.full(32, thirds))


@both_modes
def test_groups_of_lanes_meet_on_their_own(mode):
    text = KERNEL + """k(unsigned* y) {
        const int i = threadIdx.x;
        if (i < 16) y[i] = __ballot_sync(0xffffu, i & 1) + __shfl_sync(0xffffu, i, 3);
        else y[i] = __ballot_sync(0xffff0000u, i % 3 == 0);
    }"""
    y = np.zeros(32, np.uint32)
    run(text, [written(y)], mode=mode)
    assert set(y[:16]) == {0xAAAA + 3}
    assert set(y[16:]) == {sum(1 << i for i in range(16, 32) if i % 3 == 0)}


@both_modes
def test_lanes_that_ended_hold_up_nobody(mode):
    text = KERNEL + """k(int* y) { const int i = threadIdx.x;
        if (i >= 20) return;
        __syncwarp();
        y[i] = __shfl_xor_sync(0xffffffffu, i, 1); }"""
    y = np.zeros(20, np.int32)
    run(text, [written(y)], mode=mode)
    assert np.array_equal(y, np.arange(20) ^ 1)


@both_modes
def test_a_block_of_any_shape_and_its_indices(mode):
    text = KERNEL + """k(int* y) {
        const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        const int lane = __shfl_sync(__activemask(), thread, 0);
        y[block * 45 + thread] = block * 1000 + lane; }"""
    y = np.zeros((24, 45), np.int32)
    run(text, [written(y)], mode=mode, block=(3, 5, 3), grid=(2, 3, 4))
    assert np.array_equal(y, np.arange(24)[:, None] * 1000 + np.arange(45) // 32 * 32)


@both_modes
@pytest.mark.parametrize("order", range(8))
def test_block_reduction_in_any_order(mode, order):
    text = KERNEL + """k(const float* x, float* y) {
        __shared__ float part[32];
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        for (int turn = 0; turn < 3; ++turn) {
            float sum = x[turn * 256 + threadIdx.x];
            for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
            if (lane == 0) part[warp] = sum;
            __syncthreads();
            if (threadIdx.x == 0) {
                float total = 0.0f;
                for (int i = 0; i < 8; ++i) total += part[i];
                y[blockIdx.x * 3 + turn] = total * (blockIdx.x + 1);
            }
            __syncthreads();
        } }"""
    x, y = np.arange(768, dtype=np.float32), floats(3, 3)
    report = run(text, [read(x), written(y)], mode=mode, block=(256, 1, 1), grid=(3, 1, 1), order=order)
    assert np.array_equal(y, x.reshape(3, 256).sum(1) * np.arange(1, 4)[:, None])
    assert report.barriers == (6 if mode is Mode.CHECK else 0)


# ---- scalars

@both_modes
@pytest.mark.thin(2)
def test_bits(mode):
    def bits(expression, dtype=np.uint32):
        return evaluate(expression, "unsigned" if dtype is np.uint32 else "int", dtype, mode)

    assert np.array_equal(bits("__popc(i * 77)"), [bin(i * 77).count("1") for i in LANE])
    assert np.array_equal(bits("__clz(i)", np.int32), [32 - int(i).bit_length() for i in LANE])
    assert np.array_equal(bits("__ffs(i << 3)", np.int32), [int(i & -i).bit_length() + 3 if i else 0 for i in LANE])
    joined = 0x0123456789ABCDEF
    assert np.array_equal(bits("__funnelshift_r(0x89abcdefu, 0x01234567u, i)"), [joined >> int(i) & FULL for i in LANE])
    assert np.array_equal(bits("__funnelshift_l(0x89abcdefu, 0x01234567u, i)"),
                          [(joined << int(i) >> 32) & FULL for i in LANE])
    assert np.array_equal(bits("__float_as_uint((float)i)"), LANE.astype(np.float32).view(np.uint32))
    assert set(bits("__byte_perm(0x33221100u, 0x77665544u, 0x7250u)")) == {0x77225500}
    assert set(bits("__dp4a(0x01ff0302, 0x02030405, 7)", np.int32)) == {7 + 2 - 3 + 12 + 10}


@pytest.mark.thin(3)
@pytest.mark.parametrize("expression, expected", [
    ("min(i, 5)", np.minimum(LANE, 5)), ("max(3u, 7u)", 7), ("min(-1, 4u)", 4), ("max(-1LL, (long long)i)", LANE),
    ("min(2.5f, (float)i)", np.minimum(LANE, 2.5)), ("max(1.5, 2.5f)", 2.5), ("fminf(NAN_, 3.0f)", 3),
    ("fmaxf(3.0f, NAN_)", 3), ("fmaf(i, 3.0f, 0.5f)", LANE * 3 + 0.5), ("floorf(2.75f)", 2),
    ("__saturatef(i - 1.5f)", np.clip(LANE - 1.5, 0, 1)), ("rsqrtf(4.0f)", 0.5), ("sqrtf(i * (float)i)", LANE),
])
def test_arithmetic(expression, expected):
    text = expression.replace("NAN_", "__uint_as_float(0x7fc00000u)")
    assert np.array_equal(evaluate(text, "float", np.float32, Mode.FAST), np.broadcast_to(expected, 32))


def test_fma_rounds_once_and_a_product_twice():
    a = np.float32(1 + 2**-12)
    prefix = "__device__ float tiny(float a) { return %s; } "
    exact = float(a) * float(a) - 1.0
    for mode in Mode:
        fused = evaluate("tiny(1.000244140625f)", "float", np.float32, mode, prefix % "fmaf(a, a, -1.0f)")
        parted = evaluate("tiny(1.000244140625f)", "float", np.float32, mode, prefix % "a * a + -1.0f")
        assert fused[0] == np.float32(exact)
        assert parted[0] == a * a - np.float32(1)
        assert fused[0] != parted[0]


@both_modes
def test_exponential_is_close(mode):
    assert np.allclose(evaluate("expf(i * 0.25f)", "float", np.float32, mode), np.exp(LANE * 0.25), rtol=1e-6)


def test_the_language_of_templates():
    text = """
constexpr int N = 5, TABLE[3] = {4, 5, 6};
static_assert(N == 5, "constants are constant");
struct Pair { int a, b; };
template <int STEP, typename T> __device__ __forceinline__ T twice(T value) {
    T sum = 0;
#pragma unroll
    for (int i = 0; i < STEP; ++i) sum += value;
    return sum;
}
__device__ __noinline__ int plus(int a, int b = N) { return a + b; }
""" + KERNEL + """__launch_bounds__(32, 2) k(const int* __restrict__ x, int* __restrict__ y,
                  const __grid_constant__ Pair pair, long long offset) {
        const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x + offset;
        uint3 corner = threadIdx;
        dim3 size = dim3(corner.x, 2);
        int2 v = make_int2(twice<2>(__ldg(x + i)), plus(pair.b));
        __stcs(&y[i], v.x + v.y + TABLE[size.z] + warpSize);
    }"""
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    pair = np.zeros(1, np.dtype([("a", np.int32), ("b", np.int32)]))
    pair["b"] = 7
    run(text, [read(x), written(y), pair[0], np.int64(0)], grid=(2, 1, 1))
    assert np.array_equal(y, 2 * x + 7 + 5 + 5 + 32)


# ---- device primitives: 16-bit floats against NumPy's bits

def convert(name: str, values: np.ndarray, source: str, target: str, dtype) -> np.ndarray:
    """Device primitive ``name`` of each value."""
    text = KERNEL + f"""k(const {source}* x, {target}* y, int n) {{
        const int i = blockIdx.x * 256 + threadIdx.x;
        if (i < n) y[i] = {name}(x[i]); }}"""
    result = np.zeros(values.shape, dtype)
    run(text, [read(values), written(result), np.int32(values.size)], block=(256, 1, 1),
        grid=(-(-values.size // 256), 1, 1), mode=Mode.FAST)
    return result


def awkward_floats() -> np.ndarray:
    """Every half and its neighbours, ties, the ends of both ranges, zeros, infinities, and random bits."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    bits = halves.view(np.uint32)
    near = np.concatenate([bits, bits + 1, bits - 1, bits + 0x1000, bits + 0xFFF, bits + 0x1001, bits + 0x8000])
    return np.concatenate([near, np.random.default_rng(1).integers(0, 1 << 32, 20000, np.uint32)]).view(np.float32)


def test_half_to_float():
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = bits.view(np.float16).astype(np.float32)
    result = convert("wc_half_to_float", bits, "unsigned short", "float", np.float32)
    assert np.array_equal(result, expected, equal_nan=True)
    assert np.array_equal(np.signbit(result), np.signbit(expected))


def test_float_to_half():
    values = awkward_floats()
    with np.errstate(all="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    result = convert("wc_float_to_half", values, "float", "unsigned short", np.uint16)
    assert np.array_equal(result, np.where(np.isnan(values), 0x7FFF, expected))


def test_bfloat16():
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = convert("wc_bfloat16_to_float", bits, "unsigned short", "float", np.float32)
    assert np.array_equal(wide.view(np.uint32), bits.astype(np.uint32) << 16)
    values = awkward_floats()
    exact = values.view(np.uint32).astype(np.uint64)
    low = exact & 0xFFFF
    up = (low > 0x8000) | ((low == 0x8000) & (exact >> 16 & 1 == 1))
    expected = np.where(np.isnan(values), 0x7FFF, (exact >> 16) + up).astype(np.uint16)
    assert np.array_equal(convert("wc_float_to_bfloat16", values, "float", "unsigned short", np.uint16), expected)


def test_every_primitive_of_a_fragment_is_this_devices_too():
    """Whatever fragment of templates/parts defines it."""
    from warpconv.runtime.devices.cpu.objects import DEVICE, HOPPER_PRIMITIVES, PRIMITIVES

    texts = [path.read_text() for path in (Path(__file__).parents[3] / "templates" / "parts").rglob("*.jinja")]
    fragments = {name for text in texts for name in re.findall(r"macro (wc_\w+)\(", text)} - {"wc_wgmma"}
    assert set(PRIMITIVES) <= fragments <= {*PRIMITIVES, *HOPPER_PRIMITIVES}
    for header, names in (("device_primitives.h", PRIMITIVES), ("hopper_primitives.h", HOPPER_PRIMITIVES)):
        text = (DEVICE / header).read_text()
        suffixes = "".join(f"{head}{suffix}{tail}(" for suffix in ("", "_transposed")
                           for head, tail in re.findall(r"(\w+)##suffix##(\w+)\(", text))
        for name in names:
            assert re.search(rf"\b{name}[(,]", text) or f"{name}(" in suffixes, name


def test_the_fragments_primitives_are_exactly_this_devices():
    """The emitted text defines each with inline PTX on one line; this device drops the line and has its own."""
    from warpconv.codegen.render import environment
    from warpconv.runtime.devices.cpu.objects import PRIMITIVES

    fragment = environment().get_template("parts/primitives.cuh.jinja").module
    lines = {name: str(getattr(fragment, name)()) for name in dir(fragment) if name.startswith("wc_")}
    assert tuple(sorted(lines)) == tuple(sorted(PRIMITIVES))
    assert {name for name, line in lines.items() if "asm" not in line} == {"wc_bfloat16_to_float"}   # the rest is PTX
    prefix = "".join(lines.values())
    assert set(evaluate("wc_half_to_float(0x3c00)", "float", np.float32, Mode.FAST, prefix)) == {1.0}


@both_modes
def test_the_fragments_own_bfloat16(mode):
    """What sm_75 has no instruction for is plain C++, which this device leaves out like all primitives: run here under
    other names. Every kind of value, and ties to both sides."""
    from warpconv.codegen.render import environment
    fragment = environment().get_template("parts/primitives.cuh.jinja").module
    prefix = str(fragment.wc_bfloat16_to_float()).replace("wc_", "own_") + str(
        fragment.wc_float_to_bfloat16(True)).replace("wc_", "own_")
    tops = np.array([0x0000, 0x8000, 0x0001, 0x3f80, 0x3f81, 0xbf81, 0x7f7e, 0x7f7f], np.uint32)
    bits = (tops[:, None] << 16 | np.array([0, 0x7fff, 0x8000, 0x8001], np.uint32)).reshape(-1)
    ties = np.where(bits & 0xffff == 0x8000, bits >> 16 & 1, bits & 0xffff > 0x8000)
    cases = ", ".join(f"{one}u" for one in bits)
    made = evaluate(f"own_float_to_bfloat16(__uint_as_float((const unsigned[]){{{cases}}}[i]))", "unsigned short",
                    np.uint16, mode, prefix)
    assert np.array_equal(made, (bits >> 16) + ties)
    assert (evaluate("own_float_to_bfloat16(__uint_as_float(0x7f800001u + i))", "unsigned short", np.uint16, mode,
                     prefix) == 0x7fff).all()
    assert (evaluate("own_float_to_bfloat16(__uint_as_float(0x7f800000u))", "unsigned short", np.uint16, mode,
                     prefix) == 0x7f80).all()
    back = evaluate("own_bfloat16_to_float((unsigned short)(i * 0x0811))", "float", np.float32, mode, prefix)
    assert np.array_equal(back.view(np.uint32), (LANE * 0x0811 & 0xffff).astype(np.uint32) << 16)
