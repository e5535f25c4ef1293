// planted_stream: y = ~x of bytes, by CTAs, loads and stores of many sizes.
//
// Shapes:       x (n,), y (n,), bytes.
// Idea:         a thread makes STEPS rounds over the grid, with AHEAD loads of WIDTH bytes before the first store.
//               What one byte at a time, few CTAs, or CTAs of one short round leave undone of DRAM, others do.
// Roofline:     DRAM.
// Bubble:       WIDTH=1: data_wait, one byte of each thread is on its way (vectors). STEPS=512 with 132 CTAs: data_wait,
//               SMs have four warps (ctas). THREADS=32 STEPS=1: a CTA is gone before its SM has many (ctas).
//               AHEAD=8: none of these, whatever the others are.
// Launch:       grid n / (WIDTH * AHEAD * STEPS * THREADS), block THREADS.
// Precondition: that is a whole number (checked before launch).
// Parameters:   -DWIDTH=1|4|16 -DAHEAD=1|8 -DSTEPS=1|4|16|512 -DTHREADS=32|128
#include <cstddef>

#if WIDTH == 1
using Bytes = unsigned char;
__device__ Bytes inverted(Bytes x) { return ~x; }
#elif WIDTH == 4
using Bytes = unsigned;
__device__ Bytes inverted(Bytes x) { return ~x; }
#else
using Bytes = uint4;
__device__ Bytes inverted(Bytes x) { return {~x.x, ~x.y, ~x.z, ~x.w}; }
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
planted_stream(const Bytes* __restrict__ x, Bytes* __restrict__ y, int) {
    const size_t round = static_cast<size_t>(gridDim.x) * AHEAD * THREADS;
    size_t i = static_cast<size_t>(blockIdx.x) * AHEAD * THREADS + threadIdx.x;
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step, i += round) {
        Bytes values[AHEAD];
#pragma unroll
        for (int ahead = 0; ahead < AHEAD; ++ahead) values[ahead] = x[i + ahead * THREADS];
#pragma unroll
        for (int ahead = 0; ahead < AHEAD; ++ahead) y[i + ahead * THREADS] = inverted(values[ahead]);
    }
}
