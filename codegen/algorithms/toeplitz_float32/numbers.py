"""Plan values of ``toeplitz_float32``, and every number that its template writes."""

from __future__ import annotations

import itertools

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.spec import KernelSpec

TILE_ROWS = 16          # output rows of one matrix instruction
HALF_TILE = 8           # output rows of a lane where sums are made anew
BLOCK_COLUMNS = 8       # columns of one matrix of the image, and the output columns of one matrix instruction
BLOCK_WORDS = BLOCK_COLUMNS // 2
CHAIN_BLOCKS = 4        # blocks of eight columns that the tensor cores add up at most, since they cut their sums;
SHORT_CHAIN = 5         # but a whole filter row of up to five blocks (33 taps) is added up
TOGETHER = 2            # tiles whose products are made by turns, small and large ones of each
LEAD_COLUMNS = 4        # a patch begins at a multiple of so many columns of the image
PARTS = {1: ("",), 2: (".x", ".y"), 4: (".x", ".y", ".z", ".w")}      # of what a load gives
ROW_REGISTERS = 32      # elements that a thread has on their way to shared memory, of as many rows as there is room for
# Binary digits that something may be below the largest of its row, or of the filter:
KEPT_DIGITS = 27        # a pixel or a weight, without a loss: low parts are times 2^11
LEFT_DIGITS = 12        # the largest weight that every window has, so that no loss of others matters
MOST_ROW_DIGITS = 30    # a filter row, to have a scale of its own: products of scales have room then


@dataclass(frozen=True)
class ToeplitzFloat32Options:
    """Plan values. A warp makes 16 rows of ``tiles`` times 8 columns at a time, a block of ``warp_columns`` such warps
    side by side ``sub_block_rows`` rows of each of ``images`` images. Loads are of ``vector`` elements, stores of
    ``store_vector``. The compiler leaves registers for ``min_blocks`` blocks."""

    tiles: int = 4
    warp_columns: int = 4
    vector: int = 4
    store_vector: int = 2
    sub_block_rows: int = 128
    images: int = 1
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class Product:
    """One matrix instruction: these blocks of a filter row's banded matrix, two or one, and from which load on which
    of its words are the image's."""

    blocks: tuple[int, ...]
    load: int
    words: tuple[int, ...]

    @property
    def depth(self) -> int:
        return BLOCK_COLUMNS * len(self.blocks)


@dataclass(frozen=True)
class Load:
    """Blocks of eight columns that come from shared memory together, two or one. An instruction of two blocks takes
    them as they were loaded together, so that none is moved."""

    first: int
    blocks: int

    @property
    def words(self) -> range:
        """Of a lane, of each part: two of a block."""
        return range(2 * self.blocks)


@dataclass(frozen=True)
class Factors:
    """Which parts of a pixel and of a weight an instruction multiplies, and the sum that it is added to."""

    sum: str
    pixel: str
    weight: str


@dataclass(frozen=True)
class Round:
    """Tiles whose products are made by turns, so that none waits for its last one; each sum begins at zero. First the
    loads that they need. ``products``: (tile, factors, product)."""

    tiles: tuple[int, ...]
    loads: tuple[Load, ...]
    products: tuple[tuple[int, Factors, Product], ...]


FACTORS = (Factors("small", "low", "high"), Factors("large", "high", "high"), Factors("small", "high", "low"))


@dataclass(frozen=True)
class ToeplitzFloat32Numbers:
    """What the template writes."""

    threads: int
    span: int               # output columns of a block
    warp_span: int          # of a warp
    lead: int               # columns of a patch before those of its first output
    offset: int             # columns of a tile's first block that no output needs
    first_weight: int       # zeros before a filter row's first weight, in its padded row
    slices: int             # blocks of eight columns that a tile needs
    rounds: tuple[Round, ...]
    columns: int            # of a patch
    pitch: int              # of both parts of a row: an odd number of 16 bytes, so that eight rows lie in other banks
    ring: int               # rows of a patch
    row_loads: int          # of a thread for one row
    loaded: tuple[str, ...]     # parts of what a load gives
    rows_at_once: int       # that a warp has on their way
    all_lanes: bool         # whether all of them have as many elements of a row
    copy_words: int         # of one of the two copies of a padded filter row
    row_words: int          # of both
    filter_words: int       # of a filter's high parts; as many have its low ones
    scales_at: int          # where things lie in shared memory, in bytes: scales of a patch's rows,
    limits_at: int          # limits of their sums,
    filter_at: int          # parts of the filter,
    filter_scales_at: int   # scales of its rows,
    ranges_at: int          # and their largest and least magnitudes
    shared_bytes: int
    lone_load: bool         # whether a load has one block
    depths: tuple[int, ...]  # of its matrix instructions
    lost: str               # of a row's largest pixel: what lost digits may come to over its taps, times 2^23
    kept_digits: int        # binary digits, as the constants above have them
    left_digits: int
    most_row_digits: int
    cut_windows: bool       # whether windows reach out of the image, where no pixel of it is
    whole_rows: int         # filter rows in whole eights, by which sums are made anew,
    rows_left: int          # and the others
    skips_rows: bool        # whether filter rows are left out where they meet zeros alone


def slices_of(spec: KernelSpec) -> int:
    """Blocks of eight columns that hold the input of a tile of eight outputs."""
    return -(-(_offset(spec) + BLOCK_COLUMNS - 1 + spec.s) // BLOCK_COLUMNS)


def products_of(slices: int, tile: int = 0) -> tuple[tuple[Product, ...], ...]:
    """Matrix instructions of a filter row for a tile, chain by chain."""
    most = SHORT_CHAIN if slices <= SHORT_CHAIN else CHAIN_BLOCKS
    return tuple(_paired(range(first, min(first + most, slices)), tile, _first_load(slices, tile))
                 for first in range(0, slices, most))


def _first_load(slices: int, tile: int) -> int:
    """Where the loads of a tile begin, two blocks each: an odd number of blocks has one that stands alone, the first or
    the last, so that all tiles share loads; of an even number, odd tiles have loads of their own."""
    return tile % 2 if slices % 2 == 0 else 0


def _paired(blocks: range, tile: int, begin: int) -> tuple[Product, ...]:
    products, at = [], blocks.start
    while at < blocks.stop:
        second = (tile + at - begin) % 2
        together = 1 if second or at + 1 == blocks.stop else 2
        words = tuple(range(2 * second, 2 * (second + together)))
        products.append(Product(tuple(range(at, at + together)), tile + at - second, words))
        at += together
    return tuple(products)


def _lead(spec: KernelSpec) -> int:
    return -(-spec.padding[1][0] // LEAD_COLUMNS) * LEAD_COLUMNS


def _offset(spec: KernelSpec) -> int:
    """Columns of a tile's first block that no output needs."""
    return _lead(spec) - spec.padding[1][0]


def _rounds(tiles: int, slices: int) -> tuple[Round, ...]:
    blocks, loaded, rounds = tiles + slices - 1, set[int](), []
    for first in range(0, tiles, TOGETHER):
        together = tuple(range(first, min(first + TOGETHER, tiles)))
        for chains in zip(*(products_of(slices, tile) for tile in together)):
            needed = sorted({product.load for chain in chains for product in chain} - loaded)
            loaded.update(needed)
            rounds.append(Round(together, tuple(Load(at, min(2, blocks - at)) for at in needed),
                                _by_turns(together, chains)))
    return tuple(rounds)


def _by_turns(tiles: tuple[int, ...],
              chains: tuple[tuple[Product, ...], ...]) -> tuple[tuple[int, Factors, Product], ...]:
    of_tiles = [[(tile, factors, product) for product in chain for factors in FACTORS]
                for tile, chain in zip(tiles, chains)]
    return tuple(made for turn in itertools.zip_longest(*of_tiles) for made in turn if made is not None)


def make_numbers(spec: KernelSpec, options: ToeplitzFloat32Options) -> ToeplitzFloat32Numbers:
    slices = slices_of(spec)
    rounds = _rounds(options.tiles, slices)
    warp_span = options.tiles * BLOCK_COLUMNS
    span = warp_span * options.warp_columns
    columns = span + (slices - 1) * BLOCK_COLUMNS
    pitch = 2 * columns + BLOCK_COLUMNS
    ring = TILE_ROWS + spec.r - 1
    lanes = LANES * options.vector
    row_loads = -(-columns // lanes)
    at_once = max(1, min(ROW_REGISTERS // (row_loads * options.vector), -(-TILE_ROWS // options.warp_columns)))
    copy_words = BLOCK_WORDS * slices + BLOCK_WORDS
    filter_words = 2 * copy_words * spec.r
    scales_at = 2 * ring * pitch
    limits_at = scales_at + 2 * 4 * ring
    filter_at = limits_at + 2 * 4 * ring
    filter_scales_at = filter_at + 2 * 4 * filter_words
    ranges_at = -(-(filter_scales_at + 4 * spec.r) // 8) * 8
    made = [product for turn in rounds for _, _, product in turn.products]
    return ToeplitzFloat32Numbers(
        threads=LANES * options.warp_columns, span=span, warp_span=warp_span, lead=_lead(spec), offset=_offset(spec),
        first_weight=BLOCK_COLUMNS - 1 + _offset(spec), slices=slices, rounds=rounds, columns=columns, pitch=pitch,
        ring=ring, row_loads=row_loads, loaded=PARTS[options.vector], rows_at_once=at_once,
        all_lanes=columns % lanes == 0, copy_words=copy_words, row_words=2 * copy_words, filter_words=filter_words,
        scales_at=scales_at, limits_at=limits_at, filter_at=filter_at, filter_scales_at=filter_scales_at,
        ranges_at=ranges_at, shared_bytes=ranges_at + 8 * spec.r,
        depths=tuple(sorted({product.depth for product in made})),
        lone_load=any(load.blocks == 1 for turn in rounds for load in turn.loads),
        lost=f"{spec.s * 2.0**-KEPT_DIGITS}f",
        kept_digits=KEPT_DIGITS,
        left_digits=LEFT_DIGITS, most_row_digits=MOST_ROW_DIGITS,
        whole_rows=spec.r // HALF_TILE * HALF_TILE, rows_left=spec.r % HALF_TILE,
        cut_windows=not spec.padding_mode.reads_image and spec.padding != ((0, 0), (0, 0)),
        skips_rows=spec.padding_mode is Border.ZEROS and spec.padding[0] != (0, 0))
