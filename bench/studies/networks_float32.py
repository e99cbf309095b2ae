"""The convolutions of torchvision's networks in float32, each beside cuDNN: as exact as float32, and in TF32."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.beside import REPLAYS, measure
from bench.devices import NoDevice
from bench.harness import compile_ahead
from bench.nets import NETS, Layer
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

from . import networks

BATCHES, PRECISIONS = (32,), ("float32", "tf32")

ABOUT = f"""
Every distinct convolution of torchvision's networks (224 x 224; bench/nets.py), float32, a batch of 32, in NHWC
(channels_last) and NCHW, by `precision="float32"`, the default (docs/precision.md), beside cuDNN with its TF32 off,
and by `precision="tf32"` beside cuDNN with it on. All else is as in the study networks: PyTorch's conv2d in benchmark
mode, CUDA graphs of several calls over inputs that rotate past the second-level cache, medians of {REPLAYS} replays,
layout passes in the time, results compared.

The floor of a layer is its bytes at copy speed (4.2 TB/s) or its products, once, at the rate that cuBLAS reaches in
float16 (790 TFLOP/s), whichever takes longer; the default makes three products of float16 at best, TF32 has half of
that rate. A ratio above 1 says that ours is quicker.
"""


def shape_of(layer: Layer, batch: int, layout: str) -> ConvShape:
    return networks.shape_of(layer, batch, layout, "float32")


def run(context: Context) -> None:
    import torch
    if context.device.kind == "host":
        raise NoDevice("cuDNN is on a GPU")
    torch.backends.cudnn.benchmark = True
    layers = networks.cases(networks.QUICK if context.quick else NETS, BATCHES)
    chosen = [(precision, *case) for case in layers for precision in PRECISIONS]
    context.expect(len(chosen))
    left = [(precision, case) for precision, *case in chosen if not context.report.done(key_of(precision, *case))]
    compile_ahead(context.device, [lambda precision=precision, case=case: plan_layer(shape_of(*case),
                                                                                     precision=precision)
                                   for precision, case in left])
    for precision, layer, batch, layout in chosen:
        shape = shape_of(layer, batch, layout)
        context.row(key_of(precision, layer, batch, layout),
                    lambda shape=shape, precision=precision: measure(torch, shape, replay_us=networks.REPLAY_US,
                                                                     precision=precision),
                    layer=list(layer), batch=batch, layout=layout, precision=precision, macs=shape.macs)


def key_of(precision: str, layer: Layer, batch: int, layout: str) -> str:
    return f"{precision}/{networks.key_of(layer, batch, layout)}"


def tables(rows: Rows) -> Iterable[Table]:
    chosen = [(precision, layout, batch) for batch in BATCHES for layout in networks.LAYOUTS
              for precision in PRECISIONS]
    for precision, layout, batch in chosen:
        yield from networks.summed(f"{precision}, {layout}, batch {batch}", _of(rows, precision, layout, batch))
    for precision, layout, batch in chosen:
        yield from networks.every(f"{precision}, {layout}, batch {batch}", _of(rows, precision, layout, batch))


def _of(rows: Rows, precision: str, layout: str, batch: int) -> list[dict[str, Any]]:
    return [row for row in rows.values() if row["status"] == OK
            and (row["precision"], row["layout"], row["batch"]) == (precision, layout, batch)]


STUDY = Study("networks_float32", "the convolutions of torchvision's networks in float32, as exact as that and in "
              "TF32, each beside cuDNN", ABOUT, run, tables)
