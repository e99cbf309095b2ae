"""The eleven layers of Lu, Zhang and Wang (CLUSTER 2020) with 1 and 3 channels: all algorithms, cuDNN, im2col."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.harness import SAMPLES, make_layer
from bench.peers import networks as network_peers, libraries as peers
from bench.peers.networks import FLOAT32_PEERS, REMARKS
from bench.report.files import Table
from bench.study import Context, Rows, Study
from warpconv.codegen.registry import ALGORITHMS
from warpconv.codegen.shape import ConvShape

from . import contest, published
from .contest import Variant, mean, measured, ratios
from .twelve_plots import grouped_bars
from .twelve_tables import cudnn_ms, im2col_ms, rate

QUICK = ("conv1_c1", "conv5_c3", "conv11_c1")
VARIANTS = (Variant("im2col batch=image", "im2col", {"batch": "image"}),)
PLOTTED = {"ours": "our quickest", "reuse": "reuse (the paper's kernel)", "cudnn": "cuDNN's quickest float32"}

ABOUT = f"""
Table I of the paper at 1 and at 3 input channels, batch 128, float32. The paper does not say how images are padded.
Padding is "same" here, as in the networks that the layers are from (VGG, ResNet, GoogLeNet), whose sizes 224, 112,
56, 28 stay as they are from layer to layer only so; it is also the case in which the paper's direct path for edges
has work to do.

**How to read it.** Every algorithm of the registry runs with its default plan values; what declines a layer stands
under "Not timed" with its reason. Results are checked before they are timed: the first two images and the last
against float64, all others for being written. Times are medians by CUDA events ({SAMPLES[0][1]} samples up to
{SAMPLES[0][0]:.0f} ms a call; `repeats` in the CSV), buffers rotate through 256 MB, calls below 0.1 ms are replayed
as a CUDA graph where they can be captured. Filters are prepared once where an algorithm prepares them; everything
else of a call is in its time.

- Speedups are over GEMM-im2col as the paper has it: per image. The baseline is the quicker of PyTorch's conv2d
  without cuDNN and our im2col with batch=image, in the same run.
- cuDNN is the quicker of PyTorch's choice (benchmark mode, TF32 off) and cuDNN's own algorithms measured through its
  interface (float32, FMA only). "Lean" is its quickest without workspace.
- The paper: {published.PAPER_ORIGIN}.
"""


def run(context: Context) -> None:
    chosen = contest.layers_of(context, "paper_layers", QUICK)
    context.expect(1 + len(chosen))
    contest.prepare(context, chosen, VARIANTS)
    if not context.pending(chosen):
        return
    context.report.rows.pop("ceiling/copy", None)      # a ceiling belongs to its run
    context.row("ceiling/copy", lambda: peers.copy_ceiling(context.device), kind="ceiling")
    for name, shape in chosen.items():
        context.row(name, lambda shape=shape: measure_layer(context, shape), kind="layer", name=name, channels=shape.c,
                    macs=shape.macs, bytes=shape.bytes_moved, **contest.shape_fields(shape))


def measure_layer(context: Context, shape: ConvShape) -> dict[str, Any]:
    """A row's values; what a peer or an algorithm cannot do is told in the row."""
    layer = make_layer(context.device, shape)
    found = contest.hold(context, layer, variants=VARIANTS)
    found |= network_peers.measure_peers(context.device, layer, FLOAT32_PEERS, context.say)
    del layer
    context.device.free()
    return found


# ---- what is shown

def quickest_ms(row: Mapping[str, Any]) -> float | None:
    """Our quickest algorithm's time."""
    return min(contest.times_of(row).values(), default=None)


def tables(rows: Rows) -> list[Table]:
    found = measured(rows)
    copy = rows.get("ceiling/copy", {}).get("gbs")
    return [_means(found), _speedups(found), _times(found, copy),
            contest.reasons(found, (*ALGORITHMS, *(v.name for v in VARIANTS), *FLOAT32_PEERS))]


def _names(rows: list[dict[str, Any]]) -> list[str]:
    names = (*ALGORITHMS, *(v.name for v in VARIANTS), *FLOAT32_PEERS)
    return [name for name in names if any(row.get(f"{name}_ms") is not None for row in rows)]


def _means(rows: list[dict[str, Any]]) -> Table:
    lines = []
    for channels in published.PAPER_CLAIMS:
        mine = [{**row, "ours_ms": quickest_ms(row)} for row in rows if row["channels"] == channels]
        for name, words in (("ours", "our quickest"), ("reuse", "reuse, the paper's kernel")):
            for base, of in (("im2col", im2col_ms), ("cudnn", cudnn_ms)):
                values = [value for _, value in ratios(mine, name, of)]
                lines.append((channels, words, {"im2col": "im2col for each image", "cudnn": "cuDNN's quickest"}[base],
                              mean(values), min(values, default=None), max(values, default=None), len(values),
                              sum(value > 1 for value in values), published.PAPER_CLAIMS[channels][base]))
    return Table("Mean speedups", ("channels", "ours", "over", "mean", "least", "most", "layers", "layers won",
                                   "the paper's mean"), tuple(lines), "Arithmetic means over the eleven layers.")


def _speedups(rows: list[dict[str, Any]]) -> Table:
    names = [name for name in _names(rows) if name != "torch_im2col"]
    lines = []
    for row in rows:
        base = im2col_ms(row)
        own = quickest_ms(row)
        lines.append((row["name"], row.get("chosen"), row.get("quickest"), base and own and base / own,
                      *(base / row[f"{n}_ms"] if base and row.get(f"{n}_ms") is not None else None for n in names)))
    return Table("Speedup over im2col for each image", ("layer", "select()", "our quickest", "its speedup", *names),
                 tuple(lines), "; ".join(f"{name}: {REMARKS[name]}" for name in FLOAT32_PEERS))


def _times(rows: list[dict[str, Any]], copy_gbs: float | None) -> Table:
    names = _names(rows)
    lines = []
    for row in rows:
        least = row["bytes"] / copy_gbs / 1e6 if copy_gbs else None
        best = row.get("quickest")
        lines.append((row["name"], least, *(row.get(f"{name}_ms") for name in names), best and rate(row, best)))
    return Table("Milliseconds", ("layer", "its bytes at copy speed", *names, "TFLOP/s of our quickest"), tuple(lines),
                 "Taps in the padding are counted as FLOPs.")


def plot(rows: Rows, figure: Any) -> None:
    """Figure 4 of the paper: speedup over im2col on each layer, one panel for each number of channels."""
    found = measured(rows)
    figure.set_size_inches(9, 5.5)
    for i, channels in enumerate(published.PAPER_CLAIMS):
        axes = figure.add_subplot(2, 1, i + 1)
        mine = [{**row, "ours_ms": quickest_ms(row), "cudnn_ms": cudnn_ms(row)} for row in found
                if row["channels"] == channels]
        series = {}
        for name, label in PLOTTED.items():
            known = {row["key"]: value for row, value in ratios(mine, name, im2col_ms)}
            if known:
                series[label] = [known.get(row["key"]) for row in mine]
        grouped_bars(axes, [row["name"] for row in mine], series)
        axes.axhline(1, color="0.4", linewidth=0.8)
        axes.set(ylabel=f"times im2col's speed, C = {channels}")


STUDY = Study("paper_layers", "the CLUSTER 2020 paper's eleven layers with 1 and 3 channels, beside cuDNN and im2col",
              ABOUT, run, tables, plot)
