"""``python -m bench.gradient_plans``: depthwise gradients with some plan values each, to choose defaults by.

Prints a line for each plan: its time (CUDA graphs, median, the arrays rotate through 256 MB), the copy's of the same
bytes, and the plan values that are not the default's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from bench.devices import open_device
from bench.harness import compile_ahead, measure_together, rotation
from warpconv.codegen.algorithms.hankel.numbers import make_numbers
from warpconv.codegen.errors import UnsupportedSpec
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import arrays
from warpconv.runtime.call import kernels
from warpconv.runtime.call.checks import Call

from .studies.gradients import GradientLayer, _copies

SIZES = ((32, 128, 112), (128, 96, 56), (128, 384, 14), (64, 768, 7))
FILTER_VALUES: tuple[dict[str, int], ...] = (
    {}, {"buffers": 2}, {"buffers": 4}, {"octets": 2, "warps": 4}, {"octets": 2, "warps": 2, "buffers": 4},
    {"octets": 8, "warps": 1}, {"warps": 1}, {"warps": 4}, {"rows": 1}, {"rows": 4}, {"folds": 1},
    {"columns": 112, "octets": 2, "warps": 4}, {"columns": 32}, {"octets": 4, "warps": 2, "buffers": 3},
    {"octets": 1, "warps": 2, "buffers": 4}, {"octets": 1, "warps": 4, "buffers": 4})
DATA_VALUES: tuple[dict[str, Any], ...] = (
    {}, {"rows": 7}, {"rows": 28}, {"across": 1}, {"vector": 1}, {"across": 1, "vector": 1}, {"form": "tile"},
    {"block_size_x": 32, "block_size_y": 4, "block_size_z": 1}, {"block_size_x": 64, "block_size_y": 2},
    {"block_size_x": 16, "block_size_y": 8},
    {"block_size_x": 16, "block_size_y": 8, "rows": 28}, {"block_size_x": 8, "block_size_y": 16})


def plans(row: GradientLayer, values: tuple[dict[str, Any], ...], arch: Any) -> Iterator[tuple[str, KernelPlan]]:
    """Each plan there is, with the values in which it is not the default; where blocks become larger or smaller, the
    shares of a filter's gradient follow."""
    name = "hankel" if row.operation == "filter_gradient" else "phases"
    seen: list[dict[str, Any]] = []
    for given in values:
        try:
            plan = plan_layer(row.shape, arch=arch, operation=row.operation, algorithm=name, settings=given)
            if name == "hankel":
                made = make_numbers(plan.spec, plan.options)
                beside = made.channel_groups * made.tap_tiles[0] * made.tap_tiles[1]
                strips = -(-row.shape.q // plan.options.columns)
                fitting = plan.spec.hardware.multiprocessors * made.min_blocks // beside // strips * strips
                if given:
                    plan = plan_layer(row.shape, arch=arch, operation=row.operation, algorithm=name,
                                      settings={**given, "chunks": max(strips, min(fitting, plan.options.chunks * 2))})
        except UnsupportedSpec as error:
            print(f"  {given}: {error.reason}", flush=True)
            continue
        if plan.settings() not in seen:
            seen.append(plan.settings())
            yield str(given), plan


@click.command()
@click.option("--operation", type=click.Choice(["filter_gradient", "data_gradient"]), default="filter_gradient")
@click.option("--stride", type=int, default=1)
@click.option("--taps", type=int, multiple=True, default=(3, 7))
@click.option("--dtype", default="float16")
@click.option("--layout", default="NHWC")
@click.option("--seconds", type=float, default=80.0, help="No row is begun after so many.")
@click.option("--device", "wanted", default="cuda", help="cpu tries it out on small arrays; its times mean nothing.")
def main(operation: str, stride: int, taps: tuple[int, ...], dtype: str, layout: str, seconds: float,
         wanted: str) -> None:
    """Times of plans of hankel or phases on the study's layers."""
    device, start = open_device(wanted), time.monotonic()
    values = FILTER_VALUES if operation == "filter_gradient" else DATA_VALUES
    for n, c, size in SIZES:
        for r in taps:
            if time.monotonic() - start > seconds:
                return
            sizes = {"n": 2, "c": 16, "h": 14, "w": 14, "k": 16, "groups": 16} if device.trial else {
                "n": n, "c": c, "h": size, "w": size, "k": c, "groups": c}
            row = GradientLayer(operation, ConvShape(**sizes, r=r, s=r, padding=r // 2, stride=stride, dtype=dtype,
                                                     layout=layout))
            print(row.key, flush=True)
            measure(device, row, list(plans(row, values, device.arch)))


def measure(device: Any, row: GradientLayer, found: list[tuple[str, KernelPlan]]) -> None:
    """A line for each plan of a layer, sampled in turns with the copy."""
    compile_ahead(device, [lambda plan=plan: plan for _, plan in found])
    s, sets = row.shape, 1 if device.trial else rotation(row.moved)
    data = row.operation == "data_gradient"
    x = [device.random(s.input_shape, 1 + i, s.dtype, s.layout) for i in range(sets)]
    dy = [device.random(s.output_shape, 500 + i, s.dtype, s.layout) for i in range(sets)]
    w = device.random(s.weight_shape, 1000, s.dtype)
    dw = device.poisoned(s.weight_shape, s.dtype)
    calls = [_copies(device, row, sets)]
    for _, plan in found:
        kernel = kernels.make(plan, None if device.trial else 0)

        def launch(i: int, kernel: Any = kernel) -> None:
            given = ({"dy": dy[i], "w": w, "dx": x[i]} if data else {"x": x[i], "dy": dy[i], "dw": dw})
            views = {name: arrays.view(array, name) for name, array in given.items()}
            views = {name: v.transposed((0, 2, 3, 1)) if s.layout.value == "NHWC" and name in ("x", "dy", "dx") else v
                     for name, v in views.items()}
            handle, first = kernel.handle_of(None), views["dy"]
            kernel.backend.run(Call(s, views), None, kernel.queue_of(None, handle, first))

        calls.append([lambda i=i, launch=launch: launch(i) for i in range(sets)])
    times = measure_together(device, calls, repeats=10)
    for (text, plan), timing in zip(found, times[1:]):
        values = plan.settings() if text == "{}" else text
        print(f"  {1e3 * timing.ms:8.1f} us  {times[0].ms / timing.ms:5.2f} of copy  {values}", flush=True)


if __name__ == "__main__":
    main()
