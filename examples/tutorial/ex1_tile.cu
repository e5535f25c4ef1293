// Exercise 1: C = A x B in fp32, every thread one element of C, every operand read from global memory.
//
// Your task: bring tiles of A and B into shared memory, so that an element is read from global memory once per CTA.
// kernels/cuda/sgemm_tile.cuh has the pieces: copy_tiles<256> copies a tile of 128 x 128 x 16, ThreadTile<256>
// multiplies it and stores 8 x 8 results per thread. Where must the CTA meet, and why twice per tile?
//
// Launch: grid (n / 128, m / 128), block 256. m and n are multiples of 128, k of 16.
#include "sgemm_tile.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(256)
ex1_tile(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    // TODO: __shared__ __align__(16) float stage[kFloatsStage];
    for (int element = threadIdx.x; element < kTileM * kTileN; element += 256) {
        const size_t row = blockIdx.y * kTileM + element / kTileN, column = blockIdx.x * kTileN + element % kTileN;
        float sum = 0.0f;
        for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[static_cast<size_t>(i) * n + column];
        c[row * n + column] = sum;
    }
}
