// float2, float4, int4, ... and make_*. As in CUDA, those of 2 and 4 elements are aligned to their size (16 at most).
#pragma once

// An unsigned word of N bytes that may alias anything.
template <int N> struct wcpu_word;
template <> struct wcpu_word<2> { typedef unsigned short __attribute__((may_alias)) type; };
template <> struct wcpu_word<4> { typedef unsigned int __attribute__((may_alias)) type; };
template <> struct wcpu_word<8> { typedef unsigned long long __attribute__((may_alias)) type; };
template <> struct wcpu_word<16> { typedef unsigned __int128 __attribute__((may_alias)) type; };

// Copies a vector by accesses as wide as the GPU's; volatile, so that no compiler splits or narrows them.
template <int N> __forceinline__ void wcpu_copy_wide(void *to, const void *from) {
    typedef typename wcpu_word<N < 16 ? N : 16>::type Word;
    *(volatile Word *)to = *(const volatile Word *)from;
    if (N == 32) ((volatile Word *)to)[1] = ((const volatile Word *)from)[1];
}

// When checking, a copy is one access, so that it is seen, and counted, as the one instruction that the GPU executes.
// Otherwise the implicit copy is the best code.
//
// And a vector begins at zero then: one that has a copy of its own would be initialised when its block begins, with a mark
// in shared memory that says so, which looks like a race of the block's threads.
#ifdef WARPCPU_CHECK
#define WCPU_VECTOR_DEFAULT(Vector, ...) constexpr Vector() : __VA_ARGS__ {}
#define WCPU_VECTOR_COPY(Vector)                                                                    \
    __forceinline__ Vector(const Vector &other) { wcpu_copy_wide<sizeof(Vector)>(this, &other); }   \
    __forceinline__ Vector &operator=(const Vector &other) {                                        \
        wcpu_copy_wide<sizeof(Vector)>(this, &other);                                               \
        return *this;                                                                               \
    }
#else
#define WCPU_VECTOR_DEFAULT(Vector, ...) Vector() = default;
#define WCPU_VECTOR_COPY(Vector)
#endif

template <class T> constexpr int wcpu_quad_alignment = 4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T);

#define WCPU_VECTOR1(T, Name)                                                                       \
    struct Name##1 { T x; };                                                                        \
    __forceinline__ Name##1 make_##Name##1(T x) { return {x}; }
#define WCPU_VECTOR2(T, Name)                                                                       \
    struct __align__(2 * sizeof(T)) Name##2 {                                                       \
        T x, y;                                                                                     \
        WCPU_VECTOR_DEFAULT(Name##2, x(), y())                                                      \
        constexpr Name##2(T x, T y = 0) : x(x), y(y) {}                                             \
        WCPU_VECTOR_COPY(Name##2)                                                                   \
    };                                                                                              \
    __forceinline__ Name##2 make_##Name##2(T x, T y) { return {x, y}; }
#define WCPU_VECTOR3(T, Name)                                                                       \
    struct Name##3 { T x, y, z; };
#define WCPU_MAKE3(T, Name)                                                                         \
    __forceinline__ Name##3 make_##Name##3(T x, T y, T z) { return {x, y, z}; }
#define WCPU_VECTOR4(T, Name)                                                                       \
    struct __align__(wcpu_quad_alignment<T>) Name##4 {                                              \
        T x, y, z, w;                                                                               \
        WCPU_VECTOR_DEFAULT(Name##4, x(), y(), z(), w())                                            \
        constexpr Name##4(T x, T y = 0, T z = 0, T w = 0) : x(x), y(y), z(z), w(w) {}               \
        WCPU_VECTOR_COPY(Name##4)                                                                   \
    };                                                                                              \
    __forceinline__ Name##4 make_##Name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define WCPU_VECTORS(T, Name)                                                                       \
    WCPU_VECTOR1(T, Name) WCPU_VECTOR2(T, Name) WCPU_VECTOR3(T, Name) WCPU_MAKE3(T, Name) WCPU_VECTOR4(T, Name)

WCPU_VECTORS(float, float)
WCPU_VECTORS(double, double)
WCPU_VECTORS(signed char, char)
WCPU_VECTORS(unsigned char, uchar)
WCPU_VECTORS(short, short)
WCPU_VECTORS(unsigned short, ushort)
WCPU_VECTORS(int, int)
WCPU_VECTOR1(unsigned, uint)
WCPU_VECTOR2(unsigned, uint)
WCPU_MAKE3(unsigned, uint)           // uint3 itself is in abi.h
WCPU_VECTOR4(unsigned, uint)
WCPU_VECTORS(long long, longlong)
WCPU_VECTORS(unsigned long long, ulonglong)
