"""What programs with this matrix product have in common: its arguments, launches and workspaces, and what it says."""

from __future__ import annotations

from typing import Any

from warpconv.codegen.dimension import Dimension
from warpconv.codegen.parts import split_sums
from warpconv.codegen.plan import Argument, Blocks, Cost, Launch, Preparation, Role, Workspace
from warpconv.codegen.spec import KernelSpec

from .tiles import FILTER, ONE_OUTPUT_SIDE, SIDE_THREADS, GemmNumbers, Switch

FILTER_ENTRY = "prepare_filter"
MOST_FILTER_BLOCKS = 1024


def arguments(numbers: GemmNumbers) -> tuple[Argument, ...]:
    """The prepared filter and, where the reduction is split, the partial sums."""
    filter = Argument(name=FILTER, role=Role.WORKSPACE, c_type="float")
    return (filter, split_sums.argument()) if numbers.splits > 1 else (filter,)


def preparation(spec: KernelSpec, options: Any, numbers: GemmNumbers) -> Preparation:
    """The filter in the order of its tiles [group][tile of filters][tile of products][product][filter]."""
    elements = spec.groups * numbers.m_tiles * options.block_m * numbers.k_tiles * options.block_k
    grid = (Blocks(times=-(-elements // SIDE_THREADS), limit=MOST_FILTER_BLOCKS), Blocks(), Blocks())
    return Preparation(
        steps=(Launch(entry=FILTER_ENTRY, grid=grid, block=(SIDE_THREADS, 1, 1), arguments=("w", FILTER)),),
        buffer=Workspace(name=FILTER, bytes_each=4 * elements))


def multiply(spec: KernelSpec, options: Any, numbers: GemmNumbers, taken: tuple[Argument, ...]) -> Launch:
    """The product, whose entry takes the arguments ``taken``: blocks of one pixel tile stand side by side, so that they
    find its pixels in the cache."""
    times = numbers.m_tiles * spec.groups * numbers.splits
    grid = (Blocks(of=Dimension.N, by=(Dimension.P, Dimension.Q), add=options.block_n - 1, per=options.block_n,
                   times=times), Blocks(), Blocks())
    return Launch(entry=spec.name, grid=grid, block=(numbers.threads, 1, 1), arguments=tuple(a.name for a in taken),
                  shared_bytes=numbers.shared_bytes)


# ---- what the plan says of itself

def cost(spec: KernelSpec, options: Any, numbers: GemmNumbers) -> Cost:
    """Of one warp's tile of outputs: its copies count as loads, once each."""
    products = numbers.k_tiles * options.block_k
    loads = numbers.k_tiles * (numbers.rows + numbers.a_rounds)
    outputs = options.thread_m * options.thread_n
    m, n = numbers.lanes_m * options.thread_m, numbers.lanes_n * options.thread_n
    return Cost(unit=f"a warp's {m} filters x {n} pixels", warp_loads=loads, shuffles=0, fma=products * outputs,
                registers=numbers.registers, direct_loads=spec.channels * spec.r * spec.s * outputs)


def phrase(options: Any, numbers: GemmNumbers) -> str:
    return (f"tiles of {options.block_m} filters x {options.block_n} pixels x {options.block_k} products, "
            f"{options.thread_m} x {options.thread_n} outputs a thread, {numbers.threads} threads a block, "
            f"{numbers.shared_bytes} bytes of shared memory")


def notes(asked: Any, options: Any) -> tuple[str, ...]:
    """What became of values that do not go with another."""
    if options.micro_kernel is Switch.OFF and asked.thread_m * asked.thread_n != 1:
        return (f"micro_kernel = off: one output a thread, in blocks of {ONE_OUTPUT_SIDE} x {ONE_OUTPUT_SIDE}",)
    return ()
