"""Compilations that take long: a word after some seconds, and an end after WARPCONV_COMPILE_LIMIT of them, or once
nobody waits for them any longer."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from warpconv.runtime import forks
from warpconv.runtime.env import Settings

SAID_AFTER = 5.0        # seconds
_log = logging.getLogger("warpconv.build")


class Watch:
    """One compilation: since when, and how many seconds it may take (None: any number). ``word``: "0", or "1" once it
    is to end, for a library that looks there itself."""

    def __init__(self, limit: float | None):
        self.limit = limit
        self.word = ctypes.create_string_buffer(b"0")
        self._start = time.monotonic()
        self.left = False       # whether nobody waits for it any longer
        self._lock = forks.lock()
        self._ends: list[Callable[[], None]] = []

    def interrupt(self) -> None:
        """It has taken its time, or nobody waits for it any longer."""
        with self._lock:
            self.word.value = b"1"
            for end in self._ends:
                end()

    @contextlib.contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Around a program at work, which ``end`` ends: it is called by an interrupt, at once if one has come."""
        with self._lock:
            if self.word.value == b"1":
                end()
            self._ends.append(end)
        try:
            yield
        finally:
            with self._lock:
                self._ends.remove(end)

    @property
    def over(self) -> bool:
        """Whether it is to end."""
        return self.word.value == b"1" or (self.limit is not None and time.monotonic() - self._start > self.limit)

    @property
    def stopped(self) -> str:
        """What to say of a compilation that was ended."""
        if self.left or not self.limit:
            return "was stopped, since nobody waits for it any longer"
        return f"took longer than {self.limit:g} s and was stopped"

    @property
    def hint(self) -> str:
        """What to do about it."""
        if self.left:
            return "build it again"
        return "another algorithm or smaller tiles make a shorter text; WARPCONV_COMPILE_LIMIT=0 sets no limit"


class Group:
    """Compilations, in any number of threads, for all of which one caller waits."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._watches: set[Watch] = set()
        self.over = False       # whether the caller waits no longer

    def end(self) -> None:
        """The caller waits no longer: those under way are ended, and those that would begin later."""
        with self._lock:
            self.over = True
            watches = list(self._watches)
        for watch in watches:
            watch.left = True
            watch.interrupt()

    @contextlib.contextmanager
    def holding(self, watch: Watch) -> Iterator[None]:
        """Around a compilation of the group."""
        with self._lock:
            self._watches.add(watch)
            watch.left = self.over
        if watch.left:
            watch.interrupt()
        try:
            yield
        finally:
            with self._lock:
                self._watches.discard(watch)


# of the compilations that begin in this context (parallel.py); None where each is waited for by itself
group: ContextVar[Group | None] = ContextVar("group", default=None)


def nobody_waits() -> bool:
    """Whether compilations that begin in this context are ended at once."""
    together = group.get()
    return together is not None and together.over


@contextlib.contextmanager
def watched(what: str, settings: Settings) -> Iterator[Watch]:
    """Around one compilation of ``what``: whoever waits for it is told once that it goes on."""
    watch = Watch(settings.compile_limit or None)
    end = f"it is stopped after {watch.limit:g} s" if watch.limit else "it may take any time"
    timers = [threading.Timer(SAID_AFTER, _log.warning, ("compiling %s takes more than %g s; %s "
                                                         "(WARPCONV_COMPILE_LIMIT)", what, SAID_AFTER, end))]
    if watch.limit is not None:
        timers.append(threading.Timer(watch.limit, watch.interrupt))
    for timer in timers:
        timer.daemon = True
        timer.start()
    together = group.get()
    try:
        with together.holding(watch) if together else contextlib.nullcontext():
            yield watch
    finally:
        for timer in timers:
            timer.cancel()


def interruptible(call: Callable[[], int], watch: Watch) -> int:
    """What a library's ``call`` gives, which asks ``watch`` now and then. Signals find the main thread outside the
    library: in a function that a library calls, what their handlers raise would be lost, Ctrl-C among it."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    found: list[int] = []
    ended = threading.Event()

    def run() -> None:
        try:
            found.append(call())
        finally:
            ended.set()

    worker = threading.Thread(target=run, name="warpconv-compile", daemon=True)
    worker.start()
    raised: BaseException | None = None
    while not ended.is_set():       # what the library works on must outlive its call
        try:
            ended.wait()
        except BaseException as error:
            watch.interrupt()
            raised = error
    worker.join()
    if raised is not None:
        raise raised
    return found[0]
