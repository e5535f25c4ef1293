// planted_lookup: sums of polynomials of degree 5, which each thread draws out of 16, at a point of its own.
//
// Shapes:       coefficients (6, 16), y (n,), float.
// Idea:         six loads of shared memory for five multiply-adds, as in a product with one result a thread; but the
//               next polynomial is any of 16, so no operand serves twice. Each lane has a copy: no two meet in a bank.
// Roofline:     LSU.
// Bubble:       none: the LSU is busy with what only it can look up.
// Launch:       grid n / 256, block 256, 12 KB of static shared memory.
// Precondition: n a multiple of 256 (checked before launch).
// Parameters:   none

extern "C" __global__ void __launch_bounds__(256)
planted_lookup(const float* __restrict__ coefficients, float* __restrict__ y, int) {
    __shared__ float copies[6 * 16 * 32];
    for (int i = threadIdx.x; i < 6 * 16 * 32; i += 256) copies[i] = coefficients[i / 32];
    __syncthreads();
    const unsigned thread = blockIdx.x * 256u + threadIdx.x, lane = threadIdx.x % 32;
    unsigned drawn = thread * 2654435761u;
    const float at = __uint_as_float((drawn & 0x7fffffu) | 0x3f800000u);  // 1 to 2
    float sum = 0.0f;
#pragma unroll 8
    for (int point = 0; point < POINTS; ++point) {
        drawn = drawn * 1664525u + 1013904223u;
        const unsigned first = (drawn >> 21 & 0x780u) | lane * 4;  // of 16 times 128 bytes
        const float* coefficient = reinterpret_cast<const float*>(reinterpret_cast<const char*>(copies) + first);
        float value = coefficient[0];
#pragma unroll
        for (int power = 1; power < 6; ++power) value = value * at + coefficient[power * 16 * 32];
        sum += value;
    }
    y[thread] = sum;
}
