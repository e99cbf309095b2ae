// Is this access allowed? Every access of an instrumented kernel comes here before it is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "abi.h"
#include "clocks.hpp"
#include "counter.hpp"

namespace warpcpu {

struct Launch;
struct Thread;
struct Warp;
struct Worker;

constexpr uint16_t kManyOfWarp = 0x8000;      // readers in one warp: its number is added

struct Range {
    uintptr_t begin = 0, end = 0;
    bool contains(uintptr_t address) const { return address - begin < end - begin; }
};

// What is known of a byte of shared memory. Times are those of Checker::now_; 0 is before everything.
struct SharedByte {
    uint32_t write_time = 0, read_time = 0;
    uint16_t writer = 0, reader = 0;  // threads of the block; several readers since a barrier: kManyOfWarp + warp, or kManyReaders
                                      // writer of a copy: the column of its mbarrier (clocks.hpp)
};

// The last time that a warp read a byte: one thread of it, or several (kManyOfWarp).
struct WarpRead {
    uint32_t time;
    uint32_t thread;
};

// Checks the accesses of one worker, which runs one block at a time.
class Checker {
public:
    explicit Checker(Launch &launch);
    void begin_block(Worker &worker, uint64_t index);
    // No thread can run on before the block's barrier or its end: what was waiting to be judged is.
    void settle(Worker &worker);
    void block_barrier(Worker &worker);
    void warp_barrier(Warp &warp, unsigned lanes);

    // Faults, or returns after recording the access in the thread's trace.
    void access(Thread &thread, uintptr_t address, unsigned size, bool write, uintptr_t pc);
    void atomic(Thread &thread, uintptr_t address, unsigned size);
    bool is_ordered(const Thread &thread, unsigned other, uint32_t time) const;

    // For blocks with mbarriers and the like (asynchronous_checks.cpp): clocks say who knows what.
    void follow(Worker &worker);
    uint32_t now() const { return now_; }
    uint32_t tick() { return ++now_; }
    void release(Thread &thread, Clock &into);
    void acquire(Thread &thread, const Clock &from);
    void complete(Clock &arrived, unsigned barrier);
    void meet(Thread *const *threads, size_t count);
    void fence(Thread &thread);
    unsigned column_of_barrier(unsigned barrier) const { return clocks_.of_barrier(barrier); }
    // What copies and products do to memory; the first two fault where it is not the block's.
    bool shared_span(Thread &thread, uintptr_t address, uint64_t size, const char *verb);
    void copied(Thread &thread, uintptr_t address, unsigned size, bool write);
    void copied_to(Thread &thread, uintptr_t address, unsigned size, unsigned column);
    void stored_from(Thread &thread, uintptr_t address);
    bool read_by_group(Thread &thread, uintptr_t address, unsigned group);
    bool is_filled(uintptr_t address) const;
    void stores_have_read(Thread &thread, uint32_t time);
    void products_have_read(Thread &thread, unsigned group, uint32_t time);
    void count_copy(Worker &worker, uintptr_t address, bool write);

private:
    struct Touch {                    // one access on its way through the checks
        Thread &thread;
        uintptr_t address;
        unsigned size;
        bool write, bulk = false;     // bulk: a copy's, which needs no alignment
        const char *verb() const { return write ? "write" : "read"; }
    };

    bool shared_access(const Touch &touch);
    void check_shared_byte(const Touch &touch, uintptr_t offset);
    bool reads_ordered(const Thread &thread, uintptr_t offset) const;
    bool reads_of_warp_ordered(const Thread &thread, const WarpRead &read, unsigned warp) const;
    void note_read(const Thread &thread, SharedByte &byte, uintptr_t offset);
    void check_asynchronous_readers(Thread &thread, const char *verb, uintptr_t offset);
    bool fenced(const Thread &thread, unsigned writer, uint32_t time) const;
    void check_asynchronous_read(Thread &thread, const SharedByte &byte, uintptr_t offset, const char *verb);
    const char *writer_words(const SharedByte &byte, char (&text)[96]) const;
    int buffer_of(const Touch &touch) const;
    void check_buffer(const Touch &touch, int index) const;
    void check_shadow(const Touch &touch, int index, bool atomic) const;
    void out_of_bounds(const Touch &touch) const;
    const char *shared_place(uintptr_t offset, char (&text)[64]) const;
    uint32_t global_number(const Thread &thread) const;

    Launch &launch_;
    Range shared_, dynamic_, module_; // the kernel's thread-local block; within it the dynamic array; the shared object
    std::vector<SharedByte> bytes_;   // of shared_
    // The first read since the last barrier of a byte that nobody had written. It is a race if somebody still writes
    // the byte before the next barrier, and a read of nothing if not.
    struct {
        const Thread *thread = nullptr;
        uintptr_t offset = 0;
    } unwritten_read_;
    Clocks clocks_;
    std::vector<std::vector<uint32_t>> fences_;     // by thread: when it made its writes visible to copies and products
    struct Free { void operator()(void *memory) const { free(memory); } };
    std::unique_ptr<WarpRead[], Free> warp_reads_;  // by byte of shared_ and warp; most of it is never touched
    std::vector<uint32_t> asynchronous_reads_;      // times; by 16 bytes of shared_ and column of Clocks from of_group(0) on
    unsigned warps_ = 0;
    struct { uint32_t time; uint16_t writer; unsigned group; } known_ = {};     // a write that a warp group knows of
    uint32_t now_ = 1, block_time_ = 1, barrier_time_ = 1;
    uint64_t block_ = 0;
};

}  // namespace warpcpu
