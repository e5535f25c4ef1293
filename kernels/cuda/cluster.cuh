// Thread block clusters: who am I, meet the others. Compute capability 9.0 and later.
//
// PTX ISA, "Cluster of Cooperative Thread Arrays": https://docs.nvidia.com/cuda/parallel-thread-execution/#cluster-of-cooperative-thread-arrays
#pragma once

#include <cstdint>

namespace ncubble {

// Rank of this CTA in its cluster.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#special-registers-cluster-ctarank
__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// A barrier over all threads of the cluster that have not exited. Shared memory written before it is seen in the whole
// cluster after it.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-barrier-cluster
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// A barrier over the threads of a cluster of kCtas that orders nothing but the barriers made before mbarrier_init_fence:
// cluster_sync also waits until the device has seen all earlier writes (SASS: MEMBAR.ALL.GPU), which at the start of a
// kernel there is no need for.
// In two halves, cluster_arrive and cluster_wait, threads go on between them; who has no use for the others need not wait.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
template <int kCtas>
__device__ __forceinline__ void cluster_meet() {
    if constexpr (kCtas > 1) {
        cluster_arrive();
        cluster_wait();
    } else {
        __syncthreads();
    }
}

}  // namespace ncubble
