"""The slides' arithmetic intensity, planned and measured: their five kernels on one plane, on a roofline."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any

from bench.counters import ncu, stalls as ncu_stalls
from bench.counters.target import Case
from bench.devices import NoDevice
from bench.harness import Layer, compile_ahead, make_layer, run_kernel
from bench.peers import libraries as peers
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.algorithms.course.slides import intensity as planned_intensity, intensity_bound
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer

from . import intensity_plot
from .floors import flops_inside
from .intensity_plot import BESIDE, SLIDES
from .variants import plane

SIZE, TRIAL_SIZE = 4096, 96
FILTERS, QUICK_FILTERS = (3, 5, 9), (5,)
TILES = (8, 16, 32)
TILE = "tile"               # the plan value of `tiled`: width and height of its block and input tile
# The slides' table for an input tile of TILES: filter -> operations for each byte, and the bound.
PRINTED = {5: (("3.13", "7.03", "9.57"), "12.50"), 9: (("-", "10.13", "22.78"), "40.50")}

ABOUT = f"""
The slides count, for each byte that a kernel asks of memory, the operations done with it (a multiply-add is two):
0.25 for a thread per pixel that reads input and filter (`naive`), 0.5 where the filter is in constant memory
(`constant`), and for tiles in shared memory OUT^2 F^2 2 / (IN^2 4), which tends to F^2 / 2. The first table takes
that from the plans: an input tile of 8, 16 and 32; a tile in which no output is left is declined.

The measurements are one {SIZE}^2 plane of float32, padding "same", each kernel with its planner's values, checked at
every output against float64 before it was timed (median of at least 20 samples, 10 where a call takes more than 5 ms;
buffers rotate through 256 MB). GB/s counts each input read once and each output written once; FLOPs are those of the
taps inside the image. `direct`, `reuse` and `wide` are what this generator has besides.

How to read the roofline: a filled mark stands at the intensity of the layer itself (every byte moved once), the same
for all kernels of a filter; the roof there is what memory and SGEMM of this machine allow. A hollow mark is the same
kernel at the intensity that the slides give it. One above the roof did not get its bytes from memory: caches served
what the slides count as accesses, and a step that saves such accesses gains less than its intensity says.

"Order" takes the slides' order, {' -> '.join(SLIDES)}, step by step. Where a step is slower than the one before it,
the line says what the profiler's counters did between the two.
"""


def run(context: Context) -> None:
    filters = QUICK_FILTERS if context.quick else FILTERS
    context.expect(2 + len(PRINTED) * len(TILES) + 2 * len(filters) * len(SLIDES + BESIDE))
    for taps in PRINTED:
        for tile in TILES:
            context.row(f"table/{taps}x{taps}/{tile}", lambda taps=taps, tile=tile: _planned(taps, tile), kind="table",
                        filter=taps, tile=tile)
    context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(context.device), kind="ceiling")
    context.row("ceiling/copy", lambda: peers.copy_ceiling(context.device), kind="ceiling")
    context.device.free()
    context.say("compiling")
    compile_ahead(context.device, [lambda taps=taps, name=name: _plan(context, taps, name) for taps in filters
                                   for name in SLIDES + BESIDE])
    for taps in filters:
        _one_filter(context, taps)
    _profiled(context, filters)


def _planned(taps: int, tile: int) -> dict[str, Any]:
    """Operations for each byte of the tiled kernel's plan. Raises UnsupportedSpec where the tile has no output."""
    plan = plan_layer(plane(SIZE, taps), algorithm="tiled", settings={TILE: tile})
    return {"intensity": planned_intensity(plan), "bound": intensity_bound(taps // 2)}


def slide_intensity(plan: KernelPlan) -> float | None:
    """Operations for each byte as the slides count them; None of a kernel that is not theirs."""
    if plan.spec.algorithm not in SLIDES:
        return None
    return planned_intensity(plan)


def _one_filter(context: Context, taps: int) -> None:
    keys = {f"{taps}x{taps}/{name}": name for name in SLIDES + BESIDE}
    shape = plane(TRIAL_SIZE if context.device.trial else SIZE, taps)
    layer = make_layer(context.device, shape) if context.pending(keys) else None
    for key, name in keys.items():
        context.row(key, lambda name=name, layer=layer: _measure(context, layer, name), kind="measured", filter=taps,
                    name=name)
    del layer
    context.device.free()


def _measure(context: Context, layer: Layer, name: str) -> dict[str, Any]:
    shape, plan = layer.shape, _plan(context, layer.shape.r, name)
    planned = slide_intensity(plan)
    found = run_kernel(context.device, layer, plan, prepared=plan.program.preparation is not None)
    flops, moved = flops_inside(shape), shape.dtype.itemsize * (shape.h * shape.w + shape.p * shape.q)
    return {"settings": plan.settings(), **found, "gbs": moved / found["ms"] / 1e6, "tflops": flops / found["ms"] / 1e9,
            "intensity": flops / moved, "slide_intensity": planned}


def _plan(context: Context, taps: int, name: str) -> KernelPlan:
    size = TRIAL_SIZE if context.device.trial else SIZE
    return plan_layer(plane(size, taps), algorithm=name, arch=context.device.arch)


def _profiled(context: Context, filters: tuple[int, ...]) -> None:
    """One run of ncu for all kernels that gave a right result."""
    wanted = {f"ncu/{taps}x{taps}/{name}": Case(name, size=SIZE, filter=taps) for taps in filters
              for name in SLIDES + BESIDE if context.report.done(f"{taps}x{taps}/{name}")}
    pending = {key: case for key, case in wanted.items() if not context.report.done(key)}
    found, refusal = _watch(context, pending) if pending else ({}, None)
    for key, case in wanted.items():
        context.row(key, lambda key=key: _counters(found.get(key), refusal), kind="ncu", filter=case.filter,
                    name=case.kernel)


def _watch(context: Context, cases: Mapping[str, Case]) -> tuple[dict[str, ncu.Watched], Exception | None]:
    try:
        if context.device.kind == "host":
            raise NoDevice("no GPU")
        context.say("ncu")
        words = [word for case in cases.values() for word in case.words()]
        metrics = [*ncu_stalls.METRICS.values(), *ncu_stalls.STALLS.values()]
        return dict(zip(cases, ncu.watch(["--arch", context.device.arch, *words], metrics))), None
    except Exception as error:      # the times are still worth having
        return {}, error


def _counters(watched: ncu.Watched | None, refusal: Exception | None) -> dict[str, Any]:
    """The metrics of a kernel's one launch."""
    found = ncu.seen(watched, refusal)
    launches = found.launches[found.preparation:]
    if len(launches) != 1:
        raise RuntimeError(f"{len(launches)} launches instead of one")
    return ncu_stalls.named(launches[0])


# ---- what is shown

def tables(rows: Rows) -> list[Table]:
    """The slides' table, the ceilings, and for each filter what was measured, its order and its counters."""
    filters = sorted({row["filter"] for row in rows.values() if row.get("kind") == "measured"})
    found = [_slides_table(rows), _ceilings(rows)]
    for taps in filters:
        found += [_measured(rows, taps), _order(rows, taps)]
    return found + [_counter_table(rows, taps) for taps in filters
                    if any(row.get("kind") == "ncu" and row["status"] == OK and row["filter"] == taps
                           for row in rows.values())]


def half_up(value: float | None) -> str:
    """Two digits after the point, halves rounded up as the slides print them; a dash of nothing."""
    if value is None:
        return "-"
    return str(decimal.Decimal(repr(value)).quantize(decimal.Decimal("0.01"), decimal.ROUND_HALF_UP))


def _slides_table(rows: Rows) -> Table:
    lines = []
    for taps, (printed, bound) in PRINTED.items():
        found = [rows.get(f"table/{taps}x{taps}/{tile}", {}) for tile in TILES]
        known = all(row.get("status", "").startswith((OK, "declined")) for row in found)
        ratios = tuple(half_up(row.get("intensity")) for row in found)
        bounds = {half_up(row["bound"]) for row in found if "bound" in row}
        agrees = "equal" if (ratios, bounds) == (printed, {bound}) else f"differs from {', '.join(printed)}; {bound}"
        outputs = ", ".join(str(tile - taps + 1) if tile >= taps else "-" for tile in TILES)
        lines.append((f"{taps}x{taps}", outputs, *ratios, ", ".join(sorted(bounds)) or "-", agrees if known else None))
    columns = ("filter", "output tile", *(f"input tile {tile}" for tile in TILES), "bound", "the slides' figures")
    return Table("Operations for each byte, from the plans", columns, tuple(lines))


def _ceilings(rows: Rows) -> Table:
    copy, gemm = rows.get("ceiling/copy", {}), rows.get("ceiling/sgemm", {})
    return Table("Ceilings of this run", ("what", "value", "unit"),
                 (("device copy of 1 GiB, read + written", copy.get("gbs"), "GB/s"),
                  ("SGEMM 8192^3, TF32 off", gemm.get("tflops"), "TFLOP/s")))


def _row(rows: Rows, key: str) -> dict[str, Any]:
    row = rows.get(key, {})
    return row if row.get("status") == OK else {}


def _measured(rows: Rows, taps: int) -> Table:
    copy = _row(rows, "ceiling/copy").get("gbs")
    lines = []
    for name in SLIDES + BESIDE:
        row = _row(rows, f"{taps}x{taps}/{name}")
        lines.append((name, *(row.get(field) for field in ("ms", "gbs", "tflops", "slide_intensity", "registers",
                                                           "shared_bytes")),
                      100 * row["gbs"] / copy if row and copy else None,
                      ", ".join(f"{name}={value}" for name, value in row.get("settings", {}).items())
                      if name in SLIDES else None))
    return Table(f"{taps}x{taps} on {SIZE}^2", ("kernel", "ms", "GB/s", "TFLOP/s", "slides' OP/B", "registers",
                                                "shared bytes", "% of copy", "plan values"), tuple(lines))


def _order(rows: Rows, taps: int) -> Table:
    lines = []
    for before, after in zip(SLIDES, SLIDES[1:]):
        first, second = (_row(rows, f"{taps}x{taps}/{name}") for name in (before, after))
        if not first or not second:
            lines.append((f"{before} -> {after}", None, None, "not measured"))
            continue
        gain = first["ms"] / second["ms"]
        why = "" if gain >= 1 else explanation(*(_row(rows, f"ncu/{taps}x{taps}/{name}") for name in (before, after)))
        lines.append((f"{before} -> {after}", gain, gain >= 1, why))
    return Table(f"{taps}x{taps}: order", ("step", "gain", "as the slides expect", "the counters, before -> after"),
                 tuple(lines))


def explanation(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What the counters did from one kernel to a slower one, in words."""
    if not before or not after:
        return "no counters in this run"
    parts = []
    for field, words in (("warp_instructions", "warp instructions"), ("load_sectors", "sectors loaded"),
                         ("l2_read_sectors", "sectors from the L2"),
                         ("shared_load_passes", "passes over shared memory to load"),
                         ("shared_conflicts", "bank conflicts")):
        if field in before and field in after:
            parts.append(f"{words} {before[field] / 1e6:.3g} -> {after[field] / 1e6:.3g} million")
    for field, words in (("issue_busy_pct", "issue slots busy"), ("l1_hit_pct", "L1 hits"), ("l2_hit_pct", "L2 hits"),
                         ("warps_active_pct", "warps resident")):
        if field in before and field in after:
            parts.append(f"{words} {before[field]:.0f} -> {after[field]:.0f} %")
    waits = " -> ".join(ncu_stalls.reasons(dict(list(row["stalls"].items())[:2])) for row in (before, after))
    return "; ".join([*parts, f"warps wait for {waits}"])


def _counter_table(rows: Rows, taps: int) -> Table:
    lines = []
    for name in SLIDES + BESIDE:
        row = _row(rows, f"ncu/{taps}x{taps}/{name}")
        if row:
            lines.append((name, *(row.get(metric) for metric in ncu_stalls.METRICS), ncu_stalls.reasons(row["stalls"])))
    return Table(f"{taps}x{taps}: counters", ("kernel", *(name.replace("_", " ") for name in ncu_stalls.METRICS),
                                              "warps stalled per issue"), tuple(lines),
                 "Under the profiler, each launch with empty caches.")


STUDY = Study("intensity", "the slides' arithmetic intensity, planned, and their five kernels on a roofline", ABOUT,
              run, tables, intensity_plot.roofline)
