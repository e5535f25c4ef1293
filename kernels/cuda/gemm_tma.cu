// gemm_tma: C = A x B, tiles brought by TMA into a ring guarded by mbarriers, products by wgmma.  Rung 5.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major bf16, float accumulators.
// Tile:         128 x 128 x 64 per CTA, 256 threads: two warpgroups with 64 x 128 of C each; STAGES slots of 32 KB
//               (1..6), two CTAs per SM up to three stages.
// Idea:         against rung 4 one thread starts a whole tile's copies with three instructions, and the products read
//               shared memory by themselves: no copy, address or fragment work is left to the warps, and all of the
//               tensor pipe is within reach. The thread that copies also multiplies: it can start a copy only when it
//               gets there.
// Roofline:     tensor pipe, wgmma.
// Bubble:       STAGES=1: data_wait (single_buffer), shown at the wait for the mbarrier; STAGES=2: less of it. With
//               more: tail and wave_gap, as far as another CTA of the SM (up to three stages) does not cover them.
// Launch:       grid (ceil(m / 128) x ceil(n / 128)) in bands, block 256, dynamic shared memory STAGES x 32768 + 64
//               bytes.
// Precondition: compute capability 9.0; n and k multiples of 8 (16-byte rows, checked before launch); m any. Beyond the
//               edges TMA reads zeros and writes nothing.
// Parameters:   -DSTAGES=1..6
//               -DWITHOUT_WAIT, -DWITHOUT_COPY, … for `ablate` (ablate.cuh): wait: copies are awaited only at the end.
//               copy: nothing is copied. sync (not alone): no barrier of the CTA between tiles. epilogue: C is not
//               stored. The operands cannot stay in registers: wgmma reads B from shared memory.
#include <cstdint>

#include "ablate.cuh"
#include "bubble_probe.cuh"
#include "mbarrier.cuh"
#include "raster.cuh"
#include "tma.cuh"
#include "warpgroup.cuh"
#include "wgmma_tile.cuh"

using namespace ncubble;

constexpr int kTileM = 128, kTileN = 128, kThreads = 2 * kWarpgroup;
constexpr int kBand = 16;  // rows of tiles that resident CTAs share
constexpr int kBytesA = kTileM * kRowBytes, kBytesStage = kBytesA + kTileN * kRowBytes;
using Tile = WarpgroupTile<1, kTileN>;
// A warpgroup that falls behind by a whole round of the ring would wait for a phase that is over: a parity cannot tell.
static_assert(kSyncs || !kAwaits, "the barrier of the CTA keeps its warpgroups in one round");
static_assert(kReads, "wgmma reads B from shared memory");

// By one thread: waits until all that was announced without an arrival has landed, as nothing may land later. It gives
// up at last: a barrier counts 2^20 bytes in flight, and if they were ever more, its phase might not end.
__device__ __forceinline__ void drain(uint64_t* full) {
    for (int slot = 0; slot < STAGES; ++slot) {
        mbarrier_arrive(&full[slot]);
        for (int tries = 0; tries < 1000 && !mbarrier_try_wait(&full[slot], 0); ++tries) {
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, STAGES <= 3 ? 2 : 1)
gemm_tma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
         const __grid_constant__ TensorMap map_c, const void*, const void*, void*, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char ring[];
    uint64_t* full = reinterpret_cast<uint64_t*>(&ring[STAGES * kBytesStage]);
    const TilePlace place = banded_place<kBand>(blockIdx.x, (m + kTileM - 1) / kTileM, (n + kTileN - 1) / kTileN);
    const int row = place.row * kTileM, column = place.column * kTileN;
    const int warp = uniform_warp(), group = warp / 4;

    if (threadIdx.x == 0) {
        for (int slot = 0; slot < STAGES; ++slot) mbarrier_init(&full[slot], 1);
        mbarrier_init_fence();
    }
    __syncthreads();

    BUBBLE_WARP(probe, warp);
    const int tiles = (k + kTileK - 1) / kTileK;
    // Called by one thread. The slot must be free: nobody will read what it holds.
    auto issue = [&](int t) {
        if (!kCopies) return;
        BUBBLE_STEP(probe, load, t);
        unsigned char* stage = &ring[t % STAGES * kBytesStage];
        uint64_t* barrier = &full[t % STAGES];
        if (kAwaits) {
            mbarrier_arrive_expect(barrier, kBytesStage);  // in full also at the edges
        } else {
            mbarrier_expect(barrier, kBytesStage);  // no arrival: the first phase goes on to the end
        }
        tma_load(stage, map_a, barrier, t * kTileK, row);
        for (int block = 0; block < kTileN / kBlockColumns; ++block)
            tma_load(stage + kBytesA + block * kBlockBytes, map_b, barrier, column + block * kBlockColumns, t * kTileK);
    };
    if (threadIdx.x == 0)
        for (int t = 0; t < STAGES && t < tiles; ++t) issue(t);

    // With one slot a product must end before the next copy starts; else one product may run while its predecessor's
    // slot is filled again.
    constexpr int kRunning = STAGES > 1 ? 1 : 0;
    Tile tile;
#pragma unroll 1  // also where an ablation leaves little in the loop
    for (int t = 0; t < tiles; ++t) {
        const unsigned char* stage = &ring[t % STAGES * kBytesStage];
        if (kAwaits) BUBBLE_STEP(probe, wait_data, t, mbarrier_wait(&full[t % STAGES], t / STAGES & 1));
        BUBBLE_STEP(probe, compute, t, tile.multiply(stage + group * kBlockBytes, stage + kBytesA, t > 0));
        // The warpgroup has finished tile t - kRunning, then so has the other one.
        BUBBLE_STEP(probe, wait_mma, t - kRunning, wgmma_wait<kRunning>());
        BUBBLE_STEP(probe, wait_sync, t, loop_sync());
        const int next = t - kRunning + STAGES;  // goes where tile t - kRunning was
        if (threadIdx.x == 0 && t >= kRunning && next < tiles) issue(next);
        __syncwarp();  // wgmma wants whole warps
    }
    BUBBLE_STEP(probe, wait_mma, tiles - 1, wgmma_wait<0>());
    tile.pin();
    if (kCopies && !kAwaits && threadIdx.x == 0) drain(full);
    BUBBLE_STEP(probe, wait_sync, tiles, __syncthreads());  // nobody reads the ring any more: its first slot becomes the way out
    BUBBLE_STEP(probe, store, tiles);
    if (stores(m)) tile.store<Tile::kBoxes>(map_c, ring + warp * Tile::kBoxes * kBoxBytes, row + group * kBlockRows, column);
    tma_store_wait_read<0>();  // shared memory must outlive the stores' reads; only lane 0 has any
}
