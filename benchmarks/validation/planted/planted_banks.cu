// planted_banks: y = sums of the rows of x, added up again and again in shared memory.
//
// Shapes:       x (rows, 32), y (rows,), float.
// Tile:         32 rows per warp, 128 threads: a row per lane, PITCH floats from row to row in shared memory.
// Idea:         PITCH=33 spreads the lanes of a read over all banks; with 34 two of them meet, with 36 four.
// Roofline:     LSU; with ROUNDS=1, DRAM.
// Bubble:       none: the LSU is busy. With PITCH=34 or 36, most of that is bank conflicts (shared_layout).
// Launch:       grid rows / 128, block 128, 18 KB of static shared memory at most.
// Precondition: rows a multiple of 128 (checked before launch).
// Parameters:   -DPITCH=33|34|36 -DROUNDS=1|64
#include <cstddef>

extern "C" __global__ void __launch_bounds__(128) planted_banks(const float* __restrict__ x, float* __restrict__ y, int) {
    __shared__ float tiles[4 * 32 * PITCH];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    volatile float* tile = tiles + warp * 32 * PITCH;  // each read stays a read
    const size_t first = static_cast<size_t>(blockIdx.x) * 128 + warp * 32;
#pragma unroll 4
    for (int row = 0; row < 32; ++row) tile[row * PITCH + lane] = x[(first + row) * 32 + lane];
    __syncwarp();
    float sum = 0.0f;
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round)
#pragma unroll
        for (int column = 0; column < 32; ++column) sum += tile[lane * PITCH + column];
    y[first + lane] = sum;
}
