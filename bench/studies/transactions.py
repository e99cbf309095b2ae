"""Memory transactions of the documents and of every algorithm: counted by execution, and by the GPU's own counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.counters import ncu
from bench.counters.counting import Counting, count_case, execute
from bench.counters.target import Case, data, plan_of
from bench.devices import NoDevice
from bench.harness import compile_ahead
from bench.report.files import OK, Table, line_style
from bench.study import Context, Rows, Study
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

ROWS, COLUMNS = 56, 32
FILTERS, QUICK_FILTERS = (3, 5, 7, 9, 11), (3, 5)
FORMS = {name: {"rows": rows, "exchange": exchange, "decomposition": "paper"} for name, rows, exchange in (
    ("direct", "reload", "none"), ("column only", "reload", "select"), ("row only", "reuse", "none"),
    ("both", "reuse", "select"))}
DIRECT = "direct algorithm"
SIZE = 512
# Where an algorithm is watched: the first of these layers that it takes.
LAYERS: tuple[Mapping[str, Any], ...] = (
    {"size": SIZE}, {"size": 32}, {"size": SIZE, "dtype": "float16"},
    {"size": 64, "channels": 8, "dtype": "float16", "layout": "NHWC"})
# The documents' kernel with one plan value changed, at one filter.
CHANGED_AT, CHANGED = 5, ("reuse:exchange=packed", "reuse:edges=direct", "reuse:weights=cached")

# What the documents' arithmetic gives for the warp loads of a sub-block of 56 x 32 outputs with rows that start at a
# multiple of 128 bytes, and for the sectors of direct and both.
EXPECTED = {3: ((504, 336, 174, 116), (2352, 522)), 5: ((1400, 560, 300, 120), (6720, 540)),
            7: ((2744, 1568, 434, 248), (13328, 1178)), 9: ((4536, 3024, 576, 384), (21672, 1792)),
            11: ((6776, 3696, 726, 396), (32648, 1848))}

ABOUT = f"""
A *warp load* is one load instruction of a warp, what the documents call a transaction; a *sector* is 32 bytes of
memory that it touches. A warp's 32 consecutive float32 are four sectors where they begin at a multiple of 32 bytes,
else five. All counts are exact: the emitted text is executed on the CPU device in its checking mode, and its result
is checked at every output against float64 before its counts are taken.

The first two tables are the documents': one sub-block of {ROWS} rows x {COLUMNS} columns, one channel, rows that
start at a multiple of 128 bytes (the difference between two images that differ by whole sub-blocks, so that the edges
cancel; weights are not in it). "expected" is the arithmetic of the documents. "loads an output" is what a lane loads
for one output, direct and with column reuse alone.

The tables after them are whole calls of every algorithm of the registry with its default plan values, and of the
documents' four forms (`reuse` with those values), edges and weights included, padding "same". Each algorithm stands
on the first of these layers that it takes: a plane of {SIZE}^2 in float32, one of 32^2, one of {SIZE}^2 in float16, 8
planes of 64^2 in float16 NHWC. "an output" divides by outputs (for accesses of warps: by the outputs of 32 lanes), so
that layers of different size stand side by side. Loads include those from a workspace between two steps; a filter's
preparation, which happens once, is not in them, and the GEMM of `im2col`, a library's, in none of the counts; a call
of several launches has a line for each (the transform of `im2win`). Shared memory: accesses of warps, and the passes
over the banks that they take (equal where there is no conflict). Multiply-adds are those of float32; a dash where the
kernel has others. Kernels with matrix instructions show a dash for shuffles, too.

The last tables set these beside the GPU's hardware counters (Nsight Compute) for the same call: "=" is the same
number, else it is executed / measured. The compiler may leave out multiply-adds whose sum nobody stores, and join
loads of neighbours in shared memory into wider ones, so both may be fewer on the GPU. Global requests and sectors
differ for one reason: where the threads of a block share out a list that their number does not divide, and the
compiler unrolls that loop four times, it puts the passes that are left over first. Lanes of the one warp in which the
list ends then make their n-th pass while their neighbours make the one after it, which touches a few sectors more, and
one request more where the last pass of the others loads nothing (`patch`, the filters of `toeplitz_nhwc`). Copies that
go past the first cache (cp.async.cg) are made by eight lanes at a time: a sector that two such groups share counts
twice, here too.
"""


def run(context: Context) -> None:
    filters = QUICK_FILTERS if context.quick else FILTERS
    chosen = {(taps, kernel): case for taps in filters for kernel, case in cases(taps, context.device.arch).items()}
    context.expect(len(filters) * (len(FORMS) + 1) + 2 * len(chosen))
    blocks = {f"sub-block/{taps}/{name}": (taps, name, settings) for taps in filters
              for name, settings in {**FORMS, DIRECT: None}.items()}
    calls = {_key("executed", *key): (*key, case) for key, case in chosen.items()}
    tasks = {key: lambda case=case: _executed(case, context.device.arch) for key, (_, _, case) in calls.items()}
    tasks |= {key: lambda taps=taps, settings=settings: sub_block(taps, settings)
              for key, (taps, _, settings) in blocks.items()}
    with Counting({key: task for key, task in tasks.items() if not context.report.done(key)}) as counting:
        for key, (taps, name, _) in blocks.items():
            context.row(key, lambda key=key: counting.of(key), filter=taps, variant=name)
        for key, (taps, kernel, case) in calls.items():
            context.row(key, lambda key=key: counting.of(key), kernel=kernel, filter=taps,
                        layer=getattr(case, "layer", None))
    _hardware(context, {key: case for key, case in chosen.items() if isinstance(case, Case)})


def cases(taps: int, arch: str) -> dict[str, Case | UnsupportedSpec]:
    """What is counted at a filter of ``taps`` x ``taps``: kernel -> its case, or why no layer of LAYERS is served."""
    forms = [f"reuse:{','.join(f'{name}={value}' for name, value in values.items())}" for values in FORMS.values()]
    return {kernel: _case(kernel, taps, arch)
            for kernel in (*forms, *(CHANGED if taps == CHANGED_AT else ()), *ALGORITHMS)}


def _case(kernel: str, taps: int, arch: str) -> Case | UnsupportedSpec:
    reasons = []
    for layer in LAYERS:
        case = Case(kernel, filter=taps, **layer)
        try:
            plan_of(kernel, case.shape, arch)
            return case
        except UnsupportedSpec as error:
            reasons.append(f"{case.layer}: {error.reason}")
    return UnsupportedSpec(None, "; ".join(reasons))


def _executed(case: Case | UnsupportedSpec, arch: str) -> dict[str, Any]:
    if isinstance(case, UnsupportedSpec):
        raise case
    return count_case(case, arch)


def sub_block(taps: int, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Counts of one 56 x 32 sub-block without its weights: half the difference between images 128 and 64 columns wide.

    ``settings`` are plan values of the reuse algorithm; None is the direct algorithm.
    """
    narrow, wide = (_columns(taps, width, settings) for width in (64, 128))
    per = {name: (wide[name] - narrow[name]) / (64 / COLUMNS) for name in narrow}
    return {name: int(value) if value == int(value) else value for name, value in per.items()}


def _columns(taps: int, width: int, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    shape = ConvShape(c=1, h=ROWS + taps - 1, w=width, k=1, r=taps, s=taps)
    counts = execute(_sub_block_plan(shape, settings), shape, *data(shape))
    for name in ("load_requests", "load_sectors"):
        counts[name] -= counts.pop(f"weight_{name}")
    return counts


def _sub_block_plan(shape: ConvShape, settings: Mapping[str, Any] | None) -> KernelPlan:
    if settings is None:
        return plan_layer(shape, algorithm="direct")
    return plan_layer(shape, algorithm="reuse", settings={**settings, "sub_block_rows": ROWS, "warp_rows": 1,
                                                          "prefetch_rows": 1, "edges": "direct"})


def _hardware(context: Context, chosen: Mapping[tuple[int, str], Case]) -> None:
    """One run of ncu for all cases that were executed; without ncu each row says why it has no counters."""
    wanted = {_key("hardware", *key): case for key, case in chosen.items()
              if context.report.done(_key("executed", *key))}
    pending = {key: case for key, case in wanted.items() if not context.report.done(key)}
    found, refusal = _watch(context, list(pending.values())) if pending else ({}, None)
    for key, case in wanted.items():
        context.row(key, lambda case=case: ncu.seen(found.get(case), refusal).counts(), kernel=case.kernel,
                    filter=case.filter, layer=case.layer)


def _watch(context: Context, wanted: list[Case]) -> tuple[dict[Case, ncu.Watched], Exception | None]:
    try:
        if context.device.kind == "host":
            raise NoDevice("no GPU")
        context.say("compiling")
        arch = context.device.arch
        compile_ahead(context.device, [lambda case=case: plan_of(case.kernel, case.shape, arch) for case in wanted])
        context.say("ncu")
        words = [word for case in wanted for word in case.words()]
        metrics = [metric for counter in ncu.COUNTERS.values() for metric in counter.metrics]
        return dict(zip(wanted, ncu.watch(["--arch", arch, *words], metrics))), None
    except Exception as error:      # the counts by execution are still worth having
        return {}, error


def _key(kind: str, taps: int, kernel: str) -> str:
    return f"{kind}/{taps}x{taps}/{kernel}"


# ---- what is shown

def tables(rows: Rows) -> list[Table]:
    """The documents' two, then for each filter what was executed, then what was measured beside it."""
    filters = sorted({row["filter"] for row in rows.values() if row["status"] == OK})
    return [_requests(rows), _sectors(rows), *(_calls(rows, taps) for taps in filters),
            *(table for taps in filters for table in _compared(rows, taps))]


def _sub_blocks(rows: Rows, name: str) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for row in rows.values():
        if "variant" in row and row["status"] == OK:
            found.setdefault(row["filter"], {})[row["variant"]] = row[name]
    return dict(sorted(found.items()))


def _requests(rows: Rows) -> Table:
    lines = []
    for taps, by in _sub_blocks(rows, "load_requests").items():
        counted = tuple(by.get(form) for form in FORMS)
        direct, column, _, both = counted
        ratio = f"{direct / both:.1f}x" if direct and both else None
        outputs = f"{direct / ROWS:g} -> {column / ROWS:g}" if direct and column else None
        lines.append((taps, *counted, by.get(DIRECT), ratio, outputs, _agreement(counted, EXPECTED[taps][0])))
    return Table("Warp loads for a 56 x 32 sub-block", ("F", *FORMS, f"the {DIRECT}", "ratio", "loads an output",
                                                        "expected"), tuple(lines))


def _sectors(rows: Rows) -> Table:
    shuffles = _sub_blocks(rows, "shuffles")
    lines = []
    for taps, by in _sub_blocks(rows, "load_sectors").items():
        counted = tuple(by.get(form) for form in FORMS)
        lines.append((taps, *counted, shuffles[taps].get("column only"), shuffles[taps].get("both"),
                      _agreement((counted[0], counted[3]), EXPECTED[taps][1])))
    return Table("32-byte sectors of those loads, and shuffles",
                 ("F", *FORMS, "shuffles, column only", "shuffles, both", "expected (direct, both)"), tuple(lines))


def _agreement(counted: tuple[Any, ...], expected: tuple[int, ...]) -> str:
    return "equal" if counted == expected else f"differs from {expected}"


def _executed_rows(rows: Rows, taps: int) -> Iterable[dict[str, Any]]:
    return (row for key, row in rows.items() if key.startswith(f"executed/{taps}x{taps}/") and row["status"] == OK)


def name_of(kernel: str) -> str:
    """A kernel as the tables name it: the documents' forms by their name."""
    algorithm, _, values = kernel.partition(":")
    for form, settings in FORMS.items():
        if algorithm == "reuse" and values == ",".join(f"{name}={value}" for name, value in settings.items()):
            return f"documents: {form}"
    return kernel


def _calls(rows: Rows, taps: int) -> Table:
    columns = ("kernel", "layer", "warp loads", "of them weights", "an output", "sectors", "sectors for 32 outputs",
               "warp stores", "store sectors", "shared accesses", "passes over banks", "constant reads", "shuffles",
               "multiply-adds an output")
    lines = []
    for row in _executed_rows(rows, taps):
        fmas = None if row["fmas"] is None else row["fmas"] / row["outputs"]
        library = " (+ a library's GEMM)" if row["library_steps"] else ""
        lines.append((name_of(row["kernel"]) + library, row["layer"], *_counts(row, row["outputs"] / 32), fmas))
        lines += [(f"- {launch['entry']} alone", row["layer"], *_counts(launch, row["outputs"] / 32), None)
                  for launch in row.get("launches", ())]
    return Table(f"{taps}x{taps}: whole calls, executed", columns, tuple(lines))


def _counts(row: Mapping[str, Any], warps: float) -> tuple[Any, ...]:
    return (row["load_requests"], row["weight_load_requests"], row["load_requests"] / warps, row["load_sectors"],
            row["load_sectors"] / warps, row["store_requests"], row["store_sectors"], row["shared_requests"],
            row["shared_wavefronts"], row["constant_requests"], row["shuffles"])


def _compared(rows: Rows, taps: int) -> list[Table]:
    lines = []
    for row in _executed_rows(rows, taps):
        measured = rows.get(_key("hardware", taps, row["kernel"]), {})
        if measured.get("status") == OK:
            counts = (_beside(row.get(name), measured.get(name)) for name in ncu.COUNTERS)
            lines.append((name_of(row["kernel"]), *counts))
    return [Table(f"{taps}x{taps}: executed / measured", ("kernel", *(name.replace("_", " ") for name in ncu.COUNTERS)),
                  tuple(lines))] if lines else []


def _beside(executed: int | None, measured: int | None) -> str | None:
    """Both counts; "=" where they are the same, None where there is no measured one."""
    if measured is None:
        return None
    return f"{measured} =" if executed == measured else f"{'-' if executed is None else executed} / {measured}"


def plot(rows: Rows, figure: Any) -> None:
    """Warp loads for 32 outputs over the filter's width: the documents' forms, and every algorithm."""
    found: dict[str, dict[int, float]] = {}
    for row in rows.values():
        if row["key"].startswith("executed/") and row["status"] == OK:
            found.setdefault(name_of(row["kernel"]), {})[row["filter"]] = 32 * row["load_requests"] / row["outputs"]
    figure.set_size_inches(7, 5)
    axes = figure.add_subplot()
    for number, (name, by) in enumerate(found.items()):
        filters = sorted(by)
        if len(filters) > 1:
            axes.plot(filters, [by[taps] for taps in filters], label=name, **line_style(number),
                      linestyle="--" if name.startswith("documents") else "-")
    axes.set(yscale="log", xlabel="filter width and height", ylabel="warp loads for 32 outputs")
    if axes.lines:
        axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1, 1))


STUDY = Study("transactions", "memory transactions of every algorithm, by execution and by the GPU's counters", ABOUT,
              run, tables, plot, needs_gpu=False)
