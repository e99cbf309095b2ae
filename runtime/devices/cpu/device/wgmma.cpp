// wgmma: products of a warp group from shared memory.
//
// How sums round. Products are exact. The 16 of an instruction (8 of TF32, of which the upper 19 bits of a float count) and the
// sum before are aligned to the largest of their exponents and cut, towards zero, two bits behind the float's last (25 behind the
// point); then they are added exactly, and the sum is cut to a float. So have Khattak and Mikaitis (arXiv 2512.07004) found the
// H100's tensor cores to do for 16-bit elements. wgmma of TF32 does so on an H200, too: taps_float32 has this device's bits there,
// for twelve kinds of data (tests/gpu/test_precision.py), but for subnormal factors that no scale has lifted. Assumed here, and
// not measured: that wgmma of 16 bits does as mma does; that an exponent is the sum of the factors' (before a product of 2 or more
// is normalised), subnormal ones by their leading bit; infinity where a sum is beyond the largest float; and subnormal sums
// rounded. With WCPU_SUMS_TO_NEAREST each product is added in float32. mma.cpp has its sums from here.
#include "wgmma.hpp"

#include <cmath>
#include <cstring>

#include "asynchronous.hpp"
#include "scheduler.hpp"

namespace warpcpu {

typedef double Numbers __attribute__((vector_size(32)));
typedef int32_t Integers __attribute__((vector_size(16)));
typedef int64_t Bits __attribute__((vector_size(32)));

static double size_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= 0x7ff0000000000000u;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static double number(uint32_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static double element(uint16_t bits, bool bfloat16) {
    if (bfloat16) return number((uint32_t)bits << 16);
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    const uint32_t word = (uint32_t)(bits & 0x7fff) << 13;       // its exponent is 127 - 15 too small
    float value;
    memcpy(&value, &word, sizeof value);
    return sign * (double)(value * 0x1p112f);
}

// ---- what the matrix descriptors name

constexpr int kSwizzleShift = 62;     // 1: rows of 128 bytes, 2: of 64, 3: of 128 that are products, 64 elements in each
constexpr int kNextShift = 48;        // of these: to the next 64 elements, by 1024 bytes
constexpr int kAtomBytes = 1024;      // that the swizzle walks through

uint64_t Asynchronous::matrix_rows(Thread &thread, const void *rows, int row_bytes) {
    char text[64];
    if ((uintptr_t)rows % row_bytes)
        return worker_.fault(thread, WCPU_DESCRIPTOR, "describes rows of %d bytes that begin at %s", row_bytes,
                             place((uintptr_t)rows, text)), 0;
    return (uint64_t)(uintptr_t)rows >> 4 | (row_bytes == 128 ? 1ull : 2ull) << kSwizzleShift;
}

uint64_t Asynchronous::matrix_columns(Thread &thread, const void *rows, int next) {
    char text[64];
    if ((uintptr_t)rows % kAtomBytes || next % kAtomBytes || next < 0 || next >= 1 << 18)
        return worker_.fault(thread, WCPU_DESCRIPTOR, "describes columns that begin at %s, the next 64 %d bytes behind them",
                             place((uintptr_t)rows, text), next), 0;
    return (uint64_t)(uintptr_t)rows >> 4 | (uint64_t)(next / kAtomBytes) << kNextShift | 3ull << kSwizzleShift;
}

// Eight rows or columns of one product, 16 bytes, of an operand whose products lie one below the other.
struct MatrixColumns {
    uintptr_t begin;
    unsigned next;
    explicit MatrixColumns(uint64_t descriptor)
        : begin((descriptor & ((1ull << kNextShift) - 1)) << 4), next((descriptor >> kNextShift & 0x3fff) * kAtomBytes) {}
    uintptr_t at(int element, int product) const {
        return swizzled(begin + element / 64 * next + product * 128 + element % 64 / 8 * 16, 128);
    }
};

struct MatrixRows {
    uintptr_t begin;                  // in the layout without swizzle
    unsigned row_bytes;
    explicit MatrixRows(uint64_t descriptor)
        : begin((descriptor & ((1ull << 48) - 1)) << 4), row_bytes(descriptor >> kSwizzleShift == 2 ? 64 : 128) {}
    // 16 bytes: half a row's 16 elements.
    uintptr_t at(int row, int half) const { return swizzled(begin + row * row_bytes + half * 16, row_bytes); }
};

// Eight elements of 16 bits, `step` apart as numbers; of TF32 four, and zeros in the other places of the instruction. `finite`
// is that of each, `finite_step` apart: 0 where they are of one row or column.
static void read_eight(uintptr_t address, bool filled, wcpu_element_type type, double *values, double *sizes, int step, bool *finite,
                       int finite_step) {
    uint16_t bits[8];
    uint32_t words[4];
    memcpy(bits, (const void *)address, sizeof bits);
    memcpy(words, (const void *)address, sizeof words);
    for (int i = 0; i < 8; ++i) {
        double value = !filled ? NAN : type == WCPU_TF32 ? 0 : element(bits[i], type == WCPU_BFLOAT16);
        if (filled && type == WCPU_TF32 && i < 4) value = number(words[i] & 0xffffe000u);
        values[i * step] = value;
        sizes[i * step] = size_of(value);
        finite[i * finite_step] &= std::isfinite(value);
    }
}

// A word of a thread is one element of TF32, or two neighbours of 16 bits: of row lane / 4 of the warp's 16, or of the row 8 below
// (odd words), of the first half of the products or the second (words 2 and 3).
static void read_words(const Product &product, Operands &numbers) {
    for (unsigned thread = 0; thread < kGroupThreads; ++thread)
        for (int i = 0; i < 4; ++i) {
            const int row = thread / kLanes * 16 + thread % kLanes / 4 + i % 2 * 8, half = i / 2 * 8, lane = thread % 4;
            const uint32_t word = product.words[thread][i];
            const auto put = [&](int k, double value) {
                numbers.a[row][k] = value;
                numbers.a_size[row][k] = size_of(value);
                numbers.a_finite[row] &= std::isfinite(value);
            };
            if (product.type == WCPU_TF32) {
                put(half + lane, number(word & 0xffffe000u));
                put(half + 4 + lane, 0);
            } else {
                put(half + 2 * lane, element((uint16_t)word, product.type == WCPU_BFLOAT16));
                put(half + 2 * lane + 1, element((uint16_t)(word >> 16), product.type == WCPU_BFLOAT16));
            }
        }
}

static void read_a(const Product &product, Operands &numbers) {
    for (bool &finite : numbers.a_finite) finite = true;
    if (product.across & WCPU_A_WORDS) return read_words(product, numbers);
    const MatrixRows rows(product.a);
    const MatrixColumns columns(product.a);
    if (product.across & WCPU_A_ACROSS) {
        for (int k = 0; k < kProductDepth; ++k)
            for (int row = 0; row < kProductRows; row += 8)
                read_eight(columns.at(row, k), true, product.type, &numbers.a[row][k], &numbers.a_size[row][k], kProductDepth,
                           &numbers.a_finite[row], 1);
        return;
    }
    for (int row = 0; row < kProductRows; ++row)
        for (int half = 0; half < 2; ++half)
            read_eight(rows.at(row, half), true, product.type, &numbers.a[row][8 * half], &numbers.a_size[row][8 * half], 1,
                       &numbers.a_finite[row], 0);
}

// What of b nothing has filled is NaN.
static void read_b(Worker &worker, const Product &product, Operands &numbers) {
    const MatrixRows rows(product.b);
    const MatrixColumns columns(product.b);
    const bool across = product.across & WCPU_B_ACROSS;
    for (bool &finite : numbers.b_finite) finite = true;
    for (int i = 0; i < kProductDepth * product.columns / 8; ++i) {
        const int k = across ? i % kProductDepth : i % 2 * 8, column = across ? i / kProductDepth * 8 : i / 2;
        const uintptr_t address = across ? columns.at(column, k) : rows.at(column, i % 2);
        bool filled = true;
        WCPU_CHECKED(filled = worker.checker.is_filled(address);)
        read_eight(address, filled, product.type, &numbers.b[k][column], &numbers.b_size[k][column], across ? 1 : kProductColumns,
                   &numbers.b_finite[column], across);
    }
    (void)worker;
}

// ---- sums

static float cut(double value) {
    if (std::fabs(value) >= 0x1p128) return value < 0 ? -INFINITY : INFINITY;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= ~((1ull << 29) - 1);
    memcpy(&value, &bits, sizeof bits);
    return (float)value;
}

static void add_to_nearest(Operands &numbers, int row, int column) {
    float sum = numbers.sums[row][column];
    for (int k = 0; k < kProductDepth; ++k) sum += (float)numbers.a[row][k] * (float)numbers.b[k][column];
    numbers.sums[row][column] = sum;
}

static void add_not_finite(Operands &numbers, int row, int column) {
    double sum = numbers.sums[row][column];
    for (int k = 0; k < kProductDepth; ++k) sum += numbers.a[row][k] * numbers.b[k][column];
    numbers.sums[row][column] = (float)sum;
}

// Four columns: `size` is that of the largest, `scale` turns what is kept of it into an integer.
static void add_cut(Operands &numbers, int row, int column) {
    float *const sums = &numbers.sums[row][column];
    const Numbers before = {sums[0], sums[1], sums[2], sums[3]};
    Numbers size = (Numbers)((Bits)before & 0x7ff0000000000000);
    const Numbers least = Numbers{} + 0x1p-600;
    size = size > least ? size : least;
    for (int k = 0; k < kProductDepth; ++k) {
        const Numbers product = *(const Numbers *)&numbers.b_size[k][column] * numbers.a_size[row][k];
        size = product > size ? product : size;
    }
    const Numbers scale = 0x1p25 / size;
    Numbers sum = __builtin_convertvector(__builtin_convertvector(before * scale, Integers), Numbers);
    for (int k = 0; k < kProductDepth; ++k) {
        const Numbers product = *(const Numbers *)&numbers.b[k][column] * numbers.a[row][k];
        sum += __builtin_convertvector(__builtin_convertvector(product * scale, Integers), Numbers);
    }
    sum *= size * 0x1p-25;
    for (int i = 0; i < 4; ++i) sums[i] = cut(sum[i]);
}

static void add_products(Operands &numbers, int rows, int columns, bool to_nearest) {
    for (int row = 0; row < rows; ++row)
        for (int column = 0; column < columns; column += 4) {
            float *const sums = &numbers.sums[row][column];
            float before[4];
            memcpy(before, sums, sizeof before);
            if (!to_nearest) add_cut(numbers, row, column);
            for (int i = 0; i < 4; ++i) {
                const bool finite = numbers.a_finite[row] && numbers.b_finite[column + i] && std::isfinite(before[i]);
                if (finite && !to_nearest) continue;
                sums[i] = before[i];
                if (finite) add_to_nearest(numbers, row, column + i);
                else add_not_finite(numbers, row, column + i);
            }
        }
}

// Where lane `lane` of warp `warp` has its sums of columns 2 i and 2 i + 1 (i even: of its upper row; odd: of the row 8 below).
template <class Move> static void each_sum(Product &product, Move move) {
    for (unsigned thread = 0; thread < kGroupThreads; ++thread) {
        const int row = thread / kLanes * 16 + thread % kLanes / 4, column = thread % 4 * 2;
        for (int i = 0; i < product.columns / 2; ++i)
            move(product.sums[thread][i], row + (i & 2 ? 8 : 0), column + i / 4 * 8 + (i & 1));
    }
}

Operands &Asynchronous::operands() {
    if (!operands_) operands_.reset(new Operands);
    return *operands_;
}

void Asynchronous::make(unsigned group) {
    Product &product = groups_[group].products.front();
    Operands &numbers = operands();
    read_a(product, numbers);
    read_b(worker_, product, numbers);
    each_sum(product, [&](float &sum, int row, int column) { numbers.sums[row][column] = product.adds ? sum : 0; });
    add_products(numbers, kProductRows, product.columns, worker_.launch.request.flags & WCPU_SUMS_TO_NEAREST);
    each_sum(product, [&](float &sum, int row, int column) { sum = numbers.sums[row][column]; });
    groups_[group].products.pop_front();
    ++groups_[group].made;
}

// ---- what threads ask for

#ifdef WARPCPU_CHECK
// What an operand spans in shared memory, of rows or of boxes of 64 elements.
static bool spans(Thread &thread, Checker &checker, uint64_t descriptor, bool across, int elements, const char *what) {
    const MatrixRows rows(descriptor);
    const MatrixColumns columns(descriptor);
    if (!across) return checker.shared_span(thread, rows.begin, (elements - 1) * rows.row_bytes + 32, what);
    for (int first = 0; first < elements; first += 64)
        if (!checker.shared_span(thread, columns.begin + first / 64 * columns.next, kProductDepth * 128, what)) return false;
    return true;
}
#endif

// All that the product reads, when the last thread of the group has issued it. Of b the last rows may be missing, or boxes of
// 64 columns: their sums are NaN.
void Asynchronous::check_operands(Thread &thread, const Product &product, unsigned group) {
#ifdef WARPCPU_CHECK
    Checker &checker = worker_.checker;
    const bool a_across = product.across & WCPU_A_ACROSS, b_across = product.across & WCPU_B_ACROSS;
    const MatrixRows a(product.a), b(product.b);
    const MatrixColumns a_columns(product.a), b_columns(product.b);
    char text[64];
    const bool a_words = product.across & WCPU_A_WORDS;
    if ((!a_words && !spans(thread, checker, product.a, a_across, kProductRows, "wgmma reads as a"))
        || !spans(thread, checker, product.b, b_across, product.columns, "wgmma reads as b")) return;
    for (int i = 0; !a_words && i < 2 * kProductRows; ++i) {
        const int row = a_across ? i / kProductDepth * 8 : i / 2;
        const uintptr_t address = a_across ? a_columns.at(row, i % kProductDepth) : a.at(row, i % 2);
        if (!checker.read_by_group(thread, address, group))
            return worker_.fault(thread, WCPU_UNINITIALISED_READ, "wgmma reads row %d of a at %s, which no copy and no "
                                 "thread has filled", row, place(address, text));
    }
    bool box = false;
    for (int i = 0; b_across && i < kProductDepth * product.columns / 8; ++i) {
        const int k = i % kProductDepth, column = i / kProductDepth * 8;
        const bool filled = checker.read_by_group(thread, b_columns.at(column, k), group);
        if (k == 0 && column % 64 == 0) box = filled;
        if (filled != box)
            return worker_.fault(thread, WCPU_UNINITIALISED_READ, "wgmma reads product %d of columns %d to %d of b at %s, which no "
                                 "copy and no thread has filled, or not all of their box", k, column, column + 7,
                                 place(b_columns.at(column, k), text));
    }
    for (int row = 0; !b_across && row < product.columns; ++row) {
        const bool first = checker.read_by_group(thread, b.at(row, 0), group), second = checker.read_by_group(thread, b.at(row, 1), group);
        if (first != second || (row == 0 && !first))
            return worker_.fault(thread, WCPU_UNINITIALISED_READ, "wgmma reads row %d of b at %s, which no copy and no thread "
                                 "has filled", row, place(b.at(row, first), text));
    }
#else
    (void)thread, (void)product, (void)group;
#endif
}

void Asynchronous::multiply(Thread &thread, float *sums, int columns, uint64_t a, uint64_t b, bool adds, wcpu_element_type type,
                            unsigned across) {
    Pending &pending = pending_of(thread);
    const unsigned index = thread.number / kGroupThreads;
    if (index >= groups_.size())
        return worker_.fault(thread, WCPU_DIVERGENT_BARRIER, "issues wgmma, which takes four whole warps");
    if (columns < 8 || columns > kProductColumns || columns % 8)
        return worker_.fault(thread, WCPU_DESCRIPTOR, "issues wgmma of %d columns; it has 8, 16, .. 256", columns);
    if (!pending.fenced)
        return worker_.fault(thread, WCPU_ASYNCHRONOUS_ORDER, "issues wgmma with no wgmma.fence since it last waited for all");
    const bool a_words = across & WCPU_A_WORDS;
    if ((!a_words && (a >> kSwizzleShift == 3) != bool(across & WCPU_A_ACROSS))
        || (b >> kSwizzleShift == 3) != bool(across & WCPU_B_ACROSS))
        return worker_.fault(thread, WCPU_DESCRIPTOR, "issues wgmma with descriptors of the other order of products");
    WarpGroup &group = groups_[index];
    const uint64_t number = pending.issued++;
    if (number == group.made + group.products.size()) group.products.push_back({a, b, columns, adds, type, across, 0, {}, {}});
    Product &product = group.products[number - group.made];
    if ((!a_words && product.a != a) || product.b != b || product.columns != columns || product.adds != adds || product.type != type
        || product.across != across)
        return worker_.fault(thread, WCPU_DESCRIPTOR, "issues another wgmma than others of its warp group: descriptors, columns "
                             "and whether it adds must be the same in all %u threads", kGroupThreads);
    product.sums[thread.number % kGroupThreads] = sums;
    if (a_words) memcpy(product.words[thread.number % kGroupThreads], (const void *)(uintptr_t)a, sizeof product.words[0]);
    if (++product.issued < kGroupThreads) return;
    WCPU_CHECKED(group.times.push_back(worker_.checker.tick());)
    check_operands(thread, product, index);
    wake({Awaited::kProduct, index, number});
}

void Asynchronous::commit_products(Thread &thread) {
    Pending &pending = pending_of(thread);
    pending.groups.push_back(pending.issued);
}

// Until all groups but the `left` youngest are made.
void Asynchronous::wait_products(Thread &thread, unsigned left) {
    Pending &pending = pending_of(thread);
    const unsigned index = thread.number / kGroupThreads;
    if (index >= groups_.size()) return;
    uint64_t end = 0;
    while (pending.groups.size() > left) {
        end = pending.groups.front();
        pending.groups.pop_front();
    }
    WarpGroup &group = groups_[index];
    while (group.made < end) {
        if (group.products.front().issued < kGroupThreads) worker_.await(thread, {Awaited::kProduct, index, group.made});
        else make(index);
    }
    if (pending.groups.empty()) pending.fenced = false;
    WCPU_CHECKED(const uint32_t now = worker_.checker.tick();
                 if (end) worker_.checker.products_have_read(thread, index, end < group.times.size() ? group.times[end] : now);)
}

}  // namespace warpcpu
