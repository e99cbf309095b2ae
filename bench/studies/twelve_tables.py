"""The tables of the study twelve_layers: targets, every algorithm, ablations, steps, cuDNN, the documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bench.peers.networks import CUDNN, FLOAT32_PEERS, REMARKS
from bench.report import environment
from bench.report.files import Report, Table
from bench.study import Rows
from warpconv.codegen.registry import ALGORITHMS

from . import contest, published
from .contest import Variant, mean, measured, ratios

Row = Mapping[str, Any]

ABLATED = ("prefetch", "vector_loads", "micro_kernel")
ABLATIONS = tuple(Variant(f"im2win without {name}", "im2win", {name: "off"}) for name in ABLATED)
VARIANTS = (*ABLATIONS, *(Variant(f"im2col batch={batch}", "im2col", {"batch": batch}) for batch in ("image", "whole")),
            Variant("implicit_gemm form=document", "implicit_gemm", {"form": "document"}))
CONTENDERS = ("im2win", "implicit_gemm")        # who has aims
PRODUCT = "im2win, transform not timed"         # as the document times it
TWELVE = ("conv1", "conv2", "conv3", "conv4_mec", *(f"conv{i}" for i in range(5, 13)))
OVER_IM2COL, OVER_LEAN, OF_SGEMM = 2.5, 1.1, 0.70
SGEMM_LAYERS = ("conv4_mec", "conv5", "conv6", "conv8")


def tables(rows: Rows) -> list[Table]:
    """All of them; one whose rows were not measured is empty or left out."""
    found = with_memory(measured(rows))
    gemm = rows.get("ceiling/sgemm", {}).get("tflops")
    return [_targets(found, gemm), _speedups(found), _rates(found, gemm), _times(found), _ablations(found),
            _steps(found), _cudnn(found), _documents(found),
            contest.reasons(found, (*ALGORITHMS, *(variant.name for variant in VARIANTS), *REMARKS))]


# ---- baselines

def im2col_ms(row: Row) -> float | None:
    """im2col for each image: the quicker of PyTorch's and ours."""
    own = "im2col" if row.get("im2col_settings", {}).get("batch") == "image" else "im2col batch=image"
    return min((row[f"{name}_ms"] for name in ("torch_im2col", own) if row.get(f"{name}_ms") is not None), default=None)


def cudnn_ms(row: Row) -> float | None:
    """cuDNN's quickest float32: the quicker of PyTorch's choice and of its own algorithms."""
    return min((row[f"{name}_ms"] for name in ("torch_cudnn", "cudnn_fp32") if row.get(f"{name}_ms") is not None),
               default=None)


def with_memory(rows: list[Row]) -> list[Row]:
    """The rows with the bytes that PyTorch's cuDNN holds, of the study memory where a row is older than that field."""
    known = Report.open("memory", environment.ROOT / "docs" / "results" / "memory").rows
    return [{"torch_cudnn_held": known.get(row["key"], {}).get("torch_cudnn_held"), **row} for row in rows]


def lean_ms(row: Row) -> float | None:
    """cuDNN's quickest float32 without workspace: by its own interface, or PyTorch's call where that held no memory."""
    found = [row.get("cudnn_fp32_lean_ms"), row.get("torch_cudnn_ms") if row.get("torch_cudnn_held") == 0 else None]
    return min((ms for ms in found if ms is not None), default=None)


BASELINES: dict[str, tuple[str, Callable[[Row], float | None]]] = {
    "im2col": ("im2col for each image (the quicker of PyTorch's and ours)", im2col_ms),
    "torch_im2col": ("im2col as PyTorch runs it", lambda row: row.get("torch_im2col_ms")),
    "lean": ("cuDNN's quickest float32 without workspace", lean_ms),
    "cudnn": ("cuDNN's quickest float32", cudnn_ms),
    "direct": ("direct", lambda row: row.get("direct_ms"))}


def rate(row: Row, name: str) -> float | None:
    """TFLOP/s of an algorithm or peer on a row's layer."""
    ms = row.get(f"{name}_ms")
    return None if ms is None else 2 * row["macs"] / ms / 1e9


def without_first_step(row: Row, name: str) -> float | None:
    """Milliseconds of an algorithm's steps after its first (the transform), each run alone; None of a single step."""
    steps = row.get(f"{name}_steps") or []
    return sum(step["ms"] for step in steps[1:]) if len(steps) > 1 else None


def twelve(rows: Iterable[Row]) -> list[Row]:
    """The rows that means are taken over."""
    return [row for row in rows if row["name"] in TWELVE]


# ---- tables

def _targets(rows: list[Row], gemm: float | None) -> Table:
    lines = [line for name in CONTENDERS for line in _aims(rows, name, gemm)]
    text = ("A target is met where it was measured on all of its layers and reached; transform and lowering are in the "
            "times. A dash could not be measured.")
    return Table("Targets", ("target", "must", "reached", "layers measured", "worst layer", "its value", "met"),
                 tuple(lines), text)


def _aims(rows: list[Row], name: str, gemm: float | None) -> list[tuple[Any, ...]]:
    found = []
    for base, must in (("im2col", OVER_IM2COL), ("lean", OVER_LEAN)):
        words, of = BASELINES[base]
        pairs = list(ratios(twelve(rows), name, of))
        found.append(_aim(f"{name}: mean speedup over {words}", must, mean(value for _, value in pairs), pairs,
                          len(TWELVE)))
    pairs = list(ratios(rows, name, BASELINES["direct"][1]))
    least = min((value for _, value in pairs), default=None)
    found.append(_aim(f"{name}: never slower than direct (speedup)", 1.0, least, pairs, len(TWELVE) + 1))
    parts = [(row, rate(row, name) / gemm) for row in rows
             if gemm and row["name"] in SGEMM_LAYERS and rate(row, name) is not None]
    found.append(_aim(f"{name}: part of the SGEMM rate on {', '.join(SGEMM_LAYERS)}", OF_SGEMM,
                      min((value for _, value in parts), default=None), parts, len(SGEMM_LAYERS)))
    return found


def _aim(name: str, must: float, reached: float | None, pairs: list[tuple[Row, float]], wanted: int) -> tuple[Any, ...]:
    worst = min(pairs, key=lambda pair: pair[1], default=None)
    met = None if reached is None else False if reached < must else True if len(pairs) >= wanted else None
    return (name, must, reached, f"{len(pairs)} of {wanted}", worst[0]["name"] if worst else None,
            worst[1] if worst else None, met)


def _speedups(rows: list[Row]) -> Table:
    claims = {"im2col": published.IM2WIN_CLAIMS["im2col"], "cudnn": published.IM2WIN_CLAIMS["cudnn"]}
    logged = {base: mean(row["im2win"] / row[base] for row in published.TFLOPS.values()) for base in
              ("im2col", "cudnn", "direct")}
    lines = []
    rows = [{**row, f"{PRODUCT}_ms": without_first_step(row, "im2win")} for row in rows]
    for name in (*CONTENDERS, PRODUCT):
        for base, (words, of) in BASELINES.items():
            values = [value for _, value in ratios(twelve(rows), name, of)]
            with_32 = [value for row, value in ratios(rows, name, of) if row["name"] != "conv4_mec"]
            own = name == PRODUCT
            lines.append((name, words, mean(values), min(values, default=None), max(values, default=None), len(values),
                          mean(with_32), claims.get(base) if own else None, logged.get(base) if own else None))
    low, high = published.IM2WIN_CLAIMS["direct"]
    return Table("Mean speedups", ("ours", "over", "mean", "least", "most", "layers", "mean with conv4",
                                   "the document's claim", "mean of the documents' logs"), tuple(lines),
                 f"Over direct the document claims {low:g} to {high:g} times; its direct runs one launch for each "
                 f"image, with lanes along output rows.")


def _columns(rows: list[Row]) -> list[str]:
    """Algorithms, variants and float32 peers with at least one time."""
    names = (*ALGORITHMS, *(v.name for v in VARIANTS if v not in ABLATIONS), *FLOAT32_PEERS)
    return [name for name in names if any(row.get(f"{name}_ms") is not None for row in rows)]


def _rates(rows: list[Row], gemm: float | None) -> Table:
    names = _columns(rows)
    lines = tuple((row["name"], row["macs"] / 1e9, row.get("chosen"), row.get("quickest"),
                   *(rate(row, name) for name in names)) for row in rows)
    ceiling = f"SGEMM 8192^3 reached {gemm:.1f} TFLOP/s in this run. " if gemm else ""
    return Table("TFLOP/s", ("layer", "GMAC", "select()", "our quickest", *names), lines,
                 f"{ceiling}Above the float32 rate of the chip cuDNN takes fewer products (Winograd, FFT).")


def _times(rows: list[Row]) -> Table:
    names = _columns(rows)
    return Table("Milliseconds", ("layer", *names), tuple((row["name"], *(row.get(f"{n}_ms") for n in names))
                                                          for row in rows))


def _ablations(rows: list[Row]) -> Table:
    lines = []
    for row in rows:
        full, logged = rate(row, "im2win"), published.of_layer(row["name"])
        parts = [rate(row, variant.name) for variant in ABLATIONS]
        alone = [without_first_step(row, name) for name in ("im2win", *(variant.name for variant in ABLATIONS))]
        theirs = [logged[f"without {name}"] / logged["im2win"] if logged else None for name in ABLATED]
        lines.append((row["name"], full, *parts, *(part / full if part and full else None for part in parts),
                      *(alone[0] / part if part and alone[0] else None for part in alone[1:]), *theirs))
    means = [mean(line[i] for line in lines if line[i] is not None) for i in range(5, 14)] if lines else []
    if means:
        lines.append(("mean", None, None, None, None, *means))
    columns = ("layer", "im2win", *(f"without {name}" for name in ABLATED),
               *(f"kept without {name}" for name in ABLATED),
               *(f"kept, no transform, without {name}" for name in ABLATED),
               *(f"the documents: kept without {name}" for name in ABLATED))
    return Table("Ablations of im2win", columns, tuple(lines),
                 "TFLOP/s with one technique removed at a time, and the part of the full speed that is kept, of "
                 "a call and (as the document times it) of what follows the transform. The document expects the "
                 "micro-kernel to matter most, then vector loads, then prefetch.")


def _steps(rows: list[Row]) -> Table:
    lines = []
    for row in rows:
        for name in dict.fromkeys(key.rpartition("_")[0] for key in row if key.endswith(("_steps", "_filter"))):
            total, reorder = row.get(f"{name}_ms"), row.get(f"{name}_filter")
            steps = row.get(f"{name}_steps", [])
            if total is None or name in (variant.name for variant in ABLATIONS):
                continue
            rate_of = 2 * row["macs"] / 1e9
            lines += [(row["name"], name, step_name(step), step["ms"], None) for step in steps]
            if len(steps) > 1:
                rest = sum(step["ms"] for step in steps[1:])
                lines.append((row["name"], name, f"without {step_name(steps[0])}", rest, rate_of / rest))
            lines.append((row["name"], name, "a call: all steps", total, rate_of / total))
            if reorder is not None:
                lines += [(row["name"], name, "the filter's reordering", reorder, None),
                          (row["name"], name, "all included", total + reorder, rate_of / (total + reorder))]
    return Table("Each step alone", ("layer", "algorithm", "step", "ms", "TFLOP/s"), tuple(lines))


def step_name(step: Row) -> str:
    """A step without its arguments: the entry that it launches, or the routine."""
    return step["step"].partition("(")[0].removeprefix("launch ")


def _cudnn(rows: list[Row]) -> Table:
    lines = []
    for row in rows:
        for column in CUDNN:
            workspace = row.get(f"{column.name}_workspace_bytes")
            lines.append((row["name"], column.remark, row.get(f"{column.name}_ms"), rate(row, column.name),
                          row.get(f"{column.name}_algorithm"), None if workspace is None else workspace / 2**20,
                          row.get(f"{column.name}_math")))
    return Table("cuDNN's choice", ("layer", "asked for", "ms", "TFLOP/s", "algorithm", "workspace MiB", "math"),
                 tuple(lines), "A time is this study's; the algorithm is the quickest by cuDNN's own measurement.")


def _documents(rows: list[Row]) -> Table:
    ours = {"direct": "direct", "im2win_basic": "im2win_basic", "im2col": "torch_im2col", "cudnn": "torch_cudnn",
            "im2win": "im2win"}
    lines = []
    for row in rows:
        logged = published.of_layer(row["name"])
        if not logged:
            continue
        for name, here in ours.items():
            reached = rate(row, here)
            lines.append((row["name"], name, logged[name], reached, reached and reached / logged[name],
                          logged["im2win"] / logged[name], _over(row, "im2win", here)))
    return Table("Beside the documents", ("layer", "what", "theirs, TFLOP/s", "here, TFLOP/s", "here over theirs",
                                          "their im2win over it", "our im2win over it"), tuple(lines),
                 "Theirs: an RTX 3090, the transform not timed. Here: this run's device, the transform in the time; "
                 "im2col and cuDNN as PyTorch runs them, as in theirs.")


def _over(row: Row, name: str, base: str) -> float | None:
    ours, theirs = row.get(f"{name}_ms"), row.get(f"{base}_ms")
    return theirs / ours if ours and theirs else None
