// The roles of attention_fp8. The producer's warpgroup: one thread keeps TMA loads of K and V in flight, kTurners warps
// turn tiles of V. Two or three consumer warpgroups of 64 queries each (attention_fp8_consumer.cuh).
//
// What they share: a slot with the Q tile and its number; rings of K, of V as it comes (raw), and of turned V (values).
// Each slot has an mbarrier "full" and an mbarrier "empty".
#pragma once

#include "attention_fp8_consumer.cuh"
#include "attention_fp8_values.cuh"
#include "attention_tiles.cuh"
#include "mbarrier.cuh"
#include "tile_counter.cuh"
#include "tma.cuh"
#include "warpgroup.cuh"

namespace ncubble {

template <int kHeadDim, int kKeys, int kStages, bool kCausal, bool kPromote, int kPolynomial, int kGroups>
struct AttentionFp8 {
    static constexpr int kHeadDimension = kHeadDim, kTileKeys = kKeys, kSlots = kStages, kPolynomials = kPolynomial;
    static constexpr bool kIsCausal = kCausal, kPromoted = kPromote;
    static constexpr int kConsumers = kGroups;  // registers hold a third one with 64 elements per head
    static constexpr int kRows = 64 * kConsumers, kThreads = (1 + kConsumers) * kWarpgroup;
    static constexpr int kRawSlots = 2, kTurners = kKeys / kTurnedKeys;
    static constexpr int kPanelKeys = kKeys % 128 == 0 ? 128 : 64;  // turned V: rows of so many bytes
    static constexpr uint32_t kQueryBytes = kRows * kHeadDim, kTileBytes = kKeys * kHeadDim;
    static constexpr int kBlocks = kKeys / 8, kBlocksO = kHeadDim / 8;
    static constexpr int kMaskedTiles = !kCausal || kKeys == kRows ? 1 : 2;  // the last ones of a query tile, at most
    static constexpr float kScale = attention_scale(kHeadDim);
    static constexpr int kEnd = -1;  // "no more tiles" in place of a tile number
    // As many as at launch: 24 + 2 x 240 = 3 x 168, 32 + 3 x 160 = 4 x 128.
    static constexpr int kProducerRegisters = kConsumers == 2 ? 24 : 32;
    static constexpr int kConsumerRegisters = kConsumers == 2 ? 240 : 160;
    static constexpr int kBias = 8;  // P is at most 2^8, and e4m3 at most 448
    static_assert(kTileBytes % kAtomBytes == 0 && kQueryBytes % kAtomBytes == 0, "swizzle atoms are 8 whole rows");

    using Order = TileOrder<kRows, kKeys, kHeadDim, kCausal>;

    template <int kCount>
    struct Barriers {
        uint64_t full[kCount], empty[kCount];
    };

    struct Shared {  // the mbarriers lie behind the tiles, so that those start at swizzle atoms
        alignas(kAtomBytes) unsigned char query[kQueryBytes];
        alignas(kAtomBytes) unsigned char key[kSlots][kTileBytes];
        alignas(kAtomBytes) unsigned char value[kSlots][kTileBytes];
        alignas(kAtomBytes) unsigned char raw[kRawSlots][kTileBytes];
        Barriers<1> query_slot;
        Barriers<kSlots> key_slot, value_slot;
        Barriers<kRawSlots> raw_slot;
        int tile, key_tiles;  // the query tile's number, and how many tiles of keys it meets: 0 at the end
    };
    static_assert(sizeof(Shared) == kQueryBytes + (2 * kSlots + kRawSlots) * kTileBytes + kAtomBytes, "as in the spec");

    template <int kCount>
    __device__ static void initialize(Barriers<kCount>& barriers, int writers, int readers) {
        for (int i = 0; i < kCount; ++i) {
            mbarrier_init(&barriers.full[i], writers);
            mbarrier_init(&barriers.empty[i], readers);
        }
    }

    __device__ static void initialize(Shared& shared) {
        constexpr int kWarps = kConsumers * 4;  // every warp hands slots on and back for itself
        initialize(shared.query_slot, 1, kWarps + kTurners);
        initialize(shared.key_slot, 1, kWarps);
        initialize(shared.value_slot, kTurners, kWarps);
        initialize(shared.raw_slot, 1, kTurners);
        mbarrier_init_fence();
    }

    // ---- producer: one thread ----
    struct Producer {
        Shared& shared;
        const TensorMap &map_q, &map_k, &map_v;
        Ring<kSlots> keys;
        Ring<kRawSlots> values;
        int item = 0;  // tiles that were loaded: by this number traces know them

        template <int kCount>
        __device__ void load(Barriers<kCount>& barriers, Ring<kCount>& ring, unsigned char (&slots)[kCount][kTileBytes],
                             const TensorMap& map, int head, int tile BUBBLE_TAKE(probe)) {
            BUBBLE_POLL(probe, wait_slot, item, mbarrier_wait(&barriers.empty[ring.slot], ring.parity ^ 1));
            BUBBLE_STEP(probe, load, item);
            mbarrier_arrive_expect(&barriers.full[ring.slot], kTileBytes);
            tma_load(slots[ring.slot], map, &barriers.full[ring.slot], 0, tile * kKeys, head);
            ring.next();
            ++item;
        }
        __device__ void load_keys(int head, int tile BUBBLE_TAKE(probe)) {
            load(shared.key_slot, keys, shared.key, map_k, head, tile BUBBLE_PASS(probe));
        }
        __device__ void load_values(int head, int tile BUBBLE_TAKE(probe)) {
            load(shared.raw_slot, values, shared.raw, map_v, head, tile BUBBLE_PASS(probe));
        }

        __device__ void load_query(int index, const QueryTile& tile, uint32_t parity BUBBLE_TAKE(probe)) {
            BUBBLE_POLL(probe, wait_slot, item, mbarrier_wait(shared.query_slot.empty, parity ^ 1));
            BUBBLE_STEP(probe, load, item);
            shared.tile = index;  // the arrival below makes both visible
            shared.key_tiles = tile.key_tiles;
            mbarrier_arrive_expect(shared.query_slot.full, kQueryBytes);
            tma_load(shared.query, map_q, shared.query_slot.full, 0, tile.first_row, tile.head);
        }

        // Keys from the last to the first: the masked tile comes first. V follows one step behind K, as the products
        // do.
        __device__ void run(const Order& order) {
            BUBBLE_THREAD(probe, loader);
            claim_tiles();
            uint32_t parity = 0;
            int index = blockIdx.x;
            while (index < order.size()) {
                const QueryTile tile = order[index];
                load_keys(tile.head, tile.key_tiles - 1 BUBBLE_PASS(probe));
                load_query(index, tile, parity BUBBLE_PASS(probe));
                for (int i = tile.key_tiles - 2; i >= 0; --i) {
                    load_keys(tile.head, i BUBBLE_PASS(probe));
                    load_values(tile.head, i + 1 BUBBLE_PASS(probe));
                }
                load_values(tile.head, 0 BUBBLE_PASS(probe));
                index = next_tile();
                parity ^= 1;
            }
            BUBBLE_POLL(probe, wait_slot, item, mbarrier_wait(shared.query_slot.empty, parity ^ 1));
            shared.tile = kEnd;
            shared.key_tiles = 0;
            mbarrier_arrive(shared.query_slot.full);
            leave_tiles();
        }
    };

    // ---- turner: a warp, a share of the keys of every tile of V ----
    __device__ static void turn(Shared& shared, int part) {
        BUBBLE_WARP(probe, loader);
        Ring<kRawSlots> raw;
        Ring<kSlots> values;
        int item = 0;
        for (uint32_t parity = 0;; parity ^= 1) {
            mbarrier_wait(shared.query_slot.full, parity);
            // Lane 0 reads for its warp: it is the lane that hands the query slot back.
            int tiles = __shfl_sync(0xffffffffu, threadIdx.x % 32 == 0 ? shared.key_tiles : 0, 0);
            if (tiles == 0) break;
            mbarrier_arrive_warp(shared.query_slot.empty);
            for (; tiles > 0; --tiles, ++item) {
                BUBBLE_STEP(probe, wait_data, item, mbarrier_wait(&shared.raw_slot.full[raw.slot], raw.parity));
                BUBBLE_STEP(probe, wait_slot, item,
                            mbarrier_wait(&shared.value_slot.empty[values.slot], values.parity ^ 1));
                BUBBLE_STEP(probe, compute, item);
                turn_values<kHeadDim, kPanelKeys>(shared_address(shared.raw[raw.slot]),
                                                  shared_address(shared.value[values.slot]), part);
                fence_async_proxy();  // wgmma reads what was stored
                mbarrier_arrive_warp(&shared.value_slot.full[values.slot]);
                mbarrier_arrive_warp(&shared.raw_slot.empty[raw.slot]);
                raw.next();
                values.next();
            }
        }
    }

    __device__ __forceinline__ static void run(const TensorMap& map_q, const TensorMap& map_k, const TensorMap& map_v,
                                               const AttentionScales& scales, __nv_bfloat16* out, int heads,
                                               int tokens) {
        extern __shared__ __align__(kAtomBytes) unsigned char memory[];
        Shared& shared = *reinterpret_cast<Shared*>(memory);
        if (threadIdx.x == 0) initialize(shared);
        __syncthreads();
        const Order order(heads, tokens);
        const int warp = uniform_warp();
        if (warp < 4) {
            registers_release<kProducerRegisters>();
            if (warp == 0) {
                if (elect_one()) {
                    tma_prefetch(map_q);
                    tma_prefetch(map_k);
                    tma_prefetch(map_v);
                    Producer{shared, map_q, map_k, map_v, {}, {}}.run(order);
                }
            } else if (warp <= kTurners) {
                turn(shared, warp - 1);
            }
        } else {
            registers_claim<kConsumerRegisters>();
            AttentionFp8Consumer<AttentionFp8>(shared, warp / 4 - 1).run(order, scales, out);
        }
    }
};

}  // namespace ncubble
