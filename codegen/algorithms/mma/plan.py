"""``mma``: dense and grouped layers as a product of matrices on the tensor cores.

    y[pixel][filter] = sum over tap and channel of x[window of pixel][tap][channel] * w[filter][tap][channel]

A block makes a tile of pixels x filters. Pixels are gathered as they lie in x, several channels of a tap at a time, so
that nothing is stored between; the filter is put in the order of its tiles once. Both come through a ring of tiles in
shared memory that asynchronous copies fill (cp.async), go to registers as matrices (ldmatrix) and are multiplied by
mma.sync.m16n8k16 with sums in float32: the portable form, from sm_80 on.

In NCHW a launch before it brings x to NHWC, tile by tile through shared memory, its channels filled up to 16 bytes. y
is made in NCHW at once: there filters are the rows of a product and pixels its columns, so that what four lanes have
after an exchange lies side by side.

float32 elements are multiplied by mma.sync.m16n8k8 of TF32: rounded to it (tf32), or in two parts (tf32x3), which are
split in registers and whose sums are added in float32 after every instruction (docs/precision.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import replace
from warpconv.codegen.dimension import OUTPUTS, Dimension
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import BLOCK_THREADS, LANES, PORTABLE_SHARED, THREAD_REGISTERS
from warpconv.codegen.parts import nhwc_pass, split_sums
from warpconv.codegen.parts.arguments import BORDER, demanding, image_of, layer_arguments, named, outputs_of, sizes_of
from warpconv.codegen.parts.mma import (CELL_BYTES, FACTORS, MATRIX_COLUMNS, MATRIX_ROWS, MOST_STAGES, ROW_CELLS,
                                        SPLIT, arithmetic_of, cell_of, matrices_refusal, matrix_depth, units_refusal)
from warpconv.codegen.parts.occupancy import blocks_refusal
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, border_refusal, common_refusal
from warpconv.codegen.plan import (Argument, Blocks, Cost, KernelPlan, Launch, Preparation, Program, Role,
                                   Workspace)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

from .choice import candidates, choice, instructions, reduction_steps, shared_bytes
from .numbers import (SIDE_THREADS, MmaNumbers, is_passed, make_numbers, planned_registers, reads_planes,
                       resolved, store_widths, stored_channels)
from .options import MmaOptions

FILTER = "filter"               # the program's name for the prepared filter
MOST_FILTER_BLOCKS = 1024
LEAST_CHANNELS = 4              # of a group, where there are several: below, a tile is mostly filling


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if not spec.hardware.async_copies:
        return f"{spec.arch} has no mma.sync of this form (sm_80 and later)"
    if spec.groups > 1 and min(spec.channels, spec.filters) < LEAST_CHANNELS:
        return (f"groups of {spec.channels} channels and {spec.filters} filters would leave most of a tile empty (at "
                f"least {LEAST_CHANNELS} of each)")
    if (refusal := units_refusal(spec)) is not None:
        return refusal
    return common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NCHW, Layout.NHWC),
                          numerics=arithmetic_of(spec), borders=BORDERS,
                          residual=True, spatial=(2, 3)) or border_refusal(spec)


def plan(spec: KernelSpec, options: MmaOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    refusal = supports(spec) or _warps_refusal(options)
    if refusal is None:
        options = resolved(spec, options)
        refusal = _tile_refusal(spec, options) or _layer_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    split, passed = options.splits > 1, is_passed(spec)
    arguments = _arguments(spec, options)
    taken = named(arguments, nhwc_pass.PIXELS if passed else "x", FILTER,
                  *((split_sums.SUMS,) if split else ("bias", "residual", "y")), *sizes_of(spec), BORDER)
    adding = named(arguments, split_sums.SUMS, "bias", "residual", "y", "N", *outputs_of(spec))
    passing = named(arguments, "x", nhwc_pass.PIXELS, "N", *image_of(spec))
    numbers = make_numbers(spec, options, taken, adding,
                           nhwc_pass.make_pass(spec, passing, wide=options.vector > 1) if passed else None)
    steps = ([nhwc_pass.launch(spec, passing)] if passed else []) + [_product(spec, options, numbers)]
    product = len(steps) - 1
    workspaces = [nhwc_pass.workspace(spec, product)] if passed else []
    if split:
        steps.append(split_sums.launch(spec, adding, numbers.early_sums))
        workspaces.append(split_sums.workspace(spec, options.splits, product))
    program = Program(arguments=arguments, steps=tuple(steps), preparation=_preparation(spec, options, numbers),
                      workspaces=tuple(workspaces))
    return KernelPlan(spec=spec, options=options, numbers=numbers, templates=("mma/kernel.cu.jinja",), program=program,
                      cost=_cost(spec, options, numbers), phrase=_phrase(spec, options, numbers))


def _warps_refusal(options: MmaOptions) -> str | None:
    """Whether a block can have so many warps."""
    if options.warps_m < 1 or options.warps_n < 1 or options.warps_m * options.warps_n > BLOCK_THREADS // LANES:
        return f"{options.warps_m} x {options.warps_n} warps (1 to {BLOCK_THREADS // LANES} are possible)"
    return None


def _tile_refusal(spec: KernelSpec, options: MmaOptions) -> str | None:
    """Whether warps share out a tile in whole matrices, and its copies."""
    m, n, k, depth = options.tile_m, options.tile_n, options.tile_k, matrix_depth(spec)
    if m % (options.warps_m * MATRIX_ROWS) or n % (options.warps_n * 2 * MATRIX_COLUMNS) or k % depth:
        return (f"{options.warps_m} x {options.warps_n} warps do not share out {m} x {n} x {k} in matrices of "
                f"{MATRIX_ROWS} x {2 * MATRIX_COLUMNS} x {depth}")
    exchanged = spec.layout is Layout.NCHW and spec.dtype is not DType.FLOAT32 and options.splits == 1
    if exchanged and m // options.warps_m % (4 * MATRIX_COLUMNS):
        return f"{options.warps_m} warps along {m} pixels: whole multiples of {4 * MATRIX_COLUMNS} each in NCHW"
    threads = LANES * options.warps_m * options.warps_n
    vector = cell_of(spec) if reads_planes(spec) else options.vector
    columns, rows = (m // vector, k) if reads_planes(spec) else (k // vector, m)
    if threads % columns or rows % (threads // columns):
        return f"{threads} threads do not share out the copies of {m} pixels x {k} products, {vector} at a time"
    if k not in (depths := [cells * cell_of(spec) for cells in ROW_CELLS]):
        return f"tile_k = {k} ({depths[0]} or {depths[1]}: whole rows of banks)"
    if not 2 <= options.stages <= MOST_STAGES:
        return f"stages = {options.stages} (2 to {MOST_STAGES})"
    if (refusal := matrices_refusal(spec, m // options.warps_m, n // options.warps_n)) is not None:
        return refusal
    if (registers := planned_registers(spec, options)) > THREAD_REGISTERS:
        return f"about {registers} registers a thread (at most {THREAD_REGISTERS}): smaller tiles"
    return None


def _layer_refusal(spec: KernelSpec, options: MmaOptions) -> str | None:
    """What the layer and the chip make of the tile."""
    if reads_planes(spec):
        if options.vector not in (1, cell_of(spec)):
            return f"vector = {options.vector} (1 or {cell_of(spec)} pixels of a channel)"
    elif stored_channels(spec) % options.vector:
        return f"vector = {options.vector} does not divide C/groups = {stored_channels(spec)}"
    if options.store_vector not in (widths := store_widths(spec, options)):
        return (f"store_vector = {options.store_vector} (one of {', '.join(map(str, widths))} for {spec.layout.value}, "
                f"{spec.filters} filters a group, tile_n = {options.tile_n}, warps_n = {options.warps_n}, splits = "
                f"{options.splits})")
    several = options.groups_tile > 1
    if several and (spec.layout is not Layout.NHWC or spec.dtype is DType.FLOAT32 or options.splits > 1
                    or spec.filters > options.tile_n or spec.groups % options.groups_tile):
        return (f"groups_tile = {options.groups_tile} of {spec.groups} groups of {spec.filters} filters (of 16 bits in "
                "NHWC, whole sums, one tile of filters a group; it divides the groups)")
    steps = reduction_steps(spec, options)
    if not 1 <= options.splits <= steps:
        return f"splits = {options.splits} of {steps} tiles of the reduction (at most one each)"
    shared = shared_bytes(spec, options)
    if shared > PORTABLE_SHARED:
        return f"{shared} bytes of shared memory for a block (at most {PORTABLE_SHARED}): smaller tiles or fewer stages"
    threads = LANES * options.warps_m * options.warps_n
    return blocks_refusal(spec, threads, options.min_blocks)


def _arguments(spec: KernelSpec, options: MmaOptions) -> tuple[Argument, ...]:
    """The layer's, aligned as they are loaded and stored, the prepared filter, the sums of split tiles, x in NHWC."""
    store = spec.dtype.itemsize * options.store_vector
    aligned = {"x": spec.dtype.itemsize * options.vector, "y": store, "residual": store}
    if spec.layout is Layout.NCHW:
        aligned |= {"x": CELL_BYTES if options.vector > 1 else 1, "residual": store if spec.dtype.is_half else 1}
    arguments = demanding(layer_arguments(spec, as_elements=True), aligned)
    arguments += (Argument(name=FILTER, role=Role.WORKSPACE, c_type=spec.w_dtype.c_name),)
    if is_passed(spec):
        arguments += (nhwc_pass.argument(spec),)
    if options.splits > 1:
        arguments += (split_sums.argument(),)
    return arguments


def _product(spec: KernelSpec, options: MmaOptions, numbers: MmaNumbers) -> Launch:
    """Blocks of one tile of pixels stand side by side, so that they find its pixels in the cache."""
    pixels = Blocks(of=Dimension.N, by=OUTPUTS[len(spec.taps)], add=options.tile_m - 1, per=options.tile_m,
                    times=numbers.n_tiles * numbers.group_tiles * options.splits)
    return Launch(entry=spec.name, grid=(pixels, Blocks(), Blocks()), block=(numbers.threads, 1, 1),
                  arguments=tuple(a.name for a in numbers.arguments), shared_bytes=numbers.shared_bytes)


def _preparation(spec: KernelSpec, options: MmaOptions, numbers: MmaNumbers) -> Preparation:
    """The filter as [group][filter, filled up to whole tiles][tap][channel, filled up behind the last]."""
    elements = spec.groups * numbers.n_tiles * options.tile_n * numbers.k_steps * options.tile_k
    grid = (Blocks(times=-(-elements // SIDE_THREADS), limit=MOST_FILTER_BLOCKS), Blocks(), Blocks())
    launch = Launch(entry="prepare_filter", grid=grid, block=(SIDE_THREADS, 1, 1), arguments=("w", FILTER))
    return Preparation(steps=(launch,), buffer=Workspace(name=FILTER, bytes_each=spec.dtype.itemsize * elements),
                       ordered=elements == spec.k * spec.reduction and not numbers.padded)


def _cost(spec: KernelSpec, options: MmaOptions, numbers: MmaNumbers) -> Cost:
    """Of a warp's tile of outputs; a product of matrices counts as the FMAs of a lane that it stands for."""
    products = numbers.k_steps * options.tile_k
    return Cost(unit=f"a warp's {numbers.warp_m} pixels x {numbers.warp_n} filters",
                warp_loads=numbers.k_steps * (numbers.pixel_copies + numbers.filter_copies), shuffles=0,
                fma=products * numbers.warp_m * numbers.warp_n // LANES, registers=numbers.registers,
                direct_loads=spec.reduction * numbers.warp_m * numbers.warp_n // LANES)


def _phrase(spec: KernelSpec, options: MmaOptions, numbers: MmaNumbers) -> str:
    factors = FACTORS.get(spec.numerics, "")
    return (f"tiles of {options.tile_m} pixels x {options.tile_n} filters x {options.tile_k} products{factors} on the "
            f"tensor cores, {options.warps_m} x {options.warps_n} warps a block, {options.stages} stages, "
            f"{numbers.shared_bytes} bytes of shared memory")


def lighter(spec: KernelSpec, options: MmaOptions) -> MmaOptions | None:
    """The same without partial sums, or None where there are none."""
    return replace(options, splits=1) if options.splits > 1 else None


def space(spec: KernelSpec) -> Iterable[MmaOptions]:
    """Every tile, with the reduction whole and split."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="mma", summary="a product of matrices on the tensor cores, pixels gathered as they lie",
                      options=MmaOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, lighter=lighter, float32=SPLIT, spatial=(2, 3))

