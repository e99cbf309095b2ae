"""codegen/classes.py: frozen dataclasses are as dataclasses' own, and cheaper to define."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
from typing import Any

import pytest

from warpconv.codegen import classes


def both(kind: type, **how: Any) -> tuple[Any, Any]:
    """A class by ours and by the library's own."""
    return tuple(make(**how)(type(kind.__name__, kind.__bases__, {k: v for k, v in vars(kind).items()
                                                                   if k not in ("__dict__", "__weakref__")}))
                 for make in (lambda **how: classes.dataclass(frozen=True, **how),
                              lambda **how: dataclasses.dataclass(frozen=True, **how)))


class Point:
    """Two numbers and more."""

    x: int
    y: int = 2
    names: list = dataclasses.field(default_factory=list, compare=False)
    secret: str = dataclasses.field(default="s", repr=False, metadata={"later": True})


class Checked:
    x: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", int(self.x))


class Named:
    x: int
    y: int = 0

    def __repr__(self) -> str:
        return "<named>"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)


class Empty:
    pass


@classes.dataclass(frozen=True)
class Stored:
    x: int
    y: tuple[int, ...] = ()


@classes.dataclass(frozen=True, kw_only=True)
class Derived(Stored):
    z: int = 3


@pytest.mark.parametrize("kw_only", [False, True])
@pytest.mark.parametrize("kind, values", [(Point, {"x": 1}), (Point, {"x": 1, "y": 5, "names": [3]}), (Named, {"x": 1}),
                                          (Checked, {"x": "7"}), (Empty, {})])
def test_objects_are_as_the_library_makes_them(kind, values, kw_only):
    ours, theirs = (made(**values) for made in both(kind, kw_only=kw_only))
    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert str(inspect.signature(type(ours))) == str(inspect.signature(type(theirs)))
    assert [(f.name, f.metadata) for f in dataclasses.fields(ours)] == \
        [(f.name, f.metadata) for f in dataclasses.fields(theirs)]
    for made in (ours, theirs):
        again = dataclasses.replace(made)
        assert again == made and again is not made and hash(again) == hash(made) and made != 5
        with pytest.raises(dataclasses.FrozenInstanceError, match="x"):
            made.x = 3
        with pytest.raises(dataclasses.FrozenInstanceError):
            del made.x


def test_what_is_compared_and_what_is_not():
    made = both(Point)[0]
    assert made(1) == made(1, names=[1]) and hash(made(1)) == hash(made(1, names=[1]))
    assert made(1) != made(2) and made(1) != made(1, secret="t")
    assert made(1).names is not made(1).names


@pytest.mark.parametrize("given", [(), (1, 2, [], "s", 5)])
def test_a_wrong_number_of_arguments_is_refused_as_always(given):
    for made in both(Point):
        with pytest.raises(TypeError, match="argument"):
            made(*given)


def test_a_derived_class_copies_and_pickles():
    made = Derived(1, (2,), z=4)
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)
    assert repr(made) == "Derived(x=1, y=(2,), z=4)" and made != Stored(1, (2,))
    with pytest.raises(TypeError):
        Derived(1, (2,), 4)


def test_the_constructor_is_made_at_the_first_object():
    made = both(Empty)[0]
    assert not inspect.isfunction(vars(made)["__init__"])
    made()
    assert inspect.isfunction(vars(made)["__init__"]) and vars(made)["__init__"].__qualname__.endswith(".__init__")


def test_what_may_change_is_refused():
    with pytest.raises(TypeError, match="may change"):
        classes.dataclass(frozen=False)(Empty)


# ---- copies

class TestReplace:
    @staticmethod
    def made(kind: type) -> Any:
        return classes.dataclass(frozen=True)(type(kind.__name__, (), {
            k: v for k, v in vars(kind).items() if k not in ("__dict__", "__weakref__")}))

    def test_as_the_librarys(self):
        ours = self.made(Point)(1)
        found = classes.replace(ours, y=5)
        assert found == dataclasses.replace(ours, y=5) and (found.x, found.y, ours.y) == (1, 5, 2)
        assert found.names is ours.names and vars(found) == {**vars(ours), "y": 5}

    def test_what_was_worked_out_is_not_copied(self):
        class Squared:
            x: int

            @functools.cached_property
            def square(self) -> int:
                return self.x ** 2

        kept = self.made(Squared)(3)
        if getattr(type(kept).square, "attrname", None) is None:
            type(kept).square.__set_name__(type(kept), "square")
        assert kept.square == 9 and classes.replace(kept, x=4).square == 16
        with pytest.raises(TypeError):
            classes.replace(kept, square=1)

    def test_a_constructor_that_does_more_is_called(self):
        assert classes.replace(self.made(Checked)("3"), x="4").x == 4

    def test_of_a_class_that_derives_from_one(self):
        base = self.made(Point)
        derived = classes.dataclass(frozen=True)(type("Derived", (base,), {"__annotations__": {"z": int}, "z": 7}))
        found = classes.replace(derived(1), y=3, z=8)
        assert (type(found), found.x, found.y, found.z) == (derived, 1, 3, 8)

    @pytest.mark.parametrize("kind", [Point, Checked])
    def test_no_such_field(self, kind):
        with pytest.raises(TypeError, match="other"):
            classes.replace(self.made(kind)(1), other=2)
