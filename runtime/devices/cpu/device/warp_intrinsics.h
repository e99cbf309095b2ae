// Shuffles, votes and barriers: each is a call into the runtime, where the lanes meet.
#pragma once

// The bits of `source` as another type; the shorter of the two sizes is copied, the rest is zero.
template <class To, class From> __forceinline__ To wcpu_bits(From source) {
    To result{};
    __builtin_memcpy(&result, &source, sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));
    return result;
}

template <class T> __forceinline__ T wcpu_shuffle(unsigned mask, T value, int source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle takes a scalar of 4 or 8 bytes");
    return wcpu_bits<T>(wcpu_exchange(wcpu_self(), wcpu_bits<unsigned long long>(value), mask, source));
}

// `width` splits the warp into sections, each with its own lane 0; a source outside the section is one's own lane.
template <class T> __forceinline__ T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    return wcpu_shuffle(mask, value, ((int)wcpu_lane() & -width) | (source & (width - 1)));
}
template <class T> __forceinline__ T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const int lane = wcpu_lane(), source = lane - (int)delta;
    return wcpu_shuffle(mask, value, source < (lane & -width) ? lane : source);
}
template <class T> __forceinline__ T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const int lane = wcpu_lane(), source = lane + (int)delta;
    return wcpu_shuffle(mask, value, (lane & (width - 1)) + (int)delta >= width ? lane : source);
}
template <class T> __forceinline__ T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
    const int lane = wcpu_lane(), source = lane ^ lane_mask;
    return wcpu_shuffle(mask, value, source >= (lane & -width) + width ? lane : source);
}

__forceinline__ unsigned __ballot_sync(unsigned mask, int predicate) {
    return (unsigned)wcpu_exchange(wcpu_self(), predicate != 0, mask, WCPU_BALLOT);
}
__forceinline__ int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
__forceinline__ int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
#define __activemask() wcpu_active_lanes(wcpu_self(), __COUNTER__)   // compilers merge equal calls of two branches
// Of unsigned numbers alone, by exchanges: what redux.sync gives every lane of a whole warp.
__forceinline__ unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    for (int other = 1; other < 32; other *= 2) { const unsigned its = __shfl_xor_sync(mask, value, other); value = value > its ? value : its; }
    return value;
}
__forceinline__ unsigned __reduce_min_sync(unsigned mask, unsigned value) {
    for (int other = 1; other < 32; other *= 2) { const unsigned its = __shfl_xor_sync(mask, value, other); value = value < its ? value : its; }
    return value;
}
__forceinline__ void __syncwarp(unsigned mask = 0xffffffffu) { wcpu_exchange(wcpu_self(), 0, mask, WCPU_SYNCWARP); }
__forceinline__ void __syncthreads() { wcpu_block_barrier(wcpu_self()); }

// Fences order nothing here: threads of a block take turns on one worker.
__forceinline__ void __threadfence() {}
__forceinline__ void __threadfence_block() {}
__forceinline__ void __threadfence_system() {}
