"""What a tuning database holds: origins, subjects and the timing of every configuration that was tried."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from typing import Any

from warpconv.codegen.classes import dataclass
from warpconv.codegen.numerics import Precision
from warpconv.codegen.shape import ConvShape
from warpconv.codegen.spec import Epilogue, Numerics

Values = tuple[tuple[str, Any], ...]                # plan values, sorted by name
Name = tuple[str, Values]                           # a configuration: algorithm and plan values


class Outcome(enum.Enum):
    """What became of a configuration."""

    TIMED = "timed"
    DECLINED = "declined"   # its planner refuses it for the layer
    FAILED = "failed"       # it did not compile, load or run
    WRONG = "wrong"         # its results are not those of the layer: never chosen


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where timings come from; ``date`` is UTC, ``generator`` the digest of the algorithm's planner and templates."""

    device: str
    arch: str
    driver: str
    cuda: str
    compiler: str
    warpconv: str
    generator: str
    date: str

    @property
    def id(self) -> str:
        """12 hex digits of all fields."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What was measured: a layer, its batch included, on a device."""

    device: str
    arch: str
    shape: ConvShape
    epilogue: tuple[Epilogue, ...] = ()
    numerics: Numerics = Numerics.FLOAT32

    def __str__(self) -> str:
        steps = f", then {', '.join(step.value for step in self.epilogue)}" if self.epilogue else ""
        kind = "arithmetic" if self.numerics.precision is Precision.FLOAT32 else "products"
        arithmetic = "" if self.numerics is Numerics.FLOAT32 else f", {self.numerics.value} {kind}"
        return f"{self.shape}{arithmetic}{steps}"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One configuration. ``us``: median of ``samples``, microseconds a call; ``low``, ``high``: the 10th and 90th
    percentile. ``source``: digest of the emitted text, None where it was never emitted."""

    algorithm: str
    values: Values
    outcome: Outcome
    origin: str
    us: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    registers: int | None = None
    spills: int | None = None
    reason: str | None = None
    source: str | None = None

    @property
    def name(self) -> Name:
        return self.algorithm, self.values


@dataclasses.dataclass
class Database:
    """Timings by subject and configuration; ``copies``: microseconds of a device copy of a subject's bytes."""

    origins: dict[str, Origin] = field(default_factory=dict)
    timings: dict[Subject, dict[Name, Timing]] = field(default_factory=dict)
    copies: dict[Subject, float] = field(default_factory=dict)

    def add(self, subject: Subject, timing: Timing, origin: Origin) -> None:
        self.origins[origin.id] = origin
        self.timings.setdefault(subject, {})[timing.name] = timing

    def of(self, subject: Subject) -> Mapping[Name, Timing]:
        return self.timings.get(subject, {})

    def date(self, timing: Timing) -> str:
        return self.origins[timing.origin].date

    def timed(self, subject: Subject) -> list[Timing]:
        """The timed configurations, quickest first; equal times by name, so that the order is always the same."""
        found = [t for t in self.of(subject).values() if t.outcome is Outcome.TIMED]
        return sorted(found, key=lambda t: (t.us, t.algorithm, repr(t.values)))

    def take(self, other: Database) -> None:
        """All of ``other`` besides what is here; of one configuration the newer timing stays, of equal ones other's."""
        for subject, configurations in other.timings.items():
            newer = subject not in self.copies or self._newest(subject) <= other._newest(subject)
            if newer and subject in other.copies:
                self.copies[subject] = other.copies[subject]
            mine = self.timings.setdefault(subject, {})
            for name, timing in configurations.items():
                if name not in mine or self.date(mine[name]) <= other.date(timing):
                    mine[name] = timing
        self.origins.update(other.origins)
        self._forget_unused()

    def keep_best(self, count: int) -> None:
        """Of every subject only the ``count`` quickest configurations (to ship a database that loads at once)."""
        for subject in self.timings:
            self.timings[subject] = {t.name: t for t in self.timed(subject)[:count]}
        self.timings = {subject: found for subject, found in self.timings.items() if found}
        self.copies = {subject: copy for subject, copy in self.copies.items() if subject in self.timings}
        self._forget_unused()

    def subjects(self) -> Iterator[Subject]:
        """In the order of the file."""
        return iter(sorted(self.timings, key=lambda s: (s.device, s.arch, str(s))))

    def _newest(self, subject: Subject) -> str:
        return max((self.date(timing) for timing in self.of(subject).values()), default="")

    def _forget_unused(self) -> None:
        used = {t.origin for found in self.timings.values() for t in found.values()}
        self.origins = {key: origin for key, origin in self.origins.items() if key in used}


def values_of(settings: Mapping[str, Any]) -> Values:
    return tuple(sorted(settings.items()))
