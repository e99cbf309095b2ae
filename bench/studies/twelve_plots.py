"""The plots of the study twelve_layers, in the form of the im2win paper's figures 2 and 4, and the parts of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report.files import OK
from bench.study import Rows

from . import contest, twelve_tables

BARS = {"direct": "direct", "im2win_basic": "im2win_basic", "torch_im2col": "im2col + cuBLAS (PyTorch)",
        "cudnn_fp32_lean": "cuDNN without workspace", "torch_cudnn": "cuDNN (PyTorch)",
        "implicit_gemm": "implicit_gemm", "im2win": "im2win"}
COLOURS = ("#9aa0a6", "#c58b4a", "#edae49", "#7fb069", "#2e7d4f", "#6aa6d6", "#1b4f8c", "#d1495b")


def grouped_bars(axes: Any, names: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> None:
    """A group of bars for each name, one bar of it for each series; what was not measured is left out."""
    width = 0.84 / max(1, len(series))
    for i, (label, values) in enumerate(series.items()):
        places = [(place - 0.42 + (i + 0.5) * width, value) for place, value in enumerate(values) if value is not None]
        axes.bar([place for place, _ in places], [value for _, value in places], width, label=label,
                 color=COLOURS[i % len(COLOURS)])
    axes.set_xticks(range(len(names)), names, fontsize=7, rotation=30)
    if series:
        axes.legend(fontsize=6, loc="lower center", bbox_to_anchor=(0.5, 1), ncol=len(series), frameon=False)


def tflops(rows: Rows, figure: Any) -> None:
    """Figure 2: TFLOP/s of each algorithm on each layer; the SGEMM rate as a line."""
    found = contest.measured(rows)
    figure.set_size_inches(9, 4)
    axes = figure.add_subplot()
    series = {label: [twelve_tables.rate(row, name) for row in found] for name, label in BARS.items()}
    grouped_bars(axes, [row["name"] for row in found], _present(series))
    ceiling = rows.get("ceiling/sgemm", {})
    if ceiling.get("status") == OK:
        axes.axhline(ceiling["tflops"], color="0.3", linewidth=0.8, linestyle="--")
    axes.set(ylabel="TFLOP/s (line: SGEMM 8192^3)")


def ablations(rows: Rows, figure: Any) -> None:
    """Figure 4: TFLOP/s of im2win, and of it with one technique removed."""
    found = contest.measured(rows)
    figure.set_size_inches(9, 3.5)
    axes = figure.add_subplot()
    series = {name: [twelve_tables.rate(row, name) for row in found]
              for name in (*(variant.name for variant in twelve_tables.ABLATIONS), "im2win")}
    grouped_bars(axes, [row["name"] for row in found], _present(series))
    axes.set(ylabel="TFLOP/s")


def steps(rows: Rows, figure: Any) -> None:
    """Where a call's time goes: each step alone as a part of the sum, of the algorithms with several steps."""
    bars = [(f"{row['name']}, {name}", row[f"{name}_steps"]) for row in contest.measured(rows)
            for name in ("im2col", "im2win_basic", "im2win") if row.get(f"{name}_steps")][::-1]
    figure.set_size_inches(7, 1.2 + 0.16 * len(bars))
    axes = figure.add_subplot()
    left = [0.0] * len(bars)
    for i in range(max((len(parts) for _, parts in bars), default=0)):
        widths = [parts[i]["ms"] / sum(part["ms"] for part in parts) if i < len(parts) else 0.0 for _, parts in bars]
        axes.barh(range(len(bars)), widths, left=left, height=0.8, color=COLOURS[(i + 4) % len(COLOURS)],
                  label=f"step {i + 1}")
        left = [begin + width for begin, width in zip(left, widths)]
    axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=5)
    axes.set(xlabel="part of the steps' time, in the program's order", xlim=(0, 1))
    if bars:
        axes.legend(fontsize=6, loc="lower center", bbox_to_anchor=(0.5, 1), ncol=4, frameon=False)


def _present(series: Mapping[str, Sequence[float | None]]) -> dict[str, Sequence[float | None]]:
    return {label: values for label, values in series.items() if any(value is not None for value in values)}
