"""``hankel`` in numbers: which row of the outputs' gradients stands in which row of a matrix, and what lies where.

A step has ``rows`` input rows and the window of gradients' rows that end where they do. Row ``row`` of the step and
slot ``n`` of the window are products of filter row ``row - rows + (slots - n) * stride``, over the dilation; where the
filter has no such row, their sums are left out.
"""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import H200_SHARED_FILLED, LANES
from warpconv.codegen.parts import cells
from warpconv.codegen.parts.occupancy import blocks_by_shared, resident_blocks
from warpconv.codegen.spec import KernelSpec

OCTET = 8           # channels of 16 bytes, which are read together: four pairs
SLOTS = 8           # rows of gradients and columns of taps of a matrix
HALF = 8            # pixels of half an instruction
CELL = 16           # bytes of an octet of a pixel
# registers of what compilers load ahead in steps of so many rows: under strides of 3 and 4 a thread has 145 to 164, and
# spilled 32 to 48 bytes where it had 128 (NVRTC 13.5, sm_90)
MANY_ROWS, LOADED_AHEAD = 3, 32


@dataclass(frozen=True)
class HankelOptions:
    """The batch is summed in ``chunks`` shares. A block has ``octets`` times eight channels of ``columns`` output
    columns of ``across`` images side by side, and for each octet ``warps``; it takes ``rows`` input rows at a time, the
    next ``buffers`` - 1 times being on their way. A matrix has the products of ``folds`` stretches of a row, and block
    z ``tap_rows`` x ``tap_columns`` taps."""

    chunks: int = 1
    octets: int = 1
    columns: int = 16
    across: int = 1
    warps: int = 1
    rows: int = 1
    buffers: int = 2
    folds: int = 1
    tap_rows: int = 1
    tap_columns: int = 1


@dataclass(frozen=True)
class HankelNumbers:
    """What the template writes besides spec and options."""

    threads: int
    slots: int              # rows of gradients in a matrix, and columns of taps, of each stretch
    total_octets: int
    channel_groups: int     # blocks side by side for the channels
    cut: bool               # the last of them has octets beyond the channels
    tap_tiles: tuple[int, int]
    fresh: int              # rows of gradients that a step is the first to have
    pending: int            # steps that may be on their way while one is multiplied
    lead: int               # steps before the first whose rows of gradients are in its window
    ring: int               # rows of gradients in shared memory
    window_columns: int     # input columns of an image in a block
    image_pitch: int        # pixels in shared memory from an image to the next,
    pitch: int              # from a row to the next: whole eights, by which the octets' places repeat
    gradient_pitch: int     # and of gradients: odd, so that rows next to each other lie in different banks
    permuted: bool          # the octets of a pixel have places that depend on the pixel
    pixels: int             # cells of pixels, of all octets
    cells: int              # of pixels and gradients
    halves: int             # of a row of the block, 8 columns each
    image_halves: int
    padded: bool            # some matrices of a row have fewer
    units: int              # instructions for a row of the block
    rounds: int             # of them, that a warp makes
    copies: int             # of 16 bytes of a row: pixels
    gradient_copies: int    # and gradients
    copy_rounds: int
    gradient_rounds: int
    shared_bytes: int
    guarded: bool           # rows and columns may lie outside of the image
    min_blocks: int         # of a multiprocessor that the compiler leaves registers for


def most_rows(spec: KernelSpec, folds: int, tap_rows: int) -> int:
    """Input rows of a step, at most: the window has all rows of gradients that they meet."""
    return SLOTS // folds * spec.stride[0] - (tap_rows - 1) * spec.dilation[0]


def make_numbers(spec: KernelSpec, options: HankelOptions) -> HankelNumbers:
    slots = SLOTS // options.folds
    threads = LANES * options.octets * options.warps
    total = spec.c // OCTET
    groups = -(-total // options.octets)
    fresh = options.rows // spec.stride[0]
    ring = slots + (options.buffers - 1) * fresh
    ring += -ring % (fresh if fresh % 2 == 0 else 2 * fresh)        # whole steps; even, so that neighbours differ
    window, read = ((options.columns - 1) * spec.stride[1] + (taps - 1) * spec.dilation[1] + 1
                    for taps in (options.tap_columns, slots))
    halves, image_halves = options.across * options.columns // HALF, options.columns // HALF
    units = -(-halves // (2 * options.folds))
    padded = halves < units * 2 * options.folds
    image_pitch = cells.whole(window)
    pitch = cells.whole((options.across - 1) * image_pitch + read)
    gradient_pitch = (options.across * options.columns + (HALF if padded else 0)) | 1
    pixels, gradients = options.octets * options.buffers * options.rows * pitch, options.octets * ring * gradient_pitch
    copies = options.octets * options.across * window
    gradient_copies = options.octets * options.across * options.columns
    shared = max(CELL * (pixels + gradients), 4 * OCTET * options.octets * options.tap_rows * options.tap_columns)
    resident = min(resident_blocks(spec.hardware, registers_of(options), threads),
                   blocks_by_shared(spec.hardware, H200_SHARED_FILLED, shared + spec.hardware.shared_reserved))
    return HankelNumbers(
        threads=threads, slots=slots, total_octets=total, channel_groups=groups, cut=total % options.octets != 0,
        tap_tiles=(-(-spec.r // options.tap_rows), -(-spec.s // options.tap_columns)), fresh=fresh,
        pending=options.buffers - 2, lead=-(-(slots - fresh) // fresh), ring=ring, window_columns=window,
        image_pitch=image_pitch, pitch=pitch, gradient_pitch=gradient_pitch,
        permuted=cells.are_permuted(options.octets), pixels=pixels, cells=pixels + gradients, halves=halves,
        image_halves=image_halves, padded=padded, units=units,
        rounds=-(-units // options.warps), copies=copies, gradient_copies=gradient_copies,
        copy_rounds=-(-copies // threads), gradient_rounds=-(-gradient_copies // threads),
        shared_bytes=shared, guarded=not spec.padding_mode.reads_image, min_blocks=resident)


def registers_of(options: HankelOptions) -> int:
    """Of a thread, about: the sums of every row of a step, the words of dy taken apart, those of a row of x as they
    are loaded and side by side, and places."""
    return 16 * options.rows + 16 + 2 * 16 + 24 + (LOADED_AHEAD if options.rows >= MANY_ROWS else 0)
