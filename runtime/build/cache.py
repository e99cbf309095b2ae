"""The disk cache: one directory per compiled kernel, published whole or not at all.

    root/entries/<name>-<digest>/   the files of one entry and meta.json (their checksums, the key, the caller's data)
    root/locks/<name>-<digest>.lock so that one process builds while the others wait
    root/notes/<digest>.json        small documents, which nobody misses
    root/tmp/                       entries in the making, and entries on their way out

Readers never lock. A builder works in ``tmp`` and renames the finished directory into ``entries``; that rename alone
makes publishing safe, the lock only saves work, so where locking fails (some network file systems) building goes on
without. Any defect of an entry is a miss. Where the root cannot be reached or written, or others could have written
there (``trust``), entries live in a private temporary directory of the process, after one warning. An entry's bytes are
read when they are checked, and used from memory. The cache knows nothing about what is in the files.
"""

from __future__ import annotations

import contextlib
import fnmatch
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import FileError, WarpconvError
from warpconv.runtime import env, paths, trust, warned

from . import cache_disk, private
from .cache_disk import Trimmed
from .entry import CacheKey, Defect, Entry, load_document, load_entry, seal, sync

__all__ = ["Build", "CacheKey", "Defect", "DiskCache", "Entry", "EntryRow", "load_entry"]

LOCK_SECONDS = 300.0    # longer than any compilation; after that build without the lock
PUBLISH_ATTEMPTS = 3
TRIM_STEP = 16         # a process looks at the size of all entries after it added this part of the limit

Build = Callable[[Path], Mapping[str, Any]]

_log = logging.getLogger("warpconv.cache")
_log.addHandler(logging.NullHandler())      # where nobody configured logging, the Python warning alone is shown
_warned: set[Path] = set()
_added: dict[Path, int] = {}            # bytes published since the size of all entries was last looked at


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
        return (_find(self.root, key) if self._is_trusted() else None) or self._find_private(key)

    def fetch(self, key: CacheKey, build: Build) -> Entry:
        """The entry, built if need be: ``build(directory)`` writes plain files there and returns JSON-able data.

        It is called once across processes, and a second time only if the cache turns out to be unwritable. Its own
        errors pass through, and leave nothing behind. Raises FileError if not even a temporary directory is writable.
        """
        if not self.enabled:
            return _build_privately(private.fresh_directory, key, build)
        entry = self.find(key)
        if entry is not None:
            return entry
        if self._is_trusted():
            try:
                with _lock(self.root, key):
                    return _find(self.root, key) or self._published(key, build)
            except WarpconvError:
                raise               # some of these are OSErrors, but they tell of the build, not of the disk
            except OSError as error:
                self._warn(f"cannot be written ({paths.reason(error)})")
        return self._find_private(key) or _build_privately(lambda: private.directory(str(self.root)), key, build)

    def noted(self, name: str) -> Any | None:
        """The document that ``note`` kept under a name; None where there is none, or it is damaged."""
        return cache_disk.read_note(self.root, name) if self.enabled and self._is_trusted() else None

    def note(self, name: str, document: Any) -> None:
        """Keep a small JSON-able document under a name (32 hexadecimal digits), beside the entries; where that cannot
        be, it is not kept."""
        if self.enabled and self._is_trusted():
            with contextlib.suppress(OSError):
                cache_disk.write_note(self.root, name, document)

    def trim_notes(self) -> None:
        """Remove the oldest notes, where there are too many."""
        if self.enabled and self._is_trusted():
            cache_disk.drop_notes(self.root, cache_disk.MOST_NOTES)

    def entries(self) -> list[EntryRow]:
        """All entries, damaged ones with empty ``meta``, in the order of their names."""
        return [_row(path) for path in cache_disk.entry_paths(self.root)]

    def verify(self) -> list[tuple[str, str | None]]:
        """Every entry's directory name with what is wrong with it, or None."""
        return [(path.name, _problem(path)) for path in cache_disk.entry_paths(self.root)]

    def clear(self, match: str | None = None) -> int:
        """Remove the entries whose directory name contains ``match`` (or fits it, if it has * or ?); how many went.

        Raises FileError if an entry cannot be removed.
        """
        cache_disk.sweep(self.root)
        cache_disk.drop_notes(self.root)
        count = 0
        for path in cache_disk.entry_paths(self.root):
            if match is not None and not fnmatch.fnmatchcase(path.name, _pattern(match)):
                continue
            with _removing(path):
                count += cache_disk.remove(self.root, path)
        return count

    def discard(self, key: CacheKey) -> None:
        """Remove an entry whose files are sound and still of no use. Raises FileError if it cannot be removed."""
        with _removing(self.root):
            for root in (self.root, private.known_directory(str(self.root))):
                if root is not None and paths.exists(root / "entries" / key.directory):
                    cache_disk.remove(root, root / "entries" / key.directory)

    def trim(self, limit: int) -> Trimmed:
        """Remove the entries used longest ago until the rest has at most ``limit`` bytes. Raises FileError."""
        with _removing(self.root):
            return cache_disk.trim(self.root, limit)

    def _find_private(self, key: CacheKey) -> Entry | None:
        directory = private.known_directory(str(self.root))
        return _find(directory, key) if directory is not None else None

    def _published(self, key: CacheKey, build: Build) -> Entry:
        entry = _publish(self.root, key, build)
        limit = env.settings().cache_limit
        size = sum(map(len, entry.files.values()))
        _added[self.root] = _added.get(self.root, limit) + size         # at its first entry a process looks, too
        if limit and _added[self.root] > limit // TRIM_STEP:
            _added[self.root] = 0
            with contextlib.suppress(OSError):      # what cannot be removed now may be the next time
                cache_disk.trim(self.root, limit)
        return entry

    def _is_trusted(self) -> bool:
        doubt = trust.doubt(self.root)
        if doubt is not None:
            self._warn(f"is not used ({doubt})")
        return doubt is None

    def _warn(self, what: str) -> None:
        if self.root in _warned:
            return
        _warned.add(self.root)
        text = (f"the kernel cache {self.root} {what}; kernels are kept for this process only. Set WARPCONV_CACHE_DIR "
                "to a directory of your own that can be written.")
        _log.warning(text)
        warned.warn(text)


@contextlib.contextmanager
def _removing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"the cache entry cannot be removed: {paths.reason(error)}", argument="path",
                        value=str(path)) from error


# ---- reading

def _find(root: Path, key: CacheKey) -> Entry | None:
    path = root / "entries" / key.directory
    try:
        entry = load_entry(path, key.directory)
    except Defect as defect:
        if paths.exists(path):
            _log.info("cache entry %s is damaged: %s", path, defect)
        return None
    cache_disk.note_use(path)
    return entry


def _problem(path: Path) -> str | None:
    try:
        load_entry(path)
    except Defect as defect:
        return str(defect)
    return None


def _row(path: Path) -> EntryRow:
    found = paths.status(path)                  # it may be removed while we look
    size, mtime = cache_disk.size_of(path), 0.0 if found is None else found.st_mtime
    try:
        document = load_document(path)
    except Defect:
        return EntryRow(path.name, path.name, size, mtime, {}, path)
    return EntryRow(path.name, document["name"], size, mtime, document["meta"], path)


def _pattern(match: str) -> str:
    return match if any(sign in match for sign in "*?[") else f"*{match}*"


# ---- writing

@contextlib.contextmanager
def _lock(root: Path, key: CacheKey) -> Iterator[None]:
    """Hold the key's lock if it can be had; otherwise go on without, because renaming is safe by itself."""
    import filelock
    lock = None
    try:
        trust.make(root / "locks")
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


def _build_privately(place: Callable[[], Path], key: CacheKey, build: Build) -> Entry:
    try:
        return _publish(place(), key, build)
    except WarpconvError:
        raise
    except OSError as error:
        raise FileError(f"a kernel can be kept neither in the cache nor in a temporary directory: {error}",
                        argument="path", value=error.filename,
                        hint="free some space, or set WARPCONV_CACHE_DIR or TMPDIR to a writable directory") from error


def _publish(root: Path, key: CacheKey, build: Build) -> Entry:
    """Build aside, seal with meta.json, rename into place. Raises OSError where the disk does not let it.

    Somebody may remove the folder of a builder at work (or the whole cache); then it is built once more.
    """
    for last in (False, True):
        trust.make(root / "entries")
        cache_disk.sweep(root)
        with cache_disk.work_folder(root, key.directory) as folder:
            try:
                meta = build(folder)
                seal(folder, key, meta)
                return _move_into_place(root, folder, load_entry(folder, key.directory))
            except Defect as defect:                    # the disk does not give back what was written
                raise OSError(str(defect)) from None
            except (OSError, WarpconvError) as error:
                if last or paths.is_dir(folder):
                    raise
                _log.info("the folder in which %s was built is gone; once more: %s", key.directory, error)
    raise AssertionError("the last attempt returns or raises")


def _move_into_place(root: Path, folder: Path, entry: Entry) -> Entry:
    """Rename ``folder`` to its final name. If another process was faster, its entry is the one to use."""
    target = root / "entries" / entry.key
    for _ in range(PUBLISH_ATTEMPTS):
        try:
            os.rename(folder, target)
        except OSError as error:
            failure = error
            with contextlib.suppress(Defect):
                return load_entry(target)
            if paths.exists(target):
                cache_disk.remove(root, target)         # a damaged entry stood in the way
            else:
                trust.make(target.parent)               # the whole cache was removed at this moment
        else:
            sync(target.parent)
            return replace(entry, path=target)
    raise failure
