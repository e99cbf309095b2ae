// mma.sync: products of a warp from its registers. The lanes meet once, and the first that goes on makes the sums of all.
//
// Those of dense matrices are cut as wgmma.cpp says; of sparse ones each is rounded.
#include <cmath>
#include <cstring>

#include "asynchronous.hpp"
#include "scheduler.hpp"
#include "wgmma.hpp"

namespace warpcpu {

constexpr int kMmaRows = 16, kMmaColumns = 8;

// What a lane brings; device_primitives.h says which elements these are.
struct WarpProduct {
    wcpu_sums sums;
    uint32_t a[4], b[4];
};

// In the place of a lane that takes no part, as it is seen where accesses are checked.
static const WarpProduct kMissing = {{NAN, NAN, NAN, NAN}, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0u, ~0u}};

static void put(double value, double &number, double &size, bool &finite) {
    number = value;
    size = size_of(value);
    finite &= std::isfinite(value);
}

// A word is two neighbours of 16 bits, of the first eight or the last along the products; of TF32 one of four, and the last eight
// are zeros.
static void read_factor(Operands &numbers, const WarpProduct &product, int type, unsigned lane, int word, bool of_a) {
    const int along = lane % 4, row = lane / 4 + (of_a ? word % 2 * 8 : 0), part = of_a ? word / 2 : word;
    const uint32_t bits = (of_a ? product.a : product.b)[word];
    const auto set = [&](int k, double value) {
        if (of_a) put(value, numbers.a[row][k], numbers.a_size[row][k], numbers.a_finite[row]);
        else put(value, numbers.b[k][row], numbers.b_size[k][row], numbers.b_finite[row]);
    };
    if (type == WCPU_TF32) {
        set(4 * part + along, number(bits & 0xffffe000u));
        set(8 + 4 * part + along, 0);
    } else {
        set(8 * part + 2 * along, element((uint16_t)bits, type == WCPU_BFLOAT16));
        set(8 * part + 2 * along + 1, element((uint16_t)(bits >> 16), type == WCPU_BFLOAT16));
    }
}

static void multiply(Operands &numbers, WarpProduct *const (&lanes)[kLanes], int type) {
    for (int i = 0; i < kMmaRows; ++i) numbers.a_finite[i] = numbers.b_finite[i] = true;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        for (int word = 0; word < 4; ++word) read_factor(numbers, *lanes[lane], type, lane, word, true);
        for (int word = 0; word < 2; ++word) read_factor(numbers, *lanes[lane], type, lane, word, false);
        memcpy(&numbers.sums[lane / 4][lane % 4 * 2], &lanes[lane]->sums.x, 2 * sizeof(float));
        memcpy(&numbers.sums[lane / 4 + 8][lane % 4 * 2], &lanes[lane]->sums.z, 2 * sizeof(float));
    }
    add_products(numbers, kMmaRows, kMmaColumns, false);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        memcpy(&lanes[lane]->sums.x, &numbers.sums[lane / 4][lane % 4 * 2], 2 * sizeof(float));
        memcpy(&lanes[lane]->sums.z, &numbers.sums[lane / 4 + 8][lane % 4 * 2], 2 * sizeof(float));
    }
}

// The float of half `half` of a word.
static float half_of(uint32_t word, int half, int type) {
    return (float)element((uint16_t)(word >> 16 * half), type == WCPU_BFLOAT16);
}

static void multiply_sparse(WarpProduct *const (&lanes)[kLanes], int type) {
    float a[kMmaRows][16], b[kMmaColumns][16][2];       // by pairs
    for (unsigned lane = 0; lane < kLanes; ++lane)
        for (int word = 0; word < 4; ++word)
            for (int half = 0; half < 2; ++half) {
                a[lane / 4 + word % 2 * 8][word / 2 * 8 + lane % 4 * 2 + half] = half_of(lanes[lane]->a[word], half, type);
                b[lane / 4][word * 4 + lane % 4][half] = half_of(lanes[lane]->b[word], half, type);
            }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
        float *const sums[2][2] = {{&lanes[lane]->sums.x, &lanes[lane]->sums.y}, {&lanes[lane]->sums.z, &lanes[lane]->sums.w}};
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                for (int pair = 0; pair < 16; ++pair)
                    *sums[i][j] += a[lane / 4 + 8 * i][pair] * b[lane % 4 * 2 + j][pair][i];
    }
}

}  // namespace warpcpu

extern "C" wcpu_sums wcpu_mma(wcpu_ids *self, wcpu_sums sums, wcpu_row a, wcpu_row b, int kind) {
    using namespace warpcpu;
    Thread *const thread = static_cast<Thread *>(self);
    WarpProduct own, missing = kMissing;
    own.sums = sums;
    memcpy(own.a, &a, sizeof own.a);
    memcpy(own.b, &b, sizeof own.b);
    gather(thread, {(uintptr_t)&own, 0}, __builtin_return_address(0));
    Warp &warp = *thread->warp;
    if (!warp.multiplied) {
        WarpProduct *lanes[kLanes];
        for (unsigned lane = 0; lane < kLanes; ++lane)
            lanes[lane] = warp.gatherers >> lane & 1 ? (WarpProduct *)(uintptr_t)warp.gathered[lane][0] : &missing;
        if (kind & WCPU_SPARSE) multiply_sparse(lanes, kind & ~WCPU_SPARSE);
        else multiply(thread->worker->asynchronous.operands(), lanes, kind);
        warp.multiplied = true;
    }
    return own.sums;
}
