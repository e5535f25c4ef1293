// Exercise 1, solved: tiles in shared memory. The machine code is that of kernels/cuda/tiled_matmul.cu.
#include "sgemm_tile.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(256, 2)
ex1_tile(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    __shared__ __align__(16) float stage[kFloatsStage];
    const int thread = threadIdx.x;
    a += static_cast<size_t>(blockIdx.y) * kTileM * k;
    b += blockIdx.x * kTileN;
    c += static_cast<size_t>(blockIdx.y) * kTileM * n + blockIdx.x * kTileN;

    ThreadTile<256> tile(thread);
    for (int start = 0; start < k; start += kTileK) {
        copy_tiles<256>(stage, a + start, b + static_cast<size_t>(start) * n, k, n, thread,
                        [](float* shared, const float* global) {
                            *reinterpret_cast<float4*>(shared) = *reinterpret_cast<const float4*>(global);
                        });
        __syncthreads();  // the whole tile is in shared memory
        tile.multiply(stage, stage + kFloatsA);
        __syncthreads();  // nobody reads this tile any more: the next iteration may overwrite it
    }
    tile.store(c, n);
}
