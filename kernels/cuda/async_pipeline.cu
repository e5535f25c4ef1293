// async_pipeline: C = A x B in fp32, tiles brought by cp.async into a ring of buffers.  Rung 2.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major float.
// Tile:         128 x 128 x 16 per CTA; STAGES buffers of 18 KB (2..6); THREADS = 256 (8 x 8 results per thread) or 128
//               (16 x 8 per thread: half the warps, so half the latency that other warps could hide).
// Idea:         against rung 1 only the copies change: they bypass registers and run STAGES - 1 tiles ahead of the FMAs, so that
//               one barrier per tile is enough and nobody waits for a load it has just issued.
// Roofline:     compute (fp32 FMA), as rung 1.
// Bubble:       none that depth cures once (STAGES - 1) x tile time exceeds the loaded latency; what stays is issue (LDS, LDGSTS).
// Launch:       grid (n / 128, m / 128), block THREADS, dynamic shared memory STAGES x 18432 bytes.
// Precondition: m and n multiples of 128, k a multiple of 16 (checked before launch), 16-byte aligned pointers.
// Parameters:   -DSTAGES=2..6 -DTHREADS=128|256
//               -DWITHOUT_WAIT, -DWITHOUT_COPY, … for `ablate` (ablate.cuh): wait: groups are awaited only at the end.
//               copy: nothing is copied. sync: no barriers. smem: operands are made up once, none is read. epilogue: C
//               is not stored.
#include "ablate.cuh"
#include "bubble_probe.cuh"
#include "cp_async.cuh"
#include "sgemm_tile.cuh"

using namespace ncubble;

static_assert(STAGES >= 2, "one buffer cannot be filled while it is read: that is rung 1");

// Operands of two steps along k that were never read: what ThreadTile::multiply holds at one time.
struct MadeUp {
    static constexpr int kRows = ThreadTile<THREADS>::kRows;
    float a[kRows][2], b[2][8];

    __device__ __forceinline__ MadeUp() {
        int index = 0;
#pragma unroll
        for (auto& pair : a)
#pragma unroll
            for (float& value : pair) value = made_up_float(index++);
#pragma unroll
        for (auto& row : b)
#pragma unroll
            for (float& value : row) value = made_up_float(index++);
    }

    // As many products as ThreadTile::multiply, in the same order. As fmaf: the compiler would take a * b, which never
    // changes, out of the loop.
    __device__ __forceinline__ void multiply(ThreadTile<THREADS>& tile) const {
#pragma unroll 1
        for (int k = 0; k < kTileK; k += 2)
#pragma unroll
            for (int kk = 0; kk < 2; ++kk)
#pragma unroll
                for (int i = 0; i < kRows; ++i)
#pragma unroll
                    for (int j = 0; j < 8; ++j) tile.acc[i][j] = fmaf(a[i][kk], b[kk][j], tile.acc[i][j]);
    }
};

// At most 128 registers with 256 threads, 255 with 128: either way two CTAs fit an SM.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
async_pipeline(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(16) float ring[];
    const int thread = threadIdx.x;
    a += static_cast<size_t>(blockIdx.y) * kTileM * k;
    b += blockIdx.x * kTileN;
    c += static_cast<size_t>(blockIdx.y) * kTileM * n + blockIdx.x * kTileN;

    BUBBLE_WARP(probe, warp);
    const int tiles = k / kTileK;
    // Exactly one group is committed per call, empty past the last tile, so that counting groups counts tiles.
    auto issue = [&](int t) {
        if (kCopies && t < tiles)
            copy_tiles<THREADS>(&ring[t % STAGES * kFloatsStage], a + t * kTileK, b + static_cast<size_t>(t) * kTileK * n,
                                k, n, thread, [](float* shared, const float* global) { cp_async<16>(shared, global); });
        if (kCopies) cp_async_commit();
    };

    for (int t = 0; t < STAGES - 1; ++t) BUBBLE_STEP(probe, load, t, issue(t));

    ThreadTile<THREADS> tile(thread);
    const MadeUp made_up;
#pragma unroll 1  // also where an ablation leaves little in the loop
    for (int t = 0; t < tiles; ++t) {
        // STAGES - 1 + t groups are committed here, so at most STAGES - 2 pending means: this thread's part of tile t is in.
        if (kAwaits) BUBBLE_STEP(probe, wait_data, t, cp_async_wait<STAGES - 2>());
        // Everybody's part of tile t is in, and everybody has finished reading tile t - 1.
        BUBBLE_STEP(probe, wait_sync, t, loop_sync());
        BUBBLE_STEP(probe, load, t + STAGES - 1, issue(t + STAGES - 1));  // into the slot of tile t - 1
        const float* stage = &ring[t % STAGES * kFloatsStage];
        BUBBLE_STEP(probe, compute, t);
        if (kReads) {
            tile.multiply(stage, stage + kFloatsA);
        } else {
            made_up.multiply(tile);
        }
    }
    if (kCopies && !kAwaits) cp_async_wait<0>();  // nothing may land after the CTA has ended
    if (stores(m)) BUBBLE_STEP(probe, store, tiles, tile.store(c, n));
}
