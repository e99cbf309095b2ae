"""From source text to cubin: NVRTC, nvcc or PyCUDA behind one function.

``options_for`` is what a cache key needs and starts no process; ``compile_source`` compiles and never touches the disk
cache. A source that a compiler refuses is kept in a file that the error names.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from warpconv.codegen.errors import ArgumentError, CompileError, FileError, ToolNotFound
from warpconv.runtime import env
from warpconv.runtime.build.patience import nobody_waits
from warpconv.runtime.env import CompilerChoice, Settings

from . import nvcc, nvrtc, pycuda_route
from .report import Compiled, CompilerKind, EntryReport, check_no_spills, parse_log, parse_ptx_isa

__all__ = ["Availability", "Compiled", "CompilerKind", "EntryReport", "available", "begin", "check_no_spills",
           "choose", "check_arch", "compile_source", "options_for", "parse_log", "parse_ptx_isa", "version_of"]

STANDARD = "-std=c++17"
_ARCH = re.compile(r"sm_(\d{2,3})([af]?)")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}\.cu")


class Availability(NamedTuple):
    """``where`` a compiler is, or the ``reason`` why it cannot be used; false in the latter case."""

    where: str | None
    reason: str | None

    def __bool__(self) -> bool:
        return self.where is not None

    def __str__(self) -> str:
        return self.where or f"not available: {self.reason}"


def available(settings: Settings | None = None) -> dict[CompilerKind, Availability]:
    """Every kind, with where it was found or why it was not. Starts no subprocess."""
    settings = settings or env.settings()
    return {kind: _availability(kind, settings) for kind in CompilerKind}


def version_of(kind: CompilerKind, settings: Settings | None = None) -> str | None:
    """The version of an available compiler, or None. Loads NVRTC, or runs ``nvcc --version`` once per process."""
    settings = settings or env.settings()
    if not _availability(kind, settings):
        return None
    return nvrtc.version(settings) if kind is CompilerKind.NVRTC else nvcc.version(nvcc.require(settings))


def choose(kind: CompilerKind | CompilerChoice | str | None = None, settings: Settings | None = None) -> CompilerKind:
    """The compiler to use: the one asked for, else the environment's, where ``auto`` takes NVRTC, else nvcc.

    Starts no subprocess. Raises ToolNotFound, with the ways to get one, and ArgumentError for an unknown kind.
    """
    settings = settings or env.settings()
    wanted = settings.compiler if kind is None else _as_choice(kind)
    if wanted is not CompilerChoice.AUTO:
        return _require(CompilerKind(wanted.value), settings)
    for candidate in (CompilerKind.NVRTC, CompilerKind.NVCC):
        if _availability(candidate, settings):
            return candidate
    raise ToolNotFound("there is no CUDA compiler on this machine", argument="compiler", value="auto",
                       hint='get one with pip install "warpconv[compile]", or install a CUDA toolkit and put nvcc on '
                            "PATH, or name it in WARPCONV_NVCC or CUDA_HOME")


def options_for(kind: CompilerKind, arch: str, settings: Settings | None = None) -> tuple[str, ...]:
    """The options that decide the cubin, for the cache key; starts no subprocess. Raises ArgumentError for the arch."""
    settings = settings or env.settings()
    check_arch(arch)
    if kind is CompilerKind.NVRTC:
        lineinfo = ("-lineinfo",) if settings.lineinfo else ()
        return (f"--gpu-architecture={arch}", STANDARD, "--ptxas-options=-v", *lineinfo,
                *nvrtc.flags(settings.nvcc_flags))
    if kind is CompilerKind.NVCC:
        return (*settings.nvcc_prepend_flags, f"-arch={arch}", *_nvcc_options(settings), *settings.nvcc_flags,
                *settings.nvcc_append_flags)
    return (*settings.nvcc_prepend_flags, *_pycuda_options(settings), f"-arch={arch}", *settings.nvcc_append_flags)


def begin(arch: str, settings: Settings | None = None) -> None:
    """Start the compiler that would be used, beside the caller's work and once in a process, where it is a library."""
    settings = settings or env.settings()
    if settings.disable_jit or settings.compiler not in (CompilerChoice.AUTO, CompilerChoice.NVRTC):
        return
    where = nvrtc.find(settings)
    if where is not None:
        nvrtc.begin(where, arch)


def compile_source(text: str, *, arch: str, kind: CompilerKind | None = None, ptx: bool = False,
                   name: str = "kernel.cu", settings: Settings | None = None) -> Compiled:
    """Compile CUDA C++ ``text`` to a cubin for ``arch`` ("sm_90", "sm_90a"); ``ptx`` asks for the PTX as well.

    ``name`` is what the compiler calls the text in its messages. Raises ToolNotFound (no compiler), ArgumentError (an
    architecture that it does not know), CompileError (it refused the text, which is kept in a file) or FileError (the
    directory of WARPCONV_DUMP_SOURCE cannot be written).
    """
    settings = settings or env.settings()
    kind = choose(kind, settings)
    options = options_for(kind, arch, settings)
    if not _NAME.fullmatch(name):
        raise ArgumentError("the source's name is used as a file name", argument="name", value=name,
                            hint="letters, digits, '_', '-', '.', ending in .cu")
    dump_source(text, name, settings)
    try:
        return _compile(kind, text, arch=arch, options=options, ptx=ptx, name=name, settings=settings)
    except CompileError as error:
        if nobody_waits():      # the text was not refused
            raise
        raise _with_kept_source(error, name, settings) from error.__cause__


def check_arch(arch: str) -> None:
    """Raises ArgumentError unless ``arch`` is written like sm_90 or sm_90a."""
    if not isinstance(arch, str) or not _ARCH.fullmatch(arch):
        raise ArgumentError("an architecture is written like sm_90 or sm_90a", argument="arch", value=arch)


def _compile(kind: CompilerKind, text: str, *, options: tuple[str, ...], settings: Settings, **rest) -> Compiled:
    if kind is CompilerKind.NVRTC:
        return nvrtc.compile_source(text, options=options, settings=settings, **rest)
    if kind is CompilerKind.NVCC:
        return nvcc.compile_source(text, options=options, settings=settings, **rest)
    return pycuda_route.compile_source(text, options=options, passed=_pycuda_options(settings), settings=settings,
                                       **rest)


def _nvcc_options(settings: Settings) -> tuple[str, ...]:
    lineinfo = ("-lineinfo",) if settings.lineinfo else ()
    return (STANDARD, "-Xptxas", "-v", *lineinfo)


def _pycuda_options(settings: Settings) -> tuple[str, ...]:
    """What PyCUDA is given; it adds the arch, and nvcc reads its own variables as it always does."""
    return (*settings.pycuda_default_nvcc_flags, *_nvcc_options(settings), *settings.nvcc_flags)


def _as_choice(kind: CompilerKind | CompilerChoice | str) -> CompilerChoice:
    try:
        return CompilerChoice(kind.value if isinstance(kind, (CompilerKind, CompilerChoice)) else kind)
    except ValueError:
        raise ArgumentError("no such compiler", argument="compiler", value=kind,
                            hint="offered: " + ", ".join(choice.value for choice in CompilerChoice)) from None


def _availability(kind: CompilerKind, settings: Settings) -> Availability:
    if kind is CompilerKind.NVRTC:
        where = nvrtc.find(settings)
        return Availability(where, None if where else f"no libnvrtc; {nvrtc.WAYS}")
    if kind is CompilerKind.PYCUDA and (reason := pycuda_route.missing()) is not None:
        return Availability(None, f"{reason}; {pycuda_route.WAYS}")
    try:
        program = nvcc.find(settings)
    except ToolNotFound as error:
        return Availability(None, str(error))
    return Availability(str(program), None) if program else Availability(None, f"no nvcc; {nvcc.WAYS}")


def _require(kind: CompilerKind, settings: Settings) -> CompilerKind:
    found = _availability(kind, settings)
    if not found:
        raise ToolNotFound("the compiler that was asked for is not available", argument="compiler", value=kind.value,
                           hint=found.reason)
    return kind


def _with_kept_source(error: CompileError, name: str, settings: Settings) -> CompileError:
    """The same error with the first complaint in its message and, in its hint, the file that now holds the source."""
    first = next((line.strip() for line in error.log.splitlines() if re.search(r"\b(error|fatal)\b", line)), "")
    kept = _keep(error, name, settings)
    hint = "; ".join(part for part in (error.hint, f"the source and the log are in {kept}" if kept else "") if part)
    return CompileError(f"{error.message}: {first}" if first else error.message, source=error.source,
                        options=error.options, log=error.log, hint=hint or None)


def _keep(error: CompileError, name: str, settings: Settings) -> Path | None:
    """Write the source, as it is, and beside it the log with the numbered source. None if no place can be written."""
    log = f"{' '.join(error.options)}\n\n{error.log}\n{error.numbered_source()}\n"
    places = [lambda: Path(tempfile.mkdtemp(prefix="warpconv-failed-"))]
    if not settings.disable_cache:
        places.insert(0, lambda: settings.cache_dir / "failed")
    for place in places:
        try:
            path = _write_named(place(), name, error.source)
            _write(path.with_suffix(".log"), log)
        except OSError:
            continue
        return path
    return None


def dump_source(text: str, name: str, settings: Settings) -> None:
    """Write a source that is compiled to the directory of WARPCONV_DUMP_SOURCE, where one is named. Raises
    FileError."""
    folder = settings.dump_source
    if folder is None:
        return
    try:
        _write_named(folder, name, text)
    except OSError as error:
        raise FileError(f"the source cannot be dumped: {error.strerror or error}", argument="WARPCONV_DUMP_SOURCE",
                        value=str(folder), hint="name a directory that can be written, or unset it") from error


def _write_named(folder: Path, name: str, text: str) -> Path:
    """Write to a name made of ``name`` and a digest of the text, so that equal texts are kept once."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=6).hexdigest()
    path = folder / f"{name.removesuffix('.cu')}-{digest}.cu"
    _write(path, text)
    return path


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{os.urandom(16).hex()}")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
