// mbarriers and named barriers, and what a block that uses them must have finished at its end.
#include <cstdio>
#include <cstring>

#include "asynchronous.hpp"
#include "scheduler.hpp"
#include "wgmma.hpp"

namespace warpcpu {

Asynchronous::Asynchronous(Worker &worker) : worker_(worker) {}
Asynchronous::~Asynchronous() = default;

void Asynchronous::begin_block() {
    if (!used_) return;
    used_ = false;
    ++mark_;                          // barriers of the block before are initialised no longer
    barriers_.clear();
    for (unsigned &arrived : named_arrived_) arrived = 0;
    groups_.assign(groups_.size(), {});
    pending_.assign(pending_.size(), {});
}

void Asynchronous::start() {
    if (used_) return;
    used_ = true;
    barriers_.reserve(Clocks::kBarriers);
    groups_.resize(worker_.threads.size() / kGroupThreads);
    pending_.resize(worker_.threads.size());
    WCPU_CHECKED(worker_.checker.follow(worker_);)
}

Pending &Asynchronous::pending_of(Thread &thread) {
    start();
    return pending_[thread.number];
}

const char *Asynchronous::place(uintptr_t address, char (&text)[64]) const {
    void *(*dynamic)() = worker_.launch.kernel.dynamic_shared;
    const uintptr_t offset = dynamic ? address - (uintptr_t)dynamic() : ~(uintptr_t)0;
    if (dynamic && offset < worker_.launch.kernel.dynamic_capacity)
        snprintf(text, sizeof text, "byte %lu of dynamic shared memory", (unsigned long)offset);
    else
        snprintf(text, sizeof text, "an address in static shared memory");
    return text;
}

void Asynchronous::wake(const Awaited &event) {
    for (Warp &warp : worker_.warps)
        for (unsigned left = warp.waiting; left; left &= left - 1) {
            Thread &thread = warp.threads[__builtin_ctz(left)];
            const Awaited &awaited = thread.awaited;
            if (awaited.kind != event.kind || awaited.index != event.index || awaited.number != event.number) continue;
            warp.waiting &= ~(1u << thread.lane);
            warp.ready |= 1u << thread.lane;
        }
}

// ---- mbarriers

// The runtime's half of an mbarrier; null after a fault.
Barrier *Asynchronous::barrier_at(Thread &thread, void *address) {
    start();
    uint32_t words[2];
    memcpy(words, address, sizeof words);
    char text[64];
    if (words[0] != mark_ || words[1] >= barriers_.size() || barriers_[words[1]].address != (uintptr_t)address)
        return worker_.fault(thread, WCPU_BARRIER_MISUSE, "uses the mbarrier at %s, which is not initialised, or which "
                             "something has overwritten", place((uintptr_t)address, text)), nullptr;
    Barrier *barrier = &barriers_[words[1]];
    WCPU_CHECKED(if (!worker_.checker.is_ordered(thread, barrier->initialiser, barrier->time))
        worker_.fault(thread, WCPU_BARRIER_MISUSE, "uses the mbarrier at %s, which thread number %u of the block has "
                      "initialised with no barrier between", place(barrier->address, text), barrier->initialiser);)
    return barrier;
}

void Asynchronous::init(Thread &thread, void *address, int arrivals) {
    start();
    char text[64];
    if ((uintptr_t)address % 8 || arrivals < 1 || arrivals >= 1 << 20)
        return worker_.fault(thread, WCPU_BARRIER_MISUSE, "initialises an mbarrier at %s for %d arrivals; it needs a "
                             "multiple of 8 and 1 to 1048575", place((uintptr_t)address, text), arrivals);
    if (barriers_.size() == Clocks::kBarriers)
        return worker_.fault(thread, WCPU_BARRIER_MISUSE, "initialises more than %u mbarriers, which is as many as the "
                             "CPU device follows", Clocks::kBarriers);
    WCPU_CHECKED(worker_.checker.shared_span(thread, (uintptr_t)address, 8, "initialises an mbarrier in");)
    const uint32_t words[2] = {mark_, (uint32_t)barriers_.size()};
    memcpy(address, words, sizeof words);
    Barrier barrier{};
    barrier.address = (uintptr_t)address;
    barrier.arrivals = barrier.missing = arrivals;
    barrier.initialiser = thread.number;
    WCPU_CHECKED(barrier.time = worker_.checker.now();)
    barriers_.push_back(barrier);
}

// An arrival; with `bytes`, that so many will be copied is said before.
void Asynchronous::arrive(Thread &thread, void *address, int bytes) {
    Barrier *barrier = barrier_at(thread, address);
    if (!barrier) return;
    char text[64];
    if (!barrier->missing)
        return worker_.fault(thread, WCPU_BARRIER_MISUSE, "arrives at the mbarrier at %s, which has all %u arrivals of its "
                             "phase %lu and waits for %ld bytes", place(barrier->address, text), barrier->arrivals,
                             (unsigned long)barrier->phase, (long)barrier->bytes);
    if (bytes < 0 || barrier->bytes + bytes >= 1 << 20)
        return worker_.fault(thread, WCPU_BARRIER_MISUSE, "expects %d bytes at the mbarrier at %s beside %ld: it counts to "
                             "1048575", bytes, place(barrier->address, text), (long)barrier->bytes);
    barrier->expected += bytes;
    barrier->bytes += bytes;
    --barrier->missing;
    WCPU_CHECKED(worker_.checker.release(thread, barrier->arrived);)
    complete(*barrier);
}

void Asynchronous::complete_bytes(Thread &thread, Barrier &barrier, int64_t bytes) {
    char text[64];
    if (bytes > barrier.bytes)
        return worker_.fault(thread, WCPU_BARRIER_MISUSE, "copies %ld bytes for the mbarrier at %s, which expects %ld more "
                             "in its phase %lu (of %ld)", (long)bytes, place(barrier.address, text), (long)barrier.bytes,
                             (unsigned long)barrier.phase, (long)barrier.expected);
    barrier.bytes -= bytes;
    complete(barrier);
}

void Asynchronous::complete(Barrier &barrier) {
    if (barrier.missing || barrier.bytes) return;
    const unsigned index = &barrier - barriers_.data();
    barrier.unseen = barrier.expected > 0;
    barrier.missing = barrier.arrivals;
    barrier.expected = 0;
    WCPU_CHECKED(worker_.checker.complete(barrier.arrived, index); barrier.completed = barrier.arrived;)
    wake({Awaited::kBarrier, index, barrier.phase++});
}

// Parity of the phase that is waited for: of the one that runs, or of the one before, which has completed.
void Asynchronous::wait(Thread &thread, void *address, unsigned parity) {
    Barrier *barrier = barrier_at(thread, address);
    if (!barrier) return;
    if ((barrier->phase & 1) == (parity & 1)) {
        const uint64_t phase = barrier->phase;
        worker_.await(thread, {Awaited::kBarrier, (unsigned)(barrier - barriers_.data()), phase});
        char text[64];
        if (barrier->phase != phase + 1)
            return worker_.fault(thread, WCPU_BARRIER_MISUSE, "waits for phase %lu of the mbarrier at %s, of which phase %lu "
                                 "has completed before it saw that: no parity tells them apart", (unsigned long)phase,
                                 place(barrier->address, text), (unsigned long)barrier->phase - 1);
    }
    barrier->unseen = false;
    WCPU_CHECKED(worker_.checker.acquire(thread, barrier->completed);)
}

// ---- named barriers

void Asynchronous::meet(Thread &thread, int barrier, int threads) {
    start();
    if (barrier < 0 || barrier >= (int)kNamedBarriers || threads < 1 || threads % (int)kLanes
        || threads > (int)worker_.threads.size())
        return worker_.fault(thread, WCPU_BARRIER_MISUSE, "waits at barrier %d for %d threads of a block of %lu: barriers have "
                             "numbers to %u, and wait for whole warps", barrier, threads,
                             (unsigned long)worker_.threads.size(), kNamedBarriers - 1);
    unsigned &arrived = named_arrived_[barrier];
    if (arrived && named_threads_[barrier] != (unsigned)threads)
        return worker_.fault(thread, WCPU_BARRIER_MISUSE, "waits at barrier %d for %d threads, at which others wait for %u",
                             barrier, threads, named_threads_[barrier]);
    named_threads_[barrier] = threads;
    const Awaited event{Awaited::kNamedBarrier, (unsigned)barrier, named_phase_[barrier]};
    if (++arrived < (unsigned)threads) return worker_.await(thread, event);
    arrived = 0;
    ++named_phase_[barrier];
#ifdef WARPCPU_CHECK
    std::vector<Thread *> together{&thread};
    for (Thread &other : worker_.threads)
        if (other.warp->waiting >> other.lane & 1 && other.awaited.kind == event.kind && other.awaited.index == event.index)
            together.push_back(&other);
    worker_.checker.meet(together.data(), together.size());
#endif
    wake(event);
}

// ---- ends

// In words, why it does not come.
int Asynchronous::describe(const Awaited &awaited, char *text, size_t size) const {
    char where[64];
    if (awaited.kind == Awaited::kNamedBarrier)
        return snprintf(text, size, "barrier %u, %u of its %u threads have come", awaited.index, named_arrived_[awaited.index],
                        named_threads_[awaited.index]);
    if (awaited.kind == Awaited::kProduct) {
        const WarpGroup &group = groups_[awaited.index];
        return snprintf(text, size, "wgmma number %lu, issued by %u of the %u threads of warp group %u",
                        (unsigned long)awaited.number, group.products[awaited.number - group.made].issued, kGroupThreads,
                        awaited.index);
    }
    const Barrier &barrier = barriers_[awaited.index];
    int length = snprintf(text, size, "the mbarrier at %s, phase %lu, which lacks %u of %u arrivals",
                          place(barrier.address, where), (unsigned long)barrier.phase, barrier.missing, barrier.arrivals);
    if (barrier.expected && length < (int)size)
        length += snprintf(text + length, size - length, " and %ld of %ld bytes", (long)barrier.bytes, (long)barrier.expected);
    return length;
}

bool Asynchronous::fault_waiting() {
    constexpr unsigned kNamed = 3;
    const Thread *named[kNamed];
    unsigned count = 0;
    for (const Thread &thread : worker_.threads) {
        bool other = thread.warp->waiting >> thread.lane & 1;
        for (unsigned i = 0; i < count; ++i)
            other &= thread.awaited.kind != named[i]->awaited.kind || thread.awaited.index != named[i]->awaited.index;
        if (other && count < kNamed) named[count++] = &thread;
    }
    if (!count) return false;
    char text[400];
    int length = describe(named[0]->awaited, text, sizeof text);
    for (unsigned i = 1; i < count && length < (int)sizeof text - 1; ++i) {
        length += snprintf(text + length, sizeof text - length, "; thread (%u,%u,%u) for ", named[i]->thread_index.x,
                           named[i]->thread_index.y, named[i]->thread_index.z);
        if (length < (int)sizeof text - 1) length += describe(named[i]->awaited, text + length, sizeof text - length);
    }
    worker_.fault(*named[0], WCPU_DEADLOCK, "waits for ever for %s", text);
    return true;
}

bool Asynchronous::end_block() {
    if (!used_) return true;
    char text[64];
    const Thread &first = worker_.threads[0];
    for (const Barrier &barrier : barriers_)
        if (barrier.unseen || barrier.bytes)
            return worker_.fault(first, WCPU_ASYNCHRONOUS_ORDER, "the block ends with copies for the mbarrier at %s for which "
                                 "no thread has waited", place(barrier.address, text)), false;
    for (unsigned group = 0; group < groups_.size(); ++group)
        if (!groups_[group].products.empty())
            return worker_.fault(worker_.threads[group * kGroupThreads], WCPU_ASYNCHRONOUS_ORDER, "ends with %lu wgmma for which "
                                 "it has not waited", (unsigned long)groups_[group].products.size()), false;
    for (unsigned thread = 0; thread < pending_.size(); ++thread)
        if (pending_[thread].open_stores || !pending_[thread].store_groups.empty())
            return worker_.fault(worker_.threads[thread], WCPU_ASYNCHRONOUS_ORDER, "ends with tensor stores for which it has not "
                                 "waited: they may still read shared memory"), false;
    return true;
}

}  // namespace warpcpu

using warpcpu::Thread;

static warpcpu::Asynchronous &asynchronous(wcpu_ids *self) { return static_cast<Thread *>(self)->worker->asynchronous; }
static Thread &thread_of(wcpu_ids *self) { return *static_cast<Thread *>(self); }

extern "C" {

void wcpu_barrier_init(wcpu_ids *self, void *barrier, int arrivals) {
    asynchronous(self).init(thread_of(self), barrier, arrivals);
}
void wcpu_barrier_arrive(wcpu_ids *self, void *barrier, int bytes) {
    asynchronous(self).arrive(thread_of(self), barrier, bytes);
}
void wcpu_barrier_wait(wcpu_ids *self, void *barrier, unsigned parity) {
    asynchronous(self).wait(thread_of(self), barrier, parity);
}
void wcpu_named_barrier(wcpu_ids *self, int barrier, int threads) {
    asynchronous(self).meet(thread_of(self), barrier, threads);
}
void wcpu_bulk_load(wcpu_ids *self, void *to, const void *from, int bytes, void *barrier) {
    asynchronous(self).load_bytes(thread_of(self), to, from, bytes, barrier);
}
void wcpu_tensor_load(wcpu_ids *self, void *to, const void *map, void *barrier, int rank, int c0, int c1, int c2, int c3, int c4) {
    asynchronous(self).load(thread_of(self), to, *(const wcpu_tensor_map *)map, barrier, rank, {c0, c1, c2, c3, c4}, nullptr);
}
void wcpu_tensor_load_im2col(wcpu_ids *self, void *to, const void *map, void *barrier, int c, int w, int h, int n,
                             int tap_w, int tap_h) {
    const int taps[2] = {tap_w, tap_h};
    asynchronous(self).load(thread_of(self), to, *(const wcpu_tensor_map *)map, barrier, 4, {c, w, h, n, 0}, taps);
}
void wcpu_tensor_load_im2col_volumes(wcpu_ids *self, void *to, const void *map, void *barrier, int c, int w, int h, int d,
                                     int n, int tap_w, int tap_h, int tap_d) {
    const int taps[3] = {tap_w, tap_h, tap_d};
    asynchronous(self).load(thread_of(self), to, *(const wcpu_tensor_map *)map, barrier, 5, {c, w, h, d, n}, taps);
}
void wcpu_tensor_store(wcpu_ids *self, const void *map, const void *from, int rank, int c0, int c1, int c2, int c3) {
    asynchronous(self).store(thread_of(self), *(const wcpu_tensor_map *)map, from, rank, {c0, c1, c2, c3, 0});
}
void wcpu_stores_commit(wcpu_ids *self) { asynchronous(self).commit_stores(thread_of(self)); }
void wcpu_stores_wait(wcpu_ids *self, int pending) { asynchronous(self).wait_stores(thread_of(self), pending); }
void wcpu_fence_shared(wcpu_ids *self) { asynchronous(self).fence(thread_of(self)); }
wcpu_u64 wcpu_matrix_rows(wcpu_ids *self, const void *rows, int row_bytes) {
    return asynchronous(self).matrix_rows(thread_of(self), rows, row_bytes);
}
wcpu_u64 wcpu_matrix_columns(wcpu_ids *self, const void *rows, int next) {
    return asynchronous(self).matrix_columns(thread_of(self), rows, next);
}
void wcpu_wgmma(wcpu_ids *self, float *sums, int columns, wcpu_u64 a, wcpu_u64 b, int adds, int type, int across) {
    asynchronous(self).multiply(thread_of(self), sums, columns, a, b, adds, (wcpu_element_type)type, across);
}
void wcpu_wgmma_fence(wcpu_ids *self) { asynchronous(self).fence_products(thread_of(self)); }
void wcpu_wgmma_commit(wcpu_ids *self) { asynchronous(self).commit_products(thread_of(self)); }
void wcpu_wgmma_wait(wcpu_ids *self, int pending) { asynchronous(self).wait_products(thread_of(self), pending); }

}  // extern "C"
