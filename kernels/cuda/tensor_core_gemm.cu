// tensor_core_gemm: C = A x B on tensor cores through nvcuda::wmma, half in, float accumulate and out.  Rung 3.
//
// Shapes:       A (m, k), B (k, n) row-major half; C (m, n) row-major float.
// Tile:         128 x 128 x 32 per CTA, 256 threads; a warp owns 64 x 32 of C as 4 x 2 fragments of 16 x 16 x 16.
//               STAGES buffers of 18.5 KB (1..6); rows padded by 16 bytes against bank conflicts.
// Idea:         against rung 2 the products move to the tensor cores, whose peak is ten times the FMA pipe's: now the copies, the
//               barriers and the fragment loads are what the time goes to. COPY and VEC plant the classic diseases.
// Roofline:     tensor pipe; WMMA compiles to mma.sync, which on Hopper reaches at most 2/3 of the wgmma FLOPs.
// Bubble:       COPY=plain: data_wait (no_async). STAGES=1: data_wait (single_buffer). STAGES>=2: smem_wait, and the cost of
//               copying; depth helps little. VEC=4: four times the copy instructions (narrow_copies).
// Launch:       grid (n / 128, m / 128), block 256, dynamic shared memory STAGES x 18944 bytes.
// Precondition: m and n multiples of 128, k a multiple of 32 (checked before launch), 32-byte aligned pointers.
// Parameters:   -DSTAGES=1..6 -DCOPY=COPY_PLAIN|COPY_ASYNC -DVEC=4|16 (bytes per copy instruction)
//               -DWITHOUT_WAIT, -DWITHOUT_COPY, … for `ablate` (ablate.cuh): wait: groups are awaited only at the end
//               (COPY=async). copy: nothing is copied. sync: no barriers. smem: fragments are made up once, none is
//               read. epilogue: C is not stored.
#include <cuda_fp16.h>
#include <mma.h>

#include "ablate.cuh"
#include "bubble_probe.cuh"
#include "cp_async.cuh"

using namespace ncubble;
namespace wmma = nvcuda::wmma;

constexpr int kTileM = 128, kTileN = 128, kTileK = 32, kThreads = 256;
constexpr int kFragment = 16;                // WMMA m = n = k
constexpr int kWarpM = 64, kWarpN = 32;      // a warp's part of the tile; 2 x 4 warps
constexpr int kStrideA = kTileK + 8;         // halves; WMMA wants a multiple of 8 and 32-byte aligned fragments
constexpr int kStrideB = kTileN + 8;
constexpr int kHalvesA = kTileM * kStrideA;
constexpr int kHalvesStage = kHalvesA + kTileK * kStrideB;

using FragmentA = wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, half, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, half, wmma::row_major>;
using FragmentC = wmma::fragment<wmma::accumulator, kFragment, kFragment, kFragment, float>;

// Copies VEC bytes, asynchronously or through registers.
__device__ __forceinline__ void copy_piece(half* shared, const half* global) {
#if COPY == COPY_ASYNC
    cp_async<VEC>(shared, global);
#elif VEC == 16
    *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(global);
#else
    *reinterpret_cast<uint32_t*>(shared) = *reinterpret_cast<const uint32_t*>(global);
#endif
}

// Brings a kRows x kColumns tile from row-major global memory (row stride ld) to shared memory (row stride kStride).
// All threads take a run of whole rows, then the next: a thread keeps its column, and its addresses differ by constants.
template <int kRows, int kColumns, int kStride>
__device__ __forceinline__ void copy_tile(half* shared, const half* __restrict__ global, int ld) {
    constexpr int kHalves = VEC / sizeof(half), kPieces = kColumns / kHalves, kRowsAtOnce = kThreads / kPieces;
    static_assert(kThreads % kPieces == 0 && kRows % kRowsAtOnce == 0, "every thread copies equally many pieces");
    const int row = threadIdx.x / kPieces, column = threadIdx.x % kPieces * kHalves;
    shared += row * kStride + column;
    global += row * ld + column;
#pragma unroll
    for (int start = 0; start < kRows; start += kRowsAtOnce) copy_piece(&shared[start * kStride], &global[start * ld]);
}

// Fragments of one step along k that were never read: 64 x 16 of A, 16 x 32 of B.
struct MadeUp {
    FragmentA a[kWarpM / kFragment];
    FragmentB b[kWarpN / kFragment];

    __device__ __forceinline__ MadeUp() {
        int index = 0;
#pragma unroll
        for (auto& fragment : a) index = fill(fragment, index);
#pragma unroll
        for (auto& fragment : b) index = fill(fragment, index);
    }

   private:
    template <class Fragment>
    __device__ __forceinline__ static int fill(Fragment& fragment, int index) {
        constexpr int kWords = sizeof(fragment.x) / sizeof(uint32_t);
#pragma unroll
        for (int word = 0; word < kWords; ++word)
            reinterpret_cast<uint32_t*>(fragment.x)[word] = made_up_halves(index + word);
        return index + kWords;
    }
};

struct WarpTile {
    FragmentC acc[kWarpM / kFragment][kWarpN / kFragment];

    __device__ __forceinline__ WarpTile() {
#pragma unroll
        for (auto& row : acc)
#pragma unroll
            for (auto& fragment : row) wmma::fill_fragment(fragment, 0.0f);
    }

    // acc += A tile x B tile; a and b point at the warp's first row of A and first column of B in shared memory.
    __device__ __forceinline__ void multiply(const half* a, const half* b) {
#pragma unroll
        for (int k = 0; k < kTileK; k += kFragment) {
            FragmentA fragment_a[kWarpM / kFragment];
            FragmentB fragment_b[kWarpN / kFragment];
#pragma unroll
            for (int i = 0; i < kWarpM / kFragment; ++i)
                wmma::load_matrix_sync(fragment_a[i], &a[i * kFragment * kStrideA + k], kStrideA);
#pragma unroll
            for (int j = 0; j < kWarpN / kFragment; ++j)
                wmma::load_matrix_sync(fragment_b[j], &b[k * kStrideB + j * kFragment], kStrideB);
            multiply_step(fragment_a, fragment_b);
        }
    }

    // As many products, without a tile.
    __device__ __forceinline__ void multiply(const MadeUp& operands) {
#pragma unroll
        for (int k = 0; k < kTileK; k += kFragment) multiply_step(operands.a, operands.b);
    }

    __device__ __forceinline__ void store(float* c, int ldc) const {
#pragma unroll
        for (int i = 0; i < kWarpM / kFragment; ++i)
#pragma unroll
            for (int j = 0; j < kWarpN / kFragment; ++j)
                wmma::store_matrix_sync(&c[static_cast<size_t>(i) * kFragment * ldc + j * kFragment], acc[i][j], ldc,
                                        wmma::mem_row_major);
    }

   private:
    __device__ __forceinline__ void multiply_step(const FragmentA (&a)[kWarpM / kFragment],
                                                  const FragmentB (&b)[kWarpN / kFragment]) {
#pragma unroll
        for (int i = 0; i < kWarpM / kFragment; ++i)
#pragma unroll
            for (int j = 0; j < kWarpN / kFragment; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
};

extern "C" __global__ void __launch_bounds__(kThreads, 2)
tensor_core_gemm(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(128) half ring[];
    const int warp = threadIdx.x / 32, warp_row = warp / 4 * kWarpM, warp_column = warp % 4 * kWarpN;
    a += static_cast<size_t>(blockIdx.y) * kTileM * k;
    b += blockIdx.x * kTileN;
    c += (static_cast<size_t>(blockIdx.y) * kTileM + warp_row) * n + blockIdx.x * kTileN + warp_column;

    BUBBLE_WARP(probe, warp);
    const int tiles = k / kTileK;
    // Exactly one group is committed per call, empty past the last tile, so that counting groups counts tiles.
    auto issue = [&](int t) {
        if (kCopies && t < tiles) {
            half* stage = &ring[t % STAGES * kHalvesStage];
            copy_tile<kTileM, kTileK, kStrideA>(stage, a + t * kTileK, k);
            copy_tile<kTileK, kTileN, kStrideB>(stage + kHalvesA, b + static_cast<size_t>(t) * kTileK * n, n);
        }
        if (kCopies && COPY == COPY_ASYNC) cp_async_commit();
    };

    WarpTile tile;
    const MadeUp made_up;
#pragma unroll
    for (int t = 0; t < STAGES - 1; ++t) BUBBLE_STEP(probe, load, t, issue(t));

#pragma unroll 1  // also where an ablation leaves little in the loop
    for (int t = 0; t < tiles; ++t) {
        if (STAGES == 1) {
            // Everybody has finished reading tile t - 1: the only slot may be overwritten.
            if (t > 0) BUBBLE_STEP(probe, wait_slot, t, loop_sync());
            BUBBLE_STEP(probe, load, t, issue(t));
            if (kAwaits && COPY == COPY_ASYNC) BUBBLE_STEP(probe, wait_data, t, cp_async_wait<0>());
            BUBBLE_STEP(probe, wait_sync, t, loop_sync());  // everybody's part of tile t is in
        } else {
            // STAGES - 1 + t groups are committed here, so at most STAGES - 2 pending means: this thread's part of t is in.
            constexpr int kPending = STAGES > 1 ? STAGES - 2 : 0;
            if (kAwaits && COPY == COPY_ASYNC) BUBBLE_STEP(probe, wait_data, t, cp_async_wait<kPending>());
            // Everybody's part of tile t is in, and everybody has finished reading tile t - 1.
            BUBBLE_STEP(probe, wait_sync, t, loop_sync());
            BUBBLE_STEP(probe, load, t + STAGES - 1, issue(t + STAGES - 1));  // into the slot of tile t - 1
        }
        const half* stage = &ring[t % STAGES * kHalvesStage];
        BUBBLE_STEP(probe, compute, t);
        if (kReads) {
            tile.multiply(stage + warp_row * kStrideA, stage + kHalvesA + warp_column);
        } else {
            tile.multiply(made_up);
        }
    }
    if (kCopies && !kAwaits) cp_async_wait<0>();  // nothing may land after the CTA has ended
    if (stores(m)) BUBBLE_STEP(probe, store, tiles, tile.store(c, n));
}
