// mbarrier (SASS: SYNCS; before Hopper ATOMS.ARRIVE): barriers in shared memory that count arrivals, and on Hopper the
// bytes of asynchronous copies. Compute capability 8.0 and later; bytes and other CTAs' barriers from 9.0 on.
//
// A barrier is a uint64_t in shared memory. A phase ends when all expected arrivals are in and all announced bytes have
// landed; the next phase starts at once. Waiting names a phase by its parity: 0 for the first, 1 for the second, 0 for
// the third, …
// PTX ISA: https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier
#pragma once

#include <cstdint>

#include "cp_async.cuh"

namespace ncubble {

// Sets the arrivals that end a phase. One thread does this once, then mbarrier_init_fence(), then the CTA or cluster
// meets.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-init
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes earlier mbarrier_init visible to the cluster and to the copy engine.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-membar
__device__ __forceinline__ void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-arrive
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// One arrival for the whole warp, when all its lanes have come here: it has finished with a slot, say.
__device__ __forceinline__ void mbarrier_arrive_warp(uint64_t* barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}

// Arrives when all cp.async that this thread has started are done: one of the arrivals that the barrier expects.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-cp-async-mbarrier-arrive
__device__ __forceinline__ void mbarrier_arrive_copied(uint64_t* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and announces that `bytes` will land in this phase. Bytes that land before the announcement are counted,
// too.
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Announces the bytes without an arrival: the phase cannot end before one follows.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-expect-tx-operation
__device__ __forceinline__ void mbarrier_expect(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Arrives at the barrier at the same place in the shared memory of CTA `rank` of the cluster (which may be the own
// CTA). It hands back a slot that was read, but publishes nothing: what was written by plain stores would need release
// at cluster scope, which costs a fence over the whole device (SASS: MEMBAR.ALL.GPU).
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-mapa
__device__ __forceinline__ void mbarrier_arrive_remote(uint64_t* barrier, uint32_t rank) {
    asm volatile(
        "{\n\t.reg .b32 remote;\n\t"
        "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t}" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
}

// Whether the phase with this parity has ended. Never suspends the thread.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait
__device__ __forceinline__ bool mbarrier_test_wait(uint64_t* barrier, uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return done != 0;
}

// Whether the phase with this parity has ended. From Hopper on the hardware may suspend the thread for a while before
// it says no.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#parallel-synchronization-and-communication-instructions-mbarrier-test-wait-try-wait
__device__ __forceinline__ bool mbarrier_try_wait(uint64_t* barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    uint32_t done;
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return done != 0;
#else
    return mbarrier_test_wait(barrier, parity);
#endif
}

// Waits for the end of the phase with this parity. On a fresh barrier parity 1 is over: a producer may start with it.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

// The same for a phase that ends with what other CTAs of the cluster have sent by push().
__device__ __forceinline__ void mbarrier_wait_cluster(uint64_t* barrier, uint32_t parity) {
    uint32_t done = 0;
    while (!done) {
        asm volatile(
            "{\n\t.reg .pred p;\n\t"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t}"
            : "=r"(done)
            : "r"(shared_address(barrier)), "r"(parity)
            : "memory");
    }
}

// Stores 16 bytes at the same place in the shared memory of CTA `rank` of the cluster, counted by the barrier at the
// same place there: both are given by their own addresses.
// https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-st-async
__device__ __forceinline__ void push(void* shared, uint32_t rank, float4 value, uint64_t* barrier) {
    asm volatile(
        "{\n\t.reg .b32 target, counter;\n\t"
        "mapa.shared::cluster.u32 target, %0, %2;\n\t"
        "mapa.shared::cluster.u32 counter, %1, %2;\n\t"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [target], {%3, %4, %5, %6}, [counter];\n\t}" ::"r"(
            shared_address(shared)),
        "r"(shared_address(barrier)), "r"(rank), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
        : "memory");
}

// A walk over a ring of kSlots slots, each with a barrier "full" and a barrier "empty" (or only "full"). A consumer
// waits for full[slot] with `parity`; a producer waits for empty[slot] with `parity ^ 1`, which lets its first round
// through. Both call next() after each slot.
template <int kSlots>
struct Ring {
    uint32_t slot = 0;
    uint32_t parity = 0;

    __device__ __forceinline__ void next() {
        if (++slot == kSlots) {
            slot = 0;
            parity ^= 1;
        }
    }

    // As `count` calls of next().
    __device__ __forceinline__ void skip(uint32_t count) {
        const uint32_t target = slot + count;
        parity ^= target / kSlots & 1;
        slot = target % kSlots;
    }
};

}  // namespace ncubble
