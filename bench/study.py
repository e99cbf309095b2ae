"""What a study is, and the context that it runs in: progress, resuming, and one guarded row at a time."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from warpconv.codegen.errors import UnsupportedSpec

from .devices import NoDevice
from .harness import WrongResult
from .report.files import OK, Report, Table

Rows = dict[str, dict[str, Any]]


class Missing(Exception):
    """What a row measures is not in this version, in words."""


class Stopped(Exception):
    """The device no longer answers; the rows so far are kept."""


@dataclass(frozen=True)
class Study:
    """One study. ``run`` measures rows; ``tables``, ``plot`` and further ``plots`` (by name) show rows, from this run
    or an earlier one."""

    name: str
    summary: str
    about: str
    run: Callable[[Context], None]
    tables: Callable[[Rows], Iterable[Table]]
    plot: Callable[[Rows, Any], None] | None = None
    needs_gpu: bool = True
    plots: Mapping[str, Callable[[Rows, Any], None]] = field(default_factory=dict)
    selects: bool = False       # whether its run leaves out the rows that are not asked for


class Context:
    """Given to ``Study.run``."""

    def __init__(self, device: Any, report: Report, *, quick: bool = False, progress: Any = None,
                 only: Iterable[str] = ()):
        self.device = device
        self.report = report
        self.quick = quick
        self.only = tuple(only)
        self._progress = progress
        self._task = progress.add_task("", total=None) if progress is not None else None

    def expect(self, rows: int) -> None:
        """How many rows there will be, for the progress bar."""
        if self._progress is not None:
            self._progress.update(self._task, total=rows)

    def say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.update(self._task, description=text)

    def row(self, key: str, measure: Callable[[], dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """Measure a row unless it is there already. Whatever goes wrong is the row's status; only a device that no
        longer answers raises, Stopped."""
        self.say(key)
        if not self.report.done(key):
            status, values = self._guarded(measure)
            self.report.add(key, {"status": status, **fields, **values})
        if self._progress is not None:
            self._progress.advance(self._task)
        return self.report.rows[key]

    def asked(self, key: str) -> bool:
        """Whether a row is one of those that are to be measured: all, or those whose keys match."""
        return not self.only or any(fnmatch.fnmatchcase(key, pattern) for pattern in self.only)

    def pending(self, keys: Iterable[str]) -> bool:
        """Whether any of these rows is still to be measured."""
        return any(not self.report.done(key) for key in keys)

    def _guarded(self, measure: Callable[[], dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        try:
            return OK, measure()
        except NoDevice as error:
            return f"skipped: {error}", {}
        except Missing as error:
            return f"missing: {error}", {}
        except UnsupportedSpec as error:
            return f"declined: {getattr(error, 'reason', error)}", {}
        except WrongResult as error:
            return f"WRONG: {error}", {}
        except Exception as error:
            failure = f"failed: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
        try:
            if self.device is not None:
                self.device.synchronize()
                self.device.free()
        except Exception as error:
            raise Stopped(f"{failure}; then the device: {error}") from error
        return failure[:300], {}
