// Thread block clusters: who am I, meet the others, reach their shared memory. Compute capability 9.0 and later.
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

// CTAs of the cluster.
__device__ __forceinline__ uint32_t cluster_size() {
    uint32_t size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

// A barrier over all threads of the cluster that have not exited, in two halves. Shared memory written before arrive is
// seen in the whole cluster after wait.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-barrier-cluster
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// The address, in the shared::cluster window, of what lies at `local` (a shared address) in CTA `rank`.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-mapa
__device__ __forceinline__ uint32_t cluster_address(uint32_t local, uint32_t rank) {
    uint32_t remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
    return remote;
}

// The same as a generic pointer: dereference it to read or write the other CTA's shared memory.
template <class T>
__device__ __forceinline__ T* cluster_pointer(T* local, uint32_t rank) {
    uint64_t remote;
    asm("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(local), "r"(rank));
    return reinterpret_cast<T*>(remote);
}

}  // namespace ncubble
