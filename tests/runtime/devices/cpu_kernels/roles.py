"""A kernel whose warps have roles of their own: a producer that copies into a ring of stages, and two consumers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.devices.cpu_kernels.harness import read, written
from tests.runtime.devices.cpu_kernels.hopper import of, ring
from warpconv.codegen.errors import KernelFault
from warpconv.runtime.devices.cpu import Mode

# Three stages of 64 x 64 halves, two of a and one of b; warp group 0 copies, groups 1 and 2 multiply 64 rows of a
# each with all of b. The result goes by stmatrix through shared memory (byte 81920 on) to a tensor store. Lines end in
# names by which tests replace them.
STAGES, STAGE = 3, 3 * 8192
RING = """
    unsigned long long* const empty = full + STAGES;
    const int group = warp / 4, thread = t % 128;
    if (t == 0) {
        for (int i = 0; i < STAGES; ++i) {
            wc_barrier_init(full + i, 1);
            wc_barrier_init(empty + i, 2);
        }
        wc_fence_barrier_init();
    }
    __syncthreads();                                                    // (ready)
    if (group == 0) {
        wc_setmaxnreg_dec();
        if (t == 0) {
            unsigned stage = 0, parity = 1;
            for (int k = 0; k < steps; ++k) {
                wc_barrier_wait(empty + stage, parity);         // (wait empty)
                wc_barrier_expect(full + stage, 24576);         // (expect)
                wc_tma_load_2(shared + stage * STAGE, &a_map, full + stage, k * 64, 0);          // (load a)
                wc_tma_load_2(shared + stage * STAGE + 8192, &a_map, full + stage, k * 64, 64);
                wc_tma_load_2(shared + stage * STAGE + 16384, &b_map, full + stage, k * 64, 0);  // (load b)
                if (++stage == STAGES) { stage = 0; parity ^= 1; }
            }
        }
    } else {
        wc_setmaxnreg_inc();
        unsigned stage = 0, parity = 0;
        int before = -1;
        float sums[32];
        for (int k = 0; k < steps; ++k) {
            wc_barrier_wait(full + stage, parity);                      // (wait full)
            const unsigned long long a = wc_descriptor_rows_128(shared + stage * STAGE + (group - 1) * 8192);
            const unsigned long long b = wc_descriptor_rows_128(shared + stage * STAGE + 16384);
            wc_wgmma_fence();                                           // (fence)
            for (int i = 0; i < 4; ++i) wc_wgmma_halves(sums, a + 2 * i, b + 2 * i, (k | i) > 0);
            wc_wgmma_commit();
            if (before >= 0) {
                wc_wgmma_wait_group_1();                                  // (wait before)
                if (thread == 0) wc_barrier_arrive(empty + before);     // (release)
            }
            before = stage;
            if (++stage == STAGES) { stage = 0; parity ^= 1; }
        }
        wc_wgmma_wait_sums(sums);                                            // (wait all)
        if (thread == 0) wc_barrier_arrive(empty + before);
        unsigned char* const out = shared + 81920 + (group - 1) * 8192;
        for (int j = 0; j < 4; ++j) {
            const int column = j * 16 + (lane >> 4) * 8 + lane % 8, cell = warp % 4 * 2 + (lane >> 3 & 1);
            unsigned words[4];
            for (int i = 0; i < 4; ++i) words[i] = wc_floats_to_halves(sums[8 * j + 2 * i], sums[8 * j + 2 * i + 1]);
            wc_store_matrices_transposed_4(out + column * 128 + ((cell ^ column & 7) << 4), words[0], words[1],
                                           words[2], words[3]);
        }
        wc_fence_proxy_async();                                              // (fence stores)
        wc_sync_threads(group, 128);                                    // (together)
        if (thread == 0) {
            wc_tma_store_2(&y_map, out, (group - 1) * 64, 0);        // (store)
            wc_tma_stores_commit();
            wc_tma_stores_done();                                    // (stores done)
        }
    }
""".replace("STAGES", str(STAGES)).replace("STAGE", str(STAGE))
PARAMETERS = "".join(f"const __grid_constant__ TensorMap {name}_map, " for name in "aby") + "int steps"
STEPS = 8


def line(name: str) -> str:
    """The one line of RING with this name."""
    found = [one for one in RING.splitlines() if f"// ({name})" in one]
    assert len(found) == 1, name
    return found[0]


def changed(name: str, to: str) -> str:
    """RING with another line in place of the one with this name."""
    return RING.replace(line(name), to)


def expecting(expected: int, body: str = RING) -> str:
    return body.replace("24576);         // (expect)", f"{expected});")


def run_ring(body: str, mode=Mode.CHECK, order: int = 0, toolchain=None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((rows, 64 * STEPS)).astype(np.float16) for rows in (128, 64))
    y = np.zeros((64, 128), np.float16)
    ring(body, PARAMETERS, [of(read(a, "a"), (64, 64), swizzle=128), of(read(b, "b"), (64, 64), swizzle=128),
                            of(written(y), (64, 64), swizzle=128), np.int32(STEPS)],
         threads=384, barriers=73728, shared=98304, mode=mode, order=order,
         toolchain=toolchain)
    return y, b.astype(np.float64) @ a.astype(np.float64).T


def ring_fault(kind: str, body: str, *parts: str, order: int = 0) -> None:
    with pytest.raises(KernelFault) as caught:
        run_ring(body, order=order)
    assert caught.value.kind == kind, str(caught.value)
    for part in parts:
        assert part in str(caught.value)
