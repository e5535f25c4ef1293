// Exercise 5: one thread asks TMA for whole tiles, wgmma multiplies them straight from shared memory. But there is one slot.
//
// Your task: use all STAGES slots.
//   1. Tile t goes into slot t % STAGES, with the barrier of that slot.
//   2. A barrier has phases: the wait for tile t is for the phase with parity t / STAGES & 1 of its slot.
//   3. Start STAGES tiles before the loop. In the loop, let one product run while the slot of the product before it is
//      filled again: wgmma_wait<1>(), and tile t - 1 + STAGES goes where tile t - 1 was.
//
// Needs a Hopper GPU (sm_90a). Launch: grid (m / 128) x (n / 128) in bands, block 256, dynamic shared memory STAGES x
// 32768 + 64 bytes.
#include <cstdint>

#include "mbarrier.cuh"
#include "raster.cuh"
#include "tma.cuh"
#include "warpgroup.cuh"
#include "wgmma_tile.cuh"

using namespace ncubble;

constexpr int kTileM = 128, kTileN = 128, kThreads = 2 * kWarpgroup, kBand = 16;
constexpr int kBytesA = kTileM * kRowBytes, kBytesStage = kBytesA + kTileN * kRowBytes;  // 32 KB
using Tile = WarpgroupTile<1, kTileN>;

extern "C" __global__ void __launch_bounds__(kThreads, STAGES <= 3 ? 2 : 1)
ex5_tma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
        const __grid_constant__ TensorMap map_c, const void*, const void*, void*, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char ring[];
    uint64_t* full = reinterpret_cast<uint64_t*>(&ring[STAGES * kBytesStage]);  // a barrier per slot: its tile has landed
    const TilePlace place = banded_place<kBand>(blockIdx.x, (m + kTileM - 1) / kTileM, (n + kTileN - 1) / kTileN);
    const int row = place.row * kTileM, column = place.column * kTileN;
    const int warp = uniform_warp(), group = warp / 4;

    if (threadIdx.x == 0) {
        for (int slot = 0; slot < STAGES; ++slot) mbarrier_init(&full[slot], 1);
        mbarrier_init_fence();
    }
    __syncthreads();

    const int tiles = (k + kTileK - 1) / kTileK;
    // Called by one thread. The slot must be free: nobody will read what it holds.
    auto issue = [&](int t) {
        mbarrier_arrive_expect(&full[0], kBytesStage);
        tma_load(ring, map_a, &full[0], t * kTileK, row);
        for (int block = 0; block < kTileN / kBlockColumns; ++block)
            tma_load(ring + kBytesA + block * kBlockBytes, map_b, &full[0], column + block * kBlockColumns, t * kTileK);
    };
    if (threadIdx.x == 0 && tiles > 0) issue(0);

    Tile tile;
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
        mbarrier_wait(&full[0], t & 1);
        tile.multiply(ring + group * kBlockBytes, ring + kBytesA, t > 0);
        wgmma_wait<0>();
        __syncthreads();  // both warpgroups have finished tile t
        if (threadIdx.x == 0 && t + 1 < tiles) issue(t + 1);
        __syncwarp();  // wgmma wants whole warps
    }
    wgmma_wait<0>();
    tile.pin();
    __syncthreads();  // nobody reads the ring any more: its first slot becomes the way out
    tile.store<Tile::kBoxes>(map_c, ring + warp * Tile::kBoxes * kBoxBytes, row + group * kBlockRows, column);
    tma_store_wait_read<0>();  // shared memory must outlive the reads of the stores
}
