"""``wide``: row and column reuse with several output columns per lane; planes, depthwise and few-channel layers in
NCHW.

From the idea of Lu, Zhang, Wang (CLUSTER 2020, Alg. 4), each input element loaded once, neighbours' columns by shuffle,
rows kept in registers, to the form that memory or the FMA pipe bounds on chips of today: wide loads, several columns a
lane, halo columns from the neighbouring lanes, loads issued ahead, accumulators that move on without moves, a path
without guards for the interior. docs/wide.md tells it step by step.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Iterable

from ..dtypes import DType
from ..errors import UnsupportedSpec
from ..pitch import together
from ..plan import Argument, Blocks, Dimension, Fill, GRID_LIMIT, KernelPlan, Launch, Preparation, Program
from ..shape import ConvShape
from ..spec import KernelSpec
from .base import (BORDERS, DERIVED, FLOATS, Algorithm, common_refusal, distance_demands, largest_divisor,
                   layer_arguments, resident_blocks)
from .staged_numbers import shared_of
from .wide_borders import border_refusal, least_rows
from .wide_estimate import cost_of, estimate
from .wide_numbers import REGISTER_LIMIT, WideNumbers, make_numbers
from .wide_options import LANES, Edges, Gaps, Loads, Pipeline, Span, TapRows, Weights, WideOptions
from .wide_registers import WEIGHTS_HELD, planned_registers, register_margin
from .wide_seams import has_seams, stacked
from .wide_taps import accumulators, row_registers, taps_of

SHARED_LIMIT = 48 * 1024      # static shared memory of a block, bytes
SHARED_OF_A_MULTIPROCESSOR = 200 * 1024   # bytes, about, on data-centre chips of today
ROWS_OF_SMALL = 14            # where few bytes leave less time for halo rows: 8192^2, 3x3 to 8 bits takes 81 us, with
                              # 8 rows 84; gelu in float16 78 for 84 (H200)
SHARED_BESIDE_A_CACHE = 176 * 1024        # which needs the rest: 8192^2, 3x3 takes 133 us with 170 KB, 154 with 191
BYTES_OF_A_WORD = 4           # outputs of 8 bits that are stored together
VECTOR_BYTES = 16             # of the widest load
TALLEST_FILTER = 63
TALLEST_NARROW = 129          # of one column, or separable and no wider than a strip of one column a lane has lanes
LARGEST_TEXT = 8192           # FMAs of a step: more takes the compiler many seconds
MOST_ROWS = 8192              # of a block: 129 rows on 4096^2 are made in one round of blocks
MOST_CHANNELS = 16            # of a group: more is a matrix product, not this algorithm
MOST_TAPS = 300               # from which a step of four columns is more text than the instruction cache holds
MANY_TAPS = 150               # from which wider lanes pay, since each reads the weights again for every row
TALL_RING = 60                # accumulators beside which a separable filter's loop stands once: 33x7 spills with two
MOST_FACTORS = 20             # of a separable filter, in registers: 9x9 on 4096^2 takes 40.3 us, as constants 41.6
MOST_TOGETHER = 4             # filters of one image in a block: two of 3x3 on 4096^2 take 56 us, in different ones 69
MULTIPROCESSORS = 132         # of a large GPU (H100, H200): what a small layer is spread over
MOST_SCALAR_LOADS = 8         # of a row: sixteen leave no registers for 7x7 in 16 bits
GATHERED = 1.7                # of its time for a row of pixels whose ends lanes load, against one that has them in its
                              # lanes: 28^2 in float16, 14^2 and 7^2 (3x3 and 5x5, H200, 2026-11-21) take 1.4 to 1.9
ROWS_HELD = 64                # registers of the rows ahead, from which a lane has no room for its sums


def _to_bytes(spec: KernelSpec) -> bool:
    """Whether outputs are of 8 bits: four of them are packed to a word (quantised layers)."""
    return spec.y_dtype in (DType.UINT8, DType.INT8)


def supports(spec: KernelSpec) -> str | None:
    refusal = (common_refusal(spec, dtypes=FLOATS, borders=BORDERS, residual=spec.out_dtype is None,
                              mixed=_to_bytes(spec), separable=True, pitched=True)
               or border_refusal(spec))
    if refusal is None and spec.channels > MOST_CHANNELS:
        refusal = f"{spec.channels} channels a group (at most {MOST_CHANNELS}: beyond, a matrix product is quicker)"
    narrow = spec.s == 1 or (spec.separable and (spec.s - 1) * spec.dilation[1] < LANES)
    most = TALLEST_NARROW if narrow else TALLEST_FILTER
    if refusal is None and spec.r > most:
        refusal = f"a filter {spec.r} rows tall (at most {most}: the accumulators have a register per row)"
    if refusal is None and taps_of(spec) > LARGEST_TEXT:
        refusal = f"a filter of {taps_of(spec)} taps (at most {LARGEST_TEXT} in the text)"
    return refusal


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
    if taps_of(spec) >= MOST_TAPS and spec.channels == 1 and _steps_of_one_row(spec):
        best = replace(best, tap_rows=TapRows.NEEDED)
    best = replace(best, weights=_weights(spec, best), sub_block_rows=_tallest_sub_block(spec, best),
                   **_loads(spec, best))
    return _fitted(spec, replace(best, **_warp_arrangement(spec, shape, best)))


def _fitted(spec: KernelSpec, options: WideOptions) -> WideOptions:
    """The values with fewer warps, less ahead, registers instead of shared memory, or fewer planes a warp, in this
    order, until a block's shared memory suffices."""
    while not _shared_suffices(spec, make_numbers(spec, options)):
        most = max(("warp_planes", "warp_rows", "warp_columns"), key=lambda name: getattr(options, name))
        if getattr(options, most) > 1:
            options = replace(options, **{most: getattr(options, most) // 2})
        elif options.loads is not Loads.REGISTERS and options.rows_ahead > 2:
            options = replace(options, rows_ahead=options.rows_ahead // 2, turn_steps=min(options.turn_steps, 2))
        elif options.loads is not Loads.REGISTERS:
            options = replace(options, loads=Loads.REGISTERS, rows_ahead=1, turn_steps=1)
        elif options.span is Span.PACKED and options.row_lanes < LANES:
            options = replace(options, row_lanes=min(LANES, 2 * options.row_lanes))
        else:
            break
    return options


def _shared_bytes(spec: KernelSpec, numbers: WideNumbers) -> int:
    """Of the rows ahead and the filters."""
    return 4 * numbers.shared_floats + spec.dtype.itemsize * numbers.line.elements


def _shared_suffices(spec: KernelSpec, numbers: WideNumbers) -> bool:
    shared = _shared_bytes(spec, numbers)
    return shared <= SHARED_LIMIT and shared + numbers.seam_bytes <= shared_of(spec.arch)


def _sized(spec: KernelSpec, shape: ConvShape | None, options: WideOptions) -> WideOptions:
    """Vectors and lanes for a number of columns per lane."""
    if shape is None:
        return options
    chunk = options.columns * spec.stride[1]
    vector = math.gcd(shape.w, chunk, VECTOR_BYTES // spec.dtype.itemsize,
                      together(shape.x_pitch, spec.dtype, spec.layout))
    store = math.gcd(shape.q, options.columns, min(vector, BYTES_OF_A_WORD) if _to_bytes(spec) else vector,
                     together(shape.y_pitch, spec.y_dtype, spec.layout))
    options = replace(options, vector=vector, store_vector=store)
    lanes = max(-(-shape.q // options.columns), -(-shape.w // chunk))
    if lanes > LANES:
        return replace(options, span=Span.STRIPS)
    if spec.padding_mode.reads_image:       # the outermost lanes of a row load what lies beside it
        numbers = make_numbers(spec, options)
        lanes = min(LANES, max(lanes, numbers.left_lanes + numbers.right_lanes))
        whole = lanes * chunk == shape.w and shape.h >= least_rows(spec)
        return replace(options, span=Span.PACKED, row_lanes=lanes, edges=Edges.GUARDED,
                       gaps=Gaps.NONE if whole else Gaps.SELECT)
    reach_left, reach_right = spec.padding[1][0], _reach(spec, shape.q)
    with_gap = max(-(-(shape.w + reach_left) // chunk), -(-(reach_right + 1) // chunk), lanes)
    if with_gap <= LANES and LANES // with_gap == LANES // lanes:
        return replace(options, span=Span.PACKED, row_lanes=LANES // (LANES // with_gap), gaps=Gaps.ZERO_LANES,
                       edges=Edges.GUARDED)
    return replace(options, span=Span.PACKED, row_lanes=lanes, gaps=Gaps.SELECT, edges=Edges.GUARDED)


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


def _weights(spec: KernelSpec, options: WideOptions) -> Weights:
    taps = taps_of(spec)
    if spec.channels > 1:
        return Weights.SHARED
    if spec.k == 1 and spec.w_dtype is DType.FLOAT32 and taps > (MOST_FACTORS if spec.separable else 50):
        return Weights.CONSTANT      # 9x9 and 11x11: 90 and 92 % of the floor, 61 and 65 with a register each
    room = REGISTER_LIMIT - accumulators(spec, options.columns) - row_registers(spec, options)
    held = taps <= min(WEIGHTS_HELD, room) and spec.r <= TALLEST_FILTER
    return Weights.REGISTERS if held else Weights.SHARED


def _most_sums(spec: KernelSpec) -> int:
    """Accumulators of a lane with several columns. A separable filter has little else beside them."""
    return 132 if spec.separable else 130


def _most_columns(spec: KernelSpec) -> int:
    """Columns of a lane: a widest load; more for many taps, whose weights each lane reads again for every row; few
    where the text of a step would pass the instruction cache (56^2, H200: 21x21 takes 320 us with two, 359 with
    four)."""
    taps = taps_of(spec)
    return 2 if taps >= MOST_TAPS else 8 if taps >= MANY_TAPS else VECTOR_BYTES // spec.dtype.itemsize


def _loads(spec: KernelSpec, options: WideOptions) -> dict:
    """How rows come in: asynchronously through the first-level cache, several in flight; text of a turn that fits the
    instruction cache. Measured on an H200 (2026-11-21, 8192^2 planes and 112^2, 56^2 depthwise; docs/wide.md):
    registers reach the same at 3x3, and 65 instead of 84 % of the floor at 7x7."""
    fma = taps_of(spec) * options.columns
    packed_plainly = options.span is Span.PACKED and fma <= 9 * 4      # 98 instead of 93 % of copy speed
    if spec.padding_mode.reads_image and spec.dtype.itemsize == 2 and options.vector > 1:
        packed_plainly = False       # 28^2 and 14^2, whose lanes have four columns or two there
    if packed_plainly or spec.arch.major < 8 or spec.channels > 1 or options.vector * spec.dtype.itemsize < 4:
        ahead = 1 if fma > 300 or spec.channels > 1 else max(1, min(4, 16 // spec.r, _rows_held(spec, options)))
        tall = accumulators(spec, options.columns) > TALL_RING and (spec.separable or spec.r > TALLEST_FILTER)
        pipeline = Pipeline.COPIED if fma > 300 or tall else Pipeline.PAIRED
        return {"loads": Loads.REGISTERS, "rows_ahead": ahead, "pipeline": pipeline}
    ahead, turn = next(found for most, *found in ((256, 8, 2), (400, 4, 2), (600, 2, 1), (LARGEST_TEXT, 1, 1))
                       if fma <= most)
    if fma <= 9 * 8 and spec.dtype.itemsize == 2:      # few rows in flight are enough, and more warps stay
        ahead, turn = 4, 1
    many = taps_of(spec) >= MANY_TAPS      # then the cache is better left to others
    return {"loads": Loads.ASYNC if many else Loads.CACHED, "rows_ahead": ahead, "turn_steps": turn}


def _rows_held(spec: KernelSpec, options: WideOptions) -> int:
    """Steps ahead whose rows find room in registers."""
    numbers = make_numbers(spec, replace(options, loads=Loads.REGISTERS))
    return ROWS_HELD // (2 * numbers.step_rows * numbers.row_cells)


def _tallest_sub_block(spec: KernelSpec, options: WideOptions) -> int:
    """Rows of a sub-block in a large layer: few where memory bounds, so that halo rows are still in the cache; many
    where the products do, since each sub-block computes its halo rows again."""
    if spec.padding_mode.reads_image and options.span is Span.PACKED and spec.dtype.itemsize == 2 and spec.r == 5:
        return 56       # rows outside are products too: 112^2 takes 79 us, with 20 rows 92 (H200)
    if spec.separable or spec.r > TALLEST_FILTER:
        return 14 if spec.r <= 7 else max(114, 4 * spec.r)
    rows = {1: 16, 2: 12, 3: 8, 4: 14, 5: 20}.get(spec.r, 114)
    small = _to_bytes(spec) or (spec.dtype.itemsize == 2 and spec.epilogue != ())
    return max(rows, ROWS_OF_SMALL) if small and options.span is Span.STRIPS else rows


def _fewest_rows(spec: KernelSpec) -> int:
    """Rows of a sub-block in a small layer, where the time of one warp counts."""
    return max(2, spec.r - 1)


def _warp_arrangement(spec: KernelSpec, shape: ConvShape | None, options: WideOptions) -> dict:
    """Four warps a block: side by side in strips, whose halo columns then meet in the cache; else on other planes, or
    stacked where there is one plane only."""
    planes = largest_divisor(spec.filters, MOST_TOGETHER)
    if options.span is Span.STRIPS and spec.channels == 1 and planes > 1:
        # an image's filters side by side in a block: its rows come from memory once
        together = {"warp_columns": max(1, 4 // planes), "warp_rows": 1, "warp_planes": planes}
        if _shared_bytes(spec, make_numbers(spec, replace(options, **together))) <= SHARED_LIMIT:
            return together
    if options.span is Span.STRIPS and has_seams(spec, options):
        return stacked(spec, options)
    if options.span is Span.STRIPS:
        strips = 4 if shape is None else -(-shape.q // (LANES * options.columns))
        columns = 4 if strips >= 4 else 2 if strips >= 2 else 1
        return {"warp_columns": columns, "warp_rows": 4 // columns, "warp_planes": 1}
    if options.loads is Loads.REGISTERS and spec.channels == 1 and options.weights is Weights.REGISTERS:
        return {"warp_columns": 1, "warp_rows": 4, "warp_planes": 1}
    several = spec.k > 1 and options.weights is not Weights.SHARED
    two = spec.k > 1 and not several
    return {"warp_columns": 1, "warp_rows": 1 if spec.k > 1 else 4, "warp_planes": 4 if several else 2 if two else 1}


def plan(spec: KernelSpec, options: WideOptions) -> KernelPlan:
    refusal = supports(spec) or _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    most = min(options.vector, BYTES_OF_A_WORD) if _to_bytes(spec) else options.vector
    options = replace(options, store_vector=min(options.store_vector, most))
    if options.span is Span.PACKED:
        options = replace(options, edges=Edges.GUARDED, warp_columns=1)
    numbers = make_numbers(spec, options)
    if numbers.apart:
        options = replace(options, edges=Edges.GUARDED)
    registers = planned_registers(spec, options, numbers)
    if options.min_blocks == DERIVED:
        margin = register_margin(spec, options, numbers)
        fitting = resident_blocks(spec.arch, min(255, registers + margin), numbers.threads)
        room = SHARED_BESIDE_A_CACHE if numbers.uniform_warp else SHARED_OF_A_MULTIPROCESSOR
        shared = _shared_bytes(spec, numbers) + numbers.seam_bytes
        options = replace(options, min_blocks=max(1, min(fitting, room // max(1, shared))))
    cost = cost_of(spec, options, numbers, registers)
    _check(spec, options, numbers)
    arguments = _arguments(spec, options, numbers)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments), shared_bytes=numbers.seam_bytes)
    preparation = (Preparation(constant="filter_bank", constant_bytes=4 * numbers.taps)
                   if options.weights is Weights.CONSTANT else None)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("wide.cu.jinja",), cost=cost,
                      program=Program(arguments=arguments, steps=(launch,), preparation=preparation),
                      phrase=_phrase(options, numbers))


def _refusal(spec: KernelSpec, options: WideOptions) -> str | None:
    """Plan values that do not go together, before any number is made of them."""
    chunk = options.columns * spec.stride[1]
    load_bytes = options.vector * spec.dtype.itemsize
    if options.vector not in (1, 2, 4, 8) or load_bytes > VECTOR_BYTES or chunk % options.vector:
        return (f"vector = {options.vector}: loads are of 1, 2, 4 or 8 elements, at most {VECTOR_BYTES} bytes, and "
                f"divide the {chunk} input columns of a lane")
    if options.store_vector not in (1, 2, 4, 8) or options.columns % options.store_vector:
        return f"store_vector = {options.store_vector}: 1, 2, 4 or 8, and a divisor of columns = {options.columns}"
    if options.gaps is Gaps.NONE and not (spec.padding_mode.reads_image and options.span is Span.PACKED):
        return "gaps = none is for packed rows with a border of pixels"
    if options.row_lanes > LANES:
        return f"row_lanes = {options.row_lanes} (at most {LANES})"
    if spec.channels > 1 and options.weights is not Weights.SHARED:
        return f"weights = {options.weights.value} holds one channel's filter, and there are {spec.channels}"
    if options.loads is not Loads.REGISTERS and (spec.arch.major < 8 or spec.channels > 1 or load_bytes < 4):
        return f"loads = {options.loads.value} needs sm_80, one channel, and loads of 4 bytes or more"
    if options.rows_ahead % options.turn_steps or (options.turn_steps > 1 and options.loads is Loads.REGISTERS):
        return (f"turn_steps = {options.turn_steps} is for asynchronous loads, and divides rows_ahead = "
                f"{options.rows_ahead}")
    if options.weights is Weights.CONSTANT and (spec.k > 1 or spec.w_dtype is not DType.FLOAT32):
        return "weights = constant takes a single float32 filter"
    if options.tap_rows is TapRows.NEEDED and not (spec.channels == 1 and _steps_of_one_row(spec)):
        return "tap_rows = needed takes one channel and steps of one input row"
    if accumulators(spec, options.columns) > REGISTER_LIMIT:
        return (f"{accumulators(spec, options.columns)} accumulators would not stay in registers (at most "
                f"{REGISTER_LIMIT})")
    if taps_of(spec) * options.columns > LARGEST_TEXT:
        return f"{taps_of(spec) * options.columns} FMAs a row in the text (at most {LARGEST_TEXT})"
    return None


def _steps_of_one_row(spec: KernelSpec) -> bool:
    return math.gcd(spec.stride[0], spec.dilation[0]) == spec.stride[0]


def _check(spec: KernelSpec, options: WideOptions, numbers: WideNumbers) -> None:
    refusal = None
    line = numbers.line
    if numbers.edge_loads and numbers.left_lanes + numbers.right_lanes > numbers.across:
        refusal = (f"a window reaches {numbers.left_lanes} lanes to the left and {numbers.right_lanes} to the right of "
                   f"{numbers.across}")
    if options.loads is not Loads.REGISTERS and line.left_copies + line.right_copies > LANES:
        refusal = f"{line.left_copies + line.right_copies} vectors lie beside a strip (at most {LANES}, one a lane)"
    if refusal is None and numbers.threads > 1024:
        refusal = f"{numbers.threads // LANES} warps are more than a block's 1024 threads"
    if refusal is None and numbers.threads * options.min_blocks > spec.arch.resident_threads:
        refusal = f"min_blocks = {options.min_blocks}: {spec.arch} holds {spec.arch.resident_threads} threads"
    if refusal is None and options.sub_block_rows * options.warp_rows > MOST_ROWS:
        refusal = f"sub_block_rows = {options.sub_block_rows} in {options.warp_rows} warps (at most {MOST_ROWS} in all)"
    shared = _shared_bytes(spec, numbers)
    if refusal is None and shared > SHARED_LIMIT:
        refusal = (f"the filters of {numbers.block_planes} planes and the rows ahead have {shared} bytes, more than "
                   f"the {SHARED_LIMIT} of shared memory")
    if refusal is None and shared + numbers.seam_bytes > shared_of(spec.arch):
        refusal = (f"the seams of {options.warp_rows} stacked warps have {numbers.seam_bytes} bytes and the rest "
                   f"{shared}, more than the {shared_of(spec.arch)} of a block's shared memory")
    if refusal is None and options.span is Span.PACKED and numbers.most_columns < 1:
        refusal = f"row_lanes = {options.row_lanes} leaves no room for a row beside its padding"
    if refusal is None and options.rows_ahead > 16:
        refusal = f"rows_ahead = {options.rows_ahead} (at most 16)"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)


def _arguments(spec: KernelSpec, options: WideOptions, numbers: WideNumbers) -> tuple[Argument, ...]:
    """The layer's arguments with what vectors and packed rows ask of them."""
    packed = options.span is Span.PACKED
    demands = {"W": {"multiple_of": options.vector, "at_most": numbers.most_columns if packed else None,
                     "exactly": numbers.most_columns if numbers.whole_rows else None},
               "H": {"at_least": numbers.border.least_rows if numbers.border else 1},
               "Q": {"multiple_of": options.store_vector, "at_most": numbers.most_outputs if packed else None},
               "x": {"multiple_of": options.vector * spec.dtype.itemsize},
               **dict.fromkeys(("residual", "y"), {"multiple_of": options.store_vector * spec.y_dtype.itemsize}),
               **distance_demands(spec, options.vector, options.store_vector)}
    return tuple(replace(a, **demands.get(a.name, {})) for a in layer_arguments(spec))


def _grid(spec: KernelSpec, options: WideOptions, numbers: WideNumbers) -> tuple[Blocks, Blocks, Blocks]:
    wide = numbers.strip * options.warp_columns
    beside = numbers.filter_blocks
    x = Blocks() if numbers.packed else Blocks(of=Dimension.Q, add=wide - 1, per=wide, times=beside,
                                               limit=GRID_LIMIT[0] // beside * beside)
    z = Blocks(of=Dimension.N, times=spec.groups, limit=GRID_LIMIT[2])
    if beside == 1:
        z = Blocks(of=Dimension.N, each=spec.k, add=numbers.block_planes - 1, per=numbers.block_planes,
                   limit=GRID_LIMIT[2])
    fill = Fill(blocks=MULTIPROCESSORS * options.min_blocks,
                least=numbers.classes * options.warp_rows * _fewest_rows(spec))
    return (x, Blocks(of=Dimension.P, add=numbers.block_rows - 1, per=numbers.block_rows, times=numbers.classes,
                      limit=GRID_LIMIT[1] // numbers.classes * numbers.classes, fill=fill), z)


def _phrase(options: WideOptions, numbers: WideNumbers) -> str:
    across = (f"{numbers.planes} rows of {options.row_lanes} lanes side by side" if numbers.packed
              else f"strips of {numbers.strip} columns")
    warps = options.warp_columns * options.warp_rows * options.warp_planes
    return (f"{options.columns} columns per lane, {across}, sub-blocks of {options.sub_block_rows} rows, {warps} warps "
            f"per block; {options.vector} element{'s' if options.vector > 1 else ''} a load, {options.rows_ahead} "
            f"steps ahead")


def space(spec: KernelSpec) -> Iterable[WideOptions]:
    """How rows are loaded, how many a sub-block and a turn have, where weights are, how warps lie. Columns, vectors and
    lanes follow from the layer's width, so a search leaves them at the layer's own defaults."""
    base = defaults(spec)
    weights = (base.weights,)
    if spec.k == 1 and spec.channels == 1 and spec.dtype is DType.FLOAT32:
        weights = (Weights.REGISTERS, Weights.CONSTANT) if taps_of(spec) <= WEIGHTS_HELD else (Weights.CONSTANT,)
    loads = [(Loads.REGISTERS, ahead, 1) for ahead in (1, 2, 4)]
    if spec.arch.major >= 8 and spec.channels == 1:
        loads += [(way, ahead, turn) for way in (Loads.CACHED, Loads.ASYNC)
                  for ahead, turn in ((2, 1), (4, 2), (8, 2), (8, 4))]
    return [replace(base, loads=way, rows_ahead=ahead, turn_steps=turn, sub_block_rows=rows, weights=where,
                    warp_columns=columns, warp_rows=4 // columns, warp_planes=1)
            for way, ahead, turn in loads for rows in (8, 14, 28, 114)
            for where in weights for columns in (1, 4)]


ALGORITHM = Algorithm(name="wide", summary="several columns a lane, halo columns by shuffles, rows in registers; NCHW",
                      options=WideOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, follows=("min_blocks",))
