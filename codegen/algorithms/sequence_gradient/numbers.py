"""Plan values of ``sequence_gradient``, and every number that its templates write."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import BANKS, LANES
from warpconv.codegen.parts.folded import Line, line_of, outside_of
from warpconv.codegen.parts.rings import QUAD
from warpconv.codegen.spec import KernelSpec

BUFFERS = 2             # items in shared memory: one that is multiplied, one on its way


@dataclass(frozen=True)
class SequenceGradientOptions:
    """Plan values. The batch is summed in ``chunks`` shares. A thread sums ``taps`` neighbouring taps, over ``run``
    neighbouring outputs of an item of work; ``groups`` are the threads for further taps in a block, ``runs`` those for
    further outputs. In NHWC a block has ``channels``. Copies are of ``vector`` elements."""

    chunks: int = 1
    taps: int = 16
    groups: int = 2
    runs: int = 32
    run: int = 44
    channels: int = 1
    vector: int = 4


@dataclass(frozen=True)
class RowNumbers:
    """NCHW: both arrays are read by fours. A warp has one group of taps."""

    line: Line
    threads: int
    block_taps: int         # of a block, with those before the first
    tap_tiles: int          # blocks for a filter
    span: int               # outputs of an item
    ring_quads: int         # of a thread's window
    ring: int
    margin: int             # elements of a patch before the first output's own
    offset: int             # taps before the first, so that patches begin at a piece
    rounds: int             # turns of the ring by fours of outputs
    tail: int               # fours of outputs after them
    buffer: int             # elements of an item, of both arrays
    chunks: int             # copies of a patch,
    gradient_chunks: int    # and of gradients
    copy_bytes: int
    shared_bytes: int
    registers: int
    outside: str

    @property
    def copies(self) -> int:
        """Of an item, of both arrays."""
        return self.chunks + self.gradient_chunks


@dataclass(frozen=True)
class PixelNumbers:
    """NHWC: neighbouring lanes have neighbouring channels."""

    line: Line
    threads: int
    block_taps: int
    tap_tiles: int
    span: int
    cells: int              # copies of a pixel
    channel_groups: int     # blocks for the channels of a pixel
    cut: bool               # the last of them has more than are left
    rounds: int             # turns of the ring, of a run
    gap: int                # elements after as many pixels as a thread has taps, so that threads meet other banks
    step: int               # elements to the pixel as many further on
    pixels: int             # of the input of an item
    gradients: int          # elements of an item: of gradients,
    buffer: int             # and of both arrays
    copy_bytes: int
    shared_bytes: int
    registers: int
    outside: str

    @property
    def copies(self) -> int:
        """Of an item, of both arrays."""
        return (self.span + self.pixels) * self.cells


def row_numbers(spec: KernelSpec, options: SequenceGradientOptions) -> RowNumbers:
    line = line_of(spec)
    offset = -line.before % QUAD
    block_taps = options.taps * options.groups
    span = options.run * options.runs
    ring_quads = options.taps // QUAD + 1
    quads = (span + block_taps) // QUAD + 1         # the last is read ahead of a turn that may not come
    buffer = span + QUAD * quads
    run_quads = options.run // QUAD
    sums = options.taps * options.groups * (options.runs // LANES)
    return RowNumbers(
        line=line, threads=options.groups * options.runs, block_taps=block_taps,
        tap_tiles=-(-(line.taps + offset) // block_taps), span=span, ring_quads=ring_quads, ring=QUAD * ring_quads,
        margin=line.before + offset, offset=offset, rounds=run_quads // ring_quads, tail=run_quads % ring_quads,
        buffer=buffer, chunks=QUAD * quads // options.vector,
        gradient_chunks=span // options.vector, copy_bytes=4 * options.vector,
        shared_bytes=4 * max(BUFFERS * buffer, sums), registers=2 * options.taps + 4 * QUAD + 30,
        outside=outside_of(spec))


def pixel_numbers(spec: KernelSpec, options: SequenceGradientOptions) -> PixelNumbers:
    line, channels = line_of(spec), options.channels
    block_taps = options.taps * options.groups
    span = options.run * options.runs
    gap = channels if channels < BANKS else 0
    pixels = span + block_taps
    step = options.taps * channels + gap
    patch, gradients = -(-pixels // options.taps) * step, -(-span // options.taps) * step
    sums = block_taps * options.runs * channels
    return PixelNumbers(
        line=line, threads=options.groups * options.runs * channels, block_taps=block_taps,
        tap_tiles=-(-line.taps // block_taps), span=span, cells=channels // options.vector,
        channel_groups=-(-spec.c // channels), cut=spec.c % channels > 0, rounds=options.run // options.taps, gap=gap,
        step=step, pixels=pixels, gradients=gradients, buffer=patch + gradients,
        copy_bytes=4 * options.vector, shared_bytes=4 * max(BUFFERS * (patch + gradients), sums),
        registers=2 * options.taps + 40, outside=outside_of(spec))


def make_numbers(spec: KernelSpec, options: SequenceGradientOptions) -> RowNumbers | PixelNumbers:
    return (row_numbers if spec.layout is Layout.NCHW else pixel_numbers)(spec, options)
