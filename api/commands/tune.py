"""``warpconv tune``: time a layer's plan values on a device, and keep every time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from warpconv.codegen.errors import ArgumentError
from warpconv.codegen.numerics import Accumulator
from warpconv.codegen.spec import Operation
from warpconv.records.layers import LeftOutRow

from .complete import complete_layers
from .device import choose_device, device_option, note_device
from .files import check_output
from .layer import layer_options, read_layer
from .left_out import left_out_rows, show_left_out
from .output import console, echo_record, heading, json_option, say
from .requests import dims_option, read_source, refuse_layer, typed_options
from .tune_show import layer_row, layers_record, show_layers, show_results, tune_record


@click.command()
@click.argument("names", nargs=-1, metavar="[LAYERS]", shell_complete=complete_layers)
@dims_option
@layer_options(arch=False)
@device_option
@click.option("--strategy", metavar="sweep|tpe", default="sweep", show_default=True,
              help="sweep: all configurations, in a drawn order; tpe: a search that learns (extra tune).")
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Of the order and of the data.")
@click.option("--budget", type=float, metavar="SECONDS", help="Stop after so long (for each layer).")
@click.option("--configurations", type=int, metavar="N", help="Stop after so many (for each layer).")
@click.option("--again", is_flag=True, help="Time anew what the database has already.")
@click.option("--database", metavar="FILE", help="The database (default: WARPCONV_TUNE_DB).")
@click.option("--plot", metavar="PICTURE", help="Draw the space of the last layer: .svg, .png or .pdf.")
@click.option("--list", "listing", is_flag=True, help="Only list what is measured.")
@click.option("--merge", is_flag=True, help="Only merge databases: tune --merge A.json B.json -o C.json")
@click.option("--best", type=int, metavar="N", help="With --merge: keep the N quickest of each layer.")
@click.option("-o", "--output", metavar="FILE", help="With --merge: the database to write.")
@json_option
@click.pass_context
def tune(ctx: click.Context, names: tuple[str, ...], dims: tuple[str, ...], device: str, strategy: str, seed: int,
         budget: float | None, configurations: int | None, again: bool, database: str | None, plot: str | None,
         listing: bool, merge: bool, best: int | None, output: str | None, as_json: bool, **options: Any) -> None:
    """Time the configurations of a layer on a device, and keep every time.

    LAYERS is a TOML or JSON file, the name of a shipped one, an ONNX model (.onnx) or torchvision:NAME, of which layers
    alike are timed once; or one layer is given in options. --algorithm takes a list, and --set lists and ranges:
    --set sub_block_rows=7,14,28 --set warp_rows=1..4.

    What the database has already is not timed again: an interrupted session goes on where it stopped. From then on
    the quickest is what warpconv uses for the layer on this model of GPU; explain says so.
    """
    _check_use(merge, listing, names, output, best)
    if merge:
        _merge([Path(name) for name in names], Path(output), best, as_json)
        return
    path = _database(database)
    if listing:
        _list(path, database is not None, as_json)
        return
    if plot is not None:
        from .tune_plot import check_picture
        check_picture(plot)
    session = {"strategy": strategy, "seed": seed, "budget": budget, "configurations": configurations, "again": again,
               "database": path}
    layers, skipped = _layers(ctx, names, {**options, "dims": dims})
    if not as_json:
        show_left_out(console(stderr=True), skipped)
    results: list[Any] = []
    try:
        for layer in layers:
            results.append(_tune(layer, device, as_json, session))
    except KeyboardInterrupt:
        say(f"warpconv: what was timed is in {path}; the same command goes on from there", err=True)
        raise
    finally:
        if results and not as_json:
            show_results(results)
    if as_json:
        echo_record(tune_record(results, path))
    if plot is not None:
        from .tune_plot import draw_space
        draw_space(results[-1], plot)
        if not as_json:
            say(f"drawn: {plot}")


def _check_use(merge: bool, listing: bool, names: tuple[str, ...], output: str | None, best: int | None) -> None:
    """Raises ArgumentError for options that do not belong together."""
    if merge and listing:
        raise ArgumentError("--merge and --list are two different things", argument="--list",
                            hint="ask for one of them")
    if merge and (not names or output is None):
        raise ArgumentError("merging needs databases and the one to write", argument="--merge",
                            hint="warpconv tune --merge A.json B.json -o C.json")
    if not merge and (output is not None or best is not None):
        raise ArgumentError("this belongs to --merge", argument="--output" if output is not None else "--best",
                            hint="the results of a session go to --database")
    if best is not None and best < 1:
        raise ArgumentError("at least one configuration has to stay", argument="--best", value=best)
    if not merge and len(names) > (0 if listing else 1):
        raise ArgumentError("too many names", argument="LAYERS", value=" ".join(names),
                            hint="one LAYERS file, or none with --list")


def _database(database: str | None) -> Path:
    from warpconv.runtime.tuning.user import user_file
    return Path(database).absolute() if database is not None else user_file()


def _layers(ctx: click.Context, names: tuple[str, ...],
            options: dict[str, Any]) -> tuple[Sequence[dict[str, Any]], Sequence[Any]]:
    """Arguments of tune() for each layer, and what of a model is not timed. Raises InputFileError, ArgumentError or
    ShapeError."""
    given = options["input_"] is not None or options["filter_"] is not None
    if bool(names) == given:
        raise ArgumentError("name a LAYERS file, or give one layer with --input and --filter", argument="LAYERS",
                            value=names[0] if names else None,
                            hint="for instance: warpconv tune --input 8,32,56,56 --filter 32,3,3 --groups 32")
    algorithms, sets = _algorithms(options["algorithm"]), options["sets"]
    if options["workspace_limit"] is not None:
        raise ArgumentError("every configuration is measured, whatever memory it takes", argument="--workspace-limit",
                            value=options["workspace_limit"], hint="leave it out: it counts where the choice is used")
    if given:
        request = read_layer(options, lists=True)
        if request.index_bits is not None:
            raise ArgumentError("the width of the index arithmetic follows from the layer here",
                                argument="--index-bits", hint="leave it out")
        if request.numerics.accumulator is not Accumulator.FLOAT32:
            raise ArgumentError("half arithmetic is only done where it is asked for, so no choice of it is measured",
                                argument="--accumulate", value=request.numerics.value, hint="leave it out")
        refuse_layer(None, options)
        return [{"shape": request.shape, "epilogue": request.epilogue, "sets": request.settings,
                 "algorithms": algorithms, "precision": request.numerics.precision}], ()
    if sets:
        raise ArgumentError("plan values of a LAYERS file stand in the file", argument="--set", value=sets[0],
                            hint="give one layer in options instead")
    from warpconv.runtime.models.model import alike
    from warpconv.runtime.models.source import is_model
    converted = [name for name in ("dtype", "layout") if name in typed_options(ctx, options)]
    found = read_source(names[0], options, converted if is_model(names[0]) else ())
    timed = [(layer, why) for layer, _ in alike(found) for why in [_untimed(layer)]]
    return [{"shape": layer.shape, "epilogue": layer.epilogue, "precision": layer.numerics.precision,
             "sets": {name: str(value) for name, value in layer.settings.items()},
             "algorithms": (layer.algorithm,) if layer.algorithm != "auto" else algorithms}
            for layer, why in timed if why is None], (*left_out_rows(found), *(
                LeftOutRow(node=layer.name, op=layer.operation.value, reason=why) for layer, why in timed if why))


def _untimed(layer: Any) -> str | None:
    """Why no choice is measured for a layer, None where one is."""
    if layer.operation is not Operation.FORWARD:
        return "transposed layers are not measured: the rule chooses"
    if layer.numerics.accumulator is not Accumulator.FLOAT32:
        return f"{layer.numerics.value} arithmetic is not measured: the rule chooses"
    return None


def _algorithms(text: str) -> tuple[str, ...]:
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    return () if names in ((), ("auto",)) else names


def _tune(layer: dict[str, Any], device: str, quiet: bool, session: dict[str, Any]) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from warpconv.runtime.tuning import tune as run
    place, reason = choose_device(device, layer["shape"])
    if not quiet:
        note_device(reason)
        heading(console(stderr=True), "tuning", str(layer["shape"]))
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("{task.fields[best]}"), console=console(stderr=True), disable=quiet, transient=True)
    with bar:
        task = bar.add_task("planning", total=None, best="")
        return run(**layer, **session, device=place, progress=lambda state: bar.update(
            task, description=state.stage, completed=state.tried, total=state.total,
            best=f"best {state.best.us:.4g} us" if state.best is not None else ""))


def _list(path: Path, named: bool, as_json: bool) -> None:
    """A file that was ``named`` is there; the default one comes with the first session. Raises FileError."""
    from warpconv.runtime.tuning import files
    from warpconv.runtime.tuning.choice import shipped
    own = files.read(path) if named else files.read_or_empty(path)
    rows = [layer_row(database, subject, origin) for origin, database in (("shipped", shipped()), (str(path), own))
            for subject in database.subjects()]
    if as_json:
        echo_record(layers_record(rows, path))
    else:
        show_layers(rows, path)


def _merge(paths: Sequence[Path], output: Path, best: int | None, as_json: bool) -> None:
    """The union; of one configuration the newest timing, whatever the order of the files."""
    from warpconv.runtime.tuning import files
    from warpconv.runtime.tuning.records import Database
    merged = Database()
    for path in paths:
        merged.take(files.read(path))
    if best is not None:
        merged.keep_best(best)
    check_output(str(output), (), "--output")
    with files.locked(output):
        files.write(output, merged)
    rows = [layer_row(merged, subject, str(output)) for subject in merged.subjects()]
    if as_json:
        echo_record(layers_record(rows, output))
    else:
        show_layers(rows, output)
