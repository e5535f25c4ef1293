// planted_sums: sums of the columns of a matrix, which a thread keeps in memory, or in a register.
//
// Shapes:       x (terms, n), y (kept, n), float.
// Idea:         a thread adds up a column of x. AT=memory: it adds to y, which might be x for all the compiler knows: each
//               sum is stored, and no load of x passes the store. register: y is written once. running: y gets every
//               sum, each at its own address, and a load waits for the store before it all the same.
// Roofline:     DRAM.
// Bubble:       AT=memory: data wait (reuse). running: data wait (vectors: several loads ahead). register: none (bytes).
// Launch:       grid n / 256, block 256.
// Precondition: n a multiple of 256; kept is terms with AT=running, else 1 (checked before launch).
// Parameters:   -DAT=AT_MEMORY|AT_REGISTER|AT_RUNNING
#include <cstddef>

extern "C" __global__ void __launch_bounds__(256)
planted_sums(const float* x, float* y, int terms, int n) {
    const size_t i = static_cast<size_t>(blockIdx.x) * 256 + threadIdx.x;
    float sum = 0.0f;
    y[i] = 0.0f;
#pragma unroll 8
    for (int term = 0; term < terms; ++term) {
        const float one = x[static_cast<size_t>(term) * n + i];
#if AT == AT_MEMORY
        y[i] += one;
#else
        sum += one;
#if AT == AT_RUNNING
        y[static_cast<size_t>(term) * n + i] = sum;
#endif
#endif
    }
#if AT == AT_REGISTER
    y[i] = sum;
#endif
}
