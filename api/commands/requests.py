"""What ``emit``, ``inspect``, ``explain`` and ``build`` are asked for: layers of a file or of the options, each for
some architectures and with some combinations of plan values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click
from click.core import ParameterSource

from warpconv.codegen.errors import ArgumentError, FileError

from .complete import complete_layers
from .files import InputFileError
from .layer import LayerRequest, read_archs, read_dtype, read_layer, read_settings

MOST_COMBINATIONS = 64
_NOT_OF_A_LAYER = ("algorithm", "sets", "arch", "tuning", "workspace_limit", "index_bits")
_OF_A_MODEL = ("dtype", "layout")       # what an engine may convert a model to


def layers_argument(command: Callable) -> Callable:
    """``LAYERS``, ``--layer`` and ``--dim``, passed as ``layers``, ``layer`` and ``dims``."""
    command = dims_option(command)
    command = click.option("--layer", metavar="NAME", help="Only this layer of LAYERS.")(command)
    return click.argument("layers", required=False, shell_complete=complete_layers)(command)


def dims_option(command: Callable) -> Callable:
    """``--dim``, passed as ``dims``."""
    return click.option("--dim", "dims", metavar="NAME=SIZE", multiple=True,
                        help="A size that the model LAYERS leaves open, as batch=32.")(command)


def read_dims(texts: Sequence[str]) -> dict[str, int]:
    """The sizes of ``--dim``. Raises ArgumentError."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name.strip() or not size.strip().isdecimal() or name.strip() in found:
            raise ArgumentError("a size is written NAME=SIZE, each once", argument="--dim", value=text,
                                hint="for instance --dim batch=32")
        found[name.strip()] = int(size)
    return found


@dataclass(frozen=True, kw_only=True)
class Asked:
    """``groups``: for each layer and architecture one request, or several that differ in plan values. ``many``: whether
    it was asked in a way that may give several, so that the form of the answer does not hang on how many there are
    (but for the name of emit's output, which is a file's where there is one).
    ``model``: the Model that the layers are of, where they are of a model or a file."""

    groups: tuple[tuple[LayerRequest, ...], ...]
    many: bool
    model: Any = None

    def singles(self, verb: str) -> Iterator[LayerRequest]:
        """The requests of a verb that takes one combination of plan values. Raises ArgumentError for several."""
        for group in self.groups:
            if len(group) > 1:
                raise ArgumentError(f"{verb} takes one value of each plan value", argument="--set",
                                    value=", ".join(f"{name}={value}" for name, value in group[1].settings.items()),
                                    hint="warpconv inspect, with the same options, shows several side by side")
            yield group[0]


def read_requests(ctx: click.Context, layers: str | None, layer: str | None, options: dict[str, Any]) -> Asked:
    """All that the command line asks for. Of a LAYERS file's layers ``--algorithm`` and ``--set`` take the place of the
    file's own.

    Raises ArgumentError, ShapeError, ArgumentTypeError or InputFileError.
    """
    if layers is None:
        refuse_layer(layer, options)
    archs = read_archs(options["arch"])
    combinations = _combinations(read_settings(options["sets"]))
    model = None if layers is None else named_layers(ctx, layers, layer, options, _NOT_OF_A_LAYER)
    found = [read_layer({**options, "arch": (), "sets": ()})] if model is None else [
        _request(ctx, named, options) for named in model]
    groups = [tuple(replace(request, arch=arch, settings={**request.settings, **settings}) for settings in combinations)
              for request in found for arch in archs or (None,)]
    many = (layers is not None and layer is None) or len(archs) > 1
    return Asked(groups=tuple(groups), many=many, model=model)


def named_layers(ctx: click.Context, layers: str, layer: str | None, options: dict[str, Any],
                 allowed: Sequence[str] = ()) -> Any:
    """The Model that the layers of a file or of a model are, or the one of them that is named. Raises ArgumentError
    where options describe a layer beside the file, or the file has no such layer; InputFileError where it cannot be
    read."""
    from warpconv.runtime.models.source import is_model
    of_model = _OF_A_MODEL if is_model(layers) else ()
    typed = [name for name in typed_options(ctx, options) if name not in (*allowed, *of_model, "dims")]
    if typed:
        raise ArgumentError("a model has its layers' options" if of_model else "a LAYERS file has its layers' options",
                            argument=", ".join(typed_options(ctx, options)[name] for name in typed),
                            hint="write them in the file, or give one layer in options and no file")
    found = read_source(layers, options, [name for name in of_model if name in typed_options(ctx, options)])
    return found if layer is None else replace(found, layers=(_picked(found, layer),), left_out=())


def _picked(found: Any, layer: str) -> Any:
    try:
        return found[layer]
    except ArgumentError as error:
        raise ArgumentError(error.message, argument="--layer", value=layer, hint=error.hint) from None


def read_source(layers: str, options: dict[str, Any], converted: Sequence[str] = ()) -> Any:
    """The Model of LAYERS, converted as the options of these names say. Raises InputFileError where it cannot be read,
    ArgumentError."""
    from warpconv.runtime.models.source import read_model
    form: dict[str, Any] = {name: options[name] for name in converted}
    if "dtype" in form:
        form["dtype"] = read_dtype(form["dtype"], "--dtype")
    if "layout" in form:
        form["layout"] = form["layout"].upper()
    try:
        return read_model(layers, read_dims(options.get("dims", ())), **form)
    except FileError as error:
        raise InputFileError(error.message, argument=error.argument, value=error.value, hint=error.hint) from error


def refuse_layer(layer: str | None, options: dict[str, Any]) -> None:
    """Raises ArgumentError where a layer of no file is named, or a size of no model."""
    if options.get("dims"):
        raise ArgumentError("there is no model to take it", argument="--dim", value=", ".join(options["dims"]),
                            hint="--input has the sizes of a layer in options")
    if layer is not None:
        raise ArgumentError("there is no LAYERS file to take it from", argument="--layer", value=layer,
                            hint="name the file before it, as in: warpconv explain twelve_layers --layer conv1")


def typed_options(ctx: click.Context, options: dict[str, Any]) -> dict[str, str]:
    """The layer's options that stand on the command line, and as what."""
    return {parameter.name: parameter.opts[-1] for parameter in ctx.command.params
            if parameter.name in options and ctx.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT}


def _request(ctx: click.Context, named: Any, options: dict[str, Any]) -> LayerRequest:
    """A layer of a file, with what the options say besides."""
    beside = read_layer({**options, "input_": "1,1,1,1", "filter_": "1,1,1", "arch": (), "sets": (),
                         "dtype": "float32", "layout": "NCHW"})
    chosen = typed_options(ctx, options)
    own = {} if "algorithm" in chosen else dict(named.settings)     # plan values are those of an algorithm
    return replace(beside, name=named.name, shape=named.shape, assumed=(), epilogue=named.epilogue, settings=own,
                   numerics=named.numerics, operation=named.operation,
                   algorithm=beside.algorithm if "algorithm" in chosen else named.algorithm)


def _combinations(settings: dict[str, str]) -> list[dict[str, str]]:
    """Every combination of values that are lists. Raises ArgumentError for too many."""
    if not any("," in value or ".." in value for value in settings.values()):
        return [settings]
    from warpconv.runtime.tuning.space import expand
    lists = {name: expand(name, value) for name, value in settings.items()}
    made = [dict(zip(lists, values)) for values in itertools.islice(itertools.product(*lists.values()),
                                                                    MOST_COMBINATIONS + 1)]
    if len(made) > MOST_COMBINATIONS:
        raise ArgumentError(f"these are more than {MOST_COMBINATIONS} combinations", argument="--set",
                            value=", ".join(f"{name}={value}" for name, value in settings.items()),
                            hint="fewer values side by side; warpconv tune tries them all")
    return made
