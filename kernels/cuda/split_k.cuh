// The SPLIT of gemm_ws: CTAs of a cluster have a part of the steps along k of one tile each. Every one sends the others
// their slices of its sums, adds up the slice of its own, and stores that.
#pragma once

#include <cstdint>
#include <utility>

#include "specialized.cuh"
#include "tma.cuh"

namespace ncubble {

// A slice is some of the units (turned_tile.cuh) of a consumer's part of the tile, kRows x kBlocks x 64.
template <int kRows, int kBlocks>
struct PartialSums {
    static constexpr int kUnits = kRows / 8 * kBlocks, kUnitBytes = 8 * 64 * sizeof(float);
    static constexpr int kSlice = (kUnits + SPLIT - 1) / SPLIT;  // units at most
    static constexpr int kBytes = (SPLIT - 1) * kSharers * kSlice * kWarpgroup * sizeof(float4);

    float4* sums;    // kBytes in shared memory: what the other CTAs send, per consumer and CTA
    uint64_t* sent;  // per consumer: its `sums` have come from all

    // The first unit of what part `part` of k adds up.
    __host__ __device__ static constexpr int slice(int part) { return kUnits * part / SPLIT; }

    // mbarrier_init_fence() and expect() follow.
    __device__ __forceinline__ void initialize() const {
        for (int sharer = 0; SPLIT > 1 && sharer < kSharers; ++sharer) mbarrier_init(&sent[sharer], 1);
    }

    __device__ __forceinline__ void expect() const {
        const int part = cluster_part();
        for (int sharer = 0; SPLIT > 1 && sharer < kSharers; ++sharer)
            mbarrier_arrive_expect(&sent[sharer], (SPLIT - 1) * kUnitBytes * (slice(part + 1) - slice(part)));
    }

    // By all threads of consumer `sharer`; kParts: all from 0 on. What is this CTA's then is stored, if `stored`, as by
    // Tile::store.
    template <int kBuffers, typename Tile, int... kParts>
    __device__ __forceinline__ void exchange(Tile& tile, int sharer, const TensorMap& map_c, unsigned char* buffers,
                                             int row, int column, bool stored,
                                             std::integer_sequence<int, kParts...>) const {
        const int part = cluster_part();
        if constexpr (CLUSTER == 1) cluster_wait();  // for the barriers of the others
#pragma unroll 1
        for (int turn = 1; turn < SPLIT; ++turn) {  // no two to one at a time
            const int to = (part + turn) % SPLIT;
            ((to == kParts ? send<kParts>(tile, sharer, part) : void()), ...);
        }
        mbarrier_wait_cluster(&sent[sharer], 0);
        ((part == kParts ? finish<kParts, kBuffers>(tile, sharer, map_c, buffers, row, column, stored) : void()), ...);
    }

   private:
    // Where the number `sender` of the other CTAs leaves this thread's sums.
    __device__ __forceinline__ float4* received(int sharer, int sender) const {
        return sums + (sharer * (SPLIT - 1) + sender) * kSlice * kWarpgroup + threadIdx.x % kWarpgroup;
    }

    // The sums of a unit. Registers have no address: the compiler must know `unit`.
    template <typename Tile>
    __device__ __forceinline__ static float* sums_of(Tile& tile, int unit) {
        constexpr int kRegisters = sizeof(tile.acc[0]) / sizeof(float);
        return &tile.acc[unit * 4 / kRegisters][unit * 4 % kRegisters];
    }

    // Sends the CTA with part kPart its slice of the sums of this one, which has `part`.
    template <int kPart, typename Tile>
    __device__ __forceinline__ void send(Tile& tile, int sharer, int part) const {
        float4* to = received(sharer, part < kPart ? part : part - 1);
#pragma unroll
        for (int unit = slice(kPart); unit < slice(kPart + 1); ++unit, to += kWarpgroup) {
            const float* d = sums_of(tile, unit);
            push(to, kPart * CLUSTER + cluster_row(), make_float4(d[0], d[1], d[2], d[3]), &sent[sharer]);
        }
    }

    // Adds what the others have sent to the slice of kPart, this CTA's part.
    template <int kPart, int kBuffers, typename Tile>
    __device__ __forceinline__ void finish(Tile& tile, int sharer, const TensorMap& map_c, unsigned char* buffers,
                                           int row, int column, bool stored) const {
        constexpr int kFirst = slice(kPart), kLast = slice(kPart + 1);
        for (int sender = 0; sender < SPLIT - 1; ++sender) {
            const float4* from = received(sharer, sender);
#pragma unroll
            for (int unit = kFirst; unit < kLast; ++unit) {
                float* d = sums_of(tile, unit);
                const float4 sum = from[(unit - kFirst) * kWarpgroup];
                d[0] += sum.x, d[1] += sum.y, d[2] += sum.z, d[3] += sum.w;
            }
        }
        if (stored) tile.template store<kBuffers, kFirst, kLast>(map_c, buffers, row, column);
    }
};

}  // namespace ncubble
