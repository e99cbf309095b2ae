"""Values made once for each key, however many threads ask: those that ask for the same wait, others go on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from warpconv.runtime import forks

Value = TypeVar("Value")
_NOTHING: Any = object()


class Kept(Generic[Value]):
    """A memory cache. A hit costs one look-up and takes no lock; beyond ``most`` values all are let go of."""

    def __init__(self, most: int | None = None):
        self._most = most
        self._values: dict[Hashable, Value] = {}
        self._making: dict[Hashable, list[Any]] = {}    # a lock for each key that is being made, and who needs it
        self._lock = forks.lock()

    def find(self, key: Hashable) -> Value | None:
        """The value, None where there is none yet."""
        return self._values.get(key)

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value, made if there is none. What ``make`` raises passes through, and the next one tries again."""
        found = self._values.get(key, _NOTHING)
        if found is not _NOTHING:
            return found
        with self._lock:
            flight = self._making.setdefault(key, [forks.rlock(), 0])
            flight[1] += 1
        try:
            with flight[0]:
                found = self._values.get(key, _NOTHING)
                return found if found is not _NOTHING else self._keep(key, make())
        finally:
            with self._lock:
                flight[1] -= 1
                if not flight[1]:
                    self._making.pop(key, None)

    def _keep(self, key: Hashable, value: Value) -> Value:
        with self._lock:
            if self._most is not None and len(self._values) > self._most:
                self._values.clear()
            self._values[key] = value
        return value

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()

    def values(self) -> list[Value]:
        """All values, in the order in which they were made."""
        with self._lock:
            return list(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(tuple(self._values))
