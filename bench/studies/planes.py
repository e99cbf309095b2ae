"""Planes of every size: all our algorithms beside cuDNN, CuPy, NPP, cuCIM and im2col, as the documents compare them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.harness import (Layer, chosen_by, compile_ahead, first_step, make_layer, run_kernel, time_first_step,
                           tuning_table)
from bench.peers import libraries as peers
from bench.study import Context, Study
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.resolution import Candidate
from warpconv.codegen.select import explain, plan_layer
from warpconv.codegen.shape import ConvShape

from . import planes_tables
from .floors import flops_inside
from .planes_tables import CHOICE
from .variants import plane

SIZES, QUICK_SIZES = (256, 512, 1024, 2048, 4096, 8192), (512, 4096)
FILTERS, QUICK_FILTERS = (3, 5, 7, 9, 11), (3, 5)
ROTATED = 256               # sets of buffers at most: 256^2 passes the L2, too
PEERS = (*peers.PLANE_PEERS, peers.IM2COL, peers.CUCIM)

ABOUT = f"""
One plane of float32, padding "same", a square filter. Every algorithm of the registry with the plan values that its
planner takes for the layer, and "{CHOICE}", what a call takes (measured choices where the tuning table has the layer,
else the planner's rules), beside the libraries. Each result was checked at every output against float64 before it was
timed: ours within the rounding error that sums in float32 may have, a library's to a relative error in norm of 1e-4.
Times are medians of at least 20 samples by CUDA events (10 where one call takes more than 5 ms, 5 above 50 ms); calls
below 0.1 ms are replayed as a CUDA graph where they can be captured, all others wait behind a spinning kernel, so
that the host does not show. Buffers are random and rotate through 256 MB, or {ROTATED} sets of them where that is
less (256^2 alone: 128 MB). A filter that a kernel takes prepared is prepared before.

The base of the speedups, as the documents plot them, is the GEMM on an im2col matrix: the quicker of ours (`im2col`)
and PyTorch's with cuDNN switched off, plane by plane in this run. So a figure of 2 is half its time. The times follow
in milliseconds, those of a call that begins with a transform also for the transform alone and for the rest; GB/s and
TFLOP/s stand in the CSV (each input read once and each output written once; the taps inside the image).

The documents' figures (CLUSTER 2020, an RTX 2080 Ti, Caffe's im2col as the base, 256^2 to 4096^2; they do not say how
"overall" averages, here it is the mean of the ratios) stand beside ours in the second table: once for their kernel as
a generated one (`reuse`), once for what a call takes. They measured no filter above 5x5. NPP and cuCIM replicate the
border (their inside is checked) and are otherwise the same sum; cuCIM's is `correlate_sparse`, the one of its
interface that takes any filter, with a pass for each tap.
"""


@dataclass(frozen=True)
class Entry:
    """One line of a plane: one of our plans, why there is none, or a peer."""

    name: str
    what: peers.Peer | Candidate

    @property
    def kind(self) -> str:
        return "peer" if isinstance(self.what, peers.Peer) else "ours"


def run(context: Context) -> None:
    sizes = QUICK_SIZES if context.quick else SIZES
    filters = QUICK_FILTERS if context.quick else FILTERS
    tuning, arch = tuning_table(context.device), context.device.arch
    context.say("planning")
    planes = {(taps, size): _entries(_shape(context, size, taps), arch, tuning) for taps in filters for size in sizes}
    context.expect(2 + sum(len(entries) for entries in planes.values()))
    context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(context.device), kind="ceiling")
    context.row("ceiling/copy", lambda: peers.copy_ceiling(context.device), kind="ceiling")
    context.device.free()
    context.say("compiling")
    plans = [entry.what.plan for (taps, size), entries in planes.items() for entry in entries if entry.kind == "ours"
             and entry.what.plan is not None and not context.report.done(_key(size, taps, entry.name))]
    compile_ahead(context.device, [lambda plan=plan: plan for whole in plans for plan in (whole, first_step(whole))
                                   if plan is not None])
    for (taps, size), entries in planes.items():
        _one_plane(context, size, taps, entries, tuning)


def _entries(shape: ConvShape, arch: str, tuning: Any) -> list[Entry]:
    """The peers, what a call would take, and every algorithm."""
    chosen = plan_layer(shape, arch=arch, tuning=tuning)
    origin = chosen_by(shape, chosen, tuning)
    choice = Candidate(algorithm=chosen.spec.algorithm, summary="", plan=chosen, reason=origin)
    return [*(Entry(peer.name, peer) for peer in PEERS), Entry(CHOICE, choice),
            *(Entry(candidate.algorithm, candidate) for candidate in explain(shape, arch))]


def _one_plane(context: Context, size: int, taps: int, entries: list[Entry], tuning: Any) -> None:
    keys = {_key(size, taps, entry.name): entry for entry in entries}
    shape = _shape(context, size, taps)
    layer = make_layer(context.device, shape, most=ROTATED) if context.pending(keys) else None
    for key, entry in keys.items():
        context.row(key, lambda entry=entry, layer=layer: _measure(context, layer, entry), kind=entry.kind,
                    name=entry.name, size=size, filter=taps)
    del layer
    context.device.free()


def _measure(context: Context, layer: Layer, entry: Entry) -> dict[str, Any]:
    if isinstance(entry.what, peers.Peer):
        found = peers.run_peer(context.device, layer, entry.what)
        context.device.free()           # an im2col matrix of PyTorch's may be most of the memory
    else:
        found = _measure_ours(context, layer, entry.what)
    shape = layer.shape
    moved = shape.dtype.itemsize * (shape.h * shape.w + shape.p * shape.q)
    flops = {} if entry.what is peers.PLANE_PEERS[0] else {"tflops": flops_inside(shape) / found["ms"] / 1e9}
    return {**found, "gbs": moved / found["ms"] / 1e6, **flops}


def _measure_ours(context: Context, layer: Layer, candidate: Candidate) -> dict[str, Any]:
    plan = candidate.plan
    if plan is None:
        raise UnsupportedSpec(None, candidate.reason)
    found: Mapping[str, Any] = run_kernel(context.device, layer, plan, prepared=plan.program.preparation is not None)
    return {"algorithm": plan.spec.algorithm, "chosen_by": candidate.reason, "settings": plan.settings(),
            "workspace_bytes": plan.program.workspace_bytes(layer.shape), **found,
            **time_first_step(context.device, layer, plan, graph=found["method"] == "graph")}


def _shape(context: Context, size: int, taps: int) -> ConvShape:
    return plane(max(24, size // 128) if context.device.trial else size, taps)


def _key(size: int, taps: int, name: str) -> str:
    return f"{taps}x{taps}/{size}/{name}"


STUDY = Study("planes", "planes of every size by every algorithm, beside cuDNN, CuPy, NPP, cuCIM, im2col", ABOUT, run,
              planes_tables.tables, planes_tables.plot)
