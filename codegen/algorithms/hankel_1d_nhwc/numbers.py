"""``hankel_1d_nhwc`` in numbers: the matrices are those of ``hankel_1d``, of sequences that pixels were turned into."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import H200_SHARED_FILLED, LANES
from warpconv.codegen.parts import cells
from warpconv.codegen.parts.folded import BLOCK, STEP, DiagonalProduct, Line, line_of, outside_of, product_blocks
from warpconv.codegen.parts.occupancy import blocks_by_shared, resident_blocks
from warpconv.codegen.spec import KernelSpec

OCTET = 8           # channels of 16 bytes
CELL = 16           # bytes of an octet of a pixel
SUMS = 4 * BLOCK * (BLOCK + 1)      # bytes of a block of eight columns of sums on their way to a diagonal


@dataclass(frozen=True)
class Hankel1dNhwcOptions:
    """The batch is summed in ``chunks`` shares. A block has ``taps`` taps of ``octets`` times eight channels, ``each``
    of which a warp has; it takes ``steps`` times 256 outputs of a row at a time, the next being on their way."""

    chunks: int = 1
    taps: int = 8
    octets: int = 2
    each: int = 2
    steps: int = 1


@dataclass(frozen=True)
class Hankel1dNhwcNumbers(DiagonalProduct):
    """What the template writes besides spec and options."""

    line: Line
    warps: int
    threads: int
    channels: int           # of a block
    total_octets: int
    channel_groups: int     # blocks for the channels of a pixel
    cut: bool               # the last of them has octets beyond the channels
    permuted: bool          # the octets of a pixel have places that depend on the pixel
    tap_tiles: int          # blocks for a filter
    span: int               # outputs of an item of work
    margin: int             # pixels of the input before the first output's own
    offset: int             # columns of the product before tap 0 of gradient 0
    blocks: tuple[int, ...]     # of eight columns of the product
    channels_of_warp: tuple[int, ...]
    groups: int             # eights of pixels of an item: of the input,
    gradient_groups: int    # and of gradients
    pitch: int              # elements to the next sequence: an odd number of pieces, so that eight meet all banks
    gradient_pitch: int
    pixel_bytes: int        # of shared memory: of pixels of both arrays,
    gradient_at: int        # and of the input's sequences besides, behind which those of gradients are
    shared_bytes: int
    registers: int
    min_blocks: int
    outside: str            # name of the fragment of what stands outside of a row


def make_numbers(spec: KernelSpec, options: Hankel1dNhwcOptions) -> Hankel1dNhwcNumbers:
    channels, total, span = OCTET * options.octets, spec.c // OCTET, STEP * options.steps
    warps = channels // options.each
    line = line_of(spec)
    blocks = product_blocks(options.taps, line.offset)
    gradient_groups = span // BLOCK
    groups = gradient_groups + blocks - 1
    pitch, gradient_pitch = (BLOCK * (n + n % 2 | 1) for n in (groups, gradient_groups))
    pixel_bytes = CELL * BLOCK * (groups + gradient_groups) * options.octets
    gradient_at = pixel_bytes + 2 * channels * pitch
    shared = max(gradient_at + 2 * channels * gradient_pitch, SUMS * (blocks + 1) * warps)
    registers = 4 * blocks * options.each + 2 * blocks + 50
    resident = min(resident_blocks(spec.hardware, min(255, registers), LANES * warps),
                   blocks_by_shared(spec.hardware, H200_SHARED_FILLED, shared + spec.hardware.shared_reserved))
    return Hankel1dNhwcNumbers(
        warps=warps, threads=LANES * warps, channels=channels, total_octets=total,
        channel_groups=-(-total // options.octets), cut=total % options.octets > 0,
        permuted=cells.are_permuted(options.octets), tap_tiles=-(-line.taps // options.taps), span=span,
        margin=line.margin, offset=line.offset, line=line, blocks=tuple(range(blocks)),
        channels_of_warp=tuple(range(options.each)), groups=groups, gradient_groups=gradient_groups, pitch=pitch,
        gradient_pitch=gradient_pitch, pixel_bytes=pixel_bytes, gradient_at=gradient_at, shared_bytes=shared,
        registers=registers, min_blocks=max(1, resident), outside=outside_of(spec))
