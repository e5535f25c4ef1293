// What the last exercise of the tutorial and the planted kernels of structure (benchmarks/validation/planted) share: the
// roles of gemm_ws (rung 6) without clusters, in CTAs that need not stay. One warp copies into a ring of slots, two
// warpgroups multiply, 64 rows each. Built upon it, a kernel is healthy but for what it plants.
//
// The roles walk over the same slots in the same order, without talking: a slot is one step along k of one tile.
#pragma once

#include <cstdint>

#include "mbarrier.cuh"
#include "tma.cuh"
#include "warpgroup.cuh"
#include "wgmma_tile.cuh"

namespace ncubble {

constexpr int kTileM = 128, kConsumerWarps = 8;
constexpr int kConsumerThreads = kConsumerWarps * 32, kProducerWarp = kConsumerWarps;  // the warps that copy come last
constexpr int kThreads = kConsumerThreads + 32;
constexpr int kBytesA = kTileM * kRowBytes;  // of a slot; B follows

// kSlots slots of a 128 x kColumns tile. kArrivals of `full`: the warps that copy, or 1 for a thread that asks for TMA.
template <int kSlots, int kColumns, int kArrivals = 1>
struct TileRing {
    using Tile = WarpgroupTile<1, kColumns>;
    static constexpr int kBlocksB = kColumns / kBlockColumns, kBytesSlot = kBytesA + kBlocksB * kBlockBytes;

    unsigned char *slots, *out;  // out: a store box per multiplying warp
    uint64_t *full, *empty;      // per slot: the copies have landed; all multiplying warps are done with it
    Ring<kSlots> at;

    // `base`: dynamic shared memory, ring_bytes in specs/planted_structure.py, aligned to 1024 bytes.
    __device__ __forceinline__ explicit TileRing(unsigned char* base)
        : slots(base),
          out(slots + kSlots * kBytesSlot),
          full(reinterpret_cast<uint64_t*>(out + kConsumerWarps * kBoxBytes)),
          empty(full + kSlots) {}

    // By all threads of the CTA.
    __device__ __forceinline__ void initialize() const {
        if (threadIdx.x == 0) {
            for (int slot = 0; slot < kSlots; ++slot) {
                mbarrier_init(&full[slot], kArrivals);
                mbarrier_init(&empty[slot], kConsumerWarps);
            }
            mbarrier_init_fence();
        }
        __syncthreads();
    }

    __device__ __forceinline__ unsigned char* slot() const { return slots + at.slot * kBytesSlot; }

    // By one thread: waits for a free slot, announces a whole tile, and lets `copy(slot, barrier)` ask for it.
    template <class Copy>
    __device__ __forceinline__ void fill(Copy copy) {
        mbarrier_wait(&empty[at.slot], at.parity ^ 1);
        mbarrier_arrive_expect(&full[at.slot], kBytesSlot);
        copy(slot(), &full[at.slot]);
        at.next();
    }

    // The same with boxes as large as they can be: A at (row, depth), B at (depth, column).
    __device__ __forceinline__ void fill(const TensorMap& map_a, const TensorMap& map_b, int row, int column,
                                         int depth) {
        fill([&](unsigned char* slot, uint64_t* barrier) {
            tma_load(slot, map_a, barrier, depth, row);
#pragma unroll
            for (int block = 0; block < kBlocksB; ++block)
                tma_load(slot + kBytesA + block * kBlockBytes, map_b, barrier, column + block * kBlockColumns, depth);
        });
    }

    // By a multiplying warpgroup: the products of the next `steps` slots, of which there is at least one.
    __device__ __forceinline__ void multiply(Tile& tile, int steps) {
        const int group = uniform_warp() / 4, lane = threadIdx.x % 32;
        uint32_t previous = 0;
#pragma unroll 1
        for (int step = 0; step < steps; ++step, at.next()) {
            mbarrier_wait(&full[at.slot], at.parity);
            tile.multiply(slot() + group * kBlockBytes, slot() + kBytesA, step > 0);
            wgmma_wait<1>();  // all but the product just started: the tensor pipe never runs dry here
            if (step > 0 && lane == 0) mbarrier_arrive(&empty[previous]);
            __syncwarp();
            previous = at.slot;
        }
        wgmma_wait<0>();
        tile.pin();
        if (lane == 0) mbarrier_arrive(&empty[previous]);
        __syncwarp();
    }

    // By a multiplying warpgroup: its 64 rows of the tile at (row, column) of C, rounded, by TMA. store_wait() before
    // the CTA ends.
    __device__ __forceinline__ void store(const Tile& tile, const TensorMap& map_c, int row, int column) const {
        tile.template store<1>(map_c, out + uniform_warp() * kBoxBytes, row + uniform_warp() / 4 * kBlockRows, column);
    }
    // Shared memory must outlive the stores' reads; only lane 0 has any.
    __device__ __forceinline__ static void store_wait() { tma_store_wait_read<0>(); }
};

}  // namespace ncubble
