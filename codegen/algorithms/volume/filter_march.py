"""``volume_filter``, form march: sizes, what does not go together, and defaults."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES, PORTABLE_SHARED
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.occupancy import held_blocks
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .filter_options import FilterGradientOptions
from .numbers import (TileNumbers, copy_registers, load_vectors, past_registers, tile_numbers, vectors_refusal)
from .options import Form
from .plan import MOST_COPIES, MOST_PRODUCTS, block_of

MOST_SUMS = 64              # of a thread,
SUMS_OF_PLANES = 32         # and with taps of several planes: more, for fewer passes over the input, are no quicker
MOST_GRADIENTS = 64         # outputs of all planes that are in its registers
MOST_REGISTERS = 168
PLANES_EACH = 8             # of a piece, for each that it reads beside its own
UNKNOWN = 64                # planes, rows and columns of a volume whose size is not known,
MOST_BATCH = 16             # and volumes of a batch that have a chunk each
TILES = ((2, 4), (1, 4), (1, 2), (1, 1))        # rows and columns of a thread, the best first


@dataclass(frozen=True)
class FilterMarchNumbers:
    """What the template of ``march`` writes besides spec and options."""

    tile: TileNumbers
    slots: int                      # planes of outputs that meet a plane of the input, or come before
    tap_tiles: tuple[int, int, int]     # of taps, along each axis
    elements: int
    shared_bytes: int
    min_blocks: int


def march_numbers(spec: KernelSpec, options: FilterGradientOptions) -> FilterMarchNumbers:
    tile = tile_numbers(spec, options, options.tap_rows)
    reach = (options.tap_planes - 1) * spec.dilation[0] + 1
    made = FilterMarchNumbers(
        tile=tile, slots=-(-reach // spec.stride[0]), elements=spec.k * spec.reduction, min_blocks=1,
        tap_tiles=(-(-spec.taps[0] // options.tap_planes), -(-spec.taps[1] // options.tap_rows), 1),
        shared_bytes=4 * options.stages * tile.floats)
    held = held_blocks(spec.hardware, registers_of(spec, options, made), tile.threads,
                       made.shared_bytes + _sums_bytes(options, tile))
    return replace(made, min_blocks=options.min_blocks or held)


def _sums_bytes(options: FilterGradientOptions, tile: TileNumbers) -> int:
    """Shared memory in which the warps' sums meet."""
    return 4 * tile.threads // LANES * options.tap_planes * options.tap_rows * options.tap_columns


def registers_of(spec: KernelSpec, options: FilterGradientOptions, made: FilterMarchNumbers) -> int:
    """Planned registers of a thread: sums, outputs of all planes and of the next, the patch's row, copies on their
    way."""
    outputs = options.rows * options.columns
    sums = options.tap_planes * options.tap_rows * options.tap_columns
    return (34 + sums + made.slots * outputs + outputs * spec.dtype.itemsize // 4 + made.tile.patch_columns
            + copy_registers(spec, made.tile))


def march_refusal(spec: KernelSpec, options: FilterGradientOptions) -> str | None:
    """Why these plan values do not go together, or not with this layer."""
    threads = options.block_size_x * options.block_size_y
    if not LANES <= threads <= BLOCK_THREADS or threads % LANES:
        return f"a block of {threads} threads (whole warps, {LANES} to {BLOCK_THREADS} are possible)"
    if spec.layout is not Layout.NCHW:
        return "form = march is of volumes whose channels lie apart (NCDHW); form = loops serves the others"
    if options.tap_columns != spec.s:
        return f"tap_columns = {options.tap_columns}: form = march sums all {spec.s} columns of a filter's row"
    if options.columns not in (1, 2, 4) or options.vector not in (1, options.columns):
        return f"columns = {options.columns}, vector = {options.vector}: 1, 2 or 4, and as many or 1"
    refusal = vectors_refusal(spec, options.load_vector)
    if refusal is not None:
        return refusal
    made = march_numbers(spec, options)
    sums = options.tap_planes * options.tap_rows * options.tap_columns
    outputs = options.rows * options.columns
    if sums > MOST_SUMS:
        return f"{sums} sums would not stay in registers (at most {MOST_SUMS})"
    if made.slots * outputs > MOST_GRADIENTS:
        return f"{made.slots * outputs} outputs would not stay in registers (at most {MOST_GRADIENTS})"
    if sums * outputs > MOST_PRODUCTS:
        return f"{sums * outputs} products in the text (at most {MOST_PRODUCTS})"
    if options.stages < 2 or (options.stages > 2 and not made.tile.past_registers):
        return f"stages = {options.stages} (2; more of float32, from sm_80 on)"
    if not made.tile.past_registers and made.tile.copied > MOST_COPIES:
        return f"{made.tile.copied} elements on their way in a thread (at most {MOST_COPIES})"
    most = min(PORTABLE_SHARED, spec.hardware.shared_block) - _sums_bytes(options, made.tile)
    if made.shared_bytes > most:
        return f"{made.shared_bytes} bytes of shared memory (at most {most})"
    if made.tap_tiles[0] * made.tap_tiles[1] > GRID_LIMIT[2]:
        return f"a filter of {max(spec.taps)} taps along an axis"
    return None


def march_options(spec: KernelSpec, shape: ConvShape | None) -> FilterGradientOptions | None:
    """The largest tile of outputs whose sums stay in registers, or None where the layer has none."""
    rows, planes = shares(spec)
    for tile_rows, columns in TILES:
        for threads in (128, 256):
            width, height = block_of(tile_rows, columns, threads, shape)
            found = FilterGradientOptions(
                form=Form.MARCH, tap_planes=planes, tap_rows=rows, tap_columns=spec.s, block_size_x=width,
                block_size_y=height, rows=tile_rows, columns=columns, stages=3 if past_registers(spec) else 2,
                vector=columns if shape is not None and shape.q % columns == 0 else 1,
                load_vector=load_vectors(spec, shape))
            if march_refusal(spec, found) is not None:
                continue
            made = march_numbers(spec, found)
            if registers_of(spec, found, made) <= MOST_REGISTERS and made.min_blocks * made.tile.threads >= 256:
                return _shared_out(spec, found, made, shape)
    return None


def shares(spec: KernelSpec, vector: int = 1) -> tuple[int, int]:
    """Rows and planes of taps that a thread sums, of so many channels: equal shares of the filter's."""
    def share(taps: int, most: int) -> int:
        return -(-taps // -(-taps // max(1, min(taps, most))))

    rows = share(spec.taps[1], MOST_SUMS // (spec.s * vector))
    return rows, share(spec.taps[0], SUMS_OF_PLANES // (spec.s * rows))


def _shared_out(spec: KernelSpec, options: FilterGradientOptions, made: FilterMarchNumbers,
                shape: ConvShape | None) -> FilterGradientOptions:
    tile = options.block_size_y * options.rows, options.block_size_x * options.columns
    beside = spec.k * spec.channels * made.tap_tiles[0] * made.tap_tiles[1]
    return shared_out(options, shape, tile, made.slots, made.min_blocks * spec.hardware.multiprocessors // beside)


def shared_out(options: FilterGradientOptions, shape: ConvShape | None, tile: tuple[int, int], slots: int, wanted: int,
               teams: int = 1) -> FilterGradientOptions:
    """With the outputs in as many chunks as are ``wanted``, each of so many ``teams`` with a ``tile`` of a plane; a
    call cuts the depth in as few pieces as keep all at work."""
    z, p, q = (UNKNOWN, UNKNOWN, UNKNOWN) if shape is None else (shape.depths[1], shape.p, shape.q)
    tiles = -(-p // tile[0]) * -(-q // tile[1])
    most = max(1, z // (PLANES_EACH * max(1, slots - 1)))
    chunks = max(1, min(wanted, MOST_BATCH * tiles * most // teams, partial_sums.MOST_CHUNKS))
    return replace(options, chunks=chunks, pieces=1 << most.bit_length() - 1)        # near depths share a kernel
