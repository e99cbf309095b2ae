"""Plan values of ``toeplitz_1d``, and every number and name that its template writes."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.folded import BLOCK, LINE, TILE_ROWS, FoldedTiles, Load, line_of, loads_of, outside_of
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.spec import KernelSpec


@dataclass(frozen=True)
class Toeplitz1dOptions:
    """Plan values. A warp makes 16 stretches of ``columns`` outputs at a time, ``tiles`` times; ``warps`` share a
    sequence, and a block has ``sequences`` of them. Copies to shared memory are of ``vector`` elements, stores of
    ``store_vector``. The compiler leaves registers for ``min_blocks`` blocks."""

    columns: int = 8
    warps: int = 4
    tiles: int = 8
    sequences: int = 1
    vector: int = 8
    store_vector: int = 2
    weights: Weights = Weights.REGISTERS
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class Toeplitz1dNumbers(FoldedTiles):
    """What the template writes; elements of 16 bits unless it says otherwise."""

    threads: int
    team: int               # threads of a sequence
    tile: int               # outputs of a tile
    span: int               # of a sequence in a block
    margin: int             # elements before the first output's own, in a patch
    skipped: int            # and before them in a line of memory
    first_weight: int       # zeros before the first weight, in its padded row
    slices: int             # blocks of eight columns that a block of outputs needs
    outputs: tuple[int, ...]    # blocks of outputs of a row
    loads: tuple[Load, ...]
    patch: int              # elements of a sequence's patch
    chunks: int             # copies of a patch
    copies: int             # of a thread
    copy_words: int         # words of one of the two copies of a padded filter
    filter_words: int       # of a sequence's
    copy_bytes: int         # of a copy to shared memory
    outside: str            # name of the fragment of what stands outside of a sequence

    @property
    def shared_bytes(self) -> int:
        return (2 * self.patch + 4 * self.filter_words) * (self.threads // self.team)


def make_numbers(spec: KernelSpec, options: Toeplitz1dOptions) -> Toeplitz1dNumbers:
    line, outputs = line_of(spec), options.columns // BLOCK
    slices = line.slices
    tile = TILE_ROWS * options.columns
    span = tile * options.warps * options.tiles
    team = LANES * options.warps
    pieces = span // BLOCK + slices - 1
    skipped = -line.margin % LINE
    chunks = (pieces * BLOCK + skipped) // options.vector
    copy_words = BLOCK // 2 * slices + 4
    return Toeplitz1dNumbers(
        threads=team * options.sequences, team=team, tile=tile, span=span, margin=line.margin, skipped=skipped,
        first_weight=BLOCK - 1 + line.offset, slices=slices, outputs=tuple(range(outputs)),
        loads=loads_of(slices, outputs), patch=(pieces + -pieces % outputs) * BLOCK,
        chunks=chunks, copies=-(-chunks // team), copy_words=copy_words,
        filter_words=2 * copy_words, copy_bytes=2 * options.vector,
        outside=outside_of(spec))
