"""The tables and the plot of the study images: what was reached against what is asked for, then every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.report.files import OK, Table
from bench.study import Rows

PEERS = ("NPP", "CuPy", "cuDNN")
RATIOS = {"of_zeros": "of zeros", "of_none": "of none", "of_floor": "of the floor"}
TITLES = {"borders": "Borders", "pixels": "Pixels, 8192^2", "several": "Several filters over one image",
          "gaussian": "gaussian_filter", "epilogues": "Epilogues"}
SHOWN = {"borders": ("of_zeros",), "pixels": (), "several": (), "gaussian": ("of_floor",), "epilogues": ("of_none",)}
CPU_ROW = ("What is asked of the command `warpconv filter` on the CPU device is the study filter's: "
           "`python -m bench filter`.")


def judged(values: dict[str, Any], targets: Sequence[Any]) -> dict[str, Any]:
    """A row's targets with what was reached, and whether it meets all that it must: None where one that it must reach
    could not be measured."""
    lines = [{"target": t.name, "field": t.field, "must": t.must, "aim": t.aim, "reached": values.get(t.field),
              "met": _met(values.get(t.field), t.must), "aim_met": _met(values.get(t.field), t.aim)} for t in targets]
    each = [line["met"] for line in lines if line["must"] is not None]
    return {"targets": lines, "met": False if False in each else None if None in each or not each else True}


def _met(reached: float | None, least: float | None) -> bool | None:
    return None if reached is None or least is None else reached >= least


def measured(rows: Rows) -> list[dict[str, Any]]:
    """The rows that have a time."""
    return [row for row in rows.values() if row.get("kind") == "row" and row["status"] == OK]


def tables(rows: Rows) -> list[Table]:
    """Targets, ceilings, borders in short, one table a group, and who gave no time."""
    found = measured(rows)
    made = [_targets(rows), _ceilings(rows), *_matrix(found)]
    made += [_group(group, [row for row in found if row["group"] == group]) for group in TITLES
             if any(row["group"] == group for row in found)]
    return [*made, *_missing_peers(found)]


def _targets(rows: Rows) -> Table:
    """A line a target: the worst row, and how many meet it; rows without a time are counted as not meeting it."""
    lines: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for row in rows.values():
        for target in row.get("targets", ()):
            lines.setdefault(target["target"], []).append((target, row))
    return Table("Targets", ("target", "must", "aim", "worst row reached", "worst row", "rows that meet it", "met",
                             "aim met"), tuple(_target(name, judged) for name, judged in lines.items()),
                 f"A target is met where every row meets it; a dash: not asked, or not measured. {CPU_ROW}")


def _target(name: str, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> tuple[Any, ...]:
    first = pairs[0][0]
    known = [pair for pair in pairs if pair[0]["reached"] is not None]
    least = "met" if first["must"] is not None else "aim_met"
    good = sum(bool(target[least]) for target, _ in pairs)
    worst = min(known, key=lambda pair: pair[0]["reached"], default=None)
    return (name, first["must"], first["aim"], worst and worst[0]["reached"], worst and _where(worst[1]),
            f"{good} of {len(pairs)}", *(_all([target[field] for target, _ in pairs]) for field in ("met", "aim_met")))


def _all(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def _where(row: dict[str, Any]) -> str:
    return f"{row['batch']}, {row['name']}"


def _ceilings(rows: Rows) -> Table:
    copy, gemm = rows.get("ceiling/copy", {}), rows.get("ceiling/sgemm", {})
    return Table("Ceilings of this run", ("what", "value", "unit"),
                 (("device copy of 1 GiB, read + written", copy.get("gbs"), "GB/s"),
                  ("SGEMM 8192^3, TF32 off", gemm.get("tflops"), "TFLOP/s")))


def _matrix(rows: list[dict[str, Any]]) -> list[Table]:
    """Borders: a line a layer, a column a border, the time of zeros over its own."""
    found = [row for row in rows if row["group"] == "borders"]
    modes = list(dict.fromkeys(row["name"] for row in found))
    layers = list(dict.fromkeys(row["batch"] for row in found))
    if not found:
        return []
    cells = {(row["batch"], row["name"]): row for row in found}

    def line(layer: str) -> tuple[Any, ...]:
        zeros = cells.get((layer, modes[0]), {})
        return (layer, zeros.get("algorithm"), zeros.get("ms"),
                *(_percent(cells.get((layer, mode), {}).get("of_zeros")) for mode in modes[1:]))

    return [Table("Borders against zeros", ("layer", "algorithm of zeros", "zeros ms", *modes[1:]),
                  tuple(map(line, layers)), "The time with a border of zeros over that with another, in per cent.")]


def _percent(ratio: float | None) -> str | None:
    return None if ratio is None else f"{100 * ratio:.1f}"


def _group(group: str, rows: list[dict[str, Any]]) -> Table:
    there = [peer for peer in PEERS if any(f"{peer}_ms" in row for row in rows)]
    columns = ("layer", "row", "ours ms", "GB/s", "of copy", *(RATIOS[name] for name in SHOWN[group]),
               *(column for peer in there for column in (f"{peer} ms", "x")), "algorithm", "registers", "error", "met")
    lines = [(row["batch"], row["name"], row["ms"], row["gbs"], row["of_copy"],
              *(row.get(name) for name in SHOWN[group]),
              *(value for peer in there for value in (row.get(f"{peer}_ms"), row.get(f"{peer}_speedup"))),
              row["algorithm"], row.get("registers"), f"{row['error']:.1e}", row["met"]) for row in rows]
    return Table(TITLES[group], columns, tuple(lines), _spilled(rows))


def _spilled(rows: list[dict[str, Any]]) -> str:
    spilled = [_where(row) for row in rows if row.get("spill_bytes")]
    return f"Registers are spilled in {'; '.join(spilled)}." if spilled else ""


def _missing_peers(rows: list[dict[str, Any]]) -> list[Table]:
    """Libraries that gave no time, by their reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for peer in PEERS:
            if row.get(f"{peer}_reason"):
                by_reason.setdefault((peer, row[f"{peer}_reason"]), []).append(f"{row['group']}: {_where(row)}")
    lines = tuple((peer, reason, len(names), names[0]) for (peer, reason), names in by_reason.items())
    return [Table("Peers without a time", ("peer", "reason", "rows", "first"), lines)] if lines else []


def plot(rows: Rows, figure: Any) -> None:
    """Each target of each row: what was reached over what it must reach, or is to aim at where nothing is a must."""
    marks = [(row, target, target["reached"] / (target["must"] or target["aim"])) for row in measured(rows)
             for target in row["targets"] if target["reached"] is not None]
    groups = [group for group in TITLES if any(row["group"] == group for row, _, _ in marks)]
    figure.set_size_inches(3.0 * max(1, len(groups)), 4.2)
    for i, group in enumerate(groups):
        axes = figure.add_subplot(1, len(groups), i + 1)
        shown = [(target["target"], ratio) for row, target, ratio in marks if row["group"] == group]
        names = list(dict.fromkeys(name for name, _ in shown))
        axes.scatter([ratio for _, ratio in shown], [len(names) - names.index(name) for name, _ in shown], s=10)
        axes.axvline(1, color="0.4", linewidth=0.8)
        axes.set_yticks(range(len(names), 0, -1), [name.replace(": ", "\n") for name in names], fontsize=5)
        axes.set(title=TITLES[group], xlabel="reached over must (or aim)", ylim=(0.3, len(names) + 0.7))
        if max((ratio for _, ratio in shown), default=1) > 3:
            axes.set_xscale("log")
