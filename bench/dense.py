"""Dense 16-bit layers in NHWC beside cuDNN: ``python -m bench.dense [--batch 32] [-o FILE.json]``.

The convolutions of torchvision's ResNet-50 (each shape once), two first layers and ResNeXt-50's grouped ones, in
float16, channels_last: the plan that select() takes against PyTorch with cuDNN in benchmark mode. Both in CUDA graphs
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
ROTATED_BYTES = 120e6       # of inputs and outputs: twice the second-level cache of an H200
REPLAYS = 5


def row(torch: Any, layer: tuple[int, ...], batch: int, algorithm: str) -> dict[str, Any]:
    """One layer: microseconds of both, the plan, the error beside cuDNN's result."""
    import warpconv
    c, h, size, k, stride, padding, groups = layer
    shape = warpconv.ConvShape(n=batch, c=c, h=h, w=h, k=k, r=size, s=size, stride=stride, padding=padding,
                               groups=groups, dtype="float16", layout="NHWC")
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
@click.option("--algorithm", default="auto", show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where the rows go as JSON.")
def main(batch: tuple[int, ...], algorithm: str, output: str | None) -> None:
    import torch
    torch.backends.cudnn.benchmark = True
    rows = []
    for n in batch:
        for layer in LAYERS:
            rows.append(row(torch, layer, n, algorithm))
            last = rows[-1]
            click.echo(f"{n:3} {str(layer):36} {last['algorithm']:8} ours {last['ours']:8.1f} us  cuDNN "
                       f"{last['cudnn']:8.1f}  {last['ratio']:5.2f}x  {last['tflops']:6.1f} TFLOP/s  error "
                       f"{last['error']:.1e}")
        mean = math.exp(sum(math.log(r["ratio"]) for r in rows if r["batch"] == n) / len(LAYERS))
        click.echo(f"batch {n}: geometric mean {mean:.2f}x")
    if output:
        with open(output, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "cudnn": torch.backends.cudnn.version(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
