// How attention_fp8 turns tiles of V: 8-bit wgmma takes operands K-major only, and V lies with its head dimension
// innermost, where the product P V sums over keys.
//
// ldmatrix.trans moves 16-bit elements, here two neighbouring dims of one key. Of keys 0..7 and 8..15 it hands lane
// 4 g + q keys 2 q, 2 q + 1 and 8 + 2 q, 8 + 2 q + 1 of dims 2 g and 2 g + 1. A byte permutation puts the four keys of
// one dim into one register, and stmatrix stores them as bytes 4 q .. 4 q + 3 of a row of that dim.
// - Order of keys within 16: slot 4 q + 2 h + e holds key 8 h + 2 q + e. In that order a thread's accumulators of S,
//   blocks 2 j and 2 j + 1, are what it must supply of the A operand: P needs no exchange between threads.
// - Order of dims within 16: even dims, then odd dims, so that the 8 rows of a store are neighbours and hit all banks.
//   O's columns come out in that order; `store_interleaved` undoes it.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "mma.cuh"
#include "pack.cuh"
#include "stmatrix.cuh"

namespace ncubble {

// The place of 16-byte chunk `chunk` of row `row` where TMA's swizzle of kRowBytes (64 or 128) puts it.
template <int kRowBytes>
__device__ __forceinline__ uint32_t swizzled_chunk(int row, int chunk) {
    static_assert(kRowBytes == 64 || kRowBytes == 128);
    return row * kRowBytes + ((chunk ^ (kRowBytes == 128 ? row % 8 : row / 2 % 4)) << 4);
}

constexpr int kTurnedKeys = 64;  // by one warp

// Turns 64 keys x kHeadDim bytes, number `part` of a tile at shared address `from`, rows of kHeadDim bytes swizzled as
// TMA does, into kHeadDim rows of keys: a tile at `to`, in panels of kPanelKeys keys (64 or 128), swizzled alike.
template <int kHeadDim, int kPanelKeys>
__device__ __forceinline__ void turn_values(uint32_t from, uint32_t to, int part) {
    const int lane = threadIdx.x % 32;
    const int key = part * kTurnedKeys + lane / 8 % 2 * 8 + lane % 8;  // whose row the lane gives the address of
    const uint32_t panel = to + part * kTurnedKeys / kPanelKeys * kPanelKeys * kHeadDim;
    const int first_chunk = part * kTurnedKeys % kPanelKeys / 16;
#pragma unroll 1  // few registers: consumers need them
    for (int column = 0; column < kHeadDim / 16; column += 2) {  // chunks of 16 dims, two at a time
        const uint32_t source = from + swizzled_chunk<kHeadDim>(key, column + lane / 16);
        const uint32_t target = panel + swizzled_chunk<kPanelKeys>(16 * column + lane, first_chunk);
#pragma unroll
        for (int chunk = 0; chunk < kTurnedKeys / 16; chunk += 2) {  // of 16 keys; two loads before the first store
            uint32_t pairs[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) ldmatrix_x4_trans(pairs[i], source + (chunk + i) * 16 * kHeadDim);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                uint32_t rows[4];
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    rows[2 * half] = __byte_perm(pairs[i][2 * half], pairs[i][2 * half + 1], 0x6420);
                    rows[2 * half + 1] = __byte_perm(pairs[i][2 * half], pairs[i][2 * half + 1], 0x7531);
                }
                stmatrix_x4(target ^ (chunk + i) << 4, rows);  // first_chunk is a multiple of 4
            }
        }
    }
}

// Four floats rounded to e4m3 in one register, the first in the lowest byte. Too large ones become 448. With the order
// of keys above, register 2 h + r of an A operand of 64 x 32 holds row r of blocks 2 h and 2 h + 1 of its P.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
__device__ __forceinline__ uint32_t pack_e4m3(float a, float b, float c, float d) {
    uint32_t packed;
    asm("{\n\t.reg .b16 low, high;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n\t"
        "mov.b32 %0, {low, high};\n\t}"
        : "=r"(packed)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return packed;
}

// Writes a warp's 16 rows of O, columns in the order of `turn_values`, as bfloat16: a thread has four neighbours, a
// quad writes 32 contiguous bytes. `out` is row 0, column 0; only the first `rows` rows exist.
template <int kBlocks>
__device__ __forceinline__ void store_interleaved(__nv_bfloat16* out, const float (&o)[kBlocks][4], int rows) {
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = group + 8 * half;
        uint2* target = reinterpret_cast<uint2*>(out + static_cast<size_t>(row) * kBlocks * 8);
        if (row >= rows) continue;
#pragma unroll
        for (int j = 0; j < kBlocks; j += 2)
            target[2 * j + quad] = make_uint2(pack<__nv_bfloat16>(o[j][2 * half], o[j + 1][2 * half]),
                                              pack<__nv_bfloat16>(o[j][2 * half + 1], o[j + 1][2 * half + 1]));
    }
}

}  // namespace ncubble
