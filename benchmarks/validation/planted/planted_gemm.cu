// planted_gemm: C = A x B as gemm_mma_swizzled, healthy or with one planted disease of the main loop.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major half; float accumulators, rounded once.
// Tile:         128 x 256 x TILE_K per CTA of 8 warps, 64 x 64 of C each; STAGES buffers of (128 + 256) x TILE_K
//               halves.
// Idea:         a kernel whose dominant loss is known, because it was put there and because its twin differs in nothing
//               else. DISEASE=none is the twin: a cp.async ring on swizzled shared memory, fragments read ahead.
//   STAGES=1            single_buffer: a tile is asked for when the one before is done. STAGES=2: shallow_pipeline.
//   no_async            a tile passes through registers, and nothing is on its way while another is multiplied.
//   narrow_copies       cp.async of 4 bytes.
//   uncoalesced         neighbouring threads copy pieces of different rows: 32 lines and twice the sectors per copy.
//   address_arithmetic  addresses are made anew for every copy, by divisions; STRENGTH=64: of 64-bit numbers.
//   bank_conflicts      no swizzle, so that 8 rows meet in the same banks; STRENGTH=2|4: 2 or 4 of them do.
//   smem_rereads        fragments of B are read again for every 16 rows of C (4 times); STRENGTH=2: for every 32.
//   barrier_imbalance   before the barrier of each tile one warp does STRENGTH (16) x 16 dependent FMAs for nothing.
//   excess_barriers     STRENGTH (8) barriers among the 32 products of a step, which nobody needs.
//   spills              STRENGTH (184) registers per thread, of which the accumulators take 128.
//   dependent_mma       a product takes the result of the one before, or with STRENGTH=2 of the one before that.
// Roofline:     tensor pipe; mma.sync reaches at most 2/3 of the wgmma FLOPs on Hopper.
// Bubble:       the planted one; without, a little of each.
// Launch:       grid m / 128 * n / 256, block 256, dynamic shared memory: the ring, at least 64 KB. One CTA per SM.
// Precondition: m a multiple of 128, n of 256, k of TILE_K (checked before launch), 16-byte aligned pointers.
// Parameters:   -DDISEASE=DISEASE_NONE|… -DSTAGES=1..6 -DTILE_K=32|64, and -DSTRENGTH=… where it is not the usual.
constexpr int kThreads = 256;

#include "planted_copies.cuh"
#include "planted_tile.cuh"
#include "raster.cuh"

using namespace ncubble;

constexpr int kTileM = 128, kTileN = 256, kTileK = TILE_K, kSteps = kTileK / kK;
constexpr int kRowA = kTileK * 2, kRowB = kTileN * 2;  // bytes
constexpr int kBand = 16;                              // rows of tiles per band
// A unit is what a warp multiplies between two reads of shared memory: a step of k, or some rows of it.
constexpr int kUnitsOfStep = is(DISEASE_SMEM_REREADS) ? strength(4) : 1, kUnits = kSteps * kUnitsOfStep;
constexpr int kRowsOfUnit = kWarpM / 16 / kUnitsOfStep;  // by 16
static_assert(kUnits % 2 == 0, "two sets of fragments take turns, and every tile starts with the first");
static_assert(STAGES > 1 || is(DISEASE_NONE) || is(DISEASE_NO_ASYNC), "a disease is planted into a healthy ring");

using Ring = Copies<kTileM, kRowA, kTileK, kRowB>;

#ifndef BOUNDS
#if DISEASE == DISEASE_SPILLS
#define BOUNDS __maxnreg__(STRENGTH ? STRENGTH : 184)
#else
#define BOUNDS __launch_bounds__(kThreads, 1)
#endif
#endif

// The lane's addresses for ldmatrix in the tiles of the first stage.
struct Lane {
    uint32_t a, b;
};

struct Fragments {
    uint32_t a[kRowsOfUnit][4], b[kWarpN / 16][4];

    __device__ __forceinline__ void load(const Lane& lane, uint32_t stage, int unit) {
        if (is(DISEASE_SMEM_REREADS)) __syncwarp();  // else the compiler keeps what it has read
        const int step = unit / kUnitsOfStep, first = unit % kUnitsOfStep * kRowsOfUnit;
#pragma unroll
        for (int i = 0; i < kRowsOfUnit; ++i)
            ldmatrix_x4(a[i], ((lane.a + stage) ^ step * 2 * kPiece) + (first + i) * 16 * kRowA);
        load_b<kRowB>(b, lane.b + stage, step);
    }

    __device__ __forceinline__ void multiply(WarpTile& tile, int unit) const {
#pragma unroll
        for (int i = 0; i < kRowsOfUnit; ++i) tile.multiply(unit % kUnitsOfStep * kRowsOfUnit + i, a[i], b);
    }
};

// Work that one warp has beyond the others. From x >= 0 it makes another x >= 0, which the compiler does not know.
__device__ __forceinline__ void work_more(float& x) {
    if (is(DISEASE_BARRIER_IMBALANCE) && threadIdx.x < 32) {
#pragma unroll 16
        for (int i = 0; i < strength(16) * 16; ++i) x = fmaf(x, 0.5f, 0.25f);
    }
}

// One buffer: a tile comes while nobody multiplies.
__device__ __forceinline__ void multiply_alone(Ring& copies, const Lane& lane, int tiles, WarpTile& tile) {
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
        if (is(DISEASE_NO_ASYNC)) {
            copies.move();
            copies.close();
        } else {
            copies.issue(0, 1);
            copies.close();
            cp_async_wait<0>();
        }
        __syncthreads();  // everybody's part of the tile is in
        Fragments fragments[2];
        fragments[0].load(lane, 0, 0);
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit) {
            if (unit < kUnits - 1) fragments[(unit + 1) % 2].load(lane, 0, unit + 1);
            fragments[unit % 2].multiply(tile, unit);
        }
        __syncthreads();  // everybody has finished reading the tile
    }
}

// STAGES - 1 tiles are on their way while one is multiplied.
__device__ __forceinline__ void multiply_ahead(Ring& copies, const Lane& lane, int tiles, WarpTile& tile) {
    Fragments fragments[2];
    uint32_t read = 0;
    float more = threadIdx.x;
    fragments[0].load(lane, read, 0);
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit) {
            if (unit == kUnits - 1) {
                work_more(more);
                // STAGES + t groups are committed here: with at most STAGES - 2 pending, this thread's part of tile
                // t + 1 is in.
                cp_async_wait<STAGES - 2>();
                __syncthreads();  // everybody's part of tile t + 1 is in, and everybody has finished reading tile t
                Ring::step(read);
            }
            // After the last tile this reads a stage that nobody writes any more, and nobody uses what it holds.
            fragments[(unit + 1) % 2].load(lane, read, (unit + 1) % kUnits);
            if (unit < kUnits - 1) copies.issue(unit, kUnits - 1);  // into the stage of tile t - 1
            if (unit == kUnits - 2) copies.close();
            fragments[unit % 2].multiply(tile, unit);
        }
    }
    if (is(DISEASE_BARRIER_IMBALANCE) && more < 0.0f) __trap();  // never
}

extern "C" __global__ void BOUNDS
planted_gemm(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(1024) char ring[];
    constexpr int kColumnsOfWarps = kTileN / kWarpN;
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / kColumnsOfWarps * kWarpM, warp_column = warp % kColumnsOfWarps * kWarpN;
    const TilePlace place = banded_place<kBand>(blockIdx.x, m / kTileM, n / kTileN);
    const size_t row = static_cast<size_t>(place.row) * kTileM, column = static_cast<size_t>(place.column) * kTileN;

    const int tiles = k / kTileK;
    Ring copies(ring, a + row * k, k * 2, b + column, n * 2, tiles);
    const int lane_row = ldmatrix_row(threadIdx.x % 32), lane_byte = ldmatrix_half(threadIdx.x % 32) * kPiece;
    const Lane lane{shared_address(ring) + placed<kRowA>(warp_row + lane_row, lane_byte),
                    shared_address(ring) + Ring::kBytesA + placed<kRowB>(lane_row, warp_column * 2 + lane_byte)};
    WarpTile tile(m);
    if constexpr (STAGES == 1) {
        multiply_alone(copies, lane, tiles, tile);
    } else {
#pragma unroll
        for (int t = 0; t < STAGES - 1; ++t) {
            copies.issue(0, 1);
            copies.close();
        }
        cp_async_wait<STAGES - 2>();
        __syncthreads();  // tile 0 is in
        multiply_ahead(copies, lane, tiles, tile);
    }
    __syncthreads();  // nobody reads the ring any more: the results may pass through it
    tile.store(ring + warp * kWarpM * kRowC, c + (row + warp_row) * n + column + warp_column, n);
}
