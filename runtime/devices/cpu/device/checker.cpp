#include "checker.hpp"

#include <cstdio>

#include "scheduler.hpp"
#include "symbols.hpp"

namespace warpcpu {

constexpr uint16_t kManyReaders = 0xffff;          // in several warps
constexpr uint16_t kManyOfWarp = 0x8000;           // in one: its number is added
constexpr uint32_t kAtomicWriter = 0xffffffff, kManyThreads = 0xfffffffe;

Checker::Checker(Launch &launch) : launch_(launch) {
    void *(*dynamic)() = launch.kernel.dynamic_shared;
    if (dynamic) {
        dynamic_.begin = (uintptr_t)dynamic();
        dynamic_.end = dynamic_.begin + launch.kernel.dynamic_capacity;
    }
    find_module(launch.kernel, module_, shared_);
    bytes_.resize(shared_.end - shared_.begin);
}

void Checker::begin_block(Worker &worker, uint64_t index) {
    block_ = index;
    block_time_ = barrier_time_ = ++now_;
    for (Thread &thread : worker.threads) {
        thread.copies = false;
        for (uint32_t &time : thread.ordered_with) time = 0;
    }
    for (std::vector<uint32_t> &fences : fences_) fences.clear();
}

void Checker::settle(Worker &worker) {
    char place[64];
    if (unwritten_read_.thread)
        worker.fault(*unwritten_read_.thread, WCPU_UNINITIALISED_READ, "reads %s, which no thread of the block has "
                     "written", shared_place(unwritten_read_.offset, place));
    unwritten_read_.thread = nullptr;
}

void Checker::warp_barrier(Warp &warp, unsigned lanes) {
    ++now_;
    for (unsigned left = lanes; left; left &= left - 1)
        for (unsigned others = lanes; others; others &= others - 1)
            warp.threads[__builtin_ctz(left)].ordered_with[__builtin_ctz(others)] = now_;
    if (!clocks_.followed()) return;
    Thread *threads[kLanes];
    size_t count = 0;
    for (unsigned left = lanes; left; left &= left - 1) threads[count++] = &warp.threads[__builtin_ctz(left)];
    meet(threads, count);
}

void Checker::access(Thread &thread, uintptr_t address, unsigned size, bool write, uintptr_t pc) {
    if (thread.stack.contains(address)) return;
    const Touch touch{thread, address, size, write};
    if (shared_.contains(address)) {
        if (!shared_access(touch)) return;
        thread.trace.add({pc, address - shared_.begin, size, -1, write ? Access::kSharedStore : Access::kSharedLoad});
        return;
    }
    const int index = buffer_of(touch);
    if (index >= 0) {
        check_buffer(touch, index);
        check_shadow(touch, index, false);
        const Access kind = write ? Access::kStore : thread.copies ? Access::kCopy : Access::kLoad;
        thread.copies = false;
        thread.trace.add({pc, address - (uintptr_t)launch_.request.buffers[index].begin, size, (int16_t)index, kind});
        return;
    }
    if (!module_.contains(address)) return out_of_bounds(touch);
    if (write) return thread.worker->fault(thread, WCPU_READ_ONLY, "%u-byte write to constant memory", size);
    thread.trace.add({pc, address, size, -1, Access::kConstantLoad});
}

// Atomics are checked, and count as neither load nor store. Those of several threads on one place are no race.
void Checker::atomic(Thread &thread, uintptr_t address, unsigned size) {
    const Touch touch{thread, address, size, true};
    if (shared_.contains(address)) return;
    const int index = buffer_of(touch);
    if (index < 0) return out_of_bounds(touch);
    check_buffer(touch, index);
    check_shadow(touch, index, true);
}

// ---- shared memory

const char *Checker::shared_place(uintptr_t offset, char (&text)[64]) const {
    const uintptr_t address = shared_.begin + offset;
    if (dynamic_.contains(address))
        snprintf(text, sizeof text, "byte %lu of dynamic shared memory", (unsigned long)(address - dynamic_.begin));
    else
        snprintf(text, sizeof text, "byte %lu of static shared memory", (unsigned long)offset);
    return text;
}

// False where there is nothing to count.
bool Checker::shared_access(const Touch &touch) {
    Worker &worker = *touch.thread.worker;
    const uintptr_t offset = touch.address - shared_.begin;
    const uintptr_t end = touch.address + touch.size;
    char place[64];
    if (end > shared_.end
        || (dynamic_.contains(touch.address) && end - dynamic_.begin > launch_.request.shared_bytes))
        return worker.fault(touch.thread, WCPU_OUT_OF_BOUNDS, "%u-byte %s of %s, of which the launch asked for "
                            "%lu bytes", touch.size, touch.verb(), shared_place(offset, place),
                            (unsigned long)launch_.request.shared_bytes), false;
    if ((touch.size & (touch.size - 1)) == 0 && touch.address % touch.size)
        return worker.fault(touch.thread, WCPU_MISALIGNED, "%u-byte %s of %s", touch.size, touch.verb(),
                            shared_place(offset, place)), false;
    if (clocks_.followed() && touch.write)
        for (uintptr_t i = offset / 16; i <= (offset + touch.size - 1) / 16; ++i)
            check_asynchronous_readers(touch.thread, "writes", i * 16);
    for (unsigned i = 0; i < touch.size; ++i) check_shared_byte(touch, offset + i);
    return true;
}

// Did `other`'s access at `time` certainly happen before what `thread` does now?
bool Checker::is_ordered(const Thread &thread, unsigned other, uint32_t time) const {
    if (clocks_.followed() && other < clocks_.size()) {
        if (time < clocks_.row(thread.number)[other]) return true;
        if (other >= clocks_.threads()) return false;       // a copy or a product: no barrier of threads ends it
    }
    if (time < barrier_time_) return true;
    if (other == kManyReaders) return false;
    if (other >= kManyOfWarp) {                    // a __syncwarp of all lanes since
        bool all = other - kManyOfWarp == thread.number / kLanes;
        for (uint32_t met : thread.ordered_with) all &= time < met;
        return all;
    }
    if (other == thread.number) return true;
    return other / kLanes == thread.number / kLanes && time < thread.ordered_with[other % kLanes];
}

void Checker::check_shared_byte(const Touch &touch, uintptr_t offset) {
    Thread &thread = touch.thread;
    SharedByte &byte = bytes_[offset];
    char place[64];
    if (byte.write_time < block_time_) {
        if (!touch.write && !unwritten_read_.thread) unwritten_read_ = {&thread, offset};
    } else if (!is_ordered(thread, byte.writer, byte.write_time)) {
        char writer[96];
        thread.worker->fault(thread, WCPU_SHARED_RACE, "%ss %s, %s", touch.verb(), shared_place(offset, place),
                             writer_words(byte, writer));
    }
    if (touch.write && byte.read_time >= block_time_ && !reads_ordered(thread, offset))
        thread.worker->fault(thread, WCPU_SHARED_RACE, "writes %s, which %s has read with no barrier between",
                             shared_place(offset, place),
                             byte.reader >= kManyOfWarp ? "another thread of the block" : "one other thread");
    if (touch.write) {
        byte.write_time = now_;
        byte.writer = thread.number;
    } else {
        if (clocks_.followed()) note_read(thread, offset);
        const bool first = byte.read_time < block_time_ || is_ordered(thread, byte.reader, byte.read_time);
        const unsigned warp = thread.number / kLanes;
        const bool same_warp = byte.reader >= kManyOfWarp ? byte.reader == kManyOfWarp + warp : byte.reader / kLanes == warp;
        byte.reader = first ? thread.number : same_warp ? kManyOfWarp + warp : kManyReaders;
        byte.read_time = now_;
    }
}

// ---- buffers

int Checker::buffer_of(const Touch &touch) const {
    for (uint64_t i = 0; i < launch_.request.buffer_count; ++i) {
        const wcpu_buffer &buffer = launch_.request.buffers[i];
        if (touch.address < buffer.end && touch.address + touch.size > buffer.begin) return i;
    }
    return -1;
}

void Checker::check_buffer(const Touch &touch, int index) const {
    const wcpu_buffer &buffer = launch_.request.buffers[index];
    Worker &worker = *touch.thread.worker;
    if (touch.address < buffer.begin || touch.address + touch.size > buffer.end) return out_of_bounds(touch);
    const uint64_t offset = touch.address - buffer.begin;
    if (!touch.bulk && (touch.size & (touch.size - 1)) == 0 && offset % touch.size)
        return worker.fault(touch.thread, WCPU_MISALIGNED, "%u-byte %s of buffer '%s' at element %lu, which is at byte "
                            "%lu", touch.size, touch.verb(), buffer.name, (unsigned long)(offset / buffer.unit),
                            (unsigned long)offset);
    if (touch.write && !(buffer.flags & WCPU_WRITABLE))
        return worker.fault(touch.thread, WCPU_READ_ONLY, "write to buffer '%s', which is read-only, at element %lu",
                            buffer.name, (unsigned long)(offset / buffer.unit));
}

uint32_t Checker::global_number(const Thread &thread) const {
    return 1 + (uint32_t)(block_ * launch_.block_threads() + thread.number);
}

// Who has written or read these elements in this launch? Workers meet here: the shadow is updated by exchange.
void Checker::check_shadow(const Touch &touch, int index, bool atomic) const {
    const wcpu_buffer &buffer = launch_.request.buffers[index];
    if (!buffer.writers) return;
    const uint32_t me = global_number(touch.thread), mark = atomic ? kAtomicWriter : me;
    Worker &worker = *touch.thread.worker;
    const uint64_t offset = touch.address - buffer.begin, last = (offset + touch.size - 1) / buffer.unit;
    for (uint64_t element = offset / buffer.unit; element <= last; ++element) {
        uint32_t *writer = buffer.writers + element, *reader = buffer.readers + element;
        if (!touch.write || atomic) {
            if (!(buffer.flags & WCPU_INITIALISED) && !__atomic_load_n(writer, __ATOMIC_RELAXED))
                worker.fault(touch.thread, WCPU_UNINITIALISED_READ, "reads element %lu of buffer '%s', which this "
                             "launch has not written", (unsigned long)element, buffer.name);
        }
        if (!touch.write) {
            const uint32_t before = __atomic_load_n(reader, __ATOMIC_RELAXED);
            if (before != me) __atomic_store_n(reader, before ? kManyThreads : me, __ATOMIC_SEQ_CST);
        }
        const uint32_t wrote = touch.write ? __atomic_exchange_n(writer, mark, __ATOMIC_SEQ_CST)
                                           : __atomic_load_n(writer, __ATOMIC_SEQ_CST);
        if (wrote && wrote != mark)
            worker.fault(touch.thread, WCPU_GLOBAL_RACE, "%ss element %lu of buffer '%s', which another thread of the "
                         "launch has written (number %u of block number %lu)", touch.verb(), (unsigned long)element,
                         buffer.name, (wrote - 1) % launch_.block_threads(),
                         (unsigned long)((wrote - 1) / launch_.block_threads()));
        const uint32_t read = touch.write ? __atomic_load_n(reader, __ATOMIC_SEQ_CST) : 0;
        if (read && read != me)
            worker.fault(touch.thread, WCPU_GLOBAL_RACE, "writes element %lu of buffer '%s', which another thread of "
                         "the launch has read", (unsigned long)element, buffer.name);
    }
}

// Says how far from the nearest buffer.
void Checker::out_of_bounds(const Touch &touch) const {
    const wcpu_buffer *nearest = nullptr;
    int64_t distance = INT64_MAX;
    for (uint64_t i = 0; i < launch_.request.buffer_count; ++i) {
        const wcpu_buffer &buffer = launch_.request.buffers[i];
        const int64_t away = touch.address < buffer.begin ? buffer.begin - touch.address
                                                          : touch.address + touch.size - buffer.end;
        if (away < distance) distance = away, nearest = &buffer;
    }
    if (!nearest)
        return touch.thread.worker->fault(touch.thread, WCPU_OUT_OF_BOUNDS, "%u-byte %s at an address in no buffer",
                                          touch.size, touch.verb());
    const int64_t offset = (int64_t)(touch.address - nearest->begin), unit = nearest->unit;
    const int64_t element = offset >= 0 ? offset / unit : -((-offset + unit - 1) / unit);
    touch.thread.worker->fault(touch.thread, WCPU_OUT_OF_BOUNDS, "%u-byte %s of buffer '%s' at element %ld; it has %ld",
                               touch.size, touch.verb(), nearest->name, (long)element,
                               (long)((nearest->end - nearest->begin) / unit));
}

}  // namespace warpcpu
