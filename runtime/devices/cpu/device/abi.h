// The structures that Python fills through ctypes (runtime/devices/cpu/abi.py mirrors them field by field) and the calls that
// a kernel's text makes into the runtime. Plain C types only: this header is also part of every kernel's compilation.
#pragma once

typedef unsigned char wcpu_u8;
typedef unsigned short wcpu_u16;
typedef unsigned int wcpu_u32;
typedef unsigned long long wcpu_u64;

struct uint3 { unsigned x, y, z; };

// What threadIdx, blockIdx, blockDim and gridDim read. One per CUDA thread; the runtime's Thread begins with it.
struct wcpu_ids {
    uint3 thread_index, block_index, block_size, grid_size;
    unsigned lane;                    // in its warp
};

enum wcpu_buffer_flag { WCPU_WRITABLE = 1, WCPU_INITIALISED = 2 };

enum wcpu_count {
    WCPU_LOAD_REQUESTS, WCPU_LOAD_SECTORS, WCPU_LOAD_LINES, WCPU_LOAD_BYTES,
    WCPU_STORE_REQUESTS, WCPU_STORE_SECTORS, WCPU_STORE_LINES, WCPU_STORE_BYTES,
    WCPU_BUFFER_COUNTS
};

// The order is that of KernelFault.KINDS in codegen/errors.py; 0 is "no fault".
enum wcpu_fault_kind {
    WCPU_NO_FAULT, WCPU_OUT_OF_BOUNDS, WCPU_MISALIGNED, WCPU_READ_ONLY, WCPU_UNINITIALISED_READ, WCPU_UNWRITTEN_OUTPUT,
    WCPU_GLOBAL_RACE, WCPU_SHARED_RACE, WCPU_REGISTER_INDEX, WCPU_INACTIVE_LANE, WCPU_DIVERGENT_BARRIER, WCPU_DEADLOCK,
    WCPU_LAUNCH, WCPU_BARRIER_MISUSE, WCPU_DESCRIPTOR, WCPU_ASYNCHRONOUS_ORDER
};

struct wcpu_buffer {
    const char *name;
    wcpu_u64 begin, end;              // addresses
    wcpu_u32 unit;                    // bytes that one shadow entry stands for (the array's item size)
    wcpu_u32 flags;                   // wcpu_buffer_flag
    wcpu_u32 *writers, *readers;      // shadow: 1 + number of the thread that last wrote / read; null: not tracked
    wcpu_u64 counts[WCPU_BUFFER_COUNTS];
};

// Stacks that no launch uses at the moment, kept by the process for the next one, whichever kernel's it is: to map and
// unmap them takes longer than a small kernel. Who does not get the lock at once maps its own.
enum { WCPU_MOST_KEPT_STACKS = 512 };

struct wcpu_stacks {
    wcpu_u32 lock, count;
    char *mappings[WCPU_MOST_KEPT_STACKS];
};

struct wcpu_launch {
    wcpu_u32 grid[3], block[3];
    wcpu_u64 shared_bytes;            // dynamic shared memory
    wcpu_u32 workers, order;          // order: bit 0 lanes, bit 1 warps, bit 2 blocks in descending order
    wcpu_u64 buffer_count;
    wcpu_buffer *buffers;
    void **arguments;                 // one address per kernel parameter
    wcpu_u64 shuffles, barriers, shared_requests, shared_wavefronts, constant_requests;
    wcpu_stacks *stacks;
    wcpu_u32 fault_kind, flags;       // wcpu_launch_flag
    char fault[512];
};

// The elements of a wgmma, of 16 bits and of 32; the operands whose products lie one below the other, and whether a comes from
// registers: four words of each thread, at that address
enum wcpu_element_type { WCPU_HALF, WCPU_BFLOAT16, WCPU_TF32 };
enum wcpu_mma_kind { WCPU_SPARSE = 16 };        // beside the type of its elements
enum wcpu_across { WCPU_A_ACROSS = 1, WCPU_B_ACROSS = 2, WCPU_A_WORDS = 4 };

enum wcpu_launch_flag { WCPU_SUMS_TO_NEAREST = 1 };      // wgmma's; else they are cut as the hardware cuts them

// What stands for a GPU's tensor map, within the 128 bytes that a kernel gets by value (maps.py packs and checks it).
// Dimensions innermost first.
struct wcpu_tensor_map {
    wcpu_u64 address;
    wcpu_u8 rank, im2col, element_bytes, swizzle;        // swizzle: bytes of a swizzled row, 0, 64 or 128
    wcpu_u8 element_strides[8];
    wcpu_u32 sizes[5];
    wcpu_u64 strides[4];              // bytes; of dimensions 1 and on
    wcpu_u32 box[5];                  // im2col: channels, pixels
    int lower[3], upper[3];           // im2col: corners, W, H and of volumes D
    wcpu_u32 rounded;                 // floats are rounded to TF32 as they come
};

// What a kernel's text offers: one per entry, made by the generated tail (launcher.h).
struct wcpu_kernel {
    void (*call)(void **arguments);
    wcpu_u64 argument_count;
    const wcpu_u8 *argument_sizes;
    const char *argument_kinds;       // 'p' pointer, 'i' integer, 'f' floating point, 's' anything else
    void *(*shared_place)();          // somewhere in this worker's shared memory, which exists once this was called
    void *(*dynamic_shared)();        // this worker's dynamic shared array; null function: the text declares none
    wcpu_u64 dynamic_capacity;
};

// Sources of an exchange that are no lane.
enum wcpu_exchange_kind { WCPU_BALLOT = -1, WCPU_SYNCWARP = -2, WCPU_GATHER = -3 };

// Lanes meet in these calls: a compiler must not make two calls in two branches into one.
#ifdef __clang__
#define WCPU_MEETING __attribute__((convergent))
#else
#define WCPU_MEETING                  // g++ merges equal code only where its flags ask for it; see toolchain.py
#endif

// The runtime is a shared object of its own, which kernels find these in.
#pragma GCC visibility push(default)
extern "C" {
// The CUDA thread that runs. It is the same all through a thread, so the compiler may keep it: hence const.
wcpu_ids *wcpu_self() __attribute__((const));
// All lanes named in `mask` meet; each gets the value of lane `source`, or the ballot of (value != 0).
WCPU_MEETING wcpu_u64 wcpu_exchange(wcpu_ids *self, wcpu_u64 value, unsigned mask, int source);
WCPU_MEETING void wcpu_block_barrier(wcpu_ids *self);
WCPU_MEETING unsigned wcpu_active_lanes(wcpu_ids *self, int place);    // place: tells two calls apart, no more
void wcpu_copy_follows(void);                                     // the next read is a copy's, past the first cache
void wcpu_atomic_access(void *address, unsigned size);

// What Hopper's primitives do (hopper_primitives.h has them by the names of the emitted text).
void wcpu_barrier_init(wcpu_ids *self, void *barrier, int arrivals);
void wcpu_barrier_arrive(wcpu_ids *self, void *barrier, int bytes);
WCPU_MEETING void wcpu_barrier_wait(wcpu_ids *self, void *barrier, unsigned parity);
WCPU_MEETING void wcpu_named_barrier(wcpu_ids *self, int barrier, int threads);
void wcpu_bulk_load(wcpu_ids *self, void *to, const void *from, int bytes, void *barrier);
void wcpu_tensor_load(wcpu_ids *self, void *to, const void *map, void *barrier, int rank, int c0, int c1, int c2, int c3, int c4);
void wcpu_tensor_load_im2col(wcpu_ids *self, void *to, const void *map, void *barrier, int c, int w, int h, int n,
                             int tap_w, int tap_h);
void wcpu_tensor_load_im2col_volumes(wcpu_ids *self, void *to, const void *map, void *barrier, int c, int w, int h, int d,
                                     int n, int tap_w, int tap_h, int tap_d);
void wcpu_tensor_store(wcpu_ids *self, const void *map, const void *from, int rank, int c0, int c1, int c2, int c3);
void wcpu_stores_commit(wcpu_ids *self);
void wcpu_stores_wait(wcpu_ids *self, int pending);
void wcpu_fence_shared(wcpu_ids *self);
wcpu_u64 wcpu_matrix_rows(wcpu_ids *self, const void *rows, int row_bytes);
wcpu_u64 wcpu_matrix_columns(wcpu_ids *self, const void *rows, int next);
void wcpu_wgmma(wcpu_ids *self, float *sums, int columns, wcpu_u64 a, wcpu_u64 b, int adds, int type, int across);
void wcpu_wgmma_fence(wcpu_ids *self);
void wcpu_wgmma_commit(wcpu_ids *self);
WCPU_MEETING void wcpu_wgmma_wait(wcpu_ids *self, int pending);
// Words of 8 x 8 matrices from the way lanes hold them to rows (store), and from rows to that way (load): 16 bytes a lane.
struct wcpu_row { wcpu_u64 low, high; };
WCPU_MEETING wcpu_row wcpu_rows_of_words(wcpu_ids *self, wcpu_row words, int transposed);
WCPU_MEETING wcpu_row wcpu_words_of_rows(wcpu_ids *self, wcpu_row row, int transposed);
// A product of mma.sync: a lane's words of both factors, and its sums.
struct wcpu_sums { float x, y, z, w; };
WCPU_MEETING wcpu_sums wcpu_mma(wcpu_ids *self, wcpu_sums sums, wcpu_row a, wcpu_row b, int kind);

int wcpu_run(const wcpu_kernel *kernel, wcpu_launch *launch);
wcpu_u64 wcpu_symbol_size(void *address);
}
#pragma GCC visibility pop
