"""The CPU device's own object, which takes a C++ compiler four to six seconds, compiled once for all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import filelock

from warpconv.codegen.errors import ToolNotFound
from warpconv.runtime.devices.cpu import Mode, Toolchain, find_toolchain, objects

# in the folder that stays between runs; the files' names say what decides them
FOLDER = Path(os.environ["WARPCONV_CACHE_DIR"]) / "device"
_compiled = objects.runtime_object
try:
    _USUAL = find_toolchain()
except ToolNotFound:
    _USUAL = None


def keep() -> None:
    """Every cache of this process gets a copy of what the machine's usual compiler made."""
    def copy(directory: Path, mode: Mode, toolchain: Toolchain) -> Path:
        return _copy(directory, mode) if toolchain == _USUAL else _compiled(directory, mode, toolchain)

    objects.runtime_object = copy


def copied(monkeypatch) -> None:
    """A cache of a test's own gets it whichever compiler the test has."""
    if _USUAL is not None:
        monkeypatch.setattr(objects, "runtime_object", lambda directory, mode, _: _copy(directory, mode))


def _copy(directory: Path, mode: Mode) -> Path:
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(FOLDER / f"{mode.value}.lock"):      # two processes would compile it twice
            made = _compiled(FOLDER, mode, _USUAL)
    except PermissionError:         # in a test that may not write there
        return _compiled(directory, mode, _USUAL)
    if directory == FOLDER:
        return made
    directory.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(made, directory))
