"""Arrays in files that are read chunk by chunk: zarr's, and TIFF's tiles and strips."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import ArgumentError, FileError
from warpconv.runtime import forks, paths

from .packages import package

ZARR_MARKS = ("zarr.json", ".zarray", ".zgroup")    # files of a zarr folder, formats 3 and 2
TIFF = (".tif", ".tiff")


@dataclass(frozen=True)
class About:
    """What a file says of its array: sizes of what is stored as one, a letter for each axis ('' if it says none), and,
    of a TIFF, its tags' values that a further one keeps."""

    shape: tuple[int, ...]
    dtype: np.dtype
    stored: tuple[int, ...]
    axes: str = ""
    photometric: str = "minisblack"
    samples_last: bool = False
    resolution: tuple[Any, ...] | None = None
    profile: bytes | None = None


class Source:
    """An array in a file, for dask.array.from_array. Each process opens the file when it first reads."""

    def __init__(self, path: str | Path, argument: str = "input"):
        self.path = os.path.abspath(path)       # workers may have other directories
        self.argument = argument
        self._start()
        self.about = self._opened().about
        self.shape, self.dtype, self.ndim = self.about.shape, self.about.dtype.newbyteorder("="), len(self.about.shape)

    def _start(self) -> None:
        self._lock = forks.lock()
        self._open: _Open | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_open")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return type(self).__name__, os.path.realpath(self.path), self.stamp()

    def stamp(self) -> list[Any]:
        """What changes when the file is written anew."""
        marks = [self.path] if paths.is_file(self.path) else [os.path.join(self.path, name) for name in ZARR_MARKS]
        found = [(os.path.basename(mark), status) for mark in marks if (status := paths.status(mark)) is not None]
        return [[name, status.st_size, status.st_mtime_ns] for name, status in found]

    def __getitem__(self, region: Any) -> np.ndarray:
        """Elements in memory. Raises FileError, with the region, for what cannot be read."""
        array = self._opened().array
        try:
            return np.ascontiguousarray(array[region], self.dtype)
        except (MemoryError, FileError):
            raise
        except Exception as error:      # codecs raise errors of many types over a damaged chunk
            where = ", ".join(f"{part.start}:{part.stop}" if isinstance(part, slice) else str(part) for part in
                              (region if isinstance(region, tuple) else (region,)))
            raise FileError(f"the pixels [{where}] cannot be read: {type(error).__name__}: {error}",
                            argument=self.argument, value=self.path,
                            hint="mend or replace this part of the file; what is done is kept") from error

    def _opened(self) -> _Open:
        with self._lock:
            if self._open is None:
                self._open = _open(self.path, self.argument)
            return self._open

    def close(self) -> None:
        with self._lock:
            opened, self._open = self._open, None
        if opened is not None and opened.file is not None:
            opened.file.close()


@dataclass(frozen=True)
class _Open:
    array: Any
    about: About
    file: Any = None


def is_zarr(path: str | Path) -> bool:
    """Whether this is, or by its name will be, a zarr folder."""
    path = Path(path)
    return path.suffix.lower() == ".zarr" or any(paths.is_file(path / mark) for mark in ZARR_MARKS)


def is_tiff(path: str | Path) -> bool:
    return Path(path).suffix.lower() in TIFF


def _open(path: str, argument: str) -> _Open:
    if not paths.exists(path):
        raise FileError("there is no such file", argument=argument, value=path)
    try:
        return _zarr(path, argument) if paths.is_dir(path) else _tiff(path, argument)
    except (MemoryError, ArgumentError, FileError, ImportError):
        raise
    except Exception as error:      # what is raised over a broken file is of many types
        raise FileError(f"the file cannot be read: {type(error).__name__}: {error}", argument=argument,
                        value=path) from error


def _zarr(path: str, argument: str) -> _Open:
    found = package("zarr").open(path, mode="r")
    if not hasattr(found, "shape"):
        names = sorted(name for name, _ in found.arrays())[:4]
        raise ArgumentError("this zarr folder is a group", argument=argument, value=path,
                            hint=f"name an array in it: {', '.join(f'{path}/{name}' for name in names)}" if names
                            else "name an array in it")
    names = getattr(found.metadata, "dimension_names", None) or ()
    axes = "".join(name[:1].upper() if name else "?" for name in names)
    stored = tuple(map(int, getattr(found, "shards", None) or found.chunks))
    return _Open(found, About(tuple(found.shape), np.dtype(found.dtype), stored, axes))


def _tiff(path: str, argument: str) -> _Open:
    module = package("tifffile")
    file = module.TiffFile(path)
    series, page = file.series[0], file.pages[0]
    if len(file.series) > 1:
        raise ArgumentError(f"this file holds {len(file.series)} images", argument=argument, value=path,
                            hint="save each as a file of its own")
    if page.photometric.name not in ("MINISBLACK", "RGB") or page.extrasamples or int(page.tags.valueof(274, 1)) != 1:
        raise ArgumentError(f"a TIFF of this kind is not filtered in chunks: {page.photometric.name.lower()}, "
                            f"{len(page.extrasamples)} further samples, orientation {page.tags.valueof(274, 1)}",
                            argument=argument, value=path, hint="gray or RGB without alpha, upright")
    shape, axes = tuple(series.shape), series.axes
    if series.dataoffset is not None:       # all in one piece: no strip has to be read whole
        array = module.memmap(path, mode="r")
        stored = tuple(min(n, 256) if axis in "YX" else n if axis == "S" else 1 for n, axis in zip(shape, axes))
    else:
        array = package("zarr").open_array(series.aszarr(), mode="r")
        stored = tuple(map(int, array.chunks))
    tags = page.tags
    resolution = (tags[282].value, tags[283].value, int(tags.valueof(296, 2))) if 282 in tags and 283 in tags else None
    return _Open(array, About(shape, np.dtype(series.dtype), stored, axes, page.photometric.name.lower(),
                              axes.endswith("S"), resolution, tags.valueof(34675)), file)
