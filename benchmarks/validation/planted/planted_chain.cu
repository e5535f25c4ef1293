// planted_chain: each thread follows a chain of links, each of which is read before the next is known.
//
// Shapes:       link (n,), y (chains,), int; the links of 32 neighbours lead to 32 neighbours.
// Idea:         loads of four bytes in whole lines, and warps that wait: wider ones, or more CTAs, have nothing to do.
// Roofline:     latency of DRAM.
// Bubble:       data_wait, which neither vectors nor ctas help.
// Launch:       grid chains / 128, block 128, dynamic shared memory so that RESIDENT CTAs share an SM.
// Precondition: n and chains multiples of 128 (checked before launch), chains at most n.
// Parameters:   -DRESIDENT=8|16
#include <cstddef>

extern "C" __global__ void __launch_bounds__(128) planted_chain(const int* __restrict__ link, int* __restrict__ y, int hops) {
    const int chain = blockIdx.x * 128 + threadIdx.x;
    int at = chain;
#pragma unroll 4
    for (int hop = 0; hop < hops; ++hop) at = link[at];
    y[chain] = at;
}
