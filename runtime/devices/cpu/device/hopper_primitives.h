// Hopper's device primitives, by the names of templates/parts/hopper.cuh.jinja: mbarriers, tensor copies (TMA), wgmma. Each
// calls the runtime (barriers.cpp, tensor_copies.cpp, wgmma.cpp), which has what is shared by the threads of a block.
//
//   name                        does here
//   wc_barrier_...              an mbarrier in the runtime, which its 8 bytes name; who waits lets others run
//   wc_sync_threads             bar.sync of some warps
//   wc_bulk_load, wc_tma_load_..., _store   the copy at once; who may count on it is what the checks know
//   wc_wgmma_...                the products when the first thread of the warp group waits for them. Sums are cut, not rounded
//                               (see wgmma.cpp); Mode.CHECK reads rows behind a box that nothing filled as NaN
//   wc_fence_proxy_async        is noted, and asked for where wgmma or a store reads what a thread wrote
//   wc_setmaxnreg_..., wc_fence_barrier_init   nothing
//   wc_launch_next, wc_wait_for_launch, wc_stored_by_launch   nothing: a launch begins when the one before has ended
#pragma once

__forceinline__ void wc_barrier_init(unsigned long long *barrier, int arrivals) {
    wcpu_barrier_init(wcpu_self(), barrier, arrivals);
}
__forceinline__ void wc_fence_barrier_init() {}
__forceinline__ void wc_barrier_expect(unsigned long long *barrier, int bytes) {
    wcpu_barrier_arrive(wcpu_self(), barrier, bytes);
}
__forceinline__ void wc_barrier_arrive(unsigned long long *barrier) { wcpu_barrier_arrive(wcpu_self(), barrier, 0); }
__forceinline__ void wc_barrier_wait(unsigned long long *barrier, unsigned parity) {
    wcpu_barrier_wait(wcpu_self(), barrier, parity);
}
__forceinline__ void wc_sync_threads(int barrier, int threads) { wcpu_named_barrier(wcpu_self(), barrier, threads); }

__forceinline__ void wc_launch_next() {}
__forceinline__ void wc_wait_for_launch() {}
__forceinline__ const float *wc_stored_by_launch(const float *address) { return address; }

__forceinline__ void wc_bulk_load(void *to, const void *from, int bytes, unsigned long long *barrier) {
    wcpu_bulk_load(wcpu_self(), to, from, bytes, barrier);
}
__forceinline__ void wc_tma_load_2(void *to, const void *map, unsigned long long *barrier, int c0, int c1) {
    wcpu_tensor_load(wcpu_self(), to, map, barrier, 2, c0, c1, 0, 0, 0);
}
__forceinline__ void wc_tma_load_3(void *to, const void *map, unsigned long long *barrier, int c0, int c1, int c2) {
    wcpu_tensor_load(wcpu_self(), to, map, barrier, 3, c0, c1, c2, 0, 0);
}
__forceinline__ void wc_tma_load_4(void *to, const void *map, unsigned long long *barrier, int c0, int c1, int c2, int c3) {
    wcpu_tensor_load(wcpu_self(), to, map, barrier, 4, c0, c1, c2, c3, 0);
}
__forceinline__ void wc_tma_load_5(void *to, const void *map, unsigned long long *barrier, int c0, int c1, int c2, int c3, int c4) {
    wcpu_tensor_load(wcpu_self(), to, map, barrier, 5, c0, c1, c2, c3, c4);
}
__forceinline__ void wc_tma_load_im2col(void *to, const void *map, unsigned long long *barrier, int c, int w, int h, int n,
                                           unsigned short tap_w, unsigned short tap_h) {
    wcpu_tensor_load_im2col(wcpu_self(), to, map, barrier, c, w, h, n, tap_w, tap_h);
}
__forceinline__ void wc_tma_load_im2col_volumes(void *to, const void *map, unsigned long long *barrier, int c, int w, int h,
                                                int d, int n, unsigned short tap_w, unsigned short tap_h, unsigned short tap_d) {
    wcpu_tensor_load_im2col_volumes(wcpu_self(), to, map, barrier, c, w, h, d, n, tap_w, tap_h, tap_d);
}
__forceinline__ void wc_tma_store_2(const void *map, const void *from, int c0, int c1) {
    wcpu_tensor_store(wcpu_self(), map, from, 2, c0, c1, 0, 0);
}
__forceinline__ void wc_tma_store_3(const void *map, const void *from, int c0, int c1, int c2) {
    wcpu_tensor_store(wcpu_self(), map, from, 3, c0, c1, c2, 0);
}
__forceinline__ void wc_tma_store_4(const void *map, const void *from, int c0, int c1, int c2, int c3) {
    wcpu_tensor_store(wcpu_self(), map, from, 4, c0, c1, c2, c3);
}
__forceinline__ void wc_tma_stores_commit() { wcpu_stores_commit(wcpu_self()); }
__forceinline__ void wc_tma_stores_read_all() { wcpu_stores_wait(wcpu_self(), 0); }
__forceinline__ void wc_tma_stores_read_but_1() { wcpu_stores_wait(wcpu_self(), 1); }
__forceinline__ void wc_tma_stores_done() { wcpu_stores_wait(wcpu_self(), 0); }
__forceinline__ void wc_fence_proxy_async() { wcpu_fence_shared(wcpu_self()); }

__forceinline__ unsigned long long wc_settled_descriptor(unsigned long long value) { return value; }
__forceinline__ unsigned long long wc_descriptor_rows_128(const void *rows) { return wcpu_matrix_rows(wcpu_self(), rows, 128); }
__forceinline__ unsigned long long wc_descriptor_rows_64(const void *rows) { return wcpu_matrix_rows(wcpu_self(), rows, 64); }
__forceinline__ unsigned long long wc_descriptor_columns_128(const void *rows, int next) {
    return wcpu_matrix_columns(wcpu_self(), rows, next);
}
template <int Sums>
__forceinline__ void wc_wgmma_halves(float (&sums)[Sums], unsigned long long a, unsigned long long b, bool adds) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, a, b, adds, WCPU_HALF, 0);
}
template <int Sums>
__forceinline__ void wc_wgmma_bfloat16s(float (&sums)[Sums], unsigned long long a, unsigned long long b, bool adds) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, a, b, adds, WCPU_BFLOAT16, 0);
}
template <int Sums>
__forceinline__ void wc_wgmma_tf32s(float (&sums)[Sums], unsigned long long a, unsigned long long b, bool adds) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, a, b, adds, WCPU_TF32, 0);
}
template <int Sums>
__forceinline__ void wc_wgmma_halves_a_across(float (&sums)[Sums], unsigned long long a, unsigned long long b, bool adds) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, a, b, adds, WCPU_HALF, WCPU_A_ACROSS);
}
template <int Sums>
__forceinline__ void wc_wgmma_bfloat16s_a_across(float (&sums)[Sums], unsigned long long a, unsigned long long b, bool adds) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, a, b, adds, WCPU_BFLOAT16, WCPU_A_ACROSS);
}
template <int Sums>
__forceinline__ void wc_wgmma_halves_b_across(float (&sums)[Sums], unsigned long long a, unsigned long long b, bool adds) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, a, b, adds, WCPU_HALF, WCPU_B_ACROSS);
}
template <int Sums>
__forceinline__ void wc_wgmma_bfloat16s_b_across(float (&sums)[Sums], unsigned long long a, unsigned long long b, bool adds) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, a, b, adds, WCPU_BFLOAT16, WCPU_B_ACROSS);
}
template <int Sums>
__forceinline__ void wc_wgmma_halves_across(float (&sums)[Sums], unsigned long long a, unsigned long long b, bool adds) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, a, b, adds, WCPU_HALF, WCPU_A_ACROSS | WCPU_B_ACROSS);
}
template <int Sums>
__forceinline__ void wc_wgmma_bfloat16s_across(float (&sums)[Sums], unsigned long long a, unsigned long long b, bool adds) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, a, b, adds, WCPU_BFLOAT16, WCPU_A_ACROSS | WCPU_B_ACROSS);
}
template <int Sums>
__forceinline__ void wcpu_wgmma_words(float (&sums)[Sums], const unsigned (&a)[4], unsigned long long b, bool adds, int type) {
    wcpu_wgmma(wcpu_self(), sums, 2 * Sums, (wcpu_u64)a, b, adds, type, WCPU_A_WORDS);
}
template <int Sums>
__forceinline__ void wc_wgmma_halves_words(float (&sums)[Sums], const unsigned (&a)[4], unsigned long long b, bool adds) {
    wcpu_wgmma_words(sums, a, b, adds, WCPU_HALF);
}
template <int Sums>
__forceinline__ void wc_wgmma_bfloat16s_words(float (&sums)[Sums], const unsigned (&a)[4], unsigned long long b, bool adds) {
    wcpu_wgmma_words(sums, a, b, adds, WCPU_BFLOAT16);
}
template <int Sums>
__forceinline__ void wc_wgmma_tf32s_words(float (&sums)[Sums], const unsigned (&a)[4], unsigned long long b, bool adds) {
    wcpu_wgmma_words(sums, a, b, adds, WCPU_TF32);
}
__forceinline__ void wc_wgmma_fence() { wcpu_wgmma_fence(wcpu_self()); }
__forceinline__ void wc_wgmma_commit() { wcpu_wgmma_commit(wcpu_self()); }
template <int Sums> __forceinline__ void wc_wgmma_wait_sums(float (&)[Sums]) { wcpu_wgmma_wait(wcpu_self(), 0); }
template <int Sums> __forceinline__ void wc_wgmma_wait_sums_but_1(float (&)[Sums]) { wcpu_wgmma_wait(wcpu_self(), 1); }
__forceinline__ void wc_wgmma_wait_group_1() { wcpu_wgmma_wait(wcpu_self(), 1); }
__forceinline__ void wc_wgmma_wait_group_2() { wcpu_wgmma_wait(wcpu_self(), 2); }

__forceinline__ void wc_setmaxnreg_dec() {}
__forceinline__ void wc_setmaxnreg_inc() {}

// Each row is one 16-byte access of the lane that has its address, as ldmatrix and stmatrix are counted.
#define WCPU_MATRICES(suffix, transposed)                                                                              \
    __forceinline__ void wc_store_matrices##suffix##_4(void *to, unsigned a, unsigned b, unsigned c, unsigned d) {     \
        const uint4 row = wcpu_as_words(wcpu_rows_of_words(wcpu_self(), wcpu_as_row(a, b, c, d), transposed));         \
        *(uint4 *)to = row;                                                                                            \
    }                                                                                                                  \
    __forceinline__ void wc_store_matrices##suffix##_2(void *to, unsigned a, unsigned b) {                             \
        const uint4 row = wcpu_as_words(wcpu_rows_of_words(wcpu_self(), wcpu_as_row(a, b, 0, 0), transposed));         \
        if (wcpu_lane() < 16) *(uint4 *)to = row;                                                                      \
    }
WCPU_MATRICES(, 0)
WCPU_MATRICES(_transposed, 1)
__forceinline__ void wc_load_matrices_transposed_4(unsigned &a, unsigned &b, unsigned &c, unsigned &d, const void *from) {
    const uint4 words = wcpu_words_of(*(const uint4 *)from, 1);
    a = words.x, b = words.y, c = words.z, d = words.w;
}
__forceinline__ void wc_load_matrices_transposed_2(unsigned &a, unsigned &b, const void *from) {
    uint4 row(0, 0, 0, 0);
    if (wcpu_lane() < 16) row = *(const uint4 *)from;
    const uint4 words = wcpu_words_of(row, 1);
    a = words.x, b = words.y;
}
