"""``bias_gradient``: the output's gradient summed over images, rows and columns, in a fixed order."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.classes import dataclass
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import GRID_LIMIT, LANES
from warpconv.codegen.parts import partial_sums
from warpconv.codegen.parts.arguments import demanding, gradient_arguments
from warpconv.codegen.parts.refusals import BORDERS, FLOATS, common_refusal
from warpconv.codegen.parts.vectors import VECTORS, Vector, vector_of
from warpconv.codegen.plan import Blocks, Cost, KernelPlan, Launch
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec, Operation

THREADS = 256               # of a block, at most
LOADS_EACH = 8              # of a thread, at least, where the layer has so many
BLOCKS = 6                  # of a multiprocessor
WIDEST = 16                 # bytes of a load


@dataclass(frozen=True)
class BiasGradientOptions:
    """The batch is summed in ``chunks`` shares; a thread loads ``vector`` elements at once, of neighbouring filters in
    NHWC, of neighbouring pixels in NCHW."""

    chunks: int = 1
    vector: int = 1


@dataclass(frozen=True)
class BiasGradientNumbers:
    """What the template writes besides spec and options."""

    threads: int
    columns: int        # of threads in a block, in NHWC: a pixel's filters, or some of them
    rows: int           # and for further pixels
    word: str           # the C type of a load,
    elements: tuple[tuple[int, str, bool], ...]     # what it holds: number, register, and whether its upper half


def supports(spec: KernelSpec) -> str | None:
    refusal = common_refusal(spec, dtypes=FLOATS, layouts=(Layout.NCHW, Layout.NHWC), borders=BORDERS,
                             operation=Operation.BIAS_GRADIENT)
    return refusal or ("the bias's gradient takes no epilogue" if spec.epilogue else None)


def _vectors(spec: KernelSpec) -> list[int]:
    """The loads of an element type, the widest first."""
    return [n for n in VECTORS if n * spec.dtype.itemsize <= WIDEST]


def _widths(spec: KernelSpec, vector: int) -> tuple[int, int]:
    """Blocks beside each other, and the threads of a pixel in each."""
    if spec.layout is Layout.NCHW:
        return spec.k, 1
    loads = -(-spec.k // vector)
    passes = -(-loads // THREADS)
    return passes, -(-loads // passes)


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> BiasGradientOptions:
    n, p, q = (64, 56, 56) if shape is None else (assumed_batch(shape), shape.p, shape.q)
    together = spec.k if spec.layout is Layout.NHWC else 1 if shape is None else shape.q
    vector = next(v for v in _vectors(spec) if together % v == 0)
    beside, columns = _widths(spec, vector)
    # what a block loads at a time is a pixel's filters of ROWS pixels in NHWC, pixels of a filter in NCHW
    times = n * p * q / (THREADS // columns if spec.layout is Layout.NHWC else THREADS * vector)
    chunks = partial_sums.chunks_for(BLOCKS * spec.hardware.multiprocessors, beside, math.ceil(times / LOADS_EACH))
    return BiasGradientOptions(chunks=chunks, vector=vector)


def plan(spec: KernelSpec, options: BiasGradientOptions) -> KernelPlan:
    refusal = supports(spec) or _refusal(spec, options)
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    nhwc = spec.layout is Layout.NHWC
    demands = {} if options.vector == 1 else {"dy": options.vector * spec.dtype.itemsize}
    if not nhwc:
        demands["Q"] = options.vector
    arguments = demanding(gradient_arguments(spec), demands)
    beside, columns = _widths(spec, options.vector)
    rows = THREADS // columns
    vector = vector_of(spec.dtype, options.vector)
    made = BiasGradientNumbers(threads=columns * rows if nhwc else THREADS, columns=columns, rows=rows,
                               word=vector.memory, elements=_elements(vector))
    launch = Launch(entry=spec.name, block=(columns, rows, 1) if nhwc else (THREADS, 1, 1),
                    grid=(Blocks(times=options.chunks), Blocks(times=beside, limit=GRID_LIMIT[1]), Blocks()),
                    arguments=("dy", partial_sums.PARTS, "N", "P", "Q"))
    program = partial_sums.program(arguments, launch, "db", spec.k, options.chunks, direct=False)
    return KernelPlan(spec=spec, options=options, numbers=made, templates=("bias_gradient/kernel.cu.jinja",),
                      program=program, cost=Cost(unit=f"{32 * options.vector} elements", warp_loads=1, shuffles=0,
                                                 fma=0, registers=24 + 5 * options.vector, direct_loads=options.vector),
                      phrase=f"the output's gradient summed in {options.chunks} chunks of a channel, by loads of "
                             f"{options.vector * spec.dtype.itemsize} bytes, then these")


def _elements(vector: Vector) -> tuple[tuple[int, str, bool], ...]:
    """The elements of a load, in their order."""
    cells = ["word"] if vector.cells == 1 else [f"word.{part}" for part in "xyzw"[:vector.cells]]
    return tuple((number, cells[number // vector.per_cell], number % vector.per_cell > 0)
                 for number in range(vector.cells * vector.per_cell))


def _refusal(spec: KernelSpec, options: BiasGradientOptions) -> str | None:
    if options.chunks > partial_sums.MOST_CHUNKS:
        return f"{options.chunks} chunks (at most {partial_sums.MOST_CHUNKS})"
    if options.vector not in _vectors(spec):
        return f"vector = {options.vector}: one of {_vectors(spec)}, for loads of at most {WIDEST} bytes"
    if spec.layout is Layout.NHWC and spec.k % options.vector:
        return f"vector = {options.vector} does not divide {spec.k} filters"
    return None


def space(spec: KernelSpec) -> Iterable[BiasGradientOptions]:
    own = defaults(spec)
    shares = partial_sums.chunks_beside(own.chunks)
    found = (BiasGradientOptions(chunks=n, vector=v) for n in shares for v in _vectors(spec))
    return [options for options in found if _refusal(spec, options) is None]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """An addition for each element, and a load with its address for each vector."""
    options: BiasGradientOptions = plan.options
    return shape.n * shape.k * shape.p * shape.q / LANES * (2 + 4 / options.vector)


ALGORITHM = Algorithm(name="bias_gradient",
                      summary="the output's gradient summed over batch and pixels, in a fixed order",
                      options=BiasGradientOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, lighter=functools.partial(partial_sums.lighter, shares="chunks"),
                      operation=Operation.BIAS_GRADIENT)
