"""A layer's launches with grid and sizes worked out, to be queued again and again with other addresses."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from warpconv.codegen.plan import Dimension, Launch, Program, Role
from warpconv.codegen.shape import ConvShape
from warpconv.runtime.call.checks import name_of

from . import contexts, streams
from .modules import Launcher

Fire = Callable[[int, int, int, int, int, int], None]

_ROLES = (Role.INPUT, Role.WEIGHT, Role.BIAS, Role.RESIDUAL, Role.OUTPUT)


def possible(program: Program, by_filter: bool) -> bool:
    """Whether a call is launches alone: no workspace, no library step, no filter to prepare or to move first."""
    preparation = program.preparation
    plain = preparation is None or by_filter or not (preparation.steps or preparation.constant)
    return plain and not program.workspaces and all(isinstance(step, Launch) for step in program.steps)


class QuickLaunch:
    """One layer of one kernel in one context."""

    __slots__ = ("_context", "_owner", "_constant", "_fire", "_make")

    def __init__(self, context: tuple[str, int], make: Callable[[dict[int, Launcher]], Fire], launchers: Any,
                 constant: bool):
        self._context = context
        self._owner = contexts.current_context()
        self._constant = constant
        self._make = make
        self._fire = make(launchers)

    def ready(self, pointer: int, prepared: Any, handle: int) -> Fire | None:
        """``fire(x, w, bias, residual, y, stream)``, or None where the context is another one or the filter has to be
        seen to.

        ``pointer`` is asked for the context that it belongs to, unless 0.
        """
        if contexts.current_key() != self._context:
            return None
        if pointer and contexts.pointer_context(pointer) not in (0, self._owner):
            return None
        if prepared is None:
            return self._fire
        if prepared.context != self._context or streams.capturing(handle):
            return None         # a graph keeps its filters
        prepared.used_on.add(handle)
        fire = self._fire
        if self._constant:
            loaded = prepared.loaded.get(False)
            if loaded is None:
                return None
            fire = loaded.quick.get(self)
            if fire is None:
                fire = loaded.quick[self] = self._make(loaded.launchers)
        at = prepared.block.pointer
        return lambda x, w, bias, residual, y, stream: fire(x, at, bias, residual, y, stream)


def maker(program: Program, shape: ConvShape) -> Callable[[dict[int, Launcher]], Fire]:
    """A function of a loaded module's launchers that gives ``fire`` for the layer."""
    names = [name_of(program, role) for role in _ROLES]
    sizes = {dimension.value: dimension.of(shape) for dimension in Dimension}
    slots = {name: number for number, name in enumerate(names) if name is not None}
    buffer = program.preparation.buffer if program.preparation else None
    if buffer is not None:
        slots[buffer.name] = 1          # a prepared filter stands in the weight's place
    slots |= {name: len(names) + number for number, name in enumerate(sizes)}
    values = tuple(sizes.values())
    steps = [(step, step.grid_of(shape), operator.itemgetter(*(slots[name] for name in step.arguments)))
             for step in program.steps]

    def make(launchers: dict[int, Launcher]) -> Fire:
        launches = [(launchers[id(step)], grid, pick) for step, grid, pick in steps]

        def fire(x: int, w: int, bias: int, residual: int, y: int, stream: int) -> None:
            everything = (x, w, bias, residual, y) + values
            for launch, grid, pick in launches:
                launch(grid, pick(everything), stream)

        return fire

    return make
