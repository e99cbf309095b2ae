"""The im2win paper's twelve layers: every algorithm, im2win's ablations, each step alone, beside PyTorch and cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import LONGEST_S, SAMPLES, make_layer
from bench.peers import networks as network_peers, libraries as peers
from bench.study import Context, Rows, Study
from warpconv.codegen.shape import ConvShape

from . import contest, twelve_plots, twelve_tables
from .published import IM2WIN_ORIGIN

QUICK = ("conv1", "conv6", "conv12")
ROTATED = 32            # sets of buffers at most
VARIANTS = twelve_tables.VARIANTS

ABOUT = f"""
The twelve layers of the im2win paper (arXiv 2306.14316), batch 128, float32, no padding, sizes as in its public
benchmark; layer 4 has 32 input channels there and 64 on another branch, so both are here (conv4, conv4_mec). Means
over the twelve take conv4_mec, as the aims do.

**How to read it.** Every algorithm of the registry runs with its default plan values; what declines a layer stands
under "Not timed" with its reason. Every result is checked before it is timed: the first two images and the last
against float64 (ours within the rounding error of float32 sums, peers to 1e-4 in norm, TF32 and float16 to 3e-3), all
others for being written. Times are medians by CUDA events with buffers that rotate through 256 MB: {SAMPLES[0][1]}
samples of a call of up to {SAMPLES[0][0]:.0f} ms, {SAMPLES[1][1]} up to {SAMPLES[1][0]:.0f} ms, {SAMPLES[2][1]} above
(column `<name>_repeats` of the CSV); a launch of over {LONGEST_S:.0f} s is checked, not timed, and says so. TFLOP/s
are 2 M N K over the time.

- An algorithm's time includes every step of a call: the im2win transform, the im2col lowering. A filter is reordered
  once (`kernel.prepare`) and used by every call after it, so that is not in the time but has a row of its own; "all
  included" adds it. "Each step alone" runs one step of the program at a time; rows are ours where nothing else is
  said.
- im2win's ablations take one thing away at a time (prefetch with both double buffers, vector loads, the
  micro-kernel).
- Peers: PyTorch's conv2d with cuDNN (benchmark mode, TF32 off) and without it (im2col and cuBLAS for each image);
  cuDNN by its own interface, every algorithm found and measured by it, the quickest called again under this study's
  clock: in float32 (FMA only), the same among those that need no workspace ("lean"), with TF32, and in float16.
  The baseline without workspace is the quicker of that and of PyTorch's call, where its allocator held nothing for it
  (measured with the row, or by the study memory).
  Workspaces of over {network_peers.WORKSPACE_LIMIT >> 30} GiB are not tried.
- A baseline is the quicker of ours and the peer's in the same run: for im2col for each image, PyTorch's and ours with
  batch=image.
- "The documents" are {IM2WIN_ORIGIN}. Ratios within a machine can be compared, TFLOP/s not.
"""


def run(context: Context) -> None:
    chosen = contest.layers_of(context, "twelve_layers", QUICK)
    context.expect(1 + len(chosen))
    contest.prepare(context, chosen, VARIANTS)
    if not context.pending(chosen):
        return
    context.report.rows.pop("ceiling/sgemm", None)      # a ceiling belongs to its run
    context.row("ceiling/sgemm", lambda: peers.gemm_ceiling(context.device), kind="ceiling")
    for name, shape in chosen.items():
        context.row(name, lambda shape=shape: measure_layer(context, shape), kind="layer", name=name,
                    macs=shape.macs, **contest.shape_fields(shape))


def measure_layer(context: Context, shape: ConvShape) -> dict[str, Any]:
    """A row's values; what a peer or an algorithm cannot do is told in the row."""
    layer = make_layer(context.device, shape, most=ROTATED)
    found = contest.hold(context, layer, variants=VARIANTS, steps=True)
    found |= network_peers.measure_peers(context.device, layer, network_peers.REMARKS, context.say)
    del layer
    context.device.free()
    return found


PLOTS: dict[str, Callable[[Rows, Any], None]] = {"tflops": twelve_plots.tflops, "ablations": twelve_plots.ablations,
                                                 "steps": twelve_plots.steps}

STUDY = Study("twelve_layers", "the im2win paper's twelve layers: every algorithm, ablations, steps, PyTorch and cuDNN",
              ABOUT, run, twelve_tables.tables, plots=PLOTS)
