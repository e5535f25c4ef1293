// planted_strides: y = 2 x, where neighbouring threads read neighbours, or pieces of different rows.
//
// Shapes:       x (rows, cols), y (rows, cols), float; y lies in the order in which it is written.
// Idea:         ORDER=rows: a warp reads 128 bytes in a row. columns: 4 bytes of each of 32 rows, so that 32 bytes are
//               fetched for each 4. sectors: 32 whole bytes of each of 4 rows far apart: not in line, and nothing wasted.
//               members: x is structures of eight floats, of which one member is read of all before the next.
// Roofline:     DRAM.
// Bubble:       ORDER=columns: none, L1 and L2 are busy with sectors of which an eighth is used (copies).
//               ORDER=members: none, DRAM is (copies).
// Launch:       grid rows * cols / 256, block 256.
// Precondition: rows a multiple of 256, cols of 8 (checked before launch).
// Parameters:   -DORDER=ORDER_ROWS|ORDER_COLUMNS|ORDER_SECTORS|ORDER_MEMBERS
#include <cstddef>

extern "C" __global__ void __launch_bounds__(256)
planted_strides(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    unsigned from = i;
    if (ORDER == ORDER_COLUMNS) from = i % rows * cols + i / rows;
    if (ORDER == ORDER_SECTORS) from = (i / 8 % rows * (cols / 8) + i / 8 / rows) * 8 + i % 8;
    if (ORDER == ORDER_MEMBERS) from = i % (rows * (cols / 8)) * 8 + i / (rows * (cols / 8));
    y[i] = 2.0f * x[from];
}
