"""Plan values of ``toeplitz_nhwc``, and every number and name that its template writes."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts import cells
from warpconv.codegen.parts.tile_borders import ToeplitzBorder, make_border
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.spec import KernelSpec

CHUNK = 8                     # channels of a chunk: 16 bytes of a pixel
CHUNK_PAIRS = 4
TILE_ROWS, TILE_COLUMNS = 2, 4    # pixels of a tile, of the output and of the input: eight
PLACES = 8                    # tiles of one matrix instruction
BANKS_OF_CHUNKS = 8           # chunks of 16 bytes in one pass over the banks


class Matrix(enum.Enum):
    """How a matrix instruction gets its filters, half of whose elements are zero: channel 0 meets none of channel 1."""

    SPARSE = "sparse"        # instructions for matrices with two zeros in every four: two input tiles at a time
    DENSE = "dense"          # words of two channels, taken apart before every instruction


@dataclass(frozen=True)
class ToeplitzNhwcOptions:
    """Plan values. A warp makes a row of eight tiles, 2 rows by 4 columns each, of ``pairs`` pairs of channels;
    ``warps`` such warps lie side by side, and a block has ``chunks`` chunks of eight channels. It makes ``columns``
    columns of ``across`` images, goes down ``sub_block_rows`` rows, ``turn`` rows of tiles between two barriers, and
    does so ``images`` times, for further images. ``buffers`` turns of input lie in shared memory. The compiler leaves
    registers for ``min_blocks`` blocks."""

    pairs: int = 2
    chunks: int = 4
    warps: int = 1
    columns: int = 32
    across: int = 1
    turn: int = 1
    buffers: int = 4
    sub_block_rows: int = 64
    images: int = 1
    weights: Weights = Weights.REGISTERS
    matrix: Matrix = Matrix.SPARSE
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class ToeplitzNhwcNumbers:
    """What the template writes; distances in shared memory in chunks of 16 bytes unless it says otherwise."""

    threads: int
    parts: int                   # warps that share a chunk's channels
    block_rows: int              # rows of input tiles that an output tile needs
    block_columns: int
    filter_rows: int             # of a filter between zeros
    filter_pitch: int            # words of one row of it
    unit_words: int              # words of a channel's filter (dense: of a pair's)
    filter_words: int            # of a block's
    shared_elements: int         # of pixels, outputs and filters
    rows: int                    # of a turn
    patch_columns: int           # input columns of an image
    copied_columns: int          # of all images across
    pitch: int                   # pixels from one row to the next
    tile_reads: tuple[tuple[int, int], ...]     # of an input tile: which of a lane's pointers, and chunks beyond
    permuted: bool               # a pixel's chunks have places that depend on the pixel
    buffer: int                  # from one turn to the next
    patch: int                   # of all turns
    copies: int                  # of a turn
    copy_rounds: int             # of a thread
    copies_cut: bool             # whether not every thread takes part in the last
    out_row: int                 # output pixels that a block stores of a row
    out_pitch: int
    out_stride: int
    out_buffer: int
    stores: int                  # of a turn
    store_rounds: int
    stores_cut: bool
    lag: int                     # output rows of a turn begin so many before its first input row's
    channel_groups: int          # groups of chunks
    cut: bool                    # whether the last group has fewer chunks
    total_chunks: int
    joins: tuple[tuple[int, ...], ...]   # columns of blocks of one instruction
    sparse: bool
    border: ToeplitzBorder

    @property
    def shared_bytes(self) -> int:
        return 2 * self.shared_elements + (0 if self.sparse else 4)

    @property
    def instructions(self) -> int:
        """Matrix instructions of a pair for a row of tiles."""
        return self.block_rows * len(self.joins)

    def word_offset(self, row: int, column: int, pair: int, i: int) -> int:
        """Words from where a lane's begin to word ``i`` of a pair for a block of its filters."""
        block = TILE_ROWS * row * self.filter_pitch + TILE_COLUMNS * column
        if self.sparse:
            return block + (2 * pair + i) * self.unit_words
        return block + pair * self.unit_words + i * self.filter_pitch


def block_counts(spec: KernelSpec) -> tuple[int, int]:
    """Input tiles, down and across, that an output tile needs."""
    return -(-(spec.r + TILE_ROWS - 1) // TILE_ROWS), -(-(spec.s + TILE_COLUMNS - 1) // TILE_COLUMNS)


def filter_pitch(columns: int) -> int:
    """Words of a padded filter row: two rows that are read together meet in no bank."""
    pitch = columns
    while not 7 <= pitch % 32 <= 25:
        pitch += 1
    return pitch


def spread(chunks: int, size: int) -> int:
    """The least stride of ``size`` or more at which neighbouring chunks of a pixel lie in different banks."""
    while chunks > 1 and size % BANKS_OF_CHUNKS != max(1, BANKS_OF_CHUNKS // chunks) % BANKS_OF_CHUNKS:
        size += 1
    return size


def make_numbers(spec: KernelSpec, options: ToeplitzNhwcOptions) -> ToeplitzNhwcNumbers:
    parts = CHUNK_PAIRS // options.pairs
    threads = LANES * parts * options.chunks * options.warps
    block_rows, block_columns = block_counts(spec)
    rows = TILE_ROWS * options.turn
    patch_columns = options.columns + (block_columns - 1) * TILE_COLUMNS
    copied = options.across * patch_columns
    pitch = cells.whole(copied)
    buffer = rows * pitch * options.chunks
    copies = rows * copied * options.chunks
    out_row = options.across * options.columns
    out_pitch = options.warps * PLACES * TILE_COLUMNS
    out_stride = spread(options.chunks, rows * out_pitch)
    stores = rows * out_row * options.chunks
    rows_of_filter = TILE_ROWS * block_rows + 1
    words = filter_pitch(TILE_COLUMNS * block_columns + 3)
    unit_words = rows_of_filter * words
    sparse = options.matrix is Matrix.SPARSE
    units = options.chunks * (CHUNK if sparse else CHUNK_PAIRS)
    joined = 2 if sparse else 1
    total = spec.c // CHUNK
    out_buffer = options.chunks * out_stride
    pixels, filters = CHUNK * (options.buffers * buffer + 2 * out_buffer), 2 * unit_words * units
    shared = max(pixels, filters) if options.weights is Weights.REGISTERS else pixels + filters
    return ToeplitzNhwcNumbers(
        threads=threads, parts=parts, block_rows=block_rows, block_columns=block_columns, filter_rows=rows_of_filter,
        filter_pitch=words, unit_words=unit_words, filter_words=unit_words * units, rows=rows,
        patch_columns=patch_columns, copied_columns=copied, pitch=pitch,
        tile_reads=tuple((c % 2, c // 2 * 2 * TILE_COLUMNS * options.chunks) for c in range(block_columns)),
        permuted=cells.are_permuted(options.chunks),
        buffer=buffer, patch=options.buffers * buffer, copies=copies, copy_rounds=-(-copies // threads),
        copies_cut=copies % threads > 0,
        out_row=out_row, out_pitch=out_pitch, out_stride=out_stride, out_buffer=out_buffer, shared_elements=shared,
        stores=stores, store_rounds=-(-stores // threads), stores_cut=stores % threads > 0,
        lag=TILE_ROWS * (block_rows - 1),
        channel_groups=-(-total // options.chunks), cut=total % options.chunks > 0, total_chunks=total,
        joins=tuple(tuple(range(c, min(c + joined, block_columns))) for c in range(0, block_columns, joined)),
        sparse=sparse, border=make_border(spec))


def registers_of(spec: KernelSpec, pairs: int, weights: Weights) -> int:
    """Registers of a lane for filter, sums and input, without the compiler's own."""
    rows, columns = block_counts(spec)
    held = 2 * rows * columns * pairs if weights is Weights.REGISTERS else 4
    return held + 4 * rows * pairs + 2 * columns * pairs
