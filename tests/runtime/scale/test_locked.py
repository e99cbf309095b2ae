"""Memory that is page-locked where it lies: which copies read and write it, and who keeps it locked how long."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tests import settings
from warpconv.codegen.errors import ArgumentTypeError, DeviceError
from warpconv.runtime.devices.cuda import contexts
from warpconv.runtime.scale import locked, places, staging
from warpconv.runtime.scale.locked import lines
from warpconv.runtime.scale.windows import Window

from .played import Runtime, Stream, gpus  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def own_locks(monkeypatch):
    monkeypatch.setattr(locked, "locks", locked.Locks())


def kept(array, runtime):
    """Locked for the rest of the test."""
    return locked.locks.hold(runtime, [locked.span(array)])


# ---- copies

@pytest.mark.parametrize("seed", range(40))
def test_drawn_boxes_arrive_whole_and_nothing_else_is_touched(seed, monkeypatch):
    """Boxes of arrays with one to four axes, there and back, beside NumPy's own copies."""
    monkeypatch.setattr(locked, "LEAST_COPY", 1)
    lines.cache_clear()
    rng = settings.generator(95, seed)
    shape = (*map(int, rng.integers(1, 9, rng.integers(0, 4))), int(rng.integers(300, 400)))
    whole = rng.standard_normal(shape).astype("float32")
    lows = [int(rng.integers(0, extent)) for extent in shape[:-1]]
    region = (*(slice(low, int(rng.integers(low, extent)) + 1) for low, extent in zip(lows, shape)), slice(3, -2))
    box, runtime = whole[region], Runtime()
    theirs = np.full(box.shape, np.nan, "float32")
    how = lines(box.shape, box.strides, theirs.strides, 4)
    kept(whole, runtime)
    locked.copy(runtime, how, box.ctypes.data, theirs.ctypes.data, locked.TO_GPU, Stream(True))
    assert np.array_equal(theirs, box)
    expected = whole.copy()
    expected[region] = theirs = theirs + 1
    locked.copy(runtime, how, box.ctypes.data, theirs.ctypes.data, locked.FROM_GPU, Stream(True))
    assert np.array_equal(whole, expected)
    lines.cache_clear()


def test_axes_without_gaps_are_one_copy():
    x = np.empty((8, 16, 256), "float32")
    assert lines(x.shape, x.strides, x.strides, 4) == (x.nbytes, 1, (x.nbytes, x.nbytes), ((0, 0),))
    part = x[2:5]
    assert lines(part.shape, part.strides, part.strides, 4) == (part.nbytes, 1, (part.nbytes,) * 2, ((0, 0),))
    box = x[:, 2:10, :200]
    assert lines(box.shape, box.strides, np.empty(box.shape, "float32").strides, 4) is None     # 8 copies of 6 kB
    wide = np.empty((3, 100, 4000), "float32")[:, 10:90, 100:]
    found = lines(wide.shape, wide.strides, np.empty(wide.shape, "float32").strides, 4)
    assert (found.width, found.height, found.pitches) == (15600, 80, (16000, 15600))
    assert found.starts == ((0, 0), (1_600_000, 1_248_000), (3_200_000, 2_496_000))


@pytest.mark.parametrize("view", [
    lambda x: x[:, ::2], lambda x: x[::-1], lambda x: x[:, ::-1], lambda x: x.T, lambda x: x[:, :100],
    lambda x: np.broadcast_to(x[:1], x.shape), lambda x: x[:0]])
def test_what_no_copy_reaches_goes_by_blocks(view):
    x = view(np.zeros((400, 500), "float32"))
    assert lines(x.shape, x.strides, np.empty(x.shape, "float32").strides, 4) is None


def test_rows_further_apart_than_copies_take_go_by_blocks():
    assert lines((4, 1000), (2**31, 4), (4000, 4), 4) is None
    assert lines((4, 1000), (2**31 - 4, 4), (4000, 4), 4) is not None
    assert lines((3 << 30,), (1,), (1,), 1).width == 3 << 30       # one row has no distance to the next


# ---- through a GPU

def test_a_chunk_of_locked_memory_is_not_copied_by_the_host(gpus):
    x = settings.generator(96).standard_normal((300, 400)).astype("float32")
    y = np.full((300, 700), np.nan, "float32")
    runtime = gpus.cuda.runtime
    window = Window([x[20:220, 10:300]], (1, 1))
    with locked.locked(x, y):
        for low, high in map(locked.span, (x, y)):      # apart, or together where they share a page
            assert any(start <= low and high <= start + size for start, size in runtime.locked.items())
        made = places.run(lambda array, device, stream: array * 2, window, "cuda:0", (slice(5, 195), slice(2, 288)),
                          y[7:197, 9:295])
    assert made is None and runtime.locked == {}
    expected = np.full_like(y, np.nan)
    expected[7:197, 9:295] = 2 * x[25:215, 12:298]
    assert np.array_equal(y, expected, equal_nan=True)
    assert runtime.copies == [(1, 1160, 200), (2, 1144, 190)]
    assert places._blocks[0]._count == 0 and places._pins.used == 0


@pytest.mark.parametrize("which", [(), (0,), (1,)])
def test_what_is_not_locked_goes_by_blocks(gpus, which, monkeypatch):
    monkeypatch.setattr(staging, "BLOCK", 4096)
    x = settings.generator(97).standard_normal((100, 300)).astype("float32")
    y = np.full((400, 100), np.nan, "float32").T[:, 50:350]       # columns side by side
    with locked.locked(*((x, y)[at] for at in which)):
        assert places.run(lambda array, device, stream: array - 1, x, "cuda:1", (), y) is None
    assert np.array_equal(y, x - 1)
    assert [way for way, *_ in gpus.cuda.runtime.copies] == ([1] if which == (0,) else [])


def test_windows_of_several_parts(gpus):
    """A chunk at an edge that wraps: its parts lie on both sides of the array."""
    x = settings.generator(98).standard_normal((200, 600)).astype("float32")
    parts = [x[:, 400:], x[:, :300]]
    with locked.locked(x):
        made = places.run(lambda array, device, stream: array + 0, Window(parts, (1, 2)), "cuda:0", ())
    assert np.array_equal(made, np.concatenate(parts, 1)) and len(gpus.cuda.runtime.copies) == 2


def test_memory_that_others_have_locked_is_taken_as_it_is(gpus):
    x = np.ones((300, 400), "float32")
    runtime = gpus.cuda.runtime
    runtime.locked[x.ctypes.data] = x.nbytes
    with locked.locked(x):
        places.run(lambda array, device, stream: array, x, "cuda:0", ())
    assert runtime.copies == [(1, x.nbytes, 1)] and len(runtime.locked) == 1


def test_a_failed_call_is_waited_for(gpus):
    x, waited = np.ones((300, 400), "float32"), []

    def fails(array, device, stream):
        waited.append(sum(lane.event.waited for lane in seen))
        raise RuntimeError("out of memory")

    with places.lanes.one([0]) as (_, lane):
        seen = [lane]
    with locked.locked(x), pytest.raises(RuntimeError, match="out of memory"):
        places.run(fails, x, "cuda:0", ())
    assert sum(lane.event.waited for lane in seen) > waited[0]


# ---- who keeps it locked

def test_memory_stays_locked_as_long_as_somebody_holds_it(gpus):
    x, runtime = np.zeros(100_000), gpus.cuda.runtime
    with locked.locked(x):
        with locked.locked(x[100:200], x):
            assert len(runtime.locked) == 1
        assert len(runtime.locked) == 1
        with locked.locked(x[::-1]):
            pass
        assert len(runtime.locked) == 1
    assert not runtime.locked


def test_parts_that_share_a_page_are_locked_once(gpus):
    x = np.zeros(100_000)
    with locked.locked(x[:50_000], x[50_000:]):
        assert len(gpus.cuda.runtime.locked) == 1
        with locked.locks.reading(gpus.cuda.runtime, [x]) as told:
            assert told
    with locked.locks.reading(gpus.cuda.runtime, [x]) as told:
        assert not told


def test_arrays_that_share_a_page_are_locked_one_after_the_other(gpus):
    """The page belongs to the first; a copy does not go over the seam."""
    x, runtime = np.zeros(100_000), gpus.cuda.runtime
    with locked.locked(x[:50_000]):
        with locked.locked(x[50_000:], x[:10]):
            assert len(runtime.locked) == 2
            for part, whole in ((x[:50_000], True), (x[60_000:], True), (x[40_000:60_000], False)):
                with locked.locks.reading(runtime, [part]) as told:
                    assert told is whole
        assert len(runtime.locked) == 1
    assert not runtime.locked


def test_pages_are_unlocked_when_no_copy_is_at_work(gpus):
    x, runtime = np.zeros(100_000), gpus.cuda.runtime
    inside, go_on = threading.Event(), threading.Event()

    def reads():
        with locked.locks.reading(runtime, [x]) as told:
            assert told
            inside.set()
            go_on.wait(20)

    held = kept(x, runtime)
    thread = threading.Thread(target=reads)
    thread.start()
    inside.wait(20)
    leaving = threading.Thread(target=locked.locks.release, args=(runtime, held))
    leaving.start()
    time.sleep(0.05)
    assert runtime.locked
    with locked.locks.reading(runtime, [x]) as told:
        assert not told                 # none begins any more
    again = []
    holding = threading.Thread(target=lambda: again.append(kept(x, runtime)))       # waits, and locks it anew
    holding.start()
    go_on.set()
    for each in (thread, leaving, holding):
        each.join(20)
    assert len(runtime.locked) == 1 and again[0][0].holders == 1
    locked.locks.release(runtime, again[0])
    assert not runtime.locked


def test_an_unlocking_that_fails_is_told_and_the_others_are_done(gpus, monkeypatch):
    x, runtime = np.zeros(300_000), gpus.cuda.runtime
    held = locked.locks.hold(runtime, [locked.span(x[:100_000]), locked.span(x[200_000:])])
    real, failing = runtime.hostUnregister, [True]

    def once(address):
        if failing.pop() if failing else False:
            raise runtime.CUDARuntimeError("cudaErrorIllegalAddress")
        real(address)

    monkeypatch.setattr(runtime, "hostUnregister", once)
    with pytest.raises(DeviceError, match="could not be unlocked.*cudaErrorIllegalAddress"):
        locked.locks.release(runtime, held)
    assert len(runtime.locked) == 1 and not locked.locks._ranges


def test_an_interrupted_wait_leaves_memory_locked_and_of_use(gpus, monkeypatch):
    x, runtime = np.zeros(100_000), gpus.cuda.runtime
    held = kept(x, runtime)
    with locked.locks.reading(runtime, [x]):
        def interrupted(*given):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(locked.locks._changed, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                locked.locks.release(runtime, held)
    again = kept(x, runtime)            # does not wait for ever
    assert len(runtime.locked) == 1 and again == held
    for _ in range(2):
        locked.locks.release(runtime, held)
    assert not runtime.locked


def test_what_cannot_be_locked_is_told_and_nothing_stays_locked(gpus, monkeypatch):
    x, runtime = np.zeros(300_000), gpus.cuda.runtime
    real = runtime.hostRegister

    def once(*given):
        real(*given)
        runtime.refuses = True

    monkeypatch.setattr(runtime, "hostRegister", once)
    with pytest.raises(DeviceError, match=r"of 0\.0008\d* GB cannot be page-locked.*cudaErrorHostMemory"), \
            locked.locked(x[:100_000], x[200_000:]):
        raise AssertionError("not reached")
    assert not runtime.locked and not locked.locks._ranges


def test_without_a_gpu_nothing_is_locked(monkeypatch):
    monkeypatch.setattr(contexts, "usable", lambda: "there is none")
    with locked.locked(np.zeros(4)):
        pass
    with pytest.raises(ArgumentTypeError, match="arrays.*list.*array that a Dask array is made of"), \
            locked.locked([1, 2]):
        pass
