"""Training steps of torchvision's networks, converted against stock: forward, backward and a fused AdamW."""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.devices import NoDevice
from bench.harness import WrongResult
from bench.report.files import OK, Table
from bench.study import Context, Rows, Study

from .whole_networks import in_turn

# name -> what turns off what is drawn anew in each step
NETWORKS = {"convnext_tiny": {"stochastic_depth_prob": 0.0}, "mobilenet_v2": {"dropout": 0.0},
            "efficientnet_b0": {"stochastic_depth_prob": 0.0, "dropout": 0.0}, "resnet50": {}}
DENSE = ("resnet50",)           # networks for the kinds of TF32 on both sides alone
BATCH = 64
STEPS, TURNS = 5, 9             # of an eager sample; samples that take turns
# name -> (autocast's type or None, layout, whether PyTorch may take TF32, the precision of converted layers)
KINDS = {"AMP bfloat16 NHWC": ("bfloat16", "NHWC", True, "float32"),
         "float32 NCHW, TF32 as PyTorch ships": (None, "NCHW", True, "float32"),
         "float32 NCHW, TF32 off": (None, "NCHW", False, "float32"),
         "float32 NCHW, TF32 on both sides": (None, "NCHW", True, "tf32"),
         "float32 NHWC, TF32 on both sides": (None, "NHWC", True, "tf32")}
MOST_DIFFERENCE = {"bfloat16": 0.05, None: 0.01}        # of the first losses

ABOUT = f"""
A step is a forward pass of {BATCH} drawn images of 224 x 224, the cross entropy to drawn classes, the backward pass
and a fused AdamW, of networks of torchvision with drawn weights in training mode (dropout and stochastic depth off,
so that all compute the same). *Stock* is PyTorch's with cuDNN in benchmark mode. *eager* is by the clock, {STEPS}
steps a sample, with the same weights after `warpconv.torch.convert(model, x, where="measure")`: layers are ours where
both passes together were measured to take the GPU less time, as far as the host does not become what the network waits
for. *graph* is one CUDA graph of a step, after `where="graph"`, which asks for the GPU's time alone. Samples
take turns; medians of {TURNS}. The losses of the first steps are compared. Converted layers of float32 are as exact as
float32 (the default), with *TF32 on both sides* rounded to TF32 (`precision="tf32"`), as PyTorch's are.
"""


@dataclass(frozen=True)
class Training:
    """A row."""

    name: str
    kind: str

    @property
    def key(self) -> str:
        return f"{self.name}/{self.kind}"


def rows_of(quick: bool) -> Iterator[Training]:
    for kind, name in itertools.product(list(KINDS)[:1] if quick else KINDS, NETWORKS):
        if name not in DENSE or KINDS[kind][3] == "tf32":
            yield Training(name, kind)


def run(context: Context) -> None:
    import torch
    if context.device.kind == "host":
        raise NoDevice("cuDNN is on a GPU")
    torch.backends.cudnn.benchmark = True
    chosen = list(rows_of(context.quick))
    context.expect(len(chosen))
    for row in chosen:
        context.row(row.key, torch.enable_grad()(lambda row=row: measure(torch, row)),      # off in other studies
                    network=row.name, kind=row.kind)
        torch.cuda.empty_cache()


def measure(torch: Any, row: Training) -> dict[str, Any]:
    """Milliseconds of a step, stock and converted, eager and as a graph. Raises WrongResult."""
    import warpconv.torch
    amp, layout, tf32, precision = KINDS[row.kind]
    # what PyTorch ships with: TF32 for convolutions, not for matrix products
    torch.backends.cudnn.allow_tf32 = tf32
    models, x, target = equal_networks(torch, row.name, layout, 3)
    seen = torch.autocast("cuda", torch.bfloat16, enabled=amp is not None)
    with seen:
        done = [warpconv.torch.convert(model, x, where=rule, precision=precision)
                for model, rule in zip(models[1:], ("measure", "graph"))]
    steps = [Step(torch, model, x, target, amp) for model in models]
    losses = [[float(step()) for _ in range(2)] for step in steps]
    difference = max(abs(a - b) / abs(a) for other in losses[1:] for a, b in zip(losses[0], other))
    if not difference < MOST_DIFFERENCE[amp]:
        raise WrongResult(f"losses {losses}")
    eager = by_the_clock(torch, steps[:2])
    graphs = in_turn(torch, [step.captured() for step in steps[::2]], TURNS)
    eager_ours, graph_ours = (sum(one.converted for one in each.rows) for each in done)
    return {"stock_eager_ms": eager[0], "eager_ms": eager[1], "eager_ratio": eager[0] / eager[1],
            "stock_graph_ms": graphs[0], "graph_ms": graphs[1], "graph_ratio": graphs[0] / graphs[1],
            "difference": difference, "converted": eager_ours, "graph_converted": graph_ours,
            "layers": len(done[0].rows), "rows": [[row.name, row.layer, row.why] for row in done[0].rows]}


def equal_networks(torch: Any, name: str, layout: str, count: int) -> tuple[list[Any], Any, Any]:
    """So many copies of a network in training mode, a batch of images in the same order and their targets."""
    import torchvision
    torch.manual_seed(23)
    order = torch.channels_last if layout == "NHWC" else torch.contiguous_format
    stock = torchvision.models.get_model(name, weights=None, **NETWORKS[name]).cuda().to(memory_format=order)
    models = [stock.train(), *(copy.deepcopy(stock) for _ in range(count - 1))]
    x = torch.randn(BATCH, 3, 224, 224, device="cuda").to(memory_format=order)
    return models, x, torch.randint(0, 1000, (BATCH,), device="cuda")


class Step:
    """A model's training step."""

    def __init__(self, torch: Any, model: Any, x: Any, target: Any, amp: str | None):
        self.torch, self.model, self.x, self.target, self.amp = torch, model, x, target, amp
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)

    def __call__(self) -> Any:
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.amp is not None):
            loss = torch.nn.functional.cross_entropy(self.model(self.x), self.target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def captured(self) -> Callable[[], Any]:
        """The replay of a CUDA graph of a step."""
        torch, side = self.torch, self.torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self()
        return graph.replay


def by_the_clock(torch: Any, steps: list[Step]) -> list[float]:
    """Milliseconds of an eager step of each, medians."""
    found: list[list[float]] = [[] for _ in steps]
    for turn in range(TURNS + 1):
        for step, times in zip(steps, found):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(STEPS):
                step()
            torch.cuda.synchronize()
            if turn:
                times.append(1e3 * (time.perf_counter() - begin) / STEPS)
    return [sorted(times)[len(times) // 2] for times in found]


def tables(rows: Rows) -> Iterable[Table]:
    for kind in KINDS:
        found = [row for row in rows.values() if row["kind"] == kind and row["status"] == OK]
        if found:
            eager, graph = (math.exp(sum(math.log(row[name]) for row in found) / len(found))
                            for name in ("eager_ratio", "graph_ratio"))
            yield Table(kind, _COLUMNS, tuple(map(_line, found)),
                        f"Geometric means: eager {eager:.2f}, as a graph {graph:.2f}.")


_COLUMNS = ("network", "convolutions ours", "eager, stock ms", "converted ms", "x", "ours in the graph",
            "graph, stock ms", "converted ms", "x of graphs")


def _line(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["network"], f"{row['converted']} of {row['layers']}", round(row["stock_eager_ms"], 2),
            round(row["eager_ms"], 2), round(row["eager_ratio"], 2), f"{row['graph_converted']} of {row['layers']}",
            round(row["stock_graph_ms"], 2), round(row["graph_ms"], 2), round(row["graph_ratio"], 2))


STUDY = Study("training", "training steps of torchvision's networks, converted against stock", ABOUT, run, tables)
