"""Directories that are another's and users that may not enter, for tests run by root and by others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534


def is_root() -> bool:
    return os.geteuid() == 0


def give_away(monkeypatch, *paths: Path) -> None:
    """Make the paths another user's. Root changes their owner; for others it is the user that seems to be another."""
    if is_root():
        for path in paths:
            os.chown(path, NOBODY, -1, follow_symlinks=False)
    else:
        real = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: real + 1)


@contextlib.contextmanager
def closed(directory: Path) -> Iterator[None]:
    """Nobody may enter the directory in the block. Root may enter everything, and is nobody meanwhile."""
    directory.chmod(0)
    if is_root():
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        directory.chmod(0o700)
