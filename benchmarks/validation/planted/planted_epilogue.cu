// planted_epilogue: C = A x B with k so short that the way of C to memory decides.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major bf16, float accumulators.
// Tile:         128 x 128 x 64 per CTA, 288 threads: a warp that copies and two warpgroups that multiply
//               (tile_ring.cuh); STAGES slots of 32 KB, two CTAs per SM with three.
// Idea:         STORE=narrow: every thread stores its accumulators where wgmma leaves them, 2 bytes at a time: an
//               instruction of a warp touches 8 rows with 8 useful bytes in each. boxes: through shared memory, and by
//               TMA in boxes of 16 rows x 128 bytes.
// Roofline:     tensor pipe, wgmma; DRAM, by the stores of C, is near.
// Bubble:       STORE=narrow: epilogue (short_k), which the other CTA of the SM does not hide, as it takes longer than
//               the products. boxes: little of it.
// Launch:       grid m / 128 x n / 128 in bands, block 288, dynamic shared memory STAGES x 32768 + 16384 + 16 STAGES
//               bytes.
// Precondition: compute capability 9.0; m and n multiples of 128, k of 64 (checked before launch).
// Parameters:   -DSTAGES=2|3|4 -DSTORE=STORE_NARROW|STORE_BOXES
#include <cuda_bf16.h>

#include <cstdint>

#include "pack.cuh"
#include "tile_ring.cuh"
#include "raster.cuh"

using namespace ncubble;

constexpr int kTileN = 128, kBand = 16;
using TheRing = TileRing<STAGES, kTileN>;
using Tile = TheRing::Tile;

// Columns 8 j + 2 (lane % 4) and the next one, rows lane / 4 and 8 below: see wgmma.cuh. `c`: of the warpgroup.
__device__ __forceinline__ void store_narrow(const Tile& tile, uint16_t* c, int ldc) {
    const int lane = threadIdx.x % 32;
    c += static_cast<size_t>(threadIdx.x / 32 % 4 * 16 + lane / 4) * ldc + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < kTileN / 8; ++j)
#pragma unroll
        for (int below = 0; below < 2; ++below) {
            const float* d = &tile.acc[0][4 * j + 2 * below];
            const uint32_t pair = pack<__nv_bfloat16>(d[0], d[1]);
            uint16_t* target = c + static_cast<size_t>(8 * below) * ldc + 8 * j;
            target[0] = static_cast<uint16_t>(pair);
            target[1] = static_cast<uint16_t>(pair >> 16);
        }
}

extern "C" __global__ void __launch_bounds__(kThreads, STAGES <= 3 ? 2 : 1)
planted_epilogue(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                 const __grid_constant__ TensorMap map_c, const void*, const void*, uint16_t* __restrict__ c, int m,
                 int n, int k) {
    extern __shared__ __align__(1024) unsigned char base[];
    TheRing ring(base);
    ring.initialize();
    const TilePlace place = banded_place<kBand>(blockIdx.x, m / kTileM, n / kTileN);
    const int row = place.row * kTileM, column = place.column * kTileN, steps = k / kTileK;

    if (uniform_warp() == kProducerWarp) {
        if (elect_one())
            for (int step = 0; step < steps; ++step) ring.fill(map_a, map_b, row, column, step * kTileK);
    } else {
        Tile tile;
        ring.multiply(tile, steps);
#if STORE == STORE_NARROW
        store_narrow(tile, &c[static_cast<size_t>(row + uniform_warp() / 4 * kBlockRows) * n + column], n);
#else
        ring.store(tile, map_c, row, column);
        ring.store_wait();
#endif
    }
}
