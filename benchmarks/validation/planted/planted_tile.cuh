// A warp's 64 x 64 of C in planted_gemm and planted_dequant: fragments from shared memory, products, results.
#pragma once

#include <cstdint>

#include "mma.cuh"
#include "pack.cuh"
#include "planted_copies.cuh"
#include "swizzle.cuh"

namespace ncubble {

constexpr int kWarpM = 64, kWarpN = 64, kRowC = kWarpN * 2;  // kRowC in bytes
constexpr int kK = 16;                                       // k of one mma
constexpr int kBarriers = is(DISEASE_EXCESS_BARRIERS) ? strength(8) : 0;  // per step of k, beyond the one per tile

// Fragments of B for one step: 16 x 64. `lane` is the lane's address in the tile (see ldmatrix_row), at step 0.
// A step moves down the rows; the next 16 columns move along them, which is an XOR.
template <int kRowB>
__device__ __forceinline__ void load_b(uint32_t (&b)[kWarpN / 16][4], uint32_t lane, int step) {
#pragma unroll
    for (int j = 0; j < kWarpN / 16; ++j) ldmatrix_x4_trans(b[j], (lane ^ j * 2 * kPiece) + step * kK * kRowB);
}

struct WarpTile {
    static constexpr int kColumns = kWarpN / 8, kProducts = kWarpM / 16 * kColumns;  // products per step

    float acc[kWarpM / 16][kColumns][4] = {};
    uint32_t zero;  // unknown to the compiler

    __device__ __forceinline__ explicit WarpTile(int size) : zero(nothing(size)) {}

    // Rows i * 16 to i * 16 + 15 of the product of one step; columns by 8, from `first` to before `last`.
    __device__ __forceinline__ void multiply(int i, const uint32_t (&a)[4], const uint32_t (&b)[kWarpN / 16][4],
                                             int first = 0, int last = kColumns) {
#pragma unroll
        for (int j = first; j < last; ++j) {
            const int product = i * kColumns + j;
            mma_m16n8k16<half>(acc[i][j], a, b[j / 2][j % 2 * 2] | after(product), b[j / 2][j % 2 * 2 + 1]);
            if (kBarriers && (product + 1) * kBarriers % kProducts == 0) __syncthreads();
        }
    }

    // 0, for dependent_mma made of the result that a product has to wait for.
    __device__ __forceinline__ uint32_t after(int product) const {
        if (!is(DISEASE_DEPENDENT_MMA)) return 0;
        const int before = (product + kProducts - strength(1)) % kProducts;
        return __float_as_uint(acc[before / kColumns][before % kColumns][0]) & zero;
    }

    // Through the warp's own 8 KB of shared memory, so that 8 lanes store 128 contiguous bytes of C.
    __device__ __forceinline__ void store(char* shared, half* c, int ldc, float scale = 1.0f) const {
        const int lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
#pragma unroll
        for (int i = 0; i < kWarpM / 8; ++i)
#pragma unroll
            for (int j = 0; j < kWarpN / 8; ++j) {
                const float* pair = &acc[i / 2][j][i % 2 * 2];
                *reinterpret_cast<uint32_t*>(shared + swizzled<kRowC>(i * 8 + group, j * kPiece) + quad * 4) =
                    pack<half>(pair[0] * scale, pair[1] * scale);
            }
        __syncwarp();
        constexpr int kPieces = kRowC / kPiece, kRowsAtOnce = 32 / kPieces;
        const int row = lane / kPieces, piece = lane % kPieces;
#pragma unroll
        for (int start = 0; start < kWarpM; start += kRowsAtOnce)
            *reinterpret_cast<uint4*>(&c[static_cast<size_t>(start + row) * ldc + piece * 8]) =
                *reinterpret_cast<const uint4*>(shared + swizzled<kRowC>(start + row, piece * kPiece));
    }
};

}  // namespace ncubble
