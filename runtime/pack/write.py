"""Writing a pack: kernels are put aside and renamed into place, the manifest is replaced whole, and last."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import shutil
import tempfile
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from warpconv.codegen.errors import FileError, PackError, WarpconvError
from warpconv.runtime.build.entry import sync

from .format import KERNELS, MANIFEST, Record, manifest_text, read_files, read_manifest, tree_of

LOCK_SECONDS = 3600.0
_ASIDE = ".aside-"
_log = logging.getLogger("warpconv.pack")


class Writer(Protocol):
    """A pack in the making."""

    def add(self, kernel: str, files: Mapping[str, bytes]) -> None:
        """Store a kernel's files; they are in the pack when a manifest that lists them is committed."""
        ...

    def checkpoint(self, document: Mapping[str, Any]) -> None:
        """Make what was built so far usable, where that is cheap."""
        ...

    def commit(self, document: Mapping[str, Any]) -> None:
        """Replace the manifest, and drop what it does not list."""
        ...


class FolderWriter:
    """A pack that is a directory."""

    def __init__(self, root: Path):
        self.root = root
        (root / KERNELS).mkdir(parents=True, exist_ok=True)

    def add(self, kernel: str, files: Mapping[str, bytes]) -> None:
        work = self.root / f"{_ASIDE}{uuid.uuid4().hex}"
        work.mkdir()
        try:
            for name, data in files.items():
                (work / name).write_bytes(data)
                sync(work / name)
            self._move(work, self.root / KERNELS / kernel)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def checkpoint(self, document: Mapping[str, Any]) -> None:
        aside = self.root / f"{_ASIDE}{uuid.uuid4().hex}"
        try:
            aside.write_text(manifest_text(document), encoding="utf-8")
            sync(aside)
            os.replace(aside, self.root / MANIFEST)
        finally:
            aside.unlink(missing_ok=True)
        sync(self.root)

    def commit(self, document: Mapping[str, Any]) -> None:
        self.checkpoint(document)
        leftover = [path for path in (self.root / KERNELS).iterdir() if path.name not in document["kernels"]]
        for path in [*leftover, *self.root.glob(f"{_ASIDE}*")]:
            shutil.rmtree(path, ignore_errors=True)

    def _move(self, work: Path, target: Path) -> None:
        """Rename ``work`` to ``target``; what stands there was not listed, or was damaged."""
        if target.exists():
            old = self.root / f"{_ASIDE}{uuid.uuid4().hex}"
            os.rename(target, old)
            shutil.rmtree(old, ignore_errors=True)
        os.rename(work, target)
        sync(target.parent)


class ZipWriter:
    """A pack that is a zip: it is written aside in one go, with no dates, so that equal packs are equal bytes."""

    def __init__(self, path: Path, kept: Mapping[str, Mapping[str, bytes]]):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._files = {kernel: dict(files) for kernel, files in kept.items()}

    def add(self, kernel: str, files: Mapping[str, bytes]) -> None:
        self._files[kernel] = dict(files)

    def checkpoint(self, document: Mapping[str, Any]) -> None:
        """Nothing: the whole zip would be written each time. The kernels are in the disk cache."""

    def commit(self, document: Mapping[str, Any]) -> None:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            _put(archive, MANIFEST, manifest_text(document).encode())
            for kernel in document["kernels"]:
                for name, data in self._files[kernel].items():
                    _put(archive, f"{KERNELS}/{kernel}/{name}", data)
        aside = self.path.with_name(f"{_ASIDE}{uuid.uuid4().hex}")
        try:
            aside.write_bytes(content.getbuffer())
            sync(aside)
            os.replace(aside, self.path)
        finally:
            aside.unlink(missing_ok=True)
        sync(self.path.parent)


class Existing(NamedTuple):
    """What a pack has before it is built: its sound kernels (a zip's with their files), and whether that is all."""

    kernels: dict[str, tuple[Record, dict[str, bytes]]]
    intact: bool


def existing(output: Path) -> Existing:
    """The sound kernels of the pack that is at ``output`` already; none if there is no pack.

    Damaged kernels are left out, and so is everything under a damaged manifest: it is built again. Raises FileError
    where something stands there that is no pack, PackError for a pack of another schema.
    """
    if not output.exists():
        return Existing({}, True)
    _check_is_pack(output)
    tree = tree_of(output)
    try:
        manifest = read_manifest(tree, str(output))
    except PackError as error:
        if error.argument == "schema":
            raise
        _log.warning("%s is built anew: %s", output, error)
        return Existing({}, False)
    found = {}
    for record in manifest.records:
        try:
            files = read_files(tree, record, str(output))
            found[record.id] = record, {} if output.is_dir() else files     # a zip is written anew, a directory stays
        except PackError as error:
            _log.warning("%s is left out: %s", record.id, error)
    return Existing(found, len(found) == len(manifest.records))


def _check_is_pack(output: Path) -> None:
    if output.is_dir():
        known = (MANIFEST, KERNELS)
        is_pack = (output / MANIFEST).exists() or all(p.name in known or p.name.startswith(_ASIDE)
                                                      for p in output.iterdir())
    else:
        is_pack = _is_zip_with_manifest(output)
    if not is_pack:
        raise FileError("there is something at this path, and it is no pack", argument="output", value=str(output),
                        hint="remove it, or name another path")


def _is_zip_with_manifest(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.namelist()
    except (zipfile.BadZipFile, ValueError):
        return False


@contextlib.contextmanager
def writing(output: Path) -> Iterator[None]:
    """One builder at a time for a pack. Turns OSErrors into FileError; where locking fails it goes on without."""
    import filelock
    name = hashlib.sha256(os.path.realpath(output).encode()).hexdigest()[:16]
    lock = filelock.FileLock(os.path.join(tempfile.gettempdir(), f"warpconv-pack-{name}.lock"), timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except (OSError, RuntimeError, NotImplementedError) as error:
        _log.info("building %s without a lock: %s", output, error)
    try:
        yield
    except OSError as error:
        if isinstance(error, WarpconvError):
            raise
        raise FileError(f"the pack cannot be written: {error.strerror or error}", argument="output", value=str(output),
                        hint="name a directory that can be written, with space enough") from error
    finally:
        with contextlib.suppress(OSError):
            lock.release()


def _put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name)       # its date is 1980-01-01
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)
