// A launch, its workers, and how one worker runs a block: the types. scheduler.cpp has the functions.
#pragma once

#include <atomic>
#include <cstdarg>
#include <mutex>
#include <vector>

#include "abi.h"
#include "asynchronous.hpp"
#include "fiber.hpp"

#ifdef WARPCPU_CHECK
#include "checker.hpp"
#include "counter.hpp"
#endif

namespace warpcpu {

constexpr unsigned kLanes = 32;

enum OrderBit { kLanesDescending = 1, kWarpsDescending = 2, kBlocksDescending = 4 };

struct Warp;
struct Worker;

// One CUDA thread. It gets a stack when it first runs and gives it back at its end: a thread that never waits runs on
// the stack that the thread before it has just left, without any switch.
struct Thread : wcpu_ids {
    Worker *worker;
    Warp *warp;
    unsigned number;                  // in its block
    bool started;
    Stack stack;
    Context context;
    void *site;                       // the call of __syncthreads or __activemask at which it waits
    Awaited awaited;                  // while it is `waiting`
#ifdef WARPCPU_CHECK
    Trace trace;
    bool copies;                      // its next read is an asynchronous copy's
    uint32_t ordered_with[kLanes];    // when this lane last met each lane of its warp at a __syncwarp
#endif
};

// 32 threads. A lane is in one of: ready (may run), meeting (waits for lanes of its warp), converging (asks who is with
// it, and waits until nobody else of the warp can run), at_barrier (waits for the block), waiting (for an event of the block:
// see Awaited), or no longer alive.
struct Warp {
    unsigned alive, ready, meeting, converging, at_barrier, waiting;
    Thread *threads;                  // by lane
    uint64_t value[kLanes], result[kLanes];
    int source[kLanes];
    unsigned mask[kLanes];
    void *site[kLanes];
    uint64_t words[kLanes][2], gathered[kLanes][2];     // of a gathering: what each lane brings; what all brought last,
    unsigned gatherers;               // who they were,
    bool multiplied;                  // and whether their product has been made
    unsigned lanes;                   // 32, but for the last warp of a block

    // Do all lanes of `mask` that are still alive wait in a meeting?
    bool all_meet(unsigned mask) const { return (mask & alive) && !(mask & alive & ~meeting); }
};

// What the workers of one launch share.
struct Launch {
    const wcpu_kernel &kernel;
    wcpu_launch &request;
    uint64_t blocks;
    std::atomic<uint64_t> next_block{0};
    std::atomic<bool> stop{false};
    std::mutex lock;                  // of `request`'s fault and counts

    Launch(const wcpu_kernel &kernel, wcpu_launch &request);
    unsigned block_threads() const { return request.block[0] * request.block[1] * request.block[2]; }
    // The first fault is kept; any stops the launch.
    void report(wcpu_fault_kind kind, const char *message);
};

// Runs blocks one after another on the operating-system thread that calls run().
struct Worker {
    Launch &launch;
    wcpu_ids **current;               // address of this worker's wcpu_current, which is null in the scheduler
    const unsigned order;             // OrderBits
    Context scheduler;                // where run_block waits while fibers run
    StackPool stacks;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    Asynchronous asynchronous;
    bool abandoned = false;
    uint64_t shuffles = 0, block_barriers = 0, most_barriers = 0;
#ifdef WARPCPU_CHECK
    Checker checker;
    Counter counter;
#endif

    explicit Worker(Launch &launch);
    void run();
    void run_block(uint64_t index);
    void begin_block(uint64_t index);
    void run_warp(Warp &warp);
    bool release_converged(Warp &warp);
    bool any_ready() const;
    bool pass_barrier();
    void check_barrier();
    void end_step(Warp &warp);
    void merge_counts();

    // Called on fibers.
    Thread *pick(const Warp &warp) const;
    void resume(Context &from, Thread &to);
    bool give_stack(Thread &thread);
    void wait(Thread &thread);
    bool complete(Warp &warp, unsigned mask);
    void check_meeting(Warp &warp, unsigned participants);
    void finish(Thread &thread);
    void await(Thread &thread, const Awaited &event);

    // Records the fault and gives the block up: on a fiber it does not return, in the scheduler it does.
    void fault(const Thread &thread, wcpu_fault_kind kind, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
    // The same with neither buffer nor address to look up: where threads wait for ever.
    void fault_stuck();
};

}  // namespace warpcpu
