"""Files of the command line's user: read with a typed error, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from warpconv.codegen.errors import FileError
from warpconv.runtime import paths

_OPEN_FILES = ("/dev/std", "/dev/fd/", "/proc/")       # names of files that a process has open


class InputFileError(FileError):
    """A file named on the command line cannot be read as what it should be, or cannot be written there."""


def read_array(path: str, argument: str) -> Any:
    """The array in a .npy file. Raises InputFileError; pickled objects are refused, never loaded."""
    import numpy as np
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:      # a damaged header ends in any of NumPy's, tokenize's and ast's errors
        reason = "it is no .npy file, or has pickled objects" if "pickle" in str(error) else _reason(error)
        raise InputFileError(f"the file cannot be read as an array: {reason}", argument=argument, value=path,
                             hint="a .npy file as numpy.save writes it") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputFileError("the file holds several arrays", argument=argument, value=path,
                             hint="a .npy file as numpy.save writes it, not .npz")
    return array


def write_whole(path: str | Path, write: Callable[[Path], None], argument: str = "output", *,
                through: bool = False) -> Path:
    """``write`` a file beside ``path``, then move it there in one step; an older file stays until then.

    A symbolic link stays, what it leads to is written. ``through``: what is no regular file (a pipe, a terminal) is
    written into. Raises InputFileError where the folder does not exist, the path is a folder, or is no regular file;
    FileError where writing fails.
    """
    path = Path(path)
    target = _target(path, argument, through)
    aside = target.with_name(f".{uuid.uuid4().hex}{path.suffix}")
    try:
        if _special(path):
            write(path)
            return path
        write(aside)
        os.replace(aside, target)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"the file cannot be written: {_reason(error)}", argument=argument, value=str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
    return path


def check_output(path: str | Path, inputs: Iterable[str | None], argument: str) -> None:
    """Raises InputFileError, before anything is computed, where ``path`` cannot be written or is one of ``inputs``."""
    _target(Path(path), argument, through=False)
    if any(name is not None and _same(name, path) for name in inputs):
        raise InputFileError("this file is also an input", argument=argument, value=str(path), hint="name another file")


def write_text(path: str | Path, text: str, argument: str = "output", *, through: bool = False) -> Path:
    """Write ``text`` as it is. Raises as write_whole."""
    return write_whole(path, lambda aside: _write_bytes(aside, text.encode()), argument, through=through)


def write_array(path: str | Path, array: Any, argument: str = "output") -> Path:
    """Write an array as .npy. Raises as write_whole."""
    import numpy as np

    def write(aside: Path) -> None:
        with open(aside, "wb") as file:         # numpy.save would add a suffix to a name without one
            np.save(file, array)

    return write_whole(path, write, argument)


@contextlib.contextmanager
def output_folder(path: str | Path, argument: str = "output") -> Iterator[Path]:
    """The folder, made if need be; what was made of it and is still empty after an error is taken away again.

    Raises as make_folder.
    """
    path = Path(path)
    missing = [folder for folder in (path, *path.parents) if not paths.exists(folder)]
    try:
        yield make_folder(path, argument)
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise


def make_folder(path: str | Path, argument: str = "output") -> Path:
    """The folder, made if need be. Raises InputFileError where a file is in the way, FileError where it cannot be."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InputFileError("this is a file", argument=argument, value=str(path), hint="name a folder") from error
    except OSError as error:
        raise FileError(f"the folder cannot be made: {_reason(error)}", argument=argument, value=str(path)) from error
    return path


def _target(path: Path, argument: str, through: bool) -> Path:
    """The file that ``path`` leads to, if it can be written. Raises InputFileError."""
    target = Path(os.path.realpath(path))
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    except OSError as error:
        raise InputFileError(f"the file cannot be written: {_reason(error)}", argument=argument,
                             value=str(path)) from error
    if mode is None and not paths.is_dir(target.parent):
        raise InputFileError("the folder does not exist", argument=argument, value=str(path), hint="make it first")
    if mode is not None and stat.S_ISDIR(mode):
        raise InputFileError("this is a folder", argument=argument, value=str(path), hint="name a file")
    if _special(path) and not through:
        raise InputFileError("this is no regular file", argument=argument, value=str(path), hint="name another")
    return target


def _same(one: str, other: str | Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:         # one that is not there is reported by who reads it
        return False


def _special(path: Path) -> bool:
    """Whether the path is a pipe, a device or the like; also one that names an open file (/dev/stdout)."""
    return paths.exists(path) and (not paths.is_file(path) or os.path.abspath(path).startswith(_OPEN_FILES))


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
