"""Plan values of ``sequence``, and every number that its templates write."""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import BANKS
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.folded import Line, line_of, outside_of
from warpconv.codegen.parts.rings import QUAD
from warpconv.codegen.spec import KernelSpec


@dataclass(frozen=True)
class SequenceOptions:
    """Plan values. A thread makes ``outputs`` neighbours of a sequence; ``team`` threads share a sequence, and a block
    has ``sequences`` of them. Copies to shared memory are of ``vector`` elements, in NCHW stores of ``store_vector``.
    The compiler leaves registers for ``min_blocks`` blocks."""

    outputs: int = 16
    team: int = 128
    sequences: int = 1
    vector: int = 4
    store_vector: int = 4
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class RowNumbers:
    """NCHW: a sequence lies in memory as it is, and taps are read by fours."""

    line: Line
    threads: int
    span: int               # outputs of a sequence in a block
    row_quads: int          # of a thread's outputs
    ring_quads: int         # of a thread's window
    ring: int               # elements of it
    margin: int             # elements of a patch before the first output's own
    offset: int             # of these before the first tap's
    lead: int               # fours of taps before whole ones: the first taps where offset is not 0
    rounds: int             # turns of the ring by fours of taps
    tail: int               # taps after them
    tap_pitch: int          # elements from the taps of a sequence to those of the next
    patch: int              # elements of a sequence's patch, with its gaps
    chunks: int             # copies of a patch,
    copies: int             # and of all of a block
    copy_bytes: int         # of a copy to shared memory
    shared_bytes: int
    outside: str            # name of the fragment of what stands outside of a sequence


@dataclass(frozen=True)
class PixelNumbers:
    """NHWC: the channels of a pixel lie side by side, and neighbouring lanes have them."""

    line: Line
    threads: int
    span: int               # outputs of a sequence in a block
    cells: int              # copies of a pixel,
    copies: int             # and of all of a block
    channel_groups: int     # blocks for the channels of a pixel
    cut: bool               # the last of them has more than are left
    rounds: int             # turns of the ring of a thread's window
    tail: int               # taps after them
    tap_pitch: int          # elements from the taps of a channel to those of the next
    pixels: int             # that a block reads
    gap: int                # elements between what two threads of a channel begin with, so that they meet other banks
    run: int                # elements from one's first to the other's
    taps_at: int            # bytes before the taps
    copy_bytes: int
    shared_bytes: int
    outside: str


def row_numbers(spec: KernelSpec, options: SequenceOptions) -> RowNumbers:
    line = line_of(spec)
    row_quads = options.outputs // QUAD
    ring_quads = row_quads + 1
    span = options.outputs * options.team
    offset = -line.before % QUAD
    lead = 1 if offset else 0
    whole = max(0, line.taps - lead * (QUAD - offset))
    rounds = whole // (QUAD * ring_quads)
    needed = -(-(span + offset + line.taps - 1) // QUAD)
    quads = max(needed, span // QUAD + lead + (rounds + 1) * ring_quads - row_quads)
    tap_quads = -(-(offset + line.taps) // QUAD)
    tap_pitch = QUAD * (tap_quads | 1)      # odd, so that taps of neighbouring sequences lie in other banks
    patch, chunks = QUAD * (quads + -(-quads // row_quads)), QUAD * quads // options.vector
    return RowNumbers(
        line=line, threads=options.team * options.sequences, span=span, row_quads=row_quads, ring_quads=ring_quads,
        ring=QUAD * ring_quads, margin=line.before + offset, offset=offset, lead=lead, rounds=rounds,
        tail=whole % (QUAD * ring_quads), tap_pitch=tap_pitch, patch=patch, chunks=chunks,
        copies=chunks * options.sequences, copy_bytes=4 * options.vector,
        shared_bytes=4 * (patch + tap_pitch) * options.sequences, outside=outside_of(spec))


def pixel_numbers(spec: KernelSpec, options: SequenceOptions) -> PixelNumbers:
    line, channels = line_of(spec), options.sequences
    span = options.outputs * options.team
    rounds = line.taps // options.outputs
    pixels = span + max(line.taps - 1, rounds * options.outputs)
    cells, gap = channels // options.vector, channels if channels < BANKS else 0
    run = options.outputs * channels + gap
    taps_at = 4 * (pixels * channels + -(-pixels // options.outputs) * gap)
    tap_pitch = line.taps | 1               # odd, so that taps of neighbouring channels lie in other banks
    return PixelNumbers(
        line=line, threads=options.team * channels, span=span, cells=cells, copies=pixels * cells,
        channel_groups=-(-spec.c // channels), cut=spec.c % channels > 0, rounds=rounds,
        tail=line.taps % options.outputs, tap_pitch=tap_pitch, pixels=pixels, gap=gap, run=run, taps_at=taps_at,
        copy_bytes=4 * options.vector, shared_bytes=taps_at + 4 * tap_pitch * channels, outside=outside_of(spec))


def make_numbers(spec: KernelSpec, options: SequenceOptions) -> RowNumbers | PixelNumbers:
    return (row_numbers if spec.layout is Layout.NCHW else pixel_numbers)(spec, options)
