// What gemm_ws and gemm_fp8 share: a warpgroup that copies and two that multiply, in persistent CTAs and clusters that
// walk over the tiles of C. Of the macros STAGES, CLUSTER, SPLIT, SCHEDULE and BAND (gemm_ws.cu).
#pragma once

#include <cstdint>

#include "cluster.cuh"
#include "mbarrier.cuh"
#include "raster.cuh"
#include "warpgroup.cuh"

#ifndef SPLIT
#define SPLIT 1
#endif

namespace ncubble {

constexpr bool kPingpong = SCHEDULE == SCHEDULE_PINGPONG;
constexpr int kConsumers = 2;
constexpr int kThreads = (1 + kConsumers) * kWarpgroup, kConsumerWarps = kConsumers * 4;
constexpr int kSharers = kPingpong ? 1 : kConsumers;              // warpgroups that multiply one tile
constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;  // 128 x 40 + 256 x 232 = 384 x 168, those at launch

// A cluster is SPLIT parts of k, each of CLUSTER CTAs that share tiles of B: which part, and which of it, this is.
__device__ __forceinline__ int cluster_part() { return SPLIT > 1 ? static_cast<int>(cluster_rank()) / CLUSTER : 0; }
__device__ __forceinline__ int cluster_row() {
    return CLUSTER == 1 ? 0 : SPLIT > 1 ? static_cast<int>(cluster_rank()) % CLUSTER : static_cast<int>(cluster_rank());
}

struct Barriers {
    uint64_t* full;   // per slot: the copies have landed
    uint64_t* empty;  // per slot: all readers of the same B are done: it comes from all of their CTAs
    uint64_t* turn;   // pingpong, per consumer: the other one has seen all of its tile

    __device__ __forceinline__ explicit Barriers(void* base)
        : full(static_cast<uint64_t*>(base)), empty(full + STAGES), turn(empty + STAGES) {}

    // mbarrier_init_fence() follows.
    __device__ __forceinline__ void initialize() const {
        for (int slot = 0; slot < STAGES; ++slot) {
            mbarrier_init(&full[slot], 1);
            mbarrier_init(&empty[slot], CLUSTER * kSharers * 4);  // a thread of every warp
        }
        for (int consumer = 0; consumer < kConsumers; ++consumer) mbarrier_init(&turn[consumer], 4);
    }
};

// The tiles of kTileM x kTileN of this CTA, of each of them `steps` steps of kDepth along k from `first` on. The CTAs of
// a cluster walk in step, CLUSTER of them one below the other, SPLIT of these with a part of the steps each. All roles
// walk alike, without talking.
template <int kTileM, int kTileN, int kDepth, bool kMoved = false>
struct TileWalk {
    static constexpr int kClusterM = CLUSTER * kTileM;

    int rows, columns, first, steps;  // of the cluster's tiles in C, and of stages along k
    int tile, stride;
    int last_row, last_column;  // where a whole tile can start in C

    __device__ __forceinline__ TileWalk(int m, int n, int k)
        : rows((m + kClusterM - 1) / kClusterM),
          columns((n + kTileN - 1) / kTileN),
          first(0),
          steps((k + kDepth - 1) / kDepth),
          tile(blockIdx.x / (CLUSTER * SPLIT)),
          stride(gridDim.x / (CLUSTER * SPLIT)),
          last_row(max(0, m - kTileM)),
          last_column(max(0, n - kTileN)) {
        if constexpr (SPLIT > 1) {
            const int part = cluster_part(), all = steps;
            first = all * part / SPLIT;
            steps = all * (part + 1) / SPLIT - first;
        }
    }

    __device__ __forceinline__ bool more() const { return tile < rows * columns; }
    __device__ __forceinline__ void next(int count = 1) { tile += count * stride; }

    // Row and column of C where this CTA's part of the tile starts.
    __device__ __forceinline__ TilePlace place() const {
        const TilePlace place = banded_place<BAND / kClusterM>(tile, rows, columns);
        const int row = place.row * kClusterM + cluster_row() * kTileM;
        const int column = place.column * kTileN;
        return kMoved ? TilePlace{min(row, last_row), min(column, last_column)} : TilePlace{row, column};
    }
};

// One of the two multiplying warpgroups.
struct Multiplier {
    const Barriers& barriers;
    const int index, warp, lane;  // which one, its warp among those of both, lane
    Ring<STAGES> ring;
    uint32_t turns = 0;

    __device__ __forceinline__ Multiplier(const Barriers& barriers, int index)
        : barriers(barriers), index(index), warp(uniform_warp() - 4), lane(threadIdx.x % 32) {}

    // Every warp says so by itself, to every CTA that writes into this slot.
    __device__ __forceinline__ void release(uint32_t slot) const {
        if (CLUSTER > 1 && lane < CLUSTER)
            mbarrier_arrive_remote(&barriers.empty[slot], cluster_part() * CLUSTER + lane);
        if (CLUSTER == 1 && lane == 0) mbarrier_arrive(&barriers.empty[slot]);
    }

    // Without turns a consumer would wait for a slot whose barrier is rounds behind, and a parity cannot tell rounds
    // apart.
    __device__ __forceinline__ void await_turn() {
        mbarrier_wait(&barriers.turn[index], turns & 1 ^ (index == 0));  // the first turn of consumer 0 is free
        ++turns;
    }
    __device__ __forceinline__ void pass_turn() const {
        if (lane == 0) mbarrier_arrive(&barriers.turn[index ^ 1]);
    }
};

}  // namespace ncubble
