"""``volume``: layers of three spatial axes. A block walks along the depth and holds a tile of each plane in shared
memory once; the plane is added to all outputs whose windows have it, which wait in registers until they are complete.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES, PORTABLE_SHARED, QUARTERS
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.arguments import demanding, layer_arguments
from warpconv.codegen.parts.occupancy import blocks_refusal, held_blocks, largest_divisor, step_registers
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal, integer_border
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import PIXELS, ConvShape
from warpconv.codegen.spec import KernelSpec, Numerics

from .lanes import (HELD_REGISTERS, MANY_TAPS, LanesNumbers, as_held, lane_demands, lane_registers, lanes_numbers,
                    lanes_refusal, team_of)
from .numbers import (LoopsNumbers, MarchNumbers, load_demands, load_vectors, march_numbers, past_registers,
                      registers_of, slots_of, vectors_refusal)
from .options import Form, TapRows, VolumeOptions

THREADS = 256
FEWER_THREADS = 128         # where registers hold no two blocks of THREADS: while one waits, another adds
MOST_SUMS = 80              # of a thread
MOST_PRODUCTS = 4096        # in the text, for one plane
MOST_COPIES = 32            # of a thread, that go through registers
MOST_WEIGHTS = 4096         # of a block, in shared memory
MOST_REGISTERS = 200
LANE_REGISTERS = 150
WIDE_REGISTERS = 136        # of lanes with strides or many taps, whose patches have many rows and columns
BLOCKS_EACH = 8             # that a multiprocessor shall have, one after the other
PLANES_EACH = 8             # of a chunk, for each that it reads beside its own
# Dense layers of volumes, 17 of them in float16 and float32 (an H100, 2026-11-26): slots of a product of `loops`, and
# times as long as its instructions `march` takes
LOOP_SLOTS = {Layout.NCHW: 12, Layout.NHWC: 40}
MARCH_PACE = 2.2
# warps of a quarter at which layers with strides lose no slots: 4 -> 32 channels on 64^3 with stride 2 have half of
# one, and take three times as long (H200, 2026-11-26). Of stride 1 none was measured with so few.
FULL_WARPS = 1.5
TILES = ((4, 4), (2, 4), (1, 4), (1, 2), (1, 1))        # rows and columns of a thread, the best first,
LANE_TILES = TILES[0], TILES[1], (1, 8), *TILES[2:]     # and of a team of lanes,
LOOP_TILES = TILES[2:]                                  # of which a loop goes through the rows of
LANE_WARPS, LEAST_COLUMNS = 1.9, 2                      # warps of a quarter that tiles are taken for, columns of those
LOOP_REGISTERS = 12                                     # besides those of its sums and pixels
MOST_TAPS_AHEAD = 16        # of a plane: beyond, rows are loaded one by one, which takes no longer (28 layers, an H200)


def supports(spec: KernelSpec) -> str | None:
    return common_refusal(spec, dtypes=FLOATS + PIXELS, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS,
                          numerics=(Numerics.FLOAT32, Numerics.INT32), mixed=True, residual=True,
                          spatial=(3,)) or integer_border(spec)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> VolumeOptions:
    """The largest tile of a thread whose sums stay in registers; a block as wide as rows are; the depth in chunks where
    a large GPU had too little to do."""
    loops = VolumeOptions(form=Form.LOOPS, block_size_x=THREADS, block_size_y=1)
    if spec.layout is Layout.NHWC:
        return _lanes(spec, shape) or loops
    stages = 3 if past_registers(spec) else 2
    k_tile = largest_divisor(spec.filters, max(1, min(4, MOST_SUMS // (8 * slots_of(spec)))))
    for rows, columns in TILES:
        for threads in (THREADS, FEWER_THREADS):
            width, height = block_of(rows, columns, threads, shape)
            found = VolumeOptions(form=Form.MARCH, block_size_x=width, block_size_y=height, rows=rows, columns=columns,
                                  k_tile=k_tile, stages=stages, load_vector=load_vectors(spec, shape))
            if _refusal(spec, found) is None and (threads < THREADS or _blocks(spec, found) > 1):
                return replace(found, chunks=_chunks(spec, found, shape), vector=_vector(spec, found, shape))
    return loops


def _lanes(spec: KernelSpec, shape: ConvShape | None) -> VolumeOptions | None:
    """The largest tile of a team with which the chip's quarters have LANE_WARPS each, else the smallest of two columns:
    64 channels, 5x5x5 with stride 2 on 16 x 28^2, four images, float32, take 15.6 us for 87 by tiles of 4 x 4, in
    float16 15.2 for 36.8; 3x3x3 with stride 2 on 56^2 18.5 for 28.2 (28 layers, an H200, 2026-12-01)."""
    lanes, teams, vector = team_of(spec)
    taken = None
    for rows, columns in LANE_TILES[vector - 1:]:       # the largest is too large for two channels
        found = VolumeOptions(form=Form.LANES, block_size_x=lanes, block_size_y=teams, rows=rows, columns=columns,
                              lane_vector=vector)
        if _refusal(spec, found) is not None:
            continue
        if taken is not None and columns < LEAST_COLUMNS:
            break
        taken = found
        quarters = QUARTERS * spec.hardware.multiprocessors
        if shape is None or _warps_of_lanes(spec, found, shape) >= LANE_WARPS * quarters:
            break
    return taken and replace(taken, chunks=_chunks_of_lanes(spec, taken, shape))


def _warps_of_lanes(spec: KernelSpec, options: VolumeOptions, shape: ConvShape) -> float:
    """That have work, where no depth is cut."""
    teams = -(-spec.k // (options.block_size_x * options.lane_vector))
    tiles = -(-shape.p // options.rows) * -(-shape.q // options.columns)
    return assumed_batch(shape) * tiles * teams * options.block_size_x / LANES


def _chunks_of_lanes(spec: KernelSpec, options: VolumeOptions, shape: ConvShape | None) -> int:
    """A power of two, of which a call takes as few as leave no team idle."""
    if shape is None:
        return 1
    made = lanes_numbers(spec, options, spec.taps)
    tiles = -(-shape.q // options.columns) * -(-shape.p // options.rows) * -(-spec.k // made.team_channels)
    wanted = BLOCKS_EACH * spec.hardware.multiprocessors * made.teams // tiles
    most = shape.depths[1] // max(PLANES_EACH, PLANES_EACH * (made.slots - 1))
    return 1 << max(1, min(wanted, most)).bit_length() - 1


def block_of(rows: int, columns: int, threads: int, shape: ConvShape | None) -> tuple[int, int]:
    width = 32
    while shape is not None and width > 4 and width // 2 * columns >= shape.q:
        width //= 2
    height = threads // width
    while shape is not None and height * width > 2 * LANES and height // 2 * rows >= shape.p:
        height //= 2
    return width, height


def _blocks(spec: KernelSpec, options: VolumeOptions) -> int:
    """Blocks that a multiprocessor holds."""
    made = march_numbers(spec, options)
    return held_blocks(spec.hardware, registers_of(spec, options, made), made.tile.threads, made.shared_bytes)


def _chunks(spec: KernelSpec, options: VolumeOptions, shape: ConvShape | None) -> int:
    """A power of two, so that depths which are near share a kernel."""
    if shape is None:
        return 1
    tiles = -(-shape.q // (options.block_size_x * options.columns)) * -(
        -shape.p // (options.block_size_y * options.rows))
    wanted = BLOCKS_EACH * spec.hardware.multiprocessors // max(1, tiles * spec.k // options.k_tile)
    most = shape.depths[1] // max(PLANES_EACH, PLANES_EACH * (slots_of(spec) - 1))
    return 1 << max(1, min(wanted, most)).bit_length() - 1


def _vector(spec: KernelSpec, options: VolumeOptions, shape: ConvShape | None) -> int:
    whole = spec.y_dtype.is_float and shape is not None and shape.q % options.columns == 0
    return options.columns if whole else 1


def plan(spec: KernelSpec, options: VolumeOptions) -> KernelPlan:
    refusal = _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    made = {Form.MARCH: _plan_march, Form.LANES: _plan_lanes, Form.LOOPS: _plan_loops}[options.form](spec, options)
    return replace(made, options=replace(options, min_blocks=made.numbers.min_blocks))


def _plan_march(spec: KernelSpec, options: VolumeOptions) -> KernelPlan:
    made = march_numbers(spec, options)
    registers = registers_of(spec, options, made)
    made = replace(made, min_blocks=options.min_blocks or _blocks(spec, options))
    across, down = options.block_size_x * options.columns, options.block_size_y * options.rows
    arguments = _arguments(spec, options)
    launch = Launch(
        entry=spec.name, block=(made.tile.threads, 1, 1), shared_bytes=made.shared_bytes,
        arguments=tuple(a.name for a in arguments),
        grid=(Blocks(of=Dimension.Q, add=across - 1, per=across, limit=GRID_LIMIT[0]),
              Blocks(of=Dimension.P, add=down - 1, per=down, limit=GRID_LIMIT[1]),
              Blocks(of=Dimension.N, times=made.k_tiles * options.chunks, limit=GRID_LIMIT[2])))
    outputs = options.rows * options.columns * options.k_tile
    products = outputs * spec.reduction
    plural = "s" if options.k_tile > 1 else ""
    loads = made.tile.copies * spec.channels
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("volume/march.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch,)),
        phrase=f"blocks of {options.block_size_x} x {options.block_size_y} threads walk down the planes, each with "
               f"{options.rows} x {options.columns} outputs of {options.k_tile} filter{plural} in {made.slots} output "
               f"planes; {made.shared_bytes} bytes of shared memory a block",
        cost=Cost(unit=f"32 x {outputs} outputs of a plane", warp_loads=loads, shuffles=0, fma=products,
                  registers=registers, direct_loads=products, no_spills=registers <= MOST_REGISTERS))


def _arguments(spec: KernelSpec, options: VolumeOptions) -> tuple[Argument, ...]:
    """The layer's, with what vectors ask of rows and addresses."""
    demands = load_demands(spec, options.load_vector)
    if options.vector > 1:
        demands |= {"Q": options.vector, "y": options.vector * spec.y_dtype.itemsize}
    return demanding(layer_arguments(spec), demands)


def _plan_lanes(spec: KernelSpec, options: VolumeOptions) -> KernelPlan:
    made, loops = lanes_numbers(spec, options, spec.taps), options.tap_rows is TapRows.LOOP
    wide = not loops and (max(spec.stride) > 1 or max(spec.taps) >= MANY_TAPS)
    registers = max(lane_registers(options, made, 1) + LOOP_REGISTERS if loops else lane_registers(options, made, 2),
                    WIDE_REGISTERS if wide else 0) + step_registers(spec, options.rows * options.columns)
    shared = 4 * spec.reduction * made.pitch
    made = replace(as_held(spec, options, made, registers, shared),
                   row_by_row=not loops and math.prod(spec.taps[1:]) > MOST_TAPS_AHEAD)
    demands = lane_demands(spec, options, "x", "y", "residual")
    arguments = demanding(layer_arguments(spec), demands)
    down, across = options.rows, options.columns
    launch = Launch(
        entry=spec.name, block=(made.lanes, made.teams, 1), shared_bytes=shared,
        arguments=tuple(a.name for a in arguments),
        grid=(Blocks(of=Dimension.N, by=(Dimension.P, Dimension.Q), pieces=(down, across), each=options.chunks,
                     add=made.teams - 1, per=made.teams, limit=GRID_LIMIT[0] // (2 * made.teams)),
              Blocks(times=-(-spec.k // made.team_channels), limit=GRID_LIMIT[1]), Blocks()))
    outputs = down * across * options.lane_vector
    looped = ", row after row of taps" if loops else ""
    channels = "2 channels" if options.lane_vector == 2 else "a channel"
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("volume/lanes.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch,)),
        phrase=f"teams of {made.lanes} lanes with {channels} each walk down the planes, each with {down} "
               f"x {across} outputs in {made.slots} output planes{looped}, {made.teams} teams a block",
        cost=Cost(unit=f"32 x {outputs} outputs of a plane", shuffles=0, fma=outputs * spec.reduction,
                  warp_loads=_rows_loaded(spec, options, made) * made.columns_read, registers=registers,
                  direct_loads=outputs * spec.reduction,
                  no_spills=registers <= WIDE_REGISTERS and max(spec.taps) < MANY_TAPS and options.lane_vector == 1))


def _rows_loaded(spec: KernelSpec, options: VolumeOptions, made: LanesNumbers) -> int:
    """Of x, for a plane's taps."""
    return spec.r * options.rows if options.tap_rows is TapRows.LOOP else made.rows_read


def _plan_loops(spec: KernelSpec, options: VolumeOptions) -> KernelPlan:
    threads = options.block_size_x * options.block_size_y
    arguments = layer_arguments(spec)
    launch = Launch(entry=spec.name, block=(threads, 1, 1), arguments=tuple(a.name for a in arguments), grid=(
        Blocks(of=Dimension.N, by=(Dimension.Z, Dimension.P, Dimension.Q), each=spec.k, add=threads - 1, per=threads,
               limit=GRID_LIMIT[0]), Blocks(), Blocks()))
    return KernelPlan(
        spec=spec, options=options, numbers=LoopsNumbers(threads=threads), templates=("volume/loops.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch,)),
        phrase=f"a thread for each output, every tap loaded, {threads} threads a block",
        cost=Cost(unit="32 outputs", warp_loads=spec.reduction, shuffles=0, fma=spec.reduction, registers=40,
                  direct_loads=spec.reduction))


def _refusal(spec: KernelSpec, options: VolumeOptions) -> str | None:
    threads = options.block_size_x * options.block_size_y
    refusal = supports(spec) or blocks_refusal(spec, threads, options.min_blocks)
    if refusal is not None or options.form is Form.LANES:
        return refusal or _lanes_refusal(spec, options)
    if refusal is None and (not LANES <= threads <= BLOCK_THREADS or threads % LANES):
        refusal = f"a block of {threads} threads (whole warps, {LANES} to {BLOCK_THREADS} are possible)"
    if refusal is not None or options.form is Form.LOOPS:
        return refusal
    if spec.layout is not Layout.NCHW:
        return "form = march is of volumes whose channels lie apart (NCDHW); form = loops serves the others"
    if spec.filters % options.k_tile:
        return f"k_tile = {options.k_tile} does not divide K/groups = {spec.filters}"
    if options.columns not in (1, 2, 4) or options.vector not in (1, options.columns):
        return f"columns = {options.columns}, vector = {options.vector}: 1, 2 or 4, and as many or 1"
    if options.vector > 1 and not spec.y_dtype.is_float:
        return f"vector = {options.vector}: outputs of {spec.y_dtype.value} are stored one by one"
    refusal = vectors_refusal(spec, options.load_vector)
    if refusal is not None:
        return refusal
    made: MarchNumbers = march_numbers(spec, options)
    sums = made.slots * options.rows * options.columns * options.k_tile
    products = options.rows * options.columns * options.k_tile * spec.reduction // spec.channels
    if sums > MOST_SUMS:
        return f"{sums} sums of a thread would not stay in registers (at most {MOST_SUMS})"
    if products > MOST_PRODUCTS:
        return f"{products} products in the text (at most {MOST_PRODUCTS})"
    if options.k_tile * spec.reduction > MOST_WEIGHTS:
        return f"{options.k_tile * spec.reduction} weights of a block (at most {MOST_WEIGHTS})"
    if options.stages < 2 or (options.stages > 2 and not made.tile.past_registers):
        return f"stages = {options.stages} (2; more of float32, from sm_80 on)"
    if not made.tile.past_registers and made.tile.copied > MOST_COPIES:
        return f"{made.tile.copied} elements on their way in a thread (at most {MOST_COPIES})"
    most = min(PORTABLE_SHARED, spec.hardware.shared_block)
    if made.shared_bytes > most:
        return f"{made.shared_bytes} bytes of shared memory (at most {most})"
    return None


def _lanes_refusal(spec: KernelSpec, options: VolumeOptions) -> str | None:
    refusal = lanes_refusal(spec, options)
    if refusal is not None:
        return refusal
    made, loops = lanes_numbers(spec, options, spec.taps), options.tap_rows is TapRows.LOOP
    registers = lane_registers(options, made, 1 if loops else 2)
    products = options.rows * options.columns * options.lane_vector * spec.reduction // (spec.r if loops else 1)
    shared, most = 4 * spec.reduction * made.pitch, min(PORTABLE_SHARED, spec.hardware.shared_block)
    held = LANE_REGISTERS if max(spec.taps) < MANY_TAPS else HELD_REGISTERS
    if registers > held:
        return f"{registers} registers of a thread (at most {held})"
    if products > MOST_PRODUCTS:
        return f"{products} products in the text (at most {MOST_PRODUCTS})"
    if shared > most:
        return f"{shared} bytes of shared memory (at most {most})"
    return None


def leaner(spec: KernelSpec, options: VolumeOptions) -> VolumeOptions | None:
    """``lanes`` with a loop over rows of taps, of tiles of one row."""
    if options.form is not Form.LANES or options.tap_rows is TapRows.LOOP:
        return None
    tiles = (replace(options, rows=rows, columns=columns, tap_rows=TapRows.LOOP, min_blocks=DERIVED)
             for rows, columns in LOOP_TILES if columns <= options.columns)
    return next((found for found in tiles if _refusal(spec, found) is None), None)


def space(spec: KernelSpec) -> Iterable[VolumeOptions]:
    own = defaults(spec)
    if own.form is Form.LOOPS:
        return [replace(own, block_size_x=threads) for threads in (64, 128, 256, 512)]
    if own.form is Form.LANES:
        return [options for rows, columns in LANE_TILES for teams in {own.block_size_y, 2 * own.block_size_y}
                for chunks in (1, 2, 4, 8) for vector in {1, own.lane_vector}
                for tap_rows in (TapRows if spec.r >= MANY_TAPS else (own.tap_rows,))
                if _refusal(spec, options := replace(own, rows=rows, columns=columns, block_size_y=teams, chunks=chunks,
                                                     lane_vector=vector, tap_rows=tap_rows)) is None]
    found = [replace(own, rows=rows, columns=columns, block_size_x=width, block_size_y=threads // width, chunks=chunks,
                     k_tile=k_tile, vector=vector, load_vector=load, stages=stages)
             for rows, columns in TILES[:3] for width in (8, 16, 32) for threads in (128, 256)
             for chunks in (1, 4, 8, 16, 32) for k_tile in (1, 2, 4) if spec.filters % k_tile == 0
             for vector in {1, columns} for load in {1, own.load_vector}
             for stages in ((2, 3, 4) if past_registers(spec) else (2,))]
    return [options for options in found if _refusal(spec, options) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Issue slots: of ``march`` products, loads from shared memory and copies of each plane; of ``loops`` two loads
    with their guards for each product, whose lanes wait for what lies far apart."""
    outputs = shape.n * shape.k * shape.depths[1] * shape.p * shape.q
    if plan.options.form is Form.LOOPS:
        return outputs / 32 * (40 + LOOP_SLOTS[shape.layout] * shape.reduction)
    options: VolumeOptions = plan.options
    if options.form is Form.LANES:
        lanes: LanesNumbers = plan.numbers
        loads = 5 * _rows_loaded(plan.spec, options, lanes) * lanes.columns_read / (options.rows * options.columns)
        return outputs / 32 * (shape.reduction * 1.25 + (20 + loads) / options.lane_vector)
    made: MarchNumbers = plan.numbers
    each = options.rows * options.columns * options.k_tile
    reads = plan.spec.r * options.rows * (made.tile.patch_columns - 3 * made.tile.vectors) * shape.channels
    planes = outputs / 32 / each * (plan.spec.stride[0] + (made.slots - 1) * options.chunks / shape.depths[1])
    copies = 4 * made.tile.copies * shape.channels
    strided = max(plan.spec.stride) > 1
    few = max(1.0, FULL_WARPS / _warps_of_quarter(plan, shape)) if strided else 1.0
    return few * MARCH_PACE * (outputs / 32 * shape.reduction + planes * (30 + reads + copies) + outputs / 32 * 4)


def _warps_of_quarter(plan: KernelPlan, shape: ConvShape) -> float:
    """Of a multiprocessor, where the chip has all blocks of ``march`` at a time."""
    launch = plan.program.steps[0]
    assert isinstance(launch, Launch)
    return math.prod(launch.grid_of(shape)) * math.prod(launch.block) / LANES / (
        QUARTERS * plan.spec.hardware.multiprocessors)


ALGORITHM = Algorithm(name="volume", summary="volumes: a block walks along the depth, each plane is read about once",
                      options=VolumeOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, leaner=leaner, spatial=(3,))
