"""Every number in the text of ``taps_float32``."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import LANES, REGISTER_FILE, REGISTER_UNIT
from warpconv.codegen.parts.first_layers import finds_pixels, pixel_of
from warpconv.codegen.parts.wgmma import BARRIER_BYTES, CELL_BYTES, COLUMN_UNIT, ROW_BYTES, ROWS, WARP_GROUP, WgmmaShape
from warpconv.codegen.plan import Argument
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

from .options import TapsFloat32Options

ITEMSIZE = 4
DEPTH = 8                       # products of an instruction
STEP = ROW_BYTES // ITEMSIZE    # of a step: a row of a filter in shared memory
LANES_EACH = 4                  # lanes that share an output's products
RUN = 8                         # output columns that lie side by side in the sums
GROUP_RUNS = ROWS // RUN        # of a warp group's 64 outputs: two of each warp
HALOS = 2                       # places of a tile's pixels: one is multiplied while the other one is filled
COPIERS = 3                     # warps that copy pixels; the first thread of a fourth one copies filters
FEWER_REGISTERS = 56            # of a thread that copies; the others have what is left of the file
MOST_REGISTERS = 224
REGISTERS_BESIDE = 40           # of a thread that multiplies, beside sums and factors
HALO_BARRIERS, STAGE_BARRIERS = 2, 2
SIDE_THREADS = 256
SPLIT_PRODUCTS = 3              # of the four of two factors' parts
WIDE = CELL_BYTES // ITEMSIZE   # elements of the widest copy
STORES = (4, 2, 1)
PAIR = 16                       # columns of two blocks, whose filters a lane may have side by side
UNROLLED = 8                    # copies of a line that are written one after the other


@dataclass(frozen=True)
class TapsFloat32Numbers:
    """What the templates of ``taps_float32`` write besides the spec."""

    arguments: tuple[Argument, ...]
    shape: WgmmaShape
    split: bool                 # whether factors have two parts,
    parts: int                  # of which the filter has so many in memory
    threads: int
    fewer_registers: int
    more_registers: int
    products: int               # of an output
    steps: int
    pairs: int                  # of these before the last, whose factors are loaded by turns,
    one_more: bool              # and whether one is left
    depths: int                 # a step's instructions,
    last_depths: int            # and the last step's
    lane_values: int            # of a lane in a step, of one window
    guarded: bool               # whether the last step has fewer products
    depth_cells: int            # an instruction's products along a row, in 16 bytes
    filter_bytes: int           # of a stage: one part
    stage_bytes: int
    resident: bool              # whether the filter stays
    filter_tiles: int
    blocks: int                 # eights of filters in a tile
    runs_across: int
    items: int                  # of a group of warps in a tile
    next_run: int               # elements from a window to that of the other run of its warp
    halo_rows: int
    pixel: int                  # elements of a pixel in a line of the image
    line: int                   # elements of such a line in shared memory,
    before: int                 # of these before the first that a window reads
    pieces: int                 # copies of a line,
    rounds: int                 # of a lane
    whole_line: bool            # whether each round has one for every lane
    unrolled: int
    lines: int                  # of a tile
    planes: int                 # planes of channels in shared memory,
    plane: int                  # elements of one
    halo: int                   # elements of a tile's pixels there
    boxes: int                  # in which a group's outputs are copied from shared memory,
    box_filters: int            # filters of one
    staged_bytes: int           # of a group's
    staged_at: int
    halos_at: int
    offsets_at: int             # where elements lie in a window, by their number
    barriers_at: int
    shared_bytes: int
    find_pixels: bool           # whether what stands in the padding is a pixel of the image
    image: int                  # elements of the filter as the tensor cores take it
    prepared_bytes: int
    copiers: int = COPIERS
    step: int = STEP
    side_threads: int = SIDE_THREADS


def is_split(spec: KernelSpec) -> bool:
    """Whether factors have two parts of TF32."""
    return spec.numerics is Numerics.TF32X3


def parts_of(spec: KernelSpec) -> int:
    """Of a filter's factor."""
    return 2 if is_split(spec) else 1


def depths_of(spec: KernelSpec) -> int:
    """Instructions of all products."""
    return -(-spec.reduction // DEPTH)


def steps_of(spec: KernelSpec) -> int:
    """Of the reduction."""
    return -(-spec.reduction // STEP)


def columns_before(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Elements of a line before the first that a window reads: copies begin at whole 16 bytes of the image's rows."""
    padding = spec.padding[1][0] * pixel_of(spec)
    return -padding % options.vector


def halo(spec: KernelSpec, options: TapsFloat32Options) -> tuple[int, int]:
    """Rows of the input that a tile of outputs reads, and elements of a line of them in shared memory."""
    rows, columns = ((outputs - 1) * stride + extent for outputs, stride, extent in zip(
        (options.tile_p, options.tile_q), spec.stride, spec.extents))
    line = columns_before(spec, options) + columns * pixel_of(spec)
    return rows, -(-line // options.vector) * options.vector


def halo_elements(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a tile's pixels, in whole 16 bytes."""
    rows, line = halo(spec, options)
    return -(-(spec.c // pixel_of(spec)) * rows * line // WIDE) * WIDE


def stage_bytes(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a step of the filter."""
    return parts_of(spec) * options.filters * ROW_BYTES


def staged_bytes(options: TapsFloat32Options) -> int:
    """Of a group's outputs where they are stored by way of shared memory."""
    return ITEMSIZE * ROWS * options.filters if options.staged else 0


def box_filters(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Filters that are copied from there at a time: in NHWC a row of 128 bytes, in NCHW all."""
    return STEP if spec.layout is Layout.NHWC else options.filters


def can_stage(spec: KernelSpec, options: TapsFloat32Options, shape: ConvShape | None) -> bool:
    """Whether descriptors copy outputs: rows of y are whole 16 bytes, filters whole boxes."""
    if spec.layout is Layout.NHWC:
        return options.filters % STEP == 0 and store_width(spec, options) == WIDE == options.store_vector
    return shape is not None and shape.q % WIDE == 0


def shared_bytes(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a block: filters, outputs, pixels, where elements lie, barriers."""
    barriers = HALO_BARRIERS * HALOS + STAGE_BARRIERS * options.stages
    return (options.stages * stage_bytes(spec, options) + options.groups * staged_bytes(options)
            + ITEMSIZE * (HALOS * halo_elements(spec, options) + STEP * steps_of(spec)) + BARRIER_BYTES * barriers)


def more_registers(options: TapsFloat32Options) -> int:
    """Of a thread that multiplies: what those that copy leave."""
    left = REGISTER_FILE - WARP_GROUP * FEWER_REGISTERS
    return min(MOST_REGISTERS, left // (WARP_GROUP * options.groups) // REGISTER_UNIT * REGISTER_UNIT)


def planned_registers(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Of a thread that multiplies: sums, where factors are split those of a step, and both windows' factors, of
    this step and the next."""
    sums, factors = options.filters * ROWS // WARP_GROUP, 2 * 2 * STEP // LANES_EACH
    return (2 * (sums + factors) if is_split(spec) else sums + factors) + REGISTERS_BESIDE


def widest_copy(spec: KernelSpec, options: TapsFloat32Options, shape: ConvShape | None) -> int:
    """Elements of a copy: 16 bytes where rows of the image are whole numbers of these, and tiles begin at one."""
    pixel = pixel_of(spec)
    whole = shape is not None and shape.w * pixel % WIDE == 0 and options.tile_q * spec.stride[1] * pixel % WIDE == 0
    return WIDE if whole and not finds_pixels(spec) else 1


def store_width(spec: KernelSpec, options: TapsFloat32Options) -> int:
    """Filters of a store: four come from two blocks of columns, all of which are whole pairs."""
    if spec.layout is Layout.NCHW:
        return 1
    pairs = spec.k % PAIR == options.filters % PAIR == 0
    return next(width for width in STORES if spec.k % width == 0 and (width < WIDE or pairs))


def fitted(spec: KernelSpec, options: TapsFloat32Options) -> TapsFloat32Options:
    """``options`` with no more stages than steps."""
    return replace(options, stages=min(options.stages, steps_of(spec)))


def make_numbers(spec: KernelSpec, options: TapsFloat32Options,
                 arguments: tuple[Argument, ...] = ()) -> TapsFloat32Numbers:
    """All numbers of plan values that fit together."""
    rows, line = halo(spec, options)
    steps, pixel = steps_of(spec), pixel_of(spec)
    runs_across = options.tile_q // RUN
    staged_at = options.stages * stage_bytes(spec, options)
    halos_at = staged_at + options.groups * staged_bytes(options)
    offsets_at = halos_at + ITEMSIZE * HALOS * halo_elements(spec, options)
    barriers_at = offsets_at + ITEMSIZE * STEP * steps
    image = steps * parts_of(spec) * spec.k * STEP
    floats = spec.k * spec.reduction if is_split(spec) else 0
    pieces = line // options.vector
    return TapsFloat32Numbers(
        arguments=arguments, shape=WgmmaShape.of(options.filters), split=is_split(spec), parts=parts_of(spec),
        threads=WARP_GROUP * (options.groups + 1), fewer_registers=FEWER_REGISTERS,
        more_registers=more_registers(options), products=spec.reduction, steps=steps, pairs=(steps - 1) // 2,
        one_more=steps % 2 == 0, depths=STEP // DEPTH,
        last_depths=depths_of(spec) - (steps - 1) * (STEP // DEPTH), lane_values=STEP // LANES_EACH,
        guarded=spec.reduction % STEP != 0, depth_cells=DEPTH * ITEMSIZE // CELL_BYTES,
        filter_bytes=options.filters * ROW_BYTES, stage_bytes=stage_bytes(spec, options),
        resident=options.stages == steps, filter_tiles=-(-spec.k // options.filters),
        blocks=options.filters // COLUMN_UNIT, runs_across=runs_across,
        items=options.tile_p * runs_across // (GROUP_RUNS * options.groups),
        next_run=ITEMSIZE * (RUN * spec.stride[1] * pixel if runs_across > 1 else spec.stride[0] * line),
        halo_rows=rows, pixel=pixel, line=line, before=columns_before(spec, options), pieces=pieces,
        rounds=-(-pieces // LANES), whole_line=pieces % LANES == 0, unrolled=min(UNROLLED, -(-pieces // LANES)),
        lines=rows * (spec.c // pixel), planes=spec.c // pixel, plane=rows * line, halo=halo_elements(spec, options),
        boxes=options.filters // box_filters(spec, options), box_filters=box_filters(spec, options),
        staged_bytes=staged_bytes(options), staged_at=staged_at, halos_at=halos_at, offsets_at=offsets_at,
        barriers_at=barriers_at, shared_bytes=shared_bytes(spec, options),
        find_pixels=finds_pixels(spec), image=image, prepared_bytes=ITEMSIZE * (image + floats))
