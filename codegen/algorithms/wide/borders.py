"""What ``wide`` does about columns and rows outside of the image where the border is not zeros."""

from __future__ import annotations

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import LANES
from warpconv.codegen.spec import KernelSpec

from .taps import signed


@dataclass(frozen=True)
class WideBorder:
    """A border other than zeros, as the template writes it; ``reads``: of the image's pixels, else of one value."""

    reads: bool
    left: int            # columns that windows reach left of all lanes of a row
    beside: int          # those and the ones to the right, of all lanes or of the image
    rounds: int          # of them that each lane of a row copies
    right: int           # columns right of the image
    rows: str            # how rows outside are found: worked out, by a shuffle, or where there are too many by a search
    folded: bool         # every row is worked out from the image's first: an image is taller than its padding
    least_rows: int      # of the image, for that
    element: str         # the value, as shared memory has it, 0 where pixels stand
    quad: str            # 16 bytes of it
    quad_type: str
    quad_elements: int


@dataclass(frozen=True)
class RowEnd:
    """The lane at an end of a row, in whose window are the columns that stand beside the row too."""

    lane: str                              # first, last
    columns: tuple[tuple[str, str], ...]   # the column outside of the image, the one that stands there


def row_ends(spec: KernelSpec, needed: list[int], chunk: int, lanes: int) -> tuple[RowEnd, ...] | None:
    """Where rows fill their lanes, W = ``lanes`` x ``chunk``: which columns beside a row the lane at its end replaces
    by others of its window, the ``needed`` ones (counted from a lane's first). None where a window reaches further
    than one lane has columns, or has no such column. A circular border has the columns at the row's other end there:
    neighbours go round in circles, and nothing is replaced."""
    if needed[0] < -chunk or needed[-1] >= 2 * chunk:
        return None
    if spec.padding_mode is Border.CIRCULAR:
        return ()
    mode, size = spec.padding_mode, 2 * chunk       # of a row that has the lane at one end and another at the other
    left = [(column, mode.pixel(column, size)) for column in needed if column < 0]
    right = [(column, mode.pixel(column + chunk, size) - chunk) for column in needed if column >= chunk]
    inside = [column for column in needed if lanes > 1 or 0 <= column < chunk]
    if any(taken not in inside for _, taken in (*left, *right)):
        return None
    return tuple(RowEnd(lane, tuple((f"in_{signed(column)}", f"in_{signed(taken)}") for column, taken in found))
                 for lane, found in (("first", left), ("last", right)) if found)


def least_rows(spec: KernelSpec) -> int:
    """Rows of an image, so that what stands outside of it is found by folding once; 1 where any image will do."""
    if spec.padding_mode is Border.REPLICATE:
        return 1
    return max(1, max(spec.padding[0]) + (spec.padding_mode is Border.REFLECT))


def make_border(spec: KernelSpec, left: int, right: int, across: int, closed: bool,
                apart: bool) -> WideBorder | None:
    """None for zeros. ``left``, ``right``: columns that a window reaches beside a row's lanes, ``across`` of them;
    where it is ``closed``, these lanes have what stands there. ``apart``: stages that copy rows
    of the border have a text of their own, where it is worked out what stands there."""
    if spec.padding_mode is Border.ZEROS:
        return None
    reads, single = spec.padding_mode.reads_image, spec.dtype is DType.FLOAT32
    beside = left + max(right, spec.padding[1][1])
    folded = closed and spec.channels == 1
    value = ("0.0f" if single else "0u") if reads else "BORDER"
    quad = "float4" if single else "uint4"
    rows = "folded" if folded else "direct" if apart else _rows(spec)
    return WideBorder(reads=reads, left=left, beside=beside, rounds=-(-beside // across) if reads and not closed else 0,
                      right=spec.padding[1][1], rows=rows, folded=folded,
                      least_rows=least_rows(spec) if folded else 1,
                      element=value if single else f"(unsigned short){value}",
                      quad=f"make_{quad}({', '.join([value] * 4)})", quad_type=quad,
                      quad_elements=16 // spec.dtype.itemsize)


def _rows(spec: KernelSpec) -> str:
    if spec.padding_mode is Border.REPLICATE:
        return "direct"
    return "shuffled" if sum(spec.padding[0]) <= LANES else "searched"
