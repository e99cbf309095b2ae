"""Planes and depthwise layers at the memory wall: ours and every peer beside a device copy of the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bench.empty_kernel import launch_time
from bench.harness import chosen_by, compile_ahead, make_layer, run_kernel, tuning_table
from bench.peers import libraries as peers
from bench.study import Context, Rows, Stopped, Study
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

from . import wall_plots, wall_tables
from .floors import floor
from .wall_layers import LARGE_BYTES, WallLayer, layers

ROTATED = 256               # sets of buffers at most: the smallest planes pass the L2, too
LARGEST_CUPY = 7            # CuPy's larger filters take seconds a row

ABOUT = f"""
Every layer is planned as a call plans it (measured choices where the tuning table has the layer, else the planner's
rules; `chosen_by` in the CSV), checked and then timed beside a device copy of its input to its output (the same
buffers, types and order in memory; the quicker of one before ours and one after) and beside the peers. Buffers are
random and rotate through 256 MB, or {ROTATED} sets of them where that is less. Times are medians of 20 samples of about
a millisecond (`repeats` in the CSV: fewer where one call takes long), behind a spinning kernel so that the host does
not show; calls below 0.1 ms are replayed as a CUDA graph where they can be captured.

Checked: every output of the first two and the last image against float64, tap by tap, within the rounding error that
sums in float32 (and one rounding to 16 bits) may have; all other outputs for having been written and not being NaN.
Peers are held to a relative error in norm of 1e-4 (float32), 3e-3 (float16), 2e-2 (bfloat16).

- "of copy" is the time of the copy over ours. The floor is the larger of that copy and the FLOPs of the taps inside the
  image at this run's SGEMM rate; "of the floor" is the floor over our time. A kernel on tensor cores can pass a floor
  that SGEMM sets.
- Small planes are compared with the time of an empty kernel's launch plus that of a copy of the same bytes. Each of the
  two, ours and the peers are replayed from CUDA graphs of many calls, so that Python plays no part; the column of the
  table is that sum over our time. A peer that cannot be captured is timed behind the spinning kernel.
- Peers: NPP's FilterBorder_32f (replicated border; its inside is checked), CuPy's ndimage.correlate (up to
  {LARGEST_CUPY}x{LARGEST_CUPY}), and PyTorch's conv2d, which is called cuDNN here (cuDNN or a kernel of PyTorch's own,
  as it chooses; benchmark mode, TF32 off; channels_last tensors and filter for NHWC). "x" is a peer's time over ours.
- Depthwise layers have a floor to meet where they move more than {LARGE_BYTES / 1e6:.0f} MB. Those of float32 in NHWC,
  and large filters in NHWC, are extra rows without a target.
"""


def run(context: Context) -> None:
    chosen = [wall for wall in layers() if wall.quick or not context.quick]
    context.expect(3 + len(chosen))
    pending = [wall for wall in chosen if not context.report.done(wall.key)]
    if not pending:
        return
    for key in ("ceiling/sgemm", "ceiling/copy", "ceiling/launch"):     # a ceiling belongs to its run
        context.report.rows.pop(key, None)
    context.say("compiling")
    tuning = tuning_table(context.device)
    compile_ahead(context.device, [lambda wall=wall: _plan(context, wall, tuning) for wall in pending])
    gemm = context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(context.device), kind="ceiling").get("tflops")
    context.row("ceiling/copy", lambda: peers.copy_ceiling(context.device), kind="ceiling")
    launch = context.row("ceiling/launch", lambda: launch_time(context.device), kind="ceiling").get("ms")
    if gemm is None and not context.device.trial:
        raise Stopped(f"no floor without the SGEMM rate: {context.report.rows['ceiling/sgemm']['status']}")
    for wall in chosen:
        context.row(wall.key, lambda wall=wall: measure_layer(context, wall, tuning, gemm or math.inf, launch),
                    **fields_of(wall))


def fields_of(wall: WallLayer) -> dict[str, Any]:
    """What a row says of its layer."""
    s = wall.shape
    return {"kind": "layer", "group": wall.group, "name": wall.name, "n": s.n, "c": s.c, "size": s.h, "filter": s.r,
            "dtype": s.dtype.value, "layout": s.layout.value, "extra": wall.extra, "moved": wall.moved}


def measure_layer(context: Context, wall: WallLayer, tuning: Any, gemm: float,
                  launch: float | None) -> dict[str, Any]:
    """A row's values. Raises UnsupportedSpec where no algorithm serves the layer, WrongResult, or what a launch raises;
    a peer's failure is told in the row."""
    device, plan, small = context.device, _plan(context, wall, tuning), wall.group == "small planes"
    shape = _shape(context, wall)
    layer = make_layer(device, shape, most=ROTATED)
    copier = peers.PLANE_PEERS[0]
    before = peers.run_peer(device, layer, copier)
    found = run_kernel(device, layer, plan, prepared=plan.program.preparation is not None)
    copy = min(before, peers.run_peer(device, layer, copier), key=lambda timed: timed["ms"])
    ms = found["ms"]
    found |= floor(shape, copy["ms"], gemm).fields(ms)
    moved = shape.dtype.itemsize * (math.prod(shape.input_shape) + math.prod(shape.output_shape))
    found |= {"gbs": moved / ms / 1e6, "tflops": found["flops"] / ms / 1e9, "intensity": found["flops"] / moved,
              "copy_method": copy["method"], "algorithm": plan.spec.algorithm, "settings": plan.settings(),
              "chosen_by": chosen_by(shape, plan, tuning)}
    if small and launch is not None:
        found |= {"launch_ms": launch, "of_launch_and_copy": (launch + copy["ms"]) / ms}
    for peer in peers_of(wall):
        found |= {f"{peer.name}_{name}": value for name, value in _peer(device, layer, peer, ms, small).items()}
    found |= _judged(wall, found)
    del layer
    device.free()
    return found


def peers_of(wall: WallLayer) -> list[peers.Peer]:
    """The libraries that serve a layer's kind."""
    plane = wall.group.endswith("planes") and wall.shape.dtype.itemsize == 4
    served = {"cuDNN": True, "NPP": plane, "CuPy": plane and wall.shape.r <= LARGEST_CUPY}
    return [peer for peer in peers.PLANE_PEERS if served.get(peer.name)]


def _peer(device: Any, layer: Any, peer: peers.Peer, ms: float, small: bool) -> dict[str, Any]:
    try:
        timed = peers.run_peer(device, layer, peer, graph=True if small else None)
    except Exception as error:          # a peer that is missing, wrong or out of memory is told, not timed
        device.synchronize()            # if the device is lost, the row fails and the study stops
        device.free()
        return {"reason": f"{type(error).__name__}: {error}"[:200]}
    return {"ms": timed["ms"], "speedup": timed["ms"] / ms, "method": timed["method"], "error": timed["error"]}


def _judged(wall: WallLayer, row: dict[str, Any]) -> dict[str, Any]:
    """The row's targets with what was reached, and whether all are met: None where one could not be measured."""
    targets = [{"target": t.name, "field": t.field, "must": t.must, "aim": t.aim, "reached": row.get(t.field),
                "met": None if row.get(t.field) is None else row[t.field] >= t.must}
               for t in wall.targets(row["bound"])]
    each = [t["met"] for t in targets]
    met = False if False in each else None if None in each or not each else True
    return {"targets": targets, "met": met}


def _shape(context: Context, wall: WallLayer) -> ConvShape:
    return wall.trial if context.device.trial else wall.shape


def _plan(context: Context, wall: WallLayer, tuning: Any) -> Any:
    return plan_layer(_shape(context, wall), arch=context.device.arch, tuning=tuning)


PLOTS: dict[str, Callable[[Rows, Any], None]] = {"roofline": wall_plots.roofline, "of-floor": wall_plots.of_floor}

STUDY = Study("memory_wall", "planes and depthwise layers beside a copy of the same bytes, NPP, cuDNN and CuPy", ABOUT,
              run, wall_tables.tables, plots=PLOTS)
