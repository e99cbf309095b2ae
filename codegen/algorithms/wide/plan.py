"""``wide``: row and column reuse with several output columns per lane; planes, depthwise and few-channel layers in
NCHW.

From the idea of Lu, Zhang, Wang (CLUSTER 2020, Alg. 4), each input element loaded once, neighbours' columns by shuffle,
rows kept in registers, to the form that memory or the FMA pipe bounds on chips of today: wide loads, several columns a
lane, halo columns from the neighbouring lanes, loads issued ahead, accumulators that move on without moves, a path
without guards for the interior. docs/wide.md tells it step by step; the rules that choose plan values are in
wide_defaults.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import DType
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.fill import Fill
from warpconv.codegen.hardware import (BLOCK_THREADS, GRID_LIMIT, H200_SHARED_BESIDE_CACHE, H200_SHARED_FILLED, LANES,
                                       SHARED_STATIC)
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import distance_demands, layer_arguments
from warpconv.codegen.parts.occupancy import blocks_by_shared, blocks_refusal, resident_blocks
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, border_refusal, common_refusal
from warpconv.codegen.parts.rows import stride_refusal
from warpconv.codegen.parts.text import text_refusal
from warpconv.codegen.parts.weights import BankWeights
from warpconv.codegen.plan import Argument, Blocks, KernelPlan, Launch, Preparation, Program
from warpconv.codegen.spec import KernelSpec

from .defaults import defaults
from .estimate import cost_of, estimate
from .limits import (BYTES_OF_AN_FMA, MOST_REGISTERS, TALLEST_FILTER, VECTOR_BYTES, most_stored, shared_bytes,
                     to_words)
from .numbers import REGISTER_LIMIT, WideNumbers, make_numbers
from .options import Guards, Separators, Loads, Span, TapRows, WideOptions
from .registers import WEIGHTS_HELD, planned_registers, register_margin
from .taps import accumulators, steps_of_one_row, taps_of

TALLEST_NARROW = 129          # of one column, or separable and no wider than a strip of one column a lane has lanes
MOST_ROWS = 8192              # of a block: 129 rows on 4096^2 are made in one round of blocks
MOST_CHANNELS = 16            # of a group: more is a matrix product, not this algorithm


def supports(spec: KernelSpec) -> str | None:
    refusal = (common_refusal(spec, dtypes=FLOATS, borders=BORDERS, residual=spec.out_dtype is None,
                              mixed=to_words(spec), separable=True, pitched=True)
               or border_refusal(spec) or stride_refusal(spec))
    if refusal is None and spec.channels > MOST_CHANNELS:
        refusal = f"{spec.channels} channels a group (at most {MOST_CHANNELS}: beyond, a matrix product is quicker)"
    narrow = spec.s == 1 or (spec.separable and (spec.s - 1) * spec.dilation[1] < LANES)
    most = TALLEST_NARROW if narrow else TALLEST_FILTER
    if refusal is None and spec.r > most:
        refusal = f"a filter {spec.r} rows tall (at most {most}: the accumulators have a register per row)"
    return refusal or text_refusal(taps_of(spec), BYTES_OF_AN_FMA, "taps")


def _fewest_rows(spec: KernelSpec) -> int:
    """Rows of a sub-block in a small layer, where the time of one warp counts."""
    return max(2, spec.r - 1)


def plan(spec: KernelSpec, options: WideOptions) -> KernelPlan:
    refusal = supports(spec) or _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    options = replace(options, store_vector=min(options.store_vector, most_stored(spec, options.vector)))
    if options.span is Span.PACKED:
        options = replace(options, edges=Guards.GUARDED, warp_columns=1)
    numbers = make_numbers(spec, options)
    if numbers.apart:
        options = replace(options, edges=Guards.GUARDED)
    registers = planned_registers(spec, options, numbers)
    if options.min_blocks == DERIVED:
        margin = register_margin(spec, options, numbers)
        fitting = resident_blocks(spec.hardware, min(255, registers + margin), numbers.threads)
        filled = H200_SHARED_BESIDE_CACHE if numbers.uniform_warp else H200_SHARED_FILLED
        shared = shared_bytes(spec, numbers) + numbers.seam_bytes
        options = replace(options, min_blocks=min(fitting, blocks_by_shared(spec.hardware, filled, shared)))
    cost = cost_of(spec, options, numbers, registers)
    _check(spec, options, numbers, registers)
    arguments = _arguments(spec, options, numbers)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments), shared_bytes=numbers.seam_bytes)
    preparation = (Preparation(constant="filter_bank", constant_bytes=4 * numbers.taps)
                   if options.weights is BankWeights.CONSTANT else None)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("wide/kernel.cu.jinja",), cost=cost,
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
    if options.separators is Separators.NONE and not (spec.padding_mode.reads_image and options.span is Span.PACKED):
        return "separators = none is for packed rows with a border of pixels"
    if options.row_lanes > LANES:
        return f"row_lanes = {options.row_lanes} (at most {LANES})"
    if spec.channels > 1 and options.weights is not BankWeights.SHARED:
        return f"weights = {options.weights.value} holds one channel's filter, and there are {spec.channels}"
    if options.loads is not Loads.REGISTERS and (spec.arch.major < 8 or spec.channels > 1 or load_bytes < 4):
        return f"loads = {options.loads.value} needs sm_80, one channel, and loads of 4 bytes or more"
    if options.prefetch_rows % options.stage_steps or (options.stage_steps > 1 and options.loads is Loads.REGISTERS):
        return (f"stage_steps = {options.stage_steps} is for asynchronous loads, and divides prefetch_rows = "
                f"{options.prefetch_rows}")
    if options.weights is BankWeights.CONSTANT and (spec.k > 1 or spec.w_dtype is not DType.FLOAT32):
        return "weights = constant takes a single float32 filter"
    if options.tap_rows is TapRows.NEEDED and not (spec.channels == 1 and steps_of_one_row(spec)):
        return "tap_rows = needed takes one channel and steps of one input row"
    if accumulators(spec, options.columns) > REGISTER_LIMIT:
        return (f"{accumulators(spec, options.columns)} accumulators would not stay in registers (at most "
                f"{REGISTER_LIMIT})")
    together = options.prefetch_rows if options.loads is Loads.REGISTERS else options.stage_steps
    return text_refusal(taps_of(spec) * options.columns * together, BYTES_OF_AN_FMA, "FMAs of steps that follow on")


def _check(spec: KernelSpec, options: WideOptions, numbers: WideNumbers, registers: int) -> None:
    refusal = None
    if registers > MOST_REGISTERS:
        refusal = f"about {registers} registers, most of which would be spilled (at most {MOST_REGISTERS})"
    line = numbers.line
    if numbers.edge_loads and numbers.left_lanes + numbers.right_lanes > numbers.across:
        refusal = (f"a window reaches {numbers.left_lanes} lanes to the left and {numbers.right_lanes} to the right of "
                   f"{numbers.across}")
    if options.loads is not Loads.REGISTERS and line.left_copies + line.right_copies > LANES:
        refusal = f"{line.left_copies + line.right_copies} vectors lie beside a strip (at most {LANES}, one a lane)"
    if refusal is None and numbers.threads > BLOCK_THREADS:
        refusal = f"{numbers.threads // LANES} warps are more than a block's {BLOCK_THREADS} threads"
    refusal = refusal or blocks_refusal(spec, numbers.threads, options.min_blocks)
    if refusal is None and options.sub_block_rows * options.warp_rows > MOST_ROWS:
        refusal = f"sub_block_rows = {options.sub_block_rows} in {options.warp_rows} warps (at most {MOST_ROWS} in all)"
    shared = shared_bytes(spec, numbers)
    if refusal is None and shared > SHARED_STATIC:
        refusal = (f"the filters of {numbers.block_planes} planes and the rows ahead have {shared} bytes, more than "
                   f"the {SHARED_STATIC} of shared memory")
    if refusal is None and shared + numbers.seam_bytes > spec.hardware.shared_block:
        refusal = (f"the seams of {options.warp_rows} stacked warps have {numbers.seam_bytes} bytes and the rest "
                   f"{shared}, more than the {spec.hardware.shared_block} of a block's shared memory")
    if refusal is None and options.span is Span.PACKED and numbers.most_columns < 1:
        refusal = f"row_lanes = {options.row_lanes} leaves no room for a row beside its padding"
    if refusal is None and options.prefetch_rows > 16:
        refusal = f"prefetch_rows = {options.prefetch_rows} (at most 16)"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)


def _arguments(spec: KernelSpec, options: WideOptions, numbers: WideNumbers) -> tuple[Argument, ...]:
    """The layer's arguments with what vectors and packed rows ask of them."""
    packed = options.span is Span.PACKED
    demands: dict[str, dict[str, Any]] = {
        "W": {"multiple_of": options.vector, "at_most": numbers.most_columns if packed else None,
        "exactly": numbers.most_columns if numbers.whole_rows else None},
        "H": {"at_least": numbers.border.least_rows if numbers.border else 1},
        "Q": {"multiple_of": options.store_vector, "at_most": numbers.most_outputs if packed else None},
        "x": {"multiple_of": options.vector * spec.dtype.itemsize},
        **dict.fromkeys(("residual", "y"), {"multiple_of": options.store_vector * spec.y_dtype.itemsize}),
        **distance_demands(spec, options.vector, options.store_vector)}
    return tuple(replace(a, **demands.get(a.name, {})) for a in layer_arguments(spec, as_elements=True))


def _grid(spec: KernelSpec, options: WideOptions, numbers: WideNumbers) -> tuple[Blocks, Blocks, Blocks]:
    wide = numbers.strip * options.warp_columns
    beside = numbers.filter_blocks
    x = Blocks() if numbers.packed else Blocks(of=Dimension.Q, add=wide - 1, per=wide, times=beside,
                                               limit=GRID_LIMIT[0] // beside * beside)
    z = Blocks(of=Dimension.N, times=spec.groups, limit=GRID_LIMIT[2])
    if beside == 1:
        z = Blocks(of=Dimension.N, each=spec.k, add=numbers.block_planes - 1, per=numbers.block_planes,
                   limit=GRID_LIMIT[2])
    fill = Fill(blocks=spec.hardware.warps_of(options.min_blocks),
                least=numbers.classes * options.warp_rows * _fewest_rows(spec))
    return (x, Blocks(of=Dimension.P, add=numbers.block_rows - 1, per=numbers.block_rows, times=numbers.classes,
                      limit=GRID_LIMIT[1] // numbers.classes * numbers.classes, fill=fill), z)


def _phrase(options: WideOptions, numbers: WideNumbers) -> str:
    across = (f"{numbers.planes} rows of {options.row_lanes} lanes side by side" if numbers.packed
              else f"strips of {numbers.strip} columns")
    warps = options.warp_columns * options.warp_rows * options.warp_planes
    return (f"{options.columns} columns per lane, {across}, sub-blocks of {options.sub_block_rows} rows, {warps} warps "
            f"per block; {options.vector} element{'s' if options.vector > 1 else ''} a load, {options.prefetch_rows} "
            f"steps ahead")


def space(spec: KernelSpec) -> Iterable[WideOptions]:
    """How rows are loaded, how many a sub-block and a stage have, where weights are, how warps lie. Columns, vectors
    and lanes follow from the layer's width, so a search leaves them at the layer's own defaults."""
    base = defaults(spec)
    weights = (base.weights,)
    if spec.k == 1 and spec.channels == 1 and spec.dtype is DType.FLOAT32:
        held = (BankWeights.REGISTERS,) if taps_of(spec) <= WEIGHTS_HELD else ()
        weights = (*held, BankWeights.CONSTANT)
    loads = [(Loads.REGISTERS, ahead, 1) for ahead in (1, 2, 4)]
    if spec.arch.major >= 8 and spec.channels == 1:
        loads += [(way, ahead, stage) for way in (Loads.CACHED, Loads.ASYNC)
                  for ahead, stage in ((2, 1), (4, 2), (8, 2), (8, 4))]
    return [replace(base, loads=way, prefetch_rows=ahead, stage_steps=stage, sub_block_rows=rows, weights=where,
                    warp_columns=columns, warp_rows=4 // columns, warp_planes=1)
            for way, ahead, stage in loads for rows in (8, 14, 28, 114)
            for where in weights for columns in (1, 4)]


ALGORITHM = Algorithm(name="wide", summary="several columns a lane, halo columns by shuffles, rows in registers; NCHW",
                      options=WideOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, waits=1.7, follows=("min_blocks",))
