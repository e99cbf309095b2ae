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
//                             lanes (wc_load_matrices_2, _1 too)
//   wc_mma_halves_16          matrix product on tensor cores, added to   products exact, sums cut as a GPU
//                             floats (_8, _pair, wc_mma_bfloat16s_...)   cuts them (below); of sparse
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

// All 32 lanes take part in what follows. Each row of a matrix is read by the lane that has its address, in one access.
__forceinline__ unsigned wcpu_word_of_row(uint4 row, int matrix) {
    const int lane = wcpu_lane(), source = 8 * matrix + lane / 4;
    const unsigned long long low = __shfl_sync(0xffffffffu, row.x | (unsigned long long)row.y << 32, source);
    const unsigned long long high = __shfl_sync(0xffffffffu, row.z | (unsigned long long)row.w << 32, source);
    return (unsigned)((lane & 2 ? high : low) >> (lane & 1 ? 32 : 0));
}
__forceinline__ void wc_load_matrices_4(unsigned &a, unsigned &b, unsigned &c, unsigned &d, const void *address) {
    const uint4 row = *(const uint4 *)address;
    a = wcpu_word_of_row(row, 0);
    b = wcpu_word_of_row(row, 1);
    c = wcpu_word_of_row(row, 2);
    d = wcpu_word_of_row(row, 3);
}
__forceinline__ void wc_load_matrices_2(unsigned &a, unsigned &b, const void *address) {
    uint4 row(0, 0, 0, 0);
    if (wcpu_lane() < 16) row = *(const uint4 *)address;
    a = wcpu_word_of_row(row, 0);
    b = wcpu_word_of_row(row, 1);
}
__forceinline__ void wc_load_matrices_1(unsigned &a, const void *address) {
    uint4 row(0, 0, 0, 0);
    if (wcpu_lane() < 8) row = *(const uint4 *)address;
    a = wcpu_word_of_row(row, 0);
}

// How sums of products round. Products of factors of 11 digits are exact. The sixteen of an instruction (eight of a short one,
// and of TF32) and the sum before are aligned to the largest of their exponents and cut, towards zero, two bits behind the
// float's last (25 behind the point); then they are added exactly, and the sum is cut to a float: what Khattak and Mikaitis
// (arXiv 2512.07004) found for 16-bit elements on an H100, and wgmma.cpp does. Assumed here: that TF32 is summed so, eight at a
// time; that subnormal factors count.
inline double wcpu_size(double value) { return __builtin_bit_cast(double, __builtin_bit_cast(unsigned long long, value) & 0x7ff0000000000000ull); }
template <int COUNT> inline float wcpu_add_cut(float before, const float (&a)[COUNT], const float (&b)[COUNT]) {
    double size = wcpu_size(before), products[COUNT], plain = before;
    if (size < 0x1p-600) size = 0x1p-600;
    for (int i = 0; i < COUNT; ++i) {
        products[i] = (double)a[i] * b[i];
        plain += products[i];
        const double both = wcpu_size(a[i]) * wcpu_size(b[i]);
        if (both > size) size = both;
    }
    if (!__builtin_isfinite(plain)) return (float)plain;
    const double scale = 0x1p25 / size;
    long long sum = (long long)(before * scale);
    for (int i = 0; i < COUNT; ++i) sum += (long long)(products[i] * scale);
    double made = (double)sum * (size * 0x1p-25);
    if (__builtin_fabs(made) >= 0x1p128) return made < 0 ? -__builtin_inff() : __builtin_inff();
    return (float)__builtin_bit_cast(double, __builtin_bit_cast(unsigned long long, made) & ~((1ull << 29) - 1));
}
// Lane 4 g + t has columns 2 t, 2 t + 1 (and 8 further) of rows g and g + 8 of a, and those rows of column g of b; it makes
// columns 2 t, 2 t + 1 of rows g and g + 8 of c. `words`: 2 for 16 columns of a, 1 for 8.
template <int WORDS, class ToFloat>
__noinline__ void wcpu_mma(float4 &c, const unsigned (&a)[4], const unsigned (&b)[2], ToFloat to_float) {
    const int group = wcpu_lane() / 4 * 4, column = wcpu_lane() % 4 * 8;
    float *sums[2][2] = {{&c.x, &c.y}, {&c.z, &c.w}};
    float rows[2][8 * WORDS], columns[2][8 * WORDS];
    for (int t = 0; t < 4; ++t)
        for (int i = 0; i < 2; ++i) {
            const unsigned long long of_b = __shfl_sync(0xffffffffu, b[0] | (unsigned long long)b[1] << 32, column + 4 * i + t);
            for (int word = 0; word < WORDS; ++word) {
                const unsigned its = (unsigned)(of_b >> 32 * word);
                columns[i][8 * word + 2 * t] = to_float((unsigned short)its);
                columns[i][8 * word + 2 * t + 1] = to_float((unsigned short)(its >> 16));
            }
        }
    for (int t = 0; t < 4; ++t)
        for (int word = 0; word < WORDS; ++word) {
            const unsigned long long of_a = __shfl_sync(0xffffffffu, a[2 * word] | (unsigned long long)a[2 * word + 1] << 32, group + t);
            for (int i = 0; i < 2; ++i) {
                const unsigned its = (unsigned)(of_a >> 32 * i);
                rows[i][8 * word + 2 * t] = to_float((unsigned short)its);
                rows[i][8 * word + 2 * t + 1] = to_float((unsigned short)(its >> 16));
            }
        }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) *sums[i][j] = wcpu_add_cut(*sums[i][j], rows[i], columns[j]);
}
__forceinline__ void wc_mma_halves_16(float4 &c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    wcpu_mma<2>(c, {a0, a1, a2, a3}, {b0, b1}, wc_half_to_float);
}
__forceinline__ void wc_mma_halves_8(float4 &c, unsigned a0, unsigned a1, unsigned b0) {
    wcpu_mma<1>(c, {a0, a1, 0, 0}, {b0, 0}, wc_half_to_float);
}
__forceinline__ void wc_mma_bfloat16s_16(float4 &c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    wcpu_mma<2>(c, {a0, a1, a2, a3}, {b0, b1}, wc_bfloat16_to_float);
}
__forceinline__ void wc_mma_bfloat16s_8(float4 &c, unsigned a0, unsigned a1, unsigned b0) {
    wcpu_mma<1>(c, {a0, a1, 0, 0}, {b0, 0}, wc_bfloat16_to_float);
}
// Lane 4 g + t has columns t and t + 4 of rows g and g + 8 of a (a0: row g, a1: row g + 8, then both four columns further), and
// rows t and t + 4 of column g of b.
inline __noinline__ void wc_mma_tf32s_8(float4 &c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    const int group = wcpu_lane() / 4 * 4, column = wcpu_lane() % 4 * 8;
    float *sums[2][2] = {{&c.x, &c.y}, {&c.z, &c.w}};
    float rows[2][8], columns[2][8];
    for (int t = 0; t < 4; ++t) {
        const unsigned long long near = __shfl_sync(0xffffffffu, a0 | (unsigned long long)a1 << 32, group + t);
        const unsigned long long far = __shfl_sync(0xffffffffu, a2 | (unsigned long long)a3 << 32, group + t);
        for (int i = 0; i < 2; ++i) {
            rows[i][t] = __uint_as_float((unsigned)(near >> 32 * i) & 0xffffe000u);
            rows[i][4 + t] = __uint_as_float((unsigned)(far >> 32 * i) & 0xffffe000u);
            const unsigned long long both = __shfl_sync(0xffffffffu, b0 | (unsigned long long)b1 << 32, column + 4 * i + t);
            columns[i][t] = __uint_as_float((unsigned)both & 0xffffe000u);
            columns[i][4 + t] = __uint_as_float((unsigned)(both >> 32) & 0xffffe000u);
        }
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) *sums[i][j] = wcpu_add_cut(*sums[i][j], rows[i], columns[j]);
}
// Even columns of a lie in rows 0 to 7, odd ones in rows 8 to 15: the low and the high halves of its words.
__forceinline__ void wc_mma_halves_pair(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned low_half,
                                         unsigned b0, unsigned b1) {
    float4 c = before;
    wcpu_mma<2>(c, {a0 & low_half, a0 & ~low_half, a1 & low_half, a1 & ~low_half}, {b0, b1}, wc_half_to_float);
    sum = c;
}
__forceinline__ void wc_mma_bfloat16s_pair(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned low_half,
                                         unsigned b0, unsigned b1) {
    float4 c = before;
    wcpu_mma<2>(c, {a0 & low_half, a0 & ~low_half, a1 & low_half, a1 & ~low_half}, {b0, b1}, wc_bfloat16_to_float);
    sum = c;
}
// The same with a without its zeros. Columns of a and rows of b come in pairs, of which rows 0 to 7 of a use the first and rows 8
// to 15 the second: lane 4 g + t has of rows g and g + 8 the pairs 2 t and 2 t + 1 (and those 8 further), and of column g of b
// the pairs t, t + 4, ... `words`: 4 for 16 pairs, 2 for 8.
template <class ToFloat>
__noinline__ void wcpu_mma_sparse(float4 &sum, const float4 &before, const unsigned (&a)[4], const unsigned (&b)[4], int words,
                                  ToFloat to_float) {
    const int group = wcpu_lane() / 4 * 4, column = wcpu_lane() % 4 * 8;
    float sums[2][2] = {{before.x, before.y}, {before.z, before.w}};
    unsigned long long rows[2][4], columns[2][2][4];
    for (int t = 0; t < 4; ++t)
        for (int i = 0; i < 2; ++i) {
            rows[i][t] = __shfl_sync(0xffffffffu, a[i] | (unsigned long long)a[2 + i] << 32, group + t);
            for (int half = 0; half < 2; ++half)
                columns[i][half][t] = __shfl_sync(0xffffffffu, b[2 * half] | (unsigned long long)b[2 * half + 1] << 32,
                                                  column + 4 * i + t);
        }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            for (int pair = 0; pair < 4 * words; ++pair) {
                const unsigned of_a = (unsigned)(rows[i][pair % 8 / 2] >> (pair / 8 * 32 + pair % 2 * 16));
                const unsigned of_b = (unsigned)(columns[j][pair / 8][pair % 4] >> (pair / 4 % 2 * 32 + i * 16));
                sums[i][j] += to_float((unsigned short)of_a) * to_float((unsigned short)of_b);
            }
    sum.x = sums[0][0], sum.y = sums[0][1], sum.z = sums[1][0], sum.w = sums[1][1];
}
__forceinline__ void wc_mma_halves_sparse_32(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned a2,
                                              unsigned a3, unsigned b0, unsigned b1, unsigned b2, unsigned b3) {
    wcpu_mma_sparse(sum, before, {a0, a1, a2, a3}, {b0, b1, b2, b3}, 4, wc_half_to_float);
}
__forceinline__ void wc_mma_halves_sparse_16(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned b0,
                                              unsigned b1) {
    wcpu_mma_sparse(sum, before, {a0, a1, 0, 0}, {b0, b1, 0, 0}, 2, wc_half_to_float);
}
__forceinline__ void wc_mma_bfloat16s_sparse_32(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned a2,
                                              unsigned a3, unsigned b0, unsigned b1, unsigned b2, unsigned b3) {
    wcpu_mma_sparse(sum, before, {a0, a1, a2, a3}, {b0, b1, b2, b3}, 4, wc_bfloat16_to_float);
}
__forceinline__ void wc_mma_bfloat16s_sparse_16(float4 &sum, const float4 &before, unsigned a0, unsigned a1, unsigned b0,
                                              unsigned b1) {
    wcpu_mma_sparse(sum, before, {a0, a1, 0, 0}, {b0, b1, 0, 0}, 2, wc_bfloat16_to_float);
}
