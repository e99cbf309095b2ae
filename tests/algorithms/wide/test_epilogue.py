"""The epilogue in `wide`: when a residual is loaded, how outputs of 8 bits are packed, what the compiler is told."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests import checks, reference, settings
from warpconv.codegen.epilogue import parse_epilogue
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy.measure import measure
from warpconv.runtime.build import compilers
from warpconv.runtime.call.conv import specialize
from warpconv.runtime.devices.cpu import Mode

ROWS = dict(columns=4, vector=4, span="packed", row_lanes=16, sub_block_rows=7, warp_columns=1, warp_rows=1)
WAYS = {"registers": "with_rows", "cached": "step_ahead", "async": "step_ahead"}


def depthwise(h: int, **changes) -> ConvShape:
    return ConvShape(**{**dict(n=2, c=3, h=h, w=24, k=3, r=3, s=3, padding=1, groups=3), **changes})


def wide(shape: ConvShape, *steps: str, arch: str = "sm_90", **values):
    return plan_layer(shape, algorithm="wide", epilogue=parse_epilogue(steps, takes_bias=True), settings=values,
                      arch=arch)


on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


@pytest.mark.thin(3)
@on_cpu_device
@pytest.mark.parametrize("ahead, loads, store", [(1, "registers", 4), (2, "registers", 2), (4, "registers", 4),
                                                 (4, "registers", 1), (2, "cached", 2)])
def test_every_residual_is_read_once_and_in_place(ahead, loads, store):
    """Sub-blocks that end with a step below the image, whole ones, and some that have no row left."""
    for h in (1, 5, 7, 8, 22):
        shape = depthwise(h)
        plan = wide(shape, "bias", "residual", "relu", loads=loads, prefetch_rows=ahead, store_vector=store, **ROWS)
        assert plan.numbers.residual == WAYS[loads]
        x, w, bias = reference.operands(shape, settings.generator(h))
        residual = reference.residual(shape, settings.generator(h + 1))
        wanted = reference.expected(x, w, shape, bias=bias, residual=residual, epilogue=plan.spec.epilogue)
        kernel = specialize(shape, device="cpu", plan=plan)
        wanted.check(kernel(x, w, bias, residual=residual, out=reference.poisoned(shape)), f"{plan.settings()}")
        assert kernel(x, w, bias, residual=residual, out=residual) is residual
        wanted.check(residual, f"in place, {plan.settings()}")
        counted = measure(plan, shape)
        assert counted.buffers["residual"].load_bytes == counted.buffers["y"].store_bytes == residual.nbytes


def test_a_residual_of_several_channels_comes_a_step_ahead():
    shape = depthwise(8, c=6, groups=3)
    plan = wide(shape, "residual", weights="shared")
    assert plan.numbers.residual == "step_ahead" and wide(shape, "relu", weights="shared").numbers.residual == ""


@pytest.mark.parametrize("out, arch, cast, store, function", [
    ("uint8", "sm_90", "nearest", 4, "wc_to_uint8s"), ("uint8", "sm_75", "nearest", 4, "wc_to_uint8s"),
    ("uint8", "sm_70", "nearest", 4, "to_bytes"), ("uint8", "sm_90", "truncate", 4, "to_bytes"),
    ("uint8", "sm_90", "nearest", 2, "to_bytes"), ("uint8", "sm_90", "nearest", 1, "to_element"),
    ("uint16", "sm_90", "nearest", 2, "wc_to_uint16s"), ("int16", "sm_90", "nearest", 4, "make_uint2(wc_to_int16s"),
    ("int16", "sm_90", "truncate", 2, "to_shorts"), ("uint16", "sm_90", "truncate", 4, "make_uint2(to_shorts"),
    ("uint16", "sm_90", "nearest", 1, "to_element")])
def test_how_integers_of_8_and_16_bits_are_packed(out, arch, cast, store, function):
    plan = wide(depthwise(8, out_dtype=out, cast=cast), "quantize(0.5,3)", arch=arch, store_vector=store, **ROWS)
    text, at_once = render(plan).text, "wc_" in function
    assert function.endswith(plan.numbers.to_word) and f" = {function}(out_c0" in text
    assert ("cvt.pack" in text) == at_once and ("to_element(float" in text) == (not at_once)


@on_cpu_device
@pytest.mark.parametrize("out", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("store", [1, 2, 4])
@pytest.mark.thin(4)
def test_small_integers_are_rounded_and_limited_alike_however_they_are_packed(out, store):
    shape = ConvShape(c=1, h=1, w=16, k=1, r=1, s=1, out_dtype=out)
    low, high = shape.y_dtype.limits
    values = np.array([low, high, low - 1, high + 1, -0.5, 0.5, 1.5, 2.5, -1.5, 3e9, -3e9, np.inf, -np.inf, np.nan,
                       7.25, high - 0.5], np.float32)
    kernel = checks.cpu_kernel(wide(shape, columns=4, vector=4, store_vector=store), Mode.FAST)
    made = kernel(values.reshape(1, 1, 1, 16), np.ones((1, 1, 1, 1), np.float32))
    rounded = np.where(np.isnan(values), 0.0, np.clip(np.rint(values), low, high))
    assert np.array_equal(np.asarray(made, np.float64).ravel(), rounded)


TOLD = "warp = __shfl_sync(ALL_LANES, (int)threadIdx.x / 32, 0)"


@pytest.mark.parametrize("shape, steps, values, told", [
    (depthwise(8), ("silu",), {}, True), (depthwise(8), (), {}, False), (depthwise(8), ("bias",), {}, True),
    (depthwise(8), ("silu",), {"weights": "shared"}, False), (depthwise(8, r=5, s=5, padding=2), ("silu",), {}, False),
    (depthwise(8, r=9, s=1, padding=(4, 0)), ("silu",), {}, False), (depthwise(8, c=6), ("silu",), {}, False)])
def test_where_the_compiler_is_told_that_lanes_share_their_warp(shape, steps, values, told):
    plan = wide(shape, *steps, **values)
    assert plan.numbers.uniform_warp == told == (TOLD in render(plan).text)


@pytest.mark.parametrize("side, blocks", [(112, 6), (56, 6)])
def test_cheap_steps_leave_more_warps_where_rows_are_packed(side, blocks):
    """On an H200 silu, gelu and relu6 then take as long as no epilogue, with four or five blocks 1 to 6 % more."""
    shape = ConvShape(n=32, c=128, h=side, w=side, k=128, r=3, s=3, padding=1, groups=128)
    for steps in (("bias", "relu"), ("silu",), ("gelu",), ("expr(v * sigmoid(v) + 1)",)):
        assert wide(shape, *steps).options.min_blocks == blocks
    assert wide(shape).options.min_blocks < blocks > wide(shape, "expr(erf(v) / v)").options.min_blocks


class Measured:
    """A table with one layer, measured without an epilogue."""

    def best(self, shape, arch):
        return "wide", dict(loads="cached", prefetch_rows=4, stage_steps=2, min_blocks=3)

    def origin(self, shape, arch):
        return "measured"


def test_blocks_that_were_measured_without_an_epilogue_are_not_taken_with_one():
    shape = ConvShape(c=1, h=512, w=512, k=1, r=3, s=3, padding=1)
    plain, with_step = (plan_layer(shape, tuning=Measured(), epilogue=parse_epilogue(steps))
                        for steps in ((), ("silu",)))
    assert plain.options.min_blocks == 3 < with_step.options.min_blocks
    assert with_step.options.prefetch_rows == plain.options.prefetch_rows == 4


@pytest.mark.long
@pytest.mark.parametrize("kind", [compilers.CompilerKind.NVRTC, compilers.CompilerKind.NVCC], ids=["nvrtc", "nvcc"])
def test_defaults_do_not_spill(kind):
    """Every step and type on one of the architectures and widths, in turn."""
    if not compilers.available()[kind]:
        pytest.skip(f"{kind.value} is not installed")
    steps = itertools.cycle((("silu",), ("bias", "residual", "gelu"), ("gelu_tanh",), ("residual",),
                             ("bias", "clamp(0,6)"), ("expr(v * sigmoid(v) + 1)",),
                             ("bias", "hardswish", "quantize(0.1,3)")))
    arches = itertools.cycle(("sm_90", "sm_80", "sm_100", "sm_90"))
    plans = []
    for width, dtype, size in itertools.product((1024, 112, 56, 30, 14), ("float32", "float16", "bfloat16"), (3, 2)):
        chosen = next(steps)
        out = {"out_dtype": "uint8"} if "quantize" in chosen[-1] else {}
        shape = ConvShape(n=8, c=32, h=width, w=width, k=32, groups=32, r=size, s=size, padding="same", dtype=dtype,
                          **out)
        plans.append((wide(shape, *chosen, arch=next(arches)), chosen))

    def report(item) -> str | None:
        plan, chosen = item
        entry, = compilers.compile_source(render(plan).text, arch=str(plan.spec.arch), kind=kind).entries
        spilled = entry.spill_stores or entry.spill_loads or entry.stack_bytes
        return f"{plan.spec}, {chosen}, {entry.registers} registers: {plan.settings()}" if spilled else None

    with ThreadPoolExecutor(2) as pool:
        mine = settings.share(plans, 0 if kind is compilers.CompilerKind.NVRTC else 2, 4)
        wrong = [text for text in pool.map(report, mine) if text]
    assert not wrong, "\n".join(wrong)
