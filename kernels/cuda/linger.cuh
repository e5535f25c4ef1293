// Work that takes a known time and changes nothing: how a kernel that only copies is given something to compute.
#pragma once

namespace ncubble {

// kSteps dependent FMAs per element that leave it what it is: r <- r / 2 + x / 2, begun at r = x, rounds nothing away
// unless x / 2 is subnormal. The compiler cannot know, and the result is the same for any kSteps, so that it can be
// verified exactly.
template <int kSteps, int kWidth>
__device__ __forceinline__ void linger(float (&values)[kWidth]) {
    float half[kWidth];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) half[j] = 0.5f * values[j];
#pragma unroll 16
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int j = 0; j < kWidth; ++j) values[j] = fmaf(values[j], 0.5f, half[j]);
}

}  // namespace ncubble
