// tiled_matmul: C = A x B in fp32 through shared-memory tiles, plain loads.  Rung 1: the baseline.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major float.
// Tile:         128 x 128 x 16 per CTA, 256 threads, 8 x 8 results per thread; one buffer (18 KB static shared memory).
// Idea:         every element of A and B is read from global memory once per CTA and then reused 128 times.
// Roofline:     compute (fp32 FMA) for k >> 16; at 4096^3 the arithmetic intensity against DRAM is > 600 FLOP/B.
// Bubble:       data_wait (5 % at 4096^3 on an H200): a tile goes global -> register -> shared, and the CTA waits for it before it
//               computes. The other resident CTA fills most of that gap; what stays is mainly issue (22 %).
// Launch:       grid (n / 128, m / 128), block 256.
// Precondition: m and n multiples of 128, k a multiple of 16 (checked before launch), 16-byte aligned pointers.
#include "sgemm_tile.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(256, 2)
tiled_matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
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
