// Roles within a CTA on Hopper: one thread of a warp, barriers among some warps, registers moved between warpgroups.
#pragma once

#include <cstdint>

namespace ncubble {

constexpr int kWarpgroup = 128;  // threads: four consecutive warps, the first a multiple of four

// The warp's number in the CTA as a value that the compiler knows to be the same in all its threads.
__device__ __forceinline__ int uniform_warp() { return __shfl_sync(0xffffffffu, threadIdx.x / 32, 0); }

// True in exactly one thread of a converged warp, always the same one.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-elect-sync
__device__ __forceinline__ bool elect_one() {
    uint32_t elected;
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "elect.sync _|p, 0xffffffff;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(elected));
    return elected != 0;
}

// Barrier `id` (1..15; 0 is __syncthreads) among `threads` threads, a multiple of 32: arrive and wait, or only arrive.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-bar
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Gives registers back, or waits until it gets more: kCount per thread afterwards, a multiple of 8 in 24..256. Every
// warp of the warpgroup must execute it. The kernel needs __launch_bounds__, so that its registers at launch are known.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#miscellaneous-instructions-setmaxnreg
template <int kCount>
__device__ __forceinline__ void registers_release() {
    static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256);
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void registers_claim() {
    static_assert(kCount % 8 == 0 && kCount >= 24 && kCount <= 256);
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace ncubble
