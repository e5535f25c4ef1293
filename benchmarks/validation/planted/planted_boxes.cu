// planted_boxes: C = A x B whose tiles TMA brings in boxes of a few rows.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major bf16, float accumulators.
// Tile:         128 x 128 x 64 per CTA, 288 threads: a warp that copies and two warpgroups that multiply
//               (tile_ring.cuh); STAGES slots of 32 KB, two CTAs per SM with three.
// Idea:         a tile is 256 rows of 128 bytes. BOX_ROWS=64: four boxes. 1: as many boxes as rows, each an instruction
//               of the copying thread and a job of the copy engine, for the same bytes at the same places: the 128-byte
//               swizzle follows the address in shared memory, not the box.
// Roofline:     tensor pipe, wgmma.
// Bubble:       BOX_ROWS of a few: copy_cost (small_boxes); the products wait for the copies, however many slots there
//               are.
// Launch:       grid m / 128 x n / 128 in bands, block 288, dynamic shared memory STAGES x 32768 + 16384 + 16 STAGES
//               bytes.
// Precondition: compute capability 9.0; m and n multiples of 128, k of 64 (checked before launch).
// Parameters:   -DSTAGES=2|3|4 -DBOX_ROWS=1|2|4|8|16|64
#include <cstdint>

#include "tile_ring.cuh"
#include "raster.cuh"

using namespace ncubble;

constexpr int kTileN = 128, kBand = 16;
using TheRing = TileRing<STAGES, kTileN>;
using Tile = TheRing::Tile;

extern "C" __global__ void __launch_bounds__(kThreads, STAGES <= 3 ? 2 : 1)
planted_boxes(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
              const __grid_constant__ TensorMap map_c, const void*, const void*, void*, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char base[];
    TheRing ring(base);
    ring.initialize();
    const TilePlace place = banded_place<kBand>(blockIdx.x, m / kTileM, n / kTileN);
    const int row = place.row * kTileM, column = place.column * kTileN, steps = k / kTileK;

    if (uniform_warp() == kProducerWarp) {
        if (elect_one())
            for (int step = 0; step < steps; ++step)
                ring.fill([&](unsigned char* slot, uint64_t* barrier) {
                    const int depth = step * kTileK;
#pragma unroll 8
                    for (int first = 0; first < kTileM; first += BOX_ROWS)
                        tma_load(slot + first * kRowBytes, map_a, barrier, depth, row + first);
#pragma unroll 8
                    for (int first = 0; first < TheRing::kBlocksB * kTileK; first += BOX_ROWS)  // block after block
                        tma_load(slot + kBytesA + first * kRowBytes, map_b, barrier,
                                 column + first / kTileK * kBlockColumns, depth + first % kTileK);
                });
    } else {
        Tile tile;
        ring.multiply(tile, steps);
        ring.store(tile, map_c, row, column);
        ring.store_wait();
    }
}
