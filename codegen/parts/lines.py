"""Lines of x in shared memory as they lie in x, a tile's once for all taps (templates/parts/lines.cuh.jinja).

They are copied by 16 bytes. Where lines of x do not begin with 16 bytes, one in shared memory is as far into 16 bytes
as it is in x: the distance of lines is that of x modulo 16 bytes.
"""

from __future__ import annotations

import math

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import LANES

from ..shape import ConvShape
from ..spec import KernelSpec
from .first_layers import pixel_of

COPY_BYTES = 16
OUTSIDE_LANES = 4               # for pieces outside of the image, mostly one or two of a line


@dataclass(frozen=True)
class Lines:
    """A tile's: ``rows`` of the image, each of ``pieces`` copies; elements from one to the next and from a channel's to
    the next's, at least, and of all; ``lead``: those of a line before the first that a window reads; ``piece_lanes``
    threads copy a line, a piece each ``piece_rounds`` times."""

    rows: int
    pieces: int
    line: int
    plane: int
    elements: int
    lead: int
    piece_lanes: int
    piece_rounds: int


def lead_of(spec: KernelSpec, whole: bool, wide: int) -> int:
    """Elements of a line in shared memory before the first that a window reads, where lines of x begin with 16
    bytes."""
    return -spec.padding[1][0] * pixel_of(spec) % wide if whole else 0


def line_width(spec: KernelSpec, shape: ConvShape | None, wide: int) -> int:
    """The plan value ``vector``: ``wide`` elements where lines of x are whole numbers of 16 bytes, else 1."""
    return wide if shape is not None and shape.w * pixel_of(spec) % wide == 0 else 1


def width_refusal(vector: int, wide: int) -> str | None:
    """None, or in words why a plan's ``vector`` is none that ``line_width`` gives."""
    return None if vector in (1, wide) else f"vector = {vector} (1, or {wide} where lines are whole numbers of it)"


def asked_of_lines(spec: KernelSpec, vector: int) -> dict[str, int]:
    """What copies ask of x and W (parts.arguments.demanding)."""
    return {"x": COPY_BYTES} | ({"W": vector // math.gcd(vector, pixel_of(spec))} if vector > 1 else {})


def lanes_for(places: int) -> int:
    """Lanes that have a line's places, one each at a time: a power of two, a warp at most."""
    return min(LANES, 1 << (places - 1).bit_length())


def copying_lanes(lanes: int, bulk: bool) -> int:
    """The ``lanes`` that have a line's pieces, or, where a line is one copy, those for what is outside of the image."""
    return OUTSIDE_LANES if bulk else lanes


def rows_together(spec: KernelSpec, tile: tuple[int, int], wide: int, beside: int = 0) -> Lines:
    """The same of tiles of whole rows where nothing is padded: a channel's lines lie side by side in shared memory as
    they do in x, and are one copy. How many elements a line has is known when the kernel runs; there is room for the
    longest that make the tile's columns."""
    rows = (tile[0] - 1) * spec.stride[0] + spec.extents[0]
    widest = tile[1] * spec.stride[1] + spec.extents[1] - 1
    plane = -(-(rows * widest * pixel_of(spec) + beside + 2 * (wide - 1)) // wide) * wide
    return Lines(rows=rows, pieces=0, line=0, plane=plane, elements=spec.channels // pixel_of(spec) * plane, lead=0,
                 piece_lanes=0, piece_rounds=0)


def lines_of(spec: KernelSpec, tile: tuple[int, int], whole: bool, wide: int, beside: int = 0) -> Lines:
    """Of a tile of outputs; ``whole``: lines of x begin with 16 bytes, of ``wide`` elements; ``beside``: elements
    that are read behind a tile's last window."""
    pixel, lead = pixel_of(spec), lead_of(spec, whole, wide)
    rows, columns = ((outputs - 1) * stride + extent for outputs, stride, extent in zip(
        tile, spec.stride, spec.extents))
    pieces = -(-((lead if whole else wide - 1) + columns * pixel + beside) // wide)
    if whole:
        line, plane = pieces * wide, rows * pieces * wide
    else:
        line, plane = (pieces + 1) * wide, (rows * (pieces + 2) + 1) * wide
    planes = spec.channels // pixel
    elements = planes * plane if whole else -(-(planes * (plane + wide - 1)) // wide) * wide
    lanes = lanes_for(pieces)
    return Lines(rows=rows, pieces=pieces, line=line, plane=plane, elements=elements, lead=lead, piece_lanes=lanes,
                 piece_rounds=-(-pieces // lanes))
