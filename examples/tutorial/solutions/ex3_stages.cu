// Exercise 3, solved: a ring of STAGES buffers. The machine code is that of kernels/cuda/tensor_core_gemm.cu.
#include "../wmma_tile.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(kThreads, 2)
ex3_stages(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(128) half ring[];
    const int warp = threadIdx.x / 32, warp_row = warp / 4 * kWarpM, warp_column = warp % 4 * kWarpN;
    a += static_cast<size_t>(blockIdx.y) * kTileM * k;
    b += blockIdx.x * kTileN;
    c += (static_cast<size_t>(blockIdx.y) * kTileM + warp_row) * n + blockIdx.x * kTileN + warp_column;

    const int tiles = k / kTileK;
    // Exactly one group is committed per call, empty past the last tile, so that counting groups counts tiles.
    auto issue = [&](int t) {
        if (t < tiles) {
            half* stage = &ring[t % STAGES * kHalvesStage];
            copy_tile<kTileM, kTileK, kStrideA>(stage, a + t * kTileK, k);
            copy_tile<kTileK, kTileN, kStrideB>(stage + kHalvesA, b + static_cast<size_t>(t) * kTileK * n, n);
        }
        cp_async_commit();
    };

    WarpTile tile;
#pragma unroll
    for (int t = 0; t < STAGES - 1; ++t) issue(t);

#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
        cp_async_wait<STAGES - 2>();  // this thread's part of tile t is in
        __syncthreads();              // so is everybody's, and everybody has finished reading tile t - 1
        issue(t + STAGES - 1);        // goes where tile t - 1 was
        const half* stage = &ring[t % STAGES * kHalvesStage];
        tile.multiply(stage + warp_row * kStrideA, stage + kHalvesA + warp_column);
    }
    tile.store(c, n);
}
