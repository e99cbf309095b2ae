"""Errors of calls on sequences in the caller's own words: their layers are computed as planes, whose checks speak of an
axis more."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from warpconv.codegen.errors import ArgumentError, ArgumentTypeError, ShapeError

from .watched import is_compiled
from .way import way_of

Function = TypeVar("Function", bound=Callable[..., Any])
_WORDS = (("C/groups, R, S", "C/groups, S"), ("K/groups, R, S", "K/groups, S"), ("N, C, H, W", "N, C, L"),
          ("N, H, W, C", "N, L, C"), ("filter's height", "filter's length"), ("filter's width", "filter's length"),
          ("empty output: 1 x ", "empty output: "), ("array[None, None] for one plane", "array[None]"))
_SIZES = re.compile(r"\((\d+), (\d+), (\d+), (\d+)\)")


def lined(function: Function) -> Function:
    """A public function on sequences, whose errors show the arguments as they were given."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if is_compiled():
            return function(*args, **named)
        try:
            return function(*args, **named)
        except (ShapeError, ArgumentError, ArgumentTypeError) as error:
            _put_in_words(error, signature.bind(*args, **named).arguments)
            raise

    return call     # type: ignore[return-value]


def _put_in_words(error: Any, given: dict[str, Any]) -> None:
    value = given.get(error.argument, error.value)
    error.value = tuple(value.shape) if hasattr(value, "shape") and not isinstance(value, (bool, int)) else value
    axis = _inserted(given)
    error.message, error.hint = (_in_words(text, axis) for text in (error.message, error.hint))
    error.args = (error.message,)


def _in_words(text: str | None, axis: int) -> str | None:
    if text is None:
        return None
    for words, others in _WORDS:
        text = text.replace(words, others)
    return _SIZES.sub(lambda found: _without(found, axis), text)


def _without(found: re.Match[str], axis: int) -> str:
    """Four sizes but that of the axis of one element, the plane's or the filter's."""
    sizes = list(found.groups())
    place = next((at for at in (axis, 2, 3, 1) if sizes[at] == "1"), None)
    if place is None:
        return found[0]
    return f"({', '.join(sizes[:place] + sizes[place + 1:])})"


def _inserted(given: dict[str, Any]) -> int:
    """The plane's axis of one element."""
    first = given.get("input", given.get("grad_output"))
    weight = getattr(given.get("weight"), "shape", given.get("weight_size") or ())
    try:
        return way_of(given.get("layout", "NCL"), first, tuple(weight)).inserted
    except (ArgumentError, TypeError):
        return 2
