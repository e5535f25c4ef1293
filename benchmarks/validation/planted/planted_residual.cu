// planted_residual: C = A x B + R, where the epilogue reads R when the products are done, element after element.
//
// Shapes:       A (m, k), B (k, n), R and C (m, n), row-major bf16, float accumulators.
// Tile:         128 x 128 x 64 per CTA, 288 threads: a warp that copies and two warpgroups that multiply
//               (tile_ring.cuh); STAGES slots of 32 KB, so many that one CTA fills an SM.
// Idea:         READ=late: two neighbours of R are read, added and stored, then the next two. The compiler must not
//               move a read above a store, as C might be R, and so each read is a trip to DRAM of its own. early: all
//               of R is asked for before the products and waits in registers.
// Roofline:     tensor pipe, wgmma.
// Bubble:       READ=late: epilogue; as one CTA fills an SM nothing runs beside it. early: the gaps between CTAs.
// Launch:       grid m / 128 x n / 128 in bands, block 288, dynamic shared memory STAGES x 32768 + 16384 + 16 STAGES
//               bytes.
// Precondition: compute capability 9.0; m and n multiples of 128, k of 64 (checked before launch).
// Parameters:   -DSTAGES=4|5|6 -DREAD=READ_LATE|READ_EARLY
#include <cuda_bf16.h>

#include <cstdint>

#include "pack.cuh"
#include "tile_ring.cuh"
#include "raster.cuh"

using namespace ncubble;

constexpr int kTileN = 128, kBand = 16;
constexpr int kPairs = kTileN / 4;  // of neighbouring elements, that a thread has of the tile
using TheRing = TileRing<STAGES, kTileN>;
using Tile = TheRing::Tile;

// Where pair number `i` of a thread lies from its first: columns by eights, two rows each (see wgmma.cuh).
__device__ __forceinline__ size_t place_of(int i, int ld) {
    return static_cast<size_t>(i % 2 * 8) * ld + i / 2 * 8;
}
__device__ __forceinline__ uint32_t read_pair(const __nv_bfloat16* r) { return *reinterpret_cast<const uint32_t*>(r); }
__device__ __forceinline__ void store_sum(__nv_bfloat16* c, const float* d, uint32_t pair) {
    const float low = __uint_as_float(pair << 16), high = __uint_as_float(pair & 0xffff0000u);
    *reinterpret_cast<uint32_t*>(c) = pack<__nv_bfloat16>(d[0] + low, d[1] + high);
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
planted_residual(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const void*,
                 const void*, const __nv_bfloat16* r, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char base[];
    TheRing ring(base);
    ring.initialize();
    const TilePlace place = banded_place<kBand>(blockIdx.x, m / kTileM, n / kTileN);
    const int row = place.row * kTileM, column = place.column * kTileN, steps = k / kTileK;

    if (uniform_warp() == kProducerWarp) {
        if (elect_one())
            for (int step = 0; step < steps; ++step) ring.fill(map_a, map_b, row, column, step * kTileK);
    } else {
        const int lane = threadIdx.x % 32, mine = row + static_cast<int>(threadIdx.x) / 32 * kBoxRows + lane / 4;
        const size_t first = static_cast<size_t>(mine) * n + column + lane % 4 * 2;
        Tile tile;
#if READ == READ_EARLY
        uint32_t pairs[kPairs];
#pragma unroll
        for (int i = 0; i < kPairs; ++i) pairs[i] = read_pair(&r[first + place_of(i, n)]);
        ring.multiply(tile, steps);
#pragma unroll
        for (int i = 0; i < kPairs; ++i) store_sum(&c[first + place_of(i, n)], &tile.acc[0][2 * i], pairs[i]);
#else
        ring.multiply(tile, steps);
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            const size_t at = first + place_of(i, n);
            store_sum(&c[at], &tile.acc[0][2 * i], read_pair(&r[at]));
        }
#endif
    }
}
