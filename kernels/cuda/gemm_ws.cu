// gemm_ws: C = A x B with specialized warps, persistent CTAs and clusters that share their B tiles.  Rung 6.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major bf16, float accumulators.
// Tile:         TILE_M x TILE_N x 64 per CTA, 384 threads: a warpgroup that copies (one thread of it) and two that
//               multiply. SCHEDULE=cooperative: both multiply one tile, half each. pingpong: each has a tile of its
//               own, in turns, so that one stores while the other multiplies.
// Idea:         against rung 5 the roles part: the copying thread runs ahead through the ring, over the end of a tile
//               into the next one, and the multiplying warps do nothing but wait, multiply and release. CTAs stay and
//               loop over tiles, so that copies and stores overlap the products of the neighbouring tile. CLUSTER CTAs,
//               one above the other, need the same columns of B: each loads a share and sends it to all. Not more
//               than 2 of them: clusters of 4 do not fill every GPC, and in a grid of one CTA per SM the last
//               clusters would wait for the others to end.
// Further axes: each lies in a file of its own, and compiles to nothing where its parameter is left out. Which suits a
//               shape says kernels/catalog/gemm_tiles.py.
//               FORM=turned (turned_tile.cuh): tiles of any multiple of 8 rows, of which the last round is fuller.
//               EDGE=moved (TileWalk in specialized.cuh): tiles that the edge of C cuts copy less, and CTAs that drift
//               apart are all slower (docs/kernels.md). The last row and column of tiles move back into C instead,
//               where two CTAs write the same values.
//               SPLIT (split_k.cuh): over few rows tiles are low and narrow, so that the ring has many stages: B from
//               DRAM is all the time. Where such tiles are fewer than SMs, SPLIT CTAs of a cluster, or SPLIT times
//               CLUSTER that share their B, have a part of the steps along k of one.
// Roofline:     tensor pipe, wgmma.
// Bubble:       the reference without one: what remains is the first load, the last store, the last wave's idle SMs,
//               and (cooperative) the moment in which accumulators are rounded and staged.
// Launch:       grid min(SMs, tiles) rounded to CLUSTER, or tiles x SPLIT; cluster CLUSTER x SPLIT along x; block 384;
//               dynamic shared memory STAGES x 128 (TILE_M + TILE_N) + BUFFERS x 16384 + what others send (about
//               4 TILE_M TILE_N (SPLIT - 1) / SPLIT) + 256 bytes.
// Precondition: compute capability 9.0; n and k multiples of 8 (16-byte rows, checked before launch); m any. Beyond the
//               edges TMA reads zeros and writes nothing.
// Parameters:   -DSTAGES=2..14 -DTILE_M=8..256 -DTILE_N=64|128|192|256 (what a consumer has of a tile: 192 x 128
//               elements at most; TILE_M left out: 128) -DFORM=FORM_TURNED (left out: plain, TILE_M by 64)
//               -DEDGE=EDGE_MOVED (left out: cut by TMA)
//               -DSPLIT=2..8 (left out: 1; with FORM_TURNED, and CLUSTER x SPLIT at most 8)
//               -DCLUSTER=1|2 -DSCHEDULE=SCHEDULE_COOPERATIVE|SCHEDULE_PINGPONG
//               -DBAND=512..8192 (rows of C that clusters running at one time share) -DWALK=WALK_FORWARD|WALK_SNAKE
//               (of k) -DBUFFERS=1..4 (store boxes per warp, set by the spec to what fits)
//               -DWITHOUT_COPY, … for `ablate` (ablate.cuh): copy: nothing is copied, slots are handed over as before.
//               epilogue: C is not stored.
#include <cstdint>
#include <type_traits>

#include "ablate.cuh"
#include "bubble_probe.cuh"
#include "specialized.cuh"
#include "split_k.cuh"
#include "tma.cuh"
#include "turned_tile.cuh"
#include "wgmma_tile.cuh"

using namespace ncubble;

#ifndef TILE_M
#define TILE_M 128
#endif
#ifdef FORM
constexpr bool kTurned = true;
#else
constexpr bool kTurned = false;
#endif
#ifdef EDGE
constexpr bool kMoved = true;
#else
constexpr bool kMoved = false;
#endif
constexpr int kBytesA = TILE_M * kRowBytes, kBytesStage = kBytesA + TILE_N * kRowBytes;
constexpr int kBytesOut = kConsumerWarps * BUFFERS * kBoxBytes;
constexpr int kBlocksB = TILE_N / kBlockColumns;
constexpr bool kByRows = kBlocksB % CLUSTER != 0;  // a CTA loads its share of the rows of all blocks of B, or of blocks
constexpr int kShareB = kByRows ? kBlocksB : kBlocksB / CLUSTER;  // loads
constexpr int kReady = kConsumers + 1;  // a named barrier; those before are the consumers' own
static_assert(kSyncs && kReads, "its roles meet at mbarriers, and wgmma reads shared memory");
// A consumer's part of a tile: rows as far as wgmma takes them by 64, else columns.
constexpr bool kSplitRows = kTurned ? kBlocksB % kSharers != 0 : true;
constexpr int kPartM = kSplitRows ? TILE_M / kSharers : TILE_M, kPartN = kSplitRows ? TILE_N : TILE_N / kSharers;
using Tile = std::conditional_t<kTurned, TurnedTile<kPartM, kPartN / kBlockColumns, (SPLIT > 1)>,
                                WarpgroupTile<kPartM / kBlockRows, kPartN>>;
static_assert(kPartM * kPartN <= 192 * kWarpgroup, "more accumulators do not fit the registers of a warpgroup");
static_assert(SPLIT == 1 || kTurned, "only turned tiles have sums in units");
using Partial = PartialSums<kPartM, kPartN / kBlockColumns>;
using Walk = TileWalk<TILE_M, TILE_N, kTileK, kMoved>;

// Where things lie in dynamic shared memory.
struct Memory {
    unsigned char* ring;
    unsigned char* out;  // BUFFERS boxes per consumer warp
    Barriers barriers;   // behind what others send
    Partial partial;

    __device__ __forceinline__ explicit Memory(unsigned char* base)
        : ring(base),
          out(ring + STAGES * kBytesStage),
          barriers(out + kBytesOut + Partial::kBytes),
          partial{reinterpret_cast<float4*>(out + kBytesOut), barriers.turn + kConsumers} {}

    __device__ __forceinline__ unsigned char* a(uint32_t slot) const { return ring + slot * kBytesStage; }
    __device__ __forceinline__ unsigned char* b(uint32_t slot) const { return a(slot) + kBytesA; }

    __device__ __forceinline__ void initialize() const {
        barriers.initialize();
        partial.initialize();
        mbarrier_init_fence();
        partial.expect();
    }
};

// One thread: fills the ring, slot after slot, tile after tile.
__device__ __forceinline__ void produce(const TensorMap& map_a, const TensorMap& map_b, const Memory& memory,
                                        Walk walk) {
    const int rank = cluster_row();  // whose share of B it loads
    BUBBLE_THREAD(probe, loader);
    Ring<STAGES> ring;
    bool backward = false;
    for (; walk.more(); walk.next()) {
        const TilePlace place = walk.place();
        for (int step = 0; step < walk.steps; ++step, ring.next()) {
            // Backward on every other tile: it starts with what L2 saw last.
            const int depth = (walk.first + (backward ? walk.steps - 1 - step : step)) * kTileK;
            uint64_t* full = &memory.barriers.full[ring.slot];
            BUBBLE_POLL(probe, wait_slot, walk.tile * walk.steps + step,
                   mbarrier_wait(&memory.barriers.empty[ring.slot], ring.parity ^ 1));
            BUBBLE_STEP(probe, load, walk.tile * walk.steps + step);
            if (!kCopies) {
                mbarrier_arrive(full);
                continue;
            }
            mbarrier_arrive_expect(full, kBytesStage);  // the others' shares of B included
            tma_load(memory.a(ring.slot), map_a, full, depth, place.row);
#pragma unroll
            for (int load = 0; load < kShareB; ++load) {
                const int block = kByRows ? load : rank * kShareB + load, row = kByRows ? rank * kTileK / CLUSTER : 0;
                unsigned char* target = memory.b(ring.slot) + block * kBlockBytes + row * kRowBytes;
                const int column = place.column + block * kBlockColumns;
                if constexpr (CLUSTER > 1) {
                    tma_load_multicast(target, map_b, full, ((1 << CLUSTER) - 1) << cluster_part() * CLUSTER, column,
                                       depth + row);
                } else {
                    tma_load(target, map_b, full, column, depth);
                }
            }
        }
        backward ^= WALK == WALK_SNAKE;
    }
    // Arrivals of other CTAs are on their way to barriers here: this CTA may not end before they have come.
    for (int slot = 0; CLUSTER > 1 && slot < STAGES; ++slot, ring.next())
        mbarrier_wait(&memory.barriers.empty[ring.slot], ring.parity ^ 1);
}

struct Consumer : Multiplier {
    const Memory& memory;

    __device__ __forceinline__ Consumer(const Memory& memory, int index)
        : Multiplier(memory.barriers, index), memory(memory) {}

    // Which part of a tile is this consumer's.
    __device__ __forceinline__ int part() const { return kPingpong ? 0 : index; }

    // `first`: the number of the tile's first step among those of all tiles, for the probe.
    __device__ __forceinline__ void multiply(Tile& tile, int steps, [[maybe_unused]] int first BUBBLE_TAKE(probe)) {
        const int offset_a = kSplitRows ? part() * kPartM * kRowBytes : 0;
        const int offset_b = kSplitRows ? 0 : part() * kPartN * kRowBytes;
        uint32_t previous = 0;
        for (int step = 0; step < steps; ++step, ring.next()) {
            BUBBLE_STEP(probe, wait_data, first + step, mbarrier_wait(&memory.barriers.full[ring.slot], ring.parity));
            BUBBLE_STEP(probe, compute, first + step,
                   tile.multiply(memory.a(ring.slot) + offset_a, memory.b(ring.slot) + offset_b, step > 0));
            // All but the product just started: the tensor pipe never runs dry here.
            BUBBLE_STEP(probe, wait_mma, first + step - 1, wgmma_wait<1>());
            if (step > 0) release(previous);
            previous = ring.slot;
        }
        if constexpr (kPingpong) pass_turn();
        BUBBLE_STEP(probe, wait_mma, first + steps - 1, wgmma_wait<0>());
        release(previous);
        tile.pin();
    }

    __device__ __forceinline__ void consume(const TensorMap& map_c, Walk walk, bool stored) {
        unsigned char* buffers = memory.out + (kTurned ? index * 4 : warp) * BUFFERS * kBoxBytes;
        BUBBLE_WARP(probe, math);
        constexpr int kTurns = kPingpong ? kConsumers : 1;
        if (kPingpong && index == 1) {
            walk.next();
            ring.skip(walk.steps);
        }
        for (; walk.more(); walk.next(kTurns)) {
            Tile tile;
            if constexpr (kPingpong) BUBBLE_POLL(probe, wait_sync, walk.tile, await_turn());
            multiply(tile, walk.steps, walk.tile * walk.steps BUBBLE_PASS(probe));
            const TilePlace place = walk.place();
            BUBBLE_STEP(probe, store, walk.tile);
            const int row = place.row + (kSplitRows ? part() * kPartM : 0);
            const int column = place.column + (kSplitRows ? 0 : part() * kPartN);
            if constexpr (SPLIT > 1) {
                memory.partial.exchange<BUFFERS>(tile, part(), map_c, buffers, row, column, stored,
                                                 std::make_integer_sequence<int, SPLIT>());
                break;
            }
            if (stored) tile.template store<BUFFERS>(map_c, buffers, row, column);
            if constexpr (kPingpong) ring.skip(walk.steps);  // the other consumer's tile
        }
        tma_store_wait_read<0>();  // shared memory must outlive the stores' reads; only lane 0 has any
    }
};

extern "C" __global__ void __launch_bounds__(kThreads, 1)
gemm_ws(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
        const __grid_constant__ TensorMap map_c, const void*, const void*, void*, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char base[];
    const Memory memory(base);
    const Walk walk(m, n, k);
    const int warp = uniform_warp();
    if (warp == 0 && elect_one()) {
        memory.initialize();
        tma_prefetch(map_a);
        tma_prefetch(map_b);
        tma_prefetch(map_c);
    }
    __syncwarp();
    // No CTA may write or arrive before the barriers of all are ready. Its own are so for the thread that copies.
    if constexpr (CLUSTER > 1) cluster_meet<CLUSTER>();
    if constexpr (CLUSTER == 1 && SPLIT > 1) cluster_arrive();

    if (warp < 4) {
        if constexpr (CLUSTER == 1) named_barrier_arrive(kReady, kThreads);
        registers_release<kProducerRegisters>();
        if (warp == 0 && elect_one()) produce(map_a, map_b, memory, walk);
    } else {
        if constexpr (CLUSTER == 1) named_barrier_sync(kReady, kThreads);
        registers_claim<kConsumerRegisters>();
        Consumer(memory, warp / 4 - 1).consume(map_c, walk, stores(m));
    }
}
