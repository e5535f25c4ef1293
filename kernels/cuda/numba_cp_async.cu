// cp.async for Numba-CUDA, which has no words for it: the device functions that kernels/catalog/numba/numba_cp_async.py declares.
//
// NVRTC compiles this file, and it has no headers of a host compiler: so nothing is included, not even cp_async.cuh.
// Addresses arrive as integers. Every function returns 0, because Numba wants a result.
// PTX: https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async

__device__ __forceinline__ unsigned shared_address(long long generic) {
    return static_cast<unsigned>(__cvta_generic_to_shared(reinterpret_cast<const void*>(generic)));
}

// Starts a copy of 16 bytes, cached in L2 only. Just the first `count` (0..16) bytes are read, zeros follow them. Both
// addresses must be multiples of 16.
extern "C" __device__ int ncubble_cp_async_16(long long shared, long long source, int count) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(source), "r"(count)
                 : "memory");
    return 0;
}

// The same for 4 bytes (0 or 4 of them read), which go through L1. Both addresses must be multiples of 4.
extern "C" __device__ int ncubble_cp_async_4(long long shared, long long source, int count) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(source), "r"(count)
                 : "memory");
    return 0;
}

// Closes the calling thread's open group; a group without copies is legal and complete at once.
extern "C" __device__ int ncubble_cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
    return 0;
}

// Waits until at most `pending` (0..2) of the calling thread's newest groups are in flight. The instruction takes a
// constant: where the linker sees one, the switch disappears.
extern "C" __device__ int ncubble_cp_async_wait(int pending) {
    switch (pending) {
        case 0: asm volatile("cp.async.wait_group 0;" ::: "memory"); break;
        case 1: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
        default: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
    }
    return 0;
}
