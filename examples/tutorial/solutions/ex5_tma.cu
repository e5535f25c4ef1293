// Exercise 5, solved: a ring of STAGES slots. The machine code is that of kernels/cuda/gemm_tma.cu.
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
        unsigned char* stage = &ring[t % STAGES * kBytesStage];
        uint64_t* barrier = &full[t % STAGES];
        mbarrier_arrive_expect(barrier, kBytesStage);
        tma_load(stage, map_a, barrier, t * kTileK, row);
        for (int block = 0; block < kTileN / kBlockColumns; ++block)
            tma_load(stage + kBytesA + block * kBlockBytes, map_b, barrier, column + block * kBlockColumns, t * kTileK);
    };
    if (threadIdx.x == 0)
        for (int t = 0; t < STAGES && t < tiles; ++t) issue(t);

    constexpr int kRunning = STAGES > 1 ? 1 : 0;  // products that may run while the slot before theirs is filled again
    Tile tile;
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
        const unsigned char* stage = &ring[t % STAGES * kBytesStage];
        mbarrier_wait(&full[t % STAGES], t / STAGES & 1);
        tile.multiply(stage + group * kBlockBytes, stage + kBytesA, t > 0);
        wgmma_wait<kRunning>();
        __syncthreads();  // both warpgroups have finished tile t - kRunning
        const int next = t - kRunning + STAGES;
        if (threadIdx.x == 0 && t >= kRunning && next < tiles) issue(next);
        __syncwarp();  // wgmma wants whole warps
    }
    wgmma_wait<0>();
    tile.pin();
    __syncthreads();  // nobody reads the ring any more: its first slot becomes the way out
    tile.store<Tile::kBoxes>(map_c, ring + warp * Tile::kBoxes * kBoxBytes, row + group * kBlockRows, column);
    tma_store_wait_read<0>();  // shared memory must outlive the reads of the stores
}
