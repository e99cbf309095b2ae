"""A study's results on disk: JSON (what resuming reads), CSV, Markdown and SVG plots."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import environment

SCHEMA = 1
OK = "ok"
MARKERS = ("o", "s", "^", "D")      # of lines in a plot: each ten colours the next
LISTED = 6          # rows with one status that are named


@dataclass(frozen=True)
class Table:
    """One table of a study's Markdown; values that are None are shown as a dash."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    text: str = ""


@dataclass
class Report:
    """Rows of a study, keyed; every new row is on the disk before the next is measured."""

    study: str
    directory: Path
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, study: str, directory: Path, *, fresh: bool = False) -> Report:
        """The report of an earlier run, to be continued; an empty one where there is none, or with ``fresh``."""
        report = cls(study, Path(directory))
        path = report.path("json")
        if fresh or not path.exists():
            return report
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("schema") != SCHEMA or data.get("study") != study:
            raise ValueError(f"{path.name} is not a report of {study}, schema {SCHEMA}; use --fresh")
        report.rows = {row["key"]: row for row in data["rows"]}
        report.runs = data["runs"]
        return report

    def path(self, suffix: str) -> Path:
        return self.directory / (f"{self.study}.{suffix}" if suffix != "md" else "README.md")

    def done(self, key: str) -> bool:
        """Whether the row was measured; one that was skipped or failed is tried again."""
        return self.rows.get(key, {}).get("status") == OK

    def add(self, key: str, row: Mapping[str, Any]) -> None:
        """Keep a row and write the JSON."""
        self.rows[key] = {"key": key, "run": len(self.runs) - 1, **row}
        self.save()

    def save(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        head = json.dumps({"schema": SCHEMA, "study": self.study, "runs": self.runs}, indent=1).removesuffix("\n}")
        rows = ",\n".join(f"  {json.dumps(row)}" for row in self.rows.values())  # a line each: quick, good to compare
        aside = self.path("json").with_suffix(".json.part")
        aside.write_text(f'{head},\n "rows": [\n{rows}\n ]\n}}\n', encoding="utf-8")
        os.replace(aside, self.path("json"))

    def write(self, about: str, tables: Iterable[Table],
              plots: Mapping[str, Callable[[Any], None]] | None = None) -> list[Path]:
        """All files; ``plots`` by name, the study's own is "". They are left out where matplotlib is missing."""
        self.save()
        self._write_csv()
        drawn = [path for name, plot in (plots or {}).items()
                 if _draw(plot, path := self.directory / f"{'-'.join(filter(None, (self.study, name)))}.svg")]
        self.path("md").write_text(self._markdown(about, list(tables), drawn), encoding="utf-8")
        return [*(self.path(s) for s in ("json", "csv", "md")), *drawn]

    def _write_csv(self) -> None:
        columns = list(dict.fromkeys(name for row in self.rows.values() for name in row))
        with self.path("csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: json.dumps(v) if isinstance(v, (dict, list)) else v for k, v in row.items()}
                             for row in self.rows.values())

    def _markdown(self, about: str, tables: Sequence[Table], drawn: Sequence[Path]) -> str:
        lines = [f"# {self.study}", ""]
        used = {row["run"] for row in self.rows.values()}
        for number, run in enumerate(self.runs):
            if number in used:
                lines += environment.describe(run)
        if len(used) > 1:
            lines.append("- Rows come from more than one run (column `run` of the CSV): absolute figures differ a "
                         "little between runs.")
        lines += ["", about.strip(), ""]
        for path in drawn:
            lines += [f"![{path.stem}]({path.name})", ""]
        for table in tables:
            lines += markdown_table(table)
        problems: dict[str, list[str]] = {}
        for row in self.rows.values():
            if row["status"] != OK:
                problems.setdefault(row["status"], []).append(row["key"])
        if problems:
            lines += ["## Not measured", "", *(f"- {_listed(keys)}: {status}" for status, keys in problems.items()), ""]
        return "\n".join(lines)


def _listed(keys: Sequence[str]) -> str:
    """Keys of rows; of many with the same status the first and how many more."""
    return ", ".join(keys) if len(keys) <= LISTED else f"{', '.join(keys[:LISTED])} and {len(keys) - LISTED} more"


def markdown_table(table: Table) -> list[str]:
    """A table as Markdown lines; numbers to the right."""
    numeric = [all(_is_number(row[i]) for row in table.rows) for i in range(len(table.columns))]
    lines = [f"## {table.title}", ""] + ([table.text, ""] if table.text else [])
    lines.append("| " + " | ".join(table.columns) + " |")
    lines.append("|" + "|".join("--:" if right else ":--" for right in numeric) + "|")
    lines += ["| " + " | ".join(shown(value) for value in row) + " |" for row in table.rows]
    return lines + [""]


def shown(value: Any) -> str:
    """A value as a table shows it: three significant digits or whole numbers, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value).replace("|", "\\|")


def line_style(number: int) -> dict[str, Any]:
    """Colour and marker of a plot's line, different for the first forty."""
    return {"color": f"C{number % 10}", "marker": MARKERS[number // 10 % len(MARKERS)], "markersize": 3}


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _draw(plot: Callable[[Any], None], path: Path) -> bool:
    try:
        import matplotlib
    except ImportError:
        return False
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    with matplotlib.rc_context({"svg.hashsalt": "warpconv", "font.size": 8, "svg.fonttype": "none"}):
        figure = Figure(layout="constrained")
        FigureCanvasSVG(figure)
        plot(figure)
        figure.savefig(path, format="svg", metadata={"Date": None})
    return True
