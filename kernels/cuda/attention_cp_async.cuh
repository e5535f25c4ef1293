// The path of attention_fwd for every GPU from Ampere on: cp.async brings tiles of K and V into a ring, ldmatrix and
// mma.sync multiply. 4 warps of 32 query rows each; two CTAs to an SM, so that one multiplies while the other is in its
// softmax.
//
// A warp's two 16-row halves share every fragment of K and V: with 16 rows per warp the fragment loads alone would take
// longer than the products.
#pragma once

#include "attention_softmax.cuh"
#include "attention_tiles.cuh"
#include "cp_async.cuh"
#include "mma.cuh"
#include "swizzle.cuh"

namespace ncubble {

template <int kHeadDim, int kKeys, int kSlots, bool kCausal, int kSlack, int kGroup>
struct AttentionCpAsync {
    static constexpr int kWarps = 4, kThreads = 32 * kWarps;
    static constexpr int kHalves = 2;  // of 16 rows, per warp
    static constexpr int kRows = kWarps * kHalves * 16;
    static constexpr int kRowBytes = kHeadDim * 2;
    static constexpr uint32_t kQueryBytes = kRows * kRowBytes, kSlotBytes = kKeys * kRowBytes;
    static constexpr int kBlocks = kKeys / 8, kBlocksO = kHeadDim / 8;
    static constexpr float kScale = attention_scale(kHeadDim);
    static_assert(kSlots >= 2, "one slot cannot be filled while it is read");

    using Order = TileOrder<kRows, kKeys, kHeadDim, kCausal, kGroup>;

    // Copies kCount rows of kHeadDim elements, row-major, to swizzled shared memory. Rows from `rows` on do not exist:
    // the last one stands in for them, which is as good as any finite number, because such keys are masked and such
    // queries not stored.
    template <int kCount>
    __device__ __forceinline__ static void copy_rows(unsigned char* shared, const __nv_bfloat16* global, int rows) {
        constexpr int kPieces = kRowBytes / kPiece, kRowsAtOnce = kThreads / kPieces;
        static_assert(kRowsAtOnce % 8 == 0, "a thread keeps its place within the swizzle");
        const int row = threadIdx.x / kPieces, column = threadIdx.x % kPieces * kPiece;
        const char* source = reinterpret_cast<const char*>(global) + column;
        unsigned char* target = shared + swizzled<kRowBytes>(row, column);
#pragma unroll
        for (int start = 0; start < kCount; start += kRowsAtOnce)
            cp_async<kPiece>(target + start * kRowBytes,
                             source + static_cast<size_t>(min(row + start, rows - 1)) * kRowBytes);
    }

    // Where this lane reads with ldmatrix: its address in the 16 x 16 tile at row 0, column 0, and the others from
    // there.
    struct Fragments {
        uint32_t lane_address;

        __device__ __forceinline__ explicit Fragments(const unsigned char* shared)
            : lane_address(shared_address(shared) + swizzled<kRowBytes>(ldmatrix_row(threadIdx.x % 32),
                                                        ldmatrix_half(threadIdx.x % 32) * kPiece)) {}

        // The tile at (row, column), multiples of 16. The XOR stays within 128 bytes, to which every row is aligned.
        __device__ __forceinline__ uint32_t at(int row, int column) const {
            return (lane_address ^ column * 2 % 128) + column * 2 / 128 * 128 + row * kRowBytes;
        }
    };

    struct Warp {
        float scores[kHalves][kBlocks][4];
        uint32_t operand[kHalves][kBlocks / 2][4];
        float output[kHalves][kBlocksO][4];

        // S = Q K^T for the warp's rows.
        __device__ __forceinline__ void multiply_keys(const Fragments& queries, const Fragments& keys) {
#pragma unroll
            for (auto& half : scores)
#pragma unroll
                for (auto& block : half)
#pragma unroll
                    for (float& score : block) score = 0.0f;
#pragma unroll
            for (int d = 0; d < kHeadDim; d += 16) {
                uint32_t q[kHalves][4];
#pragma unroll
                for (int half = 0; half < kHalves; ++half) ldmatrix_x4(q[half], queries.at(16 * half, d));
#pragma unroll
                for (int j = 0; j < kBlocks; j += 2) {
                    uint32_t k[4];  // rows of K run along d: keys 0..7 and 8..15 at d, then both at d + 8
                    ldmatrix_x4(k, keys.at(8 * j, d));
#pragma unroll
                    for (int half = 0; half < kHalves; ++half) {
                        mma_m16n8k16<__nv_bfloat16>(scores[half][j], q[half], k[0], k[2]);
                        mma_m16n8k16<__nv_bfloat16>(scores[half][j + 1], q[half], k[1], k[3]);
                    }
                }
            }
        }

        // O += P V.
        __device__ __forceinline__ void multiply_values(const Fragments& values) {
#pragma unroll
            for (int i = 0; i < kBlocks / 2; ++i)
#pragma unroll
                for (int j = 0; j < kBlocksO; j += 2) {
                    uint32_t v[4];
                    ldmatrix_x4_trans(v, values.at(16 * i, 8 * j));
#pragma unroll
                    for (int half = 0; half < kHalves; ++half) {
                        mma_m16n8k16<__nv_bfloat16>(output[half][j], operand[half][i], v[0], v[1]);
                        mma_m16n8k16<__nv_bfloat16>(output[half][j + 1], operand[half][i], v[2], v[3]);
                    }
                }
        }
    };

    __device__ __forceinline__ static void run(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                                               const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ out,
                                               int heads, int tokens) {
        extern __shared__ __align__(1024) unsigned char query[];
        unsigned char* ring = query + kQueryBytes;
        BUBBLE_WARP(probe, warp);
        const QueryTile tile = Order(heads, tokens)[blockIdx.x];
        const size_t head = static_cast<size_t>(tile.head) * tokens * kHeadDim;
        const size_t shared_head = static_cast<size_t>(tile.head / kGroup) * tokens * kHeadDim;  // of K and V

        // Items of the ring: K and V of the last tile of keys, K and V of the one before, ... One group is committed
        // per call, empty past the last item, so that counting groups counts items.
        const int items = 2 * tile.key_tiles;
        auto issue = [&](int item) {
            if (item < items) {
                const int first = (tile.key_tiles - 1 - item / 2) * kKeys;
                copy_rows<kKeys>(ring + item % kSlots * kSlotBytes,
                                 (item % 2 ? v : k) + shared_head + static_cast<size_t>(first) * kHeadDim, tokens - first);
            }
            cp_async_commit();
        };
        BUBBLE_STEP(probe, load, 0);
        copy_rows<kRows>(query, q + head + static_cast<size_t>(tile.first_row) * kHeadDim, tokens - tile.first_row);
        for (int item = 0; item < kSlots - 1; ++item)  // the first group brings Q, too
            BUBBLE_STEP(probe, load, item, issue(item));

        const int row = threadIdx.x / 32 * 16 * kHalves;  // of the warp, within the tile
        const int warp_row = tile.first_row + row, lane_row = warp_row + threadIdx.x % 32 / 4;
        const Fragments queries(query + row * kRowBytes);
        OnlineSoftmax<kSlack> softmax[kHalves];
        Warp warp;
#pragma unroll
        for (auto& half : warp.output)
#pragma unroll
            for (auto& block : half)
#pragma unroll
                for (float& value : block) value = 0.0f;

        // Item t is there for all, and the slot of item t - 1 is free: it is filled with item t + kSlots - 1.
        auto next_item = [&](int item) {
            BUBBLE_STEP(probe, wait_data, item, cp_async_wait<kSlots - 2>());
            BUBBLE_STEP(probe, wait_sync, item, __syncthreads());
            BUBBLE_STEP(probe, load, item + kSlots - 1, issue(item + kSlots - 1));
            BUBBLE_STEP(probe, compute, item);
            return Fragments(ring + item % kSlots * kSlotBytes);
        };
        for (int item = 0; item < items; item += 2) {
            const int first_key = (tile.key_tiles - 1 - item / 2) * kKeys;
            warp.multiply_keys(queries, next_item(item));
            BUBBLE_STEP(probe, softmax, item);
            const bool masked = first_key + kKeys > key_limit<kCausal>(warp_row, tokens);
#pragma unroll
            for (int half = 0; half < kHalves; ++half) {
                const int upper = lane_row + 16 * half;
                const int limit[2] = {key_limit<kCausal>(upper, tokens), key_limit<kCausal>(upper + 8, tokens)};
                if (masked) mask_keys(warp.scores[half], first_key, limit);
                float correction[2];
                softmax[half].absorb(warp.scores[half], kScale, correction);
                to_operand(warp.scores[half], warp.operand[half]);
                rescale<kSlack>(warp.output[half], correction);
            }
            warp.multiply_values(next_item(item + 1));
        }
        BUBBLE_STEP(probe, store, items);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            float inverse[2];
            softmax[half].inverse_sums(inverse);
            scale_rows(warp.output[half], inverse);
            const int first = warp_row + 16 * half;
            store_rows(out + head + static_cast<size_t>(first) * kHeadDim, warp.output[half], tokens - first);
        }
    }
};

}  // namespace ncubble
