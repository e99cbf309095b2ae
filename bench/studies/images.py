"""Images: borders, pixels of 8 and 16 bits, Gaussians and epilogues, each beside what it is to be as quick as."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.harness import chosen_by, compile_ahead, measure_together, resources, rotation, tuning_table
from bench.peers import images as image_peers, libraries as peers
from bench.study import Context, Missing, Study
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue

from . import image_gauss, image_reference, image_tables
from .floors import floor
from .image_layers import BORDER_VALUE, TRUNCATE, Batch, Row, batches, gaussians
from .image_reference import SAMPLED_ROWS
from .image_tables import judged

ABOUT = f"""
Every layer is planned as a call plans it (measured choices where the tuning table has the layer, else the planner's
rules; `chosen_by` in the CSV), padding "same", checked and then timed. Rows of a batch (a layer with every border, a
layer with every epilogue) read the same input with the same filter, and their samples, as those of a device copy, are
taken in turns, so that what drifts drifts for all. Buffers are random and rotate through 256 MB. Times are medians of
20 samples of about a millisecond behind a spinning kernel; calls below 0.1 ms are replayed as a CUDA graph.

- "of copy": the time of a device copy that reads and writes as many bytes as the row (what a residual reads is half
  of a further image; of several filters over one image (1 + K)/2 copies of it) over the row's time. "of zeros": the
  time with a border of zeros over the row's. "of none": the row's part of its copy over that of the layer without an
  epilogue, which is the ratio of the times where both move the same bytes.
- The floor of a Gaussian is the larger of that copy and the FLOPs of two passes (2 (R + S) an output) at this run's
  SGEMM rate. sigma 1, 2, 4 have 9, 17 and 33 taps a side (truncate {TRUNCATE:g}).
- Checked: every output of ours against float64 within what sums in float32 may be off by, integers within what those
  may be rounded to (nearest, saturated), sums of integer filters exactly; behind an epilogue every {SAMPLED_ROWS}st row
  and those at both edges. A library is held to a relative error in norm of 1e-4 (inside where its border is another),
  for integers to one step, as it may cut off where we round; CuPy, which does not saturate, where nothing is out of
  range.
- Peers: PyTorch's conv2d behind torch.nn.functional.pad, called cuDNN here; cupyx.scipy.ndimage's correlate and
  gaussian_filter; the quicker of NPP's call that replicates the border and its call that leaves the border out. NPP's
  Gaussian is its own filter of a fixed size (read from what it makes of one bright pixel). The value of "constant" is
  {BORDER_VALUE}.
- int8 weights are -2 to 2, float weights of pixels are positive and sum to 1.
"""


@dataclass
class Data:
    """What the rows of a batch share: inputs and outputs that rotate, a filter, a bias and residuals, all random."""

    device: Any
    xs: tuple[Any, ...]
    w: Any
    sets: int
    bias: Any = None
    residuals: tuple[Any, ...] = ()
    outputs: dict[DType, tuple[Any, ...]] = field(default_factory=dict)

    def of(self, shape: ConvShape) -> Data:
        """The same with outputs of the shape's type in ``ys``."""
        if shape.y_dtype not in self.outputs:
            self.outputs[shape.y_dtype] = tuple(self.device.poisoned(shape.output_shape, shape.y_dtype)
                                                for _ in range(self.sets))
        self.ys = self.outputs[shape.y_dtype]
        return self


@dataclass
class Prepared:
    """A row that may be timed: calls that were checked, and what its row says besides its times."""

    row: Row
    calls: list[Callable[[], Any]]
    written: Any
    moved: int
    limits: Any
    fields: dict[str, Any]


def run(context: Context) -> None:
    device = context.device
    chosen, curves = list(batches(context.quick, device.trial)), list(gaussians(context.quick, device.trial))
    keys = [batch.key(row) for batch in chosen for row in batch.rows] + [f"gaussian/{curve.name}" for curve in curves]
    context.expect(2 + len(keys))
    if not context.pending(keys):
        return
    for key in ("ceiling/sgemm", "ceiling/copy"):       # a ceiling belongs to its run
        context.report.rows.pop(key, None)
    tuning = tuning_table(device)
    context.say("compiling")
    compile_ahead(device, [lambda row=row: _plan(context, row, tuning) for batch in chosen for row in batch.rows
                           if not context.report.done(batch.key(row))])
    gemm = context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(device), kind="ceiling").get("tflops")
    context.row("ceiling/copy", lambda: peers.copy_ceiling(device), kind="ceiling")
    device.free()
    for batch in chosen:
        _run_batch(context, batch, tuning, gemm)
    for curve in curves:
        context.row(f"gaussian/{curve.name}", lambda curve=curve: _with_targets(
            image_gauss.measure_curve(device, curve, gemm), curve.targets), kind="row", group="gaussian",
            batch="gaussian_filter, float32", name=curve.name, **judged({}, curve.targets))
        device.free()


def _run_batch(context: Context, batch: Batch, tuning: Any, gemm: float | None) -> None:
    """All rows of a batch that are still to be measured, and its first row, which they are compared with."""
    rows = [row for row in batch.rows if context.pending([batch.key(row)])]
    if rows:
        context.say(f"{batch.group}: {batch.name}")
        base = batch.rows[0] if batch.base else None
        found = _time(context, batch, [row for row in batch.rows if row in rows or row is base], tuning)
    for row in batch.rows:
        context.row(batch.key(row), lambda row=row: _finished(context, batch, row, found, gemm), kind="row",
                    group=batch.group, batch=batch.name, name=row.name, dtype=row.shape.dtype.value,
                    filter=row.shape.r, size=row.shape.h, **judged({}, row.targets))
    if rows:
        found.clear()
        context.device.free()


def _time(context: Context, batch: Batch, rows: list[Row], tuning: Any) -> dict[Any, Any]:
    """By row: what is prepared and its values, or why there are none; under None the batch's data."""
    device, data = context.device, _data(context.device, batch)
    found: dict[Any, Any] = {None: data}
    ready: list[Prepared] = []
    for row in rows:
        try:
            ready.append(_prepare(context, data.of(row.shape), row, tuning))
        except Exception as error:      # the row says it; a device that is lost is met again there
            found[row] = error
    sizes = sorted({prepared.moved for prepared in ready})
    copies = [_copies(device, moved, data.sets) for moved in sizes]
    written = [*[None] * len(copies), *(prepared.written for prepared in ready)]
    timed = measure_together(device, [*copies, *(prepared.calls for prepared in ready)], written=written)
    by_size = dict(zip(sizes, timed))
    for prepared, timing in zip(ready, timed[len(copies):]):
        prepared.fields |= {**timing.fields(), "copy_ms": by_size[prepared.moved].ms, "moved": prepared.moved,
                            "of_copy": by_size[prepared.moved].ms / timing.ms, "gbs": prepared.moved / timing.ms / 1e6}
        found[prepared.row] = prepared
    return found


def _data(device: Any, batch: Batch) -> Data:
    shape = batch.rows[0].shape
    sets = 1 if device.trial else rotation(_bytes(shape))
    xs = tuple(device.random(shape.input_shape, 1 + i, shape.dtype) for i in range(sets))
    data = Data(device, xs, _weights(device, shape), sets)
    steps = {step for row in batch.rows for step in row.epilogue}
    if "bias" in steps:
        data.bias = device.random((shape.k,), 2001)
    if "residual" in steps:
        data.residuals = tuple(device.random(shape.output_shape, 3001 + i) for i in range(sets))
    return data


def _weights(device: Any, shape: ConvShape) -> Any:
    """Random; of pixels such that many outputs are in range: positive, or whole numbers, with the sum 1."""
    w = device.random(shape.weight_shape, 1001)
    if shape.dtype.is_float:
        return w
    if shape.w_dtype.is_float:
        return abs(w) / abs(w).sum()
    w = device.library.floor(2.5 * w + 0.5)
    w[..., shape.r // 2, shape.s // 2] += 1 - w.sum()
    return device.converted(w, shape.w_dtype, Layout.NCHW)


def _prepare(context: Context, data: Data, row: Row, tuning: Any) -> Prepared:
    """Specialise a row's kernel and check its result. Raises Missing, WrongResult or what planning raises."""
    device, shape = context.device, row.shape
    plan = _plan(context, row, tuning)
    kernel = device.specialize(shape, plan)
    weight = kernel.prepare(data.w) if plan.program.preparation is not None else data.w
    bias, adds = data.bias if "bias" in row.epilogue else None, "residual" in row.epilogue
    more = [{"residual": residual} if adds else {} for residual in data.residuals or data.xs]
    calls = [lambda x=x, y=y, more=more: kernel(x, weight, bias, out=y, **more)
             for x, y, more in zip(data.xs, data.ys, more)]
    device.poison(data.ys[0])
    calls[0]()
    device.synchronize()
    limits = image_reference.limits(device, data.xs[0], data.w, shape, plan.spec.epilogue, bias,
                                    data.residuals[0] if adds else None)
    fields = {"error": limits.check(device, data.ys[0]), "algorithm": plan.spec.algorithm, "settings": plan.settings(),
              "chosen_by": chosen_by(shape, plan, tuning), **resources(kernel)}
    moved = _bytes(shape) + (np.prod(shape.output_shape, dtype=int) * shape.y_dtype.itemsize if adds else 0)
    return Prepared(row, calls, data.ys[0], int(moved), limits if row.peers else None, fields)


def _plan(context: Context, row: Row, tuning: Any) -> Any:
    try:
        steps = tuple(Epilogue.parse(step) for step in row.epilogue)
    except ArgumentError as error:
        raise Missing(f"the epilogue {', '.join(row.epilogue)}: {error}") from None
    return plan_layer(row.shape, arch=context.device.arch, epilogue=steps, tuning=tuning)


def _bytes(shape: ConvShape) -> int:
    """Bytes of the input read once and the output written once."""
    return int(np.prod(shape.input_shape, dtype=int) * shape.dtype.itemsize
               + np.prod(shape.output_shape, dtype=int) * shape.y_dtype.itemsize)


def _copies(device: Any, moved: int, sets: int) -> list[Callable[[], Any]]:
    """Copies that read and write as many bytes together."""
    floats = -(-moved // 8)
    pairs = [(device.random((floats,), 5001 + i), device.poisoned((floats,))) for i in range(sets)]
    return [lambda source=source, target=target: device.copy(target, source) for source, target in pairs]


def _finished(context: Context, batch: Batch, row: Row, found: Mapping[Any, Any], gemm: float | None) -> dict[str, Any]:
    """A row's values: its times, the ratio to the batch's first row, its libraries, what it reached."""
    prepared = found[row]
    if isinstance(prepared, Exception):
        raise prepared
    values, base = dict(prepared.fields), found.get(batch.rows[0])
    if batch.base and isinstance(base, Prepared):
        values[batch.base] = values["of_copy"] / base.fields["of_copy"]
    if gemm and row.shape.w_dtype.is_float:
        values |= floor(row.shape, values["copy_ms"], gemm).fields(values["ms"])
    data = found[None].of(row.shape)
    for name in row.peers:
        values |= image_peers.told(context.device, name, values["ms"], lambda name=name: image_peers.run(
            context.device, name, data, row.shape, prepared.limits))
    return _with_targets(values, row.targets)


def _with_targets(values: dict[str, Any], targets: Any) -> dict[str, Any]:
    return {**values, **judged(values, targets)}


STUDY = Study("images", "borders, 8- and 16-bit pixels, several filters, Gaussians and epilogues beside zeros, copy, "
              "NPP, CuPy, cuDNN", ABOUT, run, image_tables.tables, image_tables.plot)
