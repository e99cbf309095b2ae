"""``hankel_1d`` in numbers: which shift stands in which column of which matrix.

The gradients of the outputs are a matrix of rows of 16 elements, the input one whose rows begin as far apart and are
longer by as many as there are taps. Their product over all rows, D[i][j] = sum of dy[r][i] * x[r][j], has in it every
product of a gradient i and an element j of the input: of tap j - i, less what the window begins before its row.
"""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.hardware import H200_SHARED_FILLED, LANES
from warpconv.codegen.parts.folded import BLOCK, LINE, STEP, DiagonalProduct, line_of, outside_of, product_blocks
from warpconv.codegen.parts.occupancy import blocks_by_shared, resident_blocks
from warpconv.codegen.spec import KernelSpec



@dataclass(frozen=True)
class Hankel1dOptions:
    """The batch is summed in ``chunks`` shares. A block has ``taps`` taps of a filter, and ``warps`` that share
    ``steps`` times 256 outputs of a sequence; the next ``buffers`` - 1 of these are on their way. Copies to shared
    memory are of ``vector`` elements, of both arrays."""

    chunks: int = 1
    taps: int = 8
    warps: int = 4
    steps: int = 16
    buffers: int = 2
    vector: int = 8


@dataclass(frozen=True)
class Hankel1dNumbers(DiagonalProduct):
    """What the template writes besides spec and options."""

    threads: int
    tap_tiles: int          # blocks for a filter
    span: int               # outputs of an item of work
    margin: int             # elements of the input before the first output's own
    skipped: int            # and before them in a line of memory
    offset: int             # columns of the product before tap 0 of gradient 0
    blocks: tuple[int, ...]     # of eight columns of the product
    x_elements: int         # of an item
    copies: int             # of an item: of the input,
    gradient_copies: int    # and of gradients
    buffer: int             # elements of an item in shared memory, gradients first
    pending: int            # items that may be on their way while one is multiplied
    shared_bytes: int
    registers: int
    min_blocks: int
    copy_bytes: int         # of a copy to shared memory
    outside: str            # name of the fragment of what stands outside of a sequence


def make_numbers(spec: KernelSpec, options: Hankel1dOptions) -> Hankel1dNumbers:
    threads, span = LANES * options.warps, STEP * options.steps
    line = line_of(spec)
    blocks = product_blocks(options.taps, line.offset)
    x_elements = span + BLOCK * (blocks - 1)
    x_elements += -x_elements % (2 * BLOCK)     # pieces change places by twos
    skipped = -line.margin % LINE
    buffer = span + x_elements
    products = 4 * options.warps * (blocks + 1) * BLOCK * (BLOCK + 1)
    shared = max(2 * buffer * options.buffers, products)
    registers = 6 * blocks + 46         # four are sums, the others on their way and places
    resident = min(resident_blocks(spec.hardware, min(255, registers), threads),
                   blocks_by_shared(spec.hardware, H200_SHARED_FILLED, shared + spec.hardware.shared_reserved))
    return Hankel1dNumbers(
        threads=threads, tap_tiles=-(-line.taps // options.taps), span=span, margin=line.margin, skipped=skipped,
        offset=line.offset,
        blocks=tuple(range(blocks)), x_elements=x_elements,
        copies=(span + BLOCK * (blocks - 1) + skipped) // options.vector,
        gradient_copies=span // options.vector, buffer=buffer, pending=options.buffers - 2, shared_bytes=shared,
        registers=registers, min_blocks=resident, copy_bytes=2 * options.vector,
        outside=outside_of(spec))
