"""Plans that earlier processes made, noted beside the disk cache: what is built for a request, found without a planner.

To plan takes the modules of all planners and the tables of measured choices; where the kernel is on the disk, that is
most of the time. A note holds what names a plan's text (``Text.identity``), under a digest of all that the plan is made
from: the request, the files of planners, templates and tables, by time and size as Python knows its compiled modules,
and the installed packages, which may bring algorithms. A kernel that is no longer on the disk is planned as ever.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import warpconv
from warpconv.codegen import templates
from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.version import VERSION
from warpconv.runtime import env

from .cache import DiskCache
from .entry import digest_of
from .pipeline import Text

MOST_KEPT = 256
_kept: set[str] = set()
_PACKAGES = ("warpconv.codegen", "warpconv.templates", "warpconv.runtime.tuning", "warpconv.runtime.call")


def find(asked: Mapping[str, Any]) -> Text | None:
    """The text that was noted for what is asked; None where there is no such note."""
    generator = _generator()
    document = None if generator is None or templates.brought() else _cache().noted(_name(asked, generator))
    try:
        return None if document is None else Text.noted(document)
    except (ArgumentError, LookupError, TypeError, ValueError):
        return None


def keep(asked: Mapping[str, Any], text: Text) -> None:
    """Note the text that was planned for what is asked, where an algorithm from elsewhere had no part in it: of the
    first MOST_KEPT that a process plans, since images of all sizes are as many requests."""
    generator = _generator()
    if generator is None or templates.brought() or len(_kept) >= MOST_KEPT:
        return
    cache, name = _cache(), _name(asked, generator)
    if not _kept:
        cache.trim_notes()
    _kept.add(name)
    cache.note(name, text.to_note())


def _cache() -> DiskCache:
    return DiskCache(enabled=not env.settings().disable_cache)


def _name(asked: Mapping[str, Any], generator: str) -> str:
    return digest_of({**asked, "generator": generator, "version": VERSION})


@functools.lru_cache(maxsize=1)
def _generator() -> str | None:
    """A digest of what plans are made from besides requests; None where it cannot be told: files in an archive, or
    changed since they may have been imported."""
    stamps: list[tuple[str, int, int]] = []
    try:
        for name in _PACKAGES:
            for folder in importlib.import_module(name).__path__:
                stamps += _files(folder)
    except OSError:
        return None
    if not stamps or max(time for _, time, _ in stamps) > warpconv.IMPORTED:
        return None
    return digest_of([stamps, *map(_installed, sys.path)])


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, time and size of every source file of a package. Raises OSError."""
    for item in sorted(os.scandir(folder), key=lambda item: item.name):
        if item.is_dir():
            if item.name != "__pycache__":
                yield from _files(item.path)
        elif not item.name.endswith((".pyc", ".jinjac")):
            found = item.stat()
            yield item.path, found.st_mtime_ns, found.st_size


def _installed(folder: str) -> list[list[Any]]:
    """What installers wrote into a folder of sys.path."""
    try:
        with os.scandir(folder or ".") as items:
            return sorted([item.name, item.stat().st_mtime_ns] for item in items if item.name.endswith("-info"))
    except OSError:
        return []
