"""``pixels``: planes and depthwise layers of 8- and 16-bit integers, in NCHW; images of 3 and 4 channels in NHWC.

Pixels are loaded as words, made numbers once per input row (by a byte permutation: no conversion instruction), and
added to all output rows in work; the products of 8-bit filters are made four at a time. docs/pixels.md tells it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from warpconv.codegen.algorithm import BANK_COPY, Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.fill import Fill
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES, THREAD_REGISTERS
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import distance_demands, layer_arguments
from warpconv.codegen.parts.occupancy import blocks_refusal, largest_divisor, resident_blocks, step_registers
from warpconv.codegen.parts.refusals import BORDERS, border_refusal, common_refusal, integer_border
from warpconv.codegen.parts.rows import stride_refusal, vertical
from warpconv.codegen.parts.text import text_refusal
from warpconv.codegen.parts.weights import BankWeights
from warpconv.codegen.pitch import together
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Preparation, Program
from warpconv.codegen.shape import PIXELS, ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

from .numbers import (WORD_BYTES, PixelsNumbers, PixelsOptions, Sums, make_numbers, row_words, side_by_side,
                      weight_registers, window_registers)

REGISTER_LIMIT = 255 - 30     # registers of a thread, less what addresses and the loop take
REGISTER_MARGIN = 10          # beyond the planned registers, which nvcc 13.0 was seen to take without a spill;
FEW_WEIGHTS = 9               # none up to 3x3, where 24 warps of a multiprocessor are 10 % quicker than 16 (H200),
MORE_REGISTERS = 14           # but of 16-bit pixels and of a single weight;
PLAIN_REGISTERS = 11          # of 16-bit pixels, loaded as vectors, under several filter rows without stride, dilation
                              # and a border's value, where 20 warps are 4 % quicker than 16 (3x3, H200)
EARLY_REGISTERS = 20          # of integer products, and of rows at any address, whose pixels are taken apart early;
NARROW_REGISTERS = 36         # of integer products of int8 pixels or weights, more than few;
BANK_REGISTERS = 30           # of weights in constant memory
BANK_WEIGHTS = 30             # of a single filter that are quicker in constant memory: 5x5 takes 93 us so, 97 with a
                              # register each; 7x7 180 and 187, but others like it spill (8192^2, H200)
ROOM_FOR_ROWS = 125           # planned registers from which more rows ahead leave too few warps (7x7, H200)
MOST_REGISTERS = 2 * THREAD_REGISTERS     # planned ones, beyond which rows ahead would be loaded to be spilled
TALLEST_FILTER = 31
LARGEST_TEXT = 8192           # products of a row: more takes the compiler many seconds
BYTES_OF_A_PRODUCT = {Sums.FLOAT: 62, Sums.MAD: 62, Sums.DP4A: 28}      # in the text; dp4a makes four at a time
BYTES_OF_AN_INPUT = 75        # of a column, from its word to a number
MOST_ACCUMULATORS = 136       # registers of the output rows in work, from which a lane has fewer columns
WEIGHTS_HELD = 90             # that stay in registers beside them
PIXELS_AHEAD = 24             # registers of rows ahead that are loaded pixel by pixel
MOST_TOGETHER = 4             # filters of one image in a lane, or a block
STEPS_TOGETHER = 8            # of a stage of a lane, of all its filters: four of 3x3 over 8192^2 take 147 us with two
                              # rows ahead, 155 with four and 158 with one; two take 79 with four, 87 with two (H200)
SIDE_BY_SIDE = (1, 3, 4)      # channels of an image whose pixels lie together
DP4A_PIXELS = (DType.UINT8, DType.INT8)
VECTOR_BYTES = 16             # of the widest load


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=PIXELS, borders=BORDERS, numerics=(Numerics.FLOAT32, Numerics.INT32),
                             layouts=(Layout.NCHW, Layout.NHWC), mixed=True,
                             pitched=True) or integer_border(spec) or stride_refusal(spec)
    refusal = refusal or border_refusal(spec)
    if refusal is None and spec.channels > 1:
        refusal = f"{spec.channels} channels a group (only planes and depthwise layers)"
    if refusal is None and spec.r > TALLEST_FILTER:
        refusal = f"a filter {spec.r} rows tall (at most {TALLEST_FILTER}: the accumulators have registers per row)"
    if refusal is None and spec.layout is Layout.NHWC and (spec.c not in SIDE_BY_SIDE or spec.k != spec.c):
        refusal = (f"{spec.c} channels side by side, {spec.k} filters (NHWC: images of "
                   f"{', '.join(map(str, SIDE_BY_SIDE))} channels, a filter each)")
    if refusal is None and vertical(spec)[1] * _columns(spec)[0] > MOST_ACCUMULATORS:
        refusal = f"a filter {spec.r} rows tall over {spec.c} channels side by side: accumulators for lack of registers"
    if refusal is None and spec.r * spec.s * _columns(spec)[0] > LARGEST_TEXT:
        refusal = f"a filter of {spec.r * spec.s} taps (at most {LARGEST_TEXT // _columns(spec)[0]} in the text)"
    return refusal


def _columns(spec: KernelSpec) -> tuple[int, ...]:
    """What a lane's columns may be: whole words, and whole pixels of channels that lie side by side."""
    return (12,) if side_by_side(spec) == 3 else (4, 8, 16)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> PixelsOptions:
    """By rule: eight columns a lane, four where accumulators or narrow images ask for it; loads and stores as wide as
    rows allow; rows ahead as long as the text stays short."""
    sums = _sums(spec)
    channels, least = side_by_side(spec), _columns(spec)[0]
    columns = max(8, least)
    if vertical(spec)[1] * columns > MOST_ACCUMULATORS or spec.r * spec.s * columns > LARGEST_TEXT:
        columns = least
    if shape is not None and shape.q * channels <= LANES * least:
        columns = least
    weights = BankWeights.REGISTERS if weight_registers(spec, sums) <= WEIGHTS_HELD else BankWeights.SHARED
    options = PixelsOptions(columns=columns, vector=1, store_vector=1, sums=sums, weights=weights,
                            prefetch_rows=_rows_ahead(spec, columns, sums))
    if spec.dtype.itemsize * _row(spec, shape) % WORD_BYTES:      # pixel by pixel at the edge
        pixels = window_registers(spec, columns, Sums.FLOAT) * vertical(spec)[0]
        options = replace(options, prefetch_rows=max(1, min(options.prefetch_rows, PIXELS_AHEAD // pixels)))
    if _words_in_rows(spec, columns):
        options = replace(options, vector=_vector(spec, shape, columns))
        options = replace(options, store_vector=_store_vector(spec, shape, options))
    bank = spec.k == 1 and sums is Sums.FLOAT and FEW_WEIGHTS < spec.r * spec.s <= BANK_WEIGHTS
    if bank and options.vector > 1:
        options = replace(options, weights=BankWeights.CONSTANT, prefetch_rows=max(1, 4 // vertical(spec)[0]))
    while options.prefetch_rows > 1 and _registers(spec, options, make_numbers(spec, options)) > ROOM_FOR_ROWS:
        options = replace(options, prefetch_rows=options.prefetch_rows // 2)
    filters = _filters(spec, options)
    options = replace(options, filters=filters,
                      prefetch_rows=min(options.prefetch_rows, max(1, STEPS_TOGETHER // filters)))
    planes = largest_divisor(_sharing(spec) // options.filters, MOST_TOGETHER // options.filters)
    if planes > 1 and options.weights is BankWeights.REGISTERS:      # its rows come from memory once for all filters
        options = replace(options, warp_planes=planes, warp_rows=max(1, options.warp_rows // planes))
    halo = vertical(spec)[1] - 1
    stages = -(-(_sub_block_rows(spec) + halo) // options.prefetch_rows)
    return replace(options, sub_block_rows=stages * options.prefetch_rows - halo)


def _sharing(spec: KernelSpec) -> int:
    """Filters over the same pixels."""
    return spec.filters if side_by_side(spec) == 1 else 1


def _filters(spec: KernelSpec, options: PixelsOptions) -> int:
    """Filters of a lane: of few taps each, so that making numbers of pixels counts beside the products, and registers
    for all."""
    most = MOST_TOGETHER if spec.r * spec.s <= FEW_WEIGHTS else 1
    most = min(most, MOST_ACCUMULATORS // (vertical(spec)[1] * options.columns))
    return largest_divisor(_sharing(spec), most) if options.weights is BankWeights.REGISTERS else 1


def _sums(spec: KernelSpec) -> Sums:
    if spec.numerics is not Numerics.INT32:
        return Sums.FLOAT
    return Sums.DP4A if _dp4a_refusal(spec) is None else Sums.MAD


def _dp4a_refusal(spec: KernelSpec) -> str | None:
    if side_by_side(spec) > 1:
        return "sums = dp4a takes neighbouring columns, and those of a channel lie apart"
    if spec.dtype not in DP4A_PIXELS or spec.w_dtype is not DType.INT8:
        return f"sums = dp4a takes 8-bit pixels and int8 filters, not {spec.dtype.value} and {spec.w_dtype.value}"
    if spec.dilation[1] > 1:
        return "sums = dp4a takes neighbouring columns, and the filter's lie apart"
    return None


def _words_in_rows(spec: KernelSpec, columns: int) -> bool:
    """Whether each lane's own columns begin with a word where rows do."""
    return columns * spec.stride[1] * spec.dtype.itemsize % WORD_BYTES == 0


def _vector(spec: KernelSpec, shape: ConvShape | None, columns: int) -> int:
    """The widest load that divides rows and the lanes' own columns; 1 where that is less than a word."""
    chunk, widest = columns * spec.stride[1], VECTOR_BYTES // spec.dtype.itemsize
    vector = math.gcd(_row(spec, shape), chunk, widest)
    return vector if vector * spec.dtype.itemsize >= WORD_BYTES else 1


def _row(spec: KernelSpec, shape: ConvShape | None) -> int:
    """What loads must divide so that they lie in a row, and all rows begin with one; 0, which everything divides, where
    no shape tells."""
    if shape is None:
        return 0
    return math.gcd(shape.w * side_by_side(spec), together(shape.x_pitch, spec.dtype, spec.layout))


def _store_vector(spec: KernelSpec, shape: ConvShape | None, options: PixelsOptions) -> int:
    store = math.gcd(options.columns, VECTOR_BYTES // spec.y_dtype.itemsize)
    if shape is not None:
        store = math.gcd(store, shape.q * side_by_side(spec), together(shape.y_pitch, spec.y_dtype, spec.layout))
    return min(store, options.vector)


def _rows_ahead(spec: KernelSpec, columns: int, sums: Sums) -> int:
    """Several where a step is short: each is text and registers, and tall filters compute long enough per row."""
    work = weight_registers(spec, sums) * columns // side_by_side(spec)
    ahead = 4 if work <= 160 else 2 if work <= 420 else 1
    return max(1, ahead // vertical(spec)[0])


def _sub_block_rows(spec: KernelSpec) -> int:
    """Rows of a sub-block in a large layer: its R - 1 halo rows are loaded, and their products made, twice; but all
    warps end together where it is short (H200, 8192^2: 24 to 40 for 3x3 and 5x5, 40 for 7x7)."""
    return min(128, max(30, 6 * spec.r))


def plan(spec: KernelSpec, options: PixelsOptions) -> KernelPlan:
    if options.weights is not BankWeights.REGISTERS:        # which have room for one filter
        options = replace(options, filters=1, warp_planes=1)
    refusal = supports(spec) or _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    options = replace(options, store_vector=min(options.store_vector, options.vector))
    numbers = make_numbers(spec, options)
    registers = _registers(spec, options, numbers)
    if options.min_blocks == DERIVED:
        taken = min(255, registers + _margin(spec, options, numbers))
        options = replace(options, min_blocks=resident_blocks(spec.hardware, taken, numbers.threads))
    refusal = _block_refusal(spec, options, numbers, registers)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = _arguments(spec, options)
    launch = Launch(entry=spec.name, grid=_grid(spec, options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments))
    preparation = (Preparation(constant="filter_bank", constant_bytes=4 * numbers.weight_count)
                   if options.weights is BankWeights.CONSTANT else None)
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("pixels/kernel.cu.jinja",),
                      cost=_cost(spec, options, numbers, registers), phrase=_phrase(spec, options),
                      program=Program(arguments=arguments, steps=(launch,), preparation=preparation))


def _refusal(spec: KernelSpec, options: PixelsOptions) -> str | None:
    """Plan values that do not go together, before any number is made of them."""
    per_word, chunk = spec.dtype.lanes, options.columns * spec.stride[1]
    if options.columns not in _columns(spec):
        return f"columns = {options.columns}: {', '.join(map(str, _columns(spec)))}"
    if options.vector != 1 and (options.vector % per_word or options.vector * spec.dtype.itemsize > VECTOR_BYTES
                                or chunk % options.vector or options.vector & options.vector - 1):
        return (f"vector = {options.vector}: 1, or pixels of 4, 8 or 16 bytes that divide the {chunk} input columns of "
                "a lane")
    if options.store_vector not in (1, 2, 4, 8, 16) or options.columns % options.store_vector:
        return f"store_vector = {options.store_vector}: a power of 2 that divides columns = {options.columns}"
    if min(options.store_vector, options.vector) * spec.y_dtype.itemsize > VECTOR_BYTES:
        return f"store_vector = {options.store_vector} outputs are more than {VECTOR_BYTES} bytes"
    if (options.sums is Sums.FLOAT) != (spec.numerics is not Numerics.INT32):
        return f"sums = {options.sums.value} is not for {spec.w_dtype.value} filters"
    if options.sums is Sums.DP4A and _dp4a_refusal(spec) is not None:
        return _dp4a_refusal(spec)
    if options.weights is BankWeights.CONSTANT and (spec.k > 1 or options.sums is not Sums.FLOAT):
        return "weights = constant takes a single float32 filter"
    if _sharing(spec) % (options.filters * options.warp_planes):
        return (f"filters = {options.filters}, warp_planes = {options.warp_planes}: together a divisor of the "
                f"{_sharing(spec)} filters over the same pixels")
    accumulators = vertical(spec)[1] * options.columns * options.filters
    if accumulators > MOST_ACCUMULATORS:
        return f"{accumulators} accumulators would not stay in registers (at most {MOST_ACCUMULATORS})"
    if spec.r * spec.s * options.columns > LARGEST_TEXT:
        return f"{spec.r * spec.s * options.columns} products a row in the text (at most {LARGEST_TEXT})"
    if options.prefetch_rows > 8:
        return f"prefetch_rows = {options.prefetch_rows} (at most 8)"
    return None


def _block_refusal(spec: KernelSpec, options: PixelsOptions, numbers: PixelsNumbers, registers: int) -> str | None:
    if numbers.threads > BLOCK_THREADS:
        return f"{numbers.threads // LANES} warps are more than a block's {BLOCK_THREADS} threads"
    if (refusal := blocks_refusal(spec, numbers.threads, options.min_blocks)) is not None:
        return refusal
    if options.sub_block_rows * options.warp_rows > 4096:
        return f"sub_block_rows = {options.sub_block_rows} in {options.warp_rows} warps (at most 4096 in all)"
    if registers > MOST_REGISTERS and options.prefetch_rows > 1:
        return (f"about {registers} registers, most of which would be spilled (at most {MOST_REGISTERS} with "
                f"prefetch_rows = {options.prefetch_rows}): fewer rows ahead")
    words = numbers.step_rows * row_words(spec, options.columns)
    if words > THREAD_REGISTERS:
        return f"{words} words of the {numbers.step_rows} input rows of a step (at most {THREAD_REGISTERS}: registers)"
    products = spec.r * spec.s * options.columns * options.filters
    return text_refusal(products, BYTES_OF_A_PRODUCT[options.sums], "products of a step",
                        beside=BYTES_OF_AN_INPUT * numbers.step_rows * len(numbers.inputs))


def _arguments(spec: KernelSpec, options: PixelsOptions) -> tuple[Argument, ...]:
    """The layer's arguments with what vectors ask of them."""
    channels = side_by_side(spec)
    demands: dict[str, dict[str, Any]] = {
        "W": {"multiple_of": options.vector // math.gcd(options.vector, channels)},
        "Q": {"multiple_of": options.store_vector // math.gcd(options.store_vector, channels)},
        "x": {"multiple_of": options.vector * spec.dtype.itemsize if options.vector > 1 else 1},
        "y": {"multiple_of": options.store_vector * spec.y_dtype.itemsize if options.store_vector > 1 else 1},
        **distance_demands(spec, options.vector, options.store_vector)}
    return tuple(replace(a, **demands.get(a.name, {})) for a in layer_arguments(spec, as_elements=True))


def _grid(spec: KernelSpec, options: PixelsOptions, numbers: PixelsNumbers) -> tuple[Blocks, Blocks, Blocks]:
    wide = numbers.strip * options.warp_columns
    fill = Fill(blocks=spec.hardware.warps_of(options.min_blocks),
                least=numbers.classes * options.warp_rows * max(4, spec.r - 1))
    return (Blocks(of=Dimension.Q, each=numbers.side_by_side, add=wide - 1, per=wide, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.P, add=numbers.block_rows - 1, per=numbers.block_rows, times=numbers.classes,
                   limit=GRID_LIMIT[1] // numbers.classes * numbers.classes, fill=fill),
            Blocks(of=Dimension.N, times=numbers.planes // (options.filters * options.warp_planes),
                    limit=GRID_LIMIT[2]))


def _registers(spec: KernelSpec, options: PixelsOptions, numbers: PixelsNumbers) -> int:
    beside = len(numbers.beside)        # and where they are
    inner = options.prefetch_rows * numbers.step_rows * (row_words(spec, options.columns) + 2 * numbers.shifted)
    own = sum((load.end - load.at) * spec.dtype.itemsize // WORD_BYTES for load in numbers.loads if load.own)
    rows = max(inner, options.prefetch_rows * numbers.step_rows * (own + beside) + beside)
    weights = {BankWeights.REGISTERS: numbers.weight_count * options.filters,
               BankWeights.SHARED: 2 * len(numbers.weight_rows[0]) + 8, BankWeights.CONSTANT: 0}[options.weights]
    window = numbers.step_rows * window_registers(spec, options.columns, options.sums)
    outputs = options.columns * options.filters
    return numbers.slots * outputs + rows + window + weights + 16 + step_registers(spec, outputs)


def _margin(spec: KernelSpec, options: PixelsOptions, numbers: PixelsNumbers) -> int:
    """Registers that the compiler is left beyond the planned ones."""
    few = numbers.weight_count <= FEW_WEIGHTS and not any(step.calls_functions for step in spec.epilogue)
    if options.sums is Sums.MAD:
        narrow = DType.INT8 in (spec.dtype, spec.w_dtype)
        return EARLY_REGISTERS if few else NARROW_REGISTERS if narrow else REGISTER_MARGIN
    if options.weights is BankWeights.CONSTANT:
        return BANK_REGISTERS
    if not few:
        return REGISTER_MARGIN
    if numbers.shifted:
        return EARLY_REGISTERS
    if spec.dtype in DP4A_PIXELS:
        return MORE_REGISTERS if numbers.weight_count == 1 else 0
    plain = (options.vector > 1 and spec.r > 1 and max(spec.stride) == max(spec.dilation) == 1
             and spec.padding_mode is not Border.CONSTANT)
    return PLAIN_REGISTERS if plain else MORE_REGISTERS


def _products(spec: KernelSpec, options: PixelsOptions) -> int:
    """Instructions of the products of an input row's step."""
    return weight_registers(spec, options.sums) * options.columns // side_by_side(spec)


def _cost(spec: KernelSpec, options: PixelsOptions, numbers: PixelsNumbers, registers: int) -> Cost:
    steps = options.sub_block_rows + numbers.slots - 1
    return Cost(unit=f"sub-block of {options.sub_block_rows} rows x {numbers.strip} columns",
                warp_loads=steps * numbers.step_rows * len(numbers.loads), shuffles=0,
                fma=steps * _products(spec, options) * options.filters, registers=registers,
                direct_loads=options.sub_block_rows * options.columns * spec.r * spec.s * options.filters,
                no_spills=registers <= REGISTER_LIMIT)


def _phrase(spec: KernelSpec, options: PixelsOptions) -> str:
    loads = "words at any address" if options.vector == 1 else f"{options.vector} pixels a load"
    several = f" for {options.filters} filters" if options.filters > 1 else ""
    return (f"{options.columns} columns per lane{several}, strips of {LANES * options.columns} columns, sub-blocks of "
            f"about {options.sub_block_rows} rows, {options.warp_columns} x {options.warp_rows}"
            f"{f' x {options.warp_planes}' if options.warp_planes > 1 else ''} warps per block; {loads}, "
            f"{options.prefetch_rows} step{'s' if options.prefetch_rows > 1 else ''} ahead; "
            f"sums by {options.sums.value}")


def space(spec: KernelSpec) -> Iterable[PixelsOptions]:
    """Rows in flight and of a sub-block, columns of a lane, warps side by side."""
    base = defaults(spec)
    return [replace(base, columns=columns, vector=min(base.vector, columns * spec.stride[1]),
                    store_vector=min(base.store_vector, columns), prefetch_rows=ahead, sub_block_rows=rows,
                    warp_columns=across, warp_rows=4 // across, warp_planes=1, filters=1)
            for columns in _columns(spec)[:2] for ahead in (1, 2, 4) for rows in (16, 32, 64, 128) for across in (1, 4)
            if columns * spec.stride[1] % min(base.vector, columns * spec.stride[1]) == 0
            and vertical(spec)[1] * columns <= MOST_ACCUMULATORS]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions of the layer: products (an int's take two issue slots), a pixel's way to a number, loads,
    stores, and the loop's own."""
    options: PixelsOptions = plan.options
    numbers: PixelsNumbers = plan.numbers
    spec = plan.spec
    bands = -(-shape.p // (options.sub_block_rows * numbers.classes)) * numbers.classes
    steps = shape.p + bands * (numbers.slots - 1)
    products = _products(spec, options) * (1 if options.sums is Sums.FLOAT else 2) * options.filters
    shared = numbers.weight_count / 2 if options.weights is BankWeights.SHARED else 0
    made = len(numbers.inputs) * (2 if options.sums is Sums.FLOAT else 1) + len(numbers.loads)
    across = -(-shape.q * numbers.side_by_side // numbers.strip)
    stored = (options.columns + len(numbers.stores)) * options.filters
    start = spec.hardware.issue_slots(BANK_COPY) if options.weights is BankWeights.CONSTANT else 0
    return start + (shape.n * numbers.planes / options.filters * across
            * (steps * (products + shared + numbers.step_rows * made + stored + 12)
               + bands * (60 + numbers.weight_count * options.filters * (3 if options.sums is Sums.DP4A else 1))))


ALGORITHM = Algorithm(name="pixels", summary="8- and 16-bit integers: words of pixels, rows in registers",
                      options=PixelsOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate)
