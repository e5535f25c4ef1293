// planted_untiled_mma: C = A x B by nvcuda::wmma, with fragments straight from global memory.
//
// Shapes:       A (m, k), B (k, n), C (m, n), row-major half, float accumulators.
// Tile:         16 x 16 per warp, four warps side by side.
// Idea:         nothing is shared: A is loaded n / 16 times, B m / 16 times. With m = 16, B is loaded once.
// Roofline:     tensor pipe; with m = 16, DRAM.
// Bubble:       data_wait, as loads that a tile in shared memory saves feed the tensor pipe (reuse). m = 16: no waste.
// Launch:       grid (n / 64, m / 16), block 128.
// Precondition: m and k multiples of 16, n of 64 (checked before launch).
// Parameters:   none
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void __launch_bounds__(128)
planted_untiled_mma(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c, int, int n, int k) {
    const int column = blockIdx.x * 64 + threadIdx.x / 32 * 16;
    a += static_cast<size_t>(blockIdx.y) * 16 * k;
    b += column;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    wmma::fill_fragment(sums, 0.0f);
#pragma unroll 2
    for (int step = 0; step < k; step += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> rows;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> columns;
        wmma::load_matrix_sync(rows, a + step, k);
        wmma::load_matrix_sync(columns, b + static_cast<size_t>(step) * n, n);
        wmma::mma_sync(sums, rows, columns, sums);
    }
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> rounded;
#pragma unroll
    for (int i = 0; i < sums.num_elements; ++i) rounded.x[i] = __float2half(sums.x[i]);
    wmma::store_matrix_sync(c + static_cast<size_t>(blockIdx.y) * 16 * n + column, rounded, n, wmma::mem_row_major);
}
