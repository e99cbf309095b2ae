"""A room of tests for each algorithm (the documents' teaching steps share ``course``).

In a room: ``axes.py`` (what covers the algorithm), ``covering.json`` (the kept covering array, see tests/cover.py),
``plans.py`` and ``golden/`` (texts under review), ``test_room.py`` (the tests of both), and its unit tests. A room is
found by its folder; nothing lists them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path

from tests.axes import Rows
from warpconv.codegen.spec import Operation

HERE = Path(__file__).parent
ROOMS = tuple(sorted(path.parent.name for path in HERE.glob("*/axes.py")))
_ROWS: Mapping[str, Mapping[str, Rows]] = {
    room: importlib.import_module(f"{__name__}.{room}.axes").ROWS for room in ROOMS}
EVERY: Mapping[str, Rows] = {name: rows for own in _ROWS.values() for name, rows in own.items()}
ROWS: Mapping[str, Rows] = {name: rows for name, rows in EVERY.items()
                            if rows.operation == Operation.FORWARD.value and not rows.volumes}  # of forward layers
AXES = {name: rows.axes for name, rows in EVERY.items()}


def algorithms_of(room: str) -> tuple[str, ...]:
    """The algorithms that a room covers."""
    return tuple(_ROWS[room])


def folder_of(algorithm: str) -> Path:
    """The folder of the room that covers an algorithm."""
    return HERE / next(room for room in ROOMS if algorithm in _ROWS[room])
