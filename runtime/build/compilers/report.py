"""What a compiler returns: the cubin, and what ptxas reported about each kernel in it."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import CompileError


class CompilerKind(enum.Enum):
    """The routes from source to cubin; the value is what ``WARPCONV_COMPILER`` and cache keys call it."""

    NVRTC = "nvrtc"
    NVCC = "nvcc"
    PYCUDA = "pycuda"


@dataclass(frozen=True)
class EntryReport:
    """ptxas on one kernel. All bytes are per thread, but ``shared_bytes`` (static, per block)."""

    name: str
    registers: int
    stack_bytes: int
    spill_stores: int
    spill_loads: int
    shared_bytes: int
    constant_bytes: int

    @property
    def spills(self) -> bool:
        return bool(self.spill_stores or self.spill_loads)


@dataclass(frozen=True)
class Compiled:
    """One compiled source. ``options`` are those of the key; ``seconds`` is wall time of this compilation."""

    cubin: bytes
    ptx: str | None
    ptx_isa: str | None
    entries: tuple[EntryReport, ...]
    log: str
    compiler: CompilerKind
    version: str
    options: tuple[str, ...]
    arch: str
    seconds: float

    def entry(self, name: str) -> EntryReport | None:
        """The report on kernel ``name``, or None if ptxas said nothing about it."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def to_meta(self) -> dict[str, Any]:
        """All but the cubin and the PTX, as JSON takes it."""
        return {"compiler": self.compiler.value, "version": self.version, "arch": self.arch,
                "options": list(self.options), "ptx_isa": self.ptx_isa, "seconds": self.seconds, "log": self.log,
                "entries": [asdict(entry) for entry in self.entries]}

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any], cubin: bytes, ptx: str | None = None) -> Compiled:
        """The inverse of ``to_meta``; other names in ``meta`` are left alone. Raises KeyError where one is missing."""
        return cls(cubin=cubin, ptx=ptx, ptx_isa=meta["ptx_isa"], log=meta["log"], version=meta["version"],
                   entries=tuple(EntryReport(**entry) for entry in meta["entries"]),
                   compiler=CompilerKind(meta["compiler"]), options=tuple(meta["options"]), arch=meta["arch"],
                   seconds=meta["seconds"])


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")
_CONSTANT = re.compile(r"(\d+)(?:\+(\d+))? bytes cmem\[\d+\]")


def parse_log(log: str) -> tuple[EntryReport, ...]:
    """The kernels that ``ptxas -v`` reports on (nvcc's and NVRTC's prefixes differ, the text does not), by name."""
    entries: dict[str, dict[str, int]] = {}
    entry = function = None
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = function = match[1]
            entries[entry] = {}
        elif match := _FUNCTION.search(line):
            function = match[1]                 # may be a device function that was not inlined: not ours to report
        elif entry is None:
            continue
        elif (match := _STACK.search(line)) and function == entry:
            entries[entry].update(stack_bytes=int(match[1]), spill_stores=int(match[2]), spill_loads=int(match[3]))
        elif match := _REGISTERS.search(line):
            entries[entry].update(registers=int(match[1]), shared_bytes=_sum(_SHARED, line),
                                  constant_bytes=_sum(_CONSTANT, line))
    fields = ("registers", "stack_bytes", "spill_stores", "spill_loads", "shared_bytes", "constant_bytes")
    return tuple(EntryReport(name, **{field: found.get(field, 0) for field in fields})
                 for name, found in sorted(entries.items()))


def parse_ptx_isa(ptx: str | None) -> str | None:
    """The ISA version that a PTX text declares; a driver older than it cannot load the text."""
    match = re.search(r"^\s*\.version\s+(\d+\.\d+)", ptx or "", re.MULTILINE)
    return match[1] if match else None


def check_no_spills(compiled: Compiled, source: str) -> None:
    """Refuse kernels that touch local memory: spilled registers, or arrays that did not fit into registers.

    Raises CompileError naming each such kernel and its figures.
    """
    found = [f"{entry.name} ({entry.registers} registers, {entry.stack_bytes} bytes of stack, "
             f"{entry.spill_stores} bytes spilled, {entry.spill_loads} bytes reloaded)"
             for entry in compiled.entries if entry.spills or entry.stack_bytes]
    if found:
        raise CompileError(f"local memory is used by {', '.join(found)}, compiled for {compiled.arch}", source=source,
                           options=compiled.options, log=compiled.log,
                           hint="choose a smaller tile, or unset WARPCONV_FAIL_ON_SPILLS")


def _sum(pattern: re.Pattern[str], line: str) -> int:
    return sum(int(number) for match in pattern.finditer(line) for number in match.groups() if number)
