"""The tables and the plot of the study planes."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from bench.report.files import OK, Table, line_style
from bench.study import Rows
from warpconv.codegen.registry import ALGORITHMS

CHOICE = "select()"
COPY = "device copy"
BASES = ("im2col", "im2col (PyTorch)")
IMAGE_LIBRARIES = ("NPP", "CuPy", "cuCIM")
PAPER_KERNEL = "reuse"
PAPER_SIZES = (256, 512, 1024, 2048, 4096)
NEAR = 1.10                 # a choice is good where it is within this of the quickest


class Planes:
    """Measured rows by filter, size and name."""

    def __init__(self, rows: Rows):
        self._rows: dict[tuple[int, int, str], dict[str, Any]] = {}
        self.names: list[str] = []
        for row in rows.values():
            if "name" in row and row["status"] == OK:
                self._rows[row["filter"], row["size"], row["name"]] = row
        present = {name for _, _, name in self._rows}
        order = dict.fromkeys([*BASES, *(n for _, _, n in self._rows if n not in ALGORITHMS and n != CHOICE), CHOICE,
                               *ALGORITHMS])
        self.names = [name for name in order if name in present]
        self.filters = sorted({taps for taps, _, _ in self._rows})

    def sizes(self, taps: int) -> list[int]:
        return sorted({size for t, size, _ in self._rows if t == taps})

    def row(self, taps: int, size: int, name: str) -> dict[str, Any]:
        return self._rows.get((taps, size, name), {})

    def ms(self, taps: int, size: int, name: str) -> float | None:
        return self.row(taps, size, name).get("ms")

    def quickest(self, taps: int, size: int, names: Any) -> str | None:
        """Of these names the one with the least time there."""
        found = [name for name in names if self.ms(taps, size, name) is not None]
        return min(found, key=lambda name: self.ms(taps, size, name), default=None)

    def speedup(self, taps: int, size: int, name: str, over: Any = BASES) -> float | None:
        """The time of the quickest of ``over`` over that of ``name``; None where one of them is missing."""
        base, ms = self.quickest(taps, size, over), self.ms(taps, size, name)
        return None if base is None or ms is None else self.ms(taps, size, base) / ms


def tables(rows: Rows) -> list[Table]:
    """Ceilings, the documents' claims, speedups and times of each filter, the choices, and what was left out."""
    found = Planes(rows)
    return [_ceilings(rows), _claims(found), *(_speedups(found, taps) for taps in found.filters),
            *(_times(found, taps) for taps in found.filters), _choices(found), *_left_out(rows)]


def _ceilings(rows: Rows) -> Table:
    copy, gemm = rows.get("ceiling/copy", {}), rows.get("ceiling/sgemm", {})
    return Table("Ceilings of this run", ("what", "value", "unit"),
                 (("device copy of 1 GiB, read + written", copy.get("gbs"), "GB/s"),
                  ("SGEMM 8192^3, TF32 off", gemm.get("tflops"), "TFLOP/s")))


def _claims(found: Planes) -> Table:
    """What the documents say of planes, and the same of this run."""
    def mean(taps: int, over: Any, sizes: tuple[int, ...] = PAPER_SIZES) -> Callable[[str], float | None]:
        def of(name: str) -> float | None:
            ratios = [found.speedup(taps, size, name, over) for size in sizes]
            return None if None in ratios else statistics.fmean(ratios)
        return of

    claims = (("3x3: mean speedup over GEMM-im2col", "5.4", mean(3, BASES)),
              ("3x3: speedup over GEMM-im2col at 4096^2", "9.7", mean(3, BASES, (4096,))),
              ("3x3: mean speedup over NPP, their second best", "more than 1.3", mean(3, ("NPP",))),
              ("5x5: mean speedup over GEMM-im2col", "7.7", mean(5, BASES)),
              ("3x3: mean speedup over the quickest image library", "more than 2", mean(3, IMAGE_LIBRARIES)),
              ("5x5: mean speedup over the quickest image library", "more than 2", mean(5, IMAGE_LIBRARIES)),
              ("5x5: mean speedup over cuDNN", "-", mean(5, ("cuDNN",))))
    lines = tuple((claim, said, of(PAPER_KERNEL), of(CHOICE)) for claim, said, of in claims)
    return Table("What the documents say", ("claim", "documents", PAPER_KERNEL, CHOICE), lines,
                 "Means over 256^2 to 4096^2; a dash where a size or a library was not measured.")


def _speedups(found: Planes, taps: int) -> Table:
    sizes = found.sizes(taps)
    lines = [("the base itself, ms", *(_base_ms(found, taps, size) for size in sizes))]
    lines += [(name, *(found.speedup(taps, size, name) for size in sizes)) for name in _there(found, taps)]
    return Table(f"{taps}x{taps}: speedup over GEMM-im2col", ("", *(f"{size}^2" for size in sizes)), tuple(lines))


def _base_ms(found: Planes, taps: int, size: int) -> float | None:
    base = found.quickest(taps, size, BASES)
    return None if base is None else found.ms(taps, size, base)


def _there(found: Planes, taps: int) -> list[str]:
    return [name for name in found.names if any(found.ms(taps, size, name) for size in found.sizes(taps))]


def _times(found: Planes, taps: int) -> Table:
    sizes = found.sizes(taps)
    largest = sizes[-1]
    lines = []
    for name in _there(found, taps):
        last = found.row(taps, largest, name)
        workspace = last.get("workspace_bytes")
        lines.append((name, *(found.ms(taps, size, name) for size in sizes), last.get("gbs"), last.get("tflops"),
                      last.get("registers"), None if workspace is None else workspace / 2**20,
                      None if last.get("error") is None else f"{last['error']:.1e}"))
        lines += _steps(found, taps, name)
    columns = ("", *(f"{size}^2 ms" for size in sizes), *(f"{what} at {largest}^2" for what in (
        "GB/s", "TFLOP/s", "registers", "workspace MiB", "error")))
    return Table(f"{taps}x{taps}: times", columns, tuple(lines))


def _steps(found: Planes, taps: int, name: str) -> list[tuple[Any, ...]]:
    """Lines for the first launch of a call of several alone, and for the call without it."""
    rows = [found.row(taps, size, name) for size in found.sizes(taps)]
    entry = next((row["first_step"] for row in rows if "first_step" in row), None)
    if entry is None:
        return []
    alone = [row.get("first_step_ms") for row in rows]
    rest = [row["ms"] - ms if ms is not None else None for row, ms in zip(rows, alone)]
    return [(f"- {entry} alone", *alone, *[None] * 5), (f"- {name} without it", *rest, *[None] * 5)]


def _choices(found: Planes) -> Table:
    lines, good = [], 0
    for taps in found.filters:
        for size in found.sizes(taps):
            row = found.row(taps, size, CHOICE)
            ours = found.quickest(taps, size, (CHOICE, *ALGORITHMS))
            if not row or ours is None:
                continue
            peer = found.quickest(taps, size, [n for n in found.names if n not in (*ALGORITHMS, CHOICE, COPY)])
            regret = row["ms"] / found.ms(taps, size, ours)
            good += regret <= NEAR
            lines.append((f"{taps}x{taps}, {size}^2", row["algorithm"], row["chosen_by"], row["ms"], ours,
                          found.ms(taps, size, ours), regret, peer, found.speedup(taps, size, CHOICE, (peer,))))
    return Table("The choice", ("plane", "chosen", "by", "ms", "quickest of ours", "its ms", "chosen / quickest",
                                "quickest library", "its time over the choice's"), tuple(lines),
                 f"{good} of {len(lines)} choices are within {100 * (NEAR - 1):.0f} % of our quickest.")


def _left_out(rows: Rows) -> list[Table]:
    """Who has no time, and why: peers by name, algorithms that decline."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for row in rows.values():
        if "name" in row and row["status"] != OK:
            plane = f"{row['filter']}x{row['filter']}, {row['size']}^2"
            by_reason.setdefault((row["name"], row["status"]), []).append(plane)
    lines = tuple((name, status, len(planes), planes[0]) for (name, status), planes in by_reason.items())
    return [Table("Without a time", ("who", "why", "planes", "first"), lines)] if lines else []


def plot(rows: Rows, figure: Any) -> None:
    """Speedup over GEMM-im2col over the size, one panel a filter; libraries are dashed."""
    found = Planes(rows)
    figure.set_size_inches(3.4 * max(1, len(found.filters)), 4.6)
    shown = [name for name in found.names if name not in (COPY, *BASES)]
    for i, taps in enumerate(found.filters):
        axes = figure.add_subplot(1, len(found.filters), i + 1)
        for number, name in enumerate(shown):
            points = [(size, found.speedup(taps, size, name)) for size in found.sizes(taps)]
            points = [(size, value) for size, value in points if value is not None]
            axes.plot([size for size, _ in points], [value for _, value in points], **line_style(number), label=name,
                      linewidth=2 if name == CHOICE else 1,
                      linestyle="-" if name in ALGORITHMS or name == CHOICE else "--")
        axes.axhline(1, color="0.5", linewidth=0.8)
        axes.set(xscale="log", yscale="log", title=f"{taps}x{taps}", xlabel="height and width")
        axes.set_xticks(found.sizes(taps), [str(size) for size in found.sizes(taps)], rotation=60)
        axes.minorticks_off()
        if i == 0:
            axes.set_ylabel("speedup over GEMM-im2col")
    if found.filters:
        figure.legend(*figure.axes[-1].get_legend_handles_labels(), fontsize=6, loc="outside lower center", ncols=8)
