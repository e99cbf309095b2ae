"""Public functions whose calls are remembered: a call like one that passed every check goes straight to its launch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from warpconv.runtime import env

from . import conv, signatures
from .checks import MOST_LAYERS
from .given import token
from .quick import Entry
from .recording import recording
from .watched import is_compiled, watched

Function = TypeVar("Function", bound=Callable[..., Any])
_entries: dict[tuple[Any, ...], Entry] = {}     # by the function, the signatures of its arrays, and its other arguments
conv.on_clear.append(_entries.clear)


def repeated(*arrays: str) -> Callable[[Function], Function]:
    """A public function, ``watched``, of which calls are remembered. ``arrays``: its arguments that ``Entry.repeat``
    takes for input, weight (or an output's gradient), bias and residual. The function takes ``remember``, too, which
    its callers do not see, and gives it what repeats the call; None where that is of no use."""
    def decorate(function: Function) -> Function:
        name, signature = function.__name__, inspect.signature(function)
        parameters = list(signature.parameters)
        places = [(parameters.index(array), array) for array in arrays]
        apart, named_apart = {place for place, _ in places}, {*arrays, "out", "stream"}
        checked = watched(function)

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            if is_compiled():
                return checked(*args, **named)
            given = [args[place] if place < len(args) else named.get(array) for place, array in places]
            given += [None] * (4 - len(given))
            out = named.get("out")
            signed = _signed(given, out)
            if signed is None:
                return checked(*args, **named)
            key = (name, signed, *(_token(value) for place, value in enumerate(args) if place not in apart),
                   *((each, _token(value)) for each, value in named.items() if each not in named_apart))
            try:
                entry = _entries.get(key)
            except TypeError:       # unhashable arguments
                return checked(*args, **named)
            if entry is not None:
                made = entry.repeat(*given, out, named.get("stream"))
                if made is not None:
                    return made
            return watched(functools.partial(function, remember=functools.partial(_remember, key)), name)(
                *args, **named)

        call.__signature__ = signature.replace(     # type: ignore[attr-defined]
            parameters=[each for each in signature.parameters.values() if each.name != "remember"])
        return call     # type: ignore[return-value]

    return decorate


def _signed(given: list[Any], out: Any) -> tuple[Any, ...] | None:
    """The signatures of a call's arrays; None where it cannot be remembered, or PyTorch may want to see it."""
    library = signatures.library(given[0])
    if library is None or recording.graph is not None or library.transforms():
        return None
    return signatures.sign_call(given[0], given[1], given[2], given[3], out)


def _token(value: Any) -> Any:
    return token(tuple(value) if type(value) is list else value)


def _remember(key: tuple[Any, ...], entry: Entry | None) -> None:
    # templates laid over warpconv's are looked at in each call: they are there to be edited
    if entry is not None and env.settings().templates is None:
        if len(_entries) >= MOST_LAYERS:
            _entries.clear()
        _entries[key] = entry
