// Device primitives: named functions that a GPU needs inline PTX (or a header) for and that this device spells in C++.
// The emitted text defines each on one line (templates/fragments/primitives.cuh.jinja); build.py drops exactly the lines
// that define a name of this table, so these definitions stand in their place.
//
//   name                      does                                     rounds
//   wc_half_to_float          IEEE binary16 bits -> float              exact
//   wc_float_to_half          float -> IEEE binary16 bits              to nearest even, overflow to inf
//   wc_bfloat16_to_float      bfloat16 bits -> float                   exact
//   wc_float_to_bfloat16      float -> bfloat16 bits                   to nearest even, overflow to inf
//   wc_read_again             memory is read anew after it             -
//   wc_half_low_to_float      low (high) half of a word -> float       exact
//   wc_floats_to_halves       two floats -> a word                     as above (wc_floats_to_bfloat16s too)
//   wc_fma_halves             a * b + c on both halves of words        once, to nearest even (wc_fma_bfloat16s too)
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

__forceinline__ void wc_read_again() { __asm__ volatile("" ::: "memory"); }

__forceinline__ float wc_half_low_to_float(unsigned word) { return wc_half_to_float((unsigned short)word); }
__forceinline__ float wc_half_high_to_float(unsigned word) { return wc_half_to_float((unsigned short)(word >> 16)); }
__forceinline__ unsigned wc_floats_to_halves(float low, float high) {
    return wc_float_to_half(low) | (unsigned)wc_float_to_half(high) << 16;
}
__forceinline__ unsigned wc_floats_to_bfloat16s(float low, float high) {
    return wc_float_to_bfloat16(low) | (unsigned)wc_float_to_bfloat16(high) << 16;
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
