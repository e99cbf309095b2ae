"""Depthwise gradients beside a device copy of the same bytes, and PyTorch's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import warpconv
from bench.harness import compile_ahead, measure_together, rotation, tuning_table
from bench.peers import libraries as peers
from bench.reference import WrongResult
from bench.report.files import Table
from bench.study import Context, Rows, Study
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

from .floors import floor
from .wall_layers import DEPTHWISE, LARGE_BYTES

OPERATIONS = ("data_gradient", "filter_gradient")
FORMATS = (("float32", "NCHW"), ("float16", "NCHW"), ("float16", "NHWC"), ("bfloat16", "NCHW"), ("bfloat16", "NHWC"))
QUICK = (("float32", "NCHW"), ("float16", "NHWC"))
TOLERANCES = {"float32": 1e-4, "float16": 3e-3, "bfloat16": 2e-2}      # relative, in norm
CHECKED = 2         # images of a data gradient, channels of a filter's, that are made in float64

ABOUT = f"""
Depthwise layers ("same" padding) with stride 1 and 2: `conv2d_input` and `conv2d_weight` as calls make them, planned by
rule or by what was measured for the forward layer, beside PyTorch's gradients (`torch.ops.aten.convolution_backward`,
cuDNN in benchmark mode, TF32 off, channels_last tensors for NHWC) and a device copy that moves the least bytes: those
of the input and the output (or their gradients), each once. Samples of the three are taken in turn, in CUDA graphs
where they can be captured; buffers rotate through 256 MB. The turned filter of a data gradient is made in every call,
and both steps of a filter gradient are in its time.

Checked before it is timed, ours and PyTorch's: {CHECKED} images of the data gradient, {CHECKED} channels of the filter
gradient against float64, tap by tap: a relative error in norm of
{", ".join(f"{v:g} ({k})" for k, v in TOLERANCES.items())} at most; and a second call of ours gives the same bits.

The floor is the larger of the copy's time and the FLOPs of the taps inside the image at this run's SGEMM rate. "of
copy" and "of the floor" are these over our time; "x" is PyTorch's time over ours.
"""


@dataclass(frozen=True)
class GradientLayer:
    """A row: a layer and which of its gradients."""

    operation: str
    shape: ConvShape

    @property
    def key(self) -> str:
        s = self.shape
        return (f"{self.operation}/{s.n}x{s.c}x{s.h}/{s.r}x{s.s}/stride {s.stride[0]}/{s.dtype.value}/{s.layout.value}")

    @property
    def moved(self) -> int:
        """The least bytes: input and output, or their gradients, once."""
        return self.shape.dtype.itemsize * (math.prod(self.shape.input_shape) + math.prod(self.shape.output_shape))


def layers(trial: bool = False) -> Iterator[GradientLayer]:
    """Every row, those of stride 1 first; small ones for a trial on the host."""
    for stride in (1, 2):
        for n, c, size in DEPTHWISE:
            for taps in (3, 5, 7):
                for dtype, layout in FORMATS:
                    for operation in OPERATIONS:
                        sizes = {"n": 2, "c": 4, "h": 14, "w": 14} if trial else {"n": n, "c": c, "h": size, "w": size}
                        channels = sizes["c"]
                        yield GradientLayer(operation, ConvShape(**sizes, k=channels, r=taps, s=taps, padding=taps // 2,
                                                                 stride=stride, groups=channels, dtype=dtype,
                                                                 layout=layout))


def is_quick(row: GradientLayer) -> bool:
    s = row.shape
    return (s.dtype.value, s.layout.value) in QUICK and s.r != 5


def run(context: Context) -> None:
    trial = context.device.trial
    chosen = [row for row in sorted(layers(), key=is_quick, reverse=True) if is_quick(row) or not context.quick]
    chosen = [row for row in chosen if context.asked(row.key)]
    if trial:       # the same keys, small arrays
        chosen = chosen[:8]
    context.expect(1 + len(chosen))
    if not context.pending(row.key for row in chosen):
        return
    context.report.rows.pop("ceiling/sgemm", None)
    context.say("compiling")
    tuning = tuning_table(context.device)
    compile_ahead(context.device, [lambda row=row: _plan(context, row, tuning) for row in chosen
                                   if not context.report.done(row.key)])
    gemm = context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(context.device), kind="ceiling").get("tflops")
    small = dict(zip([row.key for row in layers()], layers(trial=True))) if trial else {}
    for row in chosen:
        s = row.shape
        context.device.free()
        context.row(row.key, lambda row=row: measure_row(context, small.get(row.key, row), tuning, gemm or math.inf),
                    kind=row.operation, n=s.n, c=s.c, size=s.h, filter=s.r, stride=s.stride[0], dtype=s.dtype.value,
                    layout=s.layout.value, moved=row.moved)


def measure_row(context: Context, row: GradientLayer, tuning: Any, gemm: float) -> dict[str, Any]:
    """A row's values. Raises WrongResult, and what a launch raises."""
    device, shape = context.device, row.shape
    data = row.operation == "data_gradient"
    sets = 1 if device.trial else rotation(row.moved)
    inputs = [device.random(shape.input_shape, 1 + i, shape.dtype, shape.layout) for i in range(sets)]
    gradients = [device.random(shape.output_shape, 500 + i, shape.dtype, shape.layout) for i in range(sets)]
    w = device.random(shape.weight_shape, 1000, shape.dtype, Layout.NCHW)
    geometry = {"stride": shape.stride, "padding": shape.r // 2, "groups": shape.groups, "device": device.target}
    made = [device.poisoned(shape.input_shape, shape.dtype, shape.layout) if data
            else device.poisoned(shape.weight_shape, shape.dtype) for _ in range(sets)]

    def ours(i: int) -> Any:
        if data:
            return warpconv.conv2d_input(shape.input_shape, w, gradients[i], out=made[i], **geometry)
        return warpconv.conv2d_weight(inputs[i], shape.weight_shape, gradients[i], out=made[i], **geometry)

    exact = (_data_exact(device, w, gradients[0], shape) if data
             else _filter_exact(device, inputs[0], gradients[0], shape))
    error = _checked(device, ours(0), exact, shape, data, "ours")
    first = device.double(made[0])
    ours(0)
    if not bool((device.double(made[0]) == first).all()):
        raise WrongResult("two calls differ")
    plan = _plan(context, row, tuning)
    found: dict[str, Any] = {"error": error, "algorithm": plan.spec.algorithm, "settings": plan.settings()}
    calls = [[lambda i=i: ours(i) for i in range(sets)], _copies(device, row, sets)]
    if device.kind == "torch":
        theirs = _torch(device, inputs, gradients, w, shape, data)
        found["torch_error"] = _checked(device, theirs[0](), exact, shape, data, "PyTorch")
        calls.append(theirs)
    times = measure_together(device, calls, written=[made[0], None, None][:len(calls)])
    found |= times[0].fields() | floor(shape, times[1].ms, gemm).fields(times[0].ms)
    found["moved"] = row.moved
    if len(times) > 2:
        found |= {"torch_ms": times[2].ms, "speedup": times[2].ms / times[0].ms, "torch_method": times[2].method}
    return found


def _copies(device: Any, row: GradientLayer, sets: int) -> list[Any]:
    """A device copy of half of the bytes, which it reads and writes."""
    elements = row.moved // (2 * row.shape.dtype.itemsize)
    pairs = [(device.random((elements,), i, row.shape.dtype), device.poisoned((elements,), row.shape.dtype))
             for i in range(sets)]
    return [lambda a=a, b=b: device.copy(b, a) for a, b in pairs]


def _torch(device: Any, inputs: list[Any], gradients: list[Any], w: Any, shape: ConvShape, data: bool) -> list[Any]:
    backward = device.torch.ops.aten.convolution_backward
    weight = w.contiguous(memory_format=device.memory_format(shape.layout))

    def call(x: Any, dy: Any) -> Any:
        found = backward(dy, x, weight, None, list(shape.stride), [shape.r // 2] * 2, [1, 1], False, [0, 0],
                         shape.groups, [data, not data, False])
        return found[0] if data else found[1]

    return [lambda x=x, dy=dy: call(x, dy) for x, dy in zip(inputs, gradients)]


def _windows(shape: ConvShape) -> Iterator[tuple[int, int, tuple[slice, slice]]]:
    """Each tap, and the pixels of the padded image that it meets."""
    for r in range(shape.r):
        for s in range(shape.s):
            yield r, s, (slice(r, r + shape.stride[0] * (shape.p - 1) + 1, shape.stride[0]),
                         slice(s, s + shape.stride[1] * (shape.q - 1) + 1, shape.stride[1]))


def _data_exact(device: Any, w: Any, dy: Any, shape: ConvShape) -> Any:
    pad, images = shape.r // 2, min(CHECKED, shape.n)
    weight, gradient = device.double(w), device.double(dy[:images])
    padded = device.zeros((images, shape.c, shape.h + 2 * pad, shape.w + 2 * pad))
    for r, s, (rows, columns) in _windows(shape):
        device.add_product(padded[:, :, rows, columns], gradient, weight[None, :, 0, r, s, None, None])
    return padded[:, :, pad:pad + shape.h, pad:pad + shape.w]


def _filter_exact(device: Any, x: Any, dy: Any, shape: ConvShape) -> Any:
    pad, channels = shape.r // 2, min(CHECKED, shape.c)
    gradient = device.double(dy[:, :channels])
    padded = device.zeros((shape.n, channels, shape.h + 2 * pad, shape.w + 2 * pad))
    padded[:, :, pad:pad + shape.h, pad:pad + shape.w] = device.double(x[:, :channels])
    exact = device.zeros((channels, 1, shape.r, shape.s))
    for r, s, (rows, columns) in _windows(shape):
        exact[:, 0, r, s] = (padded[:, :, rows, columns] * gradient).sum((0, 2, 3))
    return exact


def _checked(device: Any, got: Any, exact: Any, shape: ConvShape, data: bool, whose: str) -> float:
    device.synchronize()
    difference = device.double(got[:len(exact)]) - exact
    error = float((difference ** 2).sum() ** 0.5 / (exact ** 2).sum() ** 0.5)
    if not error <= TOLERANCES[shape.dtype.value]:
        raise WrongResult(f"{whose}: relative error {error:.3g}")
    if whose == "ours" and not bool((device.double(got) == device.double(got)).all()):
        raise WrongResult("NaN, or an output that is not written")
    return error


def _plan(context: Context, row: GradientLayer, tuning: Any) -> Any:
    return plan_layer(row.shape, arch=context.device.arch, tuning=tuning, operation=row.operation)


def tables(rows: Rows) -> list[Table]:
    """A table of means for each gradient and stride, then every row."""
    measured = [row for row in rows.values() if row.get("kind") in OPERATIONS and row.get("ms") is not None]
    found = [_means(measured)]
    for operation in OPERATIONS:
        for stride in (1, 2):
            chosen = [row for row in measured if (row["kind"], row["stride"]) == (operation, stride)]
            if chosen:
                found.append(_rows(chosen, f"{operation.replace('_', ' ').capitalize()}, stride {stride}"))
    missing = tuple((row["key"], row["status"]) for row in rows.values() if row["status"] != "ok")
    return found + ([Table("Not measured", ("row", "why"), missing)] if missing else [])


def _means(measured: list[dict[str, Any]]) -> Table:
    lines = []
    for operation in OPERATIONS:
        for stride in (1, 2):
            for dtype, layout in FORMATS:
                chosen = [r for r in measured if (r["kind"], r["stride"], r["dtype"], r["layout"])
                          == (operation, stride, dtype, layout)]
                speedups = [r["speedup"] for r in chosen if r.get("speedup")]
                large = [r["of_floor"] for r in chosen if r["moved"] > LARGE_BYTES]
                if chosen:
                    lines.append((operation.replace("_", " "), stride, f"{dtype} {layout}", len(chosen),
                                  statistics.geometric_mean(speedups) if speedups else None,
                                  min(speedups, default=None),
                                  statistics.geometric_mean(large) if large else None, min(large, default=None)))
    return Table("In short", ("gradient", "stride", "format", "rows", "x PyTorch (geometric mean)", "least x",
                              f"of the floor, over {LARGE_BYTES / 1e6:.0f} MB (mean)", "least"), tuple(lines))


def _rows(chosen: list[dict[str, Any]], title: str) -> Table:
    lines = tuple((f"{r['n']}x{r['c']}x{r['size']}^2", f"{r['filter']}x{r['filter']}", f"{r['dtype']} {r['layout']}",
                   r["algorithm"], r["ms"], r["copy_ms"], r["of_copy"], r["of_floor"], r.get("torch_ms"),
                   r.get("speedup")) for r in chosen)
    return Table(title, ("layer", "filter", "format", "algorithm", "ms", "copy ms", "of copy", "of the floor",
                         "PyTorch ms", "x"), lines)


STUDY = Study("gradients", "depthwise gradients of data and filter beside a copy of the same bytes and PyTorch", ABOUT,
              run, tables, selects=True)
