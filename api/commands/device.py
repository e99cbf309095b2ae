"""``--device``, and saying once where the work goes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .wording import phrase

if TYPE_CHECKING:
    from warpconv.codegen.shape import ConvShape
    from warpconv.runtime.call.kernel import Kernel

    from .layer import LayerRequest


def device_option(command: Callable) -> Callable:
    """``--device``."""
    return click.option("--device", metavar="auto|cpu|cuda|cuda:N", default="auto", show_default=True,
                        help="auto: a GPU if one is usable, else the CPU device.")(command)


def choose_device(device: str, shape: ConvShape) -> tuple[str, str | None]:
    """"cpu" or "cuda:N", and why it is not a GPU where auto found none.

    Raises ArgumentError for an unknown device, DeviceError where a GPU was asked for and none can be used.
    """
    from warpconv.runtime.call.conv import resolve_device
    from warpconv.runtime.devices.cuda import contexts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)        # what it says is said here
        target = resolve_device(device, None, shape)
    if target is None:
        return "cpu", contexts.usable() if device == "auto" else None
    return f"cuda:{target}", None


def make_kernel(request: LayerRequest, device: str) -> Kernel:
    """The kernel of a request on a device that choose_device gave. Raises as warpconv.specialize."""
    from warpconv.runtime.call.conv import specialize
    if request.index_bits is None:
        return specialize(request.shape, arch=request.arch, device=device, algorithm=request.algorithm,
                          epilogue=request.epilogue, settings=request.settings, accum_dtype=request.numerics.value,
                          workspace_limit=request.workspace_limit)
    return specialize(request.shape, device=device, plan=request.plan(None if request.arch else _arch(device)))


def note_device(reason: str | None) -> None:
    """Say on stderr why the CPU device was taken."""
    if reason is not None:
        click.echo(f"warpconv: running on the CPU device: {phrase(reason)}", err=True)


def _arch(device: str) -> Any:
    from warpconv.runtime.devices.cuda import contexts
    return None if device == "cpu" else contexts.arch(int(device.partition(":")[2]))
