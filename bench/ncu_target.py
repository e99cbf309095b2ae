"""What ncu watches: one launch of each kernel named, on the GPU, without PyTorch. ``python -m bench.ncu_target``."""

from __future__ import annotations

import json
from typing import Any, Callable

import click
import numpy as np

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

DTYPES, LAYOUTS = ("float32", "float16", "bfloat16"), ("NCHW", "NHWC")


def shape_of(size: int, taps: int, *, batch: int = 1, channels: int = 1, dtype: str = "float32",
             layout: str = "NCHW") -> ConvShape:
    """A depthwise layer with padding "same"; one channel is a plane."""
    return ConvShape(n=batch, c=channels, h=size, w=size, k=channels, r=taps, s=taps, groups=channels, padding="same",
                     dtype=dtype, layout=layout)


def plan_of(text: str, shape: ConvShape, arch: str, tuning: Any = None) -> KernelPlan:
    """The plan of ``algorithm`` or ``algorithm:name=value,name=value``; ``auto`` is what a call would take."""
    algorithm, _, values = text.partition(":")
    settings: dict[str, Any] = dict(pair.split("=", 1) for pair in values.split(",") if pair)
    return plan_layer(shape, algorithm=algorithm, arch=arch, settings=settings, tuning=tuning)


def data(shape: ConvShape) -> tuple[np.ndarray, np.ndarray]:
    """Random input, with its axes in the layout's order, and filter. bfloat16 needs ml_dtypes."""
    from warpconv.runtime.arrays import numpy_dtype
    generator, dtype = np.random.default_rng(11), numpy_dtype(shape.dtype)
    x = generator.random(shape.layout.stored(shape.input_shape), np.float32).astype(dtype)
    return x, generator.random(shape.weight_shape, np.float32).astype(dtype)


def layer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command-line options of shape_of, and the architecture."""
    for option in (click.option("--arch", default="sm_90", show_default=True),
                   click.option("--layout", type=click.Choice(LAYOUTS), default="NCHW", show_default=True),
                   click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True),
                   click.option("--channels", default=1, show_default=True, help="Depthwise, if more than one."),
                   click.option("--batch", default=1, show_default=True),
                   click.option("--filter", "taps", default=5, show_default=True),
                   click.option("--size", default=512, show_default=True)):
        command = option(command)
    return command


@click.command()
@click.option("--kernel", "kernels", multiple=True, required=True)
@layer_options
@click.option("--device", default="cuda", show_default=True)
def main(kernels: tuple[str, ...], device: str, arch: str, **layer: Any) -> None:
    """Run each KERNEL once and print its checksum."""
    import warpconv
    shape, tuning = shape_of(layer.pop("size"), layer.pop("taps"), **layer), None
    if device.startswith("cuda"):
        from warpconv.runtime.tuning import table
        tuning = table(0)
    x, w = data(shape)
    for text in kernels:
        plan = plan_of(text, shape, arch, tuning)
        y = warpconv.specialize(shape, plan=plan, device=device)(x, w)
        print(json.dumps({"kernel": text, "algorithm": plan.spec.algorithm, "settings": plan.settings(),
                          "sum": float(y.astype(np.float64).sum())}))


if __name__ == "__main__":
    main()
