"""``im2win``: the input as windows, then a product of matrices with tiles in shared memory and in registers.

Source: im2win (arXiv 2306.14316), Algorithm 3, mended (gemm_tiles says where), with the transform of im2win_tensor as a
launch of its own. The document's three ablations are plan values, of which each can be left out alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.options import DERIVED
from warpconv.codegen.parts import split_sums, windows as im2win_tensor
from warpconv.codegen.parts.arguments import named
from warpconv.codegen.parts.gemm import choice as gemm_choice, program as gemm_program, tiles as gemm_tiles
from warpconv.codegen.parts.gemm.tiles import FILTER, GemmNumbers, Order, Switch
from warpconv.codegen.parts.latency import SECOND_LAUNCH
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.parts.windows import TENSOR, Im2winNumbers
from warpconv.codegen.plan import Argument, KernelPlan, Program, Step, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec

SLOTS_OF_A_BYTE = 0.3       # of the tensor, which is written and read at the speed of a copy


@dataclass(frozen=True)
class Im2winOptions:
    """Plan values. A block makes ``block_m`` filters x ``block_n`` pixels, ``block_k`` products at a time; a thread
    ``thread_m`` x ``thread_n`` of them. ``stages`` tiles of products lie in shared memory (2, or 3 of few, with
    ``prefetch``, else 1, where not given); ``splits`` blocks share the sums of a tile. ``prefetch`` (with the double
    buffers), ``vector_loads`` and ``micro_kernel`` (the tile in registers) can be left out, each alone."""

    block_m: int = 128
    block_n: int = 128
    block_k: int = 8
    thread_m: int = 8
    thread_n: int = 8
    order: Order = Order.WINDOW
    stages: int = DERIVED
    splits: int = 1
    prefetch: Switch = Switch.ON
    vector_loads: Switch = Switch.ON
    micro_kernel: Switch = Switch.ON
    min_blocks: int = DERIVED


@dataclass(frozen=True)
class Im2winFastNumbers:
    """What the template writes besides the spec."""

    tensor: Im2winNumbers
    gemm: GemmNumbers
    arguments: tuple[Argument, ...]             # of the product's entry
    addition_arguments: tuple[Argument, ...]    # of the entry that adds the sums of split tiles
    stored_epilogue: tuple[Epilogue, ...]       # nothing where partial sums are stored
    side_threads: int = gemm_tiles.SIDE_THREADS


def supports(spec: KernelSpec) -> str | None:
    return common_refusal(spec, borders=BORDERS)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> Im2winOptions:
    return Im2winOptions(**gemm_choice.choice(spec, by_columns=True))


def plan(spec: KernelSpec, options: Im2winOptions) -> KernelPlan:
    refusal = supports(spec)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    resolved, tensor = gemm_tiles.resolved(spec, options), im2win_tensor.numbers(spec)
    gemm = gemm_tiles.numbers(spec, resolved, by_columns=True, padded=False)
    split = gemm.splits > 1
    arguments = im2win_tensor.arguments(spec) + tuple(a for a in gemm_program.arguments(gemm) if a.name != FILTER)
    stored = (split_sums.SUMS,) if split else ("bias", "y")
    product = named(arguments, TENSOR, FILTER, *stored, "N", "P", "Q")
    adding = named(arguments, split_sums.SUMS, "bias", "residual", "y", "N", "P", "Q") if split else ()
    steps: tuple[Step, ...] = (im2win_tensor.launch(spec), gemm_program.multiply(spec, resolved, gemm, product))
    workspaces: tuple[Workspace, ...] = (im2win_tensor.workspace(spec),)
    if split:
        steps += (split_sums.launch(spec, adding),)
        workspaces += (split_sums.workspace(spec, gemm.splits, 1),)
    numbers = Im2winFastNumbers(tensor=tensor, gemm=gemm, arguments=product, addition_arguments=adding,
                                stored_epilogue=() if split else spec.epilogue)
    program = Program(arguments=arguments, steps=steps, workspaces=workspaces,
                      preparation=gemm_program.preparation(spec, resolved, gemm))
    return KernelPlan(spec=spec, options=resolved, numbers=numbers, templates=("im2win/kernel.cu.jinja",),
                      program=program, cost=gemm_program.cost(spec, resolved, gemm),
                      phrase="the input as windows, then " + gemm_program.phrase(resolved, gemm),
                      notes=im2win_tensor.notes(spec) + gemm_program.notes(options, resolved))


def space(spec: KernelSpec) -> Iterable[Im2winOptions]:
    return [Im2winOptions(**values) for values in gemm_choice.space(spec, by_columns=True)]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """The transform, whose tensor goes to memory and back between two launches, and the product (gemm_choice)."""
    between = SECOND_LAUNCH + SLOTS_OF_A_BYTE * plan.program.workspace_bytes(shape)
    return (between + im2win_tensor.transform_instructions(plan.spec, shape)
            + gemm_choice.instructions(plan.spec, plan.options, plan.numbers.gemm, shape))


ALGORITHM = Algorithm(name="im2win", summary="the input as windows, then a product of matrices with tiles in registers",
                      options=Im2winOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, lighter=lambda spec, options: gemm_tiles.lighter(options))
