"""Warnings that point at the line of the person's code which called warpconv, however deep they come from."""

from __future__ import annotations

import sys
import warnings


def warn(text: str, category: type[Warning] = RuntimeWarning) -> None:
    """warnings.warn with the first frame outside of warpconv as its place. In a thread of warpconv's own that is where
    the thread began."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "warpconv":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
