// The exponential that the hardware has: exp(x) is exp2(x log2(e)), and the factor joins the scale of the scores.
#pragma once

namespace ncubble {

constexpr float kLog2E = 1.4426950408889634f;

// 2^x, one MUFU.EX2: about 2 ulp, and 0 for very negative x and -infinity.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#floating-point-instructions-ex2
__device__ __forceinline__ float exp2_fast(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

}  // namespace ncubble
