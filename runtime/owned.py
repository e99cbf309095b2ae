"""What may be overwritten or removed on a disk: one rule, for packs, caches, tuning databases and output files.

1. A file that a person named as an output is replaced, as a whole, if it is a regular file.
2. Everything else is replaced or removed only where it is known to be warpconv's own: by what it says of itself (a
   manifest), by a list that says so, or by a name that nobody else gives (``aside``).
3. A folder is removed file by file, by names that warpconv writes, and stays if anything else is in it.
4. A link is never followed to remove something or to put something in a folder.

docs/security.md has it in the user's words.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

from warpconv.codegen.errors import FileError

_KEYED = re.compile(r".+-[0-9a-f]{32}")
_ASIDE = re.compile(r"\.aside-[0-9a-f]{32}")


def aside(folder: Path, name: str = "") -> Path:
    """A path in ``folder`` for something on its way in or out (of ``name``); nothing is there."""
    return folder / f"{name and '.' + name}.aside-{os.urandom(16).hex()}"


def is_aside(name: str, of: str = "") -> bool:
    """Whether a file name is one that aside() gives (for ``of``)."""
    prefix = of and "." + of
    return name.startswith(prefix) and _ASIDE.fullmatch(name[len(prefix):]) is not None


def is_keyed(path: Path) -> bool:
    """Whether a folder, no link, has a name that ends in a digest: an entry of a cache, a pack's kernel, or one of them
    in the making or on its way out."""
    return _KEYED.fullmatch(path.name) is not None and is_folder(path)


def is_folder(path: Path) -> bool:
    """Whether a folder is there, and no link to one. False where that cannot be seen."""
    return stat.S_ISDIR(_mode(path))


def is_file(path: Path) -> bool:
    """Whether a regular file is there, and no link to one. False where that cannot be seen."""
    return stat.S_ISREG(_mode(path))


def holds_only(folder: Path, names: Collection[str]) -> bool:
    """Whether a folder, no link, holds nothing but regular files of these names."""
    try:
        return is_folder(folder) and all(p.name in names and is_file(p) for p in folder.iterdir())
    except OSError:
        return False


def refuse_link(path: Path, argument: str) -> None:
    """Raises FileError where ``path`` is a link."""
    if stat.S_ISLNK(_mode(path)):
        raise FileError("this is a link, and nothing is overwritten or removed through links", argument=argument,
                        value=str(path), hint="name what it leads to")


def remove_folder(folder: Path, names: Iterable[str]) -> bool:
    """Remove the files of these names from ``folder``, then the folder if it is empty; whether it is gone.

    A link stays as it is. Nothing is raised: what cannot be removed stays.
    """
    if not is_folder(folder):
        return not os.path.lexists(folder)
    for name in names:
        if is_file(folder / name):
            with contextlib.suppress(OSError):
                (folder / name).unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not os.path.lexists(folder)


def remove_asides(folder: Path, names: Iterable[str], of: str = "") -> None:
    """Remove what a builder that was killed left in ``folder`` under names of aside(); folders hold ``names``."""
    names = tuple(names)
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if not is_aside(path.name, of):
                continue
            if is_file(path):
                with contextlib.suppress(OSError):
                    path.unlink()
            else:
                remove_folder(path, names)


def _mode(path: Path) -> int:
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0
