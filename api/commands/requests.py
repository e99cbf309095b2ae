"""What ``emit``, ``inspect``, ``explain`` and ``build`` are asked for: layers of a file or of the options, each for some
architectures and with some combinations of plan values."""

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
from .layer import LayerRequest, read_archs, read_layer, read_settings

MOST_COMBINATIONS = 64
_NOT_OF_A_LAYER = ("algorithm", "sets", "arch", "tuning", "workspace_limit", "index_bits")


def layers_argument(command: Callable) -> Callable:
    """``LAYERS`` and ``--layer``, passed as ``layers`` and ``layer``."""
    command = click.option("--layer", metavar="NAME", help="Only this layer of LAYERS.")(command)
    return click.argument("layers", required=False, shell_complete=complete_layers)(command)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """``groups``: for each layer and architecture one request, or several that differ in plan values. ``many``: whether
    it was asked in a way that may give several, so that the form of the answer does not hang on how many there are."""

    groups: tuple[tuple[LayerRequest, ...], ...]
    many: bool

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
        refuse_layer(layer)
    archs = read_archs(options["arch"])
    combinations = _combinations(read_settings(options["sets"]))
    found = [read_layer({**options, "arch": (), "sets": ()})] if layers is None else [
        _request(ctx, named, options) for named in named_layers(ctx, layers, layer, options, _NOT_OF_A_LAYER)]
    groups = [tuple(replace(request, arch=arch, settings={**request.settings, **settings}) for settings in combinations)
              for request in found for arch in archs or (None,)]
    many = (layers is not None and layer is None) or len(archs) > 1
    return Asked(groups=tuple(groups), many=many)


def named_layers(ctx: click.Context, layers: str, layer: str | None, options: dict[str, Any],
                 allowed: Sequence[str] = ()) -> Sequence[Any]:
    """The layers of a file, or the one of them. Raises ArgumentError where options describe a layer beside the file, or
    the file has no such layer; InputFileError where it cannot be read."""
    from warpconv.runtime.layers import read_layers
    typed = [name for name, option in _typed(ctx, options).items() if name not in allowed]
    if typed:
        raise ArgumentError("a LAYERS file has its layers' options",
                            argument=", ".join(_typed(ctx, options)[name] for name in typed),
                            hint="write them in the file, or give one layer in options and no file")
    try:
        found = read_layers(layers)
    except FileError as error:
        raise InputFileError(error.message, argument=error.argument, value=error.value, hint=error.hint) from error
    if layer is None:
        return found
    picked = [named for named in found if named.name == layer]
    if not picked:
        raise ArgumentError(f"{layers} has no such layer", argument="--layer", value=layer,
                            hint=f"it has {', '.join(named.name for named in found)}")
    return picked


def refuse_layer(layer: str | None) -> None:
    """Raises ArgumentError where a layer of no file is named."""
    if layer is not None:
        raise ArgumentError("there is no LAYERS file to take it from", argument="--layer", value=layer,
                            hint="name the file before it, as in: warpconv explain twelve_layers --layer conv1")


def _typed(ctx: click.Context, options: dict[str, Any]) -> dict[str, str]:
    """The layer's options that stand on the command line, and as what."""
    return {parameter.name: parameter.opts[-1] for parameter in ctx.command.params
            if parameter.name in options and ctx.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT}


def _request(ctx: click.Context, named: Any, options: dict[str, Any]) -> LayerRequest:
    """A layer of a file, with what the options say besides."""
    beside = read_layer({**options, "input_": "1,1,1,1", "filter_": "1,1,1", "arch": (), "sets": ()})
    chosen = _typed(ctx, options)
    own = {} if "algorithm" in chosen else dict(named.settings)     # plan values are those of an algorithm
    return replace(beside, name=named.name, shape=named.shape, assumed=(), epilogue=named.epilogue, settings=own,
                   numerics=named.numerics,
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
