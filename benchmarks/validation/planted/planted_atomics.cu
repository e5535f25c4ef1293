// planted_atomics: sums += x, by atomics.
//
// Shapes:       x (n,), sums (bins,), y (n / 256,), float. `sums` is in and out, and not compared; y is the first
//               element of each CTA, so that something is.
// Idea:         MODE=threads: every thread adds its element, with bins = 1 all to one address, one after the other.
//               With many bins, as many atomics at as many addresses. ctas: each CTA adds up first.
// Roofline:     DRAM.
// Bubble:       MODE=threads bins=1: warps wait for the atomic unit of one slice of L2 (atomics). Others: not that.
// Launch:       grid n / 256, block 256.
// Precondition: n a multiple of 256 (checked before launch).
// Parameters:   -DMODE=MODE_THREADS|MODE_CTAS
#include <cstddef>

extern "C" __global__ void __launch_bounds__(256)
planted_atomics(const float* __restrict__ x, float* sums, float* __restrict__ y, int, int bins) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    float value = x[i];
    if (threadIdx.x == 0) y[blockIdx.x] = value;
#if MODE == MODE_THREADS
    atomicAdd(&sums[i % bins], value);
#else
    __shared__ float parts[8];
    for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(~0u, value, apart);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 8) {
        value = parts[threadIdx.x];
        for (int apart = 4; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffu, value, apart);
        if (threadIdx.x == 0) atomicAdd(&sums[blockIdx.x % bins], value);
    }
#endif
}
