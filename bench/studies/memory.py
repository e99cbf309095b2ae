"""Memory on the twelve layers: what each algorithm plans, what is really allocated, beside im2col and cuDNN."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from bench.harness import Layer, make_layer
from bench.peers import networks as network_peers
from bench.peers.networks import TORCH
from bench.study import Context, Study
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.shape import ConvShape

from . import contest, memory_tables, twelve_layers
from .memory_tables import CUDNN_PEERS, VARIANTS

ABOUT = """
The im2win paper's twelve layers, batch 128, float32, no padding (layer 4 with 32 and with 64 channels). MiB are 2^20
bytes.

**How to read it.** Tensors are input, filter and output. "Planned" is what a plan says before anything runs
(`kernel.workspace_bytes(shape)`) plus what it keeps of a prepared filter. "Held" is what the run time's pool has from
the driver after a call from an empty pool, so its peak: a pool keeps what it was given; it rounds a block up to an
eighth of its power of two. Each call's result was checked against float64 before its memory was read. PyTorch's
memory is the peak of its allocator during a call, less the output; cuDNN's is the workspace that its own interface
asks for.

- cuBLAS works in memory of its own: 32 MiB of ours are in im2col's plan, PyTorch's are not in its call's peak, so of
  im2col's figures the formulas are the fairer ones.
- im2col for each image is what PyTorch runs without cuDNN; im2col of the whole batch is our plan batch=whole.
- A saving is 1 - 1/mean(theirs/ours) over the layers, tensors included, which is how the document's own -32.8 % comes
  out of its logs; "mean saving" is the mean of 1 - ours/theirs.
- The document's memory is a process's, with the context in it; ours is tensors and workspace alone.
"""


def run(context: Context) -> None:
    chosen = contest.layers_of(context, "twelve_layers", twelve_layers.QUICK)
    context.expect(len(chosen))
    contest.prepare(context, chosen, VARIANTS, "held")
    for name, shape in chosen.items():
        context.row(name, lambda shape=shape: measure_layer(context, shape), kind="layer", name=name,
                    tensors=tensor_bytes(shape), **contest.shape_fields(shape), **formulas(shape))


def tensor_bytes(shape: ConvShape) -> int:
    """Input, filter and output."""
    return shape.dtype.itemsize * sum(map(math.prod, (shape.input_shape, shape.weight_shape, shape.output_shape)))


def formulas(shape: ConvShape) -> dict[str, int]:
    """The documents' tensors in bytes: im2win's (padding in it), im2col's columns of an image and of the batch."""
    height = shape.p * shape.r * (shape.w + sum(shape.padding[1]))
    columns = shape.c * shape.r * shape.s * shape.p * shape.q
    each = shape.dtype.itemsize
    return {"im2win_formula": each * shape.n * shape.c * height, "im2col_image_formula": each * columns,
            "im2col_batch_formula": each * shape.n * columns}


def measure_layer(context: Context, shape: ConvShape) -> dict[str, Any]:
    """A row's values: for each algorithm and peer planned and held bytes, or the reason why there are none."""
    device = context.device
    layer = make_layer(device, shape, most=1)
    found: dict[str, Any] = {}
    for entrant in contest.entrants(shape, device.arch, VARIANTS):
        context.say(f"{entrant.name}: {shape}")
        fields = {"reason": entrant.reason} if entrant.plan is None else \
            _guarded(device, lambda plan=entrant.plan, layer=layer: held(device, layer, plan))
        found |= {f"{entrant.name}_{key}": value for key, value in fields.items()}
    peers: Mapping[str, Callable[[Any, Layer, str], dict[str, Any]]] = {**dict.fromkeys(TORCH, _torch),
                                                                        **dict.fromkeys(CUDNN_PEERS, _cudnn)}
    for name, measure in peers.items():
        context.say(f"{name}: {shape}")
        fields = _guarded(device, lambda name=name, measure=measure, layer=layer: measure(device, layer, name))
        found |= {f"{name}_{key}": value for key, value in fields.items()}
    del layer
    device.free()
    return found | {"failed": contest.failures(found)}


def _guarded(device: Any, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What was measured, or the reason why not; a device that no longer answers raises."""
    try:
        return measure()
    except Exception as error:
        device.synchronize()
        return {"reason": contest.reason_of(error)}
    finally:
        device.free()


def planned(plan: KernelPlan, shape: ConvShape) -> dict[str, int]:
    """Bytes of workspace, and of what the plan keeps of a prepared filter."""
    preparation = plan.program.preparation
    kept = 0
    if preparation is not None:
        kept = preparation.buffer.bytes_each if preparation.buffer is not None else \
            shape.dtype.itemsize * math.prod(shape.weight_shape)
    return {"workspace": plan.program.workspace_bytes(shape), "filter": kept}


def held(device: Any, layer: Layer, plan: KernelPlan) -> dict[str, Any]:
    """``workspace`` and ``filter`` as planned, ``held``: bytes that the run time's pool has after a call (None where
    the device has no pool). Raises WrongResult."""
    kernel = device.specialize(layer.shape, plan)
    device.free()
    before = device.held_bytes()
    weight = kernel.prepare(layer.w) if plan.program.preparation is not None else layer.w
    device.free()               # what preparing a filter took besides the filter
    layer.ys[0][...] = float("nan")
    kernel(layer.xs[0], weight, out=layer.ys[0])
    device.synchronize()
    found = device.held_bytes() - before
    layer.reference.check(device, layer.ys[0], own=True)
    return {**planned(plan, layer.shape), "held": None if device.kind == "host" else found, "settings": plan.settings()}


def _torch(device: Any, layer: Layer, name: str) -> dict[str, Any]:
    return {"held": network_peers.held(device, layer, name)}


def _cudnn(device: Any, layer: Layer, name: str) -> dict[str, Any]:
    column = network_peers.column_of(name)
    _, _, answers = network_peers.listen(device, layer, column)
    found = network_peers.choose(answers, column)
    return {"held": found.workspace_bytes, "algorithm": found.algorithm}


STUDY = Study("memory", "planned and measured memory of every algorithm on the twelve layers, beside im2col and cuDNN",
              ABOUT, run, memory_tables.tables, memory_tables.plot)
