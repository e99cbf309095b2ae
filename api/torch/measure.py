"""Whether warpconv is quicker than PyTorch at a layer, measured on the device where the layer is.

On a GPU the calls wait behind a kernel that does nothing until all of them are launched, so that the GPU's time and the
host's are told apart: small layers take the host longer to launch than the GPU to compute.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree

from warpconv.codegen.errors import WarpconvError

from .estimate import MARGIN
from .sizes import evaluated

ROUNDS, CALLS = 7, 5
HELD, MOST_HELD = 1 << 21, 1 << 27      # cycles that calls wait for at first (a millisecond), and at most
BUSY = 0.8              # of the time by the clock: where a GPU computes for less, it waits for the host
AS_LONG = 1.05          # times PyTorch's time of the host counts as no longer


class Times(NamedTuple):
    """Seconds of a call: of the device, and of the host until the call returns."""

    device: float
    host: float


def quicker(module: Any, kind: type, inputs: list[Tensor], host_bound: bool) -> tuple[
        bool, str, float | None, float | None]:
    """Whether the layer as warpconv's ``kind`` takes less of the device's time at such inputs, forward and, where it is
    in training mode, backward, and, in a model that is ``host_bound``, no more of the host's; why in words, and
    seconds of the device for the two, sampled in turn."""
    theirs = copy.deepcopy(module)
    for hooks in (theirs._forward_hooks, theirs._forward_pre_hooks, theirs._backward_hooks):
        hooks.clear()
    ours = copy.deepcopy(theirs)
    ours.__class__ = kind
    try:
        found = [_beside(ours, theirs, x) for x in inputs]
    except WarpconvError as error:
        return False, f"not served: {error}", None, None
    mine, others = (Times(*map(sum, zip(*column))) for column in zip(*found))
    why = (f"measured {others.device / mine.device:.2g} times PyTorch's speed, "
           f"{'forward and backward' if module.training else 'forward'}"
           + (f", in {len(inputs)} calls" if len(inputs) > 1 else ""))
    taken = mine.device < MARGIN * others.device
    if taken and host_bound and mine.host > AS_LONG * others.host:
        taken = False
        why += f"; but it takes {(mine.host - others.host) * 1e6:.0f} us more of the host, for which this model waits"
    return taken, why, mine.device, others.device


def _beside(ours: Any, theirs: Any, input: Tensor) -> list[Times]:
    passes = [_pass(layer, input) for layer in (ours, theirs)]
    for once in passes:         # compiles, prepares, searches
        for _ in range(2):
            once()
    return in_turn(passes, input.device)


def waits_for_the_host(model: torch.nn.Module, args: tuple[Any, ...], named: Mapping[str, Any],
                       device: torch.device) -> bool:
    """Whether a call of the model, with its backward pass in training mode, keeps a GPU busy for less than BUSY of its
    time by the clock. Parameters, buffers, gradients and the state of drawn numbers stay as they are."""
    if device.type != "cuda":
        return False
    with torch.random.fork_rng([device]):
        if model.training:
            try:
                return _busy(_step(model, args, named), device) < BUSY
            except Exception:   # in training mode a model may want more than the example, such as targets
                pass
        with evaluated(model), torch.no_grad():
            return _busy(lambda: model(*args, **named), device) < BUSY


def _busy(once: Callable[[], Any], device: torch.device) -> float:
    """The share of the time by the clock that a GPU computes for."""
    walls = []
    for _ in range(2):
        once()
    for _ in range(3):
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        once()
        torch.cuda.synchronize(device)
        walls.append(time.perf_counter() - start)
    (times,) = in_turn([once], device, rounds=3, calls=1)
    return times.device / statistics.median(walls)


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
