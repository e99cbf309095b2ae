"""Plan values of ``toeplitz``, and every number and name that its template writes."""

from __future__ import annotations

import enum

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED, only
from warpconv.codegen.parts.tile_borders import MOST_KEPT, ToeplitzBorder, make_border
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.spec import KernelSpec

TILE_ROWS = 16                # output rows of one matrix instruction
BLOCK_COLUMNS = 8             # columns of one matrix of the image, and the output columns of one matrix instruction
MOST_UNROLLED = 16            # copies of a thread for a band
QUAD = 4                      # lanes that hold one row of a tile


class Walk(enum.Enum):
    """What a team of warps goes through while its filter stays."""

    BANDS = "bands"      # down a strip of one plane, band by band; rows that two bands share stay in a ring
    PLANES = "planes"    # whole planes of image after image, in buffers by turns


class Stores(enum.Enum):
    DIRECT = "direct"    # from the registers
    STAGED = "staged"    # by way of shared memory, a plane as one stretch; walk=planes only


class Way(enum.Enum):
    """Copies of 16 bytes: through the first-level cache, where a neighbour's halo then is, or past it."""

    CA = "ca"
    CG = "cg"


class Begin(enum.Enum):
    """Where tiles begin, in output columns."""

    PLACE = "place"          # at multiples of eight
    SHIFTED = "shifted"      # a few columns before, where a tile then needs fewer blocks; a warp makes one more


@dataclass(frozen=True)
class ToeplitzOptions:
    """Plan values. A warp makes 16 rows of ``tiles`` times 8 columns at a time; ``warp_columns`` x ``warp_rows`` warps
    share a patch, ``warp_planes`` such teams make a block; copies to shared memory are of ``vector`` elements, stores
    of ``store_vector``. walk=bands: a block makes ``sub_block_rows`` rows, those of ``prefetch_bands`` bands are on
    their way while one is computed; ``warp_strips`` teams side by side on each plane. walk=planes: planes of up to
    ``height`` x ``width`` elements, of ``images`` images one after another, in ``buffers``. The compiler leaves
    registers for ``min_blocks`` blocks. ``begin``: where tiles begin."""

    walk: Walk = Walk.BANDS
    tiles: int = 8
    warp_columns: int = 4
    warp_rows: int = 1
    warp_planes: int = 1
    warp_strips: int = 1
    vector: int = 8
    way: Way = only(Way.CG, vector=8)
    prefetch_bands: int = only(1, walk=Walk.BANDS)
    store_vector: int = 8
    stores: Stores = Stores.DIRECT
    weights: Weights = Weights.REGISTERS
    begin: Begin = Begin.SHIFTED
    sub_block_rows: int = only(256, walk=Walk.BANDS)
    height: int = only(DERIVED, walk=Walk.PLANES)
    width: int = only(DERIVED, walk=Walk.PLANES)
    images: int = only(8, walk=Walk.PLANES)
    buffers: int = only(2, walk=Walk.PLANES)
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class MatrixProduct:
    """One matrix instruction for each tile: block ``block``, from where the tile begins, of one filter row or two."""

    rows: tuple[int, ...]
    block: int

    @property
    def depth(self) -> int:
        """Input columns of the instruction, of all its filter rows together."""
        return BLOCK_COLUMNS * len(self.rows)


@dataclass(frozen=True)
class Load:
    """Matrices that come from shared memory together: of these blocks of eight columns, two for each filter row.
    ``products``: the instructions that then have all they need, as (tile, product, block of its input)."""

    blocks: tuple[int, ...]
    matrices: int
    products: tuple[tuple[int, MatrixProduct, int], ...]


@dataclass(frozen=True)
class Step:
    """The filter rows of one round of instructions: two, for eight columns of both of them make the sixteen of an
    instruction, or one. Matrices lie in registers as the instructions take them, so that none is moved."""

    rows: tuple[int, ...]
    loads: tuple[Load, ...]

    @property
    def products(self) -> tuple[MatrixProduct, ...]:
        return tuple(dict.fromkeys(product for load in self.loads for _, product, _ in load.products))


@dataclass(frozen=True)
class Quad:
    """Up to four neighbouring tiles, each with the one after it; ``missing``: words of a store that no tile has."""

    tiles: tuple[tuple[int, int], ...]
    missing: tuple[str, ...]

    @property
    def first(self) -> int:
        return self.tiles[0][0]


@dataclass(frozen=True)
class ToeplitzNumbers:
    """What the template writes; elements of 16 bits unless it says otherwise."""

    threads: int
    team: int                    # threads of a team
    block_span: int              # output columns of a block
    span: int                    # output columns of a team
    band: int                    # output rows of a team at a time
    margin: int                  # image columns before a team's first output column, in its patch
    offset: int                  # columns of a tile's first block that no output needs
    first_weight: int            # zeros before a filter row's first weight, in its padded row
    shift: int                   # columns before its place where a tile begins
    shift_pairs: int             # lanes of a row that hold columns of the tile before it
    made_tiles: int              # tiles of a warp: one more where they are shifted
    slices: int                  # blocks of eight columns that a tile needs
    blocks: int                  # blocks that a warp loads for each filter row
    steps: tuple[Step, ...]
    products: tuple[MatrixProduct, ...]
    patch_columns: int
    pitch: int                   # an odd number of 16 bytes: eight rows lie in different banks
    rows_at_once: int            # that a team copies at once, walk=bands
    idle_copiers: bool           # whether threads of a team have nothing to copy then
    row_copies: int              # of a thread for one row
    copies_unrolled: bool
    rows: int                    # of a team's ring or buffer
    first_rows: int              # that the first band needs
    team_patch: int              # of a team
    patch: int                   # of all of them
    patch_vectors: int           # stores of 16 bytes that fill it
    team_outputs: int            # of a team's plane on its way out, stores=staged
    outputs: int                 # of all of them
    plane_groups: int            # groups of output planes of an image, walk=planes
    cut: bool                    # whether the last group has fewer planes
    warp_span: int               # output columns of a warp
    cell: int                    # of a lane's store of one row of a tile
    copy_bytes: int              # of a copy to shared memory
    copy_columns: int            # columns of a row that are copied
    copy_chunks: int             # copies for them
    copy_words: int              # words of one of the two copies of a padded filter row
    row_words: int               # of both
    filter_words: int            # of a plane's filter
    quads: tuple[Quad, ...]      # tiles whose rows are regrouped together
    most_rows: int               # output rows and columns that walk=planes has room for
    most_columns: int
    border: ToeplitzBorder
    held: int                    # elements outside that a thread loads together; 0: a loop copies them
    places_kept: bool            # whether their places stay in registers, walk=bands
    held_first: int              # of the first band
    held_rows: int               # rows that a team has one element each of, walk=bands
    outside_rows: int            # copies of a thread in a plane's rows outside; 0: a loop makes them

    @property
    def regrouped(self) -> str:
        """Words of a store from the shifted places' own: lane ``shift_pairs`` has a place's first columns."""
        return "".join("xyzw"[(self.shift_pairs + i) % 4] for i in range(4))

    @property
    def two_matrices(self) -> bool:
        """Whether a load of one filter row has one block only."""
        return any(len(step.rows) * len(load.blocks) == 1 for step in self.steps for load in step.loads)

    @property
    def shared_bytes(self) -> int:
        return 2 * (self.patch + self.outputs) + 4 * self.filter_words


def shift_of(spec: KernelSpec, begin: Begin = Begin.SHIFTED) -> int:
    """Columns before their place where tiles begin, so that a tile needs as few blocks as can be."""
    return min((0, 2, 4, 6) if begin is Begin.SHIFTED else (0,), key=lambda shift: (_slices(spec, shift), shift))


def slices_of(spec: KernelSpec, begin: Begin = Begin.SHIFTED) -> int:
    """Blocks of eight columns that hold the input of a tile of eight outputs."""
    return _slices(spec, shift_of(spec, begin))


def _slices(spec: KernelSpec, shift: int) -> int:
    offset = -(shift + spec.padding[1][0]) % BLOCK_COLUMNS
    return -(-(offset + BLOCK_COLUMNS - 1 + spec.s) // BLOCK_COLUMNS)


def steps_of(spec: KernelSpec, tiles: int, slices: int) -> tuple[Step, ...]:
    """Filter rows by twos, the last alone if their number is odd; a load has four matrices of 8 x 8, two of a row."""
    steps = []
    for first in range(0, spec.r, 2):
        rows = tuple(range(first, min(first + 2, spec.r)))
        at_once = 2 // len(rows)
        loads = []
        for at in range(0, tiles + slices - 1, at_once):
            blocks = tuple(range(at, min(at + at_once, tiles + slices - 1)))
            done = tuple((block - s, MatrixProduct(rows, s), block) for block in blocks for s in range(slices)
                         if 0 <= block - s < tiles)
            loads.append(Load(blocks, 2 * len(rows) * len(blocks), done))
        steps.append(Step(rows, tuple(loads)))
    return tuple(steps)


def filter_registers(spec: KernelSpec, begin: Begin = Begin.SHIFTED) -> int:
    """Registers of the banded filter matrix, a word for each slice."""
    return spec.r * slices_of(spec, begin)


def _quad(first: int, end: int) -> Quad:
    return Quad(tuple((tile, tile + 1) for tile in range(first, end)), ("0u",) * (QUAD - (end - first)))


def make_numbers(spec: KernelSpec, options: ToeplitzOptions) -> ToeplitzNumbers:
    team = options.warp_columns * options.warp_rows
    teams = options.warp_planes * options.warp_strips
    shift, slices = shift_of(spec, options.begin), slices_of(spec, options.begin)
    margin = -(-(spec.padding[1][0] + shift) // BLOCK_COLUMNS) * BLOCK_COLUMNS
    made_tiles = options.tiles + (shift > 0)
    span = options.tiles * BLOCK_COLUMNS * options.warp_columns
    band = TILE_ROWS * options.warp_rows
    blocks = made_tiles + slices - 1
    columns = span + (blocks - options.tiles) * BLOCK_COLUMNS
    units = columns // BLOCK_COLUMNS
    pitch = (units + 1 - units % 2) * BLOCK_COLUMNS
    planes = options.walk is Walk.PLANES
    (top, bottom), (left, right) = spec.padding
    most_rows = options.height + top + bottom - spec.r + 1
    most_columns = options.width + left + right - spec.s + 1
    computed = -(-max(1, most_rows) // TILE_ROWS) * TILE_ROWS if planes else (options.prefetch_bands + 1) * band
    rows = computed + spec.r - 1
    copied = options.width // options.vector * options.vector if planes else columns
    out_plane = -(-max(1, most_rows) * max(1, most_columns) // 8) * 8 if options.stores is Stores.STAGED else 0
    team_patch = rows * pitch * (options.buffers if planes else 1)
    chunks = max(1, copied // options.vector)
    rows_at_once, row_copies = max(1, LANES * team // chunks), -(-chunks // (LANES * team))
    copy_words = BLOCK_COLUMNS // 2 * slices + 4
    steps, border = steps_of(spec, made_tiles, slices), make_border(spec)
    offset = margin - spec.padding[1][0] - shift
    held_rows = border.held_rows(band, LANES * team)
    held = (border.held_of_plane(options.height + top + bottom, LANES * team) if planes
            else border.held(band, LANES * team))
    return ToeplitzNumbers(
        threads=LANES * team * teams, team=LANES * team, block_span=span * options.warp_strips, span=span,
        band=band, margin=margin,
        offset=offset, first_weight=BLOCK_COLUMNS - 1 + offset, shift=shift, shift_pairs=shift // 2,
        made_tiles=made_tiles,
        slices=slices, blocks=blocks,
        steps=steps, products=tuple(p for step in steps for p in step.products), patch_columns=columns,
        pitch=pitch, rows_at_once=rows_at_once, row_copies=row_copies,
        idle_copiers=rows_at_once * chunks < LANES * team,
        copies_unrolled=band // rows_at_once * row_copies <= MOST_UNROLLED, rows=rows, first_rows=band + spec.r - 1,
        team_patch=team_patch, patch=teams * team_patch,
        patch_vectors=teams * team_patch // 8,
        team_outputs=out_plane, outputs=teams * out_plane, plane_groups=-(-spec.k // options.warp_planes),
        cut=spec.k % options.warp_planes > 0, warp_span=options.tiles * BLOCK_COLUMNS,
        cell=min(2, options.store_vector) if options.stores is Stores.STAGED else options.store_vector,
        copy_bytes=2 * options.vector, copy_columns=copied, copy_chunks=chunks, copy_words=copy_words,
        row_words=2 * copy_words, filter_words=2 * copy_words * spec.r * options.warp_planes,
        quads=tuple(_quad(n, min(n + QUAD, options.tiles)) for n in range(0, options.tiles, QUAD)),
        most_rows=most_rows, most_columns=most_columns, border=border,
        held=held, places_kept=held <= MOST_KEPT,
        held_first=-(-(band + spec.r - 1) // held_rows) if held and not planes else 0, held_rows=held_rows,
        outside_rows=border.row_copies(chunks, LANES * team))
