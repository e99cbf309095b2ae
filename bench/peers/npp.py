"""NVIDIA's NPP through ctypes: FilterBorder on one plane, with the stream context that CUDA 13 asks for each time."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import site
import sys
from collections.abc import Iterator
from ctypes import POINTER, Structure, byref, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from bench.devices import NoDevice

REPLICATE = 2          # NPP_BORDER_REPLICATE


class Size(Structure):
    _fields_ = [("width", c_int), ("height", c_int)]


class Point(Structure):
    _fields_ = [("x", c_int), ("y", c_int)]


class StreamContext(Structure):
    """NppStreamContext of nppdefs.h."""

    _fields_ = [("stream", c_void_p), ("device", c_int), ("multiprocessors", c_int), ("resident_threads", c_int),
                ("block_threads", c_int), ("block_shared", c_size_t), ("major", c_int), ("minor", c_int),
                ("flags", c_uint), ("reserved", c_int)]


class _Version(Structure):
    _fields_ = [("major", c_int), ("minor", c_int), ("build", c_int)]


def folders() -> Iterator[Path]:
    """Where NPP may lie: the toolkit that the environment names, the one of nvcc, the usual place, wheels."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield from _library_folders(Path(os.environ[name]))
    nvcc = shutil.which("nvcc")
    if nvcc:
        yield from _library_folders(Path(nvcc).resolve().parent.parent)
    yield from _library_folders(Path("/usr/local/cuda"))
    for packages in (*site.getsitepackages(), *sys.path):
        for found in sorted(Path(packages or ".").glob("nvidia/*/lib")):
            if "npp" in found.parent.name or found.parent.name.startswith("cu1"):
                yield found
    yield Path("/usr/lib/x86_64-linux-gnu")


def _library_folders(root: Path) -> Iterator[Path]:
    yield root / "lib64"
    yield root / "lib"
    yield root / "targets" / "x86_64-linux" / "lib"


@functools.cache
def libraries() -> tuple[Any, Any]:
    """libnppc and libnppif, loaded. Raises NoDevice where they are not found."""
    seen: list[str] = []
    for folder in dict.fromkeys(folders()):
        core, filters = _newest(folder, "libnppc.so*"), _newest(folder, "libnppif.so*")
        if core is None or filters is None:
            continue
        try:
            return ctypes.CDLL(str(core), mode=ctypes.RTLD_GLOBAL), ctypes.CDLL(str(filters))
        except OSError as error:
            seen.append(str(error))
    raise NoDevice("libnppif is not on this machine" if not seen else f"libnppif does not load: {'; '.join(seen)}")


def version() -> str:
    """NPP's version, by its own word."""
    core, _ = libraries()
    core.nppGetLibVersion.restype = POINTER(_Version)
    found = core.nppGetLibVersion().contents
    return f"{found.major}.{found.minor}.{found.build}"


def filter_border(name: str = "nppiFilterBorder_32f_C1R_Ctx") -> Any:
    """The C function, with its signature. Raises NoDevice where the library does not have it."""
    return function(name, c_void_p, c_int, Size, Point, c_void_p, c_int, Size, c_void_p, Size, Point, c_int)


def function(name: str, *types: Any) -> Any:
    """A C function of libnppif with these arguments and the stream context. Raises NoDevice where the library does not
    have it."""
    _, filters = libraries()
    try:
        found = getattr(filters, name)
    except AttributeError:
        raise NoDevice(f"this NPP has no {name}") from None
    found.restype = c_int
    found.argtypes = [*types, StreamContext]
    return found


def answered(status: int) -> None:
    """Raises RuntimeError where NPP answered with anything but success (0)."""
    if status != 0:
        raise RuntimeError(f"NPP answered with status {status}")


def call(function: Any, context: StreamContext, source: int, target: int, taps: int, height: int, width: int,
         filter_size: tuple[int, int], itemsize: int = 4) -> None:
    """Filter one dense plane, borders replicated; ``taps`` is device memory, last coefficient first."""
    r, s = filter_size
    status = function(source, width * itemsize, Size(width, height), Point(0, 0), target, width * itemsize,
                      Size(width, height), taps, Size(s, r), Point(s // 2, r // 2), REPLICATE, context)
    answered(status)


def stream_context(stream: int, ordinal: int = 0) -> StreamContext:
    """The context of a stream on a GPU, filled from the driver's attributes."""
    from warpconv.runtime.devices.cuda.libcuda import libcuda
    values = {}
    for field, number in (("multiprocessors", 16), ("resident_threads", 39), ("block_threads", 1), ("block_shared", 8),
                          ("major", 75), ("minor", 76)):
        out = c_int()
        status = libcuda().cuDeviceGetAttribute(byref(out), number, ordinal)
        if status != 0:
            raise RuntimeError(f"the driver does not tell attribute {number} (status {status})")
        values[field] = out.value
    return StreamContext(stream=stream or None, device=ordinal, flags=0, reserved=0, **values)


def _newest(folder: Path, pattern: str) -> Path | None:
    found = sorted(folder.glob(pattern), key=lambda path: (len(path.name), path.name))
    return found[0] if found else None
