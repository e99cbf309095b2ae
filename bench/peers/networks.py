"""What a network's layer would be computed with instead: PyTorch with and without cuDNN, and cuDNN's own algorithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bench.devices import Call, NoDevice
from bench.harness import Layer, measure
from bench.reference import PEER_ERRORS
from bench.studies.contest import reason_of
from warpconv.codegen.dtypes import DType, Layout

from . import libraries as peers
from .cudnn import Convolution, Found, Math

WORKSPACE_LIMIT = 24 << 30      # an algorithm of cuDNN that asks for more is not tried
TORCH = {"torch_cudnn": peers.CUDNN, "torch_im2col": peers.IM2COL}
_TENSOR_CORE_ERROR = PEER_ERRORS[DType.FLOAT16]     # TF32 has the digits of float16


@dataclass(frozen=True)
class Column:
    """One way to ask cuDNN; ``workspace`` False: only algorithms that need none."""

    name: str
    remark: str
    dtype: DType
    layout: Layout
    math: Math
    workspace: bool = True


CUDNN = (
    Column("cudnn_fp32", "cuDNN's quickest in float32 (FMA)", DType.FLOAT32, Layout.NCHW, Math.FMA),
    Column("cudnn_fp32_lean", "cuDNN's quickest in float32 that needs no workspace", DType.FLOAT32, Layout.NCHW,
           Math.FMA, False),
    Column("cudnn_tf32", "cuDNN's quickest with TF32 allowed", DType.FLOAT32, Layout.NCHW, Math.DEFAULT),
    Column("cudnn_tf32_nhwc", "the same in NHWC", DType.FLOAT32, Layout.NHWC, Math.DEFAULT),
    Column("cudnn_fp16_nhwc", "cuDNN's quickest in float16, NHWC", DType.FLOAT16, Layout.NHWC, Math.TENSOR_OP))
REMARKS = {**{name: peer.remark for name, peer in TORCH.items()}, **{column.name: column.remark for column in CUDNN}}
FLOAT32_PEERS = (*TORCH, "cudnn_fp32", "cudnn_fp32_lean")


def measure_peers(device: Any, layer: Layer, names: Iterable[str], say: Callable[[str], None] = lambda name: None) \
        -> dict[str, Any]:
    """Every named peer of REMARKS on a layer: ``<name>_ms`` and more, or ``<name>_reason``; no failure stops the rest,
    but that of a device that no longer answers."""
    found: dict[str, Any] = {}
    heard: dict[Any, Any] = {}
    for name in names:
        say(name)
        try:
            fields = {**peers.run_peer(device, layer, TORCH[name]), "held": held(device, layer, name)} \
                if name in TORCH else _cudnn(device, layer, column_of(name), heard)
        except Exception as error:
            device.synchronize()
            fields = {"reason": reason_of(error)}
        found |= {f"{name}_{key}": value for key, value in fields.items()}
        device.free()
    return found


def held(device: Any, layer: Layer, name: str) -> int:
    """Bytes besides the tensors that PyTorch's allocator holds at the peak of a call."""
    calls, _ = TORCH[name].calls(device, layer)         # which checks the result
    device.free()
    output = layer.shape.dtype.itemsize * math.prod(layer.shape.output_shape)
    return max(0, device.peak_bytes(calls[0]) - output)


def column_of(name: str) -> Column:
    """The column of CUDNN of that name."""
    return next(column for column in CUDNN if column.name == name)


# ---- cuDNN itself

@dataclass
class Operands:
    """A layer's arrays as a column of cuDNN wants them, and the memory that its algorithms may use."""

    xs: tuple[Any, ...]
    ys: tuple[Any, ...]
    w: Any
    workspace: Any
    workspace_bytes: int

    def call(self, device: Any, convolution: Convolution, found: Found, i: int) -> Call:
        addresses = [device.pointer(array) for array in (self.xs[i], self.w, self.ys[i], self.workspace)]
        return lambda: convolution.run(found, device.stream(), *addresses)


def listen(device: Any, layer: Layer, column: Column) -> tuple[Convolution, Operands, list[Found]]:
    """cuDNN's algorithms for a layer, with the arrays that they were measured on. Raises NoDevice without a GPU."""
    if device.kind == "host":
        raise NoDevice("no GPU")
    convolution = Convolution(layer.shape, column.dtype, column.layout, column.math)
    asked = [size for size in convolution.workspaces().values() if size <= WORKSPACE_LIMIT]
    workspace_bytes = max(asked, default=0)
    shape, same = layer.shape, (column.dtype, column.layout) == (layer.shape.dtype, layer.shape.layout)
    xs = layer.xs if same else tuple(device.converted(x, column.dtype, column.layout) for x in layer.xs)
    ys = layer.ys if same else tuple(device.poisoned(shape.output_shape, column.dtype, column.layout) for _ in xs)
    w = layer.w if same else device.converted(layer.w, column.dtype, column.layout)
    operands = Operands(xs, ys, w, device.poisoned((workspace_bytes // 4 + 1,)), workspace_bytes)
    addresses = [device.pointer(array) for array in (xs[0], w, ys[0], operands.workspace)]
    device.synchronize()
    return convolution, operands, convolution.find(device.stream(), *addresses, workspace_bytes)


def choose(found: Iterable[Found], column: Column) -> Found:
    """The quickest algorithm that the column admits. Raises NoDevice where there is none."""
    admitted = [one for one in found if one.ms is not None and (column.workspace or one.workspace_bytes == 0)]
    if not admitted:
        raise NoDevice("none of cuDNN's algorithms serves it so")
    return min(admitted, key=lambda one: one.ms)


def _cudnn(device: Any, layer: Layer, column: Column, heard: dict[Any, Any]) -> dict[str, Any]:
    asked = (column.dtype, column.layout, column.math)
    if asked not in heard:
        heard.clear()           # one set of converted arrays at a time
        heard[asked] = listen(device, layer, column)
    convolution, operands, answers = heard[asked]
    found = choose(answers, column)
    operands.ys[0][...] = float("nan")
    calls = [operands.call(device, convolution, found, i) for i in range(len(operands.xs))]
    calls[0]()
    device.synchronize()
    exact = (column.dtype, column.math) == (DType.FLOAT32, Math.FMA)
    error = layer.reference.check(device, operands.ys[0], own=False, tolerance=None if exact else _TENSOR_CORE_ERROR)
    timing = measure(device, calls, written=operands.ys[0])
    return {"error": error, **timing.fields(), "algorithm": found.algorithm, "workspace_bytes": found.workspace_bytes,
            "math": found.math.name, "algorithms": [one.fields() for one in answers]}
