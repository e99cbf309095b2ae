"""Measured choices: timing a layer's plans, keeping every time in a database, and choosing by it.

``table(ordinal)`` is what planning takes as ``tuning=``; ``tune(shape, ...)`` measures. docs/tuning.md tells the rules.
"""

from __future__ import annotations

from typing import Any

__all__ = ["table", "tune"]


def __getattr__(name: str) -> Any:
    """The two names, each imported when it is first asked for: choosing needs nothing of what measuring needs."""
    if name == "table":
        from .choice import table
        return table
    if name == "tune":
        from .session import tune
        return tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
