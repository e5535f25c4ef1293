// Exercise 3: tensor cores through WMMA, tiles by cp.async, but one buffer: a copy starts when the tile before it is used up.
//
// Your task: keep STAGES tiles under way. The ring has room for them: STAGES x kHalvesStage halves.
//   1. issue(t) copies tile t into the only buffer. Let it take buffer t % STAGES, and commit a group also past the last
//      tile: then counting groups counts tiles.
//   2. Start STAGES - 1 tiles before the loop.
//   3. In the loop, wait so that at most STAGES - 2 groups are in flight, meet once, then start tile t + STAGES - 1.
//
// Launch: grid (n / 128, m / 128), block 256, dynamic shared memory STAGES x 18944 bytes.
#include "wmma_tile.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(kThreads, 2)
ex3_stages(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(128) half ring[];
    const int warp = threadIdx.x / 32, warp_row = warp / 4 * kWarpM, warp_column = warp % 4 * kWarpN;
    a += static_cast<size_t>(blockIdx.y) * kTileM * k;
    b += blockIdx.x * kTileN;
    c += (static_cast<size_t>(blockIdx.y) * kTileM + warp_row) * n + blockIdx.x * kTileN + warp_column;

    const int tiles = k / kTileK;
    auto issue = [&](int t) {
        copy_tile<kTileM, kTileK, kStrideA>(ring, a + t * kTileK, k);
        copy_tile<kTileK, kTileN, kStrideB>(ring + kHalvesA, b + static_cast<size_t>(t) * kTileK * n, n);
        cp_async_commit();
    };

    WarpTile tile;
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
        if (t > 0) __syncthreads();  // everybody has finished reading tile t - 1
        issue(t);
        cp_async_wait<0>();
        __syncthreads();  // everybody's part of tile t is in
        tile.multiply(ring + warp_row * kStrideA, ring + kHalvesA + warp_column);
    }
    tile.store(c, n);
}
