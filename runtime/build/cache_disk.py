"""What lies under a cache's root: folders of builders at work, entries on their way out, and how much there may be."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from warpconv.runtime import owned, paths, trust

from .entry import META, digest_of

try:
    import fcntl
except ImportError:         # Windows: folders at work are told by their age alone
    fcntl = None            # type: ignore[assignment]

STALE_SECONDS = 3600.0      # what lies in tmp/ for an hour, and is held by nobody, was left by a killed builder
USED_SECONDS = 3600.0       # how finely the last use of an entry is known
MOST_FAILED = 100           # kept sources that a compiler refused, and their logs
MOST_NOTES = 4096           # of some kilobytes each
_NOTE = re.compile(r"[0-9a-f]{32}\.json")


class Trimmed(NamedTuple):
    """What ``trim`` did: entries removed, their bytes, and the bytes that are left."""

    removed: int
    freed: int
    left: int


@contextlib.contextmanager
def work_folder(root: Path, name: str) -> Iterator[Path]:
    """A new folder in the root's tmp/, held against sweeping while the block runs, and removed after it."""
    folder = root / "tmp" / f"{name[:80]}-{os.urandom(16).hex()}"
    trust.make(folder)
    held = _hold(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def sweep(root: Path) -> None:
    """Delete what killed builders left behind. A folder's age alone tells little: clocks jump and machines sleep."""
    for path in paths.entries(root / "tmp"):
        found = paths.status(path)
        if found is None or not owned.is_keyed(path) or time.time() - found.st_mtime < STALE_SECONDS:
            continue
        with contextlib.suppress(BlockingIOError):
            held = _hold(path)
            shutil.rmtree(path, ignore_errors=True)
            if held is not None:
                os.close(held)


def entry_paths(root: Path) -> list[Path]:
    """The directories of all entries, sound or not, by name."""
    return [path for path in paths.entries(root / "entries") if owned.is_keyed(path)]


def remove(root: Path, path: Path) -> int:
    """Move an entry aside, then delete it, so that no reader ever sees half of it; 0 if it was gone already."""
    trust.make(root / "tmp")
    aside = root / "tmp" / f"removed-{os.urandom(16).hex()}"
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return 0
    if paths.is_dir(aside) and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink()
    return 1


def note_use(entry: Path) -> None:
    """Remember that an entry is used now: by the time of its meta.json, written once in an hour at most."""
    found = paths.status(entry / META)
    if found is not None and abs(time.time() - found.st_mtime) > USED_SECONDS:
        with contextlib.suppress(OSError):      # a disk that cannot be written forgets
            os.utime(entry / META)


def size_of(entry: Path) -> int:
    """Bytes of an entry's files."""
    return sum(found.st_size for file in paths.entries(entry) if (found := paths.status(file)) is not None)


def read_note(root: Path, name: str) -> Any | None:
    """A note's document; None where there is none, or it is damaged."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(trust.read(root / "notes" / f"{name}.json"))
        if isinstance(found, dict) and found.get("checksum") == digest_of(found.get("document")):
            return found["document"]
    return None


def write_note(root: Path, name: str, document: Any) -> None:
    """Keep a note: whole, or not at all. Raises OSError."""
    trust.make(root / "notes")
    with work_folder(root, "note") as folder:
        partial = folder / f"{name}.json"
        partial.write_text(json.dumps({"document": document, "checksum": digest_of(document)}), encoding="utf-8")
        os.chmod(partial, 0o600)        # whatever the umask: what others can write is not used
        os.replace(partial, root / "notes" / partial.name)


def drop_notes(root: Path, most: int = 0) -> None:
    """Remove all notes but the newest ``most``, and nothing else that lies there."""
    _drop_files(sorted((path for path in paths.entries(root / "notes") if _NOTE.fullmatch(path.name)), key=_age)[most:])


def trim(root: Path, limit: int) -> Trimmed:
    """Remove the entries used longest ago until the rest has at most ``limit`` bytes. Raises OSError.

    Sources that compilers refused are kept to the newest hundred, lock files to those of entries that are there.
    """
    sweep(root)
    sizes = {path: size_of(path) for path in entry_paths(root)}
    total, removed, freed = sum(sizes.values()), 0, 0
    for path in sorted(sizes, key=_last_use):
        if total - freed <= limit:
            break
        removed += remove(root, path)
        freed += sizes[path]
    _drop_files(sorted(paths.entries(root / "failed"), key=_age)[MOST_FAILED:])
    drop_notes(root, MOST_NOTES)
    _drop_files([path for path in paths.entries(root / "locks") if _age(path) > STALE_SECONDS
                 and not paths.exists(root / "entries" / path.name.removesuffix(".lock"))])
    return Trimmed(removed, freed, total - freed)


def _last_use(entry: Path) -> float:
    found = paths.status(entry / META)
    return 0.0 if found is None else found.st_mtime


def _age(path: Path) -> float:
    found = paths.status(path)
    return 0.0 if found is None else time.time() - found.st_mtime


def _drop_files(files: list[Path]) -> None:
    for path in files:
        with contextlib.suppress(OSError):
            path.unlink()


def _hold(folder: Path) -> int | None:
    """Lock a folder as one at work; None where folders cannot be locked (some network file systems).

    Raises BlockingIOError where another holds it.
    """
    if fcntl is None:
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return descriptor
