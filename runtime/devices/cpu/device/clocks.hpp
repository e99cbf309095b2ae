// Who knows what: vector clocks, for blocks in which barriers order some of the threads.
//
// Entry j of thread i's clock is a time before which all that j did has happened before what i does now. Beside the threads,
// j may be the reads of a warp group's products, the reads of a thread's tensor stores, or an mbarrier, which stands for the
// copies that it counts.
#pragma once

#include <cstdint>
#include <vector>

namespace warpcpu {

using Clock = std::vector<uint32_t>;

inline void join(uint32_t *into, const uint32_t *from, size_t size) {
    for (size_t i = 0; i < size; ++i) into[i] = into[i] < from[i] ? from[i] : into[i];
}

class Clocks {
public:
    static constexpr unsigned kGroups = 8, kStores = 16, kBarriers = 128;

    bool followed() const { return !rows_.empty(); }
    void follow(unsigned threads) {
        threads_ = threads;
        rows_.assign(threads * size(), 0);
    }
    size_t size() const { return threads_ + kGroups + kStores + kBarriers; }
    unsigned threads() const { return threads_; }
    uint32_t *row(unsigned thread) { return &rows_[thread * size()]; }
    const uint32_t *row(unsigned thread) const { return &rows_[thread * size()]; }

    unsigned of_group(unsigned group) const { return threads_ + group; }
    unsigned of_stores(unsigned thread) const { return threads_ + kGroups + thread / 32 % kStores; }
    unsigned of_barrier(unsigned barrier) const { return threads_ + kGroups + kStores + barrier; }
    bool is_barrier(unsigned column) const { return column >= of_barrier(0) && column < size(); }

private:
    unsigned threads_ = 0;
    std::vector<uint32_t> rows_;
};

}  // namespace warpcpu
