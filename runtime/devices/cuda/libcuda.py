"""The few functions of NVIDIA's driver library that PyCUDA cannot be asked for, called through ctypes.

Why not PyCUDA for these: its launches, copies and events accept only ``pycuda.driver.Stream`` objects that it created
itself, never the raw handle of a stream of PyTorch or CuPy, and it shows neither CUmodule nor CUfunction, so a kernel
loaded with ``module_from_buffer`` cannot be launched on a foreign stream in any other way either. Its context stack is
its own, too: it does not see a context that PyTorch made current. PyCUDA keeps what it does well here: starting the
driver, listing devices, and GPUArray (see ``contexts.driver`` and ``warpconv.runtime.arrays.factories``).

All handles (context, module, function, stream, event) and device pointers are plain Python ints.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_ulonglong, c_void_p
from typing import Any

from warpconv.codegen.errors import DeviceError
from warpconv.runtime import forks

SUCCESS = 0
OUT_OF_MEMORY = 2
NO_DEVICE = 100
INVALID_CONTEXT = 201
NOT_FOUND = 500
NOT_READY = 600
CAPTURE_IMPLICIT = 906
CAPTURED_EVENT = 907

_HANDLE = c_size_t          # CUcontext, CUmodule, CUfunction, CUstream, CUevent, CUdeviceptr: all pointer-sized
_OUT = POINTER(c_size_t)
_OUT_INT = POINTER(c_int)

# Names as the library exports them: the plain ones without _v2 are kept only for programs of CUDA 3.
_PROTOTYPES: dict[str, tuple | None] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_OUT_INT,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDevicePrimaryCtxRetain": (_OUT, c_int),
    "cuCtxGetCurrent": (_OUT,),
    "cuCtxGetDevice": (_OUT_INT,),
    "cuCtxPushCurrent_v2": (_HANDLE,),
    "cuCtxPopCurrent_v2": (_OUT,),
    "cuCtxSynchronize": (),
    "cuPointerGetAttribute": (c_void_p, c_int, _HANDLE),
    "cuModuleLoadData": (_OUT, c_char_p),
    "cuModuleUnload": (_HANDLE,),
    "cuModuleGetFunction": (_OUT, _HANDLE, c_char_p),
    "cuModuleGetGlobal_v2": (_OUT, _OUT, _HANDLE, c_char_p),
    "cuFuncGetAttribute": (_OUT_INT, c_int, _HANDLE),
    "cuFuncSetAttribute": (_HANDLE, c_int, c_int),
    "cuLaunchKernel": None,     # given ctypes objects: converting eleven arguments anew costs a microsecond a launch
    "cuMemGetInfo_v2": (_OUT, _OUT),
    "cuMemAlloc_v2": (_OUT, c_size_t),
    "cuMemFree_v2": (_HANDLE,),
    "cuMemcpyHtoDAsync_v2": (_HANDLE, c_void_p, c_size_t, _HANDLE),
    "cuMemcpyDtoHAsync_v2": (c_void_p, _HANDLE, c_size_t, _HANDLE),
    "cuMemcpyAsync": (_HANDLE, _HANDLE, c_size_t, _HANDLE),
    "cuMemsetD8Async": (_HANDLE, c_ubyte, c_size_t, _HANDLE),
    "cuStreamSynchronize": (_HANDLE,),
    "cuStreamWaitEvent": (_HANDLE, _HANDLE, c_uint),
    "cuStreamIsCapturing": (_HANDLE, _OUT_INT),
    "cuThreadExchangeStreamCaptureMode": (_OUT_INT,),
    "cuStreamCreate": (_OUT, c_uint),
    "cuStreamDestroy_v2": (_HANDLE,),
    "cuStreamBeginCapture_v2": (_HANDLE, c_int),
    "cuStreamEndCapture": (_HANDLE, _OUT),
    "cuGraphLaunch": (_HANDLE, _HANDLE),
    "cuGraphAddChildGraphNode": (_OUT, _HANDLE, _OUT, c_size_t, _HANDLE),
    "cuGraphDestroy": (_HANDLE,),
    "cuGraphExecDestroy": (_HANDLE,),
    "cuEventCreate": (_OUT, c_uint),
    "cuEventRecord": (_HANDLE, _HANDLE),
    "cuEventQuery": (_HANDLE,),
    "cuEventDestroy_v2": (_HANDLE,),
}
_OPTIONAL = {"cuCtxGetId": (_HANDLE, POINTER(c_ulonglong)),              # since CUDA 12.0
             "cuTensorMapEncodeTiled": None,                             # since CUDA 12.0: given ctypes objects
             "cuTensorMapEncodeIm2col": None,
             "cuLaunchKernelEx": None,                                   # since CUDA 11.8; as cuLaunchKernel
             "cuGraphInstantiateWithFlags": (_OUT, _HANDLE, c_ulonglong),    # since CUDA 11.4
             # since CUDA 11.3: stream -> state, number, graph, its nodes that the next one stands behind, how many
             "cuStreamGetCaptureInfo_v2": (_HANDLE, _OUT_INT, POINTER(c_ulonglong), _OUT, POINTER(_OUT), _OUT),
             "cuStreamUpdateCaptureDependencies": (_HANDLE, _OUT, c_size_t, c_uint)}

_HINTS = {
    OUT_OF_MEMORY: "free GPU memory held elsewhere (in PyTorch: torch.cuda.empty_cache())",
    3: "a process forked after CUDA was started cannot use it: start workers with the 'spawn' method",
    INVALID_CONTEXT: "no CUDA context is current in this thread, or it has been destroyed",
    400: "the module, function or stream belongs to another context, or has been destroyed",
    214: "the GPU met an error in its memory that it cannot mend: restart the process, and look at nvidia-smi",
    700: "an earlier kernel of this process read or wrote outside its memory; the context is lost: restart the process",
    702: "an earlier kernel of this process ran for too long; the context is lost: restart the process",
    709: "somebody destroyed the context (cuCtxDestroy, cuDevicePrimaryCtxReset): make arrays and kernels anew",
    **dict.fromkeys((714, 715, 716, 717, 718, 719),
                    "an earlier kernel of this process failed, not this call's; the context is lost: restart the "
                    "process, and find that kernel with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer"),
}

_lock = forks.lock()
_library: Any = None


def libcuda() -> Any:
    """The driver library, loaded and started once; DeviceError with the reason if this machine has none."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _start(_open())
    return _library


def unconverted(name: str) -> Any:
    """A driver function that takes ctypes objects as they are: for calls that are bound to their memory once."""
    function = libcuda()[name]          # another object than the attribute, whose prototype stays
    function.argtypes, function.restype = None, c_int
    return function


def check(status: int, what: str, *, hint: str | None = None) -> None:
    """Raise DeviceError for a status other than success; ``what`` says in words what was tried."""
    if status:
        raise DeviceError(f"{what} failed: {describe(status)}", hint=hint or _HINTS.get(status))


def call(name: str, *arguments: Any, what: str | None = None) -> None:
    """Call a driver function and raise DeviceError if it fails."""
    status = getattr(libcuda(), name)(*arguments)
    if status:
        check(status, what or name)


def describe(status: int) -> str:
    """A driver status as its name and the driver's own words."""
    return " - ".join(filter(None, (_text("cuGetErrorName", status), _text("cuGetErrorString", status)))) \
        or f"CUDA error {status}"


def _text(function: str, status: int) -> str:
    text = c_char_p()
    getattr(libcuda(), function)(status, ctypes.byref(text))
    return text.value.decode() if text.value else ""


def _open() -> Any:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    loader = ctypes.WinDLL if sys.platform == "win32" else ctypes.CDLL
    try:
        return loader(name)
    except OSError as error:
        raise DeviceError(f"no NVIDIA driver on this machine ({error})",
                          hint="install the NVIDIA driver, or use device='cpu'") from None


def _start(library: Any) -> Any:
    for name, arguments in _PROTOTYPES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int
    for name, arguments in _OPTIONAL.items():
        function = getattr(library, name, None)
        if function is not None:
            function.argtypes, function.restype = arguments, c_int
    status = library.cuInit(0)
    if status:
        words = "no NVIDIA GPU is visible" if status == NO_DEVICE else f"the NVIDIA driver does not start ({status})"
        raise DeviceError(words, hint=_HINTS.get(status) or "look at nvidia-smi and at CUDA_VISIBLE_DEVICES")
    return library
