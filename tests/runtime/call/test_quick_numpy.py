"""NumPy's arrays on the CPU device: a call whose like has been checked runs in place, all else goes the checked way."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import warpconv
from tests import checks
from warpconv.codegen.errors import WarpconvError
from warpconv.runtime.call import conv
from warpconv.runtime.call.kernel import Kernel

pytestmark = pytest.mark.skipif(checks.no_cpu_device() is not None, reason=str(checks.no_cpu_device()))
RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def fresh():
    conv.clear()
    yield
    conv.clear()


@pytest.fixture
def checked(monkeypatch):
    """How many calls went the checked way."""
    calls = []
    real = Kernel._call
    monkeypatch.setattr(Kernel, "_call", lambda self, *given: calls.append(given) or real(self, *given))
    return calls


def drawn(*shape):
    return RNG.integers(-4, 5, shape).astype(np.float32)


def aligned(shape, offset=0):
    """An array whose first byte lies ``offset`` bytes behind a multiple of 64."""
    room = np.zeros(4 * int(np.prod(shape)) + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    return room[start:start + 4 * int(np.prod(shape))].view(np.float32).reshape(shape)


def wanted(x, w, padding=1):
    n, c, h, width = x.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows, w.astype(np.float64))


def call(x, w, **more):
    return warpconv.conv2d(x, w, **{"padding": 1, "device": "cpu", **more})


def test_the_second_call_is_not_checked(checked):
    w = drawn(2, 1, 3, 3)
    for _ in range(3):
        x = drawn(1, 1, 8, 8)
        np.testing.assert_array_equal(call(x, w), wanted(x, w))
    assert len(checked) == 1
    y = np.full((1, 2, 8, 8), np.nan, np.float32)
    for _ in range(2):
        x = drawn(1, 1, 8, 8)
        assert call(x, w, out=y) is y
        np.testing.assert_array_equal(y, wanted(x, w))
    assert len(checked) == 2


def test_what_may_differ_is_seen(checked):
    x, w, y = aligned((1, 1, 8, 8)), drawn(1, 1, 3, 3), aligned((1, 1, 8, 8))
    x[...] = drawn(1, 1, 8, 8)
    for _ in range(2):
        call(x, w, out=y)
    assert len(checked) == 1
    y.flags.writeable = False
    with pytest.raises(WarpconvError, match="read-only"):
        call(x, w, out=y)
    with pytest.raises(WarpconvError, match="shares memory with input"):
        call(x, w, out=x)
    off = aligned((1, 1, 8, 8), 4)
    off[...] = x
    np.testing.assert_array_equal(call(off, w), wanted(x, w))
    with pytest.raises(WarpconvError, match="stream"):
        call(x, w, stream=5)
    with pytest.raises(WarpconvError):
        call(x.view(np.ma.MaskedArray), w)
    shifted = aligned((1, 1, 8, 8), 2)
    with pytest.raises(WarpconvError, match="aligned"):
        call(shifted, w)


def test_channels_last_memory_is_kept(checked):
    w = drawn(4, 4, 1, 1)
    for _ in range(2):
        x = np.ascontiguousarray(drawn(2, 5, 6, 4)).transpose(0, 3, 1, 2)
        made = call(x, w, padding=0)
        np.testing.assert_array_equal(made, wanted(x, w, 0))
        assert made.transpose(0, 2, 3, 1).flags.c_contiguous
    assert len(checked) == 1


def test_a_filter_that_may_be_separable_is_read_each_time(checked):
    """The kernel depends on its elements."""
    x = drawn(1, 1, 16, 16)
    whole, product = drawn(1, 1, 5, 5), np.outer(drawn(5), [1, 2, 3, 2, 1]).astype(np.float32)[None, None]
    for w in (whole, product, whole, product):
        np.testing.assert_array_equal(call(x, w, padding=2), wanted(x, w, 2))
    assert not conv._quick


def test_settings_hold_for_the_next_call(monkeypatch):
    from warpconv.runtime.devices.cpu import quick
    seen = []
    real = quick.QuickLaunch.run

    def run(self, *given):
        done = real(self, *given)
        seen.append([request.workers for slot in self._free for request in slot.requests])
        return done

    monkeypatch.setattr(quick.QuickLaunch, "run", run)
    x, w = drawn(1, 1, 8, 8), drawn(1, 1, 3, 3)
    for threads in ("1", "1", "3"):
        monkeypatch.setenv("WARPCONV_CPU_THREADS", threads)
        call(x, w)
    assert seen == [[1], [3]]


def test_threads_do_not_share_a_launch():
    w = drawn(1, 1, 3, 3)
    xs = [drawn(1, 1, 8, 8) for _ in range(4)]
    call(xs[0], w)
    wrong = []

    def work(x):
        expected = wanted(x, w)
        wrong.extend(1 for _ in range(100) if not np.array_equal(call(x, w), expected))

    threads = [threading.Thread(target=work, args=(x,)) for x in xs]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_stacks_are_kept_for_the_next_launch():
    from warpconv.runtime.devices.cpu.abi import KEPT_STACKS
    x, w = drawn(1, 1, 8, 8), drawn(1, 1, 3, 3)
    call(x, w, algorithm="wide")
    kept = KEPT_STACKS.contents.count
    call(x, w, algorithm="wide")
    assert 0 < kept <= 512 and KEPT_STACKS.contents.count == kept and not KEPT_STACKS.contents.lock


def test_no_weight_is_refused_after_a_call_with_a_prepared_one():
    """It was taken for the prepared one, whose launch then read from address 0."""
    layer = warpconv.ConvShape(n=2, c=3, h=12, w=12, k=3, r=3, s=3, padding=1)
    kernel, x = warpconv.specialize(layer, device="cpu"), drawn(2, 3, 12, 12)
    filter = kernel.prepare(drawn(3, 3, 3, 3))
    kernel(x, filter)
    for given in (None, 3, "w", [1.0]):
        with pytest.raises(WarpconvError, match="weight"):
            kernel(x, given)
    assert (kernel(x, filter) == kernel(x, filter)).all()
