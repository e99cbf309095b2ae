"""The configurations that are worth timing for a layer: an algorithm's own space, or lists of plan values."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from warpconv.codegen.algorithm import Algorithm
from warpconv.codegen.classes import dataclass
from warpconv.codegen.errors import ArgumentError, PlannerError, UnsupportedSpec
from warpconv.codegen.hardware import Arch
from warpconv.codegen.options import choices, with_settings
from warpconv.codegen.plan import KernelPlan
from warpconv.codegen.registry import algorithm as registered, serving
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, KernelSpec, Numerics, Operation

from .records import Name, Values, values_of

_RANGE = re.compile(r"(\d+)\.\.(\d+)(?:\.\.(\d+))?")
MOST_OF_A_LIST = 4096


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """An algorithm with plan values. ``values`` are the plan's, those that followed from others filled in; where it is
    declined (``reason``) the ``options`` that were asked for."""

    algorithm: str
    values: Values
    options: Any = None
    plan: KernelPlan | None = None
    reason: str | None = None

    @property
    def name(self) -> Name:
        return self.algorithm, self.values


@dataclass(frozen=True, kw_only=True)
class Space:
    """How a layer's configurations are made: each is planned for this layer and architecture."""

    shape: ConvShape
    arch: Arch
    epilogue: tuple[Epilogue, ...] = ()
    numerics: Numerics = Numerics.FLOAT32

    def configuration(self, row: Algorithm, options: Any) -> Configuration:
        """The configuration of an algorithm with its options, planned or declined."""
        values = values_of({name: plain(getattr(options, name)) for name in choices(options)})
        try:
            made = row.plan(self._spec(row), options)
        except UnsupportedSpec as error:
            return Configuration(algorithm=row.name, values=values, options=options, reason=error.reason)
        refusal = made.program.refusal(self.shape)
        if refusal is not None:
            return Configuration(algorithm=row.name, values=values, options=options, reason=refusal)
        return Configuration(algorithm=row.name, values=values_of(made.settings()), options=options, plan=made)

    def configurations(self, algorithms: Sequence[str] = (), sets: Mapping[str, str] | None = None
                       ) -> tuple[Configuration, ...]:
        """Those of the algorithms (all that select() may take, where none is named), each once, every algorithm's
        default before its others, the algorithms in the order of the rule.

        ``sets``: plan value -> list, such as ``7,14,28`` or ``1..8``; then all their combinations over the defaults, of
        the algorithms that have them. Raises ArgumentError for unknown algorithms, names and values.
        """
        found: dict[Name, Configuration] = {}
        for row in sorted(self._rows(algorithms, sets or {}), key=self._expected):
            refusal = row.supports(self._spec(row))
            try:
                for options in self._options(row, sets or {}) if refusal is None else ():
                    made = self.configuration(row, options)
                    found.setdefault(made.name, made)
            except PlannerError as error:
                refusal = error.reason
            if refusal is not None:
                found[row.name, ()] = Configuration(algorithm=row.name, values=(), reason=refusal)
        return tuple(found.values())

    def _rows(self, algorithms: Sequence[str], sets: Mapping[str, str]) -> list[Algorithm]:
        every = serving(Operation.FORWARD, len(self.shape.taps))
        rows = [registered(name) for name in dict.fromkeys(algorithms)] or [row for row in every if not row.by_name]
        having = [row for row in rows if set(sets) <= set(choices(row.options))]
        if not having:
            raise ArgumentError("no algorithm has all these plan values", argument="set", value=", ".join(sets),
                                hint="; ".join(f"{row.name}: {', '.join(choices(row.options))}" for row in rows))
        return having

    def _expected(self, row: Algorithm) -> float:
        """The rule's order, so that a session cut short has timed at least what the rule would take."""
        try:
            if row.supports(self._spec(row)) is not None:
                return math.inf
            made = self.configuration(row, row.defaults(self._spec(row), self.shape))
            return math.inf if made.plan is None else row.slots(made.plan, self.shape)
        except PlannerError:
            return math.inf

    def _options(self, row: Algorithm, sets: Mapping[str, str]) -> Iterable[Any]:
        default = row.defaults(self._spec(row), self.shape)
        yield default
        if not sets:
            yield from self._around(row, default)
            return
        for values in itertools.product(*(expand(name, text) for name, text in sets.items())):
            yield with_settings(default, dict(zip(sets, values)))

    def _around(self, row: Algorithm, default: Any) -> Iterable[Any]:
        """The algorithm's space, which knows no sizes: what it leaves at the general default, everywhere, is taken from
        the default of the layer (sizes that stand in the text, several rows a warp for narrow planes)."""
        options, general = list(row.space(self._spec(row))), row.defaults(self._spec(row), None)
        left = {name: getattr(default, name) for name in choices(default)
                if all(getattr(made, name) == getattr(general, name) for made in options)}
        return (replace(made, **left) for made in options)

    def _spec(self, row: Algorithm) -> KernelSpec:
        return KernelSpec.of(self.shape, algorithm=row.name, arch=self.arch, epilogue=self.epilogue,
                             numerics=row.numerics_for(self.numerics, self.shape.dtype, self.shape.reduction))


def plain(value: Any) -> Any:
    """An option's value as plain data."""
    return getattr(value, "value", value)


def expand(name: str, text: str) -> list[str]:
    """``7,14,28``, ``1..8``, ``8..64..8`` and mixtures of them as single values. Raises ArgumentError."""
    values: dict[str, None] = {}
    for word in (part.strip() for part in str(text).split(",")):
        match = _RANGE.fullmatch(word)
        if match is None:
            if not word:
                raise ArgumentError("a list of plan values has a gap", argument=f"set {name}", value=text,
                                    hint="for instance 7,14,28 or 1..8 or 8..64..8")
            values[word] = None
            continue
        low, high, step = int(match[1]), int(match[2]), int(match[3] or 1)
        if step < 1 or high < low or (high - low) // step >= MOST_OF_A_LIST:
            raise ArgumentError("a range is LOW..HIGH or LOW..HIGH..STEP", argument=f"set {name}", value=word,
                                hint=f"at most {MOST_OF_A_LIST} values, for instance 1..8 or 8..64..8")
        values.update(dict.fromkeys(map(str, range(low, high + 1, step))))
    return list(values)
