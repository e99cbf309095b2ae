"""``taps_mma``: 16-bit layers of few channels (first layers) by mma.sync: the portable form of ``taps_wgmma``.

A block copies the lines of the image that its outputs' windows cover to shared memory once for all taps, as they lie in
x in either layout, with what stands in the padding, the next tile's while it multiplies this one's. A run of a window's
elements that lie side by side is loaded from there in pairs, straight to the registers of which mma.sync takes its
first factor (parts/window_pairs.py): nothing is put in the order of products but by where a lane loads.

The filter is put in the order of these pairs once, stays in shared memory for all of a block's tiles, and comes from
there by ldmatrix, once for all the outputs that a warp has at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, LANES, PORTABLE_SHARED
from warpconv.codegen.parts.arguments import BORDER, named
from warpconv.codegen.parts.first_layers import few_channels_refusal
from warpconv.codegen.parts.mma import MATRIX_ROWS
from warpconv.codegen.parts.occupancy import blocks_refusal
from warpconv.codegen.parts.refusals import BORDERS, border_refusal, common_refusal
from warpconv.codegen.parts.staying import staying_grid
from warpconv.codegen.parts.wgmma import DEPTH
from warpconv.codegen.parts.window_pairs import (FILTER, RUN, WIDE, apart_of, layer_refusal, pair_arguments,
                                                 pair_preparation, versions_in_words)
from warpconv.codegen.plan import Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .choice import BUFFERS, candidates, choice, instructions, is_shared_out
from .numbers import (MOST_REGISTERS, TapsMmaNumbers, filter_unit, item_outputs, make_numbers, planned_registers,
                      resolved, shared_bytes)
from .options import TapsMmaOptions


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if not spec.hardware.async_copies:
        return f"{spec.arch} has no mma.sync of this form (sm_80 and later)"
    if spec.groups > 1:
        return f"{spec.groups} groups: only whole layers are served"
    refusal = (few_channels_refusal(spec)
               or common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), layouts=(Layout.NHWC, Layout.NCHW),
                                 borders=BORDERS, residual=True) or border_refusal(spec))
    if refusal is None and next(iter(candidates(spec, (WIDE, 1))), None) is None:
        refusal = (f"a filter of {spec.r} x {spec.s} and its pixels do not fit in {PORTABLE_SHARED} bytes of shared "
                   "memory, or their places in registers")
    return refusal


def plan(spec: KernelSpec, options: TapsMmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    refusal = supports(spec) or _tile_refusal(spec, options)
    if refusal is None:
        options = resolved(spec, options)
        refusal = _layer_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = pair_arguments(spec, options)
    taken = named(arguments, "x", FILTER, "bias", "residual", "y", "N", "H", "W", "P", "Q", BORDER)
    numbers = make_numbers(spec, options, taken)
    program = Program(arguments=arguments, steps=(_launch(spec, options, numbers),),
                      preparation=pair_preparation(numbers))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("taps_mma/kernel.cu.jinja",),
                      program=program, cost=_cost(spec, options, numbers), phrase=_phrase(options, numbers))


def _tile_refusal(spec: KernelSpec, options: TapsMmaOptions) -> str | None:
    """Whether warps share out a tile."""
    if options.buffers not in BUFFERS:
        return f"buffers = {options.buffers} ({', '.join(map(str, BUFFERS))})"
    if not 1 <= options.warps <= BLOCK_THREADS // LANES or options.matrices < 1:
        return (f"{options.warps} warps of {options.matrices} times {MATRIX_ROWS} outputs (1 to "
                f"{BLOCK_THREADS // LANES}, of at least one)")
    unit = filter_unit(spec, options)
    if options.filters % unit or options.filters <= 0:
        return f"filters = {options.filters} (a multiple of {unit})"
    if options.tile_p < 1 or options.tile_q < 1 or not is_shared_out(spec, options):
        whole = math.lcm(item_outputs(spec, options), RUN * apart_of(spec, options))
        return (f"a tile of {options.tile_p} x {options.tile_q} outputs is no whole number of {whole}, or "
                f"{options.warps} warps do not share it out")
    return None


def _layer_refusal(spec: KernelSpec, options: TapsMmaOptions) -> str | None:
    """What the layer and the chip make of the tile."""
    refusal = layer_refusal(spec, options)
    if refusal is not None:
        return refusal
    if (needed := planned_registers(spec, options)) > MOST_REGISTERS:
        return f"about {needed} registers a thread (at most {MOST_REGISTERS}): fewer filters or matrices"
    if (shared := shared_bytes(spec, options)) > PORTABLE_SHARED:
        return f"{shared} bytes of shared memory (at most {PORTABLE_SHARED}): a smaller tile, or fewer filters"
    return blocks_refusal(spec, LANES * options.warps, options.min_blocks)


def _launch(spec: KernelSpec, options: TapsMmaOptions, numbers: TapsMmaNumbers) -> Launch:
    """Blocks that stay: each makes several tiles with its filters, as many at a time as the chip holds."""
    grid = staying_grid(spec, (options.tile_p, options.tile_q), numbers.filter_tiles, options.min_blocks,
                        least=2 if numbers.by_parity else 1)
    return Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1),
                  arguments=tuple(a.name for a in numbers.arguments), shared_bytes=numbers.shared_bytes)


def _cost(spec: KernelSpec, options: TapsMmaOptions, numbers: TapsMmaNumbers) -> Cost:
    """Of a warp's outputs of all filters of a tile; a product of matrices counts as the FMAs of a lane that it stands
    for."""
    outputs = options.matrices * MATRIX_ROWS * options.filters // LANES
    return Cost(unit=f"a warp's {options.matrices * MATRIX_ROWS} outputs of {options.filters} filters",
                warp_loads=2 * options.matrices * numbers.quads + numbers.depths * numbers.blocks // 2, shuffles=0,
                fma=numbers.depths * DEPTH * outputs, registers=numbers.registers,
                direct_loads=spec.reduction * outputs)


def _phrase(options: TapsMmaOptions, numbers: TapsMmaNumbers) -> str:
    return (f"tiles of {options.tile_p} x {options.tile_q} outputs x {options.filters} filters, {numbers.depths} "
            f"instructions for {numbers.products} products, {options.warps} warps a block, "
            f"{versions_in_words(numbers)}, {numbers.shared_bytes} bytes of shared memory")


def space(spec: KernelSpec) -> Iterable[TapsMmaOptions]:
    """Every tile."""
    return candidates(spec, (WIDE, 1))


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="taps_mma", summary="16 bits, few channels: windows to registers in pairs, by mma.sync",
                      options=TapsMmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate)
