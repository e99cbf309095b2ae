"""One entry of the disk cache: its key, its directory on disk, and the checks that make a damaged one a miss.

An entry directory holds plain files and ``meta.json``, which is written last and states the key, the files' checksums,
the caller's own data, and a checksum of itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, FileError
from warpconv.runtime import trust

SCHEMA = 1
META = "meta.json"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,159}")


class Defect(Exception):
    """Why an entry directory cannot be used. Never leaves the cache: to a caller it is a miss."""


@dataclass(frozen=True)
class CacheKey:
    """What an entry is found by: a readable ``name`` and everything that decides its content, as text."""

    name: str
    fields: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ArgumentError("a cache key's name is used as a file name", argument="name", value=self.name,
                                hint="use up to 160 letters, digits, '.', '_' and '-'")
        for pair in self.fields:
            if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
                raise ArgumentTypeError("fields of a cache key are pairs of strings", argument="fields", value=pair)
        if len(dict(self.fields)) != len(self.fields):
            raise ArgumentError("a field of a cache key is given twice", argument="fields",
                                value=sorted(name for name, _ in self.fields))

    @property
    def digest(self) -> str:
        """32 hexadecimal digits of name, fields (in any order) and the cache's schema."""
        return digest_of({"schema": SCHEMA, "name": self.name, "fields": dict(self.fields)})

    @property
    def directory(self) -> str:
        return f"{self.name}-{self.digest}"


@dataclass(frozen=True)
class Entry:
    """A verified entry. Its bytes were read when they were checked, so it stays usable if the cache is cleared."""

    key: str
    meta: Mapping[str, Any]
    path: Path | None
    files: Mapping[str, bytes] = field(repr=False)

    def read(self, name: str) -> bytes:
        """The bytes of one file. Raises FileError if the entry has no such file."""
        try:
            return self.files[name]
        except KeyError:
            raise FileError("the cache entry has no such file", argument="name", value=name,
                            hint=f"{self.key} has {', '.join(sorted(self.files))}") from None


def load_entry(path: Path, directory: str | None = None) -> Entry:
    """Read and check one entry directory. Raises Defect with the reason if anything about it is wrong."""
    document = load_document(path)
    if document["directory"] != (directory or path.name):
        raise Defect(f"it says that it is {document['directory']}")
    files = {}
    for name, record in document["files"].items():
        try:
            files[name] = trust.read(path / _plain(name))
        except (OSError, ValueError) as error:          # ValueError: a NUL in the name
            raise Defect(f"{name}: {error}") from None
        if record != _file_record(files[name]):
            raise Defect(f"{name}: its checksum differs")
    return Entry(key=directory or path.name, meta=document["meta"], path=path, files=files)


def load_document(path: Path) -> dict[str, Any]:
    """meta.json, checked for everything that later code relies on. Raises Defect."""
    try:
        document = json.loads(trust.read(path / META))
    except OSError as error:
        raise Defect(f"{META}: {error.strerror or error}") from None
    except (ValueError, RecursionError):          # also a NUL in the path
        raise Defect(f"{META}: not JSON") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise Defect(f"{META}: another schema")
    if document.pop("checksum", None) != digest_of(document):
        raise Defect(f"{META}: its checksum differs")
    kinds = {"directory": str, "name": str, "fields": dict, "files": dict, "meta": dict}
    for name, kind in kinds.items():
        if not isinstance(document.get(name), kind):
            raise Defect(f"{META}: no {name}")
    return document


def seal(work: Path, key: CacheKey, meta: Mapping[str, Any]) -> None:
    """Write meta.json with the checksums of all files, then bring everything to the disk."""
    paths = sorted(work.iterdir())
    for path in paths:
        if path.name == META or path.is_symlink() or not path.is_file():
            raise ArgumentError(f"a cache entry holds plain files, none of them called {META}", argument="build",
                                value=path.name)
    document = {"schema": SCHEMA, "directory": key.directory, "name": key.name, "fields": dict(key.fields),
                "files": {path.name: _file_record(path.read_bytes()) for path in paths}, "meta": dict(meta)}
    document = json.loads(json.dumps(document))         # tuples become lists before they enter the checksum
    document["checksum"] = digest_of(document)
    (work / META).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for path in (*paths, work / META):
        os.chmod(path, 0o600)           # whatever the umask: what others can write is not used
        sync(path)
    sync(work)


def _plain(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        raise Defect(f"{name!r} is no plain file name")
    return name


def sync(path: Path) -> None:
    """fsync a file or directory. A file system that cannot (some refuse it for directories) is no reason to stop."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _file_record(data: bytes) -> dict[str, Any]:
    return {"blake2b": hashlib.blake2b(data, digest_size=16).hexdigest(), "size": len(data)}


def digest_of(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()
