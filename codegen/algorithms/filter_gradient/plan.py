"""``filter_gradient``: the input met with the output's gradient, summed over batch and pixels in a fixed order.

Filters of one channel (``taps``): a thread keeps the sums of a filter's taps in registers while it goes through its
share of the plane's outputs, tile by tile; each row of the input is loaded once for all outputs of a tile and all taps.
At the end the threads of a block add up theirs. Others (``tiles``): a product of matrices, filters x (taps, channels),
over the pixels, whose operands are gathered into shared memory. Sums are float32 for every element type.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import summed_batch
from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import GRID_LIMIT, H200_CLOCK, H200_LATENCY, QUARTERS
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.arguments import border_arguments, demanding, gradient_arguments
from warpconv.codegen.parts.occupancy import blocks_refusal
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .options import FilterGradientOptions, Form, Walk

THREADS = 128               # of a block of form taps
MOST_SUMS = 64              # that a thread keeps, of all its channels
MOST_SUMS_VECTOR = 100      # with two channels: each word of the input serves both
MOST_OUTPUTS = 32           # of a tile
MOST_OUTPUTS_NCHW = 28
# Filters up to which tiles in NCHW are narrow on small planes, and wide on middling ones. H200, 2026-11-27, float16,
# 64 images, 7^2 with stride 2, one column and 4x4 outputs: 3x3, 1152 channels 13.8 and 27.3 us, 5x5, 768 channels 15.6
# and 24.2, 7x7 26.8 and 24.1
FEW_TAPS, SEVERAL_TAPS = 9, 25
MANY_COLUMNS = 32           # of x that a row's outputs have: places of more, found by the border, may be spilled
MIDDLING = 24               # columns of a plane
# Tiles of layers without stride, zeros outside: of 16 bits up to 5x5 wide, else tall. H200, 2026-11-28, 3x3, 5x5, 7x7,
# us for what tiles of 7 x 4 took: 128x96x56^2 float16 53, 72, 136 for 69, 92, 159, bfloat16 49, 73, 125 for 68, 89,
# 125, float32 87, 104, 132 for 102, 122, 138; 128x384x14^2 float16 20, 29, 42 for 27, 36, 42. With strides nothing else
# is better everywhere.
WIDE_OUTPUTS, WIDE_ROWS_MIDDLING = 32, 3
STRIP_ROWS = 64
# Of a lane in NHWC: so few leave room for a tile whose loads are all under way at once. On an H200 (2026-11-22) it
# takes 74 us on 32x128x112^2 at 3x3 in float16, where strips take 86; at 7x7 strips take 205 us and tiles 260.
FEW_SUMS = 32
# In NHWC with a stride and few taps the sides of a tile, one channel a lane. H200, 2026-11-30, float32, 3x3 with stride
# 2, 32 images, us for what 7 x 4 took: 96x112^2 50.5, 56.9, 144x56^2 27.0, 38.7, 240x28^2 15.4, 24.7, 384x28^2 16.9,
# 22.5, 576x14^2 9.8, 13.6; of 5x5 two layers of three took longer with any other tile than 7 x 4
STRIDED_OUTPUTS = 2
MOST_PRODUCTS = 2048        # of a tile
TILE_THREADS = 256
TILE_K, TILE_COLUMNS, TILE_PIXELS = 64, 64, 16  # of a block of form tiles: filters, (tap, channel), pixels at a time
TILES_PACE = 2.0            # times its slots that form tiles took of 12 dense float32 layers (H200, 2026-11-23)
FEW_BLOCKS_NHWC = 3         # of a multiprocessor, which are worth shares of two items
FEW_TURNS = 4               # of which one more or less is a good part of a block's time
BLOCKS_TAPS, BLOCKS_TAPS_NHWC = 16, 6       # of a multiprocessor, in form taps
BLOCKS_TILES = 4            # and in form tiles


@dataclass(frozen=True)
class FilterGradientNumbers:
    """What the templates write besides spec and options."""

    threads: int
    warps: int              # of a block
    lane_count: int         # of a team of lanes, which in NHWC has channels side by side,
    teams: int              # and such teams of a block; each takes tiles of its own
    tap_tiles: tuple[int, int]      # blocks for the filter's rows and columns
    rows_read: int          # input rows of a tile of outputs,
    columns_read: int       # and columns
    lanes: int              # channels that a team holds
    together: bool          # in NCHW columns are loaded by vectors,
    shift: int              # which begin so many columns before the window
    vectors_read: int       # for a row of a tile
    column_tiles: int       # of form tiles: blocks for (tap, channel), and for filters
    filter_tiles: int
    guarded: bool           # pixels may lie outside of the image
    min_blocks: int         # of a multiprocessor that the compiler leaves registers for; 0: it is told none


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS,
                             operation=Operation.FILTER_GRADIENT)
    return refusal or ("the filter's gradient takes no epilogue" if spec.epilogue else None)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> FilterGradientOptions:
    """All taps of a filter in a thread where they are few, else some of its rows; tiles of outputs that divide the
    plane well."""
    options = _taps(spec, shape) if spec.channels == 1 else FilterGradientOptions(form=Form.TILES)
    return replace(options, chunks=_chunks(spec, shape, options))


def _taps(spec: KernelSpec, shape: ConvShape | None) -> FilterGradientOptions:
    nhwc = spec.layout is Layout.NHWC
    most_pairs = MOST_SUMS_VECTOR if _strips(spec) else FEW_SUMS
    vector = 2 if nhwc and _pairs(spec) and spec.r * spec.s * 2 <= most_pairs else 1
    most = MOST_SUMS if vector == 1 else MOST_SUMS_VECTOR // vector
    tap_columns = min(spec.s, most)
    tap_rows = max(1, min(spec.r, most // tap_columns))
    tap_rows = -(-spec.r // -(-spec.r // tap_rows))         # equal shares
    options = FilterGradientOptions(tap_rows=tap_rows, tap_columns=tap_columns, vector=vector)
    p, q = (56, 56) if shape is None else (shape.p, shape.q)
    if not nhwc:
        rows, columns, widest = _tile(spec, p, q)
        options = replace(options, columns=columns, rows=rows)
        fitting = [v for v in (4, 2) if shape is not None and v <= widest and shape.w % v == q % v == 0]
        return replace(options, vector=next((v for v in fitting if _together(spec, replace(options, vector=v)) is None),
                                            1))
    if spec.stride[1] > 1 and tap_rows * tap_columns * vector <= FEW_TAPS:
        return replace(options, columns=min(STRIDED_OUTPUTS, q), rows=min(STRIDED_OUTPUTS, p))
    few = tap_rows * tap_columns * vector <= FEW_SUMS
    if _strips(spec) and not few:
        return replace(options, walk=Walk.STRIP, columns=min(4, q), rows=_share(p, STRIP_ROWS))
    most = 7 if few else 4 if tap_rows * tap_columns * vector <= MOST_SUMS else 2
    return replace(options, columns=min(4, q), rows=_share(p, most))


def _tile(spec: KernelSpec, p: int, q: int) -> tuple[int, int, int]:
    """Rows and columns of a tile in NCHW, and the most columns that are loaded together. On small planes tiles are many
    rather than large: a block has an image's few for all its threads."""
    taps, short = spec.r * spec.s, spec.dtype.lanes == 2
    dense = spec.stride[1] == 1 and spec.padding_mode is Border.ZEROS and q > 8 and taps <= MOST_SUMS
    if dense and short and taps <= SEVERAL_TAPS:
        return _share(p, WIDE_OUTPUTS // 8) if q > MIDDLING else min(p, WIDE_ROWS_MIDDLING), 8, 4
    narrow = q <= 4 and taps <= SEVERAL_TAPS or q <= 8 and spec.stride[1] > 1 and taps <= FEW_TAPS
    broad = q % 4 == 0 or q > MIDDLING or q > 8 and taps <= SEVERAL_TAPS or dense and short
    columns = 1 if narrow else 4 if broad else min(q, 2)
    if dense and not short and (q > 28 or q > MIDDLING and taps <= SEVERAL_TAPS):
        return _share(p, WIDE_OUTPUTS // columns), columns, 2 if taps <= FEW_TAPS else 4
    return (_share(p, MOST_OUTPUTS_NCHW // columns), columns,
            2 if dense and spec.dtype is DType.FLOAT16 else 4)


def _strips(spec: KernelSpec) -> bool:
    """Whether rows of the input and of the outputs follow each other alike, and what is outside is no value."""
    return (spec.layout is Layout.NHWC and spec.stride[0] == spec.dilation[0] == 1
            and spec.padding_mode is not Border.CONSTANT)


def _together(spec: KernelSpec, options: FilterGradientOptions) -> str | None:
    """Why columns cannot be loaded together in NCHW, or None."""
    vector = options.vector
    if vector not in (1, 2, 4) or options.columns % vector:
        return f"vector = {vector}: 1, 2 or 4, that divide columns = {options.columns}"
    if vector > 1 and spec.padding_mode is not Border.ZEROS:
        return f"vector = {vector} is for borders of zeros"
    if vector > 1 and options.tap_columns < spec.s and options.tap_columns * spec.dilation[1] % vector:
        return f"vector = {vector}: not all windows would begin alike with {options.tap_columns} columns of taps"
    return None


def _share(size: int, most: int) -> int:
    """Rows of a tile, up to ``most``, that leave the fewest beyond the plane's ``size``."""
    return max(range(1, min(size, most) + 1), key=lambda n: (-(-(-size // n) * n - size) * 4 // size, n))


def _pairs(spec: KernelSpec) -> bool:
    return spec.layout is Layout.NHWC and spec.dtype.lanes == 2 and spec.c % 2 == 0 and spec.filters == 1


def _chunks(spec: KernelSpec, shape: ConvShape | None, options: FilterGradientOptions) -> int:
    n, p, q = (64, 56, 56) if shape is None else (summed_batch(shape), shape.p, shape.q)
    made = _numbers(spec, options)
    x, y = _beside(spec, options, made)
    chip = spec.hardware.multiprocessors
    if options.form is Form.TILES:
        return partial_sums.chunks_for(BLOCKS_TILES * chip, x * y, n * p * q // (8 * TILE_PIXELS))
    nhwc = spec.layout is Layout.NHWC
    each = made.teams if nhwc else THREADS
    items = n * -(-p // options.rows) * -(-q // options.columns)
    if options.walk is Walk.STRIP:
        return partial_sums.chunks_for(made.min_blocks * chip, x * y, items // each)
    # four items of a thread and more; two where that leaves multiprocessors with few blocks
    wanted = BLOCKS_TAPS_NHWC if nhwc else BLOCKS_TAPS
    short = nhwc or spec.stride[1] > 1 and spec.r * spec.s <= SEVERAL_TAPS
    chunks = max(partial_sums.chunks_for(wanted * chip, x * y, items // (4 * each)),
                 partial_sums.chunks_for((FEW_BLOCKS_NHWC if nhwc else wanted) * chip, x * y,
                                         items // (2 * each)) if short else 1)
    turns = -(-items // (chunks * each))
    # where a thread has few turns, no more shares than keep it at that many
    return -(-items // (turns * each)) if turns <= FEW_TURNS else chunks


def _threads(options: FilterGradientOptions) -> int:
    return THREADS if options.form is Form.TAPS else TILE_THREADS


def _numbers(spec: KernelSpec, options: FilterGradientOptions) -> FilterGradientNumbers:
    tiles = -(-spec.r // options.tap_rows), -(-spec.s // options.tap_columns)
    rows_read, columns_read = (
        (outputs - 1) * stride + (taps - 1) * dilation + 1 for outputs, taps, stride, dilation in zip(
            (options.rows, options.columns), (options.tap_rows, options.tap_columns), spec.stride, spec.dilation))
    threads = _threads(options)
    sums = options.tap_rows * options.tap_columns * options.vector      # of a lane in NHWC
    together = spec.layout is Layout.NCHW and options.vector > 1
    shift = -spec.padding[1][0] % options.vector if together else 0
    words = -(-spec.k // options.vector)
    lane_count = min((32, 16), key=lambda lanes: -words % lanes)        # fewest without a channel, then the longest
    return FilterGradientNumbers(
        threads=threads, warps=threads // 32, tap_tiles=tiles, rows_read=rows_read, columns_read=columns_read,
        lane_count=lane_count, teams=threads // lane_count, lanes=lane_count * options.vector, together=together,
        shift=shift,
        vectors_read=-(-(shift + columns_read) // options.vector), column_tiles=-(-spec.reduction // TILE_COLUMNS),
        filter_tiles=-(-spec.filters // TILE_K), guarded=not spec.padding_mode.reads_image,
        min_blocks=_blocks(spec, options, sums))


def _blocks(spec: KernelSpec, options: FilterGradientOptions, sums: int) -> int:
    """Blocks of a multiprocessor that the compiler leaves registers for: those that are asked for, or as many as a
    lane's sums leave. In NCHW with form taps it is told none (0), until it spills."""
    if options.form is Form.TILES:
        return options.min_blocks or BLOCKS_TILES
    if spec.layout is Layout.NCHW:
        return options.min_blocks
    return options.min_blocks or (2 if sums > 64 else 3 if sums > 32 else 4)


def _loads_ahead(spec: KernelSpec, options: FilterGradientOptions, sums: int) -> bool:
    """Whether a tile in NHWC has more sums than leave room for its loads. The compiler hoists these as far as its
    registers go, and beyond: 7x7 with dilation 2 spills 40 to 104 bytes, with 168 registers as with 255. Fewer rows
    spill less and load more: one row 208 pixels for 4 outputs, three rows 240 for 12."""
    return spec.layout is Layout.NHWC and options.walk is Walk.TILE and sums > FEW_SUMS


def _beside(spec: KernelSpec, options: FilterGradientOptions, made: FilterGradientNumbers) -> tuple[int, int]:
    """Blocks along y and z for each chunk: of filters, and of taps."""
    if options.form is Form.TILES:
        return made.filter_tiles * made.column_tiles, spec.groups
    taps = made.tap_tiles[0] * made.tap_tiles[1]
    return (spec.k if spec.layout is Layout.NCHW else -(-spec.k // made.lanes)), taps


def plan(spec: KernelSpec, options: FilterGradientOptions) -> KernelPlan:
    refusal = _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    made = _numbers(spec, options)
    beside, behind = _beside(spec, options, made)
    taps = options.form is Form.TAPS
    block = (made.lane_count, made.teams, 1) if taps and spec.layout is Layout.NHWC else (made.threads, 1, 1)
    grid = (Blocks(times=options.chunks), Blocks(times=beside, limit=GRID_LIMIT[1]),
            Blocks(times=behind, limit=GRID_LIMIT[2]))
    launch = Launch(entry=spec.name, grid=grid, block=block,
                    arguments=("x", "dy", partial_sums.PARTS, "N", "H", "W", "P", "Q",
                               *(a.name for a in border_arguments(spec))))
    program = partial_sums.program(_demanding(spec, options), launch, "dw", spec.k * spec.reduction, options.chunks,
                                   direct=False)
    sums = options.tap_rows * options.tap_columns * (options.vector if spec.layout is Layout.NHWC else 1)
    outputs = options.rows * options.columns
    if taps:        # releases of the compiler differ by 24 bytes where 25 sums stand beside rows of vectors
        across = made.vectors_read if made.together else made.columns_read      # loads of a row of x
        held = 1 if spec.layout is Layout.NCHW else options.vector              # channels
        cost = Cost(unit=f"32 x {options.rows} x {options.columns} outputs", shuffles=0, fma=outputs * sums,
                    warp_loads=made.rows_read * across + outputs // (options.vector if made.together else 1),
                    registers=min(255, 40 + sums + held * (outputs + made.columns_read)),
                    direct_loads=outputs * (1 + options.tap_rows * options.tap_columns),
                    no_spills=not (_loads_ahead(spec, options, sums) or made.together and sums > FEW_TAPS
                                   or not made.guarded and made.columns_read > MANY_COLUMNS))
        phrase = (f"{options.tap_rows} x {options.tap_columns} taps in a thread, over {options.rows} x "
                  f"{options.columns} outputs at a time, in {options.chunks} chunks")
    else:
        cost = Cost(unit=f"{TILE_PIXELS} pixels of a block", warp_loads=8, shuffles=0, fma=16 * TILE_PIXELS,
                    registers=72, direct_loads=32 * TILE_PIXELS)
        phrase = (f"tiles of {TILE_K} filters x {TILE_COLUMNS} taps of channels, in {options.chunks} chunks of the "
                  "pixels")
    template = f"filter_gradient/{options.form.value}_{spec.layout.name.lower()}.cu.jinja" if taps else (
        "filter_gradient/tiles.cu.jinja")
    return KernelPlan(spec=spec, options=replace(options, min_blocks=made.min_blocks), numbers=made,
                      templates=(template,), program=program, cost=cost,
                      phrase=f"{phrase}; then the chunks' sums are added")


def _demanding(spec: KernelSpec, options: FilterGradientOptions) -> tuple[Argument, ...]:
    """The arguments, with what vectors ask of rows and addresses."""
    if options.form is Form.TILES or options.vector == 1:
        return gradient_arguments(spec)
    demands = {name: options.vector * spec.dtype.itemsize for name in ("x", "dy")}
    if spec.layout is Layout.NCHW:
        demands |= {"W": options.vector, "Q": options.vector}
    return demanding(gradient_arguments(spec), demands)


def _refusal(spec: KernelSpec, options: FilterGradientOptions) -> str | None:
    refusal = supports(spec)
    if refusal is None and options.chunks > partial_sums.MOST_CHUNKS:
        refusal = f"{options.chunks} chunks (at most {partial_sums.MOST_CHUNKS})"
    if refusal is None:
        refusal = blocks_refusal(spec, _threads(options), options.min_blocks)
    if refusal is not None or options.form is Form.TILES:
        return refusal
    if spec.channels != 1:
        return f"form = taps is for filters of one channel, not of {spec.channels}"
    nhwc = spec.layout is Layout.NHWC
    if nhwc and (options.vector not in (1, 2) or (options.vector == 2 and not _pairs(spec))):
        return f"vector = {options.vector}: pairs are of 16-bit channels in NHWC, an even number, a filter each"
    if not nhwc and (reason := _together(spec, options)) is not None:
        return reason
    if options.walk is Walk.STRIP and not _strips(spec):
        return "strips are of layers in NHWC whose rows follow each other, with no value outside"
    if options.tap_rows > spec.r or options.tap_columns > spec.s:
        return f"{options.tap_rows} x {options.tap_columns} taps of a filter of {spec.r} x {spec.s}"
    sums = options.tap_rows * options.tap_columns * (options.vector if nhwc else 1)
    if options.walk is Walk.STRIP:
        return None if sums <= MOST_SUMS_VECTOR else f"{sums} sums would not stay in registers"
    outputs = options.rows * options.columns
    if sums > max(MOST_SUMS, MOST_SUMS_VECTOR):
        return f"{sums} sums would not stay in registers (at most {MOST_SUMS_VECTOR})"
    if outputs > MOST_OUTPUTS:
        return f"tiles of {outputs} outputs (at most {MOST_OUTPUTS})"
    if outputs * sums > max(sums, 2 * MOST_PRODUCTS):
        return f"{outputs * sums} products of a tile (at most {2 * MOST_PRODUCTS})"
    return None


def leaner(spec: KernelSpec, options: FilterGradientOptions) -> FilterGradientOptions | None:
    """A tile of one row and two columns, or of one output, or None. (Three drawn ones spilled 24 to 64 bytes with as
    many registers as a thread may have, by NVRTC 13.5 or nvcc 13.0; none does so.)"""
    if options.form is not Form.TAPS or options.walk is not Walk.TILE:
        return None
    vector = options.vector if spec.layout is Layout.NHWC else 1
    tiles = (replace(options, rows=1, columns=columns, vector=vector, min_blocks=DERIVED) for columns in (2, 1)
             if columns < options.rows * options.columns)
    return next((found for found in tiles if _refusal(spec, found) is None), None)


def space(spec: KernelSpec) -> Iterable[FilterGradientOptions]:
    own = defaults(spec)
    chunks = partial_sums.chunks_beside(own.chunks)
    if own.form is Form.TILES:
        return [replace(own, chunks=n) for n in chunks]
    found = [own, *(replace(own, chunks=n, walk=walk, rows=rows, columns=columns, vector=vector) for n in chunks
                    for walk in Walk for rows in (2, 4, 7, 8, STRIP_ROWS) for columns in (1, 2, 4)
                    for vector in {1, own.vector})]
    return [o for o in found if _refusal(spec, o) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Warp instructions: loads with their guards and an FMA for each product; of form tiles at least those that
    could be issued while blocks wait for the loads of one step after the other."""
    spec = plan.spec
    options: FilterGradientOptions = plan.options
    made: FilterGradientNumbers = plan.numbers
    if options.form is Form.TILES:
        tiles = made.filter_tiles * made.column_tiles * spec.groups
        steps, chip = -(-shape.n * shape.p * shape.q // TILE_PIXELS), spec.hardware.multiprocessors
        rounds = -(-tiles * options.chunks // (BLOCKS_TILES * chip))
        waiting = rounds * -(-steps // options.chunks) * H200_LATENCY * H200_CLOCK
        return TILES_PACE * max(tiles * steps * 8 * (16 * TILE_PIXELS * 1.6 + 120), waiting * QUARTERS * chip)
    per = plan.cost.fma + 3 * plan.cost.warp_loads + 30
    tiles = shape.n * -(-shape.p // options.rows) * -(-shape.q // options.columns)
    taps = made.tap_tiles[0] * made.tap_tiles[1]
    return taps * spec.k / (made.lanes if spec.layout is Layout.NHWC else 32) * tiles * per


ALGORITHM = Algorithm(name="filter_gradient",
                      summary="the filter's gradient, summed over batch and pixels in a fixed order",
                      options=FilterGradientOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, leaner=leaner, operation=Operation.FILTER_GRADIENT)
