"""``channels``: depthwise convolution where the channels lie side by side in memory (NHWC).

Neighbouring lanes have neighbouring channels, so every load and store is a wide, unbroken piece of memory and no lane
needs another's data. A thread makes several neighbouring output columns of its channels, so that an input column it
loads serves several outputs, and keeps the sums of several output rows in registers, so that an input row is loaded
once (ring) or once for a tile of rows (tile).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import FEW_IMAGES, SOME_IMAGES, class_of_lanes, is_lanes_of_channels
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES, REGISTER_FILE, SHARED_STATIC
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import layer_arguments
from warpconv.codegen.parts.occupancy import blocks_refusal, has_many_places, resident_blocks
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, border_refusal, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

from . import few, strided, walks
from .lines import line_candidates, lines_defaults, lines_options_refusal, lines_refusal, resident_lines
from .numbers import Body, ChannelsNumbers, ChannelsOptions, Width, numbers_of, registers_of, step_rows_of
from .strided import REGISTER_MARGIN

WIDEST_FILTER = 63
REGISTER_LIMIT = 220           # planned registers that the compiler keeps without spilling, with its own on top
COMFORTABLE_REGISTERS = 168    # three quarters of the largest: still 12 warps of a multiprocessor
MOST_WEIGHTS = 100             # of the ring, in registers (twice as many in half arithmetic)
TEXT_LIMIT = 4000              # products in the text of one step: beyond it the instruction cache starves
TEXT_COMFORT = 1600
THREADS = 128                  # of a block: small, so that registers are shared out to the last few
LEAST_THREADS = 64             # with fewer along channels and columns, a block stacks sub-blocks
WARPS_WANTED = 16              # of a multiprocessor, to hide the latency of loads;
WARPS_WANTED_MANY_TAPS = 12    # fewer where the arithmetic of one row hides it,
MANY_TAPS = 40                 # with filters of so many taps
BYTES_IN_FLIGHT = 32 * 1024    # of a multiprocessor: H200_COPY * H200_LATENCY over all of them, with some in hand
SLOTS_OF_A_WAVE = 4            # issue slots of a multiprocessor while its memory pipe moves 32 words
WIDE_WAVES = 4                 # such moves of a 16-byte read by all lanes
WARPS_TO_FILL = 8              # a multiprocessor
ASSUMED_BATCH = 32             # of rings and tiles, and of what is estimated: these do not look at the batch
ROW_CLASSES = (56, 28, 14, 7)  # rows of a sub-block: few values, so that most image sizes share a kernel
COLUMNS = (1, 2, 3, 4, 5, 6, 7, 8)
TILE_ROWS = (8, 7, 6, 5, 4, 3, 2, 1)
USUAL_ROW = 56                 # output columns of a layer whose size is not known
STEP_OVERHEAD = 10             # instructions of a step besides loads, conversions, products and stores


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NHWC,),
                             numerics=(Numerics.FLOAT32, Numerics.FLOAT16), borders=BORDERS, residual=True)
    if refusal is None and spec.channels != 1:
        refusal = f"{spec.channels} channels a group (a thread sums over one: depthwise only)"
    if refusal is None and max(spec.r, spec.s) > WIDEST_FILTER:
        refusal = (f"a filter of {spec.r} x {spec.s} (at most {WIDEST_FILTER} a side: a row's products stand in the "
                   f"text)")
    if refusal is None and spec.numerics is Numerics.FLOAT16:
        refusal = _half_refusal(spec)
    if refusal is None:
        refusal = border_refusal(spec)
    return refusal


def _half_refusal(spec: KernelSpec) -> str | None:
    if spec.dtype is DType.FLOAT32:
        return "half arithmetic on float32 elements"
    if spec.filters != 1 or spec.k % 2:
        return (f"half arithmetic works on two channels at a time: C = {spec.c} with {spec.filters} filters each does "
                f"not pair")
    if spec.dtype is DType.BFLOAT16 and spec.arch.major < 8:
        return f"half arithmetic on bfloat16 elements needs sm_80, not {spec.arch}"
    return None


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> ChannelsOptions:
    """The plan values with the fewest modelled instructions an output, more counted where few warps stay resident or
    the layer has too few threads to fill a large GPU; the ring while its weights fit in registers, else tiles."""
    p, q = (shape.p, shape.q) if shape is not None else (USUAL_ROW, USUAL_ROW)
    images = class_of_lanes(shape) if shape is not None and is_lanes_of_channels(shape) else 0
    if images in FEW_IMAGES and (found := _few(spec, p, q, images)) is not None:
        return found
    if lines_refusal(spec) is None:
        found = (lines_defaults if step_rows_of(spec) == 1 else strided.lines)(spec, p, q, shape is not None)
        if images == SOME_IMAGES and step_rows_of(spec) == 1:
            found = walks.choice(spec, p, q, 2 * images, found)
        if found is not None:
            return found
    if strided.serves(spec) and shape is not None:
        found = _strided(spec, p, q)
        if found is not None:
            return found
    return _chosen(spec, p, q, shape is not None)


def _few(spec: KernelSpec, p: int, q: int, images: int) -> ChannelsOptions | None:
    """Of one image, or of up to fifteen; None where what many images have is as good."""
    if spec.dtype is DType.FLOAT32 and lines_refusal(spec) is None and step_rows_of(spec) == 1:
        found = walks.choice(spec, p, q, images)
        return found and few.with_more_registers(spec, found)
    return few.choice(spec, p, q, images)


@functools.lru_cache(maxsize=256)
def _strided(spec: KernelSpec, p: int, q: int) -> ChannelsOptions | None:
    """The ring of the fewest cycles; None where none fits."""
    found: list[tuple[float, ChannelsOptions]] = []
    for options, numbers in _all_bodies(spec, p):
        if (options.body is Body.TILE or options.columns not in strided.COLUMNS or options.vector not in strided.VECTORS
                or options.columns > q or _text(spec, options, numbers) > TEXT_COMFORT):
            continue
        width = Width.WHOLE if q % options.columns == 0 else Width.ANY
        made = _block(spec, replace(options, prefetch_rows=strided.AHEAD, width=width), p, q)
        placed = numbers_of(spec, made)
        registers = registers_of(spec, made, placed)
        if registers <= strided.MOST_REGISTERS:
            found.append((strided.price(spec, made, placed, registers, p, q), made))
    return min(found, key=lambda entry: entry[0])[1] if found else None


@functools.lru_cache(maxsize=256)
def _chosen(spec: KernelSpec, p: int, q: int, known: bool) -> ChannelsOptions:
    options = min(_candidates(spec, p), key=lambda found: _price(spec, found[0], found[1], p, q))[0]
    whole = known and q % options.columns == 0
    options = replace(options, width=Width.WHOLE if whole else Width.ANY)
    return _block(spec, replace(options, prefetch_rows=_rows_ahead(spec, options)), p, q)


def _rows_ahead(spec: KernelSpec, options: ChannelsOptions) -> int:
    """One step; two where a multiprocessor would have too few bytes in flight to keep the memory busy."""
    numbers = numbers_of(spec, options)
    warps = _warps(spec, options, numbers)
    flight = 32 * warps * len(numbers.loads) * len(numbers.rows_of_step) * numbers.inputs * spec.dtype.itemsize
    short = options.body is Body.RING and spec.r * spec.s < MANY_TAPS and flight < BYTES_IN_FLIGHT
    return 2 if short and _text(spec, options, numbers) <= TEXT_COMFORT // 3 else 1


def _candidates(spec: KernelSpec, p: int) -> Iterator[tuple[ChannelsOptions, ChannelsNumbers]]:
    """Bodies, vectors, columns and rows that fit, at least one, with their numbers; a block's shape is chosen later."""
    found = False
    for options, numbers in _all_bodies(spec, p):
        if (registers_of(spec, options, numbers) <= COMFORTABLE_REGISTERS
                and _text(spec, options, numbers) <= TEXT_COMFORT):
            found = True
            yield options, numbers
    if not found:
        options = ChannelsOptions(body=Body.TILE, vector=_vectors(spec)[0], columns=1, sub_block_rows=1)
        yield options, numbers_of(spec, options)


def _all_bodies(spec: KernelSpec, p: int) -> Iterator[tuple[ChannelsOptions, ChannelsNumbers]]:
    """Every combination with its numbers, which the rows of a sub-block do not change."""
    least, *more = _vectors(spec)
    bodies = [(Body.RING, v) for v in (least, *more) if spec.r * spec.s * v <= 2 * MOST_WEIGHTS] + [(Body.TILE, least)]
    for columns in COLUMNS:
        for body, vector in bodies:
            options = ChannelsOptions(body=body, vector=vector, columns=columns, sub_block_rows=1)
            numbers = numbers_of(spec, options)
            heights = TILE_ROWS if body is Body.TILE else [r for r in ROW_CLASSES if r <= max(p, ROW_CLASSES[-1])]
            for height in heights:
                yield replace(options, sub_block_rows=height), numbers


def _vectors(spec: KernelSpec) -> list[int]:
    """Channels of a thread, fewest first: of 16 bytes at most; they divide K."""
    least = 2 if spec.numerics is Numerics.FLOAT16 else 1
    return [v for v in (1, 2, 4, 8) if least <= v <= 16 // spec.dtype.itemsize and _fits(spec, v)]


def _fits(spec: KernelSpec, vector: int) -> bool:
    return spec.k % vector == 0 and (vector % spec.filters == 0 or spec.filters % vector == 0)


def _text(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers) -> int:
    """Products in the text of the loop."""
    if options.body is Body.TILE:
        return options.sub_block_rows * options.columns * spec.s
    return spec.r * spec.s * options.columns * numbers.units * len(numbers.sets)


def _price(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers, p: int, q: int) -> float:
    """Issue slots of a lane for one output value, about."""
    warps = min(spec.hardware.resident_warps, _warps(spec, options, numbers))
    wanted = WARPS_WANTED if spec.r * spec.s < MANY_TAPS else WARPS_WANTED_MANY_TAPS
    columns, rows = -(-q // options.columns), -(-p // options.sub_block_rows)
    threads = ASSUMED_BATCH * numbers.channel_vectors * columns * rows
    waiting: float = max(1.0, wanted / warps) ** 0.5
    return (_slots(spec, options, numbers, p) * columns * rows / (p * q * options.vector) * waiting
            * (1 + 0.25 * spec.hardware.multiprocessors * LANES * min(warps, WARPS_WANTED) / threads))


def _warps(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers) -> int:
    """Resident on a multiprocessor by their registers; 1 where not even one fits: plan() declines such plan values."""
    return max(1, REGISTER_FILE // (LANES * (registers_of(spec, options, numbers) + 8)))


def _slots(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers, p: int) -> float:
    """Issue slots of one thread's sub-block: its instructions, or what its loads and stores keep the memory pipe busy
    where that is more; of the lesser a part, since the two do not overlap wholly."""
    rows = min(options.sub_block_rows, p)
    columns, units = len(numbers.loads), numbers.units
    guards = 0.5 * (len(numbers.guarded_left) + len(numbers.guarded_right))
    input_row = columns * (1 + (numbers.input_units if numbers.converted else 0)) + guards
    stores = rows * options.columns
    rounding = stores * units / (2 if numbers.converted else 4)
    if options.body is Body.TILE:
        input_rows: float = (rows - 1) * numbers.step_rows + spec.r
        tap_rows = rows * spec.r
        reads = tap_rows * len(numbers.tile_statements)
        instructions: float = (input_rows * (input_row + STEP_OVERHEAD) + tap_rows * (spec.s * options.columns + 2)
                               + reads)
        waves: float = WIDE_WAVES * reads
    else:
        outside = min(numbers.ring_rows - 1, sum(spec.padding[0]) // (spec.dilation[0] * numbers.step_rows))
        outside = 0 if numbers.border else outside          # rows outside that are not walked
        steps = rows + numbers.ring_rows - 1 - outside / -(-p // rows)
        input_rows = steps * len(numbers.rows_of_step)
        taps = spec.r * spec.s * units
        instructions = input_rows * input_row + steps * (taps * options.columns + STEP_OVERHEAD) + 1.3 * taps + 20
        waves = taps
    bytes_ = max(4, spec.dtype.itemsize * numbers.inputs), max(4, spec.dtype.itemsize * options.vector)
    waves += (input_rows * columns * bytes_[0] + stores * bytes_[1]) / 4
    issue, memory = instructions + stores + rounding, SLOTS_OF_A_WAVE * waves
    return max(issue, memory) + 0.25 * min(issue, memory)


def _block(spec: KernelSpec, options: ChannelsOptions, p: int, q: int) -> ChannelsOptions:
    """A block of about THREADS threads: channels first, as many as share a warp's memory pieces and fit in shared
    memory, evenly; then columns, then rows."""
    numbers = numbers_of(spec, replace(options, block_channels=1))
    most = max(1, min(THREADS, SHARED_STATIC // (4 * numbers.shared_units)))
    if options.body is Body.TILE:
        most = min(most, 32)
    blocks = -(-numbers.channel_vectors // most)
    channels = -(-numbers.channel_vectors // blocks)
    columns = max(1, min(THREADS // channels, -(-q // options.columns)))
    rows = 1
    if channels * columns < LEAST_THREADS:
        rows = max(1, min(THREADS // (channels * columns), -(-p // options.sub_block_rows)))
    return replace(options, block_channels=channels, block_columns=columns, block_rows=rows)


def plan(spec: KernelSpec, options: ChannelsOptions) -> KernelPlan:
    _check(spec, options)
    numbers = numbers_of(spec, options)
    registers = registers_of(spec, options, numbers)
    _check_size(spec, options, numbers, registers)
    if options.min_blocks == DERIVED:
        blocks = (resident_lines(spec, min(255, registers), numbers.threads) if options.body is Body.LINES else
                  resident_blocks(spec.hardware, min(255, registers + REGISTER_MARGIN), -(-numbers.threads // 32) * 32))
        options = replace(options, min_blocks=blocks)
    arguments = tuple(_aligned(a, spec, options, numbers) for a in layer_arguments(spec, as_elements=True))
    launch = Launch(entry=spec.name, grid=_grid(options, numbers), block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments))
    return KernelPlan(
        spec=spec, options=options, numbers=numbers,
        templates=("channels/kernel_lines.cu.jinja" if options.body is Body.LINES else "channels/kernel.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch,)), cost=_cost(spec, options, numbers, registers),
        phrase=f"a thread makes {options.columns} columns x {options.sub_block_rows} rows of {options.vector} "
               f"channel{'s' if options.vector > 1 else ''}; {options.block_channels} x {options.block_columns} x "
               f"{options.block_rows} threads a block along channels, columns, rows")


def _aligned(argument: Argument, spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers) -> Argument:
    """x, y and the residual begin where their words may; with whole tiles Q is a multiple of theirs."""
    if argument.name == "Q" and options.width is Width.WHOLE:
        return replace(argument, multiple_of=options.columns)
    lines = options.body is Body.LINES
    elements = {"x": numbers.line.piece if lines else numbers.inputs, "y": options.vector, "residual": options.vector,
                "w": numbers.line.filter_piece if lines else 1}.get(argument.name, 1)
    return replace(argument, multiple_of=elements * spec.dtype.itemsize) if elements > 1 else argument


def _grid(options: ChannelsOptions, numbers: ChannelsNumbers) -> tuple[Blocks, Blocks, Blocks]:
    wide = options.columns * options.block_columns
    tall = options.sub_block_rows * options.block_rows * numbers.classes
    return (Blocks(of=Dimension.Q, add=wide - 1, per=wide, times=numbers.channel_blocks, limit=GRID_LIMIT[0]),
            Blocks(of=Dimension.P, add=tall - 1, per=tall, times=numbers.classes, limit=GRID_LIMIT[1]),
            Blocks(of=Dimension.N, limit=GRID_LIMIT[2]))


def _cost(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers, registers: int) -> Cost:
    # inside the image; the loads ahead go on for as many steps after the last one
    products = spec.r * spec.s * options.columns * numbers.units
    loads = len(numbers.loads)
    if options.body is Body.LINES:
        rows = options.sub_block_rows + numbers.ring_rows - 1
        loads, fma = len(numbers.line.copies) * len(numbers.rows_of_step), rows * products
    elif options.body is Body.RING:
        steps = options.sub_block_rows + numbers.ring_rows - 1
        rows, fma = (steps + options.prefetch_rows) * len(numbers.rows_of_step), steps * products
    else:
        rows = (options.sub_block_rows - 1) * numbers.step_rows + spec.r + 1
        fma = options.sub_block_rows * products
    lane = f"{options.vector} channel{'s' * (options.vector > 1)} a lane"
    return Cost(unit=f"{options.sub_block_rows} rows x {options.columns} columns of {lane}",
                warp_loads=rows * loads, shuffles=0, fma=fma, registers=registers,
                direct_loads=options.sub_block_rows * options.columns * spec.r * spec.s,
                no_spills=registers <= REGISTER_LIMIT and not has_many_places(spec))


def _check(spec: KernelSpec, options: ChannelsOptions) -> None:
    refusal = supports(spec)
    if refusal is None and options.vector not in _vectors(spec):
        refusal = (f"vector = {options.vector}: for K = {spec.k} filters, {spec.filters} a channel, of "
                   f"{spec.dtype.value} it can be {', '.join(map(str, _vectors(spec)))}")
    units = options.vector // 2 if spec.numerics is Numerics.FLOAT16 else options.vector
    if refusal is None and options.body is Body.TILE and units != 1:
        refusal = f"vector = {options.vector} with tiles, whose threads have one channel, or two in half arithmetic"
    threads = options.block_channels * options.block_columns * options.block_rows
    if refusal is None and threads > BLOCK_THREADS:
        refusal = (f"{options.block_channels} x {options.block_columns} x {options.block_rows} threads are more than a "
                   f"block's {BLOCK_THREADS}")
    refusal = refusal or blocks_refusal(spec, -(-threads // 32) * 32, options.min_blocks)
    if refusal is None and options.columns > 16:
        refusal = f"columns = {options.columns} (at most 16)"
    most_ahead = {Body.TILE: 1, Body.RING: 4, Body.LINES: 32}[options.body]
    if refusal is None and options.prefetch_rows > most_ahead:
        refusal = f"prefetch_rows = {options.prefetch_rows} (with {options.body.value} at most {most_ahead})"
    if refusal is None and options.body is Body.LINES:
        refusal = lines_refusal(spec) or lines_options_refusal(spec, options)
    if refusal is None and options.sub_block_rows > (16 if options.body is Body.TILE else 1024):
        refusal = f"sub_block_rows = {options.sub_block_rows} (at most 1024, with tiles 16)"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)


def _check_size(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers, registers: int) -> None:
    refusal = None
    if options.body is Body.LINES and numbers.line.shared_bytes > SHARED_STATIC:
        refusal = (f"rows and filters of {numbers.line.pixel} channels take {numbers.line.shared_bytes} bytes of "
                   f"shared memory (at most {SHARED_STATIC}); a smaller block_channels or prefetch_rows serves it")
    elif options.body is not Body.LINES and 4 * numbers.shared_units > SHARED_STATIC:
        refusal = (f"the filters of {options.block_channels * options.vector} channels take {4 * numbers.shared_units} "
                   f"bytes of shared memory (at most {SHARED_STATIC}); a smaller block_channels serves it")
    elif _text(spec, options, numbers) > TEXT_LIMIT:
        refusal = (f"{_text(spec, options, numbers)} products in the text (at most {TEXT_LIMIT}); fewer columns, or "
                   f"body=tile, serve it")
    elif registers > 2 * REGISTER_LIMIT:
        refusal = f"about {registers} registers; fewer columns or channels a thread, or body=tile, serve it"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)


def space(spec: KernelSpec) -> Iterable[ChannelsOptions]:
    found: list[ChannelsOptions] = []
    if lines_refusal(spec) is None:
        found += line_candidates(spec, USUAL_ROW, USUAL_ROW)
        found += walks.candidates(spec, USUAL_ROW, USUAL_ROW)
    for options, numbers in _all_bodies(spec, USUAL_ROW):
        if registers_of(spec, options, numbers) <= REGISTER_LIMIT and _text(spec, options, numbers) <= TEXT_LIMIT:
            block = _block(spec, options, USUAL_ROW, USUAL_ROW)
            found += [replace(block, prefetch_rows=ahead) for ahead in ((1, 2) if options.body is Body.RING else (1,))]
    return found


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions; more for a layer with too few warps to fill a large GPU, where the time of one counts."""
    options: ChannelsOptions = plan.options
    numbers: ChannelsNumbers = plan.numbers
    spec = plan.spec
    columns = -(-shape.q // options.columns)
    bands = numbers.classes * -(-shape.p // (numbers.classes * options.sub_block_rows))
    rows = -(-shape.p // numbers.classes)
    warps = numbers.channel_vectors * columns * bands / 32
    filled = max(1.0, spec.hardware.warps_of(WARPS_TO_FILL) / (ASSUMED_BATCH * warps))
    if strided.serves(spec, options):
        filled = 1.0            # few threads are what was chosen
    return shape.n * warps * _slots(spec, options, numbers, rows) * filled


ALGORITHM = Algorithm(name="channels", summary="depthwise in NHWC: a lane has neighbouring channels, columns and rows",
                      options=ChannelsOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate)
