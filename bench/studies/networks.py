"""The convolutions of torchvision's networks in float16, each beside cuDNN, and their sums by network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from bench.beside import REPLAYS, measure
from bench.devices import NoDevice
from bench.harness import compile_ahead
from bench.nets import NETS, Layer
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

BATCHES, LAYOUTS = (32, 1), ("NHWC", "NCHW")
QUICK = ("resnet50",)
REPLAY_US = 1.5e3           # of a graph of either side
LEAST_RATIO = 0.8           # layers slower than that stand by name

ABOUT = f"""
Every distinct convolution of torchvision's networks (224 x 224; bench/nets.py), float16, for batches of 32 and of one,
in NHWC (channels_last) and NCHW: the plan that select() takes, its filter prepared, beside PyTorch's conv2d with cuDNN
in benchmark mode on the same arrays. Both are CUDA graphs of several calls over inputs that rotate past the
second-level cache; medians of {REPLAYS} replays; all that a call launches is in its time, layout passes and sums of
split tiles too. Results are compared: the difference's norm stays below 2e-3 of the result's, or the row fails.

A network's time is the sum over its convolutions, each as often as the network has it; nothing else of the network is
in it. The floor of a layer is its bytes at copy speed (4.2 TB/s) or its products at the rate that cuBLAS reaches in
float16 (790 TFLOP/s), whichever takes longer. A ratio above 1 says that ours is quicker.
"""


def shape_of(layer: Layer, batch: int, layout: str, dtype: str = "float16") -> ConvShape:
    c, h, size, k, stride, padding, groups = layer
    return ConvShape(n=batch, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding, groups=groups,
                     dtype=dtype, layout=layout)


def key_of(layer: Layer, batch: int, layout: str) -> str:
    return f"{layout}/{batch}/{'-'.join(map(str, layer))}"


def cases(nets: Iterable[str], batches: Iterable[int] = BATCHES) -> Iterator[tuple[Layer, int, str]]:
    """Each distinct layer of some networks, NHWC and the larger batch first."""
    layers = dict.fromkeys(layer for net in nets for layer in NETS[net])
    yield from ((layer, batch, layout) for batch in batches for layout in LAYOUTS for layer in layers)


def run(context: Context) -> None:
    import torch
    if context.device.kind == "host":
        raise NoDevice("cuDNN is on a GPU")
    torch.backends.cudnn.benchmark = True
    chosen = list(cases(QUICK if context.quick else NETS))
    context.expect(len(chosen))
    left = [case for case in chosen if not context.report.done(key_of(*case))]
    compile_ahead(context.device, [lambda case=case: plan_layer(shape_of(*case)) for case in left])
    for layer, batch, layout in chosen:
        shape = shape_of(layer, batch, layout)
        context.row(key_of(layer, batch, layout), lambda shape=shape: measure(torch, shape, replay_us=REPLAY_US),
                    layer=list(layer), batch=batch, layout=layout, macs=shape.macs)


def tables(rows: Rows) -> Iterable[Table]:
    for batch in BATCHES:
        for layout in LAYOUTS:
            yield from summed(f"{layout}, batch {batch}", _of(rows, batch, layout))
    for batch in BATCHES:
        for layout in LAYOUTS:
            yield from every(f"{layout}, batch {batch}", _of(rows, batch, layout))


def _of(rows: Rows, batch: int, layout: str) -> list[dict[str, Any]]:
    return [row for row in rows.values() if (row["batch"], row["layout"]) == (batch, layout) and row["status"] == OK]


def summed(title: str, listed: list[dict[str, Any]]) -> Iterator[Table]:
    """By network, and the slowest layers."""
    if listed:
        measured = {tuple(row["layer"]): row for row in listed}
        yield _sums(title, measured)
        yield _slowest(title, measured)


def every(title: str, listed: list[dict[str, Any]]) -> Iterator[Table]:
    if listed:
        yield Table(f"Every layer: {title}", _COLUMNS, tuple(map(_line, listed)))


def _sums(title: str, measured: dict[Any, dict[str, Any]]) -> Table:
    """By network; one whose layers were not all measured is left out."""
    whole = {net: layers for net, layers in NETS.items() if all(layer in measured for layer in layers)}
    left = [net for net in NETS if net not in whole]
    found = []
    for net, layers in whole.items():
        ours, cudnn, floor = (sum(count * measured[layer][side] for layer, count in layers.items())
                              for side in ("ours", "cudnn", "floor"))
        least = min(layers, key=lambda layer: measured[layer]["ratio"])
        found.append((net, sum(layers.values()), len(layers), round(ours, 1), round(cudnn, 1), round(floor, 1),
                      round(cudnn / ours, 2), round(measured[least]["ratio"], 2), _named(least)))
    ratios = [row[6] for row in found]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    return Table(f"Networks: {title}",
                 ("network", "convolutions", "distinct", "ours us", "cuDNN us", "floor us", "cuDNN / ours",
                  "least of a layer", "that layer"), tuple(found),
                 f"Geometric mean over these networks: {mean:.2f}." + (
                     f" Left out, since not all of their layers were measured: {', '.join(left)}." if left else ""))


def _slowest(title: str, measured: dict[Any, dict[str, Any]]) -> Table:
    slow = sorted((row for row in measured.values() if row["ratio"] < LEAST_RATIO), key=lambda row: row["ratio"])
    return Table(f"Layers below {LEAST_RATIO} of cuDNN's speed: {title}", _COLUMNS,
                 tuple(map(_line, slow)), f"{len(slow)} of {len(measured)}.")


_COLUMNS = ("layer", "algorithm", "splits", "ours us", "cuDNN us", "floor us", "cuDNN / ours")


def _line(row: dict[str, Any]) -> tuple[Any, ...]:
    plan = row.get("plan") or {}
    return (_named(row["layer"]), row["algorithm"], plan.get("splits"), round(row["ours"], 1), round(row["cudnn"], 1),
            round(row["floor"], 1), round(row["ratio"], 2))


def _named(layer: Iterable[int]) -> str:
    c, h, size, k, stride, _, groups = layer
    return (f"{c} -> {k}, {size}x{size} on {h}^2" + (f", stride {stride}" if stride > 1 else "")
            + (f", {groups} groups" if groups > 1 else ""))


STUDY = Study("networks", "the convolutions of torchvision's networks in float16, each beside cuDNN, and their sums",
              ABOUT, run, tables)
