"""What ncu watches: one launch of each kernel named, on the GPU, without PyTorch. ``python -m bench.ncu_target``."""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np

from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape


def shape_of(size: int, taps: int) -> ConvShape:
    return ConvShape(c=1, h=size, w=size, k=1, r=taps, s=taps, padding="same")


def plan_of(text: str, size: int, taps: int, arch: str) -> KernelPlan:
    """The plan of ``algorithm`` or ``algorithm:name=value,name=value``."""
    algorithm, _, values = text.partition(":")
    settings: dict[str, Any] = dict(pair.split("=", 1) for pair in values.split(",") if pair)
    return plan_layer(shape_of(size, taps), algorithm=algorithm, arch=arch, settings=settings)


def data(size: int, taps: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(11)
    return (generator.random((1, 1, size, size), np.float32), generator.random((1, 1, taps, taps), np.float32))


@click.command()
@click.option("--kernel", "kernels", multiple=True, required=True)
@click.option("--size", default=512, show_default=True)
@click.option("--filter", "taps", default=5, show_default=True)
@click.option("--arch", default="sm_90", show_default=True)
@click.option("--device", default="cuda", show_default=True)
def main(kernels: tuple[str, ...], size: int, taps: int, arch: str, device: str) -> None:
    """Run each KERNEL once and print its checksum."""
    import warpconv
    x, w = data(size, taps)
    for text in kernels:
        kernel = warpconv.specialize(shape_of(size, taps), plan=plan_of(text, size, taps, arch), device=device)
        y = kernel(x, w)
        print(json.dumps({"kernel": text, "sum": float(y.sum(dtype=np.float64))}))


if __name__ == "__main__":
    main()
