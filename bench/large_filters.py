"""``python -m bench.large_filters``: large float32 filters by tensor cores beside float32 units.

Planes and depthwise layers (NCHW, padding "same") by default and with ``precision="ieee"``, each by the planner's
rules: milliseconds (medians; CUDA graphs where they can be captured, arrays rotate through 256 MB), how many times
quicker the default is, and the floor that SGEMM's rate sets for the products inside the image over its time. Every
result is checked against float64 before it is timed. ``--json FILE`` keeps the rows.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from bench.devices import open_device
from bench.harness import compile_ahead, make_layer, run_kernel
from bench.peers import libraries as peers
from bench.studies.floors import flops_inside
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

PLANES = tuple((1, 1, side, size) for side, sizes in (
    (512, (13, 31)), (1024, (9, 13, 15, 31)), (2048, (9, 13, 21, 31)), (4096, (9, 11, 13, 15, 17, 19, 21, 25, 31)),
    (8192, (13, 21, 31))) for size in sizes)
DEPTHWISE = tuple((n, c, side, size) for n, c, side in ((8, 96, 112), (32, 128, 56), (64, 384, 28))
                  for size in (9, 13, 21, 31))


def shape_of(n: int, c: int, side: int, size: int) -> ConvShape:
    return ConvShape(n=n, c=c, h=side, w=side, k=c, groups=c, r=size, s=size, padding="same")


def measured(device: Any, shape: ConvShape, plans: dict[str, KernelPlan]) -> dict[str, dict[str, Any]]:
    """The rows of a layer's plans, each plan once."""
    layer, by_plan = make_layer(device, shape), {}
    for plan in plans.values():
        if str(plan.spec) not in by_plan:
            by_plan[str(plan.spec)] = run_kernel(device, layer, plan)
    return {name: {"algorithm": plan.spec.algorithm, **by_plan[str(plan.spec)]} for name, plan in plans.items()}


@click.command(help=__doc__.split("\n\n")[1])
@click.option("--device", default="auto", help="torch, cupy or auto.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Where the rows go.")
def main(device: str, file: Path | None) -> None:
    opened = open_device(device)
    rate = peers.gemm_ceiling(opened)["tflops"]
    click.echo(f"{opened.name}, SGEMM {rate:.1f} TFLOP/s, {time.strftime('%Y-%m-%d')}")
    layers = [shape_of(*sizes) for sizes in (*PLANES, *DEPTHWISE)]
    planned = [{"default": plan_layer(shape, arch=opened.arch),
                "ieee": plan_layer(shape, arch=opened.arch, precision="ieee")} for shape in layers]
    compile_ahead(opened, [lambda plan=plan: plan for plans in planned for plan in plans.values()])
    rows = []
    click.echo("| layer | float32 units | ms | default | ms | times | floor of SGEMM over time |\n"
               "|---|---|--:|---|--:|--:|--:|")
    for shape, plans in zip(layers, planned):
        found = measured(opened, shape, plans)
        units, ours = found["ieee"], found["default"]
        floor = flops_inside(shape) / rate / 1e9
        name = f"{shape.h}^2" if shape.c == 1 else f"{shape.n}x{shape.c}x{shape.h}^2"
        rows.append({"layer": f"{name}, {shape.r}x{shape.s}", "floor_ms": floor, **found})
        click.echo(f"| {rows[-1]['layer']} | {units['algorithm']} | {units['ms']:.4f} | {ours['algorithm']} | "
                   f"{ours['ms']:.4f} | {units['ms'] / ours['ms']:.2f} | {floor / ours['ms']:.2f} |")
        opened.free()
    if file is not None:
        file.write_text(json.dumps({"device": opened.name, "sgemm_tflops": rate, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
