"""``python -m bench.not_finite``: what infinities and NaN cost dense float32 layers, and their gradients.

Microseconds (medians) of a layer's kernel by default, with ``precision="ieee"`` and of cuDNN (TF32 off) on data that
are finite, and on the same with NaN or an infinity in them: kernels on the tensor cores make such sums anew by float32
units. Times are those of single calls between events: host time counts where it is longer than the kernel's.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import click

from warpconv.codegen.shape import ConvShape

LAYERS = ((32, 64, 56, 64, 3, 1), (32, 256, 14, 256, 3, 1), (32, 512, 7, 512, 3, 1), (32, 256, 56, 64, 1, 1),
          (32, 3, 224, 64, 7, 2), (32, 128, 56, 128, 3, 2), (1, 64, 56, 64, 3, 1))      # n, c, h, k, r, stride
GRADIENTS = LAYERS[:2] + LAYERS[5:6]
SAMPLES, MOST_US = 20, 3e5


def kinds(torch: Any, x: Any) -> Iterator[tuple[str, Any]]:
    """Data of one layer: as they are, and with what is not finite in them."""
    middle = x.shape[2] // 2

    def changed(place: Any, value: float) -> Any:
        copy = x.clone()
        copy[place] = value
        return copy

    yield "finite", x
    yield "an image of NaN", changed(0, float("nan"))
    yield "a NaN in each image", changed((slice(None), 0, middle, middle), float("nan"))
    yield "one infinity", changed((0, 0, middle, middle), float("inf"))
    yield "an image of infinities", changed(0, float("inf"))
    yield "one element in 1000 NaN", changed(torch.rand_like(x) < 1e-3, float("nan"))


def median_us(torch: Any, call: Callable[[Any], Any], data: Any) -> float:
    call(data)
    torch.cuda.synchronize()
    times: list[float] = []
    while len(times) < SAMPLES and sum(times) < MOST_US:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call(data)
        end.record()
        end.synchronize()
        times.append(1e3 * start.elapsed_time(end))
    return statistics.median(times)


def forward(torch: Any, layout: str, sizes: tuple[int, ...]) -> tuple[Any, dict[str, Callable[[Any], Any]]]:
    """A layer's input, and its calls."""
    import warpconv
    shape = shape_of(layout, sizes)
    order = torch.channels_last if layout == "NHWC" else torch.contiguous_format
    weight = torch.randn(shape.weight_shape, device="cuda") / shape.reduction ** 0.5
    theirs, out = weight.to(memory_format=order), torch.empty(shape.output_shape, device="cuda").to(memory_format=order)
    calls: dict[str, Callable[[Any], Any]] = {
        "cuDNN": lambda x: torch.nn.functional.conv2d(x, theirs, None, shape.stride, shape.padding[0][0])}
    for precision in ("ieee", "float32"):
        kernel = warpconv.specialize(shape, device="cuda", layout="NCHW", precision=precision)
        calls[f"{precision}: {kernel.spec.algorithm}"] = partial(kernel, weight=kernel.prepare(weight), out=out)
    return torch.randn(shape.input_shape, device="cuda").to(memory_format=order), calls


def backward(torch: Any, layout: str, sizes: tuple[int, ...]) -> tuple[Any, dict[str, Callable[[Any], Any]]]:
    """A layer's output gradient, and the calls of its gradients."""
    import warpconv
    shape = shape_of(layout, sizes)
    x, dy = (torch.randn(sizes, device="cuda").to(memory_format=torch.channels_last)
             for sizes in (shape.input_shape, shape.output_shape))
    weight, given = torch.randn(shape.weight_shape, device="cuda"), (shape.stride, shape.padding[0][0])
    return dy, {"data gradient": lambda dy: warpconv.conv2d_input(x.shape, weight, dy, *given),
                "filter gradient": lambda dy: warpconv.conv2d_weight(x, weight.shape, dy, *given)}


def shape_of(layout: str, sizes: tuple[int, ...]) -> ConvShape:
    n, c, h, k, r, stride = sizes
    return ConvShape(n=n, c=c, h=h, w=h, k=k, r=r, s=r, stride=stride, padding=r // 2, layout=layout)


@click.command(help=__doc__.split("\n\n")[1])
def main() -> None:
    import torch
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = False, True
    torch.manual_seed(0)
    names = [name for name, _ in kinds(torch, torch.zeros(2, 1, 3, 3))]
    click.echo(f"{torch.cuda.get_device_name()}, {time.strftime('%Y-%m-%d')}\n")
    click.echo("| layer | by | " + " | ".join(names) + " |\n|---|---|" + "--:|" * len(names))
    layers = [(forward, layout, sizes) for layout in ("NHWC", "NCHW") for sizes in LAYERS]
    layers += [(backward, "NHWC", sizes) for sizes in GRADIENTS]
    for made, layout, sizes in layers:
        data, calls = made(torch, layout, sizes)
        n, c, h, k, r, stride = sizes
        layer = f"{layout}, {n} x {c} -> {k}, {r}x{r} on {h}^2" + (f", stride {stride}" if stride > 1 else "")
        for name, call in calls.items():
            times = [median_us(torch, call, changed) for _, changed in kinds(torch, data)]
            click.echo(f"| {layer} | {name} | " + " | ".join(f"{us:.0f}" for us in times) + " |")


if __name__ == "__main__":
    main()
