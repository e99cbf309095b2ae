"""Arrays written chunk by chunk, aside; what is whole takes its name at the end, and what was stopped is continued.

Beside OUTPUT stands a folder .NAME.part while it is made: the array, ``about.json`` (what is made, of which input), and
in ``done`` an empty file for each chunk that was written. It stays after an error, so that the same command goes on.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from warpconv.codegen.errors import ArgumentError, FileError
from warpconv.runtime import forks, paths

from .packages import package
from .sources import ZARR_MARKS, About, is_zarr

Region = Sequence[tuple[int, int]]      # for each axis the first element and the end
TILE = 256          # rows and columns of a TIFF's tiles, and of a zarr's chunks where the input has none to follow
LOOKED_AT = 2**18   # bytes at once, to find whether a chunk is blank


class Part:
    """An output on its way. Each process opens the array when it first writes."""

    def __init__(self, path: str | Path, argument: str = "output"):
        self.path = Path(os.path.realpath(path))
        self.argument = argument
        self.folder = self.path.with_name(f".{self.path.name}.part")
        self.array_at = self.folder / f"array{'.zarr' if is_zarr(path) else '.tif'}"
        self._start()

    def _start(self) -> None:
        self._lock = forks.lock()
        self._open: tuple[Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_open")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @contextlib.contextmanager
    def held(self) -> Any:
        """This process alone works on the output. Raises FileError where another does."""
        with self._typed():
            self.folder.mkdir(exist_ok=True)
            lock = FileLock(str(self.folder.with_suffix(".lock")), timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise FileError("another process is writing this output", argument=self.argument,
                                value=str(self.path)) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                self.folder.with_suffix(".lock").unlink()
            lock.release()

    def start(self, about: Mapping[str, Any], like: About, dtype: np.dtype) -> frozenset[str]:
        """Make the array, or go on with one that was begun alike; which chunks are there. Raises FileError."""
        text = json.dumps(about, sort_keys=True, indent=1)
        told = self.folder / "about.json"
        with self._typed():
            if paths.is_file(told) and told.read_text(encoding="utf-8") == text:
                return frozenset(os.listdir(self.folder / "done"))
            shutil.rmtree(self.folder, ignore_errors=True)
            (self.folder / "done").mkdir(parents=True)
            if self.array_at.suffix == ".zarr":
                _make_zarr(self.array_at, like, dtype)
            else:
                _make_tiff(self.array_at, like, dtype)
            told.write_text(text, encoding="utf-8")
        return frozenset()

    def write(self, block: np.ndarray, region: Region, name: str) -> None:
        """A chunk, then its mark. Raises FileError."""
        with self._typed():
            array, file = self._opened()
            for part, of in _stored(block, region, array) if file is None else [(region, block)]:
                array[tuple(slice(*ends) for ends in part)] = of
            if file is not None:
                file.filehandle.flush()
            (self.folder / "done" / name).touch()

    def finish(self) -> None:
        """Give the array its name; an older one stays until then. Raises FileError."""
        self.close()
        old = self.folder / "old"
        with self._typed():
            if paths.is_dir(self.path):
                os.replace(self.path, old)
            os.replace(self.array_at, self.path)
            shutil.rmtree(self.folder, ignore_errors=True)

    def discard(self) -> None:
        """Take a part that has nothing away."""
        self.close()
        if not paths.is_dir(self.folder / "done") or not os.listdir(self.folder / "done"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        with self._lock:
            opened, self._open = self._open, None
        if opened is not None and opened[1] is not None:
            opened[1].close()

    def _opened(self) -> tuple[Any, Any]:
        with self._lock:
            if self._open is None:
                if self.array_at.suffix == ".zarr":
                    # blank ones are left out here (_stored)
                    with package("zarr").config.set({"array.write_empty_chunks": True}):
                        self._open = package("zarr").open_array(str(self.array_at), mode="r+"), None
                else:
                    file = package("tifffile").TiffFile(self.array_at, mode="r+")
                    self._open = package("zarr").open_array(file.series[0].aszarr(), mode="r+"), file
            return self._open

    @contextlib.contextmanager
    def _typed(self) -> Any:
        """Errors of the file system in words."""
        try:
            yield
        except FileError:
            raise
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise FileError("the disk is full" if full else f"the output cannot be written: {error.strerror or error}",
                            argument=self.argument, value=str(self.path),
                            hint=("free some room and give the same command again: " if full else "")
                            + f"what is done is kept in {self.folder.name}") from error


def _stored(block: np.ndarray, region: Region, array: Any) -> list[tuple[Region, np.ndarray]]:
    """What of a block is to be stored: all at once, or, of one with blank chunks, those that are not. (zarr looks for
    them itself, but in the only thread by which it moves data, and as long as a chunk takes to be packed.)"""
    sizes = getattr(array, "shards", None) or array.chunks
    cuts = [[low, *range((low // size + 1) * size, high, size), high] for (low, high), size in zip(region, sizes)]
    parts = []
    for part in itertools.product(*map(itertools.pairwise, cuts)):
        of = block[tuple(slice(low - start, high - start) for (low, high), (start, _) in zip(part, region))]
        if not _blank(of if of.ndim > 1 else of[None]):
            parts.append((part, of))
    return [(region, block)] if len(parts) == math.prod(len(each) - 1 for each in cuts) else parts


def _blank(of: np.ndarray) -> bool:
    """Whether all bytes are 0. Rows are looked at together, as threads take turns at Python's steps."""
    rows = max(1, LOOKED_AT // max(1, of[:1].nbytes))
    return not any(np.ascontiguousarray(of[row:row + rows]).view(np.uint8).max(initial=0)
                   for row in range(0, len(of), rows))


def check_output(path: str | Path, source: str | Path, argument: str = "output") -> None:
    """Raises ArgumentError or FileError, before anything is computed, where an output would destroy something else."""
    path = Path(path)
    if paths.exists(path) and os.path.samefile(path, source):
        raise FileError("this file is also an input", argument=argument, value=str(path), hint="name another file")
    if not paths.is_dir(path.absolute().parent):
        raise FileError("the folder does not exist", argument=argument, value=str(path), hint="make it first")
    if not is_zarr(path) and path.suffix.lower() not in (".tif", ".tiff"):
        raise ArgumentError("arrays in chunks are written as zarr or TIFF", argument=argument, value=str(path),
                            hint="end it in .zarr or .tif")
    if paths.is_dir(path) and not (is_zarr(path) and any(paths.is_file(path / mark) for mark in ZARR_MARKS)):
        raise FileError("this folder is no zarr array", argument=argument, value=str(path), hint="name another")
    if paths.is_file(path) and is_zarr(path):
        raise FileError("this is a file", argument=argument, value=str(path), hint="name another")


def stored_sizes(like: About, path: str | Path) -> tuple[int, ...]:
    """Sizes of what an output of this name stores as one: the input's chunks, or a TIFF's tiles."""
    if is_zarr(path) and like.stored != like.shape:
        return tuple(min(n, size) for n, size in zip(like.shape, like.stored))
    rows, columns = like.axes.find("Y"), like.axes.find("X")
    if "Y" not in like.axes or "X" not in like.axes:
        rows, columns = len(like.shape) - 2, len(like.shape) - 1
    whole = like.samples_last
    return tuple(TILE if at in (rows, columns) else n if whole and at == len(like.shape) - 1 else 1
                 for at, n in enumerate(like.shape))


def _make_zarr(path: Path, like: About, dtype: np.dtype) -> None:
    names = [letter.lower() for letter in like.axes] if like.axes and "?" not in like.axes else None
    names = names if names and len(set(names)) == len(names) == len(like.shape) else None
    sizes = tuple(min(n, size) for n, size in zip(like.shape, stored_sizes(like, path)))
    package("zarr").create_array(str(path), shape=like.shape, chunks=sizes, dtype=dtype, dimension_names=names)


def _make_tiff(path: Path, like: About, dtype: np.dtype) -> None:
    """A TIFF of tiles, not packed: their places in the file are known before they are written."""
    options: dict[str, Any] = {"photometric": like.photometric}
    if len(like.shape) > 2 + like.samples_last:
        options["metadata"] = {"axes": like.axes} if len(like.axes) == len(like.shape) else {}
    else:
        options["metadata"] = None
    if like.photometric == "rgb":
        options["planarconfig"] = "contig" if like.samples_last else "separate"
    if like.profile:
        options["iccprofile"] = like.profile
    if like.resolution:
        options |= {"resolution": like.resolution[:2], "resolutionunit": like.resolution[2]}
    package("tifffile").imwrite(path, shape=like.shape, dtype=dtype, tile=(TILE, TILE), bigtiff=True, software=None,
                                **options)
