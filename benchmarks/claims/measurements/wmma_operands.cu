// wmma_operands: C = A x B through nvcuda::wmma, fragments loaded from shared memory or straight from global memory.
//
// Shapes:       A (m, k), B (k, n) row-major half; C (m, n) row-major float.
// Tile:         64 x 64 of C per CTA, 4 warps of 32 x 32 (2 x 2 fragments of 16 x 16 x 16), k in steps of 32.
// Idea:         load_matrix_sync takes any address: SOURCE only decides whether the tile is staged in shared memory first.
// Roofline:     neither version is meant to be near one; they differ in nothing but where load_matrix_sync reads.
// Launch:       grid (n / 64, m / 64), block 128.
// Precondition: m and n multiples of 64, k a multiple of 32 (checked before launch).
// Parameters:   -DSOURCE=SOURCE_SHARED|SOURCE_GLOBAL
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

constexpr int kTile = 64, kTileK = 32, kWarp = 32, kFragment = 16, kThreads = 128;
constexpr int kStrideA = kTileK + 8, kStrideB = kTile + 8;  // halves: padded against bank conflicts

using FragmentA = wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, half, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, half, wmma::row_major>;
using FragmentC = wmma::fragment<wmma::accumulator, kFragment, kFragment, kFragment, float>;

// acc += A (32 x kTileK) x B (kTileK x 32); a and b may point to shared or to global memory.
__device__ __forceinline__ void multiply(FragmentC (&acc)[2][2], const half* a, int lda, const half* b, int ldb) {
#pragma unroll
    for (int k = 0; k < kTileK; k += kFragment) {
        FragmentA fragment_a[2];
        FragmentB fragment_b[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            wmma::load_matrix_sync(fragment_a[i], a + static_cast<size_t>(i) * kFragment * lda + k, lda);
            wmma::load_matrix_sync(fragment_b[i], b + static_cast<size_t>(k) * ldb + i * kFragment, ldb);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], fragment_a[i], fragment_b[j], acc[i][j]);
    }
}

// A kRows x kColumns tile, 16 bytes at a time.
template <int kRows, int kColumns, int kStride>
__device__ __forceinline__ void stage(half* shared, const half* __restrict__ global, int ld) {
    constexpr int kPieces = kColumns / 8;
#pragma unroll
    for (int i = threadIdx.x; i < kRows * kPieces; i += kThreads) {
        const int row = i / kPieces, column = i % kPieces * 8;
        *reinterpret_cast<uint4*>(&shared[row * kStride + column]) =
            *reinterpret_cast<const uint4*>(&global[static_cast<size_t>(row) * ld + column]);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
wmma_operands(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    const int warp = threadIdx.x / 32, row = warp / 2 * kWarp, column = warp % 2 * kWarp;
    a += static_cast<size_t>(blockIdx.y) * kTile * k;
    b += blockIdx.x * kTile;
    c += (static_cast<size_t>(blockIdx.y) * kTile + row) * n + blockIdx.x * kTile + column;
    FragmentC acc[2][2];
#pragma unroll
    for (auto& line : acc)
#pragma unroll
        for (auto& fragment : line) wmma::fill_fragment(fragment, 0.0f);
#if SOURCE == SOURCE_SHARED
    __shared__ __align__(128) half tile_a[kTile * kStrideA], tile_b[kTileK * kStrideB];
#endif
    for (int at = 0; at < k; at += kTileK) {
        const half* next_b = b + static_cast<size_t>(at) * n;
#if SOURCE == SOURCE_SHARED
        stage<kTile, kTileK, kStrideA>(tile_a, a + at, k);
        stage<kTileK, kTile, kStrideB>(tile_b, next_b, n);
        __syncthreads();
        multiply(acc, &tile_a[row * kStrideA], kStrideA, &tile_b[column], kStrideB);
        __syncthreads();  // nobody may overwrite what another warp still reads
#else
        multiply(acc, a + static_cast<size_t>(row) * k + at, k, next_b + column, n);
#endif
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(&c[static_cast<size_t>(i) * kFragment * n + j * kFragment], acc[i][j], n,
                                    wmma::mem_row_major);
}
