"""Depthwise layers of one axis: causal forward with silu, and both gradients, beside a copy, PyTorch and Triton."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import warpconv
from bench.devices import NoDevice
from bench.harness import compile_ahead, make_layer, measure_together, rotation, run_kernel, tuning_table
from bench.peers import libraries as peers
from bench.reference import WrongResult
from bench.report.files import Table
from bench.study import Context, Rows, Study
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import parse_epilogue
from warpconv.runtime.call.way import TALLEST

from .floors import floor

N, C, L = 8, 2048, 4096
PASSES = ("forward", "data_gradient", "filter_gradient")
TAPS, LONG_TAPS = (4, 7), (31, 63, 127, 255)
DTYPES, LAYOUTS = ("float32", "float16", "bfloat16"), ("NCL", "NLC")
TRIAL = {"n": 2, "c": 8, "length": 64}
TOLERANCES = {"float32": 1e-4, "float16": 3e-3, "bfloat16": 2e-2}      # relative, in norm
CHECKED = 2         # sequences of an output or a data gradient, channels of a filter's, that are made in float64
STEPS = tuple(parse_epilogue((), bias=True, activation="silu", takes_bias=True))

_WIDE = {"span": "strips", "sub_block_rows": 1, "prefetch_rows": 1, "stage_steps": 1}
_LANES = {"float32": 4, "float16": 8, "bfloat16": 8}    # elements of 16 bytes

ABOUT = f"""
Depthwise layers of {N} x {C} channels x {L} elements, stride 1, causal padding (taps - 1 on the left). *forward*:
`conv1d` with a bias and silu, one kernel; *data gradient* and *filter gradient*: `conv1d_input` and `conv1d_weight` of
the layer without them. Arrays have axes (N, C, L), over memory in that order or in (N, L, C). Planned as calls are, by
rule or by what was measured. Beside them, samples taken in turn, in CUDA graphs where they can be captured:

- a device copy that moves the least bytes, input and output (or their gradients) once;
- PyTorch: `silu(conv1d(x, w, b, padding=taps - 1)[..., :L])`, and `torch.ops.aten.convolution_backward` with the
  gradient of that slice; cuDNN in benchmark mode, TF32 off;
- Triton: a causal kernel with bias and silu of this repository (`bench/peers/triton_causal.py`), up to 32 taps.

Checked before it is timed, ours and the peers': {CHECKED} sequences of outputs and data gradients, {CHECKED} channels
of filter gradients against float64, tap by tap: a relative error in norm of
{", ".join(f"{v:g} ({k})" for k, v in TOLERANCES.items())} at most; and a second call of ours gives the same bits. The
floor is the larger of the copy's time and the FLOPs of the taps inside the sequence at this run's SGEMM rate.

*Plans*: the forward layer without bias and silu, by other plan values than the rule's, and in NLC as one row of a plane
instead of one column: what the rules for sequences could be.
"""


@dataclass(frozen=True)
class LineLayer:
    """A row: a layer of one axis and what of it is computed."""

    operation: str
    taps: int
    dtype: str
    layout: str
    n: int = N
    c: int = C
    length: int = L

    @property
    def key(self) -> str:
        return f"{self.operation}/{self.taps}/{self.dtype}/{self.layout}"

    @property
    def shape(self) -> ConvShape:
        """The plane that the call sees it as."""
        return self.plane(column=self.layout == "NLC" and self.taps <= TALLEST)

    def plane(self, column: bool) -> ConvShape:
        sides = (self.taps - 1, 0)
        axes = ({"h": self.length, "w": 1, "r": self.taps, "s": 1, "padding": (sides, (0, 0))} if column else
                {"h": 1, "w": self.length, "r": 1, "s": self.taps, "padding": ((0, 0), sides)})
        return ConvShape(n=self.n, c=self.c, k=self.c, groups=self.c, dtype=self.dtype,
                         layout="NHWC" if self.layout == "NLC" else "NCHW", **axes)

    @property
    def moved(self) -> int:
        """The least bytes: input and output, or their gradients, once."""
        return 2 * self.shape.dtype.itemsize * self.n * self.c * self.length


@dataclass(frozen=True)
class PlanRow:
    """Another plan of a forward layer."""

    name: str
    layer: LineLayer
    algorithm: str
    settings: dict[str, Any]
    column: bool = False

    @property
    def key(self) -> str:
        return f"plan/{self.layer.taps}/{self.layer.dtype}/{self.layer.layout}/{self.name}"


def layers() -> Iterator[LineLayer]:
    for taps in (*TAPS, *LONG_TAPS):
        for dtype in DTYPES:
            for layout in LAYOUTS:
                for operation in PASSES:
                    yield LineLayer(operation, taps, dtype, layout)


def is_quick(row: LineLayer) -> bool:
    return row.taps in (4, 31) and row.dtype != "bfloat16"


def plans() -> Iterator[PlanRow]:
    """Plan values worth a look, by what they move and keep: docs/one-dimension.md."""
    for taps in (7, 31):
        layer = LineLayer("forward", taps, "float32", "NCL")
        for outputs, team in ((8, 64), (16, 128)):
            yield PlanRow(f"{outputs} outputs a thread, {team} threads", layer, "sequence", {
                "outputs": outputs, "team": team})
        layer = replace(layer, layout="NLC")
        for outputs, channels in ((16, 32), (32, 8)):
            yield PlanRow(f"column, {outputs} outputs a thread, {channels} channels", layer, "sequence", {
                "outputs": outputs, "sequences": channels, "team": 128 // channels}, column=True)
    for taps in (4, 7, 31):
        for dtype in ("float32", "float16"):
            layer, wide = LineLayer("forward", taps, dtype, "NCL"), _LANES[dtype]
            vectors = {**_WIDE, "vector": wide, "store_vector": wide}
            yield PlanRow("rule", layer, "auto", {})
            yield PlanRow("8 rows ahead", layer, "wide", {**vectors, "columns": wide, "sub_block_rows": 16,
                                                          "prefetch_rows": 8, "stage_steps": 2, "loads": "cached"})
            yield PlanRow("shared weights", layer, "wide", {"weights": "shared"})
            yield PlanRow("cached", layer, "wide", {**vectors, "columns": wide, "loads": "cached"})
            for many in (1, 2, 4):
                yield PlanRow(f"{many} loads a lane", layer, "wide", {
                    **vectors, "columns": many * wide, "loads": "registers", "pipeline": "copied"})
            yield PlanRow("8 warps a block", layer, "wide", {"warp_columns": 8})
            layer = replace(layer, layout="NLC")
            yield PlanRow("rule, column", layer, "auto", {}, column=True)
            yield PlanRow("rule, row", layer, "auto", {})
            for rows in (14, 56, 112):
                yield PlanRow(f"column, {rows} rows", layer, "channels", {"sub_block_rows": rows}, column=True)
            for vector in (2, 4, 8)[:3 if dtype == "float16" else 2]:
                if taps * vector <= 64:
                    yield PlanRow(f"column, ring of {vector} channels", layer, "channels", {
                        "body": "ring", "vector": vector, "columns": 1, "width": "whole", "sub_block_rows": 28,
                        "prefetch_rows": 2, "block_channels": 128, "block_columns": 1, "block_rows": 1}, column=True)


def run(context: Context) -> None:
    trial = context.device.trial
    chosen = [row for row in sorted(layers(), key=is_quick, reverse=True) if is_quick(row) or not context.quick]
    others = [row for row in plans() if row.layer.taps in (4, 31) or not context.quick]
    if trial:       # the same keys, small arrays
        chosen, others = [replace(row, **TRIAL) for row in chosen[:6]], []
    context.expect(1 + len(chosen) + len(others))
    if not context.pending(row.key for row in (*chosen, *others)):
        return
    context.report.rows.pop("ceiling/sgemm", None)
    context.say("compiling")
    tuning = tuning_table(context.device)
    made: list[Callable[[], Any]] = [functools.partial(_plan, context, row, tuning) for row in chosen
                                     if not context.report.done(row.key)]
    compile_ahead(context.device, made + [functools.partial(_other_plan, context, row) for row in others
                                          if not context.report.done(row.key)])
    gemm = context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(context.device), kind="ceiling").get("tflops")
    for row in chosen:
        context.device.free()
        context.row(row.key, functools.partial(measure_row, context, row, tuning, gemm or math.inf), kind="layer",
                    operation=row.operation, taps=row.taps, dtype=row.dtype, layout=row.layout)
    for other in others:
        context.device.free()
        context.row(other.key, functools.partial(_measure_plan, context, other), kind="plan", name=other.name,
                    taps=other.layer.taps, dtype=other.layer.dtype, layout=other.layer.layout)


# ---- a row

class _Operands:
    """Rotating arrays of a row, axes (N, C, L) over memory in its order, and the calls on them."""

    def __init__(self, device: Any, row: LineLayer):
        self.device, self.row, dtype = device, row, row.shape.dtype
        self.sets = 1 if device.trial else rotation(row.moved)
        plane, memory = (row.n, row.c, 1, row.length), Layout.NHWC if row.layout == "NLC" else Layout.NCHW
        self.x = [device.random(plane, 1 + i, dtype, memory)[:, :, 0] for i in range(self.sets)]
        self.dy = [device.random(plane, 500 + i, dtype, memory)[:, :, 0] for i in range(self.sets)]
        self.w = device.random((row.c, 1, 1, row.taps), 1000, dtype)[:, :, 0]
        self.b = device.random((row.c,), 1001, dtype)
        if row.operation == "filter_gradient":
            self.made = [device.poisoned((row.c, 1, row.taps), dtype) for _ in range(self.sets)]
        else:
            self.made = [device.poisoned(plane, dtype, memory)[:, :, 0] for _ in range(self.sets)]

    def ours(self, i: int) -> Any:
        layer = {"padding": "causal", "groups": self.row.c, "device": self.device.target, "out": self.made[i]}
        if self.row.operation == "forward":
            return warpconv.conv1d(self.x[i], self.w, self.b, activation="silu", **layer)
        if self.row.operation == "data_gradient":
            return warpconv.conv1d_input(tuple(self.x[i].shape), self.w, self.dy[i], **layer)
        return warpconv.conv1d_weight(self.x[i], tuple(self.w.shape), self.dy[i], **layer)

    def torch(self, i: int) -> Any:
        """PyTorch's, as modules have it: padded on both sides, the right end cut off."""
        torch, row = self.device.torch, self.row
        functional, border = torch.nn.functional, row.taps - 1
        if row.operation == "forward":
            made = functional.conv1d(self.x[i], self.w, self.b, padding=border, groups=row.c)
            return functional.silu(made[..., :row.length])
        data = row.operation == "data_gradient"
        found = torch.ops.aten.convolution_backward(
            functional.pad(self.dy[i], (0, border)), self.x[i], self.w, None, [1], [border], [1], False, [0], row.c,
            [data, not data, False])
        return found[0] if data else found[1]

    def triton(self) -> Callable[[int], Any]:
        """Triton's call. Raises NoDevice where there is none."""
        if self.row.operation != "forward":
            raise NoDevice("it is a forward kernel")
        try:
            from bench.peers import triton_causal
        except ImportError as error:
            raise NoDevice(f"Triton cannot be imported ({error})") from None
        if self.row.taps > triton_causal.MOST_TAPS:
            raise NoDevice(f"its taps are unrolled, at most {triton_causal.MOST_TAPS}")
        outputs, w = [self.device.torch.full_like(y, float("nan")) for y in self.made], self.w[:, 0]

        def call(i: int) -> Any:
            triton_causal.causal_silu(self.x[i], w, self.b, outputs[i], self.row.layout)
            return outputs[i]

        return call

    def exact(self) -> Any:
        """The first results in float64."""
        device, row = self.device, self.row
        if row.operation == "filter_gradient":
            x, dy = (device.double(array[:, :CHECKED]) for array in (self.x[0], self.dy[0]))
            padded, found = _padded(device, x, row), device.zeros((CHECKED, 1, row.taps))
            for tap in range(row.taps):
                found[:, 0, tap] = (padded[:, :, tap:tap + row.length] * dy).sum((0, 2))
            return found
        count, w = min(CHECKED, row.n), device.double(self.w)
        sums = device.zeros((count, row.c, row.length + row.taps - 1))
        if row.operation == "data_gradient":
            for tap in range(row.taps):
                device.add_product(sums[:, :, tap:tap + row.length], device.double(self.dy[0][:count]),
                                   w[None, :, 0, tap, None])
            return sums[:, :, row.taps - 1:]
        padded, sums = _padded(device, device.double(self.x[0][:count]), row), sums[:, :, :row.length]
        for tap in range(row.taps):
            device.add_product(sums, padded[:, :, tap:tap + row.length], w[None, :, 0, tap, None])
        sums = sums + device.double(self.b)[:, None]
        return sums / (1 + device.library.exp(-sums))


def _padded(device: Any, x: Any, row: LineLayer) -> Any:
    padded = device.zeros((*x.shape[:2], row.length + row.taps - 1))
    padded[:, :, row.taps - 1:] = x
    return padded


def measure_row(context: Context, row: LineLayer, tuning: Any, gemm: float) -> dict[str, Any]:
    """A row's values. Raises WrongResult, and what a launch raises."""
    device, data = context.device, _Operands(context.device, row)
    exact = data.exact()
    error = _checked(device, data.ours(0), exact, row, "ours")
    first = device.double(data.made[0])
    data.ours(0)
    if not bool((device.double(data.made[0]) == first).all()):
        raise WrongResult("two calls differ, or an output is not written")
    plan = _plan(context, row, tuning)
    found: dict[str, Any] = {"error": error, "algorithm": plan.spec.algorithm, "settings": plan.settings(),
                             "moved": row.moved}
    calls = {"ours": data.ours, "copy": _copy(device, data)}
    if device.kind == "torch":
        calls["torch"] = data.torch
        try:
            calls["triton"] = data.triton()
        except NoDevice as reason:
            found["triton_reason"] = str(reason)
        for name in [name for name in ("torch", "triton") if name in calls]:
            found[f"{name}_error"] = _checked(device, calls[name](0), exact, row, name)
    times = dict(zip(calls, measure_together(
        device, [[functools.partial(call, i) for i in range(data.sets)] for call in calls.values()],
        written=[data.made[0] if name == "ours" else None for name in calls])))
    found |= times["ours"].fields() | floor(row.shape, times["copy"].ms, gemm).fields(times["ours"].ms)
    for name in ("torch", "triton"):
        if name in times:
            found |= {f"{name}_ms": times[name].ms, f"{name}_speedup": times[name].ms / times["ours"].ms}
    return found


def _copy(device: Any, data: _Operands) -> Callable[[int], Any]:
    elements = data.row.n * data.row.c * data.row.length
    targets = [device.poisoned((elements,), data.row.shape.dtype) for _ in data.x]
    sources = [device.random(tuple(target.shape), i, data.row.shape.dtype) for i, target in enumerate(targets)]
    return lambda i: device.copy(targets[i], sources[i])


def _checked(device: Any, got: Any, exact: Any, row: LineLayer, whose: str) -> float:
    device.synchronize()
    difference = device.double(got[:len(exact)]) - exact
    error = float((difference ** 2).sum() ** 0.5 / (exact ** 2).sum() ** 0.5)
    if not error <= TOLERANCES[row.dtype]:
        raise WrongResult(f"{whose}: relative error {error:.3g}")
    return error


def _plan(context: Context, row: LineLayer, tuning: Any) -> Any:
    forward = row.operation == "forward"
    return plan_layer(row.shape, arch=context.device.arch, tuning=tuning, operation=row.operation,
                      epilogue=STEPS if forward else ())


def _other_plan(context: Context, row: PlanRow) -> Any:
    return plan_layer(row.layer.plane(row.column), algorithm=row.algorithm, settings=row.settings or None,
                      arch=context.device.arch)


def _measure_plan(context: Context, row: PlanRow) -> dict[str, Any]:
    plan, layer = _other_plan(context, row), make_layer(context.device, row.layer.plane(row.column), most=4)
    found = run_kernel(context.device, layer, plan)
    return {**found, "algorithm": plan.spec.algorithm, "settings": plan.settings(),
            "gbs": row.layer.moved / found["ms"] / 1e6}


# ---- tables

def tables(rows: Rows) -> list[Table]:
    """Means for each pass and format, every row, then the other plans."""
    measured = [row for row in rows.values() if row.get("kind") == "layer" and row.get("ms") is not None]
    found = [_means(measured)]
    for operation in PASSES:
        chosen = [row for row in measured if row["operation"] == operation]
        if chosen:
            found.append(_rows(chosen, operation.replace("_", " ").capitalize()))
    tried = tuple((r["taps"], f"{r['dtype']} {r['layout']}", r["name"], r["algorithm"], r["ms"], r["gbs"],
                   r.get("registers")) for r in rows.values() if r.get("kind") == "plan" and r.get("ms") is not None)
    if tried:
        found.append(Table("Plans", ("taps", "format", "plan", "algorithm", "ms", "GB/s", "registers"), tried))
    missing = tuple((row["key"], row["status"]) for row in rows.values() if row["status"] != "ok")
    return found + ([Table("Not measured", ("row", "why"), missing)] if missing else [])


def _means(measured: list[dict[str, Any]]) -> Table:
    lines = []
    for operation in PASSES:
        for said, taps in (("4, 7", TAPS), ("31 to 255", LONG_TAPS)):
            for dtype in DTYPES:
                for layout in LAYOUTS:
                    chosen = [r for r in measured if r["taps"] in taps and (r["operation"], r["dtype"], r["layout"])
                              == (operation, dtype, layout)]
                    if chosen:
                        lines.append((operation.replace("_", " "), said, f"{dtype} {layout}", len(chosen),
                                      _mean(chosen, "of_copy"), _mean(chosen, "of_floor"),
                                      min(r["of_floor"] for r in chosen), _mean(chosen, "torch_speedup"),
                                      min((r["torch_speedup"] for r in chosen if r.get("torch_speedup")), default=None),
                                      _mean(chosen, "triton_speedup")))
    return Table("In short", ("pass", "taps", "format", "rows", "of copy (geometric mean)", "of the floor", "least",
                              "x PyTorch", "least x", "x Triton"), tuple(lines))


def _mean(chosen: list[dict[str, Any]], field: str) -> float | None:
    values = [row[field] for row in chosen if row.get(field)]
    return statistics.geometric_mean(values) if values else None


def _rows(chosen: list[dict[str, Any]], title: str) -> Table:
    lines = tuple((r["taps"], f"{r['dtype']} {r['layout']}", r["algorithm"], r["ms"], r["copy_ms"], r["of_copy"],
                   r["of_floor"], r.get("torch_ms"), r.get("torch_speedup"), r.get("triton_ms"),
                   r.get("triton_speedup")) for r in chosen)
    return Table(title, ("taps", "format", "algorithm", "ms", "copy ms", "of copy", "of the floor", "PyTorch ms", "x",
                         "Triton ms", "x Triton"), lines)


STUDY = Study("one_dimension", "depthwise 1D layers, forward and gradients, beside a copy, PyTorch and Triton", ABOUT,
              run, tables)
