"""The command line: ``warpconv VERB``. Exit code 0, 1 for a failure, 2 for bad use, 130 after an interrupt,
143 after SIGTERM."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import click

from warpconv.codegen.errors import (ArgumentError, ArgumentTypeError, CompileError, ShapeError, UnsupportedSpec,
                                     WarpconvError)
from warpconv.codegen.version import VERSION

from .commands import COMMANDS
from .commands.files import InputFileError
from .commands.output import printable, say
from .commands.wording import worded

FAILURE, BAD_USE, INTERRUPTED = 1, 2, 130
USER_MISTAKES = (ArgumentError, ArgumentTypeError, ShapeError, UnsupportedSpec, InputFileError)
LOG_LINES = 20


class Program(click.Group):
    """The group of verbs; errors that warpconv raises on purpose become one message and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As Click's, but what standard output cannot take is a message too: a full disk, a closed descriptor. (Click
        itself ends in silence, with 1, where a pipe's reader has gone.)"""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            say(f"warpconv: {_what_failed(error)}", err=True)
            _drop_output()
            sys.exit(FAILURE)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _printable_mistakes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _printable_mistakes():
                return super().invoke(ctx)
        except WarpconvError as error:
            say(f"warpconv: {worded(error, ctx.invoked_subcommand)}", err=True)
            _echo_log(error)
            ctx.exit(BAD_USE if isinstance(error, USER_MISTAKES) else FAILURE)
        except KeyboardInterrupt:
            click.echo("warpconv: interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except MemoryError:
            click.echo("warpconv: not enough memory for these sizes", err=True)
            ctx.exit(FAILURE)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The environment variables, from the one table that declares them."""
        from warpconv.runtime.env import table
        with formatter.section("Environment"):
            formatter.write_dl([(name, f"{purpose} [{kind}{'; ' + default if default else ''}]")
                                for name, kind, default, purpose in table()])


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(VERSION, prog_name="warpconv")
def cli() -> None:
    """Generate CUDA convolution kernels specialised to a layer: emit, inspect, build ahead, run."""
    _start_log()


for _command in COMMANDS:
    cli.add_command(_command)


def main() -> None:
    """Entry point of the console script."""
    _open_standard_files()
    signal.signal(signal.SIGTERM, _terminate)
    cli(prog_name="warpconv")


def _terminate(number: int, frame: Any) -> None:
    """An end like that of an error: what is half written is taken away."""
    raise SystemExit(128 + number)


def _open_standard_files() -> None:
    """Standard files that the caller closed, so that no file of ours gets their numbers; one for output that takes
    nothing, so that a result that cannot be printed is an error."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")      # noqa: SIM115 - for as long as the process lives


class _ClosedOutput(io.TextIOBase):
    """What stands for a standard output that was closed before we began."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _drop_output() -> None:
    """Let go of what is still to be written, which Python would try again at its end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _what_failed(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else f"standard output cannot be written: {reason}"


@contextlib.contextmanager
def _printable_mistakes() -> Iterator[None]:
    """Click's own messages quote what was typed."""
    try:
        yield
    except click.UsageError as error:
        error.message = printable(error.message)
        raise


def _start_log() -> None:
    """Send the log to stderr. Raises ArgumentError where WARPCONV_LOG_LEVEL cannot be read."""
    from warpconv.runtime import env
    log = logging.getLogger("warpconv")
    log.setLevel(env.settings().log_level)
    if not any(isinstance(handler, _StderrHandler) for handler in log.handlers):
        log.addHandler(_StderrHandler())


class _StderrHandler(logging.Handler):
    """Looks sys.stderr up at each message, so that a redirection is followed."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.name} {record.levelname.lower()}: {record.getMessage()}", err=True)


def _echo_log(error: WarpconvError) -> None:
    if isinstance(error, CompileError) and error.log.strip():
        lines = error.log.strip().splitlines()
        say("\n".join(lines[:LOG_LINES]), err=True)
        if len(lines) > LOG_LINES:
            click.echo(f"... {len(lines) - LOG_LINES} more lines", err=True)


if __name__ == "__main__":
    main()
