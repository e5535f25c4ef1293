// Tiles of a persistent grid, given out in turn: a CTA begins with the tile of its own number and takes further ones
// from a counter of the module. The last CTA sets it back, so a launch finds what the launch before it found.
//
// A second launch that ran at the same time would take tiles of the first, and neither would compute them all. So the
// first CTA that comes claims the counter for its grid, and a CTA of another grid that finds it claimed ends the kernel
// with a trap: the host gets an error, no wrong result.
#pragma once

namespace ncubble {

__device__ unsigned long long tiles_claimed;  // number of the grid, from 1; 0: nobody's
__device__ unsigned int tiles_taken, ctas_done;

// Before the first next_tile of a CTA, by the thread that takes them.
__device__ inline void claim_tiles() {
    unsigned long long grid;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(grid));
    const unsigned long long owner = atomicCAS(&tiles_claimed, 0ull, grid + 1);
    if (owner != 0 && owner != grid + 1) __trap();
}

__device__ inline int next_tile() { return gridDim.x + atomicAdd(&tiles_taken, 1u); }

// After the last next_tile of a CTA: nobody takes a tile any more once all CTAs are here.
__device__ inline void leave_tiles() {
    __threadfence();
    if (atomicAdd(&ctas_done, 1u) + 1 < gridDim.x) return;
    tiles_taken = 0;
    ctas_done = 0;
    __threadfence();
    tiles_claimed = 0;
}

}  // namespace ncubble
