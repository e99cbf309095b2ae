"""``staged`` in quarters: a lane makes a quarter of an output plane, and all four are mirrored onto the upper left one.

A layer whose padding is the same on both sides looks the same from every corner of the plane once the filter is turned
likewise. So one text serves all four quarters of eight planes, a warp's lanes: it begins at a corner of the image, taps
outside are left out of it, and no lane waits for another. Nothing is shared between warps. Every border looks the same
from every corner, too: its pixels are rows and columns of the plane that are known when the text is made.
"""

from __future__ import annotations

from warpconv.codegen.border import Border
from warpconv.codegen.parts.weights import Weights
from warpconv.codegen.spec import KernelSpec

from .numbers import (Copy, MirroredColumn, QuarterRow, Quarters, Source, Stage, StagedNumbers, StagedOptions,
                      StripCost, copy_of, output_size)
from .rows import WIDEST_ACCESS, Access, Taps, columns_of, pieces_of, taps_of, uses_of

WARP_PLANES = 8               # whose four quarters are a warp's lanes
SPARE = 48                    # registers of a lane beyond sums, weights and columns: with 14 some compilers spill


def quarters_refusal(spec: KernelSpec, options: StagedOptions) -> str | None:
    """Why these planes cannot be made in quarters, or None."""
    p, q = output_size(spec, options)
    if p % 2 or q % 2:
        return f"parts = quarters of {p} x {q} outputs: both have to be even"
    axes = zip((options.height, options.width), (p, q), (spec.r, spec.s), spec.stride, spec.padding, spec.dilation)
    for size, outputs, taps, stride, (before, _), dilation in axes:
        if (outputs - 1) * stride + (taps - 1) * dilation - (size - 1) != 2 * before:
            return "parts = quarters: the padding before and behind is not the same, so that they are no mirror images"
    if spec.filters != 1 or spec.k % WARP_PLANES or options.planes % WARP_PLANES:
        return (f"parts = quarters: K = {spec.k} and planes = {options.planes} have to be multiples of {WARP_PLANES}, "
                f"K/groups = {spec.filters} has to be 1")
    if options.rows not in (0, p // 2) or options.weights is not Weights.REGISTERS or options.stage is not Stage.ASYNC:
        return f"parts = quarters goes with rows = {p // 2}, weights=registers and stage=async"
    if spec.dtype.is_half and options.width % 2:
        return f"parts = quarters: rows of {options.width} 16-bit elements do not begin at whole words"
    return None


def quarters_of(spec: KernelSpec, options: StagedOptions) -> Quarters:
    """All numbers of quarters whose plan values have been checked."""
    p, q = output_size(spec, options)
    rows, columns = p // 2, q // 2
    copy_in, copy_out = copies_of(spec, options)
    taps = taps_of(spec, options.width, columns)
    last = _last_column(spec, options, taps)
    right_in = options.width - 1 - last
    odd = spec.dtype.is_half and columns % 2
    right_out = columns + odd
    pieces = pieces_of(0, last + 1, 0, 0, options.width, _aligned(spec, copy_in, options.width, right_in))
    return Quarters(
        rows=rows, columns=columns, warps=options.planes // WARP_PLANES,
        warp_elements=options.buffers * buffer_bytes(spec, options) // spec.dtype.itemsize, right_in=right_in,
        right_out=right_out, middle=bool(odd), pieces=pieces, sources=_sources(pieces, spec.dtype.lanes),
        input_rows=_input_rows(spec, options, rows), taps=taps,
        output_pieces=pieces_of(0, columns - odd, 0, 0, columns, _aligned(spec, copy_out, q, right_out)))


def copies_of(spec: KernelSpec, options: StagedOptions) -> tuple[Copy, Copy]:
    """A warp's planes, in and out."""
    p, q = output_size(spec, options)
    return (copy_of(spec, options, options.height * options.width, WARP_PLANES),
            copy_of(spec, options, p * q, WARP_PLANES))


def buffer_bytes(spec: KernelSpec, options: StagedOptions) -> int:
    """Of one of a warp's buffers."""
    largest = max(WARP_PLANES * copy.stride for copy in copies_of(spec, options))
    return -(-largest * spec.dtype.itemsize // 16) * 16


def quarter_numbers(spec: KernelSpec, options: StagedOptions) -> StagedNumbers:
    """All numbers of such a plan."""
    p, q = output_size(spec, options)
    copy_in, copy_out = copies_of(spec, options)
    stride, buffer, warps = spec.r * spec.s | 1, buffer_bytes(spec, options), options.planes // WARP_PLANES
    return StagedNumbers(
        p=p, q=q, inputs=WARP_PLANES, strips=4, threads=32 * warps, copy_in=copy_in, copy_out=copy_out,
        strip_rows_in=0, input_rows=(), output_rows=(), taps=(), buffer_bytes=buffer,
        weights=WARP_PLANES * spec.r * spec.s, weight_stride=stride,
        weight_pad=stride > spec.r * spec.s, shared_weights=warps * options.buffers * buffer,
        shared_bytes=warps * (options.buffers * buffer + 4 * stride * WARP_PLANES),
        cut=False, sync_before_store=True, pairs=spec.dtype.is_half,
        quarters=quarters_of(spec, options))


def quarter_cost(spec: KernelSpec, options: StagedOptions) -> StripCost:
    """What a quarter costs a lane."""
    quarters = quarters_of(spec, options)
    rows = [row for row in quarters.input_rows if not row.outside]
    products = sum(len(row.uses) for row in rows) * sum(len(t.pairs) for t in quarters.taps)
    one_value = (spec.s + quarters.columns) * sum(len(row.uses) for row in quarters.input_rows if row.outside)
    columns = len(quarters.sources) * (3 if spec.dtype.is_half else 1)
    outputs = quarters.rows * quarters.columns
    instructions = (products + one_value + len(rows) * (len(quarters.pieces) + columns + 1)
                    + outputs * (3 if spec.dtype.is_half else 2) + 30)
    return StripCost(instructions=instructions, typical=instructions, text=products,
                     registers=registers_of(spec, quarters))


def registers_of(spec: KernelSpec, quarters: Quarters) -> int:
    """Of a lane: sums, weights, columns of a row."""
    return quarters.rows * quarters.columns + spec.r * spec.s + len(columns_of(quarters.taps)) + SPARE


def _last_column(spec: KernelSpec, options: StagedOptions, taps: tuple[Taps, ...]) -> int:
    """The last column that is read: up to three more than are needed where the accesses get wider. Whole words."""
    needed = max(columns_of(taps), default=0)
    copy, _ = copies_of(spec, options)
    words = spec.dtype.lanes

    def accesses(last: int) -> int:
        return len(pieces_of(0, last + 1, 0, 0, options.width,
                             _aligned(spec, copy, options.width, options.width - 1 - last)))

    offered = [c for c in range(needed, min(needed + 4, options.width)) if (c + 1) % words == 0]
    return min(offered, key=accesses)


def _aligned(spec: KernelSpec, copy: Copy, width: int, right: int) -> int:
    """Elements of the widest access whose multiple every row of every quarter begins at."""
    wide = WIDEST_ACCESS // spec.dtype.itemsize
    while any(n % wide for n in (copy.stride, width, right)):
        wide //= 2
    return wide


def _sources(pieces: tuple[Access, ...], together: int) -> tuple[MirroredColumn, ...]:
    """Where each mirrored column (``together`` of them) is: for right quarters the row's last is the first."""
    at = [Source(piece.column, piece.count, i) for piece in pieces for i in range(piece.count // together)]
    return tuple(MirroredColumn(column=j * together, left=left, right=right)
                 for j, (left, right) in enumerate(zip(at, reversed(at))))


def _input_rows(spec: KernelSpec, options: StagedOptions, rows: int) -> tuple[QuarterRow, ...]:
    """Each row once, with what it stands for outside of the image; then the rows of the border's one value."""
    found: dict[int, list[tuple[int, int]]] = {}
    outside = []
    for h, uses in sorted(uses_of(spec, rows).items()):
        row = spec.padding_mode.index(h, options.height)
        if row is not None:
            found.setdefault(row, []).extend(uses)
        elif spec.padding_mode is Border.CONSTANT:
            outside.append(QuarterRow(row=h, uses=tuple(uses), outside=True))
    return (*(QuarterRow(row=row, uses=tuple(sorted(found[row]))) for row in sorted(found)), *outside)
