"""Calls by other libraries' names: what is wrong with an argument is said of that library's name for it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from warpconv.codegen.errors import WarpconvError
from warpconv.runtime.call.watched import uncompiled

Function = TypeVar("Function", bound=Callable[..., Any])
WORDS = ("input", "output", "weights")      # that messages speak of


def named(texts: Mapping[str, str], **names: str) -> Callable[[Function], Function]:
    """A decorator for public functions that no graph of PyTorch holds, whose errors name their own arguments: ``names``
    in the place of warpconv's, and ``texts``, which come first, for what has no place there."""
    whole = {re.escape(ours): theirs for ours, theirs in texts.items()}
    whole |= {rf"\b{ours}\b(?!=)": theirs for ours, theirs in names.items() if ours in WORDS}

    def told(text: str | None) -> str | None:
        for pattern, theirs in whole.items() if text else ():
            text = re.sub(pattern, theirs, text)        # type: ignore[arg-type]
        return text

    def around(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            try:
                return function(*args, **given)
            except WarpconvError as error:
                error.argument = names.get(error.argument or "", error.argument)
                error.message, error.hint = told(error.message) or "", told(error.hint)
                error.args = (error.message, *error.args[1:])
                raise

        return uncompiled(call)     # type: ignore[return-value]

    return around
