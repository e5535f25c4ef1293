// gemm_mma_swizzled: C = A x B on tensor cores through ldmatrix and mma.sync, swizzled shared memory, half in and out.
// Rung 4.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major half; float accumulators, rounded once.
// Tile:         128 x TILE_N x TILE_K per CTA; a warp owns 64 x 64 of C: 8 warps with TILE_N = 256, 4 with 128.
//               STAGES buffers of (128 + TILE_N) x TILE_K halves (2..6), no padding.
// Idea:         against rung 3 shared memory stops being the bottleneck. Pieces of 16 bytes lie where the XOR swizzle
//               puts them: cp.async writes and ldmatrix reads them without bank conflicts. Square warp tiles read 4 KB
//               per 32 mma, two thirds of what 64 x 32 tiles read. And a warp reads the fragments of the next 16 steps
//               of k while it multiplies the present ones, across the barrier between tiles, too.
// Roofline:     tensor pipe; mma.sync reaches at most 2/3 of the wgmma FLOPs on Hopper.
// Bubble:       LAYOUT=plain leaves the swizzle out: smem_wait. STAGES=2: data_wait. Else a little of each: issue and
//               copy_cost, start and end of a CTA (nothing overlaps them where one fills an SM), the last wave.
// Launch:       grid m / 128 * n / TILE_N, block TILE_N, dynamic shared memory: the ring, at least 256 x TILE_N bytes.
// Precondition: m a multiple of 128, n of TILE_N, k of TILE_K (checked before launch), 16-byte aligned pointers.
// Parameters:   -DSTAGES=2..6 -DTILE_N=128|256 -DTILE_K=32|64 -DLAYOUT=LAYOUT_PLAIN|LAYOUT_XOR
//               -DWITHOUT_WAIT, -DWITHOUT_COPY, … for `ablate` (ablate.cuh): wait: groups are awaited only at the end.
//               copy: nothing is copied. sync: no barrier between tiles. smem: fragments are made up once, none is read.
//               epilogue: C is not stored.
#include "ablate.cuh"
#include "cp_async.cuh"
#include "mma.cuh"
#include "pack.cuh"
#include "raster.cuh"
#include "swizzle.cuh"

using namespace ncubble;

constexpr int kTileM = 128, kTileN = TILE_N, kTileK = TILE_K;
constexpr int kWarpM = 64, kWarpN = 64;                 // a warp's part of the tile
constexpr int kColumnsOfWarps = kTileN / kWarpN;
constexpr int kThreads = kTileM / kWarpM * kColumnsOfWarps * 32;
constexpr int kK = 16, kSteps = kTileK / kK;            // k of one mma; steps per tile
constexpr int kRowA = kTileK * 2, kRowB = kTileN * 2, kRowC = kWarpN * 2;  // bytes
constexpr int kBytesA = kTileM * kRowA, kBytesStage = kBytesA + kTileK * kRowB, kBytesRing = STAGES * kBytesStage;
constexpr int kBand = 16;                               // rows of tiles per band: 132 SMs cover about 2048 x 2048 of C
static_assert(STAGES >= 2, "a tile is read while another is written");
static_assert(kSteps % 2 == 0, "two sets of fragments take turns, and every tile starts with the first");

// Offset of a piece in a tile, with the layout under test.
template <int kRowBytes>
__device__ __forceinline__ uint32_t placed(uint32_t row, uint32_t column) {
    return LAYOUT == LAYOUT_XOR ? swizzled<kRowBytes>(row, column) : row * kRowBytes + column;
}

// One thread's share of the copies that bring a kRows x kRowBytes tile into a stage.
template <int kRows, int kRowBytes>
struct Share {
    static constexpr int kPieces = kRowBytes / kPiece, kRowsAtOnce = kThreads / kPieces, kCopies = kRows / kRowsAtOnce;
    static_assert(kThreads % kPieces == 0 && kRows % kRowsAtOnce == 0, "every thread copies equally many pieces");
    static_assert(kRowsAtOnce % 8 == 0, "from copy to copy the swizzle stays the same");

    const char* global;  // the thread's first piece of the next tile
    int stride;          // bytes from one of its rows to the next in global memory
    uint32_t offset;     // of the first piece in a tile in shared memory

    __device__ __forceinline__ Share(const half* tile, int ld)
        : stride(kRowsAtOnce * ld * 2), offset(placed<kRowBytes>(row(), column())) {
        global = reinterpret_cast<const char*>(tile + static_cast<size_t>(row()) * ld) + column();
    }

    // Copy number i of kCopies.
    __device__ __forceinline__ void copy(char* tile, int i) const {
        cp_async<kPiece>(tile + offset + i * kRowsAtOnce * kRowBytes, global + static_cast<int64_t>(i) * stride);
    }

  private:
    __device__ __forceinline__ static int row() { return threadIdx.x / kPieces; }
    __device__ __forceinline__ static int column() { return threadIdx.x % kPieces * kPiece; }
};

// What a warp multiplies in one step: 64 x 16 of A, 16 x 64 of B.
struct Fragments {
    uint32_t a[kWarpM / 16][4], b[kWarpN / 16][4];

    // Reads step `step` of a tile; a and b are the lane's addresses in it (see ldmatrix_row) at step 0.
    // A step moves along the rows of A and down the rows of B; the next 16 columns move along the rows of B.
    __device__ __forceinline__ void load(uint32_t address_a, uint32_t address_b, int step) {
#pragma unroll
        for (int i = 0; i < kWarpM / 16; ++i) ldmatrix_x4(a[i], (address_a ^ step * 2 * kPiece) + i * 16 * kRowA);
#pragma unroll
        for (int j = 0; j < kWarpN / 16; ++j) ldmatrix_x4_trans(b[j], (address_b ^ j * 2 * kPiece) + step * kK * kRowB);
    }

    __device__ __forceinline__ void make_up(int index) {
#pragma unroll
        for (auto& matrices : a)
#pragma unroll
            for (uint32_t& word : matrices) word = made_up_halves(index++);
#pragma unroll
        for (auto& matrices : b)
#pragma unroll
            for (uint32_t& word : matrices) word = made_up_halves(index++);
    }
};

struct WarpTile {
    float acc[kWarpM / 16][kWarpN / 8][4] = {};

    __device__ __forceinline__ void multiply(const Fragments& f) {
#pragma unroll
        for (int i = 0; i < kWarpM / 16; ++i)
#pragma unroll
            for (int j = 0; j < kWarpN / 8; ++j)
                mma_m16n8k16<half>(acc[i][j], f.a[i], f.b[j / 2][j % 2 * 2], f.b[j / 2][j % 2 * 2 + 1]);
    }

    // Through the warp's own 8 KB of shared memory, so that 8 lanes store 128 contiguous bytes of C.
    __device__ __forceinline__ void store(char* shared, half* c, int ldc) const {
        const int lane = threadIdx.x % 32, group = lane / 4, quad = lane % 4;
#pragma unroll
        for (int i = 0; i < kWarpM / 8; ++i)
#pragma unroll
            for (int j = 0; j < kWarpN / 8; ++j) {
                const float* pair = &acc[i / 2][j][i % 2 * 2];
                *reinterpret_cast<uint32_t*>(shared + swizzled<kRowC>(i * 8 + group, j * kPiece) + quad * 4) =
                    pack<half>(pair[0], pair[1]);
            }
        __syncwarp();
        constexpr int kPieces = kRowC / kPiece, kRowsAtOnce = 32 / kPieces;
        const int row = lane / kPieces, piece = lane % kPieces;
#pragma unroll
        for (int start = 0; start < kWarpM; start += kRowsAtOnce)
            *reinterpret_cast<uint4*>(&c[static_cast<size_t>(start + row) * ldc + piece * 8]) =
                *reinterpret_cast<const uint4*>(shared + swizzled<kRowC>(start + row, piece * kPiece));
    }
};

extern "C" __global__ void __launch_bounds__(kThreads, 256 / kThreads)
gemm_mma_swizzled(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(1024) char ring[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / kColumnsOfWarps * kWarpM, warp_column = warp % kColumnsOfWarps * kWarpN;
    const TilePlace place = banded_place<kBand>(blockIdx.x, m / kTileM, n / kTileN);
    const size_t row = static_cast<size_t>(place.row) * kTileM, column = static_cast<size_t>(place.column) * kTileN;

    Share<kTileM, kRowA> share_a(a + row * k, k);
    Share<kTileK, kRowB> share_b(b + column, n);
    const int tiles = k / kTileK;
    uint32_t write = 0, read = 0;  // offsets of stages in the ring
    auto advance = [](uint32_t& stage) { stage = stage == kBytesRing - kBytesStage ? 0 : stage + kBytesStage; };

    // Part `part` of `parts` of the copies of tile t into the stage `write`; nothing if there is no such tile.
    auto issue = [&](int t, int part, int parts) {
        char* stage = ring + write;
        if (kCopies && t < tiles) {
#pragma unroll
            for (int i = 0; i < share_a.kCopies; ++i)
                if (i * parts / share_a.kCopies == part) share_a.copy(stage, i);
#pragma unroll
            for (int i = 0; i < share_b.kCopies; ++i)
                if (i * parts / share_b.kCopies == part) share_b.copy(stage + kBytesA, i);
        }
    };
    // Exactly one group is committed per tile, empty past the last one, so that counting groups counts tiles.
    auto close = [&] {
        if (kCopies) cp_async_commit();
        advance(write);
        share_a.global += kRowA;
        share_b.global += static_cast<size_t>(kTileK) * n * 2;
    };

#pragma unroll
    for (int t = 0; t < STAGES - 1; ++t) {
        issue(t, 0, 1);
        close();
    }
    if (kAwaits) cp_async_wait<STAGES - 2>();
    __syncthreads();  // tile 0 is in

    const int lane_row = ldmatrix_row(lane), lane_byte = ldmatrix_half(lane) * kPiece;
    const uint32_t lane_a = shared_address(ring) + placed<kRowA>(warp_row + lane_row, lane_byte);
    const uint32_t lane_b = shared_address(ring) + kBytesA + placed<kRowB>(lane_row, warp_column * 2 + lane_byte);
    Fragments fragments[2];
    if (kReads) {
        fragments[0].load(lane_a + read, lane_b + read, 0);
    } else {
        fragments[0].make_up(0);
        fragments[1].make_up(sizeof(Fragments) / sizeof(uint32_t));
    }
    WarpTile tile;

#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            if (step == kSteps - 1) {
                // STAGES + t groups are committed here: with at most STAGES - 2 pending, this thread's part of tile
                // t + 1 is in.
                if (kAwaits) cp_async_wait<STAGES - 2>();
                loop_sync();  // everybody's part of tile t + 1 is in, and everybody has finished reading tile t
                advance(read);
            }
            // After the last tile this reads a stage that nobody writes any more, and nobody uses what it holds.
            if (kReads) fragments[(step + 1) % 2].load(lane_a + read, lane_b + read, (step + 1) % kSteps);
            if (step < kSteps - 1) issue(t + STAGES - 1, step, kSteps - 1);  // into the stage of tile t - 1
            if (step == kSteps - 2) close();
            tile.multiply(fragments[step % 2]);
        }
    }

    if (kCopies && !kAwaits) cp_async_wait<0>();  // nothing may land later
    __syncthreads();  // nobody reads the ring any more: the results may pass through it
    if (stores(m)) tile.store(ring + warp * kWarpM * kRowC, c + (row + warp_row) * n + column + warp_column, n);
}
