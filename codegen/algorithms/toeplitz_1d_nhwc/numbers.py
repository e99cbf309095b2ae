"""Plan values of ``toeplitz_1d_nhwc``, and every number and name that its template writes."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts import cells
from warpconv.codegen.parts.folded import BLOCK, TILE_ROWS, FoldedTiles, Line, Load, line_of, loads_of, outside_of
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.spec import KernelSpec

OCTET = 8           # channels of 16 bytes
CELL = 16           # bytes of an octet of a pixel


@dataclass(frozen=True)
class Toeplitz1dNhwcOptions:
    """Plan values. A block makes ``tiles`` times 16 x ``columns`` outputs of a row, of ``octets`` times eight channels,
    whose sequences its ``warps`` take in turn. The compiler leaves registers for ``min_blocks`` blocks."""

    octets: int = 4
    columns: int = 8
    tiles: int = 2
    warps: int = 8
    weights: Weights = Weights.REGISTERS
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class Toeplitz1dNhwcNumbers(FoldedTiles):
    """What the template writes; elements of 16 bits unless it says otherwise."""

    line: Line
    threads: int
    channels: int           # of a block
    total_octets: int
    channel_groups: int     # blocks for the channels of a pixel
    cut: bool               # the last of them has octets beyond the channels
    permuted: bool          # the octets of a pixel have places that depend on the pixel
    tile: int               # outputs of a tile
    span: int               # of a row in a block
    margin: int             # pixels before the first output's own
    first_weight: int       # zeros before the first weight, in its padded row
    slices: int             # blocks of eight columns that a block of outputs needs
    outputs: tuple[int, ...]    # blocks of outputs of a row of a tile
    loads: tuple[Load, ...]
    groups: int             # eights of pixels that a block reads
    pitch: int              # elements to the next sequence: an odd number of pieces, so that eight meet all banks
    out_groups: int         # eights of outputs
    out_pitch: int
    copy_words: int         # words of one of the two copies of a padded filter
    filter_words: int       # of a sequence's
    pixel_bytes: int        # of shared memory, of pixels and then of outputs
    outside: str            # name of the fragment of what stands outside of a row

    @property
    def shared_bytes(self) -> int:
        return self.pixel_bytes + self.channels * (2 * self.pitch + 4 * self.filter_words)


def make_numbers(spec: KernelSpec, options: Toeplitz1dNhwcOptions) -> Toeplitz1dNhwcNumbers:
    line, outputs = line_of(spec), options.columns // BLOCK
    slices = line.slices
    tile = TILE_ROWS * options.columns
    span, channels, total = tile * options.tiles, OCTET * options.octets, spec.c // OCTET
    groups, out_groups = span // BLOCK + slices - 1, span // BLOCK
    channel_groups = -(-total // options.octets)
    copy_words = BLOCK // 2 * slices + 4
    out_pitch = _odd(out_groups) * BLOCK
    return Toeplitz1dNhwcNumbers(
        line=line, threads=LANES * options.warps, channels=channels, total_octets=total, channel_groups=channel_groups,
        cut=total % options.octets > 0, permuted=cells.are_permuted(options.octets), tile=tile, span=span,
        margin=line.margin, first_weight=BLOCK - 1 + line.offset, slices=slices,
        outputs=tuple(range(outputs)), loads=loads_of(slices, outputs), groups=groups,
        pitch=_odd(groups + -groups % outputs) * BLOCK, out_groups=out_groups, out_pitch=out_pitch,
        copy_words=copy_words, filter_words=2 * copy_words,
        pixel_bytes=max(CELL * BLOCK * groups * options.octets, 2 * channels * out_pitch),
        outside=outside_of(spec))


def _odd(pieces: int) -> int:
    return pieces | 1
