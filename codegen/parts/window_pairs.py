"""Pairs of what lies side by side of a window, from shared memory to registers: the factors of first layers in 16 bits
(templates/parts/window_pairs.cuh.jinja), as ``taps_wgmma`` and ``taps_mma`` multiply them.

A run of a window's elements that lie side by side is loaded in words of two. Where a window begins inside of a word its
pairs do, too: the filter has a version for either side, zeros in what the pairs have besides.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..classes import dataclass
from ..dtypes import Layout
from ..hardware import LANES, SECTOR_BYTES
from ..plan import Argument, Blocks, Launch, Preparation, Role, Workspace
from ..shape import ConvShape
from ..spec import KernelSpec
from .arguments import bounded, demanding, layer_arguments
from .first_layers import DEPTH_QUADS, LANES_EACH, PAIR, finds_pixels, pixel_of, run_of
from .first_layers import quads_of as quads_of_runs
from .lines import Lines, asked_of_lines, lead_of, lines_of, rows_together, width_refusal
from .stored_rows import PartlyStored
from .wgmma import CELL_BYTES, COLUMN_UNIT, DEPTH, ROW_BYTES
from .window_banks import Runs, spread

ITEMSIZE = 2
WIDE = CELL_BYTES // ITEMSIZE   # elements of a copy
STEP_DEPTHS = ROW_BYTES // (ITEMSIZE * DEPTH)   # instructions of a step, whose products are a row in shared memory
RUN = 8                         # outputs of a warp that the sums have one below the other
WARP_RUNS = 2                   # of sixteen rows of a product
FILTER = "filter"               # a program's name for the prepared filter
MOST_FILTER_BLOCKS = 1024
SIDE_THREADS = 256              # of a block of the filter's preparation
STORES = (8, 4, 2, 1)
MOST_WASTE = 1.34               # of filters of tiles: so often the fewest
SEVERAL = 8                     # channels from which layers took so many times the estimated cycles (8 and 12 channels,
SEVERAL_SHARE = {Layout.NHWC: 1.25, Layout.NCHW: 1.6}     # three layers each, an H200, 2026-11-30)


class PairOptions(Protocol):
    """The plan values that these are made of: a tile's rows, columns and filters, whether lines of x begin with 16
    bytes (``vector`` = WIDE) or anywhere (1), outputs of a store, and whether outputs of whole rows are put together in
    shared memory before they are stored."""

    @property
    def tile_p(self) -> int: ...

    @property
    def tile_q(self) -> int: ...

    @property
    def filters(self) -> int: ...

    @property
    def vector(self) -> int: ...

    @property
    def store_vector(self) -> int: ...

    @property
    def staged(self) -> bool: ...


@dataclass(frozen=True)
class PairNumbers:
    """What the shared templates write besides the spec (``pair_fields``)."""

    whole_lines: bool           # whether every line of x begins with 16 bytes
    rows_together: bool         # whether a channel's lines of a tile are one copy
    flat: bool                  # whether a tile's outputs are taken as they lie in y, rows without a gap between them
    products: int               # of an output
    run_length: int             # elements of a window that lie side by side in x,
    spans: int                  # and such runs of a window
    by_tap: bool                # whether each tap is one of its own
    depths: int                 # instructions of all products
    steps: int
    step: int                   # products of a step
    step_cells: int             # of 16 bytes: a step's products of all filters
    whole_quads: int            # of a span: four pairs side by side, one of each of four lanes
    rest_pairs: int             # pairs that are left of one
    span_quads: int             # fours of all spans,
    rest_quads: int             # of what is left of them,
    quads: int                  # and all
    versions: int               # of the filter in shared memory: by the side of a pair at which a window begins
    by_parity: bool             # and whether a block has images of one side only, and the version for these
    begins: int                 # that side, where there is one
    moving: bool                # whether runs of a window begin at sides of their own,
    free: bool                  # which the window's own decides, and not its block's
    patterns: int               # of versions, by the sizes of x
    version_bytes: int          # of shared memory: a version of a tile's filters
    filter_tiles: int
    filter_bytes: int           # of a tile's filters
    image: int                  # elements of the filter as the tensor cores take it,
    prepared: int               # and with that as it was
    blocks: int                 # eights of filters in a tile
    together: int               # of these whose filters a lane stores side by side
    by_side: bool               # whether even columns are one product's outputs and odd ones another's
    apart: int                  # columns from one output of a run to the next
    each: int                   # of these whose outputs lie between each other's
    other: int                  # columns from a lane's output of a run to that of the next, where they lie in one row,
    beside: int                 # and bytes from that window to this one's in shared memory; else 0
    halo_rows: int
    pixel: int                  # elements of a pixel in a line of the image
    odd_pixel: bool             # whether the side changes from column to column
    turning: bool               # and from row to row, where lines have an odd number of elements
    line: int                   # elements from a line to the next in shared memory, or at least
    lead: int                   # elements of a line before the first that a window reads
    pieces: int                 # copies of a line,
    piece_lanes: int            # by so many threads,
    piece_rounds: int           # so often
    lines: int                  # of a tile
    planes: int                 # planes of channels in shared memory,
    plane: int                  # elements from one to the next, or at least
    halo: int                   # elements of a tile's pixels there
    edges: bool                 # whether columns stand in the padding
    find_pixels: bool           # whether what stands in the padding is a pixel of the image


def is_odd(spec: KernelSpec) -> bool:
    """Whether windows of neighbouring outputs begin at different sides of pairs."""
    return spec.stride[1] * pixel_of(spec) % PAIR == 1


def has_words(spec: KernelSpec, options: PairOptions) -> bool:
    """Whether a thread stores words of two neighbouring columns from its sums: in NCHW, but where rows are put together
    first."""
    return spec.layout is Layout.NCHW and not options.staged


def by_side(spec: KernelSpec, options: PairOptions) -> bool:
    """Whether even and odd columns are products of their own."""
    return has_words(spec, options) or is_odd(spec)


def sides_of(spec: KernelSpec, options: PairOptions) -> int:
    """Sides of a pair that warps, or groups of them, share out: in NHWC each side has its own."""
    return 2 if by_side(spec, options) and spec.layout is Layout.NHWC else 1


def versions_of(spec: KernelSpec, options: PairOptions) -> int:
    """Of the filter: windows begin at one side of a pair, or at either."""
    return 2 if is_odd(spec) or has_odd_lines(spec, options) else 1


def by_parity(spec: KernelSpec, options: PairOptions) -> bool:
    """Whether all windows of an image begin at one side of a pair, and those of the next may at the other."""
    return has_odd_lines(spec, options) and not is_odd(spec)


def held_versions(spec: KernelSpec, options: PairOptions) -> int:
    """Of the filter that a block has: the one, where images of either side are different blocks'."""
    return 1 if by_parity(spec, options) else versions_of(spec, options)


def has_odd_lines(spec: KernelSpec, options: PairOptions) -> bool:
    """Whether lines of x may have an odd number of elements."""
    return options.vector == 1 and pixel_of(spec) % PAIR == 1


def patterns_of(spec: KernelSpec, options: PairOptions) -> int:
    """Lines of x have an even number of elements or an odd one, planes then, too."""
    if not has_odd_lines(spec, options):
        return 1
    return 3 if spec.layout is Layout.NCHW else 2


def run_pairs(spec: KernelSpec, options: PairOptions) -> int:
    """Pairs that hold such a run, at whichever side it begins."""
    length, _ = run_of(spec)
    if versions_of(spec, options) == 1 and not is_moving(spec, options):
        return -(-(length + lead_of(spec, options.vector == WIDE, WIDE) % PAIR) // PAIR)
    return length // PAIR + 1


def is_moving(spec: KernelSpec, options: PairOptions) -> bool:
    """Whether a window's runs begin at sides of their own."""
    apart = spec.dilation[1] > 1 and spec.dilation[1] * pixel_of(spec) % PAIR == 1
    return has_odd_lines(spec, options) or apart


def is_free(spec: KernelSpec, options: PairOptions) -> bool:
    """Whether the side that a window begins at, which is not its block's, finds its factors' places."""
    return is_moving(spec, options) and versions_of(spec, options) > 1 and not by_parity(spec, options)


def quads_of(spec: KernelSpec, options: PairOptions) -> tuple[int, int]:
    """Fours of pairs of a window: of whole runs, and of what is left of them."""
    return quads_of_runs(run_pairs(spec, options), run_of(spec)[1])


def depths_of(spec: KernelSpec, options: PairOptions) -> int:
    """Instructions of all products."""
    return -(-sum(quads_of(spec, options)) // DEPTH_QUADS)


def steps_of(spec: KernelSpec, options: PairOptions) -> int:
    """Of the reduction: rows of products in shared memory."""
    return -(-depths_of(spec, options) // STEP_DEPTHS)


def halo(spec: KernelSpec, options: PairOptions) -> Lines:
    """A tile's pixels in shared memory, with what pairs have behind a window."""
    beside = PAIR * run_pairs(spec, options) - run_of(spec)[0]
    if has_rows_together(spec, options):
        return rows_together(spec, (options.tile_p, options.tile_q), WIDE, beside)
    lines = lines_of(spec, (options.tile_p, options.tile_q), options.vector == WIDE, WIDE, beside)
    return spread(lines, _runs(spec, options)) if options.vector == WIDE else lines


def is_flat(spec: KernelSpec, options: PairOptions) -> bool:
    """Whether a tile's whole rows are taken as one run of outputs: where all begin at one side of a pair."""
    return options.staged and not is_odd(spec)


def has_rows_together(spec: KernelSpec, options: PairOptions) -> bool:
    """Whether a channel's rows are one copy: whole ones that begin anywhere, where nothing is padded. (Of those that
    begin with 16 bytes lines lie where windows' loads meet in few banks.)"""
    return is_flat(spec, options) and options.vector == 1 and not any(map(any, spec.padding))


def _runs(spec: KernelSpec, options: PairOptions) -> Runs:
    """A window's, as window_banks looks at them."""
    pixel, by_tap = pixel_of(spec), spec.dilation[1] > 1
    shape = (spec.c // pixel, spec.r, spec.s if by_tap else 1)
    return Runs(pairs=run_pairs(spec, options), shape=shape, down=spec.dilation[0], across=spec.dilation[1] * pixel,
                step=apart_of(spec, options) * spec.stride[1] * pixel)


def version_bytes(spec: KernelSpec, options: PairOptions) -> int:
    """Of a version of a tile's filters in shared memory."""
    return steps_of(spec, options) * options.filters * ROW_BYTES


def store_width(spec: KernelSpec, shape: ConvShape | None, staged: bool = False) -> int:
    """Outputs of a store that lie side by side."""
    if spec.layout is Layout.NCHW:
        return next((width for width in ((WIDE, PAIR) if staged else (PAIR,)) if shape is not None
                     and shape.q % width == 0), 1)
    return next(width for width in STORES if spec.k % width == 0)


def column_unit(spec: KernelSpec, options: PairOptions) -> int:
    """Filters that a tile has a whole number of: those of the blocks that a lane stores from at once."""
    return COLUMN_UNIT if spec.layout is Layout.NCHW else max(COLUMN_UNIT, LANES_EACH * options.store_vector)


def several_share(spec: KernelSpec) -> float:
    """Times as many cycles as are estimated for a first layer's two or three channels."""
    return SEVERAL_SHARE[spec.layout] if spec.c >= SEVERAL else 1.0


def filter_widths(spec: KernelSpec, unit: int, widths: tuple[int, ...]) -> list[int]:
    """Filters of a tile, whole ``unit``s: of ``widths``, or all, those that waste little."""
    whole = -(-spec.k // unit) * unit
    fitting = {f for f in (*widths, whole) if f <= min(whole, max(widths)) and f % unit == 0}
    least = min(-(-spec.k // f) * f for f in fitting)
    return sorted(f for f in fitting if -(-spec.k // f) * f <= MOST_WASTE * least)


def apart_of(spec: KernelSpec, options: PairOptions) -> int:
    """Columns from one output of a run to the next: one, or those of one side, where the eight windows' loads lie in as
    many words as there are banks, or else so many that they meet in no bank: an odd multiple of 16 bytes."""
    least, step, banks = 2 if by_side(spec, options) else 1, spec.stride[1] * pixel_of(spec), LANES
    quad, last = LANES_EACH * PAIR, (RUN - 1) * step
    if spec.layout is Layout.NCHW or least * last // PAIR + LANES_EACH <= banks:
        return least
    return next((apart for apart in (1, 2, 4, 8) if apart >= least and apart * step % (2 * quad) == quad), least)


def other_of(spec: KernelSpec, options: PairOptions) -> int:
    """Columns from a lane's output of a run to that of the warp's other one, where both always lie in one row; or 0."""
    least = 2 if by_side(spec, options) else 1
    apart = apart_of(spec, options)
    if is_flat(spec, options):
        return 0
    if apart // least % 2 == 0:         # between each other's: the first at a multiple of twice the distance
        return least if options.tile_q % (2 * least) == 0 else 0
    return RUN * apart if apart == least and options.tile_q % (2 * RUN * apart) == 0 else 0


def partly_stored(spec: KernelSpec, options: PairOptions, shape: ConvShape, cost: PartlyStored) -> float:
    """Bytes more than a layer's that its stores cost."""
    if not has_words(spec, options) or shape.q * ITEMSIZE % SECTOR_BYTES == 0:
        return 0.0
    return cost.written(shape, spec.hardware) * cost.more(shape, options.tile_q)


def runs_fit(spec: KernelSpec, options: PairOptions) -> bool:
    """Whether a tile's columns begin with 16 bytes where lines do and have whole pairs of sides, runs that lie between
    each other are all there, and few go on in the next row, whose outputs may meet in banks; none where eight
    outputs are put together at a time."""
    whole = options.vector != WIDE or options.tile_q * spec.stride[1] * pixel_of(spec) % WIDE == 0
    apart = RUN * apart_of(spec, options)
    alike = options.tile_q % apart == 0 or (options.tile_q > 2 * apart and not options.staged)
    return (whole and alike and options.tile_p * options.tile_q % apart == 0
            and not (by_side(spec, options) and options.tile_q % PAIR))


def layer_refusal(spec: KernelSpec, options: PairOptions) -> str | None:
    """None, or in words why lines or stores are none that the spec has."""
    refusal = width_refusal(options.vector, WIDE)
    if refusal is not None:
        return refusal
    if options.vector == 1 and spec.stride[0] % PAIR and not is_odd(spec) and pixel_of(spec) % PAIR:
        return (f"strides of {spec.stride[0]} and {spec.stride[1]} with vector = 1: rows of outputs begin at either "
                f"side of a pair by turns (vector = {WIDE}, of lines of whole 16 bytes, is served)")
    stores = STORES if spec.layout is Layout.NHWC else (*((WIDE,) if options.staged else ()), PAIR, 1)
    if options.store_vector not in stores or spec.layout is Layout.NHWC and spec.k % options.store_vector:
        return f"store_vector = {options.store_vector} ({', '.join(map(str, stores))}; in NHWC a divisor of K)"
    return None


def pair_arguments(spec: KernelSpec, options: PairOptions) -> tuple[Argument, ...]:
    """The layer's, aligned as they are loaded and stored, and the prepared filter."""
    store = ITEMSIZE * options.store_vector
    asked = {**asked_of_lines(spec, options.vector), "y": store, "residual": store}
    if spec.layout is Layout.NCHW:
        asked["Q"] = options.store_vector
    arguments = demanding(layer_arguments(spec, as_elements=True), asked)
    if options.staged:
        arguments = bounded(arguments, {"Q": options.tile_q})
    return (*arguments, Argument(name=FILTER, role=Role.WORKSPACE, c_type=spec.w_dtype.c_name, multiple_of=CELL_BYTES))


def pair_preparation(numbers: PairNumbers) -> Preparation:
    """The filter as shared memory has it, [pattern][tile of filters][version][step][filter][products], filled up with
    zeros, and as it was."""
    grid = (Blocks(times=-(-numbers.prepared // SIDE_THREADS), limit=MOST_FILTER_BLOCKS), Blocks(), Blocks())
    launch = Launch(entry="prepare_filter", grid=grid, block=(SIDE_THREADS, 1, 1), arguments=("w", FILTER))
    return Preparation(steps=(launch,), buffer=Workspace(name=FILTER, bytes_each=ITEMSIZE * numbers.prepared))


def versions_in_words(numbers: PairNumbers) -> str:
    """What of the filter a block keeps, for a plan's phrase."""
    if numbers.by_parity:
        return "one of two versions of the filter stays"
    return "two versions of the filter stay" if numbers.versions == 2 else "the filter stays"


def pair_fields(spec: KernelSpec, options: PairOptions) -> dict[str, Any]:
    """The fields of PairNumbers."""
    lines, pixel, versions = halo(spec, options), pixel_of(spec), versions_of(spec, options)
    of_version, filter_tiles = version_bytes(spec, options), -(-spec.k // options.filters)
    image = patterns_of(spec, options) * filter_tiles * versions * of_version // ITEMSIZE
    length, spans = run_of(spec)
    pairs, quads = run_pairs(spec, options), quads_of(spec, options)
    apart, other = apart_of(spec, options), other_of(spec, options)
    return dict(
        whole_lines=options.vector == WIDE, rows_together=has_rows_together(spec, options),
        flat=is_flat(spec, options), products=spec.reduction, run_length=length, spans=spans,
        by_tap=spec.dilation[1] > 1, depths=depths_of(spec, options), steps=steps_of(spec, options),
        step=ROW_BYTES // ITEMSIZE, step_cells=options.filters * ROW_BYTES // CELL_BYTES,
        whole_quads=pairs // LANES_EACH, rest_pairs=pairs % LANES_EACH, span_quads=quads[0], rest_quads=quads[1],
        quads=sum(quads), versions=versions, by_parity=by_parity(spec, options), begins=lines.lead % PAIR,
        moving=is_moving(spec, options), free=is_free(spec, options), patterns=patterns_of(spec, options),
        version_bytes=of_version, filter_tiles=filter_tiles,
        filter_bytes=held_versions(spec, options) * of_version, image=image,
        prepared=image + spec.k * spec.reduction, blocks=options.filters // COLUMN_UNIT,
        together=max(1, options.store_vector // PAIR) if spec.layout is Layout.NHWC else 1,
        by_side=by_side(spec, options), apart=apart,
        each=apart // (2 if by_side(spec, options) else 1), other=other,
        beside=ITEMSIZE * other * spec.stride[1] * pixel, halo_rows=lines.rows, pixel=pixel, odd_pixel=is_odd(spec),
        turning=is_odd(spec) and has_odd_lines(spec, options), line=lines.line, lead=lines.lead, pieces=lines.pieces,
        piece_lanes=lines.piece_lanes, piece_rounds=lines.piece_rounds, lines=lines.rows * (spec.c // pixel),
        planes=spec.c // pixel, plane=lines.plane, halo=lines.elements, edges=any(spec.padding[1]),
        find_pixels=finds_pixels(spec))
