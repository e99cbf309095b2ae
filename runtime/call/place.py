"""Where a layer is computed: a GPU, or the CPU device."""

from __future__ import annotations

import functools

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, DeviceError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import warned
from warpconv.runtime.arrays import ArrayView

# Outputs per second of a 5x5 filter on the CPU device with two cores; only for the estimate in the warning.
CPU_RATE = 2.0e7


def resolve_device(device: str, x: ArrayView | None, shape: ConvShape) -> int | None:
    """The GPU's ordinal, or None for the CPU device. Raises ArgumentError, ArgumentTypeError or DeviceError."""
    ordinal = x.device if x is not None else None
    kind, _, number = str(device).partition(":")
    if kind not in ("auto", "cpu", "cuda") or (number and (kind != "cuda" or not number.isdecimal())):
        raise ArgumentError("unknown device", argument="device", value=device, hint="auto, cpu, cuda or cuda:1")
    if kind == "cpu":
        if ordinal is not None:
            raise ArgumentTypeError(f"the arrays are on GPU {ordinal}", argument="device", value=device,
                                    hint="copy them to host memory, or leave device='auto'")
        return None
    if ordinal is not None:
        if number and int(number) != ordinal:
            raise ArgumentTypeError(f"the arrays are on GPU {ordinal}", argument="device", value=device,
                                    hint="move them, or leave device='auto'")
        return ordinal
    from warpconv.runtime.devices.cuda import contexts
    reason = contexts.usable()
    if reason is None:
        chosen = int(number) if number else contexts.default_device()
        contexts.arch(chosen)
        return chosen
    if kind == "cuda":
        raise DeviceError(f"no GPU can be used: {reason}", argument="device", value=device,
                          hint="device='cpu' executes the same kernel without one")
    _warn_once(reason, shape.macs / 25 / CPU_RATE)
    return None


@functools.lru_cache(maxsize=1)
def _warned() -> list[bool]:
    return []


def _warn_once(reason: str, seconds: float) -> None:
    if not _warned():
        _warned().append(True)
        warned.warn(f"warpconv runs on the CPU device ({reason}); this layer takes about {seconds:.2g} s there. "
                    "device='cpu' asks for it without this warning.")
