// planted_ramp: C = (A x B) scaled by groups of rows, one wave of CTAs that first look for their group.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major bf16, float accumulators; ends (groups) int, ascending: one
//               past the last row of each group, multiples of 128; scale (groups) float. Groups may be empty.
// Tile:         128 x 128 x 64 per CTA, 288 threads: a warp that copies and two warpgroups that multiply
//               (tile_ring.cuh); STAGES slots of 32 KB, so many that one CTA fills an SM.
// Idea:         a grouped product whose CTAs find their group in a table, as the products of a mixture of experts do.
//               SEARCH=serial: one thread reads entry after entry, each read as long as a trip to L2, and nothing is
//               copied meanwhile. parallel: a warp reads 32 entries at once.
// Roofline:     tensor pipe, wgmma.
// Bubble:       SEARCH=serial: ramp. parallel: none, but first load and last store.
// Launch:       grid m / 128 x n / 128 in bands, block 288, dynamic shared memory STAGES x 32768 + 16384 + 16 STAGES +
//               16 bytes.
// Precondition: compute capability 9.0; m and n multiples of 128, k of 64 (checked before launch).
// Parameters:   -DSTAGES=4|5|6 -DSEARCH=SEARCH_SERIAL|SEARCH_PARALLEL
#include <cstdint>

#include "tile_ring.cuh"
#include "raster.cuh"

using namespace ncubble;

constexpr int kTileN = 128, kBand = 16;
using TheRing = TileRing<STAGES, kTileN>;
using Tile = TheRing::Tile;

// The first group that ends behind `row`, by the first warp. The table is read past L1, as one that another kernel has
// just written.
__device__ __forceinline__ int find_group(const int* ends, int groups, int row) {
    int group = 0;
#if SEARCH == SEARCH_SERIAL
    if (threadIdx.x == 0) {
#pragma unroll 1
        while (group < groups - 1 && __ldcg(&ends[group]) <= row) ++group;
    }
#else
    for (int first = 0; first < groups; first += 32) {
        const int mine = first + static_cast<int>(threadIdx.x);
        group += __popc(__ballot_sync(~0u, mine < groups - 1 && __ldcg(&ends[mine]) <= row));
    }
#endif
    return group;
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
planted_ramp(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
             const __grid_constant__ TensorMap map_c, const void*, const void*, const int* __restrict__ ends,
             const float* __restrict__ scale, void*, int m, int n, int k, int groups) {
    extern __shared__ __align__(1024) unsigned char base[];
    TheRing ring(base);
    float* factor = reinterpret_cast<float*>(ring.empty + STAGES);  // of the tile's group
    const TilePlace place = banded_place<kBand>(blockIdx.x, m / kTileM, n / kTileN);
    const int row = place.row * kTileM, column = place.column * kTileN, steps = k / kTileK;
    if (uniform_warp() == 0) {
        const int group = find_group(ends, groups, row);
        if (threadIdx.x == 0) *factor = scale[group];
    }
    ring.initialize();  // all threads meet here

    if (uniform_warp() == kProducerWarp) {
        if (elect_one())
            for (int step = 0; step < steps; ++step) ring.fill(map_a, map_b, row, column, step * kTileK);
    } else {
        Tile tile;
        ring.multiply(tile, steps);
#pragma unroll
        for (float& value : tile.acc[0]) value *= *factor;
        ring.store(tile, map_c, row, column);
        ring.store_wait();
    }
}
