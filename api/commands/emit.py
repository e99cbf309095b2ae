"""``warpconv emit``: exactly the source."""

from __future__ import annotations

from typing import Any

import click

from .files import write_text
from .layer import layer_options, read_layer
from .output import echo_record, json_option


@click.command()
@layer_options()
@click.option("-o", "--output", metavar="FILE", help="Write the source there instead of to standard output.")
@json_option
def emit(output: str | None, as_json: bool, **options: Any) -> None:
    """Write the CUDA source of a layer's kernel."""
    from warpconv.codegen.render import render
    source = render(read_layer(options).plan())
    if output is not None:
        write_text(output, source.text, through=True)
    if as_json:
        from warpconv.records import EmitRecord
        echo_record(EmitRecord(source=source.text, entries=source.entries, digest=source.digest))
    elif output is None:
        click.echo(source.text, nl=False)
