"""What the accelerator copies by: the descriptors of ``wgmma``'s arrays, and of which pixels there are none."""

from __future__ import annotations

import math

from warpconv.codegen.classes import replace
from warpconv.codegen.descriptors import Descriptor
from warpconv.codegen.dimension import IMAGE, OUTPUTS, Dimension, Length
from warpconv.codegen.dtypes import DType
from warpconv.codegen.parts import nhwc_pass, window_rows
from warpconv.codegen.parts.wgmma import ROW_BYTES, walking
from warpconv.codegen.spec import Epilogue, KernelSpec, Numerics

from .numbers import (PLANE_PIXELS, STORED_FILTERS, box_of, is_flat, is_passed, is_plain, is_sampled, is_staged,
                      plane_columns, product_of, slice_of, stage_taps, step_channels, stored_channels)
from .options import Form, WgmmaOptions
from .split import is_split, make_split_numbers

FILTER = "filter"               # the program's name for the prepared filter


def window_refusal(spec: KernelSpec, options: WgmmaOptions) -> str | None:
    """Whether there are such pixels to be copied, and descriptors of them."""
    refusal = window_rows.refusal(spec) if options.unfolded else None
    return refusal or _pixels(product_of(spec, options), options).refusal()


def _pixels(spec: KernelSpec, options: WgmmaOptions) -> Descriptor:
    """How x is copied."""
    sizes = (OUTPUTS if options.unfolded else IMAGE)[len(spec.taps)]
    n, *image = (Length(by=(size,)) for size in (Dimension.N, *sizes))
    if options.turned:
        return _turned_boxes(spec, options)
    passed = is_passed(spec, options)
    channels = Length(each=stored_channels(spec) if passed or options.unfolded else spec.c)
    of = window_rows.WINDOWS if options.unfolded else nhwc_pass.PIXELS if passed else "x"
    made = Descriptor(argument="x_map", of=of, dtype=spec.dtype, sizes=(channels, *image[::-1], n), box=(),
                      rounded=spec.numerics is Numerics.TF32)
    each = slice_of(spec)
    if options.form is Form.PLANES:
        pixels = Length(by=(Dimension.H, Dimension.W))
        return replace(made, sizes=(pixels, Length(each=spec.c), n), box=(PLANE_PIXELS, step_channels(spec), 1))
    if options.form is Form.HALO:
        rows, columns = box_of(spec, options)
        *deep, down, across = spec.stride       # a box lies in one plane of a volume
        planes = (1,) * len(deep)
        return replace(made, box=(each, columns * across, rows * down, *planes, 1), strides=(across, down, *planes))
    if is_plain(spec, options):
        pixels = Length(by=nhwc_pass.pixels_of(spec, is_sampled(spec, options)))
        return replace(made, sizes=(channels, pixels), box=(each, options.pixels))
    return walking(replace(made, box=(each, options.pixels)), spec)


def _turned_boxes(spec: KernelSpec, options: WgmmaOptions) -> Descriptor:
    """How x is copied as NCHW has it: rows of pixels, the channels of a slice one behind another."""
    rows, columns = box_of(spec, options)[0], plane_columns(spec, options)
    image = IMAGE[len(spec.taps)]
    n, *sizes = (Length(by=(size,)) for size in (Dimension.N, *image))
    channels, slice_ = Length(each=spec.c), slice_of(spec)
    box: tuple[int, ...] = (columns, rows, *(1 for _ in image[2:]))
    if is_flat(spec, options):
        sizes, box = [Length(by=image)], (columns,)
    return Descriptor(argument="x_map", of="x", dtype=spec.dtype, sizes=(*sizes[::-1], channels, n),
                      box=(*box, slice_, 1), swizzle=0)


def descriptors_of(spec: KernelSpec, options: WgmmaOptions) -> tuple[Descriptor, ...]:
    """Those of pixels and filters, and of what is copied from and to the output's place."""
    channels = Length(each=stored_channels(spec))
    filters = Descriptor(argument="filter_map", of=FILTER, dtype=spec.dtype, box=(slice_of(spec), 1, options.filters),
                         sizes=(channels, Length(each=math.prod(spec.taps)), Length(each=spec.k)),
                         rounded=spec.numerics is Numerics.TF32)
    if (several := 1 if is_split(spec) else stage_taps(spec, options)) > 1:     # taps follow each other
        filters = replace(filters, box=(several * stored_channels(spec), options.filters),
                          sizes=(Length(each=math.prod(spec.taps) * stored_channels(spec)), Length(each=spec.k)))
    if is_split(spec):      # rows of both parts, of each filter, of each step
        steps, row = make_split_numbers(spec, options).steps, ROW_BYTES // DType.FLOAT16.itemsize
        filters = replace(filters, dtype=DType.FLOAT16, box=(row, options.filters, 1),
                          sizes=(Length(each=row), Length(each=spec.k), Length(each=steps)))
    outputs = Length(by=(Dimension.N, *OUTPUTS[len(spec.taps)]))
    pixels = _pixels(spec, options)
    found = [replace(pixels, windows=outputs) if spec.index_bits == 64 else pixels, filters]
    if is_staged(spec, options):
        n, p, q = Dimension.N, Dimension.P, Dimension.Q
        if options.form is Form.HALO:
            planes = Length(by=(n, Dimension.Z) if spec.is_volume else (n,))
            sizes: tuple[Length, ...] = (Length(each=spec.k), Length(by=(q,)), Length(by=(p,)), planes)
            box: tuple[int, ...] = (STORED_FILTERS, options.columns, options.rows, 1)
        else:
            sizes, box = (Length(each=spec.k), outputs), (STORED_FILTERS, options.buffer)
        found.append(Descriptor(argument="y_map", of="y", dtype=spec.dtype, sizes=sizes, box=box))
        if Epilogue.RESIDUAL in spec.epilogue:
            found.append(replace(found[-1], argument="residual_map", of="residual"))
    return tuple(found)
