"""The roofline of the study twelve_tensor, with the tensor cores' ceilings."""

from __future__ import annotations

from typing import Any

from bench.beside import TENSOR_RATE
from bench.report.files import OK
from bench.study import Rows
from warpconv.codegen.hardware import H200_COPY

COLOURS = {"float16": "#d1495b", "float32": "#1b6ca8", "tf32": "#edae49"}
MARKERS = {"NHWC": "o", "NCHW": "s"}
# (TFLOP/s, what it is): the default of float32 makes three products of float16 for one
CEILINGS = ((TENSOR_RATE / 1e12, "float16 by cuBLAS"), (TENSOR_RATE / 2e12, "TF32, half of it"),
            (TENSOR_RATE / 3e12, "float32 by three products"))


def roofline(rows: Rows, figure: Any) -> None:
    """TFLOP/s over FLOP for each byte of the layer's arrays; filled ours, hollow cuDNN's."""
    figure.set_size_inches(7, 5)
    axes = figure.add_subplot()
    found = [row for row in rows.values() if row["status"] == OK and row["way"] in COLOURS]
    for way, colour in COLOURS.items():
        for layout, marker in MARKERS.items():
            chosen = [row for row in found if (row["way"], row["layout"]) == (way, layout)]
            if chosen:
                intensity = [2 * row["macs"] / row["bytes"] for row in chosen]
                axes.scatter(intensity, [row["tflops"] for row in chosen], s=22, c=colour, marker=marker,
                             linewidths=0.8, label=f"{way} {layout}")
                axes.scatter(intensity, [row["tflops"] / row["ratio"] for row in chosen], s=22, facecolors="none",
                             edgecolors=colour, marker=marker, linewidths=0.8)
    intensities = [2 * row["macs"] / row["bytes"] for row in found] or [1.0, 1000.0]
    ends = [min(intensities) / 1.5, max(intensities) * 1.5]
    axes.plot(ends, [H200_COPY * end / 1e12 for end in ends], color="0.3", linewidth=0.9,
              label=f"device copy, {H200_COPY / 1e12:.1f} TB/s")
    for (ceiling, text), style in zip(CEILINGS, ("-", "--", ":")):
        axes.plot(ends, [ceiling] * 2, color="0.5", linewidth=0.9, linestyle=style,
                  label=f"{text}, {ceiling:.0f} TFLOP/s")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=(10, 2 * CEILINGS[0][0]), xlabel="FLOP / byte",
             ylabel="TFLOP/s (filled: ours, hollow: cuDNN's)")
    axes.legend(fontsize=6, loc="lower right")
