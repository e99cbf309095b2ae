"""What the operators of torch.ops.warpconv take behind their tensors, as one object for all calls with the same."""

from __future__ import annotations

import operator
from typing import Any

from warpconv.runtime.call.checks import MOST_LAYERS

from . import steps as epilogues

GEOMETRY = 7            # arguments of it, the same for all operators; an epilogue follows in the forward ones
GROUPS = 3              # their place in it, behind stride, padding and dilation
DEFAULT = "float32"     # the last of all operators' arguments, where a call leaves it out
# what a layer's gradients are computed in; the parts that tf32x3 and fp16x3 ask for are not had by all of them, and the
# default is no less exact
OF_GRADIENTS = {"ieee": "ieee", "tf32": "tf32"}
_ADDED = ("bias", "residual")


class LayerArguments:
    """A layer's arguments in its operators' order (``rest``), the first of them alone (``geometry``), and what follows
    from them: what a gradient's operator that is called with them takes (``as_gradient``), and what those of its
    derivative do (``of_gradients``); of the epilogue the ``steps``, whether its derivative depends on the values
    ``before`` it or on the output (``by_output``), and whether all that it does is to add (``adds``).

    It stands for the arguments where calls are remembered, and is compared by what it is, so that nothing of them is
    hashed in a call. Those that are not ``kept`` are met once."""

    __slots__ = ("rest", "geometry", "as_gradient", "of_gradients", "steps", "before", "by_output", "adds", "kept")

    def __init__(self, rest: tuple[Any, ...], kept: bool = True):
        self.rest = rest
        self.geometry = rest[:GEOMETRY]
        self.of_gradients = *self.geometry, OF_GRADIENTS.get(rest[-1], DEFAULT)
        has_epilogue = len(rest) > GEOMETRY + 1
        self.as_gradient = self.of_gradients if has_epilogue else rest
        self.steps, self.before, self.by_output = epilogues.told(rest[GEOMETRY] if has_epilogue else "")
        self.adds = all(step.name in _ADDED for step in self.steps)
        self.kept = kept


_made: dict[tuple[Any, ...], LayerArguments] = {}


def arguments_of(rest: tuple[Any, ...], count: int) -> LayerArguments:
    """Those of a call of an operator, ``count`` of them, whose numbers PyTorch has brought to the types that the
    operator takes; it leaves a precision out that is the default."""
    made = *map(_hashable, rest), *(DEFAULT,) * (count - len(rest))
    return _made.get(made) or _make(made, made)


def _make(key: tuple[Any, ...], rest: tuple[Any, ...]) -> LayerArguments:
    if len(_made) >= MOST_LAYERS:
        _made.clear()
    found = _made[key] = LayerArguments(rest)
    return found


def arguments_given(rest: tuple[Any, ...]) -> LayerArguments:
    """Those of a call of a function. What is no number of the right type is equal to one (1.0, True), and refused where
    the call is checked: it gets an object of its own."""
    *places, groups = rest[:GROUPS + 1]
    others = rest[GROUPS + 1:]
    try:
        places = [tuple(map(_integer, numbers)) for numbers in places]
        groups = _integer(groups)
    except TypeError:
        return LayerArguments((*map(tuple, rest[:GROUPS]), *rest[GROUPS:]), kept=False)
    made = (*places, groups, *others)
    key = made, *map(type, others)
    return _made.get(key) or _make(key, made)


def _integer(value: Any) -> int:
    if type(value) is bool:
        raise TypeError
    return operator.index(value)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
