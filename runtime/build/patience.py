"""Compilations that take long: a word after some seconds, and an end after WARPCONV_COMPILE_LIMIT of them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

from warpconv.runtime.env import Settings

SAID_AFTER = 5.0        # seconds
_log = logging.getLogger("warpconv.build")


class Watch:
    """One compilation: since when, and how many seconds it may take (None: any number)."""

    def __init__(self, limit: float | None):
        self.limit = limit
        self._start = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether it has taken its time."""
        return self.limit is not None and time.monotonic() - self._start > self.limit

    @property
    def stopped(self) -> str:
        """What to say of a compilation that was ended."""
        return f"took longer than {self.limit:g} s and was stopped"

    @property
    def hint(self) -> str:
        """What to do about it."""
        return "another algorithm or smaller tiles make a shorter text; WARPCONV_COMPILE_LIMIT=0 sets no limit"


@contextlib.contextmanager
def watched(what: str, settings: Settings) -> Iterator[Watch]:
    """Around one compilation of ``what``: whoever waits for it is told once that it goes on."""
    watch = Watch(settings.compile_limit or None)
    end = f"it is stopped after {watch.limit:g} s" if watch.limit else "it may take any time"
    told = threading.Timer(SAID_AFTER, _log.warning, ("compiling %s takes more than %g s; %s (WARPCONV_COMPILE_LIMIT)",
                                                      what, SAID_AFTER, end))
    told.daemon = True
    told.start()
    try:
        yield watch
    finally:
        told.cancel()
