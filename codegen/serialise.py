"""Specs, programs and plans as JSON and back; what packs, caches and ``--json`` store."""

from __future__ import annotations

import enum
import functools
import hashlib
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from .epilogue import Epilogue
from .errors import ArgumentError
from .plan import KernelPlan, LibraryCall, Launch, Repeat
from .templates import Overlay
from .version import VERSION


_STEPS = {"launch": Launch, "library": LibraryCall, "repeat": Repeat}


def encode(value: Any) -> Any:
    """Dataclasses as objects, enums as their values, an epilogue's steps as their texts, tuples as lists; steps of a
    program carry their kind. Fields that came later (``later`` in shape.py) are left out where they have their default,
    so that what was stored before stays readable and equal."""
    if isinstance(value, Epilogue):
        return value.value
    if is_dataclass(value):
        of: Any = type(value)
        data = {f.name: encode(getattr(value, f.name)) for f in _in_order(of) if f.metadata.get("stored", True)
                and not (f.metadata.get("later") and getattr(value, f.name) == f.default)}
        kind = next((name for name, cls in _STEPS.items() if isinstance(value, cls)), None)
        return {"kind": kind, **data} if kind else data
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {str(k): encode(v) for k, v in value.items()}
    return value


@functools.cache
def _in_order(kind: Any) -> list[Any]:
    """A dataclass's fields, those of its STORED_FIRST first."""
    first = {name: place for place, name in enumerate(getattr(kind, "STORED_FIRST", ()))}
    return sorted(fields(kind), key=lambda f: first.get(f.name, len(first)))


def decode(kind: Any, data: Any) -> Any:
    """The inverse of encode for type ``kind``. Raises ArgumentError where the data does not have its form."""
    try:
        return _decode(kind, data)
    except (LookupError, TypeError, ValueError, ArithmeticError, StopIteration, RecursionError) as error:
        raise ArgumentError(f"stored data does not describe a {getattr(kind, '__name__', kind)}: {error}",
                            argument="data") from error


def canonical(value: Any) -> str:
    """Equal values give equal text, in every process."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"))


def plan_identity(plan: KernelPlan, templates: Overlay | None = None) -> dict[str, str]:
    """What decides the emitted text and its launch: the spec, the plan values and all that the planner made of them,
    the generator as far as it makes this algorithm's, the templates that are laid over its own. Known without
    rendering."""
    from .render import generator_digest
    laid_over = {} if templates is None else {"templates": templates.digest}
    return {"spec": canonical(plan.spec), "plan": canonical(plan.settings()), "numbers": canonical(plan.numbers),
            "program": canonical(plan.program), "generator": generator_digest(plan.spec.algorithm), "version": VERSION,
            **laid_over}


def plan_digest(plan: KernelPlan, templates: Overlay | None = None) -> str:
    """32 hex digits that name a plan's text."""
    return identity_digest(plan_identity(plan, templates))


def identity_digest(identity: Mapping[str, str]) -> str:
    """The same of what plan_identity gives."""
    return hashlib.blake2b(canonical(identity).encode(), digest_size=16).hexdigest()


def _decode(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data)
    if origin is tuple:
        return _decode_tuple(typing.get_args(kind), data)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if kind is Epilogue:
        return Epilogue.parse(data)
    if is_dataclass(kind):
        made: Any = kind        # the type, which callables and caches take
        hints = _hints(made)
        stored = [f for f in fields(kind) if f.metadata.get("stored", True)]
        return made(**{f.name: _decode(hints[f.name], data[f.name]) for f in stored
                       if f.name in data or not f.metadata.get("later")})
    if kind in (int, str, bool, float) and not isinstance(data, kind):
        raise TypeError(f"{data!r} is no {kind.__name__}")
    return data


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """A dataclass's types; asking takes a millisecond, and a pack has thousands of them."""
    return typing.get_type_hints(kind)


def _decode_union(kinds: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in kinds:
        return None
    if isinstance(data, dict) and data.get("kind") in _STEPS:
        return _decode(_STEPS[data["kind"]], data)
    if any(k in _STEPS.values() for k in kinds):
        raise ValueError(f"a step is one of {', '.join(_STEPS)}")
    return _decode(next(k for k in kinds if k is not type(None)), data)


def _decode_tuple(kinds: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise TypeError(f"{data!r} is no list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_decode(kinds[0], v) for v in data)
    if len(kinds) != len(data):
        raise ValueError(f"{len(data)} values instead of {len(kinds)}")
    return tuple(_decode(k, v) for k, v in zip(kinds, data))
