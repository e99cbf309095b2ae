"""Work in several threads, whose caller may stop waiting for it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from dataclasses import replace

import pytest

from warpconv.codegen.errors import CompileError
from warpconv.runtime import env
from warpconv.runtime.build.compilers import CompilerKind, compile_source, tools
from warpconv.runtime.build.parallel import as_done
from warpconv.runtime.build.patience import Group, group, nobody_waits, watched

LONG = 60.0     # seconds


def compiled(folder, seconds, begun=None):
    """A compilation that takes so long, by a program."""
    with watched("a test", env.settings()) as watch:
        if begun is not None:
            begun.set()
        return tools.run_tool([sys.executable, "-c", f"import time; time.sleep({seconds})"], cwd=folder, watch=watch)


def test_compilations_under_way_are_ended_where_the_caller_stops(tmp_path):
    begun, start = threading.Event(), time.monotonic()

    def work(number):
        if number == 0:
            assert begun.wait(LONG)
            raise KeyError(number)
        return compiled(tmp_path, LONG, begun)

    with pytest.raises(KeyError), contextlib.closing(as_done(work, [0, 1, 2, 3], 2)) as finished:
        for _, future in finished:
            future.result()
    assert time.monotonic() - start < LONG / 2
    assert group.get() is None and not nobody_waits()


@pytest.mark.nvcc
def test_what_is_ended_says_so_and_is_not_kept_as_refused(tmp_path):
    """It said that it had taken 300 s, and its text was kept among those that compilers refused."""
    together = Group()
    together.end()
    token = group.set(together)
    try:
        with pytest.raises(CompileError, match="was stopped, since nobody waits for it any longer") as caught:
            compile_source("__global__ void f() {}", arch="sm_90", kind=CompilerKind.NVCC,
                           settings=replace(env.settings(), cache_dir=tmp_path))
    finally:
        group.reset(token)
    assert "COMPILE_LIMIT" not in str(caught.value) and not list(tmp_path.rglob("failed"))


def test_what_begins_later_is_ended_at_once(tmp_path):
    """Work of several compilations goes on with the next one where the last was ended."""
    statuses, begun = [], threading.Event()

    def work(number):
        for _ in range(3):
            statuses.append(compiled(tmp_path, LONG, begun)[0])

    start = time.monotonic()
    with pytest.raises(KeyError), contextlib.closing(as_done(lambda number: work(number) if number else stop(begun),
                                                             [0, 1], 2)) as finished:
        for _, future in finished:
            future.result()
    assert time.monotonic() - start < LONG / 2
    assert len(statuses) == 3 and 0 not in statuses


def stop(begun):
    assert begun.wait(LONG)
    raise KeyError


def test_compilations_that_are_waited_for_end_by_themselves(tmp_path):
    done = dict(as_done(lambda number: compiled(tmp_path, 0.05), [1, 2, 3], 2))
    assert [done[number].result()[0] for number in (1, 2, 3)] == [0, 0, 0]
