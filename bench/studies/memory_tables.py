"""The tables and the plot of the study memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bench.peers.networks import REMARKS, TORCH
from bench.report.files import Table
from bench.study import Rows
from warpconv.codegen.registry import ALGORITHMS

from . import contest, published
from .contest import Variant, mean, measured
from .twelve_plots import grouped_bars
from .twelve_tables import TWELVE

Row = Mapping[str, Any]

VARIANTS = tuple(Variant(f"im2col batch={batch}", "im2col", {"batch": batch}) for batch in ("image", "whole"))
CUDNN_PEERS = ("cudnn_fp32", "cudnn_fp32_lean")
MIB = 2**20


def tables(rows: Rows) -> list[Table]:
    found = measured(rows)
    names = (*ALGORITHMS, *(variant.name for variant in VARIANTS), *TORCH, *CUDNN_PEERS)
    return [_verdict(found), _comparisons(found), _totals(found), _workspaces(found), _formulas(found),
            _documents(found), contest.reasons(found, names)]


# ---- totals: tensors with what an algorithm needs besides

def extra(row: Row, name: str, *, plan: bool = False) -> int | None:
    """Bytes besides the tensors: planned, or held where that was measured; None where there is neither."""
    workspace = None if row.get(f"{name}_workspace") is None else row[f"{name}_workspace"] + row[f"{name}_filter"]
    if plan:
        return workspace
    return row[f"{name}_held"] if row.get(f"{name}_held") is not None else workspace


def whole_batch(row: Row, *, plan: bool = False) -> int | None:
    """Bytes of im2col of the whole batch: our plan batch=whole."""
    own = "im2col" if row.get("im2col_settings", {}).get("batch") == "whole" else "im2col batch=whole"
    return extra(row, own, plan=plan)


COMPARISONS: dict[str, tuple[str, Callable[[Row], int | None]]] = {
    "im2col image": ("im2col for each image, as PyTorch runs it (held)", lambda row: extra(row, "torch_im2col")),
    "im2col image, planned": ("im2col for each image (formula)", lambda row: row.get("im2col_image_formula")),
    "im2col batch": ("im2col of the whole batch (our plan, held)", whole_batch),
    "im2col batch, planned": ("im2col of the whole batch (formula)", lambda row: row.get("im2col_batch_formula")),
    "cudnn": ("cuDNN as PyTorch chooses (held)", lambda row: extra(row, "torch_cudnn")),
    "cudnn quickest": ("cuDNN's quickest float32 (its workspace)", lambda row: extra(row, "cudnn_fp32"))}


def savings(pairs: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
    """Of (ours, theirs): the document's way, 1 - 1/mean(theirs/ours), and the mean of 1 - ours/theirs."""
    pairs = list(pairs)
    if not pairs:
        return None
    return 1 - 1 / mean(theirs / ours for ours, theirs in pairs), mean(1 - ours / theirs for ours, theirs in pairs)


def pairs_of(rows: Iterable[Row], of: Callable[[Row], int | None]) -> list[tuple[float, float]]:
    """Totals of im2win and of what it is compared with, on the twelve."""
    found = []
    for row in rows:
        ours, theirs = extra(row, "im2win"), of(row)
        ours = row["im2win_formula"] if ours is None else ours
        if theirs is not None and row["name"] in TWELVE:
            found.append((row["tensors"] + ours, row["tensors"] + theirs))
    return found


def logged(base: str) -> list[tuple[float, float]]:
    """The documents' logs: a process's megabytes with im2win and with ``base``."""
    return [(row["im2win"], row[base]) for row in published.MEMORY_MB.values()]


def nearest(claim: float, found: Mapping[str, tuple[float, float]]) -> tuple[str, float]:
    """The comparison whose saving, in either way, is nearest to a claim, and that saving."""
    values = [(name, value) for name, both in found.items() for value in both]
    return min(values, key=lambda pair: abs(pair[1] - claim))


def _verdict(rows: list[Row]) -> Table:
    """Which comparison each claim of the document is."""
    here = {words: both for words, of in COMPARISONS.values() if (both := savings(pairs_of(rows, of))) is not None}
    logs = {f"their logs, {base}": savings(logged(base)) for base in published.MEMORY_CLAIMS}
    lines = []
    for base, claim in published.MEMORY_CLAIMS.items():
        name, value = nearest(claim, logs)
        ours = nearest(claim, here) if here else (None, None)
        lines.append((f"im2win saves {100 * claim:.1f} % against {base}", name, 100 * value,
                      *savings_percent(logs, base), ours[0], None if ours[1] is None else 100 * ours[1]))
    return Table("Which comparison the document's figures are", (
        "the document", "nearest in its logs", "its saving %", "logs of its own base: 1 - 1/mean %",
        "and mean saving %", "nearest here", "its saving here %"), tuple(lines),
        "Worked out from the documents' logs and from this run. The logs' im2col is PyTorch's, for each image, in a "
        "process with its context; where no saving here is near a claim, the nearest is still named, with its value.")


def savings_percent(found: Mapping[str, tuple[float, float]], base: str) -> tuple[float, float]:
    first, second = found[f"their logs, {base}"]
    return 100 * first, 100 * second


def _comparisons(rows: list[Row]) -> Table:
    lines = []
    for words, of in COMPARISONS.values():
        pairs = pairs_of(rows, of)
        both = savings(pairs)
        lines.append((words, len(pairs), *((None, None) if both is None else (100 * both[0], 100 * both[1])),
                      min((theirs / ours for ours, theirs in pairs), default=None),
                      max((theirs / ours for ours, theirs in pairs), default=None),
                      sum(ours < theirs for ours, theirs in pairs)))
    planned = any(extra(row, "im2win") is None for row in rows)
    text = "im2win's own bytes are those of its formula where it was not measured. " if planned else ""
    return Table("im2win against", ("what", "layers", "saving: 1 - 1/mean %", "mean saving %", "least theirs/ours",
                                    "most theirs/ours", "layers where im2win takes less"), tuple(lines),
                 f"{text}Tensors are in both; a negative saving means that im2win takes more.")


def _names(rows: list[Row]) -> list[str]:
    names = (*ALGORITHMS, *(variant.name for variant in VARIANTS), *TORCH, *CUDNN_PEERS)
    return [name for name in names if any(extra(row, name) is not None for row in rows)]


def _totals(rows: list[Row]) -> Table:
    names = _names(rows)
    lines = tuple((row["name"], row["tensors"] / MIB,
                   *(None if extra(row, n) is None else (row["tensors"] + extra(row, n)) / MIB for n in names))
                  for row in rows)
    return Table("Tensors and workspace, MiB", ("layer", "tensors", *names), lines,
                 "; ".join(f"{name}: {REMARKS[name]}" for name in (*TORCH, *CUDNN_PEERS)))


def _workspaces(rows: list[Row]) -> Table:
    """Planned beside held, of every algorithm that takes memory of its own."""
    lines = []
    for row in rows:
        for name in (*ALGORITHMS, *(variant.name for variant in VARIANTS)):
            plan = extra(row, name, plan=True)
            actual = row.get(f"{name}_held")
            if not plan and not actual:
                continue
            lines.append((row["name"], name, row[f"{name}_workspace"] / MIB, row[f"{name}_filter"] / MIB,
                          None if actual is None else actual / MIB,
                          None if actual is None or not plan else actual / plan,
                          None if actual is None else actual <= 1.125 * plan + MIB))
    return Table("Planned and held, MiB", ("layer", "algorithm", "workspace planned", "filter planned", "held",
                                           "held over planned", "as planned, rounding included"), tuple(lines),
                 "Algorithms that are not here take no memory besides the tensors.")


def _formulas(rows: list[Row]) -> Table:
    lines = tuple((row["name"], *(row[name] / MIB for name in ("im2win_formula", "im2col_image_formula",
                                                               "im2col_batch_formula")),
                   row["im2win_formula"] / row["im2col_batch_formula"]) for row in rows)
    return Table("By the documents' formulas, MiB", ("layer", "im2win", "im2col of an image", "im2col of the batch",
                                                     "im2win over im2col of the batch"), lines)


def _documents(rows: list[Row]) -> Table:
    """The documents' megabytes, with the differences that do not hold the process's own part."""
    ours = {"direct": "direct", "im2win": "im2win", "im2col": "torch_im2col", "cudnn": "torch_cudnn"}
    lines = []
    for row in rows:
        theirs = published.MEMORY_MB.get(row["name"])
        if theirs:
            here = [extra(row, name) for name in ours.values()]
            lines.append((row["name"], *theirs.values(),
                          *(None if value is None else (row["tensors"] + value) / MIB for value in here)))
    return Table("Beside the documents", ("layer", *(f"{name}, their MB" for name in ours),
                                          *(f"{name}, MiB here" for name in ours)), tuple(lines),
                 "Theirs are a process's (RTX 3090), its context in them; here tensors and workspace alone.")


def plot(rows: Rows, figure: Any) -> None:
    """Figure 3: memory on each layer, tensors included."""
    found = measured(rows)
    figure.set_size_inches(9, 4)
    axes = figure.add_subplot()
    series: dict[str, list[float | None]] = {}
    for name, label in (("direct", "direct"), ("im2win", "im2win"), ("torch_im2col", "im2col + cuBLAS (PyTorch)"),
                        ("im2col batch=whole", "im2col of the batch"), ("torch_cudnn", "cuDNN (PyTorch)")):
        values = [extra(row, name) for row in found]
        if any(value is not None for value in values):
            series[label] = [None if v is None else (row["tensors"] + v) / MIB for row, v in zip(found, values)]
    grouped_bars(axes, [row["name"] for row in found], series)
    axes.set(ylabel="MiB", yscale="log")
