"""Tensor copies on the CPU device, against NumPy's statement of what lies where."""

import ctypes
import functools

import numpy as np
import pytest

from tests.runtime.devices.cpu_kernels.harness import compiler_or_skip, read, written
from tests.runtime.devices.cpu_kernels.hopper import im2col, of, pack, ring, unswizzled
from warpconv.codegen.errors import KernelFault
from warpconv.runtime.devices.cpu import Buffer, Mode, TensorMap, program
from warpconv.runtime.devices.cpu.memory import stage

compiler_or_skip()

BOTH = pytest.mark.parametrize("mode", list(Mode))
PARAMETERS = "const __grid_constant__ TensorMap map, unsigned short* y, int n, "
LOAD = """
    if (t == 0) wc_barrier_init(full, 1);
    __syncthreads();
    if (t == 0) {{ wc_barrier_expect(full, n); {call}; }}
    wc_barrier_wait(full, 0);
    for (int i = t; i < n / 2; i += 128) y[i] = ((unsigned short*)shared)[i];"""
BEYOND = 24                   # more than any box here reaches out
COORDINATES = {2: "c0, c1", 3: "c0, c1, c2", 4: "c0, c1, c2, c3"}


def numbers(*shape: int) -> np.ndarray:
    """16-bit elements that are all different as far as there are enough, and never zero."""
    return (np.arange(np.prod(shape)) % 65535 + 1).astype(np.uint16).reshape(shape)


def box_at(x: np.ndarray, at, box) -> np.ndarray:
    """A box with zeros where it lies outside; ``at`` and ``box`` innermost first."""
    return np.pad(x, BEYOND)[beyond(at, box)]


def beyond(at, box) -> tuple[slice, ...]:
    """Where a box lies in an array with BEYOND elements around it."""
    return tuple(slice(BEYOND + a, BEYOND + a + b) for a, b in zip(at[::-1], box[::-1]))


@BOTH
def test_floats_are_rounded_to_tf32_as_they_come(mode):
    """To nearest, ties away from zero; zeros outside, infinities and NaN stay."""
    rng = np.random.default_rng(6)
    x = rng.integers(0, 2**32, (20, 32), dtype=np.uint32)
    x[:, 0] = x[:, 0] & 0xFFFFE000 | 0x1000                 # ties
    x[1, :4] = [0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF]
    y = np.zeros((16, 64), np.uint16)
    ring(LOAD.format(call="wc_tma_load_2(shared, &map, full, c0, c1)"), PARAMETERS + "int c0, int c1",
         [of(read(x.view(np.float32)), (32, 16), swizzle=128, rounded=True), written(y), np.int32(2048), np.int32(0),
          np.int32(-1)], mode=mode)
    got = unswizzled(y.view(np.uint8), 128).view(np.uint32).reshape(16, 32)
    with np.errstate(invalid="ignore"):
        wide = x[:15].view(np.float32).astype(np.float64)
    finite = np.abs(wide) < 2.0**127
    given = wide[finite]
    step = np.exp2(np.maximum(np.floor(np.log2(np.abs(given))), -126) - 10)
    nearest = np.sign(given) * np.floor(np.abs(given) / step + 0.5) * step
    assert finite.mean() > 0.9 and np.array_equal(got[1:].view(np.float32)[finite], nearest.astype(np.float32))
    assert not got[0].any() and got[2, 0] == 0x7F800000 and got[2, 1] == 0xFF800000
    assert np.isnan(got[1:].view(np.float32)[np.isnan(wide)]).all()


@BOTH
@pytest.mark.parametrize("shape, box, at, swizzle", [
    ((20, 64), (64, 16), (0, 3), 128),
    ((20, 72), (64, 24), (16, -2), 128),                 # channels and rows that are not there
    ((20, 40), (32, 16), (-8, 9), 64),
    ((7, 9, 64), (64, 5, 3), (0, -1, 5), 128),
    ((3, 7, 9, 64), (64, 6, 4, 1), (0, -1, 4, 2), 128),
    ((3, 7, 9, 32), (32, 6, 4, 2), (0, 5, -2, -1), 64),
    ((5, 8, 24), (8, 8, 5), (16, 1, 1), 0),
    ((20, 32), (32, 20), (0, 0), 128),                   # rows of half the swizzled ones: its bits are the address's
])
def test_boxes(mode, shape, box, at, swizzle):
    x, size = numbers(*shape), 2 * int(np.prod(box))
    y = np.zeros(size // 2, np.uint16)
    names = COORDINATES[len(shape)]
    report = ring(LOAD.format(call=f"wc_tma_load_{len(shape)}(shared, &map, full, {names})"),
                  PARAMETERS + ", ".join(f"int {name}" for name in names.split(", ")),
                  [of(read(x), box, swizzle=swizzle), written(y), np.int32(size), *map(np.int32, at)], mode=mode)
    expected = box_at(x, at, box)
    got = unswizzled(y.view(np.uint8), swizzle).reshape(-1) if swizzle else y.view(np.uint8)
    assert np.array_equal(got.view(np.uint16).reshape(expected.shape), expected)
    if mode is Mode.CHECK:
        counts = report.buffers["x"]
        assert counts.load_requests == 1
        assert counts.load_bytes == 2 * np.count_nonzero(expected)


@BOTH
@pytest.mark.parametrize("strides, at", [((1, 2, 2, 1), (0, -1, 4, 2)), ((1, 1, 3, 1), (0, 5, -2, 0)),
                                         ((1, 2, 1, 2), (8, 0, 0, 0))])
def test_boxes_of_every_second_pixel(mode, strides, at):
    """A box names what it spans, and has as many elements as steps begin in it."""
    shape, spans = (3, 7, 9, 64), (32, 7, 5, 2)
    box = [-(-span // stride) for span, stride in zip(spans, strides)]
    x, size = numbers(*shape), 2 * int(np.prod(box))
    y = np.zeros(size // 2, np.uint16)
    ring(LOAD.format(call="wc_tma_load_4(shared, &map, full, c0, c1, c2, c3)"),
         PARAMETERS + "int c0, int c1, int c2, int c3",
         [TensorMap(read(x), pack(shape[::-1], spans, swizzle=64, element_strides=strides)), written(y), np.int32(size),
          *map(np.int32, at)], mode=mode)
    every = tuple(slice(None, None, stride) for stride in strides[::-1])
    found = unswizzled(y.view(np.uint8), 64).view(np.uint16)
    assert np.array_equal(found.reshape(-1), box_at(x, at, spans)[every].reshape(-1))


@BOTH
@pytest.mark.parametrize("at", [(8, -1, 2, 1, 1), (0, 5, -1, -1, 0), (0, 0, 1, 3, 0)])
def test_boxes_of_volumes(mode, at):
    """Of one plane, which may be none of the volume's: zeros."""
    shape, spans, strides = (2, 3, 5, 7, 16), (8, 6, 3, 1, 1), (1, 2, 1, 1, 1)
    box = [-(-span // stride) for span, stride in zip(spans, strides)]
    x, size = numbers(*shape), 2 * int(np.prod(box))
    y = np.zeros(size // 2, np.uint16)
    ring(LOAD.format(call="wc_tma_load_5(shared, &map, full, c0, c1, c2, c3, c4)"),
         PARAMETERS + "int c0, int c1, int c2, int c3, int c4",
         [TensorMap(read(x), pack(shape[::-1], spans, swizzle=0, element_strides=strides)), written(y), np.int32(size),
          *map(np.int32, at)], mode=mode)
    every = tuple(slice(None, None, stride) for stride in strides[::-1])
    assert np.array_equal(y, box_at(x, at, spans)[every].reshape(-1))


CASES = {
    "3x3": dict(image=(2, 7, 9, 64), filter=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1)),
    "strides": dict(image=(3, 9, 11, 64), filter=(3, 3), stride=(2, 3), padding=(1, 1), dilation=(1, 1)),
    "3x1, padding 1x0": dict(image=(2, 8, 5, 64), filter=(3, 1), stride=(2, 1), padding=(1, 0), dilation=(1, 1)),
    "1x3, padding 0x1": dict(image=(4, 3, 7, 64), filter=(1, 3), stride=(1, 2), padding=(0, 1), dilation=(1, 1)),
    "dilation": dict(image=(2, 11, 13, 64), filter=(3, 5), stride=(1, 1), padding=(2, 4), dilation=(2, 3)),
    "no padding": dict(image=(5, 4, 4, 64), filter=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1)),
    "72 channels": dict(image=(2, 5, 6, 72), filter=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1)),
    "3x3x3": dict(image=(2, 4, 5, 6, 64), filter=(3, 3, 3), stride=(1, 1, 1), padding=(1, 1, 1), dilation=(1, 1, 1)),
    "2x3x2, all else": dict(image=(3, 5, 7, 6, 72), filter=(2, 3, 2), stride=(2, 1, 3), padding=(1, 2, 0),
                            dilation=(1, 2, 2)),
    "1x1": dict(image=(9, 2, 2, 64), filter=(1, 1), stride=(1, 1), padding=(0, 0), dilation=(1, 1)),
}


@BOTH
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("channels", [64, 32])
def test_im2col_walks_over_rows_and_images(mode, case, channels):
    """And over planes of volumes."""
    n, *image, c = case["image"]
    x = numbers(*case["image"])
    taps, stride, padding, dilation = (case[name] for name in ("filter", "stride", "padding", "dilation"))
    outputs = [(size + 2 * pad - (span - 1) * apart - 1) // step + 1
               for size, pad, span, apart, step in zip(image, padding, taps, dilation, stride)]
    upper = [pad - (span - 1) * apart for pad, span, apart in zip(padding, taps, dilation)]
    map_ = TensorMap(read(x), pack((c, *image[::-1], n), (channels, 48), swizzle=2 * channels, im2col=True,
                                   element_strides=(1, *stride[::-1], 1), lower=[-pad for pad in padding[::-1]],
                                   upper=upper[::-1]))
    size, pixels, row = 48 * channels * 2, int(np.prod(outputs)), outputs[-1]
    kind, names = ("wc_tma_load_im2col", "w, h") if len(image) == 2 else ("wc_tma_load_im2col_volumes", "w, h, d")
    offsets = ", ".join(f"tap_{axis}" for axis in names.split(", "))
    rng = np.random.default_rng(1)
    for start in sorted({0, row - 1, pixels - 3, *rng.integers(0, n * pixels, 3).tolist()} - {-1, -2, -3}):
        of_image, *place = np.unravel_index(start, (n, *outputs))
        tap, first = [int(rng.integers(span)) for span in taps], channels * int(rng.integers(-(-c // channels)))
        y = np.zeros(size // 2, np.uint16)
        corner = [at * step - pad for at, step, pad in zip(place, stride, padding)]
        at = first, *corner[::-1], of_image, *[which * apart for which, apart in zip(tap, dilation)][::-1]
        parameters = ", ".join(f"int {name}" for name in f"c, {names}, image, {offsets}".split(", "))
        ring(LOAD.format(call=f"{kind}(shared, &map, full, c, {names}, image, {offsets})"), PARAMETERS + parameters,
             [map_, written(y), np.int32(size), *map(np.int32, at)], mode=mode)
        expected = im2col(x, start, 48, first, channels, tap, outputs=outputs, stride=stride, padding=padding,
                          dilation=dilation)
        assert np.array_equal(unswizzled(y.view(np.uint8), 2 * channels).view(np.uint16), expected), (start, at)


@BOTH
@pytest.mark.parametrize("dtype, first, right", [("u2", 8, True), ("u2", -8, True), ("u2", 4, False), ("u2", -1, False),
                                                 ("f4", 4, True), ("f4", -1, False), ("f4", 14, False)])
def test_boxes_begin_at_whole_16_bytes(mode, dtype, first, right):
    """Of their innermost dimension, inside or outside: a GPU ends others with an illegal instruction."""
    x = np.ones((20, 64), dtype)
    y = np.zeros(16 * 4 * x.itemsize // 2, np.uint16)
    arguments = [of(read(x), (16, 4)), written(y), np.int32(16 * 4 * x.itemsize), np.int32(first), np.int32(0)]
    run = functools.partial(ring, LOAD.format(call="wc_tma_load_2(shared, &map, full, c0, c1)"),
                            PARAMETERS + "int c0, int c1", arguments, mode=mode)
    if right:
        run()
    else:
        with pytest.raises(KernelFault, match=f"from element {first} on .* no multiple of 16"):
            run()


STORE = """
    for (int i = t; i < n / 2; i += 128) ((unsigned short*)shared)[i] = x[i];
    wc_fence_proxy_async();
    __syncthreads();
    if (t == 0) {{
        wc_tma_store_{rank}(&map, shared, {names});
        wc_tma_stores_commit();
        wc_tma_stores_done();
    }}"""


@pytest.mark.thin(2)
@BOTH
@pytest.mark.parametrize("shape, box, at, swizzle", [
    ((20, 64), (64, 16), (0, 3), 128),
    ((20, 72), (64, 24), (16, 5), 128),
    ((3, 7, 9, 64), (64, 6, 4, 1), (0, 4, 5, 2), 128),
    ((5, 8, 24), (8, 8, 5), (16, 1, 1), 0),
])
def test_stores_leave_what_is_outside(mode, shape, box, at, swizzle):
    y, size = np.zeros(shape, np.uint16), 2 * int(np.prod(box))
    inside = numbers(*box[::-1])
    memory = inside.view(np.uint8).reshape(-1, swizzle or 16)
    memory = unswizzled(memory, swizzle) if swizzle else memory       # the swizzle is its own inverse
    names = COORDINATES[len(shape)]
    ring(STORE.format(rank=len(shape), names=names),
         "const unsigned short* x, const __grid_constant__ TensorMap map, int n, "
         + ", ".join(f"int {name}" for name in names.split(", ")),
         [read(memory.view(np.uint16).reshape(-1)), of(Buffer("y", y, writable=True), box, swizzle=swizzle),
          np.int32(size), *map(np.int32, at)], mode=mode)
    expected = np.pad(np.zeros(shape, np.uint16), BEYOND)
    expected[beyond(at, box)] = inside
    assert np.array_equal(y, expected[(slice(BEYOND, -BEYOND),) * len(shape)])


BULK = """
    if (t == 0) {{ wc_barrier_init(full, 1); }}
    __syncthreads();
    if (t == 0) {{ wc_barrier_expect(full, {expected}); wc_bulk_load(shared + to, x + from, bytes, full); }}
    {wait}
    for (int i = t; i < bytes / 2; i += 128) y[i] = ((unsigned short*)(shared + to))[i];"""
BULK_PARAMETERS = "const unsigned short* x, unsigned short* y, int to, int from, int bytes"


def bulk(to: int, first: int, size: int, mode: Mode, expected: str = "bytes", wait: str = "wc_barrier_wait(full, 0);"):
    """``size`` bytes from element ``first`` on to byte ``to``: what came, and the report."""
    y = np.zeros(max(1, size // 2), np.uint16)
    report = ring(BULK.format(expected=expected, wait=wait), BULK_PARAMETERS,
                  [read(numbers(64)), written(y), *map(np.int32, (to, first, size))], mode=mode)
    return y, report


@BOTH
@pytest.mark.parametrize("to, first, size", [(0, 0, 128), (16, 8, 16), (48, 24, 80)])
def test_bytes_as_they_lie(mode, to, first, size):
    y, report = bulk(to, first, size, mode)
    assert np.array_equal(y, numbers(64)[first:first + size // 2])
    if mode is Mode.CHECK:
        assert (report.buffers["x"].load_requests, report.buffers["x"].load_bytes) == (1, size)


@BOTH
@pytest.mark.parametrize("to, first, size", [(8, 0, 16), (0, 4, 16), (0, 0, 24), (0, 0, 0)])
def test_bytes_that_are_no_whole_16(mode, to, first, size):
    with pytest.raises(KernelFault, match="multiples of 16") as caught:
        bulk(to, first, size, mode)
    assert caught.value.kind == "misaligned"


@pytest.mark.parametrize("how, kind", [
    (dict(size=144), "out-of-bounds"), (dict(to=66560), "descriptor"),
    (dict(wait="__syncthreads();"), "shared-race"), (dict(expected="16"), "barrier-misuse")])
def test_bytes_that_nobody_may_count_on(how, kind):
    """Behind the array, behind what the launch asked for, before the barrier has counted them, more than it expects."""
    with pytest.raises(KernelFault) as caught:
        bulk(**{"to": 0, "first": 0, "size": 128, "mode": Mode.CHECK, **how})
    assert caught.value.kind == kind


@pytest.mark.parametrize("how, words", [
    (dict(sizes=(64, 21), box=(64, 8)), "names 2688 bytes from byte 0 of its 2560"),
    (dict(sizes=(64, 20), box=(64, 8), address=16), "from byte 16"),
    (dict(sizes=(64, 19), box=(64, 8), address=2), "multiple of 16"),
    (dict(sizes=(64, 20), box=(64, 257)), "a box of 257"),
    (dict(sizes=(64, 20), box=(60, 8)), "rows of 120 bytes"),
    (dict(sizes=(64, 20), box=(64, 8), swizzle=64), "more than the 64 swizzled"),
    (dict(sizes=(64, 20), box=(64, 8), strides=(120,)), "a stride of 120 bytes"),
    (dict(sizes=(64, 20), box=(64, 8), element_strides=(2, 1, 1, 1)), "element stride 2 in its innermost"),
    (dict(sizes=(64, 20), box=(64, 8), element_strides=(1, 9, 1, 1)), "element stride 9"),
    (dict(sizes=(64, 0), box=(64, 8)), "size 0"),
    (dict(sizes=(64, 2, 2, 2), box=(64, 8), im2col=True, lower=(-129, 0)), "a corner at -129"),
    (dict(sizes=(64, 2, 2, 2, 2), box=(64, 8), im2col=True, lower=(0, 0, -17)), "a corner at -17"),
    (dict(sizes=(64,), box=(64,)), "1 dimensions"),
    (dict(sizes=(64, 2, 2, 2), box=(64, 1025), im2col=True), "1025 pixels"),
    (dict(sizes=(64, 2, 2, 2), box=(64, 8), im2col=True, element_strides=(1, 9, 1, 1)), "element stride 9"),
])
def test_maps_that_a_driver_would_refuse(how, words):
    with pytest.raises(KernelFault, match=words) as caught:
        ring("y[t] = 0;", "const __grid_constant__ TensorMap map, float* y",
             [TensorMap(read(numbers(20, 64)), pack(**how)), written(np.zeros(128, np.float32))])
    assert caught.value.kind == "descriptor"


def test_maps_lie_where_the_compiler_may_copy_them_by_vectors():
    """At multiples of 64 bytes, wherever memory was free: a process ended by a signal where that was not so."""
    x = read(numbers(20, 64))
    with stage((x,), Mode.CHECK) as staged:
        for size in range(64):
            kept = ctypes.create_string_buffer(16 * size + 1)
            values, pointers = program._argument_values([of(x, (8, 64)), np.int32(7)], staged, "k")
            assert pointers[0] % 64 == 0 and kept
            found = TensorMap.at(of(x, (8, 64)), staged[0].address, "k")
            assert ctypes.string_at(pointers[0], len(found)) == found and values


def test_a_buffer_and_its_map_are_one():
    x, y = Buffer("x", numbers(16, 64), writable=True), np.zeros(16 * 64, np.uint16)
    body = "if (t == 0) x[5] = 7; __syncthreads();" + LOAD.format(call="wc_tma_load_2(shared, &map, full, 0, 0)")
    with pytest.raises(KernelFault) as caught:        # the same memory, so the copy races with the write
        ring(body.replace("t == 0) {", "t == 1) {"), "unsigned short* x, " + PARAMETERS.rstrip(", "),
             [x, of(x, (64, 16)), written(y), np.int32(2048)])
    assert caught.value.kind == "global-race"
