// Exercise 6: specialized warps. One warp copies, two warpgroups multiply, and slots of a ring go back and forth between
// them through barriers: full (the tile has landed) and empty (nobody reads it any more). But the copying warp brings a
// tile in pieces of 16 bytes, and is slower than the products.
//
// Your task: let one thread of that warp ask TMA. ring.fill(map_a, map_b, row, column, depth) waits for a free slot and
// asks for the tile at `depth` along k. elect_one() is true for one thread of a warp. Then produce() and copy_block() can
// go.
//
// Needs a Hopper GPU (sm_90a). Launch: grid m / 128 x n / 128 in bands, block 288, dynamic shared memory STAGES x 32768 +
// 16384 + 16 STAGES bytes. kernels/cuda/tile_ring.cuh has the ring.
#include <cuda_bf16.h>

#include <cstdint>

#include "tile_ring.cuh"
#include "raster.cuh"
#include "swizzle.cuh"

using namespace ncubble;

constexpr int kTileN = 128, kBand = 16;
using TheRing = TileRing<STAGES, kTileN>;
using Tile = TheRing::Tile;

// 64 rows of 128 bytes, by one warp, to where TMA would put them.
__device__ __forceinline__ void copy_block(unsigned char* block, const __nv_bfloat16* global, int ld) {
    constexpr int kPieces = kRowBytes / kPiece;
    const int lane = threadIdx.x % 32, column = lane % kPieces;
#pragma unroll 4
    for (int row = lane / kPieces; row < kTileK; row += 32 / kPieces)
        cp_async<kPiece>(block + swizzled<kRowBytes>(row, column * kPiece),
                         &global[static_cast<size_t>(row) * ld + column * (kPiece / 2)]);
}

// The copying warp: tile after tile, kAhead tiles in flight. What cp.async has written becomes visible to wgmma by the
// fence of the lane that copied.
__device__ __forceinline__ void produce(TheRing& ring, const __nv_bfloat16* a, const __nv_bfloat16* b, int n, int k) {
    constexpr int kAhead = STAGES - 2;  // a slot is free again only when the product after its own runs
    const int steps = k / kTileK;
    Ring<STAGES> landed;
    auto publish = [&] {
        fence_async_proxy();
        mbarrier_arrive_warp(&ring.full[landed.slot]);
        landed.next();
    };
    for (int step = 0; step < steps; ++step, ring.at.next()) {
        mbarrier_wait(&ring.empty[ring.at.slot], ring.at.parity ^ 1);
        unsigned char* slot = ring.slot();
        const __nv_bfloat16 *columns = a + step * kTileK, *rows = b + static_cast<size_t>(step) * kTileK * n;
#pragma unroll
        for (int block = 0; block < kTileM / kBlockRows; ++block)
            copy_block(slot + block * kBlockBytes, columns + static_cast<size_t>(block) * kBlockRows * k, k);
#pragma unroll
        for (int block = 0; block < TheRing::kBlocksB; ++block)
            copy_block(slot + kBytesA + block * kBlockBytes, rows + block * kBlockColumns, n);
        cp_async_commit();
        if (step >= kAhead) {
            cp_async_wait<kAhead>();
            publish();
        }
    }
    cp_async_wait<0>();
    for (int left = min(kAhead, steps); left > 0; --left) publish();
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
ex6_roles(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
          const __grid_constant__ TensorMap map_c, const __nv_bfloat16* __restrict__ a,
          const __nv_bfloat16* __restrict__ b, void*, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char base[];
    TheRing ring(base);
    ring.initialize();
    const TilePlace place = banded_place<kBand>(blockIdx.x, m / kTileM, n / kTileN);
    const int row = place.row * kTileM, column = place.column * kTileN, steps = k / kTileK;

    if (uniform_warp() == kProducerWarp) {
        produce(ring, a + static_cast<size_t>(row) * k, b + column, n, k);
    } else {
        Tile tile;
        ring.multiply(tile, steps);
        ring.store(tile, map_c, row, column);
        ring.store_wait();
    }
}
