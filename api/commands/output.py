"""How the verbs print: tables and text with rich, records as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 120
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str, *, lines: bool = True) -> str:
    """The text with characters that a terminal obeys (escape sequences, other directions) as Python writes them; without
    ``lines``, for names, line feeds and tabs too."""
    made = _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)
    return made if lines else made.replace("\n", "\\n").replace("\t", "\\t")


def say(text: str, *, err: bool = False) -> None:
    """Print a message, with what a terminal would obey made visible."""
    click.echo(printable(text), err=err)


def json_option(command: Callable) -> Callable:
    """``--json``, passed as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print the data as JSON.")(command)


def console(stderr: bool = False, quiet: bool = False) -> Console:
    """A rich console; in a pipe it writes plain text of a fixed width."""
    from rich.console import Console
    made = Console(stderr=stderr, quiet=quiet, highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(stderr=stderr, quiet=quiet, highlight=False, width=PIPED_WIDTH)


def table(*columns: str, title: str | None = None, numbers: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns named in ``numbers`` are set flush right."""
    from rich import box
    from rich.table import Table
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def add_row(made: Table, *cells: Any, style: str | None = None) -> None:
    """Cells as text, never as markup; None is a dash, whole numbers have their thousands set apart."""
    from rich.text import Text
    made.add_row(*(cell if isinstance(cell, Text) else Text(printable(cell_text(cell))) for cell in cells), style=style)


def cell_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}".replace(",", " ")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def echo_record(record: Any) -> None:
    """Print a record as JSON."""
    from warpconv.records import to_json
    click.echo(to_json(record))


def heading(out: Console, title: str, body: str = "") -> None:
    """A bold word and a line of text."""
    from rich.text import Text
    out.print(Text.assemble((f"{title:13}", "bold cyan"), printable(body)), soft_wrap=True)


def size_text(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def seconds_text(seconds: float) -> str:
    """A duration for people."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
