"""Builds a text once per test run, launches it, and asks for the fault that a test plants."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.runtime import device_object
from warpconv.codegen.errors import KernelFault, ToolNotFound
from warpconv.runtime.devices.cpu import Buffer, CpuProgram, LaunchReport, Mode, Toolchain, find_toolchain

HERE = Path(__file__).parent
KERNEL = 'extern "C" __global__ void '
FULL = 0xFFFFFFFF


def compiler_or_skip() -> Toolchain:
    """The compiler of this machine; skips the calling module if there is none."""
    try:
        return find_toolchain()
    except ToolNotFound as error:
        pytest.skip(str(error), allow_module_level=True)


@functools.lru_cache(maxsize=1)
def scratch() -> Path:
    """A directory for this test run."""
    path = Path(tempfile.mkdtemp(prefix="warpconv-test-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@functools.cache
def program(text: str, mode: Mode = Mode.CHECK, entry: str = "k", toolchain: Toolchain | None = None) -> CpuProgram:
    """``text`` compiled; one object per text, mode and compiler."""
    directory = Path(tempfile.mkdtemp(dir=scratch()))
    return CpuProgram.compile(text, entries=[entry], mode=mode, directory=directory, toolchain=toolchain,
                              runtime_directory=device_object.FOLDER)


def source(name: str) -> str:
    """Text of one of the kernels in this folder."""
    return (HERE / f"{name}.cu").read_text()


def read(array: np.ndarray, name: str = "x") -> Buffer:
    """An input."""
    return Buffer(name, array, writable=False)


def written(array: np.ndarray, name: str = "y", complete: bool = True) -> Buffer:
    """An output, of which every element must be written."""
    return Buffer(name, array, writable=True, must_be_written=complete, initialised=False)


def run(text: str, args: list, *, block=(32, 1, 1), grid=(1, 1, 1), mode: Mode = Mode.CHECK, shared_bytes: int = 0,
        **options) -> LaunchReport:
    """Launch kernel ``k`` of ``text``."""
    toolchain = options.pop("toolchain", None)
    return program(text, mode, toolchain=toolchain).launch("k", grid=grid, block=block, shared_bytes=shared_bytes,
                                                           args=args, **options)


def fault(kind: str, text: str, args: list, *parts: str, **launch) -> KernelFault:
    """Launch, expect a fault of ``kind`` whose message has every one of ``parts``."""
    with pytest.raises(KernelFault) as caught:
        run(text, args, **launch)
    message = str(caught.value)
    assert caught.value.kind == kind, message
    for part in parts:
        assert part in message, f"{part!r} is not in {message!r}"
    return caught.value


def floats(*shape: int) -> np.ndarray:
    """Zeros of float32."""
    return np.zeros(shape, np.float32)
