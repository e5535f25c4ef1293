// The consumers of attention_fp8: a warpgroup each, 64 rows of the query tile. A: the AttentionFp8 they work for.
#pragma once

#include "attention_fp8_values.cuh"
#include "attention_softmax.cuh"
#include "attention_tiles.cuh"
#include "mbarrier.cuh"
#include "warpgroup.cuh"
#include "wgmma_fp8.cuh"

namespace ncubble {

struct AttentionScales {
    const float *q, *k, *v;  // of every head
};

// The descriptor of a K-major tile whose rows are kRowBytes (64 or 128) long, with TMA's swizzle of as many bytes.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor
template <int kRowBytes>
__device__ __forceinline__ uint64_t wgmma_descriptor_rows(const void* tile) {
    static_assert(kRowBytes == 64 || kRowBytes == 128);
    constexpr uint64_t kSwizzle64 = uint64_t{2} << 62;
    const uint64_t descriptor = wgmma_descriptor(tile, 16, 8 * kRowBytes);
    return kRowBytes == 128 ? descriptor : descriptor ^ kSwizzle128 ^ kSwizzle64;
}

template <class A>
struct AttentionFp8Consumer {
    typename A::Shared& shared;
    int group;  // 0 .. kConsumers - 1
    Ring<A::kSlots> keys, values;
    int item = 0;  // tiles of keys that were taken: by this number traces know them
    uint32_t query_parity = 0;

    float scores[A::kBlocks][4];          // S, then P in float
    uint32_t operand[A::kBlocks / 4][4];  // P in e4m3, the A operand of P V
    float output[A::kBlocksO][4];
    float part[A::kPromoted ? A::kBlocksO : 1][4];  // P V of one tile

    __device__ __forceinline__ AttentionFp8Consumer(typename A::Shared& shared, int group)
        : shared(shared), group(group) {}

    template <int kCount>
    __device__ __forceinline__ static auto flat(float (&blocks)[kCount][4]) -> float (&)[kCount * 4] {
        return reinterpret_cast<float(&)[kCount * 4]>(blocks);
    }

    // Where tensor cores leave P V.
    __device__ __forceinline__ auto product() -> float (&)[A::kBlocksO * 4] {
        if constexpr (A::kPromoted) {
            return flat(part);
        } else {
            return flat(output);
        }
    }

    // Turns: a consumer issues products only when the one before it has issued its own.
    __device__ __forceinline__ void await_turn() const { named_barrier_sync(1 + group, 2 * kWarpgroup); }
    __device__ __forceinline__ void pass_turn() const {
        named_barrier_arrive(1 + (group + 1) % A::kConsumers, 2 * kWarpgroup);
    }

    // Lane 0 reads the number for its warp: it is the lane that hands the query slot back.
    __device__ __forceinline__ int await_tile() {
        mbarrier_wait(shared.query_slot.full, query_parity);
        const int index = threadIdx.x % 32 == 0 ? shared.tile : A::kEnd;
        return __shfl_sync(0xffffffffu, index, 0);
    }

    __device__ __forceinline__ void await_keys() { mbarrier_wait(&shared.key_slot.full[keys.slot], keys.parity); }
    __device__ __forceinline__ void await_values() {
        mbarrier_wait(&shared.value_slot.full[values.slot], values.parity);
    }

    // S = Q K^T for the tile of keys in `slot`.
    __device__ __forceinline__ void issue_scores(uint32_t slot) {
        const uint64_t q = wgmma_descriptor_rows<A::kHeadDimension>(shared.query + group * 64 * A::kHeadDimension);
        const uint64_t k = wgmma_descriptor_rows<A::kHeadDimension>(shared.key[slot]);
#pragma unroll
        for (int step = 0; step < A::kHeadDimension / 32; ++step)
            wgmma_e4m3(flat(scores), wgmma_advance<Major::kK>(q, step), wgmma_advance<Major::kK>(k, step), step > 0);
        wgmma_commit();
    }

    // P V for the turned tile of values in `slot`, added to what is there or not.
    __device__ __forceinline__ void issue_product(uint32_t slot, bool accumulate) {
        constexpr int kSteps = A::kPanelKeys / 32;  // in a panel
        const uint64_t v = wgmma_descriptor_rows<A::kPanelKeys>(shared.value[slot]);
#pragma unroll
        for (int step = 0; step < A::kBlocks / 4; ++step) {
            const uint64_t panel = v + step / kSteps * (A::kPanelKeys * A::kHeadDimension >> 4);
            wgmma_e4m3(product(), operand[step], wgmma_advance<Major::kK>(panel, step % kSteps),
                       step > 0 || (!A::kPromoted && accumulate));
        }
        wgmma_commit();
    }

    // Promoted: O of the tiles before is corrected, and the last tile's product added.
    __device__ __forceinline__ void add_part(const float (&correction)[2]) {
#pragma unroll
        for (int j = 0; j < A::kBlocksO; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) output[j][i] = fmaf(output[j][i], correction[i / 2], part[j][i]);
    }

    __device__ __forceinline__ void run(const typename A::Order& order, const AttentionScales& scales,
                                        __nv_bfloat16* out) {
        BUBBLE_WARP(probe, computer);
        if (group == A::kConsumers - 1) pass_turn();  // the first turn is consumer 0's
        for (;; query_parity ^= 1) {
            int index;
            BUBBLE_STEP(probe, wait_data, item, index = await_tile());
            if (index == A::kEnd) break;
            const QueryTile tile = order[index];
            const float scale = A::kScale * scales.q[tile.head] * scales.k[tile.head];
            attend(tile, order.tokens, scale, scales.v + tile.head, out BUBBLE_PASS(probe));
        }
        if (group == 0) await_turn();  // the last turn passed to it, so that no barrier is left half full
    }

    __device__ __forceinline__ void attend(const QueryTile& tile, int tokens, float scale, const float* scale_v,
                                           __nv_bfloat16* out BUBBLE_TAKE(probe)) {
        const int group_row = tile.first_row + group * 64;
        const int warp_row = group_row + threadIdx.x % kWarpgroup / 32 * 16;
        const int row = warp_row + threadIdx.x % 32 / 4;
        const int limit[2] = {key_limit<A::kIsCausal>(row, tokens), key_limit<A::kIsCausal>(row + 8, tokens)};
        const int common_limit = key_limit<A::kIsCausal>(group_row, tokens);  // keys that all rows of it see
        OnlineSoftmax<0, A::kBias, A::kPolynomials> softmax;
        float correction[2];
        if constexpr (A::kPromoted)
#pragma unroll
            for (int j = 0; j < A::kBlocksO * 4; ++j) flat(output)[j] = 0.0f;

        // The first tile of keys has nothing to overlap with in its own warpgroup.
        const int last = tile.key_tiles - 1;
        BUBBLE_STEP(probe, wait_data, item, await_keys());
        BUBBLE_STEP(probe, compute, item, wgmma_fence());
        issue_scores(keys.slot);
        BUBBLE_STEP(probe, wait_mma, item, wgmma_wait<0>());
        wgmma_pin(flat(scores));
        BUBBLE_STEP(probe, softmax, item);
        mbarrier_arrive_warp(&shared.key_slot.empty[keys.slot]);
        keys.next();
        if ((last + 1) * A::kTileKeys > common_limit) mask_keys(scores, last * A::kTileKeys, limit);
        softmax.absorb(scores, scale, correction);
        to_operand_e4m3(scores, operand);

        if (last > 0) BUBBLE_STEP(probe, wait_data, item, await_keys());
        for (int i = last - 1; i >= 0; --i, ++item) {
            const uint32_t slot = keys.slot;  // filled: waited for at the end of the step before
            keys.next();
            BUBBLE_STEP(probe, wait_sync, item, await_turn());
            BUBBLE_STEP(probe, compute, item, wgmma_fence());
            issue_scores(slot);
            BUBBLE_STEP(probe, wait_data, item, await_values());
            BUBBLE_STEP(probe, compute, item, issue_product(values.slot, i < last - 1));
            pass_turn();
            BUBBLE_STEP(probe, wait_mma, item, wgmma_wait<1>());
            wgmma_pin(flat(scores));
            BUBBLE_STEP(probe, softmax, item);
            mbarrier_arrive_warp(&shared.key_slot.empty[slot]);
            if (i == 0) mbarrier_arrive_warp(shared.query_slot.empty);
            if (A::kMaskedTiles > 1 && (i + 1) * A::kTileKeys > common_limit)
                mask_keys(scores, i * A::kTileKeys, limit);
            const float before[2] = {correction[0], correction[1]};
            softmax.absorb(scores, scale, correction);
            // What comes next, waited for here and not where it is used: the branch keeps the assembler from moving
            // the wait for P V, which follows, before the softmax that is to run beside it.
            if (i > 0) BUBBLE_STEP(probe, wait_data, item, await_keys());
            BUBBLE_STEP(probe, wait_mma, item, wgmma_wait<0>());
            wgmma_pin(product());
            wgmma_pin(flat(scores));  // P V has read the operand until here: the new one must not be made earlier
            BUBBLE_STEP(probe, softmax, item);
            mbarrier_arrive_warp(&shared.value_slot.empty[values.slot]);
            values.next();
            to_operand_e4m3(scores, operand);
            if constexpr (A::kPromoted) {
                add_part(before);
            } else {
                rescale<0>(output, correction);
            }
        }
        if (last == 0) mbarrier_arrive_warp(shared.query_slot.empty);
        BUBBLE_STEP(probe, wait_data, item, await_values());
        BUBBLE_STEP(probe, compute, item, wgmma_fence());
        issue_product(values.slot, last > 0);
        float inverse[2];
        softmax.inverse_sums(inverse);
        BUBBLE_STEP(probe, wait_mma, item, wgmma_wait<0>());
        wgmma_pin(product());
        BUBBLE_STEP(probe, store, item);
        mbarrier_arrive_warp(&shared.value_slot.empty[values.slot]);
        values.next();
        ++item;
        if constexpr (A::kPromoted) add_part(correction);
        for (float& factor : inverse) factor *= *scale_v;
        scale_rows(output, inverse);
        const size_t first = static_cast<size_t>(tile.head) * tokens + warp_row;
        store_interleaved(out + first * A::kHeadDimension, output, tokens - warp_row);
    }
};

}  // namespace ncubble
