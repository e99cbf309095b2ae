"""``channels`` with its input rows copied to shared memory: what it serves, and its plan values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import H200_SHARED_FILLED, LANES, QUARTERS, REGISTER_FILE, REGISTER_UNIT, SHARED_STATIC
from warpconv.codegen.spec import KernelSpec, Numerics

from .numbers import Body, ChannelsNumbers, ChannelsOptions, Width, numbers_of, registers_of, step_rows_of

LINES_REGISTERS = 168              # 12 warps of a multiprocessor stay
LINES_WARPS = 16                   # with fewer, latency shows, but little, since rows wait in shared memory:
LINES_LATENCY = 0.1                # exponent
LINES_THREADS = 128
LINES_PIXEL_BYTES = 128            # of a block's channels: whole lines of memory; of few taps
LINES_WIDE_PIXEL_BYTES = 256       # several
LINES_TEXT = 1200                  # products in the text of a stage: beyond it the instruction cache starves
LINES_COLUMNS = (7, 6, 5, 4, 3, 2, 1)
LINES_ROWS = (112, 56, 28, 14, 7)  # rows of a sub-block: few values, so that most image sizes share a kernel
FEW_TAPS = 16                      # memory sets the pace, and sub-blocks of
ROWS_OF_FEW_TAPS = 28              # rows spread its traffic evenly over time;
ROWS_OF_WHOLE_PIXELS = 14          # of a sub-block, and
AHEAD_OF_WHOLE_PIXELS = 6          # rows ahead, of blocks that have whole pixels,
AHEAD_OF_A_COLUMN = 8              # rows of images one pixel wide, which are sequences
LEAST_WHOLE_PIXELS = 32            # channels or more: 96, 128 and 384 were measured
MANY_TAPS = 40                     # arithmetic sets it, and a stage of
STAGE_OF_MANY_TAPS = 4              # rows has fewer barriers
LINES_BATCH = 128                  # images that fill a GPU (fewer than 64 are looked at by few and walks)
WARPS_THAT_FILL = 8                # a multiprocessor
SHORT_PLANE = 7                    # rows: a thread with several channels would be one of too few
STEP_INSTRUCTIONS = 12             # besides products, reads, conversions and stores
# Of float32 under few taps pairs of channels and of columns, seven rows of them and four ahead: of 600 plans of 29
# layers (3x3, 7^2 to 112^2, batch 16 to 128), timed on an H200 on 2026-11-28, they took 0.75 to 1.05 of the time of
# what has the fewest instructions, 0.92 in the mean. A block has channels of whole sectors of memory, or all
PAIRS_ROWS, PAIRS_AHEAD, PAIRS_STAGE = 7, 4, 2
PAIRS_THREADS = (32, 64)           # along the channels, at most and evenly
PAIRS_COLUMNS = 4                  # threads beside them
PAIRS_OF_A_SECTOR = 4
LEAST_PAIRS = 16


def lines_refusal(spec: KernelSpec) -> str | None:
    """Why rows of this layer cannot be copied to shared memory, whatever the plan values."""
    if spec.arch.major < 8:
        return f"{spec.arch} has no asynchronous copies, which bring lines; body=ring serves it"
    if spec.filters != 1:
        return f"lines with {spec.filters} filters a channel; body=ring serves them"
    if spec.c * spec.dtype.itemsize % 4:
        return f"lines of C = {spec.c} channels, which cannot be copied in pieces of 4 bytes; body=ring serves them"
    return None


def lines_options_refusal(spec: KernelSpec, options: ChannelsOptions) -> str | None:
    """Why these plan values do not go together."""
    pixel = options.block_channels * options.vector
    if pixel * spec.dtype.itemsize % 4:
        return f"a block of {pixel} channels, which cannot be copied in pieces of 4 bytes"
    if pixel * spec.r * spec.s * spec.dtype.itemsize % 4 or spec.k * spec.r * spec.s * spec.dtype.itemsize % 4:
        return f"filters of {pixel} channels, which cannot be copied in pieces of 4 bytes"
    if options.block_rows != 1:
        return f"block_rows = {options.block_rows} with lines, whose threads share their rows"
    if options.prefetch_rows % options.stage_rows:
        return f"prefetch_rows = {options.prefetch_rows} is not a multiple of stage_rows = {options.stage_rows}"
    return None


def lines_fit(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers) -> bool:
    """Whether these plan values go together, and shared memory and registers hold them."""
    return (lines_options_refusal(spec, options) is None and numbers.line.shared_bytes <= SHARED_STATIC
            and registers_of(spec, options, numbers) <= LINES_REGISTERS)


def is_float_plane(spec: KernelSpec, stride: int) -> bool:
    """Whether it is float32 under few taps of several rows and columns that lie side by side, by this stride."""
    return (spec.dtype is DType.FLOAT32 and min(spec.r, spec.s) > 1 and spec.r * spec.s < FEW_TAPS
            and spec.stride == (stride, stride) and spec.dilation == (1, 1))


def lines_defaults(spec: KernelSpec, p: int, q: int, known: bool) -> ChannelsOptions | None:
    """Of float32 under few taps pairs of channels and columns; else the vector and columns with the fewest instructions
    an output, None where none leaves enough registers."""
    pairs = _pairs(spec, p, q, known)
    if pairs is not None:
        return pairs
    narrow = _narrow(spec, p) and q > 1
    found = [(_price(spec, options, numbers, q), -options.columns, options)
             for options, numbers in _shapes(spec, q)
             if numbers.units == 1 or p > SHORT_PLANE and not (narrow and options.vector > 1)]
    if not found:
        return None
    options = min(found, key=lambda entry: entry[:2])[2]
    whole = known and q % options.columns == 0
    options = replace(options, width=Width.WHOLE if whole else Width.ANY, sub_block_rows=_rows(spec, options, p, q))
    stage = 1 if p <= SHORT_PLANE else STAGE_OF_MANY_TAPS if spec.r * spec.s >= MANY_TAPS and p > 28 else 2
    # deeper where a stage is a small part of the walk; else the first rows would only wait for more of their kind
    ahead = SHORT_PLANE if stage == 1 else 2 * stage if options.sub_block_rows == LINES_ROWS[0] and stage > 2 else 4
    if q == 1 and stage == 2:
        ahead = AHEAD_OF_A_COLUMN
    if narrow:
        return _ahead(spec, _whole_pixels(spec, replace(options, sub_block_rows=min(
            r for r in LINES_ROWS if r >= min(p, ROWS_OF_WHOLE_PIXELS))), q), AHEAD_OF_WHOLE_PIXELS, stage)
    return _ahead(spec, _block(spec, options, q), ahead, stage)


def _pairs(spec: KernelSpec, p: int, q: int, known: bool) -> ChannelsOptions | None:
    """None where the layer is another, or nothing fits."""
    if not is_float_plane(spec, stride=1) or min(p, q) == 1 or spec.k % 2:
        return None
    several = (threads_of_channels(spec, 2, most) for most in PAIRS_THREADS)
    channels = next((c for c in several if c % PAIRS_OF_A_SECTOR == 0 or 2 * c == spec.k <= 2 * PAIRS_THREADS[0]), 0)
    if channels < LEAST_PAIRS:
        return None
    options = ChannelsOptions(
        body=Body.LINES, vector=2, columns=2, width=Width.WHOLE if known and q % 2 == 0 else Width.ANY,
        sub_block_rows=PAIRS_ROWS, prefetch_rows=PAIRS_AHEAD, stage_rows=PAIRS_STAGE, block_channels=channels,
        block_columns=min(PAIRS_COLUMNS, -(-q // 2)))
    return options if lines_fit(spec, options, numbers_of(spec, options)) else None


def _narrow(spec: KernelSpec, p: int) -> bool:
    """Whether memory sets the pace and elements are of two bytes: then a block that has whole pixels, in one unbroken
    piece of memory a row, and a channel a thread, with many warps, is quicker (3x3, H200, 2026-11-21: 112^2 55.6 us
    instead of 58.6, 56^2 42.9 instead of 48.9 and 46.4). Not so in float32 (116 us instead of 111)."""
    return (spec.dtype.is_half and spec.r * spec.s < FEW_TAPS and p > SHORT_PLANE
            and spec.k >= LEAST_WHOLE_PIXELS and spec.numerics is not Numerics.FLOAT16)


def _whole_pixels(spec: KernelSpec, options: ChannelsOptions, q: int) -> ChannelsOptions:
    """All channels of a pixel in a block, or evenly as many as LINES_THREADS; further columns beside them where they
    are few."""
    channels = threads_of_channels(spec, options.vector, LINES_THREADS)
    columns = max(1, min(LINES_THREADS // channels, -(-q // options.columns)))
    return replace(options, block_channels=channels, block_columns=columns)


def threads_of_channels(spec: KernelSpec, vector: int, most: int) -> int:
    """Of a block, evenly; one more where their copies would not be of 4 bytes and more."""
    vectors = -(-spec.k // vector)
    channels = -(-vectors // -(-vectors // most))
    return channels + channels * vector * spec.dtype.itemsize % 4 // 2


def line_candidates(spec: KernelSpec, p: int, q: int) -> Iterator[ChannelsOptions]:
    """Plan values worth measuring, for outputs of p x q."""
    stages = ((8, 2), (4, 2), (8, 4)) if step_rows_of(spec) == 1 else ((5, 1), (3, 1), (4, 2))
    for options, _ in _shapes(spec, q):
        for rows in LINES_ROWS:
            options = _block(spec, replace(options, sub_block_rows=rows), q)
            for ahead, stage in stages:
                yield _ahead(spec, options, ahead, stage)


def _shapes(spec: KernelSpec, q: int) -> Iterator[tuple[ChannelsOptions, ChannelsNumbers]]:
    # of one column, a sequence, no other columns share what a thread reads: more channels do. 8 x 2048 x 4096 under 7
    # taps, bias and silu, H200, 2026-11-27: eight channels 78 us, four 90 in bfloat16, and 78 in float16
    units = (1, 2) if q > 1 else (1, 2, 4, 8) if spec.dtype is DType.BFLOAT16 and spec.r * spec.s > 4 else (1, 2, 4)
    return threads_that_fit(spec, units, LINES_COLUMNS)


def threads_that_fit(spec: KernelSpec, units: Sequence[int], several: Sequence[int]
                     ) -> Iterator[tuple[ChannelsOptions, ChannelsNumbers]]:
    """Of so many units (channels, or pairs of them in half arithmetic) and of several numbers of columns those threads
    that have enough registers and no more text than LINES_TEXT, with their numbers."""
    least = 2 if spec.numerics is Numerics.FLOAT16 else 1
    for vector in (least * unit for unit in units):
        if spec.k % vector or vector * spec.dtype.itemsize > 16:
            continue
        for columns in several:
            options = ChannelsOptions(body=Body.LINES, vector=vector, columns=columns, stage_rows=1)
            numbers = numbers_of(spec, options)
            products = spec.r * spec.s * columns * numbers.units
            if registers_of(spec, options, numbers) <= LINES_REGISTERS and products <= LINES_TEXT:
                yield options, numbers


def _price(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers, q: int) -> float:
    """Instructions of a thread for one output value, about; more where few warps stay resident."""
    reads = len(numbers.loads) * (1 + (numbers.input_units if numbers.converted else 0))
    products = spec.r * spec.s * options.columns * numbers.units
    stores = options.columns * (1 + (numbers.units / 2 if numbers.converted else 0))
    made = options.vector * q / -(-q // options.columns)
    latency: float = max(1.0, LINES_WARPS / _warps(spec, options, numbers)) ** LINES_LATENCY
    return (products + reads + stores + STEP_INSTRUCTIONS) / made * latency


def _warps(spec: KernelSpec, options: ChannelsOptions, numbers: ChannelsNumbers) -> int:
    """Resident on a multiprocessor, in blocks of LINES_THREADS: one at least."""
    each = -(-registers_of(spec, options, numbers) // REGISTER_UNIT) * REGISTER_UNIT
    return LINES_THREADS // LANES * max(1, REGISTER_FILE // (LINES_THREADS * each))


def _rows(spec: KernelSpec, options: ChannelsOptions, p: int, q: int) -> int:
    """Whole planes, whose rows outside the image cost nothing, unless that leaves too few warps."""
    most = ROWS_OF_FEW_TAPS if spec.r * spec.s < FEW_TAPS else LINES_ROWS[0]
    rows = min([r for r in LINES_ROWS if r >= min(p, most)])
    columns = LINES_BATCH * (spec.k // options.vector) * -(-q // options.columns) / 32
    while rows > LINES_ROWS[-1] and columns * -(-p // rows) < spec.hardware.warps_of(WARPS_THAT_FILL):
        rows //= 2
    return rows


def _block(spec: KernelSpec, options: ChannelsOptions, q: int) -> ChannelsOptions:
    """Channels first, of whole lines of memory where they divide so, then columns, evenly."""
    vectors = spec.k // options.vector
    bytes_ = LINES_WIDE_PIXEL_BYTES if spec.r * spec.s < FEW_TAPS else LINES_PIXEL_BYTES
    wanted = bytes_ // (options.vector * spec.dtype.itemsize)
    channels = next((c for c in (wanted, 32, 48, 16) if vectors % c == 0), 0)
    if not channels:
        channels = threads_of_channels(spec, options.vector, wanted)
    jobs = -(-q // options.columns)
    while channels * jobs < LINES_THREADS // 2 and vectors % (2 * channels) == 0:
        channels *= 2
    most = max(1, LINES_THREADS // channels)
    return replace(options, block_channels=channels, block_columns=-(-jobs // -(-jobs // most)))


def _ahead(spec: KernelSpec, options: ChannelsOptions, ahead: int, stage: int) -> ChannelsOptions:
    """As many rows ahead as shared memory holds: of a block, and of all that stay on a multiprocessor. Shorter stages,
    then fewer columns and channels of a block, where nothing fits."""
    numbers = numbers_of(spec, options)
    blocks = max(1, 32 * _warps(spec, options, numbers) // numbers.threads)
    limit = min(SHARED_STATIC, spec.hardware.share_of_shared(H200_SHARED_FILLED) // blocks)
    for rows, short in [(r, stage) for r in range(ahead, stage - 1, -stage)] + [(2, 2), (1, 1)]:
        found = replace(options, prefetch_rows=rows, stage_rows=short)
        if numbers_of(spec, found).line.shared_bytes <= limit:
            return found
    if options.block_columns > 1:
        return _ahead(spec, replace(options, block_columns=options.block_columns // 2), ahead, stage)
    if options.block_channels % 2 == 0 and options.block_channels * options.vector * spec.dtype.itemsize > 8:
        return _ahead(spec, replace(options, block_channels=options.block_channels // 2), ahead, stage)
    return found


def resident_lines(spec: KernelSpec, registers: int, threads: int) -> int:
    """Blocks of a multiprocessor that leave each thread `registers`; its four parts have the same number of warps."""
    warps, each = -(-threads // LANES), LANES * -(-registers // REGISTER_UNIT) * REGISTER_UNIT
    fitting = min(spec.hardware.resident_warps, REGISTER_FILE // (QUARTERS * each) * QUARTERS)
    return max(1, fitting // warps)
