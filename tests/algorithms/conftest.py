"""Kernels of a room's tests, compiled side by side."""

from __future__ import annotations

import pytest

from tests import room


@pytest.fixture(scope="class")
def compiled(request: pytest.FixtureRequest) -> None:
    """Those of the chosen tests of a class; where tests are spread over processes, each test compiles its own."""
    if not hasattr(request.config, "workerinput"):
        room.compile_chosen([item for item in request.session.items if getattr(item, "cls", None) is request.cls
                             and "case" in item.fixturenames])
