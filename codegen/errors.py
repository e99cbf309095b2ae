"""Every error that warpconv raises on purpose.

Each carries ``argument`` (the name of what was wrong), ``value`` (what was given) and ``hint`` (the way out), and is
also the fitting built-in error, so ``except ValueError`` works for callers who do not know this module.
"""

from __future__ import annotations

from typing import Any


class WarpconvError(Exception):
    """Base of all errors; ``str()`` gives message, argument, value and way out in one line."""

    def __init__(self, message: str, *, argument: str | None = None, value: Any = None, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.argument = argument
        self.value = value
        self.hint = hint

    def __str__(self) -> str:
        text = self.message
        if self.argument is not None and self.value is not None:
            text += f" ({self.argument} = {_short(self.value)})"
        elif self.argument is not None:
            text += f" ({self.argument})"
        return f"{text}; {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class ShapeError(WarpconvError, ValueError):
    """A layer or an array has sizes that fit no convolution, or do not fit each other."""


class ArgumentError(WarpconvError, ValueError):
    """An argument has a value that is not offered (an unknown option, activation, device, ...)."""


class ArgumentTypeError(WarpconvError, TypeError):
    """An argument is of a kind that cannot be used here (a list for an array, a tensor that requires grad, ...)."""


class UnsupportedSpec(WarpconvError, ValueError):
    """No kernel of this algorithm can serve the layer; ``reason`` says why, ``spec`` says which."""

    def __init__(self, spec: Any, reason: str, *, hint: str | None = None):
        name = getattr(spec, "algorithm", None)
        text = f"{name} cannot serve this layer: {reason}" if name else f"no algorithm can serve this layer: {reason}"
        super().__init__(text, argument="algorithm" if name else None, value=name, hint=hint)
        self.spec = spec
        self.reason = reason


class PlannerError(UnsupportedSpec):
    """A planner failed where it should have answered: a defect of warpconv's own, which declines the algorithm."""


class CompileError(WarpconvError, RuntimeError):
    """A compiler refused an emitted source; carries it, the options and the compiler's log."""

    def __init__(self, message: str, *, source: str, options: tuple[str, ...], log: str, hint: str | None = None):
        super().__init__(message, hint=hint)
        self.source = source
        self.options = options
        self.log = log

    def numbered_source(self) -> str:
        """The source with line numbers, to read beside the log."""
        lines = self.source.splitlines()
        width = len(str(len(lines)))
        return "\n".join(f"{i:{width}} | {line}" for i, line in enumerate(lines, 1))


class ToolNotFound(WarpconvError, OSError):
    """A compiler or disassembler that the call needs is not on this machine."""


class DeviceError(WarpconvError, OSError):
    """A device was asked for that cannot be used (no driver, no such GPU, pycuda missing, out of memory)."""


class KernelNotBuilt(WarpconvError, OSError):
    """Compiling is off (or impossible) and the kernel is in no cache or pack; ``hint`` has the command that builds
    it."""

    def __init__(self, message: str, *, spec: Any = None, command: str | None = None):
        super().__init__(message, hint=f"build it with: {command}" if command else None)
        self.spec = spec
        self.command = command


class PackError(WarpconvError, OSError):
    """A pack is missing, damaged, or of another schema."""


class FileError(WarpconvError, OSError):
    """A file given by the user cannot be read or written as what it should be."""


class KernelFault(WarpconvError, RuntimeError):
    """The CPU device saw an emitted kernel break a rule of the machine (``kind`` is one of KernelFault.KINDS)."""

    KINDS = ("out-of-bounds", "misaligned", "read-only", "uninitialised-read", "unwritten-output", "global-race",
             "shared-race", "register-index", "inactive-lane", "divergent-barrier", "deadlock", "launch", "barrier-misuse",
             "descriptor", "asynchronous-order")

    def __init__(self, message: str, *, kind: str, entry: str | None = None, hint: str | None = None):
        super().__init__(message, argument="kernel", value=entry, hint=hint)
        self.kind = kind
        self.entry = entry


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _rebuild(cls: type[WarpconvError], args: tuple[Any, ...], state: dict[str, Any]) -> WarpconvError:
    error: WarpconvError = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
