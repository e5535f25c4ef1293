// planted_literals: y = x, moved towards 1 step by step, in float or by way of doubles.
//
// Shapes:       x (n,), y (n,), float.
// Idea:         LITERAL=double: 0.75 and 0.25 without an f make each step two conversions and a double multiply-add.
//               float: a multiply-add. sum: each step adds to a sum that is kept in double on purpose, and rounds once.
//               CALLS=1: each step is a call of a function that is not inlined.
// Roofline:     fp32 FMA.
// Bubble:       LITERAL=double: none, the FP64 and XU pipes are busy (precision). float: none. With -G, issue (build).
// Launch:       grid n / 256, block 256.
// Precondition: n a multiple of 256 (checked before launch).
// Parameters:   -DLITERAL=LITERAL_DOUBLE|LITERAL_FLOAT|LITERAL_SUM -DCALLS=0|1 -DSTEPS=32, and how it is optimized
#include <cstddef>

#if CALLS
__noinline__
#else
__forceinline__
#endif
__device__ float moved(float value) {
#if LITERAL == LITERAL_DOUBLE
    return value * 0.75 + 0.25;
#else
    return value * 0.75f + 0.25f;
#endif
}

extern "C" __global__ void __launch_bounds__(256) planted_literals(const float* __restrict__ x, float* __restrict__ y, int) {
    const size_t i = static_cast<size_t>(blockIdx.x) * 256 + threadIdx.x;
    float value = x[i];
#if LITERAL == LITERAL_SUM
    double sum = 0.0;
#pragma unroll 8
    for (int step = 0; step < STEPS; ++step) {
        value = moved(value);
        sum += value;
    }
    y[i] = static_cast<float>(sum);
#else
#pragma unroll 8
    for (int step = 0; step < STEPS; ++step) value = moved(value);
    y[i] = value;
#endif
}
