"""``taps_float32``: float32 layers of few channels (first layers) by Hopper's warp groups.

A block copies the lines of the image that its outputs' windows cover to shared memory once for all taps, as they lie in
x in either layout, with what stands in the padding. A thread loads from there what the instruction takes of its
windows, straight to registers: wgmma has its first factor from there. Filters are the second, and come to shared
memory by descriptor, their products in the order of a window's elements in memory.

Factors are split into two parts of TF32 (tf32x3), pixels in registers and filters ahead, or rounded to it (tf32). Of
the four products of parts three are made; tensor cores cut their sums, so those of a step begin at zero and are added
to the others in float32. Outputs that are not finite are made anew by float32 units (docs/precision.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import ALIGNMENT, C_TYPE, Descriptor
from warpconv.codegen.dimension import Dimension, Length
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.arguments import BORDER, layer_arguments, named
from warpconv.codegen.parts.first_layers import finds_pixels, first_layer_refusal, pixel_of
from warpconv.codegen.parts.mma import FACTORS, SPLIT, units_refusal
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.parts.wgmma import COLUMN_UNIT, MOST_COLUMNS, ROWS, TARGET
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Preparation, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .choice import GROUPS, TILE_Q, candidates, choice, instructions
from .numbers import (DEPTH, ITEMSIZE, PAIR, SIDE_THREADS, SPLIT_PRODUCTS, STEP, STORES, WIDE, TapsFloat32Numbers,
                      box_filters, can_stage, depths_of, fitted, is_split, make_numbers, more_registers, parts_of,
                      planned_registers, shared_bytes, steps_of, store_width)
from .options import TapsFloat32Options

FILTER = "filter"               # the program's name for the prepared filter
MOST_FILTER_BLOCKS = 1024
PARTLY_FILLED = 4               # times as many blocks as whole tiles would be: those at edges are not whole


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    refusal = first_layer_refusal(spec) or units_refusal(spec) or common_refusal(
        spec, layouts=(Layout.NHWC, Layout.NCHW), numerics=SPLIT, borders=BORDERS, residual=True)
    if refusal is None and next(iter(candidates(spec)), None) is None:
        refusal = f"the pixels of a filter of {spec.r} x {spec.s} do not fit in {spec.hardware.shared_block} bytes"
    return refusal


def plan(spec: KernelSpec, options: TapsFloat32Options) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    spec = replace(spec, arch=TARGET) if spec.arch != TARGET else spec
    refusal = supports(spec) or _tile_refusal(options)
    if refusal is None:
        options = fitted(spec, options)
        refusal = _layer_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    descriptors = _descriptors(spec, options)
    arguments = _arguments(spec, options, descriptors)
    anew = [FILTER] if is_split(spec) else []       # by address, too: for outputs that are made anew
    taken = named(arguments, *(d.argument for d in descriptors), "x", *anew, "bias", "residual",
                  *(() if options.staged else ("y",)), "N", "H", "W", "P", "Q", BORDER)
    numbers = make_numbers(spec, options, taken)
    program = Program(arguments=arguments, steps=(_launch(spec, options, numbers),),
                      preparation=_preparation(numbers), descriptors=descriptors)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("taps_float32/kernel.cu.jinja",),
                      program=program, cost=_cost(spec, options, numbers), phrase=_phrase(spec, options, numbers))


def _tile_refusal(options: TapsFloat32Options) -> str | None:
    """Whether groups of warps share out a tile."""
    if options.groups not in GROUPS:
        return f"groups = {options.groups} ({' or '.join(map(str, GROUPS))})"
    if options.filters % COLUMN_UNIT or not COLUMN_UNIT <= options.filters <= MOST_COLUMNS:
        return f"filters = {options.filters} (a multiple of {COLUMN_UNIT}, at most {MOST_COLUMNS})"
    whole = options.tile_p > 0 and options.tile_q in TILE_Q
    if not whole or options.tile_p * options.tile_q % (ROWS * options.groups):
        return (f"a tile of {options.tile_p} x {options.tile_q} outputs is no whole number of {options.groups} groups' "
                f"{ROWS}, or has other rows than of {', '.join(map(str, TILE_Q))}")
    return f"stages = {options.stages} (at least 1)" if options.stages < 1 else None


def _layer_refusal(spec: KernelSpec, options: TapsFloat32Options) -> str | None:
    """What the layer and the chip make of the tile."""
    if options.vector not in (1, WIDE) or options.vector == WIDE and (
            finds_pixels(spec) or options.tile_q * spec.stride[1] * pixel_of(spec) % WIDE):
        return (f"vector = {options.vector} (1, or {WIDE} where tiles begin at a multiple of it and nothing but the "
                "border's value stands in the padding)")
    widest = store_width(spec, options)
    if options.store_vector not in STORES or options.store_vector > widest:
        return f"store_vector = {options.store_vector} ({', '.join(str(s) for s in STORES if s <= widest)})"
    if options.staged and spec.layout is Layout.NHWC and not can_stage(spec, options, None):
        return (f"stores = staged of {options.filters} of {spec.k} filters (multiples of {STEP} and {PAIR}, "
                f"store_vector = {WIDE})")
    needed, held = planned_registers(spec, options), more_registers(options)
    if needed > held:
        return f"about {needed} registers a thread (at most {held} of {options.groups} groups): fewer filters or groups"
    shared = shared_bytes(spec, options)
    if shared > spec.hardware.shared_block:
        return (f"{shared} bytes of shared memory (at most {spec.hardware.shared_block}): a smaller tile, or fewer "
                "stages")
    return next((reason for d in _descriptors(spec, options) if (reason := d.refusal()) is not None), None)


def _descriptors(spec: KernelSpec, options: TapsFloat32Options) -> tuple[Descriptor, ...]:
    """How the prepared filter is copied: the rows of a tile's filters, of a part of a step; and outputs that are
    staged: a group's 64 of some filters."""
    found = [Descriptor(argument="filter_map", of=FILTER, dtype=spec.dtype, box=(STEP, options.filters, 1),
                        sizes=(Length(each=STEP), Length(each=spec.k), Length(each=steps_of(spec) * parts_of(spec))))]
    if options.staged:
        k, (n, p, q) = Length(each=spec.k), (Length(by=(size,)) for size in (Dimension.N, Dimension.P, Dimension.Q))
        filters, columns, rows = box_filters(spec, options), options.tile_q, ROWS // options.tile_q
        made = Descriptor(argument="y_map", of="y", dtype=spec.dtype, sizes=(k, q, p, n),
                          box=(filters, columns, rows, 1))
        if spec.layout is Layout.NCHW:
            made = replace(made, sizes=(q, p, k, n), box=(columns, rows, filters, 1), swizzle=0)
        found.append(made)
    return tuple(found)


def _arguments(spec: KernelSpec, options: TapsFloat32Options, descriptors: tuple[Descriptor, ...]
               ) -> tuple[Argument, ...]:
    """The layer's, aligned as they are loaded and stored, the prepared filter, the descriptors."""
    store = ITEMSIZE * options.store_vector
    multiples = {"x": ITEMSIZE * options.vector, "y": ALIGNMENT if options.staged else store, "residual": store,
                 "bias": store, "W": options.vector // math.gcd(options.vector, pixel_of(spec))}
    if options.staged and spec.layout is Layout.NCHW:
        multiples["Q"] = WIDE
    arguments = tuple(replace(a, multiple_of=multiples[a.name]) if a.name in multiples else a
                      for a in layer_arguments(spec))
    return (*arguments, Argument(name=FILTER, role=Role.WORKSPACE, c_type=spec.w_dtype.c_name, multiple_of=ALIGNMENT),
            *(Argument(name=d.argument, role=Role.DESCRIPTOR, c_type=C_TYPE) for d in descriptors))


def _launch(spec: KernelSpec, options: TapsFloat32Options, numbers: TapsFloat32Numbers) -> Launch:
    """Blocks that stay: each makes several tiles with its filters, one on a multiprocessor at a time."""
    whole = options.tile_p * options.tile_q
    tiles = Blocks(of=Dimension.N, by=(Dimension.P, Dimension.Q), each=PARTLY_FILLED, add=whole - 1, per=whole,
                   limit=max(1, spec.hardware.multiprocessors // numbers.filter_tiles))
    return Launch(entry=spec.name, grid=(tiles, Blocks(times=numbers.filter_tiles), Blocks()),
                  block=(numbers.threads, 1, 1), arguments=tuple(a.name for a in numbers.arguments),
                  shared_bytes=numbers.shared_bytes)


def _preparation(numbers: TapsFloat32Numbers) -> Preparation:
    """The filter as [step][part][filter][products], filled up with zeros, and where sums may be made anew as
    [filter][products] in whole floats."""
    grid = (Blocks(times=-(-numbers.image // SIDE_THREADS), limit=MOST_FILTER_BLOCKS), Blocks(), Blocks())
    launch = Launch(entry="prepare_filter", grid=grid, block=(SIDE_THREADS, 1, 1), arguments=("w", FILTER))
    return Preparation(steps=(launch,), buffer=Workspace(name=FILTER, bytes_each=numbers.prepared_bytes))


def _cost(spec: KernelSpec, options: TapsFloat32Options, numbers: TapsFloat32Numbers) -> Cost:
    """Of a warp's 16 outputs of all filters of a tile; a product of matrices counts as the FMAs of a lane that it
    stands for."""
    products = depths_of(spec) * DEPTH * (SPLIT_PRODUCTS if numbers.split else 1)
    outputs = ROWS // 4 * options.filters // LANES
    return Cost(unit=f"a warp's {ROWS // 4} outputs of {options.filters} filters",
                warp_loads=2 * numbers.steps * numbers.lane_values, shuffles=0, fma=products * outputs,
                registers=numbers.more_registers, direct_loads=spec.reduction * outputs)


def _phrase(spec: KernelSpec, options: TapsFloat32Options, numbers: TapsFloat32Numbers) -> str:
    steps = f"the filter's {numbers.steps} steps stay" if numbers.resident else f"{options.stages} stages of the filter"
    return (f"tiles of {options.tile_p} x {options.tile_q} outputs x {options.filters} filters, "
            f"factors{FACTORS[spec.numerics]}, by {options.groups} warp groups, {numbers.copiers} copying warps and a "
            f"copying thread, {steps}, {numbers.shared_bytes} bytes of shared memory")


def space(spec: KernelSpec) -> Iterable[TapsFloat32Options]:
    """Every tile."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="taps_float32", summary="float32, few channels: windows to the registers of warp groups",
                      options=TapsFloat32Options, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, float32=SPLIT)
