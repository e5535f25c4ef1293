// planted_members: structures of eight floats, whose members are written one by one, or arrays of each member.
//
// Shapes:       x (reads, n), y (n, 8), float; y lies in the order in which it is written.
// Idea:         member j is j + 1 times the sum of a column of x. ORDER=members: the 32 lanes of a store write 4 bytes of
//               32 sectors each. passes: so do they, and the whole array lies between two members of a structure: what L2
//               holds of a sector is an eighth of it. arrays: 128 bytes in a row.
// Roofline:     DRAM.
// Bubble:       ORDER=members: none, L2 is busy with sectors of which an eighth is written (copies). passes: none, DRAM is.
//               With reads=128 the stores are few, and DRAM is busy with x.
// Launch:       grid n / 256, of passes (n / 256, 8), block 256.
// Precondition: n a multiple of 256 (checked before launch).
// Parameters:   -DORDER=ORDER_MEMBERS|ORDER_PASSES|ORDER_ARRAYS
#include <cstddef>

extern "C" __global__ void __launch_bounds__(256)
planted_members(const float* __restrict__ x, float* __restrict__ y, int reads, int n) {
    const size_t i = static_cast<size_t>(blockIdx.x) * 256 + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 8
    for (int row = 0; row < reads; ++row) sum += x[static_cast<size_t>(row) * n + i];
#if ORDER == ORDER_PASSES
    const int member = blockIdx.y;
#else
#pragma unroll
    for (int member = 0; member < 8; ++member)
#endif
        y[ORDER == ORDER_ARRAYS ? static_cast<size_t>(member) * n + i : i * 8 + member] = (member + 1) * sum;
}
