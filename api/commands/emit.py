"""``warpconv emit``: exactly the source."""

from __future__ import annotations

from typing import Any

import click

from .files import write_text
from .layer import layer_options, read_layer, templates_option
from .output import echo_record, json_option


@click.command()
@layer_options()
@templates_option
@click.option("-o", "--output", metavar="FILE", help="Write the source there instead of to standard output.")
@json_option
def emit(output: str | None, as_json: bool, **options: Any) -> None:
    """Write the CUDA source of a layer's kernel."""
    from warpconv.runtime.build.templates import laid_over, source_of
    source = source_of(read_layer(options).plan(), laid_over())
    if output is not None:
        write_text(output, source.text, through=True)
    if as_json:
        from warpconv.records import EmitRecord
        echo_record(EmitRecord(source=source.text, entries=source.entries, digest=source.digest))
    elif output is None:
        click.echo(source.text, nl=False)
