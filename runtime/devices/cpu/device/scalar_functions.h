// Scalar intrinsics: cached loads and stores, bit casts, bit counts, minimum and maximum, mathematics, atomics.
#pragma once

// ---- loads and stores with a cache hint: the hint means nothing here
#define WCPU_LOAD_HINT(name) template <class T> __forceinline__ T name(const T *address) { return *address; }
#define WCPU_STORE_HINT(name) template <class T> __forceinline__ void name(T *address, T value) { *address = value; }
WCPU_LOAD_HINT(__ldg) WCPU_LOAD_HINT(__ldca) WCPU_LOAD_HINT(__ldcg) WCPU_LOAD_HINT(__ldcs) WCPU_LOAD_HINT(__ldlu)
WCPU_LOAD_HINT(__ldcv)
WCPU_STORE_HINT(__stwb) WCPU_STORE_HINT(__stcg) WCPU_STORE_HINT(__stcs) WCPU_STORE_HINT(__stwt)

// ---- bit casts
__forceinline__ unsigned __float_as_uint(float value) { return wcpu_bits<unsigned>(value); }
__forceinline__ int __float_as_int(float value) { return wcpu_bits<int>(value); }
__forceinline__ float __uint_as_float(unsigned bits) { return wcpu_bits<float>(bits); }
__forceinline__ float __int_as_float(int bits) { return wcpu_bits<float>(bits); }
__forceinline__ long long __double_as_longlong(double value) { return wcpu_bits<long long>(value); }
__forceinline__ double __longlong_as_double(long long bits) { return wcpu_bits<double>(bits); }
__forceinline__ double __hiloint2double(int high, int low) {
    return wcpu_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}
__forceinline__ int __double2hiint(double value) { return (int)(wcpu_bits<unsigned long long>(value) >> 32); }
__forceinline__ int __double2loint(double value) { return (int)wcpu_bits<unsigned long long>(value); }

// ---- bits
__forceinline__ int __popc(unsigned value) { return __builtin_popcount(value); }
__forceinline__ int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
__forceinline__ int __ffs(int value) { return __builtin_ffs(value); }
__forceinline__ int __ffsll(long long value) { return __builtin_ffsll(value); }
__forceinline__ int __clz(int value) { return value ? __builtin_clz(value) : 32; }
__forceinline__ int __clzll(long long value) { return value ? __builtin_clzll(value) : 64; }
__forceinline__ unsigned __brev(unsigned value) {
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result |= (value >> i & 1u) << (31 - i);
    return result;
}
__forceinline__ unsigned long long wcpu_joined(unsigned low, unsigned high) {
    return (unsigned long long)high << 32 | low;
}
__forceinline__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(wcpu_joined(low, high) >> (shift & 31));
}
__forceinline__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(wcpu_joined(low, high) << (shift & 31) >> 32);
}
__forceinline__ unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(wcpu_joined(low, high) >> (shift < 32 ? shift : 32));
}
__forceinline__ unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(wcpu_joined(low, high) << (shift < 32 ? shift : 32) >> 32);
}
__forceinline__ unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned choice = selector >> 4 * i & 15;
        const unsigned byte = (unsigned)(wcpu_joined(low, high) >> 8 * (choice & 7)) & 255;
        result |= (choice & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return result;
}
__forceinline__ int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
__forceinline__ unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
// Sum of the products of four signed / unsigned bytes, added to c.
__forceinline__ int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8) c += (int)(signed char)(a >> i) * (int)(signed char)(b >> i);
    return c;
}
__forceinline__ unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
    return c;
}

// ---- mathematics
extern "C" {
float fmaf(float, float, float) noexcept;
double fma(double, double, double) noexcept;
float sqrtf(float) noexcept;
float expf(float) noexcept;
float exp2f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float log1pf(float) noexcept;
float expm1f(float) noexcept;
float powf(float, float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float sinf(float) noexcept;
float cosf(float) noexcept;
float fabsf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float rintf(float) noexcept;
float truncf(float) noexcept;
float roundf(float) noexcept;
float copysignf(float, float) noexcept;
double sqrt(double) noexcept;
double exp(double) noexcept;
double fabs(double) noexcept;
int abs(int) noexcept;
int printf(const char *, ...);
}
// A NaN operand gives the other one. (libm's would be a call: compilers inline it only under -ffinite-math-only.)
__forceinline__ float wcpu_fminf(float a, float b) { return a < b || b != b ? a : b; }
__forceinline__ float wcpu_fmaxf(float a, float b) { return a > b || b != b ? a : b; }
#define fminf wcpu_fminf
#define fmaxf wcpu_fmaxf
__forceinline__ float __expf(float x) { return expf(x); }
__forceinline__ float __logf(float x) { return logf(x); }
__forceinline__ float __powf(float x, float y) { return powf(x, y); }
__forceinline__ float __fdividef(float a, float b) { return a / b; }
__forceinline__ float __frcp_rn(float x) { return 1.0f / x; }
__forceinline__ float __fsqrt_rn(float x) { return sqrtf(x); }
__forceinline__ float rsqrtf(float x) { return 1.0f / sqrtf(x); }
__forceinline__ float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
// Contraction is off for the whole compilation (-ffp-contract=off), so these are the plain operators.
__forceinline__ float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
__forceinline__ float __fmul_rn(float a, float b) { return a * b; }
__forceinline__ float __fadd_rn(float a, float b) { return a + b; }
__forceinline__ float __fsub_rn(float a, float b) { return a - b; }
__forceinline__ float __fdiv_rn(float a, float b) { return a / b; }
// Conversions to integer saturate and take NaN to 0, as on the GPU; in C++ they would be undefined.
__forceinline__ int wcpu_to_int(float x) {
    return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x < -2147483648.0f ? -2147483647 - 1 : (int)x;
}
__forceinline__ int __float2int_rn(float x) { return wcpu_to_int(rintf(x)); }
__forceinline__ int __float2int_rz(float x) { return wcpu_to_int(x); }
__forceinline__ int __float2int_rd(float x) { return wcpu_to_int(floorf(x)); }
__forceinline__ int __float2int_ru(float x) { return wcpu_to_int(ceilf(x)); }
__forceinline__ float __int2float_rn(int x) { return (float)x; }
__forceinline__ float __uint2float_rn(unsigned x) { return (float)x; }

// ---- minimum and maximum: the overloads that CUDA has, so that what is ambiguous there is ambiguous here
#define WCPU_MIN_MAX(A, B, Result)                                                                       \
    __forceinline__ constexpr Result min(A a, B b) { return (Result)b < (Result)a ? (Result)b : (Result)a; } \
    __forceinline__ constexpr Result max(A a, B b) { return (Result)a < (Result)b ? (Result)b : (Result)a; }
#define WCPU_MIN_MAX_MIXED(Signed, Unsigned)                                                             \
    WCPU_MIN_MAX(Signed, Signed, Signed) WCPU_MIN_MAX(Unsigned, Unsigned, Unsigned)                      \
    WCPU_MIN_MAX(Signed, Unsigned, Unsigned) WCPU_MIN_MAX(Unsigned, Signed, Unsigned)
WCPU_MIN_MAX_MIXED(int, unsigned)
WCPU_MIN_MAX_MIXED(long, unsigned long)
WCPU_MIN_MAX_MIXED(long long, unsigned long long)
__forceinline__ float min(float a, float b) { return fminf(a, b); }
__forceinline__ float max(float a, float b) { return fmaxf(a, b); }
WCPU_MIN_MAX(double, double, double)
WCPU_MIN_MAX(float, double, double)
WCPU_MIN_MAX(double, float, double)

// ---- atomics: between blocks they meet on several workers, hence real ones
#ifdef WARPCPU_CHECK
#define WCPU_SEE_ATOMIC(address) wcpu_atomic_access((void *)(address), sizeof *(address))
#else
#define WCPU_SEE_ATOMIC(address) ((void)0)
#endif
#define WCPU_ATOMIC(name, combined)                                                                      \
    template <class T> WCPU_UNSEEN __noinline__ T name(T *address, T value) {                                    \
        WCPU_SEE_ATOMIC(address);                                                                        \
        T old, next;                                                                                     \
        __atomic_load(address, &old, __ATOMIC_RELAXED);                                                  \
        do next = combined;                                                                              \
        while (!__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
        return old;                                                                                      \
    }
WCPU_ATOMIC(atomicAdd, old + value)
WCPU_ATOMIC(atomicMin, min(old, value))
WCPU_ATOMIC(atomicMax, max(old, value))
WCPU_ATOMIC(atomicExch, value)
