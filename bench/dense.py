"""Dense layers beside cuDNN: ``python -m bench.dense [--batch 32] [--layout NCHW] [--dtype float32] [--network NAME]``.

The convolutions of torchvision's ResNet-50 (each shape once), two first layers and ResNeXt-50's grouped ones, or those
of a network by name (bench/nets.py), in float16 or another type: the plan that select() takes, or the algorithms that
are named beside each other, against PyTorch with cuDNN in benchmark mode, its TF32 off but for ``--precision tf32``.
Both in CUDA graphs of several calls over inputs that rotate past the second-level cache; filters are prepared; medians
of five replays.

``--operation data_gradient --operation filter_gradient --batch 32`` measures gradients of ResNet-50's layers instead,
beside PyTorch's convolution_backward; all that a call launches is in its time. Of a network by name they are its.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from typing import Any

import click

from bench.beside import measure, measure_gradient
from bench.nets import NETS

OPERATIONS = ("forward", "data_gradient", "filter_gradient")
RESNET50 = 23               # of LAYERS, the first ones
# (C, H = W, filter, K, stride, padding, groups): ResNet-50, first layers, ResNeXt-50
LAYERS = (
    (64, 56, 1, 64, 1, 0, 1), (64, 56, 3, 64, 1, 1, 1), (64, 56, 1, 256, 1, 0, 1), (256, 56, 1, 64, 1, 0, 1),
    (256, 56, 1, 128, 1, 0, 1), (128, 56, 3, 128, 2, 1, 1), (256, 56, 1, 512, 2, 0, 1),
    (128, 28, 1, 512, 1, 0, 1), (512, 28, 1, 128, 1, 0, 1), (128, 28, 3, 128, 1, 1, 1),
    (512, 28, 1, 256, 1, 0, 1), (256, 28, 3, 256, 2, 1, 1), (512, 28, 1, 1024, 2, 0, 1),
    (256, 14, 1, 1024, 1, 0, 1), (1024, 14, 1, 256, 1, 0, 1), (256, 14, 3, 256, 1, 1, 1),
    (1024, 14, 1, 512, 1, 0, 1), (512, 14, 3, 512, 2, 1, 1), (1024, 14, 1, 2048, 2, 0, 1),
    (512, 7, 1, 2048, 1, 0, 1), (2048, 7, 1, 512, 1, 0, 1), (512, 7, 3, 512, 1, 1, 1), (3, 224, 7, 64, 2, 3, 1),
    (3, 224, 3, 32, 2, 1, 1), (128, 56, 3, 128, 1, 1, 32), (256, 28, 3, 256, 1, 1, 32),
    (512, 14, 3, 512, 1, 1, 32), (1024, 7, 3, 1024, 1, 1, 32))


def shape_of(layer: tuple[int, ...], batch: int, layout: str, dtype: str = "float16") -> Any:
    """The layer of a row."""
    from warpconv import ConvShape
    c, h, size, k, stride, padding, groups = layer
    return ConvShape(n=batch, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding, groups=groups,
                     dtype=dtype, layout=layout)


def layers_of(network: str | None, operation: str) -> tuple[tuple[int, ...], ...]:
    """Those of a network, or the usual ones: of gradients ResNet-50's, of data gradients without the first layer's."""
    layers = tuple(NETS[network]) if network else LAYERS if operation == "forward" else LAYERS[:RESNET50]
    return tuple(layer for layer in layers if operation != "data_gradient" or layer[0] > 3)


def build_ahead(work: list[tuple[Any, str]], precision: str, operation: str = "forward") -> None:
    """The kernels of layers by algorithms into the cache, several compilers at a time; what does not build says so
    where it is timed."""
    from warpconv.codegen.errors import WarpconvError
    from warpconv.codegen.spec import Operation
    from warpconv.runtime.build.parallel import as_done, workers_of
    from warpconv.runtime.build.pipeline import build
    from warpconv.runtime.call import kernels

    def made(item: tuple[Any, str]) -> None:
        shape, algorithm = item
        with contextlib.suppress(WarpconvError):
            build(kernels.plan_of(kernels.asked(shape, 0, algorithm=algorithm, precision=precision,
                                                operation=Operation(operation))))

    for _ in as_done(made, work, workers_of(None, "jobs")):
        pass


@click.command(help=__doc__.splitlines()[0])
@click.option("--batch", multiple=True, type=int, default=(32, 1), show_default=True)
@click.option("--layout", default="NHWC", show_default=True)
@click.option("--algorithm", multiple=True, default=("auto",), show_default=True)
@click.option("--dtype", default="float16", show_default=True)
@click.option("--precision", default="float32", show_default=True, help="Of float32 layers, as conv2d has it.")
@click.option("--network", type=click.Choice(list(NETS)), default=None, help="Its layers in place of the usual ones.")
@click.option("--operation", multiple=True, type=click.Choice(OPERATIONS), default=("forward",), show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the rows go as JSON.")
def main(batch: tuple[int, ...], layout: str, algorithm: tuple[str, ...], dtype: str, precision: str,
         network: str | None, operation: tuple[str, ...], output: str | None) -> None:
    import torch
    from warpconv.codegen.errors import UnsupportedSpec
    torch.backends.cudnn.benchmark = True
    rows: list[dict[str, Any]] = []
    work = [(layer, n, layout, name, what) for what in operation for n in batch for layer in layers_of(network, what)
            for name in algorithm]
    for what in operation:
        build_ahead([(shape_of(layer, n, layout, dtype), name) for layer, n, _, name, of in work if of == what],
                    precision, what)
    for layer, n, _, name, what in work:
        shape = shape_of(layer, n, layout, dtype)
        try:
            found = (measure(torch, shape, name, precision=precision) if what == "forward"
                     else measure_gradient(torch, shape, what, name, precision=precision))
        except UnsupportedSpec as error:
            click.echo(f"{n:3} {str(layer):36} {name:8} declined: {error.reason}")
            continue
        rows.append(last := {"layer": layer, "batch": n, "layout": layout, "asked": name, "of": what, **found})
        click.echo(f"{n:3} {str(layer):36} {last['algorithm']:8} ours {last['ours']:8.1f} us  cuDNN "
                   f"{last['cudnn']:8.1f}  {last['ratio']:5.2f}x  {last['tflops']:6.1f} TFLOP/s  error "
                   f"{last['error']:.1e}")
    for what, n, name in itertools.product(operation, batch, algorithm):
        ratios = [r["ratio"] for r in rows if (r["of"], r["batch"], r["asked"]) == (what, n, name)]
        mean = math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))
        click.echo(f"{what}, batch {n}, {name}: geometric mean of {len(ratios)} layers {mean:.2f}x")
    if output:
        with open(output, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "cudnn": torch.backends.cudnn.version(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
