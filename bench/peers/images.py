"""What a user would call instead on images: PyTorch's pad and conv2d, CuPy's ndimage, NPP's filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.devices import Call, NoDevice
from bench.harness import WrongResult, measure
from bench.studies.image_reference import Limits
from warpconv.codegen.border import NAMES, Border
from warpconv.codegen.dtypes import DType, Layout
from warpconv.codegen.shape import ConvShape

from . import npp, npp_images
from .libraries import cupy_stream

# by our mode, the name that a library's function has for it; CuPy's names are SciPy's
TORCH_PAD = {Border.ZEROS: "constant", **{mode: name for name, mode in NAMES["torch"].items() if name != "zeros"}}
SCIPY = {Border.ZEROS: "constant", Border.CONSTANT: "constant", Border.REPLICATE: "nearest", Border.REFLECT: "mirror",
         Border.SYMMETRIC: "reflect", Border.CIRCULAR: "wrap"}


@dataclass(frozen=True)
class Way:
    """One way that a library has: calls on rotating buffers, and a function that gives the first one's result.
    ``inside``: rows and columns at each border that it makes otherwise. ``saturates``: integers out of range become
    the nearest; else they are left out of the check. ``captured``: what the first call writes, where the calls may be
    replayed as a graph."""

    remark: str
    calls: Sequence[Call]
    result: Callable[[], Any]
    inside: tuple[int, int] = (0, 0)
    saturates: bool = True
    captured: Any = None


Ways = Iterator[Way]


def run(device: Any, name: str, data: Any, shape: ConvShape, limits: Limits) -> dict[str, Any]:
    """Milliseconds of a library on a layer's data, the quickest of its ways, each checked before it is timed. Raises
    NoDevice where it is missing or has no such call, WrongResult."""
    return _quickest(device, LAYERS[name](device, data, shape), limits)


def run_gauss(device: Any, name: str, xs: Sequence[Any], ys: Sequence[Any], row: Any,
              limits: Callable[[Any], Limits]) -> dict[str, Any]:
    """The same of a Gaussian on planes (1, 1, H, W) of float32; ``limits``: the limits of what a filter (1, 1, R, S)
    makes of the first, of the row's own where it is None."""
    mask = None
    if name == "NPP" and device.kind != "host":
        mask = _npp_mask(device, _npp_gauss_call(device, row, True), row.reach)
    return _quickest(device, GAUSSIANS[name](device, xs, ys, row), limits(mask))


def _quickest(device: Any, ways: Ways, limits: Limits) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    problem: Exception = NoDevice("it has no such call")
    while True:
        try:
            way = next(ways)
        except StopIteration:
            break
        except NoDevice as error:
            problem = error
            break
        try:
            error = limits.check_peer(device, way.result(), way.inside, saturates=way.saturates)
        except (WrongResult, RuntimeError) as wrong:     # another way may still do
            problem = wrong
            continue
        timing = measure(device, way.calls, graph=way.captured is not None, written=way.captured)
        found.append({"ms": timing.ms, "method": timing.method, "error": error, "remark": way.remark})
    if not found:
        raise problem
    return min(found, key=lambda way: way["ms"])


# ---- layers

def _cudnn(device: Any, data: Any, shape: ConvShape) -> Ways:
    if device.kind != "torch":
        raise NoDevice("no GPU" if device.kind == "host" else "PyTorch is not what this run goes through")
    if shape.padding_mode not in TORCH_PAD:
        raise NoDevice(f"torch.nn.functional.pad has no {shape.padding_mode.value}")
    functions, mode = device.torch.nn.functional, TORCH_PAD[shape.padding_mode]
    (top, bottom), (left, right) = shape.padding
    value = {"value": shape.padding_value} if shape.padding_mode is Border.CONSTANT else {}

    def call(x: Any) -> Any:
        if shape.padding_mode is Border.ZEROS:
            return functions.conv2d(x, data.w, None, shape.stride, (top, left), shape.dilation, shape.groups)
        padded = functions.pad(x, (left, right, top, bottom), mode, **value)
        return functions.conv2d(padded, data.w, None, shape.stride, 0, shape.dilation, shape.groups)

    remark = "conv2d" if shape.padding_mode is Border.ZEROS else f"pad ({mode}), then conv2d"
    yield Way(remark, [lambda x=x: call(x) for x in data.xs], lambda: call(data.xs[0]))


def _cupy(device: Any, data: Any, shape: ConvShape) -> Ways:
    cupy, ndimage = cupy_and_ndimage(device)
    planes = [(cupy.asarray(x)[0, 0], cupy.asarray(y)[0]) for x, y in zip(data.xs, data.ys)]
    weights = cupy.asarray(data.w)[:, 0]

    def call(x: Any, ys: Any) -> None:
        with cupy_stream(device, cupy):
            for taps, y in zip(weights, ys):
                ndimage.correlate(x, taps, output=y, mode=SCIPY[shape.padding_mode], cval=shape.padding_value)

    calls = [lambda x=x, y=y: call(x, y) for x, y in planes]
    several = f", {shape.k} calls" if shape.k > 1 else ""
    yield Way(f"cupyx.scipy.ndimage.correlate{several}", calls, _written(device, data.ys[0], calls[0]), saturates=False)


def _npp(device: Any, data: Any, shape: ConvShape) -> Ways:
    if device.kind == "host":
        raise NoDevice("no GPU")
    size, integer = (shape.r, shape.s), shape.w_dtype.is_integer
    inside = (shape.r // 2, shape.s // 2)
    context = npp.stream_context(device.stream())
    taps = device.reversed(data.w)
    taps = device.converted(taps, DType.INT32 if integer else DType.FLOAT32, Layout.NCHW)
    for border in (True, False):
        entry = npp_images.Filter.of(shape.dtype, shape.y_dtype, border=border, integer=integer)

        def call(x: Any, y: Any, entry: Any = entry) -> None:
            entry(context, device.pointer(x), device.pointer(y), device.pointer(taps), shape.h, shape.w, size,
                  shape.dtype.itemsize)

        calls = [lambda x=x, y=y, call=call: call(x, y) for x, y in zip(data.xs, data.ys)]
        yield Way(entry.name, calls, _written(device, data.ys[0], calls[0]), inside)


LAYERS: Mapping[str, Callable[..., Ways]] = {"cuDNN": _cudnn, "CuPy": _cupy, "NPP": _npp}


# ---- Gaussians

def _cupy_gauss(device: Any, xs: Sequence[Any], ys: Sequence[Any], row: Any) -> Ways:
    cupy, ndimage = cupy_and_ndimage(device)

    def call(x: Any, y: Any) -> None:
        with cupy_stream(device, cupy):
            ndimage.gaussian_filter(x, row.sigma, output=y, mode="reflect")

    planes = [(cupy.asarray(x)[0, 0], cupy.asarray(y)[0, 0]) for x, y in zip(xs, ys)]
    calls = [lambda x=x, y=y: call(x, y) for x, y in planes]
    for captured in (None, ys[0]):      # a graph leaves out what CuPy does on the host at each call
        yield Way("cupyx.scipy.ndimage.gaussian_filter", calls, _written(device, ys[0], calls[0]), captured=captured)


def _npp_gauss(device: Any, xs: Sequence[Any], ys: Sequence[Any], row: Any) -> Ways:
    if device.kind == "host":
        raise NoDevice("no GPU")
    for border in (True, False):
        call = _npp_gauss_call(device, row, border)
        calls = [lambda x=x, y=y, call=call: call(x, y) for x, y in zip(xs, ys)]
        yield Way(f"nppiFilterGauss{'Border' if border else ''}_32f_C1R_Ctx", calls, _written(device, ys[0], calls[0]),
                  (row.reach, row.reach))


def _npp_gauss_call(device: Any, row: Any, border: bool) -> Callable[[Any, Any], None]:
    context, entry = npp.stream_context(device.stream()), npp_images.gauss(2 * row.reach + 1, border=border)
    return lambda x, y: entry(context, device.pointer(x), device.pointer(y), x.shape[-2], x.shape[-1])


GAUSSIANS: Mapping[str, Callable[..., Ways]] = {"CuPy": _cupy_gauss, "NPP": _npp_gauss}


def _npp_mask(device: Any, call: Callable[[Any, Any], None], reach: int) -> Any:
    """The filter (1, 1, R, S) that a call of NPP's applies: what it makes of one bright pixel, turned round."""
    size = 4 * reach + 9
    source, target = device.poisoned((size, size)), device.poisoned((size, size))
    source[...] = 0.0
    source[size // 2, size // 2] = 1.0
    call(source, target)
    device.synchronize()
    around = slice(size // 2 - reach, size // 2 + reach + 1)
    mask = target[around, around]
    outside = float(abs(target).sum() - abs(mask).sum())
    if not (abs(float(mask.sum()) - 1) < 1e-3 and outside < 1e-6):
        raise WrongResult(f"NPP's mask of {2 * reach + 1}x{2 * reach + 1} sums to {float(mask.sum()):.4g}, and "
                          f"{outside:.3g} lies outside of it")
    return device.reversed(mask[None, None])


# ---- both

def cupy_and_ndimage(device: Any) -> tuple[Any, Any]:
    if device.kind == "host":
        raise NoDevice("no GPU")
    try:
        import cupy
        from cupyx.scipy import ndimage
    except Exception as error:
        raise NoDevice(f"CuPy cannot be imported ({error})") from None
    return cupy, ndimage


def _written(device: Any, y: Any, call: Call) -> Callable[[], Any]:
    """A function that gives what a call writes."""
    def result() -> Any:
        device.poison(y)
        call()
        device.synchronize()
        return y
    return result


def told(device: Any, name: str, ms: float, measure_peer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A library's columns of a row that takes ``ms``, or why there are none."""
    try:
        found = measure_peer()
    except Exception as error:          # a peer that is missing, wrong or out of memory is told, not timed
        device.synchronize()            # if the device is lost, the row fails and the study stops
        device.free()
        reason = str(error) if isinstance(error, NoDevice) else f"{type(error).__name__}: {error}"
        return {f"{name}_reason": reason[:200]}
    return {**{f"{name}_{field}": value for field, value in found.items()}, f"{name}_speedup": found["ms"] / ms}
