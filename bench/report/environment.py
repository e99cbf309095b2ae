"""What a study ran on: GPU, driver, clocks, versions, commit, date and command; without paths and host names."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_DISTRIBUTIONS = ("numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "pycuda", "triton", "scipy", "matplotlib",
                  "nvidia-cuda-nvrtc", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12")
_GPU_FIELDS = ("name", "driver_version", "memory.total", "clocks.sm", "clocks.mem", "clocks.max.sm", "temperature.gpu",
               "power.draw")
_PATH_OPTIONS = ("-o", "--output")


def record(device: Any, arguments: Sequence[str]) -> dict[str, Any]:
    """Everything known about this run; what cannot be found out is None, never an error."""
    import warpconv
    from warpconv.codegen.render import generator_digest
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "command": command(arguments), "device": getattr(device, "name", "none"),
            "arch": getattr(device, "arch", None), "timed_through": getattr(device, "kind", None),
            "python": platform.python_version(), "warpconv": warpconv.__version__,
            "generator": _guarded(generator_digest), "commit": _guarded(commit), "versions": versions(),
            "clocks_before": clocks(), "clocks_after": None}


def command(arguments: Sequence[str]) -> str:
    """The command line that repeats this run; where the results went is left out."""
    kept, skip = [], False
    for word in arguments:
        if skip:
            skip = False
        elif word in _PATH_OPTIONS:
            skip = True
        elif not word.startswith(("-o=", "--output=")):
            kept.append(word)
    return " ".join(["python -m bench", *kept])


def versions() -> dict[str, str]:
    """Installed libraries and compilers that take part, by name."""
    found = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    for name, ask in (("NVRTC", _nvrtc), ("nvcc", _nvcc), ("CUDA of PyTorch", _torch_cuda), ("cuDNN", _cudnn),
                      ("NPP", _npp), ("ncu", _ncu), ("C++ compiler", _cxx)):
        value = _guarded(ask)
        if value:
            found[name] = str(value)
    return found


def clocks() -> dict[str, str] | None:
    """GPU 0 as nvidia-smi sees it now (it only asks; no setting is touched), or None."""
    return _guarded(lambda: parse_smi(_output("nvidia-smi", f"--query-gpu={','.join(_GPU_FIELDS)}",
                                              "--format=csv,noheader", "--id=0")))


def parse_smi(text: str) -> dict[str, str]:
    """One line of nvidia-smi's CSV as field -> value."""
    values = [part.strip() for part in text.strip().splitlines()[0].split(",")]
    if len(values) != len(_GPU_FIELDS):
        raise ValueError(f"nvidia-smi gave {len(values)} values")
    return dict(zip(_GPU_FIELDS, values))


def commit() -> str | None:
    """The tree's commit, with '+' where it was changed; None outside a repository."""
    identity = _output("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD").strip()
    changed = _output("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no").strip()
    return identity + ("+" if changed else "")


def describe(run: dict[str, Any]) -> list[str]:
    """A run as lines of Markdown."""
    before, after = run.get("clocks_before") or {}, run.get("clocks_after") or {}
    listed = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    lines = [f"- Device: {run['device']}" + (f" ({run['arch']})" if run.get("arch") else "")
             + (f", driver {before['driver_version']}" if "driver_version" in before else ""),
             f"- Date: {run['date']}; command: `{run['command']}`",
             f"- Versions: Python {run['python']}, warpconv {run['warpconv']}"
             + (f" at commit {run['commit']}" if run.get("commit") else "") + f", {listed}"]
    if before:
        lines.append("- SM clock, memory clock, temperature, power: "
                     + "; ".join(f"{when} {c.get('clocks.sm')}, {c.get('clocks.mem')}, {c.get('temperature.gpu')} C, "
                                 f"{c.get('power.draw')}" for when, c in (("before", before), ("after", after)) if c))
    return lines


def _guarded(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception:       # a record never stops a measurement
        return None


def _output(*words: str) -> str:
    program = shutil.which(words[0])
    if program is None:
        raise FileNotFoundError(words[0])
    return subprocess.run([program, *words[1:]], capture_output=True, text=True, timeout=30, check=True).stdout


def _nvrtc() -> str | None:
    from warpconv.runtime.build.compilers import CompilerKind, version_of
    return version_of(CompilerKind.NVRTC)


def _nvcc() -> str | None:
    from warpconv.runtime.build.compilers import CompilerKind, version_of
    return version_of(CompilerKind.NVCC)


def _torch_cuda() -> str | None:
    return sys.modules["torch"].version.cuda


def _cudnn() -> int | None:
    return sys.modules["torch"].backends.cudnn.version()


def _npp() -> str:
    from bench.peers import npp
    return npp.version()


def _ncu() -> str:
    from bench.counters import ncu
    return _output(str(ncu.find()), "--version").strip().splitlines()[-1]


def _cxx() -> str:
    from warpconv.runtime import env
    from warpconv.runtime.devices.cpu.toolchain import find_toolchain
    return find_toolchain(env.settings().cxx).version()
