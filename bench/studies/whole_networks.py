"""Whole networks of torchvision, every Conv2d's forward given to warpconv, beside the stock network."""

from __future__ import annotations

import copy
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.devices import NoDevice
from bench.harness import WrongResult
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study

NETWORKS = ("resnet50", "vgg16", "googlenet", "mobilenet_v2", "efficientnet_b0", "convnext_tiny", "shufflenet_v2_x1_0")
BATCH = 32
CALLS, REPLAYS = 4, 7               # of the network in a graph; of the graphs, in turn
WORSE = 2.0                         # than the stock network: an error that is no rounding
RULES = ("all", "estimate")
LAYER_SCALE = 0.3                   # of ConvNeXt's blocks

ABOUT = f"""
Networks of torchvision with drawn weights, eval mode, {BATCH} images of 224 x 224, one CUDA graph of {CALLS} calls of
the stock network and one of the network after `warpconv.torch.convert(model, x, where=...)`: with `all`, every Conv2d
is ours; with `estimate`, those that the rule takes. Their weights are frozen: prepared once, where each replay
would else prepare them again (docs/torch.md). Everything else of a network (normalisations, activations,
permutes) is PyTorch's on both sides. Graphs are replayed in turn; medians of {REPLAYS}. cuDNN is in benchmark mode;
in float32 its TF32 is off, which is how ours counts. Both outputs are compared with the network's in float64; an error
is the difference's norm over that of what the images' outputs differ by. A row fails whose error is more than {WORSE:g}
times the stock network's. Before that batch normalisations get the statistics of the images, and scales of layers that
training begins near 0 are {LAYER_SCALE:g}: as they are drawn, depthwise networks give every image the same output, and
a wrong layer would not be seen.
"""


@dataclass(frozen=True)
class Network:
    """A row."""

    name: str
    dtype: str
    layout: str
    rule: str

    @property
    def key(self) -> str:
        return f"{self.name}/{self.dtype}/{self.layout}/{self.rule}"


def rows_of(quick: bool) -> Iterator[Network]:
    """float16 and bfloat16 as channels_last, float32 both ways."""
    formats = (("float16", "NHWC"), ("bfloat16", "NHWC"), ("float32", "NCHW"), ("float32", "NHWC"), ("float16", "NCHW"))
    for (dtype, layout), name, rule in itertools.product(formats[:1] if quick else formats, NETWORKS, RULES[:1]):
        yield Network(name, dtype, layout, rule)


def run(context: Context) -> None:
    import torch
    if context.device.kind == "host":
        raise NoDevice("cuDNN is on a GPU")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    chosen = list(rows_of(context.quick))
    context.expect(len(chosen))
    for row in chosen:
        context.row(row.key, lambda row=row: measure(torch, row), network=row.name, dtype=row.dtype, layout=row.layout,
                    rule=row.rule)


def measure(torch: Any, row: Network) -> dict[str, Any]:
    """Milliseconds of a call, stock and converted. Raises WrongResult."""
    import torchvision

    import warpconv.torch
    torch.manual_seed(17)
    dtype = getattr(torch, row.dtype)
    order = torch.channels_last if row.layout == "NHWC" else torch.contiguous_format
    x = torch.randn(BATCH, 3, 224, 224, device="cuda")
    model = calibrated(torch, torchvision.models.get_model(row.name, weights=None).cuda(), x)
    model, x = model.to(dtype).to(memory_format=order), x.to(dtype).to(memory_format=order)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
        expected, stock = _captured(torch, model, x)
        done = warpconv.torch.convert(model, x, where=row.rule, frozen=True)
        try:
            got, ours = _captured(torch, model, x)
            errors = [float((found - exact).norm() / spread(exact)) for found in (expected, got)]
        finally:
            done.undo()
    if not errors[1] < WORSE * errors[0]:
        raise WrongResult(f"an error of {errors[1]:.2g}, where the stock network has {errors[0]:.2g}")
    times = in_turn(torch, [stock.replay, ours.replay])
    return {"stock_ms": times[0] / CALLS, "ms": times[1] / CALLS, "ratio": times[0] / times[1],
            "stock_error": errors[0], "error": errors[1],
            "converted": sum(one.converted for one in done.rows), "layers": len(done.rows)}


def calibrated(torch: Any, model: Any, x: Any) -> Any:
    """The network for inference, its activations of the size that training brings them to."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.momentum = None          # the mean over all calls: of one
            module.reset_running_stats()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("layer_scale"):
                parameter.fill_(LAYER_SCALE)
        model.train()(x)
    return model.eval()


def spread(outputs: Any) -> Any:
    """The norm of what outputs of a batch differ from each other by."""
    return (outputs - outputs.mean(0)).norm()


def _captured(torch: Any, model: Any, x: Any) -> tuple[Any, Any]:
    """The output of one call, and a graph of several."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            found = model(x).clone()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            model(x)
    return found, graph


def in_turn(torch: Any, calls: list[Callable[[], Any]], turns: int = REPLAYS) -> list[float]:
    """Milliseconds of each, medians of samples that take turns."""
    found: list[list[float]] = [[] for _ in calls]
    for turn in range(turns + 2):
        for call, times in zip(calls, found):
            begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            if turn >= 2:
                times.append(begin.elapsed_time(end))
    return [statistics.median(times) for times in found]


def tables(rows: Rows) -> Iterable[Table]:
    formats = dict.fromkeys((row["dtype"], row["layout"], row["rule"]) for row in rows.values())
    for dtype, layout, rule in formats:
        found = [row for row in rows.values() if (row["dtype"], row["layout"], row["rule"]) == (dtype, layout, rule)
                 and row["status"] == OK]
        if found:
            mean = math.exp(sum(math.log(row["ratio"]) for row in found) / len(found))
            yield Table(f"{dtype}, {layout}, {rule}",
                        ("network", "convolutions ours", "stock ms", "converted ms", "stock / converted", "error",
                         "stock error"),
                        tuple((row["network"], f"{row['converted']} of {row['layers']}", round(row["stock_ms"], 3),
                               round(row["ms"], 3), round(row["ratio"], 2), f"{row['error']:.1e}",
                               f"{row['stock_error']:.1e}") for row in found),
                        f"Geometric mean: {mean:.2f}.")


STUDY = Study("whole_networks", "whole networks of torchvision, every Conv2d by warpconv, beside the stock network",
              ABOUT, run, tables)
