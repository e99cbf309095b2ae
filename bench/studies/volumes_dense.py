"""Dense layers of volumes, forward and both gradients, beside PyTorch."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import warpconv
from bench.harness import compile_ahead, rotation, tuning_table
from bench.report.files import Table
from bench.study import Context, Rows, Study
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

from .floors import flops_inside
from .volumes import CHECKED, PASSES, beside_torch

TRIAL = {"n": 1, "d": 6, "h": 7, "w": 8}
ABOUT = f"""
Layers of networks for volumes and clips of video, `conv3d`, `conv3d_input` and `conv3d_weight` (the data gradient of
`up` is what `conv_transpose3d` computes): U-Net's levels of 128^3 down to 8^3 voxels, its way down and up, its first
layer; R3D-18's stem and its first layers; ViViT's first layer; few channels, groups and 1x1x1. NDHWC is PyTorch's
channels_last_3d. Planned as calls are, the weight as PyTorch has it (ours is put in order by each call). Beside them,
samples taken in turn, in CUDA graphs where they can be captured, PyTorch's `conv3d` and
`torch.ops.aten.convolution_backward`: cuDNN in benchmark mode, TF32 off, weights in the input's memory format.

Checked before it is timed, ours and PyTorch's: the first {CHECKED} filters of the first image (channels of a data
gradient, filters of {CHECKED} channels of a filter's) against float64, tap by tap.
"""
Three = tuple[int, int, int]


@dataclass(frozen=True)
class Dense:
    """A layer, what of it is computed, and how its arrays lie."""

    name: str
    n: int
    c: int
    d: int
    h: int
    w: int
    k: int
    taps: Three
    stride: Three = (1, 1, 1)
    padding: Three = (0, 0, 0)
    groups: int = 1
    operation: str = "forward"
    dtype: str = "float16"
    layout: str = "NCHW"

    @property
    def format(self) -> str:
        return f"{self.dtype} {'NDHWC' if self.layout == 'NHWC' else 'NCDHW'}"

    @property
    def key(self) -> str:
        return f"{self.operation}/{self.name}/{self.format}"

    @property
    def shape(self) -> ConvShape:
        return ConvShape(n=self.n, c=self.c, d=self.d, h=self.h, w=self.w, k=self.k, t=self.taps[0], r=self.taps[1],
                         s=self.taps[2], stride=self.stride, padding=self.padding, groups=self.groups,
                         dtype=self.dtype, layout=self.layout)


def _same(name: str, n: int, c: int, size: int, k: int, **more: Any) -> Dense:
    return Dense(name, n, c, size, size, size, k, (3, 3, 3), padding=(1, 1, 1), **more)


TWO = (2, 2, 2)
LAYERS = (
    _same("128^3 32-32", 2, 32, 128, 32), _same("64^3 64-64", 2, 64, 64, 64), _same("32^3 128-128", 2, 128, 32, 128),
    _same("16^3 256-256", 2, 256, 16, 256), _same("8^3 320-320", 2, 320, 8, 320),
    _same("down 128^3 32-64", 2, 32, 128, 64, stride=TWO), _same("down 32^3 128-256", 2, 128, 32, 256, stride=TWO),
    Dense("up 64^3 64-32", 2, 32, 128, 128, 128, 64, TWO, stride=TWO), _same("first 128^3 1-32", 2, 1, 128, 32),
    Dense("R3D 16x56^2 64-64", 8, 64, 16, 56, 56, 64, (3, 3, 3), padding=(1, 1, 1)),
    Dense("R3D stem 16x112^2 3-64", 8, 3, 16, 112, 112, 64, (3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3)),
    Dense("ViViT 16x112^2 3-256", 4, 3, 16, 112, 112, 256, (2, 16, 16), stride=(2, 16, 16)),
    Dense("1x1x1 64^3 64-32", 2, 64, 64, 64, 64, 32, (1, 1, 1)), _same("64^3 8-8", 2, 8, 64, 8),
    _same("64^3 4-32 stride 2", 2, 4, 64, 32, stride=TWO), _same("64^3 32-32 groups 4", 2, 32, 64, 32, groups=4))
FORMATS = tuple(itertools.product(("float16", "float32"), ("NCHW", "NHWC")))


def rows() -> Iterator[Dense]:
    for layer in LAYERS:
        for operation, (dtype, layout) in itertools.product(PASSES, FORMATS):
            yield replace(layer, operation=operation, dtype=dtype, layout=layout)


def is_quick(row: Dense) -> bool:
    return row.name in ("64^3 64-64", "16^3 256-256", "up 64^3 64-32") and row.dtype == "float16"


def run(context: Context) -> None:
    chosen = [row for row in sorted(rows(), key=is_quick, reverse=True) if is_quick(row) or not context.quick]
    if context.device.trial:        # the same keys, small arrays
        chosen = [replace(row, **TRIAL, c=8, k=8) for row in chosen[:12]]
    context.expect(len(chosen))
    if not context.pending(row.key for row in chosen):
        return
    context.say("compiling")
    tuning = tuning_table(context.device)
    compile_ahead(context.device, [functools.partial(_plan, context, row, tuning) for row in chosen
                                   if not context.report.done(row.key)])
    for row in chosen:
        context.device.free()
        context.row(row.key, functools.partial(measure, context, row, tuning), kind="layer", operation=row.operation,
                    layer=row.name, format=row.format)


class Operands:
    """Rotating arrays of a layer, and the calls on them."""

    def __init__(self, device: Any, row: Dense):
        self.device, self.row, shape = device, row, row.shape
        moved = shape.dtype.itemsize * (math.prod(shape.input_shape) + math.prod(shape.output_shape))
        self.sets = 1 if device.trial else rotation(moved)
        self.x = [self._array(shape.input_shape, 1 + i) for i in range(self.sets)]
        self.dy = [self._array(shape.output_shape, 500 + i) for i in range(self.sets)]
        self.w = device.random(shape.weight_shape, 1000, shape.dtype)
        sizes = {"forward": shape.output_shape, "data_gradient": shape.input_shape}.get(row.operation)
        self.made = [device.poisoned(shape.weight_shape, shape.dtype) if sizes is None else self._array(sizes, 900 + i)
                     for i in range(self.sets)]

    def _array(self, sizes: tuple[int, ...], seed: int) -> Any:
        """Axes (N, C, D, H, W), in the layer's order in memory."""
        array = self.device.random(self.row.shape.layout.stored(sizes), seed, self.row.shape.dtype)
        if self.row.layout != "NHWC":
            return array
        return array.permute(0, 4, 1, 2, 3) if hasattr(array, "permute") else array.transpose(0, 4, 1, 2, 3)

    def ours(self, i: int) -> Any:
        row = self.row
        layer = {"stride": row.stride, "padding": row.padding, "groups": row.groups, "device": self.device.target,
                 "out": self.made[i]}
        if row.operation == "forward":
            return warpconv.conv3d(self.x[i], self.w, **layer)
        if row.operation == "data_gradient":
            return warpconv.conv3d_input(tuple(self.x[i].shape), self.w, self.dy[i], **layer)
        return warpconv.conv3d_weight(self.x[i], tuple(self.w.shape), self.dy[i], **layer)

    @functools.cached_property
    def _weight(self) -> Any:
        torch = self.device.torch
        order = torch.channels_last_3d if self.row.layout == "NHWC" else torch.contiguous_format
        return self.w.contiguous(memory_format=order)

    def torch(self, i: int) -> Any:
        torch, row = self.device.torch, self.row
        if row.operation == "forward":
            return torch.nn.functional.conv3d(self.x[i], self._weight, None, row.stride, row.padding, 1, row.groups)
        data = row.operation == "data_gradient"
        found = torch.ops.aten.convolution_backward(
            self.dy[i], self.x[i], self._weight, None, list(row.stride), list(row.padding), [1] * 3, False, [0] * 3,
            row.groups, [data, not data, False])
        return found[0] if data else found[1]

    def exact(self) -> Any:
        """The part of the first result that ``part`` takes, in float64."""
        return {"forward": self._outputs, "data_gradient": self._gradients,
                "filter_gradient": self._filters}[self.row.operation]()

    def part(self, made: Any) -> Any:
        return made[:CHECKED, :CHECKED] if self.row.operation == "filter_gradient" else made[:1, :CHECKED]

    def _outputs(self) -> Any:
        device, shape = self.device, self.row.shape
        padded, w = self._padded(self.x[0][:1, :shape.channels]), device.double(self.w[:CHECKED])
        found = device.zeros((1, CHECKED, *shape.outputs))
        for tap, place in self._taps():
            for k in range(CHECKED):
                found[:, k] += (padded[place] * w[(k, slice(None), *tap)][None, :, None, None, None]).sum(1)
        return found

    def _gradients(self) -> Any:
        device, shape = self.device, self.row.shape
        dy, w = device.double(self.dy[0][:1, :shape.filters]), device.double(self.w[:shape.filters])
        found = device.zeros((1, min(CHECKED, shape.channels), *self._sizes()))
        for tap, place in self._taps():
            for c in range(found.shape[1]):
                along_k = w[(slice(None), c, *tap)][None, :, None, None, None]
                found[(slice(None), c, *place[2:])] += (dy * along_k).sum(1)
        return found[(slice(None), slice(None), *(slice(before, before + size) for (before, _), size in zip(
            shape.padding, shape.image)))]

    def _filters(self) -> Any:
        device = self.device
        padded, dy = self._padded(self.x[0][:, :CHECKED]), device.double(self.dy[0][:, :CHECKED])
        found = device.zeros((CHECKED, min(CHECKED, self.row.shape.channels), *self.row.taps))
        for tap, place in self._taps():
            for k, c in itertools.product(range(found.shape[0]), range(found.shape[1])):
                found[(k, c, *tap)] = (padded[place][:, c] * dy[:, k]).sum()
        return found

    def _sizes(self) -> tuple[int, ...]:
        return tuple(size + sum(sides) for size, sides in zip(self.row.shape.image, self.row.shape.padding))

    def _padded(self, array: Any) -> Any:
        made = self.device.zeros((*array.shape[:2], *self._sizes()))
        inside = tuple(slice(before, before + size) for (before, _), size in zip(
            self.row.shape.padding, array.shape[2:]))
        made[(slice(None), slice(None), *inside)] = self.device.double(array)
        return made

    def _taps(self) -> Iterator[tuple[Three, tuple[slice, ...]]]:
        """Each tap, and the padded elements that it meets for all outputs."""
        shape = self.row.shape
        for tap in itertools.product(*map(range, shape.taps)):
            yield tap, (slice(None), slice(None), *(slice(at, at + (outputs - 1) * step + 1, step) for at, outputs, step
                                                    in zip(tap, shape.outputs, shape.stride)))


def measure(context: Context, row: Dense, tuning: Any) -> dict[str, Any]:
    """A row's values. Raises WrongResult, and what a launch raises."""
    return beside_torch(context.device, Operands(context.device, row), _plan(context, row, tuning), row.dtype,
                        lambda ms: {"tflops": flops_inside(row.shape) / ms / 1e9})


def _plan(context: Context, row: Dense, tuning: Any) -> Any:
    """As conv3d plans; some 1x1x1 layers are layers of images to it (runtime/call/pointwise.py)."""
    shape = row.shape
    if row.operation == "forward" and row.dtype == "float32" and max(row.taps) == max(row.stride) == 1:
        shape = ConvShape(n=row.n, c=row.c, h=row.d * row.h, w=row.w, k=row.k, r=1, s=1, dtype=row.dtype,
                          layout=row.layout)
    return plan_layer(shape, arch=context.device.arch, tuning=tuning, operation=row.operation)


def tables(found: Rows) -> list[Table]:
    """Means of each pass and format, then the layers of each pass."""
    measured = [row for row in found.values() if row.get("ms") is not None]
    made, means = [], []
    for operation in PASSES:
        for dtype, layout in FORMATS:
            name = Dense("", 1, 1, 1, 1, 1, 1, (1, 1, 1), dtype=dtype, layout=layout).format
            ratios = [r["torch_speedup"] for r in measured if r["operation"] == operation and r["format"] == name
                      and "torch_speedup" in r]
            if ratios:
                means.append((operation.replace("_", " "), name, len(ratios), math.prod(ratios) ** (1 / len(ratios)),
                              min(ratios), sum(ratio < 1 for ratio in ratios)))
    if means:
        made.append(Table("Means", ("pass", "format", "layers", "x PyTorch", "least", "slower"), tuple(means)))
    for operation in PASSES:
        lines = tuple((r["layer"], r["format"], r["algorithm"], r["ms"], r["tflops"], r.get("torch_ms"),
                       r.get("torch_speedup")) for r in measured if r["operation"] == operation)
        if lines:
            made.append(Table(operation.replace("_", " ").capitalize(), (
                "layer", "format", "algorithm", "ms", "TFLOP/s", "PyTorch ms", "x PyTorch"), lines))
    missing = tuple((row["key"], row["status"]) for row in found.values() if row["status"] != "ok")
    return made + ([Table("Not measured", ("row", "why"), missing)] if missing else [])


STUDY = Study("volumes_dense", "dense 3D layers and their gradients, beside PyTorch", ABOUT, run, tables)
