"""Finding NVIDIA's tools and libraries on a machine, and running a tool so that nothing is left behind.

Places, in order: the toolkit that the environment names (CUDA_HOME, CUDA_PATH), PATH, the usual toolkit directory,
NVIDIA's wheels. Looking starts no subprocess.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from warpconv.codegen.errors import ToolNotFound
from warpconv.runtime import paths
from warpconv.runtime.build.patience import Watch
from warpconv.runtime.env import Settings

USUAL_TOOLKIT = Path("/usr/local/cuda")
TOOL_SECONDS = 300.0
_EXE = ".exe" if os.name == "nt" else ""

# The distributions that carry a tool; wheels for CUDA 12 have a suffix, those for 13 have none.
_WHEELS = {"nvrtc": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"),
           "nvcc": ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu13", "nvidia-cuda-nvcc-cu12"),
           "cuobjdump": ("nvidia-cuda-cuobjdump", "nvidia-cuda-cuobjdump-cu12"),
           "nvdisasm": ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvdisasm-cu12")}

# What compilers and linkers print, in English, where it is the disk that refuses and not they.
_DISK_NUMBERS = {os.strerror(number).lower(): number
                 for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENAMETOOLONG)}
_DISK = re.compile(rf": ({'|'.join(map(re.escape, _DISK_NUMBERS))})\b", re.IGNORECASE)


def find_program(name: str, settings: Settings) -> Path | None:
    """A tool of the toolkit, such as ``nvcc`` or ``nvdisasm``, or None."""
    for toolkit in settings.toolkits:
        if (found := _executable(toolkit / "bin" / (name + _EXE))) is not None:
            return found
    if (on_path := shutil.which(name)) is not None:
        return Path(on_path)
    if (found := _executable(USUAL_TOOLKIT / "bin" / (name + _EXE))) is not None:
        return found
    return next((path for path in wheel_files(name) if path.name == name + _EXE and _executable(path)), None)


def wheel_files(tool: str) -> Iterator[Path]:
    """All files of the wheels that carry ``tool``: where they usually lie, which also finds wheels that were unpacked
    without metadata, then where their metadata says."""
    yield from _namespace_files(tool)
    yield from _recorded_files(tool)


def _recorded_files(tool: str) -> Iterator[Path]:
    import importlib.metadata       # late: it takes a tenth of what a kernel from the disk cache does
    for distribution in _WHEELS[tool]:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            for file in importlib.metadata.distribution(distribution).files or ():
                if file.parts[0] == "nvidia":
                    yield Path(file.locate())


def _namespace_files(tool: str) -> Iterator[Path]:
    """Both layouts, ``nvidia/cu13`` and ``nvidia/cuda_<tool>`` (CUDA 12), in every ``nvidia`` directory on sys.path."""
    for root in _namespace_roots():
        for layout in ("cu13", f"cuda_{tool}", "cu12"):
            for folder in ("bin", "lib"):
                yield from paths.entries(root / layout / folder)


@functools.lru_cache(maxsize=1)
def _namespace_roots() -> tuple[Path, ...]:
    try:
        found = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return ()
    return tuple(Path(place) for place in (found.submodule_search_locations or ())) if found else ()


def _executable(path: Path) -> Path | None:
    return path if paths.is_file(path) and os.access(path, os.X_OK) else None


def run_tool(command: list[str], *, cwd: Path, path_first: Path | None = None, seconds: float | None = TOOL_SECONDS,
             watch: Watch | None = None, drop_env: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Run a tool inside ``cwd``; its exit status, standard output and standard error, undecodable bytes replaced.

    The tool's own temporary files go to ``cwd`` too. It and its children are killed if it takes too long (the status
    is then -1 and the error text says so) or if ``watch``, whose time it has then, or this thread is interrupted.
    Raises ToolNotFound if it cannot be started.
    """
    child_env = {k: v for k, v in os.environ.items() if k not in drop_env} | {"TMPDIR": str(cwd), "LC_ALL": "C"}
    if path_first is not None:
        child_env["PATH"] = f"{path_first}{os.pathsep}{child_env.get('PATH', '')}"
    try:
        child = _start(command, cwd, child_env)
    except OSError as error:
        raise ToolNotFound(f"{Path(command[0]).name} cannot be started: {error.strerror or error}",
                           argument="program", value=command[0]) from error
    if watch is not None:
        seconds = watch.limit
    try:
        with watch.ending(lambda: _end(child)) if watch else contextlib.nullcontext():
            out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill(child)
        return -1, "", f"{Path(command[0]).name} took longer than {seconds:g} s and was stopped"
    except BaseException:
        _kill(child)
        raise
    if watch is not None and watch.over:
        return -1, "", f"{Path(command[0]).name} {watch.stopped}"
    return child.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def disk_error(log: str, folder: Path) -> OSError | None:
    """The error that a tool met on the disk, told by its log; None where it failed for another reason."""
    found = _DISK.search(log)
    if found is None:
        return None
    number = _DISK_NUMBERS[found[1].lower()]
    return OSError(number, os.strerror(number), str(folder))


def _start(command: list[str], cwd: Path, child_env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # A process group of its own, so that nvcc's children (cicc, ptxas) can be stopped with it.
    return subprocess.Popen(command, cwd=cwd, env=dict(child_env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=os.name != "nt")


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a tool and its children; whoever waits for it is told by its status."""
    with contextlib.suppress(OSError):
        if os.name == "nt":
            child.kill()
        elif child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)


def _kill(child: subprocess.Popen[bytes]) -> None:
    _end(child)
    child.communicate()
