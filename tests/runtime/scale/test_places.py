"""Where chunks are filtered: lanes of GPUs, and page-locked memory, with a library that plays CuPy's part."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import types

import numpy as np
import pytest

from warpconv.runtime.devices.cuda import contexts
from warpconv.runtime.scale import places


class There(np.ndarray):
    """An array that says it is on a GPU."""

    def set(self, array, stream):
        self[...] = array

    def get(self, stream, out):
        out[...] = self


class Stream:
    def __init__(self, non_blocking):
        self.waited = 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def synchronize(self):
        self.waited += 1


@pytest.fixture
def gpus(monkeypatch):
    """Two of them."""
    library = types.SimpleNamespace(
        empty=lambda shape, dtype: np.empty(shape, dtype).view(There),
        ascontiguousarray=lambda array: np.ascontiguousarray(array).view(There),
        cuda=types.SimpleNamespace(Device=lambda ordinal: contextlib.nullcontext(), Stream=Stream,
                                   alloc_pinned_memory=bytearray))
    monkeypatch.setattr(places, "cupy", lambda: library)
    monkeypatch.setattr(contexts, "usable", lambda: None)
    monkeypatch.setattr(contexts, "count", lambda: 2)
    monkeypatch.setattr(contexts, "arch", lambda ordinal: "sm_90")
    monkeypatch.setattr(places, "lanes", places.Lanes(places._stream))
    monkeypatch.setattr(places, "_pins", places._Pins())
    return library


def test_a_chunk_goes_to_the_gpu_and_its_own_pixels_come_back(gpus):
    x = np.arange(48.0, dtype="float32").reshape(6, 8)

    def call(array, device, stream):
        assert isinstance(array, There) and device == "cuda:1"
        return array * 2

    made = places.run(call, x, "cuda:1", (slice(1, 5), slice(0, 6)))
    assert type(made) is np.ndarray and made.flags.c_contiguous
    assert np.array_equal(made, 2 * x[1:5, :6])
    assert places._pins._used == made.nbytes        # the result is in page-locked memory, what was staged is given back
    part = made[1:]
    del made
    gc.collect()
    assert places._pins._used > 0
    del part
    gc.collect()
    assert places._pins._used == 0


def test_results_beyond_the_limit_are_in_other_memory(gpus, monkeypatch):
    monkeypatch.setattr(places, "MOST_PINNED", 100)
    made = places.run(lambda array, device, stream: array + 1, np.zeros((5, 7), "float32"), "cuda", ())
    assert np.array_equal(made, np.ones((5, 7))) and places._pins._used == 0


def test_a_gpu_has_as_many_threads_as_lanes_and_all_gpus_have_work(gpus):
    at, most, lock, seen = {0: 0, 1: 0}, {0: 0, 1: 0}, threading.Lock(), []

    def call(array, device, stream):
        ordinal = int(device[-1])
        with lock:
            at[ordinal] += 1
            most[ordinal] = max(most[ordinal], at[ordinal])
            seen.append(ordinal)
        time.sleep(0.01)
        with lock:
            at[ordinal] -= 1
        return array

    threads = [threading.Thread(target=places.run, args=(call, np.zeros((4, 4), "float32"), "auto", ()))
               for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == {0: places.LANES, 1: places.LANES}
    assert 8 <= seen.count(0) <= 16 and len(seen) == 24


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
    assert places._pins._used == 0


def test_a_worker_of_a_cluster_takes_the_first_gpu_that_it_sees(gpus, monkeypatch):
    monkeypatch.setattr(places, "_in_worker", lambda: True)
    monkeypatch.setattr(contexts, "default_device", lambda: 0)
    seen = set()
    for _ in range(6):
        places.run(lambda array, device, stream: seen.add(device) or array, np.zeros((2, 2), "float32"), "auto", ())
    assert seen == {"cuda:0"}
