// planted_untiled: C = A x B in float, or y = A x, with each operand loaded for one product.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major float.
// Idea:         USE=again: a thread per element of C loads two operands for each product: every byte is loaded m or n
//               times. once: a warp per row of A with n = 1 (the column B), where every element of A serves one product.
//               tile: a thread per element of C again, with tiles in shared memory, from where it loads two operands.
// Roofline:     again: fp32 FMA, if operands came in tiles. once: DRAM.
// Bubble:       USE=again: none, the LSU is busy with loads that a tile saves (reuse). once: none (bytes).
//               tile: none, the LSU is busy with loads that more results of a thread save (reuse).
// Launch:       again, tile: grid (n / 32, m / 8), block (32, 8). once: grid m / 8, block (32, 8).
// Precondition: m a multiple of 8, k of 32; n a multiple of 32, or 1 with USE=once (checked before launch).
// Parameters:   -DUSE=USE_AGAIN|USE_ONCE|USE_TILE
#include <cstddef>

extern "C" __global__ void __launch_bounds__(256)
planted_untiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int, int n, int k) {
    float sum = 0.0f;
#if USE != USE_ONCE
    const int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    a += static_cast<size_t>(row) * k;
    b += column;
#if USE == USE_AGAIN
#pragma unroll 4
    for (int step = 0; step < k; ++step) sum += a[step] * b[static_cast<size_t>(step) * n];
#else
    __shared__ float rows[8][32], columns[32][32];
    for (int start = 0; start < k; start += 32) {
        rows[threadIdx.y][threadIdx.x] = a[start + threadIdx.x];
#pragma unroll
        for (int step = threadIdx.y; step < 32; step += 8) {
            columns[step][threadIdx.x] = b[static_cast<size_t>(start + step) * n];
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 32; ++step) sum += rows[threadIdx.y][step] * columns[step][threadIdx.x];
        __syncthreads();
    }
#endif
    c[static_cast<size_t>(row) * n + column] = sum;
#else
    const int row = blockIdx.x * 8 + threadIdx.y;
    a += static_cast<size_t>(row) * k;
#pragma unroll 8
    for (int step = threadIdx.x; step < k; step += 32) sum += a[step] * b[step];
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) c[row] = sum;
#endif
}
