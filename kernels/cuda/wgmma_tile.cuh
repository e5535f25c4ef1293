// A warpgroup's part of C = A x B in bf16: what rungs 5 and 6 share. The product of one step along k, and the way to
// global memory.
//
// In shared memory a stage holds A as rows of 64 elements along k, and B as blocks of 64 columns, each block 64 rows of
// k. All rows have 128 bytes, all are swizzled as TMA does with its 128-byte mode, and blocks start at multiples of
// 1024 bytes.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cp_async.cuh"
#include "pack.cuh"
#include "stmatrix.cuh"
#include "swizzle.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

namespace ncubble {

constexpr int kTileK = 64;                                  // elements of a 128-byte row
constexpr int kRowBytes = 128;
constexpr int kBlockRows = 64;                              // rows of C that one wgmma covers
constexpr int kBlockColumns = 64;                           // columns in a 128-byte row of B or C
constexpr int kBlockBytes = kTileK * kRowBytes;             // 64 columns of B, or 64 rows of A
constexpr int kBoxRows = 16;                                // rows of C that a warp holds of a block
constexpr int kBoxBytes = kBoxRows * kRowBytes;             // what a warp stores at once: 16 rows x 64 columns

// kBlocks x 64 rows and kColumns columns of C, in the registers of a warpgroup.
template <int kBlocks, int kColumns>
struct WarpgroupTile {
    static constexpr int kBoxesAcross = kColumns / kBlockColumns;
    static constexpr int kBoxes = kBlocks * kBoxesAcross;  // stores per warp

    float acc[kBlocks][kColumns / 2];

    // Starts the products of one stage as one group: acc = A x B, or += with `accumulate`. a: the warpgroup's first
    // row.
    __device__ __forceinline__ void multiply(const unsigned char* a, const unsigned char* b, bool accumulate) {
        const uint64_t columns = wgmma_descriptor_mn(b, kBlockBytes);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < kTileK / 16; ++step) {
#pragma unroll
            for (int block = 0; block < kBlocks; ++block) {
                const uint64_t rows = wgmma_descriptor_k(a + block * kBlockBytes);
                wgmma<__nv_bfloat16, Major::kK, Major::kMN>(acc[block], wgmma_advance<Major::kK>(rows, step),
                                                            wgmma_advance<Major::kMN>(columns, step),
                                                            accumulate || step > 0);
            }
        }
        wgmma_commit();
    }

    // After the wait for the last product, before acc is read.
    __device__ __forceinline__ void pin() {
#pragma unroll
        for (auto& block : acc) wgmma_pin(block);
    }

    __device__ __forceinline__ void scale(float factor) {
#pragma unroll
        for (auto& block : acc) {
#pragma unroll
            for (float& sum : block) sum *= factor;
        }
    }

    // Rounds the warp's rows to bf16 and stores them at (row, column) of C, the place of the warpgroup's part, box by
    // box through kBuffers boxes of shared memory of the warp's own. Lane 0 leaves the stores in flight:
    // tma_store_wait_read<0>() before the memory is used otherwise or the CTA ends. Parts beyond the edge of C are
    // dropped by the copy engine.
    template <int kBuffers>
    __device__ __forceinline__ void store(const TensorMap& map, unsigned char* buffers, int row, int column) const {
        const int lane = threadIdx.x % 32;
        row += threadIdx.x / 32 % 4 * kBoxRows;
#pragma unroll
        for (int box = 0; box < kBoxes; ++box) {
            const int block = box / kBoxesAcross, across = box % kBoxesAcross;
            unsigned char* buffer = buffers + box % kBuffers * kBoxBytes;
            if (lane == 0) tma_store_wait_buffer<kBuffers, kBoxes % kBuffers>(box);
            __syncwarp();
            write_box(buffer, block, across);
            fence_async_proxy();
            __syncwarp();
            if (lane == 0) {
                tma_store(map, buffer, column + across * kBlockColumns, row + block * kBlockRows);
                tma_store_commit();
            }
        }
        __syncwarp();  // wgmma and stmatrix want whole warps
    }

   private:
    // Writes 16 rows x 64 columns: per stmatrix two matrices below each other, and two more to the right.
    __device__ __forceinline__ void write_box(unsigned char* buffer, int block, int across) const {
        const int lane = threadIdx.x % 32, row = lane % 16, right = lane / 16;
        const uint32_t start = shared_address(buffer);
        const float* d = &acc[block][across * kBlockColumns / 2];
#pragma unroll
        for (int pair = 0; pair < kBlockColumns / 16; ++pair, d += 8) {
            const uint32_t matrices[4] = {pack<__nv_bfloat16>(d[0], d[1]), pack<__nv_bfloat16>(d[2], d[3]),
                                          pack<__nv_bfloat16>(d[4], d[5]), pack<__nv_bfloat16>(d[6], d[7])};
            stmatrix_x4(start + swizzled<kRowBytes>(row, (2 * pair + right) * kPiece), matrices);
        }
    }
};

}  // namespace ncubble
