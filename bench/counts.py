"""The documents' counts of warp loads, by executing the kernels on the CPU device, and by the GPU's own counters."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpconv.codegen.arch import DEFAULT_ARCH
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

from . import ncu, ncu_target
from .devices import NoDevice
from .harness import WrongResult
from .report import OK, Table
from .study import Context, Rows, Study

ROWS, COLUMNS = 56, 32
FILTERS, QUICK_FILTERS = (3, 5, 7, 9, 11), (3, 5)
VARIANTS = {name: {"rows": rows, "exchange": exchange, "decomposition": "paper"} for name, rows, exchange in (
    ("direct", "reload", "none"), ("column only", "reload", "select"), ("row only", "reuse", "none"),
    ("both", "reuse", "select"))}
HARDWARE = ("direct", "reuse", "reuse:exchange=packed", "reuse:rows=reload", "reuse:exchange=none",
            "reuse:edges=direct", "reuse:weights=cached")
HARDWARE_SIZE, HARDWARE_FILTER = 512, 5
NAMES = ("load_requests", "load_sectors", "store_requests", "store_sectors", "shuffles")

# What the documents' arithmetic gives for the warp loads of a sub-block of 56 x 32 outputs with rows that start at a
# multiple of 128 bytes, and for the sectors of direct and both.
EXPECTED = {3: ((504, 336, 174, 116), (2352, 522)), 5: ((1400, 560, 300, 120), (6720, 540)),
            7: ((2744, 1568, 434, 248), (13328, 1178)), 9: ((4536, 3024, 576, 384), (21672, 1792)),
            11: ((6776, 3696, 726, 396), (32648, 1848))}

ABOUT = """
Warp-level load requests and 32-byte sectors, exact. The first tables are counted by executing the emitted text on the
CPU device in its checking mode: one sub-block of 56 rows x 32 columns, one channel, rows that start at a multiple of 128
bytes (the difference between two images that differ by whole sub-blocks, so that the edges cancel; weights are not in
it). "expected" is the arithmetic of the documents, and so is every figure unless the table says "differs".

The last table sets the CPU device's counts beside the GPU's hardware counters (Nsight Compute: l1tex requests and sectors
of global loads and stores; thread-level inter-thread communication / 32 for shuffles) for whole launches at one shape,
padding "same": here the loads of the weights are counted, too. Plan values that are not named are the defaults.
"""


def run(context: Context) -> None:
    filters = QUICK_FILTERS if context.quick else FILTERS
    context.expect(len(filters) * (len(VARIANTS) + 1) + len(HARDWARE))
    for taps in filters:
        for name, settings in VARIANTS.items():
            context.row(f"sub-block/{taps}/{name}", lambda taps=taps, settings=settings: sub_block(taps, settings),
                        filter=taps, variant=name)
        context.row(f"sub-block/{taps}/direct algorithm", lambda taps=taps: sub_block(taps, None), filter=taps,
                    variant="direct algorithm")
    _hardware(context)


def sub_block(taps: int, settings: dict[str, Any] | None) -> dict[str, Any]:
    """Counts of one 56 x 32 sub-block: half the difference between images 128 and 64 columns wide."""
    narrow, wide = (_counted(taps, width, settings) for width in (64, 128))
    per = {name: (wide[name] - narrow[name]) / (64 / COLUMNS) for name in narrow}
    return {name: int(value) if value == int(value) else value for name, value in per.items()}


def _counted(taps: int, width: int, settings: dict[str, Any] | None) -> dict[str, int]:
    shape = ConvShape(c=1, h=ROWS + taps - 1, w=width, k=1, r=taps, s=taps)
    if settings is None:
        plan = plan_layer(shape, algorithm="direct")
    else:
        plan = plan_layer(shape, algorithm="reuse", settings={**settings, "sub_block_rows": ROWS, "warp_rows": 1,
                                                              "rows_ahead": 1, "edges": "direct"})
    generator = np.random.default_rng(taps)
    x = generator.random(shape.input_shape, np.float32)
    return execute(plan, x, generator.random(shape.weight_shape, np.float32), buffers=("x", "y"))


def execute(plan: KernelPlan, x: np.ndarray, w: np.ndarray, buffers: tuple[str, ...]) -> dict[str, int]:
    """Counts of one call on the CPU device in CHECK mode, summed over its launches and ``buffers``; checks the result."""
    from warpconv.runtime.cpu import backend
    from warpconv.runtime.cpu.report import Mode
    from warpconv.runtime.kernel import Kernel
    loaded, source = backend.load(plan, mode=Mode.CHECK)
    y = Kernel(plan.spec, plan.program, loaded, source=source, plan=plan)(x, w)
    _check(x, w, y, plan)
    total = dict.fromkeys(NAMES, 0)
    for report in loaded.reports:
        total["shuffles"] += report.shuffles
        for name, counts in report.buffers.items():
            if name in buffers:
                for field in NAMES[:4]:
                    total[field] += getattr(counts, field)
    return total


def _check(x: np.ndarray, w: np.ndarray, y: np.ndarray, plan: KernelPlan) -> None:
    (top, bottom), (left, right) = plan.spec.padding
    padded = np.pad(x[0, 0].astype(np.float64), ((top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:])
    exact = np.einsum("pqrs,rs->pq", windows, w[0, 0].astype(np.float64))
    if not np.allclose(y[0, 0], exact, rtol=1e-4, atol=0):
        raise WrongResult("the CPU device's result differs from the reference")


def _hardware(context: Context) -> None:
    """One ncu run for all kernels; each row puts a kernel's counts by execution beside it."""
    keys = {f"hardware/{kernel}": kernel for kernel in HARDWARE}
    if not context.pending(keys):
        return
    measured: dict[str, dict[str, int]] = {}
    refusal: Exception | None = None
    try:
        if context.device.kind == "host":
            raise NoDevice("no GPU")
        context.say("ncu")
        measured = hardware(context.device.arch)
    except Exception as error:      # the counts by execution are still worth having
        refusal = error
    arch = DEFAULT_ARCH if context.device.kind == "host" else context.device.arch
    for key, kernel in keys.items():
        context.row(key, lambda kernel=kernel: _beside(kernel, str(arch), measured.get(kernel)), kernel=kernel)
        row = context.report.rows[key]
        if refusal is not None and "hardware_load_requests" not in row:
            row["status"] = f"skipped: {refusal}" if isinstance(refusal, NoDevice) else f"failed: {refusal}"
            context.report.save()


def hardware(arch: str) -> dict[str, dict[str, int]]:
    """Hardware counters by kernel. Raises NoDevice where ncu does not give them."""
    words = [word for kernel in HARDWARE for word in ("--kernel", kernel)]
    launches = ncu.profile([*words, "--size", str(HARDWARE_SIZE), "--filter", str(HARDWARE_FILTER), "--arch", arch])
    if len(launches) != len(HARDWARE):
        raise NoDevice(f"ncu saw {len(launches)} launches instead of {len(HARDWARE)}")
    return dict(zip(HARDWARE, launches))


def _beside(kernel: str, arch: str, hardware_counts: dict[str, int] | None) -> dict[str, Any]:
    shape = ncu_target.shape_of(HARDWARE_SIZE, HARDWARE_FILTER)
    plan = ncu_target.plan_of(kernel, shape, arch)
    executed = execute(plan, *ncu_target.data(shape), buffers=("x", "w", "y"))
    found: dict[str, Any] = {f"executed_{name}": value for name, value in executed.items()}
    for name, value in (hardware_counts or {}).items():
        found |= {f"hardware_{name}": value, f"equal_{name}": value == executed[name]}
    return found


# ---- what is shown

def tables(rows: Rows) -> list[Table]:
    return [_requests(rows), _sectors(rows), _hardware_table(rows)]


def _sub_blocks(rows: Rows, name: str) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for row in rows.values():
        if "variant" in row and row["status"] == OK:
            found.setdefault(row["filter"], {})[row["variant"]] = row[name]
    return dict(sorted(found.items()))


def _requests(rows: Rows) -> Table:
    lines = []
    for taps, by in _sub_blocks(rows, "load_requests").items():
        counted = tuple(by.get(v) for v in VARIANTS)
        ratio = counted[0] / counted[3] if counted[0] and counted[3] else None
        lines.append((taps, *counted, by.get("direct algorithm"), None if ratio is None else f"{ratio:.1f}x",
                      "equal" if counted == EXPECTED[taps][0] else f"differs from {EXPECTED[taps][0]}"))
    return Table("Warp loads for a 56 x 32 sub-block", ("F", *VARIANTS, "the direct algorithm", "ratio", "expected"),
                 tuple(lines))


def _sectors(rows: Rows) -> Table:
    shuffles = _sub_blocks(rows, "shuffles")
    lines = []
    for taps, by in _sub_blocks(rows, "load_sectors").items():
        counted = tuple(by.get(v) for v in VARIANTS)
        lines.append((taps, *counted, shuffles[taps].get("column only"), shuffles[taps].get("both"),
                      "equal" if (counted[0], counted[3]) == EXPECTED[taps][1] else f"differs from {EXPECTED[taps][1]}"))
    return Table("32-byte sectors of those loads, and shuffles",
                 ("F", *VARIANTS, "shuffles, column only", "shuffles, both", "expected (direct, both)"), tuple(lines))


def _hardware_table(rows: Rows) -> Table:
    lines = []
    for row in rows.values():
        if "kernel" not in row or "executed_load_requests" not in row:
            continue
        for name in NAMES:
            equal = row.get(f"equal_{name}")
            lines.append((row["kernel"], name.replace("_", " "), row[f"executed_{name}"], row.get(f"hardware_{name}"),
                          None if equal is None else "equal" if equal else "DIFFERS"))
    return Table(f"Executed and measured, {HARDWARE_FILTER}x{HARDWARE_FILTER} on {HARDWARE_SIZE}^2",
                 ("kernel", "count", "CPU device", "GPU (ncu)", ""), tuple(lines))


def plot(rows: Rows, figure: Any) -> None:
    """Warp loads of the four forms over the filter's width."""
    by = _sub_blocks(rows, "load_requests")
    axes = figure.add_subplot()
    for name in VARIANTS:
        taps = [t for t in by if name in by[t]]
        axes.plot(taps, [by[t][name] for t in taps], marker="o", label=name)
    axes.set(yscale="log", xlabel="filter width and height", ylabel="warp loads of a 56 x 32 sub-block")
    axes.legend()


STUDY = Study("counts", "the documents' counts of loads by execution, and by the GPU's counters", ABOUT, run, tables,
              plot, needs_gpu=False)
