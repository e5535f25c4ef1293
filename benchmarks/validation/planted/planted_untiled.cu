// planted_untiled: C = A x B in float, or y = A x, with each operand loaded for one product.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major float.
// Idea:         USE=again: a thread per element of C loads two operands for each product: every byte is loaded m or n
//               times. once: a warp per row of A with n = 1 (the column B), where every element of A serves one product.
//               tile: a thread per element of C again, with tiles in shared memory, from where it loads two operands.
//               column: the same tiles for eight results below each other, whose operand of B is loaded once. block: 8 x 8
//               results of a thread.
// Roofline:     again, tile, column, block: fp32 FMA, if operands stayed in registers. once: DRAM.
// Bubble:       USE=again: none, the LSU is busy with loads that a tile saves (reuse). once: none (bytes).
//               tile, column: none, the LSU is busy with loads that more results of a thread save (reuse). block: none, the
//               FMA pipe is busy (path).
// Launch:       block (32, 8). again, tile: grid (n / 32, m / 8). column: (n / 32, m / 64). block: (n / 128, m / 128).
//               once: m / 8.
// Precondition: m a multiple of 8 (column: of 64, block: of 128), k of 32; n a multiple of 32 (block: of 128), or 1 with
//               USE=once (checked before launch).
// Parameters:   -DUSE=USE_AGAIN|USE_ONCE|USE_TILE|USE_COLUMN|USE_BLOCK
#include <cstddef>

extern "C" __global__ void __launch_bounds__(256)
planted_untiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int, int n, int k) {
#if USE == USE_BLOCK
    __shared__ float rows[8][132], columns[8][132];  // 132: neighbouring steps of a row in other banks
    const int thread = threadIdx.y * 32 + threadIdx.x, below = thread / 16 * 8, beside = thread % 16 * 4;
    float sums[8][8] = {};
    a += (static_cast<size_t>(blockIdx.y) * 128 + thread / 8) * k + thread % 8;
    b += static_cast<size_t>(thread / 128) * n + blockIdx.x * 128 + thread % 128;
    for (int start = 0; start < k; start += 8) {
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            rows[thread % 8][thread / 8 + 32 * part] = a[static_cast<size_t>(32 * part) * k + start];
            columns[thread / 128 + 2 * part][thread % 128] = b[static_cast<size_t>(start + 2 * part) * n];
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 8; ++step) {
            float left[8], top[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                left[i] = rows[step][below + i];
                top[i] = columns[step][beside + i % 4 + i / 4 * 64];
            }
#pragma unroll
            for (int i = 0; i < 64; ++i) sums[i / 8][i % 8] += left[i / 8] * top[i % 8];
        }
        __syncthreads();
    }
    c += (static_cast<size_t>(blockIdx.y) * 128 + below) * n + blockIdx.x * 128 + beside;
#pragma unroll
    for (int i = 0; i < 64; ++i) c[static_cast<size_t>(i / 8) * n + i % 4 + i % 8 / 4 * 64] = sums[i / 8][i % 8];
#elif USE == USE_COLUMN
    __shared__ float rows[64][32], columns[32][32];
    float sums[8] = {};
    a += static_cast<size_t>(blockIdx.y) * 64 * k + threadIdx.x;
    b += blockIdx.x * 32 + threadIdx.x;
    for (int start = 0; start < k; start += 32) {
#pragma unroll
        for (int row = threadIdx.y; row < 64; row += 8) {
            rows[row][threadIdx.x] = a[static_cast<size_t>(row) * k + start];
        }
#pragma unroll
        for (int step = threadIdx.y; step < 32; step += 8) {
            columns[step][threadIdx.x] = b[static_cast<size_t>(start + step) * n];
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 32; ++step) {
            const float top = columns[step][threadIdx.x];
#pragma unroll
            for (int i = 0; i < 8; ++i) sums[i] += rows[threadIdx.y * 8 + i][step] * top;
        }
        __syncthreads();
    }
    c += static_cast<size_t>(blockIdx.y * 64 + threadIdx.y * 8) * n + blockIdx.x * 32 + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 8; ++i) c[static_cast<size_t>(i) * n] = sums[i];
#elif USE != USE_ONCE
    float sum = 0.0f;
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
    float sum = 0.0f;
    const int row = blockIdx.x * 8 + threadIdx.y;
    a += static_cast<size_t>(row) * k;
#pragma unroll 8
    for (int step = threadIdx.x; step < k; step += 32) sum += a[step] * b[step];
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x == 0) c[row] = sum;
#endif
}
