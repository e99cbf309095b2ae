// One warp reads a word of a ring of two, another writes it again for a later turn, once the readers have arrived on the place's
// mbarrier. Nothing races, and 64 turns make 2016. compute-sanitizer's racecheck tells hazards of it all the same.
#include <cstdio>

typedef unsigned long long barrier;

__device__ unsigned shared(barrier* at) { return (unsigned)__cvta_generic_to_shared(at); }
__device__ void begin(barrier* at) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(at)) : "memory"); }
__device__ void arrive(barrier* at) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared(at)) : "memory"); }
__device__ void wait(barrier* at, unsigned parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared(at)), "r"(parity) : "memory");
}

__global__ void ring(float* out, int turns) {
    __shared__ barrier freed[2], written[2];
    __shared__ float word[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) begin(freed + i), begin(written + i);
    __syncthreads();
    float sum = 0.0f;
    for (int turn = 0; turn < turns; ++turn) {
        const int place = turn % 2;
        const unsigned parity = turn / 2 % 2;
        if (warp == 0) {
            wait(written + place, parity);
            sum += word[place];
            __syncwarp();
            if (lane == 0) arrive(freed + place);
        } else {
            wait(freed + place, parity ^ 1);
            if (lane == 0) word[place] = (float)turn;
            __syncwarp();
            if (lane == 0) arrive(written + place);
        }
    }
    if (threadIdx.x == 0) *out = sum;
}

int main() {
    float* out;
    float sum = 0.0f;
    cudaMalloc(&out, sizeof(float));
    ring<<<1, 64>>>(out, 64);
    cudaMemcpy(&sum, out, sizeof(float), cudaMemcpyDeviceToHost);
    printf("sum %g, %s\n", sum, cudaGetErrorString(cudaGetLastError()));
    return sum != 2016.0f;
}
