"""How the kernel got to its form, step by step: named plan variants of one plane, each beside the step before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.harness import compile_ahead, make_layer, run_kernel
from bench.peers import libraries as peers
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.select import plan_layer

from .floors import floor
from .variants import plane

SIZE, TRIAL_SIZE = 8192, 160     # wider than a strip of the wide kernel
FILTERS, QUICK_FILTERS = (3, 5, 7), (3,)

ABOUT = """
One plane of float32, padding "same". Each line is one plan; "gain" is the time of the line above over its own. Every
result was checked at each output against float64 before it was timed. "of copy" is the time of a device copy of the
same plane in the same run over the line's time; "of the floor" takes the larger of that copy and the FLOPs inside the
image at this run's SGEMM rate.
"""


@dataclass(frozen=True)
class Step:
    """One line: what is new in it, and the plan that has it; a setting may differ by filter."""

    label: str
    algorithm: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def settings_of(self, taps: int) -> dict[str, Any]:
        """The plan values for a filter of ``taps`` x ``taps``."""
        return {name: value[taps] if isinstance(value, Mapping) else value for name, value in self.settings.items()}


# In the order of the story. Every step names all that tells it from the planner's own choice, the last line.
_PLAIN = {"columns": 4, "vector": 4, "store_vector": 4, "weights": "registers", "loads": "registers", "stage_steps": 1,
          "pipeline": "copied", "edges": "guarded", "warp_columns": 1, "warp_rows": 4}
_AHEAD = {3: 4, 5: 3, 7: 2}
STEPS = (
    Step("one column per lane, 56 rows", "reuse", {"exchange": "select", "sub_block_rows": 56}),
    Step("short sub-blocks: 16 rows", "reuse", {"exchange": "select", "sub_block_rows": 16}),
    Step("four columns per lane, 16-byte loads", "wide", {**_PLAIN, "prefetch_rows": 1, "sub_block_rows": 16}),
    Step("several rows loaded ahead", "wide", {**_PLAIN, "prefetch_rows": _AHEAD, "pipeline": "paired",
                                               "sub_block_rows": 16}),
    Step("guard-free interior", "wide", {**_PLAIN, "prefetch_rows": _AHEAD, "pipeline": "paired", "edges": "interior",
                                         "sub_block_rows": 16}),
    Step("rows ahead in shared memory, by asynchronous copies", "wide", {
        **_PLAIN, "loads": "async", "prefetch_rows": 8, "edges": "interior", "sub_block_rows": 16}),
    Step("copied through the first-level cache", "wide", {
        **_PLAIN, "loads": "cached", "prefetch_rows": 8, "edges": "interior", "sub_block_rows": 16}),
    Step("two rows a turn of the loop, warps side by side", "wide", {
        **_PLAIN, "loads": "cached", "prefetch_rows": 8, "stage_steps": 2, "edges": "interior", "sub_block_rows": 16,
        "warp_columns": 4, "warp_rows": 1}),
    Step("the planner's choice: rows by filter, whole rounds of blocks", "wide"),
)


def run(context: Context) -> None:
    filters = QUICK_FILTERS if context.quick else FILTERS
    size = TRIAL_SIZE if context.device.trial else SIZE
    context.expect(1 + len(filters) * (1 + len(STEPS)))
    gemm = context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(context.device), kind="ceiling").get("tflops")
    copier = peers.PLANE_PEERS[0]
    compile_ahead(context.device, [lambda t=t, s=s: _plan(context, size, t, s) for t in filters for s in STEPS])
    for taps in filters:
        keys = [f"{taps}x{taps}/{name}" for name in ("copy", *(step.label for step in STEPS))]
        layer = make_layer(context.device, plane(size, taps)) if context.pending(keys) else None
        fields = {"filter": taps, "size": size}
        copy = context.row(keys[0], lambda layer=layer: peers.run_peer(context.device, layer, copier), kind="copy",
                           **fields)
        for key, step in zip(keys[1:], STEPS):
            context.row(key, partial(_measure, context, layer, step, copy.get("ms"), gemm), kind="step",
                        name=step.label, algorithm=step.algorithm, **fields)
        del layer
        context.device.free()


def _measure(context: Context, layer: Any, step: Step, copy_ms: float | None, gemm: float | None) -> dict[str, Any]:
    plan = _plan(context, layer.shape.h, layer.shape.r, step)
    found = {"settings": plan.settings(), **run_kernel(context.device, layer, plan)}
    if copy_ms:
        found["of_copy"] = copy_ms / found["ms"]
        if gemm:
            found |= floor(layer.shape, copy_ms, gemm).fields(found["ms"])
    return found


def _plan(context: Context, size: int, taps: int, step: Step) -> Any:
    return plan_layer(plane(size, taps), algorithm=step.algorithm, arch=context.device.arch,
                      settings=step.settings_of(taps))


def tables(rows: Rows) -> list[Table]:
    """One table a filter, in the order of STEPS."""
    found = []
    for taps in sorted({row["filter"] for row in rows.values() if "filter" in row}):
        lines, before = [], None
        for step in STEPS:
            row = rows.get(f"{taps}x{taps}/{step.label}", {})
            ms = row.get("ms") if row.get("status") == OK else None
            lines.append((step.label, step.algorithm, row.get("registers"), row.get("spill_bytes"), ms,
                          row.get("of_copy"), row.get("of_floor"), before / ms if before and ms else None))
            before = ms
        found.append(Table(f"{taps}x{taps}", ("step", "algorithm", "registers", "spilled bytes", "ms", "of copy",
                                              "of the floor", "gain"), tuple(lines)))
    return found


STUDY = Study("steps", "how the kernel got to its form, each step's gain on one plane", ABOUT, run, tables)
