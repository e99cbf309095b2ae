"""What select()'s choice costs: its pick of today against the quickest algorithm measured, on all studied layers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from bench.devices import NoDevice
from bench.report import environment
from bench.report.files import OK, Report, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.select import explain

from .contest import shape_fields, shape_of, times_of
from .variants import plane

RESULTS = environment.ROOT / "docs" / "results"
STUDIES = ("planes", "paper_layers", "twelve_layers", "select")
NEAR, SHARE = 1.10, 0.90        # a pick is good within 10 % of the quickest; 90 % of the picks shall be

ABOUT = f"""
No GPU is needed: times are those of docs/results/<study>/<study>.json ({", ".join(STUDIES)}), each of an algorithm
with its default plan values; the pick is what select() takes now, by its estimates alone (no tuning table), for the
architecture that the study ran on. Regret is the pick's time over the quickest algorithm's, less one. A good pick is
within {100 * (NEAR - 1):.0f} %; {100 * SHARE:.0f} % of all layers shall have one.

"values differ" marks a pick whose default plan values are no longer those that were timed. A layer whose pick was not
timed (an algorithm newer than the measurement, a row that failed) and a study that is missing stand below, by name;
they count neither way.
"""


def run(context: Context) -> None:
    context.report.rows.clear()         # nothing here is measured: all of it is worked out anew
    found = {name: _read(name) for name in STUDIES}
    context.expect(sum(len(rows) if rows else 1 for _, rows in found.values()))
    for name, (arch, rows) in found.items():
        if not rows:
            context.row(name, lambda name=name: _missing(name), kind="study", study=name)
        for row in rows:
            context.row(f"{name}/{row['key']}", lambda row=row, arch=arch: judge(row, arch), kind="layer", study=name,
                        name=row.get("name", row["key"]))


def _missing(name: str) -> dict[str, Any]:
    raise NoDevice(f"docs/results/{name}/{name}.json is not there, or has no layers")


def _read(name: str) -> tuple[str, list[dict[str, Any]]]:
    """The architecture that a study ran on and its rows of layers; none where the file is missing. Raises ValueError
    for a file of another form."""
    stored = Report.open(name, RESULTS / name)
    every = list(stored.rows.values())
    rows = [row for row in every if "layer" in row or "shape" in row or "chosen" in row]
    return stored.runs[-1]["arch"] if stored.runs else "", rows + _planes(every)


def _planes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that are one algorithm on one plane (``name``, ``size``, ``filter``), as one row for each plane."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for row in rows:
        if row.get("kind") == "ours" and row.get("name") in ALGORITHMS and "shape" not in row:
            taps, size, name = row["filter"], row["size"], row["name"]
            made = found.setdefault((taps, size), {"key": f"{taps}x{taps}/{size}", "status": OK,
                                                   **shape_fields(plane(size, taps))})
            made |= {f"{name}_ms": row["ms"], f"{name}_settings": row["settings"]} if row["status"] == OK else \
                {f"{name}_reason": row["status"]}
    return list(found.values())


def judge(row: Mapping[str, Any], arch: str) -> dict[str, Any]:
    """select()'s pick for a measured row, and its regret. Raises NoDevice with the reason where it cannot be told."""
    if row["status"] != OK:
        raise NoDevice(f"the study's row was not measured ({row['status']})")
    shape, times = _shape(row), times_of(row)
    candidate = explain(shape, arch)[0]
    pick = candidate.algorithm
    if candidate.plan is None or not times:
        raise NoDevice("no algorithm serves the layer, or none was timed")
    if pick not in times:
        raise NoDevice(f"select() takes {pick}, which the study did not time: "
                       f"{row.get(f'{pick}_reason', 'the study is older than the algorithm')}")
    timed, now = row.get(f"{pick}_settings"), json.loads(json.dumps(candidate.plan.settings()))
    quickest = min(times, key=times.get)
    return {"layer": str(shape), "pick": pick, "pick_ms": times[pick], "quickest": quickest,
            "quickest_ms": times[quickest], "ratio": times[pick] / times[quickest], "algorithms_timed": len(times),
            "values_differ": None if timed is None else timed != now}


def _shape(row: Mapping[str, Any]) -> Any:
    try:
        shape = shape_of(row)
    except WarpconvError as error:
        raise NoDevice(f"its layer cannot be read ({error})") from None
    if shape is None:
        raise NoDevice("the row does not say its layer (it was measured by an earlier version); run the study again")
    return shape


# ---- what is shown

def tables(rows: Rows) -> list[Table]:
    judged = [row for row in rows.values() if row.get("kind") == "layer" and row["status"] == OK]
    return [_shares(rows, judged), _confusions(judged), _layers(judged)]


def _shares(rows: Rows, judged: list[dict[str, Any]]) -> Table:
    lines = []
    missing = [row["study"] for row in rows.values() if row.get("kind") == "study"]
    for name in (*STUDIES, "all"):
        mine = [row["ratio"] for row in judged if name in (row["study"], "all")]
        layers = sum(row.get("kind") == "layer" and name in (row["study"], "all") for row in rows.values())
        good = sum(ratio <= NEAR for ratio in mine)
        share = good / len(mine) if mine else None
        known = len(mine) == layers and not (missing if name == "all" else name in missing)
        met = None if share is None else False if share < SHARE else True if known else None
        lines.append((name, layers, len(mine), good, share, SHARE, met, max(mine, default=None)))
    text = f"Missing: {', '.join(missing)}. " if missing else ""
    return Table("Picks within 10 % of the quickest", ("study", "layers", "judged", "good", "share", "must", "met",
                                                       "worst ratio"), tuple(lines), text.strip())


def _confusions(judged: list[dict[str, Any]]) -> Table:
    wrong = [row for row in judged if row["ratio"] > NEAR]
    counted = Counter((row["pick"], row["quickest"]) for row in wrong)
    lines = tuple((*pair, count, max(row["ratio"] for row in wrong if (row["pick"], row["quickest"]) == pair))
                  for pair, count in counted.most_common())
    return Table("What is taken for what", ("pick", "quickest", "layers", "worst ratio"), lines,
                 "Layers whose pick is not within 10 %.")


def _layers(judged: list[dict[str, Any]]) -> Table:
    lines = tuple((row["study"], row["name"], row["layer"], row["pick"], row["pick_ms"], row["quickest"],
                   row["quickest_ms"], 100 * (row["ratio"] - 1), row["values_differ"])
                  for row in sorted(judged, key=lambda row: -row["ratio"]))
    return Table("Every layer", ("study", "name", "layer", "pick", "ms", "quickest", "its ms", "regret %",
                                 "values differ"), lines)


def plot(rows: Rows, figure: Any) -> None:
    """Regret of all layers, the least first: where the line leaves 10 % is the share of good picks."""
    figure.set_size_inches(6, 3.5)
    axes = figure.add_subplot()
    for name in STUDIES:
        ratios = sorted(row["ratio"] for row in rows.values() if row["status"] == OK and row["study"] == name)
        if ratios:
            parts = [100 * (i + 1) / len(ratios) for i in range(len(ratios))]
            axes.step(parts, [100 * (ratio - 1) for ratio in ratios], where="post", label=f"{name} ({len(ratios)})")
    axes.axhline(100 * (NEAR - 1), color="0.4", linewidth=0.8)
    axes.axvline(100 * SHARE, color="0.4", linewidth=0.8, linestyle="--")
    axes.set(xlabel="% of the layers", ylabel="regret, %", yscale="symlog", xlim=(0, 100))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)


STUDY = Study("regret", "select()'s pick against the quickest measured, over the layers of all studies", ABOUT, run,
              tables, plot, needs_gpu=False)
