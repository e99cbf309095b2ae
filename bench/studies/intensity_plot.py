"""The plot of the study intensity."""

from __future__ import annotations

from typing import Any

from bench.report.files import OK
from bench.study import Rows

SLIDES = ("naive", "constant", "tiled", "halo_cached", "coarsened")
BESIDE = ("direct", "reuse", "wide")
MARKERS = ("o", "s", "^", "D", "v", "x", "+", "*")


def roofline(rows: Rows, figure: Any) -> None:
    """TFLOP/s over FLOP for each byte: filled at the layer's own intensity, hollow at the one the slides give."""
    found = [row for row in rows.values() if row.get("kind") == "measured" and row["status"] == OK]
    filters = sorted({row["filter"] for row in found})
    figure.set_size_inches(7.5, 5)
    axes = figure.add_subplot()
    for number, taps in enumerate(filters):
        for marker, name in zip(MARKERS, SLIDES + BESIDE):
            for row in found:
                if (row["filter"], row["name"]) == (taps, name):
                    _mark(axes, row, f"C{number}", marker, f"{name}" if number == 0 else None)
    ends = [0.15, 2 * max([50.0, *(row["intensity"] for row in found)])]
    copy, gemm = (rows.get(f"ceiling/{name}", {}).get(field) for name, field in (("copy", "gbs"), ("sgemm", "tflops")))
    if copy:
        roof = [min(copy * end / 1e3, gemm or copy * end / 1e3) for end in ends]
        corner = [gemm * 1e3 / copy] if gemm else []
        axes.plot([ends[0], *corner, ends[1]], [roof[0], *([gemm] if corner else []), roof[1]], color="0.3",
                  linewidth=0.9,
                  label=f"device copy, {copy / 1e3:.2f} TB/s" + (f"; SGEMM, {gemm:.0f} TFLOP/s" if gemm else ""))
    for number, taps in enumerate(filters):
        axes.plot([], [], color=f"C{number}", linewidth=4, label=f"{taps}x{taps}")
    axes.set(xscale="log", yscale="log", xlim=ends, xlabel="FLOP / byte", ylabel="TFLOP/s")
    axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1, 1))


def _mark(axes: Any, row: dict[str, Any], colour: str, marker: str, label: str | None) -> None:
    axes.plot([row["intensity"]], [row["tflops"]], marker=marker, color=colour, markersize=4, linestyle="", label=label)
    planned = row.get("slide_intensity")
    if planned:
        axes.plot([planned, row["intensity"]], [row["tflops"]] * 2, color=colour, linewidth=0.3)
        axes.plot([planned], [row["tflops"]], marker=marker, color=colour, markersize=4, linestyle="", fillstyle="none")
