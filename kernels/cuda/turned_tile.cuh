// A warpgroup's part of C = A x B in bf16, computed as C^T = B^T x A^T: the counterpart of WarpgroupTile
// (wgmma_tile.cuh) over the same stages in shared memory. wgmma's 64 rows lie along n, and along m a tile may have any
// multiple of 8 rows: tiles that suit a shape and a number of SMs.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cp_async.cuh"
#include "pack.cuh"
#include "stmatrix.cuh"
#include "swizzle.cuh"
#include "tma.cuh"
#include "warpgroup.cuh"
#include "wgmma.cuh"
#include "wgmma_sizes.cuh"
#include "wgmma_tile.cuh"

namespace ncubble {

// kRows rows and kBlocks x 64 columns of C, in the registers of a warpgroup: block by block units of 8 rows x 64
// columns, four floats of each thread. kSliced: units that lie in no pairs are stored, too.
template <int kRows, int kBlocks, bool kSliced = false>
struct TurnedTile {
    static constexpr int kUnitsDown = kRows / 8, kUnits = kBlocks * kUnitsDown;
    // Of a box of C: boxes of 8 rows where 16 leave a rest.
    static constexpr int kHeight = kSliced || kRows % kBoxRows ? 8 : kBoxRows;
    static constexpr int kBufferRows = 64;

    float acc[kBlocks][kRows / 2];

    // Starts the products of one stage as one group. a: the warpgroup's first row; b: its first block.
    __device__ __forceinline__ void multiply(const unsigned char* a, const unsigned char* b, bool accumulate) {
        const uint64_t rows = wgmma_descriptor_k(a);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kTileK / 16; ++step) {
#pragma unroll
            for (int block = 0; block < kBlocks; ++block) {
                const uint64_t columns = wgmma_descriptor_mn(b + block * kBlockBytes, kBlockBytes);
                wgmma_of_size<Major::kMN, Major::kK>(acc[block], wgmma_advance<Major::kMN>(columns, step),
                                                     wgmma_advance<Major::kK>(rows, step), accumulate || step > 0);
            }
        }
        wgmma_commit();
    }

    // After the wait for the last product, before acc is read.
    __device__ __forceinline__ void pin() {
#pragma unroll
        for (auto& block : acc) wgmma_pin(block);
    }

    // Rounds the warpgroup's part to bf16 and stores it at (row, column) of C, through kBuffers buffers of 64 rows x 64
    // columns of the warpgroup's own; of a sliced one the units from kFirst to before kLast, once. It meets at the named
    // barrier with its number, which is not 0. Its first thread leaves the stores in flight: tma_store_wait_read<0>()
    // before the memory is used otherwise or the CTA ends.
    template <int kBuffers, int kFirst = 0, int kLast = kUnits>
    __device__ __forceinline__ void store(const TensorMap& map, unsigned char* buffers, int row, int column) const {
        const int barrier = threadIdx.x / kWarpgroup;
        const bool first = threadIdx.x % kWarpgroup == 0;
        constexpr int kPieces = (kRows + kBufferRows - 1) / kBufferRows;  // per block
        constexpr int kRest = kBlocks * kPieces % kBuffers;  // buffers that were used once more than the others
#pragma unroll
        for (int piece = 0; piece < kBlocks * kPieces; ++piece) {
            const int block = piece / kPieces, start = block * kUnitsDown;
            const int top = max(piece % kPieces * kBufferRows, (kFirst - start) * 8);
            const int rows = min((piece % kPieces + 1) * kBufferRows, min(kRows, (kLast - start) * 8)) - top;
            if (rows <= 0) continue;
            unsigned char* buffer = buffers + piece % kBuffers * kBufferRows * kRowBytes;
            if (first) tma_store_wait_buffer<kBuffers, kRest>(piece);
            named_barrier_sync(barrier, kWarpgroup);
            write(buffer, &acc[block][top / 2], rows);
            fence_async_proxy();
            named_barrier_sync(barrier, kWarpgroup);
            if (first) {
#pragma unroll
                for (int below = 0; below < rows; below += kHeight)
                    tma_store(map, buffer + below * kRowBytes, column + block * kBlockColumns, row + top + below);
                tma_store_commit();
            }
        }
        __syncwarp();  // wgmma and stmatrix want whole warps
    }

   private:
    // The warp's 16 columns of `rows` rows: matrices of 8 x 8, turned on their way.
    __device__ __forceinline__ void write(unsigned char* buffer, const float* d, int rows) const {
        const int lane = threadIdx.x % 32, piece = threadIdx.x / 32 % 4 * 2 + lane / 8 % 2;
        const uint32_t start = shared_address(buffer) + swizzled<kRowBytes>(lane / 16 * 8 + lane % 8, piece * kPiece);
#pragma unroll
        for (int top = 0; top < rows; top += 16, d += 8) {
            const uint32_t upper[2] = {pack<__nv_bfloat16>(d[0], d[1]), pack<__nv_bfloat16>(d[2], d[3])};
            if (rows - top >= 16) {
                const uint32_t both[4] = {upper[0], upper[1], pack<__nv_bfloat16>(d[4], d[5]),
                                          pack<__nv_bfloat16>(d[6], d[7])};
                stmatrix_x4_turned(start + top * kRowBytes, both);
            } else {
                stmatrix_x2_turned(start + top * kRowBytes, upper);
            }
        }
    }
};

}  // namespace ncubble
