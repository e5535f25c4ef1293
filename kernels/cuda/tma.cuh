// TMA (SASS: UTMALDG, UTMASTG, UBLKCP): bulk copies by the copy engine, issued by one thread. Compute capability 9.0
// and later.
//
// Loads end at an mbarrier (announce their bytes with mbarrier_arrive_expect); stores are counted in groups, as
// cp.async is. A tensor map names the array, the box and the swizzle; coordinates are in elements, innermost dimension
// first, and parts of the box outside the array read as zero and are not written, but always count in full towards the
// barrier. Shared addresses: 128-byte aligned; 1024 with the 128-byte swizzle.
// PTX ISA, "Bulk copy": https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-bulk-copy
#pragma once

#include <cstdint>

#include "cp_async.cuh"

namespace ncubble {

// CUtensorMap as the kernel sees it. Take it as `const __grid_constant__ TensorMap`: the engine reads it by address.
struct alignas(64) TensorMap {
    unsigned char opaque[128];
};

// Brings the map itself into the cache ahead of its first use.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-prefetch-prefetchu
__device__ __forceinline__ void tma_prefetch(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Loads the box at (x[, y[, z]]), x innermost, into `shared`; its bytes are counted by `barrier`.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk-tensor
__device__ __forceinline__ void tma_load(void* shared, const TensorMap& map, uint64_t* barrier, int x) {
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(
            shared_address(shared)),
        "l"(&map), "r"(x), "r"(shared_address(barrier))
        : "memory");
}
__device__ __forceinline__ void tma_load(void* shared, const TensorMap& map, uint64_t* barrier, int x, int y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared_address(shared)),
        "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier))
        : "memory");
}
__device__ __forceinline__ void tma_load(void* shared, const TensorMap& map, uint64_t* barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            shared_address(shared)),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
        : "memory");
}

// The same, to every CTA of the cluster whose bit is set in `ranks`: at the same place in its shared memory, counted by
// the barrier at the same place in its shared memory.
__device__ __forceinline__ void tma_load_multicast(void* shared, const TensorMap& map, uint64_t* barrier, uint16_t ranks,
                                                   int x, int y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
        "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(ranks)
        : "memory");
}

// Makes the calling thread's plain writes to shared memory visible to the copy engine (and to wgmma). Writers execute
// it, then a barrier, then one thread issues the store.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-membar
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Stores the box at (x[, y]) from `shared`. Close a group of stores with tma_store_commit().
__device__ __forceinline__ void tma_store(const TensorMap& map, const void* shared, int x) {
    asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%1}], [%2];" ::"l"(&map), "r"(x),
                 "r"(shared_address(shared))
                 : "memory");
}
__device__ __forceinline__ void tma_store(const TensorMap& map, const void* shared, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x),
                 "r"(y), "r"(shared_address(shared))
                 : "memory");
}

// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk-commit-group
__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until the shared memory of all but at most kPending of the calling thread's newest groups has been read and may
// be overwritten, which is earlier than their end. Shared memory must stay alive that long, so wait before the CTA ends.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk-wait-group
template <int kPending>
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Until the buffer that store number `store` of a tile takes may be overwritten, in a ring of kBuffers that starts anew
// with every tile. A tile makes kRest stores more than a multiple of kBuffers: after those the first kRest buffers are
// the newest.
template <int kBuffers, int kRest>
__device__ __forceinline__ void tma_store_wait_buffer(int store) {
    constexpr int kNewer = (kRest > 0 ? kRest : kBuffers) - 1;
    if (store < kRest) {
        tma_store_wait_read<kNewer>();
    } else {
        tma_store_wait_read<kBuffers - 1>();
    }
}

// One-dimensional copies without a map: both addresses and `bytes` must be multiples of 16.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cp-async-bulk
__device__ __forceinline__ void bulk_load(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}
// The same, to every CTA of the cluster whose bit is set in `ranks`: the same place, counted by the same barrier there.
__device__ __forceinline__ void bulk_load_multicast(void* shared, const void* global, uint32_t bytes, uint64_t* barrier,
                                                    uint16_t ranks) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(
            shared_address(shared)),
        "l"(global), "r"(bytes), "r"(shared_address(barrier)), "h"(ranks)
        : "memory");
}
// From this CTA's shared memory to the same place in that of CTA `rank` of the cluster, counted by the barrier at the
// same place there: both are given by their own addresses.
__device__ __forceinline__ void bulk_push(void* shared, uint32_t rank, uint32_t bytes, uint64_t* barrier) {
    asm volatile(
        "{\n\t.reg .b32 target, counter;\n\t"
        "mapa.shared::cluster.u32 target, %0, %2;\n\t"
        "mapa.shared::cluster.u32 counter, %1, %2;\n\t"
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [target], [%0], %3, [counter];\n\t}" ::"r"(
            shared_address(shared)),
        "r"(shared_address(barrier)), "r"(rank), "r"(bytes)
        : "memory");
}
__device__ __forceinline__ void bulk_store(void* global, const void* shared, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)),
                 "r"(bytes)
                 : "memory");
}

}  // namespace ncubble
