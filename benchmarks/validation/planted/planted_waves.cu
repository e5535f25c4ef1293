// planted_waves: C = A x B by one CTA per SM, where the number of tiles does not suit the number of SMs.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major bf16, float accumulators.
// Tile:         128 x 128 x 64 per CTA, 288 threads: a warp that copies and two warpgroups that multiply
//               (tile_ring.cuh); STAGES slots of 32 KB, so many that one CTA fills an SM.
// Idea:         SCHEDULE=tiles: a CTA per tile. The last wave of a few tiles takes as long as a full one (144 tiles: 12
//               are left), and with fewer tiles than SMs most SMs have nothing to do. stream: as many CTAs as SMs, whole
//               tiles while there is one for each, then an equal run of the steps along k of the tiles that are left
//               (planted_runs.cuh). A tile that CTAs share is added up by the one that has its first step.
// Roofline:     tensor pipe, wgmma.
// Bubble:       SCHEDULE=tiles: tail (partial_wave; too_few_ctas). stream: none, but first load and last store.
// Launch:       grid m / 128 x n / 128 in bands, or SMs; block 288, dynamic shared memory STAGES x 32768 + 16384 + 16
//               STAGES bytes.
// Precondition: compute capability 9.0; m and n multiples of 128, k of 64 (checked before launch). stream: the CTAs are
//               resident together, as those of a grid of one per SM are.
// Parameters:   -DSTAGES=4|5|6 -DSCHEDULE=SCHEDULE_TILES|SCHEDULE_STREAM
#include <cstdint>

#include "tile_ring.cuh"
#include "planted_runs.cuh"
#include "raster.cuh"

using namespace ncubble;

constexpr int kTileN = 128;
constexpr int kBand = 4;  // so low that a dozen tiles of the last wave form a block, whose tiles share rows and columns
using TheRing = TileRing<STAGES, kTileN>;
using Tile = TheRing::Tile;

#if SCHEDULE == SCHEDULE_STREAM

constexpr int kValues = kTileN / 2;  // accumulators of a thread
constexpr int kMostCtas = 256;  // MOST_CTAS in specs/planted_structure.py
// A CTA hands over one partial tile at most: what its run begins with, where the tile's first step is another's.
__device__ float partials[kMostCtas][kValues][kConsumerThreads];
__device__ unsigned ready[kMostCtas];  // zero again when the launch ends

__device__ __forceinline__ void hand_over(const Tile& tile) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) __stcg(&partials[blockIdx.x][i][threadIdx.x], tile.acc[0][i]);
    __threadfence();
    named_barrier_sync(1, kConsumerThreads);
    if (threadIdx.x == 0) atomicExch(&ready[blockIdx.x], 1u);
}

// Adds what the CTAs from the next one to `behind` - 1 have of the tile. They begin their runs with it, before they wait
// for anybody, so nobody waits in a circle.
__device__ __forceinline__ void take_over(Tile& tile, int behind) {
    const int next = blockIdx.x + 1;
    for (int cta = next + threadIdx.x; cta < behind; cta += kConsumerThreads)
        while (atomicCAS(&ready[cta], 1u, 0u) != 1u) {
        }
    __threadfence();
    __syncwarp();
    named_barrier_sync(1, kConsumerThreads);
    for (int cta = next; cta < behind; ++cta)
#pragma unroll
        for (int i = 0; i < kValues; ++i) tile.acc[0][i] += __ldcg(&partials[cta][i][threadIdx.x]);
}

#else

__device__ __forceinline__ void hand_over(const Tile&) {}
__device__ __forceinline__ void take_over(Tile&, int) {}

#endif

extern "C" __global__ void __launch_bounds__(kThreads, 1)
planted_waves(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
              const __grid_constant__ TensorMap map_c, const void*, const void*, void*, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char base[];
    TheRing ring(base);
    ring.initialize();
    const int rows = m / kTileM, columns = n / kTileN;
    Runs runs(rows * columns, k / kTileK, blockIdx.x, gridDim.x);  // with a CTA per tile: that tile

    if (uniform_warp() == kProducerWarp) {
        if (elect_one())
            while (runs.more()) {
                const Segment segment = runs.take();
                const TilePlace place = banded_place<kBand>(segment.tile, rows, columns);
                for (int step = segment.first; step < segment.last; ++step)
                    ring.fill(map_a, map_b, place.row * kTileM, place.column * kTileN, step * kTileK);
            }
    } else {
        while (runs.more()) {
            const Segment segment = runs.take();
            Tile tile;
            ring.multiply(tile, segment.last - segment.first);
            if (segment.first > 0) {
                hand_over(tile);
                continue;
            }
            if (segment.last < runs.steps) take_over(tile, runs.behind(segment.tile));
            const TilePlace place = banded_place<kBand>(segment.tile, rows, columns);
            ring.store(tile, map_c, place.row * kTileM, place.column * kTileN);
        }
        ring.store_wait();
    }
}
