// What the checks know of blocks whose warps have roles of their own: clocks, and memory that copies and products touch.
#include <cstdio>

#include "checker.hpp"
#include "scheduler.hpp"

namespace warpcpu {

constexpr unsigned kAsynchronousReaders = Clocks::kGroups + Clocks::kStores, kGranule = 16;

void Checker::follow(Worker &worker) {
    if (clocks_.followed()) return;
    warps_ = worker.warps.size();
    clocks_.follow(worker.threads.size());
    fences_.resize(worker.threads.size());
    warp_reads_.reset((WarpRead *)calloc(bytes_.size() * warps_, sizeof(WarpRead)));
    asynchronous_reads_.assign((bytes_.size() / kGranule + 1) * kAsynchronousReaders, 0);
}

// ---- who knows what

void Checker::release(Thread &thread, Clock &into) {
    into.resize(clocks_.size());
    join(into.data(), clocks_.row(thread.number), clocks_.size());
    into[thread.number] = ++now_;
}

void Checker::acquire(Thread &thread, const Clock &from) {
    if (!from.empty()) join(clocks_.row(thread.number), from.data(), clocks_.size());
}

void Checker::complete(Clock &arrived, unsigned barrier) {
    arrived.resize(clocks_.size());
    arrived[clocks_.of_barrier(barrier)] = ++now_;
}

void Checker::meet(Thread *const *threads, size_t count) {
    ++now_;
    Clock all(clocks_.size());
    for (size_t i = 0; i < count; ++i) join(all.data(), clocks_.row(threads[i]->number), all.size());
    for (size_t i = 0; i < count; ++i) all[threads[i]->number] = now_;
    for (size_t i = 0; i < count; ++i) join(clocks_.row(threads[i]->number), all.data(), all.size());
}

void Checker::block_barrier(Worker &worker) {
    barrier_time_ = ++now_;
    if (!clocks_.followed()) return;
    std::vector<Thread *> all;
    for (Thread &thread : worker.threads) all.push_back(&thread);
    meet(all.data(), all.size());
}

void Checker::fence(Thread &thread) { fences_[thread.number].push_back(++now_); }

// Has `writer` made what it wrote at `time` visible to copies and products, before what `thread` knows of it?
bool Checker::fenced(const Thread &thread, unsigned writer, uint32_t time) const {
    const std::vector<uint32_t> &fences = fences_[writer];
    for (size_t i = fences.size(); i-- && fences[i] > time;)
        if (writer == thread.number || fences[i] < barrier_time_ || fences[i] < clocks_.row(thread.number)[writer]) return true;
    return false;
}

const char *Checker::writer_words(const SharedByte &byte, char (&text)[96]) const {
    if (clocks_.followed() && clocks_.is_barrier(byte.writer))
        snprintf(text, sizeof text, "which a copy brings whose mbarrier it has not waited for");
    else
        snprintf(text, sizeof text, "which thread number %u of the block has written with no barrier between", byte.writer);
    return text;
}

// ---- shared memory

bool Checker::shared_span(Thread &thread, uintptr_t address, uint64_t size, const char *verb) {
    char place[64];
    Worker &worker = *thread.worker;
    if (!shared_.contains(address))
        return worker.fault(thread, WCPU_DESCRIPTOR, "%s %lu bytes at an address outside of shared memory", verb,
                            (unsigned long)size), false;
    const bool dynamic = dynamic_.contains(address);
    const uintptr_t end = dynamic ? dynamic_.begin + launch_.request.shared_bytes : shared_.end;
    if (address + size > end)
        return worker.fault(thread, WCPU_DESCRIPTOR, "%s %lu bytes from %s, of which the launch asked for %lu bytes", verb,
                            (unsigned long)size, shared_place(address - shared_.begin, place),
                            (unsigned long)launch_.request.shared_bytes), false;
    return true;
}

bool Checker::reads_of_warp_ordered(const Thread &thread, const WarpRead &read, unsigned warp) const {
    if (read.time < block_time_ || read.time < barrier_time_) return true;
    if (read.thread != kManyOfWarp) return is_ordered(thread, read.thread, read.time);
    const Warp &readers = thread.worker->warps[warp];
    for (unsigned left = readers.alive; left; left &= left - 1)
        if (!is_ordered(thread, warp * kLanes + __builtin_ctz(left), read.time)) return false;
    return true;
}

bool Checker::reads_ordered(const Thread &thread, uintptr_t offset) const {
    if (!clocks_.followed()) return is_ordered(thread, bytes_[offset].reader, bytes_[offset].read_time);
    for (unsigned warp = 0; warp < warps_; ++warp)
        if (!reads_of_warp_ordered(thread, warp_reads_[offset * warps_ + warp], warp)) return false;
    return true;
}

void Checker::note_read(const Thread &thread, SharedByte &, uintptr_t offset) {
    const unsigned warp = thread.number / kLanes;
    WarpRead &read = warp_reads_[offset * warps_ + warp];
    const bool alone = read.thread == thread.number || reads_of_warp_ordered(thread, read, warp);
    read = {now_, alone ? thread.number : kManyOfWarp};
}

// Copies and products that may still read these 16 bytes.
void Checker::check_asynchronous_readers(Thread &thread, const char *verb, uintptr_t offset) {
    const uint32_t *times = &asynchronous_reads_[offset / kGranule * kAsynchronousReaders];
    for (unsigned i = 0; i < kAsynchronousReaders; ++i) {
        if (times[i] < block_time_ || is_ordered(thread, clocks_.of_group(0) + i, times[i])) continue;
        char place[64];
        if (i < Clocks::kGroups)
            thread.worker->fault(thread, WCPU_SHARED_RACE, "%s %s, which wgmma of warp group %u may still read: this thread "
                                 "knows of no wait for it", verb, shared_place(offset, place), i);
        else
            thread.worker->fault(thread, WCPU_SHARED_RACE, "%s %s, which a tensor store may still read: this thread knows of "
                                 "no wait for it", verb, shared_place(offset, place));
    }
}

void Checker::copied_to(Thread &thread, uintptr_t address, unsigned size, unsigned column) {
    const uintptr_t offset = address - shared_.begin;
    char place[64], writer[96];
    check_asynchronous_readers(thread, "copies to", offset);
    for (uintptr_t i = offset; i < offset + size; ++i) {
        SharedByte &byte = bytes_[i];
        if (byte.write_time >= block_time_ && !is_ordered(thread, byte.writer, byte.write_time))
            thread.worker->fault(thread, WCPU_SHARED_RACE, "copies to %s, %s", shared_place(i, place), writer_words(byte, writer));
        if (byte.read_time >= block_time_ && !reads_ordered(thread, i))
            thread.worker->fault(thread, WCPU_SHARED_RACE, "copies to %s, which another thread of the block has read with no "
                                 "barrier between", shared_place(i, place));
        byte.write_time = now_;
        byte.writer = column;
    }
}

bool Checker::is_filled(uintptr_t address) const {
    const uintptr_t offset = address - shared_.begin;
    for (unsigned i = 0; i < kGranule; ++i)
        if (bytes_[offset + i].write_time < block_time_) return false;
    return true;
}

// By a copy or a product that `thread` issues.
void Checker::check_asynchronous_read(Thread &thread, const SharedByte &byte, uintptr_t offset, const char *verb) {
    char place[64], writer[96];
    if (!is_ordered(thread, byte.writer, byte.write_time))
        thread.worker->fault(thread, WCPU_SHARED_RACE, "%s reads %s, %s", verb, shared_place(offset, place),
                             writer_words(byte, writer));
    if (byte.writer < clocks_.threads() && !fenced(thread, byte.writer, byte.write_time))
        thread.worker->fault(thread, WCPU_SHARED_RACE, "%s reads %s, which thread number %u of the block has written with no "
                             "fence.proxy.async after it", verb, shared_place(offset, place), byte.writer);
}

void Checker::stored_from(Thread &thread, uintptr_t address) {
    const uintptr_t offset = address - shared_.begin;
    char place[64];
    for (uintptr_t i = offset; i < offset + kGranule; ++i) {
        if (bytes_[i].write_time < block_time_)
            thread.worker->fault(thread, WCPU_UNINITIALISED_READ, "a tensor store reads %s, which no thread of the block has "
                                 "written", shared_place(i, place));
        check_asynchronous_read(thread, bytes_[i], i, "a tensor store");
    }
    asynchronous_reads_[offset / kGranule * kAsynchronousReaders + clocks_.of_stores(thread.number) - clocks_.of_group(0)] = now_;
}

// 16 bytes of a product's operands, for all threads of the group. False where nothing has filled them.
bool Checker::read_by_group(Thread &thread, uintptr_t address, unsigned group) {
    if (!shared_span(thread, address, kGranule, "wgmma reads")) return false;
    const uintptr_t offset = address - shared_.begin;
    Thread *const threads = &thread.worker->threads[group * kGroupThreads];
    for (uintptr_t i = offset; i < offset + kGranule; ++i) {
        const SharedByte &byte = bytes_[i];
        if (byte.write_time < block_time_) return false;
        if (byte.writer == known_.writer && byte.write_time == known_.time && group == known_.group) continue;
        for (unsigned lane = 0; lane < kGroupThreads; ++lane) check_asynchronous_read(threads[lane], byte, i, "wgmma");
        known_ = {byte.write_time, byte.writer, group};
    }
    asynchronous_reads_[offset / kGranule * kAsynchronousReaders + group] = now_;
    return true;
}

void Checker::stores_have_read(Thread &thread, uint32_t time) {
    clocks_.row(thread.number)[clocks_.of_stores(thread.number)] = time;
}

void Checker::products_have_read(Thread &thread, unsigned group, uint32_t time) {
    uint32_t &known = clocks_.row(thread.number)[clocks_.of_group(group)];
    if (known < time) known = time;
}

// ---- global memory

void Checker::copied(Thread &thread, uintptr_t address, unsigned size, bool write) {
    const Touch touch{thread, address, size, write, true};
    const int index = buffer_of(touch);
    if (index < 0) return out_of_bounds(touch);
    check_buffer(touch, index);
    check_shadow(touch, index, false);
    thread.worker->counter.count_copied(index, write, address - launch_.request.buffers[index].begin, size);
}

void Checker::count_copy(Worker &worker, uintptr_t address, bool write) {
    const Touch touch{worker.threads[0], address, 1, write, true};
    const int index = buffer_of(touch);
    if (index >= 0) worker.counter.count_copy(index, write);
}

}  // namespace warpcpu
