"""The products of ``wide``: those of a whole filter, and those of a separable one.

A separable filter is w[r][s] = wy[r] * wx[s]. Of each input row its sums h = in[v] * wx[0] + in[v + 1] * wx[1] + .. are
made first, one for each output column, and then added to the output rows in work with a product each: R + S products
for an output in place of R * S, in float32, of the same loads. docs/separable.md tells more.
"""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.parts.rows import RowInWork, row_in_work, vertical
from warpconv.codegen.spec import KernelSpec

from .options import TapRows, WideOptions

READ_TOGETHER = 8       # weights of the column that are read at once, where shared memory holds them


@dataclass(frozen=True)
class Tap:
    r: int
    s: int
    columns: tuple[str, ...]     # the input column, or the row's sum, of each output column


@dataclass(frozen=True)
class TapChain(RowInWork):
    reads: tuple[int, ...]       # filter rows whose weights are read before its products, where they are read again
    taps: tuple[Tap, ...]


def taps_of(spec: KernelSpec) -> int:
    """Weights of a filter's channel, and its products for one output."""
    return spec.r + spec.s if spec.separable else spec.r * spec.s


def accumulators(spec: KernelSpec, columns: int) -> int:
    """Registers of the output rows in work."""
    return vertical(spec)[1] * columns


def row_registers(spec: KernelSpec, options: WideOptions) -> int:
    """Registers of an input row's columns as floats."""
    return (options.columns - 1) * spec.stride[1] + (spec.s - 1) * spec.dilation[1] + 1


def steps_of_one_row(spec: KernelSpec) -> bool:
    """Whether a step takes one input row: the vertical stride divides the dilation."""
    return vertical(spec)[0] == 1


def tap_of(spec: KernelSpec, options: WideOptions, r: int, s: int, row: str) -> Tap:
    """The products of a weight with the input columns of a row (``row`` tells the rows of a step apart)."""
    return Tap(r, s, tuple(f"in_{signed(v * spec.stride[1] + s * spec.dilation[1] - spec.padding[1][0])}{row}"
                           for v in range(options.columns)))


def sum_tap(options: WideOptions, r: int, row: str) -> Tap:
    """The products of a column's weight with a row's sums."""
    return Tap(r, 0, tuple(f"sum_c{v}{row}" for v in range(options.columns)))


def row_sums(spec: KernelSpec, options: WideOptions, rows: tuple[str, ...]) -> tuple[tuple[Tap, ...], ...]:
    """For each row of a step the products of its sums."""
    return tuple(tuple(tap_of(spec, options, 0, s, row) for s in range(spec.s)) for row in rows)


def rows_read(spec: KernelSpec, slots: int, step_rows: int, number: int) -> tuple[int, ...]:
    """The weights of the column that are read before the products of output row ``number``: several rows' together."""
    if number % READ_TOGETHER:
        return ()
    first = max(0, slots - number - READ_TOGETHER) * step_rows
    return tuple(range(first, min(spec.r, (slots - number) * step_rows)))


def chain(spec: KernelSpec, options: WideOptions, slots: int, step_rows: int, number: int,
          names: tuple[str, ...]) -> TapChain:
    """The products of a step for output row ``number`` in work; ``names`` tell the rows of a step apart."""
    row = row_in_work(spec, number)
    reads = row.rows
    if spec.separable:
        taps = tuple(sum_tap(options, r, name) for r, name in zip(row.rows, names))
        if options.tap_rows is TapRows.ALL:     # else a branch may leave out what reads for the next
            reads = rows_read(spec, slots, step_rows, number)
    else:
        taps = tuple(tap_of(spec, options, r, s, name) for r, name in zip(row.rows, names) for s in range(spec.s))
    return TapChain(**vars(row), reads=reads, taps=taps)


def signed(position: int) -> str:
    """A position in a name."""
    return f"m{-position}" if position < 0 else str(position)
