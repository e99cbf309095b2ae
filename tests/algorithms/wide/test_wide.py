"""``wide``: what its planner decides, refuses and demands, and what compilers and the CPU device make of its text."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests import checks, settings
from warpconv.codegen.algorithms.wide import plan as wide
from warpconv.codegen.algorithms.wide.options import Loads, Span, BankWeights
from warpconv.codegen.border import Border
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.accuracy.measure import measure_unit
from warpconv.runtime.build import compilers

DTYPES = ("float32", "float16", "bfloat16")
WIDTHS = (14, 28, 56, 112)
REGISTERS = {"loads": "registers", "stage_steps": 1, "prefetch_rows": 1}
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def plane(size: int = 3, side: int = 512, **changes: Any) -> ConvShape:
    return ConvShape(**{**dict(c=1, h=side, w=side, k=1, r=size, s=size, padding=size // 2), **changes})


def depthwise(size: int = 3, side: int = 56, c: int = 32, **changes: Any) -> ConvShape:
    return plane(size, side, **{**dict(n=8, c=c, k=c, groups=c), **changes})


def planned(shape: ConvShape, arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm="wide", arch=arch, settings=values)


# ---- what is served

@pytest.mark.parametrize("shape, says", [
    (plane(layout="NHWC"), "layout NHWC"), (plane(c=17, k=4), "17 channels a group"),
    (plane(r=64, s=2), "64 rows tall"), (plane(r=130, s=1), "130 rows tall"),
    (plane(r=60, s=200, padding=100), "12000 taps")])
def test_layers_that_are_refused(shape, says):
    assert says in wide.supports(KernelSpec.of(shape, algorithm="wide", arch=Arch(9, 0)))
    with pytest.raises(UnsupportedSpec, match=says):
        planned(shape)


@pytest.mark.parametrize("values, says", [
    (dict(vector=8), "vector = 8"), (dict(vector=3), "vector = 3"), (dict(columns=2, vector=4), "vector = 4"),
    (dict(store_vector=8), "store_vector = 8"), (dict(span="packed", row_lanes=33), "row_lanes = 33"),
    (dict(prefetch_rows=3, stage_steps=2), "stage_steps = 2"),
    (dict(loads="registers", prefetch_rows=2, stage_steps=2), "stage_steps"),
    (dict(prefetch_rows=17, stage_steps=1), "prefetch_rows = 17"),
    (dict(warp_rows=9, warp_planes=4, warp_columns=1), "1024 threads"),
    (dict(min_blocks=99), "min_blocks = 99"), (dict(sub_block_rows=9000), "sub_block_rows = 9000")])
def test_plan_values_that_do_not_go_together(values, says):
    with pytest.raises(UnsupportedSpec, match=re.escape(says)):
        planned(plane(), **values)


@pytest.mark.parametrize("shape, arch, values, says", [
    (plane(c=2, k=2), "sm_90", dict(weights="registers"), "weights = registers"),
    (plane(c=2, k=2), "sm_90", dict(loads="async", prefetch_rows=1), "loads = async"),
    (plane(), "sm_75", dict(loads="cached"), "loads = cached"),
    (plane(dtype="float16"), "sm_90", dict(vector=1, loads="async"), "loads = async"),
    (depthwise(), "sm_90", dict(weights="constant"), "a single float32 filter"),
    (plane(c=2, k=2), "sm_90", dict(tap_rows="needed"), "tap_rows = needed"),
    (plane(29), "sm_90", dict(columns=8), "232 accumulators"),
    (depthwise(13, 28), "sm_90", dict(span="packed", row_lanes=7, weights="shared", warp_planes=32, warp_rows=1,
                                      loads="registers", prefetch_rows=1, stage_steps=1, columns=4, vector=4,
                                      min_blocks=1),
     "shared memory")])
def test_plan_values_that_a_layer_does_not_take(shape, arch, values, says):
    with pytest.raises(UnsupportedSpec, match=re.escape(says)):
        planned(shape, arch, **values)


# ---- what a plan asks of its arguments

@pytest.mark.parametrize("dtype, vector", [("float32", 4), ("float16", 8), ("bfloat16", 8)])
def test_sizes_and_addresses_that_wide_loads_ask_for(dtype, vector):
    program = planned(plane(dtype=dtype), columns=vector, vector=vector, store_vector=vector).program
    assert [program.argument(name).multiple_of for name in ("W", "Q", "x", "y", "w")] == [vector, vector, 16, 16, 1]
    assert program.argument("W").at_most is None and program.refusal(plane(dtype=dtype, side=2048)) is None
    for width in (511, 510):
        assert f"W a multiple of {vector}" in program.refusal(plane(dtype=dtype, w=width))
        assert planned(plane(dtype=dtype, w=width)).program.refusal(plane(dtype=dtype, w=width)) is None


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("size", [3, 5, 7])
def test_packed_rows_leave_room_for_their_padding(size, width):
    """Zeros at least as wide as the padding lie beside a row, or a select stands for them; a wider row is refused."""
    made = planned(depthwise(size, width))
    if made.options.span is Span.STRIPS:
        assert width == 112
        return
    room = made.options.row_lanes * made.numbers.chunk
    gap = size // 2 if made.options.separators.value == "zero_lanes" else 0
    assert width + gap <= room and made.numbers.most_columns == room - gap
    too_wide = made.numbers.most_columns // made.options.vector * made.options.vector + 8
    assert "at most" in made.program.refusal(depthwise(size, too_wide))


def busy(shape: ConvShape) -> float:
    """The part of all lanes' columns that are outputs, from the plan."""
    made = planned(shape)
    if made.options.span is Span.PACKED:
        return made.numbers.planes * shape.q / (32 * made.options.columns)
    return shape.q / (-(-shape.q // made.numbers.strip) * made.numbers.strip)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("width", WIDTHS)
def test_lanes_are_busy_at_the_widths_of_networks(width, size, dtype):
    assert busy(depthwise(size, width, dtype=dtype)) >= 0.85


def test_the_batch_does_not_change_the_plan():
    for size, side in itertools.product((3, 7), WIDTHS):
        assert len({planned(depthwise(size, side, n=n)) for n in (1, 7, 512)}) == 1


def test_sub_blocks_get_small_where_a_layer_would_not_fill_a_gpu():
    """The rows of a sub-block follow from the grid: the same kernel has more blocks than planned in a small layer."""
    launch = planned(plane(3, 512)).program.steps[0]
    planned_rows = planned(plane(3, 512)).numbers.block_rows
    assert launch.grid_of(plane(3, 512))[1] > -(-512 // planned_rows)
    large = launch.grid_of(plane(3, 16384))
    assert large[1] == -(-16384 // planned_rows)


# ---- the text

def test_the_interior_has_a_copy_without_guards():
    text = render(planned(plane(5), **REGISTERS)).text
    assert text.count("sub_block<true>") == text.count("sub_block<false>") == 1
    guards = re.findall(r"const bool \w*inside\w* = (.*);", text)
    assert guards and all("INTERIOR ||" in guard for guard in guards)
    assert "sub_block<true>" not in render(planned(plane(5), edges="guarded")).text


def test_accumulators_move_on_without_moves():
    """A chain of products begins in one output row's registers and ends in those of the next older one."""
    numbers = planned(plane(5), **REGISTERS).numbers
    assert [(chain.start, chain.to) for chain in numbers.chains] == [
        ("acc_p0", "out"), ("acc_p1", "acc_p0"), ("acc_p2", "acc_p1"), ("acc_p3", "acc_p2"), ("", "acc_p3")]


@pytest.mark.thin(9)
@on_cpu_device
@pytest.mark.parametrize("shape, values", [
    (plane(3), REGISTERS), (plane(5), REGISTERS), (plane(5, dtype="float16"), REGISTERS),
    (plane(3, c=2, k=3), REGISTERS), (plane(5, k=3, stride=2, padding=((2, 1), (2, 1))), REGISTERS), (plane(3), {}),
    (plane(7), {}), (plane(5, dtype="bfloat16"), {}),
    (plane(5), {**REGISTERS, "vector": 2})])
def test_a_sub_block_loads_and_shuffles_as_planned(shape, values):
    made = planned(shape, **values)
    found = measure_unit(made)
    assert (found.warp_loads, found.shuffles) == (made.cost.warp_loads, made.cost.shuffles)
    assert (found.shuffles == 0) == (made.options.loads is not Loads.REGISTERS)


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("padding", [(3, 4), (5, 6), ((3, 2), (0, 3))])
@pytest.mark.parametrize("values", [REGISTERS, {**REGISTERS, "loads": "async"}], ids=["registers", "async"])
def test_windows_that_lie_wholly_above_the_image(padding, values):
    """Sub-blocks of one row, whose every input row is padding: nothing before the image may be read."""
    shape = ConvShape(n=2, c=1, h=33, w=56, k=1, r=2, s=2, padding=padding)
    made = planned(shape, sub_block_rows=1, warp_rows=2, **values)
    checks.check_checked(made, shape)


@pytest.mark.long
@on_cpu_device
def test_the_same_bits_however_rows_are_loaded():
    shape = depthwise(5, 56, c=3, n=2)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape.input_shape, np.float32)
    w = rng.standard_normal(shape.weight_shape, np.float32)
    ways = itertools.product(("registers", "async", "cached"), (1, 4), ("interior", "guarded"))
    outputs = [checks.cpu_kernel(planned(shape, **{**REGISTERS, "loads": loads}, columns=columns, vector=columns,
                                         store_vector=columns, span="strips", edges=edges))(x, w)
               for loads, columns, edges in ways]
    assert all(np.array_equal(output, outputs[0]) for output in outputs)


# ---- what a compiler makes of it

# as many as there are combinations of type, architecture and kind of layer; with --whole every size
SPILL_SIZES = (*range(1, 12), 13, 15, 18, 21, 24, 28, 31)


def sampled() -> list[tuple[KernelPlan, str]]:
    """Filters up to 31 x 31; each with one type, architecture and kind of layer, in turn."""
    found = []
    kinds = itertools.product(DTYPES, ("sm_80", "sm_90", "sm_100"), (plane, depthwise))
    for size, (dtype, arch, kind) in zip(range(1, 32) if settings.whole else SPILL_SIZES, itertools.cycle(kinds)):
        shape = kind(size, dtype=dtype)
        found.append((planned(shape, arch), arch))
    for size, dtype, width in itertools.product((3, 5, 7), DTYPES, (14, 112)):
        arch = ("sm_80", "sm_90", "sm_100")[(size + width) % 3]
        found.append((planned(depthwise(size, width, dtype=dtype), arch), arch))
    for size, stride, c, dtype in itertools.product(((3, 5), (5, 5), (7, 7), (9, 9)), (1, 2), (1, 2),
                                                    ("float32", "float16")):      # rows that no vector divides
        r, s = size
        shape = ConvShape(n=2, c=c, h=70, w=97, k=1 if c == 1 else 4, r=r, s=s, stride=stride, padding=(r // 2, s // 2),
                          dtype=dtype)
        found.append((planned(shape, "sm_90"), "sm_90"))
    modes = itertools.cycle(mode for mode in Border if mode is not Border.ZEROS)
    for (size, arch), dtype, mode in zip(itertools.product((3, 5, 7, 9, 11), ("sm_80", "sm_90")),
                                         itertools.cycle(("float32", "float16", "float32", "bfloat16")), modes):
        value = 0.5 if mode is Border.CONSTANT else 0.0
        shape = replace(plane(size, dtype=dtype), padding_mode=mode, padding_value=value)
        found.append((planned(shape, arch), arch))
    found.append((planned(replace(plane(10), padding="same"), "sm_90"), "sm_90"))
    return [*found, (planned(plane(5, 224), "sm_90"), "sm_90")]


@pytest.mark.long
@pytest.mark.parametrize("kind", [pytest.param(compilers.CompilerKind.NVRTC, id="nvrtc"),
                                  pytest.param(compilers.CompilerKind.NVCC, id="nvcc")])
def test_defaults_do_not_spill(kind):
    """Releases differ: 3x5 with stride 2 of 97 columns once kept its registers with NVRTC 13.5 and not with 13.0. Each
    compiler has a quarter of the plans but with --whole."""
    if not compilers.available()[kind]:
        pytest.skip(f"{kind.value} is not installed")

    def report(item: tuple[KernelPlan, str]) -> str | None:
        made, arch = item
        entry, = compilers.compile_source(render(made).text, arch=arch, kind=kind).entries
        spilled = entry.spill_stores or entry.spill_loads or entry.stack_bytes
        return f"{made.spec}, {entry.registers} registers: {made.settings()}" if spilled else None

    with ThreadPoolExecutor(2) as pool:
        mine = settings.share(sampled(), 0 if kind is compilers.CompilerKind.NVRTC else 2, 4)
        wrong = [text for text in pool.map(report, mine) if text]
    assert not wrong, "\n".join(wrong)


def test_weights_are_where_there_is_room():
    assert planned(plane(3)).options.weights is BankWeights.REGISTERS
    assert planned(plane(9)).options.weights is BankWeights.CONSTANT       # one filter of float32: operands of the FMA
    assert planned(depthwise(13)).options.weights is BankWeights.SHARED
    assert planned(plane(3, c=2, k=2)).options.weights is BankWeights.SHARED
    assert planned(replace(plane(9), dtype="float16")).options.weights is not BankWeights.CONSTANT


@pytest.mark.thin(4)
@on_cpu_device
@pytest.mark.parametrize("fields, beside", [(dict(k=8), 2), (dict(k=5), 5), (dict(k=4), 1),
                                            (dict(n=2, c=2, k=12, groups=2), 2)])
def test_blocks_of_all_filters_of_an_image_stand_side_by_side(fields, beside):
    """So that the rows that they share come from memory once, however many there are."""
    made = planned(plane(3, 2048, **fields))
    filters = made.spec.filters
    assert made.numbers.filter_blocks == beside and beside * made.options.warp_planes == filters
    small = plane(3, 40, **{"w": 264, **fields})
    x, _, z = made.program.launches[0].grid_of(small)
    assert x % beside == 0 and x * z * made.options.warp_planes >= small.n * small.k
    checks.check_checked(made, small)
