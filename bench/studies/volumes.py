"""Depthwise layers of volumes and SciPy's filters over all three axes, beside a copy, PyTorch and CuPy."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import warpconv
from bench.devices import NoDevice
from bench.harness import compile_ahead, measure_together, rotation, tuning_table
from bench.peers import libraries as peers
from bench.peers.images import cupy_and_ndimage
from bench.reference import WrongResult
from bench.report.files import Table
from bench.study import Context, Rows, Study
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

from .floors import floor

PASSES = ("forward", "data_gradient", "filter_gradient")
DTYPES = ("float32", "float16", "bfloat16")
TOLERANCES = {"float32": 1e-4, "float16": 3e-3, "bfloat16": 2e-2}      # relative, in norm
CHECKED = 2         # channels of a layer that are made in float64
CORNER = 40         # elements along each axis of a filter's output that are
SIDE = 512          # of the volume that is filtered
SIGMA, TRUNCATE = 2.0, 4.0
TRIAL = {"c": 4, "d": 6, "h": 10, "w": 20}

ABOUT = f"""
Layers: depthwise `conv3d` of 8 x 32 channels x 64^3 and 1 x 1 x {SIDE}^3, stride 1, padding to the same size, and
`conv3d_input`, `conv3d_weight` of them; NDHWC is PyTorch's channels_last_3d. Filters: SciPy's calls on one float32
volume of {SIDE}^3, mode 'reflect', all three axes. Planned as calls are. Beside them, samples taken in turn, in CUDA
graphs where they can be captured:

- a device copy that moves the least bytes, input and output once;
- PyTorch: `conv3d` and `torch.ops.aten.convolution_backward`, cuDNN in benchmark mode, TF32 off;
- CuPy: the same call of `cupyx.scipy.ndimage`.

Checked before it is timed, ours and the peers': {CHECKED} channels (a filter's gradient: a corner's worth of them)
against float64, tap by tap, and a corner of {CORNER}^3 of each filter's result. A layer's floor is the larger of the
copy's time and the FLOPs of the taps inside at this run's SGEMM rate; a filter that is a product of lines has three
copies for its floor, one for each axis, `correlate` one copy and its FLOPs.
"""


@dataclass(frozen=True)
class VolumeLayer:
    """A row: a depthwise layer and what of it is computed."""

    operation: str
    taps: int
    dtype: str
    n: int = 8
    c: int = 32
    d: int = 64
    h: int = 64
    w: int = 64
    layout: str = "NCHW"

    @property
    def key(self) -> str:
        return f"{self.operation}/{self.taps}/{self.dtype}/{self.c}x{self.d}" + "/NDHWC" * (self.layout == "NHWC")

    @property
    def format(self) -> str:
        """Element type, and the order in memory where the channels are last."""
        return self.dtype + " NDHWC" * (self.layout == "NHWC")

    @property
    def shape(self) -> ConvShape:
        return ConvShape(n=self.n, c=self.c, k=self.c, groups=self.c, d=self.d, h=self.h, w=self.w, t=self.taps,
                         r=self.taps, s=self.taps, padding=self.taps // 2, dtype=self.dtype, layout=self.layout)


@dataclass(frozen=True)
class Filter:
    """A row: one of SciPy's calls. ``lines``: 1D filters whose product it is; or the ``weights`` of all axes."""

    name: str
    call: Callable[[Any, Any, Any], Any]        # of a module, its input and its output
    lines: tuple[np.ndarray, ...] = ()
    weights: np.ndarray | None = None
    passes: int = 3                             # of the floor: copies

    @property
    def key(self) -> str:
        return f"filter/{self.name}"


def layers() -> Iterator[VolumeLayer]:
    for taps in (3, 5):
        for operation in PASSES:
            for dtype in DTYPES:
                yield VolumeLayer(operation, taps, dtype)
                yield VolumeLayer(operation, taps, dtype, layout="NHWC")
        yield VolumeLayer("forward", taps, "float32", n=1, c=1, d=SIDE, h=SIDE, w=SIDE)


def filters() -> Iterator[Filter]:
    reach = int(TRUNCATE * SIGMA + 0.5)
    gauss = np.exp(-0.5 * (np.arange(-reach, reach + 1) / SIGMA) ** 2)
    yield Filter("gaussian_filter", lambda of, x, y: of.gaussian_filter(x, SIGMA, output=y), (gauss / gauss.sum(),) * 3)
    yield Filter("uniform_filter 5", lambda of, x, y: of.uniform_filter(x, 5, output=y), (np.full(5, 0.2),) * 3)
    smooth = np.array([1.0, 2.0, 1.0])
    yield Filter("sobel", lambda of, x, y: of.sobel(x, 0, output=y), (np.array([-1.0, 0.0, 1.0]), smooth, smooth))
    for size in (3, 5):
        weights = np.random.default_rng(size).standard_normal((size,) * 3).astype(np.float32)
        yield Filter(f"correlate {size}", functools.partial(_correlate, weights), weights=weights, passes=1)


def _correlate(weights: np.ndarray, of: Any, x: Any, y: Any) -> Any:
    return of.correlate(x, of.weights(weights), output=y)


def is_quick(row: VolumeLayer) -> bool:
    return row.taps == 3 and row.dtype != "bfloat16" or row.c == 1


def run(context: Context) -> None:
    trial = context.device.trial
    chosen = [row for row in sorted(layers(), key=is_quick, reverse=True) if is_quick(row) or not context.quick]
    side = SIDE
    if trial:       # the same keys, small arrays
        chosen, side = [replace(row, **TRIAL, n=1) for row in chosen if row.c > 1][:12], 24
    called = list(filters())
    context.expect(1 + len(chosen) + len(called))
    if not context.pending(row.key for row in (*chosen, *called)):
        return
    context.report.rows.pop("ceiling/sgemm", None)
    context.say("compiling")
    tuning = tuning_table(context.device)
    compile_ahead(context.device, [functools.partial(_plan, context, row, tuning) for row in chosen
                                   if not context.report.done(row.key)])
    gemm = context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(context.device), kind="ceiling").get("tflops")
    for each in called:
        context.device.free()
        context.row(each.key, functools.partial(measure_filter, context, each, side, gemm or math.inf), kind="filter",
                    name=each.name)
    for row in chosen:
        context.device.free()
        context.row(row.key, functools.partial(measure_layer, context, row, tuning, gemm or math.inf), kind="layer",
                    operation=row.operation, taps=row.taps, dtype=row.format, sizes=f"{row.n} x {row.c} x {row.d}")


# ---- layers

class Operands:
    """Rotating arrays of a layer, and the calls on them."""

    def __init__(self, device: Any, row: VolumeLayer):
        self.device, self.row, shape = device, row, row.shape
        self.sets = 1 if device.trial else rotation(2 * shape.dtype.itemsize * math.prod(shape.input_shape))
        stored = shape.layout.stored
        self.x = [_logical(row, device.random(stored(shape.input_shape), 1 + i, shape.dtype)) for i in range(self.sets)]
        self.dy = [_logical(row, device.random(stored(shape.output_shape), 500 + i, shape.dtype))
                   for i in range(self.sets)]
        self.w = device.random(shape.weight_shape, 1000, shape.dtype)
        if row.operation == "filter_gradient":
            self.made = [device.poisoned(shape.weight_shape, shape.dtype) for _ in range(self.sets)]
        else:
            self.made = [_logical(row, device.poisoned(stored(shape.output_shape), shape.dtype))
                         for _ in range(self.sets)]

    def ours(self, i: int) -> Any:
        row = self.row
        layer = {"padding": row.taps // 2, "groups": row.c, "device": self.device.target, "out": self.made[i]}
        if row.operation == "forward":
            return warpconv.conv3d(self.x[i], self.w, **layer)
        if row.operation == "data_gradient":
            return warpconv.conv3d_input(tuple(self.x[i].shape), self.w, self.dy[i], **layer)
        return warpconv.conv3d_weight(self.x[i], tuple(self.w.shape), self.dy[i], **layer)

    def torch(self, i: int) -> Any:
        torch, row = self.device.torch, self.row
        if row.operation == "forward":
            return torch.nn.functional.conv3d(self.x[i], self.w, padding=row.taps // 2, groups=row.c)
        data = row.operation == "data_gradient"
        found = torch.ops.aten.convolution_backward(
            self.dy[i], self.x[i], self.w, None, [1] * 3, [row.taps // 2] * 3, [1] * 3, False, [0] * 3, row.c,
            [data, not data, False])
        return found[0] if data else found[1]

    def exact(self) -> Any:
        """The first channels of the first result in float64: of the first image, a filter's gradient of all."""
        device, taps, dy = self.device, self.row.taps, self.dy[0][:, :CHECKED]
        if self.row.operation == "filter_gradient":
            padded, dy = _padded(device, self.x[0][:, :CHECKED], taps), device.double(dy)
            found = device.zeros((CHECKED, 1, taps, taps, taps))
            for tap, part in _parts(padded, taps, dy.shape[2:]):
                found[(slice(None), 0, *tap)] = (part * dy).sum((0, 2, 3, 4))
            return found
        forward = self.row.operation == "forward"
        source = (self.x[0] if forward else self.dy[0])[:1, :CHECKED]
        padded, found = _padded(device, source, taps), device.zeros(tuple(source.shape))
        w = device.double(self.w)[:CHECKED, 0]
        for tap, part in _parts(padded, taps, source.shape[2:]):
            at = tap if forward else tuple(taps - 1 - i for i in tap)
            device.add_product(found, part, w[(slice(None), *at)][None, :, None, None, None])
        return found


def _logical(row: VolumeLayer, array: Any) -> Any:
    """An array in memory order with its axes as (N, C, D, H, W)."""
    if row.layout != "NHWC":
        return array
    return array.permute(0, 4, 1, 2, 3) if hasattr(array, "permute") else array.transpose(0, 4, 1, 2, 3)


def _padded(device: Any, array: Any, taps: int) -> Any:
    side = taps // 2
    made = device.zeros((*array.shape[:2], *(size + 2 * side for size in array.shape[2:])))
    inside = tuple(slice(side, side + size) for size in array.shape[2:])
    made[(slice(None), slice(None), *inside)] = device.double(array)
    return made


def _parts(padded: Any, taps: int, sizes: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    for tap in itertools.product(range(taps), repeat=3):
        yield tap, padded[(slice(None), slice(None), *(slice(at, at + size) for at, size in zip(tap, sizes)))]


def measure_layer(context: Context, row: VolumeLayer, tuning: Any, gemm: float) -> dict[str, Any]:
    """A row's values. Raises WrongResult, and what a launch raises."""
    device, data = context.device, Operands(context.device, row)
    exact = data.exact()
    of = (slice(0, 1), slice(0, CHECKED)) if row.operation != "filter_gradient" else (slice(0, CHECKED),)
    plan = _plan(context, row, tuning)
    found: dict[str, Any] = {"error": checked(device, data.ours(0)[of], exact, TOLERANCES[row.dtype], "ours"),
                             "algorithm": plan.spec.algorithm, "settings": plan.settings()}
    sources = [device.random(tuple(x.shape), 9, row.shape.dtype) for x in data.x]
    targets = [device.poisoned(tuple(x.shape), row.shape.dtype) for x in data.x]
    calls: dict[str, Callable[[int], Any]] = {"ours": data.ours, "copy": lambda i: device.copy(targets[i], sources[i])}
    if device.kind == "torch":
        calls["torch"] = data.torch
        found["torch_error"] = checked(device, data.torch(0)[of], exact, TOLERANCES[row.dtype], "torch")
    times = _times(device, calls, data.made[0], data.sets)
    found |= times["ours"].fields() | floor(row.shape, times["copy"].ms, gemm).fields(times["ours"].ms)
    if "torch" in times:
        found |= {"torch_ms": times["torch"].ms, "torch_speedup": times["torch"].ms / times["ours"].ms}
    return found


def beside_torch(device: Any, data: Any, plan: Any, dtype: str,
                 of_time: Callable[[float], dict[str, Any]]) -> dict[str, Any]:
    """A layer's values beside PyTorch's, each checked before it is timed: ``data`` has the calls of both, what they are
    held against and which ``part`` of a result that is; ``of_time`` makes more of our milliseconds. Raises
    WrongResult."""
    exact, tolerance = data.exact(), TOLERANCES[dtype]
    found: dict[str, Any] = {"error": checked(device, data.part(data.ours(0)), exact, tolerance, "ours"),
                             "algorithm": plan.spec.algorithm, "settings": plan.settings()}
    calls: dict[str, Callable[[int], Any]] = {"ours": data.ours}
    if device.kind == "torch":
        calls["torch"] = data.torch
        found["torch_error"] = checked(device, data.part(data.torch(0)), exact, tolerance, "torch")
    times = _times(device, calls, data.made[0], data.sets)
    found |= times["ours"].fields() | of_time(times["ours"].ms)
    if "torch" in times:
        found |= {"torch_ms": times["torch"].ms, "torch_speedup": times["torch"].ms / times["ours"].ms}
    return found


def _times(device: Any, calls: dict[str, Callable[[int], Any]], made: Any, sets: int = 1) -> dict[str, Any]:
    return dict(zip(calls, measure_together(
        device, [[functools.partial(call, i) for i in range(sets)] for call in calls.values()],
        written=[made if name == "ours" else None for name in calls])))


def checked(device: Any, got: Any, exact: Any, tolerance: float, whose: str) -> float:
    device.synchronize()
    difference = device.double(got) - exact
    error = float((difference ** 2).sum() ** 0.5 / (exact ** 2).sum() ** 0.5)
    if not error <= tolerance:
        raise WrongResult(f"{whose}: relative error {error:.3g}")
    return error


def _plan(context: Context, row: VolumeLayer, tuning: Any) -> Any:
    return plan_layer(row.shape, arch=context.device.arch, tuning=tuning, operation=row.operation)


# ---- filters

class _Ours:
    """SciPy's calls as warpconv has them, on a device."""

    def __init__(self, device: Any):
        self._device = device

    def weights(self, weights: np.ndarray) -> Any:
        return weights

    def __getattr__(self, name: str) -> Any:
        return functools.partial(getattr(warpconv, name), device=self._device.target)


class _Cupy:
    """CuPy's ndimage, on torch's arrays: what they show is the same memory."""

    def __init__(self, device: Any):
        self.cupy, self.ndimage = cupy_and_ndimage(device)
        self._device = device
        self._kept: dict[tuple[int, ...], Any] = {}

    def weights(self, weights: np.ndarray) -> Any:
        """On the GPU, copied once."""
        if weights.shape not in self._kept:
            self._kept[weights.shape] = self.cupy.asarray(weights)
        return self._kept[weights.shape]

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.ndimage, name)

        def call(x: Any, *arguments: Any, output: Any) -> Any:
            with peers.cupy_stream(self._device, self.cupy):
                function(self.cupy.asarray(x), *arguments, output=self.cupy.asarray(output))
            return output

        return call


def corner(each: Filter, x: np.ndarray, wanted: int) -> np.ndarray:
    """The first elements along each axis of a filter's result in float64, of a corner of its input that reaches as far
    as the taps do."""
    sizes = each.weights.shape if each.weights is not None else tuple(len(line) for line in each.lines)
    padded = np.pad(x.astype(np.float64), [(size // 2, 0) for size in sizes], mode="symmetric")
    if each.weights is not None:
        return sum(padded[tuple(slice(at, at + wanted) for at in tap)] * float(each.weights[tap])
                   for tap in np.ndindex(*sizes))
    for axis, line in enumerate(each.lines):
        length = padded.shape[axis] - len(line) + 1
        padded = sum(padded.take(range(i, i + length), axis) * value for i, value in enumerate(line))
    return padded[:wanted, :wanted, :wanted]


def measure_filter(context: Context, each: Filter, side: int, gemm: float) -> dict[str, Any]:
    """A row's values. Raises WrongResult, and what a launch raises."""
    device, wanted = context.device, min(CORNER, side // 2)
    x, y = device.random((side,) * 3, 1), device.poisoned((side,) * 3)
    taken = device.double(x[:2 * wanted, :2 * wanted, :2 * wanted])
    exact = corner(each, taken if device.kind == "host" else taken.cpu().numpy(), wanted)
    exact = exact if device.kind == "host" else device.library.asarray(exact).to(x.device)
    of = (slice(0, wanted),) * 3
    ours = _Ours(device)
    each.call(ours, x, y)
    found: dict[str, Any] = {"error": checked(device, y[of], exact, TOLERANCES["float32"], "ours")}
    target = device.poisoned((side,) * 3)
    calls: dict[str, Callable[[int], Any]] = {"ours": lambda i: each.call(ours, x, y),
                                              "copy": lambda i: device.copy(target, x)}
    try:
        cupy, theirs = _Cupy(device), device.poisoned((side,) * 3)
        each.call(cupy, x, theirs)
        found["cupy_error"] = checked(device, theirs[of], exact, TOLERANCES["float32"], "cupy")
        calls["cupy"] = lambda i: each.call(cupy, x, theirs)
    except NoDevice as reason:
        found["cupy_reason"] = str(reason)
    times = _times(device, calls, y)
    taps = sum(map(len, each.lines)) if each.weights is None else each.weights.size
    least = max(each.passes * times["copy"].ms, 2 * taps * side ** 3 / gemm / 1e9)
    found |= times["ours"].fields() | {"copy_ms": times["copy"].ms, "floor_ms": least,
                                       "of_floor": least / times["ours"].ms}
    if "cupy" in times:
        found |= {"cupy_ms": times["cupy"].ms, "cupy_speedup": times["cupy"].ms / times["ours"].ms}
    return found


# ---- tables

def tables(rows: Rows) -> list[Table]:
    """Filters, then the layers of each pass."""
    measured = [row for row in rows.values() if row.get("ms") is not None]
    found = []
    lines = tuple((r["name"], r["ms"], r["copy_ms"], r["floor_ms"], r["of_floor"], r.get("cupy_ms"),
                   r.get("cupy_speedup")) for r in measured if r.get("kind") == "filter")
    if lines:
        columns = "call", "ms", "copy ms", "floor ms", "of the floor", "CuPy ms", "x CuPy"
        found.append(Table("Filters", columns, lines))
    for operation in PASSES:
        lines = tuple((r["taps"], r["dtype"], r["sizes"], r["algorithm"], r["ms"], r["copy_ms"], r["of_copy"],
                       r["of_floor"], r.get("torch_ms"), r.get("torch_speedup"))
                      for r in measured if r.get("kind") == "layer" and r["operation"] == operation)
        if lines:
            found.append(Table(operation.replace("_", " ").capitalize(), (
                "taps", "format", "N x C x D", "algorithm", "ms", "copy ms", "of copy", "of the floor", "PyTorch ms",
                "x PyTorch"), lines))
    missing = tuple((row["key"], row["status"]) for row in rows.values() if row["status"] != "ok")
    return found + ([Table("Not measured", ("row", "why"), missing)] if missing else [])


STUDY = Study("volumes", "depthwise 3D layers and filters of volumes, beside a copy, PyTorch and CuPy", ABOUT, run,
              tables)
