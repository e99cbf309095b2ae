"""``python -m bench STUDY``: run one study from the repository's root."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .devices import NoDevice, open_device
from .report import environment
from .report.files import OK, Report
from .study import Context, Stopped, Study

STUDIES = {"variants": "variants", "transactions": "transactions", "latency": "latency",
           "select": "selection", "baked": "baked", "steps": "steps",
           "memory_wall": "memory_wall", "planes": "planes", "intensity": "intensity",
           "paper_layers": "paper_layers", "twelve_layers": "twelve_layers", "memory": "memory",
           "twelve_tensor": "twelve_tensor", "regret": "regret", "claims": "claims", "agreement": "agreement",
           "images": "images", "filter": "filter_command", "networks": "networks",
           "networks_float32": "networks_float32", "gradients": "gradients",
           "models": "models", "precision": "precision", "one_dimension": "one_dimension", "scale": "scale",
           "whole_networks": "whole_networks", "training": "training", "volumes": "volumes",
           "volumes_dense": "volumes_dense", "transposed": "transposed", "batches": "batches"}


def study(name: str) -> Study:
    """The study of that name."""
    return importlib.import_module(f"bench.studies.{STUDIES[name]}").STUDY


@click.command(epilog="  ".join(f"{name}: {study(name).summary}." for name in STUDIES))
@click.argument("name", metavar="STUDY", type=click.Choice(list(STUDIES)))
@click.option("--quick", is_flag=True, help="A small part of it, with the same keys; a full run continues from there.")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False),
              help="Where the results go (default: docs/results/STUDY).")
@click.option("--only", multiple=True, metavar="PATTERN",
              help="Only rows whose keys match, e.g. 'filter_gradient/*/float16/NHWC' (may be given again; gradients).")
@click.option("--fresh", is_flag=True, help="Measure every row again.")
@click.option("--device", "wanted", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True,
              help="cpu tries a study out on the host; its times mean nothing.")
@click.option("--tables", is_flag=True, help="Measure nothing; write tables and plot anew from the JSON.")
def main(name: str, quick: bool, output: Path | None, only: tuple[str, ...], fresh: bool, wanted: str,
         tables: bool) -> None:
    """Run STUDY and write its JSON, CSV, SVG and Markdown; rows that are there already are kept."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))      # a time limit: what was measured is still written
    directory = output or environment.ROOT / "docs" / "results" / name
    try:
        if tables:
            return _write(study(name), Report.open(name, directory), Console(stderr=True))
        run(study(name), directory, quick=quick, only=only, fresh=fresh, wanted=wanted, arguments=sys.argv[1:])
    except (NoDevice, ValueError, Stopped) as error:
        raise click.ClickException(str(error)) from error


def run(chosen: Study, directory: Path, *, quick: bool = False, only: tuple[str, ...] = (), fresh: bool = False,
        wanted: str = "auto", arguments: Any = (), device: Any = None) -> Report:
    """Measure what is missing of a study and write its files, also when it is stopped half-way."""
    if only and not chosen.selects:
        raise ValueError(f"the study {chosen.name} has no choice of rows: leave out --only")
    report = Report.open(chosen.name, directory, fresh=fresh)
    device = device or _device(chosen, wanted)
    report.runs.append(environment.record(device, list(arguments)))
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as progress, _kept_after(report):
            chosen.run(Context(device, report, quick=quick, progress=progress, only=only))
    finally:
        _write(chosen, report, console)
    problems = [row for row in report.rows.values() if row["status"] != OK]
    console.print(f"{len(report.rows) - len(problems)} rows measured, {len(problems)} not", highlight=False)
    for row in problems[:40]:
        console.print(f"  {row['key']}: {row['status']}", highlight=False, markup=False)
    return report


def _write(chosen: Study, report: Report, console: Console) -> None:
    plots = {name: lambda figure, draw=draw: draw(report.rows, figure)
             for name, draw in {**({"": chosen.plot} if chosen.plot else {}), **chosen.plots}.items()}
    for path in report.write(chosen.about, chosen.tables(report.rows), plots):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def _kept_after(report: Report) -> Any:
    """The clocks as they are right after the last measurement go into the record."""
    try:
        yield
    finally:
        report.runs[-1]["clocks_after"] = environment.clocks()


def _device(chosen: Study, wanted: str) -> Any:
    try:
        return open_device(wanted)
    except NoDevice:
        if chosen.needs_gpu or wanted == "cuda":
            raise
        return open_device("cpu")


if __name__ == "__main__":
    main()
