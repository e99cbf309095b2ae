"""The picture of a tuned space: every configuration by rank, and what each plan value costs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from warpconv.codegen.errors import ArgumentError

from .files import check_output, write_whole

KINDS = (".svg", ".png", ".pdf")
COLORS = ("#3b6fb6", "#d1495b", "#2e8b57", "#c28a00", "#7d5ba6", "#555555")
COLUMNS = 3
MOST_STRIPS = 24
_NO_DATE: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def check_picture(path: str) -> None:
    """Raises ArgumentError or InputFileError where the picture could not be written, or not drawn at all."""
    if Path(path).suffix.lower() not in KINDS:
        raise ArgumentError("no such kind of picture", argument="--plot", value=path, hint=f"one of {', '.join(KINDS)}")
    check_output(path, (), "--plot")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ArgumentError("drawing needs Matplotlib", argument="--plot", value=path,
                            hint='pip install "warpconv[tune]"') from None


def draw_space(result: Any, path: str) -> None:
    """Above: time against rank, a colour for each algorithm, the copy of the same bytes as a line. Below, for every
    plan value that was varied: the times of all configurations that have it, the quickest marked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    timed = result.database.timed(result.subject)
    if not timed:
        raise ArgumentError("no configuration was timed", argument="--plot", value=path)
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(dict.fromkeys(t.algorithm for t in timed))}
    strips = _varied(timed)[:MOST_STRIPS]
    rows = math.ceil(len(strips) / COLUMNS)
    figure = Figure(figsize=(11, 4 + 1.9 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(1 + rows, COLUMNS, height_ratios=[2, *[1] * rows])
    _ranks(figure.add_subplot(grid[0, :]), result, timed, colors)
    for place, (algorithm, name, groups) in enumerate(strips):
        _strip(figure.add_subplot(grid[1 + place // COLUMNS, place % COLUMNS]), f"{algorithm}: {name}", groups,
               colors[algorithm])
    figure.suptitle(f"{result.subject}\n{result.subject.device} ({result.subject.arch})", fontsize=9)
    kind = Path(path).suffix[1:].lower()
    write_whole(path, lambda aside: figure.savefig(aside, format=kind, metadata=_NO_DATE[kind]), "--plot")


def _ranks(axes: Any, result: Any, timed: list[Any], colors: dict[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator
    for algorithm, color in colors.items():
        places = [i for i, timing in enumerate(timed, 1) if timing.algorithm == algorithm]
        axes.scatter(places, [timed[i - 1].us for i in places], s=12, color=color, label=algorithm)
    if result.rule is not None:
        axes.scatter([timed.index(result.rule) + 1], [result.rule.us], s=70, facecolors="none", edgecolors="black",
                     label="chosen by rule")
    if result.copy_us is not None:
        axes.axhline(result.copy_us, color="black", linewidth=1, linestyle="--", label="copy of the same bytes")
    axes.set(yscale="log", xlabel="rank", ylabel="us")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _plain_numbers(axes)
    axes.legend(fontsize=8)


def _strip(axes: Any, title: str, groups: dict[Any, list[float]], color: str) -> None:
    for place, times in enumerate(groups.values()):
        axes.scatter([place] * len(times), times, s=8, alpha=0.4, color=color, linewidths=0)
        axes.hlines(min(times), place - 0.3, place + 0.3, color="black", linewidth=1.5)
    axes.set_xticks(range(len(groups)), [str(value) for value in groups], fontsize=7)
    axes.set_yscale("log")
    axes.set_title(title, fontsize=8)
    axes.tick_params(axis="y", which="both", labelsize=7)
    _plain_numbers(axes)


def _plain_numbers(axes: Any) -> None:
    """Times as people write them, few enough to be read."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high > 4 * low else MaxNLocator(4))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _varied(timed: list[Any]) -> list[tuple[str, str, dict[Any, list[float]]]]:
    """(algorithm, plan value, {value: times}) of all that has more than one value, those that matter most first."""
    times: dict[tuple[str, str], dict[Any, list[float]]] = {}
    for timing in timed:
        for name, value in timing.values:
            times.setdefault((timing.algorithm, name), {}).setdefault(value, []).append(timing.us)
    found = [(algorithm, name, dict(sorted(groups.items(), key=lambda item: (str(type(item[0])), item[0]))))
             for (algorithm, name), groups in times.items() if len(groups) > 1]
    return sorted(found, key=lambda row: -_spread(row[2]))


def _spread(groups: dict[Any, list[float]]) -> float:
    """How far apart the quickest of each value are."""
    quickest = [min(times) for times in groups.values()]
    return max(quickest) / min(quickest)
