// Exercise 6, solved: one thread asks TMA. The machine code is that of kernels/cuda/planted_roles.cu.
#include <cuda_bf16.h>

#include <cstdint>

#include "tile_ring.cuh"
#include "raster.cuh"
#include "swizzle.cuh"

using namespace ncubble;

constexpr int kTileN = 128, kBand = 16;
using TheRing = TileRing<STAGES, kTileN>;
using Tile = TheRing::Tile;

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
        if (elect_one())
            for (int step = 0; step < steps; ++step) ring.fill(map_a, map_b, row, column, step * kTileK);
    } else {
        Tile tile;
        ring.multiply(tile, steps);
        ring.store(tile, map_c, row, column);
        ring.store_wait();
    }
}
