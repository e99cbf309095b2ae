"""What ``warpconv tune`` prints: results, listings, and their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from .output import add_row, console, heading, table


def configuration_row(database: Any, timing: Any) -> Any:
    """A timing as a record, None for None."""
    from warpconv.records.tuning import ConfigurationRow
    if timing is None:
        return None
    return ConfigurationRow(algorithm=timing.algorithm, values=dict(timing.values), us=timing.us,
                            date=database.date(timing))


def layer_row(database: Any, subject: Any, where: str) -> Any:
    """What a database has of a subject."""
    from warpconv.records.tuning import MeasuredRow
    outcomes = Counter(timing.outcome.value for timing in database.of(subject).values())
    best = next(iter(database.timed(subject)), None)
    return MeasuredRow(layer=str(subject), device=subject.device, arch=subject.arch, database=where,
                       outcomes=dict(sorted(outcomes.items())), best=configuration_row(database, best),
                       copy_us=database.copies.get(subject))


def layers_record(rows: Sequence[Any], path: Path) -> Any:
    from warpconv.records.tuning import DatabaseRecord
    return DatabaseRecord(database=str(path), layers=tuple(rows))


def tune_record(results: Sequence[Any], path: Path) -> Any:
    from warpconv.records.tuning import TunedRow, TuneRecord
    rows = tuple(TunedRow(measured=layer_row(r.database, r.subject, str(path)), skipped=r.skipped,
                          tried={outcome.value: count for outcome, count in r.tried.items()},
                          rule=configuration_row(r.database, r.rule)) for r in results)
    return TuneRecord(database=str(path), layers=rows)


def show_layers(rows: Sequence[Any], path: Path) -> None:
    """A table of what is measured in each database, that of ``path`` the last."""
    for origin in dict.fromkeys((*(row.database for row in rows), str(path))):
        _show_database(origin, [row for row in rows if row.database == origin])


def _show_database(origin: str, rows: Sequence[Any]) -> None:
    out = console()
    heading(out, "database", origin)
    if not rows:
        click.echo("nothing is measured")
        return
    made = table("layer", "device", "timed", "not", "best us", "copy us", "algorithm", "date",
                 numbers=("timed", "not", "best us", "copy us"))
    for row in rows:
        timed = row.outcomes.get("timed", 0)
        best = row.best
        add_row(made, row.layer, row.device, timed, sum(row.outcomes.values()) - timed, best and best.us, row.copy_us,
                best and best.algorithm, best and best.date[:10])
    out.print(made)


def show_results(results: Sequence[Any]) -> None:
    """What each session found, in some lines."""
    out = console()
    for result in results:
        heading(out, "layer", str(result.subject))
        tried = ", ".join(f"{count} {outcome.value}" for outcome, count in result.tried.items()) or "nothing new"
        heading(out, "tried", f"{tried}; {result.skipped} known already")
        if result.best is None:
            heading(out, "best", "none could be timed")
            continue
        values = ", ".join(f"{name}={value}" for name, value in result.best.values)
        heading(out, "best", f"{result.best.us:.4g} us on {result.subject.device}: {result.best.algorithm} {values}")
        if result.rule is not None:
            heading(out, "by rule", f"{result.rule.us:.4g} us: {result.rule.us / result.best.us:.3g} times as long")
        if result.copy_us is not None:
            heading(out, "copy", f"{result.copy_us:.4g} us for the same bytes")
