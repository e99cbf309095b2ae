"""What ncu watches: one call of each kernel named, on the GPU, without PyTorch. ``python -m bench.counters.target``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import click
import numpy as np

from warpconv.codegen.plan import KernelPlan, Launch, Repeat, Step
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

DTYPES, LAYOUTS = ("float32", "float16", "bfloat16"), ("NCHW", "NHWC")


@dataclass(frozen=True)
class Case:
    """One kernel, ``algorithm`` or ``algorithm:name=value,name=value``, and its layer: a plane or a depthwise layer
    with padding "same". ``kernel`` may be ``auto``: what a call would take."""

    kernel: str
    size: int = 512
    filter: int = 5
    batch: int = 1
    channels: int = 1
    dtype: str = "float32"
    layout: str = "NCHW"

    @property
    def shape(self) -> ConvShape:
        return shape_of(self.size, self.filter, batch=self.batch, channels=self.channels, dtype=self.dtype,
                        layout=self.layout)

    @property
    def layer(self) -> str:
        """The layer in words."""
        name = f"{self.size}^2, {self.filter}x{self.filter}"
        name += f", {self.batch * self.channels} planes" if self.batch * self.channels > 1 else ""
        name += f", {self.dtype}" if self.dtype != "float32" else ""
        return name + (" NHWC" if self.layout == "NHWC" else "")

    def words(self) -> list[str]:
        """The option that names this case on the target's command line."""
        return ["--case", json.dumps(asdict(self))]


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


def entries_of(steps: tuple[Step, ...], shape: ConvShape) -> list[str]:
    """The entry of each launch, in the order in which a call makes them."""
    found: list[str] = []
    for step in steps:
        if isinstance(step, Repeat):
            found += entries_of(step.steps, shape) * step.of.of(shape)
        elif isinstance(step, Launch):
            found.append(step.entry)
    return found


def layer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command-line options of a layer, and the architecture."""
    for option in (click.option("--arch", default="sm_90", show_default=True),
                   click.option("--layout", type=click.Choice(LAYOUTS), default="NCHW", show_default=True),
                   click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True),
                   click.option("--channels", default=1, show_default=True, help="Depthwise, if more than one."),
                   click.option("--batch", default=1, show_default=True),
                   click.option("--filter", default=5, show_default=True),
                   click.option("--size", default=512, show_default=True)):
        command = option(command)
    return command


@click.command()
@click.option("--kernel", "kernels", multiple=True)
@layer_options
@click.option("--case", "cases", multiple=True, help="A kernel with a layer of its own: JSON of the options' names.")
@click.option("--skip", multiple=True, type=int, help="The number of a case that is left out.")
@click.option("--device", default="cuda", show_default=True)
def main(kernels: tuple[str, ...], cases: tuple[str, ...], skip: tuple[int, ...], device: str, arch: str,
         **layer: Any) -> None:
    """Call each KERNEL once and print its launches and checksum; one that fails prints its error."""
    tuning = None
    if device.startswith("cuda"):
        from warpconv.runtime.tuning import table
        tuning = table(0)
    failed = False
    for number, case in enumerate([*(Case(text, **layer) for text in kernels),
                                   *(Case(**json.loads(text)) for text in cases)]):
        if number in skip:
            continue
        try:
            told = _call(case, arch, device, tuning)
        except Exception as error:          # the other cases are still worth watching
            told, failed = {"error": f"{type(error).__name__}: {error}"[:300]}, True
        print(json.dumps({"case": number, "kernel": case.kernel, **told}), flush=True)
    sys.exit(failed)


def _call(case: Case, arch: str, device: str, tuning: Any) -> dict[str, Any]:
    import warpconv
    shape = case.shape
    plan = plan_of(case.kernel, shape, arch, tuning)
    y = warpconv.specialize(shape, plan=plan, device=device)(*data(shape))
    before = entries_of(plan.program.preparation.steps, shape) if plan.program.preparation else []
    return {"algorithm": plan.spec.algorithm, "settings": plan.settings(), "preparation": len(before),
            "entries": before + entries_of(plan.program.steps, shape), "sum": float(y.astype(np.float64).sum())}


if __name__ == "__main__":
    main()
