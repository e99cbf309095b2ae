"""The slides' five variants: their arithmetic intensity, what their planners decide and refuse, what is executed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests import checks
from warpconv.codegen.algorithms.course.slides import halo_share, intensity, intensity_bound
from warpconv.codegen.errors import ArgumentError, KernelFault, UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import algorithm
from warpconv.codegen.render import render
from warpconv.codegen.select import explain, plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec
from warpconv.runtime.accuracy.measure import Measurement, blocks_shape, measure, measure_unit
from warpconv.runtime.build import compilers
from warpconv.runtime.call.kernel import Kernel
from warpconv.runtime.devices.cpu import Mode, backend

VARIANTS = ("naive", "constant", "tiled", "halo_cached", "coarsened")
WITH_BANK, WITH_TILE, STAGED = VARIANTS[1:], ("tiled", "coarsened"), VARIANTS[2:]
on_cpu_device = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))


def plane(size: int = 3, side: int = 512, **changes: Any) -> ConvShape:
    return ConvShape(**{**dict(c=1, h=side, w=side, k=1, r=size, s=size, padding=size // 2), **changes})


def planned(name: str, shape: ConvShape, arch: str = "sm_90", **values: Any) -> KernelPlan:
    return plan_layer(shape, algorithm=name, arch=arch, settings=values)


def refusal(name: str, shape: ConvShape) -> str | None:
    return algorithm(name).supports(KernelSpec.of(shape, algorithm=name, arch=Arch(9, 0)))


def interior(plan: KernelPlan, count: Callable[[Measurement], int]) -> int:
    """What a block away from all edges does: in images of one and two blocks all that happens at edges cancels."""
    found = {(tall, wide): count(measure(plan, blocks_shape(plan, tall, wide)))
             for tall, wide in itertools.product((1, 2), (1, 2))}
    return found[2, 2] - found[2, 1] - found[1, 2] + found[1, 1]


# ---- the slides' table of arithmetic intensity

@pytest.mark.parametrize("name", WITH_TILE)
@pytest.mark.parametrize("size, tile, outputs, ratio", [
    (5, 8, 4, 3.125), (5, 16, 12, 7.03125), (5, 32, 28, 9.5703125), (9, 16, 8, 10.125), (9, 32, 24, 22.78125)])
def test_the_slides_table(name, size, tile, outputs, ratio):
    made = planned(name, plane(size), tile=tile)
    assert made.numbers.outputs == (outputs, outputs) and intensity(made) == ratio
    assert intensity(made) < intensity_bound(size // 2)


@pytest.mark.parametrize("name", WITH_TILE)
def test_the_empty_cells_of_the_slides_table(name):
    """A 9x9 filter has no output in an input tile of 8."""
    with pytest.raises(UnsupportedSpec, match="8 x 8 is too small for a window of 9 x 9.*tile = 9 or more serves it"):
        planned(name, plane(9), tile=8)
    assert planned(name, plane(9), tile=9).numbers.outputs == (1, 1)


def test_bounds_and_the_variants_without_a_tile():
    assert (intensity_bound(1), intensity_bound(2), intensity_bound(4)) == (4.5, 12.5, 40.5)
    for size, tile in itertools.product((1, 3, 9), (8, 32)):
        assert intensity(planned("naive", plane(size), tile=tile)) == 0.25
        assert intensity(planned("constant", plane(size), tile=tile)) == 0.5
    assert intensity(planned("constant", plane(dtype="float16"))) == 1.0


def test_larger_tiles_come_near_the_bound():
    for name in (*WITH_TILE, "halo_cached"):
        ratios = [intensity(planned(name, plane(5), tile=tile)) for tile in (8, 16, 32)]
        assert ratios == sorted(ratios) and ratios[-1] < 12.5


# (T, size): share of the filter's reads that lie outside the tile, in per cent
SHARES = {(32, 3): 4.1, (32, 5): 7.4, (32, 9): 13.4, (16, 3): 8.2, (16, 5): 14.4, (16, 9): 25.8}


@pytest.mark.parametrize("tile, size", SHARES)
def test_shares_of_halo_reads(tile, size):
    made = planned("halo_cached", plane(size), tile=tile)
    assert round(100 * halo_share(made.spec, tile), 1) == SHARES[tile, size]
    reads = made.numbers.global_reads / tile ** 2        # of an output: its own cell, and its share of the halo's
    assert intensity(made) == pytest.approx(size ** 2 * 2 / (4 * reads))


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("tile, size", SHARES)
def test_shares_of_halo_reads_are_executed(tile, size):
    made = planned("halo_cached", plane(size, padding=0), tile=tile)
    loads = interior(made, lambda found: found.buffers["x"].load_bytes) // 4
    assert round(100 * (loads - tile ** 2) / (tile * size) ** 2, 1) == SHARES[tile, size]


EXECUTED = {"plane": (plane(5, padding=0), {}), "padded": (plane(3), {}), "small tile": (plane(5), {"tile": 16}),
            "channels": (plane(3, c=2, k=4), {"tile": 8}), "float16": (plane(4, dtype="float16"), {"tile": 16}),
            "stride": (plane(3, stride=(2, 3), dilation=(1, 2), c=2, k=2), {"tile": 16})}


@pytest.mark.thin(16)
@on_cpu_device
@pytest.mark.parametrize("case", EXECUTED)
@pytest.mark.parametrize("name", VARIANTS)
def test_planned_intensity_is_what_is_executed(name, case):
    """The bytes that an interior block's threads ask global memory for, and its cost's loads per warp."""
    shape, values = EXECUTED[case]
    made = planned(name, shape, **values)
    tiles = getattr(made.options, "walk", 1)
    asked = interior(made, lambda found: sum(found.buffers[b].load_bytes for b in "xw" if b in found.buffers))
    blocks = made.spec.groups * made.numbers.k_tiles * tiles
    assert asked == blocks * made.spec.channels * made.numbers.global_reads * shape.dtype.itemsize
    assert intensity(made) == 2 * blocks * made.spec.channels * made.numbers.products / asked
    assert math.ceil(measure_unit(made).warp_loads) == made.cost.warp_loads


def test_the_intensity_is_of_the_slides_variants():
    with pytest.raises(ArgumentError, match="five variants") as caught:
        intensity(plan_layer(plane(), algorithm="direct"))
    assert caught.value.argument == "plan" and caught.value.hint


@pytest.mark.parametrize("sides", [(top, bottom, left, right) for top, bottom, left, right in itertools.product(
    (0, 1), repeat=4)])
def test_borders_are_guarded_where_there_are_any(sides):
    """One row or column on one side is a border; an axis without one has no guard."""
    top, bottom, left, right = sides
    numbers = planned("tiled", plane(3, padding=((top, bottom), (left, right)))).numbers
    assert (numbers.guard_rows, numbers.guard_columns) == (bool(top + bottom), bool(left + right))


# ---- what the steps of the slides change, executed

@on_cpu_device
@pytest.mark.parametrize("name", VARIANTS)
def test_where_weights_are_read_from(name):
    """A weight is read once for a warp; from constant memory, nothing of w itself is."""
    shape = plane(3, 64)
    found = measure(planned(name, shape), shape)
    from_global = found.buffers["w"].load_requests if "w" in found.buffers else 0
    assert (from_global > 0, found.constant_requests > 0) == ((True, False) if name == "naive" else (False, True))


@on_cpu_device
def test_halo_threads_are_idle_in_compute():
    """32 rows of an input tile are written; the windows are read by the warps of the 28 output rows alone."""
    requests = interior(planned("tiled", plane(5, padding=0), tile=32), lambda found: found.shared_requests)
    assert requests == 32 + 28 * 25


@on_cpu_device
def test_a_thread_makes_several_outputs_with_one_weight():
    """Coarsened, 5x5: 7 rows of threads read each weight once for their 4 outputs; tiled does for each of 28 rows."""
    counts = {name: interior(planned(name, plane(5, padding=0), **values), lambda found: found.constant_requests)
              for name, values in {"tiled": {"tile": 32}, "coarsened": {"outputs": 4}}.items()}
    tiles = planned("coarsened", plane(5)).options.walk
    assert counts == {"tiled": 28 * 25, "coarsened": tiles * 7 * 25}


def test_blocks_walk_over_tiles_with_a_stride():
    launch = planned("coarsened", plane(5, 16384), walk=4).program.steps[0]
    assert launch.grid_of(plane(5, 16384))[:2] == (-(-16384 // 28), -(-16384 // (4 * 28)))
    small = launch.grid_of(plane(5, 512))
    assert small[0] == 19 and small[1] >= 19                # a small plane: no block walks while others would be idle
    assert "tile_p += gridDim.y * OUT_TILE_H" in render(planned("coarsened", plane(5))).text


@pytest.mark.thin(2)
@on_cpu_device
@pytest.mark.parametrize("barrier", [0, 1])
@pytest.mark.parametrize("name", STAGED)
def test_a_missing_barrier_is_found(name, barrier):
    shape = ConvShape(c=2, h=40, w=40, k=1, r=3, s=3)
    made = planned(name, shape, tile=16)
    parts = render(made).text.split("__syncthreads();")
    assert len(parts) == 3
    text = "".join(part + ("" if i == barrier else "__syncthreads();") for i, part in enumerate(parts[:-1])) + parts[-1]
    loaded, source = backend.load_text(made.spec, made.program, text, mode=Mode.CHECK)
    with pytest.raises(KernelFault, match="barrier"):
        checks.check_kernel(Kernel(made.spec, made.program, loaded, source=source, plan=made), shape)


# ---- what is served, and what is not

@pytest.mark.parametrize("name", VARIANTS)
def test_layers_that_no_variant_serves(name):
    assert "layout NHWC" in refusal(name, plane(layout="NHWC"))
    assert "element type uint8" in refusal(name, plane(dtype="uint8"))
    assert "arithmetic float16" in next(
        c.reason for c in explain(plane(dtype="float16"), numerics="float16") if c.algorithm == name)


@pytest.mark.parametrize("name", WITH_BANK)
def test_constant_memory_has_64_kilobytes(name):
    full = ConvShape(c=128, h=64, w=64, k=128, r=1, s=1)                    # 16384 floats
    assert planned(name, full).program.preparation.constant_bytes == 65536
    with pytest.raises(UnsupportedSpec, match="66048 bytes, more than the 65536 of constant memory; naive serves it"):
        planned(name, replace(full, k=129))
    assert refusal("naive", replace(full, k=129)) is None
    assert planned(name, replace(full, k=256, dtype="bfloat16")).program.preparation.constant_bytes == 65536


@pytest.mark.parametrize("name", WITH_TILE)
def test_windows_larger_than_the_largest_tile(name):
    for shape in (plane(33), ConvShape(c=1, h=99, w=99, k=1, r=1, s=12, dilation=3)):
        assert "32 x 32 is too small for a window of" in refusal(name, shape)
        assert "serves it" not in refusal(name, shape)
        assert refusal("halo_cached", shape) is refusal("constant", shape) is None
    assert planned(name, plane(32, padding=0)).numbers.outputs == (1, 1)


def test_strides_whose_part_of_the_image_is_too_large():
    shape = ConvShape(c=1, h=900, w=900, k=1, r=3, s=3, stride=28)
    assert "50176 bytes, more than the 49152 of shared memory" in refusal("halo_cached", shape)
    assert planned("halo_cached", replace(shape, stride=12)).options.tile == 8
    with pytest.raises(UnsupportedSpec, match="65536 bytes"):
        planned("halo_cached", replace(shape, stride=4), tile=32)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("tile", [3, 33, 64])
def test_tiles_that_no_block_has(name, tile):
    with pytest.raises(UnsupportedSpec, match=f"tile = {tile} "):
        planned(name, plane(), tile=tile)


@pytest.mark.parametrize("name, values, says", [
    ("tiled", {"k_tile": 3}, "k_tile = 3 does not divide"), ("halo_cached", {"k_tile": 32}, "32 sums a thread"),
    ("coarsened", {"k_tile": 16, "outputs": 4}, "64 sums a thread"),
    ("coarsened", {"k_tile": 1, "outputs": 31}, "30 output rows"),
    ("coarsened", {"k_tile": 1, "outputs": 7, "tile": 16}, ""),
    ("coarsened", {"k_tile": 1, "outputs": 9}, "shared out with 8"),
    ("coarsened", {"walk": 65}, "walk = 65")])
def test_plan_values_that_do_not_go_together(name, values, says):
    shape = plane(k=32)
    if not says:
        assert planned(name, shape, **values).numbers.block_rows == 2
        return
    with pytest.raises(UnsupportedSpec, match=says):
        planned(name, shape, **values)


# ---- defaults

LAYERS = [plane(size) for size in (1, 2, 3, 5, 7, 9, 12, 15, 31)] + [
    plane(3, 56, c=16, k=32), plane(5, 28, c=20, k=12, groups=4), plane(3, c=3, k=64, stride=2), plane(3, 14, c=8, k=7),
    plane(3, 56, c=32, k=32, groups=32), plane(5, dilation=(2, 3), padding=((1, 4), (0, 7))),
    ConvShape(c=1, h=99, w=99, k=2, r=1, s=31), plane(9, c=4, k=16), plane(3, stride=(4, 1)), plane(31, c=2, k=4),
    plane(9, c=2, k=4), plane(11, c=2, k=4)]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_layer_that_is_supported_has_a_plan(name):
    for shape, dtype in itertools.product(LAYERS, ("float32", "float16", "bfloat16")):
        shape = replace(shape, dtype=dtype)
        if refusal(name, shape) is None:
            made = planned(name, shape)
            assert made.numbers.threads * made.numbers.min_blocks <= 2048
            assert planned(name, shape, **made.settings()) == made
            assert {planned(name, replace(shape, n=n)) for n in (1, 64)} == {made}      # the batch changes nothing


@pytest.mark.parametrize("name", VARIANTS)
def test_what_tuning_may_try_can_be_planned(name):
    for shape in LAYERS:
        spec = KernelSpec.of(shape, algorithm=name, arch=Arch(9, 0))
        if refusal(name, shape) is None:
            candidates = list(algorithm(name).space(spec))
            assert candidates and len(set(candidates)) == len(candidates)
            for options in candidates:
                algorithm(name).plan(spec, options)


@pytest.mark.long
def test_they_are_never_chosen_over_what_is_quicker():
    """By name alone: others share more, and a bank in constant memory costs callers that do not prepare filters."""
    networks = [ConvShape(n=8, c=c, h=side, w=side, k=k, r=size, s=size, padding=size // 2, stride=stride)
                for c, k, side in ((3, 64, 224), (32, 32, 56), (20, 8, 512), (8, 8, 14), (64, 16, 28), (17, 7, 99))
                for size in (1, 3, 5, 7) for stride in (1, 2)]
    for shape, dtype in itertools.product(LAYERS + networks, ("float32", "float16")):
        assert select(replace(shape, dtype=dtype)).algorithm not in VARIANTS, f"{shape}, {dtype}"


def test_a_filter_bank_is_copied_once():
    for name in VARIANTS:
        preparation = planned(name, plane(5, c=2, k=3)).program.preparation
        assert (preparation is None) == (name == "naive")
        assert preparation is None or (preparation.constant, preparation.constant_bytes) == ("filter_bank", 4 * 150)


def sampled() -> list[KernelPlan]:
    """Each layer with one type and architecture in turn, by every variant that serves it."""
    kinds = itertools.cycle(itertools.product(("float32", "float16", "bfloat16"),
                                              ("sm_80", "sm_90", "sm_100", "sm_75")))
    found = []
    for shape, (dtype, arch) in zip(LAYERS, kinds):
        names = [name for name in VARIANTS if refusal(name, replace(shape, dtype=dtype)) is None]
        found += [planned(name, replace(shape, dtype=dtype), arch) for name in names]
    return found + [planned(name, plane(size), tile=tile)
                    for name in VARIANTS for size, tile in ((3, 8), (5, 16), (5, 32), (9, 32))]


@pytest.mark.long
@pytest.mark.skipif(not compilers.available()[compilers.CompilerKind.NVRTC], reason="NVRTC is not installed")
def test_defaults_do_not_spill():
    def report(made: KernelPlan) -> str | None:
        entry, = compilers.compile_source(render(made).text, arch=str(made.spec.arch),
                                          kind=compilers.CompilerKind.NVRTC).entries
        spilled = entry.spill_stores or entry.spill_loads or entry.stack_bytes
        return f"{made.spec}, {entry.registers} registers: {made.settings()}" if spilled else None

    with ThreadPoolExecutor(2) as pool:
        wrong = [text for text in pool.map(report, sampled()) if text]
    assert not wrong, "\n".join(wrong)
