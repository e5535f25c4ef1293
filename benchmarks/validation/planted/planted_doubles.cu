// planted_doubles: y = x, moved towards 1 step by step, all of it in double.
//
// Shapes:       x (n,), y (n,), double.
// Roofline:     fp64 FMA.
// Bubble:       none: the FP64 pipe is busy with what was asked for.
// Launch:       grid n / 256, block 256.
// Precondition: n a multiple of 256 (checked before launch).
// Parameters:   none
#include <cstddef>

extern "C" __global__ void __launch_bounds__(256)
planted_doubles(const double* __restrict__ x, double* __restrict__ y, int) {
    const size_t i = static_cast<size_t>(blockIdx.x) * 256 + threadIdx.x;
    double value = x[i];
#pragma unroll 8
    for (int step = 0; step < 256; ++step) value = value * 0.99 + 0.01;
    y[i] = value;
}
