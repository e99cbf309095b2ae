"""The kernels of a model's layers, compiled at the same time before they are called."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor

from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Operation
from warpconv.runtime import arrays
from warpconv.runtime.build.parallel import as_done, workers_of
from warpconv.runtime.call import kernels
from warpconv.runtime.call.place import resolve_device


class Use(NamedTuple):
    """One call of a layer: what of the layer ``shape`` is computed where ``tensor`` lies, how exactly, and with a
    bias."""

    shape: ConvShape
    tensor: Tensor
    operation: Operation
    precision: str
    bias: bool = False


def build(uses: Iterable[Use], workers: int | None, *, left: type[Exception] | tuple[()] = ()) -> None:
    """Raises as the calls themselves would, for the first that is seen to fail, but for errors of the type ``left``,
    which are left to the calls."""
    asks = []
    for use in uses:
        with contextlib.suppress(left):
            device = resolve_device("auto", arrays.view(use.tensor.detach(), "input"), use.shape)
            asks.append(kernels.asked(use.shape, device, epilogue=("bias",) if use.bias else (),
                                      operation=use.operation, numerics=kernels.numerics_of(None, use.precision),
                                      workspace_limit=kernels.call_limit(None)))
    with contextlib.closing(as_done(lambda number: kernels.kernel_of(asks[number]), range(len(asks)),
                                    workers_of(workers, "workers"))) as finished:
        for _, future in finished:
            with contextlib.suppress(left):
                future.result()
