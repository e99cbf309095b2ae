"""Writing a pack: kernels are put aside and renamed into place, the manifest is replaced whole, and last.

What stands at the output is taken for a pack only by its manifest, and only what that lists is removed (owned.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from warpconv.codegen.errors import FileError, PackError, WarpconvError
from warpconv.runtime import owned, paths
from warpconv.runtime.build.entry import sync

from . import lock
from .format import (ARRAYS, FILES, KERNELS, MANIFEST, Record, Tree, ZipTree, array_bytes, is_kernel_name, is_ours,
                     manifest_text, parse, read_files, read_manifest, tree_of)
from .nodes import digests

_log = logging.getLogger("warpconv.pack")
_MEMBER = re.compile(rf"{KERNELS}/([^/]+)/({'|'.join(map(re.escape, FILES))})|{ARRAYS}/[0-9a-f]{{64}}")
_ARRAY = re.compile(r"[0-9a-f]{64}")
_HEAD = b"PK\x03\x04"


class Writer(Protocol):
    """A pack in the making."""

    def add(self, kernel: str, files: Mapping[str, bytes]) -> None:
        """Store a kernel's files; they are in the pack when a manifest that lists them is committed."""
        ...

    def add_array(self, sha256: str, data: bytes) -> None:
        """Store an array, as ``add`` does a kernel's files."""
        ...

    def checkpoint(self, document: Mapping[str, Any]) -> None:
        """Make what was built so far usable, where that is cheap."""
        ...

    def commit(self, document: Mapping[str, Any]) -> None:
        """Replace the manifest, and drop what it does not list."""
        ...

    def abandon(self) -> None:
        """Leave nothing of a new pack in which there is nothing."""
        ...


class FolderWriter:
    """A pack that is a directory; ``had``: the kernels of it that may be removed, ``arrays``: those it has."""

    def __init__(self, root: Path, had: Collection[str] = (), arrays: Collection[str] = ()):
        self.root = root
        self._may_go = set(had)
        self._arrays = set(arrays)
        self._new = not paths.exists(root)
        (root / KERNELS).mkdir(parents=True, exist_ok=True)

    def add(self, kernel: str, files: Mapping[str, bytes]) -> None:
        work = owned.aside(self.root)
        work.mkdir()
        try:
            for name, data in files.items():
                (work / name).write_bytes(data)
                sync(work / name)
            self._move(work, self.root / KERNELS / kernel)
        finally:
            owned.remove_folder(work, files)
        self._may_go.add(kernel)

    def add_array(self, sha256: str, data: bytes) -> None:
        target = self.root / ARRAYS / sha256
        if owned.is_file(target) and sha256 in self._arrays:
            return
        owned.refuse_link(target.parent, "output")
        target.parent.mkdir(exist_ok=True)
        aside = owned.aside(self.root)
        try:
            aside.write_bytes(data)
            sync(aside)
            os.replace(aside, target)
        finally:
            aside.unlink(missing_ok=True)
        self._arrays.add(sha256)

    def checkpoint(self, document: Mapping[str, Any]) -> None:
        aside = owned.aside(self.root)
        try:
            aside.write_text(manifest_text(document), encoding="utf-8")
            sync(aside)
            os.replace(aside, self.root / MANIFEST)
        finally:
            aside.unlink(missing_ok=True)
        sync(self.root)

    def commit(self, document: Mapping[str, Any]) -> None:
        self.checkpoint(document)
        for kernel in sorted(self._may_go - set(document["kernels"])):
            if not owned.remove_folder(self.root / KERNELS / kernel, FILES):
                _log.warning("%s stays, though the pack no longer lists it: there is more in it than a kernel's files",
                             self.root / KERNELS / kernel)
        listed = {sha256 for sha256, _ in digests(document.get("nodes", {}))}
        owned.remove_folder(self.root / ARRAYS, sorted(self._arrays - listed))
        owned.remove_asides(self.root, FILES)

    def abandon(self) -> None:
        if self._new and not paths.exists(self.root / MANIFEST):
            owned.remove_folder(self.root / ARRAYS, sorted(self._arrays))
            for folder in (self.root / KERNELS, self.root):
                with contextlib.suppress(OSError):      # what is in it stays
                    folder.rmdir()

    def _move(self, work: Path, target: Path) -> None:
        """Rename ``work`` to ``target``; what stands there was not listed, or was damaged. Raises FileError where it is
        no kernel's directory."""
        if os.path.lexists(target):
            if not owned.holds_only(target, FILES):
                raise FileError("this is in a kernel's place, and is none", argument="output", value=str(target),
                                hint="move it away")
            old = owned.aside(self.root)
            os.rename(target, old)
            owned.remove_folder(old, FILES)
        os.rename(work, target)
        sync(target.parent)


class ZipWriter:
    """A pack that is a zip: it is written aside in one go, with no dates, so that equal packs are equal bytes."""

    def __init__(self, path: Path, kept: Mapping[str, Mapping[str, bytes]], arrays: Mapping[str, bytes] | None = None):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._files = {kernel: dict(files) for kernel, files in kept.items()}
        self._arrays = dict(arrays or {})

    def add(self, kernel: str, files: Mapping[str, bytes]) -> None:
        self._files[kernel] = dict(files)

    def add_array(self, sha256: str, data: bytes) -> None:
        self._arrays[sha256] = data

    def checkpoint(self, document: Mapping[str, Any]) -> None:
        """Nothing: the whole zip would be written each time. The kernels are in the disk cache."""

    def abandon(self) -> None:
        """Nothing: it is written at the end."""

    def commit(self, document: Mapping[str, Any]) -> None:
        aside = owned.aside(self.path.parent, self.path.name)
        try:
            with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
                _put(archive, MANIFEST, manifest_text(document).encode())
                for kernel in document["kernels"]:
                    for name, data in self._files[kernel].items():
                        _put(archive, f"{KERNELS}/{kernel}/{name}", data)
                for sha256, _ in digests(document.get("nodes", {})):        # numbers that hardly pack smaller
                    _put(archive, f"{ARRAYS}/{sha256}", self._arrays[sha256], zipfile.ZIP_STORED)
            sync(aside)
            os.replace(aside, self.path)
        finally:
            aside.unlink(missing_ok=True)
        owned.remove_asides(self.path.parent, (), self.path.name)
        sync(self.path.parent)


class Existing(NamedTuple):
    """What a pack has before it is built: its sound kernels (a zip's with their files), whether that is all, the names
    of the kernels that may be removed, and what it has of a model's nodes."""

    kernels: dict[str, tuple[Record, dict[str, bytes]]]
    intact: bool
    listed: frozenset[str] = frozenset()
    nodes: Mapping[str, Any] = MappingProxyType({})         # the manifest's, those whose arrays are sound
    arrays: Mapping[str, bytes] = MappingProxyType({})      # a zip's by digest; of a folder without their bytes


def named_zip(output: Path) -> bool:
    """Whether a pack of this name is a zip, in any case; else it is a folder."""
    return output.suffix.lower() == ".zip"


def existing(output: Path, force: bool = False) -> Existing:
    """The sound kernels of the pack that is at ``output`` already; none if there is no pack.

    Damaged kernels are left out: they are built again. So is everything under a damaged manifest, where ``force``
    allows to overwrite it. Raises FileError where something stands there that is no pack, or a link; PackError for a
    damaged manifest without ``force``, and for a pack of another schema.
    """
    why = paths.refusal(output)
    if why is not None:
        raise FileError(f"the pack cannot be looked at: {why}", argument="output", value=str(output),
                        hint="name a path that can be reached")
    if not os.path.lexists(output):
        return Existing({}, True)
    owned.refuse_link(output, "output")
    if paths.is_dir(output) == named_zip(output):
        raise FileError("a folder named .zip is no pack" if paths.is_dir(output) else
                        "a file that is no zip by its name is no pack",
                        argument="output", value=str(output), hint="name another path")
    if paths.is_dir(output) and _is_unfinished(output):
        return Existing({}, True)
    try:
        tree = _tree(output)
        manifest = read_manifest(tree, str(output))
    except PackError as error:
        _check_is_pack(output)
        if error.argument == "schema":
            raise
        if not force:
            raise PackError(f"{error.message}, and it is not overwritten", argument="output", value=str(output),
                            hint="--force, or force=True, builds it anew; or name another path") from error
        _log.warning("%s is built anew: %s", output, error)
        return Existing({}, False, frozenset(_kernels_of(output)))
    _check_is_pack(output)
    found = {}
    for record in manifest.records:
        try:
            files = read_files(tree, record, str(output))
            # A zip is written anew, a directory stays.
            found[record.id] = record, {} if paths.is_dir(output) else files
        except PackError as error:
            _log.warning("%s is left out: %s", record.id, error)
    nodes, arrays = _sound_nodes(tree, manifest.document.get("nodes", {}), output)
    intact = len(found) == len(manifest.records) and len(nodes) == len(manifest.nodes)
    return Existing(found, intact, frozenset(record.id for record in manifest.records), nodes, arrays)


def _sound_nodes(tree: Tree, nodes: Mapping[str, Any], output: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The nodes whose arrays are as the manifest says, and these."""
    arrays: dict[str, bytes] = {}
    for sha256, size in digests(nodes):
        try:
            data = array_bytes(tree, sha256, size, str(output))
            arrays[sha256] = b"" if paths.is_dir(output) else data
        except PackError as error:
            _log.warning("an array is left out: %s", error)
    return {name: meta for name, meta in nodes.items()
            if all(one["sha256"] in arrays for one in meta["arrays"].values())}, arrays


def _tree(output: Path) -> Tree:
    if paths.is_dir(output):
        for name in (MANIFEST, KERNELS, ARRAYS):
            owned.refuse_link(output / name, "output")
    return tree_of(output)


def _is_unfinished(output: Path) -> bool:
    """Whether a folder is empty, or has only what a first build leaves that was killed."""
    for path in output.iterdir():
        ours = path.name == KERNELS and owned.is_folder(path) and all(map(_is_kernel, path.iterdir()))
        ours = ours or path.name == ARRAYS and owned.is_folder(path) and all(map(_is_array, path.iterdir()))
        if not (ours or owned.is_aside(path.name)):
            return False
    return True


def _kernels_of(output: Path) -> list[str]:
    """The kernels' directories of a folder, known by name and content, whatever its manifest lists."""
    folder = output / KERNELS
    return [path.name for path in folder.iterdir() if _is_kernel(path)] if owned.is_folder(folder) else []


def _is_kernel(path: Path) -> bool:
    return owned.is_keyed(path) and is_kernel_name(path.name) and owned.holds_only(path, FILES)


def _is_array(path: Path) -> bool:
    return owned.is_file(path) and _ARRAY.fullmatch(path.name) is not None


def _check_is_pack(output: Path) -> None:
    """Raises FileError where nothing says that this is a pack, sound or damaged."""
    if not (_folder_is_pack(output) if paths.is_dir(output) else _zip_is_pack(output)):
        raise FileError("there is something at this path, and it is no pack", argument="output", value=str(output),
                        hint="remove it, or name another path")


def _folder_is_pack(output: Path) -> bool:
    """By its manifest; where that is torn, by kernels beside it that a pack's directory has and nothing else."""
    if not owned.is_file(output / MANIFEST):
        return False
    document = parse((output / MANIFEST).read_bytes())
    if document is not None:
        return is_ours(document)
    kernels = output / KERNELS
    return owned.is_folder(kernels) and any(kernels.iterdir()) and all(map(_is_kernel, kernels.iterdir()))


def _zip_is_pack(output: Path) -> bool:
    """By its manifest and by having nothing but a pack's files, which are all that is written again; where its list is
    torn, by how a pack's zip begins."""
    if not owned.is_file(output):
        return False
    try:
        tree = ZipTree(output)
    except PackError:
        return _begins_as_pack(output)
    members = set(tree.names()) - {MANIFEST}
    if len(members) == len(list(tree.names())) or not all(map(_MEMBER.fullmatch, members)):
        return False
    try:
        document = parse(tree.read(MANIFEST, os.path.getsize(output) * 1100))
    except PackError:
        document = None
    return is_ours(document) if document is not None else _begins_as_pack(output)


def _begins_as_pack(output: Path) -> bool:
    """Whether a zip's first file is a manifest without a date, as _put() writes it."""
    with open(output, "rb") as file:
        head = file.read(30 + len(MANIFEST))
    return head[:4] == _HEAD and head[10:14] == b"\0\0\x21\0" and head[30:] == MANIFEST.encode()


@contextlib.contextmanager
def writing(output: Path) -> Iterator[None]:
    """One builder at a time for a pack. Turns OSErrors into FileError; folders that were made for nothing go again."""
    missing = [folder for folder in output.parents if not paths.exists(folder)]
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with lock.held(output):
            yield
    except OSError as error:
        if isinstance(error, WarpconvError):
            raise
        raise FileError(f"the pack cannot be written: {error.strerror or error}", argument="output", value=str(output),
                        hint="name a directory that can be written, with space enough") from error
    finally:
        with contextlib.suppress(OSError):
            for folder in missing:
                folder.rmdir()


def _put(archive: zipfile.ZipFile, name: str, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> None:
    entry = zipfile.ZipInfo(name)       # its date is 1980-01-01
    entry.compress_type = method
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)
