"""Compilations that take long: who waits is told, and there is an end."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time

import pytest

from tests.runtime.build.test_compilers import needs, own_cache  # noqa: F401
from warpconv.codegen.errors import CompileError
from warpconv.codegen.shape import ConvShape
from warpconv.runtime import env
from warpconv.runtime.build import compilers, patience
from warpconv.runtime.build.compilers import CompilerKind
from warpconv.runtime.call import conv

# about 500 statements that no compiler may leave out, for a compiler that takes seconds over them
LONG = "extern \"C\" __global__ void f(float* x) {\n  float a = x[0];\n" + "".join(
    f"  a = a * x[{i % 97}] + __sinf(a) / x[{i % 89}]; x[{i}] = a;\n" for i in range(500)) + "}\n"

SHORT = 'extern "C" __global__ void f(float* x) { x[0] = 1.0f; }\n'


def test_who_waits_is_told_once(monkeypatch, caplog):
    monkeypatch.setattr(patience, "SAID_AFTER", 0.02)
    with env.scope(compile_limit=7.0), patience.watched("k.cu for sm_90", env.settings()) as watch:
        for _ in range(100):
            if caplog.records:
                break
            time.sleep(0.05)
        assert watch.limit == 7.0 and not watch.over
    said, = caplog.records
    assert said.levelno == logging.WARNING
    assert said.getMessage() == ("compiling k.cu for sm_90 takes more than 0.02 s; it is stopped after 7 s "
                                 "(WARPCONV_COMPILE_LIMIT)")


def test_what_is_quick_is_not_spoken_of(monkeypatch, caplog):
    monkeypatch.setattr(patience, "SAID_AFTER", 0.05)
    with env.scope(compile_limit=0.0), patience.watched("k.cu", env.settings()) as watch:
        pass
    time.sleep(0.2)
    assert watch.limit is None and not watch.over and not caplog.records


@pytest.mark.long
@pytest.mark.parametrize("kind", [needs(CompilerKind.NVRTC)])
def test_nvrtc_is_stopped(kind):
    with env.scope(compile_limit=0.05):
        start = time.monotonic()
        with pytest.raises(CompileError, match="longer than 0.05 s and was stopped"):
            compilers.compile_source(LONG, arch="sm_90", kind=kind)
        stopped = time.monotonic() - start
    with env.scope(compile_limit=0.0):      # and the next one is whole
        start = time.monotonic()
        assert compilers.compile_source(LONG, arch="sm_90", kind=kind).cubin
    assert stopped < 0.8 * (time.monotonic() - start)


class Signalled(BaseException):
    pass


@contextlib.contextmanager
def signals(times, after, every):
    """So many signals, whose handler raises."""
    left = [times]

    def raising(*_):
        left[0] -= 1
        if left[0] <= 0:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        raise Signalled

    before = signal.signal(signal.SIGALRM, raising)
    signal.setitimer(signal.ITIMER_REAL, after, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.long
@pytest.mark.parametrize("kind", [needs(CompilerKind.NVRTC)])
def test_a_signal_ends_nvrtc(kind):
    """What a handler raises in a function that NVRTC calls would be lost, and the compilation would go on."""
    compilers.compile_source(SHORT, arch="sm_90", kind=kind)    # the library is loaded
    start = time.monotonic()
    with pytest.raises(Signalled), signals(1, 0.1, 0.0):
        compilers.compile_source(LONG, arch="sm_90", kind=kind)
    stopped = time.monotonic() - start
    start = time.monotonic()
    assert compilers.compile_source(LONG, arch="sm_90", kind=kind).cubin
    assert stopped < 0.8 * (time.monotonic() - start)


def test_a_second_signal_frees_nothing_in_use():
    watch, ended = patience.Watch(None), []

    def library():
        while not watch.over:
            time.sleep(0.01)
        time.sleep(0.3)             # a library does not end at once
        ended.append(True)
        return 0

    with pytest.raises(Signalled), signals(3, 0.05, 0.02):
        patience.interruptible(library, watch)
    assert ended


def test_other_threads_call_at_once():
    found = []
    watch = patience.Watch(None)

    def ask():
        found.append(patience.interruptible(threading.current_thread, watch) is threading.current_thread())

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    ask()
    assert found == [True, False]


def test_the_cpu_device_s_compiler_is_stopped(tmp_path, monkeypatch):
    compiler = tmp_path / "g++"
    compiler.write_text('#!/bin/sh\ncase "$1" in --version) echo "g++ 12.2.0"; exit;; esac\nsleep 60\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("WARPCONV_CACHE_DIR", str(tmp_path / "cache"))
    conv.clear()
    with env.scope(cxx=compiler, compile_limit=0.5), pytest.raises(CompileError, match="longer than 0.5 s"):
        conv.specialize(ConvShape(c=1, h=9, w=9, k=1, r=3, s=3), device="cpu")
