// grid_sync: steps of which each needs all of the step before, by launches or by grid.sync().  Rung 12.
//
// Shapes:       x (n), t (n), y (n), float, n a multiple of 4. STEPS times: s[q] <- s[q] / 2 + s[q + n/8 + 1] / 2 on
//               pieces q of four, wrapped around: what other CTAs wrote. y is the last state, t the one before it.
// Tile:         1024 elements per CTA of 256 threads, four per thread; a CTA takes every gridDim.x-th tile.
// Idea:         MODE=many         a launch per step: the end of a grid is the only barrier that all CTAs share.
//               MODE=cooperative  one launch of CTAS x SMs CTAs, all resident; cooperative_groups' grid.sync() between
//                                 steps. Against persistent (rung 12), whose batches do not need each other.
// Roofline:     L2 for the default shape: 12 bytes per element and step.
// Bubble:       MODE=many: launch gap, ramp and tail of every step; MODE=cooperative: the barrier, for which the
//               slowest CTA and a round trip to L2 count.
// Launch:       grid: many ceil(n / 1024), cooperative min of that and CTAS x SMs, launched cooperatively; block 256.
// Precondition: 16-byte aligned pointers.
// Parameters:   -DMODE=many|cooperative -DCTAS=1|2|4|8 (per SM, cooperative) -DSTEPS=2|16|64|256
#include <cooperative_groups.h>

constexpr int kThreads = 256;

// Not const __restrict__: other CTAs write what is read, within the same launch.
__device__ __forceinline__ void step(const float4* source, float4* target, int pieces) {
    const int shift = pieces / 2 + 1;
    for (int q = blockIdx.x * kThreads + threadIdx.x; q < pieces; q += gridDim.x * kThreads) {
        const float4 own = source[q];
        const float4 other = source[(q + shift) % pieces];
        target[q] = make_float4(0.5f * own.x + 0.5f * other.x, 0.5f * own.y + 0.5f * other.y,
                                0.5f * own.z + 0.5f * other.z, 0.5f * own.w + 0.5f * other.w);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
grid_sync(const float4* x, float4* t, float4* y, int n, int launch) {
    const int pieces = n / 4;
#if MODE == MODE_COOPERATIVE
    const auto grid = cooperative_groups::this_grid();
    for (int i = 0; i < STEPS; ++i) {
        step(i == 0 ? x : i % 2 ? t : y, i % 2 ? y : t, pieces);
        if (i + 1 < STEPS) grid.sync();
    }
#else
    step(launch == 0 ? x : launch % 2 ? t : y, launch % 2 ? y : t, pieces);
#endif
}
