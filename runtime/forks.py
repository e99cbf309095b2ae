"""Locks that a forked child finds open.

A child has only the thread that forked. A lock that another thread held at that moment would stay closed in the child
for ever, so every lock of this package is made here and is new in each child. What it guards may then have been left in
the middle of a change: dictionaries of finished objects, for which that is harmless.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.Lock:
    """A lock, as threading.Lock."""
    return _kept(threading.Lock())


def rlock() -> threading.RLock:
    """A lock that its thread may take again, as threading.RLock."""
    return _kept(threading.RLock())


def _kept(made: Any) -> Any:
    _locks.add(made)
    return made


def _renew() -> None:
    for one in list(_locks):
        one._at_fork_reinit()       # what the standard library's own locks do (logging, concurrent.futures)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
