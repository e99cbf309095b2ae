"""Plan values of ``toeplitz``, and every number and name that its template writes."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..spec import KernelSpec
from .base import DERIVED

LANES = 32
TILE_ROWS = 16                # output rows of one matrix instruction
BLOCK_COLUMNS = 8             # columns of one matrix of the image, and the output columns of one matrix instruction
QUAD = 4                      # lanes that hold one row of a tile
STEPS_AHEAD = 1               # bands that are copied while one is computed


class Walk(enum.Enum):
    """What a team of warps goes through while its filter stays."""

    BANDS = "bands"      # down a strip of one plane, band by band; rows that two bands share stay in a ring
    PLANES = "planes"    # whole planes of image after image, in buffers by turns


class Stores(enum.Enum):
    DIRECT = "direct"    # from the registers
    STAGED = "staged"    # by way of shared memory, a plane as one stretch; walk=planes only


class Weights(enum.Enum):
    """Where a lane finds its words of the banded filter matrix."""

    REGISTERS = "registers"
    SHARED = "shared"        # read again for every tile


@dataclass(frozen=True)
class ToeplitzOptions:
    """Plan values. A warp makes 16 rows of ``tiles`` times 8 columns at a time; ``warp_columns`` x ``warp_rows`` warps
    share a patch, ``warp_planes`` such teams make a block; copies to shared memory are of ``vector`` elements, stores
    of ``store_vector``. walk=bands: a block makes ``sub_block_rows`` rows; walk=planes: planes of up to ``height`` x
    ``width`` elements, of ``images`` images one after another, in ``buffers``. The compiler leaves registers for
    ``min_blocks`` blocks."""

    walk: Walk = Walk.BANDS
    tiles: int = 8
    warp_columns: int = 4
    warp_rows: int = 1
    warp_planes: int = 1
    vector: int = 8
    store_vector: int = 8
    stores: Stores = Stores.DIRECT
    weights: Weights = Weights.REGISTERS
    sub_block_rows: int = 256
    height: int = DERIVED
    width: int = DERIVED
    images: int = 8
    buffers: int = 2
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class Product:
    """One matrix instruction for each tile: block ``block``, from where the tile begins, of one filter row or two."""

    rows: tuple[int, ...]
    block: int


@dataclass(frozen=True)
class Step:
    """The filter rows of one round of instructions: two, for eight columns of both of them make the sixteen of an
    instruction, or one. ``loads``: the blocks of each load of matrices, with the instructions that then have all they
    need, as (tile, product); matrices lie in registers as the instructions take them, so that none is moved."""

    rows: tuple[int, ...]
    loads: tuple[tuple[tuple[int, ...], tuple[tuple[int, Product], ...]], ...]

    @property
    def products(self) -> tuple[Product, ...]:
        return tuple(dict.fromkeys(product for _, done in self.loads for _, product in done))


@dataclass(frozen=True)
class ToeplitzNumbers:
    """What the template writes; elements of 16 bits unless it says otherwise."""

    threads: int
    team: int                    # threads of a team
    span: int                    # output columns of a team
    band: int                    # output rows of a team at a time
    margin: int                  # image columns before a team's first output column, in its patch
    offset: int                  # columns of a tile's first block that no output needs
    slices: int                  # blocks of eight columns that a tile needs
    blocks: int                  # blocks that a warp loads for each filter row
    steps: tuple[Step, ...]
    products: tuple[Product, ...]
    patch_columns: int
    pitch: int                   # an odd number of 16 bytes: eight rows lie in different banks
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
    copy_columns: int            # columns of a row that are copied
    copy_chunks: int             # copies for them
    copy_words: int              # words of one of the two copies of a padded filter row
    row_words: int               # of both
    filter_words: int            # of a plane's filter
    quads: tuple[tuple[int, ...], ...]   # tiles whose rows are regrouped together
    most_rows: int               # output rows and columns that walk=planes has room for
    most_columns: int

    @property
    def two_matrices(self) -> bool:
        """Whether a load of one filter row has one block only."""
        return any(len(step.rows) * len(blocks) == 1 for step in self.steps for blocks, _ in step.loads)

    @property
    def shared_bytes(self) -> int:
        return 2 * (self.patch + self.outputs) + 4 * self.filter_words


def slices_of(spec: KernelSpec) -> int:
    """Blocks of eight columns that hold the input of a tile of eight outputs."""
    margin = -(-spec.padding[1][0] // BLOCK_COLUMNS) * BLOCK_COLUMNS
    return -(-(margin - spec.padding[1][0] + BLOCK_COLUMNS - 1 + spec.s) // BLOCK_COLUMNS)


def steps_of(spec: KernelSpec, tiles: int) -> tuple[Step, ...]:
    """Filter rows by twos, the last alone if their number is odd; a load has four matrices of 8 x 8, two of a row."""
    slices, steps = slices_of(spec), []
    for first in range(0, spec.r, 2):
        rows = tuple(range(first, min(first + 2, spec.r)))
        at_once = 2 // len(rows)
        loads = []
        for at in range(0, tiles + slices - 1, at_once):
            blocks = tuple(range(at, min(at + at_once, tiles + slices - 1)))
            done = tuple((block - s, Product(rows, s)) for block in blocks for s in range(slices)
                         if 0 <= block - s < tiles)
            loads.append((blocks, done))
        steps.append(Step(rows, tuple(loads)))
    return tuple(steps)


def filter_registers(spec: KernelSpec) -> int:
    """Registers of the banded filter matrix, a word for each slice."""
    return spec.r * slices_of(spec)


def make_numbers(spec: KernelSpec, options: ToeplitzOptions) -> ToeplitzNumbers:
    team = options.warp_columns * options.warp_rows
    margin = -(-spec.padding[1][0] // BLOCK_COLUMNS) * BLOCK_COLUMNS
    slices = slices_of(spec)
    span = options.tiles * BLOCK_COLUMNS * options.warp_columns
    band = TILE_ROWS * options.warp_rows
    blocks = options.tiles + slices - 1
    columns = span + (slices - 1) * BLOCK_COLUMNS
    units = columns // BLOCK_COLUMNS
    pitch = (units + 1 - units % 2) * BLOCK_COLUMNS
    planes = options.walk is Walk.PLANES
    (top, bottom), (left, right) = spec.padding
    most_rows = options.height + top + bottom - spec.r + 1
    most_columns = options.width + left + right - spec.s + 1
    rows = (-(-max(1, most_rows) // TILE_ROWS) * TILE_ROWS if planes else (STEPS_AHEAD + 1) * band) + spec.r - 1
    copied = options.width // options.vector * options.vector if planes else columns
    out_plane = -(-max(1, most_rows) * max(1, most_columns) // 8) * 8 if options.stores is Stores.STAGED else 0
    team_patch = rows * pitch * (options.buffers if planes else 1)
    copy_words = BLOCK_COLUMNS // 2 * slices + 4
    steps = steps_of(spec, options.tiles)
    return ToeplitzNumbers(
        threads=LANES * team * options.warp_planes, team=LANES * team, span=span, band=band, margin=margin,
        offset=margin - spec.padding[1][0], slices=slices, blocks=blocks,
        steps=steps, products=tuple(p for step in steps for p in step.products), patch_columns=columns,
        pitch=pitch, rows=rows, first_rows=band + spec.r - 1,
        team_patch=team_patch, patch=options.warp_planes * team_patch,
        patch_vectors=options.warp_planes * team_patch // 8,
        team_outputs=out_plane, outputs=options.warp_planes * out_plane, plane_groups=-(-spec.k // options.warp_planes),
        cut=spec.k % options.warp_planes > 0, warp_span=options.tiles * BLOCK_COLUMNS,
        cell=min(2, options.store_vector) if options.stores is Stores.STAGED else options.store_vector,
        copy_columns=copied, copy_chunks=copied // options.vector, copy_words=copy_words,
        row_words=2 * copy_words, filter_words=2 * copy_words * spec.r * options.warp_planes,
        quads=tuple(tuple(range(n, min(n + QUAD, options.tiles))) for n in range(0, options.tiles, QUAD)),
        most_rows=most_rows, most_columns=most_columns)
