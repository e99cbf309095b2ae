"""What a pack is on disk: its manifest, and reading it with every check before anything is used.

    manifest.json                       schema, generator, the kernels, and a checksum of itself
    kernels/<name>-<digest>/kernel.cu   the source
                            kernel.cubin
                            kernel.ptx  where it was asked for
    arrays/<digest>                     filters and biases of a model, where they were asked for (nodes.py)

A pack is a directory of this form or a zip of it. Nothing in it is executed or unpickled to read it: the manifest is
JSON, names that leave the pack are refused, and every file's size and SHA-256 are compared before its bytes are used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import PackError, WarpconvError
from warpconv.codegen.serialise import decode
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import paths
from warpconv.runtime.build.pipeline import CUBIN, PTX, SOURCE, BuiltKernel

from .check import check_kernel

FORMAT = "warpconv pack"
SCHEMA = 2      # 2: grids and workspaces over products of sizes, repeated steps
MANIFEST = "manifest.json"
KERNELS = "kernels"
ARRAYS = "arrays"
REBUILD = "build the pack again, or fetch it again"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_LARGEST_MANIFEST = 64 << 20    # of 10,000 kernels and more
LARGEST_FILE = 256 << 20
_DEEPEST = 32                   # levels of lists and objects in a manifest; 10 are needed
_LOCAL_HEADER = 30              # bytes of a zip's header of a file, before its name
FILES = (SOURCE, CUBIN, PTX)


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
    nodes: Mapping[str, Any] = field(default_factory=dict)      # NodeRecord of a model's layer, by the layer's name


class FolderTree:
    """A pack that is a directory."""

    def __init__(self, root: Path):
        self.root = root

    def read(self, name: str, limit: int) -> bytes:
        try:
            # without waiting for the other end of what is no file, a pipe
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            with open(os.open(self.root / name, flags), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise OSError("it is no regular file")
                data = file.read(min(limit, status.st_size) + 1)
        except (OSError, ValueError, MemoryError) as error:
            raise _unreadable(name, self.root, getattr(error, "strerror", None) or error) from error
        return _limited(data, name, limit, self.root)


class ZipTree:
    """A pack that is a zip. Its list of files is read once; the zip is opened for each read, so no file stays open and
    any thread, and any fork, may read."""

    def __init__(self, path: Path):
        self.root = path
        try:
            with zipfile.ZipFile(path) as archive:
                self._members = {info.filename: info for info in archive.infolist()}
        except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, LookupError,
                MemoryError) as error:
            raise _unreadable("the zip", path, error) from error

    def names(self) -> Iterable[str]:
        return self._members.keys()

    def read(self, name: str, limit: int) -> bytes:
        info = self._members.get(name)
        if info is None:
            raise PackError(f"{name} of the pack is missing", argument="pack", value=str(self.root), hint=REBUILD)
        try:
            with open(self.root, "rb") as file:
                data = _member(file, info, limit)
        except (OSError, zlib.error, ValueError, MemoryError) as error:
            raise _unreadable(name, self.root, error) from error
        return _limited(data, name, limit, self.root)


def _member(file: Any, info: zipfile.ZipInfo, limit: int) -> bytes:
    """At most ``limit`` + 1 bytes of a zip's file, whose place is known; its checksum is the manifest's matter. Raises
    ValueError, OSError or zlib.error."""
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04" or info.flag_bits & 1:
        raise ValueError("it is encrypted, or not where the zip's list says")
    name, extra = (int.from_bytes(header[at:at + 2], "little") for at in (26, 28))
    file.seek(name + extra, os.SEEK_CUR)
    packed = file.read(min(info.compress_size, limit + limit // 64 + 1024))
    if info.compress_type == zipfile.ZIP_STORED:
        return packed[:limit + 1]
    if info.compress_type != zipfile.ZIP_DEFLATED:
        raise ValueError("it is compressed in another way than deflate")
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limit + 1)


def tree_of(path: Path) -> Tree:
    """The files of a pack at ``path``. Raises PackError if there is nothing that could be one."""
    if paths.is_dir(path):
        return FolderTree(path)
    if paths.is_file(path):
        return ZipTree(path)
    if (reason := paths.refusal(path)) is not None:
        raise PackError(f"the pack cannot be read: {reason}", argument="pack", value=str(path))
    raise PackError("there is no such pack", argument="pack", value=str(path),
                    hint=f"build one with: warpconv build LAYERS -o {path}")


def read_manifest(tree: Tree, where: str) -> Manifest:
    """The manifest, checked. Raises PackError with what is wrong."""
    data = tree.read(MANIFEST, _LARGEST_MANIFEST)
    document = parse(data)
    if document is None:
        raise _damaged(f"{MANIFEST} is no JSON", where)
    if not isinstance(document, dict) or "schema" not in document:
        raise _damaged(f"{MANIFEST} has no schema number", where)
    if document["schema"] != SCHEMA:
        raise PackError(f"the pack {where} is of another schema; this warpconv reads {SCHEMA}", argument="schema",
                        value=document["schema"],
                        hint="build it with this version of warpconv, or use the version that made it")
    checksum = document.pop("checksum", None)
    if checksum != digest(document) or manifest_text(document).encode() != data:
        raise _damaged(f"the checksum of {MANIFEST} differs", where)
    generator, kernels = document.get("generator"), document.get("kernels")
    if not isinstance(generator, dict) or not all(isinstance(value, str) for value in generator.values()):
        raise _damaged(f"{MANIFEST} has no generator", where)
    if not isinstance(kernels, dict):
        raise _damaged(f"{MANIFEST} has no kernels", where)
    return Manifest(document, tuple(_record(name, meta, where) for name, meta in kernels.items()),
                    _nodes(document.get("nodes", {}), where))


def parse(data: bytes) -> Any:
    """A manifest's JSON; None where it is none, or is nested deeper than any manifest."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError, MemoryError):
        return None
    level, depth = [document], 0
    while level:
        level = [inner for value in level if isinstance(value, (dict, list))
                 for inner in (value.values() if isinstance(value, dict) else value)]
        depth += 1
        if depth > _DEEPEST:
            return None
    return document


def is_ours(document: Any) -> bool:
    """Whether a manifest's JSON is that of a pack, of any schema, sound or not: it says so, or (before it did) has all
    that a pack's has."""
    if not isinstance(document, dict) or not isinstance(document.get("kernels"), dict):
        return False
    if document.get("format") == FORMAT:
        return True
    generator = document.get("generator")
    return ({"schema", "checksum"} <= set(document) and isinstance(generator, dict)
            and {"version", "digest"} <= set(generator)
            and all(isinstance(meta, dict) and isinstance(meta.get("files"), dict) and CUBIN in meta["files"]
                    for meta in document["kernels"].values()))


def is_kernel_name(name: str) -> bool:
    """Whether a kernel's directory may have this name."""
    return _ID.fullmatch(name) is not None and ".." not in name


def manifest_text(document: Mapping[str, Any]) -> str:
    """The manifest's text, with its checksum; the order of the kernels is kept and is under the checksum too."""
    document = json.loads(json.dumps(document))
    return json.dumps({**document, "checksum": digest(document)}, indent=1) + "\n"


def array_bytes(tree: Tree, sha256: str, size: int, where: str) -> bytes:
    """The bytes of an array, compared with its digest. Raises PackError."""
    path = f"{ARRAYS}/{sha256}"
    data = tree.read(path, size)
    if file_record(data) != {"sha256": sha256, "size": size}:
        raise _damaged(f"the checksum of {path} differs", where)
    return data


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
    if not is_kernel_name(name):
        raise _damaged(f"{name!r} is no name of a kernel's directory", where)
    try:
        files = meta["files"]
        if not {SOURCE, CUBIN} <= set(files) <= set(FILES):
            raise _damaged(f"{name} lists the files {sorted(files)}; {SOURCE} and {CUBIN} are needed, {PTX} is allowed",
                           where)
        if any(not _is_file_record(entry) for entry in files.values()):
            raise _damaged(f"{name} has a file without size and checksum", where)
        layers = tuple(LayerRecord(layer, decode(ConvShape, entry["shape"]), _estimate(entry["estimate"]))
                       for layer, entry in meta["layers"].items())
        kernel = _decoded(meta, source="", cubin=b"")
        check_kernel(kernel)
        return Record(name, meta, kernel, layers)
    except (WarpconvError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
            MemoryError) as error:
        if isinstance(error, PackError):
            raise
        raise _damaged(f"the manifest's record of {name} cannot be read: {error}", where) from error


def _nodes(meta: Any, where: str) -> dict[str, Any]:
    from .nodes import decoded
    try:
        return {name: decoded(one) for name, one in meta.items()}
    except (WarpconvError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(f"what the manifest says of a model's nodes cannot be read: {error}", where) from error


def _estimate(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError("an estimate is a number of at least 0")
    return float(value)


def _decoded(meta: Mapping[str, Any], **files: Any) -> BuiltKernel:
    report = {**meta["report"], "seconds": 0.0}     # how long it took is not in a pack: equal builds are equal bytes
    return BuiltKernel.from_meta({**report, **{name: meta[name] for name in ("spec", "settings", "program")}}, **files)


def _is_file_record(entry: Any) -> bool:
    return (isinstance(entry, dict) and set(entry) == {"sha256", "size"} and isinstance(entry["sha256"], str)
            and isinstance(entry["size"], int) and not isinstance(entry["size"], bool)
            and 0 <= entry["size"] <= LARGEST_FILE)


def _limited(data: bytes, name: str, limit: int, root: Path) -> bytes:
    if len(data) > limit:
        raise _damaged(f"{name} is longer than it should be", str(root))
    return data


def _unreadable(name: str, root: Path, reason: Any) -> PackError:
    return PackError(f"{name} of the pack cannot be read: {reason}", argument="pack", value=str(root), hint=REBUILD)


def _damaged(what: str, where: str) -> PackError:
    return PackError(f"the pack is damaged: {what}", argument="pack", value=where, hint=REBUILD)
