"""``hankel``: the gradient of depthwise filters of 16-bit elements on tensor cores; NHWC.

Of a channel, every tap's sum over a row is a product of a row of the outputs' gradients and the input's row, shifted by
the tap's column. A matrix instruction makes those of up to 8 rows of gradients and 8 shifts, which are a Hankel matrix
of one row of the input, over 16 columns and for both channels of a pair: all taps of a 7x7 filter. Both arrays come 16
bytes at a time into shared memory, each row once, and a lane's words are pairs of channels as they lie there.
docs/gradients.md has more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, GRID_LIMIT, LANES, PORTABLE_SHARED
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.arguments import bounded, gradient_arguments
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .numbers import HALF, OCTET, SLOTS, HankelNumbers, HankelOptions, make_numbers, most_rows, registers_of

MOST_STRIDE, MOST_DILATION = 4, 8
# Times the channels, with those that the last block of a pixel has none for. Of an odd number of octets pixels begin in
# the middle of 32 bytes, and narrow blocks read some of these twice.
MOST_IDLE, MOST_IDLE_ODD = 1.2, 1.5
MOST_COLUMNS = 64       # of an image, or of images side by side
NARROW = 32             # columns of an image beside which no other lies; fewer warps and octets share so few
MOST_ROUNDS = 8         # matrices of a row that a warp makes, in the text
USUAL_ROWS = 2          # of a step: each more row saves reads of dy, for 16 registers
LEAST_STEPS = 4         # of a share
MATRIX_SLOTS = 9        # issue slots of a matrix instruction,
LOAD_SLOTS = 16         # of a read of 512 bytes of shared memory, which takes four turns of a multiprocessor,
COPY_SLOTS = 16         # and of 32 copies of 16 bytes, with their places
# Images so small that most matrices are empty, by columns of outputs and taps, with stride and without; and the factor
# that leaves them to filter_gradient, which takes 0.77 to 0.98 of the time (768 and 1152 channels on 7^2, 64 images,
# float16, H200, 2026-11-27)
SMALL_STRIDED, MANY_TAPS = 4, 49
SMALL, FEW_TAPS = 7, 9
SMALL_PACE = 3.3


def supports(spec: KernelSpec) -> str | None:
    borders = tuple(border for border in BORDERS if border is not Border.CONSTANT)
    refusal = common_refusal(spec, dtypes=(DType.FLOAT16, DType.BFLOAT16), layouts=(Layout.NHWC,), borders=borders,
                             operation=Operation.FILTER_GRADIENT)
    if refusal is None and spec.epilogue:
        refusal = "the filter's gradient takes no epilogue"
    if refusal is None and spec.arch.major < 8:
        refusal = f"{spec.arch} has no matrix instructions of this shape (from sm_80 on)"
    if refusal is None and not spec.c == spec.k == spec.groups:
        refusal = f"{spec.channels} channels and {spec.filters} filters a group (depthwise only: one and one)"
    if refusal is None and spec.c % OCTET:
        refusal = f"{spec.c} channels: a pixel is read {OCTET} channels at a time"
    if refusal is None and max(spec.stride) > MOST_STRIDE:
        refusal = f"stride {max(spec.stride)} (at most {MOST_STRIDE})"
    if refusal is None and max(spec.dilation) > MOST_DILATION:
        refusal = f"dilation {max(spec.dilation)} (at most {MOST_DILATION})"
    return refusal


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> HankelOptions:
    """Few taps in two stretches; whole rows or equal parts of them, small images side by side, so that two blocks of a
    multiprocessor have room for several steps each."""
    folds = 2 if spec.r <= most_tap_rows(spec, 2) and spec.s <= SLOTS // 2 else 1
    tap_rows, tap_columns = (-(-size // -(-size // most)) for size, most in (
        (spec.r, most_tap_rows(spec, folds)), (spec.s, SLOTS // folds)))     # equal shares
    most, stride = most_rows(spec, folds, tap_rows), spec.stride[0]
    if shape is not None:       # no more than an image's rows of taps and outputs, as of a sequence
        most = min(most, (shape.p - 1) * stride + (tap_rows - 1) * spec.dilation[0] + 1)
    rows = max(stride, min(USUAL_ROWS, most) // stride * stride)
    options = HankelOptions(rows=rows, folds=folds, tap_rows=tap_rows, tap_columns=tap_columns)
    widest, warps, steps = _block(spec, shape, folds)
    for octets, buffers, parts in itertools.product(range(widest, 0, -1), range(steps, 1, -1), (1, 2, 4, 8)):
        tried = replace(options, octets=octets, buffers=buffers, **_columns(shape, parts, warps, folds))
        if _refusal(spec, tried) is None:
            break
    return replace(tried, chunks=_chunks(spec, shape, tried))


def _block(spec: KernelSpec, shape: ConvShape | None, folds: int) -> tuple[int, int, int]:
    """Octets of a block, warps of each and steps in shared memory: the quickest of 41 layers' plans, or nearly so
    (docs/results/gradients/plans.md). 64 bytes of a pixel come to shared memory in half as many requests as 32."""
    columns = MOST_COLUMNS if shape is None else shape.q
    most, warps, buffers = 4, 2 if folds == 2 and columns > NARROW else 1, 3
    if columns <= (HALF if folds == 2 else NARROW):
        most, warps, buffers = 2, 2, 4
    total = spec.c // OCTET
    sizes, idle = ((4, 3, 2, 1), MOST_IDLE_ODD) if total % 2 else ((4, 2), MOST_IDLE)
    octets = next(n for n in sizes if n <= min(most, total) and -(-total // n) * n <= idle * total)
    return octets, warps, buffers


def most_tap_rows(spec: KernelSpec, folds: int) -> int:
    """Rows of the filter that meet a window of gradients, with a step of one stride."""
    return (SLOTS // folds - 1) * spec.stride[0] // spec.dilation[0] + 1


def _columns(shape: ConvShape | None, parts: int, warps: int, folds: int) -> dict[str, int]:
    """Columns of a block, those of whole images side by side where they are few, and the warps that share them."""
    unit = 2 * folds * HALF
    if shape is None:
        columns, across = max(unit, MOST_COLUMNS // parts), 1
    else:
        strips = parts * -(-shape.q // MOST_COLUMNS)
        columns = -(-shape.q // strips)
        columns += -columns % HALF
        fitting = MOST_COLUMNS // columns // parts
        beside = strips == parts and columns >= shape.q and columns < NARROW
        across = max(1, min(fitting, assumed_batch(shape))) if beside else 1
    units = -(-columns * across // unit)
    rounds = -(-units // warps)
    return {"columns": columns, "across": across, "warps": -(-units // rounds)}


def _chunks(spec: KernelSpec, shape: ConvShape | None, options: HankelOptions) -> int:
    """Shares, so that all blocks are under way at once: a multiple of the strips of an image."""
    n, p, q = (64, 56, 56) if shape is None else (assumed_batch(shape), shape.p, shape.q)
    made = make_numbers(spec, options)
    strips = -(-q // options.columns)
    beside = made.channel_groups * made.tap_tiles[0] * made.tap_tiles[1]
    steps = -(-n // options.across) * strips * (p * spec.stride[0] // options.rows + 1)
    wanted = spec.hardware.multiprocessors * made.min_blocks // beside
    chunks = max(1, min(wanted, steps // LEAST_STEPS, partial_sums.MOST_CHUNKS))
    return chunks // strips * strips or min(strips, partial_sums.MOST_CHUNKS)


def plan(spec: KernelSpec, options: HankelOptions) -> KernelPlan:
    refusal = supports(spec) or _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    made = make_numbers(spec, options)
    grid = (Blocks(times=options.chunks * made.channel_groups, limit=GRID_LIMIT[0]),
            Blocks(times=made.tap_tiles[0] * made.tap_tiles[1], limit=GRID_LIMIT[1]), Blocks())
    launch = Launch(entry=spec.name, grid=grid, block=(made.threads, 1, 1), shared_bytes=made.shared_bytes,
                    arguments=("x", "dy", partial_sums.PARTS, "N", "H", "W", "P", "Q"))
    program = partial_sums.program(_arguments(spec, options), launch, "dw", spec.c * spec.r * spec.s, options.chunks,
                                   direct=False)
    columns = 2 * HALF * options.folds
    images = f"{options.across} images x " if options.across > 1 else ""
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("hankel/kernel.cu.jinja",), program=program,
        cost=Cost(unit=f"{options.rows} rows x {columns} columns x {OCTET} channels, {4 * options.rows} matrix "
                       "instructions",
                  warp_loads=-(-(options.rows * made.copies + made.fresh * made.gradient_copies) // LANES), shuffles=0,
                  fma=0, registers=registers_of(options),
                  direct_loads=options.rows * columns * OCTET * options.tap_rows * options.tap_columns // LANES),
        phrase=(f"{options.tap_rows} x {options.tap_columns} taps of {OCTET * options.octets} channels in a block; "
                f"{images}{options.columns} columns, {options.rows} rows at a time, {options.buffers} buffers, in "
                f"{options.chunks} chunks; then the chunks' sums are added"),
        notes=("a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel",
               f"{made.shared_bytes} bytes of shared memory a block"))


def _arguments(spec: KernelSpec, options: HankelOptions) -> tuple[Argument, ...]:
    """The arguments, with what copies of 16 bytes ask of them, images side by side, and strips, of which each has a
    share."""
    found = (replace(a, multiple_of=OCTET * spec.dtype.itemsize) if a.name in ("x", "dy") else a
             for a in gradient_arguments(spec))
    most = options.columns * (1 if options.across > 1 else options.chunks)
    return bounded(found, {"Q": most})


def _refusal(spec: KernelSpec, options: HankelOptions) -> str | None:
    """Why these plan values cannot be had, or None."""
    most = SLOTS // options.folds
    if options.folds not in (1, 2):
        return f"folds = {options.folds}: a matrix has 1 or 2 stretches of a row"
    if options.tap_rows > spec.r or options.tap_columns > min(spec.s, most):
        return f"{options.tap_rows} x {options.tap_columns} taps of {spec.r} x {spec.s} (at most {most} columns)"
    if options.rows % spec.stride[0] or options.rows > most_rows(spec, options.folds, options.tap_rows):
        return (f"rows = {options.rows}: a multiple of the stride, {spec.stride[0]}, at most "
                f"{most_rows(spec, options.folds, options.tap_rows)} with {options.tap_rows} rows of taps")
    if options.columns % HALF:
        return f"columns = {options.columns} is no multiple of {HALF}"
    if not 2 <= options.buffers <= 8:
        return f"buffers = {options.buffers} (2 to 8)"
    if options.octets not in (1, 2, 3, 4, 8):
        return f"octets = {options.octets} (1, 2, 3, 4 or 8)"
    if options.chunks > partial_sums.MOST_CHUNKS:
        return f"{options.chunks} chunks (at most {partial_sums.MOST_CHUNKS})"
    made = make_numbers(spec, options)
    if made.threads > BLOCK_THREADS:
        return f"{made.threads} threads of a block (at most {BLOCK_THREADS})"
    if options.warps > made.units or made.rounds > MOST_ROUNDS:
        return (f"warps = {options.warps} for {made.units} matrices of a row (each makes 1 to {MOST_ROUNDS} of them)")
    if made.shared_bytes > PORTABLE_SHARED:
        return f"{made.shared_bytes} bytes of shared memory for a block (at most {PORTABLE_SHARED})"
    if registers_of(options) > 255:
        return f"rows = {options.rows}: about {registers_of(options)} registers"
    return None


def space(spec: KernelSpec) -> Iterable[HankelOptions]:
    own = defaults(spec)
    chunks = partial_sums.chunks_beside(own.chunks)
    found = [own, *(replace(own, chunks=n, octets=octets, columns=columns, warps=warps, rows=rows, buffers=buffers)
                    for n in chunks for octets in (1, 2, 4, 8) for columns in (32, 56, 64, 112) for warps in (1, 2, 4)
                    for rows in (1, 2, 4) for buffers in (2, 3, 4))]
    return [o for o in found if _refusal(spec, o) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Issue slots: a step's copies, reads of shared memory and matrix instructions."""
    spec = plan.spec
    options: HankelOptions = plan.options
    made: HankelNumbers = plan.numbers
    unit = LOAD_SLOTS * 4 * (1 + options.rows) + 16 + 4 * options.rows * MATRIX_SLOTS
    step = options.octets * made.units * unit + COPY_SLOTS * plan.cost.warp_loads
    rows = (shape.p - 1) * spec.stride[0] + (options.tap_rows - 1) * spec.dilation[0] + 1
    steps = shape.n / options.across * -(-shape.q // options.columns) * -(-rows // options.rows)    # any batch alike
    columns, taps = (SMALL_STRIDED, MANY_TAPS) if spec.stride[1] > 1 else (SMALL, FEW_TAPS)
    small = shape.q <= columns and spec.r * spec.s <= taps
    return steps * step * made.channel_groups * made.tap_tiles[0] * made.tap_tiles[1] * (SMALL_PACE if small else 1.0)


# The pace is set so that layers that this serves are its own, but for small images: filter_gradient's estimate has the
# instructions of walks that take two to four times as long as these would, at 16-bit elements in NHWC
# (docs/results/gradients).
ALGORITHM = Algorithm(name="hankel", summary="the filter's gradient on tensor cores; 16-bit depthwise, NHWC",
                      options=HankelOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, pace=0.15, operation=Operation.FILTER_GRADIENT)
