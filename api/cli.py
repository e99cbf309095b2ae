"""The command line: ``warpconv VERB``. Exit code 0, 1 for a failure, 2 for bad use, 130 after an interrupt."""

from __future__ import annotations

import logging
from typing import Any

import click

from warpconv.codegen.errors import (ArgumentError, ArgumentTypeError, CompileError, ShapeError, UnsupportedSpec,
                                     WarpconvError)
from warpconv.codegen.version import VERSION

from .commands import COMMANDS
from .commands.files import InputFileError
from .commands.wording import worded

FAILURE, BAD_USE, INTERRUPTED = 1, 2, 130
USER_MISTAKES = (ArgumentError, ArgumentTypeError, ShapeError, UnsupportedSpec, InputFileError)
LOG_LINES = 20


class Program(click.Group):
    """The group of verbs; errors that warpconv raises on purpose become one message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except WarpconvError as error:
            click.echo(f"warpconv: {worded(error, ctx.invoked_subcommand)}", err=True)
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
    cli(prog_name="warpconv")


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
        click.echo(f"{record.name} {record.levelname.lower()}: {record.getMessage()}", err=True)


def _echo_log(error: WarpconvError) -> None:
    if isinstance(error, CompileError) and error.log.strip():
        lines = error.log.strip().splitlines()
        click.echo("\n".join(lines[:LOG_LINES]), err=True)
        if len(lines) > LOG_LINES:
            click.echo(f"... {len(lines) - LOG_LINES} more lines", err=True)


if __name__ == "__main__":
    main()
