"""A child forked while a thread compiles goes on: no lock that a thread of its parent held stays closed in it."""

import contextvars
import os
import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests import checks
from tests.runtime import device_object
from warpconv import conv2d
from warpconv.runtime import env, forks
from warpconv.runtime.call import conv

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
              pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")]
needs_compiler = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
SECONDS = 60


def in_child(work):
    """What ``work`` gives, as an exit status, in a forked child; 'hangs' if it does not end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hangs"


@pytest.mark.parametrize("make", [forks.lock, forks.rlock])
def test_a_lock_that_another_thread_holds_is_open_in_the_child(make):
    lock, held, done = make(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait(SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(SECONDS)
    try:
        assert in_child(lambda: lock.acquire(timeout=5)) == 0
        assert not lock.acquire(timeout=0.01)           # in the parent it is still held
    finally:
        done.set()
        thread.join()


@pytest.mark.long
@needs_compiler
def test_a_child_forked_while_a_thread_compiles(tmp_path, monkeypatch):
    device_object.copied(monkeypatch)
    started, go_on = threading.Event(), threading.Event()
    x, w = np.ones((1, 1, 7, 9), np.float32), np.full((1, 1, 3, 2), 2, np.float32)
    from warpconv.runtime.devices.cpu import objects
    real, main = objects.tools.run_tool, threading.get_ident()

    def slow(*args, **kwargs):
        if threading.get_ident() != main:
            started.set()
            go_on.wait(SECONDS)
        return real(*args, **kwargs)

    objects.tools.run_tool = slow
    try:
        conv.clear()
        with env.scope(cache_dir=tmp_path / "cache"):
            # what all kernels share is compiled before: who needs it waits for it, in a child too
            conv2d(np.ones((1, 1, 4, 4), np.float32), w, device="cpu")
            # a thread has settings of its own: it is given these, else it would find its kernel in the tests' cache
            settings = contextvars.copy_context()
            thread = threading.Thread(target=lambda: settings.run(conv2d, np.ones((1, 1, 5, 5), np.float32),
                                                                  w[..., :2, :], device="cpu"))
            thread.start()
            assert started.wait(SECONDS)
            assert in_child(lambda: (conv2d(x, w, device="cpu") == 12).all()) == 0
    finally:
        go_on.set()
        thread.join(SECONDS)
        objects.tools.run_tool = real
        conv.clear()


def test_every_lock_is_made_here():
    made = re.compile(r"threading\.R?Lock\(")
    for path in Path(forks.__file__).parent.rglob("*.py"):
        if path.name != "forks.py":
            assert not made.search(path.read_text(encoding="utf-8")), path


