"""mbarriers and named barriers on the CPU device: counts, deadlocks in words, and who knows of whose writes."""

import numpy as np
import pytest

from tests.runtime.devices.cpu_kernels.harness import compiler_or_skip, floats, read, written
from tests.runtime.devices.cpu_kernels.hopper import ring
from tests.runtime.devices.cpu_kernels.roles import changed, expecting, line, ring_fault, run_ring
from warpconv.codegen.errors import KernelFault
from warpconv.runtime.devices.cpu import Mode

compiler_or_skip()


# ---- counts of barriers

def test_more_bytes_expected_than_come():
    ring_fault("deadlock", expecting(24592), "waits for ever for the mbarrier",
               "thread (128,0,0) for the mbarrier at byte 73728 of dynamic shared memory, phase 0, which lacks 0 of 1 "
               "arrivals and 16 of 24592 bytes")


def test_fewer_bytes_expected_than_come():
    ring_fault("barrier-misuse", expecting(24560),
               "copies 8192 bytes for the mbarrier at byte 73728", "expects 8176 more in its phase 0 (of 24560)")


def test_a_phase_that_completes_before_its_last_copy():
    ring_fault("barrier-misuse", expecting(16384), "copies 8192 bytes",
               "expects 0 more in its phase 1 (of 0)")


def test_copies_before_they_are_expected():
    ring_fault("barrier-misuse", changed("expect", "").replace(line("load b"), line("load b") + "\n" + line("expect")),
               "copies 8192 bytes", "expects 0 more in its phase 0")


def test_an_arrival_that_does_not_come():
    ring_fault("deadlock", changed("release", "if (thread == 0 && group == 1) wc_barrier_arrive(empty + before);"),
               "mbarrier at byte 73752 of dynamic shared memory, phase 0, which lacks 1 of 2 arrivals")


def test_more_arrivals_than_are_counted():
    """Phases pass too early, and a stage is filled while it is read."""
    with pytest.raises(KernelFault) as caught:
        run_ring(changed("release", "if (thread < 2) wc_barrier_arrive(empty + before);"))
    assert caught.value.kind in ("shared-race", "barrier-misuse")


def test_an_arrival_while_bytes_are_missing():
    text = "if (t == 0) { wc_barrier_init(full, 1); wc_barrier_expect(full, 16); wc_barrier_arrive(full); } y[t] = 0;"
    with pytest.raises(KernelFault, match="has all 1 arrivals of its phase 0 and waits for 16 bytes"):
        ring(text, "float* y", [written(floats(128))])


def test_more_bytes_than_a_barrier_counts():
    text = "if (t == 0) { wc_barrier_init(full, 2); " \
           "wc_barrier_expect(full, 900000); wc_barrier_expect(full, 200000); } " \
           "y[t] = 0;"
    with pytest.raises(KernelFault, match="200000 bytes .* beside 900000: it counts to 1048575"):
        ring(text, "float* y", [written(floats(128))])


def test_a_barrier_that_is_not_initialised():
    with pytest.raises(KernelFault, match="mbarrier at byte 65536 of dynamic .*, which is not initialised") as caught:
        ring("wc_barrier_wait(full, 1); y[t] = 0;", "float* y", [written(floats(128))])
    assert caught.value.kind == "barrier-misuse"


def test_the_barrier_of_the_block_before_is_not_initialised():
    text = "if (t == 0 && blockIdx.x == 0) wc_barrier_init(full, 1); __syncthreads(); wc_barrier_wait(full, 1); " \
           "y[blockIdx.x * 128 + t] = 0;"
    with pytest.raises(KernelFault, match=r"block \(1,0,0\).*not initialised"):
        ring(text, "float* y", [written(floats(256))], grid=(2, 1, 1), workers=1)


@pytest.mark.parametrize("order", [0, 2])
def test_a_barrier_used_before_the_block_knows_of_it(order):
    with pytest.raises(KernelFault) as caught:
        run_ring(changed("ready", ""), order=order)
    assert caught.value.kind == "barrier-misuse"
    assert "initialised" in str(caught.value)


def test_a_phase_that_is_gone_when_it_is_looked_for():
    """Thread 32 waits for phase 0; before it runs again phase 1, of the same parity as the one before, is over too."""
    text = """
    if (t == 0) wc_barrier_init(full, 1);
    __syncthreads();
    if (t == 32) wc_barrier_wait(full, 0);
    if (t == 64) { wc_barrier_arrive(full); wc_barrier_arrive(full); }
    y[t] = 0;"""
    with pytest.raises(KernelFault, match="waits for phase 0 .* of which phase 1 has completed before it saw that"):
        ring(text, "float* y", [written(floats(128))])


# ---- named barriers

TWO_GROUPS = """
    unsigned* const words = (unsigned*)shared;
    const int group = t / 64, thread = t % 64;
    for (int round = 0; round < 3; ++round) {
        words[t] = t + round;
        wc_sync_threads(1 + group, 64);
        y[round * 128 + t] = words[group * 64 + 63 - thread];
        wc_sync_threads(1 + group, COUNT);
    }"""


@pytest.mark.parametrize("mode", list(Mode))
def test_named_barriers(mode):
    y = np.zeros((3, 2, 64), np.uint32)
    ring(TWO_GROUPS.replace("COUNT", "64"), "unsigned* y", [written(y)], mode=mode)
    expected = np.arange(128).reshape(2, 64)[:, ::-1] + np.arange(3)[:, None, None]
    assert np.array_equal(y, expected)


def test_a_named_barrier_orders_its_threads_only():
    text = TWO_GROUPS.replace("COUNT", "64").replace("words[group * 64 + 63 - thread]", "words[127 - t]")
    with pytest.raises(KernelFault) as caught:
        ring(text, "unsigned* y", [written(np.zeros(384, np.uint32))])
    assert caught.value.kind in ("shared-race", "uninitialised-read")


def test_without_the_second_barrier_there_is_a_race():
    text = TWO_GROUPS.replace("wc_sync_threads(1 + group, COUNT);", "")
    with pytest.raises(KernelFault, match="(reads|writes) byte") as caught:
        ring(text, "unsigned* y", [written(np.zeros(384, np.uint32))])
    assert caught.value.kind == "shared-race"


@pytest.mark.parametrize("call, kind, words", [
    ("wc_sync_threads(16, 128)", "barrier-misuse", "numbers to 15"),
    ("wc_sync_threads(1, 48)", "barrier-misuse", "whole warps"),
    ("wc_sync_threads(1, t < 64 ? 128 : 64)", "barrier-misuse", "at which others wait for 128"),
    ("if (t < 96) wc_sync_threads(1, 128)", "deadlock", "barrier 1, 96 of its 128 threads have come"),
    ("if (t < 64) __syncthreads(); else wc_sync_threads(1, 128)", "deadlock", "barrier 1, 64 of its 128"),
])
def test_named_barriers_that_cannot_be(call, kind, words):
    with pytest.raises(KernelFault, match=words) as caught:
        ring(call + "; y[t] = 0;", "float* y", [written(floats(128))])
    assert caught.value.kind == kind


# ---- plain threads beside all this

def test_threads_that_fill_a_stage():
    """Consumers gather by plain reads what other threads wrote, handed over by mbarriers alone, and back."""
    text = """
    unsigned long long* const empty = full + 2;
    unsigned* const words = (unsigned*)shared;
    if (t == 0) for (int i = 0; i < 2; ++i) { wc_barrier_init(full + i, 64); wc_barrier_init(empty + i, 2); }
    __syncthreads();
    for (int k = 0; k < 6; ++k) {
        const unsigned stage = k % 2, parity = k / 2 & 1;
        if (t < 64) {
            wc_barrier_wait(empty + stage, parity ^ 1);
            words[stage * 64 + t] = x[k * 64 + t];
            wc_barrier_arrive(full + stage);
        } else {
            wc_barrier_wait(full + stage, parity);
            y[k * 64 + t - 64] = words[stage * 64 + 127 - t] + words[stage * 64];
            MEET
            if (lane == 0) wc_barrier_arrive(empty + stage);
        }
    }"""
    x, y = np.arange(384, dtype=np.uint32).reshape(6, 64), np.zeros((6, 64), np.uint32)
    for order in range(4):
        y[...] = 0
        ring(text.replace("MEET", "__syncwarp();"), "const unsigned* x, unsigned* y", [read(x), written(y)],
             order=order)
        assert np.array_equal(y, x[:, ::-1] + x[:, :1])
    with pytest.raises(KernelFault, match="writes byte") as caught:  # lane 0 arrives for others that it has not met
        ring(text.replace("MEET", ""), "const unsigned* x, unsigned* y", [read(x), written(y)])
    assert caught.value.kind == "shared-race"


@pytest.mark.parametrize("order", [0, 1])
def test_a_lane_does_not_arrive_for_the_others_of_its_warp(order):
    """All lanes read one word, and one arrives: whichever read it last, the others may still be at it."""
    text = """
    unsigned* const word = (unsigned*)shared;
    if (t == 0) wc_barrier_init(full, 1);
    if (t == 0) word[0] = 1;
    __syncthreads();
    if (warp == 1) {
        y[lane] = word[0];
        MEET
        if (lane == 0) wc_barrier_arrive(full);
    }
    if (t == 0) { wc_barrier_wait(full, 0); word[0] = 2; }"""
    y = np.zeros(32, np.uint32)
    ring(text.replace("MEET", "__syncwarp();"), "unsigned* y", [written(y)], order=order)
    assert np.all(y == 1)
    with pytest.raises(KernelFault, match="writes byte 0 of dynamic shared memory, which another thread") as caught:
        ring(text.replace("MEET", ""), "unsigned* y", [written(y)], order=order)
    assert caught.value.kind == "shared-race"


@pytest.mark.parametrize("order", [0, 1])
def test_each_lane_may_arrive_for_itself(order):
    text = """
    unsigned* const word = (unsigned*)shared;
    if (t == 0) { wc_barrier_init(full, 32); word[0] = 1; }
    __syncthreads();
    if (warp == 1) { y[lane] = word[0]; wc_barrier_arrive(full); }
    if (t == 0) { wc_barrier_wait(full, 0); word[0] = 2; }"""
    y = np.zeros(32, np.uint32)
    ring(text, "unsigned* y", [written(y)], order=order)
    assert np.all(y == 1)


def test_shared_memory_begins_at_a_multiple_of_1024():
    y = np.zeros(128, np.uint64)
    for workers in (1, 2):
        ring("y[t] = (unsigned long long)shared % 1024;", "unsigned long long* y", [written(y)], workers=workers)
        assert not y.any()
