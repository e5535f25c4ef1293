// planted_raster: C = A x B whose tiles, by their order or their width, read A from DRAM again and again.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major bf16, float accumulators.
// Tile:         128 x TILE_N x 64 per CTA, 288 threads: a warp that copies and two warpgroups that multiply
//               (tile_ring.cuh); three slots; two CTAs per SM, one with TILE_N=256.
// Idea:         RASTER=column: CTAs that run together lie in one column of C. They share their columns of B, each has
//               rows of A of its own, and where A is larger than L2 all of it comes from DRAM again for the next
//               column. banded: they form a block of 16 rows of tiles, and A is read once. TILE_N: how many products an
//               element of A serves per read; with all columns in one tile A is read once in any order.
// Roofline:     tensor pipe, wgmma; DRAM where A is streamed.
// Bubble:       RASTER=column: memory_bound (l2_thrash), or with TILE_N=64 by tiles too narrow. banded: none of it.
// Launch:       grid m / 128 x n / TILE_N, block 288, dynamic shared memory 3 x (16384 + 128 TILE_N) + 16432 bytes.
// Precondition: compute capability 9.0; m a multiple of 128, n of TILE_N, k of 64 (checked before launch).
// Parameters:   -DSTAGES=3 -DTILE_N=64|128|256 -DRASTER=RASTER_COLUMN|RASTER_BANDED
#include <cstdint>

#include "tile_ring.cuh"
#include "raster.cuh"

using namespace ncubble;

constexpr int kBand = 16;
using TheRing = TileRing<STAGES, TILE_N>;
using Tile = TheRing::Tile;

__device__ __forceinline__ TilePlace tile_of(int index, int rows, int columns) {
    if (RASTER == RASTER_COLUMN) return {index % rows, index / rows};
    return banded_place<kBand>(index, rows, columns);
}

extern "C" __global__ void __launch_bounds__(kThreads, TILE_N == 256 ? 1 : 2)
planted_raster(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               const __grid_constant__ TensorMap map_c, const void*, const void*, void*, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char base[];
    TheRing ring(base);
    ring.initialize();
    const TilePlace place = tile_of(blockIdx.x, m / kTileM, n / TILE_N);
    const int row = place.row * kTileM, column = place.column * TILE_N, steps = k / kTileK;

    if (uniform_warp() == kProducerWarp) {
        if (elect_one())
            for (int step = 0; step < steps; ++step) ring.fill(map_a, map_b, row, column, step * kTileK);
    } else {
        Tile tile;
        ring.multiply(tile, steps);
        ring.store(tile, map_c, row, column);
        ring.store_wait();
    }
}
