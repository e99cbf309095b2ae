// How a worker runs a block: each warp until all its lanes wait or have ended, again while that let others run on, then the
// block's barrier.
#include "scheduler.hpp"

#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>

static thread_local wcpu_ids *wcpu_current;     // the CUDA thread that this worker runs now

namespace warpcpu {

constexpr uint64_t kLostValue = 0x7fc0dead7fc0dead;      // what a shuffle from a lane that is not there gives: a NaN
constexpr unsigned kMostMappings = 40000;                // Linux allows 65530 per process; a stack takes two

static unsigned lowest(unsigned lanes) { return __builtin_ctz(lanes); }
static unsigned highest(unsigned lanes) { return 31 - __builtin_clz(lanes); }

static void thread_main();

Launch::Launch(const wcpu_kernel &kernel, wcpu_launch &request)
    : kernel(kernel), request(request), blocks((uint64_t)request.grid[0] * request.grid[1] * request.grid[2]) {}

void Launch::report(wcpu_fault_kind kind, const char *message) {
    std::lock_guard<std::mutex> held(lock);
    if (!request.fault_kind) {
        request.fault_kind = kind;
        snprintf(request.fault, sizeof request.fault, "%s", message);
    }
    stop = true;
}

Worker::Worker(Launch &launch)
    : launch(launch), current(&wcpu_current), order(launch.request.order), stacks(launch.request.stacks),
      threads(launch.block_threads()),
      warps((threads.size() + kLanes - 1) / kLanes), asynchronous(*this)
#ifdef WARPCPU_CHECK
      , checker(launch), counter(launch.request.buffer_count)
#endif
{
    stacks.reserve(threads.size());
    const wcpu_u32 *block = launch.request.block, *grid = launch.request.grid;
    for (unsigned number = 0; number < threads.size(); ++number) {
        Thread &thread = threads[number];
        thread.worker = this;
        thread.warp = &warps[number / kLanes];
        thread.lane = number % kLanes;
        thread.number = number;
        thread.thread_index = {number % block[0], number / block[0] % block[1], number / (block[0] * block[1])};
        thread.block_size = {block[0], block[1], block[2]};
        thread.grid_size = {grid[0], grid[1], grid[2]};
    }
    for (size_t i = 0; i < warps.size(); ++i) {
        const size_t left = threads.size() - i * kLanes;
        warps[i].threads = &threads[i * kLanes];
        warps[i].lanes = left < kLanes ? left : kLanes;
    }
}

// ---- from thread to thread

inline Thread *Worker::pick(const Warp &warp) const {
    if (!warp.ready) return nullptr;
    return &warp.threads[order & kLanesDescending ? highest(warp.ready) : lowest(warp.ready)];
}

// False, after a fault, if there is none.
__attribute__((noinline)) bool Worker::give_stack(Thread &thread) {
    thread.stack = stacks.take();
    if (!thread.stack.top) return fault(thread, WCPU_LAUNCH, "no memory mapping left for its stack"), false;
    thread.started = true;
    prepare_context(thread.context, thread.stack, thread_main);
    return true;
}

__attribute__((always_inline)) inline void Worker::resume(Context &from, Thread &to) {
    if (!to.started && !give_stack(to)) return;
    *current = &to;
    switch_context(from, to.context);
}

// Returns when another thread has made `thread` ready and it has been picked.
__attribute__((always_inline)) inline void Worker::wait(Thread &thread) {
    Thread *next = pick(*thread.warp);
    if (next) resume(thread.context, *next);
    else switch_context(thread.context, scheduler);
}

// Returns when the event has come.
void Worker::await(Thread &thread, const Awaited &event) {
    thread.awaited = event;
    thread.warp->waiting |= 1u << thread.lane;
    thread.warp->ready &= ~(1u << thread.lane);
    wait(thread);
}

// ---- blocks

void Worker::run() {
    for (uint64_t done; !launch.stop && (done = launch.next_block++) < launch.blocks;)
        run_block(order & kBlocksDescending ? launch.blocks - 1 - done : done);
    *current = nullptr;
    merge_counts();
}

void Worker::merge_counts() {
#ifdef WARPCPU_CHECK
    std::lock_guard<std::mutex> held(launch.lock);
    launch.request.shuffles += shuffles;
    if (launch.request.barriers < most_barriers) launch.request.barriers = most_barriers;
    counter.add_to(launch.request);
#endif
}

void Worker::begin_block(uint64_t index) {
    const wcpu_u32 *grid = launch.request.grid;
    const uint3 block = {(unsigned)(index % grid[0]), (unsigned)(index / grid[0] % grid[1]),
                         (unsigned)(index / ((uint64_t)grid[0] * grid[1]))};
    for (Thread &thread : threads) {
        thread.block_index = block;
        thread.started = false;
    }
    for (Warp &warp : warps) {
        warp.alive = warp.ready = ~0u >> (kLanes - warp.lanes);
        warp.meeting = warp.converging = warp.at_barrier = warp.waiting = 0;
    }
    block_barriers = 0;
    asynchronous.begin_block();
#ifdef WARPCPU_CHECK
    checker.begin_block(*this, index);
#endif
}

void Worker::run_block(uint64_t index) {
    begin_block(index);
    for (bool more = true; more && !abandoned;) {
        for (size_t i = 0; i < warps.size() && !abandoned; ++i)
            run_warp(warps[order & kWarpsDescending ? warps.size() - 1 - i : i]);
        more = !abandoned && (any_ready() || pass_barrier());
    }
    if (!abandoned) asynchronous.end_block();
    if (block_barriers > most_barriers) most_barriers = block_barriers;
}

// Has a warp, while others ran, got what its lanes waited for?
bool Worker::any_ready() const {
    for (const Warp &warp : warps)
        if (warp.ready) return true;
    return false;
}

// Until no lane of it is ready.
void Worker::run_warp(Warp &warp) {
    do {
        Thread *first = pick(warp);
        if (first) resume(scheduler, *first);
        *current = nullptr;
    } while (!abandoned && release_converged(warp));
    if (!abandoned) end_step(warp);
}

// Lanes that have come to one call of __activemask while none could run further are together there.
bool Worker::release_converged(Warp &warp) {
    if (!warp.converging) return false;
    void *const site = warp.threads[lowest(warp.converging)].site;
    unsigned together = 0;
    for (unsigned left = warp.converging; left; left &= left - 1)
        if (warp.threads[lowest(left)].site == site) together |= left & -left;
    for (unsigned left = together; left; left &= left - 1) warp.result[lowest(left)] = together;
    warp.converging &= ~together;
    warp.ready |= together;
    return true;
}

// The lanes have all come as far as they can: the accesses that they made can be lined up and counted.
void Worker::end_step(Warp &warp) {
#ifdef WARPCPU_CHECK
    counter.count(warp);
#else
    (void)warp;
#endif
}

// False when the block is over. Threads that have ended do not hold up a barrier: the GPU counts them out.
bool Worker::pass_barrier() {
#ifdef WARPCPU_CHECK
    checker.settle(*this);
    if (abandoned) return false;
#endif
    bool any = false, all = true;
    for (const Warp &warp : warps) {
        any |= warp.alive != 0;
        all &= warp.at_barrier == warp.alive;
    }
    if (!any) return false;
    if (!all) return fault_stuck(), false;
    check_barrier();
    if (abandoned) return false;
    for (Warp &warp : warps) {
        warp.ready = warp.alive;
        warp.at_barrier = 0;
    }
    ++block_barriers;
    return true;
}

// Beyond what the GPU needs to go on, CUDA asks that the whole block reaches the same call.
void Worker::check_barrier() {
#ifdef WARPCPU_CHECK
    const Thread *first = nullptr, *ended = nullptr;
    for (const Thread &thread : threads) {
        if (!(thread.warp->alive >> thread.lane & 1)) ended = ended ? ended : &thread;
        else if (!first) first = &thread;
        else if (thread.site != first->site)
            return fault(thread, WCPU_DIVERGENT_BARRIER, "waits at another __syncthreads than thread (%u,%u,%u)",
                         first->thread_index.x, first->thread_index.y, first->thread_index.z);
    }
    if (ended)
        return fault(*ended, WCPU_DIVERGENT_BARRIER, "ended before the __syncthreads that thread (%u,%u,%u) waits at",
                     first->thread_index.x, first->thread_index.y, first->thread_index.z);
    checker.block_barrier(*this);
#endif
}

void Worker::fault_stuck() {
    if (asynchronous.fault_waiting()) return;
    const Thread *barrier = nullptr, *meeting = nullptr;
    for (const Thread &thread : threads) {
        if (!barrier && thread.warp->at_barrier >> thread.lane & 1) barrier = &thread;
        if (!meeting && thread.warp->meeting >> thread.lane & 1) meeting = &thread;
    }
    const unsigned lane = meeting->lane, mask = meeting->warp->mask[lane];
    const char *call = meeting->warp->source[lane] == WCPU_SYNCWARP ? "__syncwarp"
                       : meeting->warp->source[lane] == WCPU_BALLOT ? "a vote"
                       : meeting->warp->source[lane] == WCPU_GATHER ? "mma, ldmatrix or stmatrix" : "a shuffle";
    if (barrier)
        fault(*barrier, WCPU_DIVERGENT_BARRIER, "waits at __syncthreads, which thread (%u,%u,%u) never reaches: it "
              "waits at %s with mask 0x%08x", meeting->thread_index.x, meeting->thread_index.y,
              meeting->thread_index.z, call, mask);
    else
        fault(*meeting, WCPU_DEADLOCK, "waits for ever at %s: of its mask 0x%08x, lanes 0x%08x do not come", call, mask,
              mask & meeting->warp->alive & ~meeting->warp->meeting);
}

void Worker::fault(const Thread &thread, wcpu_fault_kind kind, const char *format, ...) {
    char what[440], message[512];
    va_list values;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    snprintf(message, sizeof message, "block (%u,%u,%u) thread (%u,%u,%u): %s", thread.block_index.x,
             thread.block_index.y, thread.block_index.z, thread.thread_index.x, thread.thread_index.y,
             thread.thread_index.z, what);
    launch.report(kind, message);
    abandoned = true;
    if (!*current) return;
    Context left_for_ever;
    switch_context(left_for_ever, scheduler);
}

// All lanes of `mask` wait: if they do so with this mask, hands out the results and lets them go.
__attribute__((noinline)) bool Worker::complete(Warp &warp, unsigned mask) {
    const unsigned participants = mask & warp.alive;
    for (unsigned left = participants; left; left &= left - 1)
        if (warp.mask[lowest(left)] != mask) return false;
    check_meeting(warp, participants);
    uint64_t ballot = 0;
    for (unsigned left = participants; left; left &= left - 1)
        ballot |= (uint64_t)(warp.value[lowest(left)] != 0) << lowest(left);
    if (warp.source[lowest(participants)] == WCPU_GATHER) {
        memcpy(warp.gathered, warp.words, sizeof warp.gathered);
        warp.gatherers = participants;
        warp.multiplied = false;
    }
    for (unsigned left = participants; left; left &= left - 1) {
        const unsigned lane = lowest(left);
        const int source = warp.source[lane];
        if (source < 0) warp.result[lane] = ballot;
        else warp.result[lane] = participants >> source & 1 ? warp.value[source] : kLostValue;
    }
    warp.meeting &= ~participants;
    warp.ready |= participants;
    return true;
}

void Worker::check_meeting(Warp &warp, unsigned participants) {
#ifdef WARPCPU_CHECK
    const unsigned first = lowest(participants);
    for (unsigned left = participants; left; left &= left - 1) {
        const unsigned lane = lowest(left);
        const int source = warp.source[lane];
        if (warp.site[lane] != warp.site[first])
            fault(warp.threads[lane], WCPU_DIVERGENT_BARRIER, "meets lane %u at another shuffle, vote or __syncwarp "
                  "of the text (mask 0x%08x)", first, warp.mask[lane]);
        if (source >= 0 && !(participants >> source & 1))
            fault(warp.threads[lane], WCPU_INACTIVE_LANE, "shuffle reads lane %d, which takes no part in it "
                  "(mask 0x%08x, lanes alive 0x%08x)", source, warp.mask[lane], warp.alive);
    }
    if (warp.source[first] == WCPU_GATHER && ~participants)
        fault(warp.threads[first], WCPU_INACTIVE_LANE, "is at mma, ldmatrix or stmatrix, in which lane %u takes no part "
              "(lanes alive 0x%08x)", lowest(~participants), warp.alive);
    if (warp.source[first] >= 0) ++shuffles;
    if (warp.source[first] == WCPU_SYNCWARP) checker.warp_barrier(warp, participants);
    if (participants == warp.alive) end_step(warp);
#else
    (void)warp, (void)participants;
#endif
}

// Its end may be what the others of its warp wait for.
void Worker::finish(Thread &thread) {
    Warp &warp = *thread.warp;
    warp.alive &= ~(1u << thread.lane);
    warp.ready &= ~(1u << thread.lane);
    for (unsigned waiting = warp.meeting; waiting; waiting &= warp.meeting & (waiting - 1)) {
        const unsigned mask = warp.mask[lowest(waiting)];
        if (warp.all_meet(mask)) complete(warp, mask);
    }
}

// The function on every fiber: runs `*current` to its end, then a thread of its warp that has not started yet, if one
// is next, on the same stack.
static void thread_main() {
    Worker &worker = *static_cast<Thread *>(wcpu_current)->worker;
    Context left_for_ever;
    for (;;) {
        worker.launch.kernel.call(worker.launch.request.arguments);
        Thread &ended = *static_cast<Thread *>(*worker.current);
        worker.finish(ended);
        Thread *next = worker.pick(*ended.warp);
        if (next && !next->started) {
            next->stack = ended.stack;
            next->started = true;
            *worker.current = next;
            continue;
        }
        worker.stacks.release(ended.stack);    // still stood on, but nobody takes it before the switch below
        if (next) worker.resume(left_for_ever, *next);
        else switch_context(left_for_ever, worker.scheduler);
    }
}

static void run_worker(Launch &launch) {
    Worker worker(launch);
    worker.run();
}

// One worker runs on the calling thread; if the system refuses more threads, there are fewer workers.
static void run_workers(Launch &launch, unsigned count) {
    std::vector<std::thread> others;
    try {
        for (unsigned i = 1; i < count; ++i) others.emplace_back(run_worker, std::ref(launch));
    } catch (const std::system_error &) {
    }
    run_worker(launch);
    for (std::thread &other : others) other.join();
}

}  // namespace warpcpu
