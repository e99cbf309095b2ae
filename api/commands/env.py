"""``warpconv env``: this machine as warpconv sees it."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

import click

from .output import add_row, console, echo_record, heading, json_option, table
from .wording import phrase, worded

PACKAGES = ("numpy", "jinja2", "platformdirs", "filelock", "click", "rich", "pycuda", "nvidia-cuda-nvrtc",
            "nvidia-cuda-cuobjdump", "nvidia-cuda-nvdisasm", "pillow", "matplotlib", "torch", "cupy")


@click.command()
@json_option
def env(as_json: bool) -> None:
    """Show versions, compilers, GPUs and every environment variable."""
    record = env_record()
    if as_json:
        echo_record(record)
        return
    out = console()
    heading(out, "warpconv", f"{record.warpconv}, Python {record.python}, {record.platform}")
    heading(out, "packages", ", ".join(f"{name} {version or '-'}" for name, version in record.packages.items()))
    heading(out, "cache", record.cache)
    made = table("tool", "version", "where, or why not")
    for row in record.tools:
        add_row(made, row.name, row.version, row.where or row.reason, style=None if row.where else "dim")
    out.print(made)
    _show_gpus(out, record.gpus)
    made = table("variable", "value", "written as", "default", "purpose")
    for row in record.switches:
        add_row(made, row.name, row.value, row.kind, row.default, row.purpose,
                style=None if row.value is None else "bold")
    out.print(made)


def switches_markdown() -> str:
    """The table of environment variables as the documentation has it."""
    from warpconv.runtime.env import table as switches
    rows = [("Variable", "Written as", "Default", "Purpose"), ("---",) * 4,
            *((f"`{name}`", kind, default, purpose) for name, kind, default, purpose in switches())]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def env_record() -> Any:
    """The machine as a record. Raises ArgumentError where an environment variable cannot be read."""
    from warpconv.codegen.version import VERSION
    from warpconv.records.machine import EnvRecord, SwitchRow
    from warpconv.runtime.devices.cuda import contexts
    from warpconv.runtime.env import settings, table as switches
    rows = tuple(SwitchRow(name=name, kind=kind, default=default, purpose=purpose, value=os.environ.get(name))
                 for name, kind, default, purpose in switches())
    return EnvRecord(warpconv=VERSION, python=platform.python_version(), switches=rows,
                     platform=f"{sys.platform} {platform.machine()}", cache=str(settings().cache_dir),
                     packages={name: _version(name) for name in PACKAGES}, tools=_tools(), gpus=contexts.describe())


def _tools() -> tuple[Any, ...]:
    from warpconv.records.machine import ToolRow
    from warpconv.runtime.build import compilers, disassembly as sass
    rows = [ToolRow(name=kind.value, where=found.where, reason=found.reason, version=_compiler_version(kind))
            for kind, found in compilers.available().items()]
    disassembler = sass.available()
    rows.append(ToolRow(name="disassembler", where=disassembler, version=None,
                        reason=None if disassembler else f"get one with {sass.WAYS}"))
    return (*rows, _cxx())


def _compiler_version(kind: Any) -> str | None:
    from warpconv.codegen.errors import WarpconvError
    from warpconv.runtime.build import compilers
    try:
        return compilers.version_of(kind)
    except WarpconvError:       # it is there and does not answer; "env" still tells the rest
        return None


def _cxx() -> Any:
    from warpconv.codegen.errors import WarpconvError
    from warpconv.records.machine import ToolRow
    from warpconv.runtime.devices.cpu import find_toolchain
    from warpconv.runtime.env import settings
    try:
        cxx = settings().cxx
        found = find_toolchain(str(cxx) if cxx is not None else None)
        return ToolRow(name="C++ (CPU device)", where=" ".join(found.command), version=found.version(), reason=None)
    except WarpconvError as error:
        return ToolRow(name="C++ (CPU device)", where=None, version=None, reason=str(worded(error)))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _show_gpus(out: Any, gpus: dict[str, Any]) -> None:
    if not gpus["usable"]:
        heading(out, "GPU", f"none: {phrase(gpus['reason'])}")
        return
    heading(out, "GPU", f"CUDA driver {gpus['cuda_driver']}, pycuda {gpus['pycuda']}")
    for number, device in enumerate(gpus["devices"]):
        heading(out, "", f"cuda:{number}  " + ", ".join(f"{k} {v}" for k, v in device.items()))
