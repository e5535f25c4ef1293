// wait_groups: what cp.async.wait_group N waits for, and for whom.
//
// Shapes:       source: at least (kGroups + 1) x kGroupBytes per launch, cold in L2 and free of the byte 0xFF.
// Idea:         one warp commits kGroups groups of 8 KB each, waits for all but N, and looks into shared memory, which held
//               0xFF before: newest group first, so that what lands while it looks is not taken for landed before.
// Launch:       1 CTA of 32 threads (pending_groups) or 64 (foreign_copies), dynamic shared memory kGroups x 8 KB.
#include "cp_async.cuh"

using namespace ncubble;

constexpr int kGroups = 8, kCopies = 16, kLanes = 32;      // a group: kCopies copies of 16 bytes by every lane
constexpr int kPieces = kCopies * kLanes;                  // of 16 bytes
constexpr unsigned kPoison = 0xFFFFFFFFu;

__device__ __forceinline__ void wait_for_all_but(int pending) {
    switch (pending) {
        case 0: cp_async_wait<0>(); break;
        case 1: cp_async_wait<1>(); break;
        case 2: cp_async_wait<2>(); break;
        case 3: cp_async_wait<3>(); break;
        case 4: cp_async_wait<4>(); break;
        case 5: cp_async_wait<5>(); break;
        case 6: cp_async_wait<6>(); break;
        case 7: cp_async_wait<7>(); break;
        default: cp_async_wait<8>(); break;
    }
}

__device__ __forceinline__ void poison(uint4* shared, int pieces) {
    for (int i = threadIdx.x; i < pieces; i += blockDim.x) shared[i] = make_uint4(kPoison, kPoison, kPoison, kPoison);
    __syncthreads();
}

__device__ __forceinline__ bool is_poison(const uint4* piece) {
    return reinterpret_cast<const volatile unsigned*>(piece)[3] == kPoison;
}

// found: [0] cycles of the wait, [1] bit g: group g was complete when looked at, [2] bit g: every piece of group g is right
// after the wait (only groups older than the newest `pending` are looked at). `groups` <= kGroups are committed.
extern "C" __global__ void pending_groups(const uint4* __restrict__ source, int groups, int pending, long long* found) {
    extern __shared__ __align__(16) uint4 pieces[];
    const int lane = threadIdx.x;
    poison(pieces, kGroups * kPieces);
    for (int g = 0; g < groups; ++g) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            const int piece = (g * kCopies + i) * kLanes + lane;
            cp_async<16>(&pieces[piece], &source[piece]);
        }
        cp_async_commit();
    }
    const long long start = clock64();
    wait_for_all_but(pending);
    const long long end = clock64();

    unsigned landed = 0, right = 0;
#pragma unroll
    for (int g = kGroups - 1; g >= 0; --g)
        landed |= static_cast<unsigned>(!is_poison(&pieces[(g * kCopies + kCopies - 1) * kLanes + lane])) << g;
    for (int g = 0; g < groups - pending; ++g) {
        bool all = true;
        for (int i = 0; i < kCopies; ++i) all &= !is_poison(&pieces[(g * kCopies + i) * kLanes + lane]);
        right |= static_cast<unsigned>(all) << g;
    }
    landed = __reduce_and_sync(~0u, landed);
    right = __reduce_and_sync(~0u, right);
    cp_async_wait<0>();
    if (lane == 0) {
        found[0] = end - start;
        found[1] = landed;
        found[2] = right;
    }
}

// Warp 1 copies 8 KB, warp 0 one piece per lane; warp 0 waits for its own groups, then reads what warp 1 copied.
// found[0]: pieces that warp 0 found stale, with `barrier` after a __syncthreads, else without one.
extern "C" __global__ void foreign_copies(const uint4* __restrict__ source, int barrier, long long* found) {
    extern __shared__ __align__(16) uint4 pieces[];
    const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
    poison(pieces, kPieces + kLanes);
    if (warp == 1) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) cp_async<16>(&pieces[i * kLanes + lane], &source[i * kLanes + lane]);
    } else {
        cp_async<16>(&pieces[kPieces + lane], &source[kPieces + lane]);
    }
    cp_async_commit();
    cp_async_wait<0>();
    if (barrier) __syncthreads();
    if (warp == 0) {
        int stale = 0;
        for (int i = kCopies - 1; i >= 0; --i) stale += is_poison(&pieces[i * kLanes + lane]);
        stale = __reduce_add_sync(~0u, stale);
        if (lane == 0) found[0] = stale;
    }
}
