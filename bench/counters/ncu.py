"""Hardware counters of our kernels through Nsight Compute, read from its CSV. No clock is changed."""

from __future__ import annotations

import csv
import glob
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.devices import NoDevice
from bench.report import environment

SECONDS = 240


@dataclass(frozen=True)
class Counter:
    """A count of a launch: the sum of ``metrics``, for each warp where they count ``lanes``. The first must be there;
    another that this ncu does not know counts nothing."""

    metrics: tuple[str, ...]
    lanes: int = 1

    def of(self, launch: Mapping[str, float]) -> int | None:
        if self.metrics[0] not in launch:
            return None
        return round(sum(launch.get(metric, 0.0) for metric in self.metrics)) // self.lanes


def _global(what: str, operation: str) -> str:
    return f"l1tex__t_{what}_pipe_lsu_mem_global_op_{operation}.sum"


def _warps(operation: str) -> str:
    return f"smsp__inst_executed_op_{operation}_pred_on_any.sum"


# What the CPU device counts under the same names. Copies from global to shared memory are among the global loads here,
# and shared accesses of their own.
COUNTERS = {
    "load_requests": Counter((_global("requests", "ld"),)),
    "load_sectors": Counter((_global("sectors", "ld"),)),
    "store_requests": Counter((_global("requests", "st"),)),
    "store_sectors": Counter((_global("sectors", "st"),)),
    "shuffles": Counter(("smsp__sass_thread_inst_executed_op_inter_thread_communication_pred_on.sum",), lanes=32),
    "shared_requests": Counter(tuple(_warps(operation) for operation in ("shared_ld", "shared_st", "ldgsts", "ldsm"))),
    "shared_wavefronts": Counter(tuple(f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{operation}.sum"
                                       for operation in ("ld", "st", "ldgsts", "ldsm"))),
    "fmas": Counter(("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",)),
}


@dataclass(frozen=True)
class Watched:
    """What ncu saw of one case: for each launch its ``entry`` and metrics by name, those of a filter's preparation
    first; or why there is nothing."""

    launches: tuple[Mapping[str, Any], ...] = ()
    preparation: int = 0
    error: str = ""

    def counts(self) -> dict[str, int]:
        """COUNTERS, summed over the launches of a call (not of the preparation); what ncu did not give is left out."""
        found: dict[str, int] = {}
        for name, counter in COUNTERS.items():
            values = [counter.of(launch) for launch in self.launches[self.preparation:]]
            if values and None not in values:
                found[name] = sum(values)
        return found


def seen(watched: Watched | None, refusal: Exception | None) -> Watched:
    """What ncu saw of a case. Raises ``refusal``, why it saw nothing at all, or RuntimeError with the case's reason."""
    if refusal is not None:
        raise refusal
    if watched is None or watched.error:
        raise RuntimeError("ncu did not see it" if watched is None else watched.error)
    return watched


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
    """Arguments after ncu's own path."""
    return ["--clock-control", "none", "--target-processes", "application-only", "--print-units", "base",
            "--metrics", ",".join(metrics), "--csv", *target]


def watch(target: Sequence[str], metrics: Iterable[str]) -> list[Watched]:
    """Metrics of each case of ``python -m bench.counters.target <target>``, in order. Raises NoDevice in ncu's words.

    A metric that this ncu does not know is left out. Where a case fails, the others are watched once more without it,
    as ncu's launches could not be told apart otherwise.
    """
    program = [sys.executable, "-m", "bench.counters.target", *target]
    launches, told, said = _run(metrics, program)
    failed = {case["case"]: case["error"] for case in told if "error" in case}
    if failed and len(failed) == len(told):
        return [Watched(error=case["error"]) for case in told]
    if failed:
        skipped = [word for number in failed for word in ("--skip", str(number))]
        launches, rest, said = _run(metrics, [*program, *skipped])
        told = sorted([case for case in told if case["case"] in failed] + rest, key=lambda case: case["case"])
    entries = [entry for case in told if "error" not in case for entry in case["entries"]]
    launches = [launch for launch in launches if launch["entry"] in set(entries)]       # a library's are not ours
    if not launches or entries != [launch["entry"] for launch in launches]:
        words = " / ".join([line for line in said.splitlines() if "==ERROR==" in line] or said.splitlines()[-3:])
        raise NoDevice(f"ncu saw {len(launches)} launches instead of {len(entries)}: {words[:400]}")
    left = iter(launches)
    return [Watched(error=case["error"]) if "error" in case else
            Watched(tuple(next(left) for _ in case["entries"]), case["preparation"]) for case in told]


def _run(metrics: Iterable[str], program: Sequence[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    """Launches as ncu saw them, what the target told of its cases, and all that was said."""
    wanted, said = list(dict.fromkeys(metrics)), ""
    launches: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    for _ in range(4):          # an ncu may name one unknown metric at a time
        try:
            done = subprocess.run([str(find()), *command(wanted, program)], capture_output=True, text=True,
                                  cwd=environment.ROOT, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise NoDevice(f"ncu took more than {SECONDS} s") from None
        said = "\n".join(line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip())
        launches = parse(done.stdout)
        told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
        unknown = {name for name in wanted if re.search(rf"{re.escape(name)}(?![\w.])", said)}
        if launches or not unknown:
            break
        wanted = [name for name in wanted if name not in unknown]
    return launches, told, said


def parse(text: str) -> list[dict[str, Any]]:
    """ncu's CSV (with its own messages around it) as one mapping per launch, in their order: ``entry``, and each metric
    that has a value."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    launches: dict[int, dict[str, Any]] = {}
    body = "\n".join(line for line in lines[start:] if line.startswith('"'))
    for row in csv.DictReader(io.StringIO(body)):
        launch = launches.setdefault(int(row["ID"]), {"entry": row["Kernel Name"].partition("(")[0]})
        value = _number(row["Metric Value"])
        if value is not None:
            launch[row["Metric Name"]] = value
    return [launches[i] for i in sorted(launches)]


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:              # "n/a"
        return None
