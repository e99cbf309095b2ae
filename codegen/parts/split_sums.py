"""Tiles whose sums several blocks share: their parts in a workspace, and the launch that adds them in their order, so
that equal inputs give equal bits. The template is parts/split_sums.cuh.jinja."""

from __future__ import annotations

from warpconv.codegen.dimension import OUTPUTS, Dimension
from warpconv.codegen.plan import Argument, Blocks, Extent, Launch, Role, Workspace
from warpconv.codegen.spec import KernelSpec

SUMS = "partial_sums"           # the program's name for the parts
THREADS = 256


def argument() -> Argument:
    return Argument(name=SUMS, role=Role.WORKSPACE, c_type="float")


def workspace(spec: KernelSpec, splits: int, product: int) -> Workspace:
    """``splits`` floats an output, from the step of the products to the next one, which adds them."""
    return Workspace(name=SUMS, bytes_each=4 * spec.k * splits, first_step=product, last_step=product + 1,
                     per=tuple(Extent(of=size) for size in (Dimension.N, *OUTPUTS[len(spec.taps)])))


def launch(spec: KernelSpec, taken: tuple[Argument, ...], early: bool = False) -> Launch:
    """The parts of every sum to its output."""
    outputs = Blocks(of=Dimension.N, by=OUTPUTS[len(spec.taps)], each=spec.k, add=THREADS - 1, per=THREADS)
    return Launch(entry="add_partial_sums", grid=(outputs, Blocks(), Blocks()), block=(THREADS, 1, 1),
                  arguments=tuple(a.name for a in taken), early=early)
