"""Files of the command line's user: read with a typed error, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import Any, Callable

from warpconv.codegen.errors import FileError


class InputFileError(FileError):
    """A file named on the command line cannot be read as what it should be, or its folder does not exist."""


def read_array(path: str, argument: str) -> Any:
    """The array in a .npy file. Raises InputFileError; pickled objects are refused, never loaded."""
    import numpy as np
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = "it is no .npy file, or has pickled objects" if "pickle" in str(error) else _reason(error)
        raise InputFileError(f"the file cannot be read as an array: {reason}", argument=argument, value=path,
                             hint="a .npy file as numpy.save writes it") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputFileError("the file holds several arrays", argument=argument, value=path,
                             hint="a .npy file as numpy.save writes it, not .npz")
    return array


def write_whole(path: str | Path, write: Callable[[Path], None], argument: str = "output") -> Path:
    """``write`` a file beside ``path``, then move it there in one step; an older file stays until then.

    Raises InputFileError where the folder does not exist or the path is a folder, FileError where writing fails.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputFileError("the folder does not exist", argument=argument, value=str(path), hint="make it first")
    if path.is_dir():
        raise InputFileError("this is a folder", argument=argument, value=str(path), hint="name a file")
    aside = path.with_name(f".{uuid.uuid4().hex}{path.suffix}")
    try:
        write(aside)
        os.replace(aside, path)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"the file cannot be written: {_reason(error)}", argument=argument, value=str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
    return path


def write_text(path: str | Path, text: str, argument: str = "output") -> Path:
    """Write ``text`` as it is. Raises as write_whole."""
    return write_whole(path, lambda aside: _write_bytes(aside, text.encode()), argument)


def write_array(path: str | Path, array: Any, argument: str = "output") -> Path:
    """Write an array as .npy. Raises as write_whole."""
    import numpy as np

    def write(aside: Path) -> None:
        with open(aside, "wb") as file:         # numpy.save would add a suffix to a name without one
            np.save(file, array)

    return write_whole(path, write, argument)


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


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
