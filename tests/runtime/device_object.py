"""The CPU device's own object, which takes a C++ compiler two seconds, compiled once for all tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests import checks
from warpconv.runtime.devices.cpu import find_toolchain, objects

# in the folder that stays between runs; the files' names say what decides them
FOLDER = Path(os.environ["WARPCONV_CACHE_DIR"]) / "device"
_compiled = objects.runtime_object


def copied(monkeypatch) -> None:
    """A cache of a test's own gets a copy, made by the machine's usual compiler, instead of compiling it."""
    if checks.no_cpu_device() is not None:
        return
    usual = find_toolchain()

    def copy(directory, mode, toolchain):
        return Path(shutil.copy(_compiled(FOLDER, mode, usual), directory))

    monkeypatch.setattr(objects, "runtime_object", copy)
