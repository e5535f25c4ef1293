// What exercise 3 need not write: tiles of tensor_core_gemm (kernels/cuda), 128 x 128 x 32 of half, for 8 warps.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include "cp_async.cuh"

namespace ncubble {
namespace wmma = nvcuda::wmma;

constexpr int kTileM = 128, kTileN = 128, kTileK = 32, kThreads = 256, kFragment = 16;
constexpr int kWarpM = 64, kWarpN = 32;                              // a warp's part of the tile; 2 x 4 warps
constexpr int kStrideA = kTileK + 8, kStrideB = kTileN + 8;          // halves: 16 bytes of padding against conflicts
constexpr int kHalvesA = kTileM * kStrideA;                          // B follows A
constexpr int kHalvesStage = kHalvesA + kTileK * kStrideB;           // 18944 bytes

using FragmentA = wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, half, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, half, wmma::row_major>;
using FragmentC = wmma::fragment<wmma::accumulator, kFragment, kFragment, kFragment, float>;

// Starts the copies of this thread's share of a kRows x kColumns tile, 16 bytes each.
template <int kRows, int kColumns, int kStride>
__device__ __forceinline__ void copy_tile(half* shared, const half* __restrict__ global, int ld) {
    constexpr int kHalves = 16 / sizeof(half), kPieces = kColumns / kHalves, kRowsAtOnce = kThreads / kPieces;
    const int row = threadIdx.x / kPieces, column = threadIdx.x % kPieces * kHalves;
    shared += row * kStride + column;
    global += row * ld + column;
#pragma unroll
    for (int start = 0; start < kRows; start += kRowsAtOnce) cp_async<16>(&shared[start * kStride], &global[start * ld]);
}

struct WarpTile {
    FragmentC acc[kWarpM / kFragment][kWarpN / kFragment];

    __device__ __forceinline__ WarpTile() {
#pragma unroll
        for (auto& row : acc)
#pragma unroll
            for (auto& fragment : row) wmma::fill_fragment(fragment, 0.0f);
    }

    // acc += A tile x B tile; a and b point at the warp's first row of A and first column of B in shared memory.
    __device__ __forceinline__ void multiply(const half* a, const half* b) {
#pragma unroll
        for (int k = 0; k < kTileK; k += kFragment) {
            FragmentA fragment_a[kWarpM / kFragment];
            FragmentB fragment_b[kWarpN / kFragment];
#pragma unroll
            for (int i = 0; i < kWarpM / kFragment; ++i)
                wmma::load_matrix_sync(fragment_a[i], &a[i * kFragment * kStrideA + k], kStrideA);
#pragma unroll
            for (int j = 0; j < kWarpN / kFragment; ++j)
                wmma::load_matrix_sync(fragment_b[j], &b[k * kStrideB + j * kFragment], kStrideB);
#pragma unroll
            for (int i = 0; i < kWarpM / kFragment; ++i)
#pragma unroll
                for (int j = 0; j < kWarpN / kFragment; ++j)
                    wmma::mma_sync(acc[i][j], fragment_a[i], fragment_b[j], acc[i][j]);
        }
    }

    __device__ __forceinline__ void store(float* c, int ldc) const {
#pragma unroll
        for (int i = 0; i < kWarpM / kFragment; ++i)
#pragma unroll
            for (int j = 0; j < kWarpN / kFragment; ++j)
                wmma::store_matrix_sync(&c[static_cast<size_t>(i) * kFragment * ldc + j * kFragment], acc[i][j], ldc,
                                        wmma::mem_row_major);
    }
};

}  // namespace ncubble
