"""``--device``, and saying once where the work goes."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .complete import complete_device
from .output import say
from .wording import phrase

if TYPE_CHECKING:
    from warpconv.codegen.shape import ConvShape
    from warpconv.runtime.call.kernel import Kernel
    from warpconv.runtime.devices.cpu.report import LaunchReport

    from .layer import LayerRequest


SAID = "no-gpu-said"    # a file of the cache directory
A_DAY = 24 * 3600


def device_option(command: Callable) -> Callable:
    """``--device``."""
    return click.option("--device", metavar="auto|cpu|cuda|cuda:N", default="auto", show_default=True,
                        shell_complete=complete_device,
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
                          epilogue=request.epilogue, settings=request.settings,
                          accum_dtype=request.numerics.accumulator.value, precision=request.numerics.precision.value,
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
        return Kernel(plan.spec, plan.program, made, source=source, plan=plan,
                      padding_value=request.shape.padding_value), made.reports
    from warpconv.runtime.devices.cuda.backend import CudaBackend
    built = build(text)
    loaded = CudaBackend(plan.program, built.compiled.cubin, int(device.partition(":")[2]))
    loaded.load()
    return Kernel(plan.spec, plan.program, loaded, source=source, report=built.compiled, plan=plan,
                  padding_value=request.shape.padding_value), None


def note_device(reason: str | None) -> None:
    """Say on stderr why the CPU device was taken: once a day for one reason, since each command says on what it ran.
    The cache directory remembers it, where there is one that can be used."""
    if reason is None or _said_today(reason):
        return
    say(f"warpconv: running on the CPU device: {phrase(reason)} (said once a day; warpconv env says it always)",
        err=True)


def _said_today(reason: str) -> bool:
    """Whether this was said in the last 24 hours; else it is noted as said now."""
    from warpconv.runtime import env, owned, trust
    settings = env.settings()
    if settings.disable_cache or trust.doubt(settings.cache_dir) is not None:
        return False
    note = settings.cache_dir / SAID
    try:
        if trust.read(note).decode() == reason and 0 <= time.time() - note.stat().st_mtime < A_DAY:
            return True
    except (OSError, ValueError):
        pass
    with contextlib.suppress(OSError):
        trust.make(settings.cache_dir)
        aside = owned.aside(settings.cache_dir, SAID)
        aside.write_text(reason, encoding="utf-8")
        aside.chmod(0o600)
        aside.replace(note)
    return False


def _arch(device: str) -> Any:
    from warpconv.codegen.hardware import Arch
    from warpconv.runtime.devices.cuda import contexts
    return None if device == "cpu" else Arch.read(contexts.arch(int(device.partition(":")[2])))
