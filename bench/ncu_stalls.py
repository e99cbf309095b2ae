"""Where a kernel's cycles go, by Nsight Compute, for a plane or a depthwise layer of any type and layout:
``python -m bench.ncu_stalls --kernel wide:columns=4 --size 8192 --filter 5 -o stalls.json``."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Mapping, Sequence

import click

from . import environment, ncu, ncu_target
from .devices import NoDevice
from .report import Table, markdown_table

METRICS = {
    "duration_ns": "gpu__time_duration.sum",
    "issue_busy_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "fma_pct": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "tensor_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "dram_pct": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_bytes": "dram__bytes.sum",
    "warp_instructions": "smsp__inst_executed.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
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


def profile(kernels: Sequence[str], arch: str, layer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One mapping per kernel, in order; ``layer`` are ncu_target's options by name. A metric that ncu says it does not
    know is left out. Raises NoDevice with ncu's words."""
    target = [part for text in kernels for part in ("--kernel", text)] + ["--arch", arch]
    target += [part for name, value in layer.items() for part in (f"--{name}", str(value))]
    program = [sys.executable, "-m", "bench.ncu_target", *target]
    wanted, launches, said = [*METRICS.values(), *STALLS.values()], [], ""
    for _ in range(2):
        done = subprocess.run([str(ncu.find()), *ncu.command(wanted, program)], capture_output=True, text=True,
                              cwd=environment.ROOT, timeout=ncu.SECONDS)
        said = done.stdout + done.stderr
        launches = parse(done.stdout)
        unknown = {name for name in wanted if name in said}
        if launches or not unknown:
            break
        wanted = [name for name in wanted if name not in unknown]
    if len(launches) != len(kernels):
        words = " / ".join([line for line in said.splitlines() if line.strip()][-3:])
        raise NoDevice(f"ncu gave {len(launches)} launches for {len(kernels)} kernels: {words[:400]}")
    return [{"kernel": text, **layer, **launch} for text, launch in zip(kernels, launches)]


def table(found: Sequence[dict[str, Any]]) -> Table:
    lines = [(row["kernel"], *(row.get(name) for name in METRICS),
              ", ".join(f"{reason} {value:.2f}" for reason, value in list(row["stalls"].items())[:TOP]))
             for row in found]
    return Table("Cycles", ("kernel", *METRICS, "warps stalled per issue"), tuple(lines))


@click.command()
@click.option("--kernel", "kernels", multiple=True, required=True,
              help="ALGORITHM or ALGORITHM:name=value,name=value; auto is what a call would take.")
@ncu_target.layer_options
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The JSON file.")
def main(kernels: tuple[str, ...], arch: str, output: Path, **layer: Any) -> None:
    """Profile one launch of each KERNEL; writes JSON, and Markdown beside it."""
    layer["filter"] = layer.pop("taps")
    try:
        found = profile(kernels, arch, layer)
    except NoDevice as error:
        raise click.ClickException(str(error)) from error
    output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    output.with_suffix(".md").write_text("\n".join(markdown_table(table(found))), encoding="utf-8")


if __name__ == "__main__":
    main()
