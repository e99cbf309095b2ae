"""dataclass: frozen dataclasses whose methods are made when they are first needed; replace: copies of them.

The planners have 170 classes of values, of which a layer needs a few. What ``dataclasses.dataclass`` compiles for each
(constructor, comparison, hash, text, and the two that refuse changes) takes Python half a millisecond; here the
constructor is compiled at a class's first object, and the rest is shared.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    def dataclass(cls: type | None = None, *, frozen: bool, kw_only: bool = False) -> Any:
        """A class as ``dataclasses.dataclass(frozen=True, kw_only=kw_only)`` makes it; ``fields``, ``replace``,
        ``is_dataclass`` and classes derived from it take it for one."""
        if not frozen:
            raise TypeError("what may change is a dataclasses.dataclass")
        if cls is None:
            return functools.partial(dataclass, frozen=frozen, kw_only=kw_only)
        cls.__doc__ = cls.__doc__ or cls.__name__       # else one is made of the constructor's signature
        derived = any(map(dataclasses.is_dataclass, cls.__bases__))
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only, frozen=derived)(cls)
        cls.__dataclass_params__.frozen = True          # as a dataclass that derives from it asks
        for name, method in (("__init__", _Constructor(cls)), ("__repr__", _repr), ("__setattr__", _refuse_change),
                             ("__delattr__", _refuse_change), *_comparison([f.name for f in fields(cls) if f.compare])):
            if cls.__dict__.get(name) is None:          # __hash__ is None where a class has its own __eq__
                setattr(cls, name, method)
        if isinstance(cls.__dict__["__init__"], _Constructor) and not hasattr(cls, "__post_init__"):
            cls.__copied_fields__ = tuple(f.name for f in fields(cls))      # what replace() needs to copy
        return cls


_T = TypeVar("_T")


def replace(value: _T, /, **changes: Any) -> _T:
    """``dataclasses.replace``, in a third of its time where a class only has its fields set: a choice among plans
    copies options a thousand times."""
    names = value.__class__.__dict__.get("__copied_fields__")
    if names is None:
        return dataclasses.replace(value, **changes)        # type: ignore[type-var]
    old = value.__dict__
    new = {**old, **changes} if len(old) == len(names) else {**{name: old[name] for name in names}, **changes}
    if len(new) > len(names):
        raise TypeError(f"{type(value).__name__} has no field {next(name for name in changes if name not in names)!r}")
    made = object.__new__(value.__class__)
    made.__dict__.update(new)
    return made


class _ToMake:
    """Stands for a default that is made for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_TO_MAKE = _ToMake()


class _Constructor:
    """A class's __init__ until it is first asked for."""

    def __init__(self, cls: type):
        self._cls = cls

    def __get__(self, instance: Any, owner: type) -> Any:
        made = _constructor(self._cls)
        self._cls.__init__ = made      # type: ignore[misc]
        return made if instance is None else made.__get__(instance, owner)


def _constructor(cls: Any) -> Callable[..., None]:
    """The function that sets a class's fields, then calls its __post_init__."""
    names: dict[str, Any] = {"_to_make": _TO_MAKE}
    positional: list[str] = []
    named: list[str] = []
    values: list[str] = []
    for f in fields(cls):
        default, value = "", f.name
        if f.default is not MISSING:
            names[f"_default_{f.name}"] = f.default
            default = f"=_default_{f.name}"
        elif f.default_factory is not MISSING:
            names[f"_make_{f.name}"] = f.default_factory
            default, value = "=_to_make", f"_make_{f.name}() if {f.name} is _to_make else {f.name}"
        (named if f.kw_only else positional).append(f.name + default)
        values.append(f"{f.name}={value}")
    lines = [f"    self.__dict__.update({', '.join(values)})"]      # quicker than one by one
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    head = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    exec("\n".join([f"def __init__({head}):", *lines]), names)
    made: Callable[..., None] = names["__init__"]
    made.__annotations__ = {**{f.name: f.type for f in fields(cls)}, "return": None}
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return made


def _comparison(names: list[str]) -> list[tuple[str, Any]]:
    """__eq__ and __hash__ by these fields."""
    values: Callable[[Any], Any] = operator.attrgetter(*names) if names else lambda self: ()

    def equal(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return [("__eq__", equal), ("__hash__", lambda self: hash(values(self)))]


def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_change(self: Any, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r} of a {type(self).__name__}")
