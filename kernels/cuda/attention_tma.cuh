// The Hopper path of attention_fwd: a producer warp keeps TMA loads of K and V in flight, 2 (head dim 128) or 3 (64)
// consumer warpgroups of 64 query rows each do S = Q K^T and O += P V with wgmma, persistent over query tiles.
//
// Two overlaps hide the softmax, which has no tensor work, behind the products:
// - between warpgroups: they take turns at issuing products, so that one is in its softmax while another multiplies;
// - within a warpgroup: the products S(i + 1) = Q K(i + 1)^T and O += P(i) V(i) are issued together, and the softmax of
//   S(i + 1) runs while the second is still at work.
//
// What producer and consumers share: one slot with the Q tile and its number, and a ring of kSlots tiles of K and V in
// the order in which they are used: K0, K1, V0, K2, V1 and so on. Each slot has an mbarrier "full" and an mbarrier
// "empty". One named barrier per consumer hands on the turn.
#pragma once

#include "attention_softmax.cuh"
#include "attention_tiles.cuh"
#include "mbarrier.cuh"
#include "tile_counter.cuh"
#include "tma.cuh"
#include "warpgroup.cuh"
#include "wgmma.cuh"

namespace ncubble {

template <int kHeadDim, int kKeys, int kSlots, bool kCausal, int kSlack, int kGroup>
struct AttentionTma {
    static constexpr int kConsumers = kHeadDim == 128 ? 2 : 3;  // warpgroups
    static constexpr int kRows = 64 * kConsumers;
    static constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
    static constexpr int kPanels = kHeadDim / 64;  // a tile lies in panels of 64 columns: rows of 128 bytes, swizzled
    static constexpr int kRowBytes = 128;
    static constexpr uint32_t kQueryPanel = kRows * kRowBytes, kKeyPanel = kKeys * kRowBytes;
    static constexpr uint32_t kQueryBytes = kPanels * kQueryPanel, kSlotBytes = kPanels * kKeyPanel;
    static constexpr int kBlocks = kKeys / 8, kBlocksO = kHeadDim / 8;
    static constexpr int kMaskedTiles = !kCausal || kKeys == kRows ? 1 : 2;  // the last ones of a query tile, at most
    static constexpr int kEnd = -1;  // "no more tiles" in place of a tile number
    static constexpr float kScale = attention_scale(kHeadDim);
    static_assert(kKeyPanel % kAtomBytes == 0 && kQueryPanel % kAtomBytes == 0, "swizzle atoms are 8 whole rows");

    // 65536 registers: 2 x 240 + 24, or 3 x 160 + 32, times 128 threads.
    static constexpr int kProducerRegisters = kConsumers == 2 ? 24 : 32;
    static constexpr int kConsumerRegisters = kConsumers == 2 ? 240 : 160;

    using Order = TileOrder<kRows, kKeys, kHeadDim, kCausal, kGroup>;

    struct Shared {  // the mbarriers lie behind the tiles, so that those start at swizzle atoms
        alignas(kAtomBytes) unsigned char query[kQueryBytes];
        alignas(kAtomBytes) unsigned char ring[kSlots][kSlotBytes];
        uint64_t query_full, query_empty, full[kSlots], empty[kSlots];
        int tile;
    };
    static_assert(sizeof(Shared) == kQueryBytes + kSlots * kSlotBytes + kAtomBytes, "the spec counts on it");

    __device__ static void initialize(Shared& shared) {
        constexpr int kWarps = kConsumers * 4;  // every consumer warp hands slots back for itself
        mbarrier_init(&shared.query_full, 1);
        mbarrier_init(&shared.query_empty, kWarps);
        for (int i = 0; i < kSlots; ++i) {
            mbarrier_init(&shared.full[i], 1);
            mbarrier_init(&shared.empty[i], kWarps);
        }
        mbarrier_init_fence();
    }

    // ---- producer: one thread ----
    struct Producer {
        Shared& shared;
        const TensorMap &map_q, &map_k, &map_v;
        Ring<kSlots> ring;
        int item = 0;  // tiles that went into the ring: by this number traces know them

        __device__ void load_keys(const TensorMap& map, int head, int tile BUBBLE_TAKE(probe)) {
            BUBBLE_POLL(probe, wait_slot, item, mbarrier_wait(&shared.empty[ring.slot], ring.parity ^ 1));
            BUBBLE_STEP(probe, load, item);
            uint64_t* full = &shared.full[ring.slot];
            mbarrier_arrive_expect(full, kSlotBytes);
#pragma unroll
            for (int panel = 0; panel < kPanels; ++panel)
                tma_load(shared.ring[ring.slot] + panel * kKeyPanel, map, full, panel * 64, tile * kKeys,
                         head / kGroup);
            ring.next();
            ++item;
        }

        // Comes behind its first tile of keys, and counts as part of it.
        __device__ void load_query(int index, const QueryTile& tile, uint32_t parity BUBBLE_TAKE(probe)) {
            BUBBLE_POLL(probe, wait_slot, item - 1, mbarrier_wait(&shared.query_empty, parity ^ 1));
            BUBBLE_STEP(probe, load, item - 1);
            shared.tile = index;  // the arrival below makes it visible
            mbarrier_arrive_expect(&shared.query_full, kQueryBytes);
#pragma unroll
            for (int panel = 0; panel < kPanels; ++panel)
                tma_load(shared.query + panel * kQueryPanel, map_q, &shared.query_full, panel * 64, tile.first_row,
                         tile.head);
        }

        // Keys from the last to the first: the masked tile comes first. V follows one step behind K, as the products
        // do.
        __device__ void load_tile(int index, const QueryTile& tile, uint32_t parity BUBBLE_TAKE(probe)) {
            const int last = tile.key_tiles - 1;
            load_keys(map_k, tile.head, last BUBBLE_PASS(probe));
            load_query(index, tile, parity BUBBLE_PASS(probe));
            for (int i = last - 1; i >= 0; --i) {
                load_keys(map_k, tile.head, i BUBBLE_PASS(probe));
                load_keys(map_v, tile.head, i + 1 BUBBLE_PASS(probe));
            }
            load_keys(map_v, tile.head, 0 BUBBLE_PASS(probe));
        }

        __device__ void run(const Order& order) {
            BUBBLE_THREAD(probe, loader);
            claim_tiles();
            uint32_t parity = 0;
            int index = blockIdx.x;
            while (index < order.size()) {
                load_tile(index, order[index], parity BUBBLE_PASS(probe));
                index = next_tile();
                parity ^= 1;
            }
            BUBBLE_POLL(probe, wait_slot, item, mbarrier_wait(&shared.query_empty, parity ^ 1));
            shared.tile = kEnd;
            mbarrier_arrive(&shared.query_full);
            leave_tiles();
        }
    };

    // ---- consumer: a warpgroup, 64 rows of the query tile ----
    struct Consumer {
        Shared& shared;
        int group;  // 0 .. kConsumers - 1
        Ring<kSlots> ring;
        int item = 0;  // tiles that were taken from the ring
        uint32_t query_parity = 0;
        uint64_t query_descriptor;

        float scores[kBlocks][4];         // S, then P in float
        uint32_t operand[kBlocks / 2][4];  // P in bfloat16, the A operand of P V
        float output[kBlocksO][4];

        __device__ __forceinline__ Consumer(Shared& shared, int group)
            : shared(shared),
              group(group),
              query_descriptor(wgmma_descriptor_k(shared.query + group * 64 * kRowBytes)) {}

        template <int kCount>
        __device__ __forceinline__ static auto flat(float (&blocks)[kCount][4]) -> float (&)[kCount * 4] {
            return reinterpret_cast<float(&)[kCount * 4]>(blocks);
        }

        // Turns: a consumer issues products only when the one before it has issued its own.
        __device__ __forceinline__ void await_turn() const { named_barrier_sync(1 + group, 2 * kWarpgroup); }
        __device__ __forceinline__ void pass_turn() const {
            named_barrier_arrive(1 + (group + 1) % kConsumers, 2 * kWarpgroup);
        }

        // Lane 0 reads the number for its warp: it is the lane that hands the query slot back.
        __device__ __forceinline__ int await_tile() {
            mbarrier_wait(&shared.query_full, query_parity);
            const int index = threadIdx.x % 32 == 0 ? shared.tile : kEnd;
            return __shfl_sync(0xffffffffu, index, 0);
        }

        __device__ __forceinline__ void take() {
            ring.next();
            ++item;
        }

        __device__ __forceinline__ void await_slot() { mbarrier_wait(&shared.full[ring.slot], ring.parity); }

        // Issues S = Q K^T for the K tile in `slot`.
        __device__ __forceinline__ void issue_scores(uint32_t slot) {
            const uint64_t keys = wgmma_descriptor_k(shared.ring[slot]);
#pragma unroll
            for (int step = 0; step < kHeadDim / 16; ++step) {
                const uint64_t q = query_descriptor + step / 4 * (kQueryPanel >> 4);
                const uint64_t k = keys + step / 4 * (kKeyPanel >> 4);
                wgmma<__nv_bfloat16, Major::kK, Major::kK>(flat(scores), wgmma_advance<Major::kK>(q, step % 4),
                                                           wgmma_advance<Major::kK>(k, step % 4), step > 0);
            }
            wgmma_commit();
        }

        // Issues O (+)= P V for the V tile in `slot`.
        __device__ __forceinline__ void issue_output(uint32_t slot, bool accumulate) {
            const uint64_t values = wgmma_descriptor_mn(shared.ring[slot], kKeyPanel);
#pragma unroll
            for (int step = 0; step < kKeys / 16; ++step)
                wgmma<__nv_bfloat16, Major::kMN>(flat(output), operand[step], wgmma_advance<Major::kMN>(values, step),
                                                 step > 0 || accumulate);
            wgmma_commit();
        }

        __device__ __forceinline__ void run(const Order& order, __nv_bfloat16* out) {
            BUBBLE_WARP(probe, math);
            if (group == kConsumers - 1) pass_turn();  // the first turn is consumer 0's
            for (;; query_parity ^= 1) {
                int index;
                BUBBLE_STEP(probe, wait_data, item, index = await_tile());
                if (index == kEnd) break;
                attend(order[index], order.tokens, out BUBBLE_PASS(probe));
            }
            if (group == 0) await_turn();  // the last turn passed to it, so that no barrier is left half full
        }

        __device__ __forceinline__ void attend(const QueryTile& tile, int tokens,
                                               __nv_bfloat16* out BUBBLE_TAKE(probe)) {
            const int group_row = tile.first_row + group * 64;
            const int warp_row = group_row + threadIdx.x % kWarpgroup / 32 * 16;
            const int row = warp_row + threadIdx.x % 32 / 4;
            const int limit[2] = {key_limit<kCausal>(row, tokens), key_limit<kCausal>(row + 8, tokens)};
            const int common_limit = key_limit<kCausal>(group_row, tokens);  // keys that all rows of the warpgroup see
            OnlineSoftmax<kSlack> softmax;
            float correction[2];

            // The first tile of keys has nothing to overlap with in its own warpgroup.
            const int last = tile.key_tiles - 1;
            BUBBLE_STEP(probe, wait_data, item, await_slot());
            BUBBLE_STEP(probe, compute, item, wgmma_fence());
            issue_scores(ring.slot);
            BUBBLE_STEP(probe, wait_mma, item, wgmma_wait<0>());
            wgmma_pin(flat(scores));
            BUBBLE_STEP(probe, softmax, item);
            mbarrier_arrive_warp(&shared.empty[ring.slot]);
            take();
            if ((last + 1) * kKeys > common_limit) mask_keys(scores, last * kKeys, limit);
            softmax.absorb(scores, kScale, correction);
            to_operand(scores, operand);

            if (last > 0) BUBBLE_STEP(probe, wait_data, item, await_slot());
            for (int i = last - 1; i >= 0; --i) {
                const uint32_t slot_k = ring.slot;  // filled: waited for at the end of the step before
                take();
                BUBBLE_STEP(probe, wait_sync, item - 1, await_turn());
                BUBBLE_STEP(probe, compute, item - 1, wgmma_fence());
                issue_scores(slot_k);
                BUBBLE_STEP(probe, wait_data, item, await_slot());
                BUBBLE_STEP(probe, compute, item, wgmma_fence());  // again: the wait before it branches
                issue_output(ring.slot, i < last - 1);
                pass_turn();
                BUBBLE_STEP(probe, wait_mma, item - 1, wgmma_wait<1>());
                wgmma_pin(flat(scores));
                BUBBLE_STEP(probe, softmax, item - 1);
                mbarrier_arrive_warp(&shared.empty[slot_k]);
                if (i == 0) mbarrier_arrive_warp(&shared.query_empty);
                if (kMaskedTiles > 1 && (i + 1) * kKeys > common_limit) mask_keys(scores, i * kKeys, limit);
                softmax.absorb(scores, kScale, correction);
                const uint32_t slot_v = ring.slot;
                take();
                // The next K (in the end V), waited for here and not where it is used: the branch keeps the assembler
                // from moving the wait for O, which follows, before the softmax that is to run beside it.
                BUBBLE_STEP(probe, wait_data, item, await_slot());
                BUBBLE_STEP(probe, wait_mma, item - 1, wgmma_wait<0>());
                wgmma_pin(flat(output));
                wgmma_pin(flat(scores));  // P V has read the operand until here: the new one must not be made earlier
                BUBBLE_STEP(probe, softmax, item - 1);
                mbarrier_arrive_warp(&shared.empty[slot_v]);
                to_operand(scores, operand);
                rescale<kSlack>(output, correction);
            }
            if (last == 0) {
                mbarrier_arrive_warp(&shared.query_empty);
                BUBBLE_STEP(probe, wait_data, item, await_slot());
            }
            BUBBLE_STEP(probe, compute, item, wgmma_fence());
            issue_output(ring.slot, last > 0);
            float inverse[2];
            softmax.inverse_sums(inverse);
            BUBBLE_STEP(probe, wait_mma, item, wgmma_wait<0>());
            wgmma_pin(flat(output));
            BUBBLE_STEP(probe, store, item);
            mbarrier_arrive_warp(&shared.empty[ring.slot]);
            take();
            scale_rows(output, inverse);
            const size_t first = static_cast<size_t>(tile.head) * tokens + warp_row;
            store_rows(out + first * kHeadDim, output, tokens - warp_row);
        }
    };

    __device__ __forceinline__ static void run(const TensorMap& map_q, const TensorMap& map_k, const TensorMap& map_v,
                                               __nv_bfloat16* out, int heads, int tokens) {
        extern __shared__ __align__(kAtomBytes) unsigned char memory[];
        Shared& shared = *reinterpret_cast<Shared*>(memory);
        if (threadIdx.x == 0) initialize(shared);
        __syncthreads();
        const Order order(heads, tokens);
        const int warp = uniform_warp();
        if (warp < 4) {
            registers_release<kProducerRegisters>();
            if (warp == 0 && elect_one()) {
                tma_prefetch(map_q);
                tma_prefetch(map_k);
                tma_prefetch(map_v);
                Producer{shared, map_q, map_k, map_v, {}}.run(order);
            }
        } else {
            registers_claim<kConsumerRegisters>();
            Consumer(shared, warp / 4 - 1).run(order, out);
        }
    }
};

}  // namespace ncubble
