"""NVRTC, NVIDIA's compiler as a library, through ctypes: no driver, no host compiler, no subprocess, no files."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from warpconv.codegen.errors import ArgumentError, CompileError, ToolNotFound, WarpconvError
from warpconv.runtime import paths
from warpconv.runtime.build import patience
from warpconv.runtime.build.patience import Watch, watched
from warpconv.runtime.env import Settings

from . import tools
from .report import Compiled, CompilerKind, parse_log, parse_ptx_isa

INVALID_OPTION, CANCELLED = 5, 16
WAYS = 'pip install "warpconv[compile]", or a CUDA toolkit named by CUDA_HOME'
_LIBRARY = re.compile(r"libnvrtc\.so(\.\d+)*|nvrtc64_\d+_\d+\.dll")
_BUILTINS = re.compile(r"libnvrtc-builtins\.so(\.\d+)*|nvrtc-builtins64_\d+\.dll")
_SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")

# NVRTC asks three thousand times in a compilation whether to go on (0) or to end (1). A function of Python's would wait
# for Python's lock each time, while other threads plan; this one of C's reads a word of memory.
_ASKED = ctypes.cast((ctypes.cdll.msvcrt if os.name == "nt" else ctypes.CDLL(None)).atoi, ctypes.c_void_p)

# Within a process NVRTC orders the code of some texts differently each time (13.5, one of `volume`: ten cubins of ten
# compilations, one of which spilled 4 bytes a thread). What spills so few is compiled again, up to so many times.
SLIGHT, TRIES = 16, 3

# Flags that nvcc takes and NVRTC refuses, none of which changes a cubin: the host compiler's affairs.
_HOST_FLAG_WITH_VALUE = ("-ccbin", "--compiler-bindir", "-Xcompiler", "--compiler-options", "--threads", "-t")
_HOST_FLAG = re.compile(r"-O[0-3]|-m64|--machine=64|(" + "|".join(_HOST_FLAG_WITH_VALUE) + ")=.*")


def flags(nvcc_flags: tuple[str, ...]) -> tuple[str, ...]:
    """nvcc's flags as NVRTC takes them: those of the host compiler left out, ``-std x`` joined to ``-std=x``."""
    kept: list[str] = []
    words = iter(nvcc_flags)
    for word in words:
        if word in _HOST_FLAG_WITH_VALUE:
            next(words, None)
        elif word in ("-std", "--std"):
            kept.append(f"{word}={next(words, '')}")
        elif not _HOST_FLAG.fullmatch(word):
            kept.append(word)
    return tuple(kept)


def find(settings: Settings) -> str | None:
    """Where the library is (a path, or a name that the loader knows), or None. Starts no subprocess."""
    for path in _candidates(settings):
        if _LIBRARY.fullmatch(path.name) and paths.is_file(path):
            return str(path)
    return _known_to_loader()


def _candidates(settings: Settings) -> Iterator[Path]:
    yield from tools.wheel_files("nvrtc")
    for toolkit in (*settings.toolkits, tools.USUAL_TOOLKIT):
        for folder in ("lib64", "lib", "bin", "bin/x64"):
            yield from paths.entries(toolkit / folder)


@functools.lru_cache(maxsize=1)
def _known_to_loader() -> str | None:
    # ctypes.util.find_library would start ldconfig or a C compiler; asking the loader itself does not.
    for name in _SONAMES:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name)
            return name
    return None


@functools.lru_cache
def begin(where: str, arch: str) -> threading.Thread:
    """Have the library at ``where`` loaded, and started by compiling nothing, while the caller goes on: what would come
    before a process's first kernel otherwise. What fails is told by the compilation itself."""
    def start() -> None:
        with contextlib.suppress(WarpconvError), _load(where).program("", "start.cu") as program:
            program.compile((f"--gpu-architecture={arch}",), None)

    thread = threading.Thread(target=start, name="warpconv-nvrtc")
    thread.start()
    return thread


def compile_source(text: str, *, arch: str, options: tuple[str, ...], ptx: bool, name: str,
                   settings: Settings) -> Compiled:
    """Compile to a cubin; where it spills SLIGHT bytes a thread or fewer, up to TRIES times, and the one that spills
    least is kept. Raises ToolNotFound, ArgumentError (an arch it does not know) or CompileError."""
    where = find(settings)
    if where is None:
        raise ToolNotFound("NVRTC is not on this machine", argument="compiler", value="nvrtc", hint=WAYS)
    library = _load(where)
    library.check_arch(arch)
    start = time.perf_counter()
    with watched(f"{name} for {arch} by NVRTC", settings) as watch:
        made = [_compile(library, watch, text, arch=arch, options=options, ptx=ptx, name=name)]
        while 0 < _spilled(made[-1]) <= SLIGHT and len(made) < TRIES:
            made.append(_compile(library, watch, text, arch=arch, options=options, ptx=ptx, name=name))
    cubin, ptx_text, log = min(made, key=_spilled)
    return Compiled(cubin=cubin, ptx=ptx_text, ptx_isa=parse_ptx_isa(ptx_text), entries=parse_log(log), log=log,
                    compiler=CompilerKind.NVRTC, version=library.version, options=options, arch=arch,
                    seconds=time.perf_counter() - start)


def _spilled(made: tuple[bytes, str | None, str]) -> int:
    """Bytes a thread, of the kernel that has the most."""
    return max((max(entry.spill_stores, entry.spill_loads) for entry in parse_log(made[2])), default=0)


def _compile(library: _Library, watch: Watch, text: str, *, arch: str, options: tuple[str, ...], ptx: bool,
             name: str) -> tuple[bytes, str | None, str]:
    """Cubin, PTX and log."""
    # NVRTC may answer from a cache of its own, and then without the report on registers; older ones know no such switch
    switches = ("--no-cache",)
    while True:
        with library.program(text, name) as program:
            status = program.compile((*options, *switches), watch)
            log = program.log()
            if status == INVALID_OPTION and switches:
                switches = ()
                continue
            if status == CANCELLED:
                raise CompileError(f"NVRTC {watch.stopped}", source=text, options=options, log=log, hint=watch.hint)
            if status != 0:
                raise _refusal(library, status, text=text, arch=arch, options=options, log=log, name=name)
            return program.cubin(), program.ptx() if ptx else None, log


def _refusal(library: _Library, status: int, *, text: str, arch: str, options: tuple[str, ...], log: str,
             name: str) -> Exception:
    if re.search(r"gpu-architecture|nv_arch", log):         # the number is known, but not with this suffix
        return library.unsupported(arch)
    hint = "check WARPCONV_NVCC_FLAGS" if status == INVALID_OPTION else None
    return CompileError(f"NVRTC {library.version} refused {name} for {arch} ({library.error_text(status)})",
                        source=text, options=options, log=log, hint=hint)


def version(settings: Settings) -> str | None:
    """The version of the library that would be used, or None. Loads it."""
    where = find(settings)
    return _load(where).version if where else None


@functools.lru_cache(maxsize=4)
def _load(where: str) -> _Library:
    path = Path(where)
    if path.parent != Path("."):
        # NVRTC opens its builtins by name; loading them first works wherever the library came from.
        for beside in paths.entries(path.parent):
            if _BUILTINS.fullmatch(beside.name):
                with contextlib.suppress(OSError):
                    ctypes.CDLL(str(beside))
    try:
        return _Library(ctypes.CDLL(where))
    except (OSError, AttributeError) as error:
        raise ToolNotFound(f"NVRTC cannot be loaded: {error}", argument="library", value=where, hint=WAYS) from error


class _Library:
    """The calls of libnvrtc that we need, with their argument types declared."""

    def __init__(self, dll: ctypes.CDLL):
        self.dll = dll
        dll.nvrtcGetErrorString.restype = ctypes.c_char_p
        for function in ("nvrtcDestroyProgram", "nvrtcCompileProgram", "nvrtcGetProgramLog", "nvrtcGetCUBIN",
                         "nvrtcGetCUBINSize", "nvrtcGetPTX", "nvrtcGetPTXSize", "nvrtcGetProgramLogSize"):
            getattr(dll, function)          # AttributeError here rather than in the middle of a compilation
        major, minor = ctypes.c_int(), ctypes.c_int()
        dll.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def error_text(self, status: int) -> str:
        return (self.dll.nvrtcGetErrorString(ctypes.c_int(status)) or b"").decode("ascii", "replace")

    def supported(self) -> list[int]:
        """The architectures it knows, without the suffixes a and f."""
        count = ctypes.c_int()
        self.dll.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self.dll.nvrtcGetSupportedArchs(numbers)
        return sorted(numbers)

    def check_arch(self, arch: str) -> None:
        if int(re.sub(r"\D", "", arch)) not in self.supported():
            raise self.unsupported(arch)

    def unsupported(self, arch: str) -> ArgumentError:
        known = ", ".join(f"sm_{number}" for number in self.supported())
        return ArgumentError(f"NVRTC {self.version} cannot compile for this architecture", argument="arch", value=arch,
                             hint=f"it supports {known}")

    @contextlib.contextmanager
    def program(self, text: str, name: str) -> Iterator[_Program]:
        handle = ctypes.c_void_p()
        status = self.dll.nvrtcCreateProgram(ctypes.byref(handle), text.encode("utf-8"), os.fsencode(name), 0, None,
                                             None)
        if status != 0:
            raise CompileError(f"NVRTC {self.version}: {self.error_text(status)}", source=text, options=(), log="")
        try:
            yield _Program(self, handle)
        finally:
            self.dll.nvrtcDestroyProgram(ctypes.byref(handle))


class _Program:
    """One nvrtcProgram; lives inside ``_Library.program``."""

    def __init__(self, library: _Library, handle: ctypes.c_void_p):
        self._dll = library.dll
        self._handle = handle

    def compile(self, options: tuple[str, ...], watch: Watch | None) -> int:
        if watch is None:
            return self._compile(options)
        if hasattr(self._dll, "nvrtcSetFlowCallback"):      # from CUDA 12.8 on
            self._dll.nvrtcSetFlowCallback(self._handle, _ASKED, watch.word)
        return patience.interruptible(lambda: self._compile(options), watch)

    def _compile(self, options: tuple[str, ...]) -> int:
        array = (ctypes.c_char_p * len(options))(*(option.encode("utf-8") for option in options))
        return self._dll.nvrtcCompileProgram(self._handle, len(options), array)

    def log(self) -> str:
        return self._bytes("ProgramLog").rstrip(b"\0").decode("utf-8", "replace")

    def cubin(self) -> bytes:
        return self._bytes("CUBIN")

    def ptx(self) -> str:
        return self._bytes("PTX").rstrip(b"\0").decode("utf-8", "replace")

    def _bytes(self, what: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(self._dll, f"nvrtcGet{what}Size")(self._handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self._dll, f"nvrtcGet{what}")(self._handle, buffer)
        return buffer.raw
