"""``im2col``: the windows of the input as columns of a matrix, then one matrix product by a library.

    columns[(c * R + r) * S + s][p * Q + q] = x[c][h][w]
        at h = p * stride_h + r * dilation_h - pad_top and w = q * stride_w + s * dilation_w - pad_left
    y[k][p * Q + q] = sum over (c, r, s) of w[k][(c * R + r) * S + s] * columns[(c * R + r) * S + s][p * Q + q]

The filter is the product's left side as it is stored, and the product is y in its own order: nothing is reordered. A
group is one product of a batch of them. Source: the lowering of im2col as the im2win paper (arXiv 2306.14316, section
3.1) has it, whose formula drops the stride; one image at a time as in PyTorch's cuBLAS path, or the whole batch. The
product is cuBLAS's (``runtime/devices/library``), and NumPy's on the CPU device.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.hardware import Arch, GRID_LIMIT, H200, H200_CLOCK, H200_COPY, QUARTERS
from warpconv.codegen.parts.arguments import BORDER, layer_arguments, named
from warpconv.codegen.parts.refusals import BORDERS, common_refusal
from warpconv.codegen.parts.text import text_refusal
from warpconv.codegen.plan import (Argument, Blocks, Cost, Extent, KernelPlan, Launch, LibraryCall, Program, Repeat,
                                   Role, Step, Workspace)
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

THREADS = 256
BYTES_OF_A_COLUMN = 200  # of the filter, in the text of the lowering
TAPS_EACH = 16          # elements of a column that a thread of the lowering makes at least, where there are as many
FINISH_X, FINISH_Y = 32, 8
COLUMNS, SCRATCH, IMAGE = "columns", "scratch", "image"
FINISH = "im2col_finish"
REGISTERS = 40

# What cuBLAS is given to split long sums: NVIDIA's figures for its handle's own workspace (cuBLAS documentation,
# cublasSetWorkspace): 32 MiB from sm_90 on, 4 MiB before.
SCRATCH_BYTES, SCRATCH_BYTES_BEFORE_HOPPER = 32 << 20, 4 << 20
# Columns of the whole batch up to which the batch is lowered at once where nothing else is asked: on an H200 it was
# 1.2 to 7 times as quick as image by image on the twelve layers (a round of the latter takes 30 us of Python at
# least), but its columns are R * S / stride times the input: 9 GiB for the fourth.
MOST_COLUMN_BYTES, USUAL_IMAGES = 1 << 30, 128

# The model of the product: part of its lanes' FMAs that a tuned SGEMM reaches (70 to 80 % of the peak that the H200's
# clock allows), and warp instructions that pass while a warp's 128 bytes go to memory or come from it (132 SMs x 4
# slots at 1.98 GHz against 4.2 TB/s that a copy reaches).
GEMM_EFFICIENCY = 0.75
INSTRUCTIONS_A_LINE = round(H200.multiprocessors * QUARTERS * H200_CLOCK / (H200_COPY / 128))


class Batch(enum.Enum):
    """How much is lowered at a time."""

    IMAGE = "image"
    WHOLE = "whole"


@dataclass(frozen=True)
class Im2colOptions:
    """Plan values: the columns of one image at a time, or those of the whole batch."""

    batch: Batch = Batch.IMAGE


@dataclass(frozen=True)
class Im2colNumbers:
    """What the templates write besides the spec."""

    threads: int
    channels_each: int
    tap_columns: tuple[tuple[int, ...], ...]    # filter columns whose loads are under way together
    guarded: bool
    whole: bool
    lower_arguments: tuple[Argument, ...]
    finish_arguments: tuple[Argument, ...]
    finish_x: int = FINISH_X
    finish_y: int = FINISH_Y

    @property
    def finish_threads(self) -> int:
        """Threads of a block of the finishing entry."""
        return self.finish_x * self.finish_y


def supports(spec: KernelSpec) -> str | None:
    return common_refusal(spec, borders=BORDERS) or text_refusal(spec.s, BYTES_OF_A_COLUMN, "filter columns")


def is_matrix(spec: KernelSpec) -> bool:
    """Whether the input as it lies in memory is the matrix of columns: 1x1, stride 1, no padding."""
    return (spec.r, spec.s) == (1, 1) and spec.stride == (1, 1) and not any(map(any, spec.padding))


def defaults(spec: KernelSpec, shape: ConvShape | None = None) -> Im2colOptions:
    """The whole batch where nothing is lowered, or the columns of as many images as there usually are take
    MOST_COLUMN_BYTES at most: all batches share a kernel."""
    if is_matrix(spec):
        return Im2colOptions(batch=Batch.WHOLE)
    usual = None if shape is None else shape.with_batch(USUAL_IMAGES)
    fits = usual is not None and _columns(spec, Batch.WHOLE).bytes_of(usual) <= MOST_COLUMN_BYTES
    return Im2colOptions(batch=Batch.WHOLE if fits else Batch.IMAGE)


def lighter(spec: KernelSpec, options: Im2colOptions) -> Im2colOptions | None:
    """Plan values that take less workspace: one image at a time."""
    whole = options.batch is Batch.WHOLE and not is_matrix(spec)
    return replace(options, batch=Batch.IMAGE) if whole else None


def plan(spec: KernelSpec, options: Im2colOptions) -> KernelPlan:
    refusal = supports(spec)
    if refusal is None and is_matrix(spec) and options.batch is Batch.IMAGE:
        refusal = "batch = image: the input of this layer is the matrix as it is, no columns are stored (batch = whole)"
    if refusal is not None:
        raise UnsupportedSpec(spec, refusal)
    lowered, whole = not is_matrix(spec), options.batch is Batch.WHOLE
    arguments = _arguments(spec, lowered, whole)
    lower = named(arguments, "x", COLUMNS, "N" if whole else IMAGE, "H", "W", "P", "Q", BORDER)
    numbers = Im2colNumbers(
        threads=THREADS, channels_each=max(1, min(spec.c, TAPS_EACH // (spec.r * spec.s))),
        tap_columns=tuple(tuple(range(s, min(s + TAPS_EACH, spec.s))) for s in range(0, spec.s, TAPS_EACH)),
        whole=whole, guarded=any(map(any, spec.padding)) and not spec.padding_mode.reads_image,
        lower_arguments=lower if lowered else (), finish_arguments=named(arguments, "bias", "y", "N", "P", "Q"))
    program = Program(arguments=arguments, steps=_steps(spec, numbers, lowered, whole),
                      workspaces=_workspaces(spec, lowered, whole))
    what = "no lowering, the input is the matrix" if not lowered else \
        f"{'the whole batch' if whole else 'one image at a time'} lowered to columns"
    return KernelPlan(
        spec=spec, options=options, numbers=numbers, program=program, templates=("im2col/kernel.cu.jinja",),
        phrase=f"{what}; one matrix product by cuBLAS (NumPy on the CPU device)",
        notes=_notes(spec, lowered, whole),
        cost=Cost(unit="warp of the columns", warp_loads=1 if lowered else 0, shuffles=0, fma=0,
                  registers=REGISTERS, direct_loads=1))


def _arguments(spec: KernelSpec, lowered: bool, whole: bool) -> tuple[Argument, ...]:
    element = spec.dtype.c_name
    made = layer_arguments(spec) + (Argument(name=SCRATCH, role=Role.WORKSPACE, c_type="float"),)
    if lowered:
        made += (Argument(name=COLUMNS, role=Role.WORKSPACE, c_type=element),)
    return made if whole else (*made, Argument(name=IMAGE, role=Role.INDEX, c_type="int"))


def _steps(spec: KernelSpec, numbers: Im2colNumbers, lowered: bool, whole: bool) -> tuple[Step, ...]:
    lower = Launch(entry=spec.name, arguments=_names(numbers.lower_arguments), block=(numbers.threads, 1, 1), grid=(
        Blocks(of=Dimension.P, by=(Dimension.Q,), add=numbers.threads - 1, per=numbers.threads),
        Blocks(times=-(-spec.c // numbers.channels_each), limit=GRID_LIMIT[1]),
        Blocks(of=Dimension.N, limit=GRID_LIMIT[2]) if whole else Blocks()))
    x, y = numbers.finish_x, numbers.finish_y
    finish = Launch(entry=FINISH, arguments=_names(numbers.finish_arguments), block=(x, y, 1), grid=(
        Blocks(of=Dimension.P, by=(Dimension.Q,), add=x - 1, per=x),
        Blocks(of=Dimension.N, each=spec.k, add=y - 1, per=y, limit=GRID_LIMIT[1]), Blocks()))
    last = (finish,) if spec.epilogue else ()
    if whole:
        product = LibraryCall(operation="gemm_batch", operands=("w", COLUMNS if lowered else "x", "y", SCRATCH))
        return (*((lower,) if lowered else ()), product, *last)
    product = LibraryCall(operation="gemm_image", operands=("w", COLUMNS, "y", SCRATCH, IMAGE))
    return (Repeat(of=Dimension.N, index=IMAGE, steps=(lower, product)), *last)


def _names(arguments: tuple[Argument, ...]) -> tuple[str, ...]:
    return tuple(argument.name for argument in arguments)


def _workspaces(spec: KernelSpec, lowered: bool, whole: bool) -> tuple[Workspace, ...]:
    product = 1 if lowered and whole else 0        # the step in which the columns are read
    scratch = Workspace(name=SCRATCH, bytes_each=_scratch_bytes(spec.arch), first_step=product, last_step=product)
    if not lowered:
        return (scratch,)
    return replace(_columns(spec, Batch.WHOLE if whole else Batch.IMAGE), last_step=product), scratch


def _columns(spec: KernelSpec, batch: Batch) -> Workspace:
    """The memory of the columns."""
    per = (Extent(of=Dimension.P), Extent(of=Dimension.Q), *((Extent(of=Dimension.N),) if batch is Batch.WHOLE else ()))
    return Workspace(name=COLUMNS, bytes_each=spec.dtype.itemsize * spec.c * spec.r * spec.s, per=per)


def _scratch_bytes(arch: Arch) -> int:
    return SCRATCH_BYTES if arch.major >= 9 else SCRATCH_BYTES_BEFORE_HOPPER


def _notes(spec: KernelSpec, lowered: bool, whole: bool) -> tuple[str, ...]:
    said = [f"workspace: {_scratch_bytes(spec.arch) >> 20} MiB for cuBLAS" + (
        f", and the columns of {'the whole batch' if whole else 'an image'}" if lowered else "")]
    said.append("the product needs the cublas extra on a GPU; on the CPU device NumPy makes it, uncounted")
    return tuple(said)


def space(spec: KernelSpec) -> Iterable[Im2colOptions]:
    return [Im2colOptions(batch=batch) for batch in Batch if not (is_matrix(spec) and batch is Batch.IMAGE)]


def estimate(plan: KernelPlan, shape: ConvShape) -> float:
    """Lowering: a guarded load, a store and their addresses per element; the product: its FMAs at GEMM_EFFICIENCY, in
    tiles of 64 x 64 outputs; the columns once to memory and back; a pass over y where there is an epilogue."""
    spec = plan.spec
    lines = shape.n * shape.c * spec.r * spec.s * -(-shape.p * shape.q // 32)
    tiles = -(-spec.filters // 64) * -(-shape.p * shape.q // 64)
    product = shape.n * spec.groups * tiles * 64 * 64 / 32 * shape.reduction / GEMM_EFFICIENCY
    lowering = 0 if is_matrix(spec) else lines * (6 + 2 * INSTRUCTIONS_A_LINE)
    finish = shape.n * shape.k * -(-shape.p * shape.q // 32) * (8 + 2 * INSTRUCTIONS_A_LINE) if spec.epilogue else 0
    return product + lowering + finish


ALGORITHM = Algorithm(name="im2col",
                      summary="windows as columns, then a library's matrix product (the cublas extra); by name only",
                      options=Im2colOptions, supports=supports, defaults=defaults, plan=plan, space=space,
                      estimate=estimate, lighter=lighter,
                      by_name="its product is a library's: taken where it is asked for by name")
