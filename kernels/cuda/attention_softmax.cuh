// The part of FlashAttention that is no matrix product, as both paths of attention_fwd use it: mask, online softmax,
// the change of P from accumulator to operand, and the store of O.
//
// Everything works on accumulator fragments float[kBlocks][4], a block being 8 columns wide. With lane = 4 group + quad
// a thread holds of block j: [j][0], [j][1] row `group`, columns 8 j + 2 quad and the next; [j][2], [j][3] the same of
// row `group + 8`. That is the layout of mma.sync m16n8 and, per warp, of wgmma m64nN: the two paths share this file.
// The four lanes of a quad hold the two rows completely.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#define BUBBLE_OWN_TAGS(X) X(softmax)
#include "bubble_probe.cuh"
#include "exp2.cuh"
#include "pack.cuh"

namespace ncubble {

// A score that takes no part. A finite one, so that a row whose first tile is all masked has a difference (0) and no
// NaN; a power of two, so that its product with the scale is exact and the fused multiply-add below gives exactly that
// 0. What such a tile adds to a row is wiped by the factor exp2(-2^100 ...) = 0 when the first real score comes.
constexpr float kMasked = -0x1p100f;

// By which scores are multiplied so that exp2 gives the softmax of Q K^T / sqrt(head_dim).
constexpr float attention_scale(int head_dim) {
    return kLog2E / (head_dim == 128 ? 11.313708498984761f : 8.0f);  // by sqrt(head_dim)
}

template <typename Value, typename Combine>
__device__ __forceinline__ Value combine_quad(Value value, Combine combine) {
    value = combine(value, __shfl_xor_sync(~0u, value, 1));
    return combine(value, __shfl_xor_sync(~0u, value, 2));
}

// Masks the scores of keys >= limit[i] in row group + 8 i. The tile's first column is key `first_key`.
template <int kBlocks>
__device__ __forceinline__ void mask_keys(float (&scores)[kBlocks][4], int first_key, const int (&limit)[2]) {
    const int first_column = first_key + threadIdx.x % 4 * 2;
    const int allowed[2] = {limit[0] - first_column, limit[1] - first_column};
#pragma unroll
    for (int j = 0; j < kBlocks; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (8 * j + i % 2 >= allowed[i / 2]) scores[j][i] = kMasked;
}

// Running maximum and sum of a thread's two rows. The maximum is the whole row's; the sum is of this thread's columns
// only until `inverse_sums`: one reduction over the quad at the end instead of one per tile.
//
// kSlack > 0 lets the maximum lag behind: it follows only where it has grown by more than a factor 2^kSlack in the
// result, so that O needs no rescaling in most tiles. P is then at most 2^kSlack instead of 1: floats and bfloat16 do
// not mind.
template <int kSlack>
struct OnlineSoftmax {
    float max[2], sum[2];

    __device__ __forceinline__ OnlineSoftmax() : max{kMasked, kMasked}, sum{0.0f, 0.0f} {}

    // Turns scores into P = exp2((score - max) * scale) and takes them into the rows' state. What was accumulated
    // before must be multiplied by `correction`, row by row.
    template <int kBlocks>
    __device__ __forceinline__ void absorb(float (&scores)[kBlocks][4], float scale, float (&correction)[2]) {
        static_assert(kBlocks % 2 == 0, "two independent chains per row");
        float offset[2];
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float found = row_max(scores, row);
            const float before = max[row];
            const bool moves = kSlack == 0 || (found - before) * scale > static_cast<float>(kSlack);
            max[row] = moves ? fmaxf(before, found) : before;
            correction[row] = exp2_fast((before - max[row]) * scale);
            offset[row] = max[row] * scale;
        }
        float partial[2][2] = {};
#pragma unroll
        for (int j = 0; j < kBlocks; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                scores[j][i] = exp2_fast(fmaf(scores[j][i], scale, -offset[i / 2]));
                partial[i / 2][j % 2] += scores[j][i];
            }
#pragma unroll
        for (int row = 0; row < 2; ++row) sum[row] = fmaf(sum[row], correction[row], partial[row][0] + partial[row][1]);
    }

    // 1 / sum of the whole rows.
    __device__ __forceinline__ void inverse_sums(float (&inverse)[2]) const {
#pragma unroll
        for (int row = 0; row < 2; ++row)
            inverse[row] = 1.0f / combine_quad(sum[row], [](float a, float b) { return a + b; });
    }

private:
    template <int kBlocks>
    __device__ __forceinline__ static float row_max(const float (&scores)[kBlocks][4], int row) {
        float even = kMasked, odd = kMasked;
#pragma unroll
        for (int j = 0; j < kBlocks; j += 2) {
            even = fmaxf(even, fmaxf(scores[j][2 * row], scores[j][2 * row + 1]));
            odd = fmaxf(odd, fmaxf(scores[j + 1][2 * row], scores[j + 1][2 * row + 1]));
        }
        return combine_quad(fmaxf(even, odd), [](float a, float b) { return fmaxf(a, b); });
    }
};

template <int kBlocks>
__device__ __forceinline__ void scale_rows(float (&acc)[kBlocks][4], const float (&factor)[2]) {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[j][i] *= factor[i / 2];
}

// Brings O to the rows' new maximum. With slack it is seldom needed: then a vote skips it for the whole warp.
template <int kSlack, int kBlocks>
__device__ __forceinline__ void rescale(float (&output)[kBlocks][4], const float (&correction)[2]) {
    if (kSlack == 0 || __any_sync(~0u, correction[0] != 1.0f || correction[1] != 1.0f)) scale_rows(output, correction);
}

// P as A operands: operand[k] covers the 16 columns of blocks 2 k and 2 k + 1. No data moves between threads, because
// two neighbouring accumulator blocks hold exactly the elements that a thread must supply for a 16 x 16 A fragment.
template <int kBlocks>
__device__ __forceinline__ void to_operand(const float (&p)[kBlocks][4], uint32_t (&operand)[kBlocks / 2][4]) {
#pragma unroll
    for (int j = 0; j < kBlocks; ++j)
#pragma unroll
        for (int row = 0; row < 2; ++row)
            operand[j / 2][j % 2 * 2 + row] = pack<__nv_bfloat16>(p[j][2 * row], p[j][2 * row + 1]);
}

// Transposes 4 x 4 words over a quad: lane q gives words[i] = (q, i) and receives words[i] = (i, q).
__device__ __forceinline__ void transpose_quad(uint32_t (&words)[4]) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        const bool high = threadIdx.x & bit;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & bit) continue;
            const uint32_t received = __shfl_xor_sync(~0u, high ? words[i] : words[i | bit], bit);
            (high ? words[i] : words[i | bit]) = received;
        }
    }
}

// Writes a warp's 16 rows of O as bfloat16. `out` is row 0, column 0 of the 16 rows, kBlocks * 8 elements to a row;
// only the first `rows` rows exist. A thread owns 4 bytes here and there; after the transposition it owns 16 in one
// place, and a quad writes 64 contiguous bytes.
template <int kBlocks>
__device__ __forceinline__ void store_rows(__nv_bfloat16* out, const float (&o)[kBlocks][4], int rows) {
    static_assert(kBlocks % 4 == 0, "blocks are exchanged by fours");
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = group + 8 * half;
        uint4* target = reinterpret_cast<uint4*>(out + static_cast<size_t>(row) * kBlocks * 8);
#pragma unroll
        for (int j = 0; j < kBlocks; j += 4) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) words[i] = pack<__nv_bfloat16>(o[j + i][2 * half], o[j + i][2 * half + 1]);
            transpose_quad(words);
            if (row < rows) target[j + quad] = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

}  // namespace ncubble
