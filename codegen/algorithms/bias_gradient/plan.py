"""``bias_gradient``: the output's gradient summed over images, rows and columns, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import GRID_LIMIT
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.arguments import gradient_arguments
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch, Program
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

THREADS = 256
ELEMENTS_EACH = 8           # of a thread, at least, where the layer has so many
BLOCKS = 4                  # of a multiprocessor


@dataclass(frozen=True)
class BiasGradientOptions:
    """The batch is summed in ``chunks`` shares."""

    chunks: int = 1


@dataclass(frozen=True)
class BiasGradientNumbers:
    """What the template writes besides spec and options."""

    threads: int
    rows: int           # of threads in a block, in NHWC: each takes pixels of its own


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS,
                             operation=Operation.BIAS_GRADIENT)
    return refusal or ("the bias's gradient takes no epilogue" if spec.epilogue else None)


def _columns(spec: KernelSpec) -> int:
    """Blocks beside each other: of channels."""
    return spec.k if spec.layout is Layout.NCHW else -(-spec.k // 32)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> BiasGradientOptions:
    pixels = 64 * 56 * 56 if shape is None else assumed_batch(shape) * shape.p * shape.q
    each = THREADS if spec.layout is Layout.NCHW else THREADS // 32
    chunks = partial_sums.chunks_for(BLOCKS * spec.hardware.multiprocessors, _columns(spec),
                                     -(-pixels // (each * ELEMENTS_EACH)))
    return BiasGradientOptions(chunks=chunks)


def plan(spec: KernelSpec, options: BiasGradientOptions) -> KernelPlan:
    refusal = supports(spec)
    if refusal is None and options.chunks > partial_sums.MOST_CHUNKS:
        refusal = f"{options.chunks} chunks (at most {partial_sums.MOST_CHUNKS})"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    arguments = (*gradient_arguments(spec), partial_sums.argument())
    nhwc = spec.layout is Layout.NHWC
    launch = Launch(entry=spec.name, block=(32, THREADS // 32, 1) if nhwc else (THREADS, 1, 1),
                    grid=(Blocks(times=options.chunks), Blocks(times=_columns(spec), limit=GRID_LIMIT[1]), Blocks()),
                    arguments=("dy", partial_sums.PARTS, "N", "P", "Q"))
    program = Program(arguments=arguments, steps=(launch, partial_sums.launch(spec.k, "db")),
                      workspaces=(partial_sums.workspace(spec.k, options.chunks),))
    return KernelPlan(spec=spec, options=options, numbers=BiasGradientNumbers(threads=THREADS, rows=THREADS // 32),
                      templates=("bias_gradient/kernel.cu.jinja",), program=program,
                      cost=Cost(unit="32 elements", warp_loads=1, shuffles=0, fma=0, registers=32, direct_loads=1),
                      phrase=f"the output's gradient summed in {options.chunks} chunks of a channel, then these")


def space(spec: KernelSpec) -> Iterable[BiasGradientOptions]:
    own = defaults(spec).chunks
    return [BiasGradientOptions(chunks=n)
            for n in sorted({max(1, own // 2), own, min(2 * own, partial_sums.MOST_CHUNKS)})]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """A load and an addition for each element."""
    return shape.n * shape.k * shape.p * shape.q / 32 * 6


ALGORITHM = Algorithm(name="bias_gradient",
                      summary="the output's gradient summed over batch and pixels, in a fixed order",
                      options=BiasGradientOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, operation=Operation.BIAS_GRADIENT)
