// warp_specialized: C = f(A, B) tile by tile, loading, computing and storing warps joined by two pipelines.  Rung 10.
//
// Shapes:       A, B, C (n), float. In every tile of 1024, with y = b[i ^ 1020] and r = -255/256: x = a[i] + y, WORK
//               times x <- r x + y, c[i] = x. B's quads are read from the back: threads need what others brought.
// Tile:         1024 floats; 8 warps; SLOTS slots of A, B and C, 12 KB each. A CTA takes every gridDim.x-th tile.
// Idea:         ROLES_SPECIALIZED: 2 warps load (cp.async), 4 compute, 2 store. One pipeline leads from loaders to
//               computers, one from computers to storers: per slot a barrier "full" and a barrier "empty". Nobody
//               waits for all. ROLES_FUSED: the same work by 8 alike warps, one __syncthreads per tile, C straight
//               from registers; the ring of rung 2, whose copies run SLOTS - 1 tiles ahead.
// Roofline:     DRAM, 12 bytes per element, until 2 x WORK FLOP per element take longer.
// Bubble:       data_wait while (latency + copy) / SLOTS exceeds the computing of a tile: A and B are given back as
//               soon as they are in registers. Beyond that somebody waits still: the loaders, for the computers.
// Launch:       grid min(n / 1024, SMs x CTAS), block 256, dynamic shared memory SLOTS x 12320 bytes.
// Precondition: n a multiple of 1024 (checked before launch), 16-byte aligned pointers.
// Parameters:   -DROLES=ROLES_FUSED|ROLES_SPECIALIZED -DSLOTS=1..4 -DWORK=0..512 -DCTAS=1|2|4 (CTAs per SM: the grid)
#include "bubble_probe.cuh"
#include "cp_async.cuh"
#include "mbarrier.cuh"

using namespace ncubble;

constexpr int kTile = 1024, kThreads = 256;
constexpr int kPieces = kTile / 4;  // float4s of a tile
constexpr int kLoaders = 64, kComputers = 128, kStorers = 64;
constexpr float kRatio = -255.0f / 256.0f;  // of modulus near 1: A still shows in the result after many steps
static_assert(kLoaders + kComputers + kStorers == kThreads && kPieces == kThreads);

struct Shared {
    float4 a[SLOTS][kPieces], b[SLOTS][kPieces], c[SLOTS][kPieces];
    uint64_t loaded[SLOTS], taken[SLOTS];     // A and B: full, empty
    uint64_t computed[SLOTS], stored[SLOTS];  // C: full, empty
};

// f of kCount pieces at once: 4 x kCount independent chains keep the FMA pipe busy.
template <int kCount>
__device__ __forceinline__ void compute(float4 (&x)[kCount], const float4 (&b)[kCount]) {
    auto step = [](float4 x, float r, float4 b) {
        return make_float4(fmaf(r, x.x, b.x), fmaf(r, x.y, b.y), fmaf(r, x.z, b.z), fmaf(r, x.w, b.w));
    };
#pragma unroll
    for (int p = 0; p < kCount; ++p) x[p] = step(x[p], 1.0f, b[p]);
#pragma unroll 8
    for (int i = 0; i < WORK; ++i)
#pragma unroll
        for (int p = 0; p < kCount; ++p) x[p] = step(x[p], kRatio, b[p]);
}

#if ROLES == ROLES_SPECIALIZED

__device__ __forceinline__ void load_tiles(Shared& shared, const float4* a, const float4* b, int tiles, int thread) {
    BUBBLE_WARP(probe, loader);
    Ring<SLOTS> ring;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ring.next()) {
        BUBBLE_POLL(probe, wait_slot, tile, mbarrier_wait(&shared.taken[ring.slot], ring.parity ^ 1));
        BUBBLE_STEP(probe, load, tile);
        const size_t start = static_cast<size_t>(tile) * kPieces;
#pragma unroll
        for (int p = thread; p < kPieces; p += kLoaders) {
            cp_async<16>(&shared.a[ring.slot][p], &a[start + p]);
            cp_async<16>(&shared.b[ring.slot][p], &b[start + p]);
        }
        mbarrier_arrive_copied(&shared.loaded[ring.slot]);
    }
    cp_async_commit();
    BUBBLE_STEP(probe, wait_data, tiles, cp_async_wait<0>());  // no thread ends while its copies are in flight
}

__device__ __forceinline__ void compute_tiles(Shared& shared, int tiles, int thread) {
    constexpr int kCount = kPieces / kComputers;
    BUBBLE_WARP(probe, computer);
    Ring<SLOTS> ring;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ring.next()) {
        float4 x[kCount], b[kCount];
        BUBBLE_STEP(probe, wait_data, tile, mbarrier_wait(&shared.loaded[ring.slot], ring.parity));
        BUBBLE_STEP(probe, compute, tile);
#pragma unroll
        for (int p = 0; p < kCount; ++p) {
            const int piece = p * kComputers + thread;
            x[p] = shared.a[ring.slot][piece];
            b[p] = shared.b[ring.slot][kPieces - 1 - piece];
        }
        mbarrier_arrive(&shared.taken[ring.slot]);
        compute(x, b);
        BUBBLE_POLL(probe, wait_slot, tile, mbarrier_wait(&shared.stored[ring.slot], ring.parity ^ 1));
        BUBBLE_STEP(probe, store, tile);
#pragma unroll
        for (int p = 0; p < kCount; ++p) shared.c[ring.slot][p * kComputers + thread] = x[p];
        mbarrier_arrive(&shared.computed[ring.slot]);
    }
}

__device__ __forceinline__ void store_tiles(Shared& shared, float4* c, int tiles, int thread) {
    constexpr int kCount = kPieces / kStorers;
    BUBBLE_WARP(probe, storer);
    Ring<SLOTS> ring;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ring.next()) {
        float4 x[kCount];
        BUBBLE_POLL(probe, wait_sync, tile, mbarrier_wait(&shared.computed[ring.slot], ring.parity));
        BUBBLE_STEP(probe, store, tile);
#pragma unroll
        for (int p = 0; p < kCount; ++p) x[p] = shared.c[ring.slot][p * kStorers + thread];
        mbarrier_arrive(&shared.stored[ring.slot]);
        float4* target = c + static_cast<size_t>(tile) * kPieces + thread;
#pragma unroll
        for (int p = 0; p < kCount; ++p) __stcs(&target[p * kStorers], x[p]);
    }
}

__device__ __forceinline__ void work(Shared& shared, const float4* a, const float4* b, float4* c, int tiles) {
    const int thread = threadIdx.x;
    if (thread == 0)
        for (int slot = 0; slot < SLOTS; ++slot) {
            // Every thread arrives for what it has read or written itself; a loader's copies arrive on its behalf.
            mbarrier_init(&shared.loaded[slot], kLoaders);
            mbarrier_init(&shared.taken[slot], kComputers);
            mbarrier_init(&shared.computed[slot], kComputers);
            mbarrier_init(&shared.stored[slot], kStorers);
        }
    __syncthreads();  // the barriers are ready; from here on the roles meet at them only
    if (thread < kLoaders)
        load_tiles(shared, a, b, tiles, thread);
    else if (thread < kLoaders + kComputers)
        compute_tiles(shared, tiles, thread - kLoaders);
    else
        store_tiles(shared, c, tiles, thread - kLoaders - kComputers);
}

#else  // ROLES_FUSED

__device__ __forceinline__ void work(Shared& shared, const float4* a, const float4* b, float4* c, int tiles) {
    const int piece = threadIdx.x, first = blockIdx.x, ctas = gridDim.x;
    const int mine = (tiles - 1 - first) / ctas + 1;  // tiles of this CTA
    BUBBLE_WARP(probe, warp);
    auto start = [&](int i) { return (first + static_cast<size_t>(i) * ctas) * kPieces; };
    // Exactly one group is committed per call, empty past the last tile, so that counting groups counts tiles.
    auto issue = [&](int i) {
        if (i < mine) {
            cp_async<16>(&shared.a[i % SLOTS][piece], &a[start(i) + piece]);
            cp_async<16>(&shared.b[i % SLOTS][piece], &b[start(i) + piece]);
        }
        cp_async_commit();
    };
    for (int i = 0; i < SLOTS - 1; ++i) BUBBLE_STEP(probe, load, i, issue(i));

    for (int i = 0; i < mine; ++i) {
        if (SLOTS == 1) {
            // Everybody has read tile i - 1: the only slot may be overwritten.
            BUBBLE_STEP(probe, wait_slot, i, __syncthreads());
            BUBBLE_STEP(probe, load, i, issue(i));
            BUBBLE_STEP(probe, wait_data, i, cp_async_wait<0>());
            BUBBLE_STEP(probe, wait_sync, i, __syncthreads());  // everybody's part of tile i is in
        } else {
            // SLOTS - 1 + i groups are committed: at most SLOTS - 2 pending means that this thread's part of i is in.
            BUBBLE_STEP(probe, wait_data, i, cp_async_wait<(SLOTS > 1 ? SLOTS - 2 : 0)>());
            // Everybody's part of tile i is in, and everybody has read tile i - 1.
            BUBBLE_STEP(probe, wait_sync, i, __syncthreads());
            BUBBLE_STEP(probe, load, i + SLOTS - 1, issue(i + SLOTS - 1));  // into the slot of tile i - 1
        }
        BUBBLE_STEP(probe, compute, i);
        float4 x[1] = {shared.a[i % SLOTS][piece]};
        const float4 y[1] = {shared.b[i % SLOTS][kPieces - 1 - piece]};
        compute(x, y);
        BUBBLE_STEP(probe, store, i, __stcs(&c[start(i) + piece], x[0]));
    }
}

#endif

extern "C" __global__ void __launch_bounds__(kThreads, 4)
warp_specialized(const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ c, int n) {
    extern __shared__ __align__(128) unsigned char memory[];
    work(*reinterpret_cast<Shared*>(memory), a, b, c, n / kTile);
}
