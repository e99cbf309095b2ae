// Is this access allowed? Every access of an instrumented kernel comes here before it is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "abi.h"
#include "counter.hpp"

namespace warpcpu {

struct Launch;
struct Thread;
struct Warp;
struct Worker;

struct Range {
    uintptr_t begin = 0, end = 0;
    bool contains(uintptr_t address) const { return address - begin < end - begin; }
};

// What is known of a byte of shared memory. Times are those of Checker::now_; 0 is before everything.
struct SharedByte {
    uint32_t write_time = 0, read_time = 0;
    uint16_t writer = 0, reader = 0;  // threads of the block; several readers since a barrier: kManyOfWarp + warp, or kManyReaders
};

// Checks the accesses of one worker, which runs one block at a time.
class Checker {
public:
    explicit Checker(Launch &launch);
    void begin_block(Worker &worker, uint64_t index);
    // No thread can run on before the block's barrier or its end: what was waiting to be judged is.
    void settle(Worker &worker);
    void block_barrier() { barrier_time_ = ++now_; }
    void warp_barrier(Warp &warp, unsigned lanes);

    // Faults, or returns after recording the access in the thread's trace.
    void access(Thread &thread, uintptr_t address, unsigned size, bool write, uintptr_t pc);
    void atomic(Thread &thread, uintptr_t address, unsigned size);

private:
    struct Touch {                    // one access on its way through the checks
        Thread &thread;
        uintptr_t address;
        unsigned size;
        bool write;
        const char *verb() const { return write ? "write" : "read"; }
    };

    bool shared_access(const Touch &touch);
    void check_shared_byte(const Touch &touch, uintptr_t offset);
    bool is_ordered(const Thread &thread, unsigned other, uint32_t time) const;
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
    uint32_t now_ = 1, block_time_ = 1, barrier_time_ = 1;
    uint64_t block_ = 0;
};

}  // namespace warpcpu
