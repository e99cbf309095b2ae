"""The plots of the study memory_wall: a roofline, and each row's part of its floor."""

from __future__ import annotations

from typing import Any

from bench.study import Rows

from .wall_tables import best_peer, kind, measured

DATASHEET_TFLOPS = 67.0         # float32 FMAs of an H200
COLOURS = {"float32": "#1b6ca8", "float16": "#d1495b", "bfloat16": "#edae49"}
MARKERS = {"planes": "o", "depthwise": "s", "large filters": "^", "small planes": "x"}


def roofline(rows: Rows, figure: Any) -> None:
    """TFLOP/s over FLOP for each byte moved, both of the taps inside the image."""
    found = measured(rows)
    figure.set_size_inches(7, 5)
    axes = figure.add_subplot()
    for group, marker in MARKERS.items():
        for dtype, colour in COLOURS.items():
            chosen = [row for row in found if row["group"] == group and row["dtype"] == dtype]
            if chosen:
                axes.scatter([row["intensity"] for row in chosen], [row["tflops"] for row in chosen], s=14, c=colour,
                             marker=marker, linewidths=0.8, label=f"{group}, {dtype}")
    copy, gemm = (rows.get(f"ceiling/{name}", {}).get(field) for name, field in (("copy", "gbs"), ("sgemm", "tflops")))
    ends = [min((row["intensity"] for row in found), default=1.0) / 1.5,
            max((row["intensity"] for row in found), default=100.0) * 1.5]
    if copy:
        axes.plot(ends, [copy * end / 1e3 for end in ends], color="0.3", linewidth=0.9,
                  label=f"device copy, {copy / 1e3:.2f} TB/s")
    if gemm:
        axes.plot(ends, [gemm, gemm], color="0.3", linewidth=0.9, linestyle="--", label=f"SGEMM, {gemm:.0f} TFLOP/s")
    axes.plot(ends, [DATASHEET_TFLOPS] * 2, color="0.6", linewidth=0.9, linestyle=":",
              label=f"datasheet float32, {DATASHEET_TFLOPS:.0f} TFLOP/s")
    top = max([DATASHEET_TFLOPS, *(row["tflops"] for row in found)])
    axes.set(xscale="log", yscale="log", xlim=ends, xlabel="FLOP / byte", ylabel="TFLOP/s")
    axes.set_ylim(top=2 * top)
    axes.legend(fontsize=6)


def of_floor(rows: Rows, figure: Any) -> None:
    """A bar for each row: the floor's time over ours, and over the quickest peer's."""
    found = measured(rows)[::-1]
    figure.set_size_inches(7, 1.2 + 0.13 * len(found))
    axes = figure.add_subplot()
    places = range(len(found))
    axes.barh(places, [row["of_floor"] for row in found], height=0.75,
              color=[COLOURS[row["dtype"]] for row in found])
    peers = [(place, row["floor_ms"] / best_peer(row)[1]) for place, row in zip(places, found) if best_peer(row)]
    axes.scatter([part for _, part in peers], [place for place, _ in peers], s=9, color="black", zorder=3,
                 label="the quickest peer")
    for place, row in zip(places, found):
        for target in row["targets"]:
            if target["field"] == "of_floor" or (target["field"], row["bound"]) == ("of_copy", "copy"):
                axes.plot([target["must"]] * 2, [place - 0.4, place + 0.4], color="0.2", linewidth=1)
    axes.set_yticks(places, [f"{row['group']}: {row['name']}{kind(row)}" for row in found], fontsize=5)
    axes.axvline(1, color="0.5", linewidth=0.8)
    axes.set(xlabel="part of the floor reached (line: must)", ylim=(-1, len(found)))
    if peers:
        axes.legend(fontsize=6, loc="lower right", bbox_to_anchor=(1, 1))
