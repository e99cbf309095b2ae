"""Is the algorithm that select() takes the quickest? Every algorithm, measured over thirty layers."""

from __future__ import annotations

from typing import Any

from bench.harness import make_layer, measure
from bench.peers import libraries as peers
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.shape import ConvShape

from . import contest

ABOUT = """
Each layer was planned by every algorithm with its default plan values, checked against float64 and timed (filters
prepared where an algorithm prepares them); `chosen` is what select() took for it then (the fewest estimated
instructions), `ratio` is the chosen one's time over the quickest one's. A dash is an algorithm that declines the
layer. cuDNN (torch conv2d, benchmark mode, TF32 off) stands beside them to say how far both are from a library. Times
in milliseconds, medians; inputs rotate through 256 MB.
"""


def _layer(n: int, c: int, size: int, k: int, f: int, *, h: int | None = None, s: int | None = None,
           padding: Any = "same", **more: Any) -> ConvShape:
    return ConvShape(n=n, c=c, h=h or size, w=size, k=k, r=f, s=s or f, padding=padding, **more)


def layers() -> dict[str, ConvShape]:
    """Planes, depthwise layers, few and many channels, odd filters, small images, large batches."""
    found = {f"plane {f}x{f} {size}^2": _layer(1, 1, size, 1, f)
             for f, size in ((3, 512), (3, 4096), (5, 512), (5, 4096), (7, 2048), (9, 2048), (11, 2048), (13, 1024))}
    found |= {f"depthwise {f}x{f} {n}x{c}x{size}^2": _layer(n, c, size, c, f, groups=c)
              for f, n, c, size in ((3, 32, 128, 112), (5, 32, 128, 112), (3, 128, 96, 56), (7, 128, 96, 56),
                                    (3, 128, 384, 14), (5, 128, 384, 14), (3, 64, 768, 7), (5, 8, 32, 28))}
    found |= {
        "3 -> 8 channels 3x3 512^2": _layer(4, 3, 512, 8, 3), "3 -> 64 channels 3x3 224^2": _layer(16, 3, 224, 64, 3),
        "1 -> 16 channels 5x5 28^2": _layer(128, 1, 28, 16, 5), "3 -> 3 channels 7x7 1024^2": _layer(1, 3, 1024, 3, 7),
        "16 -> 16 channels 3x3 64^2": _layer(16, 16, 64, 16, 3),
        "64 -> 64 channels 3x3 56^2": _layer(16, 64, 56, 64, 3),
        "128 -> 128 channels 3x3 28^2": _layer(16, 128, 28, 128, 3),
        "512 -> 512 channels 3x3 7^2": _layer(16, 512, 7, 512, 3),
        "64 -> 64 channels 1x1 56^2": _layer(16, 64, 56, 64, 1),
        "4 groups of 16 5x5 56^2": _layer(8, 64, 56, 64, 5, groups=4),
        "stride 2 3x3 112^2": _layer(16, 32, 112, 32, 3, padding=1, stride=2),
        "dilation 2 3x3 112^2": _layer(16, 32, 112, 32, 3, padding=2, dilation=2),
        "row filter 1x9 2048^2": _layer(1, 1, 2048, 1, 1, s=9),
        "column filter 9x1 2048^2": _layer(1, 1, 2048, 1, 9, s=1),
        "even filter 4x4 2048^2": _layer(1, 1, 2048, 1, 4), "tall 8192x40 5x5": _layer(8, 1, 40, 1, 5, h=8192),
        "31x31 512^2": _layer(1, 1, 512, 1, 31), "65536 planes 3x3 16^2": _layer(65536, 1, 16, 1, 3)}
    return found


QUICK = 10


def run(context: Context) -> None:
    chosen = list(layers().items())
    chosen = chosen[:QUICK] if context.quick else chosen
    context.expect(len(chosen))
    contest.prepare(context, dict(chosen))
    for name, shape in chosen:
        context.row(name, lambda shape=shape: _measure(context, shape), **contest.shape_fields(shape))


def _measure(context: Context, shape: ConvShape) -> dict[str, Any]:
    device = context.device
    layer = make_layer(device, shape)
    found = contest.hold(context, layer)
    times = contest.times_of(found)
    if times:
        quickest = min(times.values())
        found |= {"gbs": shape.bytes_moved / quickest / 1e6, "tflops": 2 * shape.macs / quickest / 1e9}
    try:
        call = peers.torch_conv(device, layer)
        found["cudnn_ms"] = measure(device, [lambda x=x: call(x) for x in layer.xs]).ms
    except Exception as error:      # the peer is an extra here
        found["cudnn_reason"] = f"{type(error).__name__}: {error}"[:200]
    del layer
    device.free()
    return found


def tables(rows: Rows) -> list[Table]:
    measured = [r for r in rows.values() if r["status"] == OK and r.get("ratio") is not None]
    algorithms = [name for name in ALGORITHMS if any(r.get(f"{name}_ms") is not None for r in measured)]
    columns = ("layer", "chosen", "quickest", "ratio", *(f"{a} ms" for a in algorithms), "cuDNN ms",
               "GB/s of the quickest", "TFLOP/s of the quickest",
               *(f"{a}: estimate, millions" for a in algorithms))
    lines = tuple((r["key"], r["chosen"], r["quickest"], r["ratio"], *(r.get(f"{a}_ms") for a in algorithms),
                   r.get("cudnn_ms"), r["gbs"], r["tflops"],
                   *(r[f"{a}_estimate"] / 1e6 if r.get(f"{a}_estimate") else None for a in algorithms))
                  for r in measured)
    wrong = [r for r in measured if r["ratio"] > 1.05]
    text = (f"{len(measured) - len(wrong)} of {len(measured)} choices are the quickest or within 5 % of it; the worst "
            f"ratio is {max((r['ratio'] for r in measured), default=1.0):.2f}.")
    return [Table("Choices", columns, lines, text)]


def plot(rows: Rows, figure: Any) -> None:
    """Time of reuse over time of direct against the ratio of their estimates: wrong choices lie off the diagonal's
    side."""
    both = [r for r in rows.values() if r["status"] == OK and "reuse_ms" in r and "direct_ms" in r]
    figure.set_size_inches(5, 4.5)
    axes = figure.add_subplot()
    axes.scatter([r["reuse_estimate"] / r["direct_estimate"] for r in both],
                 [r["reuse_ms"] / r["direct_ms"] for r in both])
    for r in both:
        axes.annotate(r["key"], (r["reuse_estimate"] / r["direct_estimate"], r["reuse_ms"] / r["direct_ms"]),
                      fontsize=4)
    axes.axhline(1, color="0.6", linewidth=0.8)
    axes.axvline(1, color="0.6", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="estimate: reuse / direct", ylabel="measured: reuse / direct",
             title="upper left and lower right: select() is wrong")


STUDY = Study("select", "is the algorithm that select() takes the quickest", ABOUT, run, tables, plot)
