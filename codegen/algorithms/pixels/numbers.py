"""Every number and name that the template of ``pixels`` writes."""

from __future__ import annotations

import enum

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import DType, Kind, Layout
from warpconv.codegen.hardware import LANES
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts.rows import RowInWork, row_in_work, vertical
from warpconv.codegen.parts.vectors import packs_limited
from warpconv.codegen.parts.weights import BankWeights
from warpconv.codegen.spec import KernelSpec, Numerics

WORD_BYTES = 4


class Sums(enum.Enum):
    """What products are made of."""

    FLOAT = "float"    # each pixel as a float
    DP4A = "dp4a"      # four neighbouring pixels of 8 bits and four weights of 8 bits, exactly, in one instruction
    MAD = "mad"        # each pixel as an int


@dataclass(frozen=True)
class PixelsOptions:
    """Plan values. A lane makes ``columns`` outputs of a row from loads of ``vector`` pixels (1: rows begin at any
    address, whole words are loaded and shifted) and stores ``store_vector`` outputs at once, for each of ``filters``
    filters. A block has ``warp_columns`` x ``warp_rows`` x ``warp_planes`` warps, the last of other filters;
    ``prefetch_rows`` steps are in flight; a sub-block has about ``sub_block_rows`` rows; registers are left for
    ``min_blocks`` blocks (follows from the others if not given)."""

    columns: int = 8
    vector: int = 8
    store_vector: int = 8
    sums: Sums = Sums.FLOAT
    weights: BankWeights = BankWeights.REGISTERS
    sub_block_rows: int = 30
    prefetch_rows: int = 4
    filters: int = 1
    warp_columns: int = 1
    warp_rows: int = 4
    warp_planes: int = 1
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class WordLoad:
    """A member of Row: neighbouring words, ``at`` pixels from the lane's own first column; ``own`` where they hold
    nothing but the lane's own columns, ``end`` pixels from the first of which they end."""

    name: str
    at: int
    end: int
    type: str
    own: bool
    outside: str         # what stands for it outside of the image


@dataclass(frozen=True)
class Gather:
    """A word put together pixel by pixel: (name of its column, the column from the lane's own first one, its place in
    the word in bits)."""

    member: str
    pixels: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Word:
    """A word of pixels; ``member`` of an inner row, and where rows begin at any address the word after it."""

    name: str
    member: str
    after: str
    beside: Gather | None    # what it is made of in a row at the edge; None where it is loaded there, too


@dataclass(frozen=True)
class Input:
    """What products take: a pixel of ``low``, or four that begin in ``low`` and end in ``high``."""

    name: str
    low: str
    high: str
    selector: str        # of __byte_perm; empty where it is the word itself
    shift: int           # of the pixel in its word, bits


@dataclass(frozen=True)
class PixelProduct:
    """One for each output column."""

    weights: tuple[str, ...]
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class ProductChain(RowInWork):
    products: tuple[PixelProduct, ...]


@dataclass(frozen=True)
class Store:
    """Neighbouring outputs that are stored at once: their type in memory, and the expression of their words."""

    at: int
    memory: str
    value: str


@dataclass(frozen=True)
class PixelsNumbers:
    """What the template writes besides the spec."""

    side_by_side: int        # channels; columns are counted over all of them
    planes: int              # output planes of an image
    suffixes: tuple[str, ...]    # of what a lane has for each of its filters
    biases: tuple[str, ...]  # of the channels side by side
    chunk: int               # input columns of a lane
    strip: int               # output columns of a warp
    step_rows: int           # input rows of a step
    slots: int               # output rows in work
    classes: int             # output rows that share no input row with their neighbours
    loads: tuple[WordLoad, ...]
    shifted: bool            # rows begin at any address
    words: tuple[Word, ...]
    gathers: dict[str, tuple[Gather, ...]]       # the words of each load of own columns
    beside: tuple[tuple[str, int], ...]          # names and places of the columns that a row at the edge loads singly
    reach_left: int          # columns that an interior strip reads before its first
    reach_right: int         # and after the first of the next strip
    inputs: tuple[Input, ...]
    row_names: tuple[str, ...]
    weight_rows: tuple[tuple[tuple[str, int], ...], ...]     # of each filter row: names, and where in the filter
    weight_type: str
    weight_count: int
    chains: tuple[ProductChain, ...]
    results: tuple[tuple[str, ...], ...]         # values of each word of outputs
    result_type: str
    stores: tuple[Store, ...]
    sums_fragment: str
    pack: str                # how values become a word: a macro of pixels_store
    to_word: str             # the function that does it
    offset: str              # what a pixel as a float has been raised by
    sign_bits: str           # of all pixels of a word; empty where they have none
    threads: int
    block_rows: int


def make_numbers(spec: KernelSpec, options: PixelsOptions) -> PixelsNumbers:
    channels = side_by_side(spec)
    step_rows, slots, classes = vertical(spec)
    per_word = spec.dtype.lanes
    bits = spec.dtype.bits
    chunk = options.columns * spec.stride[1]
    needed = needed_columns(spec, options.columns)
    words = sorted({column // per_word for column in needed})
    shifted = options.vector == 1
    loads = (_shifted_loads(words, per_word) if shifted
             else _loads(spec, words, options.vector // per_word, chunk))
    made = _gathers(spec, words, loads, per_word, needed)
    names = ("",) if step_rows == 1 else tuple(f"_u{u}" for u in range(step_rows))
    warps = options.warp_columns * options.warp_rows * options.warp_planes
    signed = spec.dtype.kind is Kind.SIGNED
    weights = _weight_rows(spec, options)
    result_type = "int" if spec.numerics is Numerics.INT32 and not spec.epilogue else "float"
    return PixelsNumbers(
        side_by_side=channels, planes=spec.k // channels,
        suffixes=tuple(f"_k{k}" for k in range(options.filters)) if options.filters > 1 else ("",), chunk=chunk,
        biases=(tuple(f"bias_c{c}" for c in range(channels)) if channels > 1 else
                ("bias_k" if options.filters == 1 else "bias",)),
        strip=LANES * options.columns, step_rows=step_rows, slots=slots, classes=classes, loads=loads,
        shifted=shifted, words=tuple(_word(i, loads, per_word, shifted, made) for i in words),
        gathers={load.name: made[load.name] for load in loads if load.own},
        beside=tuple(pixel[:2] for load in loads if not load.own for gather in made[load.name]
                     for pixel in gather.pixels),
        reach_left=max(0, -min(load.at for load in loads) + (per_word - 1 if shifted else 0)),
        reach_right=max(0, max(load.end for load in loads) - chunk),
        inputs=_inputs(spec, options, needed, words), row_names=names,
        weight_rows=weights, weight_type="float" if options.sums is Sums.FLOAT else "int",
        weight_count=sum(map(len, weights)),
        chains=tuple(_chain(spec, options, number, names) for number in range(slots)),
        results=_out_words(spec, options, "value" if spec.epilogue else "out"), result_type=result_type,
        stores=_stores(spec, options),
        sums_fragment=f"{options.sums.value}.cuh.jinja", pack=_pack(spec),
        to_word=f"wc_to_{spec.y_dtype.value}s" if _pack(spec) == "limited" else "to_word",
        offset=f"{float(2**23 + (1 << bits - 1 if signed else 0))}f",
        sign_bits=f"0x{0x80808080 if spec.dtype.lanes == 4 else 0x80008000:08x}u" if signed else "",
        threads=LANES * warps, block_rows=classes * options.sub_block_rows * options.warp_rows)


def side_by_side(spec: KernelSpec) -> int:
    """Channels that lie side by side in a row; a row of them is taken for one of so many times the columns."""
    return spec.c if spec.layout is Layout.NHWC else 1


def column_of(spec: KernelSpec, output: int, tap: int) -> int:
    """The input column, from a lane's own first one, that meets an output column, with ``tap`` pixels between it and
    the window's first."""
    pixel, channel = divmod(output, side_by_side(spec))
    return (pixel * spec.stride[1] + tap - spec.padding[1][0]) * side_by_side(spec) + channel


def needed_columns(spec: KernelSpec, columns: int) -> list[int]:
    """All input columns of a lane."""
    return sorted({column_of(spec, v, s * spec.dilation[1]) for v in range(columns) for s in range(spec.s)})


def weight_registers(spec: KernelSpec, sums: Sums) -> int:
    """Registers that hold the filters of all channels side by side."""
    return side_by_side(spec) * spec.r * (-(-spec.s // 4) if sums is Sums.DP4A else spec.s)


def window_registers(spec: KernelSpec, columns: int, sums: Sums) -> int:
    """Registers of an input row as products take it."""
    if sums is Sums.DP4A:
        return (columns - 1) * spec.stride[1] + max(1, spec.s - 3)
    return len(needed_columns(spec, columns))


def row_words(spec: KernelSpec, columns: int) -> int:
    """Words of an input row as it is loaded, about."""
    needed = needed_columns(spec, columns)
    return -(-(needed[-1] - needed[0] + 1) * spec.dtype.itemsize // WORD_BYTES) + 1


def _loads(spec: KernelSpec, words: list[int], vector: int, chunk: int) -> tuple[WordLoad, ...]:
    """Aligned vectors of at most ``vector`` words that hold the needed ones: the narrowest of each place."""
    per_word, found = spec.dtype.lanes, []
    border = "lane.BORDER" if spec.padding_mode is Border.CONSTANT else "0u"
    for place in sorted({word // vector for word in words}):
        inside = [word - place * vector for word in words if word // vector == place]
        first, width = 0, vector
        while width > 1 and (inside[-1] < first + width // 2 or inside[0] >= first + width // 2):
            first += width // 2 if inside[0] >= first + width // 2 else 0
            width //= 2
        at = place * vector + first
        end = (at + width) * per_word
        end, name = (at + width) * per_word, "unsigned" if width == 1 else f"uint{width}"
        outside = border if width == 1 else f"make_{name}({', '.join([border] * width)})"
        found.append(WordLoad(f"word_{_signed(at)}", at * per_word, end, name, at >= 0 and end <= chunk, outside))
    return tuple(found)


def _shifted_loads(words: list[int], per_word: int) -> tuple[WordLoad, ...]:
    """Each needed word and the one after it, into which it reaches."""
    return tuple(WordLoad(f"word_{_signed(i)}", i * per_word, (i + 1) * per_word, "unsigned", False, "")
                 for i in sorted({j for word in words for j in (word, word + 1)}))


def _word(i: int, loads: tuple[WordLoad, ...], per_word: int, shifted: bool,
          made: dict[str, tuple[Gather, ...]]) -> Word:
    load = _load_of(i, loads, per_word)
    beside = None if load.own else made[load.name][i - load.at // per_word]
    return Word(f"word_{_signed(i)}", _member(i, loads, per_word), f"word_{_signed(i + 1)}" if shifted else "", beside)


def _load_of(i: int, loads: tuple[WordLoad, ...], per_word: int) -> WordLoad:
    return max((load for load in loads if load.at <= i * per_word), key=lambda load: load.at)


def _member(i: int, loads: tuple[WordLoad, ...], per_word: int) -> str:
    load = _load_of(i, loads, per_word)
    return load.name + (f".{'xyzw'[i - load.at // per_word]}" if load.type != "unsigned" else "")


def _gathers(spec: KernelSpec, words: list[int], loads: tuple[WordLoad, ...], per_word: int,
             needed: list[int]) -> dict[str, tuple[Gather, ...]]:
    """The words of each load with those of their pixels that are needed. Own columns that are outside of a row begin at
    its end or beyond, and no more of them are needed than there is padding."""
    bits, wanted = spec.dtype.bits, {column for column in needed if column // per_word in words}
    padding = spec.padding[1][1] * side_by_side(spec)
    return {load.name: tuple(
        Gather(_member(i, loads, per_word), tuple((f"pixel_{_signed(c)}", c, c % per_word * bits)
                                                  for c in range(i * per_word, (i + 1) * per_word)
                                                  if c in wanted and (not load.own or c - load.at < padding)))
        for i in range(load.at // per_word, load.end // per_word)) for load in loads}


def group_starts(spec: KernelSpec) -> tuple[int, ...]:
    """The first of each four columns that dp4a takes of a filter row; the last four end with the row, so that windows
    of neighbouring outputs are the same words."""
    return tuple(min(at, max(0, spec.s - 4)) for at in range(0, spec.s, 4))


def _inputs(spec: KernelSpec, options: PixelsOptions, needed: list[int], words: list[int]) -> tuple[Input, ...]:
    itemsize, per_word = spec.dtype.itemsize, spec.dtype.lanes
    if options.sums is Sums.DP4A:
        starts = sorted({column_of(spec, v, start) for v in range(options.columns) for start in group_starts(spec)})
        return tuple(_four(start, words) for start in starts)
    found = []
    for column in needed:
        word, place = divmod(column, per_word)
        name = f"word_{_signed(word)}"
        first = place * itemsize
        selector = f"0x744{first:x}u" if spec.dtype.lanes == 4 else f"0x74{first + 1:x}{first:x}u"
        found.append(Input(f"in_{_signed(column)}", name, name, selector, 8 * first))
    return tuple(found)


def _four(start: int, words: list[int]) -> Input:
    """Four pixels of 8 bits from column ``start`` on; those beyond the words that are loaded meet weights of zero."""
    word, place = divmod(start, WORD_BYTES)
    low, high = f"word_{_signed(word)}", f"word_{_signed(word + 1 if word + 1 in words else word)}"
    selector = "".join(f"{place + i:x}" for i in reversed(range(4)))
    return Input(f"in_{_signed(start)}", low, high, f"0x{selector}u" if place else "", 8 * place)


def _weight_rows(spec: KernelSpec, options: PixelsOptions) -> tuple[tuple[tuple[str, int], ...], ...]:
    if options.sums is Sums.DP4A:
        groups = len(group_starts(spec))
        return tuple(tuple((f"w_r{r}_g{g}", r * groups + g) for g in range(groups)) for r in range(spec.r))
    channels = side_by_side(spec)
    return tuple(tuple((_weight_name(spec, options, c, r, s), (c * spec.r + r) * spec.s + s)
                       for c in range(channels) for s in range(spec.s)) for r in range(spec.r))


def _weight_name(spec: KernelSpec, options: PixelsOptions, channel: int, r: int, s: int) -> str:
    if options.weights is BankWeights.CONSTANT:
        return f"filter_bank[{r * spec.s + s}]"
    return f"w_c{channel}_r{r}_s{s}" if side_by_side(spec) > 1 else f"w_r{r}_s{s}"


def _chain(spec: KernelSpec, options: PixelsOptions, number: int, names: tuple[str, ...]) -> ProductChain:
    row = row_in_work(spec, number)
    products = tuple(product for r, name in zip(row.rows, names) for product in _products(spec, options, r, name))
    return ProductChain(**vars(row), products=products)


def _products(spec: KernelSpec, options: PixelsOptions, r: int, name: str) -> list[PixelProduct]:
    """Of filter row ``r``; ``name`` is what the names of its input columns end with."""
    columns, channels = range(options.columns), side_by_side(spec)
    if options.sums is Sums.DP4A:
        return [PixelProduct((f"w_r{r}_g{g}",) * options.columns, _input_names(spec, options, start, name))
                for g, start in enumerate(group_starts(spec))]
    return [PixelProduct(tuple(_weight_name(spec, options, v % channels, r, s) for v in columns),
                    _input_names(spec, options, s * spec.dilation[1], name)) for s in range(spec.s)]


def _input_names(spec: KernelSpec, options: PixelsOptions, tap: int, name: str) -> tuple[str, ...]:
    return tuple(f"in_{_signed(column_of(spec, v, tap))}{name}" for v in range(options.columns))


def _out_words(spec: KernelSpec, options: PixelsOptions, value: str) -> tuple[tuple[str, ...], ...]:
    per_word = spec.y_dtype.lanes
    return tuple(tuple(f"{value}_c{v + i}" for i in range(per_word)) for v in range(0, options.columns, per_word))


def _stores(spec: KernelSpec, options: PixelsOptions) -> tuple[Store, ...]:
    """Stores of ``store_vector`` outputs from words that are put together."""
    itemsize, found = spec.y_dtype.itemsize, []
    for at in range(0, options.columns, options.store_vector):
        first, place = divmod(at * itemsize, WORD_BYTES)
        words = options.store_vector * itemsize // WORD_BYTES
        if words > 1:
            name = f"uint{words}"
            found.append(Store(at, name, f"make_{name}({', '.join(f'y_{first + i}' for i in range(words))})"))
        elif words == 1:
            found.append(Store(at, "unsigned", f"y_{first}"))
        else:
            narrow = "unsigned char" if options.store_vector * itemsize == 1 else "unsigned short"
            found.append(Store(at, narrow, f"({narrow}){f'(y_{first} >> {8 * place})' if place else f'y_{first}'}"))
    return tuple(found)


def _pack(spec: KernelSpec) -> str:
    """How values become a word of the output."""
    dtype = spec.y_dtype
    if dtype in (DType.FLOAT32, DType.FLOAT16, DType.INT32):
        return str(dtype.value)
    return "limited" if packs_limited(spec) else f"elements_{dtype.bits}"


def _signed(position: int) -> str:
    return f"m{-position}" if position < 0 else str(position)
