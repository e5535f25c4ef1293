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

// 2^x in the FMA pipe, to 2^-9 of it: for results that are rounded to few bits, where MUFU is full. x below -100 counts
// as -100.
__device__ __forceinline__ float exp2_polynomial(float x) {
    constexpr float kRound = 0x1.8p23f;  // added, it leaves the nearest integer in the lowest bits
    x = fmaxf(x, -100.0f);
    const float shifted = x + kRound, rest = x - (shifted - kRound);
    const float power = fmaf(fmaf(0.23842894f, rest, 0.70344801f), rest, 1.00044314f);  // least relative error
    return __int_as_float(__float_as_int(power) + (__float_as_int(shifted) << 23));
}

}  // namespace ncubble
