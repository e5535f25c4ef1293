// Which parts a kernel leaves out where it is built with one cause of lost time removed (parameter `ablate` of its spec).
// Its results are wrong then, its products are as many as before, and the time that vanishes is what the cause had cost.
//
// The spec defines WITHOUT_<PART> for what is left out. Without any of these macros the kernel is whole, to the
// instruction.
#pragma once

#include <cstdint>

namespace ncubble {

#ifdef WITHOUT_WAIT
constexpr bool kAwaits = false;  // copies are started, nobody waits for them before the end
#else
constexpr bool kAwaits = true;
#endif
#ifdef WITHOUT_COPY
constexpr bool kCopies = false;  // operands are whatever lies in shared memory
#else
constexpr bool kCopies = true;
#endif
#ifdef WITHOUT_SYNC
constexpr bool kSyncs = false;  // no barrier of the CTA in the main loop
#else
constexpr bool kSyncs = true;
#endif
#ifdef WITHOUT_SMEM
constexpr bool kReads = false;  // operands are made up once, and stay in registers
#else
constexpr bool kReads = true;
#endif
#ifdef WITHOUT_EPILOGUE
constexpr bool kStores = false;  // results stay in registers
#else
constexpr bool kStores = true;
#endif
static_assert(kCopies || !kAwaits, "where nothing is copied there is nothing to wait for");

// The barrier of the main loop. Left out, warps still meet themselves, which keeps the compiler from reading shared
// memory once for all tiles.
__device__ __forceinline__ void loop_sync() {
    if constexpr (kSyncs) {
        __syncthreads();
    } else {
        __syncwarp();
    }
}

// Whether to store the results. `size` is a dimension of the problem, so that this is never true where kStores is not;
// but the compiler cannot know, and keeps the products.
__device__ __forceinline__ bool stores(int size) { return kStores || size < 0; }

// Words of operands that nobody loads: mixed bits under `mask`, else `base`. The compiler takes them for unknown, and
// so can neither fold them nor make them anew.
__device__ __forceinline__ uint32_t made_up(int index, uint32_t base, uint32_t mask) {
    uint32_t word = base | ((threadIdx.x * 64 + index + 1) * 2654435761u & mask);
    asm("" : "+r"(word));
    return word;
}
// Two halves, or a float, of either sign and of sizes from 1/16 to 1/8.
__device__ __forceinline__ uint32_t made_up_halves(int index) { return made_up(index, 0x2c002c00u, 0x83ff83ffu); }
__device__ __forceinline__ float made_up_float(int index) {
    return __uint_as_float(made_up(index, 0x3d800000u, 0x807fffffu));
}

}  // namespace ncubble
