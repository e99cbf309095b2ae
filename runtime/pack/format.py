"""What a pack is on disk: its manifest, and reading it with every check before anything is used.

    manifest.json                       schema, generator, the kernels, and a checksum of itself
    kernels/<name>-<digest>/kernel.cu   the source
                            kernel.cubin
                            kernel.ptx  where it was asked for

A pack is a directory of this form or a zip of it. Nothing in it is executed or unpickled to read it: the manifest is
JSON, names that leave the pack are refused, and every file's size and SHA-256 are compared before its bytes are used.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from warpconv.codegen.errors import PackError, WarpconvError
from warpconv.codegen.serialise import decode
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.build.pipeline import CUBIN, PTX, SOURCE, BuiltKernel

SCHEMA = 2      # 2: grids and workspaces over products of sizes, repeated steps
MANIFEST = "manifest.json"
KERNELS = "kernels"
REBUILD = "build the pack again, or fetch it again"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_LARGEST_MANIFEST = 256 << 20
_FILES = (SOURCE, CUBIN, PTX)


class Tree(Protocol):
    """A pack's files, whatever holds them."""

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file. Raises PackError where it is missing, unreadable or longer than ``limit``."""
        ...


@dataclass(frozen=True)
class LayerRecord:
    """A layer that a kernel was built for; ``estimate`` is the planner's figure for it at that time."""

    name: str
    shape: ConvShape
    estimate: float


@dataclass(frozen=True)
class Record:
    """One kernel of a manifest, decoded but for its files."""

    id: str
    meta: Mapping[str, Any]
    kernel: BuiltKernel             # with no source and no cubin yet
    layers: tuple[LayerRecord, ...]

    @property
    def has_ptx(self) -> bool:
        return PTX in self.meta["files"]

    @property
    def bytes(self) -> int:
        """The size of the cubin."""
        return self.meta["files"][CUBIN]["size"]


@dataclass(frozen=True)
class Manifest:
    """A manifest whose checksum was right and whose every record could be decoded."""

    document: Mapping[str, Any]
    records: tuple[Record, ...]


class FolderTree:
    """A pack that is a directory."""

    def __init__(self, root: Path):
        self.root = root

    def read(self, name: str, limit: int) -> bytes:
        try:
            with open(self.root / name, "rb") as file:
                data = file.read(limit + 1)
        except OSError as error:
            raise PackError(f"{name} of the pack cannot be read: {error.strerror or error}", argument="pack",
                            value=str(self.root), hint=REBUILD) from error
        return _limited(data, name, limit, self.root)


class ZipTree:
    """A pack that is a zip; it is opened for each read, so no file stays open and any thread may read."""

    def __init__(self, path: Path):
        self.root = path

    def read(self, name: str, limit: int) -> bytes:
        try:
            with zipfile.ZipFile(self.root) as archive, archive.open(name) as file:
                data = file.read(limit + 1)
        except KeyError:
            raise PackError(f"{name} of the pack is missing", argument="pack", value=str(self.root),
                            hint=REBUILD) from None
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError,
                ValueError) as error:
            raise PackError(f"{name} of the pack cannot be read: {error}", argument="pack", value=str(self.root),
                            hint=REBUILD) from error
        return _limited(data, name, limit, self.root)


def tree_of(path: Path) -> Tree:
    """The files of a pack at ``path``. Raises PackError if there is nothing that could be one."""
    if path.is_dir():
        return FolderTree(path)
    if path.is_file():
        return ZipTree(path)
    raise PackError("there is no such pack", argument="pack", value=str(path),
                    hint=f"build one with: warpconv build LAYERS -o {path}")


def read_manifest(tree: Tree, where: str) -> Manifest:
    """The manifest, checked. Raises PackError with what is wrong."""
    data = tree.read(MANIFEST, _LARGEST_MANIFEST)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise _damaged(f"{MANIFEST} is no JSON", where) from None
    if not isinstance(document, dict) or "schema" not in document:
        raise _damaged(f"{MANIFEST} has no schema number", where)
    if document["schema"] != SCHEMA:
        raise PackError(f"the pack {where} is of another schema; this warpconv reads {SCHEMA}", argument="schema",
                        value=document["schema"],
                        hint="build it with this version of warpconv, or use the version that made it")
    checksum = document.pop("checksum", None)
    if checksum != digest(document) or manifest_text(document).encode() != data:
        raise _damaged(f"the checksum of {MANIFEST} differs", where)
    kernels = document.get("kernels")
    if not isinstance(kernels, dict):
        raise _damaged(f"{MANIFEST} has no kernels", where)
    return Manifest(document, tuple(_record(name, meta, where) for name, meta in kernels.items()))


def manifest_text(document: Mapping[str, Any]) -> str:
    """The manifest's text, with its checksum; the order of the kernels is kept and is under the checksum too."""
    document = json.loads(json.dumps(document))
    return json.dumps({**document, "checksum": digest(document)}, indent=1) + "\n"


def read_files(tree: Tree, record: Record, where: str) -> dict[str, bytes]:
    """The files of a kernel, each compared with its checksum. Raises PackError."""
    files = {}
    for name, expected in record.meta["files"].items():
        path = f"{KERNELS}/{record.id}/{name}"
        data = tree.read(path, expected["size"])
        if file_record(data) != expected:
            raise _damaged(f"the checksum of {path} differs", where)
        files[name] = data
    return files


def load(tree: Tree, record: Record, where: str) -> BuiltKernel:
    """The kernel with its files, read and compared now. Raises PackError."""
    files = read_files(tree, record, where)
    try:
        return _decoded(record.meta, source=files[SOURCE].decode(), cubin=files[CUBIN],
                        ptx=files[PTX].decode() if PTX in files else None)
    except UnicodeDecodeError:
        raise _damaged(f"a text of {KERNELS}/{record.id} is not UTF-8", where) from None


def file_record(data: bytes) -> dict[str, Any]:
    """What the manifest says of a file."""
    return {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def digest(document: Any) -> str:
    """SHA-256 of a JSON value, its order included."""
    return hashlib.sha256(json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()


def _record(name: str, meta: Any, where: str) -> Record:
    if not _ID.fullmatch(name) or ".." in name:
        raise _damaged(f"{name!r} is no name of a kernel's directory", where)
    try:
        files = meta["files"]
        if not {SOURCE, CUBIN} <= set(files) <= set(_FILES):
            raise _damaged(f"{name} lists the files {sorted(files)}; {SOURCE} and {CUBIN} are needed, {PTX} is allowed",
                           where)
        if any(not _is_file_record(entry) for entry in files.values()):
            raise _damaged(f"{name} has a file without size and checksum", where)
        layers = tuple(LayerRecord(layer, decode(ConvShape, entry["shape"]), float(entry["estimate"]))
                       for layer, entry in meta["layers"].items())
        return Record(name, meta, _decoded(meta, source="", cubin=b""), layers)
    except (WarpconvError, KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, PackError):
            raise
        raise _damaged(f"the manifest's record of {name} cannot be read: {error}", where) from error




def _decoded(meta: Mapping[str, Any], **files: Any) -> BuiltKernel:
    report = {**meta["report"], "seconds": 0.0}     # how long it took is not in a pack: equal builds are equal bytes
    return BuiltKernel.from_meta({**report, **{name: meta[name] for name in ("spec", "settings", "program")}}, **files)


def _is_file_record(entry: Any) -> bool:
    return (isinstance(entry, dict) and set(entry) == {"sha256", "size"} and isinstance(entry["sha256"], str)
            and isinstance(entry["size"], int) and not isinstance(entry["size"], bool) and entry["size"] >= 0)


def _limited(data: bytes, name: str, limit: int, root: Path) -> bytes:
    if len(data) > limit:
        raise _damaged(f"{name} is longer than it should be", str(root))
    return data


def _damaged(what: str, where: str) -> PackError:
    return PackError(f"the pack is damaged: {what}", argument="pack", value=where, hint=REBUILD)
