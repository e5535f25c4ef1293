// The consumers of attention_fp8: a warpgroup each, 64 rows of the query tile. A: the AttentionFp8 they work for.
//
// A step of the loop issues S of a tile and P V of the tile before it. The maximum of S is found beside P V. Then come
// exponentials, conversion, row sums and the update of O as one run of instructions without a branch, whose FMA and ALU
// work fits between the exponentials. Tensor cores meanwhile work for other consumers, which are at other places of
// their loops: they share nothing but slots, and the rings let one of them be a tile ahead. Turns at the tensor cores,
// as attention_fwd takes them, made the others wait.
#pragma once

#include "attention_fp8_softmax.cuh"
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

// Descriptors of K-major tiles whose rows are kRowBytes (64 or 128) long, with TMA's swizzle of as many bytes. Only the
// lower word, the address, is kept in registers.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor
__device__ __forceinline__ uint32_t descriptor_address(const void* tile) {
    return static_cast<uint32_t>(wgmma_descriptor(tile, 16, 0));
}
template <int kRowBytes>
__device__ __forceinline__ uint64_t descriptor_of_rows(uint32_t address) {
    static_assert(kRowBytes == 64 || kRowBytes == 128);
    constexpr uint64_t kSwizzle = kRowBytes == 128 ? kSwizzle128 : uint64_t{2} << 62;
    constexpr uint64_t kStride = 8 * kRowBytes >> 4;  // from 8 rows to the next
    return kSwizzle | kStride << 32 | address;
}

template <class A>
struct AttentionFp8Consumer {
    static constexpr int kSteps = A::kBlocks / 4;                         // of 32 keys: an A operand of P V
    static constexpr int kShare = (A::kBlocksO + kSteps - 1) / kSteps;  // blocks of O that are updated in a step

    typename A::Shared& shared;
    int group;  // 0 .. kConsumers - 1
    Ring<A::kSlots> keys, values;
    int item = 0;  // tiles of keys that were taken: by this number traces know them
    uint32_t query_parity = 0;
    uint32_t query_address, key_address;  // as in descriptors; tiles of values follow those of keys

    float scores[A::kBlocks][4];  // S, then P in float
    uint32_t operand[kSteps][4];  // P in e4m3
    float output[A::kBlocksO][4];
    float part[A::kPromoted ? A::kBlocksO : 1][4];  // P V of one tile
    AttentionFp8Softmax<A> softmax;

    __device__ __forceinline__ AttentionFp8Consumer(typename A::Shared& shared, int group)
        : shared(shared),
          group(group),
          query_address(descriptor_address(shared.query + group * 64 * A::kHeadDimension)),
          key_address(descriptor_address(shared.key[0])) {}

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
    __device__ __forceinline__ bool keys_are_there() const {
        return mbarrier_test_wait(&shared.key_slot.full[keys.slot], keys.parity);
    }
    __device__ __forceinline__ bool values_are_there() const {
        return mbarrier_test_wait(&shared.value_slot.full[values.slot], values.parity);
    }

    // S = Q K^T for the tile of keys in `slot`.
    __device__ __forceinline__ void issue_scores(uint32_t slot) {
        // P in float ends here. Taken for the accumulators' input, a P that other registers hold (polynomials) makes
        // the assembler serialize all products (C7511), though the first one overwrites them.
#pragma unroll
        for (float& value : flat(scores)) asm volatile("" : "=f"(value));
        const uint64_t q = descriptor_of_rows<A::kHeadDimension>(query_address);
        const uint64_t k = descriptor_of_rows<A::kHeadDimension>(key_address + slot * (A::kTileBytes >> 4));
#pragma unroll
        for (int step = 0; step < A::kHeadDimension / 32; ++step)
            wgmma_e4m3(flat(scores), wgmma_advance<Major::kK>(q, step), wgmma_advance<Major::kK>(k, step), step > 0);
        wgmma_commit();
    }

    // P V for the turned tile of values in `slot`, added to what is there or not.
    __device__ __forceinline__ void issue_product(uint32_t slot, bool accumulate) {
        constexpr int kPanelSteps = A::kPanelKeys / 32;
        const uint32_t address = key_address + (A::kSlots + slot) * (A::kTileBytes >> 4);
        const uint64_t v = descriptor_of_rows<A::kPanelKeys>(address);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            const uint64_t panel = v + step / kPanelSteps * (A::kPanelKeys * A::kHeadDimension >> 4);
            wgmma_e4m3(product(), operand[step], wgmma_advance<Major::kK>(panel, step % kPanelSteps),
                       step > 0 || (!A::kPromoted && accumulate));
        }
        wgmma_commit();
    }

    __device__ __forceinline__ void make_operand(int step) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const float *left = &scores[4 * step + 2 * half][2 * row], *right = left + 4;
                operand[step][2 * half + row] = pack_e4m3(left[0], left[1], right[0], right[1]);
            }
    }

    // A share of O. Promoted: the last tile's product is added to what the tiles before left, corrected by `before`.
    // Else O holds that product: it is corrected for the tile that comes.
    __device__ __forceinline__ void update_output(int step, const float (&before)[2]) {
#pragma unroll
        for (int j = step * kShare; j < (step + 1) * kShare && j < A::kBlocksO; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (A::kPromoted) {
                    output[j][i] = fmaf(output[j][i], before[i / 2], part[j][i]);
                } else {
                    output[j][i] *= softmax.correction[i / 2];
                }
            }
    }

    __device__ __forceinline__ void run(const typename A::Order& order, const AttentionScales& scales,
                                        __nv_bfloat16* out) {
        BUBBLE_WARP(probe, math);
        for (;; query_parity ^= 1) {
            int index;
            BUBBLE_STEP(probe, wait_data, item, index = await_tile());
            if (index == A::kEnd) break;
            QueryTile tile = order[index];
            tile.head = __shfl_sync(~0u, tile.head, 0);  // alike in all lanes: a uniform register holds it in the loop
            const float scale = A::kScale * scales.q[tile.head] * scales.k[tile.head];
            attend(tile, order.tokens, scale, scales.v + tile.head, out BUBBLE_PASS(probe));
        }
    }

    __device__ __forceinline__ void attend(const QueryTile& tile, int tokens, float scale, const float* scale_v,
                                           __nv_bfloat16* out BUBBLE_TAKE(probe)) {
        const int group_row = tile.first_row + group * 64;
        const int warp_row = group_row + threadIdx.x % kWarpgroup / 32 * 16;
        const int row = warp_row + threadIdx.x % 32 / 4;
        const int limit[2] = {key_limit<A::kIsCausal>(row, tokens), key_limit<A::kIsCausal>(row + 8, tokens)};
        const int common_limit = key_limit<A::kIsCausal>(group_row, tokens);  // keys that all rows of it see
        softmax.reset();
        if constexpr (A::kPromoted)
#pragma unroll
            for (float& value : flat(output)) value = 0.0f;

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
        // What the next step needs is asked for early and waited for late: the answer comes beside the exponentials.
        bool keys_there = last == 0 || keys_are_there(), values_there = values_are_there();
        softmax.find_max(scores, scale);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            softmax.exponentiate(scores, step, scale);
            softmax.add_row_sums(scores, step);
            make_operand(step);
        }
        softmax.finish_row_sums();

        for (int i = last - 1; i >= 0; --i, ++item) {
            const uint32_t slot = keys.slot;
            if (!keys_there) BUBBLE_STEP(probe, wait_data, item, await_keys());
            keys.next();
            BUBBLE_STEP(probe, compute, item, wgmma_fence());
            issue_scores(slot);
            if (!values_there) BUBBLE_STEP(probe, wait_data, item, await_values());
            BUBBLE_STEP(probe, compute, item, wgmma_fence());  // again: the wait before it branches
            issue_product(values.slot, i < last - 1);
            BUBBLE_STEP(probe, wait_mma, item, wgmma_wait<1>());
            wgmma_pin(flat(scores));
            BUBBLE_STEP(probe, softmax, item);
            mbarrier_arrive_warp(&shared.key_slot.empty[slot]);
            if (i == 0) mbarrier_arrive_warp(shared.query_slot.empty);
            if (A::kMaskedTiles > 1 && (i + 1) * A::kTileKeys > common_limit)
                mask_keys(scores, i * A::kTileKeys, limit);
            const float before[2] = {softmax.correction[0], softmax.correction[1]};
            softmax.find_max(scores, scale);
            BUBBLE_STEP(probe, wait_mma, item, wgmma_wait<0>());
            wgmma_pin(product());
            wgmma_pin(flat(scores));  // P V has read the operand until here: the new one must not be made earlier
            BUBBLE_STEP(probe, softmax, item);
            mbarrier_arrive_warp(&shared.value_slot.empty[values.slot]);
            values.next();
            keys_there = i == 0 || keys_are_there();
            values_there = values_are_there();
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                softmax.exponentiate(scores, step, scale);
                softmax.add_row_sums(scores, step);
                make_operand(step);
                update_output(step, before);
            }
            softmax.finish_row_sums();
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
        if constexpr (A::kPromoted) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) update_output(step, softmax.correction);
        }
        for (float& factor : inverse) factor *= *scale_v;
        scale_rows(output, inverse);
        // Unsigned: the upper word of a sign that cannot be there would take a register in the loop.
        const size_t first = static_cast<size_t>(tile.head) * tokens + static_cast<uint32_t>(warp_row);
        store_interleaved(out + first * A::kHeadDimension, output, tokens - warp_row);
    }
};

}  // namespace ncubble
