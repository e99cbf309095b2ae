"""What the demo does, without printing: run, count, compare, write."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpconv.codegen.errors import ArgumentError, ToolNotFound
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.filters import layer_arrays, weights
from warpconv.images import Picture, finish, read_picture, to_image, write_image
from warpconv.records.runs import DemoRecord, DemoRow
from warpconv.runtime.accuracy.measure import measure, measure_unit
from warpconv.runtime.accuracy.reference import compare
from warpconv.runtime.build.parallel import as_done
from warpconv.runtime.call.conv import specialize
from warpconv.runtime.call.kernel import Kernel

from .files import write_text
from .filter import load_weights
from .inspect_record import unit_rows
from .run import accuracy_row
from .sheet import contact_sheet, wrapped
from .wording import worded

PHOTOGRAPH = "grace_hopper.jpg"
QUALITY = 85


@dataclass(frozen=True)
class Layer:
    """One layer of the demo: planes (P, H, W) through filters (K, 1, R, S)."""

    name: str
    planes: np.ndarray
    filters: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return layer_arrays(self.planes.astype(np.float32), self.filters)

    @property
    def shape(self) -> ConvShape:
        x, w = self.arrays
        return ConvShape.of(x.shape, w.shape, padding="same")


@dataclass(frozen=True)
class Photograph:
    """The picture and the largest layer it goes through."""

    picture: Picture

    @property
    def layer(self) -> ConvShape:
        return Layer("", self.picture.planes, np.ones((7, 7), np.float32)).shape


def photograph() -> tuple[Photograph, str]:
    """The photograph in matplotlib's sample data, and where it lies. Raises ToolNotFound without matplotlib."""
    try:
        from matplotlib import cbook
    except ImportError as error:
        raise ToolNotFound("the demo's photograph is one of matplotlib's", argument="package", value="matplotlib",
                           hint='pip install "warpconv[demo]"') from error
    path = cbook.get_sample_data(PHOTOGRAPH, asfileobj=False)
    return Photograph(read_picture(path)), str(path)


def seven_by_seven(kernel: str) -> np.ndarray:
    """The filter of the user's choice. Raises ArgumentError for one that is not 7x7, and as load_weights."""
    chosen = load_weights(kernel)
    if chosen.shape != (7, 7):
        raise ArgumentError(f"the demo's third filter is 7x7, this one is {chosen.shape[0]}x{chosen.shape[1]}",
                            argument="--kernel", value=kernel, hint="for instance emboss:7, gaussian:7,1.5 or log:7")
    return chosen


def run_demo(photo: Photograph, path: str, device: str, folder: Path, kernel: str, chosen: np.ndarray) -> DemoRecord:
    """Run the three layers, count, compare, write sources and pictures. Raises as specialize and write_whole."""
    start = time.perf_counter()
    picture = photo.picture
    layers = [Layer("gaussian 5x5", picture.planes, weights("gaussian:5,1.2")),
              Layer("sobel 3x3", picture.gray()[None], np.stack([weights("sobel-x"), weights("sobel-y")])[:, None]),
              Layer(f"{kernel.partition(':')[0]} 7x7", picture.planes, chosen)]
    made: dict[int, tuple[Kernel, dict[str, Any], str | None]] = {}
    with contextlib.closing(as_done(lambda number: _build_and_count(layers[number], device), range(len(layers)),
                                    2)) as finished:        # compiling takes longest
        for number, future in finished:
            made[number] = future.result()
    counted = [made[number] for number in range(len(layers))]
    results, rows = zip(*(_run(layer, kernel, folder, counts) for layer, (kernel, counts, _) in zip(layers, counted)))
    reason = next((reason for _, _, reason in counted if reason), None)
    pictures = _write_pictures(picture, results, layers[2].name, folder)
    return DemoRecord(photograph=path, device=device, folder=str(folder), layers=tuple(rows), counts_reason=reason,
                      pictures=tuple(map(str, pictures)), seconds=time.perf_counter() - start)


def _build_and_count(layer: Layer, device: str) -> tuple[Kernel, dict[str, Any], str | None]:
    kernel = specialize(layer.shape, device=device)
    return kernel, *_counts(kernel.plan, layer.shape.with_batch(1))


def _counts(plan: Any, shape: ConvShape) -> tuple[dict[str, Any], str | None]:
    """Counted for one plane of the photograph, for this kernel and for the direct one; else nulls, and why."""
    none = {"unit": None, "units": (), "loads_per_32": None, "direct_loads_per_32": None, "shuffles_per_32": None}
    if plan is None:
        return none, "the kernel came from a pack, which does not keep plans"
    try:
        unit, ours = measure_unit(plan), measure(plan, shape)
        direct = measure(plan_layer(shape, algorithm="direct", arch=plan.spec.arch, settings={"k_tile": 1}), shape)
    except ToolNotFound as error:
        return none, str(worded(error))
    warps = shape.k * shape.p * shape.q / 32
    return {"unit": plan.cost.unit, "units": unit_rows(unit) if unit else (),
            "loads_per_32": ours.buffers["x"].load_requests / warps,
            "direct_loads_per_32": direct.buffers["x"].load_requests / warps,
            "shuffles_per_32": ours.shuffles / warps}, None


def _run(layer: Layer, kernel: Kernel, folder: Path, counts: dict[str, Any]) -> tuple[np.ndarray, DemoRow]:
    """The layer's result and row; the second of two calls is timed, the first loads and pages in."""
    x, w = layer.arrays
    kernel(x, w)
    begin = time.perf_counter()
    output = kernel(x, w)
    seconds = time.perf_counter() - begin
    source = write_text(folder / f"{layer.name.replace(' ', '_')}.cu", kernel.source)
    accuracy = accuracy_row(compare(output, x, w, layer.shape))
    return output, DemoRow(name=layer.name, layer=str(layer.shape), algorithm=kernel.spec.algorithm,
                           source=str(source), seconds=seconds, accuracy=accuracy, **counts)


def _write_pictures(picture: Picture, results: Sequence[np.ndarray], third: str, folder: Path) -> list[Path]:
    gauss, sobel, chosen = results
    shown = {"gaussian_5x5": finish(gauss[:, 0], np.uint8)[0],
             "sobel_x": finish(sobel[0, :1], np.uint8, scale=0.25, offset=128)[0],
             "sobel_y": finish(sobel[0, 1:], np.uint8, scale=0.25, offset=128)[0],
             "sobel_magnitude": finish(np.hypot(sobel[0, :1], sobel[0, 1:]), np.uint8, scale=0.5)[0],
             third.replace(" ", "_"): finish(chosen[:, 0], np.uint8)[0]}
    images = {"photograph": to_image(picture),
              **{name: to_image(Picture(planes=planes)) for name, planes in shown.items()}}
    paths = [write_image(folder / f"{name}.jpg", image, quality=QUALITY) for name, image in images.items()
             if name != "photograph"]
    sheet = contact_sheet(wrapped([(name.replace("_", " "), image) for name, image in images.items()]))
    return [*paths, write_image(folder / "contact_sheet.jpg", sheet, quality=QUALITY)]
