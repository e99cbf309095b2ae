"""``phases_gemm``: the data gradient of a strided dense layer in float32, as a product of matrices by float32 units.

    dx[pixel][channel] = sum over the taps that a pixel meets, and filters, of
                         dy[the output][filter] * w[filter][channel][tap]

A cell of the stride is a pixel of each phase. Rows are channels, of one phase or of all, columns are cells of the whole
batch, and the reduction goes over taps and filters: the tiles of ``implicit_gemm`` (parts/gemm), whose right matrix is
gathered from dy as it lies there. No product with a zero between outputs is made. A launch before puts the filter in
the order of its tiles. It is for float32 layers whose sums are too short to be split in parts on the tensor cores
(docs/precision.md), among them the way up of a U-Net, and for ``ieee``; and it takes what tensor cores do not: 16 bits
with an odd number of filters, and layers before sm_80.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.border import Border
from warpconv.codegen.dimension import IMAGE, Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.parts.arguments import demanding, gradient_arguments, named, sizes_of
from warpconv.codegen.parts.refusals import FLOATS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

from .choice import candidates, choice, instructions, threads_refusal, tile_refusal
from .numbers import PhasesGemmNumbers, make_numbers, resolved
from .options import Form, PhasesGemmOptions

TURNED, TURN = "turned", "turn_filter"      # the filter in the order of its tiles, and the entry that makes it
MOST_TURN_BLOCKS = 1024
ROWS = {Form.APART: "channels of a phase", Form.ROW: "channels of the phases along W",
        Form.TOGETHER: "channels of all phases"}
LEAST_FILTERS = 4               # of a group: below, a tile of products is mostly filling
MOST_TAPS, MOST_PHASES = 4096, 1024


def supports(spec: KernelSpec) -> str | None:
    """None, or in words why the spec cannot be served."""
    if spec.filters < LEAST_FILTERS:
        return f"groups of {spec.filters} filters would leave most of a tile empty (at least {LEAST_FILTERS})"
    taps, phases = math.prod(spec.taps), math.prod(spec.stride)
    if taps > MOST_TAPS or phases > MOST_PHASES:
        return f"{taps} taps in {phases} phases (at most {MOST_TAPS} in {MOST_PHASES})"
    return common_refusal(spec, dtypes=FLOATS, layouts=tuple(Layout), borders=(Border.ZEROS, Border.CONSTANT),
                          operation=Operation.DATA_GRADIENT, spatial=(2, 3))


def plan(spec: KernelSpec, options: PhasesGemmOptions) -> KernelPlan:
    """Raises UnsupportedSpec where plan values and spec do not go together."""
    refusal = supports(spec) or threads_refusal(options)
    if refusal is None:
        options = resolved(spec, options)
        refusal = tile_refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = (*gradient_arguments(spec), Argument(name=TURNED, role=Role.WORKSPACE, c_type="float"))
    numbers = make_numbers(spec, options, named(arguments, "dy", TURNED, "bias", "dx", *sizes_of(spec)))
    nhwc, stored = spec.layout is Layout.NHWC, numbers.store_vector
    demands = {"dx": spec.dtype.itemsize * stored, "dy": numbers.copy_bytes if numbers.gemm.async_copies else 1}
    arguments = demanding(arguments, demands if nhwc else {**demands, "W": stored})
    elements = spec.groups * numbers.m_tiles * options.block_m * len(numbers.products.taps) * numbers.filled_filters
    turn = Launch(entry=TURN, block=(numbers.turn_threads, 1, 1), arguments=("w", TURNED), grid=(
        Blocks(times=-(-elements // numbers.turn_threads), limit=MOST_TURN_BLOCKS), Blocks(), Blocks()))
    each = math.prod(spec.stride) * options.block_n
    tiles = Blocks(of=Dimension.N, by=IMAGE[len(spec.taps)], add=each - 1, per=each,
                   times=numbers.m_tiles * len(numbers.products.phases) * spec.groups)
    product = Launch(entry=spec.name, grid=(tiles, Blocks(), Blocks()), block=(numbers.gemm.threads, 1, 1),
                     arguments=tuple(a.name for a in numbers.arguments), shared_bytes=numbers.gemm.shared_bytes)
    workspace = Workspace(name=TURNED, bytes_each=4 * elements, last_step=1)
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, templates=("phases_gemm/kernel.cu.jinja",),
        program=Program(arguments=arguments, steps=(turn, product), workspaces=(workspace,)),
        cost=_cost(options, numbers),
        phrase=f"tiles of {options.block_m} rows ({ROWS[options.form]}) x {options.block_n} cells of the stride x "
               f"{options.block_k} products, {options.thread_m} x {options.thread_n} a thread, {numbers.gemm.threads} "
               f"threads a block, {options.stages} stages")


def _cost(options: PhasesGemmOptions, numbers: PhasesGemmNumbers) -> Cost:
    """Of one warp's part of a tile of products."""
    gemm = numbers.gemm
    fma = options.block_k * options.thread_m * options.thread_n
    return Cost(unit=f"a warp's {gemm.lanes_m * options.thread_m} rows x {gemm.lanes_n * options.thread_n} cells x "
                     f"{options.block_k} products", warp_loads=gemm.rows + gemm.a_rounds, shuffles=0, fma=fma,
                registers=gemm.registers, direct_loads=fma)


def space(spec: KernelSpec) -> Iterable[PhasesGemmOptions]:
    """Every tile of all forms."""
    return candidates(spec)


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """choice.instructions of this plan."""
    return instructions(plan.spec, plan.options, shape)


ALGORITHM = Algorithm(name="phases_gemm",
                      summary="data gradient of strided dense layers: products of matrices by float32 units",
                      options=PhasesGemmOptions, supports=supports, defaults=choice, plan=plan, space=space,
                      estimate=estimate, operation=Operation.DATA_GRADIENT, spatial=(2, 3))
