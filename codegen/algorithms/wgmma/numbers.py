"""Every number in the text of ``wgmma``."""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.descriptors import MOST_BOX
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts import nhwc_pass, window_rows
from warpconv.codegen.parts.early import begins_early
from warpconv.codegen.parts.nchw_stores import STORE_UNITS
from warpconv.codegen.parts.nhwc_pass import NhwcPass
from warpconv.codegen.parts.wgmma import (BARRIER_BYTES, CELL_BYTES, COLUMN_UNIT, DEPTH, FEWER_REGISTERS, GROUPS,
                                          MORE_REGISTERS, ROW_BYTES, ROWS, THREADS, WgmmaShape)
from warpconv.codegen.parts.window_rows import WindowRows
from warpconv.codegen.plan import Argument
from warpconv.codegen.spec import Epilogue, KernelSpec

from .options import Box, Filter, Form, Order, WgmmaOptions, Window

ALIGNMENT = 1024                # of what a swizzle walks through: eight rows
STORED_FILTERS = 64             # of a buffer
STORE_PIXELS = (128, 96, 80, 64, 48, 32)
USUAL_BUFFER = 64               # pixels of a buffer: two of them are as quick as one of all, and leave room for stages
SPARE_ROWS = 16                 # of a buffer, which take the pixels that are dropped: a lane its own
SIDE_THREADS = 256              # of the entries beside the product
PLANE_PIXELS = 64               # of a channel side by side in shared memory: such a row
MULTIPLY = {DType.FLOAT16: "wc_wgmma_halves", DType.BFLOAT16: "wc_wgmma_bfloat16s", DType.FLOAT32: "wc_wgmma_tf32s"}
ACROSS = {DType.FLOAT16: "wc_wgmma_halves_b_across", DType.BFLOAT16: "wc_wgmma_bfloat16s_b_across"}
FIRST_STAGES = 2                # of a block's first tile: 0.94 to 1.01 of the time (19 layers, an H200, 2026-11-29)
SHORTENED = 1.25                # times as many products of a box, from which on its last slice is multiplied in part
ROW_UNIT = 4                    # floats of 16 bytes: of a row of a box that is turned
STAGE_CHANNELS = 16             # of a tap that shares a stage with others: whole instructions
STEP_BYTES = 32                 # of a row: an instruction's, 16 products of 16 bits or 8 of TF32


@dataclass(frozen=True)
class WgmmaNumbers:
    """What the templates of ``wgmma`` write besides the spec."""

    arguments: tuple[Argument, ...]             # of the product's entry
    addition_arguments: tuple[Argument, ...]    # of the entry that adds the sums of split tiles
    before: NhwcPass | WindowRows | None    # the entry that brings x from NCHW to NHWC, or puts windows side by side
    shape: WgmmaShape
    multiply: str               # the primitive
    plain: bool                 # every pixel is one window: no walk
    all_tiled: bool             # no descriptor walks windows
    early_product: bool         # whether the product begins while the pass to NHWC ends,
    early_sums: bool            # and the sums of split tiles while the product ends
    store_bias: bool            # whether the product's entry adds it
    guard_filters: bool         # whether the last tile has fewer
    staged: bool                # outputs go through shared memory,
    stores: str                 # and the fragment that stores them,
    store_units: tuple[int, ...]    # in NCHW so many pixels of a lane at once, the most first
    odd_matrices: bool          # whether a group's matrices of eight pixels are no multiple of four
    shared_buffer: bool         # both groups fill one buffer
    odd_matrix: bool            # an odd number of eight pixels goes into a buffer
    loads_residual: bool        # it comes through shared memory
    matrices: int               # of 64 filters: a group's
    group_filters: int          # from one group's to the next one's,
    group_pixels: int           # 0 where both have the same
    filter_tiles: int
    slice: int                  # channels of a step
    slices: int
    steps: int
    depth: int                  # products of an instruction
    depths: int                 # instructions of a step along the channels,
    last_depths: int            # and in the last slice, which may have fewer channels
    taps: int
    pixel_bytes: int
    filter_bytes: int
    stage_bytes: int
    first_stages: int           # whose copies start before a block's first __syncthreads
    store_pixels: int
    parts: int
    store_bytes: int
    stored_bytes: int
    stores_read: str            # the primitive that waits until a buffer can be filled anew
    buffers_each: int
    takes_turns: bool           # whether a count of buffers tells which one is next, or which phase of its barrier
    all_buffers: int
    first_loads: int
    buffers_at: int
    barriers_at: int
    arrived_at: int
    shared_bytes: int
    box_columns: int = 1        # halo: pixels of the box, or of one of its phases,
    box_rows: int = 1
    phases: int = 1             # of which there are so many,
    phases_across: int = 1      # along a row,
    phase_pixels: int = 1       # from one to the next in shared memory
    box_bytes: int = 1
    box_taps: int = 1           # that a box serves,
    box_serves: str = ""        # in words,
    stage_taps: int = 1         # taps of a stage of filters,
    guard_taps: bool = False    # whether a box's last stage has fewer,
    slice_boxes: int = 1        # and boxes of a slice: of each filter plane one, or one for each filter column
    loop: str = Form.IM2COL.value       # the fragment that waits for stages and multiplies
    planes: int = 0             # planes: rows of pixels, for all channels of a step, that a stage has,
    planes_each: int = 1        # of them a group's
    planes_bytes: int = 0       # of one,
    group_bytes: int = 0        # from one group's to the next one's, 0 where both have the same
    plane_cells: int = DEPTH * ROW_BYTES // CELL_BYTES      # from one instruction's to the next one's
    plane_channels: int = 1     # channels of a step's copies
    filter_channels: int = 0    # of a filter as it is prepared
    spare_rows: int = 0         # of a buffer behind its outputs, from one group's to the next one's
    filters_at: int = 0         # those that stay
    flat: bool = False          # an image is taken as one row
    groups: int = GROUPS
    threads: int = THREADS
    side_threads: int = SIDE_THREADS
    row_bytes: int = ROW_BYTES
    matrix_rows: int = ROWS * ROW_BYTES // CELL_BYTES
    depth_cells: int = STEP_BYTES // CELL_BYTES
    fewer_registers: int = FEWER_REGISTERS
    more_registers: int = MORE_REGISTERS
    word_sums: tuple[tuple[int, int], ...] = ((0, 1), (2, 3), (4, 5), (6, 7))


def slice_of(spec: KernelSpec) -> int:
    """Channels of a step: a row of shared memory."""
    return ROW_BYTES // spec.dtype.itemsize


def group_columns(options: WgmmaOptions) -> int:
    """Pixels of a group: all of a tile's where the groups share its filters out, else their half."""
    return options.pixels if options.filters >= GROUPS * ROWS else options.pixels // GROUPS


def column_unit(spec: KernelSpec, options: WgmmaOptions) -> int:
    """What a group's pixels are a multiple of: instructions have eight; a buffer takes pairs of them, and by im2col in
    NCHW of 16 bits whole fours are stored at once."""
    if options.form is Form.HALO or spec.dtype is DType.FLOAT32:
        return COLUMN_UNIT
    return (4 if spec.layout is Layout.NCHW else 2) * COLUMN_UNIT


def product_of(spec: KernelSpec, options: WgmmaOptions) -> KernelSpec:
    """The layer as its product has it: where windows are rows, one of single pixels."""
    return window_rows.product_of(spec) if options.unfolded else spec


def stored_channels(spec: KernelSpec) -> int:
    """Channels of a pixel as they are copied: whole 16 bytes, which only a pass fills up to."""
    return nhwc_pass.stored_channels(spec)


def depths_of(spec: KernelSpec, options: WgmmaOptions) -> tuple[int, int]:
    """Instructions along the channels of a slice, and of a tap's last one: of a box for all taps no more than it has
    channels for, where SHORTENED times as many would be multiplied."""
    depth = STEP_BYTES // spec.dtype.itemsize
    of_slice, needed = slice_of(spec) // depth, -(-stored_channels(spec) // depth)
    whole = -(-needed // of_slice) * of_slice
    shorter = options.form is Form.HALO and needed > of_slice and whole >= SHORTENED * needed
    each = min(of_slice, needed)
    return each, needed % of_slice if shorter else each


def step_channels(spec: KernelSpec) -> int:
    """Channels that are copied for a step, of the form planes: a slice, or what fewer there are."""
    return min(slice_of(spec), aligned(stored_channels(spec), DEPTH))


def is_plain(spec: KernelSpec, options: WgmmaOptions) -> bool:
    """Whether every pixel that is copied is the window of one output, and a box holds those of a tile."""
    one = is_one_tap(spec) and (max(spec.stride) == 1 or spec.layout is Layout.NCHW and not spec.is_volume)
    return one and options.form is Form.IM2COL and options.pixels <= MOST_BOX


def is_passed(spec: KernelSpec, options: WgmmaOptions) -> bool:
    """Whether x is brought to NHWC before the product."""
    return (spec.layout is Layout.NCHW and options.form is not Form.PLANES and not options.turned
            and not options.unfolded)


def is_sampled(spec: KernelSpec, options: WgmmaOptions) -> bool:
    """Whether what comes before the product has a pixel for each output: of 1x1 filters that stride, and of windows."""
    return options.unfolded or is_passed(spec, options) and is_plain(spec, options) and max(spec.stride) > 1


def is_one_tap(spec: KernelSpec) -> bool:
    """Whether the window of an output is a pixel."""
    return max(spec.taps) == 1 and not any(map(any, spec.padding))


def is_flat(spec: KernelSpec, options: WgmmaOptions) -> bool:
    """Whether an image is taken as one row: of boxes that are turned, where every pixel is a window."""
    return options.turned > 0 and max(spec.taps) == 1


def is_staged(spec: KernelSpec, options: WgmmaOptions) -> bool:
    """Whether outputs are copied by a descriptor, whose distances are multiples of 16 bytes."""
    return (spec.dtype.is_half and options.splits == 1 and spec.layout is Layout.NHWC
            and 2 * spec.k % CELL_BYTES == 0)


def stores_from_registers(spec: KernelSpec) -> str:
    """The fragment that stores outputs without shared memory."""
    return "pairs" if spec.layout is Layout.NHWC else "nchw"


def store_units(spec: KernelSpec, options: WgmmaOptions) -> tuple[int, ...]:
    """Pixels of a filter that a lane may store at once in NCHW: of whole images any (of planes eight, which their
    distances are multiples of), of rows of a box what their beginnings are multiples of."""
    if not spec.dtype.is_half:
        return STORE_UNITS[2:]
    if options.form is Form.PLANES:
        return STORE_UNITS[:1]
    if options.form is not Form.HALO:
        return STORE_UNITS
    columns = options.columns, box_of(spec, options)[1]
    return tuple(unit for unit in STORE_UNITS if not any(n % unit for n in columns))


def buffer_sizes(options: WgmmaOptions) -> tuple[int, ...]:
    """Pixels that a buffer of outputs may have: all of a group's, or as many as share them out."""
    columns = group_columns(options)
    if options.form is Form.HALO:
        return (columns,)
    return (columns, *(n for n in STORE_PIXELS if columns % n == 0 and n < columns))


def resolved(spec: KernelSpec, options: WgmmaOptions) -> WgmmaOptions:
    """``options`` with the largest buffer that is no larger than the one asked for, and nothing of the other form."""
    if options.form is Form.HALO:
        options = replace(options, splits=1, filter=Filter.STAGES)
    if options.form is not Form.HALO:
        options = replace(options, rows=1, columns=1, boxes=2, box=Box.TAPS, order=Order.PIXELS)
    if options.form is not Form.IM2COL:
        options = replace(options, window=Window.TAP)
    if options.order is Order.PIXELS:
        options = replace(options, ring=2)
    sizes = buffer_sizes(options) if spec.layout is Layout.NHWC else (group_columns(options),)
    if options.buffer == DERIVED:
        return replace(options, buffer=next((n for n in sizes if n <= USUAL_BUFFER), sizes[0]))
    return replace(options, buffer=next((n for n in sizes if n <= options.buffer), sizes[-1]))


def box_of(spec: KernelSpec, options: WgmmaOptions) -> tuple[int, int]:
    """Rows and columns of a box (halo): the pixels of all its taps of a tile, or of one of their phases."""
    down, across = reach_of(spec, options)
    return options.rows + down, options.columns + across


def reach_of(spec: KernelSpec, options: WgmmaOptions) -> tuple[int, int]:
    """Rows and columns of a phase from a window's first tap of a box to the last."""
    return -(-spec.r // spec.stride[-2]) - 1, 0 if options.by_columns else -(-spec.s // spec.stride[-1]) - 1


def phases_of(spec: KernelSpec, options: WgmmaOptions) -> tuple[int, int]:
    """Sets of rows and columns of a box, those equal modulo the stride, each a box of its own: so that the pixels of a
    tap lie side by side. There is none that no tap reads."""
    return min(spec.r, spec.stride[-2]), 1 if options.by_columns else min(spec.s, spec.stride[-1])


def slice_boxes(spec: KernelSpec, options: WgmmaOptions) -> int:
    """Boxes that a slice's taps are served by: of each filter plane one, or one for each filter column."""
    return math.prod(spec.taps[:-2]) * (spec.s if options.by_columns else 1)


def stage_taps(spec: KernelSpec, options: WgmmaOptions) -> int:
    """Taps of a stage of filters: those of a box whose channels fill a slice, where they are a part of it."""
    several, rest = divmod(slice_of(spec), stored_channels(spec))
    whole = options.form is Form.HALO and not options.by_columns and rest == 0
    return several if whole and stored_channels(spec) % STAGE_CHANNELS == 0 else 1


def box_serves(spec: KernelSpec, options: WgmmaOptions) -> str:
    """Whose taps a box serves, in words."""
    if options.by_columns:
        return "a filter column's"
    return "a filter plane's" if spec.is_volume else "all"


def phase_pixels(spec: KernelSpec, options: WgmmaOptions) -> int:
    """Pixels in shared memory from one phase of a box to the next: copies begin where the swizzle does."""
    pixels = math.prod(box_of(spec, options))
    return pixels if math.prod(phases_of(spec, options)) == 1 else aligned(pixels, ALIGNMENT // ROW_BYTES)


def reached_pixels(spec: KernelSpec, options: WgmmaOptions) -> tuple[int, int]:
    """Pixels of a box of all phases, and those from its first to the last that products read, which may be behind it:
    of columns that are dropped."""
    (down, across), columns = reach_of(spec, options), box_of(spec, options)[1]
    phases, each = math.prod(phases_of(spec, options)), phase_pixels(spec, options)
    whole = (phases - 1) * each + math.prod(box_of(spec, options))
    return whole, max(whole, (phases - 1) * each + options.pixels + down * columns + across)


def columns_before(spec: KernelSpec) -> int:
    """Columns left of its first pixel with which a box of planes is copied: it begins at whole 16 bytes of a row."""
    return -spec.padding[-1][0] % ROW_UNIT


def plane_columns(spec: KernelSpec, options: WgmmaOptions) -> int:
    """Columns of a box of planes, as they are copied."""
    return aligned(columns_before(spec) + box_of(spec, options)[1], ROW_UNIT)


def make_numbers(spec: KernelSpec, options: WgmmaOptions, arguments: tuple[Argument, ...] = (),
                 addition: tuple[Argument, ...] = (), before: NhwcPass | WindowRows | None = None) -> WgmmaNumbers:
    """All numbers of plan values that fit together."""
    halo, planes, columns = options.form is Form.HALO, options.form is Form.PLANES, group_columns(options)
    shared_out = options.filters >= GROUPS * ROWS           # filters, else pixels
    matrices = options.filters // ROWS // (GROUPS if shared_out else 1)
    channels, slice_, taps = stored_channels(spec), slice_of(spec), math.prod(spec.taps)
    slices, (depths, last) = -(-channels // slice_), depths_of(spec, options)
    staged, stored = is_staged(spec, options), resolved(spec, options).buffer
    box_rows, box_columns = box_of(spec, options) if halo else (1, 1)
    phases = phases_of(spec, options) if halo else (1, 1)
    filter_tiles, filter_bytes = -(-spec.k // options.filters), options.filters * ROW_BYTES
    planes_each = -(-columns // PLANE_PIXELS)
    all_planes = planes_each * (1 if shared_out else GROUPS)
    planes_bytes = step_channels(spec) * ROW_BYTES
    if halo:
        pixel_bytes = aligned(reached_pixels(spec, options)[1] * ROW_BYTES)
        ring = options.boxes * pixel_bytes + options.stages * filter_bytes
        outputs = options.rows * options.columns
        buffers_each, shared_buffer = 1, not shared_out
        spare_rows = SPARE_ROWS if shared_buffer else 0
        store_bytes, stored_bytes = aligned((outputs + SPARE_ROWS + spare_rows) * ROW_BYTES), outputs * ROW_BYTES
        barriers = 2 * (options.boxes + options.stages)
    else:
        pixel_bytes = all_planes * planes_bytes if planes else options.pixels * ROW_BYTES
        kept = filter_tiles * slices * taps if options.stays else options.stages
        ring = options.stages * pixel_bytes + kept * filter_bytes
        store_bytes = stored_bytes = stored * ROW_BYTES
        spare_rows = 0
        buffers_each, shared_buffer = min(2, matrices * (columns // stored)), False
        barriers = 2 * options.stages + options.stays
    all_buffers = (buffers_each if shared_buffer else buffers_each * GROUPS) if staged else 0
    buffers_at, barriers_at = ring, ring + all_buffers * store_bytes
    arrived_at = barriers_at + BARRIER_BYTES * barriers
    parts = columns // stored if not halo else 1
    residual = Epilogue.RESIDUAL in spec.epilogue and staged
    return WgmmaNumbers(
        arguments=arguments, addition_arguments=addition, before=before,
        shape=WgmmaShape.of(columns), multiply=(ACROSS if planes else MULTIPLY)[spec.dtype],
        plain=is_plain(spec, options), all_tiled=halo or planes or is_plain(spec, options),
        early_product=before is not None and before.early, early_sums=options.splits > 1 and begins_early(spec),
        store_bias=Epilogue.BIAS in spec.epilogue and options.splits == 1,
        guard_filters=spec.k % options.filters != 0, staged=staged,
        stores="staged" if staged else stores_from_registers(spec), shared_buffer=shared_buffer,
        store_units=store_units(spec, options), odd_matrices=columns % (4 * COLUMN_UNIT) != 0,
        odd_matrix=stored % 16 != 0,
        loads_residual=residual, matrices=matrices, group_filters=ROWS * matrices if shared_out else 0,
        group_pixels=0 if shared_out else columns, filter_tiles=filter_tiles, slice=slice_,
        slices=slices, steps=slices * taps, depth=STEP_BYTES // spec.dtype.itemsize, depths=depths, last_depths=last,
        taps=taps,
        pixel_bytes=pixel_bytes, filter_bytes=filter_bytes,
        stage_bytes=pixel_bytes + (0 if options.stays else filter_bytes), filters_at=options.stages * pixel_bytes,
        first_stages=_first_stages(spec, options, slices * taps),
        store_pixels=stored, parts=parts, store_bytes=store_bytes, stored_bytes=stored_bytes,
        stores_read=f"wc_tma_stores_read_{'but_1' if buffers_each > 1 and not residual else 'all'}",
        buffers_each=buffers_each, takes_turns=buffers_each > 1 or residual, all_buffers=all_buffers,
        first_loads=min(buffers_each, matrices * parts), buffers_at=buffers_at, barriers_at=barriers_at,
        arrived_at=arrived_at, shared_bytes=arrived_at + BARRIER_BYTES * all_buffers, box_rows=box_rows,
        box_columns=box_columns, loop=(Form.HALO if halo else Form.IM2COL).value,
        planes=all_planes if planes else 0, planes_each=planes_each, planes_bytes=planes_bytes,
        group_bytes=0 if shared_out else planes_each * planes_bytes,
        plane_channels=step_channels(spec),
        filter_channels=channels, spare_rows=spare_rows, phases=math.prod(phases), phases_across=phases[1],
        phase_pixels=phase_pixels(spec, options) if halo else 1,
        box_bytes=math.prod(phases) * box_rows * box_columns * ROW_BYTES,
        box_taps=taps // slice_boxes(spec, options), box_serves=box_serves(spec, options),
        stage_taps=(shared := stage_taps(spec, options)),
        guard_taps=taps // slice_boxes(spec, options) % shared != 0,
        slice_boxes=slice_boxes(spec, options))


def _first_stages(spec: KernelSpec, options: WgmmaOptions, steps: int) -> int:
    """Stages whose copies start before a block's first __syncthreads: few, since the other threads wait there for the
    one that starts them, and none of a walk, whose first window takes long to find."""
    if options.form is Form.IM2COL and not is_plain(spec, options):
        return 0
    first_tile = steps // options.splits        # at least
    if options.form is Form.HALO:
        box_taps = math.prod(spec.taps) // slice_boxes(spec, options)
        first_tile = -(-box_taps // stage_taps(spec, options))
    return min(FIRST_STAGES, options.stages, first_tile)


def aligned(nbytes: int, unit: int = ALIGNMENT) -> int:
    """``nbytes`` filled up to whole units."""
    return -(-nbytes // unit) * unit
