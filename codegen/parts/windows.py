"""The im2win tensor: for every row of outputs the input rows that its windows touch, stored column by column.

    T[n][c][p][column * R + u] = x[n][c][p * stride_h + u * dilation_h - pad_top][column - pad_left]

(0 outside the image) for column = 0 .. (Q - 1) * stride_w + (S - 1) * dilation_w. The windows of one row of outputs
lie in one row of T: that of output q begins at q * window_step, and its tap (u, v) lies v * tap_step + u further on,
so that without dilation a window is one contiguous run of R * S elements, which neighbouring windows share where they
overlap. Padding is stored, so that who reads T has no guards for it.

Source: im2win (arXiv 2306.14316), Eq. 2, whose column index is tied to nothing and whose stride is missing; padding,
dilation and the columns that no window touches are ours. The filter has to be reordered to match, which the paper
leaves unsaid: F'[k][c][v * R + u] = F[k][c][u][v] (``im2win_filter``).

A kernel of an im2win algorithm takes from here its constants, the transform's entry (``templates/parts/windows``),
the argument, workspace and launch of its program, and the estimate of the transform's part.
"""

from __future__ import annotations

from warpconv.codegen.classes import dataclass
from warpconv.codegen.dimension import Dimension
from warpconv.codegen.hardware import GRID_LIMIT
from warpconv.codegen.plan import Argument, Blocks, Extent, Launch, Preparation, Role, Workspace
from warpconv.codegen.shape import ConvShape, LARGEST_SIZE
from warpconv.codegen.spec import KernelSpec

from .arguments import border_arguments, bounded, layer_arguments

ENTRY, FILTER_ENTRY = "im2win_transform", "im2win_filter"
TENSOR, FILTER = "windows", "filter"      # the program's names for T and for F'
THREADS_X, THREADS_Y = 32, 8              # elements of a row of T; rows
PLANES = 8          # planes (image, channel) that share a thread's place in the row, and its index arithmetic
FILTER_THREADS = 256
MOST_FILTER_BLOCKS = 1024


@dataclass(frozen=True)
class Im2winNumbers:
    """The tensor in numbers: elements where nothing else is said. A row of T has row_each * Q + row_add of them."""

    row_each: int
    row_add: int
    window_step: int
    tap_step: int
    window: int             # from the first to the last tap of a window, both included
    guarded: bool           # whether any element of T is padding of one value
    threads_x: int = THREADS_X
    threads_y: int = THREADS_Y
    planes: int = PLANES
    filter_threads: int = FILTER_THREADS

    @property
    def threads(self) -> int:
        """Threads of a block of the transform."""
        return self.threads_x * self.threads_y

    def row(self, shape: ConvShape) -> int:
        """Elements of a row of T."""
        return self.row_each * shape.q + self.row_add

    def elements(self, shape: ConvShape) -> int:
        """Elements of T."""
        return shape.n * shape.c * shape.p * self.row(shape)


def numbers(spec: KernelSpec) -> Im2winNumbers:
    """The tensor of a spec."""
    step, columns = spec.stride[1], (spec.s - 1) * spec.dilation[1] + 1     # from window to window; that a window spans
    return Im2winNumbers(row_each=step * spec.r, row_add=(columns - step) * spec.r, window_step=step * spec.r,
                         tap_step=spec.dilation[1] * spec.r, window=columns * spec.r,
                         guarded=any(map(any, spec.padding)) and not spec.padding_mode.reads_image)


def arguments(spec: KernelSpec) -> tuple[Argument, ...]:
    """Those of the layer, T and F'. A row of T is indexed by an int, which wide images of tall filters would overflow:
    the plan asks for as many columns at most."""
    tensor = numbers(spec)
    widest = (LARGEST_SIZE - max(0, tensor.row_add)) // tensor.row_each
    layer = bounded(layer_arguments(spec, as_elements=True), {"Q": widest} if tensor.row_each > 1 else {})
    return (*layer, Argument(name=TENSOR, role=Role.WORKSPACE, c_type=spec.dtype.c_name),
            Argument(name=FILTER, role=Role.WORKSPACE, c_type=spec.dtype.c_name))


def workspace(spec: KernelSpec, *, first_step: int = 0, last_step: int = 1) -> Workspace:
    """The memory of T, from the transform's step to that of its last reader."""
    tensor = numbers(spec)
    return Workspace(name=TENSOR, bytes_each=spec.dtype.itemsize * spec.c, first_step=first_step, last_step=last_step,
                     per=(Extent(of=Dimension.N), Extent(of=Dimension.P),
                          Extent(of=Dimension.Q, each=tensor.row_each, add=tensor.row_add)))


def launch(spec: KernelSpec) -> Launch:
    """The transform: threads along a row of T (stores are coalesced), rows, and planes of which each block has
    PLANES."""
    tensor = numbers(spec)
    return Launch(entry=ENTRY, block=(tensor.threads_x, tensor.threads_y, 1), grid=(
        Blocks(of=Dimension.Q, each=tensor.row_each, add=tensor.row_add + tensor.threads_x - 1, per=tensor.threads_x),
        Blocks(of=Dimension.P, add=tensor.threads_y - 1, per=tensor.threads_y, limit=GRID_LIMIT[1]),
        Blocks(of=Dimension.N, each=spec.c, add=tensor.planes - 1, per=tensor.planes, limit=GRID_LIMIT[2])),
        arguments=("x", TENSOR, "N", "H", "W", "P", "Q", *(a.name for a in border_arguments(spec))))


def preparation(spec: KernelSpec) -> Preparation:
    """The filter in the order of T's windows, once for each filter."""
    elements = spec.k * spec.channels * spec.r * spec.s
    grid = (Blocks(times=-(-elements // FILTER_THREADS), limit=MOST_FILTER_BLOCKS), Blocks(), Blocks())
    launch = Launch(entry=FILTER_ENTRY, grid=grid, block=(FILTER_THREADS, 1, 1), arguments=("w", FILTER))
    return Preparation(steps=(launch,), buffer=Workspace(name=FILTER, bytes_each=spec.dtype.itemsize * elements))


def notes(spec: KernelSpec) -> tuple[str, ...]:
    """What the planner has to say about the tensor's size; where windows do not overlap it saves nothing."""
    said = ["workspace: the windows of the whole batch, about R / stride times the input"]
    if spec.r <= spec.stride[0]:
        said.append(f"R = {spec.r} <= stride {spec.stride[0]}: no two rows of windows share an input row, so that the "
                    "transform only copies the input")
    if spec.s <= spec.stride[1]:
        said.append(f"S = {spec.s} <= stride {spec.stride[1]}: neighbouring windows share no column, and are no "
                    "smaller than the columns of im2col")
    return tuple(said)


def transform_instructions(spec: KernelSpec, shape: ConvShape) -> float:
    """Warp instructions of the transform: per element a guarded load, a store and their addresses; a thread's place in
    the row is worked out once for its PLANES planes. Counted for whole warps of a row."""
    tensor = numbers(spec)
    warps = -(-tensor.row(shape) // tensor.threads_x) * shape.p * shape.n * shape.c
    return warps * (6 + 40 / min(PLANES, shape.n * shape.c))
