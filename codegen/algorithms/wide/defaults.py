"""The rules by which ``wide`` chooses a layer's plan values; docs/wide.md has what they were measured by."""

from __future__ import annotations

import math
from typing import Any

from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import LANES, SHARED_STATIC
from warpconv.codegen.parts.occupancy import largest_divisor
from warpconv.codegen.parts.weights import BankWeights
from warpconv.codegen.pitch import together
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .borders import least_rows
from .limits import TALLEST_FILTER, VECTOR_BYTES, most_stored, shared_bytes, to_words
from .numbers import REGISTER_LIMIT, WideNumbers, make_numbers
from .options import Guards, Separators, Loads, Pipeline, Span, TapRows, WideOptions
from .registers import WEIGHTS_HELD
from .seams import has_seams, stacked
from .taps import accumulators, row_registers, steps_of_one_row, taps_of

ROWS_OF_SMALL = 14            # where few bytes leave less time for halo rows: 8192^2, 3x3 to 8 bits takes 81 us, with
                              # 8 rows 84; gelu in float16 78 for 84 (H200)
MOST_TAPS = 300               # from which a step of four columns is more text than the instruction cache holds
MANY_TAPS = 150               # from which wider lanes pay, since each reads the weights again for every row
TALL_RING = 60                # accumulators beside which a separable filter's loop stands once: 33x7 spills with two
MOST_FACTORS = 20             # of a separable filter, in registers: 9x9 on 4096^2 takes 40.3 us, as constants 41.6
MOST_TOGETHER = 4             # filters of one image in a block: two of 3x3 on 4096^2 take 56 us, in different ones 69
MOST_SCALAR_LOADS = 8         # of a row: sixteen leave no registers for 7x7 in 16 bits
GATHERED = 1.7                # of its time for a row of pixels whose ends lanes load, against one that has them in its
                              # lanes: 28^2 in float16, 14^2 and 7^2 (3x3 and 5x5, H200, 2026-11-21) take 1.4 to 1.9
FEW_TAPS = 7                  # of one row, whose window beside twice the columns leaves room for as many warps
ROWS_HELD = 64                # registers of the rows ahead, from which a lane has no room for its sums


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> WideOptions:
    """By rule: as wide a lane as loads and registers allow, rows packed where a warp is wider than they are."""
    options = WideOptions(columns=1, vector=1, store_vector=1)
    best, best_waste = options, math.inf
    for columns in (8, 4, 2, 1):
        if columns > _most_columns(spec) or (accumulators(spec, columns) > _most_sums(spec) and columns > 1):
            continue
        tried = _sized(spec, shape, replace(options, columns=columns))
        if shape is not None and tried.vector == 1 and columns * spec.stride[1] > MOST_SCALAR_LOADS:
            continue
        waste = _waste(spec, shape, tried)
        if waste < best_waste:
            best, best_waste = tried, waste
    if taps_of(spec) >= MOST_TAPS and spec.channels == 1 and steps_of_one_row(spec):
        best = replace(best, tap_rows=TapRows.NEEDED)
    best = replace(best, weights=_weights(spec, best), sub_block_rows=_tallest_sub_block(spec, best),
                   **_loads(spec, best))
    if shape is not None and shape.p == spec.r == 1:
        best = _of_one_row(spec, shape, best)
    return _fitted(spec, replace(best, **_warp_arrangement(spec, shape, best)))


def _of_one_row(spec: KernelSpec, shape: ConvShape, options: WideOptions) -> WideOptions:
    """Nothing comes ahead of one row: more warps stay, or a lane has two loads on their way and twice the columns
    (4 taps of 8 x 2048 x 4096 in float32: 134 us, with one load 151; float16 68 and 83; H200, 2026-11-23)."""
    options = replace(options, sub_block_rows=1, prefetch_rows=1, stage_steps=1)
    warp = LANES * options.columns
    half_idle = 0 < shape.q % (2 * warp) <= warp        # the last of the wider strips
    if (options.span is not Span.STRIPS or spec.channels > 1 or spec.stride[1] > 1 or taps_of(spec) > FEW_TAPS
            or options.vector < options.columns or half_idle):
        return options
    return replace(options, columns=2 * options.columns, loads=Loads.REGISTERS, pipeline=Pipeline.COPIED)


def _fitted(spec: KernelSpec, options: WideOptions) -> WideOptions:
    """The values with fewer warps, less ahead, registers instead of shared memory, or fewer planes a warp, in this
    order, until a block's shared memory suffices."""
    while not _shared_suffices(spec, make_numbers(spec, options)):
        most = max(("warp_planes", "warp_rows", "warp_columns"), key=lambda name: getattr(options, name))
        if getattr(options, most) > 1:
            options = replace(options, **{most: getattr(options, most) // 2})
        elif options.loads is not Loads.REGISTERS and options.prefetch_rows > 2:
            options = replace(options, prefetch_rows=options.prefetch_rows // 2,
                              stage_steps=min(options.stage_steps, 2))
        elif options.loads is not Loads.REGISTERS:
            options = replace(options, loads=Loads.REGISTERS, prefetch_rows=1, stage_steps=1)
        elif options.span is Span.PACKED and options.row_lanes < LANES:
            options = replace(options, row_lanes=min(LANES, 2 * options.row_lanes))
        else:
            break
    return options


def _shared_suffices(spec: KernelSpec, numbers: WideNumbers) -> bool:
    shared = shared_bytes(spec, numbers)
    return shared <= SHARED_STATIC and shared + numbers.seam_bytes <= spec.hardware.shared_block


def _sized(spec: KernelSpec, shape: ConvShape | None, options: WideOptions) -> WideOptions:
    """Vectors and lanes for a number of columns per lane."""
    if shape is None:
        return options
    chunk = options.columns * spec.stride[1]
    vector = math.gcd(shape.w, chunk, VECTOR_BYTES // spec.dtype.itemsize,
                      together(shape.x_pitch, spec.dtype, spec.layout))
    store = math.gcd(shape.q, options.columns, most_stored(spec, vector),
                     together(shape.y_pitch, spec.y_dtype, spec.layout))
    options = replace(options, vector=vector, store_vector=store)
    lanes = max(-(-shape.q // options.columns), -(-shape.w // chunk))
    if lanes > LANES:
        return replace(options, span=Span.STRIPS)
    if spec.padding_mode.reads_image:       # the outermost lanes of a row load what lies beside it
        numbers = make_numbers(spec, options)
        lanes = min(LANES, max(lanes, numbers.left_lanes + numbers.right_lanes))
        whole = lanes * chunk == shape.w and shape.h >= least_rows(spec)
        return replace(options, span=Span.PACKED, row_lanes=lanes, edges=Guards.GUARDED,
                       separators=Separators.NONE if whole else Separators.SELECT)
    reach_left, reach_right = spec.padding[1][0], _reach(spec, shape.q)
    with_gap = max(-(-(shape.w + reach_left) // chunk), -(-(reach_right + 1) // chunk), lanes)
    if with_gap <= LANES and LANES // with_gap == LANES // lanes:
        return replace(options, span=Span.PACKED, row_lanes=LANES // (LANES // with_gap),
                       separators=Separators.ZERO_LANES, edges=Guards.GUARDED)
    return replace(options, span=Span.PACKED, row_lanes=lanes, separators=Separators.SELECT, edges=Guards.GUARDED)


def _reach(spec: KernelSpec, q: int) -> int:
    """The last input column that any output needs."""
    return (q - 1) * spec.stride[1] + (spec.s - 1) * spec.dilation[1] - spec.padding[1][0]


def _waste(spec: KernelSpec, shape: ConvShape | None, options: WideOptions) -> float:
    """What a number of columns costs, relative to others: idle lanes, halo columns, narrow loads."""
    if shape is None:
        return abs(options.columns * spec.dtype.itemsize - VECTOR_BYTES)
    if options.span is Span.PACKED:
        planes = LANES // options.row_lanes
        busy = planes * shape.q / (LANES * options.columns)
    else:
        strips = -(-shape.q // (LANES * options.columns))
        busy = shape.q / (strips * LANES * options.columns)
    taps = taps_of(spec)
    halo = max(0, (spec.s - 1) * spec.dilation[1] + 1 - spec.stride[1])
    loads = options.columns * spec.stride[1] / options.vector
    row = taps / spec.stride[0] * options.columns + 2.5 * halo + 4 * loads + 8
    if spec.padding_mode.reads_image and not make_numbers(spec, options).closed_rows:
        row *= GATHERED
    return row / options.columns / busy


def _weights(spec: KernelSpec, options: WideOptions) -> BankWeights:
    taps = taps_of(spec)
    if spec.channels > 1:
        return BankWeights.SHARED
    if _may_be_operands(spec) and taps > (MOST_FACTORS if spec.separable else 50):
        return BankWeights.CONSTANT      # 9x9 and 11x11: 90 and 92 % of the floor, 61 and 65 with a register each
    room = REGISTER_LIMIT - accumulators(spec, options.columns) - row_registers(spec, options)
    held = taps <= min(WEIGHTS_HELD, room) and spec.r <= TALLEST_FILTER
    return BankWeights.REGISTERS if held else BankWeights.SHARED


def _may_be_operands(spec: KernelSpec) -> bool:
    """Whether weights can stand in constant memory."""
    return spec.k == 1 and spec.w_dtype is DType.FLOAT32


def _most_sums(spec: KernelSpec) -> int:
    """Accumulators of a lane with several columns. A separable filter has little else beside them."""
    return 132 if spec.separable else 130


def _most_columns(spec: KernelSpec) -> int:
    """Columns of a lane: a widest load; more for many taps, whose weights each lane reads again for every row, unless
    they are operands (4096^2, 13x13, H100: 140 us with four, 196 with eight); few where the text of a step would pass
    the instruction cache (56^2, H200: 21x21 takes 320 us with two, 359 with four)."""
    taps = taps_of(spec)
    read_again = taps >= MANY_TAPS and not _may_be_operands(spec)
    return 2 if taps >= MOST_TAPS else 8 if read_again else VECTOR_BYTES // spec.dtype.itemsize


def _loads(spec: KernelSpec, options: WideOptions) -> dict[str, Any]:
    """How rows come in: asynchronously through the first-level cache, several in flight; text of a stage that fits the
    instruction cache. Measured on an H200 (2026-11-21, 8192^2 planes and 112^2, 56^2 depthwise; docs/wide.md):
    registers reach the same at 3x3, and 65 instead of 84 % of the floor at 7x7."""
    fma = taps_of(spec) * options.columns
    packed_plainly = options.span is Span.PACKED and fma <= 9 * 4      # 98 instead of 93 % of copy speed
    if spec.padding_mode.reads_image and spec.dtype.is_half and options.vector > 1:
        packed_plainly = False       # 28^2 and 14^2, whose lanes have four columns or two there
    if packed_plainly or spec.arch.major < 8 or spec.channels > 1 or options.vector * spec.dtype.itemsize < 4:
        ahead = 1 if fma > 300 or spec.channels > 1 else max(1, min(4, 16 // spec.r, _rows_held(spec, options)))
        tall = accumulators(spec, options.columns) > TALL_RING and (spec.separable or spec.r > TALLEST_FILTER)
        pipeline = Pipeline.COPIED if fma > 300 or tall else Pipeline.PAIRED
        return {"loads": Loads.REGISTERS, "prefetch_rows": ahead, "pipeline": pipeline}
    ahead, stage = next(found for most, *found in ((256, 8, 2), (400, 4, 2), (600, 2, 1), (math.inf, 1, 1))
                       if fma <= most)
    if fma <= 9 * 8 and spec.dtype.is_half:      # few rows in flight are enough, and more warps stay
        ahead, stage = 4, 1
    many = taps_of(spec) >= MANY_TAPS      # then the cache is better left to others
    return {"loads": Loads.ASYNC if many else Loads.CACHED, "prefetch_rows": ahead, "stage_steps": stage}


def _rows_held(spec: KernelSpec, options: WideOptions) -> int:
    """Steps ahead whose rows find room in registers."""
    numbers = make_numbers(spec, replace(options, loads=Loads.REGISTERS))
    return ROWS_HELD // (2 * numbers.step_rows * numbers.row_cells)


def _tallest_sub_block(spec: KernelSpec, options: WideOptions) -> int:
    """Rows of a sub-block in a large layer: few where memory bounds, so that halo rows are still in the cache; many
    where the products do, since each sub-block computes its halo rows again."""
    if spec.padding_mode.reads_image and options.span is Span.PACKED and spec.dtype.is_half and spec.r == 5:
        return 56       # rows outside are products too: 112^2 takes 79 us, with 20 rows 92 (H200)
    if spec.separable or spec.r > TALLEST_FILTER:
        return 14 if spec.r <= 7 else max(114, 4 * spec.r)
    rows = {1: 16, 2: 12, 3: 8, 4: 14, 5: 20}.get(spec.r, 114)
    small = to_words(spec) or (spec.dtype.is_half and spec.epilogue != ())
    return max(rows, ROWS_OF_SMALL) if small and options.span is Span.STRIPS else rows


def _warp_arrangement(spec: KernelSpec, shape: ConvShape | None, options: WideOptions) -> dict[str, Any]:
    """Four warps a block: side by side in strips, whose halo columns then meet in the cache; else on other planes, or
    stacked where there is one plane only."""
    planes = largest_divisor(spec.filters, MOST_TOGETHER)
    if options.span is Span.STRIPS and spec.channels == 1 and planes > 1:
        # an image's filters side by side in a block: its rows come from memory once
        together: dict[str, Any] = {"warp_columns": max(1, 4 // planes), "warp_rows": 1, "warp_planes": planes}
        if shared_bytes(spec, make_numbers(spec, replace(options, **together))) <= SHARED_STATIC:
            return together
    if options.span is Span.STRIPS and has_seams(spec, options):
        return stacked(spec, options)
    if options.span is Span.STRIPS:
        strips = 4 if shape is None else -(-shape.q // (LANES * options.columns))
        columns = 4 if strips >= 4 else 2 if strips >= 2 else 1
        return {"warp_columns": columns, "warp_rows": 4 // columns, "warp_planes": 1}
    if options.loads is Loads.REGISTERS and spec.channels == 1 and options.weights is BankWeights.REGISTERS:
        return {"warp_columns": 1, "warp_rows": 4, "warp_planes": 1}
    several = spec.k > 1 and options.weights is not BankWeights.SHARED
    two = spec.k > 1 and not several
    return {"warp_columns": 1, "warp_rows": 1 if spec.k > 1 else 4, "warp_planes": 4 if several else 2 if two else 1}
