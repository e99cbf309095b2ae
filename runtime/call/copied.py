"""Gradients of dense layers in NCHW by kernels that read NHWC, between copies, where that is sooner: the tensor cores'
kernels that gather windows have no other order."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from warpconv.codegen import adjoint
from warpconv.codegen.batch import assumed_batch
from warpconv.codegen.dtypes import Layout
from warpconv.codegen.errors import WarpconvError
from warpconv.codegen.registry import algorithm
from warpconv.codegen.spec import Operation

from . import kernels
from .pitch import MOST_ANSWERS, SLOTS_OF_A_LAUNCH
from .recording import recording

LEAST_CHANNELS = 8          # of a group, and filters: no kernel of the tensor cores takes fewer
# Issue slots of a GPU while PyTorch copies an element into the other order: 39 million of float32 take 268 us, 32
# million of float16 183 us (H200, 2026-11-23), a third of the speed of other copies
SLOTS_OF_AN_ELEMENT = 6.0

_sooner: dict[Hashable, bool] = {}


def in_nhwc(ask: kernels.Ask) -> kernels.Ask | None:
    """What is asked for in NHWC, where its kernel and the copies of both arrays of images are sooner than the kernel
    for NCHW by the planners' estimates; None where they are not. Asked once for each layer."""
    request = ask.request
    layer = request.layer
    if (layer.layout is not Layout.NCHW or not request.by_rule or recording.graph is not None
            or min(layer.channels, layer.filters) < LEAST_CHANNELS
            or request.operation is Operation.DATA_GRADIENT and adjoint.refusal(layer) is None):
        return None
    other, key = ask.of(replace(layer, layout=Layout.NHWC)), kernels.key_of(ask)
    if key not in _sooner:
        if len(_sooner) > MOST_ANSWERS:
            _sooner.clear()
        _sooner[key] = _is_sooner(ask, other)
    return other if _sooner[key] else None


def _is_sooner(here: kernels.Ask, there: kernels.Ask) -> bool:
    layer = there.request.layer
    moved = assumed_batch(layer) * (layer.c * layer.h * layer.w + layer.k * layer.p * layer.q)
    try:
        plans = [(kernels.plan_of(ask), ask.request.layer) for ask in (here, there)]
        names = [made.spec.algorithm for made, _ in plans]
        slots = [algorithm(name).slots(made, shape) for name, (made, shape) in zip(names, plans)]
    except WarpconvError:       # no kernel for one of them: the call says what is wrong
        return False
    if names[0] == names[1]:    # which order has the fewer blocks is not what copies are for
        return False
    return slots[1] + 2 * SLOTS_OF_A_LAUNCH + SLOTS_OF_AN_ELEMENT * moved < slots[0]


def clear() -> None:
    """Forget what was asked."""
    _sooner.clear()
