"""What a user would call instead, and the ceilings; each is loaded by itself, so that a missing one stops no study."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.devices import Call, NoDevice
from bench.harness import Layer, WrongResult, measure
from warpconv.codegen.dtypes import DType, Layout

from . import npp

COPY_FLOATS = 1 << 28       # the copy ceiling moves 1 GiB each way
GEMM_SIZE = 8192


@dataclass(frozen=True)
class Peer:
    """A library's routine: ``calls`` prepares it for a layer, checks its result and gives its rotating calls.

    ``writes``: the calls write the layer's outputs, rather than a result of their own.
    """

    name: str
    remark: str
    calls: Callable[[Any, Layer], tuple[list[Call], float]]
    graph: bool = False
    writes: bool = True


def run_peer(device: Any, layer: Layer, peer: Peer, *, graph: bool | None = None) -> dict[str, Any]:
    """Check and time one peer on a layer; ``graph`` overrules the peer's. Raises NoDevice where it is missing,
    WrongResult where it disagrees."""
    calls, error = peer.calls(device, layer)
    timing = measure(device, calls, graph=peer.graph if graph is None else graph,
                     written=layer.ys[0] if peer.writes else None)
    return {"error": error, "remark": peer.remark, **timing.fields()}


def copy_ceiling(device: Any, floats: int = COPY_FLOATS) -> dict[str, Any]:
    """A large device copy, in GB/s of bytes read plus bytes written."""
    floats = 1 << 20 if device.trial else floats
    source, target = device.random((floats,), 1), device.poisoned((floats,))
    timing = measure(device, [lambda: device.copy(target, source)], graph=False)
    return {"gbs": 8 * floats / timing.ms / 1e6, **timing.fields()}


def gemm_ceiling(device: Any, size: int = GEMM_SIZE) -> dict[str, Any]:
    """A square float32 matrix product of the device's library, in TFLOP/s (TF32 off)."""
    if device.kind == "host":
        raise NoDevice("no GPU")
    a, b = device.random((size, size), 1), device.random((size, size), 2)
    out = device.poisoned((size, size))
    matmul = device.library.matmul
    timing = measure(device, [lambda: matmul(a, b, out=out)], repeats=20, graph=False)
    row = slice(0, 4)
    exact = device.double(a[row]) @ device.double(b)
    error = float(((device.double(out[row]) - exact) ** 2).sum() ** 0.5 / (exact ** 2).sum() ** 0.5)
    if not error < 1e-4:
        raise WrongResult(f"relative error {error:.3g}: not float32")
    return {"tflops": 2 * size ** 3 / timing.ms / 1e9, "error": error, **timing.fields()}


def _copy(device: Any, layer: Layer) -> tuple[list[Call], float]:
    if layer.xs[0].shape != layer.ys[0].shape:
        raise NoDevice("input and output differ in size")
    calls = [lambda x=x, y=y: device.copy(y, x) for x, y in zip(layer.xs, layer.ys)]
    calls[0]()
    device.synchronize()
    if not bool((layer.ys[0] == layer.xs[0]).all()):
        raise WrongResult("the copy differs")
    return calls, 0.0


def _cudnn(device: Any, layer: Layer) -> tuple[list[Call], float]:
    call = torch_conv(device, layer)
    error = layer.reference.check(device, call(layer.xs[0]), own=False)
    return [lambda x=x: call(x) for x in layer.xs], error


def torch_conv(device: Any, layer: Layer) -> Callable[[Any], Any]:
    """torch.nn.functional.conv2d on a layer's weights, put into the layer's order in memory beforehand. Raises NoDevice
    where PyTorch does not serve it."""
    if device.kind != "torch":
        raise NoDevice("PyTorch is not what this run goes through" if device.kind == "cupy" else "no GPU")
    conv2d, shape, w = device.torch.nn.functional.conv2d, layer.shape, layer.w
    (top, bottom), (left, right) = shape.padding
    if top != bottom or left != right:
        raise NoDevice("the padding differs between sides")
    w = w.contiguous(memory_format=device.memory_format(shape.layout))
    return lambda x: conv2d(x, w, None, shape.stride, (top, left), shape.dilation, shape.groups)


def _check_plane(device: Any, layer: Layer) -> None:
    """Raises NoDevice where the layer is no single plane of float32 on a GPU."""
    shape = layer.shape
    if device.kind == "host":
        raise NoDevice("no GPU")
    if (shape.n, shape.c, shape.k, shape.dtype, shape.layout) != (1, 1, 1, DType.FLOAT32, Layout.NCHW):
        raise NoDevice("it takes one plane of float32")


def _cupy(device: Any, layer: Layer) -> tuple[list[Call], float]:
    """On the device's stream, also while that is captured."""
    _check_plane(device, layer)
    try:
        import cupy
        from cupyx.scipy import ndimage
    except Exception as error:
        raise NoDevice(f"CuPy cannot be imported ({error})") from None
    planes = [(cupy.asarray(x)[0, 0], cupy.asarray(y)[0, 0]) for x, y in zip(layer.xs, layer.ys)]
    weights = cupy.asarray(layer.w)[0, 0]

    def correlate(x: Any, y: Any) -> None:
        with cupy_stream(device, cupy):
            ndimage.correlate(x, weights, output=y, mode="constant", cval=0.0)

    calls = [lambda x=x, y=y: correlate(x, y) for x, y in planes]
    layer.ys[0][...] = float("nan")
    calls[0]()
    cupy.cuda.runtime.deviceSynchronize()
    return calls, layer.reference.check(device, layer.ys[0], own=False)


def cupy_stream(device: Any, cupy: Any) -> Any:
    """A block in which CuPy works on the device's stream of the moment."""
    handle = device.stream()
    return cupy.cuda.ExternalStream(handle) if handle and device.kind != "cupy" else contextlib.nullcontext()


def _cucim(device: Any, layer: Layer) -> tuple[list[Call], float]:
    """The one correlation with any filter of two dimensions that cuCIM's interface has, a pass for each tap. It has no
    zero border (the inside is checked), and makes a new result at each call. It reads the filter on the host."""
    _check_plane(device, layer)
    try:
        import cupy
        from cucim.skimage.filters import correlate_sparse
    except Exception as error:
        raise NoDevice(f"cuCIM cannot be imported ({error})") from None
    weights = cupy.asnumpy(cupy.asarray(layer.w)[0, 0])

    def correlate(x: Any) -> Any:
        with cupy_stream(device, cupy):
            return correlate_sparse(x, weights, mode="nearest")

    calls = [partial(correlate, cupy.asarray(x)[0, 0]) for x in layer.xs]
    cupy.asarray(layer.ys[0])[0, 0] = calls[0]()
    cupy.cuda.runtime.deviceSynchronize()
    inside = (layer.shape.r // 2, layer.shape.s // 2)
    return calls, layer.reference.check(device, layer.ys[0], own=False, inside=inside)


def _torch_im2col(device: Any, layer: Layer) -> tuple[list[Call], float]:
    """What PyTorch does where cuDNN is switched off: for each image a lowered matrix, then cuBLAS."""
    call = torch_conv(device, layer)
    cudnn = device.torch.backends.cudnn

    def lowered(x: Any) -> Any:
        cudnn.enabled = False
        try:
            return call(x)
        finally:
            cudnn.enabled = True

    error = layer.reference.check(device, lowered(layer.xs[0]), own=False)
    return [lambda x=x: lowered(x) for x in layer.xs], error


def _npp(device: Any, layer: Layer) -> tuple[list[Call], float]:
    """NPP takes the last coefficient first; where a version does not, the other order is found by its result."""
    _check_plane(device, layer)
    function, context = npp.filter_border(), npp.stream_context(device.stream())

    def call(x: Any, y: Any, taps: Any) -> None:
        context.stream = device.stream() or None        # another one while a graph is captured
        npp.call(function, context, device.pointer(x), device.pointer(y), device.pointer(taps), shape.h, shape.w, size)

    shape, size = layer.shape, (layer.shape.r, layer.shape.s)
    inside = (shape.r // 2, shape.s // 2)
    banks = [device.random(layer.w.shape, 1), layer.w]
    device.copy(banks[0], device.reversed(layer.w))
    for taps in banks:
        calls = [lambda x=x, y=y, taps=taps: call(x, y, taps) for x, y in zip(layer.xs, layer.ys)]
        layer.ys[0][...] = float("nan")
        calls[0]()
        device.synchronize()
        try:
            return calls, layer.reference.check(device, layer.ys[0], own=False, inside=inside)
        except WrongResult as error:
            wrong = error
    raise wrong


CUDNN = Peer("cuDNN", "torch conv2d, benchmark mode, TF32 off, zero border", _cudnn, graph=True, writes=False)
PLANE_PEERS = (
    Peer("device copy", "of the same plane", _copy, graph=True),
    CUDNN,
    Peer("NPP", "nppiFilterBorder_32f_C1R_Ctx, replicated border (the inside is checked)", _npp),
    Peer("CuPy", "cupyx.scipy.ndimage.correlate, zero border", _cupy),
)

IM2COL = Peer("im2col (PyTorch)", "torch conv2d with cuDNN switched off: im2col and cuBLAS, TF32 off", _torch_im2col,
              graph=True, writes=False)
CUCIM = Peer("cuCIM", "cucim.skimage.filters.correlate_sparse, a pass for each tap, replicated border (the inside is "
             "checked)", _cucim, writes=False)
