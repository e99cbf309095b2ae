"""How everything is timed and checked: buffers that rotate, medians, a float64 reference."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from warpconv.codegen.errors import WarpconvError

from .devices import Call

ROTATION_BYTES = 256 << 20      # inputs and outputs in use before one comes round again: four times an H200's L2
GRAPH_BELOW_MS = 0.1            # calls shorter than this are replayed as a graph
EPSILON = float(np.finfo(np.float32).eps)
PEER_ERROR = 1e-4               # another library may sum in its own way (Winograd, FFT)


class WrongResult(Exception):
    """A result that does not agree with the reference; it is not timed."""


@dataclass(frozen=True)
class Timing:
    """Milliseconds a call: median and the 10th and 90th percentile of ``repeats`` samples of ``count`` calls."""

    ms: float
    low: float
    high: float
    repeats: int
    count: int
    method: str

    def fields(self) -> dict[str, Any]:
        return {"ms": self.ms, "ms_low": self.low, "ms_high": self.high, "repeats": self.repeats, "calls": self.count,
                "method": self.method}


def measure(device: Any, calls: Sequence[Call], *, repeats: int = 20, sample_ms: float = 1.0,
            graph: bool = True) -> Timing:
    """Median time of a call. ``calls`` do the same on different buffers and are gone round.

    Short calls are captured as a CUDA graph where that works (``graph``); all others are queued behind a spinning
    kernel, so that the events enclose nothing but the GPU's work.
    """
    for _ in range(2):                              # warm-up: loading, choosing algorithms, filling pools
        for call in calls:
            call()
    device.synchronize()
    repeats, sample_ms = (3, 0.0) if device.trial else (repeats, sample_ms)
    start = time.perf_counter()
    for call in calls:
        call()
    host_ms = 1e3 * (time.perf_counter() - start) / len(calls)
    device.synchronize()
    each = min(device.sample(calls, len(calls), 0.5 + 1.2 * host_ms * len(calls)) for _ in range(2)) / len(calls)
    count = len(calls) * max(1, min(math.ceil(sample_ms / (each * len(calls) + 1e-9)), math.ceil(200 / len(calls))))
    method = "events"
    if graph and device.can_capture and each < GRAPH_BELOW_MS:
        try:
            replay = device.capture(calls, count)
            return _timing(device, [replay], 1, count, repeats, 0.05, "graph")
        except Exception as error:                  # whatever refuses a capture is still timed the other way
            device.synchronize()
            method = f"events (no graph: {type(error).__name__})"
    return _timing(device, calls, count, count, repeats, 0.05 + 1.2 * host_ms * count, method)


def _timing(device: Any, calls: Sequence[Call], launches: int, count: int, repeats: int, hold: float,
            method: str) -> Timing:
    device.sample(calls, launches, hold)
    samples = sorted(device.sample(calls, launches, hold) / count for _ in range(repeats))
    return Timing(statistics.median(samples), samples[len(samples) // 10], samples[-1 - len(samples) // 10], repeats,
                  count, method)


def rotation(nbytes: int) -> int:
    """How many sets of buffers of ``nbytes`` (inputs and outputs) are gone round."""
    return max(1, min(64, math.ceil(ROTATION_BYTES / nbytes)))


@dataclass(frozen=True)
class Reference:
    """The exact result in float64 and, for each output, the sum of the products' magnitudes."""

    exact: Any
    magnitude: Any
    terms: int

    def check(self, device: Any, result: Any, *, own: bool, inside: tuple[int, int] = (0, 0)) -> float:
        """Relative error (norms), after checking it. Our kernels (``own``) must meet the bound
        (terms + 2) eps sum|a b| at every output, others 1e-4 in norm. ``inside``: rows and columns left out at each
        border. Raises WrongResult."""
        rows, columns = inside
        crop = np.s_[..., rows:self.exact.shape[-2] - rows, columns:self.exact.shape[-1] - columns]
        exact = self.exact[crop]
        difference = abs(device.double(result[:exact.shape[0]][crop]) - exact)
        error = float((difference ** 2).sum() ** 0.5 / ((exact ** 2).sum() ** 0.5 + 1e-300))
        excess = float((difference / (self.magnitude[crop] * ((self.terms + 2) * EPSILON) + 1e-30)).max())
        if math.isnan(error) or math.isnan(excess) or bool((result != result).any()):
            raise WrongResult("some outputs are NaN or were not written")
        if own and excess > 1:
            raise WrongResult(f"{excess:.3g} times the rounding error that float32 may have")
        if not own and error > PEER_ERROR:
            raise WrongResult(f"relative error {error:.3g}")
        return error


def reference(device: Any, x: Any, w: Any, shape: Any, images: int = 2) -> Reference:
    """The layer's first ``images`` images in float64, one tap after the other, on the device."""
    library = device.library
    exact = magnitude = 0.0
    n = min(images, shape.n)
    padded = _padded(device, x[:n], shape)
    weight = device.double(w).reshape(shape.groups, shape.k // shape.groups, shape.c // shape.groups, shape.r, shape.s)
    (sy, sx), (dy, dx) = shape.stride, shape.dilation
    for r in range(shape.r):
        for s in range(shape.s):
            window = padded[:, :, r * dy:r * dy + (shape.p - 1) * sy + 1:sy, s * dx:s * dx + (shape.q - 1) * sx + 1:sx]
            tap = weight[..., r, s]
            if shape.c == shape.k == 1:
                part, size = window * tap[0, 0, 0], abs(window) * abs(tap[0, 0, 0])
            else:
                groups = window.reshape(n, shape.groups, shape.c // shape.groups, shape.p, shape.q)
                part = library.einsum("ngcpq,gkc->ngkpq", groups, tap)
                size = library.einsum("ngcpq,gkc->ngkpq", abs(groups), abs(tap))
            exact, magnitude = exact + part, magnitude + size
    images_shape = (n, *shape.output_shape[1:])
    return Reference(exact.reshape(images_shape), magnitude.reshape(images_shape), shape.reduction)


def _padded(device: Any, x: Any, shape: Any) -> Any:
    (top, bottom), (left, right) = shape.padding
    out = device.double(device.poisoned((x.shape[0], shape.c, shape.h + top + bottom, shape.w + left + right)))
    out[...] = 0.0
    out[:, :, top:top + shape.h, left:left + shape.w] = device.double(x)
    return out


@dataclass(frozen=True)
class Layer:
    """A layer's data on the device: ``xs`` and ``ys`` rotate, ``w`` is one filter bank, all random."""

    shape: Any
    xs: tuple[Any, ...]
    ys: tuple[Any, ...]
    w: Any
    reference: Reference


def make_layer(device: Any, shape: Any, seed: int = 1) -> Layer:
    """Random inputs and weights for a layer, poisoned outputs, and the reference of the first input."""
    nbytes = 4 * (math.prod(shape.input_shape) + math.prod(shape.output_shape))
    sets = 1 if device.trial else rotation(nbytes)
    xs = tuple(device.random(shape.input_shape, seed + i) for i in range(sets))
    ys = tuple(device.poisoned(shape.output_shape) for _ in range(sets))
    w = device.random(shape.weight_shape, seed + 1000)
    return Layer(shape, xs, ys, w, reference(device, xs[0], w, shape))


def resources(kernel: Any) -> dict[str, Any]:
    """Registers, bytes of local and shared memory, spills of a kernel's first entry; what is not known is left out."""
    entry = kernel.program.entries[0] if getattr(kernel, "program", None) else None
    report = kernel.report.entry(entry) if getattr(kernel, "report", None) and entry else None
    found: dict[str, Any] = {}
    if report is not None:
        found = {"registers": report.registers, "local_bytes": report.stack_bytes, "shared_bytes": report.shared_bytes,
                 "spill_bytes": report.spill_stores + report.spill_loads}
    attributes = getattr(getattr(kernel, "_backend", None), "attributes", None)
    if attributes is not None and entry:
        with contextlib.suppress(WarpconvError):        # then the compiler's report has to do
            loaded = attributes()[entry]
            found.update(registers=loaded.registers, local_bytes=loaded.local_bytes, shared_bytes=loaded.shared_bytes)
    return found


def compile_ahead(device: Any, plans: Iterable[Callable[[], Any]]) -> None:
    """Compile many plans at once into the disk cache; what cannot be planned or compiled is left to its own row."""
    if device.trial:
        return
    from warpconv.runtime.build import build

    def one(plan: Callable[[], Any]) -> None:
        with contextlib.suppress(WarpconvError):
            build(plan())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, plans))


def run_kernel(device: Any, layer: Layer, plan: Any, *, prepared: bool | None = None) -> dict[str, Any]:
    """Specialise, check and time one plan on a layer; constant weights (or ``prepared``) go through kernel.prepare."""
    kernel = device.specialize(layer.shape, plan)
    preparation = plan.program.preparation
    constant = preparation is not None and preparation.constant is not None
    weight = kernel.prepare(layer.w) if prepared or (prepared is None and constant) else layer.w
    layer.ys[0][...] = float("nan")
    kernel(layer.xs[0], weight, out=layer.ys[0])
    device.synchronize()
    error = layer.reference.check(device, layer.ys[0], own=True)
    calls = [lambda x=x, y=y: kernel(x, weight, out=y) for x, y in zip(layer.xs, layer.ys)]
    return {"error": error, **resources(kernel), **measure(device, calls).fields()}
