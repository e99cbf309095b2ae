"""Which rows and columns meet which taps in ``staged``, and the shared accesses that read and store them.

Height and width are known, so a tap outside of the image is a tap on the element that the border has there, or on its
value. A row outside is one of the plane's, too, but another one for each strip: threads look it up, once.
"""

from __future__ import annotations

import math

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.spec import KernelSpec

WIDEST_ACCESS = 16            # bytes
STATEMENT_TAPS = 5            # taps that one FMA statement of the text spans


@dataclass(frozen=True)
class Access:
    """``count`` elements that one shared access moves: from element ``offset`` of the strip (of an input row that is
    looked up, of that row); of row ``row`` (an output's) and column ``column`` on, running over row ends."""

    offset: int
    count: int
    row: int
    column: int


@dataclass(frozen=True)
class InputRow:
    """An input row of a strip, ``offset`` rows after the row of its first output's row 0 without padding.

    The row that stands there is ``found`` entries after that of the strip's first row in the plan's border rows; None
    where it is the row itself. ``inside``: it lies in the image for some strip; ``outside``: the border's one value
    stands there for some strip.
    """

    offset: int
    at_least: int | None                # the strip's first row must be this or later, or the row is above the image
    below: int | None                   # and before this, or the row is below it
    pieces: tuple[Access, ...]
    uses: tuple[tuple[int, int], ...]   # (output row of the strip, filter row)
    found: int | None = None
    inside: bool = True
    outside: bool = False


@dataclass(frozen=True)
class OutputRows:
    """Output rows of a strip that are stored together, if the strip's first row is before ``below``."""

    below: int | None
    pieces: tuple[Access, ...]


@dataclass(frozen=True)
class Taps:
    """What one statement adds to output column ``q``: (input column, filter column) pairs; the input column is None
    where the border's one value stands."""

    q: int
    pairs: tuple[tuple[int | None, int], ...]


@dataclass(frozen=True)
class BorderRows:
    """Where the border has the rows ``first`` .. ``last`` of a plane: elements from its beginning."""

    first: int
    last: int
    elements: tuple[int, ...]


@dataclass(frozen=True)
class Strips:
    """A plane of ``height`` x ``width`` and its ``count`` strips of ``rows`` output rows, ``p`` x ``q`` outputs in all;
    one plane's elements in shared memory are ``stride`` after another's."""

    height: int
    width: int
    p: int
    q: int
    rows: int
    count: int
    stride: int


def taps_of(spec: KernelSpec, width: int, q: int) -> tuple[Taps, ...]:
    """The taps of ``q`` output columns, those outside of the image on what the border has there; none for zeros."""
    found = []
    for column in range(q):
        at = [column * spec.stride[1] - spec.padding[1][0] + s * spec.dilation[1] for s in range(spec.s)]
        pairs = [(spec.padding_mode.index(c, width), s) for s, c in enumerate(at)
                 if 0 <= c < width or spec.padding_mode is not Border.ZEROS]
        found += [Taps(q=column, pairs=tuple(pairs[i:i + STATEMENT_TAPS]))
                  for i in range(0, len(pairs), STATEMENT_TAPS)]
    return tuple(found)


def columns_of(taps: tuple[Taps, ...]) -> list[int]:
    """The input columns that taps read, each once."""
    return sorted({c for t in taps for c, _ in t.pairs if c is not None})


def uses_of(spec: KernelSpec, rows: int) -> dict[int, list[tuple[int, int]]]:
    """Row, counted from the row of the first output's row 0 without padding -> its (output row, filter row) pairs."""
    uses: dict[int, list[tuple[int, int]]] = {}
    for i in range(rows):
        for r in range(spec.r):
            uses.setdefault(i * spec.stride[0] + r * spec.dilation[0] - spec.padding[0][0], []).append((i, r))
    return uses


def input_rows(spec: KernelSpec, strips: Strips) -> tuple[InputRow, ...]:
    """The rows that some output of a strip needs; with zeros those that lie in the image for some strip."""
    columns, uses = columns_of(taps_of(spec, strips.width, strips.q)), uses_of(spec, strips.rows)
    rows = [_input_row(spec, strips, offset, columns, tuple(uses[offset])) for offset in sorted(uses)]
    if spec.padding_mode is Border.ZEROS:
        return tuple(row for row in rows if row.inside and columns)
    first = min((row.offset for row in rows if row.found is not None), default=0)
    return tuple(row if row.found is None else _looked_up(spec, strips, row, columns, first) for row in rows)


def _tops(spec: KernelSpec, strips: Strips) -> list[int]:
    """The input row at which each strip begins."""
    return [strip * strips.rows * spec.stride[0] for strip in range(strips.count)]


def _input_row(spec: KernelSpec, strips: Strips, offset: int, columns: list[int],
               uses: tuple[tuple[int, int], ...]) -> InputRow:
    """A row whose own place is read; of several strips that need another one ``found`` is 0."""
    tops, height = _tops(spec, strips), strips.height
    inside = [0 <= top + offset < height for top in tops]
    pixels = spec.padding_mode.reads_image
    row = spec.padding_mode.pixel(offset, height) if pixels and strips.count == 1 else offset
    pieces: tuple[Access, ...] = ()
    if columns:
        step = strips.rows * spec.stride[0] * strips.width
        aligned = aligned_to(spec, strips.stride, step if strips.count > 1 else 0)
        pieces = pieces_of(row * strips.width + columns[0], columns[-1] + 1 - columns[0], 0, columns[0], strips.width,
                           aligned)
    guarded = not pixels
    return InputRow(offset=offset, at_least=-offset if guarded and offset < 0 and strips.count > 1 else None,
                    below=height - offset if guarded and offset + tops[-1] >= height else None, pieces=pieces,
                    uses=uses, found=0 if pixels and strips.count > 1 and not all(inside) else None,
                    inside=pixels or any(inside),
                    outside=spec.padding_mode is Border.CONSTANT and not all(inside))


def _looked_up(spec: KernelSpec, strips: Strips, row: InputRow, columns: list[int], first: int) -> InputRow:
    """The row with accesses that are aligned wherever the strips find it; the lookup begins at row ``first``."""
    places = [_place(spec, strips, top + row.offset) for top in _tops(spec, strips)]
    wide = math.gcd(strips.stride, WIDEST_ACCESS // spec.dtype.itemsize)
    while len({place % wide for place in places}) > 1:
        wide //= 2
    begin = places[0] % wide
    pieces = pieces_of(begin + columns[0], columns[-1] + 1 - columns[0], 0, columns[0], strips.width, wide)
    moved = tuple(Access(offset=p.offset - begin, count=p.count, row=p.row, column=p.column) for p in pieces)
    return InputRow(offset=row.offset, at_least=None, below=None, pieces=moved, uses=row.uses, found=row.offset - first)


def _place(spec: KernelSpec, strips: Strips, row: int) -> int:
    """Where a row stands, elements from its plane's beginning."""
    found = spec.padding_mode.index(row, strips.height)
    return (row if found is None else found) * strips.width


def border_rows(spec: KernelSpec, strips: Strips, rows: tuple[InputRow, ...]) -> BorderRows | None:
    """What strips look up; None where no row is."""
    looked_up = [row.offset for row in rows if row.found is not None]
    if not looked_up:
        return None
    first, last = looked_up[0], looked_up[-1] + _tops(spec, strips)[-1]
    return BorderRows(first=first, last=last,
                      elements=tuple(_place(spec, strips, row) for row in range(first, last + 1)))


def output_rows(spec: KernelSpec, strips: Strips) -> tuple[OutputRows, ...]:
    """All rows of a strip as one stretch; row by row where the last strip has fewer."""
    p, q, rows = strips.p, strips.q, strips.rows
    aligned = aligned_to(spec, strips.stride, rows * q if strips.count > 1 else 0)
    if p % rows == 0:
        return (OutputRows(below=None, pieces=pieces_of(0, rows * q, 0, 0, q, aligned)),)
    return tuple(OutputRows(below=p - i if i >= p % rows else None, pieces=pieces_of(i * q, q, i, 0, q, aligned))
                 for i in range(rows))


def aligned_to(spec: KernelSpec, plane: int, strip: int) -> int:
    """Elements of the widest access whose multiple every strip of every plane begins at."""
    return math.gcd(plane, strip, WIDEST_ACCESS // spec.dtype.itemsize)


def pieces_of(offset: int, count: int, row: int, column: int, width: int, aligned: int) -> tuple[Access, ...]:
    """A stretch in accesses as wide as its alignment and its rest allow."""
    pieces = []
    while count:
        wide = aligned
        while offset % wide or wide > count:
            wide //= 2
        pieces.append(Access(offset=offset, count=wide, row=row, column=column))
        offset, count, column = offset + wide, count - wide, column + wide
        row, column = row + column // width, column % width
    return tuple(pieces)
