"""Whose files are used: the effective user's own and root's, as far as nobody else could have written them.

A checksum tells of accident, not of intent: who can replace a file can replace its checksum. What is executed later
(shared objects, cubins, sources) is therefore taken only from directories and files that nobody else can write, and its
bytes are read once, by a descriptor that was looked at, and used from memory (docs/security.md). Where the system has
no owners in this sense (Windows) everything is trusted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from warpconv.runtime import paths

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40        # as the kernel's own limit


def doubt(directory: Path) -> str | None:
    """Why files below ``directory`` are not to be used, in words; None where they are, or where it is still to be made.

    It must be a directory of the user's (or root's) that neither group nor others can write. On the way to it, links
    must be the user's or root's, and directories must not be writable by others, except sticky ones such as /tmp. A
    directory on the way may be writable by the user's own group of one, which some systems make by default.
    """
    if not hasattr(os, "geteuid"):
        return None
    found = None
    try:
        for place, found in _way(directory):
            if not _is_ours(found) and not _is_unmapped_root(found):
                return f"{place} belongs to another user"
            if not stat.S_ISLNK(found.st_mode) and _others_can_swap(found):
                return f"{place} can be written by others"
    except FileNotFoundError:
        return None             # what is missing will be made by make()
    except OSError as error:
        return paths.reason(error)
    except ValueError:
        return "a NUL in its name"
    if found is None or not stat.S_ISDIR(found.st_mode):
        return os.strerror(errno.ENOTDIR)
    return _doubt_of(directory, found)


def make(directory: Path) -> None:
    """The directory and what is missing of the way to it, for this user alone. Raises OSError."""
    missing = []
    place = directory
    while not paths.exists(place) and place != place.parent:
        missing.append(place)
        place = place.parent
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    if not paths.is_dir(directory):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))


def read(file: Path) -> bytes:
    """The bytes of a regular file that nobody else could have written. Raises OSError, PermissionError for one's."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(file, flags), "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(file))
        if hasattr(os, "geteuid") and (why := _doubt_of(file.name, found)) is not None:
            raise PermissionError(errno.EPERM, why, str(file))
        return opened.read()


def _doubt_of(name: object, found: os.stat_result) -> str | None:
    if not _is_ours(found):
        return f"{name} belongs to another user"
    if found.st_mode & _OTHERS_WRITE:
        return f"{name} can be written by others; chmod go-w it if nobody did"
    return None


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every directory and link that the system passes on the way to ``path``, and ``path``. Raises OSError."""
    parts = list(reversed(paths.absolute(path).parts))
    place, links = Path(parts.pop()), 0
    yield place, os.lstat(place)
    while parts:
        part = parts.pop()
        if part == "..":
            place = place.parent
            continue
        found = os.lstat(place / part)
        yield place / part, found
        if not stat.S_ISLNK(found.st_mode):
            place = place / part
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = Path(os.readlink(place / part))
        if target.is_absolute():
            place = Path(target.anchor)
        parts.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid())


def _is_unmapped_root(found: os.stat_result) -> bool:
    """In a user namespace without root's number, root's directories (/, /home) seem to be the overflow user's."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            overflow = int(file.read())
        with open("/proc/self/uid_map", encoding="ascii") as file:
            mapped = [int(line.split()[0]) for line in file]
    except (OSError, ValueError, IndexError):
        return False
    return found.st_uid == overflow and 0 not in mapped


def _others_can_swap(found: os.stat_result) -> bool:
    """Whether others may rename what lies in this directory."""
    if found.st_mode & stat.S_ISVTX:
        return False
    return bool(found.st_mode & stat.S_IWOTH or found.st_mode & stat.S_IWGRP and not _group_of_one(found))


def _group_of_one(found: os.stat_result) -> bool:
    """Whether the group is the owner's own: of the owner's name, with nobody else in it."""
    import grp
    import pwd
    try:
        owner, group = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid)
    except (KeyError, OSError):
        return False
    return group.gr_name == owner and set(group.gr_mem) <= {owner}
