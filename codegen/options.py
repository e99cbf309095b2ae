"""Plan values: reading an algorithm's frozen options dataclass from ``name=value`` settings."""

from __future__ import annotations

import enum
import functools
import typing
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from .classes import replace
from .errors import ArgumentError

DERIVED = 0         # a plan value that follows from the others
OLDER = {"rows_ahead": "prefetch_rows", "turn_steps": "stage_steps", "turn_rows": "stage_rows",
         "bands_ahead": "prefetch_bands", "gaps": "separators"}     # names that stored plan values may have


def only(default: Any, **where: Any) -> Any:
    """A field of an options class that has a meaning only where other plan values are so (one value, or a tuple of
    them): elsewhere it changes nothing, and a banner does not name it."""
    return field(default=default, metadata={"only": where})


def idle(options: Any) -> frozenset[str]:
    """Names of the plan values that change nothing beside the others."""
    def applies(where: Mapping[str, Any]) -> bool:
        return all(getattr(options, name) in (values if isinstance(values, tuple) else (values,))
                   for name, values in where.items())
    return frozenset(f.name for f in fields(options) if not applies(f.metadata.get("only", {})))


def choices(options: Any) -> dict[str, str]:
    """Name of each plan value -> what it may be, in words."""
    hints = _hints(options if isinstance(options, type) else type(options))
    return {f.name: _choices_of(hints[f.name]) for f in fields(options)}


def with_settings(options: Any, settings: Mapping[str, Any]) -> Any:
    """``options`` with the named values replaced; values may be text (as from a command line), numbers or enums.

    Raises ArgumentError for a name the algorithm does not have or a value it does not offer.
    """
    kind: Any = type(options)
    hints = _hints(kind)
    changes = {}
    for name, value in settings.items():
        name = name if name in hints else OLDER.get(name, name)
        if name not in hints:
            raise ArgumentError("unknown plan value", argument=f"set {name}", value=value,
                                hint="offered: " + "; ".join(f"{n} ({c})" for n, c in choices(options).items()))
        changes[name] = _parse(hints[name], name, value)
    made = replace(options, **changes)
    # what meant something beside other values may go with these no more, and is in no command
    gone = idle(made) - idle(options) - changes.keys()
    return replace(made, **{f.name: f.default for f in fields(made) if f.name in gone}) if gone else made


@functools.cache
def _hints(kind: type) -> dict[str, type]:
    """A dataclass's types by field; looking them up takes longer than the rest of a plan."""
    return typing.get_type_hints(kind)


def _choices_of(kind: type) -> str:
    return "|".join(m.value for m in kind) if issubclass(kind, enum.Enum) else "a whole number >= 1"


def _parse(kind: type, name: str, value: Any) -> Any:
    try:
        if issubclass(kind, enum.Enum):
            return value if isinstance(value, kind) else kind(value)
        number = int(value)
        if isinstance(value, float) or number < 1:
            raise ValueError
        return number
    except (ValueError, TypeError):
        raise ArgumentError("plan value not offered", argument=f"set {name}", value=value,
                            hint=_choices_of(kind)) from None
