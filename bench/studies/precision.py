"""How exact the ways of computing float32 layers are, on data of many kinds, against float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import warpconv
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.accuracy.reference import EPSILON, reference

from ..report.files import OK, Table
from ..study import Context, Rows, Study

ABOUT = """\
Each layer is computed in each way on the same data, and compared with float64. The error in norm is that of the image
that has the largest one; the worst error is the largest |error| / sum |a * b| of any output. `ieee` is `implicit_gemm`
with its sums in order, `tf32x3` and `tf32` are `mma`, `fp16x3` is `wgmma` in NHWC (147 products are of 3 channels,
which it declines); of planes `ieee` is `direct`, whose sums are in order, `fp16x3` is `toeplitz_float32`; on the CPU
device, whose emulated tensor cores cut sums (docs/cpu-device.md). A GPU with PyTorch adds cuDNN with TF32 off and on.
"""

IMAGES, SIDE, FILTERS = 4, 7, 32
# products of an output: (C, R = S)
LAYERS = {"96": (96, 1), "147": (3, 7), "576": (64, 3), "2304": (256, 3)}
PLANES = {"11x11": 11, "31x31": 31}     # of each of 8 channels, as depthwise layers: windows that lie in the image
Draw = Callable[[np.random.Generator, ConvShape], "tuple[np.ndarray, np.ndarray]"]


def _normal(rng: np.random.Generator, shape: ConvShape) -> tuple[np.ndarray, np.ndarray]:
    return (rng.standard_normal(shape.input_shape).astype(np.float32),
            rng.standard_normal(shape.weight_shape).astype(np.float32))


def _positive(rng: np.random.Generator, shape: ConvShape) -> tuple[np.ndarray, np.ndarray]:
    x, w = _normal(rng, shape)
    return np.abs(x), np.abs(w)


def _relu(rng: np.random.Generator, shape: ConvShape) -> tuple[np.ndarray, np.ndarray]:
    x, w = _normal(rng, shape)
    return np.maximum(x, 0), w


def _scaled(axes: tuple[int, ...], least: int, most: int) -> Draw:
    """Signed data, times a power of two that is drawn for each place along the axes."""
    def draw(rng: np.random.Generator, shape: ConvShape) -> tuple[np.ndarray, np.ndarray]:
        x, w = _normal(rng, shape)
        sizes = [size if axis in axes else 1 for axis, size in enumerate(x.shape)]
        return np.ldexp(x, rng.integers(least, most + 1, sizes)), w
    return draw


def _subnormal(rng: np.random.Generator, shape: ConvShape) -> tuple[np.ndarray, np.ndarray]:
    x, w = _normal(rng, shape)
    return np.ldexp(x, -130), np.ldexp(w, 20)


def _few_times(factor: float) -> Draw:
    def draw(rng: np.random.Generator, shape: ConvShape) -> tuple[np.ndarray, np.ndarray]:
        x, w = _normal(rng, shape)
        return np.where(rng.random(x.shape) < 1 / 500, x * np.float32(factor), x), w
    return draw


def _near_the_largest(rng: np.random.Generator, shape: ConvShape) -> tuple[np.ndarray, np.ndarray]:
    x, w = _normal(rng, shape)
    x = np.sign(x) * np.float32(np.finfo(np.float32).max) * (1 - rng.random(x.shape) / 4).astype(np.float32)
    return x, np.ldexp(w, -20)


KINDS: dict[str, Draw] = {
    "signed": _normal, "non-negative": _positive, "after a ReLU": _relu,
    "images times 2^-30 to 2^30": _scaled((0,), -30, 30), "pixels times 2^-16 to 1": _scaled((0, 2, 3), -16, 0),
    "pixels times 2^-30 to 1": _scaled((0, 2, 3), -30, 0), "channels times 2^-12 to 2^12": _scaled((1,), -12, 12),
    "subnormal pixels": _subnormal, "a few times 4096": _few_times(4096), "a few times 1e12": _few_times(1e12),
    "a few times 1e30": _few_times(1e30), "near the largest float": _near_the_largest}


@dataclass(frozen=True)
class Errors:
    """``norm``: |error| / |output| of the image that has most; ``worst``: |error| / sum |a * b| of such an output."""

    norm: float
    worst: float


def shape_of(layer: str) -> ConvShape:
    if layer in PLANES:
        size, c = PLANES[layer], 8
        side = size + 2 * SIDE
        return ConvShape(n=IMAGES, c=c, h=side, w=side, k=c, groups=c, r=size, s=size)
    c, size = LAYERS[layer]
    return ConvShape(n=IMAGES, c=c, h=SIDE, w=SIDE, k=FILTERS, r=size, s=size, padding=size // 2)


def drawn(layer: str, kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Input and filter of a kind."""
    return KINDS[kind](np.random.default_rng([seed, *map(ord, layer + kind)]), shape_of(layer))


def errors_of(result: np.ndarray, x: np.ndarray, w: np.ndarray, shape: ConvShape) -> Errors:
    """Those of a float32 result in NCHW. Outputs beyond the largest float are left out, where the reference is."""
    exact = reference(x, w, shape)
    magnitude = exact.bound / ((shape.reduction + 2) * EPSILON)
    there = np.abs(exact.output) <= np.finfo(np.float32).max
    with np.errstate(invalid="ignore"):
        error = np.where(there, np.abs(result - exact.output), 0)
    norms = [np.linalg.norm(e) / np.linalg.norm(y) for e, y in zip(error, np.where(there, exact.output, 0))
             if np.any(y)]
    return Errors(float(max(norms)), float((error / np.where(magnitude > 0, magnitude, 1)).max()))


WAYS: dict[str, dict[str, Any]] = {
    "ieee": dict(algorithm="implicit_gemm", precision="ieee"), "tf32x3": dict(algorithm="mma", precision="tf32x3"),
    "fp16x3": dict(algorithm="wgmma", precision="fp16x3", layout="NHWC"),
    "tf32": dict(algorithm="mma", precision="tf32")}
PEERS = {"cuDNN float32": False, "cuDNN TF32": True}


OF_PLANES: dict[str, dict[str, Any]] = {
    "ieee": dict(algorithm="direct", precision="ieee"),
    "fp16x3": dict(algorithm="toeplitz_float32", precision="fp16x3")}


def serves(way: str, layer: str) -> bool:
    """Whether a layer can be computed in a way: descriptors want channels by fours."""
    if layer in PLANES:
        return way in OF_PLANES or way in PEERS
    return way != "fp16x3" or LAYERS[layer][0] % 4 == 0


def computed(way: str, x: np.ndarray, w: np.ndarray, shape: ConvShape, device: str,
             place: Callable[[np.ndarray], Any] = np.asarray,
             host: Callable[[Any], np.ndarray] = np.asarray) -> np.ndarray:
    """The layer in one of WAYS, of arrays in NCHW; ``place`` brings them to the device, ``host`` back."""
    if shape.groups > 1:
        return host(warpconv.conv2d(place(x), place(w), groups=shape.groups, device=device, **OF_PLANES[way]))
    nhwc = WAYS[way].get("layout") == "NHWC"
    x = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if nhwc else x
    if way == "ieee":       # one sum for each output, in order: sums that are split are more exact
        kernel = warpconv.specialize(shape, device=device, settings={"splits": 1}, **WAYS[way])
        return host(kernel(place(x), place(w)))
    made = host(warpconv.conv2d(place(x), place(w), padding=shape.padding, device=device, **WAYS[way]))
    return np.moveaxis(made, -1, 1) if nhwc else made


def run(context: Context) -> None:
    layers = ("96", "576") if context.quick else (*LAYERS, *PLANES)
    ways = (*WAYS, *PEERS) if context.device.kind == "torch" else WAYS
    cases = [case for case in product(layers, KINDS, ways) if serves(case[2], case[0])]
    context.expect(len(cases))
    for layer, kind, way in cases:
        context.row(f"{layer}/{kind}/{way}", lambda layer=layer, kind=kind, way=way: _measure(
            context.device, layer, kind, way), layer=layer, kind=kind, way=way)


def _measure(device: Any, layer: str, kind: str, way: str) -> dict[str, Any]:
    shape, (x, w) = shape_of(layer), drawn(layer, kind)
    if way in PEERS:
        found = _by_torch(device, x, w, shape, PEERS[way])
    elif device.kind == "host":
        found = computed(way, x, w, shape, device.target)
    else:
        found = computed(way, x, w, shape, device.target, lambda array: _placed(device, array), _host)
    errors = errors_of(found, x, w, shape)
    return {"norm": errors.norm, "worst": errors.worst}


def _by_torch(device: Any, x: np.ndarray, w: np.ndarray, shape: ConvShape, tf32: bool) -> np.ndarray:
    torch = device.library
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = tf32
    try:
        top, left = shape.padding[0][0], shape.padding[1][0]
        return _host(torch.nn.functional.conv2d(_placed(device, x), _placed(device, w), padding=(top, left),
                                                groups=shape.groups))
    finally:
        torch.backends.cudnn.allow_tf32 = before


def _placed(device: Any, x: np.ndarray) -> Any:
    return device.library.asarray(x) if device.kind == "cupy" else device.library.from_numpy(x).to(device.device)


def _host(array: Any) -> np.ndarray:
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


# ---- what is shown

def tables(rows: Rows) -> list[Table]:
    """Of each layer a line a kind of data, of each way two columns."""
    done = {key: row for key, row in rows.items() if row["status"] == OK}
    ways = [way for way in (*WAYS, *PEERS) if any(row["way"] == way for row in done.values())]
    made = []
    for layer in (*LAYERS, *PLANES):
        lines = []
        for kind in KINDS:
            found = [done.get(f"{layer}/{kind}/{way}", {}) for way in ways]
            if any(found):
                lines.append((kind, *(row.get(name) for name in ("norm", "worst") for row in found)))
        if lines:
            columns = ("data", *(f"{way}, {name}" for name in ("norm", "worst") for way in ways))
            filled = [i for i in range(len(columns)) if any(line[i] is not None for line in lines)]
            title = f"{layer} filters of planes" if layer in PLANES else f"{layer} products"
            made.append(Table(title, tuple(columns[i] for i in filled),
                              tuple(tuple(line[i] for i in filled) for line in lines)))
    return made


STUDY = Study("precision", "how exact float32 layers are in each way, on data of many kinds", ABOUT, run, tables,
              needs_gpu=False)
