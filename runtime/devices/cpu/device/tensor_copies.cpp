// Tensor copies between global and shared memory: boxes of a tensor, and im2col's walk over the pixels of images.
#include <cstring>

#include "asynchronous.hpp"
#include "scheduler.hpp"

namespace warpcpu {

constexpr int kMostRowBytes = 1024, kChunk = 16;

// One row of a box: elements next to each other, at coordinates `at` of the tensor.
struct BoxRow {
    int64_t at[5];
    uint64_t global;                  // address of the first element inside
    int first, count;                 // elements of the row that are inside
};

static void locate(const wcpu_tensor_map &map, BoxRow &row) {
    const int64_t width = map.box[0], size = map.sizes[0];
    row.first = row.at[0] < 0 ? (int)(-row.at[0] < width ? -row.at[0] : width) : 0;
    row.count = 0;
    for (int i = 1; i < map.rank; ++i)
        if (row.at[i] < 0 || row.at[i] >= map.sizes[i]) return;
    const int64_t left = size - row.at[0], last = left < width ? left : width;
    if (last <= row.first) return;
    row.count = last - row.first;
    row.global = map.address + (row.at[0] + row.first) * map.element_bytes;
    for (int i = 1; i < map.rank; ++i) row.global += row.at[i] * map.strides[i - 1];
}

// The rows of a box, one after another, as they lie in shared memory.
class Rows {
public:
    Rows(const wcpu_tensor_map &map, const int (&at)[5], const int *taps) : map_(map), taps_(taps) {
        for (int i = 0; i < 5; ++i) at_[i] = start_[i] = at[i];
        count_ = 1;
        if (taps) count_ = map.box[1];
        else for (int i = 1; i < map.rank; ++i) count_ *= (map.box[i] + map.element_strides[i] - 1) / map.element_strides[i];
    }
    uint32_t count() const { return count_; }
    BoxRow next() {
        BoxRow row{{at_[0], at_[1], at_[2], at_[3], at_[4]}, 0, 0, 0};
        for (int i = 0; taps_ && i < map_.rank - 2; ++i) row.at[1 + i] += taps_[i];
        locate(map_, row);
        taps_ ? walk() : step();
        return row;
    }

private:
    void step() {
        for (int i = 1; i < map_.rank; ++i) {
            at_[i] += map_.element_strides[i];
            if (at_[i] < start_[i] + (int64_t)map_.box[i]) return;
            at_[i] = start_[i];
        }
    }
    // From pixel to pixel by the strides; behind the upper corner of a row the next begins at the lower, and so for planes and
    // images.
    void walk() {
        for (int i = 1; i < map_.rank - 1; ++i) {
            at_[i] += map_.element_strides[i];
            if (at_[i] < (int64_t)map_.sizes[i] + map_.upper[i - 1]) return;
            at_[i] = map_.lower[i - 1];
        }
        ++at_[map_.rank - 1];
    }

    const wcpu_tensor_map &map_;
    const int *const taps_;
    int64_t at_[5], start_[5];
    uint32_t count_;
};

// Is the map of the kind that the call takes, and its memory where a copy may begin? False after a fault.
bool Asynchronous::fits(Thread &thread, const wcpu_tensor_map &map, const void *shared, int rank, int innermost, bool im2col) {
    char text[64];
    if (map.rank != rank || (map.im2col != 0) != im2col || map.box[0] * map.element_bytes > kMostRowBytes)
        return worker_.fault(thread, WCPU_DESCRIPTOR, "copies %d coordinates%s by a map of %u dimensions%s", rank,
                             im2col ? " of im2col" : "", map.rank, map.im2col ? " of im2col" : ""), false;
    if ((uintptr_t)shared % 128)
        return worker_.fault(thread, WCPU_MISALIGNED, "tensor copy at %s, which is no multiple of 128",
                             place((uintptr_t)shared, text)), false;
    if (innermost * (int64_t)map.element_bytes % kChunk)
        return worker_.fault(thread, WCPU_MISALIGNED, "tensor copy from element %d on of the innermost dimension: %lld bytes, which "
                             "is no multiple of 16", innermost, innermost * (long long)map.element_bytes), false;
    return true;
}

// Floats to TF32: 11 digits, ties away from zero (assumed of the accelerator, as cvt.rna.tf32 does); NaN stays NaN.
static void round_to_tf32(char *data, int bytes) {
    for (int i = 0; i < bytes; i += 4) {
        uint32_t bits;
        memcpy(&bits, data + i, sizeof bits);
        bits = (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : (bits + 0x1000u) & 0xffffe000u;
        memcpy(data + i, &bits, sizeof bits);
    }
}

void Asynchronous::load(Thread &thread, void *to, const wcpu_tensor_map &map, void *address, int rank, const int (&at)[5],
                        const int *taps) {
    Barrier *barrier = barrier_at(thread, address);
    if (!barrier || !fits(thread, map, to, rank, at[0], taps != nullptr)) return;
    const int furthest = rank == 5 ? 31 : 255;
    for (int i = 0; taps && i < rank - 2; ++i)
        if (taps[i] > furthest)
            return worker_.fault(thread, WCPU_DESCRIPTOR, "copies with a tap offset of %d; im2col over %d axes takes 0 to %d", taps[i],
                                 rank - 2, furthest);
    const int row_bytes = map.box[0] * map.element_bytes;
    char data[kMostRowBytes];
    Rows rows(map, at, taps);
    uintptr_t target = (uintptr_t)to;
    WCPU_CHECKED(const unsigned column = worker_.checker.column_of_barrier(barrier - barriers_.data());
                 int64_t whole = (int64_t)rows.count() * row_bytes;
                 worker_.checker.shared_span(thread, target, whole, "copies to");
                 worker_.checker.count_copy(worker_, map.address, false);)
    for (uint32_t i = rows.count(); i--;) {
        const BoxRow row = rows.next();
        memset(data, 0, row_bytes);
        if (row.count) {
            WCPU_CHECKED(worker_.checker.copied(thread, row.global, row.count * map.element_bytes, false);)
            memcpy(data + row.first * map.element_bytes, (const void *)row.global, row.count * map.element_bytes);
        }
        if (map.rounded) round_to_tf32(data, row_bytes);
        for (int chunk = 0; chunk < row_bytes; chunk += kChunk, target += kChunk) {
            void *const place = (void *)swizzled(target, map.swizzle);
            WCPU_CHECKED(worker_.checker.copied_to(thread, (uintptr_t)place, kChunk, column);)
            memcpy(place, data + chunk, kChunk);
        }
    }
    complete_bytes(thread, *barrier, (int64_t)(target - (uintptr_t)to));
}

// Bytes as they lie.
void Asynchronous::load_bytes(Thread &thread, void *to, const void *from, int bytes, void *address) {
    Barrier *barrier = barrier_at(thread, address);
    if (!barrier) return;
    const uintptr_t target = (uintptr_t)to, source = (uintptr_t)from;
    if (bytes <= 0 || (target | source | (uintptr_t)bytes) % kChunk)
        return worker_.fault(thread, WCPU_MISALIGNED, "bulk copy of %d bytes from an address of %lu modulo 16 to one of %lu: all are "
                             "multiples of 16, at least one of it", bytes, (unsigned long)(source % kChunk),
                             (unsigned long)(target % kChunk));
    WCPU_CHECKED(const unsigned column = worker_.checker.column_of_barrier(barrier - barriers_.data());
                 if (!worker_.checker.shared_span(thread, target, bytes, "copies to")) return;
                 worker_.checker.count_copy(worker_, source, false);
                 worker_.checker.copied(thread, source, bytes, false);
                 for (int chunk = 0; chunk < bytes; chunk += kChunk)
                     worker_.checker.copied_to(thread, target + chunk, kChunk, column);)
    memcpy(to, from, bytes);
    complete_bytes(thread, *barrier, bytes);
}

void Asynchronous::store(Thread &thread, const wcpu_tensor_map &map, const void *from, int rank, const int (&at)[5]) {
    if (!fits(thread, map, from, rank, at[0], false)) return;
    Pending &pending = pending_of(thread);
    const int row_bytes = map.box[0] * map.element_bytes;
    char data[kMostRowBytes];
    Rows rows(map, at, nullptr);
    uintptr_t source = (uintptr_t)from;
    WCPU_CHECKED(worker_.checker.shared_span(thread, source, (int64_t)rows.count() * row_bytes, "stores");
                 const uint32_t time = worker_.checker.tick();
                 if (!pending.open_stores) pending.open_time = time;
                 worker_.checker.count_copy(worker_, map.address, true);)
    ++pending.open_stores;
    for (uint32_t i = rows.count(); i--;) {
        const BoxRow row = rows.next();
        for (int chunk = 0; chunk < row_bytes; chunk += kChunk, source += kChunk) {
            const void *const place = (const void *)swizzled(source, map.swizzle);
            WCPU_CHECKED(const int begin = row.first * map.element_bytes, end = begin + row.count * map.element_bytes;
                         if (chunk < end && chunk + kChunk > begin) worker_.checker.stored_from(thread, (uintptr_t)place);)
            memcpy(data + chunk, place, kChunk);
        }
        if (!row.count) continue;
        WCPU_CHECKED(worker_.checker.copied(thread, row.global, row.count * map.element_bytes, true);)
        memcpy((void *)row.global, data + row.first * map.element_bytes, row.count * map.element_bytes);
    }
}

void Asynchronous::commit_stores(Thread &thread) {
    Pending &pending = pending_of(thread);
    WCPU_CHECKED(if (!pending.open_stores) pending.open_time = worker_.checker.tick();)
    pending.store_groups.push_back(pending.open_time);
    pending.open_stores = 0;
}

void Asynchronous::wait_stores(Thread &thread, unsigned left) {
    Pending &pending = pending_of(thread);
    while (pending.store_groups.size() > left) pending.store_groups.pop_front();
    WCPU_CHECKED(const uint32_t now = worker_.checker.tick();
                 worker_.checker.stores_have_read(thread, !pending.store_groups.empty() ? pending.store_groups.front()
                                                          : pending.open_stores ? pending.open_time : now);)
}

void Asynchronous::fence(Thread &thread) {
    start();
    (void)thread;
    WCPU_CHECKED(worker_.checker.fence(thread);)
}

}  // namespace warpcpu
