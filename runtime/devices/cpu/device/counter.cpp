#include "counter.hpp"

#include "scheduler.hpp"

namespace warpcpu {

constexpr uintptr_t kNowhere = ~(uintptr_t)0;
constexpr unsigned kSectorBytes = 32, kLineBytes = 128, kBankBytes = 4, kBanks = 32;

// A small set of numbers. Neighbours in a warp touch neighbouring memory, so the search begins at the newest.
class SmallSet {
public:
    void add_range(uintptr_t offset, unsigned size, unsigned granule) {
        for (uintptr_t value = offset / granule; value <= (offset + size - 1) / granule; ++value) add(value);
    }
    unsigned size() const { return size_; }
    void clear() { size_ = 0; }
    uintptr_t operator[](unsigned i) const { return values_[i]; }

private:
    void add(uintptr_t value) {
        for (unsigned i = size_; i--;)
            if (values_[i] == value) return;
        if (size_ < kCapacity) values_[size_++] = value;
    }

    static constexpr unsigned kCapacity = 512;           // 32 lanes of 16 words
    unsigned size_ = 0;
    uintptr_t values_[kCapacity];
};

// One instruction of a warp: what its lanes recorded at one pc.
struct Counter::Instruction {
    const Record *lanes[kLanes];
    size_t numbers[kLanes];          // of these lanes in their warp
    unsigned count = 0;
};

Counter::Counter(size_t buffers) : buffers_(buffers) {}

void Counter::count(Warp &warp) {
    size_t position[kLanes] = {};
    const size_t lanes = warp.lanes;
    for (;;) {
        uintptr_t next = kNowhere;
        for (size_t lane = 0; lane < lanes; ++lane) {
            const Trace &trace = warp.threads[lane].trace;
            if (position[lane] < trace.size() && trace[position[lane]].pc < next) next = trace[position[lane]].pc;
        }
        if (next == kNowhere) break;
        Instruction instruction;
        for (size_t lane = 0; lane < lanes; ++lane) {
            const Trace &trace = warp.threads[lane].trace;
            if (position[lane] < trace.size() && trace[position[lane]].pc == next) {
                instruction.numbers[instruction.count] = lane;
                instruction.lanes[instruction.count++] = &trace[position[lane]++];
            }
        }
        if (instruction.lanes[0]->access != Access::kMarker) count_instruction(instruction);
    }
    for (size_t lane = 0; lane < lanes; ++lane) warp.threads[lane].trace.clear();
}

// The most words that one bank has to deliver: each is a pass over the banks of its own.
static unsigned wavefronts(const SmallSet &words) {
    unsigned per_bank[kBanks] = {}, most = 0;
    for (unsigned i = 0; i < words.size(); ++i) {
        unsigned &bank = per_bank[words[i] % kBanks];
        if (++bank > most) most = bank;
    }
    return most;
}

void Counter::count_instruction(const Instruction &instruction) {
    const Record &first = *instruction.lanes[0];
    if (first.access == Access::kConstantLoad) {
        ++constant_requests_;
        return;
    }
    if (first.access == Access::kSharedLoad || first.access == Access::kSharedStore) {
        SmallSet words;
        for (unsigned i = 0; i < instruction.count; ++i)
            words.add_range(instruction.lanes[i]->offset, instruction.lanes[i]->size, kBankBytes);
        ++shared_requests_;
        shared_wavefronts_ += wavefronts(words);
        return;
    }
    // A copy past the first cache is made by eight lanes at a time: a sector that two such groups share counts twice. What
    // goes through that cache, copies and loads of 16 bytes, does not show it (measured on an H200).
    SmallSet sectors, lines;
    uint64_t bytes = 0, before = 0;
    for (unsigned i = 0; i < instruction.count; ++i) {
        const Record &record = *instruction.lanes[i];
        if (first.access == Access::kCopy && i && instruction.numbers[i] / 8 != instruction.numbers[i - 1] / 8) {
            before += sectors.size();
            sectors.clear();
        }
        sectors.add_range(record.offset, record.size, kSectorBytes);
        lines.add_range(record.offset, record.size, kLineBytes);
        bytes += record.size;
    }
    uint64_t *counts = buffers_[first.buffer].values
                       + (first.access == Access::kStore ? WCPU_STORE_REQUESTS : WCPU_LOAD_REQUESTS);
    counts[0] += 1;
    counts[1] += before + sectors.size();
    counts[2] += lines.size();
    counts[3] += bytes;
}

void Counter::count_copied(int buffer, bool write, uintptr_t offset, unsigned size) {
    uint64_t *counts = buffers_[buffer].values + (write ? WCPU_STORE_REQUESTS : WCPU_LOAD_REQUESTS);
    counts[1] += (offset + size - 1) / kSectorBytes - offset / kSectorBytes + 1;
    counts[2] += (offset + size - 1) / kLineBytes - offset / kLineBytes + 1;
    counts[3] += size;
}

void Counter::add_to(wcpu_launch &launch) const {
    for (size_t i = 0; i < buffers_.size(); ++i)
        for (int j = 0; j < WCPU_BUFFER_COUNTS; ++j) launch.buffers[i].counts[j] += buffers_[i].values[j];
    launch.shared_requests += shared_requests_;
    launch.shared_wavefronts += shared_wavefronts_;
    launch.constant_requests += constant_requests_;
}

}  // namespace warpcpu
