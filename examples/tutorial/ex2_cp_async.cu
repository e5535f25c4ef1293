// Exercise 2: the tiled product. A tile goes global -> register -> shared, and the CTA waits for it before it multiplies.
//
// Your task: let cp.async copy tiles into a ring of STAGES buffers, STAGES - 1 tiles ahead of the products.
//   1. The ring lies in dynamic shared memory: extern __shared__ __align__(16) float ring[];
//   2. cp_async<16>(shared, global) starts the copy of 16 bytes; cp_async_commit() closes a group, one per tile.
//   3. cp_async_wait<N>() waits until at most N groups of this thread are in flight. Which N says that tile t is in?
//   4. One __syncthreads() per tile is enough. Where?
//
// Launch: grid (n / 128, m / 128), block 256, dynamic shared memory STAGES x 18432 bytes (the spec asks for it already).
#include "cp_async.cuh"
#include "sgemm_tile.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(256, 2)
ex2_cp_async(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
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
        __syncthreads();
        tile.multiply(stage, stage + kFloatsA);
        __syncthreads();
    }
    tile.store(c, n);
}
