"""Dense 16-bit layers in NHWC beside cuDNN: ``python -m bench.dense [--batch 32] [--network vgg16] [-o FILE.json]``.

The convolutions of torchvision's ResNet-50 (each shape once), two first layers and ResNeXt-50's grouped ones, or of
another network's dense layers, in float16, channels_last: the plan that select() takes (or the algorithms that are
named, beside each other) against PyTorch with cuDNN in benchmark mode. Both in CUDA graphs
of several calls over inputs that rotate past the second-level cache; filters are prepared; medians of five replays.
"""

from __future__ import annotations

import json
import math
from typing import Any

import click

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
VGG16 = (
    (64, 224, 3, 64, 1, 1, 1), (64, 112, 3, 128, 1, 1, 1), (128, 112, 3, 128, 1, 1, 1), (128, 56, 3, 256, 1, 1, 1),
    (256, 56, 3, 256, 1, 1, 1), (256, 28, 3, 512, 1, 1, 1), (512, 28, 3, 512, 1, 1, 1), (512, 14, 3, 512, 1, 1, 1))
MOBILENET_V2 = tuple((c, h, 1, k, 1, 0, 1) for c, h, k in (
    (32, 112, 16), (16, 112, 96), (96, 56, 24), (24, 56, 144), (144, 56, 24), (144, 28, 32), (32, 28, 192),
    (192, 28, 32), (192, 14, 64), (64, 14, 384), (384, 14, 64), (384, 14, 96), (96, 14, 576), (576, 14, 96),
    (576, 7, 160), (160, 7, 960), (960, 7, 160), (960, 7, 320), (320, 7, 1280)))
NETWORKS = {"resnet50": LAYERS, "vgg16": VGG16, "mobilenet_v2": MOBILENET_V2}
ROTATED_BYTES = 120e6       # of inputs and outputs: twice the second-level cache of an H200
REPLAYS = 5


def shape_of(layer: tuple[int, ...], batch: int) -> Any:
    import warpconv
    c, h, size, k, stride, padding, groups = layer
    return warpconv.ConvShape(n=batch, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding,
                              groups=groups, dtype="float16", layout="NHWC")


def build_ahead(work: list[tuple[tuple[int, ...], int, str]]) -> None:
    """All kernels into the cache, several compilers at a time; what does not build says so where it is timed."""
    from warpconv.codegen.errors import WarpconvError
    from warpconv.runtime.build.parallel import as_done, workers_of
    from warpconv.runtime.build.pipeline import build
    from warpconv.runtime.call import kernels

    def made(item: tuple[tuple[int, ...], int, str]) -> None:
        try:
            build(kernels.plan_of(kernels.asked(shape_of(item[0], item[1]), 0, algorithm=item[2])))
        except WarpconvError:
            pass

    for _ in as_done(made, work, workers_of(None, "jobs")):
        pass


def row(torch: Any, layer: tuple[int, ...], batch: int, algorithm: str) -> dict[str, Any]:
    """One layer: microseconds of both, the plan, the error beside cuDNN's result."""
    import warpconv
    c, h, size, k, stride, padding, groups = layer
    shape = shape_of(layer, batch)
    copies = max(1, min(8, math.ceil(ROTATED_BYTES / shape.bytes_moved)))
    inputs = [torch.randn(batch, c, h, h, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last)
              for _ in range(copies)]
    weight = (torch.randn(k, c // groups, size, size, device="cuda") / shape.reduction ** 0.5).half()
    weight = weight.to(memory_format=torch.channels_last)
    calls = max(5, min(50, int(5e-3 / (2 * shape.macs / 4e14 + shape.bytes_moved / 3e12 + 5e-6))))

    def theirs(i: int) -> Any:
        return torch.nn.functional.conv2d(inputs[i % copies], weight, None, stride, padding, 1, groups)

    expected = theirs(0)
    outputs = [torch.empty_like(expected).fill_(float("nan")) for _ in range(copies)]
    kernel = warpconv.specialize(shape, device="cuda", layout="NCHW", algorithm=algorithm)
    filter = kernel.prepare(weight.contiguous())

    def ours(i: int) -> Any:
        return kernel(inputs[i % copies], filter, out=outputs[i % copies])

    error = float((ours(0).float() - expected.float()).norm() / expected.float().norm())
    times = {name: _replayed(torch, call, calls) for name, call in (("cudnn", theirs), ("ours", ours))}
    return {"layer": layer, "batch": batch, "algorithm": kernel.spec.algorithm,
            "plan": kernel.plan.settings() if kernel.plan else None, **times, "ratio": times["cudnn"] / times["ours"],
            "error": error, "tflops": 2 * shape.macs / times["ours"] / 1e6}


def _replayed(torch: Any, call: Any, calls: int) -> float:
    """Microseconds of a call in a graph of several."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for i in range(3):
            call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i)
    found = []
    for turn in range(REPLAYS + 2):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if turn > 1:
            found.append(begin.elapsed_time(end) / calls * 1e3)
    return sorted(found)[REPLAYS // 2]


@click.command(help=__doc__.splitlines()[0])
@click.option("--batch", multiple=True, type=int, default=(32, 1), show_default=True)
@click.option("--algorithm", multiple=True, default=("auto",), show_default=True)
@click.option("--network", type=click.Choice(list(NETWORKS)), default="resnet50", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the rows go as JSON.")
def main(batch: tuple[int, ...], algorithm: tuple[str, ...], network: str, output: str | None) -> None:
    import torch
    from warpconv.codegen.errors import UnsupportedSpec
    torch.backends.cudnn.benchmark = True
    rows: list[dict[str, Any]] = []
    build_ahead([(layer, n, name) for n in batch for layer in NETWORKS[network] for name in algorithm])
    for n in batch:
        for layer in NETWORKS[network]:
            for name in algorithm:
                try:
                    rows.append({**row(torch, layer, n, name), "asked": name})
                except UnsupportedSpec as error:
                    click.echo(f"{n:3} {str(layer):36} {name:8} declined: {error.reason}")
                    continue
                last = rows[-1]
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
