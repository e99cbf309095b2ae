"""Where a kernel's cycles go, by Nsight Compute, for planes: ``python -m bench.ncu_stalls --kernel wide ...``."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Sequence

import click

from . import environment, ncu
from .devices import NoDevice
from .report import Table, markdown_table

METRICS = {
    "duration_ns": "gpu__time_duration.sum",
    "issue_busy_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "fma_pct": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "dram_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_read_sectors": "lts__t_sectors_srcunit_tex_op_read.sum",
    "registers": "launch__registers_per_thread",
    "warps_active_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
REASONS = ("barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard",
           "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected",
           "short_scoreboard", "sleeping", "tex_throttle", "wait")
STALLS = {reason: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in REASONS}
TOP = 4


def parse(text: str) -> list[dict[str, Any]]:
    """ncu's CSV as one mapping per launch: METRICS by name, ``stalls`` by falling warps per issue. A metric that this
    ncu does not have is left out."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    names, reasons = ({metric: name for name, metric in table.items()} for table in (METRICS, STALLS))
    launches: dict[int, dict[str, Any]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"')))):
        launch = launches.setdefault(int(row["ID"]), {"stalls": {}})
        try:
            value = float((row["Metric Value"] or "").replace(",", ""))
        except ValueError:                          # "n/a"
            continue
        if row["Metric Name"] in names:
            launch[names[row["Metric Name"]]] = value
        elif row["Metric Name"] in reasons:
            launch["stalls"][reasons[row["Metric Name"]]] = value
    for launch in launches.values():
        launch["stalls"] = dict(sorted(launch["stalls"].items(), key=lambda item: -item[1]))
    return [launches[i] for i in sorted(launches)]


def profile(kernels: Sequence[str], size: int, taps: int, arch: str) -> list[dict[str, Any]]:
    """One mapping per kernel, in order. Raises NoDevice with ncu's words."""
    target = [part for text in kernels for part in ("--kernel", text)]
    target += ["--size", str(size), "--filter", str(taps), "--arch", arch]
    done = subprocess.run(
        [str(ncu.find()), "--clock-control", "none", "--print-units", "base", "--csv",
         "--metrics", ",".join([*METRICS.values(), *STALLS.values()]),
         sys.executable, "-m", "bench.ncu_target", *target],
        capture_output=True, text=True, cwd=environment.ROOT, timeout=ncu.SECONDS)
    found = parse(done.stdout)
    if len(found) != len(kernels):
        said = " / ".join([line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-3:])
        raise NoDevice(f"ncu gave {len(found)} launches for {len(kernels)} kernels: {said[:400]}")
    return [{"kernel": text, "size": size, "filter": taps, **launch} for text, launch in zip(kernels, found)]


def table(found: Sequence[dict[str, Any]]) -> Table:
    lines = [(row["kernel"], *(row.get(name) for name in METRICS),
              ", ".join(f"{reason} {value:.2f}" for reason, value in list(row["stalls"].items())[:TOP]))
             for row in found]
    return Table("Cycles", ("kernel", *METRICS, "warps stalled per issue"), tuple(lines))


@click.command()
@click.option("--kernel", "kernels", multiple=True, required=True, help="ALGORITHM or ALGORITHM:name=value,name=value.")
@click.option("--size", default=8192, show_default=True)
@click.option("--filter", "taps", default=5, show_default=True)
@click.option("--arch", default="sm_90", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The JSON file.")
def main(kernels: tuple[str, ...], size: int, taps: int, arch: str, output: Path) -> None:
    """Profile one launch of each KERNEL; writes JSON, and Markdown beside it."""
    try:
        found = profile(kernels, size, taps, arch)
    except NoDevice as error:
        raise click.ClickException(str(error)) from error
    output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    output.with_suffix(".md").write_text("\n".join(markdown_table(table(found))), encoding="utf-8")


if __name__ == "__main__":
    main()
