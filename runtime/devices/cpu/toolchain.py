"""The machine's C++ compiler: which one, and the flags that make it compile CUDA text for this device.

Tried with g++ 12, clang++ 14 and ziglang 0.17 (``pip install ziglang``, where no compiler can be installed: it serves
in both modes, compiles a kernel in 0.3 s to 1 s, and the runtime once in 3 s). All find the same faults. Counts
are those of g++'s code; clang places the blocks of some loops in another order, on which the lining up of lanes
depends, so a loop that lanes leave at different times may show a few more or fewer requests there.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import ToolNotFound
from warpconv.runtime import paths
from warpconv.runtime.build.compilers import tools

from .report import Mode

_COMMON = ("-std=c++17", "-fPIC", "-w", "-fno-exceptions", "-fno-asynchronous-unwind-tables", "-fno-math-errno",
           "-ffp-contract=off")          # a kernel spells the fmaf that it wants
_RUNTIME = ("-std=c++17", "-fPIC", "-shared", "-pthread", "-Wl,-Bsymbolic", "-O2", "-fvisibility=hidden",
            "-fno-asynchronous-unwind-tables",
            "-ffp-contract=off")         # sums of products round as they are written, with every compiler
# -O1 and some passes less compile in half of the time that -O2 takes (g++ 12, 24 kernels of the tests), and a kernel is
# executed as quickly: fibers and primitives, which are compiled once, take most of that. (-Og compiles in 0.93 of this
# time and executes in 1.13.)
_FAST = ("-O1",)
_FAST_FAMILY = {
    "gcc": ("-fno-tree-dominator-opts", "-fno-tree-pta", "-fno-tree-bit-ccp", "-fno-tree-slsr", "-fno-tree-sink",
            "-fno-ivopts", "-fno-ipa-pure-const", "-fno-guess-branch-probability", "-fno-forward-propagate", "-fno-dse",
            "-fno-cprop-registers", "-fno-compare-elim", "-fno-shrink-wrap", "-fno-if-conversion", "-fira-region=one"),
    "clang": ()}
_CHECK = ("-DWARPCPU_CHECK", "-O1", "-fsanitize=thread", "-fsanitize=bounds")
# Counting lines lanes up by the address of the instruction: blocks must stay in the order of the text, and a scalar
# access must stay one.
_CHECK_FAMILY = {
    "gcc": ("-fsanitize-coverage=trace-pc", "-fno-reorder-blocks", "-fno-tree-vectorize", "-fno-tree-slp-vectorize",
            "-fno-thread-jumps",        # would write one shuffle of the text twice, and lanes would seem to part there
            "--param", "tsan-instrument-func-entry-exit=0"),
    "clang": ("-fsanitize-coverage=bb,trace-pc", "-fno-vectorize", "-fno-slp-vectorize",
              "-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-instrument-read-before-write=1",
              "-mllvm", "-disable-block-placement",
              "-fno-unroll-loops"),
}
# An `extern thread_local` array has no initialiser to run first; g++ would call a wrapper that looks for one. And two
# shuffles in two branches must not become one.
_FAMILY = {"gcc": ("-fno-extern-tls-init", "-fno-crossjumping", "-fno-tree-tail-merge"), "clang": ()}


@dataclass(frozen=True)
class Toolchain:
    """A C++ compiler and how it switches fibers: ``""`` for the fastest way on this processor, or ``ucontext``."""

    command: tuple[str, ...]
    family: str                  # gcc or clang: whose flags it takes
    fiber: str = ""

    @property
    def identity(self) -> str:
        """The compiler's file, size and time: changes with its version, and is known without starting it."""
        path = os.path.realpath(self.program[0])
        status = paths.status(path)
        return path if status is None else f"{path} {status.st_size} {status.st_mtime_ns}"

    @property
    def program(self) -> tuple[str, ...]:
        """The command with its program's whole path, so that it can be started in any directory."""
        return str(paths.absolute(shutil.which(self.command[0]) or self.command[0])), *self.command[1:]

    def version(self) -> str:
        """The first line of ``--version``; starts the compiler once per process."""
        return _version(self.program)

    def kernel_flags(self, mode: Mode) -> tuple[str, ...]:
        """Flags that compile a kernel's text to an object."""
        special, of_family = (_CHECK, _CHECK_FAMILY) if mode is Mode.CHECK else (_FAST, _FAST_FAMILY)
        return (*_COMMON, *_FAMILY[self.family], *_processor_flags(), *special, *of_family[self.family])

    def runtime_flags(self, mode: Mode) -> tuple[str, ...]:
        """Flags that make a shared object of device/runtime.cpp."""
        check = ("-DWARPCPU_CHECK",) if mode is Mode.CHECK else ()
        fiber = ("-DWARPCPU_FIBER_UCONTEXT",) if self.fiber == "ucontext" else ()
        # the switch pushes below the stack pointer, where x86-64 lets a function keep data ("red zone")
        machine = ("-mno-red-zone",) if _is_x86_64() else ()
        return (*_RUNTIME, *machine, *_processor_flags(), *check, *fiber, "-ldl", "-lm")

    @property
    def links_at_once(self) -> bool:
        """Whether one command compiles and links: clang's, as ziglang has it, would link a sanitizer's own library."""
        return self.family == "gcc"

    def link_flags(self) -> tuple[str, ...]:
        """Flags that link a kernel, whose own names win over those of the process, to the runtime alone: to look
        through the C++ library's names takes a linker 40 to 150 ms of a kernel's 200."""
        return "-shared", "-fPIC", "-nostdlib", "-Wl,-Bsymbolic", "-lm"


def find_toolchain(cxx: str | None = None, *, fiber: str = "") -> Toolchain:
    """The compiler ``cxx``, else that of the environment variable CXX, else g++, clang++, c++ or ziglang's, if there.

    What has a program's name as a whole is that program, blanks and all; else it is split as a shell does. Raises
    ToolNotFound if ``cxx`` or CXX names no program that can be started, or none of the others is installed.
    """
    for source, command in (("cxx", cxx), ("CXX", os.environ.get("CXX"))):
        if command and command.strip():
            words = _words(command)
            if not words or shutil.which(words[0]) is None:
                raise ToolNotFound("no such C++ compiler", argument=source, value=command,
                                   hint="name one that is on PATH, or leave it out to have one found")
            return Toolchain(words, _family(words), fiber)
    for name in ("g++", "clang++", "c++"):
        if shutil.which(name):
            return Toolchain((name,), _family((name,)), fiber)
    if importlib.util.find_spec("ziglang"):
        return Toolchain((sys.executable, "-m", "ziglang", "c++"), "clang", fiber)
    raise ToolNotFound("the CPU device needs a C++ compiler, and none was found (tried g++, clang++, c++, ziglang)",
                       hint="install one: apt-get install g++, or clang, or: pip install ziglang")


def _words(command: str) -> tuple[str, ...]:
    """A command's words; none where its quotes do not close."""
    if shutil.which(command) is not None:
        return (command,)
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    """Raises ToolNotFound where the program cannot be started."""
    option = "version" if "ziglang" in command else "--version"
    words = command[:-1] if "ziglang" in command else command
    with tempfile.TemporaryDirectory(prefix="warpconv-", ignore_cleanup_errors=True) as work:
        _, out, _ = tools.run_tool([*words, option], cwd=Path(work), seconds=60)
    return out.split("\n", 1)[0]


def _family(command: tuple[str, ...]) -> str:
    name = os.path.basename(os.path.realpath(shutil.which(command[0]) or command[0]))
    if "clang" in name or "ziglang" in command:
        return "clang"
    return "gcc" if "g++" in name or "gcc" in name else _family_by_version(command)


def _family_by_version(command: tuple[str, ...]) -> str:
    return "clang" if "clang" in _version(Toolchain(command, "").program).lower() else "gcc"


def _is_x86_64() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


@functools.cache
def _processor_flags() -> tuple[str, ...]:
    """What makes fmaf one instruction, named rather than ``native``: the flags are part of a cached object's key."""
    if not _is_x86_64():
        return ()                # aarch64 always has it
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        features = next(line for line in lines if line.startswith("flags"))
    except (OSError, StopIteration):
        return ()
    return ("-mavx2", "-mfma") if {"avx2", "fma"} <= set(features.split()) else ()
