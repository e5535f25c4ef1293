// strided_copies: the same bytes by cp.async of 4 bytes each, with neighbours taken by neighbouring lanes, or far apart.
//
// Shapes:       source: threads of the grid x kCopies floats; sink: one float per thread.
// Launch:       any grid of 256 threads, dynamic shared memory 256 x kCopies x 4 bytes.
#include "cp_async.cuh"

using namespace ncubble;

constexpr int kCopies = 32;

extern "C" __global__ void strided_copies(const float* __restrict__ source, int coalesced, float* sink) {
    extern __shared__ float slots[];
    const size_t thread = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    const float* block = source + blockIdx.x * static_cast<size_t>(blockDim.x) * kCopies;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
        const int from = coalesced ? i * blockDim.x + threadIdx.x : threadIdx.x * kCopies + i;
        cp_async<4>(&slots[i * blockDim.x + threadIdx.x], &block[from]);
    }
    cp_async_commit();
    cp_async_wait<0>();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) sum += slots[i * blockDim.x + threadIdx.x];
    sink[thread] = sum;
}
