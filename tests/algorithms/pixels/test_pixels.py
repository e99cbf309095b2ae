"""``pixels``: what its planner decides, refuses and demands, and what its text makes of every pixel value."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpconv
from tests import checks, reference, settings
from warpconv.codegen.algorithms.pixels import plan as pixels
from warpconv.codegen.algorithms.pixels.numbers import Sums, BankWeights, group_starts
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import INTEGER_WEIGHTS, PIXELS, ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec
from warpconv.runtime.accuracy.measure import measure
from warpconv.runtime.build import compilers
from warpconv.runtime.devices.cpu import Mode

on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
# what is awkward in a sum that becomes an integer: halves, what rounds to one, ends of the types, infinities, NaN
AWKWARD = (1.0, 0.5, 1.5, -0.5, -1.0, 0.49999997, 0.50000006, 127.5, 255.0, 257.0, 32768.0, 4194304.5, 1e30, -1e30,
           float("inf"), float("-inf"), float("nan"))


def plane(size: int = 3, side: int = 512, **changes: Any) -> ConvShape:
    return ConvShape(**{**dict(c=1, h=side, w=side, k=1, r=size, s=size, padding=size // 2, dtype="uint8"), **changes})


def planned(shape: ConvShape, arch: str = "sm_90", epilogue: tuple[Epilogue, ...] = (), **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="pixels", arch=arch, epilogue=epilogue, settings=values)


# ---- what is served

@pytest.mark.parametrize("shape, epilogue, says", [
    (plane(dtype="float32"), (), "element type float32"),
    (plane(layout="NHWC", c=2, k=2, groups=2), (), "2 channels side by side"),
    (plane(layout="NHWC", c=3, k=6, groups=3), (), "3 channels side by side, 6 filters"),
    (plane(13, layout="NHWC", c=3, k=3, groups=3), (), "accumulators"),
    (plane(c=2, k=2), (), "2 channels a group"), (plane(r=32, s=1), (), "32 rows tall"),
    (plane(r=31, s=99, padding=60), (), "3069 taps"),
    (plane(padding_mode="constant", padding_value=0.5), (), "the border's value is no uint8"),
    (plane(padding_mode="constant", padding_value=-1), (), "the border's value is no uint8"),
    (plane(dtype="int8", weight_dtype="int8", padding_mode="constant", padding_value=300), (),
     "the border's value is no int8"),
    (plane(), (Epilogue.RESIDUAL,), "residual")])
def test_layers_that_are_refused(shape, epilogue, says):
    assert says in pixels.supports(KernelSpec.of(shape, algorithm="pixels", arch=Arch(9, 0), epilogue=epilogue))
    with pytest.raises(UnsupportedSpec, match=says):
        planned(shape, epilogue=epilogue)


@pytest.mark.parametrize("shape, values, says", [
    (plane(), dict(columns=6), "columns = 6"),
    (plane(c=3, k=3, groups=3, layout="NHWC"), dict(columns=8), "columns = 8: 12"),
    (plane(c=4, k=4, groups=4, layout="NHWC", weight_dtype="int8"), dict(sums="dp4a"), "those of a channel lie apart"),
    (plane(), dict(vector=2), "vector = 2"),
    (plane(), dict(vector=12), "vector = 12"), (plane(), dict(vector=32), "vector = 32"),
    (plane(), dict(columns=4, vector=8), "vector = 8"), (plane(), dict(store_vector=16), "store_vector = 16"),
    (plane(), dict(store_vector=3), "store_vector = 3"),
    (plane(out_dtype="float32"), dict(store_vector=8), "more than 16 bytes"),
    (plane(), dict(sums="dp4a"), "sums = dp4a is not for float32 filters"),
    (plane(weight_dtype="int8"), dict(sums="float"), "sums = float is not for int8 filters"),
    (plane(weight_dtype="int16"), dict(sums="dp4a"), "not uint8 and int16"),
    (plane(dtype="int16", weight_dtype="int8"), dict(sums="dp4a"), "not int16 and int8"),
    (plane(weight_dtype="int8", dilation=(1, 2)), dict(sums="dp4a"), "the filter's lie apart"),
    (plane(29), dict(columns=8), "232 accumulators"),
    (plane(r=15, s=99, padding=50), dict(columns=8), "11880 products"),
    (plane(c=3, k=3, groups=3), dict(weights="constant"), "a single float32 filter"),
    (plane(weight_dtype="int8"), dict(weights="constant"), "a single float32 filter"),
    (plane(), dict(prefetch_rows=9), "prefetch_rows = 9"), (plane(), dict(warp_rows=33), "1024 threads"),
    (plane(k=4), dict(filters=3, warp_planes=1), "filters = 3, warp_planes = 1: together a divisor of the 4 filters"),
    (plane(k=6), dict(filters=2, warp_planes=2), "filters = 2, warp_planes = 2"),
    (plane(c=3, k=3, groups=3), dict(warp_planes=3), "a divisor of the 1 filters"),
    (plane(7, k=4), dict(filters=4, warp_planes=1, weights="registers"), "224 accumulators"),
    (plane(), dict(min_blocks=99), "min_blocks = 99"), (plane(), dict(sub_block_rows=5000), "sub_block_rows = 5000")])
def test_plan_values_that_do_not_go_together(shape, values, says):
    with pytest.raises(UnsupportedSpec, match=re.escape(says)):
        planned(shape, **values)


@pytest.mark.parametrize("shape", [plane(), plane(5, weight_dtype="int8"), plane(7, c=3, k=3, groups=3, dtype="int16"),
                                   plane(11, out_dtype="float32"), plane(3, 63), plane(padding_mode="reflect"),
                                   plane(5, c=3, k=3, groups=3, layout="NHWC"),
                                   plane(c=4, k=4, groups=4, layout="NHWC", weight_dtype="int8")])
def test_layers_of_integers_are_served_by_it(shape):
    assert plan_layer(shape).spec.algorithm == "pixels"


def test_layers_that_only_direct_serves():
    for shape in (plane(layout="NHWC", c=5, k=5, groups=5), plane(c=3, k=8)):
        assert plan_layer(shape).spec.algorithm == "direct"


# ---- what a plan decides and asks

@pytest.mark.parametrize("dtype, weight, sums", [
    ("uint8", None, Sums.FLOAT), ("uint8", "int8", Sums.DP4A), ("int8", "int8", Sums.DP4A),
    ("uint8", "int16", Sums.MAD), ("uint16", "int8", Sums.MAD), ("int16", None, Sums.FLOAT)])
def test_sums_follow_the_types(dtype, weight, sums):
    assert planned(plane(dtype=dtype, weight_dtype=weight)).options.sums is sums


@pytest.mark.parametrize("dtype, itemsize", [("uint8", 1), ("int16", 2)])
def test_sizes_and_addresses_that_loads_ask_for(dtype, itemsize):
    program = planned(plane(dtype=dtype)).program
    assert [program.argument(name).multiple_of for name in ("W", "Q", "x", "y", "w")] == [8, 8, 8 * itemsize,
                                                                                         8 * itemsize, 1]
    for width in (511, 510, 508):
        shape = plane(dtype=dtype, w=width)
        assert "W a multiple of 8" in program.refusal(shape) and planned(shape).program.refusal(shape) is None
    assert planned(plane(dtype=dtype, w=511)).program.demands == ""
    assert planned(plane(dtype=dtype), vector=1).program.demands == ""


def test_rows_of_channels_side_by_side_are_rows_of_so_many_times_the_columns():
    made = planned(plane(c=3, k=3, groups=3, layout="NHWC"))
    assert (made.numbers.chunk, made.numbers.planes, made.numbers.weight_count) == (12, 1, 27)
    assert [name for name, _ in made.numbers.beside] == ["pixel_m3", "pixel_m2", "pixel_m1", "pixel_12", "pixel_13",
                                                        "pixel_14"]
    assert made.program.demands.startswith("x a multiple of 4 bytes; y a multiple of 4 bytes; W a multiple of 4")
    assert planned(plane(c=4, k=4, groups=4, layout="NHWC")).program.argument("W").multiple_of == 2


@pytest.mark.parametrize("s, starts", [(1, (0,)), (3, (0,)), (4, (0,)), (5, (0, 1)), (7, (0, 3)), (8, (0, 4)),
                                       (9, (0, 4, 5))])
def test_fours_of_a_filter_row_end_with_it(s, starts):
    shape = plane(r=1, s=s, padding=0, weight_dtype="int8")
    assert group_starts(KernelSpec.of(shape, algorithm="pixels", arch=Arch(9, 0))) == starts


def test_windows_of_neighbouring_outputs_are_the_same_words():
    """5x5: two fours a row for each of eight columns, and only nine windows."""
    assert len(planned(plane(5, weight_dtype="int8")).numbers.inputs) == 9


def test_weights_are_where_there_is_room():
    assert planned(plane(3)).options.weights is planned(plane(9)).options.weights is BankWeights.REGISTERS
    assert planned(plane(5)).options.weights is BankWeights.CONSTANT       # one filter: operands of the FMA
    assert planned(plane(5, c=3, k=3, groups=3)).options.weights is BankWeights.REGISTERS
    assert planned(plane(11)).options.weights is BankWeights.SHARED
    assert planned(plane(11, weight_dtype="int8")).options.weights is BankWeights.REGISTERS      # four in each


def test_accumulators_move_on_without_moves():
    assert [(chain.start, chain.to) for chain in planned(plane(3)).numbers.chains] == [
        ("acc_p0", "out"), ("acc_p1", "acc_p0"), ("", "acc_p1")]


def test_no_pixel_is_converted_by_a_conversion():
    """Conversions to and from integers have a fraction of the rate: bytes become floats by a permutation, floats bytes
    four at a time."""
    text = render(planned(plane(3))).text
    assert "(float)" not in text and "__float2int" not in text and text.count("= pixel(") == 10
    assert text.count("= wc_to_uint8s(") == 2


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("shape", [plane(), plane(5, weight_dtype="int8"),
                                   plane(dtype="uint16", padding_mode="reflect")])
def test_a_sub_block_loads_as_planned(shape):
    """One in the interior: what a fourth strip and a fourth band of sub-blocks add to three of each."""
    usual = planned(shape)      # whole turns of the loop
    assert (usual.options.sub_block_rows + usual.numbers.slots - 1) % usual.options.prefetch_rows == 0
    rows = 2 * usual.options.prefetch_rows - usual.numbers.slots + 1
    made = planned(shape, sub_block_rows=rows, warp_columns=1, warp_rows=1)
    launch, = made.program.steps
    grid = tuple(replace(blocks, fill=None) for blocks in launch.grid)      # as in a layer that fills a GPU
    made = replace(made, program=replace(made.program, steps=(replace(launch, grid=grid),)))
    images = {(tall, wide): replace(shape, h=tall * rows, w=wide * made.numbers.strip)
              for tall in (3, 4) for wide in (3, 4)}
    loads = {size: measure(made, image).buffers["x"].load_requests for size, image in images.items()}
    assert loads[4, 4] - loads[4, 3] - loads[3, 4] + loads[3, 3] == made.cost.warp_loads


# ---- every value

def run(shape: ConvShape, x: np.ndarray, w: Any, algorithm: str, **values: Any) -> np.ndarray:
    made = plan_layer(shape, algorithm=algorithm, settings=values)
    weight = np.full(shape.weight_shape, w, reference.ELEMENTS[shape.w_dtype])
    out = reference.poisoned(shape)
    with np.errstate(all="ignore"):
        checks.cpu_kernel(made, Mode.FAST)(x, weight, out=out)
    return out


def every_value(dtype: str, columns: int) -> np.ndarray:
    """All values of a type, in rows wide enough for an interior."""
    least, most = DType.parse(dtype).limits
    values = np.arange(least, most + 1, dtype=dtype)
    return np.resize(values, (1, 1, -(-max(values.size, 8 * columns) // columns), columns))


@pytest.mark.thin(16)
@on_cpu_device
@pytest.mark.parametrize("dtype, weight, vector", [
    (d.value, w, v) for d, w, v in itertools.product(PIXELS, (None, *(t.value for t in INTEGER_WEIGHTS)), (1, 8))])
def test_every_pixel_value_is_itself(dtype, weight, vector):
    """A filter of one tap, 1: through each way to a number, back to the type itself and to float32."""
    x = every_value(dtype, 776)
    for out in (None, ("float32", "int32", "float32", "int32")[PIXELS.index(DType.parse(dtype))]):
        shape = ConvShape(c=1, h=x.shape[2], w=x.shape[3], k=1, r=1, s=1, dtype=dtype, weight_dtype=weight,
                          out_dtype=out)
        got = run(shape, x, 1, "pixels", vector=vector, store_vector=min(vector, 4))
        assert np.array_equal(got.astype(np.int64), x.astype(np.int64))


@pytest.mark.thin(12)
@on_cpu_device
@pytest.mark.parametrize("out", [None, "float16", "int16", "uint8"])
@pytest.mark.parametrize("cast", ["nearest", "truncate"])
@pytest.mark.parametrize("dtype", [d.value for d in PIXELS])
def test_awkward_sums_become_the_bits_that_direct_gives(dtype, cast, out):
    x = every_value(dtype, 776)
    shape = ConvShape(c=1, h=x.shape[2], w=x.shape[3], k=1, r=1, s=1, dtype=dtype, out_dtype=out, cast=cast)
    kernels = [checks.cpu_kernel(plan_layer(shape, algorithm=name)) for name in ("pixels", "direct")]
    for weight in AWKWARD:
        w = np.full(shape.weight_shape, weight, np.float32)
        made, wanted = (kernel(x, w, out=reference.poisoned(shape)) for kernel in kernels)
        assert np.array_equal(made, wanted, equal_nan=made.dtype.kind == "f"), weight       # zeros of either sign


@pytest.mark.long
@on_cpu_device
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_dp4a_at_the_ends_of_its_types(dtype):
    """Products of the least and the largest values, every alignment of a window, exactly."""
    rng, limits = settings.generator(5), DType.parse(dtype).limits
    for s in (1, 3, 4, 6, 7):
        shape = ConvShape(c=1, h=6, w=784, k=1, r=2, s=s, padding=(1, 3), dtype=dtype, weight_dtype="int8",
                          out_dtype="int32", padding_mode="reflect")
        x = rng.choice(limits, shape.input_shape).astype(dtype)
        w = rng.choice((-128, 127), shape.weight_shape).astype(np.int8)
        out = reference.poisoned(shape)
        checks.cpu_kernel(planned(shape))(x, w, out=out)
        assert np.array_equal(out, reference.convolve(x, w, shape))


@pytest.mark.thin(4)
@on_cpu_device
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_rows_at_any_address(dtype, offset):
    """Arrays that begin anywhere, in widths that no word divides."""
    rng = settings.generator(offset)
    for width in (531, 776):
        memory = rng.integers(0, 100, 9 * width + offset).astype(dtype)
        x = memory[offset:].reshape(1, 1, 9, width)
        w = rng.standard_normal((1, 1, 3, 3)).astype(np.float32)
        shape = ConvShape.of(x.shape, w.shape, padding=1, dtype=dtype)
        got = warpconv.conv2d(x, w, padding=1, device="cpu", algorithm="pixels")
        reference.expected(x, w, shape).check(got)


@pytest.mark.long
@on_cpu_device
def test_images_smaller_than_the_filter():
    for number, mode in enumerate(("reflect", "symmetric", "replicate", "circular", "constant", "zeros")):
        for h, w in ((1, 1), (2, 3)):
            shape = ConvShape(c=1, h=h, w=w, k=1, r=3, s=5, padding=(6, 9), dtype="uint8", padding_mode=mode,
                              padding_value=7 if mode == "constant" else 0)
            checks.check_checked(planned(shape, prefetch_rows=1, warp_columns=1, warp_rows=1), shape, seed=number)


# ---- compiled

@pytest.mark.long
def test_defaults_do_not_spill():
    kind = compilers.CompilerKind.NVCC
    if not compilers.available()[kind]:
        pytest.skip("nvcc is not installed")
    plans = [planned(plane(size, **layer)) for size, layer in settings.share([
        (3, {}), (5, {"padding_mode": "reflect"}), (7, {}), (9, {"w": 511}), (11, {"weight_dtype": "int8"}), (31, {}),
        (5, {"dtype": "uint16", "stride": 2}), (7, {"dtype": "int16", "weight_dtype": "int16"})], 1)]
    spilled = bytes_spilled(plans, kind)
    assert not any(spilled), [(n, str(plan.spec.layer), plan.options) for n, plan in zip(spilled, plans) if n]


def bytes_spilled(plans: list[KernelPlan], kind: compilers.CompilerKind) -> list[int]:
    """Bytes of a thread in local memory, of each plan."""
    def one(made: KernelPlan) -> int:
        entry, = compilers.compile_source(render(made).text, arch="sm_90", kind=kind).entries
        return max(entry.spill_stores, entry.spill_loads, entry.stack_bytes)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, plans))


@pytest.mark.long
def test_drawn_layers_spill_a_few_registers_at_most():
    """Of signed bytes, 16-bit pixels, weights of 16 bits and borders the estimate was up to 60 registers short once."""
    kind = compilers.CompilerKind.NVCC
    if not compilers.available()[kind]:
        pytest.skip("nvcc is not installed")
    rng = settings.generator(31)
    plans = []
    for _ in range(24 if settings.whole else 12):
        side, taps, depthwise = (int(rng.choice(values)) for values in ((14, 56, 112, 1024), (2, 3, 3, 5), (0, 1)))
        mode, dtype, weights = (str(rng.choice(values)) for values in (
            ("zeros", "constant", "reflect", "replicate"), ("uint8", "int8", "uint16"), ("int8", "int16", "float32")))
        plans.append(planned(ConvShape(c=32 if depthwise else 1, h=side, w=side, k=32 if depthwise else 1,
                                       groups=32 if depthwise else 1, r=taps, s=taps, padding=taps // 2,
                                       padding_mode=mode, dtype=dtype, weight_dtype=weights)))
    spilled = bytes_spilled(plans, kind)
    told = [(n, str(plan.spec.layer), plan.options) for n, plan in zip(spilled, plans) if n]
    assert max(spilled) <= 64 and len(told) <= 5 * len(plans) // 24, told


# ---- several filters over the same pixels

@pytest.mark.thin(8)
@on_cpu_device
@pytest.mark.parametrize("fields, values", [
    (dict(k=4), dict(filters=4, warp_planes=1)), (dict(k=4), dict(filters=2, warp_planes=2)),
    (dict(k=6, n=2), dict(filters=3, warp_planes=2)), (dict(c=2, k=6, groups=2), dict(filters=3, warp_planes=1)),
    (dict(k=2, weight_dtype="int8"), dict(filters=2)), (dict(k=3, weight_dtype="int16", stride=2), dict(filters=3)),
    (dict(k=4, padding_mode="reflect", out_dtype="float32"), dict(filters=2, warp_planes=1))])
def test_a_lane_adds_a_row_to_the_sums_of_several_filters(fields, values):
    shape = replace(plane(side=96), **{"w": 288, **fields})
    steps = (Epilogue.BIAS,)
    usual = dict(warp_columns=1, warp_rows=1, sub_block_rows=30, prefetch_rows=1, columns=4, vector=4, store_vector=1)
    several, one = (planned(shape, epilogue=steps, **{**usual, **each})
                    for each in (values, dict(filters=1, warp_planes=1)))
    reports = [checks.check_checked(made, shape)[0].buffers["x"].load_requests for made in (several, one)]
    assert reports[0] * several.options.filters == reports[1]


def test_several_filters_are_planned_together():
    for filters in (1, 2, 3, 4, 5, 8):
        options = planned(plane(side=4096, k=filters)).options
        together = options.filters * options.warp_planes
        assert filters % together == 0 and together == {1: 1, 2: 2, 3: 3, 4: 4, 5: 1, 8: 4}[filters]
    for shape in (plane(k=3, c=3, groups=3), plane(c=3, k=3, groups=3, layout="NHWC"), plane(11, k=4)):
        options = planned(shape).options
        assert (options.filters, options.warp_planes) == (1, 1)
    options = planned(plane(k=4), weights="shared").options
    assert (options.filters, options.warp_planes) == (1, 1)
