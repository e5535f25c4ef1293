// cp.async (SASS: LDGSTS): per-thread asynchronous copies from global to shared memory, compute capability 8.0 and later.
//
// PTX ISA, "Data Movement and Conversion Instructions: Non-bulk copy":
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-non-bulk-copy
#pragma once

#include <cstdint>

namespace ncubble {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Starts one copy of kBytes (4, 8 or 16); both addresses must be multiples of kBytes.
// 16 bytes: .cg, cached in L2 only (LDGSTS.BYPASS). 4 and 8 bytes exist only as .ca, through L1 (no BYPASS).
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async
template <int kBytes>
__device__ __forceinline__ void cp_async(void* shared, const void* global) {
    static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async copies 4, 8 or 16 bytes");
    if constexpr (kBytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(shared)), "l"(global), "n"(kBytes)
                     : "memory");
    }
}

// Closes the calling thread's open group; a group without copies is legal and complete at once.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-commit-group
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most kPending of the calling thread's newest groups are in flight. It covers the caller's own copies
// only: __syncthreads() must follow before another thread reads them.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-wait-group
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace ncubble
