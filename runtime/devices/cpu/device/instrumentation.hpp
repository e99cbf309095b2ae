// The functions that -fsanitize=thread,bounds and -fsanitize-coverage=trace-pc make a kernel call. Their own runtimes
// are not linked: each call goes to the checker instead.
#pragma once

#include <cstring>

#include "scheduler.hpp"

#define WCPU_CALLER ((uintptr_t)__builtin_return_address(0))

namespace warpcpu {

// The CUDA thread that runs now; null while the shared object is being loaded.
static Thread *running() { return static_cast<Thread *>(wcpu_current); }

static void see(void *address, unsigned size, bool write, uintptr_t pc) {
    Thread *thread = running();
    if (thread) thread->worker->checker.access(*thread, (uintptr_t)address, size, write, pc);
}

// A copy of any length, as the 16-byte accesses that it would be.
static void see_range(void *address, size_t size, bool write, uintptr_t pc) {
    for (size_t done = 0; done < size; done += 16)
        see((char *)address + done, size - done < 16 ? size - done : 16, write, pc);
}

// Where the compiler's bounds check stands in the text, and the type that it describes.
struct BoundsType {
    uint16_t kind, information;
    char name[1];
};
struct BoundsCheck {
    const char *file;
    uint32_t line, column;
    const BoundsType *array, *index;
};

static void bad_index(const BoundsCheck *check, uintptr_t index) {
    Thread *thread = running();
    if (thread)
        thread->worker->fault(*thread, WCPU_REGISTER_INDEX, "index %ld of an array of type %s, at %s:%u:%u",
                              (long)index, check->array->name, check->file, check->line, check->column);
}

}  // namespace warpcpu

#pragma GCC visibility push(default)
extern "C" {

#define WCPU_SEE(size)                                                                                             \
    void __tsan_read##size(void *address) { warpcpu::see(address, size, false, WCPU_CALLER); }                     \
    void __tsan_write##size(void *address) { warpcpu::see(address, size, true, WCPU_CALLER); }                     \
    void __tsan_unaligned_read##size(void *address) { warpcpu::see(address, size, false, WCPU_CALLER); }           \
    void __tsan_unaligned_write##size(void *address) { warpcpu::see(address, size, true, WCPU_CALLER); }           \
    void __tsan_volatile_read##size(void *address) { warpcpu::see(address, size, false, WCPU_CALLER); }            \
    void __tsan_volatile_write##size(void *address) { warpcpu::see(address, size, true, WCPU_CALLER); }
WCPU_SEE(1) WCPU_SEE(2) WCPU_SEE(4) WCPU_SEE(8) WCPU_SEE(16)

void __tsan_read_range(void *address, size_t size) { warpcpu::see_range(address, size, false, WCPU_CALLER); }
void __tsan_write_range(void *address, size_t size) { warpcpu::see_range(address, size, true, WCPU_CALLER); }
// clang 15 and later call these for what would be memset, memcpy and memmove.
void *__tsan_memset(void *to, int value, size_t size) {
    warpcpu::see_range(to, size, true, WCPU_CALLER);
    return memset(to, value, size);
}
void *__tsan_memcpy(void *to, const void *from, size_t size) {
    warpcpu::see_range((void *)from, size, false, WCPU_CALLER);
    warpcpu::see_range(to, size, true, WCPU_CALLER);
    return memcpy(to, from, size);
}
void *__tsan_memmove(void *to, const void *from, size_t size) {
    warpcpu::see_range((void *)from, size, false, WCPU_CALLER);
    warpcpu::see_range(to, size, true, WCPU_CALLER);
    return memmove(to, from, size);
}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}

void __sanitizer_cov_trace_pc() {
    Thread *thread = warpcpu::running();
    if (thread) thread->trace.add({WCPU_CALLER, 0, 0, -1, warpcpu::Access::kMarker});
}

void __ubsan_handle_out_of_bounds(void *check, uintptr_t index) {
    warpcpu::bad_index((const warpcpu::BoundsCheck *)check, index);
}
void __ubsan_handle_out_of_bounds_abort(void *check, uintptr_t index) {
    warpcpu::bad_index((const warpcpu::BoundsCheck *)check, index);
}

// What the kernel's text asks for through cuda_subset.h when it is instrumented.
uint3 wcpu_thread_index() { return wcpu_current->thread_index; }
uint3 wcpu_block_index() { return wcpu_current->block_index; }
uint3 wcpu_block_size() { return wcpu_current->block_size; }
uint3 wcpu_grid_size() { return wcpu_current->grid_size; }
unsigned wcpu_lane() { return wcpu_current->lane; }
void wcpu_copy_follows() {
    warpcpu::Thread *thread = warpcpu::running();
    if (thread) thread->copies = true;
}
void wcpu_atomic_access(void *address, unsigned size) {
    warpcpu::Thread *thread = warpcpu::running();
    if (thread) thread->worker->checker.atomic(*thread, (uintptr_t)address, size);
}

}  // extern "C"
#pragma GCC visibility pop
