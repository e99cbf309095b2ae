"""``warpconv emit``: exactly the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from warpconv.codegen.errors import ArgumentError
from warpconv.runtime import paths

from .files import make_folder, write_text
from .layer import layer_options, templates_option
from .output import echo_record, json_option
from .requests import layers_argument, read_requests

if TYPE_CHECKING:
    from warpconv.codegen.render import KernelSource

    from .layer import LayerRequest


@click.command()
@layers_argument
@layer_options(operation=True)
@templates_option
@click.option("-o", "--output", metavar="FILE|FOLDER/",
              help="Write the source there instead of to standard output: to a folder, a file for each layer and "
                   "architecture.")
@json_option
@click.pass_context
def emit(ctx: click.Context, layers: str | None, layer: str | None, output: str | None, as_json: bool,
         **options: Any) -> None:
    """Write the CUDA source of a layer's kernel.

    LAYERS is a TOML or JSON file, the name of a shipped one, an ONNX model (.onnx) or torchvision:NAME; or one layer is
    given in options. Several sources, of
    a file's layers or of --arch sm_80,sm_90, go to a folder or one after the other to standard output: the head of each
    names its layer and architecture.
    """
    from warpconv.runtime.build.templates import laid_over, source_of
    asked = read_requests(ctx, layers, layer, options)
    folder = output is not None and (output.endswith("/") or paths.is_dir(output))
    singles = list(asked.singles("emit"))
    if len(singles) > 1 and output is not None and not folder:
        raise ArgumentError("several sources go to a folder", argument="--output", value=output,
                            hint=f"{output}/, with a slash at its end")
    made = [(request, source_of(request.plan(), laid_over())) for request in singles]
    for of in sorted({str(source.plan.spec.arch) for _, source in made if source.plan.spec.arch.feature}):
        click.echo(f"a text for {of} has instructions that no other architecture has: compile it with nvcc -arch={of}",
                   err=True)
    if output is not None:
        for request, source in made:
            write_text(make_folder(output) / _name(request, source) if folder else output, source.text, through=True)
    if as_json:
        from warpconv.records.layers import EmitRecord, ManyRecord, ResultRow
        records = [EmitRecord(source=source.text, entries=source.entries, digest=source.digest) for _, source in made]
        rows = tuple(ResultRow(name=request.name, reason=None, result=record)
                     for (request, _), record in zip(made, records))
        echo_record(ManyRecord(results=rows) if asked.many else records[0])
    elif output is None:
        click.echo("\n".join(source.text for _, source in made), nl=False)


def _name(request: LayerRequest, source: KernelSource) -> str:
    """The file of one of several sources."""
    return f"{request.name or source.plan.spec.name}-{source.plan.spec.arch}.cu"
