"""A shared object's bytes, loaded into this process.

The system loads files, and what was checked are bytes. So the bytes go to a file that nobody else can reach: one in
memory (memfd), which also serves where directories are mounted noexec; where there is no such thing, one in a private
temporary directory. The path of a cache entry is never loaded: what stands there may no longer be what was checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from warpconv.codegen.errors import DeviceError
from warpconv.runtime import forks

HINT = "name another C++ compiler in WARPCONV_CXX, such as g++; a noexec TMPDIR can be the reason, too"
_numbers = itertools.count()
_kept: dict[str, ctypes.CDLL] = {}
_keeping = forks.lock()


def load(data: bytes, name: str) -> ctypes.CDLL:
    """The library of these bytes; each call gives one of its own, which is closed when nobody holds it any more: a
    process has room for some thousands. Raises DeviceError with the loader's reason."""
    failures = []
    for place in (_in_memory, _in_a_file):
        try:
            with place(data, name) as path:
                library = ctypes.CDLL(path)
        except OSError as error:
            failures.append(str(error))
        except AttributeError:          # no memfd_create in this Python or system
            continue
        else:
            weakref.finalize(library, _close, library._handle).atexit = False
            return library
    raise DeviceError(f"the object that was compiled for the CPU device cannot be loaded: {_told(failures, name)}",
                      argument="device", value="cpu", hint=HINT)


def keep(data: bytes, name: str) -> None:
    """Load a library that others are linked to by its ``name``, as itself says it, for good: the system's loader finds
    it among those that are there. Raises as ``load`` does."""
    with _keeping:
        if name not in _kept:
            _kept[name] = load(data, name)


def _close(handle: int) -> None:
    with contextlib.suppress(ImportError, OSError):      # CPython's own module; elsewhere libraries stay open
        import _ctypes
        _ctypes.dlclose(handle)


@contextlib.contextmanager
def _in_memory(data: bytes, name: str) -> Iterator[str]:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield _unique_path(descriptor)
    finally:
        os.close(descriptor)


def _unique_path(descriptor: int) -> str:
    """A path of an open file that was never used before: the loader takes an equal path for a library it has, and
    descriptors' numbers come again. The count is written in the ways to spell "the same directory"."""
    spelled = "".join("./" if bit == "0" else ".//" for bit in f"{next(_numbers):b}")
    return f"/proc/self/fd/{spelled}{descriptor}"


@contextlib.contextmanager
def _in_a_file(data: bytes, name: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="warpconv-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, f"{next(_numbers)}-{name}")
        path.write_bytes(data)
        yield str(path)


def _told(failures: list[str], name: str) -> str:
    """The loader's last words, without the path that only this module knows."""
    return failures[-1].rsplit(f"{name}: ", 1)[-1] if failures else "no reason given"


