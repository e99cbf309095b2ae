"""The disk cache: one directory per compiled kernel, published whole or not at all.

    root/entries/<name>-<digest>/   the files of one entry and meta.json (their checksums, the key, the caller's data)
    root/locks/<name>-<digest>.lock so that one process builds while the others wait
    root/tmp/                       entries in the making, and entries on their way out

Readers never lock. A builder works in ``tmp`` and renames the finished directory into ``entries``; that rename alone
makes publishing safe, the lock only saves work, so where locking fails (some network file systems) building goes on
without. Any defect of an entry is a miss. Where the root cannot be written, entries live in a private temporary
directory of the process, after one warning. The cache knows nothing about what is in the files.
"""

from __future__ import annotations

import contextlib
import fnmatch
import logging
import os
import shutil
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpconv.codegen.errors import FileError, WarpconvError
from warpconv.runtime import env, owned
from . import private
from .entry import CacheKey, Defect, Entry, load_document, load_entry, seal, sync

__all__ = ["Build", "CacheKey", "Defect", "DiskCache", "Entry", "EntryRow", "load_entry"]

LOCK_SECONDS = 300.0    # longer than any compilation; after that build without the lock
STALE_SECONDS = 3600.0  # what lies in tmp/ for an hour was left by a killed builder
PUBLISH_ATTEMPTS = 3

Build = Callable[[Path], Mapping[str, Any]]

_log = logging.getLogger("warpconv.cache")
_log.addHandler(logging.NullHandler())      # where nobody configured logging, the Python warning alone is shown
_warned: set[Path] = set()


@dataclass(frozen=True)
class EntryRow:
    """One line of a listing; its files were not checked (``DiskCache.verify`` does that)."""

    key: str
    name: str
    size: int
    mtime: float
    meta: Mapping[str, Any]
    path: Path


class DiskCache:
    """Entries under one root (by default the one of the environment). ``enabled=False`` keeps nothing on that disk."""

    def __init__(self, root: Path | None = None, *, enabled: bool = True):
        self.root = Path(root) if root is not None else env.settings().cache_dir
        self.enabled = enabled

    def find(self, key: CacheKey) -> Entry | None:
        """The entry, or None if there is none or it is damaged. Takes no lock and starts no process."""
        if not self.enabled:
            return None
        return _find(self.root, key) or self._find_private(key)

    def fetch(self, key: CacheKey, build: Build) -> Entry:
        """The entry, built if need be: ``build(directory)`` writes plain files there and returns JSON-able data.

        It is called once across processes, and a second time only if the cache turns out to be unwritable. Its own
        errors pass through, and leave nothing behind. Raises FileError if not even a temporary directory is writable.
        """
        if not self.enabled:
            return _build_privately(private.fresh_directory(), key, build)
        entry = self.find(key)
        if entry is not None:
            return entry
        try:
            with _lock(self.root, key):
                return _find(self.root, key) or _publish(self.root, key, build)
        except WarpconvError:
            raise                   # some of these are OSErrors, but they tell of the build, not of the disk
        except OSError as error:
            self._warn(error)
            return self._find_private(key) or _build_privately(private.directory(str(self.root)), key, build)

    def entries(self) -> list[EntryRow]:
        """All entries, damaged ones with empty ``meta``, in the order of their names."""
        return [_row(path) for path in _entry_paths(self.root)]

    def verify(self) -> list[tuple[str, str | None]]:
        """Every entry's directory name with what is wrong with it, or None."""
        return [(path.name, _problem(path)) for path in _entry_paths(self.root)]

    def clear(self, match: str | None = None) -> int:
        """Remove the entries whose directory name contains ``match`` (or fits it, if it has * or ?); how many went.

        Raises FileError if an entry cannot be removed.
        """
        _sweep(self.root)
        count = 0
        for path in _entry_paths(self.root):
            if match is not None and not fnmatch.fnmatchcase(path.name, _pattern(match)):
                continue
            try:
                count += _remove(self.root, path)
            except OSError as error:
                raise FileError(f"the cache entry cannot be removed: {error.strerror or error}",
                                argument="path", value=str(path)) from error
        return count

    def _find_private(self, key: CacheKey) -> Entry | None:
        directory = private.known_directory(str(self.root))
        return _find(directory, key) if directory is not None else None

    def _warn(self, error: OSError) -> None:
        if self.root in _warned:
            return
        _warned.add(self.root)
        text = (f"the kernel cache {self.root} cannot be written ({error.strerror or error}); kernels are kept for "
                "this process only. Set WARPCONV_CACHE_DIR to a writable directory.")
        _log.warning(text)
        warnings.warn(text, RuntimeWarning, stacklevel=4)


# ---- reading

def _find(root: Path, key: CacheKey) -> Entry | None:
    path = root / "entries" / key.directory
    try:
        return load_entry(path, key.directory)
    except Defect as defect:
        if path.exists():
            _log.info("cache entry %s is damaged: %s", path, defect)
        return None


def _problem(path: Path) -> str | None:
    try:
        load_entry(path)
    except Defect as defect:
        return str(defect)
    return None


def _row(path: Path) -> EntryRow:
    size, mtime = 0, 0.0
    with contextlib.suppress(OSError):          # it may be removed while we look
        mtime = path.stat().st_mtime
        size = sum(file.stat().st_size for file in path.iterdir())
    try:
        document = load_document(path)
    except Defect:
        return EntryRow(path.name, path.name, size, mtime, {}, path)
    return EntryRow(path.name, document["name"], size, mtime, document["meta"], path)


def _entry_paths(root: Path) -> list[Path]:
    try:
        return sorted(path for path in (root / "entries").iterdir() if owned.is_keyed(path))
    except OSError:
        return []


def _pattern(match: str) -> str:
    return match if any(sign in match for sign in "*?[") else f"*{match}*"


# ---- writing

@contextlib.contextmanager
def _lock(root: Path, key: CacheKey) -> Iterator[None]:
    """Hold the key's lock if it can be had; otherwise go on without, because renaming is safe by itself."""
    import filelock
    lock = None
    try:
        (root / "locks").mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(str(root / "locks" / f"{key.directory}.lock"), timeout=LOCK_SECONDS)
        lock.acquire()
    except (OSError, RuntimeError, NotImplementedError) as error:      # filelock.Timeout is an OSError
        _log.info("building %s without a lock: %s", key.directory, error)
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            with contextlib.suppress(OSError):
                lock.release()


def _build_privately(root: Path, key: CacheKey, build: Build) -> Entry:
    try:
        return _publish(root, key, build)
    except WarpconvError:
        raise
    except OSError as error:
        raise FileError(f"a kernel can be kept neither in the cache nor in a temporary directory: {error}",
                        argument="path", value=str(root),
                        hint="free some space, or set WARPCONV_CACHE_DIR or TMPDIR to a writable directory") from error


def _publish(root: Path, key: CacheKey, build: Build) -> Entry:
    """Build aside, seal with meta.json, rename into place. Raises OSError where the disk does not let it."""
    (root / "entries").mkdir(parents=True, exist_ok=True)
    _sweep(root)
    work = root / "tmp" / f"{key.directory[:80]}-{uuid.uuid4().hex}"
    work.mkdir(parents=True)
    try:
        meta = build(work)
        seal(work, key, meta)
        return _move_into_place(root, work, key)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _move_into_place(root: Path, work: Path, key: CacheKey) -> Entry:
    """Rename ``work`` to its final name. If another process was faster, its entry is the one to use."""
    target = root / "entries" / key.directory
    for _ in range(PUBLISH_ATTEMPTS):
        try:
            os.rename(work, target)
        except OSError as error:
            if not target.exists():
                raise
            winner = _find(root, key)
            if winner is not None:
                return winner
            failure = error
            _remove(root, target)       # a damaged entry stood in the way
        else:
            sync(target.parent)
            return _load_published(target)
    raise failure


def _load_published(target: Path) -> Entry:
    try:
        return load_entry(target)
    except Defect as defect:            # the disk lies, or someone removed it at once: treat it as unwritable
        raise OSError(f"an entry could not be read back: {defect}") from None


def _remove(root: Path, path: Path) -> int:
    """Move an entry aside, then delete it, so that no reader ever sees half of it. 0 if it was gone already."""
    (root / "tmp").mkdir(parents=True, exist_ok=True)
    aside = root / "tmp" / f"removed-{uuid.uuid4().hex}"
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return 0
    if aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink()
    return 1


def _sweep(root: Path) -> None:
    """Delete what killed builders left behind; a builder at work keeps its directory younger than that."""
    with contextlib.suppress(OSError):
        for path in (root / "tmp").iterdir():
            with contextlib.suppress(OSError):
                if owned.is_keyed(path) and time.time() - path.stat().st_mtime >= STALE_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
