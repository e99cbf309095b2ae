"""Host time of warm calls beside PyTorch's, and of making kernels: python -m bench.host_time [--device cpu] [--cold].

Warm: calls are queued and the queue is waited for outside the clock; all calls take turns in every round, medians over
the rounds, microseconds. Cold: new processes with an empty disk cache, then with a full one; then a list of layers in
one thread and in all. Needs PyTorch for its rows, CuPy for its own; what is not installed is left out and said so.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

CALLS, ROUNDS = 200, 60
SAMPLES = 5
LAYER = {"c": 1, "h": 64, "w": 64, "k": 1, "r": 5, "s": 5, "padding": 2}
FIRST = """
import time
start = time.perf_counter()
import warpconv
imported = time.perf_counter()
if DEVICE == "cuda":
    from warpconv.runtime.devices.cuda import contexts, memory
    with contexts.activate(0):
        pass
context = time.perf_counter()
warpconv.specialize(warpconv.ConvShape(**LAYER), device=DEVICE)
made = time.perf_counter()
warpconv.specialize(warpconv.ConvShape(**{**LAYER, "r": 3, "s": 3, "padding": 1}), device=DEVICE)
print(imported - start, context - imported, made - context, time.perf_counter() - made)
"""
MANY = """
import time
import warpconv
layers = [warpconv.ConvShape(c=c, h=size, w=size, k=k, r=r, s=r, stride=stride, padding=r // 2)
          for c, size, k, r, stride in LAYERS]
if DEVICE == "cuda":
    from warpconv.runtime.devices.cuda import contexts
    with contexts.activate(0):
        pass
start = time.perf_counter()
kernels = warpconv.specialize_all(layers, device=DEVICE, workers=WORKERS)
print(len(layers), len(set(map(id, kernels))), time.perf_counter() - start)
"""


def resnet50() -> list[tuple[int, int, int, int, int]]:
    """(C, H, K, R, stride) of the layers of ResNet-50 (He et al. 2016; strides in the 3x3 layers), each once."""
    layers, c, size = [(3, 224, 64, 7, 2)], 64, 56
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [(c, size, width, 1, 1), (width, size, width, 3, stride), (c, size, 4 * width, 1, stride)]
        c, size = 4 * width, size // stride
        layers += [(width, size, c, 1, 1), (c, size, width, 1, 1), (width, size, width, 3, 1)]
    return list(dict.fromkeys(layers))


def calls(device: str) -> Iterator[tuple[str, Callable[[], Any], Callable[[], None]]]:
    """Name, call, and what waits for the calls."""
    import numpy as np

    import warpconv
    if device == "cpu":
        x, w = np.ones((1, 1, 8, 8), np.float32), np.ones((1, 1, 3, 3), np.float32)
        y, kernel = np.empty_like(x), warpconv.specialize(warpconv.ConvShape(c=1, h=8, w=8, k=1, r=3, s=3, padding=1),
                                                          device="cpu")
        image = np.ones((64, 64), np.float32)
        yield from _ours("numpy 8x8", warpconv, kernel, x, w, y, image, 1, _nothing)
        return
    shape = warpconv.ConvShape(**LAYER)
    kernel = warpconv.specialize(shape, device="cuda")
    for library, rows in (("torch", _torch), ("cupy", _cupy)):
        if importlib.util.find_spec(library):
            yield from rows(warpconv, shape, kernel)


def _torch(warpconv: Any, shape: Any, kernel: Any) -> Iterator[tuple[str, Callable[[], Any], Callable[[], None]]]:
    import torch
    x, w, y = (torch.ones(size, device="cuda") for size in (shape.input_shape, shape.weight_shape, shape.output_shape))
    wait, prepared = torch.cuda.synchronize, kernel.prepare(w)
    yield from _ours("torch", warpconv, kernel, x, w, y, x[0, 0], 2, wait)
    yield "torch: kernel(x, filter, out=y)", lambda: kernel(x, prepared, out=y), wait
    yield "torch: F.conv2d(x, w)", lambda: torch.nn.functional.conv2d(x, w, padding=2), wait
    for name, call in _watched(torch, warpconv):
        yield name, call, wait


def _watched(torch: Any, warpconv: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A layer as PyTorch's users have it: depthwise, 8x32x28x28, 3x3, float32, and dense, float16, channels_last."""
    yield from _layer(torch, warpconv, "depthwise", 32, torch.float32, torch.contiguous_format)
    yield from _layer(torch, warpconv, "dense float16 NHWC", 1, torch.float16, torch.channels_last)


def _layer(torch: Any, warpconv: Any, kind: str, groups: int, dtype: Any,
           order: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    import warpconv.torch as layers
    from warpconv.runtime.torch.operators import conv2d as operator
    ours, theirs = (make(32, 32, 3, padding=1, groups=groups, device="cuda", dtype=dtype).to(memory_format=order)
                    for make in (layers.Conv2d, torch.nn.Conv2d))
    x = torch.randn(8, 32, 28, 28, device="cuda", dtype=dtype).contiguous(memory_format=order)
    still = torch.no_grad()
    rest = ([1, 1], [1, 1, 1, 1], [1, 1], groups, "zeros", 0.0, "auto", "bias", "auto", None, None, "nearest", None,
            None)
    w, b, theirs_w, theirs_b = ours.weight, ours.bias, theirs.weight, theirs.bias
    for who, layer in (("warpconv", copy.deepcopy(ours).eval()), ("torch", copy.deepcopy(theirs).eval())):
        yield f"{kind}: {who} module in eval, no_grad", still(lambda layer=layer: layer(x))
    yield f"{kind}: torch.ops.warpconv.conv2d, no_grad", still(lambda: operator(x, w, b, None, *rest))
    yield f"{kind}: torch F.conv2d, no_grad", still(
        lambda: torch.nn.functional.conv2d(x, theirs_w, theirs_b, padding=1, groups=groups))
    yield f"{kind}: torch.ops.warpconv.conv2d, recorded", lambda: operator(x, w, b, None, *rest)
    yield f"{kind}: warpconv.conv2d, recorded", lambda: warpconv.conv2d(x, w, b, padding=1, groups=groups)
    yield f"{kind}: warpconv module, recorded", lambda ours=ours: ours(x)
    yield f"{kind}: torch module, recorded", lambda theirs=theirs: theirs(x)
    yield f"{kind}: torch F.conv2d, recorded", lambda: torch.nn.functional.conv2d(x, theirs_w, theirs_b, padding=1,
                                                                                  groups=groups)
    grad = torch.randn_like(ours(x))
    for who, layer in (("warpconv", ours), ("torch", theirs)):
        yield f"{kind}: {who} forward and backward", lambda layer=layer: torch.autograd.grad(
            layer(x), [layer.weight, layer.bias], grad)


def _cupy(warpconv: Any, shape: Any, kernel: Any) -> Iterator[tuple[str, Callable[[], Any], Callable[[], None]]]:
    import cupy
    from cupyx.scipy import ndimage
    x, w, y = (cupy.ones(size, cupy.float32) for size in (shape.input_shape, shape.weight_shape, shape.output_shape))
    wait, image = cupy.cuda.Device().synchronize, x[0, 0]
    yield from _ours("cupy", warpconv, kernel, x, w, y, image, 2, wait)
    yield "cupy: cupyx gaussian_filter", lambda: ndimage.gaussian_filter(image, 1.0), wait


def _ours(library: str, warpconv: Any, kernel: Any, x: Any, w: Any, y: Any, image: Any, padding: int,
          wait: Callable[[], None]) -> Iterator[tuple[str, Callable[[], Any], Callable[[], None]]]:
    device = {"device": "cpu"} if kernel.device == "cpu" else {}
    taps = [[0, 1, 0], [1, -4, 1], [0, 1, 0]]
    yield f"{library}: kernel(x, w, out=y)", lambda: kernel(x, w, out=y), wait
    yield f"{library}: kernel(x, w)", lambda: kernel(x, w), wait
    yield f"{library}: conv2d(x, w)", lambda: warpconv.conv2d(x, w, padding=padding, **device), wait
    yield f"{library}: conv2d(x, w, out=y)", lambda: warpconv.conv2d(x, w, padding=padding, out=y, **device), wait
    yield (f"{library}: conv2d(x, w, padding=(p, p), out=y)",
           lambda: warpconv.conv2d(x, w, padding=(padding, padding), out=y, **device), wait)
    yield f"{library}: gaussian_filter(image, 1)", lambda: warpconv.gaussian_filter(image, 1.0, **device), wait
    yield f"{library}: correlate(image, 3x3)", lambda: warpconv.correlate(image, taps, **device), wait


def _nothing() -> None:
    pass


def warm(device: str) -> None:
    """Print the medians of all calls."""
    rows = list(calls(device))
    times: dict[str, list[float]] = {name: [] for name, _, _ in rows}
    for _, call, wait in rows:
        for _ in range(20):
            call()
        wait()
    for _ in range(ROUNDS):
        for name, call, wait in rows:
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append(1e6 * (time.perf_counter() - start) / CALLS)
            wait()
    for name, found in times.items():
        found.sort()
        print(f"{name:48s} {statistics.median(found):8.2f} us  (tenth {found[len(found) // 10]:.2f}, "
              f"nine tenths {found[-1 - len(found) // 10]:.2f})", flush=True)


def cold(device: str) -> None:
    """Print medians of new processes: import, context, first and second specialize; then a network's layers. What
    Python and Jinja make of source files is there, as after an installation and a first use."""
    with tempfile.TemporaryDirectory(prefix="warpconv-host-") as code:
        _cold(device, code)


def _cold(device: str, code: str) -> None:
    samples: dict[str, list[list[float]]] = {"cold": [], "disk": []}
    for sample in range(SAMPLES + 1):
        with tempfile.TemporaryDirectory(prefix="warpconv-host-") as cache:
            if not sample:
                _process(MANY, device, cache, code, WORKERS=None, LAYERS=resnet50())
            for found in samples.values():
                took = [1e3 * float(word) for word in _process(FIRST, device, cache, code)]
                if sample:
                    found.append(took)
    for kind, found in samples.items():
        words = ("import", "context", "first specialize", "second specialize")
        print(f"{kind}: " + ", ".join(f"{word} {statistics.median(column):.0f} ms"
                                      for word, column in zip(words, zip(*found))), flush=True)
    for workers in (1, None):
        with tempfile.TemporaryDirectory(prefix="warpconv-host-") as cache:
            layers, kernels, seconds = _process(MANY, device, cache, code, WORKERS=workers, LAYERS=resnet50())
        print(f"resnet50 cold: {layers} layers, {kernels} kernels, {workers or 'all'} workers: {float(seconds):.2f} s",
              flush=True)


def _process(program: str, device: str, cache: str, code: str, **names: Any) -> list[str]:
    """The words that a new process prints; ``code`` keeps compiled Python."""
    values = {"DEVICE": device, "LAYER": LAYER, **names}
    text = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + program
    variables = {**os.environ, "WARPCONV_CACHE_DIR": cache, "WARPCONV_PACK": "", "WARPCONV_DISABLE_CACHE": "",
                 "PYTHONPYCACHEPREFIX": code, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=variables, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--cold", action="store_true", help="also new processes and a network's layers")
    given = parser.parse_args()
    for name in ("torch", "cupy"):
        if given.device == "cuda" and not importlib.util.find_spec(name):
            print(f"{name} is not installed: its rows are left out")
    warm(given.device)
    if given.cold:
        cold(given.device)


if __name__ == "__main__":
    main()
