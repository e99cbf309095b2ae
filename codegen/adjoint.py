"""The data gradient of a layer of stride 1 as a forward layer: of the output's gradient, with the filter turned.

    dx[n, c, h, w] = sum over k, r, s of dy[n, k, h + pad - r * dilation, ...] * w[k, c, r, s]

is a cross-correlation of dy by the filter turned by half a turn, its channels and filters exchanged within each group,
padded by what the layer's own padding leaves of the filter's extent. A first launch writes that filter, and the kernels
of any algorithm for forward layers do the rest: the plan is theirs, with its arguments under the names that they have
in the layer.
"""

from __future__ import annotations

import functools
import math
from collections import Counter

from .batch import assumed_batch, batch_matters
from .border import Border
from .classes import replace
from .descriptors import Descriptor
from .dimension import Dimension, Length
from .errors import UnsupportedSpec
from .layer import Layer, Sides
from .plan import (Argument, Blocks, Extent, KernelPlan, Launch, LibraryCall, Preparation, Program, Repeat, Role, Step,
                   Workspace)
from .shape import ConvShape
from .spec import KernelSpec, Operation

TURNED = "turned"               # the program's name for the turned filter,
TURN = "turn_filter"            # and the entry that writes it
TURN_THREADS = 256
MOST_TURN_BLOCKS = 1024
ORDER_TILE, ORDER_ROWS = 32, 8  # where it is left as (C, R, S, K/groups): a block's filters, and taps of channels

# what the arrays and sizes of the forward layer are in the layer whose gradient it makes
NAMES = {"x": "dy", "y": "dx", "w": TURNED, "D": "Z", "H": "P", "W": "Q", "Z": "D", "P": "H", "Q": "W"}
_SIZES = {Dimension(one): Dimension(other) for one, other in NAMES.items() if one.isupper()}


def refusal(layer: Layer) -> str | None:
    """Why the data gradient of a layer is no forward layer, or None."""
    if not layer.dtype.is_float or layer.out_dtype is not None or layer.separable:
        return "gradients are of layers of one floating-point type with whole filters"
    if set(layer.stride) != {1}:
        return "the data gradient of a strided layer is no forward layer"
    if layer.padding_mode not in (Border.ZEROS, Border.CONSTANT):
        return f"the data gradient of a {layer.padding_mode.value} border is no forward layer"
    if any(side >= extent for extent, sides in zip(layer.extents, layer.padding) for side in sides):
        return "the data gradient of a layer with more padding than its filter spans is no forward layer"
    return None


def products_of(layer: ConvShape, operation: Operation) -> int:
    """The products of each sum of an operation."""
    if operation is Operation.DATA_GRADIENT:
        return layer_of(layer).reduction if refusal(layer) is None else least_products(layer)
    if operation is Operation.FILTER_GRADIENT:      # of the fewest images that share the kernel
        return math.prod(layer.outputs) * (assumed_batch(layer) if batch_matters(layer) else 1)
    return layer.reduction


def least_products(layer: Layer) -> int:
    """The products of a pixel's sum in the data gradient of a strided layer, of a pixel that meets the fewest taps, but
    one."""
    filters = layer.k // layer.groups
    for taps, stride, dilation in zip(layer.taps, layer.stride, layer.dilation):
        met = Counter(tap * dilation % stride for tap in range(taps))
        filters *= min(met.values())
    return filters


@functools.lru_cache(maxsize=4096)
def layer_of(shape: ConvShape) -> ConvShape:
    """The forward layer that is the data gradient of ``shape``, of which refusal() says that there is one."""
    depth = shape.depths[1] if shape.is_volume else None
    return replace(shape, c=shape.k, k=shape.c, d=depth, h=shape.p, w=shape.q, padding=_padding(shape),
                   padding_mode=Border.ZEROS, padding_value=0.0, x_pitch=None, y_pitch=None)


def forward_of(spec: KernelSpec) -> KernelSpec:
    """The same for a spec."""
    return replace(spec, c=spec.k, k=spec.c, padding=_padding(spec), padding_mode=Border.ZEROS, padding_value=0.0,
                   operation=Operation.FORWARD)


def plan_of(spec: KernelSpec, forward: KernelPlan) -> KernelPlan:
    """The plan of a data gradient, of the plan of its forward layer. Raises UnsupportedSpec where the latter has steps
    or memory that cannot come after the turning of the filter."""
    program = forward.program
    bank = program.preparation is not None and program.preparation.constant is not None
    if bank or program.library_calls:
        raise UnsupportedSpec(spec, "the turned filter is made on the device by each call, and its plan takes filters "
                              f"from {'constant memory' if bank else 'a library step'}")
    before, buffers, turning = _first_steps(spec, program.preparation)
    steps = tuple(map(_step, program.steps))
    last = len(before) + len(steps) - 1
    moved = tuple(replace(w, per=tuple(map(_extent, w.per)), first_step=w.first_step + len(before),
                          last_step=w.last_step + len(before)) for w in program.workspaces)
    workspaces = tuple(replace(w, last_step=last) for w in buffers) + moved
    element = spec.w_dtype.c_name
    arguments = (*(_argument(a) for a in program.arguments if a.role is not Role.WEIGHT),
                 Argument(name="w", role=Role.WEIGHT, c_type=element))
    if buffers[0].name == TURNED:
        arguments += (Argument(name=TURNED, role=Role.WORKSPACE, c_type=element),)
    return KernelPlan(
        spec=replace(spec, arch=forward.spec.arch), options=forward.options, numbers=forward.numbers,
        cost=forward.cost, notes=forward.notes,
        templates=(*forward.templates, turning), forward=forward,
        program=Program(arguments=arguments, steps=(*before, *steps), workspaces=workspaces,
                        descriptors=tuple(map(_descriptor, program.descriptors))),
        phrase=f"the filter turned, then a forward layer of the output's gradient: {forward.phrase}")


def _padding(layer: Layer) -> Sides:
    return tuple((extent - 1 - before, extent - 1 - after)
                 for extent, (before, after) in zip(layer.extents, layer.padding))


def _first_steps(spec: KernelSpec, preparation: Preparation | None) -> tuple[tuple[Step, ...], tuple[Workspace, ...],
                                                                             str]:
    """The filter is turned; then what its forward layer makes of a filter is made of that, unless that is another order
    only, in which it is left at once. The template is that of the entry that turns it."""
    elements = spec.k * spec.reduction
    if preparation is not None and preparation.buffer is not None and preparation.ordered:
        tiles = -(-spec.filters // ORDER_TILE) * -(-spec.channels * math.prod(spec.taps) // ORDER_TILE) * spec.groups
        turn = Launch(entry=TURN, grid=(Blocks(times=tiles), Blocks(), Blocks()), block=(ORDER_TILE, ORDER_ROWS, 1),
                      arguments=("w", preparation.buffer.name))
        return (turn,), (preparation.buffer,), "parts/turned_in_order.cu.jinja"
    blocks = Blocks(times=-(-elements // TURN_THREADS), limit=MOST_TURN_BLOCKS)
    turn = Launch(entry=TURN, grid=(blocks, Blocks(), Blocks()), block=(TURN_THREADS, 1, 1), arguments=("w", TURNED))
    made: tuple[Workspace, ...] = (Workspace(name=TURNED, bytes_each=spec.w_dtype.itemsize * elements),)
    if preparation is None or preparation.buffer is None:
        return (turn,), made, "parts/turned.cu.jinja"
    steps = (turn, *map(_step, preparation.steps))
    return steps, (*made, replace(preparation.buffer, first_step=1)), "parts/turned.cu.jinja"


def _argument(argument: Argument) -> Argument:
    return replace(argument, name=NAMES.get(argument.name, argument.name))


def _step(step: Step) -> Step:
    if isinstance(step, Repeat):
        return replace(step, of=_size(step.of), steps=tuple(map(_step, step.steps)))
    assert not isinstance(step, LibraryCall)
    return replace(step, grid=tuple(map(_blocks, step.grid)),
                   arguments=tuple(NAMES.get(name, name) for name in step.arguments))


def _blocks(blocks: Blocks) -> Blocks:
    return replace(blocks, of=None if blocks.of is None else _size(blocks.of), by=tuple(map(_size, blocks.by)))


def _descriptor(descriptor: Descriptor) -> Descriptor:
    return replace(descriptor, of=NAMES.get(descriptor.of, descriptor.of), sizes=tuple(map(_length, descriptor.sizes)),
                   windows=None if descriptor.windows is None else _length(descriptor.windows))


def _length(length: Length) -> Length:
    return replace(length, by=tuple(map(_size, length.by)))


def _extent(extent: Extent) -> Extent:
    return replace(extent, of=_size(extent.of))


def _size(size: Dimension) -> Dimension:
    return _SIZES.get(size, size)
