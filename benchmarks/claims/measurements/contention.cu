// contention: do copies by cp.async cost the warps that compute anything?
//
// Shapes:       source: kSourcePieces x 16 bytes (in L2 after the first pass); cycles: one per computing warp and CTA.
// Idea:         eight warps compute (FMAs on registers, or FMAs on values read from shared memory) while four warps copy, or
//               stay away; both run on every SM. The difference is what copying takes from computing.
// Launch:       one CTA per SM, 384 threads.
#include "cp_async.cuh"

using namespace ncubble;

constexpr int kComputing = 8, kLoading = 4, kLanes = 32, kSlots = 8;
constexpr int kSourcePieces = 1 << 16;  // 1 MB
constexpr int kRead = 1024;             // floats that the computing warps read

template <bool kShared>
__device__ __forceinline__ float compute(const float* values, int steps) {
    float sum[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int step = 0; step < steps; ++step) {
        float4 v = make_float4(0.5f, 0.25f, 0.125f, 1.0f);
        if constexpr (kShared) v = *reinterpret_cast<const float4*>(&values[(step * 128 + threadIdx.x * 4) % kRead]);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(sum[i]) : "f"(v.x), "f"(v.y));
            asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(sum[i]) : "f"(v.z), "f"(v.w));
        }
    }
    float total = 0;
#pragma unroll
    for (float part : sum) total += part;
    return total;
}

extern "C" __global__ void __launch_bounds__((kComputing + kLoading) * kLanes)
contention(const uint4* __restrict__ source, int copying, int shared, int steps, float* sink, long long* cycles) {
    __shared__ __align__(16) uint4 slots[kSlots * kLoading * kLanes];
    __shared__ __align__(16) float values[kRead];
    __shared__ volatile int computing;
    for (int i = threadIdx.x; i < kRead; i += blockDim.x) values[i] = 0.5f;
    if (threadIdx.x == 0) computing = kComputing;
    __syncthreads();
    const int warp = threadIdx.x / kLanes;
    if (warp < kComputing) {
        const long long start = clock64();
        const float total = shared ? compute<true>(values, steps) : compute<false>(values, steps);
        const long long end = clock64();
        sink[blockIdx.x * kComputing * kLanes + threadIdx.x] = total;
        if (threadIdx.x % kLanes == 0) {
            cycles[blockIdx.x * kComputing + warp] = end - start;
            atomicSub(const_cast<int*>(&computing), 1);
        }
    } else if (copying) {
        const int thread = threadIdx.x - kComputing * kLanes;
        for (int piece = thread; computing > 0; piece = (piece + kSlots * kLoading * kLanes) % kSourcePieces) {
#pragma unroll
            for (int s = 0; s < kSlots; ++s) {
                const int step = s * kLoading * kLanes;
                cp_async<16>(&slots[step + thread], &source[(piece + step) % kSourcePieces]);
                cp_async_commit();
            }
            cp_async_wait<kSlots / 2>();
        }
        cp_async_wait<0>();
    }
}
