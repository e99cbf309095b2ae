"""A kernel for NHWC as one for NCHW: launches before it bring the images that it reads to NHWC, and one behind it
brings those that it writes back. Tiles of pixels x channels go through a block's shared memory; the pixels of a batch
follow each other, so that small images leave no lanes idle. The template is parts/reordered.cuh.jinja.
"""

from __future__ import annotations

from typing import Any

from warpconv.codegen.classes import dataclass, replace
from warpconv.codegen.dimension import IMAGE, OUTPUTS, Dimension
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.hardware import GRID_LIMIT, QUARTERS
from warpconv.codegen.plan import Argument, Blocks, Extent, KernelPlan, Launch, Role, Workspace
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import KernelSpec

TILE, ROWS = 64, 4              # of a block: pixels and channels of its tile; rows of its threads
FEW = 16                        # channels, up to which a block has whole pixels,
FEW_TILE = 256                  # so many
BANK_BYTES = 4
LAUNCH_CYCLES = 3500.0          # of a launch,
COPY_SHARE = 1.3                # and of its bytes, at the speed of a copy: of float32 (an H200, 2026-11-23)
_SIZES = {"x": IMAGE, "dx": IMAGE, "dy": OUTPUTS}       # of the arrays along the spatial axes, by how many these are


@dataclass(frozen=True)
class Order:
    """An array on its way from one order to the other."""

    array: str          # x, dy or dx
    channels: int
    sizes: tuple[str, ...]      # of its images along the spatial axes, as C has them
    back: bool          # from NHWC to NCHW
    gap: int            # elements beside a row of a tile: a column's lie in different banks
    pairs: bool         # whether elements are of 16 bits: pixels are moved by twos where images lie so,
    channel_pairs: bool # and channels by twos
    index: str          # the type that pixels are counted in
    few: bool           # whether a block has all channels of its pixels,
    pitch: int          # which lie so far apart in shared memory, an odd number: in different banks
    tile: int = TILE
    threads: int = TILE * ROWS
    lines: int = ROWS   # rows of a tile that a block moves at once, and how often,
    each: int = TILE // ROWS
    lines_pairs: int = 2 * ROWS         # and the same by twos
    each_pairs: int = TILE // (2 * ROWS)

    @property
    def inner(self) -> str:
        """Its name in NHWC."""
        return f"{self.array}_nhwc"

    @property
    def entry(self) -> str:
        return f"{self.array}_to_{'nchw' if self.back else 'nhwc'}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What is read, what is written, and sizes."""
        arrays = (self.inner, self.array) if self.back else (self.array, self.inner)
        return (*arrays, "N", *self.sizes)


def in_nhwc(spec: KernelSpec) -> KernelSpec:
    """The spec of the kernel between the launches; the spec itself where it is of NHWC."""
    return spec if spec.layout is Layout.NHWC else replace(spec, layout=Layout.NHWC)


def plan_of(spec: KernelSpec, inner: KernelPlan) -> KernelPlan:
    """The plan of a layer in NCHW, of that of the same layer in NHWC, whose numbers have a field ``orders``."""
    program = inner.program
    orders = tuple(_order(spec, a.name) for a in program.arguments if a.name in _SIZES)
    names = {order.array: order.inner for order in orders}
    before, behind = ([_launch(spec, order) for order in orders if order.back is back] for back in (False, True))
    steps = (*before, *(_renamed(step, names) for step in program.steps), *behind)
    arguments = (*(replace(a, multiple_of=1) if a.name in names else a for a in program.arguments),
                 *(Argument(name=name, role=Role.WORKSPACE, c_type=spec.dtype.c_name) for name in names.values()))
    moved = tuple(replace(w, first_step=w.first_step + len(before), last_step=w.last_step + len(before))
                  for w in program.workspaces)
    product = next(i for i, step in enumerate(steps) if isinstance(step, Launch) and step.entry == spec.name)
    images = tuple(Workspace(name=order.inner, bytes_each=spec.dtype.itemsize * order.channels,
                             per=tuple(Extent(of=size) for size in (Dimension.N, *_sizes(spec, order.array))),
                             first_step=product if order.back else 0,
                             last_step=len(steps) - 1 if order.back else product) for order in orders)
    return replace(
        inner, spec=replace(spec, arch=inner.spec.arch), numbers=replace(inner.numbers, orders=orders),
        program=replace(program, arguments=arguments, steps=steps, workspaces=(*images, *moved),
                        descriptors=tuple(replace(d, of=names.get(d.of, d.of)) for d in program.descriptors)),
        phrase=f"{' and '.join(order.array for order in orders)} by way of NHWC: {inner.phrase}")


def instructions(spec: KernelSpec, shape: ConvShape, *arrays: str) -> float:
    """Issue slots of the whole chip while arrays are brought to the other order; 0 in NHWC."""
    if spec.layout is Layout.NHWC:
        return 0.0
    image = spec.c * shape.input_pixels
    elements = {"x": image, "dx": image, "dy": spec.k * shape.output_pixels}
    moved = 2 * spec.dtype.itemsize * sum(elements[name] for name in arrays)
    cycles = len(arrays) * LAUNCH_CYCLES + COPY_SHARE * moved / spec.hardware.copied_bytes
    return QUARTERS * spec.hardware.multiprocessors * cycles


def _order(spec: KernelSpec, array: str) -> Order:
    channels = spec.k if array == "dy" else spec.c
    return Order(array=array, channels=channels, sizes=tuple(size.value for size in _sizes(spec, array)),
                 back=array == "dx",
                 gap=BANK_BYTES // spec.dtype.itemsize, pairs=spec.dtype.is_half,
                 channel_pairs=spec.dtype.is_half and channels % 2 == 0,
                 index="unsigned" if spec.index_bits == 32 else "long long", few=channels <= FEW,
                 pitch=channels + 1 - channels % 2, tile=FEW_TILE if channels <= FEW else TILE)


def _sizes(spec: KernelSpec, array: str) -> tuple[Dimension, ...]:
    return _SIZES[array][len(spec.taps)]


def _launch(spec: KernelSpec, order: Order) -> Launch:
    pixels = Blocks(of=Dimension.N, by=_sizes(spec, order.array), add=order.tile - 1, per=order.tile)
    tiles = 1 if order.few else -(-order.channels // TILE)
    return Launch(entry=order.entry, grid=(pixels, Blocks(times=tiles, limit=GRID_LIMIT[1]), Blocks()),
                  block=(FEW_TILE, 1, 1) if order.few else (TILE, ROWS, 1), arguments=order.arguments)


def _renamed(step: Any, names: dict[str, str]) -> Any:
    return replace(step, arguments=tuple(names.get(name, name) for name in step.arguments))
