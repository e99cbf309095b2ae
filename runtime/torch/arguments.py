"""What the operators of torch.ops.warpconv take behind their tensors, as one object for equal arguments."""

from __future__ import annotations

from typing import Any

from warpconv.runtime.call.checks import MOST_LAYERS

from . import steps as epilogues

GEOMETRY = 7            # arguments of it, the same for all operators; an epilogue follows in the forward ones
_ADDED = ("bias", "residual")


class LayerArguments:
    """A layer's arguments in its operators' order (``rest``), the first of them alone (``geometry``), and what follows
    from them: of the epilogue the ``steps``, whether its derivative depends on the values ``before`` it or on the
    output (``by_output``), and whether all that it does is to add (``adds``).

    It stands for the arguments where calls are remembered, and is compared by what it is, so that nothing of them is
    hashed in a call."""

    __slots__ = ("rest", "geometry", "steps", "before", "by_output", "adds")

    def __init__(self, rest: tuple[Any, ...]):
        self.rest = rest
        self.geometry = rest[:GEOMETRY]
        self.steps, self.before, self.by_output = epilogues.told(rest[GEOMETRY] if len(rest) > GEOMETRY else "")
        self.adds = all(step.name in _ADDED for step in self.steps)


_known: dict[tuple[Any, ...], LayerArguments] = {}


def arguments_of(rest: tuple[Any, ...]) -> LayerArguments:
    """Those of a call of an operator, whose numbers PyTorch has brought to the types that the operator takes."""
    key = tuple(map(_hashable, rest))
    found = _known.get(key)
    if found is None:
        if len(_known) >= MOST_LAYERS:
            _known.clear()
        found = _known[key] = LayerArguments(key)
    return found


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
