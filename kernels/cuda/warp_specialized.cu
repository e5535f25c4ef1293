// warp_specialized: C = f(A, B) tile by tile, loading, computing and storing warps joined by two pipelines.  Rung 10.
//
// Shapes:       A, C (n), B (n / SHARED), float. In every tile of 1024, with y = b[i ^ 1020] and r = -255/256:
//               x = a[i] + y, WORK times x <- r x + y, c[i] = x. B's quads are read from the back: threads need what
//               others brought. SHARED tiles in a row meet the same tile of B.
// Tile:         1024 floats; 8 warps; SLOTS slots of A, B and C, 12 KB each. A CTA takes every gridDim.x-th tile.
// Idea:         ROLES_SPECIALIZED: 2 warps load (cp.async), 4 compute, 2 store. One pipeline leads from loaders to
//               math warps, one from these to storers: per slot a barrier "full" and a barrier "empty". Nobody
//               waits for all. ROLES_PIPELINES: document 003's form, one warp for each role and two cuda::pipelines.
//               ROLES_FUSED: the same work by 8 alike warps, one __syncthreads per tile, C straight from registers;
//               the ring of rung 2, whose copies run SLOTS - 1 tiles ahead.
//               CLUSTER=2|4: CTAs that need the same tile of B at one time; the first loads it, by multicast, for all.
// Roofline:     DRAM, 8 + 4 / SHARED bytes per element, until 2 x WORK FLOP per element take longer.
// Bubble:       data_wait while (latency + copy) / SLOTS exceeds the computing of a tile: A and B are given back as
//               soon as they are in registers. Beyond that somebody waits still: the loaders, for math warps.
// Launch:       grid min(n / 1024, SMs x CTAS) in whole clusters, block 256 (ROLES_PIPELINES: 96), dynamic shared
//               memory SLOTS x 12320 bytes.
// Precondition: n a multiple of 1024 x SHARED (checked before launch), 16-byte aligned pointers; clusters: compute
//               capability 9.0.
// Parameters:   -DROLES=ROLES_FUSED|ROLES_SPECIALIZED|ROLES_PIPELINES -DSLOTS=1..4 -DWORK=0..512 -DCTAS=1|2|4 (CTAs
//               per SM: the grid) -DSHARED=1|4 -DCLUSTER=1|2|4 (without them 1)
#include "bubble_probe.cuh"
#include "cluster.cuh"
#include "cp_async.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"
#if ROLES == ROLES_PIPELINES
#include <cuda/pipeline>
#endif
#ifndef SHARED
#define SHARED 1
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif

using namespace ncubble;

constexpr int kTile = 1024;
constexpr int kPieces = kTile / 4;  // float4s of a tile
#if ROLES == ROLES_PIPELINES
constexpr int kLoaders = 32, kComputers = 32, kStorers = 32;
#else
constexpr int kLoaders = 64, kComputers = 128, kStorers = 64;
#endif
constexpr int kThreads = kLoaders + kComputers + kStorers;
constexpr float kRatio = -255.0f / 256.0f;  // of modulus near 1: A still shows in the result after many steps
static_assert(ROLES != ROLES_FUSED || kPieces == kThreads);
static_assert(CLUSTER == 1 || (ROLES == ROLES_SPECIALIZED && SHARED % CLUSTER == 0));

struct Shared {
    float4 a[SLOTS][kPieces], b[SLOTS][kPieces], c[SLOTS][kPieces];
    uint64_t loaded[SLOTS], taken[SLOTS];     // A and B: full, empty
    uint64_t computed[SLOTS], stored[SLOTS];  // C: full, empty
#if CLUSTER > 1
    uint64_t b_taken[SLOTS];  // B: empty in all CTAs of the cluster; the leader's counts
#endif
};

// First piece of a tile of A or C, and of the tile of B that it meets.
__device__ __forceinline__ size_t start_of(int tile) { return static_cast<size_t>(tile) * kPieces; }
__device__ __forceinline__ size_t start_of_b(int tile) { return start_of(tile / SHARED); }

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

#if ROLES != ROLES_FUSED

// What leads from one role to the next. Producers acquire a slot, fill it and commit; consumers wait, read and release.
#if ROLES == ROLES_PIPELINES
struct Pipe {
    cuda::pipeline<cuda::thread_scope_block> pipeline;
    int at = 0;

    __device__ __forceinline__ int slot() const { return at; }
    __device__ __forceinline__ void acquire() { pipeline.producer_acquire(); }
    __device__ __forceinline__ void copy(float4* shared, const float4* global) {
        cuda::memcpy_async(shared, global, cuda::aligned_size_t<16>(16), pipeline);
    }
    __device__ __forceinline__ void commit_copies() { commit(); }
    __device__ __forceinline__ void commit() { pipeline.producer_commit(), at = (at + 1) % SLOTS; }
    __device__ __forceinline__ void wait() { pipeline.consumer_wait(); }
    __device__ __forceinline__ void release() { pipeline.consumer_release(), at = (at + 1) % SLOTS; }
};

// Two warps as make_pipeline asks for them: the one at thread `first` produces, the next one consumes.
struct TwoWarps {
    unsigned first;

    __device__ unsigned size() const { return 64; }
    __device__ unsigned thread_rank() const { return threadIdx.x - first; }
    __device__ void sync() const { __syncthreads(); }  // the third warp comes here, too
};
#else
struct Pipe {
    uint64_t *full, *empty;
    Ring<SLOTS> ring;

    __device__ __forceinline__ uint32_t slot() const { return ring.slot; }
    __device__ __forceinline__ void acquire() { mbarrier_wait(&empty[slot()], ring.parity ^ 1); }
    __device__ __forceinline__ void copy(float4* shared, const float4* global) { cp_async<16>(shared, global); }
    __device__ __forceinline__ void commit_copies() { mbarrier_arrive_copied(&full[slot()]), ring.next(); }
    __device__ __forceinline__ void commit() { mbarrier_arrive(&full[slot()]), ring.next(); }
    __device__ __forceinline__ void wait() { mbarrier_wait(&full[slot()], ring.parity); }
    __device__ __forceinline__ void release() { mbarrier_arrive(&empty[slot()]), ring.next(); }
};
#endif

__device__ __forceinline__ void load_tiles(Shared& shared, Pipe& loaded, const float4* a, const float4* b, int tiles,
                                           int thread) {
    BUBBLE_WARP(probe, loader);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        BUBBLE_POLL(probe, wait_slot, tile, loaded.acquire());
        BUBBLE_STEP(probe, load, tile);
#pragma unroll
        for (int p = thread; p < kPieces; p += kLoaders) {
            loaded.copy(&shared.a[loaded.slot()][p], &a[start_of(tile) + p]);
            if constexpr (CLUSTER == 1) loaded.copy(&shared.b[loaded.slot()][p], &b[start_of_b(tile) + p]);
        }
#if CLUSTER > 1
        if (thread == 0) {
            mbarrier_expect(&loaded.full[loaded.slot()], sizeof(shared.b[0]));  // before this thread arrives there
            if (cluster_rank() == 0) {
                mbarrier_wait(&shared.b_taken[loaded.slot()], loaded.ring.parity ^ 1);  // by all CTAs
                bulk_load_multicast(shared.b[loaded.slot()], &b[start_of_b(tile)], sizeof(shared.b[0]),
                                    &loaded.full[loaded.slot()], (1 << CLUSTER) - 1);
            }
        }
#endif
        loaded.commit_copies();
    }
    cp_async_commit();
    BUBBLE_STEP(probe, wait_data, tiles, cp_async_wait<0>());  // no thread ends while its copies are in flight
}

__device__ __forceinline__ void compute_tiles(Shared& shared, Pipe& loaded, Pipe& computed, int tiles, int thread) {
    constexpr int kCount = kPieces / kComputers;
    BUBBLE_WARP(probe, math);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float4 x[kCount], b[kCount];
        BUBBLE_STEP(probe, wait_data, tile, loaded.wait());
        BUBBLE_STEP(probe, compute, tile);
#pragma unroll
        for (int p = 0; p < kCount; ++p) {
            const int piece = p * kComputers + thread;
            x[p] = shared.a[loaded.slot()][piece];
            b[p] = shared.b[loaded.slot()][kPieces - 1 - piece];
        }
#if CLUSTER > 1
        __syncwarp();  // all lanes have read
        if (thread % 32 == 0) mbarrier_arrive_remote(&shared.b_taken[loaded.slot()], 0);
#endif
        loaded.release();
        compute(x, b);
        BUBBLE_POLL(probe, wait_slot, tile, computed.acquire());
        BUBBLE_STEP(probe, store, tile);
#pragma unroll
        for (int p = 0; p < kCount; ++p) shared.c[computed.slot()][p * kComputers + thread] = x[p];
        computed.commit();
    }
}

__device__ __forceinline__ void store_tiles(Shared& shared, Pipe& computed, float4* c, int tiles, int thread) {
    constexpr int kCount = kPieces / kStorers;
    BUBBLE_WARP(probe, storer);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        float4 x[kCount];
        BUBBLE_POLL(probe, wait_sync, tile, computed.wait());
        BUBBLE_STEP(probe, store, tile);
#pragma unroll
        for (int p = 0; p < kCount; ++p) x[p] = shared.c[computed.slot()][p * kStorers + thread];
        computed.release();
        float4* target = c + start_of(tile) + thread;
#pragma unroll
        for (int p = 0; p < kCount; ++p) __stcs(&target[p * kStorers], x[p]);
    }
}

__device__ __forceinline__ void work(Shared& shared, const float4* a, const float4* b, float4* c, int tiles) {
    const int thread = threadIdx.x;
#if ROLES == ROLES_PIPELINES
#pragma nv_diag_suppress static_var_with_dynamic_init  // make_pipeline initializes them
    __shared__ alignas(128) cuda::pipeline_shared_state<cuda::thread_scope_block, SLOTS> states[2];
    Pipe loaded{cuda::make_pipeline(TwoWarps{0}, &states[0], kLoaders)};
    Pipe computed{cuda::make_pipeline(TwoWarps{kLoaders}, &states[1], kComputers)};
#else
    if (thread == 0) {
        for (int slot = 0; slot < SLOTS; ++slot) {
            // Every thread arrives for what it has read or written itself; a loader's copies arrive on its behalf.
            mbarrier_init(&shared.loaded[slot], kLoaders);
            mbarrier_init(&shared.taken[slot], kComputers);
            mbarrier_init(&shared.computed[slot], kComputers);
            mbarrier_init(&shared.stored[slot], kStorers);
#if CLUSTER > 1
            mbarrier_init(&shared.b_taken[slot], CLUSTER * kComputers / 32);  // a lane of every warp
#endif
        }
        if constexpr (CLUSTER > 1) mbarrier_init_fence();
    }
    cluster_meet<CLUSTER>();  // the barriers are ready; from here on the roles meet at them only
    Pipe loaded{shared.loaded, shared.taken}, computed{shared.computed, shared.stored};
#endif
    if (thread < kLoaders)
        load_tiles(shared, loaded, a, b, tiles, thread);
    else if (thread < kLoaders + kComputers)
        compute_tiles(shared, loaded, computed, tiles, thread - kLoaders);
    else
        store_tiles(shared, computed, c, tiles, thread - kLoaders - kComputers);
#if ROLES == ROLES_PIPELINES
    __syncthreads();  // a pipeline ends with the first 64 threads that leave it, and takes its barriers along
#elif CLUSTER > 1
    __syncwarp();
    cluster_sync();  // nobody leaves before what the others send has come
#endif
}

#else  // ROLES_FUSED

__device__ __forceinline__ void work(Shared& shared, const float4* a, const float4* b, float4* c, int tiles) {
    const int piece = threadIdx.x, first = blockIdx.x, ctas = gridDim.x;
    const int mine = (tiles - 1 - first) / ctas + 1;  // tiles of this CTA
    BUBBLE_WARP(probe, warp);
    auto tile = [&](int i) { return first + i * ctas; };
    // Exactly one group is committed per call, empty past the last tile, so that counting groups counts tiles.
    auto issue = [&](int i) {
        if (i < mine) {
            cp_async<16>(&shared.a[i % SLOTS][piece], &a[start_of(tile(i)) + piece]);
            cp_async<16>(&shared.b[i % SLOTS][piece], &b[start_of_b(tile(i)) + piece]);
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
        BUBBLE_STEP(probe, store, i, __stcs(&c[start_of(tile(i)) + piece], x[0]));
    }
}

#endif

extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
__launch_bounds__(kThreads, 4)
warp_specialized(const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__ c, int n) {
    extern __shared__ __align__(128) unsigned char memory[];
    work(*reinterpret_cast<Shared*>(memory), a, b, c, n / kTile);
}
