"""The tables of the study memory_wall: what was reached against what is asked for, then every row."""

from __future__ import annotations

import statistics
from typing import Any

from bench.report.files import OK, Table
from bench.study import Rows

from .wall_layers import GEOMETRIC_AIM, GEOMETRIC_MEAN

PEERS = ("NPP", "cuDNN", "CuPy")
COLUMNS = ("layer", "ours ms", "GB/s", "TFLOP/s", "of copy", "of the floor", "bound by", "best peer", "its ms", "x",
           "algorithm", "registers", "must", "met")


def measured(rows: Rows) -> list[dict[str, Any]]:
    """The layers that were measured."""
    return [row for row in rows.values() if row.get("kind") == "layer" and row["status"] == OK]


def best_peer(row: dict[str, Any]) -> tuple[str, float] | None:
    """The quickest peer of a row and its milliseconds."""
    found = [(name, row[f"{name}_ms"]) for name in PEERS if row.get(f"{name}_ms") is not None]
    return min(found, key=lambda peer: peer[1], default=None)


def tables(rows: Rows) -> list[Table]:
    """Targets, the depthwise layers' speedups by format, ceilings, and one table a group."""
    found = measured(rows)
    return [_targets(found), _depthwise(found), _ceilings(rows), *_groups(found), *_missing_peers(found)]


def _targets(rows: list[dict[str, Any]]) -> Table:
    by_name: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for row in rows:
        for target in row["targets"]:
            by_name.setdefault(target["target"], []).append((target, row))
    lines = [_target(name, judged) for name, judged in by_name.items()]
    mean = geometric_mean(_speedups(rows))
    if mean is not None:
        lines.append(("depthwise: geometric mean of the speedups over cuDNN", GEOMETRIC_MEAN, GEOMETRIC_AIM, mean, "-",
                      len(_speedups(rows)), mean >= GEOMETRIC_MEAN, mean >= GEOMETRIC_AIM))
    return Table("Targets", ("target", "must", "aim", "worst row reached", "worst row", "rows that meet it", "met",
                             "aim met"), tuple(lines),
                 "A target is met where every row meets it; one that could not be measured shows a dash.")


def _target(name: str, judged: list[tuple[dict[str, Any], dict[str, Any]]]) -> tuple[Any, ...]:
    known = [(target, row) for target, row in judged if target["reached"] is not None]
    first = judged[0][0]
    if not known:
        return name, first["must"], first["aim"], None, "-", f"0 of {len(judged)}", None, None
    worst, row = min(known, key=lambda pair: pair[0]["reached"])
    met = [target["met"] for target, _ in known]
    complete = len(known) == len(judged)
    aim = first["aim"]
    return (name, first["must"], aim, worst["reached"], f"{row['name']}{kind(row)}", f"{sum(met)} of {len(judged)}",
            False if not all(met) else True if complete else None,
            None if aim is None or not complete else worst["reached"] >= aim)


def kind(row: dict[str, Any]) -> str:
    """What a plane's name does not say."""
    return f", {row['dtype']}" if row["group"] == "planes" else ""


def _speedups(rows: list[dict[str, Any]], **of: str) -> list[float]:
    return [row["cuDNN_speedup"] for row in rows if row["group"] == "depthwise" and not row["extra"]
            and row.get("cuDNN_speedup") is not None and all(row[name] == value for name, value in of.items())]


def geometric_mean(values: list[float]) -> float | None:
    """None of no values."""
    return statistics.geometric_mean(values) if values else None


def _depthwise(rows: list[dict[str, Any]]) -> Table:
    formats = dict.fromkeys((row["dtype"], row["layout"]) for row in rows
                            if row["group"] == "depthwise" and not row["extra"])
    lines = []
    for dtype, layout in formats:
        values = _speedups(rows, dtype=dtype, layout=layout)
        lines.append((f"{dtype} {layout}", len(values), geometric_mean(values), min(values, default=None),
                      max(values, default=None)))
    values = _speedups(rows)
    lines.append(("all", len(values), geometric_mean(values), min(values, default=None), max(values, default=None)))
    return Table("Depthwise over cuDNN", ("format", "layers", "geometric mean", "least", "most"), tuple(lines))


def _ceilings(rows: Rows) -> Table:
    lines = []
    for key, name, value, unit in (("ceiling/copy", "device copy of 1 GiB, read + written", "gbs", "GB/s"),
                                   ("ceiling/sgemm", "SGEMM 8192^3", "tflops", "TFLOP/s"),
                                   ("ceiling/launch", "an empty kernel's launch", "ms", "ms")):
        row = rows.get(key, {})
        lines.append((name, row.get(value), unit, row.get("method", row.get("status", "-"))))
    return Table("Ceilings of this run", ("ceiling", "value", "unit", "timed by"), tuple(lines))


def _groups(rows: list[dict[str, Any]]) -> list[Table]:
    titles: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        titles.setdefault(f"{row['group']}{kind(row)}", []).append(row)
    return [_group(title, members) for title, members in titles.items()]


def _group(title: str, rows: list[dict[str, Any]]) -> Table:
    columns = COLUMNS
    small = rows[0]["group"] == "small planes"
    if small:
        columns = (*COLUMNS[:5], "launch + copy over ours", *COLUMNS[5:])
    lines = []
    for row in rows:
        peer, peer_ms = best_peer(row) or (None, None)
        line = [row["name"], row["ms"], row["gbs"], row["tflops"], row["of_copy"], row["of_floor"], row["bound"],
                peer, peer_ms, peer_ms and peer_ms / row["ms"], row["algorithm"], row.get("registers"), _must(row),
                row["met"]]
        lines.append(tuple(line[:5] + [row.get("of_launch_and_copy")] + line[5:] if small else line))
    return Table(title[0].upper() + title[1:], columns, tuple(lines), _spilled(rows))


def _must(row: dict[str, Any]) -> str:
    """A row's targets; those that are missed say what was reached."""
    words = {"of_copy": "of copy", "of_floor": "of the floor", "of_launch_and_copy": "launch + copy"}
    parts = []
    for target in row["targets"]:
        field = target["field"]
        name = words.get(field) or f"x {field.removesuffix('_speedup')}"
        missed = f" (reached {target['reached']:.2f})" if target["met"] is False else ""
        parts.append(f"{target['must']:.2f} {name}{missed}")
    return "; ".join(parts) or "-"


def _spilled(rows: list[dict[str, Any]]) -> str:
    spilled = [row["name"] for row in rows if row.get("spill_bytes")]
    return f"Registers are spilled in {', '.join(spilled)}." if spilled else ""


def _missing_peers(rows: list[dict[str, Any]]) -> list[Table]:
    """Peers that gave no time, by their reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for peer in PEERS:
            if row.get(f"{peer}_reason"):
                name = f"{row['group']} {row['name']}{kind(row)}"
                by_reason.setdefault((peer, row[f"{peer}_reason"]), []).append(name)
    lines = tuple((peer, reason, len(names), names[0]) for (peer, reason), names in by_reason.items())
    return [Table("Peers without a time", ("peer", "reason", "rows", "first"), lines)] if lines else []
