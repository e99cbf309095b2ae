"""Where chunks are filtered: lanes of GPUs, and page-locked memory, with a library that plays CuPy's part."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest

from tests import settings
from warpconv.runtime.devices.cuda import contexts
from warpconv.runtime.scale import places, staging, windows
from warpconv.runtime.scale.reach import Overlap
from warpconv.runtime.scale.windows import Window

from .played import There, gpus  # noqa: F401 - a fixture


def test_a_chunk_goes_to_the_gpu_and_its_own_pixels_come_back(gpus):
    x = np.arange(48.0, dtype="float32").reshape(6, 8)

    def call(array, device, stream):
        assert isinstance(array, There) and device == "cuda:1"
        return array * 2

    made = places.run(call, x, "cuda:1", (slice(1, 5), slice(0, 6)))
    assert type(made) is np.ndarray and made.flags.c_contiguous
    assert np.array_equal(made, 2 * x[1:5, :6])
    assert places._pins.used == staging.rounded(made.nbytes)    # the result alone is in memory of its own
    part = made[1:]
    del made
    gc.collect()
    assert places._pins.used > 0
    del part
    gc.collect()
    assert places._pins.used == 0


def test_results_beyond_the_limit_are_in_other_memory(gpus, monkeypatch):
    monkeypatch.setattr(staging, "MOST_PINNED", 100)
    monkeypatch.setattr(staging, "BLOCK", 64)
    x = np.arange(210.0, dtype="float32").reshape(6, 5, 7)
    made = places.run(lambda array, device, stream: array + 1, x, "cuda", (slice(1, 6), slice(0, 4)))
    assert np.array_equal(made, x[1:, :4] + 1) and places._pins.used == 0


def test_a_window_goes_there_part_by_part_through_few_blocks(gpus, monkeypatch):
    """Parts of other strides and lengths, some not aligned, by several threads; no block holds a whole row's plane."""
    monkeypatch.setattr(staging, "BLOCK", 256)
    monkeypatch.setattr(staging, "BLOCKS", 3)
    x = settings.generator(71).standard_normal((7, 40, 33)).astype("float32")
    odd = np.frombuffer(b"." + x[:4, :9].tobytes(), np.uint8)[1:].view("float32").reshape(4, 9, 33)
    assert not odd.flags.aligned
    parts = [odd[..., :5], x[:4, :9, 5:], np.asfortranarray(x[:4, 9:, :5]), x[:4, 9:, 5:],
             x[4:, :9, :5], x[4:, :9, 5:], x[4:, 9:, :5][:, ::1], x[4:, 9:, 5:]]
    made = places.run(lambda array, device, stream: array * 1, Window(parts, (2, 2, 2)), "cuda:0", ())
    assert np.array_equal(made, x)
    assert 1 <= places._blocks[0]._count <= 3


def test_many_threads_filter_an_image_on_two_gpus(gpus, monkeypatch):
    """Few small blocks, lanes and helpers shared by more threads than there are: every pixel arrives."""
    da = pytest.importorskip("dask.array", reason="dask is not installed (it is in the extra dask)")
    monkeypatch.setattr(staging, "BLOCK", 1024)
    monkeypatch.setattr(staging, "BLOCKS", 3)
    monkeypatch.setattr(staging, "MOST_PINNED", 60_000)     # some results are in other memory
    x = settings.generator(72).standard_normal((300, 260)).astype("float32")
    taken = da.from_array(x, chunks=37)

    def neighbours(array, device, stream):
        made = np.full_like(array, np.nan)
        made[1:-1, 1:-1] = array[:-2, 1:-1] - 2 * array[2:, 1:-1] + 3 * array[1:-1, :-2] - 4 * array[1:-1, 2:]
        return made

    def call(window, at, into):
        return places.run(neighbours, window, "auto", (slice(1, -1), slice(1, -1)), into)

    made = windows.filtered(taken, "w", taken.chunks, [Overlap(1, 1, True)] * 2, call, x[:0])
    roll = lambda down, right: np.roll(x, (down, right), (0, 1))        # noqa: E731
    for _ in range(3):
        found = made.compute(scheduler="threads", num_workers=16)
        assert np.array_equal(found, roll(1, 0) - 2 * roll(-1, 0) + 3 * roll(0, 1) - 4 * roll(0, -1))


def test_a_gpu_has_as_many_threads_as_lanes_and_all_gpus_have_work(gpus):
    """A call ends when all lanes have one: with a lane left empty, none would."""
    at, lock, seen = [], threading.Lock(), []
    full = threading.Barrier(2 * places.LANES, timeout=60)

    def call(array, device, stream):
        ordinal = int(device[-1])
        with lock:
            at.append(ordinal)
            seen.append((ordinal, at.count(ordinal)))
        full.wait()
        with lock:
            at.remove(ordinal)
        return array

    threads = [threading.Thread(target=places.run, args=(call, np.zeros((4, 4), "float32"), "auto", ()))
               for _ in range(3 * full.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not full.broken and len(seen) == 3 * full.parties
    assert [sum(ordinal == which for ordinal, _ in seen) for which in (0, 1)] == [3 * places.LANES] * 2
    assert max(count for _, count in seen) == places.LANES


def test_threads_that_wait_for_different_things_all_go_on(gpus):
    """One for the first GPU, one for the second, one for a whole GPU: none is left waiting."""
    lanes, order = places.lanes, []
    taken = [lanes._take([0], places.LANES), lanes._take([1], places.LANES)]

    def one(ordinals):
        with lanes.one(ordinals) as (ordinal, _):
            order.append(ordinal)

    def alone():
        with lanes.alone([1]) as ordinal:
            order.append((ordinal, len(lanes._free[1])))

    threads = [threading.Thread(target=alone), *(threading.Thread(target=one, args=([at],)) for at in (0, 1, 0, 1, 0))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 20
    while len(lanes._waiting) < 6 and time.monotonic() < until:
        time.sleep(0.001)
    for each in taken:
        lanes._give(*each)
    for thread in threads:
        thread.join(20)
    assert sorted(order, key=str) == [(1, 0), 0, 0, 0, 1, 1] and not lanes._waiting


def test_without_cupy_a_gpu_has_one_thread(gpus, monkeypatch):
    monkeypatch.setattr(places, "cupy", lambda: None)
    monkeypatch.setattr(contexts, "count", lambda: 1)
    at, most = [0], [0]

    def call(array, device, stream):
        at[0] += 1
        most[0] = max(most[0], at[0])
        time.sleep(0.01)
        at[0] -= 1
        return array

    threads = [threading.Thread(target=places.run, args=(call, np.zeros((4, 4), "float32"), "cuda", ()))
               for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_failed_call_gives_its_lane_back(gpus):
    def fails(array, device, stream):
        raise RuntimeError("out of memory")

    for _ in range(places.LANES + 1):
        with pytest.raises(RuntimeError, match="out of memory"):
            places.run(fails, np.zeros((4, 4), "float32"), "cuda:0", ())
    assert len(places.lanes._free[0]) == places.LANES
    gc.collect()
    assert places._pins.used == 0


def test_a_worker_of_a_cluster_takes_the_first_gpu_that_it_sees(gpus, monkeypatch):
    monkeypatch.setattr(places, "_in_worker", lambda: True)
    monkeypatch.setattr(contexts, "default_device", lambda: 0)
    seen = set()
    for _ in range(6):
        places.run(lambda array, device, stream: seen.add(device) or array, np.zeros((2, 2), "float32"), "auto", ())
    assert seen == {"cuda:0"}
