"""PyCUDA's own way from source to cubin, for those who rely on its settings. It needs PyCUDA and the CUDA driver.

``pycuda.compiler.compile`` runs nvcc. Its cache stays off (ours checks what it reads), and the ptxas report, which it
hands out as a Python warning, is caught. PyCUDA is imported when a source is compiled, never before.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from warpconv.codegen.errors import CompileError, ToolNotFound
from warpconv.runtime import forks
from warpconv.runtime.build.patience import watched
from warpconv.runtime.env import Settings

from . import nvcc
from .report import Compiled, CompilerKind, parse_log

WAYS = 'pip install "warpconv[gpu]" on a machine with a CUDA driver, or set WARPCONV_COMPILER=nvrtc'
_SAID = re.compile(r"The CUDA compiler succeeded, but said the following:\n?")
_warning_lock = forks.lock()        # warnings.catch_warnings changes the whole process


def missing() -> str | None:
    """Why this route is closed before anything is imported, or None. The driver is seen only when compiling."""
    try:
        found = importlib.util.find_spec("pycuda.compiler") is not None
    except (ImportError, ValueError):
        found = False
    return None if found else "pycuda is not installed"


def compile_source(text: str, *, arch: str, options: tuple[str, ...], passed: tuple[str, ...], ptx: bool, name: str,
                   settings: Settings) -> Compiled:
    """Compile to a cubin; ``passed`` goes to PyCUDA, ``options`` (with what nvcc reads by itself) into the record.

    Raises ToolNotFound (no pycuda, driver or nvcc), ArgumentError (an arch nvcc does not know) or CompileError.
    """
    compiler = _import()
    program = nvcc.require(settings)
    start = time.perf_counter()
    with watched(f"{name} for {arch} by PyCUDA", settings):        # whose nvcc nobody can stop from here
        cubin, log = _call(compiler, program, text, arch, options, passed)
    ptx_text, isa = _ptx(text, arch, passed, name, settings) if ptx else (None, None)
    return Compiled(cubin=cubin, ptx=ptx_text, ptx_isa=isa, entries=parse_log(log), log=log,
                    compiler=CompilerKind.PYCUDA, version=f"pycuda {_version()}, nvcc {nvcc.version(program)}",
                    options=options, arch=arch, seconds=time.perf_counter() - start)


def _import() -> ModuleType:
    try:
        importlib.import_module("pycuda.driver")        # compile() does it too late, after half of its work
        return importlib.import_module("pycuda.compiler")
    except (ImportError, OSError) as error:
        raise ToolNotFound(f"PyCUDA cannot be used: {error}", argument="compiler", value="pycuda",
                           hint=WAYS) from error


def _call(compiler: ModuleType, program: Path, text: str, arch: str, options: tuple[str, ...],
          passed: tuple[str, ...]) -> tuple[bytes, str]:
    try:
        with _caught_text() as said:
            cubin = compiler.compile(text, nvcc=str(program), options=list(passed), keep=False, no_extern_c=True,
                                     arch=arch, cache_dir=False, target="cubin")
    except Exception as error:
        if not hasattr(error, "stderr"):            # pycuda.driver.CompileError has it; nothing else here does
            raise
        _remove_leftover(str(error))
        log = f"{getattr(error, 'stdout', None) or ''}{error.stderr or ''}"
        if nvcc.is_unknown_arch(log):
            raise nvcc.unsupported(program, arch) from error
        raise CompileError(f"nvcc, run by PyCUDA, refused the source for {arch}", source=text, options=options,
                           log=log) from error
    return cubin, "".join(said)


@contextlib.contextmanager
def _caught_text() -> Iterator[list[str]]:
    """What PyCUDA says in a warning: the compiler's text goes into the list, any other warning on to the user."""
    said: list[str] = []
    with _warning_lock, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    for warning in caught:
        message = str(warning.message)
        if _SAID.search(message):
            said.append(_SAID.sub("", message))
        elif "Could not read cache file" not in message:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _remove_leftover(message: str) -> None:
    """PyCUDA leaves its temporary directory behind when a compilation fails; its message has the path."""
    match = re.search(r"compilation of (\S+)[/\\]kernel\.cu failed", message)
    if match and Path(match[1]).parent == Path(tempfile.gettempdir()):
        shutil.rmtree(match[1], ignore_errors=True)


def _ptx(text: str, arch: str, passed: tuple[str, ...], name: str, settings: Settings) -> tuple[str, str]:
    compiled = nvcc.compile_source(text, arch=arch, options=(*passed, f"-arch={arch}"), ptx=True, name=name,
                                   settings=settings)
    return compiled.ptx, compiled.ptx_isa


def _version() -> str:
    import importlib.metadata
    try:
        return importlib.metadata.version("pycuda")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
