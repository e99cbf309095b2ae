// Warp-level counts from per-lane traces.
//
// The lanes of a warp run here one after another, on the GPU together. Each lane records its accesses with the address
// of the instruction (pc), and, at branches, markers. The counter then replays the lanes side by side: the next
// instruction is the smallest pc that any lane stands at, executed by all lanes that stand there. Since compilers lay
// a loop or a branch out in ascending order, lanes that parted meet again where the GPU lets them meet.
#pragma once

#include <cstdint>
#include <vector>

#include "abi.h"

namespace warpcpu {

struct Warp;

// kCopy: what an asynchronous copy of 16 bytes a lane reads past the first cache.
enum class Access : uint8_t { kMarker, kLoad, kCopy, kStore, kSharedLoad, kSharedStore, kConstantLoad };

struct Record {
    uintptr_t pc;
    uintptr_t offset;                 // in the buffer, as if that began at a multiple of 256; an address elsewhere
    uint32_t size;
    int16_t buffer;
    Access access;
};

class Trace {
public:
    // A marker that is followed by a larger pc says nothing: whoever waits at a smaller pc than the second goes first
    // in either case. So it is replaced, which leaves few markers but those of jumps backwards.
    void add(const Record &record) {
        if (!records_.empty() && records_.back().access == Access::kMarker && records_.back().pc < record.pc)
            records_.back() = record;
        else
            records_.push_back(record);
    }
    void clear() { records_.clear(); }
    size_t size() const { return records_.size(); }
    const Record &operator[](size_t i) const { return records_[i]; }

private:
    std::vector<Record> records_;
};

// The counts of one worker.
class Counter {
public:
    explicit Counter(size_t buffers);
    // Lines up what the lanes of `warp` have recorded, counts it, and clears their traces.
    void count(Warp &warp);
    // A tensor copy, one request: a contiguous part of a buffer that it reads or writes.
    void count_copy(int buffer, bool write) { ++buffers_[buffer].values[write ? WCPU_STORE_REQUESTS : WCPU_LOAD_REQUESTS]; }
    void count_copied(int buffer, bool write, uintptr_t offset, unsigned size);
    void add_to(wcpu_launch &launch) const;

private:
    struct Instruction;
    struct BufferCounts {
        uint64_t values[WCPU_BUFFER_COUNTS] = {};
    };

    void count_instruction(const Instruction &instruction);

    std::vector<BufferCounts> buffers_;
    uint64_t shared_requests_ = 0, shared_wavefronts_ = 0, constant_requests_ = 0;
};

}  // namespace warpcpu
