"""``hankel_1d_nhwc``: the gradient of depthwise filters of one row of 16-bit elements, on tensor cores; NHWC.

Eights of a pixel's channels come to shared memory, are turned there into sequences of each channel, and these are
multiplied as ``hankel_1d`` does: docs/one-dimension.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.border import Border
from warpconv.codegen.classes import replace
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import GRID_LIMIT, LANES, PORTABLE_SHARED
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.arguments import gradient_arguments
from warpconv.codegen.parts.folded import BLOCK, STEP, block_taps, line_of, line_refusal, one_pixel_wide
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .numbers import CELL, OCTET, Hankel1dNhwcNumbers, Hankel1dNhwcOptions, make_numbers

MOST_TAPS = 128         # of a block: their sums are 4 registers for eight of them
FEW_BLOCKS = 12         # of columns of a product, up to which a step has as many instructions as it has overhead
LEAST_ITEMS = 4         # of a share
WARPS_WANTED = 16       # of a multiprocessor; each share more costs sums that are added up
MATRIX_SLOTS = 8        # issue slots that a matrix instruction stands for in the estimate,
LOAD_SLOTS = 16         # a read of four matrices, which takes four turns of shared memory,
COPY_SLOTS = 16         # 32 copies with their places,
TURN_SLOTS = 40         # and four matrices on their way to sequences


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
    return refusal or line_refusal(spec, columns=True)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> Hankel1dNhwcOptions:
    """32 bytes of a pixel, so that a multiprocessor holds several blocks, and two channels a warp; more outputs at a
    time where filters are long."""
    line = line_of(spec)
    taps = block_taps(line.taps, MOST_TAPS)
    options = Hankel1dNhwcOptions(taps=taps, octets=1 if spec.c // OCTET % 2 else 2)
    if len(make_numbers(spec, options).blocks) > FEW_BLOCKS:
        options = replace(options, steps=2)
    if shape is None:
        return options
    made = make_numbers(spec, options)
    items = assumed_batch(shape) * line.lines_of(shape) * -(-line.outputs_of(shape) // made.span)
    fitting = spec.hardware.warps_of(WARPS_WANTED) // (made.warps * made.channel_groups * made.tap_tiles)
    return replace(options, chunks=max(1, min(fitting, items // LEAST_ITEMS, partial_sums.MOST_CHUNKS)))


def plan(spec: KernelSpec, options: Hankel1dNhwcOptions) -> KernelPlan:
    refusal = supports(spec) or _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    made = make_numbers(spec, options)
    grid = (Blocks(times=options.chunks * made.channel_groups, limit=GRID_LIMIT[0]),
            Blocks(times=made.tap_tiles, limit=GRID_LIMIT[1]), Blocks())
    launch = Launch(entry=spec.name, grid=grid, block=(made.threads, 1, 1), shared_bytes=made.shared_bytes,
                    arguments=("x", "dy", "dw" if options.chunks == 1 else partial_sums.PARTS, "N", "H", "W", "P", "Q"))
    program = partial_sums.program(_arguments(spec), launch, "dw", spec.k * spec.r * spec.s, options.chunks)
    copies = BLOCK * (made.groups + made.gradient_groups) * options.octets
    return KernelPlan(
        spec=spec, options=options, numbers=made, templates=("hankel_1d_nhwc/kernel.cu.jinja",), program=program,
        cost=Cost(unit=f"{STEP} outputs of a channel, {len(made.blocks)} matrix instructions",
                  warp_loads=-(-copies // (LANES * made.channels * options.steps)), shuffles=0, fma=0,
                  registers=made.registers, direct_loads=STEP * (1 + options.taps) // LANES,
                  no_spills=made.registers <= 255),
        phrase=(f"{options.taps} taps of {made.channels} channels in a block, {made.warps} warps of {options.each}; "
                f"{made.span} outputs of a row at a time"
                + (f", in {options.chunks} chunks; then the chunks' sums are added" if options.chunks > 1 else "")),
        notes=("a zero beside the outputs meets real input: an infinity or NaN may spread to other taps of its channel",
               f"{made.shared_bytes} bytes of shared memory a block"))


def _arguments(spec: KernelSpec) -> tuple[Argument, ...]:
    """The arguments, with what copies of an octet ask of them."""
    demands = {"x": {"multiple_of": CELL}, "dy": {"multiple_of": CELL}, **one_pixel_wide(spec)}
    return tuple(replace(a, **demands.get(a.name, {})) for a in gradient_arguments(spec))


def _refusal(spec: KernelSpec, options: Hankel1dNhwcOptions) -> str | None:
    """Why these plan values cannot be had, or None."""
    if options.octets not in (1, 2, 4):
        return f"octets = {options.octets} (1, 2 or 4)"
    if options.each not in (1, 2, 4, 8):
        return f"each = {options.each} channels of a warp (1, 2, 4 or 8)"
    all_taps = line_of(spec).taps
    if options.taps > min(all_taps + BLOCK, MOST_TAPS) or (options.taps < all_taps and options.taps % BLOCK):
        return f"taps = {options.taps}: all {all_taps}, or a multiple of {BLOCK}, at most {MOST_TAPS}"
    if options.chunks > partial_sums.MOST_CHUNKS:
        return f"{options.chunks} chunks (at most {partial_sums.MOST_CHUNKS})"
    made: Hankel1dNhwcNumbers = make_numbers(spec, options)
    if made.shared_bytes > PORTABLE_SHARED:
        return f"{made.shared_bytes} bytes of shared memory for a block (at most {PORTABLE_SHARED})"
    if made.registers > 255:
        return f"each = {options.each}: about {made.registers} registers"
    return None


def space(spec: KernelSpec) -> Iterable[Hankel1dNhwcOptions]:
    own = defaults(spec)
    chunks = partial_sums.chunks_beside(own.chunks)
    found = [own, *(replace(own, chunks=n, octets=octets, each=each, steps=steps)
                    for n in chunks for octets in (1, 2, 4) for each in (1, 2, 4) for steps in (1, 2))]
    return [o for o in found if _refusal(spec, o) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Issue slots: copies, their way to sequences, reads of matrices and matrix instructions."""
    options: Hankel1dNhwcOptions = plan.options
    made: Hankel1dNhwcNumbers = plan.numbers
    step = LOAD_SLOTS * (1 + len(made.loads)) + MATRIX_SLOTS * len(made.blocks) + 10
    pixels = (made.groups + made.gradient_groups) * (BLOCK * COPY_SLOTS / LANES + TURN_SLOTS / 4)
    octet = pixels + OCTET * options.steps * step
    items = made.line.lines_of(shape) * -(-made.line.outputs_of(shape) // made.span)
    return shape.n * items * made.channel_groups * options.octets * made.tap_tiles * octet


# The pace is fitted to filter_gradient's estimate at 4, 15 and 31 taps, which is a fourth of its time at 31.
ALGORITHM = Algorithm(name="hankel_1d_nhwc", options=Hankel1dNhwcOptions, supports=supports, defaults=defaults,
                      plan=plan, summary="the filter's gradient on tensor cores; 16-bit depthwise sequences, NHWC",
                      space=space, estimate=estimate, pace=0.9, operation=Operation.FILTER_GRADIENT)
