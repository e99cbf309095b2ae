"""Every number and name that the template of ``wide`` writes."""

from __future__ import annotations

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType
from warpconv.codegen.hardware import LANES
from warpconv.codegen.parts.rows import vertical
from warpconv.codegen.parts.vectors import Vector, packs_limited, vector_of
from warpconv.codegen.parts.weights import BankWeights
from warpconv.codegen.spec import Epilogue, KernelSpec

from .borders import RowEnd, WideBorder, make_border, row_ends
from .lines import (Column, WarpLine, LinePiece, StorePart, beside_chunk, line_of, pieces_of, read_cell, read_columns,
                    store_parts)
from .options import Guards, Separators, Loads, Pipeline, Span, TapRows, WideOptions
from .seams import Seams, seams_of
from .taps import TapChain, Tap, accumulators, chain, row_registers, row_sums, signed as _signed, taps_of

BRANCHES = 8                  # of a step that leaves out filter rows: each costs its latency, fewer leave out less
REGISTERS_IN_A_STEP = 15      # of a step beside accumulators, columns and weights
FEW_TAPS, FEW_ROWS = 9, 3     # of a filter that leaves a layer to memory: up to 3x3
REGISTER_LIMIT = 255 - 30     # registers of a thread, less what addresses and the loop take


@dataclass(frozen=True)
class Distance:
    """A neighbour that columns are taken from."""

    name: str            # left_1, right_2
    select: str          # "edge": its outermost lanes give what they loaded beyond the strip; "zero"; "round"; or ""
    condition: str       # when
    lane: str            # the neighbour


@dataclass(frozen=True)
class Take:
    """One register got from a neighbour."""

    name: str
    lane: str            # the Distance's name
    own: str             # the neighbour's member of Row
    edge: str            # what an outermost lane gives instead
    select: str
    shuffle: str         # the intrinsic, and the lane that it takes
    source: str
    member: str = ""     # of what the neighbour read from shared memory


@dataclass(frozen=True)
class WideNumbers:
    """What the template writes besides the spec."""

    chunk: int               # input columns of a lane
    strip: int               # output columns of a warp
    strip_columns: int       # input columns of a warp
    packed: bool
    across: int              # lanes of a row
    planes: int              # side by side in a warp
    most_columns: int        # widest input and output that packed lanes hold
    most_outputs: int
    step_rows: int
    slots: int
    carried: int             # rows of accumulators that live from step to step
    classes: int
    pad_top: bool            # rows above the image add nothing
    pad_bottom: bool
    skips_top: bool          # steps above the image are left out
    border: WideBorder | None
    held_columns: bool       # single columns of 16 bits wait in registers
    pairs: int               # of 16 bits: such columns are copied with a neighbour, and taken from there
    element_copies: bool     # of 4 bytes beside those of vectors, for columns outside of the image
    taps: int
    own: Vector
    own_loads: int
    edge: Vector
    edge_loads: int
    edge_vector: int         # elements of one such load
    edge_left: int           # columns beside the strip that are loaded
    edge_right: int
    beyond_left: int         # from an outermost lane's own first column to those it loads beyond the strip
    beyond_right: int
    left_lanes: int
    right_lanes: int
    row_cells: int           # registers of a loaded row
    cell_type: str
    cell_zero: str
    distances: tuple[Distance, ...]
    takes: tuple[Take, ...]
    window: tuple[Column, ...]
    row_names: tuple[str, ...]
    apart: bool              # stages that copy rows of the image alone have a copy of the text of their own
    stages_above: bool       # later stages than the first rows may copy rows above the image
    rows_fragment: str
    filter_fragment: str
    per_line: int            # statements of a line
    row_sums: tuple[tuple[Tap, ...], ...]    # of a separable filter: for each row of a step the products of its sums
    chains: tuple[TapChain, ...]
    groups: tuple[tuple[TapChain, ...], ...]    # those left out together where not needed
    pieces: tuple[LinePiece, ...]
    line: WarpLine
    stages_ahead: int
    store: Vector
    to_word: str             # the function that makes what is stored of integers of 8 and 16 bits, or ""
    stores: tuple[StorePart, ...]
    seams: Seams | None      # between the stacked warps of a block
    interior: bool
    beside_vectors: bool     # lanes copy vectors beside a strip
    whole_rows: bool         # packed ones fill their lanes, with a border's pixels beside them
    closed_rows: bool        # which are taken from the rows' own lanes
    row_ends: tuple[RowEnd, ...]
    row_walks: bool          # a pointer goes down the image, else each row is counted from the first one
    replaced: tuple[str, ...]    # columns that a lane at a row's end has its own in place of
    limited_rows: bool       # a sub-block loads none beyond its last one; others are in its text with a border's pixels
    together: int            # steps that come into use together; a sub-block has whole stages of them
    paired: bool
    uniform_warp: bool       # told to the compiler: fewer registers, and no test of the lanes before each shuffle
    residual: str            # when it is loaded: "with_rows", "step_ahead"; or "" for none
    skip_rows: bool
    reread_weights: bool
    weights_ahead: bool      # those of the next output row are read before the products of this one
    threads: int
    steps: int               # of a warp
    block_rows: int
    block_planes: int
    filter_blocks: int       # blocks beside each other in the grid that read the same rows, for other filters
    tap_stride: int          # floats from one channel's weights to the next
    shared_floats: int
    unit: str


    @property
    def seam_bytes(self) -> int:
        """Of a block's shared memory."""
        return 4 * self.seams.block if self.seams else 0


def filter_registers(spec: KernelSpec, options: WideOptions) -> int:
    return {BankWeights.REGISTERS: taps_of(spec), BankWeights.SHARED: 2 * spec.s + 8,
            BankWeights.CONSTANT: 0}[options.weights]


def make_numbers(spec: KernelSpec, options: WideOptions) -> WideNumbers:
    stride, dilation, left = spec.stride[1], spec.dilation[1], spec.padding[1][0]
    step_rows, slots, classes = vertical(spec)
    packed = options.span is Span.PACKED
    chunk = options.columns * stride
    needed = sorted({v * stride + s * dilation - left for v in range(options.columns) for s in range(spec.s)})
    own = _vector(spec, options.vector)
    reach = _Reach(needed, chunk, own.per_cell)
    in_shared = options.loads is not Loads.REGISTERS
    across = options.row_lanes if packed else LANES
    pixels, zeros = spec.padding_mode.reads_image, spec.padding_mode is Border.ZEROS
    pad_top = zeros and spec.padding[0][0] > 0
    ends = row_ends(spec, needed, chunk, across) if pixels and options.separators is Separators.NONE else None
    closed = ends is not None
    edge = _edge_columns(reach, chunk, own.per_cell)
    if (packed and not pixels) or closed or in_shared or not reach.takes:
        edge = 0
    edge_vector = min(edge, options.vector) or 1
    planes = LANES // options.row_lanes if packed else 1
    warps = options.warp_columns * options.warp_rows * options.warp_planes
    taps = taps_of(spec)
    tap_stride = -(-taps // 4) * 4
    together_left_out = max(1, round(slots / BRANCHES))
    block_planes = options.warp_planes * planes
    names = ("",) if step_rows == 1 else tuple(f"_u{u}" for u in range(step_rows))
    chains = tuple(chain(spec, options, slots, step_rows, number, names) for number in range(slots))
    select = "zero" if options.separators is Separators.SELECT else ""
    if closed:
        select = "round"
    elif pixels or not packed:
        select = "edge"
    most_columns, most_outputs = _packed_sizes(spec, options, chunk)
    exchanged = closed or not in_shared         # else a lane reads them from shared memory
    pieces = pieces_of(spec.dtype, sorted({c % chunk for c in needed}) if closed else needed, options.vector)
    apart = in_shared and not packed and not zeros
    border = make_border(spec, *beside_chunk(pieces, chunk), across, closed, apart)
    singles, half = in_shared and bool(border and border.rounds), spec.dtype.is_half
    pairs = border.beside if border and singles and half and apart else 0
    line = line_of(spec, options, pieces, chunk, planes, step_rows, warps, pairs)
    interior = options.edges is Guards.INTERIOR and not packed and spec.channels == 1 and not apart
    seams = seams_of(spec, options, slots)
    together = options.stage_steps if in_shared else options.prefetch_rows
    return WideNumbers(
        chunk=chunk, strip=LANES * options.columns, strip_columns=LANES * chunk, packed=packed,
        across=across, planes=planes, border=border,
        held_columns=singles and half and not apart, pairs=pairs,
        element_copies=singles and (apart or not half) and options.vector * spec.dtype.itemsize > 4,
        most_columns=most_columns, most_outputs=most_outputs, step_rows=step_rows, slots=slots,
        carried=slots if spec.channels > 1 else slots - 1, classes=classes,
        pad_top=pad_top, pad_bottom=zeros and spec.padding[0][1] > 0,
        skips_top=pad_top and slots > 1 and seams is None,
        taps=taps, own=own, own_loads=chunk // options.vector, edge=_vector(spec, edge_vector),
        edge_loads=edge // edge_vector, edge_vector=edge_vector,
        edge_left=line.left_copies * options.vector if in_shared else _beside(edge, reach.left, chunk),
        edge_right=line.right_copies * options.vector if in_shared else _beside(edge, reach.right, chunk),
        beyond_left=-across * chunk + chunk - edge, beyond_right=across * chunk,
        left_lanes=reach.left, right_lanes=reach.right,
        row_cells=0 if in_shared else (chunk + edge) // own.per_cell,
        cell_type="float" if spec.dtype is DType.FLOAT32 else "unsigned",
        cell_zero=_outside(spec),
        distances=tuple(_distance(d, select, packed) for d in reach.distances) if exchanged and not ends else (),
        takes=tuple(_take(spec, options, reach, cell, edge, select, pieces if in_shared else (), bool(ends))
                    for cell in reach.takes) if exchanged else (),
        window=_window(spec, options, reach, needed, pieces if in_shared else (), closed),
        row_names=names, apart=apart,
        stages_above=spec.padding[0][0] > options.prefetch_rows * step_rows * spec.dilation[0],
        rows_fragment=f"rows_{'bordered' if apart else 'async' if in_shared else 'registers'}.cuh.jinja",
        filter_fragment=f"{'separable' if spec.separable else 'weights'}.cuh.jinja",
        per_line=4 if step_rows == 1 and not spec.separable else 2,
        row_sums=row_sums(spec, options, names) if spec.separable else (), pieces=pieces, line=line,
        stages_ahead=options.prefetch_rows // options.stage_steps,
        chains=chains, groups=tuple(chains[at:at + together_left_out] for at in range(0, slots, together_left_out)),
        store=vector_of(spec.y_dtype, options.store_vector),
        to_word=_to_word(spec, options.store_vector),
        stores=store_parts(options.columns, options.store_vector), seams=seams, interior=interior,
        beside_vectors=line.left_copies + line.right_copies > 0 and (interior or not pixels or pairs > 0),
        whole_rows=pixels and options.separators is Separators.NONE and (closed or not in_shared),
        closed_rows=closed, row_ends=ends or (),
        row_walks=not (border and border.folded),
        replaced=tuple(outside for end in ends or () for outside, _ in end.columns),
        limited_rows=spec.channels == 1 and zeros,
        together=together,
        uniform_warp=_uniform_warp(spec, options, taps, slots), residual=_residual(spec, options, in_shared),
        paired=options.pipeline is Pipeline.PAIRED, skip_rows=options.tap_rows is TapRows.NEEDED,
        weights_ahead=not spec.separable and (
            accumulators(spec, options.columns) + row_registers(spec, options) + 2 * spec.s
            <= REGISTER_LIMIT - REGISTERS_IN_A_STEP),
        reread_weights=options.weights is BankWeights.SHARED and spec.channels == 1, threads=LANES * warps,
        steps=max(options.sub_block_rows, seams.rows) if seams else options.sub_block_rows + slots - 1,
        block_rows=classes * (_joined_rows(options, seams) if seams else options.sub_block_rows * options.warp_rows),
        block_planes=block_planes, filter_blocks=_filter_blocks(spec, options),
        tap_stride=tap_stride,
        shared_floats=block_planes * spec.channels * tap_stride if options.weights is BankWeights.SHARED else 0,
        unit=(f"{planes} planes side by side, {options.row_lanes} lanes a row" if packed
              else f"{LANES} lanes, {options.columns} output columns each"))


def _filter_blocks(spec: KernelSpec, options: WideOptions) -> int:
    """Blocks for all filters over the same rows, which then come from memory once: eight 3x3 on 4096^2 take 175 us so,
    187 in two blocks far apart (H200)."""
    apart = options.span is Span.PACKED or spec.channels > 1 or spec.filters % options.warp_planes
    return 1 if apart else spec.filters // options.warp_planes


def _residual(spec: KernelSpec, options: WideOptions, in_shared: bool) -> str:
    """When the residual is loaded: several rows of it are in flight where several input rows are in registers, and not
    also the addresses of a border's pixels around narrow loads, for which it has no room."""
    if Epilogue.RESIDUAL not in spec.epilogue:
        return ""
    crowded = spec.padding_mode.reads_image and options.vector < options.columns * spec.stride[1]
    return "step_ahead" if in_shared or spec.channels > 1 or crowded else "with_rows"


def _uniform_warp(spec: KernelSpec, options: WideOptions, taps: int, slots: int) -> bool:
    """Whether the compiler is told that lanes share their warp's number: where memory bounds a layer, what an epilogue
    takes is hidden by more warps, which the registers that this saves make room for."""
    few = taps <= FEW_TAPS and slots <= FEW_ROWS and options.weights is not BankWeights.SHARED
    return few and spec.epilogue != ()


def _to_word(spec: KernelSpec, together: int) -> str:
    if not spec.y_dtype.is_integer:
        return ""
    if together >= spec.y_dtype.lanes and packs_limited(spec):
        return f"wc_to_{spec.y_dtype.value}s"
    if together == 1:
        return "to_element"
    return "to_bytes" if spec.y_dtype.bits == 8 else "to_shorts"


def _joined_rows(options: WideOptions, seams: Seams) -> int:
    """Output rows of a block whose warps make no input row twice; each has as many rows as a seam at least."""
    return options.warp_rows * max(options.sub_block_rows, seams.rows) - seams.rows


def _outside(spec: KernelSpec) -> str:
    """What a register has for columns outside of the image that no pixel is taken for."""
    if spec.padding_mode is Border.CONSTANT:
        return "BORDER"
    return "0.0f" if spec.dtype is DType.FLOAT32 else "0u"


def _vector(spec: KernelSpec, elements: int) -> Vector:
    return vector_of(spec.dtype, elements, _outside(spec))


class _Reach:
    """Which registers of which neighbours the needed columns lie in; positions count from a lane's own first column."""

    def __init__(self, needed: list[int], chunk: int, per_cell: int):
        self.chunk_cells, self.per_cell = chunk // per_cell, per_cell
        cells = sorted({column // per_cell for column in needed})
        self.takes = [c for c in cells if not 0 <= c < self.chunk_cells]
        self.distances = sorted({c // self.chunk_cells for c in self.takes})
        self.left = -min([0, *self.distances])
        self.right = max([0, *self.distances])
        first, last = needed[0], needed[-1]
        self.beside = max(-first, last - chunk + 1)      # columns beyond the strip, on the longer side


def _edge_columns(reach: _Reach, chunk: int, per_cell: int) -> int:
    """Columns that an outermost lane loads beyond the strip: a whole chunk where several lanes do, else a vector."""
    if reach.left > 1 or reach.right > 1:
        return chunk
    return min(chunk, max(per_cell, 1 << (reach.beside - 1).bit_length()))


def _beside(edge: int, lanes: int, chunk: int) -> int:
    return 0 if not lanes else edge if lanes == 1 else lanes * chunk


def _packed_sizes(spec: KernelSpec, options: WideOptions, chunk: int) -> tuple[int, int]:
    """Most input and output columns of a packed row."""
    room = options.row_lanes * chunk
    if options.separators is Separators.SELECT or spec.padding_mode.reads_image:
        return room, options.row_lanes * options.columns
    # the last output's window must end before the next row begins, and zeros as wide as the padding lie before it
    reach = (spec.s - 1) * spec.dilation[1] - spec.padding[1][0]
    outputs = (room - 1 - reach) // spec.stride[1] + 1
    return room - spec.padding[1][0], min(outputs, options.row_lanes * options.columns)


def _distance(distance: int, select: str, packed: bool = False) -> Distance:
    side, lane = "left" if distance < 0 else "right", f"lane {'-' if distance < 0 else '+'} {abs(distance)}"
    if select == "round" or (select == "edge" and packed):
        last = f"ROW_LANES - {abs(distance)}"
        condition = f"position >= {last}" if distance < 0 else f"position < {distance}"
        within = f"position {'>=' if distance < 0 else '<'} {-distance if distance < 0 else last}"
        lane = f"{within} ? {lane} : {lane} {'+' if distance < 0 else '-'} ROW_LANES"
    elif select == "edge":
        condition = f"lane >= {LANES + distance}" if distance < 0 else f"lane < {distance}"
    else:
        condition = f"position >= {-distance}" if distance < 0 else f"position < ROW_LANES - {distance}"
    return Distance(f"{side}_{abs(distance)}", select, condition, lane)


def _take(spec: KernelSpec, options: WideOptions, reach: _Reach, cell: int, edge: int, select: str,
          pieces: tuple[LinePiece, ...], ends: bool) -> Take:
    """``pieces``: what lanes read of shared memory, if rows are there; ``ends``: those of a row replace the column, so
    that any lane will do for them."""
    distance, index = divmod(cell, reach.chunk_cells)
    name = f"in_{_signed(cell)}" if spec.dtype is DType.FLOAT32 else f"word_{_signed(cell)}"
    inside = index - (reach.chunk_cells - edge // reach.per_cell) if distance < 0 and edge else index
    edge_cells = max(1, min(edge, options.vector) // reach.per_cell)
    lane = _distance(distance, "").name
    own, member = _member("own_", options.vector // reach.per_cell, index), ""
    if pieces:
        own, member, _ = read_cell(pieces, index * reach.per_cell)
    shuffle, source = "__shfl_sync", f"lane_{lane}"
    if ends:
        shuffle, source = f"__shfl_{'up' if distance < 0 else 'down'}_sync", "1"
    return Take(name, lane, own, _member("edge_", edge_cells, inside) if select == "edge" else "", select,
                shuffle, source, member)


def _window(spec: KernelSpec, options: WideOptions, reach: _Reach, needed: list[int], pieces: tuple[LinePiece, ...],
            closed: bool) -> tuple[Column, ...]:
    """The columns of an input row that are made floats. ``pieces``: what lanes read of shared memory, if rows are
    there; what stands beside ``closed`` ones is in registers all the same."""
    if not pieces:
        return tuple(_columns(spec, options, reach, needed))
    if not closed:
        return tuple(read_columns(spec, pieces, needed))
    own = [column for column in needed if 0 <= column < reach.chunk_cells * reach.per_cell]
    return (*read_columns(spec, pieces, own), *(c for c in _columns(spec, options, reach, needed) if not c.own))


def _columns(spec: KernelSpec, options: WideOptions, reach: _Reach, needed: list[int]) -> list[Column]:
    """The columns that are not registers of their own already."""
    found = []
    for column in needed:
        cell, low = divmod(column, reach.per_cell)
        own = 0 <= cell < reach.chunk_cells
        if not own and spec.dtype is DType.FLOAT32:
            continue
        part = "whole" if reach.per_cell == 1 else ("low", "high")[low]
        source = _member("own_", options.vector // reach.per_cell, cell) if own else f"word_{_signed(cell)}"
        found.append(Column(f"in_{_signed(column)}", source, part, own))
    return found


def _member(prefix: str, cells_of_load: int, cell: int) -> str:
    load, index = divmod(cell, cells_of_load)
    return f"{prefix}{load}" + (f".{'xyzw'[index]}" if cells_of_load > 1 else "")
