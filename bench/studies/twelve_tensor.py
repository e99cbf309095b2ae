"""The im2win paper's twelve layers on the tensor cores, beside cuDNN; 1x1 layers beside cuBLAS; Hopper's form beside
the portable one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any

from bench.beside import REPLAYS, measure
from bench.devices import NoDevice
from bench.harness import compile_ahead
from bench.nets import NETS
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.select import plan_layer, select
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.layers import read_layers

from . import networks, twelve_tensor_plot
from .twelve_layers import QUICK
from .twelve_tables import TWELVE

REPLAY_US = 3e3
FIRST = ("conv1", "conv2", "conv3", "conv7")        # of three channels
PORTABLE = "sm_80"                                  # what is taken for it, on the device at hand

ABOUT = f"""
The twelve layers of the im2win paper (arXiv 2306.14316), batch 128, no padding, as in the study twelve_layers; means,
geometric, are over the twelve with conv4_mec (64 channels) for layer 4. In float16 and bfloat16, in float32 by the
default (`precision="float32"`, docs/precision.md) and by `precision="tf32"`, each in NHWC (channels_last) and NCHW: the
plan that select() takes, its filter prepared, beside PyTorch's conv2d with cuDNN in benchmark mode on the same arrays,
its TF32 on for our `tf32` alone. Both are CUDA graphs of several calls over inputs that rotate past the second-level
cache; medians of {REPLAYS} replays; all that a call launches is in its time, layout passes too. Results are compared:
the difference's norm stays below 2e-3 of the result's, or the row fails.

*{PORTABLE}* is the same by the algorithm that is taken for sm_80 (`mma`, `taps`), on this device. *products* are
ResNet-50's 1x1 layers of stride 1 in float16, batch 32, beside cuBLAS on the same matrices (torch.mm, by cuBLAS's
heuristic).

The floor of a layer is its bytes at copy speed (4.2 TB/s) or its products, once, at the rate that cuBLAS reaches in
float16 (790 TFLOP/s), whichever takes longer; the default of float32 makes three products of float16 at best, TF32 has
half of that rate. A ratio above 1 says that ours is quicker.
"""


@dataclass(frozen=True)
class Case:
    """A row: a layer, the way it is computed, and what stands beside it."""

    way: str                    # an element type, or tf32; PORTABLE; products
    name: str
    shape: ConvShape

    @property
    def key(self) -> str:
        return f"{self.way}/{self.shape.layout.value}/{self.name}"

    @property
    def asked(self) -> dict[str, Any]:
        """What of measure()'s is not its default."""
        if self.way == PORTABLE:
            return {"algorithm": select(self.shape, PORTABLE).algorithm}
        return {"tf32": {"precision": "tf32"}, "products": {"peer": "cublas"}}.get(self.way, {})


def cases() -> Iterator[Case]:
    """Every row's, in the order of measuring."""
    layers = {layer.name: layer.shape for layer in read_layers("twelve_layers")}
    ways = (*((way, way, layout) for way in ("float16", "bfloat16", "float32") for layout in networks.LAYOUTS),
            *(("tf32", "float32", layout) for layout in networks.LAYOUTS), (PORTABLE, "float16", "NHWC"))
    for way, dtype, layout in ways:
        for name, shape in layers.items():
            yield Case(way, name, replace(shape, dtype=dtype, layout=layout))
    for layer in NETS["resnet50"]:
        c, h, size, k, stride, _, _ = layer
        if (size, stride) == (1, 1):
            yield Case("products", f"{c}-{h}-{k}", networks.shape_of(layer, 32, "NHWC"))


def run(context: Context) -> None:
    import torch
    if context.device.kind == "host":
        raise NoDevice("cuDNN is on a GPU")
    torch.backends.cudnn.benchmark = True
    chosen = [case for case in cases() if not context.quick or case.name in QUICK]
    context.expect(len(chosen))
    compile_ahead(context.device, [_planned(case) for case in chosen if not context.report.done(case.key)])
    for case in chosen:
        context.row(case.key, lambda case=case: measure(torch, case.shape, replay_us=REPLAY_US, **case.asked),
                    way=case.way, name=case.name, layout=case.shape.layout.value, macs=case.shape.macs,
                    bytes=case.shape.bytes_moved)


def _planned(case: Case) -> Callable[[], Any]:
    asked = {name: value for name, value in case.asked.items() if name != "peer"}
    return lambda: plan_layer(case.shape, **asked)


def tables(rows: Rows) -> Iterable[Table]:
    found = {key: row for key, row in rows.items() if row["status"] == OK}
    yield Table("Targets", ("target", "must", "reached", "layers", "the least", "its value", "met"),
                tuple(target.line(found) for target in TARGETS),
                "A mean's target is met by the mean, one of each layer by the least; all layers have to be measured.")
    for way, layout in dict.fromkeys((row["way"], row["layout"]) for row in found.values()):
        chosen = [row for row in found.values() if (row["way"], row["layout"]) == (way, layout)]
        peer = "cuBLAS" if way == "products" else "cuDNN"
        yield Table(f"{way}, {layout}", ("layer", "algorithm", "numerics", "ours us", f"{peer} us", "floor us",
                                         f"{peer} / ours", "of the floor", "TFLOP/s"), tuple(map(_line, chosen)))


def _line(row: Mapping[str, Any]) -> tuple[Any, ...]:
    theirs = row["ratio"] * row["ours"]
    return (row["name"], row["algorithm"], row["numerics"], round(row["ours"], 1), round(theirs, 1),
            round(row["floor"], 1), round(row["ratio"], 2), round(row["floor"] / row["ours"], 2), round(row["tflops"]))


@dataclass(frozen=True)
class Target:
    """What is asked of some rows, in the mean or of each."""

    text: str
    must: float
    each: bool
    keys: tuple[str, ...]
    value: Callable[[Mapping[str, Any], str], float | None]     # of all rows and a key; None: not measured

    def line(self, rows: Mapping[str, Mapping[str, Any]]) -> tuple[Any, ...]:
        values = {key: self.value(rows, key) for key in self.keys if key in rows}
        found = {key: value for key, value in values.items() if value is not None}
        if not found:
            return self.text, self.must, None, f"0 of {len(self.keys)}", None, None, None
        least = min(found, key=lambda key: found[key])
        reached = found[least] if self.each else geometric_mean(found.values())
        met = "yes" if reached >= self.must and len(found) == len(self.keys) else "no"
        return (self.text, self.must, round(reached, 2), f"{len(found)} of {len(self.keys)}",
                least.rpartition("/")[2], round(found[least], 2), met)


def _ratio(rows: Mapping[str, Mapping[str, Any]], key: str) -> float:
    return float(rows[key]["ratio"])


def _of_floor(rows: Mapping[str, Mapping[str, Any]], key: str) -> float:
    return float(rows[key]["floor"] / rows[key]["ours"])


def _beside_tf32(rows: Mapping[str, Mapping[str, Any]], key: str) -> float | None:
    """cuDNN's TF32 over ours of the default."""
    beside = rows.get(key.replace("float32/", "tf32/", 1))
    return float(beside["cudnn"] / rows[key]["ours"]) if beside is not None else None


def _of_hopper(rows: Mapping[str, Mapping[str, Any]], key: str) -> float | None:
    """The speed of the portable form beside what select() takes."""
    beside = rows.get(key.replace(f"{PORTABLE}/", "float16/", 1))
    return float(beside["ours"] / rows[key]["ours"]) if beside is not None else None


def _targets() -> Iterator[Target]:
    def of(way: str, layout: str, names: Iterable[str] = TWELVE) -> tuple[str, ...]:
        return tuple(f"{way}/{layout}/{name}" for name in names)

    products = tuple(case.key for case in cases() if case.way == "products")
    for way, layout, least, most in (("float16", "NHWC", 0.97, 1.4), ("float32", "NCHW", 1.0, 2.5),
                                     ("float32", "NHWC", 1.1, 3.0)):
        yield Target(f"{way} {layout}: cuDNN / ours, mean", most, False, of(way, layout), _ratio)
        yield Target(f"{way} {layout}: cuDNN / ours, each layer", least, True, of(way, layout), _ratio)
    yield Target("float32 NCHW: cuDNN's TF32 / our default, mean", 0.9, False, of("float32", "NCHW"), _beside_tf32)
    for layout in networks.LAYOUTS:
        yield Target(f"tf32 {layout}: cuDNN's TF32 / ours, mean", 1.0, False, of("tf32", layout), _ratio)
    for way, layout in (("float16", "NHWC"), ("float32", "NHWC"), ("float32", "NCHW")):
        yield Target(f"first layers, {way} {layout}: part of the floor, each", 0.6, True, of(way, layout, FIRST),
                     _of_floor)
    yield Target("1x1 layers as products, float16: cuBLAS / ours, mean", 0.95, False, products, _ratio)
    yield Target(f"float16 NHWC: what {PORTABLE} has, beside what is taken, mean", 0.5, False,
                 of(PORTABLE, "NHWC"), _of_hopper)


TARGETS = tuple(_targets())

STUDY = Study("twelve_tensor", "the twelve layers on tensor cores in 16 bits, float32 and TF32 beside cuDNN, 1x1 "
              "layers beside cuBLAS", ABOUT, run, tables, twelve_tensor_plot.roofline)
