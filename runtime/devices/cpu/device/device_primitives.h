// Device primitives: named functions that a GPU needs inline PTX (or a header) for and that this device spells in C++.
// The emitted text defines each on one line (templates/parts/primitives.cuh.jinja); build.py drops exactly the lines
// that define a name of this table, so these definitions stand in their place.
//
//   name                      does                                     rounds
//   wc_half_to_float          IEEE binary16 bits -> float              exact
//   wc_float_to_half          float -> IEEE binary16 bits              to nearest even, overflow to inf
//   wc_bfloat16_to_float      bfloat16 bits -> float                   exact
//   wc_float_to_bfloat16      float -> bfloat16 bits                   to nearest even, overflow to inf
//   wc_exp2                   2^value                                  to a unit or so, as wc_reciprocal does, the
//                                                                      inverse; a GPU to 2 units and to 1
//   wc_read_again             memory is read anew after it             -
//   wc_settled                the value, worked out before it          -
//                             (wc_settled_address too)
//   wc_half_low_to_float      low (high) half of a word -> float       exact
//   wc_floats_to_halves       two floats -> a word                     as above (wc_floats_to_bfloat16s too)
//   wc_to_uint8s              four (16-bit elements: two) values ->    floats to nearest even; beyond the
//                             a word (wc_to_int8s, _uint16s, _int16s)  range its end, NaN 0
//   wc_dot_mixed              sum + products of four unsigned and      exact, modulo 2^32
//                             four signed bytes
//   wc_fma_halves             a * b + c on both halves of words        once, to nearest even (wc_fma_bfloat16s too)
//   wc_copy_async_16          16 (8, 4) bytes, global to shared; here  -
//                             at once, on a GPU by wc_copy_async_wait
//   wc_copy_async_if_16       the same for lanes that take part        -
//   wc_copy_async_zfill_16    the same, or zeros and nothing read      -
//   wc_copy_async_commit      groups copies; .._wait_group waits for   -
//                             all groups but the youngest few
//   wc_load_matrices_4        8 x 8 matrices from shared memory to all   -
//                             lanes (wc_load_matrices_2 too)
//   wc_transpose_matrix       rows of an 8 x 8 matrix for its columns    -
//   wc_mma_halves_16          matrix product on tensor cores, added to   products exact, sums cut as a GPU
//                             floats (_8, _pair, wc_mma_bfloat16s_...)   cuts them (mma.cpp); of sparse
//   wc_mma_tf32s_8            the same of floats, of which the upper 19  ones to nearest
//                             bits count
//
// NaNs come out as the one quiet NaN that cvt.rn gives: 0x7fff for both 16-bit types.
#pragma once

__forceinline__ float wc_half_to_float(unsigned short half) {
    const unsigned sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | magnitude << 13);   // infinity, NaN
    // Shifted into a float's fields the exponent is 127 - 15 too small; the product also renormalises subnormals.
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(magnitude << 13) * 0x1p112f));
}

inline unsigned short wc_float_to_half(float value) {
    const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fff;                          // NaN
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;                 // 65520 and above round to infinity
    if (magnitude < 0x38800000u)                                         // subnormal: let the addition of 0.5 round
        return sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u);
    const unsigned odd = magnitude >> 13 & 1;                            // ties go to the even neighbour
    return sign | (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
}

__forceinline__ float wc_bfloat16_to_float(unsigned short value) { return __uint_as_float((unsigned)value << 16); }

__forceinline__ unsigned short wc_float_to_bfloat16(float value) {
    const unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

__forceinline__ float wc_exp2(float value) { return exp2f(value); }
__forceinline__ float wc_reciprocal(float value) { return 1.0f / value; }

__forceinline__ void wc_read_again() { __asm__ volatile("" ::: "memory"); }
__forceinline__ int wc_settled(int value) { return value; }
__forceinline__ const float *wc_settled_address(const float *value) { return value; }
__forceinline__ const unsigned short *wc_settled_address(const unsigned short *value) { return value; }

__forceinline__ float wc_half_low_to_float(unsigned word) { return wc_half_to_float((unsigned short)word); }
__forceinline__ float wc_half_high_to_float(unsigned word) { return wc_half_to_float((unsigned short)(word >> 16)); }
__forceinline__ unsigned wc_floats_to_halves(float low, float high) {
    return wc_float_to_half(low) | (unsigned)wc_float_to_half(high) << 16;
}
__forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) {
    return wc_float_to_bfloat16(low) | (unsigned)wc_float_to_bfloat16(high) << 16;
}

// Integers of `bits` bits from `least` to `most`, the first in the word's lowest bits.
__forceinline__ unsigned wcpu_limited(int value, int least, int most, int bits) {
    return (unsigned)min(max(value, least), most) & ((1u << bits) - 1);
}
__forceinline__ int wcpu_nearest(float value) { return __float2int_rn(value); }
__forceinline__ int wcpu_nearest(int value) { return value; }
#define WCPU_TO_BYTES(name, T, least, most)                                                                            \
    __forceinline__ unsigned name(T a, T b, T c, T d) {                                                                \
        return wcpu_limited(wcpu_nearest(a), least, most, 8) | wcpu_limited(wcpu_nearest(b), least, most, 8) << 8      \
               | wcpu_limited(wcpu_nearest(c), least, most, 8) << 16 | wcpu_limited(wcpu_nearest(d), least, most, 8) << 24; \
    }
#define WCPU_TO_SHORTS(name, T, least, most)                                                                           \
    __forceinline__ unsigned name(T a, T b) {                                                                          \
        return wcpu_limited(wcpu_nearest(a), least, most, 16) | wcpu_limited(wcpu_nearest(b), least, most, 16) << 16;  \
    }
WCPU_TO_BYTES(wc_to_uint8s, float, 0, 255) WCPU_TO_BYTES(wc_to_uint8s, int, 0, 255)
WCPU_TO_BYTES(wc_to_int8s, float, -128, 127) WCPU_TO_BYTES(wc_to_int8s, int, -128, 127)
WCPU_TO_SHORTS(wc_to_uint16s, float, 0, 65535) WCPU_TO_SHORTS(wc_to_uint16s, int, 0, 65535)
WCPU_TO_SHORTS(wc_to_int16s, float, -32768, 32767) WCPU_TO_SHORTS(wc_to_int16s, int, -32768, 32767)

__forceinline__ int wc_dot_mixed(unsigned a, int b, int sum) {
    for (int i = 0; i < 32; i += 8) sum += (int)(a >> i & 255) * (int)(signed char)(b >> i);
    return sum;
}

// Products of two 16-bit floats are exact in double, and double's sum of one with a third rounds far below their last
// bits; rounding it to odd on the way to float keeps the second rounding from being one of a tie that was none.
__forceinline__ float wcpu_to_odd(double value) {
    float near = (float)value;
    if ((double)near == value || near != near) return near;
    unsigned bits = __float_as_uint(near);
    if (bits & 1) return near;
    return __uint_as_float(__builtin_fabs((double)near) > __builtin_fabs(value) ? bits - 1 : bits + 1);
}
__forceinline__ unsigned wc_fma_halves(unsigned a, unsigned b, unsigned c) {
    return wc_floats_to_halves(
        wcpu_to_odd((double)wc_half_low_to_float(a) * wc_half_low_to_float(b) + wc_half_low_to_float(c)),
        wcpu_to_odd((double)wc_half_high_to_float(a) * wc_half_high_to_float(b) + wc_half_high_to_float(c)));
}
__forceinline__ unsigned wc_fma_bfloat16s(unsigned a, unsigned b, unsigned c) {
    return wc_floats_to_bfloat16s(
        wcpu_to_odd((double)wc_bfloat16_to_float(a) * wc_bfloat16_to_float(b) + wc_bfloat16_to_float(c)),
        wcpu_to_odd((double)wc_bfloat16_to_float(a >> 16) * wc_bfloat16_to_float(b >> 16)
                    + wc_bfloat16_to_float(c >> 16)));
}

// One access of each memory, as wide as on a GPU, at the address of the call.
__forceinline__ void wc_copy_async_4(void *to, const void *from) { *(unsigned *)to = *(const unsigned *)from; }
__forceinline__ void wc_copy_async_8(void *to, const void *from) { *(uint2 *)to = *(const uint2 *)from; }
__forceinline__ void wc_copy_async_16(void *to, const void *from) {
#ifdef WARPCPU_PAST_L1
    wcpu_copy_follows();
#endif
    *(uint4 *)to = *(const uint4 *)from;
}
__forceinline__ void wc_copy_async_wait() {}
__forceinline__ void wc_copy_async_if_4(bool takes_part, void *shared, const void *global) {
    if (takes_part) wc_copy_async_4(shared, global);
}
__forceinline__ void wc_copy_async_zfill_4(bool takes_part, void *shared, const void *global, bool inside) {
    if (takes_part && inside) wc_copy_async_4(shared, global);
    else if (takes_part) *(unsigned *)shared = 0;
}
__forceinline__ void wc_copy_async_if_8(bool takes_part, void *shared, const void *global) {
    if (takes_part) wc_copy_async_8(shared, global);
}
__forceinline__ void wc_copy_async_zfill_8(bool takes_part, void *shared, const void *global, bool inside) {
    if (takes_part && inside) wc_copy_async_8(shared, global);
    else if (takes_part) *(uint2 *)shared = uint2(0, 0);
}
__forceinline__ void wc_copy_async_if_16(bool takes_part, void *shared, const void *global) {
    if (takes_part) wc_copy_async_16(shared, global);
}
__forceinline__ void wc_copy_async_zfill_16(bool takes_part, void *shared, const void *global, bool inside) {
    if (takes_part && inside) wc_copy_async_16(shared, global);
    else if (takes_part) *(uint4 *)shared = uint4(0, 0, 0, 0);
}
__forceinline__ void wc_copy_async_commit() {}
__forceinline__ void wc_copy_async_wait_group() {}

// All 32 lanes take part in what follows: they meet once, and the runtime makes the matrices of all (mma.cpp). Each row of a
// matrix is read by the lane that has its address, in one access.
__forceinline__ uint4 wcpu_as_words(wcpu_row row) {
    return uint4((unsigned)row.low, (unsigned)(row.low >> 32), (unsigned)row.high, (unsigned)(row.high >> 32));
}
__forceinline__ wcpu_row wcpu_as_row(unsigned a, unsigned b, unsigned c, unsigned d) {
    return {a | (unsigned long long)b << 32, c | (unsigned long long)d << 32};
}
__forceinline__ uint4 wcpu_words_of(uint4 row, int transposed) {
    return wcpu_as_words(wcpu_words_of_rows(wcpu_self(), wcpu_as_row(row.x, row.y, row.z, row.w), transposed));
}
__forceinline__ void wc_load_matrices_4(unsigned &a, unsigned &b, unsigned &c, unsigned &d, const void *address) {
    const uint4 words = wcpu_words_of(*(const uint4 *)address, 0);
    a = words.x, b = words.y, c = words.z, d = words.w;
}
__forceinline__ void wc_load_matrices_2(unsigned &a, unsigned &b, const void *address) {
    uint4 row(0, 0, 0, 0);
    if (wcpu_lane() < 16) row = *(const uint4 *)address;
    const uint4 words = wcpu_words_of(row, 0);
    a = words.x, b = words.y;
}
__forceinline__ unsigned wc_transpose_matrix(unsigned word) {
    return wcpu_words_of(wcpu_as_words(wcpu_rows_of_words(wcpu_self(), wcpu_as_row(word, 0, 0, 0), 1)), 0).x;
}

// Lane 4 g + t has columns 2 t, 2 t + 1 (and 8 further) of rows g and g + 8 of a, and those rows of column g of b; it makes
// columns 2 t, 2 t + 1 of rows g and g + 8 of c. Of TF32: columns t and t + 4 (a0: row g, a1: row g + 8, then both four columns
// further), and rows t and t + 4.
__forceinline__ void wcpu_multiply(float4 &sum, const float4 &before, wcpu_row a, wcpu_row b, int kind) {
    const wcpu_sums made = wcpu_mma(wcpu_self(), {before.x, before.y, before.z, before.w}, a, b, kind);
    sum.x = made.x, sum.y = made.y, sum.z = made.z, sum.w = made.w;
}
__forceinline__ void wc_mma_halves_16(float4 &c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    wcpu_multiply(c, c, wcpu_as_row(a0, a1, a2, a3), wcpu_as_row(b0, b1, 0, 0), WCPU_HALF);
}
__forceinline__ void wc_mma_halves_8(float4 &c, unsigned a0, unsigned a1, unsigned b0) {
    wcpu_multiply(c, c, wcpu_as_row(a0, a1, 0, 0), wcpu_as_row(b0, 0, 0, 0), WCPU_HALF);
}
__forceinline__ void wc_mma_bfloat16s_16(float4 &c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    wcpu_multiply(c, c, wcpu_as_row(a0, a1, a2, a3), wcpu_as_row(b0, b1, 0, 0), WCPU_BFLOAT16);
}
__forceinline__ void wc_mma_bfloat16s_8(float4 &c, unsigned a0, unsigned a1, unsigned b0) {
    wcpu_multiply(c, c, wcpu_as_row(a0, a1, 0, 0), wcpu_as_row(b0, 0, 0, 0), WCPU_BFLOAT16);
}
__forceinline__ void wc_mma_tf32s_8(float4 &c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    wcpu_multiply(c, c, wcpu_as_row(a0, a1, a2, a3), wcpu_as_row(b0, b1, 0, 0), WCPU_TF32);
}
// Even columns of a lie in rows 0 to 7, odd ones in rows 8 to 15: the low and the high halves of its words.
__forceinline__ wcpu_row wcpu_halves_of(unsigned a0, unsigned a1, unsigned low_half) {
    return wcpu_as_row(a0 & low_half, a0 & ~low_half, a1 & low_half, a1 & ~low_half);
}
__forceinline__ void wc_mma_halves_pair(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned low_half,
                                         unsigned b0, unsigned b1) {
    wcpu_multiply(sum, before, wcpu_halves_of(a0, a1, low_half), wcpu_as_row(b0, b1, 0, 0), WCPU_HALF);
}
__forceinline__ void wc_mma_bfloat16s_pair(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned low_half,
                                         unsigned b0, unsigned b1) {
    wcpu_multiply(sum, before, wcpu_halves_of(a0, a1, low_half), wcpu_as_row(b0, b1, 0, 0), WCPU_BFLOAT16);
}
// The same with a without its zeros. Columns of a and rows of b come in pairs, of which rows 0 to 7 of a use the first and rows 8
// to 15 the second: lane 4 g + t has of rows g and g + 8 the pairs 2 t and 2 t + 1 (and those 8 further), and of column g of b
// the pairs t, t + 4, ...: 16 pairs, or 8.
__forceinline__ void wc_mma_halves_sparse_32(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned a2,
                                              unsigned a3, unsigned b0, unsigned b1, unsigned b2, unsigned b3) {
    wcpu_multiply(sum, before, wcpu_as_row(a0, a1, a2, a3), wcpu_as_row(b0, b1, b2, b3), WCPU_HALF | WCPU_SPARSE);
}
__forceinline__ void wc_mma_halves_sparse_16(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned b0,
                                              unsigned b1) {
    wcpu_multiply(sum, before, wcpu_as_row(a0, a1, 0, 0), wcpu_as_row(b0, b1, 0, 0), WCPU_HALF | WCPU_SPARSE);
}
__forceinline__ void wc_mma_bfloat16s_sparse_32(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned a2,
                                              unsigned a3, unsigned b0, unsigned b1, unsigned b2, unsigned b3) {
    wcpu_multiply(sum, before, wcpu_as_row(a0, a1, a2, a3), wcpu_as_row(b0, b1, b2, b3), WCPU_BFLOAT16 | WCPU_SPARSE);
}
__forceinline__ void wc_mma_bfloat16s_sparse_16(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned b0,
                                              unsigned b1) {
    wcpu_multiply(sum, before, wcpu_as_row(a0, a1, 0, 0), wcpu_as_row(b0, b1, 0, 0), WCPU_BFLOAT16 | WCPU_SPARSE);
}
