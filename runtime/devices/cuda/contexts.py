"""Devices and contexts: which GPU, which CUDA context, and how to be in it for a while.

The rule: a context that is current in this thread and can reach the memory is used as it is; otherwise the device's
primary context (the one that PyTorch, CuPy and the CUDA runtime use) is pushed and popped again. ``pycuda.autoinit`` is
never imported: it would make a further context whose memory the others cannot see.
"""

from __future__ import annotations

import functools
import threading
from ctypes import byref, c_int, c_size_t, c_ulonglong
from typing import Any

from warpconv.codegen.errors import ArgumentError, DeviceError
from warpconv.codegen.hardware import Arch, Hardware
from warpconv.runtime import forks

from . import libcuda as _libcuda
from .libcuda import INVALID_CONTEXT, call, check, libcuda, unconverted

_POINTER_CONTEXT = 1            # CU_POINTER_ATTRIBUTE_CONTEXT
_POINTER_DEVICE_ORDINAL = 9     # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL

_primaries: dict[int, int] = {}
_primaries_lock = forks.lock()


@functools.cache
def driver() -> Any:
    """``pycuda.driver``, imported and started; DeviceError with the reason and the way out if that cannot be."""
    try:
        import pycuda.driver as module
    except ModuleNotFoundError as error:
        if error.name != "pycuda":
            raise DeviceError(f"PyCUDA cannot be imported ({error})", hint=f"pip install {error.name}") from error
        raise DeviceError("PyCUDA is not installed", hint='pip install "warpconv[gpu]"') from None
    except ImportError as error:
        if "libcuda" in str(error) or "nvcuda" in str(error):
            raise DeviceError(f"no NVIDIA driver on this machine ({error})",
                              hint="install the NVIDIA driver, or use device='cpu'") from error
        raise DeviceError(f"PyCUDA cannot be imported ({error})",
                          hint="reinstall it for this Python and CUDA: pip install --force-reinstall pycuda") from error
    try:
        module.init()
    except module.Error as error:
        raise DeviceError(f"CUDA does not start ({error})",
                          hint="look at nvidia-smi and at CUDA_VISIBLE_DEVICES") from error
    return module


@functools.cache
def usable() -> str | None:
    """None if a GPU can be used here, else the reason in words; never raises, asked once per process."""
    try:
        libcuda()
        if driver().Device.count() == 0:
            return "no NVIDIA GPU is visible; look at nvidia-smi and at CUDA_VISIBLE_DEVICES"
    except Exception as error:      # whatever a broken installation throws is a reason, not a crash
        return str(error) or type(error).__name__
    return None


@functools.cache
def count() -> int:
    """Number of visible GPUs; DeviceError if CUDA cannot be used."""
    libcuda()
    return driver().Device.count()


@functools.cache
def arch(ordinal: int) -> str:
    """Architecture of a GPU, such as ``sm_90``; DeviceError if there is no such GPU."""
    major, minor = _device(ordinal).compute_capability()
    return f"sm_{major}{minor}"


@functools.cache
def hardware(ordinal: int) -> Hardware:
    """What a GPU has, its own number of multiprocessors and size of L2 among it, for planners; DeviceError if there is
    no such GPU."""
    attribute, device = driver().device_attribute, _device(ordinal)
    return Hardware.of(Arch.read(arch(ordinal)), multiprocessors=device.get_attribute(attribute.MULTIPROCESSOR_COUNT),
                       l2_bytes=device.get_attribute(attribute.L2_CACHE_SIZE))


@functools.cache
def name(ordinal: int) -> str:
    """The GPU's name as NVIDIA spells it; DeviceError if there is no such GPU."""
    return _device(ordinal).name()


def describe() -> dict[str, Any]:
    """What there is, for ``warpconv env``: driver and PyCUDA versions and the GPUs; never raises."""
    reason = usable()
    if reason is not None:
        return {"usable": False, "reason": reason, "devices": []}
    import pycuda
    version = driver().get_driver_version()
    return {"usable": True, "reason": None, "cuda_driver": f"{version // 1000}.{version % 1000 // 10}",
            "pycuda": getattr(pycuda, "VERSION_TEXT", "?"), "devices": [_describe(i) for i in range(count())]}


def default_device() -> int:
    """Ordinal of the current context's device, 0 if no context is current; DeviceError if CUDA cannot be used."""
    ordinal = _current_device()
    return 0 if ordinal is None else ordinal


def context_key() -> tuple[str, int]:
    """Identity of the current context, never used twice in a process; DeviceError if none is current.

    A handle alone would not do: the driver gives the address of a destroyed context to the next one, and modules of
    the dead one would be taken for loaded. CUDA 12 numbers contexts; before it the handle is all there is.
    """
    key = current_key()
    if key is None:
        check(INVALID_CONTEXT, "asking for the current context")
    return key


class _Answer(threading.local):
    """Where the driver writes a number, one per thread: asked for in every call, so made once."""

    def __init__(self) -> None:
        self.number = c_ulonglong()
        self.place = byref(self.number)


_answer = _Answer()


def current_key() -> tuple[str, int] | None:
    """As context_key, None where no context is current."""
    library = _libcuda._library or libcuda()
    numbered = getattr(library, "cuCtxGetId", None)
    if numbered is not None:
        status = numbered(0, _answer.place)
        if status:
            if status == INVALID_CONTEXT:
                return None
            check(status, "asking for the current context")
        return "id", _answer.number.value
    handle = current_context()
    return ("handle", handle) if handle else None


def asking(number: c_ulonglong) -> tuple[Any, ...]:
    """A driver function and its arguments that write the number in ``context_key`` to ``number``; its status is not 0
    where no context is current (or the number is 0)."""
    if getattr(libcuda(), "cuCtxGetId", None) is not None:
        return unconverted("cuCtxGetId"), None, byref(number)
    return unconverted("cuCtxGetCurrent"), byref(number)


def current_context() -> int:
    """Handle of the context that is current in this thread, whoever made it so; 0 if none."""
    handle = c_size_t()
    call("cuCtxGetCurrent", byref(handle))
    return handle.value


def primary_context(ordinal: int) -> int:
    """Handle of a device's primary context, retained once per process; DeviceError if there is no such GPU."""
    handle = _primaries.get(ordinal)
    if handle is None:
        with _primaries_lock:
            handle = _primaries.get(ordinal)
            if handle is None:
                _device(ordinal)
                out = c_size_t()
                call("cuDevicePrimaryCtxRetain", byref(out), ordinal, what=f"starting GPU {ordinal}")
                handle = _primaries[ordinal] = out.value
    return handle


def pycuda_sees_current() -> bool:
    """Whether PyCUDA takes the context that is current for current, too: only then can it load and launch here.

    It keeps a stack of its own and does not notice what PyTorch, CuPy or the CUDA runtime made current.
    """
    context = driver().Context.get_current()
    return context is not None and context.handle == current_context()


def pointer_device(pointer: int) -> int | None:
    """Ordinal of the GPU that holds ``pointer``, None if CUDA does not know the address."""
    ordinal = c_int(-1)
    status = libcuda().cuPointerGetAttribute(byref(ordinal), _POINTER_DEVICE_ORDINAL, pointer) if pointer else 1
    return ordinal.value if status == 0 and ordinal.value >= 0 else None


def pointer_context(pointer: int) -> int:
    """Handle of the context that ``pointer`` was allocated in; 0 where it belongs to none (pools, virtual memory)."""
    handle = c_size_t()
    status = libcuda().cuPointerGetAttribute(byref(handle), _POINTER_CONTEXT, pointer) if pointer else 1
    return handle.value if status == 0 else 0


class activate:
    """``with activate(ordinal, pointer):`` a context of that GPU is current inside; after it, what was current before.

    With ``pointer`` (an address that the work will touch) the context that owns it is taken, since two contexts on one
    GPU do not see each other's memory: PyTorch's tensors live in the primary context even where PyCUDA's own is
    current. Raises DeviceError if there is no such GPU or the context cannot be made current. Thread-safe: the
    driver's stack of contexts is per thread, and each object is used by one ``with``.
    """

    __slots__ = ("_ordinal", "_pointer", "_pop")

    def __init__(self, ordinal: int, pointer: int = 0):
        self._ordinal = ordinal
        self._pointer = pointer
        self._pop: Any = None

    def __enter__(self) -> activate:
        owner = pointer_context(self._pointer) if self._pointer else 0
        current = current_context()
        if owner:
            wanted = 0 if owner == current else owner
        else:
            wanted = 0 if current and _current_device() == self._ordinal else primary_context(self._ordinal)
        if wanted and not current and wanted == primary_context(self._ordinal):
            # nobody's context is current: let PyCUDA push, so that it can load and launch
            try:
                _primary_of_pycuda(self._ordinal).push()
            except driver().Error as error:
                raise DeviceError(f"using GPU {self._ordinal} failed: {error}") from error
            self._pop = driver().Context.pop
        elif wanted:
            call("cuCtxPushCurrent_v2", wanted, what=f"using GPU {self._ordinal}")
            self._pop = _pop
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        pop, self._pop = self._pop, None
        if pop is None:
            return
        try:
            pop()
        except Exception as failure:
            if kind is None:        # a failing pop must not hide the error that is on its way
                raise DeviceError(f"leaving GPU {self._ordinal} failed: {failure}") from failure


@functools.cache
def _primary_of_pycuda(ordinal: int) -> Any:
    """PyCUDA's object for the primary context, retained once and kept."""
    return driver().Device(ordinal).retain_primary_context()


def _pop() -> None:
    check(libcuda().cuCtxPopCurrent_v2(byref(c_size_t())), "leaving the GPU")


def _current_device() -> int | None:
    ordinal = c_int()
    status = libcuda().cuCtxGetDevice(byref(ordinal))
    if status == INVALID_CONTEXT:
        return None
    check(status, "asking for the current GPU")
    return ordinal.value


def _device(ordinal: int) -> Any:
    if isinstance(ordinal, bool) or not isinstance(ordinal, int):
        raise ArgumentError("a GPU is named by its number", argument="device", value=ordinal)
    if not 0 <= ordinal < count():
        raise DeviceError(f"there is no GPU {ordinal}", hint=f"{count()} visible, counted from 0")
    return driver().Device(ordinal)


def _describe(ordinal: int) -> dict[str, Any]:
    device = driver().Device(ordinal)
    attribute = driver().device_attribute
    return {"ordinal": ordinal, "name": name(ordinal), "arch": arch(ordinal), "memory_bytes": device.total_memory(),
            "multiprocessors": device.get_attribute(attribute.MULTIPROCESSOR_COUNT)}


def forget() -> None:
    """Drop all that is remembered about the machine (tests put another one in its place)."""
    for cached in (driver, usable, count, arch, hardware, name, _primary_of_pycuda):
        cached.cache_clear()
    _primaries.clear()
    _libcuda._library = None
