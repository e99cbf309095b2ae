// Stacks, and the switch from one to another.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "abi.h"

#if !defined(__x86_64__) && !defined(WARPCPU_FIBER_UCONTEXT)
#define WARPCPU_FIBER_UCONTEXT        // portable; about ten times slower, for it makes a system call per switch
#endif
#ifdef WARPCPU_FIBER_UCONTEXT
#include <ucontext.h>
#endif

namespace warpcpu {

constexpr size_t kStackBytes = 256 << 10;      // of address space; a page of it is real once it has been touched
constexpr size_t kGuardBytes = 64 << 10;       // below each stack, without access: an overflow ends in SIGSEGV
constexpr size_t kColours = 64, kColourBytes = 64;

struct Stack {
    char *low = nullptr, *top = nullptr;
    bool contains(uintptr_t address) const { return address - (uintptr_t)low < (size_t)(top - low); }
};

// The stacks of one worker. The one given back last is taken first, because it is still in the cache.
class StackPool {
public:
    // `kept`: the process's stacks, or null. All that are taken go back there, as far as there is room.
    explicit StackPool(wcpu_stacks *kept) : kept_(kept) {}
    StackPool(const StackPool &) = delete;
    StackPool &operator=(const StackPool &) = delete;
    ~StackPool() {
        if (lock_kept()) {
            while (!mappings_.empty() && kept_->count < WCPU_MOST_KEPT_STACKS) {
                kept_->mappings[kept_->count++] = mappings_.back();
                mappings_.pop_back();
            }
            unlock_kept();
        }
        for (char *mapping : mappings_) munmap(mapping, kGuardBytes + kStackBytes);
    }

    // Room for `count` stacks in the pool's own lists, so that take() and release() allocate nothing while fibers run,
    // and as many of them as the process has kept.
    void reserve(size_t count) {
        free_.reserve(count);
        mappings_.reserve(count);
        if (!lock_kept()) return;
        while (free_.size() < count && kept_->count) free_.push_back(own(kept_->mappings[--kept_->count]));
        unlock_kept();
    }
    // A null stack if the system has no more memory mappings to give.
    Stack take() {
        if (free_.empty()) return map();
        Stack stack = free_.back();
        free_.pop_back();
        return stack;
    }
    void release(Stack stack) { free_.push_back(stack); }

private:
    bool lock_kept() { return kept_ && !__atomic_exchange_n(&kept_->lock, 1, __ATOMIC_ACQUIRE); }
    void unlock_kept() { __atomic_store_n(&kept_->lock, 0, __ATOMIC_RELEASE); }

    Stack map() {
        void *mapping = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (mapping == MAP_FAILED) return {};
        if (mprotect(mapping, kGuardBytes, PROT_NONE) != 0) {
            munmap(mapping, kGuardBytes + kStackBytes);
            return {};
        }
        return own((char *)mapping);
    }

    Stack own(char *mapping) {
        mappings_.push_back(mapping);
        // All stacks start at the same offset in a page, so the frames of 32 lanes would share one set of the
        // first-level cache. Shift each by its colour; 7 is odd, so 64 stacks have 64 different ones.
        const size_t shift = mappings_.size() * 7 % kColours * kColourBytes;
        char *low = mapping + kGuardBytes;
        return {low, low + kStackBytes - shift};
    }

    wcpu_stacks *const kept_;
    std::vector<Stack> free_;
    std::vector<char *> mappings_;
};

#ifdef WARPCPU_FIBER_UCONTEXT

struct Context {
    ucontext_t state;
};

inline void prepare_context(Context &context, const Stack &stack, void (*entry)()) {
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = stack.low;
    context.state.uc_stack.ss_size = stack.top - stack.low;
    context.state.uc_link = nullptr;
    makecontext(&context.state, entry, 0);
}

inline void switch_context(Context &from, Context &to) { swapcontext(&from.state, &to.state); }

#else

struct Context {
    void **stack_pointer;             // at [0] where to go on, at [1] the frame pointer
};

inline void prepare_context(Context &context, const Stack &stack, void (*entry)()) {
    void **slot = (void **)stack.top - 3;      // leaves rsp = 8 (mod 16) at the entry, as after a call
    slot[0] = (void *)entry;
    slot[1] = slot[2] = nullptr;               // frame pointer; return address, which ends a debugger's backtrace
    context.stack_pointer = slot;
}

// Inlined, and left by a jump instead of a return: the processor predicts returns by the calls that it has seen, so
// after a switch a `ret` would go wrong every time. The compiler saves what it holds in the registers named below.
__attribute__((always_inline)) inline void switch_context(Context &from, Context &to) {
    Context *source = &from, *target = &to;
    asm volatile("pushq %%rbp\n\t"
                 "leaq 1f(%%rip), %%rax\n\t"
                 "pushq %%rax\n\t"
                 "movq %%rsp, (%0)\n\t"
                 "movq (%1), %%rsp\n\t"
                 "popq %%rax\n\t"
                 "popq %%rbp\n\t"
                 "jmpq *%%rax\n"
                 "1:"
                 : "+D"(source), "+S"(target)
                 :
                 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
                   "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                   "xmm14", "xmm15", "cc", "memory");
}

#endif

}  // namespace warpcpu
