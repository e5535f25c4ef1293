// cluster_dsmem: C = A x B with few columns, where the CTAs of a cluster need the same tiles of A.  Rung 11.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major float; m any, k a multiple of 4, n one of COLUMNS x CLUSTER.
// Tile:         256 x COLUMNS x 32 per CTA; STAGES buffers of 32 KB for A and COLUMNS x 128 bytes for B. A cluster
//               covers 256 rows and CLUSTER x COLUMNS columns, so all its CTAs read the same A, and each its own B.
// Idea:         who brings A into shared memory:
//               SHARE=none       every CTA loads the whole tile for itself: A leaves L2 n / COLUMNS times.
//               SHARE=dsmem      the leader loads it and sends it to the others: distributed shared memory (seed 003).
//               SHARE=split      every CTA loads 1 / CLUSTER of it and sends that to the others: no port is narrow.
//               SHARE=multicast  every CTA loads 1 / CLUSTER of it, and the load itself delivers to all.
//               The product, the ring and the barriers are the same, so a difference in time is one of bringing.
// Roles:        warps 0-3 multiply; warp 4 loads; warp 5 sends what has landed (dsmem, split).
// Barriers:     per slot: full (the tile is in; its bytes come from this CTA's loads and from the others'), landed
//               (what this CTA loaded is in and can be sent), empty (every warp of every CTA of the cluster has
//               finished with the slot: loads and sends write into all of them). No CTA exits before all have met:
//               others may still send to it or signal it.
// Roofline:     compute (fp32 FMA) if A crosses once; with SHARE=none the traffic from L2 is CLUSTER times as much.
//               COLUMNS says how much is computed with what was brought. On an H200, by the default shape, the
//               multiplying warps set the pace: multicast takes as long as none (322 and 320 us with 8 columns and
//               clusters of 4), though it reads 45 % of the sectors from L2. Sending over distributed shared memory is
//               slower still: 570 us (split), 1295 us (dsmem).
// Bubble:       data_wait for the shared tiles with dsmem and split: one SM sends less than L2 gives. With none and
//               multicast in clusters of 4 the last wave: a tail of 24 %.
// Launch:       grid (n / COLUMNS, ceil(m / 256)), cluster (CLUSTER, 1, 1), block 192, dynamic shared memory STAGES x
//               (32768 + 128 x COLUMNS) bytes.
// Precondition: compute capability 9.0; 16-byte aligned pointers.
// Parameters:   -DSHARE=none|dsmem|split|multicast -DCLUSTER=2|4|8 -DCOLUMNS=4|8 -DSTAGES=1|2|3|4|6
#include "cluster.cuh"
#include "mbarrier.cuh"
#include "swizzle.cuh"
#include "tma.cuh"

using namespace ncubble;

namespace {

constexpr int kRows = 256, kColumns = COLUMNS, kDepth = 32;  // kDepth floats are a swizzled row of 128 bytes
constexpr int kRowBytes = kDepth * sizeof(float);
constexpr uint32_t kBytesA = kRows * kRowBytes, kBytesB = kDepth * kColumns * sizeof(float);
constexpr int kMultipliers = 4, kLoader = 4, kSender = 5;  // warps
constexpr bool kSends = SHARE == SHARE_DSMEM || SHARE == SHARE_SPLIT;
constexpr bool kShared = SHARE != SHARE_NONE;
constexpr int kTargets = kShared ? CLUSTER : 1;  // CTAs whose loads and sends write into this CTA's slots
constexpr int kReleases = kMultipliers * kTargets;  // arrivals that empty a slot

struct Slots {
    unsigned char a[STAGES][kBytesA];  // at multiples of 1024 bytes: the 128-byte swizzle repeats there
    float b[STAGES][kDepth][kColumns];
};
static_assert(sizeof(Slots) == STAGES * (kBytesA + kBytesB));

// Debug builds place the dynamic shared memory right behind it, without the alignment that it asks for.
struct alignas(1024) Barriers {
    uint64_t full[STAGES], landed[STAGES], empty[STAGES];
};

// The rows of A's tile that this CTA loads.
struct Part {
    int first, rows;
    uint32_t bytes;

    __device__ __forceinline__ explicit Part(int rank) {
        constexpr bool kParts = SHARE == SHARE_SPLIT || SHARE == SHARE_MULTICAST;
        rows = kParts ? kRows / CLUSTER : SHARE == SHARE_DSMEM && rank != 0 ? 0 : kRows;
        first = kParts ? rank * rows : 0;
        bytes = rows * kRowBytes;
    }
};

// One thread: brings this CTA's part of A and its B, tile by tile, as slots become empty.
__device__ __forceinline__ void load_tiles(Slots& slots, Barriers& barriers, const TensorMap& map_a,
                                           const TensorMap& map_b, const Part& part, int tiles) {
    Ring<STAGES> ring;
    for (int tile = 0; tile < tiles; ++tile, ring.next()) {
        uint64_t* full = &barriers.full[ring.slot];
        unsigned char* a = &slots.a[ring.slot][part.first * kRowBytes];
        const int row = blockIdx.y * kRows + part.first;
        mbarrier_wait(&barriers.empty[ring.slot], ring.parity ^ 1);
        mbarrier_arrive_expect(full, kBytesB + kBytesA - (kSends ? part.bytes : 0));
        tma_load(slots.b[ring.slot], map_b, full, blockIdx.x * kColumns, tile * kDepth);
        if constexpr (SHARE == SHARE_NONE) {
            tma_load(a, map_a, full, tile * kDepth, row);
        } else if constexpr (SHARE == SHARE_MULTICAST) {
            tma_load_multicast(a, map_a, full, (1 << CLUSTER) - 1, tile * kDepth, row);
        } else if (part.bytes != 0) {
            mbarrier_arrive_expect(&barriers.landed[ring.slot], part.bytes);
            tma_load(a, map_a, &barriers.landed[ring.slot], tile * kDepth, row);
        }
    }
}

// One thread: sends this CTA's part to the others as it lands. The slot stays as it is meanwhile: it is empty only when
// all others have used what they got.
__device__ __forceinline__ void send_tiles(Slots& slots, Barriers& barriers, const Part& part, int rank, int tiles) {
    Ring<STAGES> ring;
    for (int tile = 0; tile < tiles; ++tile, ring.next()) {
        mbarrier_wait(&barriers.landed[ring.slot], ring.parity);
        for (int step = 1; step < CLUSTER; ++step)  // begin at the neighbour: not all at one CTA
            bulk_push(&slots.a[ring.slot][part.first * kRowBytes], (rank + step) % CLUSTER, part.bytes,
                      &barriers.full[ring.slot]);
    }
}

// A multiplier thread owns 4 columns and kOwn rows, kLanes apart; kLanes lanes lie along the rows. A multiple of 8: the
// swizzle is then the same for all rows of a thread.
struct Product {
    static constexpr int kLanes = 32 / (kColumns / 4), kWarpRows = kRows / kMultipliers, kOwn = kWarpRows / kLanes;
    static_assert(kLanes % 8 == 0 && kOwn >= 1);
    int row, column;
    float acc[kOwn][4] = {};

    __device__ __forceinline__ explicit Product(int thread)
        : row(thread / 32 * kWarpRows + thread % kLanes), column(thread % 32 / kLanes * 4) {}

    __device__ __forceinline__ void add(const unsigned char* a, const float (*b)[kColumns]) {
#pragma unroll
        for (int k = 0; k < kDepth; k += 4) {
            float4 left[kOwn], right[4];
            const unsigned char* piece = a + swizzled<kRowBytes>(row, k * sizeof(float));
#pragma unroll
            for (int i = 0; i < kOwn; ++i) left[i] = *reinterpret_cast<const float4*>(piece + i * kLanes * kRowBytes);
#pragma unroll
            for (int j = 0; j < 4; ++j) right[j] = *reinterpret_cast<const float4*>(&b[k + j][column]);
#pragma unroll
            for (int i = 0; i < kOwn; ++i) {
                add(acc[i], left[i].x, right[0]);
                add(acc[i], left[i].y, right[1]);
                add(acc[i], left[i].z, right[2]);
                add(acc[i], left[i].w, right[3]);
            }
        }
    }

    __device__ __forceinline__ void store(float* c, int m, int n) const {
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
            if (const int at = blockIdx.y * kRows + row + i * kLanes; at < m)
                *reinterpret_cast<float4*>(&c[static_cast<size_t>(at) * n + blockIdx.x * kColumns + column]) =
                    make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
    }

  private:
    static __device__ __forceinline__ void add(float (&sums)[4], float left, const float4& right) {
        sums[0] = fmaf(left, right.x, sums[0]);
        sums[1] = fmaf(left, right.y, sums[1]);
        sums[2] = fmaf(left, right.z, sums[2]);
        sums[3] = fmaf(left, right.w, sums[3]);
    }
};

__device__ __forceinline__ void multiply_tiles(const Slots& slots, Barriers& barriers, const Part& part, int rank,
                                               int tiles, Product& product) {
    const int lane = threadIdx.x % 32;
    Ring<STAGES> ring;
    for (int tile = 0; tile < tiles; ++tile, ring.next()) {
        if (kSends && part.bytes != 0) mbarrier_wait(&barriers.landed[ring.slot], ring.parity);
        mbarrier_wait(&barriers.full[ring.slot], ring.parity);
        product.add(slots.a[ring.slot], slots.b[ring.slot]);
        __syncwarp();  // the whole warp has read the slot
        if (lane < kTargets) mbarrier_arrive_remote(&barriers.empty[ring.slot], kShared ? lane : rank);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(192, 2)
cluster_dsmem(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
              const float*, const float*, float* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ Barriers barriers;
    Slots& slots = *reinterpret_cast<Slots*>(memory);
    const int thread = threadIdx.x, warp = thread / 32, rank = cluster_rank(), tiles = (k + kDepth - 1) / kDepth;
    const Part part(rank);

    if (thread == 0) {
        for (int slot = 0; slot < STAGES; ++slot) {
            mbarrier_init(&barriers.full[slot], 1);
            mbarrier_init(&barriers.landed[slot], 1);
            mbarrier_init(&barriers.empty[slot], kReleases);
        }
        mbarrier_init_fence();
    }
    __syncwarp();
    cluster_sync();  // nobody signals a barrier, or sends to a CTA, that is not ready

    if (warp < kMultipliers) {
        Product product(thread);
        multiply_tiles(slots, barriers, part, rank, tiles, product);
        product.store(c, m, n);
    } else if (thread == kLoader * 32) {
        load_tiles(slots, barriers, map_a, map_b, part, tiles);
    } else if (kSends && thread == kSender * 32 && part.bytes != 0) {
        send_tiles(slots, barriers, part, rank, tiles);
    }
    __syncwarp();
    cluster_sync();  // nobody exits while others may still signal its barriers
}
