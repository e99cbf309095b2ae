"""Disassembly: what the hardware will execute, readable without a GPU."""

from __future__ import annotations

import collections
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from warpconv.codegen.errors import ArgumentError, ToolNotFound
from warpconv.runtime import env

from .compilers import tools

WAYS = 'pip install "warpconv[compile]", or a CUDA toolkit on PATH or named by CUDA_HOME'

# cuobjdump heads each kernel with "Function : name", nvdisasm with the label ".text.name:".
_HEAD = re.compile(r"^\s*(?:Function : (\S+)|\.text\.(\S+):)\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)")


def available(settings: env.Settings | None = None) -> str | None:
    """The disassembler that would be used, or None. Starts no subprocess."""
    command = _command(settings or env.settings())
    return command[0] if command else None


def disassemble(cubin: bytes, settings: env.Settings | None = None) -> str:
    """The SASS of all kernels of a cubin, as cuobjdump (or, where only it is there, nvdisasm) prints it.

    Raises ToolNotFound where neither is on this machine, ArgumentError where the tool refuses the bytes.
    """
    settings = settings or env.settings()
    command = _command(settings)
    if command is None:
        raise ToolNotFound("there is neither cuobjdump with nvdisasm nor nvdisasm on this machine",
                           argument="tool", value="nvdisasm", hint=WAYS)
    nvdisasm = tools.find_program("nvdisasm", settings)
    with tempfile.TemporaryDirectory(prefix="warpconv-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "kernel.cubin").write_bytes(cubin)
        status, out, err = tools.run_tool([*command, "kernel.cubin"], cwd=Path(folder), path_first=nvdisasm.parent)
    if status != 0 or not out.strip():
        raise ArgumentError(f"{Path(command[0]).name} cannot disassemble this cubin", argument="cubin",
                            value=cubin[:16], hint=" ".join(err.split())[:300] or None)
    return out


def count_instructions(sass: str, entry: str | None = None) -> collections.Counter[str]:
    """How often each opcode (LDG, SHFL, FFMA, ...; what stands before the first dot) occurs in kernel ``entry``.

    These are instructions in the text, not executions; None counts all kernels. Raises ArgumentError for a kernel that
    is not there.
    """
    counts: dict[str, collections.Counter[str]] = {}
    for kernel, opcode in _instructions(sass):
        counts.setdefault(kernel, collections.Counter())[opcode] += 1
    if entry is None:
        return sum(counts.values(), collections.Counter())
    if entry not in counts:
        raise ArgumentError("no such kernel in the disassembly", argument="entry", value=entry,
                            hint=f"it has {', '.join(sorted(counts)) or 'none'}")
    return counts[entry]


def _instructions(sass: str) -> Iterator[tuple[str, str]]:
    kernel = ""
    for line in sass.splitlines():
        if head := _HEAD.match(line):
            kernel = head[1] or head[2]
        elif match := _INSTRUCTION.match(line):
            yield kernel, match[1]


def _command(settings: env.Settings) -> list[str] | None:
    """cuobjdump calls nvdisasm, so without nvdisasm there is nothing."""
    nvdisasm = tools.find_program("nvdisasm", settings)
    if nvdisasm is None:
        return None
    cuobjdump = tools.find_program("cuobjdump", settings)
    return [str(cuobjdump), "-sass"] if cuobjdump is not None else [str(nvdisasm), "-c"]
