"""In which order configurations are timed: a sweep over all of them, or a search that learns (Optuna's TPE)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from warpconv.codegen.errors import ArgumentError, ToolNotFound
from warpconv.codegen.options import choices
from warpconv.codegen.registry import algorithm as registered

from .records import Name
from .space import Configuration, Space, plain

STRATEGIES = ("sweep", "tpe")
UNUSABLE = math.log(1e12)       # what a configuration without a time counts for, on the scale of log(us)
ASKS = 50                       # proposals in a row that are known already, after which the search gives up


class Strategy(Protocol):
    """Gives configurations to try, none twice, and hears what became of them."""

    def ask(self) -> Configuration | None:
        """The next one; None where there is no further one."""

    def tell(self, configuration: Configuration, us: float | None) -> None:
        """Its microseconds; None where it has none."""


def strategy(name: str, space: Space, configurations: Sequence[Configuration], known: Mapping[Name, float | None],
             seed: int) -> Strategy:
    """A strategy over ``configurations``; ``known`` are not tried again. Raises ArgumentError, or ToolNotFound where
    its library is missing."""
    if name == "sweep":
        return Sweep(configurations, known, seed)
    if name == "tpe":
        return Tpe(space, configurations, known, seed)
    raise ArgumentError("unknown strategy", argument="strategy", value=name, hint=f"one of {', '.join(STRATEGIES)}")


class Sweep:
    """All configurations: the defaults first, the others in a drawn order, so that a budget cuts off a fair sample."""

    def __init__(self, configurations: Sequence[Configuration], known: Mapping[Name, float | None], seed: int):
        first, others = _defaults_apart(configurations)
        random.Random(seed).shuffle(others)
        self._left = [c for c in (*first, *others) if c.name not in known][::-1]

    def ask(self) -> Configuration | None:
        return self._left.pop() if self._left else None

    def tell(self, configuration: Configuration, us: float | None) -> None:
        pass


class Tpe:
    """Tree-structured Parzen estimator over the values that occur in the space, in any combination.

    It starts from what is known, and from the defaults.
    """

    def __init__(self, space: Space, configurations: Sequence[Configuration], known: Mapping[Name, float | None],
                 seed: int):
        optuna = _optuna()
        self._optuna, self._space = optuna, space
        self._first, _ = _defaults_apart([c for c in configurations if c.name not in known])
        self._choices = _choices(configurations)
        self._results: dict[Name, float | None] = dict(known)
        self._asked: dict[Name, Any] = {}
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        for made in configurations:
            if made.name in known:
                self._add(made, known[made.name])

    def ask(self) -> Configuration | None:
        if self._first:
            made = self._first.pop(0)
            self._results[made.name] = None
            return made
        for _ in range(ASKS if self._choices else 0):
            trial = self._study.ask()
            row = registered(trial.suggest_categorical("algorithm", list(self._choices)))
            offered = self._choices[row.name]
            made = self._space.configuration(row, row.options(**{
                name: offered[name][trial.suggest_categorical(f"{row.name}.{name}", list(offered[name]))]
                for name in offered}))
            if made.name not in self._results:
                self._results[made.name] = None
                self._asked[made.name] = trial
                return made
            self._study.tell(trial, _score(self._results[made.name]))
        return None

    def tell(self, configuration: Configuration, us: float | None) -> None:
        self._results[configuration.name] = us
        trial = self._asked.pop(configuration.name, None)
        if trial is not None:
            self._study.tell(trial, _score(us))
        else:
            self._add(configuration, us)

    def _add(self, made: Configuration, us: float | None) -> None:
        """Let the study know of a configuration that it did not propose."""
        offered = self._choices.get(made.algorithm)
        if offered is None or made.options is None:
            return
        params = {f"{made.algorithm}.{name}": plain(getattr(made.options, name)) for name in offered}
        categories = {f"{made.algorithm}.{name}": list(values) for name, values in offered.items()}
        params["algorithm"], categories["algorithm"] = made.algorithm, list(self._choices)
        distributions = {name: self._optuna.distributions.CategoricalDistribution(categories[name]) for name in params}
        self._study.add_trial(self._optuna.trial.create_trial(params=params, distributions=distributions,
                                                              value=_score(us)))


def _choices(configurations: Sequence[Configuration]) -> dict[str, dict[str, dict[Any, Any]]]:
    """Algorithm -> plan value -> all that it takes in the space, as plain data -> as the option's own type."""
    found: dict[str, dict[str, dict[Any, Any]]] = {}
    for made in configurations:
        if made.options is not None:
            for name in choices(made.options):
                value = getattr(made.options, name)
                found.setdefault(made.algorithm, {}).setdefault(name, {}).setdefault(plain(value), value)
    return found


def _defaults_apart(configurations: Sequence[Configuration]) -> tuple[list[Configuration], list[Configuration]]:
    """The first of each algorithm, which is its default, and the others."""
    first: dict[str, Configuration] = {}
    for made in configurations:
        first.setdefault(made.algorithm, made)
    return list(first.values()), [c for c in configurations if first[c.algorithm] is not c]


def _score(us: float | None) -> float:
    return UNUSABLE if us is None else math.log(us)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ToolNotFound(f"the strategy needs Optuna ({error})", argument="strategy", value="tpe",
                           hint='pip install "warpconv[tune]", or --strategy sweep, which needs nothing') from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
