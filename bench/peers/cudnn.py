"""NVIDIA's cuDNN through ctypes: every algorithm that it has for a layer, with time and workspace; a call of one.

The interface is that of cudnn_cnn.h, version 9: cudnnFindConvolutionForwardAlgorithmEx, cudnnConvolutionForward.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import site
import sys
from collections.abc import Iterator
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.devices import NoDevice
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.shape import ConvShape

_REFUSALS = range(2000, 4000)            # CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_NOT_SUPPORTED and their kinds
_CROSS_CORRELATION = 1
_FLOAT = 0
_FORMATS = {Layout.NCHW: 0, Layout.NHWC: 1}
_TYPES = {DType.FLOAT32: _FLOAT, DType.FLOAT16: 2, DType.BFLOAT16: 9}
ALGORITHMS = ("implicit GEMM", "implicit precomputed GEMM", "GEMM", "direct", "FFT", "FFT tiling", "Winograd",
              "Winograd nonfused")


class Math(enum.Enum):
    """cudnnMathType_t: which arithmetic a convolution may take."""

    DEFAULT = 0         # float32 may be rounded to TF32
    TENSOR_OP = 1
    CONVERT = 2
    FMA = 3             # float32 as it is, no tensor cores


class _Performance(Structure):
    """cudnnConvolutionFwdAlgoPerf_t."""

    _fields_ = [("algorithm", c_int), ("status", c_int), ("time", c_float), ("memory", c_size_t),
                ("determinism", c_int), ("math", c_int), ("reserved", c_int * 3)]


_SIGNATURES: dict[str, list[Any]] = {
    "cudnnCreate": [POINTER(c_void_p)],
    "cudnnSetStream": [c_void_p, c_void_p],
    "cudnnCreateTensorDescriptor": [POINTER(c_void_p)],
    "cudnnCreateFilterDescriptor": [POINTER(c_void_p)],
    "cudnnCreateConvolutionDescriptor": [POINTER(c_void_p)],
    "cudnnDestroyTensorDescriptor": [c_void_p],
    "cudnnDestroyFilterDescriptor": [c_void_p],
    "cudnnDestroyConvolutionDescriptor": [c_void_p],
    "cudnnSetTensor4dDescriptor": [c_void_p] + [c_int] * 6,
    "cudnnSetFilter4dDescriptor": [c_void_p] + [c_int] * 6,
    "cudnnSetConvolution2dDescriptor": [c_void_p] + [c_int] * 8,
    "cudnnSetConvolutionGroupCount": [c_void_p, c_int],
    "cudnnSetConvolutionMathType": [c_void_p, c_int],
    "cudnnGetConvolutionForwardWorkspaceSize": [c_void_p] * 5 + [c_int, POINTER(c_size_t)],
    "cudnnFindConvolutionForwardAlgorithmEx": [c_void_p] * 8 + [c_int, POINTER(c_int), POINTER(_Performance), c_void_p,
                                                                c_size_t],
    "cudnnConvolutionForward": [c_void_p] * 7 + [c_int, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p],
}


@dataclass(frozen=True)
class Found:
    """One algorithm's answer for a layer: cuDNN's own time in milliseconds and the workspace in bytes, or why not."""

    algorithm: str
    ms: float | None
    workspace_bytes: int
    math: Math
    refusal: str = ""

    def fields(self) -> dict[str, Any]:
        return {"algorithm": self.algorithm, "ms": self.ms, "workspace_bytes": self.workspace_bytes,
                "math": self.math.name, "refusal": self.refusal}


def folders() -> Iterator[Path]:
    """Where cuDNN may lie besides the loader's own places: the wheels that PyTorch takes it from."""
    for packages in (*site.getsitepackages(), *sys.path):
        yield from sorted(Path(packages or ".").glob("nvidia/cudnn*/lib"))


@functools.cache
def library() -> Any:
    """libcudnn.so.9, loaded, with its functions' signatures. Raises NoDevice where it is not found or lacks one."""
    tried = [str(path) for folder in folders() for path in sorted(folder.glob("libcudnn.so.*"))]
    reasons = []
    for name in (*dict.fromkeys(tried), "libcudnn.so.9"):
        try:
            loaded = ctypes.CDLL(name)
            break
        except OSError as error:
            reasons.append(str(error))
    else:
        raise NoDevice(f"cuDNN cannot be loaded: {'; '.join(reasons)}")
    for function, types in _SIGNATURES.items():
        if not hasattr(loaded, function):
            raise NoDevice(f"this cuDNN has no {function}")
        getattr(loaded, function).argtypes = types
    loaded.cudnnGetErrorString.restype = c_char_p
    loaded.cudnnGetErrorString.argtypes = [c_int]
    loaded.cudnnGetVersion.restype = c_size_t
    return loaded


def version() -> int:
    """cuDNN's version, by its own word."""
    return library().cudnnGetVersion()


def message(status: int) -> str:
    """A status in cuDNN's words."""
    return library().cudnnGetErrorString(status).decode()


def _call(name: str, *arguments: Any) -> None:
    status = getattr(library(), name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name}: {message(status)}")


@functools.cache
def _handle() -> c_void_p:
    handle = c_void_p()
    _call("cudnnCreate", byref(handle))
    return handle


class _Descriptor:
    """A descriptor of one kind ("Tensor", "Filter", "Convolution"), destroyed with the object."""

    def __init__(self, kind: str, setter: str, *values: int):
        self._destroy = getattr(library(), f"cudnnDestroy{kind}Descriptor")
        self.handle = c_void_p()
        _call(f"cudnnCreate{kind}Descriptor", byref(self.handle))
        _call(setter, self.handle, *values)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._destroy(self.handle)


class Convolution:
    """A layer as cuDNN knows it, in a type, an order in memory and an arithmetic; sums are float32.

    Raises NoDevice where cuDNN cannot be loaded or cannot say such a layer.
    """

    def __init__(self, shape: ConvShape, dtype: DType, layout: Layout, math: Math):
        (top, bottom), (left, right) = shape.padding
        if top != bottom or left != right:
            raise NoDevice("the padding differs between sides")
        kind, order = _TYPES[dtype], _FORMATS[layout]
        self._x = _Descriptor("Tensor", "cudnnSetTensor4dDescriptor", order, kind, *shape.input_shape)
        self._y = _Descriptor("Tensor", "cudnnSetTensor4dDescriptor", order, kind, *shape.output_shape)
        self._w = _Descriptor("Filter", "cudnnSetFilter4dDescriptor", kind, order, *shape.weight_shape)
        self._conv = _Descriptor("Convolution", "cudnnSetConvolution2dDescriptor", top, left, *shape.stride,
                                 *shape.dilation, _CROSS_CORRELATION, _FLOAT)
        _call("cudnnSetConvolutionGroupCount", self._conv.handle, shape.groups)
        self._set_math(math)
        self._math = math
        self._one, self._zero = c_float(1), c_float(0)

    def workspaces(self) -> dict[str, int]:
        """Bytes that each algorithm asks for; those that do not serve the layer are left out."""
        found = {}
        for number, name in enumerate(ALGORITHMS):
            size = c_size_t()
            status = library().cudnnGetConvolutionForwardWorkspaceSize(
                _handle(), self._x.handle, self._w.handle, self._conv.handle, self._y.handle, number, byref(size))
            if status == 0:
                found[name] = size.value
            elif status not in _REFUSALS:
                raise RuntimeError(f"workspace of {name}: {message(status)}")
        return found

    def find(self, stream: int, x: int, w: int, y: int, workspace: int, workspace_bytes: int) -> list[Found]:
        """Every algorithm's time on the arrays at these addresses, by cuDNN's own measurement, the quickest first."""
        _call("cudnnSetStream", _handle(), stream or None)
        self._set_math(self._math)
        results, count = (_Performance * (4 * len(ALGORITHMS)))(), c_int()
        _call("cudnnFindConvolutionForwardAlgorithmEx", _handle(), self._x.handle, x, self._w.handle, w,
              self._conv.handle, self._y.handle, y, len(results), byref(count), results, workspace or None,
              workspace_bytes)
        return [Found(ALGORITHMS[one.algorithm], one.time if one.status == 0 else None, one.memory, Math(one.math),
                      "" if one.status == 0 else message(one.status)) for one in results[:count.value]]

    def run(self, found: Found, stream: int, x: int, w: int, y: int, workspace: int) -> None:
        """Queue the layer by one of the algorithms of find()."""
        _call("cudnnSetStream", _handle(), stream or None)
        self._set_math(found.math)
        _call("cudnnConvolutionForward", _handle(), byref(self._one), self._x.handle, x, self._w.handle, w,
              self._conv.handle, ALGORITHMS.index(found.algorithm), workspace or None, found.workspace_bytes,
              byref(self._zero), self._y.handle, y)

    def _set_math(self, math: Math) -> None:
        _call("cudnnSetConvolutionMathType", self._conv.handle, math.value)
