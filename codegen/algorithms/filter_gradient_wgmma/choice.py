"""Which tiles a layer's filter gradient gets, and what a plan is estimated to cost.

The cycles of instructions, copies, sums and starts are those that fitted the forward kernels of the same instructions
on an H200 (2026-11-22); plans of this kernel were not measured yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.hardware import H200_CLOCK, QUARTERS
from warpconv.codegen.parts import gradient_boxes, partial_sums
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CLOCK, COLUMN_CYCLES, COPIED_BYTES, DEPTH, FULL_RATE, GROUPS,
                                          LATENCY_CYCLES, LEAST_STAGES, MEMORY_SHARE, MOST_COLUMNS, MOST_STAGES,
                                          MOST_SUMS, OVERLAPPED, ROWS, START_CYCLES, STEP_CYCLES, SUM_CYCLES)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .numbers import (BOX, DEPTH_BYTES, column_tiles, group_columns, matrices_of, shared_bytes, slices_of, stage_bytes,
                      stage_pixels)
from .options import FilterGradientWgmmaOptions, Form

# (filters, columns)
TILES = ((128, 256), (256, 128), (128, 192), (256, 192), (128, 128), (256, 64), (64, 512), (64, 384), (64, 256),
         (64, 128), (128, 64))
PIXELS = (64, 32, 128)
PLANE_UNIT = 16     # bytes: rows of pixels in NCHW begin there
EMPTY_BOXES = 1.6   # times as long with volumes' boxes that are half empty (32 channels, an H100, 2026-11-26)


def candidates(spec: KernelSpec, pixels: int,
               forms: tuple[Form, ...] | None = None) -> Iterator[FilterGradientWgmmaOptions]:
    """Every tile that fits and is not mostly filling, with as many stages as there is room for, and shares of the
    pixels that fill the chip, of these forms, or all that the layer may have."""
    for form in forms or tuple(form for form in Form if form_refusal(spec, form) is None):
        yield from _of_form(spec, form, pixels)


def _of_form(spec: KernelSpec, form: Form, pixels: int) -> Iterator[FilterGradientWgmmaOptions]:
    for filters, columns in TILES:
        if (filters > ROWS and filters >= 2 * spec.k) or (columns > 128 and columns >= 2 * _all_columns(spec)):
            continue
        for each in PIXELS if form is Form.CHANNELS else PIXELS[:1]:
            tile = FilterGradientWgmmaOptions(form=form, filters=filters, columns=columns, pixels=each, stages=1)
            stages = min(MOST_STAGES, spec.hardware.shared_block // (stage_bytes(tile) + 2 * BARRIER_BYTES))
            if stages >= LEAST_STAGES:
                splits = partial_sums.splits_for(spec.hardware.multiprocessors, _tiles(spec, tile),
                                                  pixels // stage_pixels(spec, tile))
                yield from (replace(tile, stages=stages, splits=n) for n in splits)


def _all_columns(spec: KernelSpec) -> int:
    return slices_of(spec) * math.prod(spec.taps) * BOX


def _tiles(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> int:
    return -(-spec.k // options.filters) * column_tiles(spec, options)


def form_refusal(spec: KernelSpec, form: Form) -> str | None:
    """Why the layer cannot have its pixels so, but for what its descriptors ask, in words, or None."""
    if form is Form.PLANES:
        if spec.layout is not Layout.NCHW or not spec.is_pointwise or spec.is_volume:
            return "planes are for 1x1 layers in NCHW, of stride 1 and without padding"
        return f"planes of {spec.c} channels (an even number is needed)" if spec.c % 2 else None
    if spec.dtype is DType.FLOAT32:
        return form_refusal(spec, Form.PLANES) or "float32 is served as planes alone"
    return None


def tile_refusal(spec: KernelSpec, options: FilterGradientWgmmaOptions) -> str | None:
    """Whether the instruction has tiles of such sizes, and shared memory holds them."""
    unit = BOX if options.filters >= GROUPS * ROWS else GROUPS * BOX
    if options.filters not in (64, 128, 256) or options.columns < unit or options.columns % unit:
        return f"{options.filters} filters x {options.columns} columns (64, 128 or 256 x a multiple of {unit})"
    sums = matrices_of(options) * group_columns(options) // 2
    if group_columns(options) > MOST_COLUMNS or sums > MOST_SUMS:
        return f"{options.filters} filters x {options.columns} columns: {sums} sums a thread (at most {MOST_SUMS})"
    if options.form is Form.CHANNELS and (options.pixels % DEPTH or not DEPTH <= options.pixels <= 256):
        return f"pixels = {options.pixels} (a multiple of {DEPTH}, at most 256)"
    return gradient_boxes.ring_refusal(spec, options.stages, options.splits, shared_bytes(options))


def choice(spec: KernelSpec, shape: ConvShape | None = None) -> FilterGradientWgmmaOptions:
    """The candidate of the least estimate, for the batch that kernels are shared by; planes where the layer's are read
    as they lie, which leaves two launches out. Without sizes a form that takes any, where the elements have one."""
    pixels, moved = partial_sums.work_of(shape)
    whole = shape is not None and shape.h * shape.w * spec.dtype.itemsize % PLANE_UNIT == 0
    planes = form_refusal(spec, Form.PLANES) is None and whole
    forms = (Form.PLANES if planes or spec.dtype is DType.FLOAT32 else Form.CHANNELS,)
    return min(candidates(spec, pixels, forms), key=lambda options: cycles(spec, options, pixels, moved))


def filled_pixels(spec: KernelSpec, options: FilterGradientWgmmaOptions, shape: ConvShape) -> int:
    """Pixels of a layer's output as stages have them: in the form planes the last stage of an image is filled up."""
    each = stage_pixels(spec, options)
    plane = shape.p * shape.q
    return shape.output_pixels if options.form is Form.CHANNELS else shape.n * -(-plane // each) * each


def cycles(spec: KernelSpec, options: FilterGradientWgmmaOptions, pixels: int, moved: int) -> float:
    """Cycles of so many output pixels: blocks in rounds of one for each multiprocessor, or the bytes ``moved`` of the
    arrays, whichever takes longer; then the shares' sums, but not their launch, which every filter gradient has."""
    chip, cycle_bytes = spec.hardware.multiprocessors, spec.hardware.copied_bytes
    blocks = _tiles(spec, options) * options.splits
    each = stage_pixels(spec, options)
    steps = -(-pixels // (each * options.splits))
    instructions = each * spec.dtype.itemsize // DEPTH_BYTES * matrices_of(options) * GROUPS
    product = instructions * group_columns(options) * COLUMN_CYCLES / FULL_RATE
    copied = stage_bytes(options) / COPIED_BYTES * max(0.4, min(1.0, blocks / chip))
    step = max(product, copied, LATENCY_CYCLES / (options.stages - 1)) + STEP_CYCLES
    sums = matrices_of(options) * group_columns(options) // 2
    written = 4 * options.filters * options.columns * min(blocks, chip) / cycle_bytes
    arithmetic = -(-blocks // chip) * (START_CYCLES + steps * step + max(SUM_CYCLES * sums, written))
    memory = START_CYCLES + MEMORY_SHARE * moved / cycle_bytes
    longest = max(arithmetic, memory)
    adding = partial_sums.adding_cycles(spec, options.splits)
    return longest + (1 - OVERLAPPED) * (arithmetic + memory - longest) + adding


def instructions(spec: KernelSpec, options: FilterGradientWgmmaOptions, shape: ConvShape) -> float:
    """Issue slots of the whole chip while a layer's gradient is made."""
    found = cycles(spec, options, filled_pixels(spec, options, shape), shape.bytes_moved)
    if spec.is_volume and 2 * spec.c <= BOX:
        found *= EMPTY_BOXES
    return QUARTERS * spec.hardware.multiprocessors * found * H200_CLOCK / CLOCK
