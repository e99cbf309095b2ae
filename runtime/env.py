"""Every environment variable that warpconv reads, declared once and typed.

``settings()`` reads the variables at each call, never at import, so a test or a notebook may change them at any time.
``scope(...)`` overrides them for a block of code. ``table()`` gives the rows that ``--help`` and the documentation
print, so that no second list of switches can go stale.
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import ArgumentError
from warpconv.runtime import paths

PREFIX = "WARPCONV_"


class CompilerChoice(enum.Enum):
    """What ``WARPCONV_COMPILER`` may ask for."""

    AUTO = "auto"
    NVRTC = "nvrtc"
    NVCC = "nvcc"
    PYCUDA = "pycuda"


class ArchRequest(NamedTuple):
    """One item of ``WARPCONV_CUDA_ARCH_LIST``: ``sm`` as compilers spell it, ``ptx`` where ``+PTX`` was written."""

    sm: str
    ptx: bool


class Kind(NamedTuple):
    """How a switch is written: ``label`` for the table, ``parse`` from text (ValueError says what would be right)."""

    label: str
    parse: Callable[[str], Any]


def _parse_bool(text: str) -> bool:
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError("write 1 or 0 (also true/false, yes/no, on/off)")


def _parse_count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("write a whole number of at least 1")
    return number


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:          # false for NaN, too
        raise ValueError("write a number of seconds, 0 for no limit")
    return seconds


def _parse_path(text: str) -> Path:
    return paths.absolute(text)


def _parse_program(text: str) -> Path:
    """A path is made absolute; a bare name stays as it is, to be looked up on PATH when it is used."""
    return _parse_path(text) if os.sep in text or text.startswith("~") else Path(text)


def _parse_paths(text: str) -> tuple[Path, ...]:
    return tuple(_parse_path(part) for part in text.split(os.pathsep) if part.strip())


def _parse_flags(text: str) -> tuple[str, ...]:
    import shlex
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"write flags as in a shell ({error})") from None


def _parse_words(text: str) -> tuple[str, ...]:
    """PyCUDA's own way: split at white space, no quoting."""
    return tuple(text.split())


def parse_bytes(text: str) -> int:
    """A number of bytes, or of KiB, MiB or GiB where K, M or G follows. Raises ValueError."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?)", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError("write bytes, or KiB, MiB or GiB as in 512M")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]


def _parse_compiler(text: str) -> CompilerChoice:
    try:
        return CompilerChoice(text.strip().lower())
    except ValueError:
        raise ValueError("write one of " + ", ".join(choice.value for choice in CompilerChoice)) from None


def _parse_level(text: str) -> str:
    level = text.strip().upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
        raise ValueError("write one of debug, info, warning, error, critical")
    return level


# The generations' names as torch.utils.cpp_extension knows them, as far as compilers of today still serve them.
_NAMED_ARCHES = {"turing": "7.5+PTX", "ampere": "8.0 8.6+PTX", "ada": "8.9+PTX", "hopper": "9.0+PTX",
                 "blackwell": "10.0 10.3 12.0 12.1+PTX"}
_ARCH_ITEM = re.compile(r"(\d{1,2})\.(\d)([af]?)(\+PTX)?", re.IGNORECASE)


def _parse_arches(text: str) -> tuple[ArchRequest, ...]:
    """torch's grammar: numbers like ``9.0a`` and ``10.0+PTX``, or names, apart by blanks, semicolons or commas."""
    requests: dict[ArchRequest, None] = {}          # a dict keeps the order and drops repetitions
    for word in re.split(r"[\s;,]+", text.strip()):
        for item in _NAMED_ARCHES.get(word.lower(), word).split():
            match = _ARCH_ITEM.fullmatch(item)
            if match is None:
                raise ValueError(f'{item!r} is no architecture; write for instance "8.0 9.0a 10.0+PTX"')
            major, minor, suffix, ptx = match.groups()
            requests[ArchRequest(f"sm_{int(major)}{minor}{suffix.lower()}", ptx is not None)] = None
    return tuple(requests)


BOOL = Kind("0 or 1", _parse_bool)
COUNT = Kind("number >= 1", _parse_count)
SECONDS = Kind("seconds", _parse_seconds)
BYTES = Kind("bytes, or 64K, 512M, 2G", parse_bytes)
PATH = Kind("path", _parse_path)
PROGRAM = Kind("program", _parse_program)
PATHS = Kind(f"paths apart by '{os.pathsep}'", _parse_paths)
FLAGS = Kind("flags", _parse_flags)
WORDS = Kind("flags", _parse_words)
COMPILER = Kind("auto, nvrtc, nvcc or pycuda", _parse_compiler)
LEVEL = Kind("debug, info, warning, error or critical", _parse_level)
ARCHES = Kind('list like "8.0 9.0a 10.0+PTX"', _parse_arches)


@dataclass(frozen=True)
class Switch:
    """One variable. ``default`` is the value where it is unset; a callable is asked at each reading."""

    name: str
    kind: Kind
    default: Any
    purpose: str
    default_text: str = ""

    @property
    def field(self) -> str:
        """The name of its field in ``Settings`` and of its keyword in ``scope``."""
        return self.name.removeprefix(PREFIX).lower()


def _user_cache_dir() -> Path:
    import platformdirs
    return Path(platformdirs.user_cache_dir("warpconv", appauthor=False))


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


SWITCHES: tuple[Switch, ...] = (
    Switch("WARPCONV_CACHE_DIR", PATH, _user_cache_dir, "where compiled kernels are kept",
           "the user's cache directory"),
    Switch("WARPCONV_CACHE_LIMIT", BYTES, 2 << 30, "what the cache may hold; entries used longest ago go; 0: no limit",
           "2G"),
    Switch("WARPCONV_DISABLE_CACHE", BOOL, False, "neither read nor write the disk cache"),
    Switch("WARPCONV_DISABLE_JIT", BOOL, False, "compile nothing: kernels come from cache and packs, or not at all"),
    Switch("WARPCONV_PACK", PATHS, (), "packs of ready kernels to look in"),
    Switch("WARPCONV_TUNE_DB", PATH, None, "the database of measured configurations (warpconv tune)",
           "tuning.json in the user's data directory"),
    Switch("WARPCONV_TEMPLATES", PATH, None, "a folder of templates to lay over warpconv's own, by their names"),
    Switch("WARPCONV_COMPILER", COMPILER, CompilerChoice.AUTO, "which CUDA compiler; auto takes NVRTC, else nvcc",
           "auto"),
    Switch("WARPCONV_NVCC", PROGRAM, None, "the nvcc to run", "CUDA_HOME, PATH, wheels"),
    Switch("WARPCONV_NVCC_FLAGS", FLAGS, (), "further flags of the CUDA compiler (part of the cache key)"),
    Switch("WARPCONV_CXX", PROGRAM, None, "the C++ compiler of the CPU device", "found on PATH"),
    Switch("WARPCONV_CUDA_ARCH_LIST", ARCHES, (), "architectures to build ahead for"),
    Switch("WARPCONV_COMPILE_JOBS", COUNT, _usable_cpus, "compilations at the same time", "usable CPUs"),
    Switch("WARPCONV_COMPILE_LIMIT", SECONDS, 300.0, "what one compilation may take; 0: no limit"),
    Switch("WARPCONV_CPU_THREADS", COUNT, _usable_cpus, "threads of the CPU device", "usable CPUs"),
    Switch("WARPCONV_WORKSPACE_LIMIT", BYTES, None, "workspace that a call may take at most"),
    Switch("WARPCONV_SEPARABLE", BOOL, True, "recognise separable filters in host memory"),
    Switch("WARPCONV_LINEINFO", BOOL, False, "put source lines into the cubin, for profilers"),
    Switch("WARPCONV_FAIL_ON_SPILLS", BOOL, False, "refuse a kernel that spills registers to local memory"),
    Switch("WARPCONV_DUMP_SOURCE", PATH, None, "directory that receives each source that is compiled"),
    Switch("WARPCONV_LOG_LEVEL", LEVEL, "WARNING", "how much warpconv tells", "warning"),
    Switch("CUDA_HOME", PATH, None, "the CUDA toolkit"),
    Switch("CUDA_PATH", PATH, None, "the CUDA toolkit, where CUDA_HOME is not set"),
    Switch("PYCUDA_DEFAULT_NVCC_FLAGS", WORDS, (), "PyCUDA's own flags, used by the pycuda route (part of its key)"),
    Switch("NVCC_PREPEND_FLAGS", FLAGS, (), "nvcc's own variable: flags before all others (part of the cache key)"),
    Switch("NVCC_APPEND_FLAGS", FLAGS, (), "nvcc's own variable: flags after all others (part of the cache key)"),
)


@dataclass(frozen=True)
class Settings:
    """All switches, read and parsed; one field for each row of ``SWITCHES``."""

    cache_dir: Path
    cache_limit: int
    disable_cache: bool
    disable_jit: bool
    pack: tuple[Path, ...]
    tune_db: Path | None
    templates: Path | None
    compiler: CompilerChoice
    nvcc: Path | None
    nvcc_flags: tuple[str, ...]
    cxx: Path | None
    cuda_arch_list: tuple[ArchRequest, ...]
    compile_jobs: int
    compile_limit: float
    cpu_threads: int
    workspace_limit: int | None
    separable: bool
    lineinfo: bool
    fail_on_spills: bool
    dump_source: Path | None
    log_level: str
    cuda_home: Path | None
    cuda_path: Path | None
    pycuda_default_nvcc_flags: tuple[str, ...]
    nvcc_prepend_flags: tuple[str, ...]
    nvcc_append_flags: tuple[str, ...]

    @property
    def toolkits(self) -> tuple[Path, ...]:
        """The toolkit directories that the environment names, the one to prefer first."""
        return tuple(path for path in (self.cuda_home, self.cuda_path) if path is not None)


_BY_FIELD = {switch.field: switch for switch in SWITCHES}
_OVERRIDES: contextvars.ContextVar[tuple[tuple[str, Any], ...]] = contextvars.ContextVar("warpconv_env", default=())


def settings() -> Settings:
    """The switches as they stand now: ``scope`` first, then the environment, then the defaults.

    They are read anew only where something that decides them has changed, since calls ask often. Raises ArgumentError,
    naming the variable, for a value that cannot be read.
    """
    global _latest
    state = _state()
    latest = _latest
    if latest is not None and latest[0] == state:
        return latest[1]
    made = _read(state[1])
    _latest = None if _follows_the_folder() else (state, made)
    return made


def _state() -> tuple[Any, ...]:
    """All that decides the settings, as cheap as it can be had: os.environ decodes at each look-up, so what stands
    behind it is asked where that is known."""
    return (tuple(map(_TEXTS.get, _DECIDING)), _OVERRIDES.get(), _usable_cpus())


def _follows_the_folder() -> bool:
    """Whether a path in the environment is relative to the working directory."""
    texts = [os.environ.get(switch.name, "") for switch in SWITCHES if switch.kind in (PATH, PROGRAM, PATHS)]
    return not all(os.path.isabs(part) for text in texts for part in text.split(os.pathsep) if part.strip())


def _read(given: tuple[tuple[str, Any], ...]) -> Settings:
    overrides = dict(given)
    values = {}
    for name, switch in _BY_FIELD.items():
        if name in overrides:
            values[name] = overrides[name]
            continue
        text = os.environ.get(switch.name, "")
        values[name] = _parse(name, text) if text.strip() else _default(switch)
    return Settings(**values)


# What settings() reads: the switches, and where platformdirs looks for the user's cache directory
_NAMES = [switch.name for switch in SWITCHES] + ["XDG_CACHE_HOME", "HOME", "LOCALAPPDATA", "USERPROFILE"]
_BEHIND = getattr(os.environ, "_data", None)
_TEXTS: Any = os.environ if _BEHIND is None else _BEHIND
_DECIDING = _NAMES if _BEHIND is None else [os.environ.encodekey(name) for name in _NAMES]
_latest: tuple[tuple[Any, ...], Settings] | None = None


@contextlib.contextmanager
def scope(**overrides: Any) -> Iterator[Settings]:
    """Override switches, by field name, inside a ``with`` block (of this thread or task only).

    A string is read like the variable's text; any other value is taken as it is; None means the switch's default.
    Raises ArgumentError for an unknown switch or a value that cannot be read.
    """
    merged = dict(_OVERRIDES.get())
    for name, value in overrides.items():
        switch = _BY_FIELD.get(name)
        if switch is None:
            raise ArgumentError("no such switch", argument=name, value=value, hint="known: " + ", ".join(_BY_FIELD))
        if value is None:
            value = _default(switch)
        merged[name] = _parse(name, value) if isinstance(value, str) else value
    token = _OVERRIDES.set(tuple(merged.items()))
    try:
        yield settings()
    finally:
        _OVERRIDES.reset(token)


def table() -> list[tuple[str, str, str, str]]:
    """Rows (variable, how it is written, default, purpose), in the order in which they should be read."""
    return [(s.name, s.kind.label, s.default_text or _default_text(s.default), s.purpose) for s in SWITCHES]


def _parse(field: str, text: str) -> Any:
    switch = _BY_FIELD[field]
    try:
        return switch.kind.parse(text)
    except ValueError as error:
        raise ArgumentError(f"{switch.name} cannot be read", argument=switch.name, value=text,
                            hint=str(error)) from None


def _default(switch: Switch) -> Any:
    return switch.default() if callable(switch.default) else switch.default


def _default_text(default: Any) -> str:
    if isinstance(default, bool):
        return str(int(default))
    return "" if default in (None, ()) else str(default)


def _check_table() -> None:
    """A switch without its field, or a field without its switch, must not get as far as a test."""
    if [field.name for field in fields(Settings)] != list(_BY_FIELD):
        raise TypeError("Settings and SWITCHES differ")


_check_table()
