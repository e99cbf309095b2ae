"""What would be gained by baking H and W into a source: the emitted text as it is, and with its sizes as constants."""

from __future__ import annotations

import re
from typing import Any

from bench.harness import Layer, make_layer, measure, resources, run_kernel
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.render import render
from warpconv.codegen.select import plan_layer
from warpconv.codegen.shape import ConvShape

ABOUT = """
Planes and a depthwise layer of float32, padding "same", default plan values. "arguments" is the emitted kernel, whose
N, H, W, P and Q are arguments; "baked" is the same text with these made constants in its entry. `gain` is the time of
the first over the second's. The kernels' plans, registers apart, are the same.
"""
_SIGNATURE = re.compile(r"int N,\s+int H,\s+int W,\s+int P,\s+int Q\) \{")


def layers() -> dict[str, ConvShape]:
    found = {f"{algorithm} {f}x{f} {size}^2": ConvShape(c=1, h=size, w=size, k=1, r=f, s=f, padding="same")
             for algorithm in ("reuse", "direct") for f in (3, 5) for size in (1024, 4096)}
    return found | {"reuse depthwise 3x3 32x128x56^2": ConvShape(n=32, c=128, h=56, w=56, k=128, r=3, s=3, padding=1,
                                                                 groups=128)}


def bake(text: str, entry: str, shape: ConvShape) -> str:
    """The entry's size arguments under other names, and constants in their place."""
    head, found, body = text.partition(f"{entry}(")
    signature = _SIGNATURE.search(body)
    if not found or signature is None:
        raise ValueError(f"the text has no entry {entry} with the expected sizes")
    before, rest = body[:signature.start()], body[signature.end():]
    sizes = ", ".join(f"{name} = {getattr(shape, name.lower())}" for name in "NHWPQ")
    arguments = ", ".join(f"int {name}_" for name in "NHWPQ")
    return f"{head}{found}{before}{arguments}) {{\n    constexpr int {sizes};{rest}"


def run(context: Context) -> None:
    chosen = dict(list(layers().items())[:4]) if context.quick else layers()
    context.expect(len(chosen))
    for name, shape in chosen.items():
        context.row(name, lambda name=name, shape=shape: _measure(context, name.split()[0], shape))


def _measure(context: Context, algorithm: str, shape: ConvShape) -> dict[str, Any]:
    layer = make_layer(context.device, shape)
    plan = plan_layer(shape, algorithm=algorithm, arch=context.device.arch)
    plain = run_kernel(context.device, layer, plan)
    baked = _run_baked(context.device, layer, plan)
    del layer
    context.device.free()
    return {"arguments_ms": plain["ms"], "baked_ms": baked["ms"], "gain": plain["ms"] / baked["ms"],
            "arguments_registers": plain.get("registers"), "baked_registers": baked.get("registers")}


def _run_baked(device: Any, layer: Layer, plan: Any) -> dict[str, Any]:
    from warpconv.runtime.build import compilers
    from warpconv.runtime.devices.cuda.backend import CudaBackend
    from warpconv.runtime.call.kernel import Kernel

    text = bake(render(plan).text, plan.program.entries[0], layer.shape)
    compiled = compilers.compile_source(text, arch=str(plan.spec.arch))
    kernel = Kernel(plan.spec, plan.program, CudaBackend(plan.program, compiled.cubin, 0), source=text, report=compiled)
    layer.ys[0][...] = float("nan")
    kernel(layer.xs[0], layer.w, out=layer.ys[0])
    device.synchronize()
    layer.reference.check(device, layer.ys[0], own=True)
    calls = [lambda x=x, y=y: kernel(x, layer.w, out=y) for x, y in zip(layer.xs, layer.ys)]
    return {**resources(kernel), **measure(device, calls).fields()}


def tables(rows: Rows) -> list[Table]:
    columns = ("layer", "arguments ms", "baked ms", "gain", "registers, arguments", "registers, baked")
    lines = tuple((r["key"], r["arguments_ms"], r["baked_ms"], r["gain"], r["arguments_registers"],
                   r["baked_registers"])
                  for r in rows.values() if r["status"] == OK)
    return [Table("H and W as arguments or baked", columns, lines)]


STUDY = Study("baked", "what baking H and W into the source would gain", ABOUT, run, tables)
