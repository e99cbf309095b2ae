"""The user's own file of measured choices: where it is, and whether it changed."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from warpconv.runtime import env, paths

Stamp = tuple[int, int]     # a file's time and size


def user_file() -> Path:
    """The user's own database: WARPCONV_TUNE_DB, else in the user's data directory."""
    return env.settings().tune_db or _default_file()


def stamp_of(path: Path) -> Stamp | None:
    """None where there is no such file."""
    found = paths.status(path)
    return None if found is None else (found.st_mtime_ns, found.st_size)


def stamp(ordinal: int) -> list[Any]:
    """What decides the table of a GPU besides this package's files, as JSON takes it."""
    from warpconv.runtime.devices.cuda import contexts
    path = user_file()
    return [contexts.name(ordinal), str(path), stamp_of(path)]


@functools.lru_cache(maxsize=1)
def _default_file() -> Path:
    import platformdirs         # only for those who tune or plan on a GPU: packs are served without it
    return Path(platformdirs.user_data_dir("warpconv", appauthor=False)) / "tuning.json"
