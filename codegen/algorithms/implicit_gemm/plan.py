"""``implicit_gemm``: the convolution as a product of matrices whose right one is never stored.

Source: im2win (arXiv 2306.14316), Algorithm 1, in two forms. ``document`` is the algorithm as printed (its stride
mended): a thread for each output, which works out from k where each product lies. ``tiled`` is the same product with
tiles in shared memory and in registers (gemm_tiles), in NCHW and in NHWC.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.border import Border
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.options import DERIVED, only
from warpconv.codegen.parts import split_sums
from warpconv.codegen.parts.arguments import BORDER, demanding, layer_arguments, named
from warpconv.codegen.parts.gemm import choice as gemm_choice, program as gemm_program, tiles as gemm_tiles
from warpconv.codegen.parts.gemm.tiles import FILTER, GemmNumbers, Order, Switch
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.plan import Argument, Blocks, Cost, KernelPlan, Launch, Program, Step
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec

DOCUMENT_THREADS = 256
DOCUMENT_REGISTERS = 32
TEMPLATES = {Layout.NCHW: "implicit_gemm/kernel.cu.jinja", Layout.NHWC: "implicit_gemm/kernel_nhwc.cu.jinja"}
TAP_INSIDE = "(unsigned)h < (unsigned)H && (unsigned)column < (unsigned)W"


class Form(enum.Enum):
    """The algorithm as printed, or with tiles."""

    DOCUMENT = "document"
    TILED = "tiled"


@dataclass(frozen=True)
class ImplicitGemmOptions:
    """Plan values. A block makes ``block_m`` filters x ``block_n`` pixels, ``block_k`` products at a time; a thread
    ``thread_m`` x ``thread_n`` of them. ``stages`` tiles of products lie in shared memory (2, or 3 of few, with
    ``prefetch``, else 1, where not given); ``splits`` blocks share the sums of a tile. ``prefetch``, ``vector_loads``
    and ``micro_kernel`` can be left out, each alone. The document's form has none of them."""

    form: Form = Form.TILED
    block_m: int = only(128, form=Form.TILED)
    block_n: int = only(128, form=Form.TILED)
    block_k: int = only(8, form=Form.TILED)
    thread_m: int = only(8, form=Form.TILED)
    thread_n: int = only(8, form=Form.TILED)
    order: Order = only(Order.TAPS, form=Form.TILED)
    stages: int = only(DERIVED, form=Form.TILED)
    splits: int = only(1, form=Form.TILED)
    prefetch: Switch = only(Switch.ON, form=Form.TILED)
    vector_loads: Switch = only(Switch.ON, form=Form.TILED)
    micro_kernel: Switch = only(Switch.ON, form=Form.TILED)
    min_blocks: int = only(DERIVED, form=Form.TILED)


@dataclass(frozen=True)
class TiledNumbers:
    """What the template of the tiled form writes besides the spec."""

    gemm: GemmNumbers
    arguments: tuple[Argument, ...]             # of the product's entry
    addition_arguments: tuple[Argument, ...]    # of the entry that adds the sums of split tiles
    stored_epilogue: tuple[Epilogue, ...]       # nothing where partial sums are stored
    side_threads: int = gemm_tiles.SIDE_THREADS


@dataclass(frozen=True)
class DocumentNumbers:
    """What the template of the document's form writes besides the spec."""

    arguments: tuple[Argument, ...]
    guard_taps: bool        # taps in the padding are skipped
    guard: str              # when a pixel lies in the image, where something else may stand; empty if always
    threads: int = DOCUMENT_THREADS


def supports(spec: KernelSpec) -> str | None:
    return common_refusal(spec, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS, residual=True)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> ImplicitGemmOptions:
    options = ImplicitGemmOptions(**gemm_choice.choice(spec, by_columns=False))
    if shape is None:
        return options
    chosen: ImplicitGemmOptions = gemm_choice.of_sizes(spec, options, shape.with_batch(assumed_batch(shape)))
    return chosen


def plan(spec: KernelSpec, options: ImplicitGemmOptions) -> KernelPlan:
    refusal = supports(spec)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    return _document(spec, options) if options.form is Form.DOCUMENT else _tiled(spec, options)


def _padded(spec: KernelSpec) -> bool:
    return any(map(any, spec.padding))


def _document(spec: KernelSpec, options: ImplicitGemmOptions) -> KernelPlan:
    arguments = layer_arguments(spec)
    mode = spec.padding_mode if _padded(spec) else None
    numbers = DocumentNumbers(arguments=arguments, guard_taps=mode is Border.ZEROS,
                              guard=TAP_INSIDE if mode is Border.CONSTANT else "")
    grid = (Blocks(of=Dimension.N, by=(Dimension.P, Dimension.Q), add=numbers.threads - 1, per=numbers.threads,
                   times=spec.k), Blocks(), Blocks())
    launch = Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1),
                    arguments=tuple(a.name for a in arguments))
    reduction = spec.channels * spec.r * spec.s
    options = replace(options, min_blocks=1) if options.min_blocks == DERIVED else options
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, templates=("implicit_gemm/kernel_document.cu.jinja",),
        program=Program(arguments=arguments, steps=(launch,)),
        cost=Cost(unit="32 outputs of a filter", warp_loads=2 * reduction, shuffles=0, fma=reduction,
                  registers=DOCUMENT_REGISTERS, direct_loads=reduction),
        phrase="the document's loops, one output a thread")


def _tiled(spec: KernelSpec, options: ImplicitGemmOptions) -> KernelPlan:
    resolved = gemm_tiles.resolved(spec, options)
    if resolved.order is Order.WINDOW:
        raise UnsupportedSpec(spec, "order = window: the windows of x do not lie in one piece, im2win's do "
                                    "(order = taps or table)")
    gemm = gemm_tiles.numbers(spec, resolved, by_columns=False, padded=_padded(spec))
    aligned = dict.fromkeys(("residual", "y"), spec.y_dtype.itemsize * gemm.store_vector)
    arguments = demanding(layer_arguments(spec), aligned)
    arguments += gemm_program.arguments(gemm)
    split = gemm.splits > 1
    stored = (split_sums.SUMS,) if split else ("bias", "residual", "y")
    product = named(arguments, "x", FILTER, *stored, "N", "H", "W", "P", "Q", BORDER)
    adding = named(arguments, split_sums.SUMS, "bias", "residual", "y", "N", "P", "Q") if split else ()
    steps: tuple[Step, ...] = (gemm_program.multiply(spec, resolved, gemm, product),)
    if split:
        steps += (split_sums.launch(spec, adding),)
    numbers = TiledNumbers(gemm=gemm, arguments=product, addition_arguments=adding,
                           stored_epilogue=() if split else spec.epilogue)
    program = Program(arguments=arguments, steps=steps, preparation=gemm_program.preparation(spec, resolved, gemm),
                      workspaces=(split_sums.workspace(spec, gemm.splits, 0),) if split else ())
    return KernelPlan(
        spec=spec, options=resolved, numbers=numbers, templates=(TEMPLATES[spec.layout],), program=program,
        cost=gemm_program.cost(spec, resolved, gemm), phrase=gemm_program.phrase(resolved, gemm),
        notes=gemm_program.notes(options, resolved))


def space(spec: KernelSpec) -> Iterable[ImplicitGemmOptions]:
    return [ImplicitGemmOptions(**values) for values in gemm_choice.space(spec, by_columns=False)]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """The document's form: per product two loads, an FMA, and some twenty instructions that find where they lie. The
    tiled form: gemm_choice."""
    if plan.options.form is Form.DOCUMENT:
        return -(-shape.n * shape.p * shape.q // 32) * shape.k * (30 + 24 * shape.reduction)
    return gemm_choice.instructions(plan.spec, plan.options, plan.numbers.gemm, shape)


ALGORITHM = Algorithm(name="implicit_gemm", summary="a product of matrices whose right one is gathered as it is needed",
                      options=ImplicitGemmOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, lighter=lambda spec, options: gemm_tiles.lighter(options))
