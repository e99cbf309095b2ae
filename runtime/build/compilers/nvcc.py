"""nvcc, the toolkit's compiler driver, run in a temporary directory that goes whatever happens."""

from __future__ import annotations

import functools
import re
import shutil
import tempfile
import time
from pathlib import Path

from warpconv.codegen.errors import ArgumentError, CompileError, FileError, ToolNotFound
from warpconv.runtime import paths
from warpconv.runtime.build.patience import Watch, watched
from warpconv.runtime.env import Settings

from . import tools
from .report import Compiled, CompilerKind, parse_log, parse_ptx_isa

WAYS = "install a CUDA toolkit, or set WARPCONV_NVCC or CUDA_HOME"
# They are in our options already: nvcc must not add them a second time.
OWN_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_UNKNOWN_ARCH = re.compile(r"Unsupported gpu architecture|is not defined for option 'gpu-(architecture|code)'")


def find(settings: Settings) -> Path | None:
    """The nvcc to run, or None. Starts no subprocess. Raises ToolNotFound if WARPCONV_NVCC names none."""
    if settings.nvcc is None:
        return tools.find_program("nvcc", settings)
    found = shutil.which(str(settings.nvcc))
    if found is None:
        raise ToolNotFound("WARPCONV_NVCC names no program that can be run", argument="WARPCONV_NVCC",
                           value=str(settings.nvcc), hint="correct or unset it")
    return Path(found)


def compile_source(text: str, *, arch: str, options: tuple[str, ...], ptx: bool, name: str,
                   settings: Settings) -> Compiled:
    """Compile to a cubin. Raises ToolNotFound, ArgumentError (an arch it does not know) or CompileError."""
    program = require(settings)
    start = time.perf_counter()
    with watched(f"{name} for {arch} by nvcc", settings) as watch, \
            tempfile.TemporaryDirectory(prefix="warpconv-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        (work / name).write_text(text, encoding="utf-8")
        log = _run(program, ["-cubin", *options, "-o", "kernel.cubin", name], work, text, arch, options, watch)
        ptx_text = None
        if ptx:
            _run(program, ["-ptx", *as_virtual(options, arch), "-o", "kernel.ptx", name], work, text, arch, options,
                 watch)
            ptx_text = (work / "kernel.ptx").read_text(encoding="utf-8", errors="replace")
        cubin = _written(work / "kernel.cubin", program, text, options, log)
    return Compiled(cubin=cubin, ptx=ptx_text, ptx_isa=parse_ptx_isa(ptx_text), entries=parse_log(log), log=log,
                    compiler=CompilerKind.NVCC, version=version(program), options=options, arch=arch,
                    seconds=time.perf_counter() - start)


def as_virtual(options: tuple[str, ...], arch: str) -> list[str]:
    """The options for PTX: compute_XX for sm_XX."""
    return [option.replace(arch, arch.replace("sm_", "compute_")) if option == f"-arch={arch}" else option
            for option in options]


def require(settings: Settings) -> Path:
    """``find``, but ToolNotFound where there is none."""
    program = find(settings)
    if program is None:
        raise ToolNotFound("nvcc is not on this machine", argument="compiler", value="nvcc", hint=WAYS)
    return program


def version(program: Path) -> str:
    """What ``nvcc --version`` says, such as "13.0.88"; asked once per program (and again if it was replaced)."""
    found = paths.status(program)
    return _version(program, 0 if found is None else found.st_mtime_ns)


def unsupported(program: Path, arch: str) -> ArgumentError:
    """The error for an architecture that this nvcc does not know, with those that it does."""
    with tempfile.TemporaryDirectory(prefix="warpconv-", ignore_cleanup_errors=True) as work:
        _, out, _ = tools.run_tool([str(program), "--list-gpu-code"], cwd=Path(work))
    known = sorted(set(re.findall(r"sm_\d+[af]?", out)), key=lambda sm: (int(re.sub(r"\D", "", sm)), sm))
    return ArgumentError(f"nvcc {version(program)} cannot compile for this architecture", argument="arch", value=arch,
                         hint=f"it supports {', '.join(known)}" if known else None)


def is_unknown_arch(log: str) -> bool:
    return _UNKNOWN_ARCH.search(log) is not None


def _run(program: Path, arguments: list[str], work: Path, text: str, arch: str, options: tuple[str, ...],
         watch: Watch) -> str:
    status, out, err = tools.run_tool([str(program), *arguments], cwd=work, drop_env=OWN_VARIABLES,
                                      watch=watch)
    log = out + err
    if status == 0:
        return log
    if watch.over:
        raise CompileError(f"nvcc {watch.stopped}", source=text, options=options, log=log, hint=watch.hint)
    if is_unknown_arch(log):
        raise unsupported(program, arch)
    if (disk := tools.disk_error(log, work)) is not None:
        raise FileError(f"nvcc has no place for its files: {paths.reason(disk)}", argument="TMPDIR", value=str(work),
                        hint="free some space, or set TMPDIR to a directory that can be written") from disk
    no_host = re.search(r"host compiler|gcc: .*No such file|cannot find.*cl\.exe", log, re.IGNORECASE)
    raise CompileError(f"nvcc {version(program)} refused {arguments[-1]} for {arch}", source=text, options=options,
                       log=log, hint='nvcc needs a host C++ compiler on PATH; NVRTC needs none: pip install '
                       '"warpconv[compile]"' if no_host else None)


def _written(path: Path, program: Path, text: str, options: tuple[str, ...], log: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:        # a flag such as --dryrun, or a wrapper that is no nvcc
        raise CompileError(f"{program} reported success but wrote no cubin", source=text, options=options, log=log,
                           hint="check WARPCONV_NVCC and WARPCONV_NVCC_FLAGS") from error


@functools.lru_cache(maxsize=8)
def _version(program: Path, _mtime: int) -> str:
    with tempfile.TemporaryDirectory(prefix="warpconv-", ignore_cleanup_errors=True) as work:
        _, out, _ = tools.run_tool([str(program), "--version"], cwd=Path(work), seconds=60)
    match = re.search(r"\bV(\d+\.\d+\.\d+)", out)
    return match[1] if match else "unknown"
