"""How a session times: medians of samples that go round all buffers, a GPU's by events."""

from __future__ import annotations

import pytest

from tests.runtime.tuning.test_tune import quick  # noqa: F401
from warpconv.codegen.errors import DeviceError
from warpconv.runtime.tuning import clock


class Ticking(clock.CpuClock):
    """A device whose calls take what they say."""

    def __init__(self, cache_bytes=0):
        self.cache_bytes, self.taken = cache_bytes, []

    def sample(self, calls, hold_ms):
        self.taken.append(len(calls))
        return sum(call() for call in calls)


def test_the_median_of_samples_that_go_round_all_buffers(monkeypatch):
    monkeypatch.setattr(clock, "SAMPLES", 20)
    device, used = Ticking(), []
    calls = [lambda i=i: used.append(i) or 0.01 * (1 + i) for i in range(3)]
    found = clock.measure(device, calls)
    assert found.samples == 20 and found.low <= found.us <= found.high and abs(found.us - 20) < 1
    assert abs(used.count(0) - used.count(2)) <= 1 and device.taken[-1] == 25
    slow = clock.measure(device, [lambda: 1000.0], seconds=0.0)
    assert slow.samples == clock.FEWEST_SAMPLES and slow.us == 1e6
    assert clock.sets_of(Ticking(100), 30) == 4 and clock.sets_of(Ticking(100), 1000) == 1
    assert clock.sets_of(Ticking(10**9), 1) == clock.MOST_SETS


class FakeCuda:
    """As much of PyCUDA as the clock of a GPU uses, on a stream whose work is a list of milliseconds."""

    class Error(Exception):
        pass

    class device_attribute:
        L2_CACHE_SIZE = "L2"

    def __init__(self):
        self.stream, self.pushed, self.freed = [], 0, False
        self.begun = []         # what the next events say when they are asked whether the GPU has come by
        outer = self

        class Event:
            def record(self):
                self.place = len(outer.stream)

            def synchronize(self):
                pass

            def query(self):
                return outer.begun.pop(0) if outer.begun else False

            def time_till(self, end):
                return sum(outer.stream[self.place:end.place])

        class Device:
            def __init__(self, ordinal):
                assert ordinal == 1

            def get_attribute(self, attribute):
                return 50 << 20

            def retain_primary_context(self):
                return self

            def push(self):
                outer.pushed += 1

            def pop(self):
                outer.pushed -= 1

        class Memory(int):
            def free(self):
                outer.freed = True

        self.Event, self.Device = Event, Device
        self.mem_alloc = lambda nbytes: Memory(4096)
        self.memset_d32_async = lambda pointer, value, count: self.stream.append(0.25)


def test_a_gpu_is_timed_by_events_behind_a_fill_that_hides_the_host(monkeypatch):
    from warpconv.runtime.devices.cuda import contexts
    fake = FakeCuda()
    for name, made in (("driver", lambda: fake), ("name", lambda ordinal: "GPU"), ("arch", lambda ordinal: "sm_80")):
        monkeypatch.setattr(contexts, name, made)
    device = clock.open_clock("cuda:1")
    assert device.target == "cuda:1" and str(device.arch) == "sm_80" and device.cache_bytes == 200 << 20
    del fake.stream[:]
    assert device.sample([lambda: fake.stream.append(3.0)] * 2, 1.0) == 6.0
    assert fake.stream == [0.25] * 4 + [3.0] * 2 and fake.pushed == 1
    for begun, hold_ms, held in (([True, True], 1.0, 4 + 8 + 16), ([True], 0.0, 0), ([True] * 9, 40.0, 160 + 240)):
        del fake.stream[:]
        fake.begun = begun
        assert device.sample([lambda: fake.stream.append(3.0)] * 2, hold_ms) == 6.0
        assert fake.stream.count(0.25) == held
    fake.begun = []
    device.close()
    assert fake.freed and fake.pushed == 0

    def full(nbytes):
        raise fake.Error("out of memory")

    fake.mem_alloc = full
    with pytest.raises(DeviceError, match="out of memory"):
        clock.open_clock("cuda:1")
    assert fake.pushed == 0
