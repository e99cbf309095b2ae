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
    from warpconv.runtime.devices.cpu.report import LaunchReport

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


def edited_kernel(request: LayerRequest, device: str, source: str) -> tuple[Kernel, list[LaunchReport] | None]:
    """The kernel of a text in place of that which the request's plan gives; on the CPU device in CHECK mode, so that a
    slip of the editor is a KernelFault, and with the list that each launch's counts are added to. Raises ArgumentError
    where it is not the plan's, CompileError."""
    from warpconv.runtime.build.pipeline import Text, build
    from warpconv.runtime.call.kernel import Kernel

    from .edited import check_entries
    plan = request.plan(None if request.arch else _arch(device))
    check_entries(plan, source)
    text = Text.given(plan.spec, plan.program, source)
    if device == "cpu":
        from warpconv.runtime.devices.cpu import backend
        from warpconv.runtime.devices.cpu.report import Mode
        made, _ = backend.load(text, mode=Mode.CHECK)
        return Kernel(plan.spec, plan.program, made, source=source, plan=plan), made.reports
    from warpconv.runtime.devices.cuda.backend import CudaBackend
    built = build(text)
    loaded = CudaBackend(plan.program, built.compiled.cubin, int(device.partition(":")[2]))
    loaded.load()
    return Kernel(plan.spec, plan.program, loaded, source=source, report=built.compiled, plan=plan), None


def note_device(reason: str | None) -> None:
    """Say on stderr why the CPU device was taken."""
    if reason is not None:
        click.echo(f"warpconv: running on the CPU device: {phrase(reason)}", err=True)


def _arch(device: str) -> Any:
    from warpconv.runtime.devices.cuda import contexts
    return None if device == "cpu" else contexts.arch(int(device.partition(":")[2]))
