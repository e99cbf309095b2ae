"""Images of differing sizes: one call on a list against one call each, ours and CuPy's."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import warpconv
from bench.devices import NoDevice
from bench.harness import measure
from bench.reference import WrongResult
from bench.report.files import Table
from bench.study import Context, Rows, Study
from warpconv.codegen.dtypes import DType

COUNT, LEAST, MOST = 1000, 64, 512
TRIAL = 6           # images, small ones, where times mean nothing
ROUNDS = 15
DTYPES = ("float32", "uint8")
TAPS = (np.arange(25).reshape(5, 5) * 7 % 25 - 11) / 64      # of no two lines the product; float32 has them exactly
TOLERANCE = 1e-4    # of floats, beside the largest value; integers may be one apart where a fraction is cut off

ABOUT = f"""
{COUNT} gray images whose heights and widths are drawn from {LEAST} to {MOST} pixels (seed 1), on the GPU. *List*:
one call of `warpconv.correlate` or `gaussian_filter` on the list, new images as results; *list, out*: into arrays that
there are; *one each*: a call of ours for each image, every one known from the round before, results new; *CuPy*:
`cupyx.scipy.ndimage` on each. Milliseconds of the wall clock from the first call to the end of the GPU's work, medians
of {ROUNDS} rounds taken in turns. *host*: until the list's call has returned; *GPU*: its work alone, between events
behind a kernel that waits; *copy*: a device copy of as many bytes as the images and results have.

5x5: one filter of 25 weights for all; *own 5x5*: {COUNT} filters, each image has its own (against one call each without
one); gaussian: sigma 2, 17 taps along each axis, in one kernel by its factors. Checked before it is timed: every image
of the list's results against its own call's.
"""


@dataclass(frozen=True)
class Row:
    """A filter on images of a type."""

    filter: str
    dtype: str

    @property
    def key(self) -> str:
        return f"{self.filter}/{self.dtype}"

    def call(self, images: Any, module: Any = warpconv, weights: Any = TAPS, **more: Any) -> Any:
        """The filter by a module with SciPy's names, on an image or a list."""
        if self.filter == "gaussian":
            return module.gaussian_filter(images, 2, **more)
        return module.correlate(images, weights, **more)


def rows() -> list[Row]:
    return [Row(name, dtype) for name in ("5x5", "gaussian", "own 5x5") for dtype in DTYPES]


def run(context: Context) -> None:
    chosen = [row for row in rows() if not context.quick or row.filter != "own 5x5"]
    context.expect(len(chosen))
    for row in chosen:
        context.device.free()
        context.row(row.key, lambda row=row: _measured(context.device, row), kind="batch", filter=row.filter,
                    dtype=row.dtype)


def drawn_sizes(trial: bool) -> list[tuple[int, int]]:
    rng = np.random.default_rng(1)
    most = LEAST if trial else MOST
    return [(int(h), int(w)) for h, w in rng.integers(8 if trial else LEAST, most + 1, (TRIAL if trial else COUNT, 2))]


def _measured(device: Any, row: Row) -> dict[str, Any]:
    sizes, dtype = drawn_sizes(device.trial), DType(row.dtype)
    images = [device.random(size, i, dtype) for i, size in enumerate(sizes)]
    outputs = [device.poisoned(size, dtype) for size in sizes]
    own = {"weights": [np.roll(TAPS, i) for i in range(len(sizes))]} if row.filter.startswith("own") else {}
    where = {"device": device.target}
    calls: dict[str, Callable[[], Any]] = {
        "list": lambda: row.call(images, **own, **where),
        "out": lambda: row.call(images, output=outputs, **own, **where),
        "each": lambda: [row.call(image, **where) for image in images]}
    _check(device, row, calls, own, images, outputs)
    found: dict[str, Any] = {"images": len(sizes), "megapixels": sum(h * w for h, w in sizes) / 1e6}
    try:
        calls["cupy"] = _by_cupy(device, row, images)
    except NoDevice as reason:
        found["cupy_reason"] = str(reason)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for number in range(3 if device.trial else ROUNDS + 1):
        for name, call in calls.items():
            once = _wall(device, call)
            if number:      # the first makes what the others know
                taken[name].append(once)
    for name, times in taken.items():
        found[f"{name}_ms"] = statistics.median(end for _, end in times)
    found["host_ms"] = statistics.median(host for host, _ in taken["list"])
    found["speedup"] = found["each_ms"] / found["list_ms"]
    found["out_speedup"] = found["each_ms"] / found["out_ms"]
    found["gpu_ms"] = measure(device, [calls["out"]], graph=False).ms
    flat, target = (device.poisoned((sum(h * w for h, w in sizes),), dtype) for _ in range(2))
    found["copy_ms"] = measure(device, [lambda: device.copy(target, flat)], graph=False).ms
    found["ms"] = found["list_ms"]
    return found


def _wall(device: Any, call: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds until a call has returned, and until the GPU is done."""
    device.synchronize()
    start = time.perf_counter()
    kept = call()
    returned = time.perf_counter()
    device.synchronize()
    end = time.perf_counter()
    del kept
    return 1e3 * (returned - start), 1e3 * (end - start)


def _by_cupy(device: Any, row: Row, images: list[Any]) -> Callable[[], Any]:
    """CuPy's filter on each. Raises NoDevice where there is none, WrongResult where it differs."""
    if device.kind == "host":
        raise NoDevice("the host has no CuPy arrays")
    if row.filter.startswith("own"):
        raise NoDevice("as 5x5")
    try:
        cupy, ndimage = importlib.import_module("cupy"), importlib.import_module("cupyx.scipy.ndimage")
    except ImportError as error:
        raise NoDevice(f"CuPy cannot be imported ({error})") from None
    theirs = [cupy.asarray(image) for image in images]
    weights = cupy.asarray(TAPS, cupy.float32)
    return lambda: [row.call(image, ndimage, weights) for image in theirs]


def _check(device: Any, row: Row, calls: dict[str, Callable[[], Any]], own: dict[str, Any], images: list[Any],
           outputs: list[Any]) -> None:
    """Raises WrongResult where an image of the list's results is not what its own call gives."""
    weights = own.get("weights", [TAPS] * len(images))
    expected = [row.call(image, weights=w, device=device.target) for image, w in zip(images, weights)]
    calls["out"]()
    for results in (calls["list"](), outputs):
        for number, (each, wanted) in enumerate(zip(results, expected)):
            wanted = device.double(wanted)
            error = abs(device.double(each) - wanted)
            if device.is_integer(each):     # modulo 2^bits
                wrong = float(((error > 1) & (error < 255)).sum())
            else:
                wrong = float((~(error <= TOLERANCE * abs(wanted).max())).sum())
            if wrong:
                raise WrongResult(f"image {number} differs in {wrong:.0f} pixels")


def tables(rows: Rows) -> list[Table]:
    """Every row, its floor, and what one call saves."""
    measured = [row for row in rows.values() if row.get("kind") == "batch" and row.get("ms") is not None]
    lines = tuple((r["filter"], r["dtype"], r["images"], r["list_ms"], r["host_ms"], r["gpu_ms"], r["copy_ms"],
                   r["out_ms"], r["each_ms"], r["speedup"], r["out_speedup"], r.get("cupy_ms"),
                   r["cupy_ms"] / r["list_ms"] if r.get("cupy_ms") else None) for r in measured)
    found = [Table("Lists of images", ("filter", "type", "images", "list ms", "host ms", "GPU ms", "copy ms",
                                       "list, out ms", "one each ms", "x", "x, out", "CuPy ms", "x CuPy"), lines)]
    missing = tuple((row["key"], row["status"]) for row in rows.values() if row["status"] != "ok")
    return found + ([Table("Not measured", ("row", "why"), missing)] if missing else [])


STUDY = Study("batches", "lists of images of differing sizes in one call against one call each, and CuPy", ABOUT, run,
              tables)
