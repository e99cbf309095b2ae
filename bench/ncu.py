"""Hardware counters of our kernels through Nsight Compute, read from its CSV. No clock is changed."""

from __future__ import annotations

import csv
import glob
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Sequence

from warpconv.codegen.registry import ALGORITHMS

from . import environment
from .devices import NoDevice

COUNTERS = {
    "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
}
# per thread, so 32 for each shuffle of a full warp; left out where this ncu or GPU does not have it
OPTIONAL = {"shuffles": "smsp__sass_thread_inst_executed_op_inter_thread_communication_pred_on.sum"}
SECONDS = 240


def find() -> Path:
    """The ncu to run. Raises NoDevice where there is none."""
    places = [shutil.which("ncu")]
    places += [str(Path(os.environ[name]) / "bin" / "ncu") for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    places += ["/usr/local/cuda/bin/ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True)]
    for place in places:
        if place and Path(place).is_file():
            return Path(place)
    raise NoDevice("ncu is not on this machine")


def command(metrics: Sequence[str], target: Sequence[str]) -> list[str]:
    """Arguments after ncu's own path; only our kernels are profiled."""
    return ["--clock-control", "none", "--target-processes", "application-only", "--print-units", "base",
            "--kernel-name", f"regex:({'|'.join(ALGORITHMS)})_.*",
            "--metrics", ",".join(metrics), "--csv", *target]


def profile(target: Sequence[str]) -> list[dict[str, int]]:
    """Counters of each launch of ``python -m bench.ncu_target <target>``, in order. Raises NoDevice in ncu's words."""
    program = [sys.executable, "-m", "bench.ncu_target", *target]
    failure = ""
    for wanted in (COUNTERS | OPTIONAL, COUNTERS):
        done = subprocess.run([str(find()), *command(list(wanted.values()), program)], capture_output=True, text=True,
                              cwd=environment.ROOT, timeout=SECONDS)
        launches = parse(done.stdout)
        if launches and all(set(COUNTERS) <= set(launch) for launch in launches):
            return launches
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        failure = " / ".join([line for line in said if "==ERROR==" in line] or said[-3:])
    raise NoDevice(f"ncu gave no counters: {failure[:400]}")


def parse(text: str) -> list[dict[str, int]]:
    """ncu's CSV (with its own messages around it) as one mapping per launch, in the order of the launches."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    names = {metric: name for name, metric in (COUNTERS | OPTIONAL).items()}
    launches: dict[int, dict[str, int]] = {}
    body = "\n".join(line for line in lines[start:] if line.startswith('"'))
    for row in csv.DictReader(io.StringIO(body)):
        name, value = names.get(row["Metric Name"]), _number(row["Metric Value"])
        launch = launches.setdefault(int(row["ID"]), {})
        if name is not None and value is not None:
            launch[name] = value // 32 if name in OPTIONAL else value
    return [launches[i] for i in sorted(launches)]


def _number(text: str | None) -> int | None:
    try:
        return round(float((text or "").replace(",", "")))
    except ValueError:
        return None
