// overlap: one warp alone copies tiles from DRAM to shared memory and computes; which of the two waits for the other?
//
// Shapes:       source: tiles x 4 KB, cold in L2; sink: one float per lane.
// Idea:         the same copies and the same FMA chain in seven arrangements. There is no other warp on the SM, so whatever
//               overlaps does so within the warp.
// Launch:       1 CTA of 32 threads. cycles[0]: all tiles; cycles[1]: from the first copy of a tile to the last issued, summed.
#include "cp_async.cuh"

using namespace ncubble;

constexpr int kCopies = 8, kLanes = 32, kTilePieces = kCopies * kLanes;

enum Mode { kAsyncCopy, kMath, kAsyncBoth, kPlainCopy, kPlainMathBeforeUse, kPlainMathAfterUse, kAsyncMathAfterWait };

__device__ __forceinline__ float chain(float x, int length) {
    for (int i = 0; i < length; ++i) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(0.5f));
    return x;
}

__device__ __forceinline__ uint4 load(const uint4* address) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address));
    return v;
}

__device__ __forceinline__ void store(uint4* address, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(address)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

template <int kMode>
__device__ __forceinline__ float tile(uint4* slot, const uint4* source, float x, int length, long long& issue) {
    constexpr bool kAsync = kMode == kAsyncCopy || kMode == kAsyncBoth || kMode == kAsyncMathAfterWait;
    if constexpr (kMode == kMath) return chain(x, length);
    const long long start = clock64();
    if constexpr (kAsync) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) cp_async<16>(&slot[i * kLanes], &source[i * kLanes]);
        cp_async_commit();
        issue += clock64() - start;
        if constexpr (kMode == kAsyncBoth) x = chain(x, length);
        cp_async_wait<0>();
        if constexpr (kMode == kAsyncMathAfterWait) x = chain(x, length);
    } else {
        uint4 held[kCopies];
#pragma unroll
        for (int i = 0; i < kCopies; ++i) held[i] = load(&source[i * kLanes]);
        issue += clock64() - start;
        if constexpr (kMode == kPlainMathBeforeUse) x = chain(x, length);
#pragma unroll
        for (int i = 0; i < kCopies; ++i) store(&slot[i * kLanes], held[i]);
        if constexpr (kMode == kPlainMathAfterUse) x = chain(x, length);
    }
    __syncwarp();
    return x + __uint_as_float(slot[(kCopies - 1) * kLanes].x & 1u);  // the tile is used
}

template <int kMode>
__device__ __forceinline__ void run(const uint4* source, int tiles, int length, float* sink, long long* cycles) {
    __shared__ __align__(16) uint4 slots[kTilePieces];
    const int lane = threadIdx.x;
    slots[lane] = make_uint4(0, 0, 0, 0);
    slots[(kCopies - 1) * kLanes + lane] = make_uint4(0, 0, 0, 0);
    float x = 1.0f;
    long long issue = 0;
    const long long start = clock64();
    for (int t = 0; t < tiles; ++t)
        x = tile<kMode>(&slots[lane], source + static_cast<size_t>(t) * kTilePieces + lane, x, length, issue);
    const long long end = clock64();
    sink[lane] = x;
    if (lane == 0) {
        cycles[0] = end - start;
        cycles[1] = issue;
    }
}

extern "C" __global__ void overlap(const uint4* __restrict__ source, int mode, int tiles, int length, float* sink, long long* cycles) {
    switch (mode) {
        case kAsyncCopy: run<kAsyncCopy>(source, tiles, length, sink, cycles); break;
        case kMath: run<kMath>(source, tiles, length, sink, cycles); break;
        case kAsyncBoth: run<kAsyncBoth>(source, tiles, length, sink, cycles); break;
        case kPlainCopy: run<kPlainCopy>(source, tiles, length, sink, cycles); break;
        case kPlainMathBeforeUse: run<kPlainMathBeforeUse>(source, tiles, length, sink, cycles); break;
        case kPlainMathAfterUse: run<kPlainMathAfterUse>(source, tiles, length, sink, cycles); break;
        default: run<kAsyncMathAfterWait>(source, tiles, length, sink, cycles); break;
    }
}
