"""Whether warpconv is quicker than PyTorch at a layer, measured on the device where the layer is.

On a GPU the calls wait behind a kernel that does nothing until all of them are launched, so that the GPU's time and the
host's are told apart: small layers take the host longer to launch than the GPU to compute.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree

from .estimate import MARGIN
from .sizes import evaluated

ROUNDS, CALLS = 7, 5
HELD, MOST_HELD = 1 << 21, 1 << 27      # cycles that calls wait for at first (a millisecond), and at most
AS_LONG = 1.05          # times PyTorch's time of the host counts as no longer
SLOWER = 1.1            # the host at work on a whole model, whose code and data are not as near as those of one layer
STEPPED = 1.1           # times a pass's time of the host takes a step of training, with its optimizer
TRAINED = 3             # forward passes that a step takes, where that alone can be called


class Times(NamedTuple):
    """Seconds of a call: of the device, and of the host until the call returns."""

    device: float
    host: float


class Beside(NamedTuple):
    """A layer's times as warpconv's and as PyTorch's, and them in words."""

    ours: Times
    theirs: Times
    said: str

    @property
    def saved(self) -> float:
        """Seconds of the device."""
        return self.theirs.device - self.ours.device

    @property
    def paid(self) -> float:
        """Seconds of the host."""
        return self.ours.host - self.theirs.host

    @property
    def is_free(self) -> bool:
        return self.ours.host <= AS_LONG * self.theirs.host

    @property
    def is_quicker(self) -> bool:
        return self.ours.device < MARGIN * self.theirs.device


def beside(module: Any, kind: type, inputs: list[Tensor], precision: str) -> Beside:
    """The layer as warpconv's ``kind`` with a ``precision``, and as it is, at such inputs, forward and, where it is in
    training mode, backward, sampled in turn. Raises WarpconvError for a layer without a kernel."""
    theirs = copy.deepcopy(module)
    for hooks in (theirs._forward_hooks, theirs._forward_pre_hooks, theirs._backward_hooks):
        hooks.clear()
    ours = copy.deepcopy(theirs)
    ours.__class__, ours.precision = kind, precision
    mine, others = (Times(*map(sum, zip(*column))) for column in zip(*(_beside(ours, theirs, x) for x in inputs)))
    return Beside(mine, others, (
        f"measured {others.device / mine.device:.2g} times PyTorch's speed, "
        f"{'forward and backward' if module.training else 'forward'}"
        + (f", in {len(inputs)} calls" if len(inputs) > 1 else "")))


def chosen(found: Mapping[Any, Beside], whole: Times | None) -> set[Any]:
    """Which layers become warpconv's: those that take less of the device's time, and, in a model whose call takes so
    much of the device and the host (``whole``), as many of them as shorten the longer of both. First those that take
    the host no longer (within AS_LONG, which is not asked what it adds up to), then those that save most of the
    device's time for the host's."""
    quicker = {layer: times for layer, times in found.items() if times.is_quicker}
    if whole is None:
        return set(quicker)
    device, host = whole
    taken = set()
    for layer, times in sorted(quicker.items(), key=lambda item: (not item[1].is_free, item[1].paid / item[1].saved)):
        after = device - times.saved, host + times.paid
        if times.is_free or max(after[0], SLOWER * after[1]) < max(device, SLOWER * host):
            taken.add(layer)
            device, host = after
    return taken


def _beside(ours: Any, theirs: Any, input: Tensor) -> list[Times]:
    passes = [_pass(layer, input) for layer in (ours, theirs)]
    for once in passes:         # compiles, prepares, searches
        for _ in range(2):
            once()
    return in_turn(passes, input.device)


def whole(model: torch.nn.Module, args: tuple[Any, ...], named: Mapping[str, Any],
          device: torch.device) -> Times | None:
    """What a call of the model takes, with its backward pass in training mode; None where it is not on a GPU.
    Parameters, buffers, gradients and the state of drawn numbers stay as they are."""
    if device.type != "cuda":
        return None
    with torch.random.fork_rng([device]):
        if model.training:
            try:
                step = _by_both_clocks(functools.partial(_step, model), args, named, device)
                return Times(step.device, STEPPED * step.host)
            except Exception:   # in training mode a model may want more than the example, such as targets
                pass
        with evaluated(model), torch.no_grad():
            times = _by_both_clocks(lambda args, named: lambda: model(*args, **named), args, named, device)
    return Times(*(TRAINED * seconds for seconds in times)) if model.training else times


def _by_both_clocks(call: Callable[[tuple[Any, ...], Mapping[str, Any]], Callable[[], Any]], args: tuple[Any, ...],
                    named: Mapping[str, Any], device: torch.device) -> Times:
    """The host's time is that of an eighth of the batch, where there is one: of the whole it may hold what the host
    waits for a GPU that is behind, in a full queue or in calls that read results."""
    once = call(args, named)
    hosts = [_of_the_host(once, device)]
    (times,) = in_turn([once], device, rounds=3, calls=1)
    with contextlib.suppress(Exception):        # a model may want the sizes that it was given
        hosts.append(_of_the_host(call(*_fewer(args, named)), device))
    return Times(times.device, min(hosts))


def _of_the_host(once: Callable[[], Any], device: torch.device) -> float:
    """Seconds until a call returns whose GPU had nothing to do."""
    found = []
    for turn in range(7):
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        once()
        if turn > 1:
            found.append(time.perf_counter() - start)
    torch.cuda.synchronize(device)
    return statistics.median(found)


def _fewer(args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with an eighth of the images: of every tensor that has as many as the first one."""
    leaves, form = _pytree.tree_flatten((args, dict(named)))
    batch = next((leaf.shape[0] for leaf in leaves if isinstance(leaf, Tensor) and leaf.dim() > 1), 0)
    found: tuple[tuple[Any, ...], dict[str, Any]] = _pytree.tree_unflatten([
        leaf[:max(1, batch // 8)] if isinstance(leaf, Tensor) and leaf.dim() and leaf.shape[0] == batch else leaf
        for leaf in leaves], form)
    return found


def _step(model: torch.nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> Callable[[], Any]:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}

    def run() -> None:
        made = torch.func.functional_call(model, buffers, args, dict(named))
        outputs = [leaf for leaf in _pytree.tree_leaves(made) if isinstance(leaf, Tensor) and leaf.requires_grad]
        torch.autograd.grad(outputs, parameters, list(map(torch.ones_like, outputs)), allow_unused=True)

    return torch.enable_grad()(run)


def _pass(layer: Any, input: Tensor) -> Callable[[], Any]:
    cast = input.dtype is not layer.weight.dtype        # by autocast, where the layer was met

    def forward(x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, input.dtype if cast else None, enabled=cast):
            made: Tensor = layer(x)
        return made

    if not layer.training:
        return torch.no_grad()(lambda: forward(input))
    x = input.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    wanted = [x, *(parameter for parameter in layer.parameters() if parameter.requires_grad)]
    with torch.enable_grad():
        grad = torch.randn_like(forward(x))
    return torch.enable_grad()(lambda: torch.autograd.grad(forward(x), wanted, grad))


def in_turn(passes: list[Callable[[], Any]], device: torch.device, rounds: int = ROUNDS,
            calls: int = CALLS) -> list[Times]:
    """The medians of each pass's time of a call, sampled in turn."""
    if device.type != "cuda":
        samples = [[_by_the_clock(once) for once in passes] for _ in range(rounds)]
    else:
        with torch.cuda.device(device):
            samples = [[_held(once, calls) for once in passes] for _ in range(rounds)]
    return [Times(*map(statistics.median, zip(*column))) for column in zip(*samples)]


def _by_the_clock(once: Callable[[], Any]) -> Times:
    start = time.perf_counter()
    once()
    took = time.perf_counter() - start
    return Times(took, took)


def _held(once: Callable[[], Any], calls: int) -> Times:
    """Of calls that the GPU begins when all are launched. Where that cannot be, as a call waits for the GPU itself or
    launches more than the driver's queue holds, of those that were launched before it began and of the rest."""
    cycles = HELD
    while True:
        held, first, last = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        torch.cuda.synchronize()
        torch.cuda._sleep(cycles)
        held.record()
        first.record()
        start = time.perf_counter()
        for _ in range(calls):
            once()
        host = (time.perf_counter() - start) / calls
        waited = not held.query()
        last.record()
        last.synchronize()
        if waited or cycles >= MOST_HELD:
            return Times(first.elapsed_time(last) / 1e3 / calls, host)
        cycles *= 4
