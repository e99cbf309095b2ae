"""One way to look at a path that may fail: what is there is a value, never an exception.

A path of the user or of the environment may lead through a directory that may not be entered, a link to itself, a name
that is too long, or a file where a directory should be. ``Path.exists`` and its like raise some of these and hide
others, differently from one Python to the next. Here each of them is a miss; ``refusal`` says why, for a typed error
about a path that was named.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Union

_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR)

AnyPath = Union[str, "os.PathLike[str]"]


def status(path: AnyPath) -> os.stat_result | None:
    """What the system says of the path, links followed; None where nothing is or can be seen."""
    try:
        return os.stat(path)
    except (OSError, ValueError):       # ValueError: a NUL in the name
        return None


def refusal(path: AnyPath) -> str | None:
    """Why the path cannot be looked at ("Permission denied"); None where it can, and where there simply is nothing."""
    try:
        os.stat(path)
    except OSError as error:
        return None if error.errno in _NOTHING_THERE else reason(error)
    except ValueError:
        return "a NUL in its name"
    return None


def exists(path: AnyPath) -> bool:
    """Whether something can be seen there."""
    return status(path) is not None


def is_file(path: AnyPath) -> bool:
    """Whether a regular file can be seen there."""
    found = status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_dir(path: AnyPath) -> bool:
    """Whether a directory can be seen there."""
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def entries(path: AnyPath) -> list[Path]:
    """What is in a directory, by name; nothing where it cannot be listed."""
    try:
        return [Path(path, name) for name in sorted(os.listdir(path))]
    except (OSError, ValueError):
        return []


def absolute(path: AnyPath) -> Path:
    """The path with ~ and the working directory filled in; as it is where the working directory is gone."""
    expanded = os.path.expanduser(os.fspath(path))
    try:
        return Path(os.path.abspath(expanded))
    except OSError:
        return Path(expanded)


def reason(error: OSError) -> str:
    """An OSError in words, without its number and path."""
    return error.strerror or str(error)
