"""Dense layers beside cuDNN: ``python -m bench.dense [--batch 32] [--layout NCHW] [--dtype float32] [--network NAME]``.

The convolutions of torchvision's ResNet-50 (each shape once), two first layers and ResNeXt-50's grouped ones, or those
of a network by name (bench/nets.py), in float16 or another type: the plan that select() takes, or the algorithms that
are named beside each other, against PyTorch with cuDNN in benchmark mode, its TF32 off but for ``--precision tf32``.
Both in CUDA graphs of several calls over inputs that rotate past the second-level cache; filters are prepared; medians
of five replays.
"""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import click

from bench.beside import measure
from bench.nets import NETS

Item = tuple[tuple[int, ...], int, str, str]
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


def build_ahead(work: list[Item], dtype: str, precision: str) -> None:
    """All kernels into the cache, several compilers at a time; what does not build says so where it is timed."""
    from warpconv.codegen.errors import WarpconvError
    from warpconv.runtime.build.parallel import as_done, workers_of
    from warpconv.runtime.build.pipeline import build
    from warpconv.runtime.call import kernels

    def made(item: Item) -> None:
        layer, batch, layout, algorithm = item
        with contextlib.suppress(WarpconvError):
            build(kernels.plan_of(kernels.asked(shape_of(layer, batch, layout, dtype), 0, algorithm=algorithm,
                                                precision=precision)))

    for _ in as_done(made, work, workers_of(None, "jobs")):
        pass


@click.command(help=__doc__.splitlines()[0])
@click.option("--batch", multiple=True, type=int, default=(32, 1), show_default=True)
@click.option("--layout", default="NHWC", show_default=True)
@click.option("--algorithm", multiple=True, default=("auto",), show_default=True)
@click.option("--dtype", default="float16", show_default=True)
@click.option("--precision", default="float32", show_default=True, help="Of float32 layers, as conv2d has it.")
@click.option("--network", type=click.Choice(list(NETS)), default=None, help="Its layers in place of the usual ones.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the rows go as JSON.")
def main(batch: tuple[int, ...], layout: str, algorithm: tuple[str, ...], dtype: str, precision: str,
         network: str | None, output: str | None) -> None:
    import torch
    from warpconv.codegen.errors import UnsupportedSpec
    torch.backends.cudnn.benchmark = True
    layers = tuple(NETS[network]) if network else LAYERS
    rows: list[dict[str, Any]] = []
    build_ahead([(layer, n, layout, name) for n in batch for layer in layers for name in algorithm],
                dtype, precision)
    for n in batch:
        for layer in layers:
            for name in algorithm:
                try:
                    last = {"layer": layer, "batch": n, "layout": layout, "asked": name,
                            **measure(torch, shape_of(layer, n, layout, dtype), name, precision=precision)}
                except UnsupportedSpec as error:
                    click.echo(f"{n:3} {str(layer):36} {name:8} declined: {error.reason}")
                    continue
                rows.append(last)
                click.echo(f"{n:3} {str(layer):36} {last['algorithm']:8} ours {last['ours']:8.1f} us  cuDNN "
                           f"{last['cudnn']:8.1f}  {last['ratio']:5.2f}x  {last['tflops']:6.1f} TFLOP/s  error "
                           f"{last['error']:.1e}")
        for name in algorithm:
            ratios = [r["ratio"] for r in rows if r["batch"] == n and r["asked"] == name]
            mean = math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))
            click.echo(f"batch {n}, {name}: geometric mean of {len(ratios)} layers {mean:.2f}x")
    if output:
        with open(output, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "cudnn": torch.backends.cudnn.version(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
