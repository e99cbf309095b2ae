"""Where a kernel's cycles go, by Nsight Compute, for a plane or a depthwise layer of any type and layout:
``python -m bench.counters.stalls --kernel wide:columns=4 --size 8192 --filter 5 -o stalls.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bench.devices import NoDevice
from bench.report.files import Table, markdown_table

from . import ncu, target as ncu_target

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
    "l1_hit_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_read_sectors": "lts__t_sectors_srcunit_tex_op_read.sum",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "shared_load_passes": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_passes": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "registers": "launch__registers_per_thread",
    "warps_active_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
REASONS = ("barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard",
           "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected",
           "short_scoreboard", "sleeping", "tex_throttle", "wait")
STALLS = {reason: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in REASONS}
TOP = 4


def parse(text: str) -> list[dict[str, Any]]:
    """ncu's CSV as one mapping per launch, as ``named`` gives it."""
    return [named(launch) for launch in ncu.parse(text)]


def named(launch: Mapping[str, Any]) -> dict[str, Any]:
    """A launch's metrics: METRICS by name, ``stalls`` by falling warps per issue; what ncu did not give is left out."""
    found = {name: launch[metric] for name, metric in METRICS.items() if metric in launch}
    stalls = {reason: launch[metric] for reason, metric in STALLS.items() if metric in launch}
    return {**found, "stalls": dict(sorted(stalls.items(), key=lambda item: -item[1]))}


def profile(target: Sequence[str]) -> list[list[dict[str, Any]]]:
    """For each case of ``python -m bench.counters.target <target>`` its launches, named, each with its ``entry``.
    Raises NoDevice with ncu's words, or with those of a case that failed."""
    watched = ncu.watch(target, [*METRICS.values(), *STALLS.values()])
    for number, case in enumerate(watched):
        if case.error:
            raise NoDevice(f"case {number}: {case.error}")
    return [[{"entry": launch["entry"], **named(launch)} for launch in case.launches] for case in watched]


def table(found: Sequence[dict[str, Any]]) -> Table:
    lines = tuple((row["kernel"], row["entry"], *(row.get(name) for name in METRICS), reasons(row["stalls"]))
                  for row in found)
    return Table("Cycles", ("kernel", "entry", *METRICS, "warps stalled per issue"), lines)


def reasons(stalls: Mapping[str, float]) -> str:
    """The most frequent reasons, in words."""
    return ", ".join(f"{reason} {value:.2f}" for reason, value in list(stalls.items())[:TOP])


@click.command()
@click.option("--kernel", "kernels", multiple=True, required=True,
              help="ALGORITHM or ALGORITHM:name=value,name=value; auto is what a call would take.")
@ncu_target.layer_options
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The JSON file.")
def main(kernels: tuple[str, ...], arch: str, output: Path, **layer: Any) -> None:
    """Profile each launch of one call of each KERNEL; writes JSON, and Markdown beside it."""
    target = [part for text in kernels for part in ("--kernel", text)] + ["--arch", arch]
    target += [part for name, value in layer.items() for part in (f"--{name}", str(value))]
    try:
        found = [{"kernel": text, **layer, **launch} for text, launches in zip(kernels, profile(target))
                 for launch in launches]
    except NoDevice as error:
        raise click.ClickException(str(error)) from error
    output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    output.with_suffix(".md").write_text("\n".join(markdown_table(table(found))), encoding="utf-8")


if __name__ == "__main__":
    main()
