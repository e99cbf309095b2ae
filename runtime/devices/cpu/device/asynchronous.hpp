// What the threads of a block share besides memory, so that warps with roles of their own can run at once: mbarriers, named
// barriers, tensor copies (TMA) and the products of warp groups (wgmma).
//
// A copy is made, and its bytes counted, when it is issued; products are made when the first thread waits for them. So results
// do not depend on luck, and what a GPU leaves to luck is for the checks: whoever touches memory of a copy or a product must be
// ordered behind its end by a wait (clocks.hpp).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "abi.h"
#include "clocks.hpp"

namespace warpcpu {

struct Thread;
struct Worker;
struct Operands;                      // of one product, as numbers (wgmma.cpp)

constexpr unsigned kGroupThreads = 128, kNamedBarriers = 16;

// An event that a thread waits for.
struct Awaited {
    enum Kind { kBarrier, kNamedBarrier, kProduct } kind;
    unsigned index;                   // of the barrier, or of the warp group
    uint64_t number;                  // of the phase, or of the product
};

struct Barrier {
    uintptr_t address;
    unsigned arrivals, missing;       // of a phase; still to come in this one
    int64_t expected, bytes;          // in this phase: by copies; of those still to come
    uint64_t phase;                   // this one's number
    bool unseen;                      // nobody has waited for the last phase's copies
    unsigned initialiser;             // thread, and when
    uint32_t time;
    Clock arrived, completed;         // what those who have arrived knew; all who had in the last phase
};

struct Product {
    uint64_t a, b;
    int columns;
    bool adds;
    wcpu_element_type type;
    unsigned across;                  // wcpu_across
    unsigned issued;                  // by so many threads of the group
    float *sums[kGroupThreads];
    uint32_t words[kGroupThreads][4];   // a's, where it comes from registers (WCPU_A_WORDS)
};

struct WarpGroup {
    std::deque<Product> products;     // those not made yet
    uint64_t made = 0;
    std::vector<uint32_t> times;      // of each: when its last thread issued it
};

// Of one thread: its products and stores.
struct Pending {
    uint64_t issued = 0;              // products
    std::deque<uint64_t> groups;      // the product behind the last of each that has not been waited for
    bool fenced = false;
    unsigned open_stores = 0;         // in no group yet
    uint32_t open_time = 0;           // of the first of them
    std::deque<uint32_t> store_groups;
};

class Asynchronous {
public:
    explicit Asynchronous(Worker &worker);
    ~Asynchronous();
    void begin_block();
    // What must not be under way when a block ends. False after a fault.
    bool end_block();
    // Where threads wait for ever for what is not coming: a fault that names up to three such things. False where none does.
    bool fault_waiting();

    void init(Thread &thread, void *address, int arrivals);
    void arrive(Thread &thread, void *address, int bytes);
    void wait(Thread &thread, void *address, unsigned parity);
    void meet(Thread &thread, int barrier, int threads);

    void load(Thread &thread, void *to, const wcpu_tensor_map &map, void *barrier, int rank, const int (&at)[5],
              const int *taps);
    void load_bytes(Thread &thread, void *to, const void *from, int bytes, void *barrier);
    void store(Thread &thread, const wcpu_tensor_map &map, const void *from, int rank, const int (&at)[5]);
    void commit_stores(Thread &thread);
    void wait_stores(Thread &thread, unsigned pending);
    void fence(Thread &thread);

    uint64_t matrix_rows(Thread &thread, const void *rows, int row_bytes);
    uint64_t matrix_columns(Thread &thread, const void *rows, int next);
    void multiply(Thread &thread, float *sums, int columns, uint64_t a, uint64_t b, bool adds, wcpu_element_type type,
                  unsigned across);
    void fence_products(Thread &thread) { pending_of(thread).fenced = true; }
    void commit_products(Thread &thread);
    void wait_products(Thread &thread, unsigned pending);
    Operands &operands();             // room for one product

private:
    Pending &pending_of(Thread &thread);
    void start();
    Barrier *barrier_at(Thread &thread, void *address);
    void complete(Barrier &barrier);
    void complete_bytes(Thread &thread, Barrier &barrier, int64_t bytes);
    void wake(const Awaited &awaited);
    bool fits(Thread &thread, const wcpu_tensor_map &map, const void *shared, int rank, int innermost, bool im2col);
    void check_operands(Thread &thread, const Product &product, unsigned group);
    void make(unsigned group);
    int describe(const Awaited &awaited, char *text, size_t size) const;
    const char *place(uintptr_t address, char (&text)[64]) const;

    Worker &worker_;
    bool used_ = false;               // by this block
    uint32_t mark_ = 0x5eedba00;      // in the memory of this block's mbarriers
    std::vector<Barrier> barriers_;
    unsigned named_threads_[kNamedBarriers] = {}, named_arrived_[kNamedBarriers] = {};
    uint64_t named_phase_[kNamedBarriers] = {};
    std::vector<WarpGroup> groups_;
    std::vector<Pending> pending_;    // by thread
    std::unique_ptr<Operands> operands_;
};

// The address of 16 bytes in a swizzled layout: with rows of 128 bytes, bits 7 to 9 of the address as it would be without go
// into bits 4 to 6; with rows of 64, bits 7 and 8 into 4 and 5.
inline uintptr_t swizzled(uintptr_t address, unsigned row_bytes) {
    return row_bytes == 128 ? address ^ (address >> 3 & 0x70) : row_bytes == 64 ? address ^ (address >> 3 & 0x30) : address;
}

}  // namespace warpcpu

// A statement of the checks, which the quick mode leaves out.
#ifdef WARPCPU_CHECK
#define WCPU_CHECKED(...) __VA_ARGS__
#else
#define WCPU_CHECKED(...)
#endif
