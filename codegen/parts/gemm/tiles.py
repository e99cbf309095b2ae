"""The matrix product of ``implicit_gemm`` and ``im2win``: tiles in shared memory, in registers, and their copies.

    C[m][n] = sum over k of A[m][k] * B[k][n]

m counts the filters of a group, n the pixels of the whole batch (image, output row, output column), k the products of
one output. A is the filter, put in the order of its tiles once (and filled up with zeros, so that its copies have no
guards); B is never stored: a thread copies one pixel's products from where they lie in x, or in the im2win tensor. In
NHWC, where a tap's channels lie side by side, k counts them inside the taps, and neighbouring lanes copy them.

Source: im2win (arXiv 2306.14316), Algorithm 3, mended: its register tile is thread_m x thread_n, its buffers are
toggled, every M, N and K is served, and the sums are stored.
"""

from __future__ import annotations

import enum
from typing import Any

from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, LANES, PORTABLE_SHARED, SHARED_STATIC
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts import split_sums
from warpconv.codegen.parts.occupancy import blocks_refusal, resident_blocks
from warpconv.codegen.spec import KernelSpec

FILTER = "filter"           # the program's name for A
SIDE_THREADS = split_sums.THREADS   # of a block of the entries beside the product
MOST_SUMS = 160             # accumulators of a thread beyond which it would spill
REGISTERS_UNROLLED = 40         # that factors loaded early take where there is one tile of products (NVRTC 13.0)
REGISTERS_BESIDE = 32       # of a thread besides sums, factors and windows: addresses, the loop
MOST_STAGES = 4
FEW_PIXELS = 64             # of an image: 32 of one filter are of several images then, far apart
FEW_TILES = 8               # of products: below, the way to the first of them weighs, and a third stage pays
WINDOW_PRODUCTS, WINDOW_PIXELS = 8, 4   # neighbouring lanes that share a window, windows of a warp;
WINDOW_PAD = 4              # floats that keep them in banks apart
MOST_FILLING = 0.125        # of a tap's channels, where taps come first
FURTHEST_TAP = 2**15 - 1
TABLE_LIMIT = 6144          # products of an output whose places are listed in shared memory
MASK_BITS = 32              # rows and columns of a window of which a word tells which lie outside of the image
MOST_PLACES = 32            # rows and columns of a window that are listed there, too, by default: for each pixel
ONE_OUTPUT_SIDE = 32        # without a register tile: a block of 32 x 32 threads, as the document's


class Order(enum.Enum):
    """How k counts, and how it is copied: tap by tap with the channels inside, a pixel a thread; channel by channel
    with the taps inside, whose places each block lists in shared memory; the same, with neighbouring threads along a
    window. In NHWC channels are inside of taps, listed or not, and neighbouring threads are along them."""

    TAPS = "taps"
    TABLE = "table"
    WINDOW = "window"


class Switch(enum.Enum):
    """A part of the kernel that can be left out, to see what it is worth."""

    ON = "on"
    OFF = "off"


@dataclass(frozen=True)
class Tile:
    """A block tile and a thread tile: filters x pixels."""

    block_m: int
    block_n: int
    thread_m: int
    thread_n: int

    @property
    def threads(self) -> int:
        return self.block_m * self.block_n // (self.thread_m * self.thread_n)


@dataclass(frozen=True)
class TileNumbers:
    """What the fragments of a block's tile write. Sizes of tiles and shared memory are in floats where nothing else is
    said."""

    threads: int
    lanes_m: int            # lanes of a warp along filters, along pixels
    lanes_n: int
    warps_m: int
    vector: int             # floats of a load from shared memory
    rows: int               # products that a thread copies into a tile
    a_rounds: int           # 16-byte copies of a thread into a tile of filters
    a_whole: bool           # whether all threads take part in all of them
    stages: int
    pixel_row: int          # floats of a product's pixels, and their padding
    stage: int
    async_copies: bool
    registers_ahead: bool
    shared_bytes: int
    registers: int

    @property
    def stages_ahead(self) -> int:
        """Tiles that may still be under way when the next one's products begin."""
        return max(0, self.stages - 2)


@dataclass(frozen=True)
class GemmNumbers(TileNumbers):
    """And what the fragments gemm_* write of a layer's products."""

    outer: int              # taps: filter rows and columns, or columns and rows where `by_columns`
    inner: int
    by_columns: bool
    channels_last: bool     # NHWC: the channels of a tap lie side by side
    k_channels: int         # channels a group as k counts them: filled up to whole tiles where no places are listed
    k_products: int         # products of an output without the last tile's filling
    k_tiles: int
    m_tiles: int
    splits: int
    pixels: int             # windows a thread copies from, where neighbouring lanes share one; else 0
    window_lanes: int
    window_warps: int       # warps side by side along windows; others copy further products of the same
    list_row: int           # from a tap's pixels to the next tap's, where they are listed: in other banks
    store_vector: int       # filters that a thread stores at once
    few_pixels: int         # of an image, below which lanes exchange nothing
    regrouped: bool         # whether lanes exchange sums for stores: in NCHW of images that are no multiple of lanes_n
                            # pixels, in NHWC of filters that are no multiple of four; parts of sums, of layers of few
                            # pixels, would spill (nvcc 13.0, sm_75 to sm_89)
    guard_filters: bool     # whether the last tile has fewer filters than others
    guard_taps: bool        # whether a tap may lie in the padding, which has one value: zero,
    one_value: bool         # or the border's
    find_taps: bool         # whether one may, and is then copied from where the border has it
    guard_channels: bool    # taps first: whether the last channels of a tap are filling
    guard_products: bool    # channels first: whether the last products are
    table: bool
    fragments: int          # loads from shared memory for one product of a thread's tile

    @property
    def products_at_once(self) -> int:
        """Products of a window that are copied side by side in NHWC: by several warps where those are many."""
        return self.window_lanes * max(1, self.threads // LANES // self.window_warps)

    @property
    def lists_taps(self) -> bool:
        """NHWC: whether the rows and columns of every pixel's window are listed in shared memory: those inside of the
        image that stand for others, or more than a word has bits for."""
        return self.channels_last and (self.find_taps or self.guard_taps and self.outer + self.inner > MASK_BITS)

    @property
    def masks_taps(self) -> bool:
        """NHWC: whether a word for each window tells which of its rows and columns lie outside of the image."""
        return self.channels_last and self.guard_taps and not self.lists_taps

    @property
    def zero_copies(self) -> bool:
        """Whether some copies of pixels are of zeros; beside a border's value they are of that, filling too, whose
        weights are zeros."""
        return self.chosen_copies and not self.one_value

    @property
    def chosen_copies(self) -> bool:
        """Whether some copies of pixels are of something else than pixels."""
        return self.guard_taps or self.guard_channels or self.guard_products

    @property
    def same_tap(self) -> bool:
        """Whether a thread's copies of a tile are of one pixel, which lies in the image or is the border's value."""
        return self.one_value and not self.table and not self.guard_channels and not self.channels_last

    @property
    def channels_inside(self) -> bool:
        """Whether k counts channels inside of taps."""
        return self.channels_last or not self.table

    @property
    def asks_taps(self) -> bool:
        """Whether a thread asks where in the image a tap lies."""
        return self.guard_taps or self.find_taps


def k_order(spec: KernelSpec, block_k: int) -> Order:
    """Taps first where the channels fill whole tiles, or nearly; else channels first, while their lists are short."""
    filling = -spec.channels % block_k / spec.channels
    products, pixels = spec.channels * spec.r * spec.s, spec.padding_mode.reads_image
    long = products > (TABLE_LIMIT // 2 if pixels else TABLE_LIMIT) or far_taps(spec)
    # lists of each pixel's rows and columns, in NHWC of any border where a word has too few bits for them
    wide = (pixels or spec.layout is Layout.NHWC) and spec.r + spec.s > MOST_PLACES
    return Order.TAPS if filling <= MOST_FILLING or long or wide else Order.TABLE


def far_taps(spec: KernelSpec) -> bool:
    """Whether a tap is further from the window's first than half a word of the list tells."""
    return (spec.r - 1) * spec.dilation[0] > FURTHEST_TAP or (spec.s - 1) * spec.dilation[1] > FURTHEST_TAP


def resolved(spec: KernelSpec, options: Any) -> Any:
    """``options`` with every derived value in its place; without a register tile the block is one of its own."""
    if options.micro_kernel is Switch.OFF and options.thread_m * options.thread_n != 1:
        options = replace(options, block_m=ONE_OUTPUT_SIDE, block_n=ONE_OUTPUT_SIDE, block_k=ONE_OUTPUT_SIDE,
                          thread_m=1, thread_n=1, order=k_order(spec, ONE_OUTPUT_SIDE), min_blocks=DERIVED)
    if options.stages == DERIVED:
        few = spec.channels * spec.r * spec.s < FEW_TILES * options.block_k
        options = replace(options, stages=1 if options.prefetch is Switch.OFF else 3 if few else 2)
    if options.min_blocks == DERIVED:
        options = replace(options, min_blocks=resident(spec, options))
    return options


def resident(spec: KernelSpec, options: Any) -> int:
    """Blocks for which a multiprocessor has registers."""
    more = REGISTERS_UNROLLED if _one_tile(spec, options) else 0
    return resident_blocks(spec.hardware, _registers(spec, options) + more, _threads(options))


def _one_tile(spec: KernelSpec, options: Any) -> bool:
    """Whether all products are one tile: compilers leave no loop of it, and load factors early."""
    return bool(spec.channels * spec.r * spec.s <= options.block_k)


def _threads(options: Any) -> int:
    threads: int = options.block_m * options.block_n // (options.thread_m * options.thread_n)
    return max(1, threads)


def _registers(spec: KernelSpec, options: Any) -> int:
    held = 2 if options.prefetch is Switch.ON else 1
    # an address for each window, of which the first four are among REGISTERS_BESIDE; NHWC has them in shared memory
    windows = _windows(spec, options) if spec.layout is Layout.NCHW else 0
    factors: int = held * (options.thread_m + options.thread_n)
    sums: int = options.thread_m * options.thread_n
    return sums + factors + REGISTERS_BESIDE + 2 * max(0, windows - 4)


def _windows(spec: KernelSpec, options: Any) -> int:
    """Windows that a thread copies from where neighbouring lanes copy neighbouring products, else 0."""
    shared = options.order is Order.WINDOW or spec.layout is Layout.NHWC
    return max(1, options.block_n * WINDOW_PRODUCTS // _threads(options)) if shared else 0


def refusal(spec: KernelSpec, options: Any, *, by_columns: bool, padded: bool) -> str | None:
    """Why these tiles cannot be, in words, or None."""
    return (_tile_refusal(options) or _stage_refusal(options)
            or _layer_refusal(spec, options, _numbers(spec, options, by_columns, padded)))


def _tile_refusal(options: Any) -> str | None:
    """Block tile and thread tile: whole warps, which share out the copies."""
    m, n, thread_m, thread_n = options.block_m, options.block_n, options.thread_m, options.thread_n
    if m % thread_m or n % thread_n:
        return f"thread tile {thread_m} x {thread_n} does not divide block tile {m} x {n}"
    threads = m * n // (thread_m * thread_n)
    if not LANES <= threads <= BLOCK_THREADS or threads % LANES:
        return f"a block of {threads} threads (whole warps, {LANES} to {BLOCK_THREADS} threads are possible)"
    if thread_m * thread_n > MOST_SUMS:
        return f"{thread_m} x {thread_n} sums would not stay in registers (at most {MOST_SUMS})"
    lanes_m, lanes_n = _lanes(options)
    if m % (lanes_m * thread_m) or n % (lanes_n * thread_n):
        return f"warps of {lanes_m * thread_m} x {lanes_n * thread_n} outputs do not divide block tile {m} x {n}"
    if m % 4:
        return f"block_m = {m}: filters are copied four at a time"
    if threads % n or options.block_k * n % threads:
        return f"{threads} threads do not share out the copies of {options.block_k} x {n} products"
    if thread_m * thread_n != 1 and options.micro_kernel is Switch.OFF:
        return f"micro_kernel = off makes one output a thread, not {thread_m} x {thread_n}"
    return None


def _stage_refusal(options: Any) -> str | None:
    """Tiles in shared memory: two and more with prefetch, else one."""
    if options.stages > 1 and options.prefetch is Switch.OFF:
        return f"stages = {options.stages}: without prefetch there is one (stages = 1, or prefetch = on)"
    if options.stages == 1 and options.prefetch is Switch.ON:
        return "stages = 1: prefetch needs a second one (stages = 2, or prefetch = off)"
    if options.stages > MOST_STAGES:
        return f"stages = {options.stages} (at most {MOST_STAGES})"
    return None


def _layer_refusal(spec: KernelSpec, options: Any, found: GemmNumbers) -> str | None:
    """What the layer makes of the tiles: lists, splits, shared memory, resident threads."""
    if found.table and found.k_products > TABLE_LIMIT:
        return (f"order = {options.order.value} lists the places of {found.k_products} products (at most "
                f"{TABLE_LIMIT}); order = taps does not")
    if found.table and far_taps(spec):
        return (f"order = {options.order.value} lists taps at most {FURTHEST_TAP} rows and columns apart; order = taps "
                "lists none")
    n, threads = options.block_n, found.threads
    shared_out = n % LANES == options.block_k % WINDOW_PRODUCTS == n * WINDOW_PRODUCTS % threads == 0
    if options.order is Order.WINDOW and not shared_out:
        return (f"order = window copies {WINDOW_PRODUCTS} products of {LANES} pixels at a time, which tiles of "
                f"{options.block_k} x {n} on {threads} threads are not made of")
    if found.channels_last and not _channels_shared_out(options, found):
        return (f"in NHWC a warp copies {WINDOW_PRODUCTS} products of {WINDOW_PIXELS} pixels at a time, which "
                f"{threads // LANES} warps do not share out of tiles of {options.block_k} x {n}")
    if options.splits > found.k_tiles:
        return f"splits = {options.splits} of {found.k_tiles} tiles of the reduction (at most one each)"
    limit = PORTABLE_SHARED if spec.hardware.async_copies else SHARED_STATIC
    if found.shared_bytes > limit:
        return (f"{found.shared_bytes} bytes of shared memory for a block (at most {limit}): smaller tiles or fewer "
                "stages")
    return blocks_refusal(spec, threads, options.min_blocks)


def _channels_shared_out(options: Any, found: GemmNumbers) -> bool:
    """Whether warps share out a tile's copies in NHWC, so that each of a thread's pixels is at its own constant
    distance from the first."""
    warps, across = found.threads // LANES, found.window_warps
    whole = options.block_n % LANES == 0 == warps % across == options.block_n // WINDOW_PIXELS % across
    return whole and (8 % across == 0 or across % 8 == 0) and options.block_k % found.products_at_once == 0


def _lanes(options: Any) -> tuple[int, int]:
    """Lanes of a warp along filters and along pixels: 4 x 8, as square as a register tile wants them; along pixels
    alone where a thread has one output."""
    if options.thread_m * options.thread_n == 1:
        return 1, LANES
    return 4, 8


def _vector(options: Any) -> int:
    """Filters, or pixels, that a thread loads from shared memory at once."""
    return 4 if options.vector_loads is Switch.ON and options.thread_m % 4 == options.thread_n % 4 == 0 else 1


def _are_regrouped(spec: KernelSpec, options: Any) -> bool:
    """Whether lanes exchange sums, so that what they store lies side by side."""
    if options.splits > 1 or _lanes(options) != (4, 8):
        return False
    if spec.layout is Layout.NHWC:
        return spec.filters % 4 != 0 and _vector(options) == 4
    return bool(options.thread_n % 4 == 0)


def numbers(spec: KernelSpec, options: Any, *, by_columns: bool, padded: bool) -> GemmNumbers:
    """All numbers of a plan whose values are resolved. ``by_columns``: taps count filter rows inside filter columns, as
    the im2win tensor stores them; ``padded``: taps may lie outside of what is copied from. Raises UnsupportedSpec."""
    said = refusal(spec, options, by_columns=by_columns, padded=padded)
    if said is not None:
        raise UnsupportedSpec(spec, said)
    return _numbers(spec, options, by_columns, padded)


def of_layer(spec: KernelSpec, options: Any) -> GemmNumbers:
    """The numbers of implicit_gemm's plan for options that may not be resolved yet."""
    return numbers(spec, resolved(spec, options), by_columns=False, padded=any(map(any, spec.padding)))


def _numbers(spec: KernelSpec, options: Any, by_columns: bool, padded: bool) -> GemmNumbers:
    m, n, k = options.block_m, options.block_n, options.block_k
    threads = m * n // (options.thread_m * options.thread_n)
    lanes_m, lanes_n = _lanes(options)
    vector = _vector(options)
    table, taps = options.order is not Order.TAPS, spec.r * spec.s
    last, windows = spec.layout is Layout.NHWC, _windows(spec, options)
    pixel_row = n + WINDOW_PAD if windows else n
    channels = spec.channels if table else -(-spec.channels // k) * k
    products = channels * taps
    tiles = -(-products // k)
    offset_bytes = 8 if by_columns or spec.index_bits == 64 else 4
    find_taps = padded and spec.padding_mode.reads_image
    listed = tiles * k * (offset_bytes + (4 if padded else 0)) if table else 0
    if last:
        rows_and_columns = find_taps or padded and spec.r + spec.s > MASK_BITS
        listed += offset_bytes * (spec.r + spec.s) * (n + 1) if rows_and_columns else n * (offset_bytes + 4)
    elif table and find_taps:
        listed += n * (spec.r * offset_bytes + spec.s * 4)
    vectors = k * m // 4
    return GemmNumbers(
        threads=threads, lanes_m=lanes_m, lanes_n=lanes_n, warps_m=m // (lanes_m * options.thread_m), vector=vector,
        rows=max(1, k * n // threads), a_rounds=-(-vectors // threads), a_whole=vectors % threads == 0,
        outer=spec.s if by_columns else spec.r, inner=spec.r if by_columns else spec.s, by_columns=by_columns,
        channels_last=last,
        k_channels=channels, k_products=products, k_tiles=tiles, m_tiles=-(-spec.filters // m), splits=options.splits,
        stages=options.stages, window_lanes=WINDOW_PRODUCTS,
        pixels=windows, window_warps=max(1, min(threads // LANES, n // WINDOW_PIXELS)), list_row=n + 1,
        few_pixels=FEW_PIXELS, regrouped=_are_regrouped(spec, options),
        store_vector=vector if last and spec.filters % 4 == 0 else 1, pixel_row=pixel_row,
        stage=k * (m + pixel_row), async_copies=spec.hardware.async_copies,
        registers_ahead=options.prefetch is Switch.ON, guard_filters=spec.filters % m != 0,
        guard_taps=padded and not spec.padding_mode.reads_image,
        one_value=padded and spec.padding_mode is Border.CONSTANT, find_taps=find_taps,
        guard_channels=not table and channels != spec.channels, guard_products=table and products % k != 0, table=table,
        shared_bytes=4 * options.stages * k * (m + pixel_row) + listed,
        fragments=(options.thread_m + options.thread_n) // vector, registers=_registers(spec, options))


def lighter(options: Any) -> Any | None:
    """The same without partial sums, or None where there are none."""
    return replace(options, splits=1, min_blocks=DERIVED) if options.splits > 1 else None
