// gemm_fp8: C = A x B^T on e4m3, scaled per tensor or per block: the structure of gemm_ws at twice its rate.  Rung 6.
//
// Shapes:       A (m, k) and B (n, k), row-major e4m3 (8-bit wgmma takes both operands K-major only, so B comes
//               transposed); C (m, n), row-major bf16. Scales are float: SCALING=tensor: C = A x B^T x scale_a[0] x
//               scale_b[0]. block: scale_a (ceil(k / 128), m), one for 128 elements of a row of A, stored as cuBLASLt
//               wants them; scale_b (ceil(n / 128), ceil(k / 128)), one for 128 x 128 elements of B.
// Tile:         128 x TILE_N x 128 per CTA, 384 threads with the roles, schedules and clusters of gemm_ws.
// Idea:         against gemm_ws half the bytes per element and twice the depth per product, and a choice of where sums
//               are kept. ACCUMULATE=fast: in the tensor cores all along, with 13 bits behind the first. promoted: in
//               the tensor cores over a stage, 128 of k; then they are scaled and added to floats in registers while
//               the products of the next stage run.
// Roofline:     tensor pipe, wgmma on 8 bits: 8192 FLOP a cycle and SM.
// Bubble:       first load, last store and last wave, twice as large beside products that take half as long; promoted:
//               `issue` at the additions.
// Launch:       grid min(SMs, tiles) rounded to CLUSTER, cluster CLUSTER along x, block 384, dynamic shared memory
//               STAGES x (16384 + 128 TILE_N + 512 for scales of blocks) + BUFFERS x 16384 + 256 bytes.
// Precondition: compute capability 9.0; k a multiple of 16, n of 8 (16-byte rows, checked before launch); m any, with
//               scales of blocks a multiple of 4. Beyond the edges TMA reads zeros and writes nothing.
// Parameters:   -DSCALING=SCALING_TENSOR|SCALING_BLOCK -DACCUMULATE=ACCUMULATE_FAST|ACCUMULATE_PROMOTED
//               -DSTAGES=2..6 -DTILE_N=128|256 -DCLUSTER=1|2 -DSCHEDULE=SCHEDULE_COOPERATIVE|SCHEDULE_PINGPONG
//               -DBAND=512..8192 and -DBUFFERS=1..4: as of gemm_ws
#include <cstdint>

#include "bubble_probe.cuh"
#include "specialized.cuh"
#include "tma.cuh"
#include "wgmma_fp8.cuh"
#include "wgmma_tile.cuh"

using namespace ncubble;

constexpr bool kScaledBlocks = SCALING == SCALING_BLOCK, kPromoted = ACCUMULATE == ACCUMULATE_PROMOTED;
constexpr int kTileM = 128, kDepth = kRowBytes;  // kDepth: elements of k in a stage, a byte each
constexpr int kBytesA = kTileM * kDepth, kBytesStage = kBytesA + TILE_N * kDepth;
constexpr int kShareB = TILE_N / CLUSTER;  // rows of B that a CTA loads for its cluster
using Tile = WarpgroupTile<kTileM / kBlockRows / kSharers, TILE_N>;
using Walk = TileWalk<kTileM, TILE_N, kDepth>;

static_assert(kPromoted || !kScaledBlocks, "scales change along k, and the tensor cores know nothing of them");
static_assert(!kPromoted || (TILE_N == 128 && !kPingpong), "registers hold 128 columns of a tile and of two stages");
static_assert(!kPingpong || TILE_N == 128, "the accumulators of 128 x 256 do not fit one warpgroup");

struct Scales {  // in global memory
    const float *a, *b;
    int m, steps;  // rows of C, and blocks along k
};

// Where things lie in dynamic shared memory.
struct Memory {
    unsigned char* ring;
    unsigned char* out;  // BUFFERS boxes per consumer warp
    Barriers barriers;
    float* scales;  // per slot: those of the rows of A

    __device__ __forceinline__ explicit Memory(unsigned char* base)
        : ring(base),
          out(ring + STAGES * kBytesStage),
          barriers(out + kConsumerWarps * BUFFERS * kBoxBytes),
          scales(reinterpret_cast<float*>(barriers.turn + kConsumers)) {}

    __device__ __forceinline__ unsigned char* a(uint32_t slot) const { return ring + slot * kBytesStage; }
    __device__ __forceinline__ unsigned char* b(uint32_t slot) const { return a(slot) + kBytesA; }
};

// One thread: fills the ring, slot after slot, tile after tile.
__device__ __forceinline__ void produce(const TensorMap& map_a, const TensorMap& map_b, const Scales& scales,
                                        const Memory& memory, Walk walk) {
    const int first = static_cast<int>(cluster_rank()) * kShareB;  // row of B
    BUBBLE_THREAD(probe, loader);
    Ring<STAGES> ring;
    for (; walk.more(); walk.next()) {
        const TilePlace place = walk.place();
        const int bytes = kScaledBlocks ? max(0, min(kTileM, scales.m - place.row)) * 4 : 0;  // of scales
        for (int step = 0; step < walk.steps; ++step, ring.next()) {
            uint64_t* full = &memory.barriers.full[ring.slot];
            BUBBLE_POLL(probe, wait_slot, walk.tile * walk.steps + step,
                        mbarrier_wait(&memory.barriers.empty[ring.slot], ring.parity ^ 1));
            BUBBLE_STEP(probe, load, walk.tile * walk.steps + step);
            mbarrier_arrive_expect(full, kBytesStage + bytes);  // the others' shares of B included
            tma_load(memory.a(ring.slot), map_a, full, step * kDepth, place.row);
            unsigned char* target = memory.b(ring.slot) + first * kDepth;
            if constexpr (CLUSTER > 1) {
                tma_load_multicast(target, map_b, full, (1 << CLUSTER) - 1, step * kDepth, place.column + first);
            } else {
                tma_load(target, map_b, full, step * kDepth, place.column);
            }
            if (bytes > 0) {
                const float* source = scales.a + static_cast<int64_t>(step) * scales.m + place.row;
                bulk_load(memory.scales + ring.slot * kTileM, source, bytes, full);
            }
        }
    }
    // Until all slots have been handed back: then nobody arrives here any more, and this CTA may end before the others.
    for (int slot = 0; slot < STAGES; ++slot, ring.next()) mbarrier_wait(&memory.barriers.empty[ring.slot], ring.parity ^ 1);
}

// Sums over one stage, and what they are multiplied by before they are added up.
struct Part {
    float sums[TILE_N / 2];
    float upper, lower, columns;  // scales of the thread's two rows of A, and of B
    uint32_t slot;
};

struct Consumer : Multiplier {
    const Memory& memory;

    __device__ __forceinline__ Consumer(const Memory& memory, int index)
        : Multiplier(memory.barriers, index), memory(memory) {}

    // Starts the products of the slot as one group: sums = A x B, or += with `accumulate`.
    template <int kBlocks>
    __device__ __forceinline__ void start(float (&sums)[kBlocks][TILE_N / 2], bool accumulate) const {
        const unsigned char* a = memory.a(ring.slot) + (kPingpong ? 0 : index * kBlockBytes);
        wgmma_e4m3_stage(sums, a, memory.b(ring.slot), accumulate);
    }

    // Sums stay in the tensor cores. `first`: the number of the tile's first step among those of all tiles, for the
    // probe.
    __device__ __forceinline__ void multiply(Tile& tile, int steps, [[maybe_unused]] int first BUBBLE_TAKE(probe)) {
        uint32_t previous = 0;
        for (int step = 0; step < steps; ++step, ring.next()) {
            BUBBLE_STEP(probe, wait_data, first + step, mbarrier_wait(&memory.barriers.full[ring.slot], ring.parity));
            BUBBLE_STEP(probe, compute, first + step, start(tile.acc, step > 0));
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

    // Starts the products of the next stage, and reads its scales. They are used after the wait for the products.
    // `of_b`: the scale of B's rows in this stage; `number`: of the stage, for the probe.
    __device__ __forceinline__ void begin(Part& part, const float* of_b, [[maybe_unused]] int number BUBBLE_TAKE(probe)) {
        BUBBLE_STEP(probe, wait_data, number, mbarrier_wait(&memory.barriers.full[ring.slot], ring.parity));
        if constexpr (kScaledBlocks) {
            const float* of_a = memory.scales + ring.slot * kTileM + warp * kBoxRows + lane / 4;
            part.upper = of_a[0];
            part.lower = of_a[8];
            part.columns = __ldg(of_b);
        }
        BUBBLE_STEP(probe, compute, number, start(reinterpret_cast<float(&)[1][TILE_N / 2]>(part.sums), false));
        part.slot = ring.slot;
        ring.next();
    }

    // Adds the sums of a stage to those of the tile, once all but the kPending newest groups of products are done.
    template <int kPending>
    __device__ __forceinline__ void add(Tile& tile, Part& part, [[maybe_unused]] int number BUBBLE_TAKE(probe)) const {
        BUBBLE_STEP(probe, wait_mma, number, wgmma_wait<kPending>());
        wgmma_pin(part.sums);
        release(part.slot);
        BUBBLE_STEP(probe, compute, number);
        const float upper = part.upper * part.columns, lower = part.lower * part.columns;
#pragma unroll
        for (int i = 0; i < TILE_N / 2; ++i) {
            float& sum = tile.acc[0][i];
            sum = kScaledBlocks ? fmaf(part.sums[i], i % 4 < 2 ? upper : lower, sum) : sum + part.sums[i];
        }
    }

    // Sums leave the tensor cores after every stage, those of one while the products of the next run.
    __device__ __forceinline__ void promote(Tile& tile, const float* of_b, int steps,
                                            [[maybe_unused]] int first BUBBLE_TAKE(probe)) {
#pragma unroll
        for (float& sum : tile.acc[0]) sum = 0.0f;
        Part even, odd;
        begin(even, of_b, first BUBBLE_PASS(probe));
        int step = 1;
        for (; step + 1 < steps; step += 2) {
            begin(odd, of_b + step, first + step BUBBLE_PASS(probe));
            add<1>(tile, even, first + step - 1 BUBBLE_PASS(probe));
            begin(even, of_b + step + 1, first + step + 1 BUBBLE_PASS(probe));
            add<1>(tile, odd, first + step BUBBLE_PASS(probe));
        }
        if (step == steps) return add<0>(tile, even, first + step - 1 BUBBLE_PASS(probe));
        begin(odd, of_b + step, first + step BUBBLE_PASS(probe));
        add<1>(tile, even, first + step - 1 BUBBLE_PASS(probe));
        add<0>(tile, odd, first + step BUBBLE_PASS(probe));
    }

    __device__ __forceinline__ void consume(const TensorMap& map_c, const Scales& scales, Walk walk) {
        unsigned char* buffers = memory.out + warp * BUFFERS * kBoxBytes;
        BUBBLE_WARP(probe, math);
        if (kPingpong && index == 1) {
            walk.next();
            ring.skip(walk.steps);
        }
        for (; walk.more(); walk.next(kPingpong ? kConsumers : 1)) {
            Tile tile;
            const TilePlace place = walk.place();
            if constexpr (kPingpong) BUBBLE_POLL(probe, wait_sync, walk.tile, await_turn());
            if constexpr (kPromoted) {
                const float* of_b = scales.b + static_cast<int64_t>(place.column / TILE_N) * scales.steps;
                promote(tile, of_b, walk.steps, walk.tile * walk.steps BUBBLE_PASS(probe));
            } else {
                multiply(tile, walk.steps, walk.tile * walk.steps BUBBLE_PASS(probe));
            }
            BUBBLE_STEP(probe, store, walk.tile);
            if constexpr (!kScaledBlocks) tile.scale(__ldg(scales.a) * __ldg(scales.b));
            tile.store<BUFFERS>(map_c, buffers, place.row + (kPingpong ? 0 : index * kBlockRows), place.column);
            if constexpr (kPingpong) ring.skip(walk.steps);  // the other consumer's tile
        }
        tma_store_wait_read<0>();  // shared memory must outlive the stores' reads; only lane 0 has any
    }
};

extern "C" __global__ void __launch_bounds__(kThreads, 1)
gemm_fp8(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
         const __grid_constant__ TensorMap map_c, const void*, const void*, const float* scale_a,
         const float* scale_b, void*, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char base[];
    const Memory memory(base);
    const Walk walk(m, n, k);
    const Scales scales{scale_a, scale_b, m, walk.steps};
    const int warp = uniform_warp();
    if (warp == 0 && elect_one()) {
        memory.barriers.initialize();
        mbarrier_init_fence();
        tma_prefetch(map_a);
        tma_prefetch(map_b);
        tma_prefetch(map_c);
    }
    __syncwarp();
    cluster_meet<CLUSTER>();  // no CTA may write or arrive before the barriers of all are ready

    if (warp < 4) {
        registers_release<kProducerRegisters>();
        if (warp == 0 && elect_one()) produce(map_a, map_b, scales, memory, walk);
    } else {
        registers_claim<kConsumerRegisters>();
        Consumer(memory, warp / 4 - 1).consume(map_c, scales, walk);
    }
}
