// Exercise 2, solved: a ring of buffers, filled by cp.async. The machine code is that of kernels/cuda/async_pipeline.cu.
#include "cp_async.cuh"
#include "sgemm_tile.cuh"

using namespace ncubble;

extern "C" __global__ void __launch_bounds__(256, 2)
ex2_cp_async(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(16) float ring[];
    const int thread = threadIdx.x;
    a += static_cast<size_t>(blockIdx.y) * kTileM * k;
    b += blockIdx.x * kTileN;
    c += static_cast<size_t>(blockIdx.y) * kTileM * n + blockIdx.x * kTileN;

    const int tiles = k / kTileK;
    // Exactly one group is committed per call, empty past the last tile, so that counting groups counts tiles.
    auto issue = [&](int t) {
        if (t < tiles)
            copy_tiles<256>(&ring[t % STAGES * kFloatsStage], a + t * kTileK, b + static_cast<size_t>(t) * kTileK * n, k,
                            n, thread, [](float* shared, const float* global) { cp_async<16>(shared, global); });
        cp_async_commit();
    };
    for (int t = 0; t < STAGES - 1; ++t) issue(t);

    ThreadTile<256> tile(thread);
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
        // STAGES - 1 + t groups are committed: at most STAGES - 2 in flight means that this thread's part of tile t is in.
        cp_async_wait<STAGES - 2>();
        __syncthreads();          // so is everybody's, and everybody has finished reading tile t - 1
        issue(t + STAGES - 1);    // goes where tile t - 1 was
        const float* stage = &ring[t % STAGES * kFloatsStage];
        tile.multiply(stage, stage + kFloatsA);
    }
    tile.store(c, n);
}
