"""``wgmma``: dense layers as a product of matrices by Hopper's warp groups.

    y[pixel][filter] = sum over tap and channel of w[filter][tap][channel] * x[window of pixel][tap][channel]

Filters are the rows of the product and pixels its columns. One thread of a block has the tensor memory accelerator
copy slices of both into a ring in shared memory; two groups of four warps multiply them (wgmma), sums in float32. The
accelerator knows x by a descriptor that walks windows (im2col), or brings one box of pixels from which every tap is
read (halo). The text is for sm_90a, the form of sm_90 that has these instructions.

In NCHW a launch before it brings x to NHWC, its channels filled up to 16 bytes; y is stored in NCHW from registers,
by lanes that exchange sums first, so that what a store writes lies side by side. 1x1 layers of 16 bits and stride 1
need no such launch: the pixels of a channel lie side by side, which the instruction takes of its second factor, too
(planes). Windows that do not overlap may be written as rows of a matrix by a launch before the product, whose pixels
they are then (patch embeddings).

float32 elements are rounded to TF32 by the accelerator as they come (tf32), or scaled and
split into two parts of float16 (fp16x3): filters ahead, pixels by warps of their own where they lie in shared memory,
or, where rows of x in NCHW are whole 16 bytes, on their way from boxes of planes to rows of pixels. Of
the four products three are made; their sums are added in float32 after every step. Outputs that are not finite are
made anew by float32 units (docs/precision.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import ALIGNMENT, C_TYPE, Descriptor
from warpconv.codegen.dimension import OUTPUTS, Dimension
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts import nhwc_pass, split_sums, window_rows
from warpconv.codegen.parts.arguments import image_of, layer_arguments, named, outputs_of
from warpconv.codegen.parts.early import begins_early
from warpconv.codegen.parts.nhwc_pass import NhwcPass
from warpconv.codegen.parts.refusals import common_refusal
from warpconv.codegen.parts.wgmma import FLOATS, GROUPS, LEAST_STAGES, MOST_COLUMNS, ROWS, TARGET, float_units_refusal
from warpconv.codegen.parts.window_rows import WindowRows
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Preparation, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

from .choice import FILTERS, MOST_RING, candidates, choice, halo_refusal, most_columns, planes_refusal, stays_refusal
from .estimate import SPLIT_PRODUCTS, instructions
from .maps import FILTER, descriptors_of, window_refusal
from .numbers import (ROW_UNIT, SIDE_THREADS, WgmmaNumbers, box_of, column_unit, group_columns, is_flat, is_passed,
                      is_sampled, is_staged, make_numbers, product_of, resolved, slice_boxes, slice_of, store_units,
                      stored_channels)
from .options import Form, WgmmaOptions, Window
from .split import SplitNumbers, is_split, make_split_numbers

MOST_FILTER_BLOCKS = 1024


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if (spec.arch.major, spec.arch.minor) != (TARGET.major, TARGET.minor):
        return f"{spec.arch} has no wgmma (9.0 alone)"
    if spec.groups > 1:
        return f"{spec.groups} groups: a slice of {slice_of(spec)} channels would be of several"
    single = spec.dtype is DType.FLOAT32
    if (refusal := float_units_refusal(spec)) is not None:
        return refusal
    reason = common_refusal(spec, dtypes=(DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16),
                            layouts=(Layout.NHWC, Layout.NCHW),
                            numerics=FLOATS if single else (Numerics.FLOAT32,), residual=True, spatial=(2, 3))
    if reason is None and window_refusal(spec, WgmmaOptions(window=Window.ROW)) is None:
        return None
    return reason or window_refusal(spec, WgmmaOptions())


def plan(spec: KernelSpec, options: WgmmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    layer = spec = replace(spec, arch=TARGET) if spec.arch != TARGET else spec
    refusal = supports(layer) or _tile_refusal(layer, options)
    if refusal is None:
        options = resolved(layer, options)
        spec = product_of(layer, options)
        refusal = window_refusal(layer, options) or _form_refusal(spec, options) or _fit_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(layer, refusal)
    descriptors = descriptors_of(spec, options)
    arguments = _arguments(layer, options, descriptors)
    split, staged, early = options.splits > 1, is_staged(spec, options), begins_early(spec)
    written = (split_sums.SUMS,) if split else ("bias",) if staged else ("bias", "residual", "y")
    maps = [d.argument for d in descriptors]
    adding = named(arguments, split_sums.SUMS, "bias", "residual", "y", "N", *outputs_of(spec))
    before = _before(layer, options, arguments)
    numbers: WgmmaNumbers | SplitNumbers
    if is_split(spec):      # x and the filter by address, too: for outputs that are made anew
        taken = named(arguments, *maps, "x", FILTER, *written, "N", *image_of(spec), *outputs_of(spec))
        numbers = make_split_numbers(spec, options, taken, adding if split else (), before)
    else:
        taken = named(arguments, *maps, *written, "N", *outputs_of(spec))
        numbers = make_numbers(spec, options, taken, adding if split else (), before)
    steps, workspaces = [_product(layer, options, numbers)], []
    if isinstance(before, WindowRows):
        steps.insert(0, window_rows.launch(layer, before))
        workspaces.append(window_rows.workspace(layer, 1))
    elif before is not None:
        steps.insert(0, nhwc_pass.launch(spec, before.arguments, before.sampled))
        workspaces.append(nhwc_pass.workspace(spec, 1, before.sampled))
    if split:
        workspaces.append(split_sums.workspace(spec, options.splits, len(steps) - 1))
        steps.append(split_sums.launch(spec, adding, early))
    program = Program(arguments=arguments, steps=tuple(steps), preparation=_preparation(spec, options, numbers),
                      descriptors=descriptors, workspaces=tuple(workspaces))
    return KernelPlan(spec=layer, options=options, numbers=numbers,
                      templates=("wgmma/split.cu.jinja" if is_split(spec) else "wgmma/kernel.cu.jinja",),
                      program=program, cost=_cost(spec, options, numbers), phrase=_phrase(spec, options, numbers),
                      product=spec if options.unfolded else None)


def _before(spec: KernelSpec, options: WgmmaOptions, arguments: tuple[Argument, ...]) -> NhwcPass | WindowRows | None:
    """The launch that the product reads the pixels of, if there is one."""
    if options.unfolded:
        taken = named(arguments, "x", window_rows.WINDOWS, "N", *image_of(spec), *outputs_of(spec))
        return window_rows.make_rows(spec, taken, begins_early(spec))
    if not is_passed(spec, options):
        return None
    sampled = is_sampled(spec, options)
    taken = named(arguments, "x", nhwc_pass.PIXELS, "N", *image_of(spec), *(outputs_of(spec) if sampled else ()))
    return nhwc_pass.make_pass(spec, taken, wide=True, sampled=sampled, early=begins_early(spec))


def _tile_refusal(spec: KernelSpec, options: WgmmaOptions) -> str | None:
    """Whether the instruction has tiles of such sizes."""
    if options.filters not in FILTERS:
        return f"filters = {options.filters} (one of {', '.join(map(str, FILTERS))})"
    unit = column_unit(spec, options)
    parts = GROUPS if options.filters < GROUPS * ROWS else 1
    if options.pixels % (unit * parts) or group_columns(options) > MOST_COLUMNS:
        return (f"pixels = {options.pixels} beside {options.filters} filters (a multiple of {unit * parts}, at most "
                f"{MOST_COLUMNS * parts})")
    if group_columns(options) > most_columns(spec, options.filters):
        sums = max(1, options.filters // (GROUPS * ROWS)) * group_columns(options) // 2
        return f"{sums} sums a thread are too many for its registers: fewer pixels beside {options.filters} filters"
    if options.stages < LEAST_STAGES:
        return f"stages = {options.stages} (at least {LEAST_STAGES})"
    return None


def _form_refusal(spec: KernelSpec, options: WgmmaOptions) -> str | None:
    """Whether the layer can have this form."""
    refusal = planes_refusal(spec) if options.form is Form.PLANES else None
    if refusal is not None:
        return refusal
    if options.form is not Form.HALO:
        steps = _numbers(spec, options).steps
        if not 1 <= options.splits <= steps:
            return f"splits = {options.splits} of {steps} steps (at most one each)"
        return stays_refusal(spec, options) if options.stays else None
    refusal = halo_refusal(spec, options)
    if refusal is not None:
        return refusal
    if is_flat(spec, options) and options.rows != 1:
        return f"rows = {options.rows} for 1x1 filters (1: an image in the order of planes is one row)"
    if options.turned and options.columns % ROW_UNIT:
        return (f"columns = {options.columns} in the order of planes (a multiple of {ROW_UNIT}: copies begin at whole "
                "16 bytes)")
    if options.turned > MOST_RING:
        return f"ring = {options.turned} (at most {MOST_RING} boxes)"
    boxes = -(-spec.c // slice_of(spec)) * slice_boxes(spec, options)
    if options.boxes < 1 or options.boxes == 1 and boxes > 1 and not is_split(spec):
        # a box is freed when products of the next one are under way
        return f"boxes = {options.boxes} for {boxes} boxes of a tile (at least {2 if boxes > 1 else 1})"
    needed = (options.rows - 1) * box_of(spec, options)[1] + options.columns
    if needed > options.pixels:
        return f"{options.rows} x {options.columns} outputs need {needed} columns, pixels = {options.pixels}"
    return None


def _numbers(spec: KernelSpec, options: WgmmaOptions) -> WgmmaNumbers | SplitNumbers:
    return make_split_numbers(spec, options) if is_split(spec) else make_numbers(spec, options)


def _fit_refusal(spec: KernelSpec, options: WgmmaOptions) -> str | None:
    """Whether shared memory and descriptors hold the tile."""
    shared = _numbers(spec, options).shared_bytes
    if shared > spec.hardware.shared_block:
        return (f"{shared} bytes of shared memory for a block (at most {spec.hardware.shared_block}): fewer stages or "
                "pixels" + (", or filter = stages" if options.stays else ""))
    return next((reason for d in descriptors_of(spec, options) if (reason := d.refusal()) is not None), None)


def _arguments(spec: KernelSpec, options: WgmmaOptions, descriptors: tuple[Descriptor, ...]) -> tuple[Argument, ...]:
    """The layer's, aligned as descriptors ask, the prepared filter, the sums of split tiles, the descriptors."""
    multiples = dict.fromkeys((d.of for d in descriptors), ALIGNMENT)
    if is_passed(spec, options):        # several elements of x are read at a time
        multiples["x"] = ALIGNMENT
    if options.unfolded:
        multiples["x"] = spec.dtype.itemsize * window_rows.unit_of(spec)
    if spec.layout is Layout.NCHW:      # stores and residuals have units
        unit = store_units(spec, options)[0] if options.splits == 1 else 1
        multiples |= {"y": spec.dtype.itemsize * unit, "residual": spec.dtype.itemsize * unit}
    if options.turned and not is_flat(spec, options):
        multiples["W"] = ROW_UNIT
    arguments = tuple(replace(a, multiple_of=multiples[a.name]) if a.name in multiples else a
                      for a in layer_arguments(spec))
    arguments += (Argument(name=FILTER, role=Role.WORKSPACE, c_type=spec.w_dtype.c_name),)
    if is_passed(spec, options):
        arguments += (nhwc_pass.argument(spec),)
    if options.unfolded:
        arguments += (window_rows.argument(spec),)
    if options.splits > 1:
        arguments += (split_sums.argument(),)
    return arguments + tuple(Argument(name=d.argument, role=Role.DESCRIPTOR, c_type=C_TYPE) for d in descriptors)


def _product(layer: KernelSpec, options: WgmmaOptions, numbers: WgmmaNumbers | SplitNumbers) -> Launch:
    """A block for each multiprocessor, or for each tile where there are fewer; tiles of one place's filters come side
    by side, so that their pixels are found in the cache."""
    spec, add = product_of(layer, options), options.pixels - 1
    tiles = Blocks(of=Dimension.N, by=OUTPUTS[len(spec.taps)], add=add, per=options.pixels,
                   times=numbers.filter_tiles * options.splits, limit=spec.hardware.multiprocessors)
    if options.form is not Form.IM2COL:     # blocks without a tile end at once
        tiles = Blocks(of=Dimension.N, by=OUTPUTS[len(spec.taps)], times=numbers.filter_tiles * options.splits,
                       limit=spec.hardware.multiprocessors)
    names = window_rows.NAMES if options.unfolded else {}
    return Launch(entry=layer.name, grid=(tiles, Blocks(), Blocks()), block=(numbers.threads, 1, 1),
                  arguments=tuple(names.get(a.name, a.name) for a in numbers.arguments),
                  shared_bytes=numbers.shared_bytes, early=numbers.before is not None and numbers.before.early)


def _preparation(spec: KernelSpec, options: WgmmaOptions, numbers: WgmmaNumbers | SplitNumbers) -> Preparation:
    """The filter as [filter][tap][channel], or in the order of windows in NCHW; or in two parts as rows of
    [slice][tap][filter], a block a filter."""
    elements = spec.k * stored_channels(spec) * math.prod(spec.taps)
    split, in_order_of_w = isinstance(numbers, SplitNumbers), options.unfolded and spec.layout is Layout.NCHW
    times = spec.k if split else -(-elements // SIDE_THREADS)
    grid = (Blocks(times=times, limit=MOST_FILTER_BLOCKS), Blocks(), Blocks())
    launch = Launch(entry="prepare_filter", grid=grid, block=(SIDE_THREADS, 1, 1), arguments=("w", FILTER))
    nbytes = numbers.prepared_bytes if isinstance(numbers, SplitNumbers) else spec.dtype.itemsize * elements
    return Preparation(steps=(launch,), buffer=Workspace(name=FILTER, bytes_each=nbytes),
                       ordered=not split and not in_order_of_w and stored_channels(spec) == spec.c)


def _cost(spec: KernelSpec, options: WgmmaOptions, numbers: WgmmaNumbers | SplitNumbers) -> Cost:
    """Of a warp's share of a tile; a product of matrices counts as the FMAs of a lane that it stands for."""
    products = numbers.steps * numbers.depths * numbers.depth * (SPLIT_PRODUCTS if is_split(spec) else 1)
    outputs = numbers.matrices * numbers.shape.sums
    return Cost(unit=f"a warp's {LANES * outputs} outputs", warp_loads=0, shuffles=0, fma=products * outputs,
                registers=numbers.more_registers, direct_loads=spec.reduction * outputs)


def _phrase(spec: KernelSpec, options: WgmmaOptions, numbers: WgmmaNumbers | SplitNumbers) -> str:
    tiles = f"tiles of {options.filters} filters x {options.pixels} pixels"
    if options.form is Form.HALO:
        phases = f"{numbers.phases} phases of " if numbers.phases > 1 else ""
        tiles = (f"tiles of {options.filters} filters x {options.rows} x {options.columns} outputs from one box of "
                 f"{phases}{numbers.box_rows} x {numbers.box_columns} pixels for {numbers.box_serves} taps, "
                 f"{options.boxes} boxes" + (f", of {options.turned} boxes of planes" if options.turned else ""))
    if options.form is Form.PLANES:
        tiles += " of an image in NCHW"
    split = f", sums in {options.splits} parts" if options.splits > 1 else ""
    threads = "a copying thread"
    notes = ["of windows that a launch before makes rows of"] * options.unfolded
    notes += ["whose filters stay"] * options.stays
    notes += ["factors rounded to TF32"] * (spec.numerics is Numerics.TF32)
    if isinstance(numbers, SplitNumbers):
        notes.append("factors in two parts of float16")
        threads = f"two copying threads, {numbers.splitters} splitting warps"
    tiles += "".join(f", {note}" for note in notes) + "," * bool(notes)
    return (f"{tiles} by two warp groups and {threads}, {options.stages} stages{split}, "
            f"{numbers.shared_bytes} bytes of shared memory")


def lighter(spec: KernelSpec, options: WgmmaOptions) -> WgmmaOptions | None:
    """The same without partial sums, or None where there are none."""
    return replace(options, splits=1) if options.splits > 1 else None


def space(spec: KernelSpec) -> Iterable[WgmmaOptions]:
    """Every tile, with the reduction whole and split."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """estimate.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="wgmma", summary="a product of matrices by Hopper's warp groups, copied by descriptors",
                      options=WgmmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, lighter=lighter, float32=FLOATS, spatial=(2, 3))
