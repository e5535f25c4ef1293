// planted_serial: C = A x B by wgmma, whose products of a step ptxas runs one after the other.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major bf16, float accumulators.
// Tile:         128 x 128 x 64 per CTA, 288 threads: a warp that copies and two warpgroups that multiply
//               (tile_ring.cuh); five slots of 32 KB.
// Idea:         TOUCH=within: an accumulator is written between the products of a step, which wgmma does not allow while
//               they run: ptxas warns (C7510 to C7519) and waits after each. after: written behind the wait for all
//               four products of a step, which is slower than not waiting, and not serialized. never: healthy.
// Roofline:     tensor pipe, wgmma.
// Bubble:       TOUCH=within: issue, the latency of each product (build). after: that of each step.
// Launch:       grid m / 128 x n / 128 in bands, block 288, dynamic shared memory 5 x 32768 + 16464 bytes.
// Precondition: compute capability 9.0; m and n multiples of 128, k of 64 (checked before launch).
// Parameters:   -DSTAGES=5 -DTOUCH=TOUCH_WITHIN|TOUCH_AFTER|TOUCH_NEVER
#include <cstdint>

#include "tile_ring.cuh"
#include "raster.cuh"

using namespace ncubble;

constexpr int kTileN = 128, kBand = 16;
using TheRing = TileRing<STAGES, kTileN>;
using Tile = TheRing::Tile;

// One step along k; `nothing` is 0, which the compiler does not know.
__device__ __forceinline__ void multiply(Tile& tile, const unsigned char* a, const unsigned char* b, bool accumulate,
                                         float nothing) {
    const uint64_t rows = wgmma_descriptor_k(a), columns = wgmma_descriptor_mn(b, kBlockBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kTileK / 16; ++step) {
        wgmma<__nv_bfloat16, Major::kK, Major::kMN>(tile.acc[0], wgmma_advance<Major::kK>(rows, step),
                                                    wgmma_advance<Major::kMN>(columns, step), accumulate || step > 0);
        if (TOUCH == TOUCH_WITHIN) tile.acc[0][0] += nothing;
    }
    wgmma_commit();
    wgmma_wait<0>();
    tile.pin();
    if (TOUCH == TOUCH_AFTER) tile.acc[0][0] += nothing;
}

extern "C" __global__ void __launch_bounds__(kThreads)
planted_serial(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               const __grid_constant__ TensorMap map_c, const void*, const void*, void*, int m, int n, int k,
               float nothing) {
    extern __shared__ __align__(1024) unsigned char base[];
    TheRing ring(base);
    ring.initialize();
    const TilePlace place = banded_place<kBand>(blockIdx.x, m / kTileM, n / kTileN);
    const int row = place.row * kTileM, column = place.column * kTileN, steps = k / kTileK;

    if (uniform_warp() == kProducerWarp) {
        if (elect_one())
            for (int step = 0; step < steps; ++step) ring.fill(map_a, map_b, row, column, step * kTileK);
        return;
    }
    Tile tile;
#if TOUCH == TOUCH_NEVER
    ring.multiply(tile, steps);
#else
    const int group = uniform_warp() / 4, lane = threadIdx.x % 32;
#pragma unroll 1
    for (int step = 0; step < steps; ++step, ring.at.next()) {
        mbarrier_wait(&ring.full[ring.at.slot], ring.at.parity);
        multiply(tile, ring.slot() + group * kBlockBytes, ring.slot() + kBytesA, step > 0, nothing);
        if (lane == 0) mbarrier_arrive(&ring.empty[ring.at.slot]);
        __syncwarp();
    }
#endif
    ring.store(tile, map_c, row, column);
    ring.store_wait();
}
