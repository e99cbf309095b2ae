"""Transposed layers of networks on images and sequences, beside PyTorch."""

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
from warpconv.codegen.hardware import H200_COPY
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

from .volumes import CHECKED, beside_torch

FLOAT32_RATE = 5.1e13        # of an H200, by its SGEMM (docs/results/images)
TRIAL = {"n": 1, "h": 5, "w": 6, "c": 8, "k": 8}
ABOUT = f"""
`conv_transpose2d` on layers that networks grow images with: a U-Net's ways up, generators of images (DCGAN, CycleGAN),
super-resolution (FSRCNN), segmentation (FCN, Segment Anything), patches back to pixels, and sequences (HiFi-GAN, as
images of one row). A transposed layer is the data gradient of a strided one. The weight is as PyTorch has it, put in
order by each call. Beside it, samples taken in turn, in CUDA graphs where they can be captured, PyTorch's
`conv_transpose2d`: cuDNN in benchmark mode, TF32 off. The floor is that of an H200: bytes at copy speed, or in float32
products at the rate of SGEMM.

Checked before it is timed, ours and PyTorch's: the first {CHECKED} channels of the first image against float64, tap
by tap.
"""


@dataclass(frozen=True)
class Growing:
    """A layer of ``c`` channels to ``k``, h x w pixels of its input, and how its arrays lie."""

    name: str
    n: int
    c: int
    h: int
    w: int
    k: int
    taps: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    output_padding: int = 0
    dtype: str = "float32"
    layout: str = "NCHW"

    @property
    def format(self) -> str:
        return f"{self.dtype} {self.layout}"

    @property
    def key(self) -> str:
        return f"{self.name}/{self.format}"

    @property
    def sizes(self) -> tuple[int, int]:
        """Of the outputs."""
        return tuple((size - 1) * stride - 2 * padding + taps + min(self.output_padding, stride - 1)
                     for size, stride, padding, taps in zip((self.h, self.w), self.stride, self.padding, self.taps))

    @property
    def shape(self) -> ConvShape:
        """The strided layer whose data gradient it is."""
        return ConvShape(n=self.n, c=self.k, h=self.sizes[0], w=self.sizes[1], k=self.c, r=self.taps[0],
                         s=self.taps[1], stride=self.stride, padding=self.padding, dtype=self.dtype,
                         layout=self.layout)

    @property
    def floor_ms(self) -> float:
        moved = self.shape.dtype.itemsize * self.n * (self.c * self.h * self.w + self.k * math.prod(self.sizes))
        flops = 2 * self.n * self.c * self.h * self.w * self.k * math.prod(self.taps) if self.dtype == "float32" else 0
        return 1e3 * max(moved / H200_COPY, flops / FLOAT32_RATE)


def _square(name: str, n: int, c: int, size: int, k: int, taps: int, stride: int, **more: Any) -> Growing:
    return Growing(name, n, c, size, size, k, (taps, taps), (stride, stride), **more)


LAYERS = (
    _square("U-Net 256^2 64-32", 8, 64, 256, 32, 2, 2), _square("U-Net 128^2 128-64", 8, 128, 128, 64, 2, 2),
    _square("U-Net 32^2 512-256", 8, 512, 32, 256, 2, 2),
    _square("DCGAN 16^2 128-64", 64, 128, 16, 64, 4, 2, padding=(1, 1)),
    _square("DCGAN 32^2 64-3", 64, 64, 32, 3, 4, 2, padding=(1, 1)),
    _square("CycleGAN 128^2 128-64", 4, 128, 128, 64, 3, 2, padding=(1, 1), output_padding=1),
    _square("FSRCNN 256^2 56-1", 4, 56, 256, 1, 9, 3, padding=(4, 4)),
    _square("FCN 8^2 21-21", 8, 21, 8, 21, 64, 32, padding=(16, 16)),
    _square("patches 14^2 768-3", 32, 768, 14, 3, 16, 16), _square("SAM 64^2 256-64", 1, 256, 64, 64, 2, 2),
    _square("4x4 apart 64^2 96-24", 8, 96, 64, 24, 4, 4),
    Growing("HiFi-GAN 64 512-256", 16, 512, 1, 64, 256, (1, 16), (1, 8), (0, 4)),
    Growing("HiFi-GAN 8192 64-32", 16, 64, 1, 8192, 32, (1, 4), (1, 2), (0, 1)))
FORMATS = tuple(itertools.product(("float32", "float16"), ("NCHW", "NHWC")))


def rows() -> Iterator[Growing]:
    for layer, (dtype, layout) in itertools.product(LAYERS, FORMATS):
        yield replace(layer, dtype=dtype, layout=layout)


def is_quick(row: Growing) -> bool:
    return row.name.startswith(("U-Net 256", "DCGAN 32")) and row.dtype == "float32"


def run(context: Context) -> None:
    chosen = [row for row in sorted(rows(), key=is_quick, reverse=True) if is_quick(row) or not context.quick]
    if context.device.trial:        # the same keys, small arrays
        chosen = [replace(row, **TRIAL) for row in chosen[:4]]
    context.expect(len(chosen))
    if not context.pending(row.key for row in chosen):
        return
    context.say("compiling")
    tuning = tuning_table(context.device)
    compile_ahead(context.device, [functools.partial(_plan, context, row, tuning) for row in chosen
                                   if not context.report.done(row.key)])
    for row in chosen:
        context.device.free()
        context.row(row.key, functools.partial(measure, context, row, tuning), kind="layer", layer=row.name,
                    format=row.format)


class Operands:
    """Rotating arrays of a layer, and the calls on them."""

    def __init__(self, device: Any, row: Growing):
        self.device, self.row = device, row
        shape = row.shape
        inputs, outputs = shape.output_shape, shape.input_shape
        moved = shape.dtype.itemsize * (math.prod(inputs) + math.prod(outputs))
        self.sets = 1 if device.trial else rotation(moved)
        self.x = [self._array(inputs, 1 + i) for i in range(self.sets)]
        self.w = device.random(shape.weight_shape, 1000, shape.dtype)
        self.made = [self._array(outputs, 900 + i) for i in range(self.sets)]

    def _array(self, sizes: tuple[int, ...], seed: int) -> Any:
        """Axes (N, C, H, W), in the layer's order in memory."""
        array = self.device.random(self.row.shape.layout.stored(sizes), seed, self.row.shape.dtype)
        if self.row.layout != "NHWC":
            return array
        return array.permute(0, 3, 1, 2) if hasattr(array, "permute") else array.transpose(0, 3, 1, 2)

    @property
    def _geometry(self) -> dict[str, Any]:
        row = self.row
        return {"stride": row.stride, "padding": row.padding,
                "output_padding": tuple(min(row.output_padding, stride - 1) for stride in row.stride)}

    def ours(self, i: int) -> Any:
        return warpconv.conv_transpose2d(self.x[i], self.w, **self._geometry, device=self.device.target,
                                         out=self.made[i])

    @functools.cached_property
    def _weight(self) -> Any:
        torch = self.device.torch
        order = torch.channels_last if self.row.layout == "NHWC" else torch.contiguous_format
        return self.w.contiguous(memory_format=order)

    def torch(self, i: int) -> Any:
        return self.device.torch.nn.functional.conv_transpose2d(self.x[i], self._weight, None, **self._geometry)

    def part(self, made: Any) -> Any:
        """Of a result, what ``exact`` is of."""
        return made[:1, :CHECKED]

    def exact(self) -> Any:
        """The first channels of the first image in float64, by adding every tap's products where they go."""
        device, row = self.device, self.row
        x, w = device.double(self.x[0][:1]), device.double(self.w[:, :CHECKED])
        padded = tuple(size + 2 * padding for size, padding in zip(row.sizes, row.padding))
        found = device.zeros((1, min(CHECKED, row.k), *padded))
        for tap in itertools.product(*map(range, row.taps)):
            place = tuple(slice(at, at + (size - 1) * step + 1, step)
                          for at, size, step in zip(tap, (row.h, row.w), row.stride))
            for k in range(found.shape[1]):
                found[(slice(None), k, *place)] += (x * w[(slice(None), k, *tap)][None, :, None, None]).sum(1)
        (top, left), (height, width) = row.padding, row.sizes
        return found[:, :, top:top + height, left:left + width]


def measure(context: Context, row: Growing, tuning: Any) -> dict[str, Any]:
    """A row's values. Raises WrongResult, and what a launch raises."""
    return beside_torch(context.device, Operands(context.device, row), _plan(context, row, tuning), row.dtype,
                        lambda ms: {"of_floor": row.floor_ms / ms})


def _plan(context: Context, row: Growing, tuning: Any) -> Any:
    return plan_layer(row.shape, arch=context.device.arch, tuning=tuning, operation="data_gradient")


def tables(found: Rows) -> list[Table]:
    """Means of each format, then the layers."""
    measured = [row for row in found.values() if row.get("ms") is not None]
    made, means = [], []
    for dtype, layout in FORMATS:
        ratios = [r["torch_speedup"] for r in measured if r["format"] == f"{dtype} {layout}" and "torch_speedup" in r]
        if ratios:
            means.append((f"{dtype} {layout}", len(ratios), math.prod(ratios) ** (1 / len(ratios)), min(ratios),
                          sum(ratio < 1 for ratio in ratios)))
    if means:
        made.append(Table("Means", ("format", "layers", "x PyTorch", "least", "slower"), tuple(means)))
    lines = tuple((r["layer"], r["format"], r["algorithm"], r["ms"], r["of_floor"], r.get("torch_ms"),
                   r.get("torch_speedup")) for r in measured)
    if lines:
        made.append(Table("Layers", ("layer", "format", "algorithm", "ms", "of the floor", "PyTorch ms", "x PyTorch"),
                          lines))
    missing = tuple((row["key"], row["status"]) for row in found.values() if row["status"] != "ok")
    return made + ([Table("Not measured", ("row", "why"), missing)] if missing else [])


STUDY = Study("transposed", "transposed layers of networks on images and sequences, beside PyTorch", ABOUT, run,
              tables)
