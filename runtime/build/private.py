"""Temporary directories that belong to this process: made on demand, never shared with a fork, removed at exit."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from warpconv.runtime import forks

_lock = forks.lock()
_directories: dict[tuple[int, str], Path] = {}


def directory(purpose: str) -> Path:
    """The process's directory for ``purpose``, the same one at each call. Raises OSError if none can be made."""
    with _lock:
        key = (os.getpid(), purpose)
        if key not in _directories:
            _directories[key] = _make()
        return _directories[key]


def known_directory(purpose: str) -> Path | None:
    """The directory for ``purpose`` if this process has made one."""
    return _directories.get((os.getpid(), purpose))


def fresh_directory() -> Path:
    """A new directory that nothing else uses. Raises OSError if none can be made."""
    return _make()


def _make() -> Path:
    path = Path(tempfile.mkdtemp(prefix="warpconv-"))
    atexit.register(_remove, path, os.getpid())
    return path


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:        # a fork inherits the handler, but not the directory
        shutil.rmtree(path, ignore_errors=True)
