"""Rings of stages between a producer and consumers on the CPU device, and each fault that they can have, planted."""

import dataclasses

import numpy as np
import pytest

from tests.runtime.devices.cpu_kernels.harness import compiler_or_skip, floats, read, written
from tests.runtime.devices.cpu_kernels.hopper import of, ring
from tests.runtime.devices.cpu_kernels.roles import RING, changed, expecting, line, ring_fault, run_ring
from warpconv.codegen.errors import KernelFault
from warpconv.runtime.devices.cpu import Mode

TOOLCHAIN = compiler_or_skip()


@pytest.mark.thin(2)
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_a_ring_in_any_order(mode, order):
    y, expected = run_ring(RING, mode, order)
    assert np.allclose(y, expected, rtol=2e-3, atol=2e-2)


@pytest.mark.long
def test_a_ring_where_fibers_are_switched_portably():
    y, expected = run_ring(RING, toolchain=dataclasses.replace(TOOLCHAIN, fiber="ucontext"))
    assert np.allclose(y, expected, rtol=2e-3, atol=2e-2)


# ---- a stage that nobody has filled, or that is still used

def test_a_stage_that_no_copy_has_filled():
    body = expecting(16384, changed("load b", ""))
    ring_fault("uninitialised-read", body, "wgmma reads row 0 of b at byte 16384 of dynamic shared memory", "no copy")


def test_filters_that_no_copy_has_filled():
    body = expecting(16384, changed("load a", ""))
    ring_fault("uninitialised-read", body, "wgmma reads row 0 of a at byte 0 of")


def test_a_stage_read_before_its_barrier():
    ring_fault("shared-race", changed("wait full", ""), "wgmma reads", "a copy brings whose mbarrier")


def test_a_stage_read_before_anything_came():
    ring_fault("uninitialised-read", changed("wait full", ""), "wgmma reads", order=2)


def test_one_warp_that_does_not_wait():
    ring_fault("shared-race", changed("wait full", "if (t != 200) wc_barrier_wait(full + stage, parity);"),
               "thread (200,0,0)", "wgmma reads", "a copy brings")


def test_a_stage_waited_for_by_the_wrong_barrier():
    ring_fault("shared-race", changed("wait full", "wc_barrier_wait(full + (stage + 1) % 3, parity);"), "a copy brings")


def test_a_stage_waited_for_by_the_wrong_parity():
    ring_fault("shared-race", changed("wait full", "wc_barrier_wait(full + stage, k == 3 ? 0 : parity);"))


def test_a_stage_overwritten_while_it_is_read():
    """The stage is handed back when its products were issued, not when they were waited for."""
    body = changed("release", "if (thread == 0) wc_barrier_arrive(empty + stage);").replace(
        "if (before >= 0) {", "{").replace(line("wait before"), "")
    body = body.replace("wc_wgmma_wait_sums(sums);                                            // (wait all)\n"
                        "        if (thread == 0) wc_barrier_arrive(empty + before);", "wc_wgmma_wait_sums(sums);")
    ring_fault("shared-race", body, "copies to byte", "wgmma of warp group 1 may still read")


def test_the_youngest_products_are_not_waited_for_by_the_wait_for_all_but_one():
    body = changed("release", "if (thread == 0) wc_barrier_arrive(empty + stage);").replace(
        "wc_wgmma_wait_sums(sums);                                            // (wait all)\n"
        "        if (thread == 0) wc_barrier_arrive(empty + before);", "wc_wgmma_wait_sums(sums);").replace(
        "if (before >= 0) {", "{")
    ring_fault("shared-race", body, "copies to byte", "may still read")


def test_a_stage_that_is_not_waited_for_before_it_is_filled_again():
    ring_fault("shared-race", changed("wait empty", "if (k < 5) wc_barrier_wait(empty + stage, parity);"), "copies to")


def test_a_thread_writes_a_stage_that_is_read():
    ring_fault("shared-race", changed("wait before", "wc_sync_threads(group, 128);"
                                      "if (thread == 7) shared[stage * 24576] = 0;" + line("wait before")),
               "writes byte 24576 of dynamic", "wgmma of warp group 1 may still read")


# ---- the order of what is asynchronous

def test_stores_of_what_is_not_fenced():
    ring_fault("shared-race", changed("fence stores", ""), "a tensor store reads byte 81920", "no fence.proxy.async")


def test_stores_before_the_group_has_met():
    ring_fault("shared-race", changed("together", ""), "a tensor store reads", "no barrier between")


def test_a_store_buffer_written_again_before_it_was_read():
    body = changed("stores done", "out[64] = 0; wc_tma_stores_done();")
    ring_fault("shared-race", body, "writes byte", "a tensor store may still read")


def test_stores_that_are_not_waited_for():
    ring_fault("asynchronous-order", changed("stores done", ""), "thread (128,0,0)",
               "tensor stores for which it has not waited")


def test_products_without_a_fence():
    ring_fault("asynchronous-order", changed("fence", "if (k == 0 && 0) wc_wgmma_fence();"), "no wgmma.fence")


def test_products_that_are_not_waited_for():
    body = changed("wait all", "").replace(line("fence stores"), "if (sums[0] == 1.5f) return;" + line("fence stores"))
    ring_fault("asynchronous-order", body, "wgmma for which it has not waited")


def test_copies_that_nobody_waits_for():
    text = """
    if (t == 0) { wc_barrier_init(full, 1); wc_barrier_expect(full, 2048); wc_tma_load_2(shared, &map, full, 0, 0); }
    y[t] = 0;"""
    with pytest.raises(KernelFault, match="the block ends with copies for the mbarrier at byte 65536") as caught:
        ring(text, "const __grid_constant__ TensorMap map, float* y",
             [of(read(np.zeros((16, 64), np.uint16)), (64, 16)), written(floats(128))])
    assert caught.value.kind == "asynchronous-order"


# ---- descriptors

def test_rows_beyond_shared_memory():
    ring_fault("descriptor", RING.replace("shared + stage * 24576 + 16384);", "shared + 98304 - 4096);"),
               "wgmma reads", "98304 bytes")


def test_rows_that_begin_within_a_row():
    ring_fault("descriptor", RING.replace("shared + stage * 24576 + 16384);", "shared + stage * 24576 + 16400);"),
               "rows of 128 bytes that begin at byte 16400")


def test_rows_that_are_not_in_shared_memory():
    ring_fault("descriptor", RING.replace("wc_descriptor_rows_128(shared + stage * 24576 + 16384)", "(9ull << 20)"),
               "outside of shared memory")


def test_threads_that_disagree():
    ring_fault("descriptor", RING.replace("b + 2 * i, (k", "b + 2 * i + (t == 255) * 8, (k"), "thread (255,0,0)",
               "another wgmma than others")


def test_a_warp_that_takes_no_part():
    ring_fault("deadlock", changed("wait all", "if (warp == 7) return;" + line("wait all")).replace(
        "wc_wgmma_commit();", "wc_wgmma_commit(); if (warp == 7 && k == 3) return;"),
        "wgmma number 16, issued by 96 of the 128 threads of warp group 1")


def test_copies_to_beyond_shared_memory():
    ring_fault("descriptor", RING.replace("shared + stage * 24576, &a_map", "shared + 98304 - 4096, &a_map"),
               "copies to 8192 bytes from byte 94208", "98304")


def test_copies_to_between_lines():
    ring_fault("misaligned", RING.replace("shared + stage * 24576, &a_map", "shared + stage * 24576 + 64, &a_map"),
               "tensor copy at byte 64")


def test_copies_of_the_wrong_kind():
    call = "wc_tma_load_%d(shared + stage * 24576, &a_map, full + stage, k * 64, 0%s)"
    ring_fault("descriptor", RING.replace(call % (2, ""), call % (3, ", 0")),
               "copies 3 coordinates by a map of 2 dimensions")


# ---- rows behind a box

BEHIND = """
    if (t == 0) wc_barrier_init(full, 1);
    __syncthreads();
    if (t == 0) { wc_barrier_expect(full, 8192 + 5 * 128); wc_tma_load_2(shared, &a_map, full, 0, 0);
                  wc_tma_load_2(shared + 8192, &b_map, full, 0, 0); }
    wc_barrier_wait(full, 0);
    float sums[4];
    wc_wgmma_fence();
    const unsigned long long a = wc_descriptor_rows_128(shared);
    const unsigned long long b = wc_descriptor_rows_128(shared + 8192 + FIRST * 128);
    for (int k = 0; k < 4; ++k) wc_wgmma_halves(sums, a + 2 * k, b + 2 * k, k > 0);
    wc_wgmma_commit();
    wc_wgmma_wait_sums(sums);
    for (int i = 0; i < 4; ++i) y[(16 * warp + lane / 4 + (i & 2 ? 8 : 0)) * 8 + lane % 4 * 2 + (i & 1)] = sums[i];"""


def test_rows_behind_a_box_are_no_numbers():
    """A row that nothing filled may stand behind those that are wanted: its column is NaN, all others are right."""
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((rows, 64)).astype(np.float16) for rows in (64, 5))
    y = floats(64, 8)
    arguments = [of(read(a, "a"), (64, 64), swizzle=128), of(read(b, "b"), (64, 5), swizzle=128), written(y)]
    parameters = "const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* y"
    ring(BEHIND.replace("FIRST", "2"), parameters, arguments)
    assert np.allclose(y[:, :3], a.astype(np.float64) @ b[2:].astype(np.float64).T, rtol=1e-3, atol=1e-3)
    assert np.all(np.isnan(y[:, 3:]))
    with pytest.raises(KernelFault, match="wgmma reads row 0 of b"):
        ring(BEHIND.replace("FIRST", "5"), parameters, arguments)


def test_faults_that_need_no_checks_are_seen_by_the_quick_mode():
    for body, kind in ((expecting(24592), "deadlock"),
                       (expecting(24560), "barrier-misuse"),
                       (changed("stores done", ""), "asynchronous-order")):
        with pytest.raises(KernelFault) as caught:
            run_ring(body, Mode.FAST)
        assert caught.value.kind == kind
