// The calls that a kernel makes into the runtime: where its lanes meet, and the one that launches it. (Those of mbarriers, copies
// and products are in barriers.cpp.)
#include <cstring>

#include "scheduler.hpp"

namespace warpcpu {

// Returns when all lanes of `mask` have come, with the value of lane `source`, or the ballot.
__attribute__((always_inline)) static inline uint64_t exchange(Thread &thread, uint64_t value, unsigned mask, int source,
                                                               void *site) {
    Warp &warp = *thread.warp;
    const unsigned lane = thread.lane;
#ifdef WARPCPU_CHECK
    warp.site[lane] = site;
    if (!(mask >> lane & 1))
        thread.worker->fault(thread, WCPU_INACTIVE_LANE, "lane %u calls a _sync function with mask 0x%08x, which "
                             "leaves it out", lane, mask);
#else
    (void)site;
#endif
    warp.value[lane] = value;
    warp.source[lane] = source;
    warp.mask[lane] = mask;
    warp.meeting |= 1u << lane;
    warp.ready &= ~(1u << lane);
    if (!warp.all_meet(mask) || !thread.worker->complete(warp, mask)) thread.worker->wait(thread);
    return warp.result[lane];
}

// All lanes of the warp meet, and each sees what all have brought, until they meet so again.
static const uint64_t (*gather(Thread *thread, const wcpu_row &mine, void *site))[2] {
    Warp &warp = *thread->warp;
    warp.words[thread->lane][0] = mine.low;
    warp.words[thread->lane][1] = mine.high;
    exchange(*thread, 0, ~0u, WCPU_GATHER, site);
    return warp.gathered;
}

static wcpu_row as_row(const uint16_t (&elements)[8]) {
    wcpu_row row;
    memcpy(&row, elements, sizeof row);
    return row;
}

}  // namespace warpcpu

using warpcpu::Thread;
using warpcpu::Warp;

extern "C" {

wcpu_ids *wcpu_self() { return wcpu_current; }

wcpu_u64 wcpu_exchange(wcpu_ids *self, wcpu_u64 value, unsigned mask, int source) {
    return warpcpu::exchange(*static_cast<Thread *>(self), value, mask, source, __builtin_return_address(0));
}

wcpu_row wcpu_rows_of_words(wcpu_ids *self, wcpu_row words, int transposed) {
    const uint64_t (*all)[2] = warpcpu::gather(static_cast<Thread *>(self), words, __builtin_return_address(0));
    const unsigned matrix = self->lane / 8, row = self->lane % 8;
    uint16_t elements[8];
    for (unsigned i = 0; i < 8; ++i) {
        const unsigned up = transposed ? i : row, along = transposed ? row : i;
        elements[i] = (uint16_t)(all[4 * up + along / 2][matrix / 2] >> (matrix % 2 * 32 + along % 2 * 16));
    }
    return warpcpu::as_row(elements);
}

wcpu_row wcpu_words_of_rows(wcpu_ids *self, wcpu_row row, int transposed) {
    const uint64_t (*all)[2] = warpcpu::gather(static_cast<Thread *>(self), row, __builtin_return_address(0));
    const unsigned up = self->lane / 4, along = self->lane % 4 * 2;
    uint16_t elements[8];
    for (unsigned i = 0; i < 8; ++i) {
        const unsigned matrix = i / 2, from = transposed ? along + i % 2 : up, column = transposed ? up : along + i % 2;
        elements[i] = (uint16_t)(all[8 * matrix + from][column / 4] >> column % 4 * 16);
    }
    return warpcpu::as_row(elements);
}

void wcpu_block_barrier(wcpu_ids *self) {
    Thread &thread = *static_cast<Thread *>(self);
    thread.site = __builtin_return_address(0);
    thread.warp->at_barrier |= 1u << thread.lane;
    thread.warp->ready &= ~(1u << thread.lane);
    thread.worker->wait(thread);
}

unsigned wcpu_active_lanes(wcpu_ids *self, int) {
    Thread &thread = *static_cast<Thread *>(self);
    thread.site = __builtin_return_address(0);
    thread.warp->converging |= 1u << thread.lane;
    thread.warp->ready &= ~(1u << thread.lane);
    thread.worker->wait(thread);
    return thread.warp->result[thread.lane];
}

int wcpu_run(const wcpu_kernel *kernel, wcpu_launch *request) {
    warpcpu::Launch launch(*kernel, *request);
    uint64_t workers = request->workers;
    const uint64_t most = warpcpu::kMostMappings / (2 * launch.block_threads());
    if (workers > most) workers = most;
    if (workers > launch.blocks) workers = launch.blocks;
    warpcpu::run_workers(launch, workers);
    return request->fault_kind;
}

}  // extern "C"
